//! Several identifiers on one number of one address, or of overlapping ones: one socket, or as few
//! as there can be.

use crate::isolated;
use crate::world::{assert_free, assert_held, at, cm, id};
use nanocm::host_ports::{HostPorts, PortPolicy, Space};
use nanocm::provider::MemNet;
use nanocm::{Capacity, Cm, Config, Drive, IdOption, PortSpace, State};
use std::net::TcpListener;

#[test]
fn a_number_is_held_once_until_the_last_one_leaves() {
    isolated!();
    let world = cm(8);
    let (one, two) = (id(&world), id(&world));
    for id in [&one, &two] {
        id.set_option(IdOption::ReuseAddr(true)).unwrap();
        id.bind(at("127.0.0.1:5001")).unwrap();
    }
    assert_eq!(world.0.host_ports().sockets(), 1);
    drop(one);
    assert_held(at("127.0.0.1:5001"));
    drop(two);
    assert_free(at("127.0.0.1:5001"));
}

/// The wildcard's socket holds the address's number, too; in the other order our own socket makes
/// way.
#[test]
fn a_wildcard_and_an_address_share_a_number_in_either_order() {
    isolated!();
    for order in [["127.0.0.1:5001", "0.0.0.0:5001"], ["0.0.0.0:5001", "127.0.0.1:5001"]] {
        let world = cm(8);
        let ids = order.map(|address| {
            let id = id(&world);
            id.set_option(IdOption::ReuseAddr(true)).unwrap();
            id.bind(at(address)).unwrap();
            id
        });
        assert_held(at("127.0.0.1:5001"));
        assert_held(at("127.0.0.2:5001"));
        for id in ids {
            assert_held(at("127.0.0.1:5001"));
            drop(id);
        }
        assert_free(at("0.0.0.0:5001"));
    }
}

/// The one that made way is as strong as before, once the wider one has gone or could not be had.
#[test]
fn who_made_way_does_so_no_longer() {
    isolated!();
    let ports = HostPorts::default();
    let held = ports.reserve(Space::Tcp, at("127.0.0.1:5001")).unwrap();
    drop(ports.reserve(Space::Tcp, at("0.0.0.0:5001")).unwrap());
    assert_held(at("127.0.0.1:5001"));
    let other = TcpListener::bind("127.0.0.2:5001").unwrap();
    ports.reserve(Space::Tcp, at("0.0.0.0:5001")).expect_err("somebody listens");
    assert_held(at("127.0.0.1:5001"));
    drop((held, other));
}

#[test]
fn each_bind_has_its_policy() {
    isolated!();
    let world = cm(8);
    let (mine, ours) = (id(&world), id(&world));
    mine.set_port_policy(PortPolicy::Independent);
    mine.bind(at("127.0.0.1:5001")).unwrap();
    assert_free(at("127.0.0.1:5001"));
    ours.bind(at("127.0.0.1:5002")).unwrap();
    assert_held(at("127.0.0.1:5002"));
}

/// Who was bound on the way of resolving holds the number only as long.
#[test]
fn a_failed_resolve_holds_nothing() {
    isolated!();
    let world = cm(8);
    let id = id(&world);
    id.set_port_policy(PortPolicy::Host);
    let nowhere = at("192.0.2.1:7471");
    id.resolve_addr(Some(at("127.0.0.1:5001")), nowhere, std::time::Duration::from_secs(1))
        .unwrap();
    crate::common::eventually("it fails", || {
        world.0.drive().unwrap();
        id.state() == State::Idle
    });
    assert_eq!(world.0.host_ports().sockets(), 0);
    assert_free(at("127.0.0.1:5001"));
}

#[test]
fn an_ipv6_wildcard_of_its_family_alone_leaves_ipv4_free() {
    isolated!();
    let world = cm(8);
    let id = id(&world);
    id.set_option(IdOption::AfOnly(true)).unwrap();
    id.bind(at("[::]:5001")).unwrap();
    assert_held(at("[::1]:5001"));
    assert_free(at("127.0.0.1:5001"));
}

#[test]
fn what_has_no_numbers_of_the_hosts_is_independent() {
    isolated!();
    let world = cm(8);
    let ib = world.0.create_id(&world.1, PortSpace::Ib).unwrap();
    ib.set_port_policy(PortPolicy::Host);
    ib.bind(at("127.0.0.1:5001")).unwrap();
    assert_free(at("127.0.0.1:5001"));
    // Addresses that are not the kernel's.
    let transport = MemNet::new(1).endpoint(&["127.0.0.1".parse().unwrap()]).unwrap();
    let mem = Cm::over(transport, Config::new(1), Capacity::of(4), Drive::Caller).unwrap();
    let channel = mem.channel().unwrap();
    let other = mem.create_id(&channel, PortSpace::Tcp).unwrap();
    other.set_port_policy(PortPolicy::Host);
    other.bind(at("127.0.0.1:5002")).unwrap();
    assert_free(at("127.0.0.1:5002"));
}

#[test]
fn threads_that_bind_at_a_time_get_numbers_of_their_own() {
    isolated!();
    let (cm, channel) = cm(400);
    let ids: Vec<_> = (0..400).map(|_| cm.create_id(&channel, PortSpace::Tcp).unwrap()).collect();
    std::thread::scope(|scope| {
        for some in ids.chunks(100) {
            scope.spawn(move || {
                for id in some {
                    id.bind(at("127.0.0.1:0")).unwrap();
                }
            });
        }
    });
    let numbers: std::collections::HashSet<_> = ids.iter().map(|id| id.local_addr()).collect();
    assert_eq!((numbers.len(), cm.host_ports().sockets()), (400, 400));
    // One number for one of them.
    drop(ids);
    let ids: Vec<_> = (0..100).map(|_| cm.create_id(&channel, PortSpace::Tcp).unwrap()).collect();
    let won: usize = std::thread::scope(|scope| {
        let tried = ids.chunks(25).map(|some| {
            scope.spawn(move || {
                some.iter().filter(|id| id.bind(at("127.0.0.1:5001")).is_ok()).count()
            })
        });
        let tried: Vec<_> = tried.collect();
        tried.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!((won, cm.host_ports().sockets()), (1, 1));
    drop(ids);
    assert_free(at("127.0.0.1:5001"));
}
