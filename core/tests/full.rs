//! Full is an answer: tables without room, backlogs, rings; who gives way, and what is free again
//! afterwards.

use nanocm_core::error::{CreateError, ResolveError, errno::ETIMEDOUT};
use nanocm_core::testing::{Brought, Capacity, Memory, Side::*, Solo, World, comm_id};
use nanocm_core::wire::{Attribute, MessageKind, Rej, RejectReason};
use nanocm_core::{
    Config, ConnParam, ConnState::*, Disposition, EventKind, Id, IgnoreReason, PortEvent,
    PortSpace, Route, SetupError, Storage, addr::ScopedIp,
};
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn sized(ids: usize, conns: usize) -> World {
    World::new().of(Capacity { ids, conns, ..Capacity::of(ids.max(conns)) })
}

/// A new peer's REQ, and what became of it.
fn ask(solo: &mut Solo<'_>) -> Disposition {
    let peer = solo.peer();
    let req = peer.req(solo.ip, 7471);
    solo.hears(&peer, &req)
}

#[track_caller]
fn expect_no_resources(solo: &mut Solo<'_>) {
    let before = solo.cm.in_use();
    assert_eq!(ask(solo), Disposition::Accepted);
    let rej = solo.says(&["REJ"])[0];
    assert_eq!(Rej(&rej).reason(), RejectReason::NO_RESOURCES);
    solo.tells(&[]);
    assert_eq!(solo.cm.in_use(), before);
}

#[test]
fn a_request_without_a_connection_slot_is_rejected() {
    sized(9, 2).solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let (one, two) = (solo.bring(Established, true), solo.bring(ReqRcvd, false));
        expect_no_resources(&mut solo);
        assert_eq!(solo.cm.counters().no_resources, 1);
        solo.assert_clean(&[listener, one.id, two.id]);
    });
}

#[test]
fn a_request_without_an_identifier_is_rejected() {
    sized(3, 9).solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let one = solo.bring(ReqRcvd, false);
        let idle = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
        assert_eq!(solo.cm.create_id(PortSpace::Tcp, 0), Err(CreateError::Full));
        expect_no_resources(&mut solo);
        solo.assert_clean(&[listener, one.id, idle]);
    });
}

#[test]
fn an_operation_without_a_slot_changes_nothing() {
    sized(9, 1).solo(|mut solo| {
        let one = solo.bring(Established, true);
        let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
        let untouched = format!("{:?}", solo.cm);
        let to = SocketAddr::new(solo.peer_ip, 7471);
        let source = SocketAddr::new(solo.ip, 0);
        for source in [None, Some(source)] {
            let refused = solo.cm.resolve_addr(solo.now, id, source, to, SECOND);
            assert_eq!(refused, Err(ResolveError::Full));
        }
        let route = Route::new(solo.path(&one.peer));
        let refused = solo.cm.set_route(solo.now, id, to, &route);
        assert_eq!(refused, Err(ResolveError::Full));
        assert_eq!(format!("{:?}", solo.cm), untouched);
        solo.assert_clean(&[one.id, id]);
    });
}

#[test]
fn a_full_backlog_is_silent_until_there_is_room() {
    sized(16, 16).solo(|mut solo| {
        let listener = solo.listen(7471, 4);
        let peers: Vec<_> = (0..6).map(|_| solo.peer()).collect();
        let hear_all = |solo: &mut Solo<'_>| {
            for peer in &peers {
                let _ = solo.hears(peer, &peer.req(solo.ip, 7471));
            }
        };
        hear_all(&mut solo);
        let ids: Vec<_> = solo.tells(&["CONNECT_REQUEST"; 4]).iter().map(|e| e.id).collect();
        solo.says(&[]);
        assert_eq!(solo.cm.counters().ignored_for(IgnoreReason::BacklogFull), 2);
        solo.accept(ids[0]);
        solo.cm.reject(solo.now, ids[3], RejectReason::CONSUMER, &[]).unwrap();
        solo.says(&["REP", "REJ"]);
        // The peers repeat themselves: two are duplicates that are answered again, two must have
        // patience, two are new.
        hear_all(&mut solo);
        let more: Vec<_> = solo.tells(&["CONNECT_REQUEST"; 2]).iter().map(|e| e.id).collect();
        solo.says(&["REP", "MRA", "MRA", "REJ"]);
        assert_eq!(solo.cm.counters().ignored_for(IgnoreReason::BacklogFull), 2);
        assert_eq!(ask(&mut solo), Disposition::Ignored(IgnoreReason::BacklogFull));
        solo.assert_clean(&[&ids[..], &more, &[listener]].concat());
    });
}

#[test]
fn a_backlog_that_nobody_chose_is_the_engines_and_never_none() {
    let default: [fn(&mut Config); 3] =
        [|c| c.default_backlog = 0, |c| c.default_backlog = 1, |c| c.default_backlog = 2];
    for (places, adjust) in [1, 1, 2].into_iter().zip(default) {
        sized(9, 9).set(adjust).solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            for _ in 0..places {
                assert_eq!(ask(&mut solo), Disposition::Accepted);
            }
            assert_eq!(ask(&mut solo), Disposition::Ignored(IgnoreReason::BacklogFull));
            let requests = solo.tells(&["CONNECT_REQUEST", "CONNECT_REQUEST"][..places]);
            let ids: Vec<_> = requests.iter().map(|event| event.id).collect();
            solo.assert_clean(&[&ids[..], &[listener]].concat());
        });
    }
}

/// How a request stops waiting, seen by the application or not.
type Leaving = (&'static str, bool, fn(&mut Solo<'_>, &Brought));

const LEAVINGS: [Leaving; 8] = [
    ("accepted", true, |solo, it| solo.accept(it.id)),
    ("rejected", true, |solo, it| {
        solo.cm.reject(solo.now, it.id, RejectReason::CONSUMER, &[]).unwrap();
    }),
    ("destroyed", true, |solo, it| {
        solo.cm.destroy(solo.now, it.id).unwrap();
    }),
    ("given up by the peer", true, |solo, it| {
        let _ = solo.hears(&it.peer, &it.peer.timeout_rej());
    }),
    ("given up by the peer, unseen", false, |solo, it| {
        let _ = solo.hears(&it.peer, &it.peer.timeout_rej());
    }),
    ("too late", true, |solo, _| solo.wait(Duration::from_secs(61))),
    ("too late, unseen", false, |solo, _| solo.wait(Duration::from_secs(61))),
    ("stale", true, |solo, it| {
        let mut peer = it.peer;
        peer.comm_id += 1;
        let _ = solo.hears(&peer, &peer.req(solo.ip, 7471));
    }),
];

#[test]
fn whoever_stops_waiting_leaves_one_place() {
    for (how, seen, leave) in LEAVINGS {
        sized(16, 16).solo(|mut solo| {
            let listener = solo.listen(7471, 1);
            let mut ids = vec![listener];
            for _ in 0..3 {
                let mut it = Brought { peer: solo.peer(), id: listener, comm_id: 0, qpn: 0 };
                let req = it.peer.req(solo.ip, 7471);
                assert_eq!(solo.hears(&it.peer, &req), Disposition::Accepted, "{how}");
                let full = Disposition::Ignored(IgnoreReason::BacklogFull);
                assert_eq!(ask(&mut solo), full, "{how}");
                if seen {
                    it.id = solo.tells(&["CONNECT_REQUEST"])[0].id;
                }
                leave(&mut solo, &it);
                while solo.cm.poll_event().is_some() {}
                if seen && solo.cm.state(it.id).is_ok() {
                    ids.push(it.id);
                }
            }
            solo.assert_clean(&ids);
        });
    }
}

#[test]
fn a_request_that_is_not_answered_in_time_is_rejected_and_told() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(ReqRcvd, false);
        solo.wait(Duration::from_secs(59));
        solo.says(&[]);
        solo.wait(2 * SECOND);
        let rej = solo.says(&["REJ"])[0];
        assert_eq!(Rej(&rej).reason(), RejectReason::CONSUMER);
        let told = solo.tells(&["CONNECT_ERROR"])[0];
        assert_eq!(told.kind, EventKind::ConnectError(ETIMEDOUT));
        assert_eq!(solo.cm.counters().accept_overdue, 1);
        let qpn = solo.qpn();
        assert!(solo.cm.accept(solo.now, it.id, &ConnParam::new(qpn)).is_err());
        // The peer that repeats its REQ hears the same again.
        let req = it.peer.req(solo.ip, 7471);
        assert_eq!(solo.hears(&it.peer, &req), Disposition::Duplicate);
        solo.says(&["REJ"]);
        solo.assert_clean(&[listener, it.id]);
    });
}

#[test]
fn requests_outlive_their_listener_only_if_somebody_has_seen_them() {
    // However the application polls: what comes of the destroyed listener is there to be polled.
    for events_first in [true, false] {
        sized(16, 16).solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let seen = solo.bring(ReqRcvd, false);
            for _ in 0..5 {
                assert_eq!(ask(&mut solo), Disposition::Accepted);
            }
            solo.cm.destroy(solo.now, listener).unwrap();
            if events_first {
                solo.tells(&[]);
                solo.says(&["REJ"; 5]);
            } else {
                solo.says(&["REJ"; 5]);
                solo.tells(&[]);
            }
            assert_eq!(solo.cm.in_use(), (1, 1));
            solo.accept(seen.id);
            solo.says(&["REP"]);
            assert_eq!(ask(&mut solo), Disposition::Accepted);
            let rej = solo.says(&["REJ"])[0];
            assert_eq!(Rej(&rej).reason(), RejectReason::INVALID_SERVICE_ID);
            // Another listener is another listener.
            let listener = solo.listen(7471, 1);
            assert_eq!(ask(&mut solo), Disposition::Accepted);
            solo.tells(&["CONNECT_REQUEST"]);
            solo.cm.destroy(solo.now, listener).unwrap();
        });
    }
}

#[test]
fn an_event_before_an_orphan_is_told() {
    sized(16, 16).solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(ReqSent, true);
        assert_eq!(ask(&mut solo), Disposition::Accepted);
        let _ = solo.hears(&it.peer, &it.peer.rep(it.comm_id));
        assert_eq!(ask(&mut solo), Disposition::Accepted);
        solo.cm.destroy(solo.now, listener).unwrap();
        solo.tells(&["CONNECT_RESPONSE"]);
        solo.says(&["REJ", "REJ"]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn farewells_give_way_to_new_connections_the_oldest_first() {
    sized(9, 3).solo(|mut solo| {
        let olds: Vec<_> = (0..3).map(|_| solo.bring(Established, true)).collect();
        for old in &olds {
            solo.cm.destroy(solo.now, old.id).unwrap();
        }
        solo.says(&["DREQ"; 3]);
        assert_eq!(solo.cm.in_use(), (0, 3));
        let new = solo.bring(ReqSent, true);
        assert_eq!(solo.cm.counters().farewells_dropped, 1);
        // The oldest is forgotten, the others wait for their answer.
        solo.wait(SECOND);
        let mut mad = [0; 256];
        let mut said: Vec<_> =
            std::iter::from_fn(|| solo.cm.poll_transmit(solo.now, &mut mad).map(|_| comm_id(&mad)))
                .collect();
        said.sort();
        let mut remembered = [olds[1].comm_id, olds[2].comm_id, new.comm_id];
        remembered.sort();
        assert_eq!(said, remembered);
        let _ = solo.hears(&olds[1].peer, &olds[1].peer.drep(olds[1].comm_id));
        let another = solo.bring(ReqSent, true);
        assert_eq!(solo.cm.counters().farewells_dropped, 1, "there was room");
        solo.assert_clean(&[new.id, another.id]);
    });
}

#[test]
fn an_operation_that_is_refused_costs_no_farewell() {
    sized(9, 1).solo(|mut solo| {
        let old = solo.bring(Established, true);
        solo.cm.destroy(solo.now, old.id).unwrap();
        let [holder, id] = [(); 2].map(|()| solo.cm.create_id(PortSpace::Tcp, 0).unwrap());
        let source = SocketAddr::new(solo.ip, 5000);
        solo.cm.bind(holder, source).unwrap();
        let to = SocketAddr::new(solo.peer_ip, 7471);
        let refused = solo.cm.resolve_addr(solo.now, id, Some(source), to, SECOND);
        assert!(matches!(refused, Err(ResolveError::Bind { .. })));
        assert_eq!(solo.cm.counters().farewells_dropped, 0);
        assert_eq!(solo.cm.in_use().1, 1);
        solo.assert_clean(&[holder, id]);
    });
}

#[test]
fn answers_beyond_the_ring_are_dropped_and_counted() {
    World::new().of(Capacity { replies: 2, ..Capacity::of(4) }).solo(|mut solo| {
        for _ in 0..5 {
            assert_eq!(ask(&mut solo), Disposition::Accepted);
        }
        solo.says(&["REJ", "REJ"]);
        assert_eq!(solo.cm.counters().replies_dropped, 3);
        assert_eq!(ask(&mut solo), Disposition::Accepted);
        solo.says(&["REJ"]);
        solo.assert_clean(&[]);
    });
}

#[test]
fn answers_to_strangers_come_in_order_and_before_all_else() {
    World::new().of(Capacity { replies: 3, ..Capacity::of(4) }).solo(|mut solo| {
        for round in 0..5 {
            let it = solo.bring(Established, true);
            solo.cm.disconnect(solo.now, it.id, &[]).unwrap();
            let peers: Vec<_> = (0..=round % 3).map(|_| solo.peer()).collect();
            for peer in &peers {
                let _ = solo.hears(peer, &peer.req(solo.ip, 9));
            }
            let names = [&vec!["REJ"; peers.len()][..], &["DREQ"]].concat();
            let said = solo.says(&names);
            for (rej, peer) in said.iter().zip(&peers) {
                assert_eq!(Rej(rej).remote_comm_id(), peer.comm_id);
            }
            let _ = solo.hears(&it.peer, &it.peer.drep(it.comm_id));
            solo.tells(&["DISCONNECTED"]);
            solo.cm.destroy(solo.now, it.id).unwrap();
        }
        solo.assert_clean(&[]);
    });
}

#[test]
fn answers_go_before_requests() {
    sized(16, 16).solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(ReqRcvd, false);
        let peer = solo.peer();
        let ids: Vec<_> = (0..3).map(|_| solo.route_to(&peer)).collect();
        for &id in &ids {
            solo.connect(id);
        }
        solo.accept(it.id);
        solo.says(&["REP", "REQ", "REQ", "REQ"]);
        solo.assert_clean(&[&ids[..], &[listener, it.id]].concat());
    });
}

#[test]
fn clean_means_that_nothing_is_left() {
    World::new().solo(|mut solo| {
        assert!(solo.cm.is_clean());
        let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
        assert!(!solo.cm.is_clean(), "an identifier");
        solo.cm.destroy(solo.now, id).unwrap();
        assert_eq!(ask(&mut solo), Disposition::Accepted);
        assert!(!solo.cm.is_clean(), "an answer to a stranger");
        solo.says(&["REJ"]);
        let it = solo.bring(Established, true);
        solo.cm.destroy(solo.now, it.id).unwrap();
        assert!(!solo.cm.is_clean(), "a farewell");
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_full_gid_table_says_so() {
    World::new().of(Capacity { gids: 2, ..Capacity::of(4) }).solo(|mut solo| {
        let address = |last| ScopedIp::of(SocketAddr::from(([10, 0, 0, last], 0)));
        let add = |solo: &mut Solo<'_>, last| {
            let event = PortEvent::GidAdded { address: address(last), ca_guid: 1 };
            solo.cm.handle_port_event(solo.now, event)
        };
        assert!(add(&mut solo, 5));
        assert!(!add(&mut solo, 6));
        assert!(add(&mut solo, 5), "known ones are updated");
        let gone = PortEvent::GidRemoved { address: address(5) };
        assert!(solo.cm.handle_port_event(solo.now, gone));
        assert!(add(&mut solo, 6));
        solo.assert_clean(&[]);
    });
}

#[test]
fn an_engine_is_not_made_of_parts_that_do_not_fit() {
    let good = Capacity::of(4);
    let outcome = |capacity: Capacity, adjust: fn(&mut Config)| {
        let mut config = Config::new(1);
        adjust(&mut config);
        Memory::new(capacity).engine(config).err()
    };
    assert_eq!(outcome(good, |_| {}), None);
    for capacity in [
        Capacity { ids: 0, ..good },
        Capacity { conns: 0, ..good },
        Capacity { replies: 0, ..good },
        Capacity { ports: 0, ..good },
        Capacity { ports: 1, ..good },
        Capacity { gids: 0, ..good },
    ] {
        assert_eq!(outcome(capacity, |_| {}), Some(SetupError::NoStorage), "{capacity:?}");
    }
    let small_map = Capacity { map: 100, ..good };
    assert_eq!(outcome(small_map, |_| {}), Some(SetupError::PortMapTooSmall));
    type Case = (fn(&mut Config), SetupError);
    let cases: [Case; 5] = [
        (|config| config.comm_id_prefix = (0, 9), SetupError::BadPrefix),
        (|config| config.comm_id_prefix = (4, 2), SetupError::BadPrefix),
        (|config| config.port_range = (0, 10), SetupError::BadPortRange),
        (|config| config.port_range = (11, 10), SetupError::BadPortRange),
        (|config| config.port_range = (1, 65_535), SetupError::PortMapTooSmall),
    ];
    for (adjust, error) in cases {
        assert_eq!(outcome(good, adjust), Some(error));
        assert!(!error.to_string().is_empty());
    }
    let mut storage = Storage::<2, 2, 1, 2, 1, 64>::new();
    let mut parts = storage.parts();
    parts.deadlines = &mut [];
    let mut config = Config::new(1);
    config.port_range = (1, 100);
    assert_eq!(nanocm_core::Cm::new(parts, config).err(), Some(SetupError::TooFewDeadlines));
}

#[test]
fn communication_ids_keep_their_prefix() {
    let world = World::new().set(|config| config.comm_id_prefix = (0xa5, 8));
    world.run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let (active, passive) = pair.established(7471);
        for side in [A, B] {
            let first = pair.node(side).sent[0];
            assert_eq!(comm_id(&first) >> 24, 0xa5);
        }
        pair.link.drop_next(Attribute::DREP, 0, 0);
        pair.assert_clean(&[active], &[listener, passive]);
    });
    // Numbers with another prefix are another program's.
    world.solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        let rej = it.peer.rej(it.comm_id ^ 1 << 31, MessageKind::REQ, RejectReason::CONSUMER);
        let unknown = Disposition::Ignored(IgnoreReason::UnknownConnection);
        assert_eq!(solo.hears(&it.peer, &rej), unknown);
        let ids: [Id; 1] = [it.id];
        solo.assert_clean(&ids);
    });
}
