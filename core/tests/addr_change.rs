//! The link layer beneath an address changes: connections that stand are told, nobody else (reports
//! H1).

use nanocm_core::addr::ScopedIp;
use nanocm_core::testing::{Capacity, Solo, World};
use nanocm_core::{ConnState, ConnState::*, EventKind, Id, PortEvent, PortSpace, Route};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

fn large() -> World {
    World::new().of(Capacity::of(64))
}

fn changes(solo: &mut Solo<'_>, ip: IpAddr) -> bool {
    scoped(solo, ip, 0)
}

fn scoped(solo: &mut Solo<'_>, ip: IpAddr, scope: u32) -> bool {
    let event = PortEvent::AddrChanged { address: ScopedIp { gid: ip.into(), scope } };
    solo.cm.handle_port_event(solo.now, event)
}

#[test]
fn connections_that_stand_are_told_once_and_others_nothing() {
    large().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let datagrams = solo.listen_in(PortSpace::Udp, 7471, 0);
        let mut standing = Vec::new();
        let mut ids = vec![listener, datagrams];
        for state in ConnState::ALL {
            for active in [true, false] {
                let id = solo.bring(state, active).id;
                ids.push(id);
                if state == Established {
                    standing.push(id);
                }
            }
        }
        let (ours, theirs) = (solo.ip, solo.peer_ip);
        for ip in [ours, theirs] {
            assert!(changes(&mut solo, ip));
            solo.wait(Duration::ZERO);
            let told = solo.tells(&["ADDR_CHANGE", "ADDR_CHANGE"]);
            assert_eq!(told.iter().map(|event| event.id).collect::<Vec<_>>(), standing);
        }
        for foreign in ["10.0.0.77", "0.0.0.0", "::"] {
            assert!(changes(&mut solo, foreign.parse().unwrap()));
            solo.wait(Duration::ZERO);
        }
        solo.tells(&[]);
        solo.says(&[]);
        assert_eq!(EventKind::AddrChange.name(), "ADDR_CHANGE");
        solo.assert_clean(&ids);
    });
}

#[test]
fn a_connection_that_ends_before_it_is_told_is_told_in_order() {
    large().solo(|mut solo| {
        let ip = solo.ip;
        let it = solo.bring(Established, true);
        assert!(changes(&mut solo, ip));
        solo.wait(Duration::ZERO);
        let _ = solo.hears(&it.peer, &it.peer.dreq(it.comm_id, it.qpn));
        solo.tells(&["ADDR_CHANGE", "DISCONNECTED"]);
        // reports H1: afterwards, nothing.
        assert!(changes(&mut solo, ip));
        solo.wait(Duration::ZERO);
        solo.tells(&[]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn two_addresses_may_change_at_a_time() {
    World::new().of(Capacity::of(100)).solo(|mut solo| {
        let (ip, peer_ip) = (solo.ip, solo.peer_ip);
        let ids: Vec<_> = (0..100).map(|_| solo.bring(Established, true).id).collect();
        assert!(changes(&mut solo, IpAddr::from([10, 0, 0, 99])));
        assert!(changes(&mut solo, ip));
        assert!(!changes(&mut solo, peer_ip), "no room");
        assert!(changes(&mut solo, ip), "that is known");
        assert!(solo.cm.handle_timeout(solo.now, 4));
        solo.tells(&["ADDR_CHANGE"; 64]);
        assert!(!changes(&mut solo, peer_ip), "still no room");
        // A second time: those who were told are told again, and all the others now.
        assert!(changes(&mut solo, ip));
        assert_eq!(solo.cm.poll_at(), Some(solo.now));
        solo.wait(Duration::ZERO);
        assert_eq!(solo.cm.poll_at(), None);
        solo.tells(&["ADDR_CHANGE"; 100]);
        assert!(changes(&mut solo, peer_ip));
        solo.wait(Duration::ZERO);
        solo.tells(&["ADDR_CHANGE"; 100]);
        solo.assert_clean(&ids);
    });
}

#[test]
fn a_change_that_comes_while_others_are_told_has_a_round_of_its_own() {
    World::new().of(Capacity::of(100)).solo(|mut solo| {
        let (ip, peer_ip) = (solo.ip, solo.peer_ip);
        let ids: Vec<_> = (0..100).map(|_| solo.bring(Established, true).id).collect();
        assert!(changes(&mut solo, ip));
        assert!(solo.cm.handle_timeout(solo.now, 3));
        solo.tells(&["ADDR_CHANGE"; 48]);
        assert!(changes(&mut solo, peer_ip));
        // 52 are told of both at once, 48 of the second.
        solo.wait(Duration::ZERO);
        solo.tells(&["ADDR_CHANGE"; 100]);
        solo.assert_clean(&ids);
    });
}

#[test]
fn deadlines_do_not_wait_until_all_are_told() {
    World::new().of(Capacity::of(100)).solo(|mut solo| {
        let (ip, it) = (solo.ip, solo.bring(ReqSent, true));
        solo.now = solo.now + Duration::from_secs(31);
        assert!(changes(&mut solo, ip));
        assert!(solo.cm.handle_timeout(solo.now, 1), "100 slots");
        solo.tells(&["UNREACHABLE"]);
        assert!(solo.cm.handle_timeout(solo.now, 5));
        assert!(!solo.cm.handle_timeout(solo.now, 2));
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn an_identifier_that_is_no_more_is_told_nothing_of_who_has_its_connection_slot() {
    World::new().of(Capacity { conns: 1, ..Capacity::of(4) }).solo(|mut solo| {
        let old = solo.bring(ReqSent, true).id;
        solo.cm.destroy(solo.now, old).unwrap();
        solo.says(&["REJ"]);
        let (ip, new) = (solo.ip, solo.bring(Established, true).id);
        assert!(changes(&mut solo, ip));
        solo.wait(Duration::ZERO);
        assert_eq!(solo.tells(&["ADDR_CHANGE"])[0].id, new);
        solo.assert_clean(&[new]);
    });
}

#[test]
fn link_local_addresses_are_told_apart_by_their_scope() {
    large().solo(|mut solo| {
        let (ours, theirs) = ("fe80::2".parse().unwrap(), "fe80::1".parse().unwrap());
        let connect = |solo: &mut Solo<'_>, scope| -> Id {
            let address = ScopedIp { gid: IpAddr::from(ours).into(), scope };
            let event = PortEvent::GidAdded { address, ca_guid: u64::from(scope) };
            assert!(solo.cm.handle_port_event(solo.now, event));
            let peer = solo.peer();
            let mut path = nanocm_core::RocePath::new(
                address.gid,
                nanocm_core::Gid::from_ip(IpAddr::V6(theirs)),
            );
            path.scope = scope;
            let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
            let to = std::net::SocketAddrV6::new(theirs, 7471, 0, scope);
            let route = Route::new(nanocm_core::Path::Roce(path));
            solo.cm.set_route(solo.now, id, SocketAddr::V6(to), &route).unwrap();
            solo.connect(id);
            let req = solo.says(&["REQ"])[0];
            let rep = peer.rep(nanocm_core::testing::comm_id(&req));
            let path = nanocm_core::Path::Roce(path);
            let _ = solo.cm.handle_datagram(solo.now, &path, &rep);
            solo.tells(&["CONNECT_RESPONSE"]);
            solo.cm.establish(solo.now, id, &[]).unwrap();
            solo.tells(&["ESTABLISHED"]);
            solo.says(&["RTU"]);
            id
        };
        let ids = [2, 3].map(|scope| connect(&mut solo, scope));
        for (ip, scope) in [(ours, 3), (theirs, 2), (ours, 4)] {
            assert!(scoped(&mut solo, IpAddr::V6(ip), scope));
            solo.wait(Duration::ZERO);
            let told: Vec<_> = std::iter::from_fn(|| solo.cm.poll_event()).collect();
            let expected: &[Id] = ids.get(scope as usize - 2..=scope as usize - 2).unwrap_or(&[]);
            assert_eq!(told.iter().map(|event| event.id).collect::<Vec<_>>(), expected);
        }
        solo.assert_clean(&ids);
    });
}
