//! Reject reasons and error codes.

use heapless::String;
use nanocm_core::addr::{RocePath, ScopedIp};
use nanocm_core::error::{ConnectError, errno::*};
use nanocm_core::testing::{Pair, Side::*, Solo, World};
use nanocm_core::wire::{Attribute, MessageKind, RejectReason, SidrStatus};
use nanocm_core::{
    ConnParam, ConnState::*, DisconnectCause, Event, EventKind, Failure, Id, Outcome, Path,
    PortEvent, PortSpace, Route, SendToken, ServiceId, Unreachable,
};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// An identifier that has asked the host for a path.
fn asking(solo: &mut Solo<'_>) -> Id {
    let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
    let to = SocketAddr::new(solo.peer_ip, 4420);
    solo.cm.resolve_addr(solo.now, id, None, to, SECOND).unwrap();
    id
}

fn answer(solo: &mut Solo<'_>, outcome: Outcome) {
    let (request, _) = solo.cm.poll_request().unwrap();
    solo.cm.handle_completion(solo.now, request, outcome).unwrap();
}

/// What fails and how it is told: the event's name and its value, which no other kind shares.
type Failing = (&'static str, EventKind, &'static str, fn(&mut Solo<'_>) -> Id);

const FAILINGS: [Failing; 7] = [
    ("ADDR_ERROR", EventKind::AddrError(113), "no path to that address (errno 113)", |solo| {
        let id = asking(solo);
        answer(solo, Outcome::Failed(113));
        id
    }),
    ("ROUTE_ERROR", EventKind::RouteError(113), "no route (errno 113)", |solo| {
        let id = asking(solo);
        let path = solo.path(&solo.peer_at_home());
        answer(solo, Outcome::AddrResolved { path });
        solo.tells(&["ADDR_RESOLVED"]);
        solo.cm.resolve_route(solo.now, id, SECOND).unwrap();
        answer(solo, Outcome::Failed(113));
        id
    }),
    ("UNREACHABLE", EventKind::Unreachable(Unreachable::Timeout), "no answer", |solo| {
        let it = solo.bring(ReqSent, true);
        solo.wait(31 * SECOND);
        it.id
    }),
    (
        "UNREACHABLE",
        EventKind::Unreachable(Unreachable::SendFailed(101)),
        "cannot be sent there (errno 101)",
        |solo| {
            let peer = solo.peer();
            let id = solo.route_to(&peer);
            solo.connect(id);
            for _ in 0..2 {
                let token = SendToken::of(&solo.says(&["REQ"])[0]);
                solo.cm.handle_send_failed(solo.now, token, 101);
                solo.wait(SECOND);
            }
            id
        },
    ),
    (
        "REJECTED",
        EventKind::Rejected(RejectReason::STALE),
        "the peer has an old connection of this queue pair (REJ 10)",
        |solo| {
            let it = solo.bring(ReqSent, true);
            let rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::STALE);
            let _ = solo.hears(&it.peer, &rej);
            it.id
        },
    ),
    (
        "REJECTED",
        EventKind::SidrRejected(SidrStatus::NO_QP),
        "the peer has no queue pair left (SIDR 3)",
        |solo| {
            let it = solo.bring(SidrReqSent, true);
            let _ = solo.hears(&it.peer, &it.peer.sidr_rep(it.comm_id, SidrStatus::NO_QP));
            it.id
        },
    ),
    (
        "CONNECT_ERROR",
        EventKind::ConnectError(ETIMEDOUT),
        "the application did not answer the request in time",
        |solo| {
            let it = solo.bring(ReqRcvd, false);
            solo.wait(61 * SECOND);
            it.id
        },
    ),
];

#[test]
fn c1_every_failure_has_a_kind_and_a_value_that_is_never_negative() {
    // The same through C is ffi's to show; MULTICAST_ERROR comes with multicast.
    for (name, kind, _, fail) in FAILINGS {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let id = fail(&mut solo);
            let told = solo.tells(&[name])[0];
            assert_eq!((told.id, told.kind), (id, kind));
            let value = match told.kind {
                EventKind::AddrError(errno)
                | EventKind::RouteError(errno)
                | EventKind::ConnectError(errno)
                | EventKind::Unreachable(Unreachable::SendFailed(errno)) => errno,
                EventKind::Rejected(reason) => i32::from(reason.0),
                EventKind::SidrRejected(status) => i32::from(status.0),
                _ => 0,
            };
            assert!(value >= 0, "{name}");
            solo.assert_clean(&[listener, id]);
        });
    }
}

/// Four ways not to get a connection; which side is told what.
type Refusal = (&'static str, EventKind, fn(&mut Pair<'_>) -> [Vec<Id>; 2]);

const REFUSALS: [Refusal; 4] = [
    ("nobody listens", EventKind::Rejected(RejectReason::INVALID_SERVICE_ID), |pair| {
        [vec![pair.connect(7471, &[])], vec![]]
    }),
    ("the application says no", EventKind::Rejected(RejectReason::CONSUMER), |pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.reject(B, passive, RejectReason::CONSUMER, &[]);
        [vec![active], vec![listener, passive]]
    }),
    ("nobody answers", EventKind::Unreachable(Unreachable::Timeout), |pair| {
        pair.link.drop_next(Attribute::REQ, 1, u32::MAX);
        [vec![pair.connect(7471, &[])], vec![]]
    }),
    ("the peer aborts", EventKind::Rejected(RejectReason::CONSUMER), |pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.reject(A, active, RejectReason::CONSUMER, &[]);
        [vec![active], vec![listener, passive]]
    }),
];

#[test]
fn c2_refused_reset_and_unreachable_are_three_things_each_told_once() {
    for (how, kind, refuse) in REFUSALS {
        World::new().run(|mut pair| {
            let [a, b] = refuse(&mut pair);
            let side = if how == "the peer aborts" { B } else { A };
            assert_eq!(pair.expect(side, kind.name()).kind(), kind, "{how}");
            pair.run_for(100 * SECOND);
            for side in [A, B] {
                while let Some(told) = pair.node(side).told.pop_front() {
                    assert_eq!(told.kind(), EventKind::TimewaitExit, "{how}: told once more");
                }
            }
            pair.assert_clean(&a, &b);
        });
    }
}

#[test]
fn c3_every_reason_has_a_name_and_a_text() {
    let mut names = BTreeSet::new();
    for code in 0..=255 {
        let reason = RejectReason(code);
        assert!(!reason.text().is_empty() && reason.to_string().contains(&code.to_string()));
        assert_eq!(reason.name().is_some(), matches!(code, 1..=33 | 35), "{code}");
        if let Some(name) = reason.name() {
            assert!(names.insert(name) && names.insert(reason.text()), "{name} is there twice");
            assert_eq!(RejectReason::from_name(name), Some(reason));
        }
    }
}

#[test]
fn c3_who_answers_a_request_that_was_given_up_is_told_so() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(ReqRcvd, false);
        let _ = solo.hears(&it.peer, &it.peer.timeout_rej());
        let (now, qpn) = (solo.now, solo.qpn());
        let gone = Err(ConnectError::AlreadyGone);
        assert_eq!(solo.cm.reject(now, it.id, RejectReason::CONSUMER, &[]), gone);
        assert_eq!(solo.cm.accept(now, it.id, &ConnParam::new(qpn)), gone);
        assert_eq!(ConnectError::AlreadyGone.errno(), ECONNABORTED);
        solo.says(&[]);
        solo.assert_clean(&[it.id, listener]);
    });
}

#[test]
fn c4_no_rejection_is_lost() {
    // The report's three cells; all of them are in `reject.rs`, one state after the other.
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let reason = RejectReason::CONSUMER;
        let told = EventKind::Rejected(reason);
        for (state, active, of, kind) in [
            // The peer has made no record: its own communication ID is 0.
            (ReqSent, true, MessageKind::REQ, told),
            (RepSent, false, MessageKind::REP, told),
            (
                Established,
                false,
                MessageKind::OTHER,
                EventKind::Disconnected(DisconnectCause::Peer),
            ),
        ] {
            let it = solo.bring(state, active);
            let mut peer = it.peer;
            peer.comm_id = if state == ReqSent { 0 } else { peer.comm_id };
            let _ = solo.hears(&peer, &peer.rej(it.comm_id, of, reason));
            assert_eq!(solo.tells(&[kind.name()])[0].kind, kind);
            solo.cm.destroy(solo.now, it.id).unwrap();
        }
        solo.assert_clean(&[listener]);
    });
}

/// What the engine says of an event, in 160 octets that nobody allocated.
fn said(solo: &Solo<'_>, event: &Event) -> String<160> {
    let mut text = String::new();
    write!(text, "{}", solo.cm.failure(event).unwrap()).expect("it fits");
    text
}

#[test]
fn c5_every_failure_says_who_what_and_why() {
    for (name, _, why, fail) in FAILINGS {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let id = fail(&mut solo);
            let told = solo.tells(&[name])[0];
            let (local, peer) = (solo.cm.local_addr(id).unwrap(), solo.cm.peer_addr(id).unwrap());
            let who = match name {
                // As it was before: neither bound nor bound for anywhere.
                "ADDR_ERROR" => "".into(),
                "CONNECT_ERROR" => format!("{peer} -> {local}: "),
                _ => format!("{local} -> {peer}: "),
            };
            assert_eq!(*said(&solo, &told), *format!("{who}{why}"));
            solo.cm.destroy(solo.now, id).unwrap();
            assert_eq!(solo.cm.failure(&told), None, "its addresses are gone");
            solo.assert_clean(&[listener]);
        });
    }
    World::new().solo(|mut solo| {
        let it = solo.bring(Established, true);
        solo.cm.disconnect(solo.now, it.id, &[]).unwrap();
        solo.wait(31 * SECOND);
        let told = solo.tells(&["DISCONNECTED", "TIMEWAIT_EXIT"])[0];
        assert_eq!(solo.cm.failure(&told), None, "the end of a connection is no failed attempt");
    });
}

/// A rejection of a connect between these two; what is said of it.
fn rejected(solo: &mut Solo<'_>, from: &str, to: &str, reason: u16) -> (Failure, String<160>) {
    let [local, remote]: [SocketAddr; 2] = [from, to].map(|text| text.parse().unwrap());
    let now = solo.now;
    let (address, ca_guid) = (ScopedIp::of(local), 1);
    assert!(solo.cm.handle_port_event(now, PortEvent::GidAdded { address, ca_guid }));
    let mut path = RocePath::new(address.gid, remote.ip().into());
    path.scope = address.scope;
    let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
    solo.cm.bind(id, local).unwrap();
    solo.cm.set_route(now, id, remote, &Route::new(Path::Roce(path))).unwrap();
    solo.connect(id);
    let comm_id = nanocm_core::testing::comm_id(&solo.says(&["REQ"])[0]);
    let rej = solo.peer_at_home().rej(comm_id, MessageKind::REQ, RejectReason(reason));
    let _ = solo.cm.handle_datagram(now, &Path::Roce(path), &rej);
    let told = solo.tells(&["REJECTED"])[0];
    let failure = solo.cm.failure(&told).unwrap();
    let text = said(solo, &told);
    solo.cm.destroy(now, id).unwrap();
    (failure, text)
}

#[test]
fn c5_the_longest_rejection_fits_160_octets() {
    // Link-local addresses with the longest scope, and global ones, which have none.
    let far = [
        [
            "[fe80::ffff:ffff:ffff:fffe%4294967295]:65534",
            "[fe80::ffff:ffff:ffff:ffff%4294967295]:65535",
        ],
        [
            "[2001:db80:ffff:ffff:ffff:ffff:ffff:fffe]:65534",
            "[2001:db80:ffff:ffff:ffff:ffff:ffff:ffff]:65535",
        ],
    ];
    World::new().solo(|mut solo| {
        let mut longest = 0;
        for [from, to] in far {
            for reason in RejectReason::ALL.iter().map(|r| r.0).chain([0, 34, u16::MAX]) {
                let (failure, text) = rejected(&mut solo, from, to, reason);
                assert!(text.starts_with(&format!("{from} -> {to}: ")), "{text}");
                assert!(text.ends_with(&format!("(REJ {reason})")), "{text}");
                assert_eq!(failure.local.to_string(), from);
                longest = longest.max(text.len());
            }
        }
        assert_eq!(longest, 160);
        solo.assert_clean(&[]);
    });
}

#[test]
fn c6_nobody_listening_is_said_with_the_port_and_its_space() {
    World::new().solo(|mut solo| {
        let (mut failure, text) = rejected(&mut solo, "192.0.2.1:40000", "192.0.2.2:4420", 8);
        let who = "192.0.2.1:40000 -> 192.0.2.2:4420: no listener for";
        assert_eq!(*text, *format!("{who} RDMA tcp port 4420 (REJ 8)"));
        assert_eq!(failure.service, ServiceId(0x0106_1144));
        failure.kind = EventKind::SidrRejected(SidrStatus::UNSUPPORTED_SERVICE_ID);
        assert_eq!(failure.to_string(), format!("{who} RDMA tcp port 4420 (SIDR 1)"));
        failure.kind = EventKind::Rejected(RejectReason::INVALID_SERVICE_ID);
        failure.service = ServiceId(0x1000_0000_0106_1144);
        let hex = format!("{who} service ID 0x1000000001061144 (REJ 8)");
        assert_eq!(failure.to_string(), hex);
        solo.assert_clean(&[]);
    });
}
