//! Source ports of connections.

use crate::isolated;
use crate::world::{assert_free, assert_held, at, cm, id};
use nanocm::host_ports::{HostPortConfig, PortPolicy};
use nanocm::{ConnParam, ConnState, EventKind, Id, PortSpace};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// All stand at the same time.
#[test]
fn a_hundred_thousand_towards_four_ports_hold_no_port_of_the_hosts() {
    isolated!();
    const N: usize = 100_000;
    const AT_A_TIME: usize = 256;
    let (server, client) = (cm(N + 4), cm(N));
    let to = |n: usize| SocketAddr::from(([127, 0, 0, 1], 7001 + (n % 4) as u16));
    let _listeners = [0, 1, 2, 3].map(|n| {
        let listener = id(&server);
        listener.bind(to(n)).unwrap();
        listener.listen(0).unwrap();
        listener
    });
    let (mut accepted, mut ids) = (Vec::new(), HashMap::new());
    let (mut begun, mut established) = (0, 0);
    while established < N {
        while begun < N && begun - established < AT_A_TIME {
            let id = id(&client);
            id.resolve_addr(Some(at("127.0.0.2:0")), to(begun), LONG).unwrap();
            ids.insert(id.handle(), id);
            begun += 1;
        }
        client.0.drive().unwrap();
        while let Some(event) = client.1.try_next().unwrap() {
            let id = &ids[&event.id];
            match event.kind {
                EventKind::AddrResolved => id.resolve_route(LONG).unwrap(),
                EventKind::RouteResolved => {
                    id.connect(&ConnParam::new(client.0.next_qpn())).unwrap();
                }
                EventKind::ConnectResponse { .. } => id.establish().unwrap(),
                EventKind::Established => established += 1,
                other => panic!("{other:?} after {established}"),
            }
        }
        server.0.drive().unwrap();
        while let Some(mut event) = server.1.try_next().unwrap() {
            if let Some(request) = event.take_request() {
                request.accept(&ConnParam::new(server.0.next_qpn())).unwrap();
                accepted.push(request);
            }
        }
    }
    let ends = ids.values().map(|id| (id.local_addr().unwrap(), id.peer_addr().unwrap()));
    assert_eq!(ends.collect::<HashSet<_>>().len(), N, "all distinct");
    assert!(ids.values().all(|id| id.conn_state() == ConnState::Established));
    assert_eq!(client.0.host_ports().sockets(), 0);
    assert_free(ids.values().next().unwrap().local_addr().unwrap());
    // The process ends here. A goodbye of each, with all of those still unread, would take minutes.
    std::mem::forget((ids, accepted));
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
            id.resolve_addr(Some(source), to, LONG).unwrap();
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
        id.resolve_addr(Some(at("127.0.0.2:0")), to, LONG).unwrap();
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
    id.resolve_addr(Some(at("127.0.0.2:5001")), at("127.0.0.1:988"), LONG).unwrap();
    assert_held(at("127.0.0.2:5001"));
    drop(id);
    assert_free(at("127.0.0.2:5001"));
}
