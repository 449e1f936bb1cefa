//! Datagram services (SIDR): others ask, we ask. One question, one answer, no connection.

use super::*;
use nanocm_core::Route;
use nanocm_core::wire::RejectReason;

const NEW: &str = "handle_datagram(SIDR_REQ), new";
const AGAIN: &str = "handle_datagram(SIDR_REQ), duplicate";
const REFUSED: &str = "handle_datagram(SIDR_REQ), refused";
const REP: &str = "handle_datagram(SIDR_REP), new";
const REP_AGAIN: &str = "handle_datagram(SIDR_REP), duplicate";

/// Opens connections at full speed, then counts.
pub(crate) fn run(kinds: &mut Kinds, setting: Setting) {
    let mut memory = memory(setting.room);
    let mut bench = Bench::new(&mut memory);
    bench.listen_and_open(setting);
    let listener = bench.cm.create_id(PortSpace::Udp, 0).unwrap();
    bench.cm.bind(listener, SocketAddr::new(B, PORT)).unwrap();
    bench.cm.listen(listener, u32::MAX).unwrap();
    bench.kinds = Some(kinds);
    for &order in setting.rounds {
        bench.order = order;
        bench.answer_questions(setting.peers);
        bench.ask_questions(setting.peers);
        bench.expect_silence();
    }
}

impl Bench<'_, '_> {
    fn answer_questions(&mut self, peers: Peers) {
        let mut conns = Vec::new();
        for _ in 0..BATCH {
            let own_qpn = self.number();
            let peer = peers.peer(own_qpn);
            self.receive(NEW, &peer, &peer.sidr_req(B, PORT));
            let id = self.event("CONNECT_REQUEST").id;
            conns.push(Conn { peer, id, own_comm_id: 0, own_qpn });
        }
        self.repeat_questions(&mut conns);
        for (i, conn) in conns.iter().enumerate() {
            let param = ConnParam::new(conn.own_qpn);
            if i % 4 == 0 {
                let reason = RejectReason::CONSUMER;
                self.call("reject, datagrams", |cm, now| cm.reject(now, conn.id, reason, &[]))
                    .unwrap();
            } else {
                self.call("accept, datagrams", |cm, now| cm.accept(now, conn.id, &param)).unwrap();
            }
        }
        self.transmit_all(conns.len());
        self.repeat_questions(&mut conns);
        self.transmit_all(conns.len());
        self.arrange(&mut conns);
        for conn in &conns {
            self.destroy("destroy, datagrams", conn);
            self.receive(REFUSED, &conn.peer, &conn.peer.sidr_req(B, PORT + 1));
            self.transmit();
        }
    }

    fn repeat_questions(&mut self, conns: &mut [Conn]) {
        self.arrange(conns);
        for conn in conns {
            self.receive(AGAIN, &conn.peer, &conn.peer.sidr_req(B, PORT));
        }
    }

    fn ask_questions(&mut self, peers: Peers) {
        let mut conns = Vec::new();
        for _ in 0..BATCH {
            let own_qpn = self.number();
            let peer = peers.peer(own_qpn);
            let id = self.call("create_id", |cm, _| cm.create_id(PortSpace::Udp, 0)).unwrap();
            let (to, route) = (SocketAddr::new(peer.ip, PORT), Route::new(peer.path(B)));
            self.call("set_route", |cm, now| cm.set_route(now, id, to, &route)).unwrap();
            let param = ConnParam::new(own_qpn);
            self.call("connect, datagrams", |cm, now| cm.connect(now, id, &param)).unwrap();
            let own_comm_id = own_comm_id(&self.transmit());
            conns.push(Conn { peer, id, own_comm_id, own_qpn });
        }
        self.expire(Duration::from_millis(4_100), conns.len());
        self.transmit_all(conns.len());
        self.arrange(&mut conns);
        for kind in [REP, REP_AGAIN] {
            for conn in &conns {
                self.receive(kind, &conn.peer, &conn.peer.sidr_rep(conn.own_comm_id, PORT));
            }
        }
        self.events(conns.len(), "ESTABLISHED");
        for conn in &conns {
            self.destroy("destroy, datagrams", conn);
        }
    }
}
