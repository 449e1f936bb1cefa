//! Identifiers with a port, and listeners.

use super::*;
use nanocm_core::error::ResolveError;
use nanocm_core::{IdOption, PortEvent, Route, ScopedIp};
use std::net::{IpAddr, Ipv4Addr};

/// How many local addresses: twice what a large RoCE port has in its GID table.
const ADDRESSES: u32 = 512;

/// The numbers for "any free port".
const RANGE: u32 = 28_232;

pub(super) fn run(kinds: &mut Kinds) {
    for bound in [0, RANGE / 2, RANGE * 99 / 100, RANGE - BATCH] {
        let mut memory = many_ids();
        let mut bench = Bench::new(&mut memory);
        bench.add_addresses();
        let ids: Vec<Id> = (0..bound).map(|_| bench.bind(B, 0)).collect();
        bench.kinds = Some(&mut *kinds);
        for order in Order::ALL {
            bench.order = order;
            bench.bind_and_leave(B, |_| 0);
            // Any free port of another address, while one is left and when none is.
            bench.bind_and_leave(address(1), |_| 0);
            bench.bind_and_leave(B, |i| 1_000 + i as u16);
            bench.bind_and_leave(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |i| 1_000 + i as u16);
        }
        bench.reserve(B);
        bench.refused(B, ids.len());
    }
    shared(kinds);
    one_service_everywhere(kinds);
    towards_one_peer(kinds);
}

/// One port on all addresses, by many identifiers on each.
fn shared(kinds: &mut Kinds) {
    let mut memory = many_ids();
    let mut bench = Bench::new(&mut memory);
    bench.add_addresses();
    for number in 0..RANGE {
        let id = bench.cm.create_id(PortSpace::Tcp, 0).unwrap();
        bench.cm.set_option(id, IdOption::ReuseAddr(true)).unwrap();
        bench.cm.bind(id, SocketAddr::new(address(number % ADDRESSES), PORT)).unwrap();
    }
    bench.kinds = Some(kinds);
    for number in 0..4 * BATCH {
        let id = bench.cm.create_id(PortSpace::Tcp, 0).unwrap();
        bench.cm.set_option(id, IdOption::ReuseAddr(true)).unwrap();
        let to = SocketAddr::new(address(number * 61 % ADDRESSES), PORT);
        bench.call("bind", |cm, _| cm.bind(id, to)).unwrap();
        let _ = bench.call("destroy, bound", |cm, now| cm.destroy(now, id)).unwrap();
    }
}

/// One service on all addresses: listeners come, requests to each of them, listeners go. Every 16th is
/// counted.
fn one_service_everywhere(kinds: &mut Kinds) {
    let mut memory = many_ids();
    let mut bench = Bench::new(&mut memory);
    bench.add_addresses();
    let mut other = Some(kinds);
    let mut listeners = Vec::new();
    for number in 0..ADDRESSES {
        let counted = number % 16 == 0;
        bench.swap_if(counted, &mut other);
        let id = bench.bind(address(number), PORT);
        bench.call("listen", |cm, _| cm.listen(id, 0)).unwrap();
        listeners.push(id);
        bench.swap_if(counted, &mut other);
    }
    for number in (0..ADDRESSES).filter(|number| number % 16 == 7) {
        bench.swap_if(true, &mut other);
        let peer = Peers::Many.peer(number);
        let local = address(number);
        for kind in ["handle_datagram(REQ), new", "handle_datagram(REQ), duplicate"] {
            let (path, mad) = (peer.path(local), peer.req(local, PORT));
            let _ = bench.call(kind, |cm, now| cm.handle_datagram(now, &path, &mad));
        }
        bench.event("CONNECT_REQUEST");
        bench.swap_if(true, &mut other);
    }
    for (number, id) in listeners.into_iter().enumerate() {
        bench.swap_if(number % 16 == 5, &mut other);
        let _ = bench.call("destroy, listening", |cm, now| cm.destroy(now, id)).unwrap();
        bench.swap_if(number % 16 == 5, &mut other);
    }
}

/// All numbers are taken towards one peer, then a few come free again.
fn towards_one_peer(kinds: &mut Kinds) {
    let mut memory = memory(RANGE + BATCH);
    let mut bench = Bench::new(&mut memory);
    let mut ids = Vec::new();
    while let Ok(id) = bench.route_to(Peers::OneHost) {
        ids.push(id);
    }
    bench.kinds = Some(kinds);
    for _ in 0..BATCH {
        assert!(bench.route_to(Peers::OneHost).is_err());
        for _ in 0..BATCH {
            let id = ids.swap_remove(bench.rng.below(ids.len()));
            let _ = bench.cm.destroy(bench.now, id);
        }
        for _ in 0..BATCH {
            ids.extend(bench.route_to(Peers::OneHost));
        }
    }
}

/// Room for all the numbers of the range, few connections, many addresses.
fn many_ids() -> Memory {
    let ids = (RANGE + 4 * BATCH) as usize;
    let gids = ADDRESSES as usize + 1;
    Memory::new(Capacity { ids, ports: ids, gids, ..Capacity::of(1_024) })
}

fn address(number: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(0x0a63_0000 + number))
}

impl Bench<'_, '_> {
    fn add_addresses(&mut self) {
        for number in 0..ADDRESSES {
            let address = ScopedIp::of(SocketAddr::new(address(number), 0));
            let event = PortEvent::GidAdded { address, ca_guid: 1 };
            assert!(self.cm.handle_port_event(self.now, event));
        }
    }

    fn route_to(&mut self, peers: Peers) -> Result<Id, ResolveError> {
        let id = self.cm.create_id(PortSpace::Tcp, 0).unwrap();
        let peer = peers.peer(1);
        let (route, to) = (Route::new(peer.path(B)), SocketAddr::new(peer.ip, PORT));
        let routed = self.call("set_route", |cm, now| cm.set_route(now, id, to, &route));
        if routed.is_err() {
            let _ = self.cm.destroy(self.now, id);
        }
        routed.map(|()| id)
    }

    fn bind(&mut self, ip: IpAddr, port: u16) -> Id {
        let id = self.call("create_id", |cm, _| cm.create_id(PortSpace::Tcp, 0)).unwrap();
        self.call("bind", |cm, _| cm.bind(id, SocketAddr::new(ip, port))).unwrap();
        id
    }

    /// A batch of identifiers is bound, half of them listen, all are destroyed.
    fn bind_and_leave(&mut self, ip: IpAddr, port: impl Fn(u32) -> u16) {
        let mut ids: Vec<Id> = (0..BATCH).map(|i| self.bind(ip, port(i))).collect();
        match self.order {
            Order::Same => {}
            Order::Reverse => ids.reverse(),
            Order::Random => self.rng.shuffle(&mut ids),
        }
        for (i, &id) in ids.iter().enumerate() {
            let mut kind = "destroy, bound";
            if i % 2 == 0 {
                self.call("listen", |cm, _| cm.listen(id, 0)).unwrap();
                kind = "destroy, listening";
            }
            let _ = self.call(kind, |cm, now| cm.destroy(now, id)).unwrap();
        }
        let id = self.call("create_id", |cm, _| cm.create_id(PortSpace::Tcp, 0)).unwrap();
        let _ = self.call("destroy, idle", |cm, now| cm.destroy(now, id)).unwrap();
    }

    /// Ports by way of the host.
    fn reserve(&mut self, ip: IpAddr) {
        for i in 0..BATCH {
            let id = self.cm.create_id(PortSpace::Tcp, 0).unwrap();
            let any = SocketAddr::new(ip, 0);
            let to = (i % 2 == 1).then(|| SocketAddr::new(Peers::OneHost.peer(1).ip, PORT));
            let proposal = self.call("propose_port", |cm, _| cm.propose_port(id, any, to));
            let key = proposal.unwrap().key();
            self.call("bind_reserved", |cm, _| cm.bind_reserved(id, key, to)).unwrap();
            let _ = self.call("destroy, bound", |cm, now| cm.destroy(now, id)).unwrap();
        }
    }

    /// Binds that cannot be: no such address, a number that is taken, no number left.
    fn refused(&mut self, ip: IpAddr, bound: usize) {
        let id = self.cm.create_id(PortSpace::Tcp, 0).unwrap();
        let nobody = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), 1);
        let refusal = self.call("bind", |cm, _| cm.bind(id, nobody));
        assert!(refusal.is_err());
        if bound > 0 {
            let taken = self.bind(ip, 2_000);
            let refusal = self.call("bind", |cm, _| cm.bind(id, SocketAddr::new(ip, 2_000)));
            assert!(refusal.is_err());
            let _ = self.cm.destroy(self.now, taken);
        }
        if bound as u32 == RANGE - BATCH {
            for _ in 0..BATCH {
                self.bind(ip, 0);
            }
            let refusal = self.call("bind", |cm, _| cm.bind(id, SocketAddr::new(ip, 0)));
            assert!(refusal.is_err());
        }
    }
}
