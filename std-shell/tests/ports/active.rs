//! Source ports of connections.

use crate::isolated;
use crate::world::{assert_free, assert_held, at, cm, id};
use nanocm::host_ports::{HostPortConfig, PortPolicy};
use nanocm::{Cm, EventChannel, EventKind, Id, PortSpace};
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(30);

/// Takes what has happened; how many addresses were resolved.
fn resolved((cm, channel): &(Cm, EventChannel)) -> usize {
    cm.drive().unwrap();
    let mut count = 0;
    while let Some(event) = channel.try_next().unwrap() {
        assert_eq!(event.kind, EventKind::AddrResolved);
        count += 1;
    }
    count
}

/// Each has an address, a port and a connection slot of its own, and the port is one that its peer
/// does not know yet.
#[test]
fn a_hundred_thousand_towards_four_ports_hold_no_port_of_the_hosts() {
    isolated!();
    const N: usize = 100_000;
    let world = cm(N);
    let mut seen = std::collections::HashSet::new();
    let (mut ids, mut done) = (Vec::new(), 0);
    for n in 0..N {
        let id = id(&world);
        let to = SocketAddr::from(([127, 0, 0, 1], 7001 + (n % 4) as u16));
        id.resolve_addr(Some(at("127.0.0.2:0")), to, SECOND).unwrap();
        ids.push((id, to));
        if n % 64 == 0 {
            done += resolved(&world);
        }
    }
    crate::common::eventually("all are resolved", || {
        done += resolved(&world);
        done == N
    });
    for (id, to) in &ids {
        assert!(seen.insert((id.local_addr().unwrap(), *to)), "{:?} twice", id.local_addr());
    }
    assert_eq!(world.0.host_ports().sockets(), 0);
    assert_free(ids[0].0.local_addr().unwrap());
}

#[test]
fn one_socket_holds_the_source_port_towards_two_thousand_peers() {
    isolated!();
    let world = cm(2_000);
    world.0.host_ports().set_config(HostPortConfig::all(PortPolicy::Host));
    let source = at("127.0.0.2:1023");
    let ids: Vec<Id> = (0..2_000u16)
        .map(|i| {
            let id = id(&world);
            let to = SocketAddr::from(([127, 1, (i / 250) as u8, (i % 250) as u8 + 1], 988));
            id.resolve_addr(Some(source), to, SECOND).unwrap();
            assert_eq!(id.local_addr(), Some(source));
            id
        })
        .collect();
    assert_eq!(world.0.host_ports().sockets(), 1);
    assert_held(source);
    let mut ids = ids.into_iter();
    let last = ids.next_back();
    drop(ids);
    assert_held(source);
    drop(last);
    assert_eq!(world.0.host_ports().sockets(), 0);
    assert_free(source);
}

/// Numbers that are held already are used first: one socket for as many peers as there are.
#[test]
fn any_source_port_of_the_hosts_is_shared_by_different_peers() {
    isolated!();
    let world = cm(300);
    world.0.host_ports().set_config(HostPortConfig::all(PortPolicy::Host));
    let connect = |to: SocketAddr| {
        let id = id(&world);
        id.resolve_addr(Some(at("127.0.0.2:0")), to, SECOND).unwrap();
        id
    };
    let to = |last: u8| SocketAddr::from(([127, 0, 1, last], 988));
    let apart: Vec<Id> = (1..=100).map(|n| connect(to(n))).collect();
    assert_eq!(world.0.host_ports().sockets(), 1);
    // One peer needs as many as there are connections to it.
    let same: Vec<Id> = (0..50).map(|_| connect(to(1))).collect();
    assert_eq!(world.0.host_ports().sockets(), 51);
    for id in apart.iter().chain(&same) {
        assert_held(id.local_addr().unwrap());
        assert_eq!(id.local_addr().unwrap().port() % 2, 1, "of the odd half");
    }
    drop((apart, same));
    assert_eq!((world.0.host_ports().sockets(), world.0.ports_in_use(PortSpace::Tcp)), (0, 0));
}

/// Without a word about it, a number that is asked for is the host's, too.
#[test]
fn a_source_port_that_is_given_is_held_by_default() {
    isolated!();
    let world = cm(4);
    let id = id(&world);
    id.resolve_addr(Some(at("127.0.0.2:5001")), at("127.0.0.1:988"), SECOND).unwrap();
    assert_held(at("127.0.0.2:5001"));
    drop(id);
    assert_free(at("127.0.0.2:5001"));
}
