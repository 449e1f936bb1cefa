//! The active side: we ask, are answered, stand, end.

use super::*;
use nanocm_core::wire::MessageKind;
use nanocm_core::{Outcome, Route, SendToken};

const REP: &str = "handle_datagram(REP), new";
const AGAIN: &str = "handle_datagram(REP), duplicate";
const MRA: &str = "handle_datagram(MRA)";
const DREQ: &str = "handle_datagram(DREQ)";
const DREP: &str = "handle_datagram(DREP)";
const REJ: &str = "handle_datagram(REJ)";

/// Opens connections at full speed, then counts.
pub(crate) fn run(kinds: &mut Kinds, setting: Setting) {
    let Setting { peers, timers, open, room, rounds } = setting;
    let mut memory = memory(room);
    let mut bench = Bench::new(&mut memory);
    for _ in 0..open {
        let mut conns = bench.routed(peers, 1);
        bench.connect(&mut conns, timers.timeout(bench.next));
        if timers == Timers::None {
            bench.answered(&mut conns);
            bench.established(&mut conns);
        } else {
            bench.wait_for_answers(&mut conns);
        }
    }
    bench.kinds = Some(kinds);
    for &order in rounds {
        bench.order = order;
        bench.whole_active_life(peers);
        bench.early_active_ends(peers);
        bench.expect_silence();
    }
}

impl Bench<'_, '_> {
    fn whole_active_life(&mut self, peers: Peers) {
        let mut conns = self.resolved(peers);
        self.connect(&mut conns, None);
        self.expire(Duration::from_millis(1_001), conns.len());
        self.transmit_all(conns.len());
        self.wait_for_answers(&mut conns);
        self.answered(&mut conns);
        self.repeat_answers(&mut conns);
        self.established(&mut conns);
        self.repeat_answers(&mut conns);
        self.transmit_all(conns.len());

        let ours = conns.split_off(conns.len() / 2);
        let theirs = conns;
        for conn in &theirs {
            self.receive(DREQ, &conn.peer, &conn.peer.dreq(conn.own_comm_id, conn.own_qpn));
            self.event("DISCONNECTED");
            self.call("disconnect", |cm, now| cm.disconnect(now, conn.id, &[])).unwrap();
            self.transmit();
        }
        for conn in &ours {
            self.call("disconnect", |cm, now| cm.disconnect(now, conn.id, &[])).unwrap();
            self.transmit();
        }
        for conn in &ours {
            self.receive(DREP, &conn.peer, &conn.peer.drep(conn.own_comm_id));
            self.event("DISCONNECTED");
        }
        let mut conns: Vec<Conn> = ours.into_iter().chain(theirs).collect();
        self.expire(Duration::from_secs(9), conns.len());
        self.events(conns.len(), "TIMEWAIT_EXIT");
        self.arrange(&mut conns);
        for (i, conn) in conns.iter().enumerate() {
            if i % 2 == 0 {
                self.call("reset", |cm, _| cm.reset(conn.id)).unwrap();
                self.destroy("destroy, routed", conn);
            } else {
                self.destroy("destroy, over", conn);
            }
        }
    }

    fn early_active_ends(&mut self, peers: Peers) {
        let mut conns = self.routed(peers, BATCH);
        self.connect(&mut conns, None);
        for conn in &conns {
            let token = SendToken::of(&conn.peer.rtu(conn.own_comm_id));
            self.call("handle_send_failed", |cm, now| cm.handle_send_failed(now, token, 111));
        }
        let mut answered = conns.split_off(conns.len() / 2);
        for (i, conn) in conns.iter().enumerate() {
            if i % 2 == 0 {
                self.receive(REJ, &conn.peer, &conn.peer.rej(conn.own_comm_id, MessageKind::REQ));
                self.event("REJECTED");
                self.destroy("destroy, rejected", conn);
            } else {
                self.destroy("destroy, connecting", conn);
                self.transmit();
            }
        }
        self.answered(&mut answered);
        let mut standing = answered.split_off(answered.len() / 2);
        for conn in &answered {
            self.destroy("destroy, connecting", conn);
            self.transmit();
        }
        self.established(&mut standing);
        for conn in &standing {
            self.destroy("destroy, connected", conn);
        }
        for conn in &standing {
            self.transmit();
            self.receive(DREP, &conn.peer, &conn.peer.drep(conn.own_comm_id));
        }
        for conn in self.routed(peers, BATCH) {
            self.destroy("destroy, routed", &conn);
        }
    }

    /// New identifiers with a route, given by the caller.
    pub(super) fn routed(&mut self, peers: Peers, count: u32) -> Vec<Conn> {
        let mut conns = Vec::new();
        for _ in 0..count {
            let (conn, to) = self.fresh(peers);
            let route = Route::new(conn.peer.path(B));
            self.call("set_route", |cm, now| cm.set_route(now, conn.id, to, &route)).unwrap();
            conns.push(conn);
        }
        conns
    }

    /// New identifiers with a route, asked of the host.
    fn resolved(&mut self, peers: Peers) -> Vec<Conn> {
        const ASK: Duration = Duration::from_secs(1);
        let mut conns = Vec::new();
        for _ in 0..BATCH {
            let (conn, to) = self.fresh(peers);
            self.call("resolve_addr", |cm, now| cm.resolve_addr(now, conn.id, None, to, ASK))
                .unwrap();
            conns.push(conn);
        }
        for conn in &conns {
            let path = conn.peer.path(B);
            self.answer(Outcome::AddrResolved { path });
        }
        for conn in &conns {
            self.event("ADDR_RESOLVED");
            self.call("resolve_route", |cm, now| cm.resolve_route(now, conn.id, ASK)).unwrap();
        }
        for conn in &conns {
            let route = Route::new(conn.peer.path(B));
            self.answer(Outcome::RouteResolved { route });
            self.event("ROUTE_RESOLVED");
        }
        conns
    }

    /// Answers the oldest question.
    fn answer(&mut self, outcome: Outcome) {
        let asked = self.call("poll_request", |cm, _| cm.poll_request());
        let (request, _) = asked.expect("a question is open");
        self.call("handle_completion", |cm, now| cm.handle_completion(now, request, outcome))
            .expect("it is not answered yet");
    }

    /// A new identifier, its peer, and where that one listens. One host listens on several ports, for
    /// we have only 28,232 numbers towards each.
    fn fresh(&mut self, peers: Peers) -> (Conn, SocketAddr) {
        let own_qpn = self.number();
        let peer = peers.peer(own_qpn);
        let id = self.call("create_id", |cm, _| cm.create_id(PortSpace::Tcp, 0)).unwrap();
        let to = SocketAddr::new(peer.ip, PORT + (own_qpn % 8) as u16);
        (Conn { peer, id, own_comm_id: 0, own_qpn }, to)
    }

    /// Sends the REQs.
    pub(super) fn connect(&mut self, conns: &mut [Conn], timeout: Option<Duration>) {
        self.arrange(conns);
        for conn in conns.iter() {
            let mut param = ConnParam::new(conn.own_qpn);
            param.timeout = timeout;
            self.call("connect", |cm, now| cm.connect(now, conn.id, &param)).unwrap();
        }
        for conn in conns.iter_mut() {
            conn.own_comm_id = own_comm_id(&self.transmit());
        }
    }

    /// The peers accept.
    fn answered(&mut self, conns: &mut [Conn]) {
        self.arrange(conns);
        for conn in conns.iter() {
            self.receive(REP, &conn.peer, &conn.peer.rep(conn.own_comm_id));
        }
        self.events(conns.len(), "CONNECT_RESPONSE");
    }

    /// The peers ask for patience.
    pub(super) fn wait_for_answers(&mut self, conns: &mut [Conn]) {
        self.arrange(conns);
        for conn in conns.iter() {
            self.receive(MRA, &conn.peer, &conn.peer.mra(conn.own_comm_id, MessageKind::REQ));
        }
    }

    fn repeat_answers(&mut self, conns: &mut [Conn]) {
        self.arrange(conns);
        for conn in conns {
            self.receive(AGAIN, &conn.peer, &conn.peer.rep(conn.own_comm_id));
        }
    }

    /// We are ready to use the connections.
    fn established(&mut self, conns: &mut [Conn]) {
        self.arrange(conns);
        for conn in conns.iter() {
            self.call("establish", |cm, now| cm.establish(now, conn.id, &[])).unwrap();
        }
        for _ in conns.iter() {
            self.event("ESTABLISHED");
            self.transmit();
        }
    }
}
