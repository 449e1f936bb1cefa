//! Port numbers through the engine: proposals and reservations for a host that holds them too, what
//! `destroy` gives back, and source ports shared by connections to different peers.

use nanocm_core::addr::{RocePath, ScopedIp};
use nanocm_core::error::{BindError, ResolveError};
use nanocm_core::port::{PortKey, Proposal};
use nanocm_core::testing::{Capacity, Peer, Solo, World};
use nanocm_core::{EventKind, Id, IdOption, Outcome, Path, PortEvent, PortSpace, Route, State};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn idle(solo: &mut Solo<'_>) -> Id {
    solo.cm.create_id(PortSpace::Tcp, 0).unwrap()
}

/// Four numbers, and room for more identifiers than that.
fn narrow() -> World {
    let capacity = Capacity { ids: 40, conns: 40, ports: 80, map: 4, ..Capacity::of(40) };
    World::new().of(capacity).set(|config| config.port_range = (40_000, 40_003))
}

fn key(local: &str, port: u16) -> PortKey {
    PortKey { space: PortSpace::Tcp, local: ScopedIp::of(addr(local)), port }
}

#[test]
fn a_proposal_asks_the_host_once_for_each_number_and_address() {
    World::new().solo(|mut solo| {
        let (one, two, three) = (idle(&mut solo), idle(&mut solo), idle(&mut solo));
        let (local, to) = (addr("10.0.0.2:5000"), addr("10.0.0.1:7471"));
        let other = addr("10.0.0.1:7472");
        let untouched = format!("{:?}", solo.cm);
        let proposal = solo.cm.propose_port(one, local, Some(to)).unwrap();
        assert_eq!(proposal, Proposal::AskHost(key("10.0.0.2:0", 5000)));
        assert_eq!(format!("{:?}", solo.cm), untouched, "nothing is owned yet");
        solo.cm.bind_reserved(one, proposal.key(), Some(to)).unwrap();
        assert_eq!(solo.cm.state(one), Ok(State::AddrBound));
        assert_eq!(solo.cm.local_addr(one), Ok(local));
        // The second shares what holds the number already (reports A5).
        let proposal = solo.cm.propose_port(two, local, Some(other)).unwrap();
        assert_eq!(proposal, Proposal::Held(key("10.0.0.2:0", 5000)));
        solo.cm.bind_reserved(two, proposal.key(), Some(other)).unwrap();
        let untouched = format!("{:?}", solo.cm);
        let refused = solo.cm.propose_port(three, local, Some(to));
        assert_eq!(refused, Err(BindError::TupleInUse));
        let refused = solo.cm.bind_reserved(three, proposal.key(), Some(to));
        assert_eq!(refused, Err(BindError::TupleInUse));
        assert_eq!(solo.cm.propose_port(three, local, None), Err(BindError::PortInUse));
        assert_eq!(format!("{:?}", solo.cm), untouched);
        // The last one to leave gives the key back.
        assert_eq!(solo.cm.destroy(solo.now, one), Ok(None));
        assert_eq!(solo.cm.destroy(solo.now, two), Ok(Some(key("10.0.0.2:0", 5000))));
        solo.cm.bind_reserved(three, key("10.0.0.2:0", 5000), None).unwrap();
        solo.assert_clean(&[three]);
    });
}

#[test]
fn numbers_in_use_can_be_asked_for() {
    narrow().solo(|mut solo| {
        let (one, two) = (idle(&mut solo), idle(&mut solo));
        solo.cm.bind(one, addr("10.0.0.2:5000")).unwrap();
        assert!(solo.cm.is_port_in_use(PortSpace::Sdp, 5000));
        assert!(!solo.cm.is_port_in_use(PortSpace::Udp, 5000));
        assert_eq!(solo.cm.ports_in_use(PortSpace::Tcp), 0, "it is none of the range");
        solo.cm.bind(two, addr("10.0.0.2:0")).unwrap();
        assert_eq!(solo.cm.ports_in_use(PortSpace::Tcp), 1);
        assert_eq!(solo.cm.port_space(two), Ok(PortSpace::Tcp));
        solo.assert_clean(&[one, two]);
    });
}

/// Who is bound on the way of `resolve_addr` may share a reserved number, and be the last to have it.
#[test]
fn a_reserved_key_comes_back_from_destroy_even_after_a_failed_resolve() {
    World::new().solo(|mut solo| {
        let (first, last) = (idle(&mut solo), idle(&mut solo));
        let (local, to) = (addr("10.0.0.2:5000"), addr("10.0.0.1:7471"));
        let key = solo.cm.propose_port(first, local, Some(addr("10.0.0.1:1"))).unwrap().key();
        solo.cm.bind_reserved(first, key, Some(addr("10.0.0.1:1"))).unwrap();
        let resolve = |solo: &mut Solo<'_>| {
            solo.cm.resolve_addr(solo.now, last, Some(local), to, SECOND).unwrap();
        };
        // With another owner there is nothing to return: idle again.
        resolve(&mut solo);
        solo.wait(2 * SECOND);
        solo.tells(&["ADDR_ERROR"]);
        assert_eq!(solo.cm.state(last), Ok(State::Idle));
        resolve(&mut solo);
        assert_eq!(solo.cm.destroy(solo.now, first), Ok(None));
        solo.wait(2 * SECOND);
        solo.tells(&["ADDR_ERROR"]);
        assert_eq!(solo.cm.state(last), Ok(State::AddrBound));
        assert_eq!(solo.cm.local_addr(last), Ok(local));
        resolve(&mut solo);
        assert_eq!(solo.cm.destroy(solo.now, last), Ok(Some(key)));
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_proposal_for_any_port_is_one_that_can_be_bound() {
    narrow().solo(|mut solo| {
        let mut ids = Vec::new();
        for _ in 0..4 {
            let id = idle(&mut solo);
            let proposal = solo.cm.propose_port(id, addr("10.0.0.2:0"), None).unwrap();
            let Proposal::AskHost(key) = proposal else { panic!("{proposal:?}") };
            assert!((40_000..=40_003).contains(&key.port));
            solo.cm.bind_reserved(id, key, None).unwrap();
            ids.push(id);
        }
        let id = idle(&mut solo);
        let refused = solo.cm.propose_port(id, addr("10.0.0.2:0"), None);
        assert_eq!(refused, Err(BindError::PortsExhausted));
        ids.push(id);
        solo.assert_clean(&ids);
    });
}

#[test]
fn a_reservation_that_was_overtaken_is_refused() {
    World::new().solo(|mut solo| {
        let (slow, fast) = (idle(&mut solo), idle(&mut solo));
        let local = addr("10.0.0.2:5000");
        let key = solo.cm.propose_port(slow, local, None).unwrap().key();
        solo.cm.bind(fast, local).unwrap();
        let untouched = format!("{:?}", solo.cm);
        assert_eq!(solo.cm.bind_reserved(slow, key, None), Err(BindError::PortInUse));
        assert_eq!(format!("{:?}", solo.cm), untouched);
        solo.assert_clean(&[slow, fast]);
    });
}

#[test]
fn a_key_of_something_else_is_refused() {
    World::new().solo(|mut solo| {
        let id = idle(&mut solo);
        let good = key("10.0.0.2:0", 5000);
        let untouched = format!("{:?}", solo.cm);
        for bad in [
            PortKey { port: 0, ..good },
            PortKey { space: PortSpace::Udp, ..good },
            PortKey { space: PortSpace::Sdp, ..good },
        ] {
            assert_eq!(solo.cm.bind_reserved(id, bad, None), Err(BindError::WrongKey));
        }
        let foreign = key("10.0.0.9:0", 5000);
        assert_eq!(solo.cm.bind_reserved(id, foreign, None), Err(BindError::AddrNotLocal));
        assert_eq!(format!("{:?}", solo.cm), untouched);
        // SDP's numbers are TCP's.
        let sdp = solo.cm.create_id(PortSpace::Sdp, 0).unwrap();
        solo.cm.bind_reserved(sdp, good, None).unwrap();
        assert_eq!(solo.cm.bind(id, addr("10.0.0.2:5000")), Err(BindError::PortInUse));
        assert_eq!(solo.cm.destroy(solo.now, sdp), Ok(Some(good)));
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_reserved_port_serves_a_connection() {
    World::new().solo(|mut solo| {
        let peer = solo.peer();
        let (id, local, to) = (idle(&mut solo), addr("10.0.0.2:0"), SocketAddr::new(peer.ip, 7471));
        let key = solo.cm.propose_port(id, local, Some(to)).unwrap().key();
        solo.cm.bind_reserved(id, key, Some(to)).unwrap();
        let route = Route::new(solo.path(&peer));
        solo.cm.set_route(solo.now, id, to, &route).unwrap();
        solo.connect(id);
        let req = solo.says(&["REQ"])[0];
        let header = nanocm_core::wire::Req(&req).ip_cm().unwrap();
        assert_eq!(header.source_port, key.port);
        let returned = solo.cm.destroy(solo.now, id);
        assert_eq!(returned, Ok(Some(key)));
        solo.says(&["REJ"]);
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_wildcard_is_reserved_as_a_wildcard() {
    World::new().solo(|mut solo| {
        for (local, to) in [("0.0.0.0:5000", Some(addr("10.0.0.1:7471"))), ("[::]:5000", None)] {
            let id = idle(&mut solo);
            let proposal = solo.cm.propose_port(id, addr(local), to).unwrap();
            solo.cm.bind_reserved(id, proposal.key(), to).unwrap();
            if let Some(to) = to {
                let peer = Peer { ip: to.ip(), ..solo.peer_at_home() };
                let route = Route::new(solo.path(&peer));
                solo.cm.set_route(solo.now, id, to, &route).unwrap();
                assert_eq!(solo.cm.local_addr(id), Ok(addr("10.0.0.2:5000")));
            }
            assert_eq!(solo.cm.destroy(solo.now, id), Ok(Some(proposal.key())));
        }
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_wildcard_overlaps_with_every_address_even_when_its_own_is_known() {
    World::new().solo(|mut solo| {
        let address = ScopedIp::of(addr("10.0.0.3:0"));
        let event = PortEvent::GidAdded { address, ca_guid: 3 };
        assert!(solo.cm.handle_port_event(solo.now, event));
        let (wild, id, to) = (idle(&mut solo), idle(&mut solo), addr("10.0.0.1:7471"));
        let key = solo.cm.propose_port(wild, addr("0.0.0.0:5000"), Some(to)).unwrap().key();
        solo.cm.bind_reserved(wild, key, Some(to)).unwrap();
        let route = Route::new(solo.path(&solo.peer_at_home()));
        solo.cm.set_route(solo.now, wild, to, &route).unwrap();
        assert_eq!(solo.cm.local_addr(wild), Ok(addr("10.0.0.2:5000")));
        let refused = solo.cm.propose_port(id, addr("10.0.0.3:5000"), Some(to));
        assert_eq!(refused, Err(BindError::TupleInUse));
        solo.assert_clean(&[wild, id]);
    });
}

#[test]
fn a_source_port_serves_as_many_peers_as_there_are() {
    // Three destinations over four numbers: each has all four, and then no more.
    narrow().solo(|mut solo| {
        let peers: Vec<_> = (1..=3u8)
            .map(|last| Peer { ip: [10, 0, 1, last].into(), ..solo.peer_at_home() })
            .collect();
        let mut owners: BTreeMap<(usize, u16), Id> = BTreeMap::new();
        for _ in 0..4 {
            for (n, peer) in peers.iter().enumerate() {
                let id = solo.route_to(peer);
                let port = solo.cm.local_addr(id).unwrap().port();
                assert!((40_000..=40_003).contains(&port));
                assert!(owners.insert((n, port), id).is_none(), "a 4-tuple of its own");
            }
        }
        let id = idle(&mut solo);
        let untouched = solo.cm.in_use();
        for peer in &peers {
            let to = SocketAddr::new(peer.ip, 7471);
            let route = Route::new(solo.path(peer));
            let refused = solo.cm.set_route(solo.now, id, to, &route);
            let error = BindError::PortsExhausted;
            assert_eq!(refused, Err(ResolveError::Bind { error }));
            assert_eq!(solo.cm.state(id), Ok(State::Idle));
            assert_eq!(solo.cm.in_use(), untouched);
        }
        // Another port of the same peer is another peer.
        let to = SocketAddr::new(peers[0].ip, 7472);
        let route = Route::new(solo.path(&peers[0]));
        solo.cm.set_route(solo.now, id, to, &route).unwrap();
        // What one gives back, the same destination has again.
        let freed = owners.remove(&(1, 40_002)).unwrap();
        assert_eq!(solo.cm.destroy(solo.now, freed), Ok(None), "others hold the number");
        let again = solo.route_to(&peers[1]);
        assert_eq!(solo.cm.local_addr(again).unwrap().port(), 40_002);
        let mut ids: Vec<_> = owners.into_values().collect();
        ids.extend([id, again]);
        solo.assert_clean(&ids);
    });
}

#[test]
fn exhaustion_found_by_the_host_is_an_address_error() {
    narrow().solo(|mut solo| {
        let mut ids: Vec<_> = (0..4)
            .map(|_| {
                let peer = solo.peer_at_home();
                solo.route_to(&peer)
            })
            .collect();
        let id = idle(&mut solo);
        let to = SocketAddr::new(solo.peer_ip, 7471);
        solo.cm.resolve_addr(solo.now, id, None, to, SECOND).unwrap();
        let (request, _) = solo.cm.poll_request().unwrap();
        let path = solo.path(&solo.peer_at_home());
        solo.cm.handle_completion(solo.now, request, Outcome::AddrResolved { path }).unwrap();
        let told = solo.tells(&["ADDR_ERROR"])[0].kind;
        let errno = BindError::PortsExhausted.errno();
        assert_eq!(told, EventKind::AddrError(errno));
        assert_eq!(solo.cm.state(id), Ok(State::Idle));
        ids.push(id);
        solo.assert_clean(&ids);
    });
}

#[test]
fn two_thousand_connections_share_one_privileged_port() {
    // reports A7
    let world = World::new().of(Capacity::of(2000));
    world.solo(|mut solo| {
        let mut ids = Vec::new();
        for i in 0..2000u16 {
            let to = SocketAddr::from(([10, 1, (i / 250) as u8, (i % 250 + 1) as u8], 988));
            let (id, local) = (idle(&mut solo), addr("10.0.0.2:1023"));
            let proposal = solo.cm.propose_port(id, local, Some(to)).unwrap();
            assert_eq!(matches!(proposal, Proposal::AskHost(_)), i == 0, "one host socket");
            solo.cm.bind_reserved(id, proposal.key(), Some(to)).unwrap();
            ids.push(id);
        }
        for (left, &id) in ids.iter().enumerate() {
            let key = solo.cm.destroy(solo.now, id).unwrap();
            assert_eq!(key.is_some(), left == 1999);
        }
        solo.assert_clean(&[]);
    });
}

#[test]
fn accepted_connections_hold_no_port() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(nanocm_core::ConnState::Established, false);
        assert_eq!(solo.cm.destroy(solo.now, listener), Ok(Some(key("10.0.0.2:0", 7471))));
        // The number is free at once, the connection lives on.
        let again = solo.listen(7471, 0);
        assert_eq!(solo.cm.destroy(solo.now, it.id), Ok(None));
        solo.says(&["DREQ"]);
        solo.assert_clean(&[again]);
    });
}

#[test]
fn a_refused_bind_leaves_all_as_it_was() {
    let world = World::new().of(Capacity { ports: 2, ..Capacity::of(4) });
    world.solo(|mut solo| {
        let address = ScopedIp::of(addr("10.0.0.3:0"));
        let event = PortEvent::GidAdded { address, ca_guid: 3 };
        assert!(solo.cm.handle_port_event(solo.now, event));
        let (one, two) = (idle(&mut solo), idle(&mut solo));
        solo.cm.bind(one, addr("10.0.0.2:5000")).unwrap();
        solo.cm.bind(two, addr("10.0.0.3:5000")).unwrap();
        let three = idle(&mut solo);
        let untouched = format!("{:?}", solo.cm);
        for (local, error) in [
            ("10.0.0.2:5000", BindError::PortInUse),
            ("0.0.0.0:5000", BindError::PortInUse),
            ("[::]:5000", BindError::PortInUse),
            ("10.0.0.4:5000", BindError::AddrNotLocal),
            ("[fe80::1]:5000", BindError::ScopeMissing),
            ("10.0.0.2:6000", BindError::Full),
        ] {
            assert_eq!(solo.cm.bind(three, addr(local)), Err(error), "{local}");
            assert_eq!(format!("{:?}", solo.cm), untouched, "{local}");
        }
        solo.assert_clean(&[one, two, three]);
    });
}

#[test]
fn listeners_answer_for_their_own_address_and_the_wildcard_for_the_rest() {
    let world = World::new().of(Capacity { gids: 6, ..Capacity::of(8) });
    world.solo(|mut solo| {
        for (n, local) in ["10.0.0.3:0", "[fd00::2]:0"].into_iter().enumerate() {
            let address = ScopedIp::of(addr(local));
            let event = PortEvent::GidAdded { address, ca_guid: n as u64 };
            assert!(solo.cm.handle_port_event(solo.now, event));
        }
        let listen = |solo: &mut Solo<'_>, local| {
            let id = idle(solo);
            solo.cm.bind(id, addr(local)).unwrap();
            solo.cm.listen(id, 0).unwrap();
            id
        };
        let mut ids = vec![
            listen(&mut solo, "10.0.0.2:9000"),
            listen(&mut solo, "[::]:9001"),
            listen(&mut solo, "0.0.0.0:9002"),
        ];
        let only_v6 = idle(&mut solo);
        solo.cm.set_option(only_v6, IdOption::AfOnly(true)).unwrap();
        solo.cm.bind(only_v6, addr("[::]:9002")).unwrap();
        solo.cm.listen(only_v6, 0).unwrap();
        ids.push(only_v6);
        let mut refused = 0;
        for (ours, port, listener) in [
            ("10.0.0.2:0", 9000, Some(ids[0])),
            ("10.0.0.3:0", 9000, None),
            ("[fd00::2]:0", 9000, None),
            ("10.0.0.3:0", 9001, Some(ids[1])),
            ("[fd00::2]:0", 9001, Some(ids[1])),
            ("10.0.0.3:0", 9002, Some(ids[2])),
            ("[fd00::2]:0", 9002, Some(ids[3])),
            ("10.0.0.2:0", 9003, None),
        ] {
            let (ours, mut peer) = (addr(ours).ip(), solo.peer());
            peer.ip = if ours.is_ipv4() { peer.ip } else { addr("[fd00::9]:0").ip() };
            let path = Path::Roce(RocePath::new(ours.into(), peer.ip.into()));
            let req = peer.req(ours, port);
            let _ = solo.cm.handle_datagram(solo.now, &path, &req);
            let told = solo.cm.poll_event();
            let asked = told.map(|event| match event.kind {
                EventKind::ConnectRequest { listener, .. } => listener,
                kind => panic!("{kind:?}"),
            });
            assert_eq!(asked, listener, "{ours} {port}");
            refused += u32::from(listener.is_none());
            assert_eq!(solo.cm.counters().no_listener, refused, "here, or anywhere");
            match told {
                Some(event) => ids.push(event.id),
                None => drop(solo.says(&["REJ"])),
            }
        }
        solo.assert_clean(&ids);
    });
}

/// As on Linux: REUSEADDR counts from when it is set, for who comes later and has it too.
#[test]
fn reuse_set_on_a_bound_identifier_counts_for_who_comes_later() {
    World::new().solo(|mut solo| {
        let local = addr("10.0.0.2:9000");
        let [one, two, three] = [(); 3].map(|()| idle(&mut solo));
        solo.cm.set_option(two, IdOption::ReuseAddr(true)).unwrap();
        solo.cm.bind(one, local).unwrap();
        assert_eq!(solo.cm.bind(two, local), Err(BindError::PortInUse));
        solo.cm.set_option(one, IdOption::ReuseAddr(true)).unwrap();
        solo.cm.bind(two, local).unwrap();
        assert_eq!(solo.cm.bind(three, local), Err(BindError::PortInUse));
        assert!(solo.cm.listen(one, 0).is_err());
        solo.cm.destroy(solo.now, two).unwrap();
        solo.cm.listen(one, 0).unwrap();
        solo.cm.set_option(three, IdOption::ReuseAddr(true)).unwrap();
        assert_eq!(solo.cm.bind(three, local), Err(BindError::PortInUse), "there is a listener");
        solo.assert_clean(&[one, three]);
    });
}
