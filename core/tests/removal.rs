//! A device that goes away: who is told, once and in order; what is said no more; what goes on.

use nanocm_core::addr::ScopedIp;
use nanocm_core::error::{BindError, ConnectError, Stale};
use nanocm_core::testing::{Capacity, Solo, World};
use nanocm_core::wire::{MessageKind, RejectReason};
use nanocm_core::{
    ConnParam, ConnState, ConnState::*, DisconnectCause, Event, EventKind, Id, Outcome, PortEvent,
    PortSpace, Route, State,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The second device, and where it is.
const OTHER: u64 = 0x77;
const ELSEWHERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

const GONE: PortEvent = PortEvent::DeviceRemoved { ca_guid: Solo::CA_GUID };

fn large() -> World {
    World::new().of(Capacity::of(64))
}

fn added(ip: IpAddr, ca_guid: u64) -> PortEvent {
    PortEvent::GidAdded { address: ScopedIp::of(SocketAddr::new(ip, 0)), ca_guid }
}

fn port_event(solo: &mut Solo<'_>, event: PortEvent) -> bool {
    solo.cm.handle_port_event(solo.now, event)
}

fn second_device(solo: &mut Solo<'_>) {
    assert!(port_event(solo, added(ELSEWHERE, OTHER)));
}

fn idle(solo: &mut Solo<'_>) -> Id {
    solo.cm.create_id(PortSpace::Tcp, 0).unwrap()
}

fn bound(solo: &mut Solo<'_>, ip: IpAddr) -> Id {
    let id = idle(solo);
    solo.cm.bind(id, SocketAddr::new(ip, 0)).unwrap();
    id
}

fn wildcard_listener(solo: &mut Solo<'_>, space: PortSpace, backlog: u32) -> Id {
    let id = solo.cm.create_id(space, 0).unwrap();
    solo.cm.bind(id, "0.0.0.0:7471".parse().unwrap()).unwrap();
    solo.cm.listen(id, backlog).unwrap();
    id
}

fn resolving(solo: &mut Solo<'_>, source: Option<IpAddr>) -> Id {
    let (id, to) = (idle(solo), SocketAddr::new(solo.peer_ip, 7471));
    let source = source.map(|ip| SocketAddr::new(ip, 0));
    solo.cm.resolve_addr(solo.now, id, source, to, SECOND).unwrap();
    id
}

fn resolved(solo: &mut Solo<'_>) -> Id {
    let id = resolving(solo, None);
    let (request, _) = solo.cm.poll_request().unwrap();
    let path = solo.path(&solo.peer_at_home());
    solo.cm.handle_completion(solo.now, request, Outcome::AddrResolved { path }).unwrap();
    id
}

/// What each identifier is told.
fn stories(events: &[Event]) -> BTreeMap<Id, Vec<EventKind>> {
    let mut stories: BTreeMap<Id, Vec<EventKind>> = BTreeMap::new();
    for event in events {
        stories.entry(event.id).or_default().push(event.kind);
    }
    stories
}

fn told(solo: &mut Solo<'_>) -> BTreeMap<Id, Vec<EventKind>> {
    let events: Vec<_> = std::iter::from_fn(|| solo.cm.poll_event()).collect();
    stories(&events)
}

const REMOVED: EventKind = EventKind::Disconnected(DisconnectCause::Removed);

#[test]
fn everybody_on_the_device_is_told_once_whatever_they_were_doing() {
    // reports I5
    large().solo(|mut solo| {
        second_device(&mut solo);
        let listener = wildcard_listener(&mut solo, PortSpace::Tcp, 0);
        let datagrams = wildcard_listener(&mut solo, PortSpace::Udp, 0);
        let (mut gone, mut stood, mut passive) = (Vec::new(), Vec::new(), Vec::new());
        let ip = solo.ip;
        gone.extend([bound(&mut solo, ip), solo.listen(7472, 0), resolved(&mut solo)]);
        let querying = resolved(&mut solo);
        solo.tells(&["ADDR_RESOLVED"; 2]);
        solo.cm.resolve_route(solo.now, querying, SECOND).unwrap();
        let peer = solo.peer();
        gone.extend([querying, solo.route_to(&peer), resolving(&mut solo, Some(ip))]);
        for state in ConnState::ALL {
            for active in [true, false] {
                let id = solo.bring(state, active).id;
                if solo.cm.peer_addr(id).unwrap().port() != 7471 {
                    passive.push(id);
                }
                let stands = matches!(state, Established | DreqSent);
                if stands { &mut stood } else { &mut gone }.push(id);
            }
        }
        let mut kept = vec![listener, datagrams, idle(&mut solo), resolving(&mut solo, None)];
        kept.push(bound(&mut solo, "0.0.0.0".parse().unwrap()));
        kept.push(bound(&mut solo, ELSEWHERE));
        while solo.cm.poll_request().is_some() {}
        let states: Vec<_> = kept.iter().map(|&id| solo.cm.state(id)).collect();

        solo.remove_device();
        solo.says(&[]);
        let events: Vec<_> = std::iter::from_fn(|| solo.cm.poll_event()).collect();
        let told = stories(&events);
        for event in &events {
            let Some(failure) = solo.cm.failure(event) else { continue };
            assert!(failure.to_string().ends_with(": the device is gone"), "{failure}");
            assert_eq!(failure.is_active, !passive.contains(&event.id), "{failure}");
        }
        for &id in &gone {
            assert_eq!(told.get(&id), Some(&vec![EventKind::DeviceRemoval]), "{id:?}");
        }
        for &id in &stood {
            assert_eq!(told.get(&id), Some(&vec![REMOVED, EventKind::DeviceRemoval]), "{id:?}");
        }
        assert_eq!(told.len(), gone.len() + stood.len(), "nobody else");
        for &id in gone.iter().chain(&stood) {
            assert_eq!(solo.cm.state(id), Ok(State::DeviceRemoval));
            assert_eq!(solo.cm.path(id), Ok(None));
            let refused = solo.cm.connect(solo.now, id, &ConnParam::new(1));
            assert_eq!(refused, Err(ConnectError::DeviceGone));
        }
        assert_eq!(ConnectError::DeviceGone.errno(), nanocm_core::error::errno::ENODEV);
        assert_eq!(kept.iter().map(|&id| solo.cm.state(id)).collect::<Vec<_>>(), states);

        // The wildcard listener goes on with the other device.
        solo.ip = ELSEWHERE;
        let it = solo.bring(Established, false);
        solo.wait(Duration::from_secs(100));
        solo.tells(&["ADDR_ERROR"]);
        solo.says(&[]);
        solo.assert_clean(&[&gone[..], &stood, &kept, &[it.id]].concat());
    });
}

#[test]
fn what_was_not_told_yet_gives_way_but_for_how_a_connection_ended() {
    type Case = (fn(&mut Solo<'_>) -> Id, &'static [EventKind]);
    let cases: [Case; 9] = [
        (
            |solo| {
                let it = solo.bring(RepSent, false);
                let _ = solo.hears(&it.peer, &it.peer.rtu(it.comm_id));
                it.id
            },
            &[EventKind::Established, REMOVED],
        ),
        (
            |solo| {
                let it = solo.bring(RepSent, false);
                let _ = solo.hears(&it.peer, &it.peer.rtu(it.comm_id));
                solo.cm.disconnect(solo.now, it.id, &[]).unwrap();
                it.id
            },
            &[EventKind::Established, REMOVED],
        ),
        (
            |solo| {
                let it = solo.bring(RepSent, false);
                let _ = solo.hears(&it.peer, &it.peer.rtu(it.comm_id));
                let _ = solo.hears(&it.peer, &it.peer.dreq(it.comm_id, it.qpn));
                it.id
            },
            &[EventKind::Established, EventKind::Disconnected(DisconnectCause::Peer)],
        ),
        (
            |solo| {
                let it = solo.bring(Established, true);
                let other = MessageKind::OTHER;
                let rej = it.peer.rej(it.comm_id, other, RejectReason::CONSUMER);
                let _ = solo.hears(&it.peer, &rej);
                it.id
            },
            &[EventKind::Disconnected(DisconnectCause::Peer)],
        ),
        (
            |solo| {
                let it = solo.bring(ReqSent, true);
                let _ = solo.hears(&it.peer, &it.peer.rep(it.comm_id));
                it.id
            },
            &[],
        ),
        (
            |solo| {
                let it = solo.bring(ReqSent, true);
                let rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::CONSUMER);
                let _ = solo.hears(&it.peer, &rej);
                it.id
            },
            &[],
        ),
        (
            |solo| {
                let it = solo.bring(Timewait, true);
                solo.wait(SECOND);
                it.id
            },
            &[],
        ),
        (resolved, &[]),
        (
            |solo| {
                let it = solo.bring(SidrReqSent, true);
                let valid = nanocm_core::wire::SidrStatus::VALID;
                let _ = solo.hears(&it.peer, &it.peer.sidr_rep(it.comm_id, valid));
                it.id
            },
            &[],
        ),
    ];
    for (bring, before) in cases {
        large().solo(|mut solo| {
            let listener = wildcard_listener(&mut solo, PortSpace::Tcp, 0);
            let id = bring(&mut solo);
            solo.remove_device();
            let expected = [before, &[EventKind::DeviceRemoval]].concat();
            assert_eq!(told(&mut solo), BTreeMap::from([(id, expected)]));
            solo.wait(Duration::from_secs(100));
            solo.tells(&[]);
            solo.says(&[]);
            solo.assert_clean(&[listener, id]);
        });
    }
}

#[test]
fn requests_that_nobody_has_seen_vanish_and_leave_room_in_the_backlog() {
    large().solo(|mut solo| {
        second_device(&mut solo);
        let listener = wildcard_listener(&mut solo, PortSpace::Tcp, 2);
        let seen = solo.bring(ReqRcvd, false);
        let unseen = solo.peer();
        let _ = solo.hears(&unseen, &unseen.req(solo.ip, 7471));
        solo.remove_device();
        assert_eq!(solo.tells(&["DEVICE_REMOVAL"])[0].id, seen.id);
        assert_eq!(solo.cm.in_use(), (2, 0));
        solo.says(&[]);
        // Both units of the backlog are free, though the first identifier is there still.
        solo.ip = ELSEWHERE;
        let (one, two) = (solo.bring(ReqRcvd, false), solo.bring(ReqRcvd, false));
        solo.assert_clean(&[listener, seen.id, one.id, two.id]);
    });
}

#[test]
fn nothing_is_said_over_a_device_that_is_gone() {
    // Before anybody is told, and afterwards.
    for told in [false, true] {
        large().solo(|mut solo| {
            let listener = wildcard_listener(&mut solo, PortSpace::Tcp, 0);
            let states = [ReqRcvd, RepRcvd, RepRcvd, DreqRcvd, Established, ReqRcvd, DreqSent];
            let brought = states.map(|state| solo.bring(state, state != ReqRcvd).id);
            let [accepted, made, rejected, ended, ending, refused, forgotten] = brought;
            let (peer, now, cm) = (solo.peer(), solo.now, &mut solo.cm);
            // Each owes something, and so do two that are destroyed.
            cm.accept(now, accepted, &ConnParam::new(0x99)).unwrap();
            cm.establish(now, made, &[]).unwrap();
            cm.reject(now, rejected, RejectReason::CONSUMER, &[]).unwrap();
            cm.disconnect(now, ended, &[]).unwrap();
            cm.disconnect(now, ending, &[]).unwrap();
            cm.destroy(now, refused).unwrap();
            cm.destroy(now, forgotten).unwrap();
            let asking = solo.route_to(&peer);
            solo.connect(asking);
            let ids = [listener, accepted, made, rejected, ended, ending, asking];
            // And the answer to a stranger.
            let stranger = solo.peer();
            let _ = solo.hears(&stranger, &stranger.req(solo.ip, 9999));
            assert!(port_event(&mut solo, GONE));
            if told {
                solo.wait(Duration::ZERO);
                assert_eq!(solo.cm.in_use(), (ids.len(), 0));
                assert_eq!(solo.cm.counters().replies_dropped, 1);
            }
            solo.says(&[]);
            // What is destroyed before it is told is silent too.
            for id in ids {
                solo.cm.destroy(solo.now, id).unwrap();
            }
            solo.says(&[]);
            solo.wait(Duration::from_secs(100));
            solo.says(&[]);
            solo.tells(&[]);
            solo.assert_clean(&[]);
        });
    }
}

#[test]
fn a_goodbye_behind_the_sweep_is_never_said() {
    large().solo(|mut solo| {
        let ids: Vec<_> = (0..40).map(|_| solo.bring(Established, true).id).collect();
        assert!(port_event(&mut solo, GONE));
        let _ = solo.cm.handle_timeout(solo.now, 1);
        for &id in &ids {
            solo.cm.destroy(solo.now, id).unwrap();
        }
        solo.wait(Duration::ZERO);
        assert_eq!(solo.cm.in_use(), (0, 0));
        let address = solo.ip;
        assert!(port_event(&mut solo, added(address, OTHER)));
        solo.wait(Duration::from_secs(100));
        solo.says(&[]);
        solo.assert_clean(&[]);
    });
}

#[test]
fn another_device_goes_on_meanwhile() {
    large().solo(|mut solo| {
        second_device(&mut solo);
        let listener = wildcard_listener(&mut solo, PortSpace::Tcp, 0);
        let here = solo.ip;
        // Destroyed, and waiting for its DREP.
        solo.ip = ELSEWHERE;
        let goodbye = solo.bring(Established, true).id;
        solo.cm.destroy(solo.now, goodbye).unwrap();
        solo.says(&["DREQ"]);
        solo.ip = here;
        // More than are looked at in one poll, all before it in the queue.
        let mut ids = vec![listener];
        for _ in 0..20 {
            let it = solo.bring(ReqRcvd, false);
            solo.accept(it.id);
            ids.push(it.id);
        }
        solo.ip = ELSEWHERE;
        let it = solo.bring(ReqRcvd, false);
        solo.accept(it.id);
        ids.push(it.id);
        assert!(port_event(&mut solo, GONE));
        let mut mad = [0; 256];
        assert!(solo.cm.poll_transmit(solo.now, &mut mad).is_none());
        let sent = solo.cm.poll_transmit(solo.now, &mut mad).expect("the other device's REP");
        assert_eq!(sent.path.local_gid().to_ip(), ELSEWHERE);
        solo.wait(Duration::ZERO);
        solo.says(&[]);
        solo.tells(&["DEVICE_REMOVAL"; 20]);
        assert_eq!(it.states(&solo.cm), (State::Connect, RepSent));
        assert_eq!(solo.cm.in_use().1, 2, "the goodbye waits still");
        // Strangers are answered there.
        let stranger = solo.peer();
        let _ = solo.hears(&stranger, &stranger.req(ELSEWHERE, 9999));
        solo.says(&["REJ"]);
        solo.ip = here;
        solo.assert_clean(&ids);
    });
}

#[test]
fn an_address_can_be_had_again_when_all_have_been_told() {
    // reports I4: another device takes the address; there is no room for a third one meanwhile.
    World::new().of(Capacity { gids: 2, ..Capacity::of(40) }).solo(|mut solo| {
        second_device(&mut solo);
        let ip = solo.ip;
        let old = bound(&mut solo, ip);
        let third: IpAddr = "10.0.0.9".parse().unwrap();
        assert!(port_event(&mut solo, GONE));
        let new = idle(&mut solo);
        let bind = |solo: &mut Solo<'_>| solo.cm.bind(new, SocketAddr::new(ip, 0));
        assert_eq!(bind(&mut solo), Err(BindError::AddrNotLocal));
        let route = Route::new(solo.path(&solo.peer_at_home()));
        let to = SocketAddr::new(solo.peer_ip, 7471);
        assert!(solo.cm.set_route(solo.now, new, to, &route).is_err());
        assert!(!port_event(&mut solo, added(third, 3)));
        assert!(!port_event(&mut solo, added(ip, 3)));
        let removed = PortEvent::GidRemoved { address: ScopedIp::of(SocketAddr::new(ip, 0)) };
        assert!(port_event(&mut solo, removed), "it is gone already");
        assert!(!port_event(&mut solo, added(ip, 3)));
        solo.wait(Duration::ZERO);
        assert_eq!(solo.tells(&["DEVICE_REMOVAL"])[0].id, old);
        assert!(port_event(&mut solo, added(ip, 3)));
        assert!(bind(&mut solo).is_ok());
        assert!(!port_event(&mut solo, added(third, 3)));
        // It is the new device's: the old one's end is not its own, and is told to nobody twice.
        assert!(port_event(&mut solo, GONE));
        assert_eq!(solo.cm.poll_at(), None);
        assert!(port_event(&mut solo, PortEvent::DeviceRemoved { ca_guid: 3 }));
        solo.wait(Duration::ZERO);
        assert_eq!(solo.tells(&["DEVICE_REMOVAL"])[0].id, new);
        solo.assert_clean(&[old, new]);
    });
}

#[test]
fn addresses_that_went_one_by_one_before_their_device_count() {
    large().solo(|mut solo| {
        let ip = solo.ip;
        let ids = [bound(&mut solo, ip), solo.bring(Established, true).id];
        let address = ScopedIp::of(SocketAddr::new(ip, 0));
        assert!(port_event(&mut solo, PortEvent::GidRemoved { address }));
        solo.wait(Duration::ZERO);
        solo.tells(&[]);
        solo.remove_device();
        solo.tells(&["DEVICE_REMOVAL", "DISCONNECTED", "DEVICE_REMOVAL"]);
        solo.assert_clean(&ids);
    });
}

#[test]
fn an_open_question_is_stale() {
    large().solo(|mut solo| {
        let ip = solo.ip;
        let (asked, unasked) = (resolving(&mut solo, Some(ip)), resolving(&mut solo, Some(ip)));
        let (request, _) = solo.cm.poll_request().unwrap();
        solo.remove_device();
        assert_eq!(solo.cm.poll_request(), None);
        let path = solo.path(&solo.peer_at_home());
        let outcome = Outcome::AddrResolved { path };
        assert_eq!(solo.cm.handle_completion(solo.now, request, outcome), Err(Stale));
        solo.tells(&["DEVICE_REMOVAL"; 2]);
        solo.wait(SECOND * 2);
        solo.tells(&[]);
        solo.assert_clean(&[asked, unasked]);
    });
}

#[test]
fn the_way_of_an_identifier_with_the_wildcard_counts_once_it_is_known() {
    large().solo(|mut solo| {
        second_device(&mut solo);
        let (peer, any) = (solo.peer(), "0.0.0.0".parse().unwrap());
        let to = SocketAddr::new(peer.ip, 7471);
        let route = Route::new(solo.path(&peer));
        solo.ip = ELSEWHERE;
        let other = Route::new(solo.path(&peer));
        let [here, there] = [route, other].map(|route| {
            let id = bound(&mut solo, any);
            solo.cm.set_route(solo.now, id, to, &route).unwrap();
            id
        });
        solo.remove_device();
        assert_eq!(solo.tells(&["DEVICE_REMOVAL"])[0].id, here);
        solo.connect(there);
        solo.says(&["REQ"]);
        solo.assert_clean(&[here, there]);
    });
}

#[test]
fn a_few_slots_are_visited_at_a_time_until_all_are() {
    World::new().of(Capacity::of(100)).solo(|mut solo| {
        let ip = solo.ip;
        // The second round begins where the first has ended.
        for _ in 0..2 {
            let ids: Vec<_> = (0..100).map(|_| bound(&mut solo, ip)).collect();
            assert!(port_event(&mut solo, GONE));
            for visited in [16, 32, 48, 64, 80, 96, 100] {
                assert_eq!(solo.cm.poll_at(), Some(solo.now));
                assert_eq!(solo.cm.handle_timeout(solo.now, 1), visited < 100);
                let told = std::iter::from_fn(|| solo.cm.poll_event()).count();
                assert_eq!(told, if visited < 100 { 16 } else { 4 });
            }
            assert_eq!(solo.cm.poll_at(), None);
            for &id in &ids {
                solo.cm.destroy(solo.now, id).unwrap();
            }
            assert!(port_event(&mut solo, added(ip, Solo::CA_GUID)));
        }
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_second_device_that_goes_meanwhile_is_swept_in_full() {
    World::new().of(Capacity::of(100)).solo(|mut solo| {
        second_device(&mut solo);
        let ip = solo.ip;
        let ids: Vec<_> =
            (0..100).map(|n| bound(&mut solo, if n % 2 == 0 { ip } else { ELSEWHERE })).collect();
        assert!(port_event(&mut solo, GONE));
        assert!(solo.cm.handle_timeout(solo.now, 3));
        assert!(port_event(&mut solo, PortEvent::DeviceRemoved { ca_guid: OTHER }));
        assert!(port_event(&mut solo, PortEvent::DeviceRemoved { ca_guid: 0x4711 }));
        assert!(!solo.cm.handle_timeout(solo.now, 8));
        let told = told(&mut solo);
        assert!(ids.iter().all(|id| told[id] == [EventKind::DeviceRemoval]));
        solo.assert_clean(&ids);
    });
}

#[test]
fn goodbyes_are_looked_for_in_every_slot() {
    World::new().of(Capacity { ids: 2, ..Capacity::of(40) }).solo(|mut solo| {
        for _ in 0..40 {
            let id = solo.bring(Established, true).id;
            solo.cm.destroy(solo.now, id).unwrap();
            solo.says(&["DREQ"]);
        }
        assert_eq!(solo.cm.in_use(), (0, 40));
        solo.remove_device();
        assert_eq!(solo.cm.in_use(), (0, 0));
        // There is nothing to look for any more.
        assert!(port_event(&mut solo, GONE));
        assert_eq!(solo.cm.poll_at(), None);
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_port_is_held_until_the_identifier_is_destroyed() {
    large().solo(|mut solo| {
        second_device(&mut solo);
        let old = solo.listen(7471, 0);
        solo.remove_device();
        solo.tells(&["DEVICE_REMOVAL"]);
        let new = idle(&mut solo);
        let any = "0.0.0.0:7471".parse().unwrap();
        assert_eq!(solo.cm.bind(new, any), Err(BindError::PortInUse));
        let key = solo.cm.destroy(solo.now, old).unwrap();
        assert_eq!(key.map(|key| key.port), Some(7471));
        solo.cm.bind(new, any).unwrap();
        solo.cm.listen(new, 0).unwrap();
        solo.assert_clean(&[new]);
    });
}
