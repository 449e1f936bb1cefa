//! Several identifiers on one number of one address, or of overlapping ones: one socket, or as few as there can be.

use crate::isolated;
use crate::world::{assert_free, assert_held, at, cm, id};
use nanocm::host_ports::PortPolicy;
use nanocm::{IdOption, State};

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

/// The wildcard's socket holds the address's number, too; in the other order our own socket makes way.
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
