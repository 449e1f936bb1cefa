//! Calls that are no step in a connection's life: getters, options, polls that yield nothing, events of
//! ports.

use super::*;
use crate::world::B;
use crate::worst::{Bench, Conn, memory};
use nanocm_core::wire::roce::FrameFault;
use nanocm_core::{Gid, IdOption, Instant, PortEvent, PortSpace, QpState, ScopedIp};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Which visits are counted: the first few, and every so many.
const EVERY: u32 = 1_024;

pub(super) fn run(kinds: &mut Kinds, setting: Setting) {
    let mut memory = memory(setting.room);
    let mut bench = Bench::new(&mut memory);
    bench.listen_and_open(setting);
    bench.kinds = Some(kinds);
    bench.look();
    bench.find_nothing();
    bench.prepare();
    bench.change_addresses(setting.peers);
    bench.remove_the_device();
}

impl Bench<'_, '_> {
    /// Looks at a connection that stands.
    fn look(&mut self) {
        let peers = Peers::Many;
        let kinds = self.kinds.take();
        let mut conns = self.requests(peers, 1);
        self.accept(&mut conns, None);
        self.stand(&mut conns);
        self.kinds = kinds;
        let id = conns[0].id;
        self.call("state", |cm, _| cm.state(id)).unwrap();
        self.call("conn_state", |cm, _| cm.conn_state(id)).unwrap();
        self.call("local_addr", |cm, _| cm.local_addr(id)).unwrap();
        self.call("peer_addr", |cm, _| cm.peer_addr(id)).unwrap();
        self.call("private_data", |cm, _| cm.private_data(id).len());
        self.call("additional_info", |cm, _| cm.additional_info(id).len());
        self.call("peer_param", |cm, _| cm.peer_param(id)).unwrap();
        self.call("path", |cm, _| cm.path(id)).unwrap();
        self.call("qp_attrs", |cm, _| cm.qp_attrs(id, QpState::ReadyToSend)).unwrap();
        self.call("owes_disconnected", |cm, _| cm.owes_disconnected(id)).unwrap();
        self.call("counters", |cm, _| cm.counters().received);
        self.call("in_use", |cm, _| cm.in_use());
        self.call("ports_in_use", |cm, _| cm.ports_in_use(PortSpace::Tcp));
        self.call("is_port_in_use", |cm, _| cm.is_port_in_use(PortSpace::Tcp, 5000));
        self.call("port_space", |cm, _| cm.port_space(id)).unwrap();
        self.call("set_user", |cm, _| cm.set_user(id, 1)).unwrap();
        let (mut conns, kinds) = (self.requests_uncounted(), self.kinds.take());
        let request = conns.remove(0);
        self.receive("", &request.peer, &request.peer.rej_timeout());
        let event = self.event("REJECTED");
        self.kinds = kinds;
        self.call("failure", |cm, _| cm.failure(&event)).expect("an attempt that failed");
        let now = self.now;
        let _ = self.cm.destroy(now, request.id);
    }

    fn requests_uncounted(&mut self) -> Vec<Conn> {
        let kinds = self.kinds.take();
        let conns = self.requests(Peers::Many, 1);
        self.kinds = kinds;
        conns
    }

    /// There is nothing to do.
    fn find_nothing(&mut self) {
        let later = self.now + std::time::Duration::from_nanos(1);
        self.call("handle_timeout(budget 1), nothing", |cm, now| cm.handle_timeout(now, 1));
        self.call("handle_timeout(budget 1), nothing", |cm, _| cm.handle_timeout(later, 1));
        self.call("poll_transmit, nothing", |cm, now| cm.poll_transmit(now, &mut [0; 256]));
        self.call("poll_event, nothing", |cm, _| cm.poll_event());
        self.call("poll_request, nothing", |cm, _| cm.poll_request());
        self.call("poll_at", |cm, _| cm.poll_at());
        let _ = self.call("handle_bad_icrc", |cm, _| cm.handle_bad_icrc());
        let fault = FrameFault::TooShort(7);
        let _ = self.call("handle_frame_fault", |cm, _| cm.handle_frame_fault(fault));
    }

    /// An identifier before its life begins.
    fn prepare(&mut self) {
        let id = self.call("create_id", |cm, _| cm.create_id(PortSpace::Tcp, 0)).unwrap();
        for option in [IdOption::ReuseAddr(true), IdOption::Tos(1), IdOption::AckTimeout(14)] {
            self.call("set_option", |cm, _| cm.set_option(id, option)).unwrap();
        }
        let to = SocketAddr::new(B, 0);
        let proposal = self.call("propose_port", |cm, _| cm.propose_port(id, to, None)).unwrap();
        self.call("bind_reserved", |cm, _| cm.bind_reserved(id, proposal.key(), None)).unwrap();
        self.call("listen", |cm, _| cm.listen(id, 0)).unwrap();
        let _ = self.call("destroy, listening", |cm, now| cm.destroy(now, id)).unwrap();
        let id = self.call("create_id", |cm, _| cm.create_id(PortSpace::Tcp, 0)).unwrap();
        self.call("bind", |cm, _| cm.bind(id, to)).unwrap();
        let _ = self.call("destroy, bound", |cm, now| cm.destroy(now, id)).unwrap();
        let id = self.call("create_id", |cm, _| cm.create_id(PortSpace::Tcp, 0)).unwrap();
        let _ = self.call("destroy, idle", |cm, now| cm.destroy(now, id)).unwrap();
    }

    /// Addresses come and go; the link layer beneath one changes, of which many are told.
    fn change_addresses(&mut self, peers: Peers) {
        let address = |ip| ScopedIp { gid: Gid::from_ip(ip), scope: 0 };
        let new = address(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3)));
        for event in [
            PortEvent::GidAdded { address: new, ca_guid: 3 },
            PortEvent::GidRemoved { address: new },
        ] {
            let kind = match event {
                PortEvent::GidAdded { .. } => "handle_port_event(GidAdded)",
                _ => "handle_port_event(GidRemoved)",
            };
            assert!(self.call(kind, |cm, now| cm.handle_port_event(now, event)));
        }
        let changed = PortEvent::AddrChanged { address: address(peers.peer(1).ip) };
        let kind = "handle_port_event(AddrChanged)";
        assert!(self.call(kind, |cm, now| cm.handle_port_event(now, changed)));
        self.tell_everybody("handle_timeout(budget 1), 16 slots of an address");
    }

    /// The device goes, and with it every connection.
    fn remove_the_device(&mut self) {
        let removed = PortEvent::DeviceRemoved { ca_guid: crate::world::ca_guid(B) };
        let kind = "handle_port_event(DeviceRemoved)";
        assert!(self.call(kind, |cm, now| cm.handle_port_event(now, removed)));
        self.tell_everybody("handle_timeout(budget 1), 16 slots of a device");
    }

    /// Visits every slot, and tells what is to be told; now and then it is counted.
    fn tell_everybody(&mut self, kind: &'static str) {
        let now: Instant = self.now;
        let mut kinds = self.kinds.take();
        let mut turn = 0;
        loop {
            let counted = turn < 4 || turn % EVERY == 0;
            self.swap_if(counted, &mut kinds);
            let more = self.call(kind, |cm, now| cm.handle_timeout(now, 1));
            if counted && self.kinds.is_some() {
                while self.call("poll_event, of a visit", |cm, _| cm.poll_event()).is_some() {}
            }
            self.swap_if(counted, &mut kinds);
            while self.cm.poll_event().is_some() {}
            while self.cm.poll_transmit(now, &mut [0; 256]).is_some() {}
            turn += 1;
            if !more {
                break;
            }
        }
        self.kinds = kinds;
    }
}
