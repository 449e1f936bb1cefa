//! The passive side: requests come, are accepted, stand, end.

use super::*;
use nanocm_core::wire::{MessageKind, RejectReason};

pub(crate) const NEW: &str = "handle_datagram(REQ), new";
const AGAIN: &str = "handle_datagram(REQ), duplicate";
const REFUSED: &str = "handle_datagram(REQ), refused";
const RTU: &str = "handle_datagram(RTU)";
const MRA: &str = "handle_datagram(MRA)";
const DREQ: &str = "handle_datagram(DREQ)";
const DREP: &str = "handle_datagram(DREP)";
const REJ: &str = "handle_datagram(REJ)";
const STALE: &str = "handle_datagram(REQ), stale";
const LAP: &str = "handle_datagram(LAP), RoCE";
const LAP_IB: &str = "handle_datagram(LAP), InfiniBand";
const APR: &str = "handle_datagram(APR)";
const GARBAGE: &str = "handle_datagram(garbage)";

/// Opens connections at full speed, then counts.
pub(crate) fn run(kinds: &mut Kinds, setting: Setting) {
    let mut memory = memory(setting.room);
    let mut bench = Bench::new(&mut memory);
    bench.listen_and_open(setting);
    let peers = setting.peers;
    bench.kinds = Some(kinds);
    for &order in setting.rounds {
        bench.order = order;
        bench.whole_life(peers);
        bench.early_ends(peers);
        bench.returning(peers);
        bench.noise(peers);
        bench.expect_silence();
    }
}

impl Bench<'_, '_> {
    /// A listener, and so many connections through it.
    pub(crate) fn listen_and_open(&mut self, setting: Setting) {
        let Setting { peers, timers, open, .. } = setting;
        let listener = self.cm.create_id(PortSpace::Tcp, 0).unwrap();
        self.cm.bind(listener, SocketAddr::new(B, PORT)).unwrap();
        self.cm.listen(listener, u32::MAX).unwrap();
        for _ in 0..open {
            let mut conns = self.requests(peers, 1);
            self.accept(&mut conns, timers.timeout(self.next));
            if timers == Timers::None {
                self.stand(&mut conns);
            } else {
                self.wait(&mut conns);
            }
        }
    }

    /// From the REQ to timewait's end, each message twice.
    fn whole_life(&mut self, peers: Peers) {
        let mut conns = self.requests(peers, BATCH);
        self.repeat_requests(&mut conns);
        self.accept(&mut conns, None);
        self.repeat_requests(&mut conns);
        self.transmit_all(conns.len());
        self.expire(Duration::from_millis(1_001), conns.len());
        self.transmit_all(conns.len());
        self.wait(&mut conns);
        self.stand(&mut conns);
        self.repeat_requests(&mut conns);
        for conn in &conns {
            self.receive(LAP, &conn.peer, &conn.peer.lap(conn.own_comm_id, conn.own_qpn));
        }

        let ours = conns.split_off(conns.len() / 2);
        let mut theirs = conns;
        self.arrange(&mut theirs);
        for conn in &theirs {
            self.receive(DREQ, &conn.peer, &conn.peer.dreq(conn.own_comm_id, conn.own_qpn));
        }
        for conn in &theirs {
            self.event("DISCONNECTED");
            self.call("disconnect", |cm, now| cm.disconnect(now, conn.id, &[])).unwrap();
        }
        for conn in &theirs {
            self.transmit();
            self.receive(DREQ, &conn.peer, &conn.peer.dreq(conn.own_comm_id, conn.own_qpn));
            self.transmit();
        }
        for conn in &ours {
            self.call("disconnect", |cm, now| cm.disconnect(now, conn.id, &[])).unwrap();
        }
        for conn in &ours {
            self.transmit();
            self.receive(DREP, &conn.peer, &conn.peer.drep(conn.own_comm_id));
            self.event("DISCONNECTED");
        }
        let mut conns: Vec<Conn> = ours.into_iter().chain(theirs).collect();
        self.expire(Duration::from_secs(9), conns.len());
        self.events(conns.len(), "TIMEWAIT_EXIT");
        self.arrange(&mut conns);
        for conn in &conns {
            self.destroy("destroy, over", conn);
        }
    }

    /// Refusals by either side, destruction in every state.
    fn early_ends(&mut self, peers: Peers) {
        // The application's refusal, and the peer's change of mind.
        let mut conns = self.requests(peers, BATCH);
        self.arrange(&mut conns);
        for (i, conn) in conns.iter().enumerate() {
            match i % 4 {
                0 => {
                    let reason = RejectReason::CONSUMER;
                    self.call("reject", |cm, now| cm.reject(now, conn.id, reason, &[])).unwrap();
                    self.transmit();
                }
                1 => self.destroy("destroy, requested", conn),
                _ => {
                    self.receive(REJ, &conn.peer, &conn.peer.rej_timeout());
                    self.event("REJECTED");
                }
            }
        }
        self.transmit_all(conns.len().div_ceil(4));
        for (i, conn) in conns.iter().enumerate() {
            if i % 4 != 1 {
                self.destroy("destroy, rejected", conn);
            }
        }
        // The peer refuses the REP, or the application leaves.
        let mut conns = self.requests(peers, BATCH);
        self.accept(&mut conns, None);
        let mut standing = conns.split_off(conns.len() / 2);
        for conn in &conns {
            self.receive(REJ, &conn.peer, &conn.peer.rej(conn.own_comm_id, MessageKind::REP));
            self.event("REJECTED");
            self.destroy("destroy, rejected", conn);
        }
        // Their data come before their RTUs.
        for conn in &standing {
            self.call("notify_established", |cm, now| cm.notify_established(now, conn.id)).unwrap();
        }
        self.events(standing.len(), "ESTABLISHED");
        self.arrange(&mut standing);
        for conn in &standing {
            self.destroy("destroy, connected", conn);
        }
        self.transmit_all(standing.len());
        // Their slots are wanted by others, or given back when the peer answers.
        let more = self.requests(peers, BATCH);
        for conn in &standing {
            self.receive(DREP, &conn.peer, &conn.peer.drep(conn.own_comm_id));
        }
        for conn in &more {
            self.destroy("destroy, requested", conn);
        }
        self.transmit_all(more.len());
    }

    /// Peers that have lost their connections ask again with the same queue pairs.
    fn returning(&mut self, peers: Peers) {
        let mut conns = self.requests(peers, BATCH);
        self.accept(&mut conns, None);
        self.stand(&mut conns);
        self.arrange(&mut conns);
        for conn in &conns {
            let again = Peer { comm_id: conn.peer.comm_id | 1 << 31, ..conn.peer };
            self.receive(STALE, &again, &again.req(B, PORT));
            self.event("DISCONNECTED");
            // The REJ, and the DREQ in case the peer is alive after all.
            self.transmit_all(2);
        }
        for conn in &conns {
            self.destroy("destroy, over", conn);
        }
    }

    /// What concerns no connection.
    fn noise(&mut self, peers: Peers) {
        for i in 0..BATCH {
            let peer = peers.peer(0x00ff_0000 + i);
            let unknown = self.rng.next() as u32;
            self.receive(RTU, &peer, &peer.rtu(unknown));
            self.receive(DREP, &peer, &peer.drep(unknown));
            self.receive(REJ, &peer, &peer.rej(unknown, MessageKind::REP));
            self.receive(DREQ, &peer, &peer.dreq(unknown, 1));
            self.transmit();
            self.receive(LAP, &peer, &peer.lap(unknown, 1));
            self.receive(APR, &peer, &peer.apr(unknown));
            let (path, mad) = (peer.infiniband_path(B), peer.lap(unknown, 1));
            let _ = self.call(LAP_IB, |cm, now| cm.handle_datagram(now, &path, &mad));
            self.transmit();
            self.receive(REFUSED, &peer, &peer.req(B, PORT + 1));
            self.transmit();
            self.receive(REFUSED, &peer, &peer.req(peer.ip, PORT));
            self.transmit();
        }
        for len in [0, 1, 24, 255, 256, 257, 4096, 256, 256, 256, 256] {
            let octets: Vec<u8> = (0..len).map(|_| self.rng.next() as u8).collect();
            self.receive(GARBAGE, &peers.peer(3), &octets);
        }
        // Well-formed but for the attribute.
        let mut mad = peers.peer(3).rtu(1);
        for attribute in 0..BATCH as u8 {
            mad[17] = attribute;
            self.receive(GARBAGE, &peers.peer(3), &mad);
        }
    }

    /// Requests of new peers; their identifiers.
    pub(crate) fn requests(&mut self, peers: Peers, count: u32) -> Vec<Conn> {
        let mut conns = Vec::new();
        for _ in 0..count {
            let own_qpn = self.number();
            let peer = peers.peer(own_qpn);
            self.receive(NEW, &peer, &peer.req(B, PORT));
            conns.push(Conn { peer, id: Id::from_raw(0), own_comm_id: 0, own_qpn });
        }
        for conn in &mut conns {
            let event = self.event("CONNECT_REQUEST");
            assert!(matches!(event.kind, EventKind::ConnectRequest { .. }));
            conn.id = event.id;
        }
        conns
    }

    fn repeat_requests(&mut self, conns: &mut [Conn]) {
        self.arrange(conns);
        for conn in conns {
            self.receive(AGAIN, &conn.peer, &conn.peer.req(B, PORT));
        }
    }

    /// Accepts requests and takes the REPs.
    pub(crate) fn accept(&mut self, conns: &mut [Conn], timeout: Option<Duration>) {
        self.arrange(conns);
        for conn in conns.iter() {
            let mut param = ConnParam::new(conn.own_qpn);
            param.timeout = timeout;
            self.call("accept", |cm, now| cm.accept(now, conn.id, &param)).unwrap();
        }
        for conn in conns.iter_mut() {
            conn.own_comm_id = own_comm_id(&self.transmit());
        }
    }

    /// The peers ask for patience.
    fn wait(&mut self, conns: &mut [Conn]) {
        self.arrange(conns);
        for conn in conns.iter() {
            self.receive(MRA, &conn.peer, &conn.peer.mra(conn.own_comm_id, MessageKind::REP));
        }
    }

    /// The peers are ready to use their connections.
    pub(crate) fn stand(&mut self, conns: &mut [Conn]) {
        self.arrange(conns);
        for conn in conns.iter() {
            self.receive(RTU, &conn.peer, &conn.peer.rtu(conn.own_comm_id));
        }
        for conn in conns.iter() {
            assert_eq!(self.event("ESTABLISHED").id, conn.id);
        }
    }
}
