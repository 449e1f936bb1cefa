//! Rejections: by the application, by the connection manager, by giving up, by going away; and what
//! a REJ means in each state.

use nanocm_core::error::ConnectError;
use nanocm_core::testing::{Brought, Solo, World, name};
use nanocm_core::testing::{Pair, Side::*};
use nanocm_core::wire::{Mad, MessageKind, Rej, RejectReason, Req};
use nanocm_core::{
    ConnState, ConnState::*, DisconnectCause, Disposition, EventKind, Id, IgnoreReason, PortSpace,
    State,
};
use std::time::Duration;

/// What a message leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Then {
    /// The application is told, and the connection is in this state.
    Tells(&'static str, ConnState),
    /// Nothing but a counter.
    Counts(IgnoreReason),
}
const UNKNOWN: Then = Then::Counts(IgnoreReason::UnknownConnection);
const TOO_LATE: Then = Then::Counts(IgnoreReason::NotForState);
const REJECTED: Then = Then::Tells("REJECTED", Idle);
const ABORTED: Then = Then::Tells("REJECTED", Timewait);
const ENDED: Then = Then::Tells("DISCONNECTED", Timewait);

/// Every state, with the side that has it.
const EVERYWHERE: [(ConnState, bool); 17] = [
    (Idle, true),
    (Idle, false),
    (ReqSent, true),
    (ReqRcvd, false),
    (RepRcvd, true),
    (RepSent, false),
    (Established, true),
    (Established, false),
    (DreqSent, true),
    (DreqSent, false),
    (DreqRcvd, true),
    (DreqRcvd, false),
    (Timewait, true),
    (Timewait, false),
    (RejSent, false),
    (SidrReqSent, true),
    (SidrResolved, true),
];

/// Hands a message to a connection in some state, and sees that it does what it should.
#[track_caller]
fn check(solo: &mut Solo<'_>, it: &Brought, mad: &Mad, then: Then, why: &str) {
    let before = *solo.cm.counters();
    let untouched = it.states(&solo.cm);
    let disposition = solo.hears(&it.peer, mad);
    match then {
        Then::Tells(event, state) => {
            assert_eq!(disposition, Disposition::Accepted, "{why}");
            solo.tells(&[event]);
            assert_eq!(it.states(&solo.cm).1, state, "{why}");
        }
        Then::Counts(reason) => {
            assert_eq!(disposition, Disposition::Ignored(reason), "{why}");
            let counted = solo.cm.counters().ignored_for(reason);
            assert_eq!(counted, before.ignored_for(reason) + 1, "{why}");
            solo.tells(&[]);
            assert_eq!(it.states(&solo.cm), untouched, "{why}");
        }
    }
    solo.says(&[]);
}

/// What a REJ of a REQ, a REP, or something else leads to, each without and with the sender's own
/// communication ID (reports C4).
fn rejs(state: ConnState) -> [Then; 6] {
    match state {
        // The peer's number is not known yet: one that is named cannot be compared.
        ReqSent => [REJECTED, REJECTED, REJECTED, UNKNOWN, REJECTED, UNKNOWN],
        // The peer does not know our number.
        ReqRcvd | RejSent | Idle | SidrReqRcvd | SidrRepSent => [UNKNOWN; 6],
        // There is no connection to reject.
        SidrReqSent | SidrResolved => [UNKNOWN, UNKNOWN, TOO_LATE, UNKNOWN, TOO_LATE, UNKNOWN],
        RepRcvd | RepSent => [UNKNOWN, UNKNOWN, UNKNOWN, ABORTED, UNKNOWN, ABORTED],
        Established | DreqSent => [UNKNOWN, UNKNOWN, UNKNOWN, ENDED, UNKNOWN, ENDED],
        DreqRcvd | Timewait => [UNKNOWN, UNKNOWN, UNKNOWN, TOO_LATE, UNKNOWN, TOO_LATE],
    }
}

#[test]
fn a_rej_means_something_in_each_state_or_is_counted() {
    let kinds = [MessageKind::REQ, MessageKind::REP, MessageKind::OTHER];
    for (state, active) in EVERYWHERE {
        for (at, then) in rejs(state).into_iter().enumerate() {
            let (kind, named) = (kinds[at / 2], at % 2 == 1);
            World::new().solo(|mut solo| {
                let listener = solo.listen(7471, 0);
                let it = solo.bring(state, active);
                let mut peer = it.peer;
                peer.comm_id = if named { peer.comm_id } else { 0 };
                let mut rej = peer.rej(it.comm_id, kind, RejectReason(99));
                Rej(&mut rej).set_private_data(b"why").unwrap();
                let why = format!("REJ of {kind} in {state}, sender named: {named}");
                check(&mut solo, &it, &rej, then, &why);
                if then == REJECTED || then == ABORTED {
                    assert_eq!(solo.cm.private_data(it.id)[..4], *b"why\0");
                }
                solo.assert_clean(&[listener, it.id]);
            });
        }
    }
}

#[test]
fn a_timeout_finds_its_connection_by_the_senders_ca_guid() {
    for (state, active) in EVERYWHERE {
        let then = match state {
            ReqSent | Idle | Timewait => UNKNOWN,
            SidrReqSent | SidrResolved | SidrReqRcvd | SidrRepSent => UNKNOWN,
            ReqRcvd => REJECTED,
            RepRcvd | RepSent => ABORTED,
            Established | DreqSent => ENDED,
            DreqRcvd | RejSent => TOO_LATE,
        };
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            let mut stranger = it.peer;
            stranger.guid += 1;
            check(&mut solo, &it, &stranger.timeout_rej(), UNKNOWN, "another GUID");
            let why = format!("REJ 4 in {state}");
            check(&mut solo, &it, &it.peer.timeout_rej(), then, &why);
            solo.assert_clean(&[listener, it.id]);
        });
    }
}

#[test]
fn a_timeout_says_so() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(ReqRcvd, false);
        let rej = it.peer.timeout_rej();
        assert_eq!(solo.hears(&it.peer, &rej), Disposition::Accepted);
        let told = solo.tells(&["REJECTED"])[0];
        assert_eq!(told.kind, EventKind::Rejected(RejectReason::TIMEOUT));
        assert_eq!(solo.cm.additional_info(it.id), it.peer.guid.to_be_bytes());
        solo.assert_clean(&[listener, it.id]);
    });
}

#[test]
fn a_rejection_carries_reason_data_and_information() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        let mut rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::INVALID_PATH_MTU);
        Rej(&mut rej).set_additional_info(&[0x40]).set_private_data(&[7; 148]).unwrap();
        let _ = solo.hears(&it.peer, &rej);
        let told = solo.tells(&["REJECTED"])[0];
        assert_eq!(told.kind, EventKind::Rejected(RejectReason::INVALID_PATH_MTU));
        assert_eq!(solo.cm.private_data(it.id), [7; 148]);
        assert_eq!(solo.cm.additional_info(it.id), [0x40]);
        solo.cm.reset(it.id).unwrap();
        assert_eq!(solo.cm.private_data(it.id), []);
        assert_eq!(solo.cm.additional_info(it.id), []);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn information_longer_than_its_field_is_cut() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        let mut rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::CONSUMER);
        Rej(&mut rej).set_ari(&[3; 72]).set_reject_info_length(127).set_private_data(&[7]).unwrap();
        let _ = solo.hears(&it.peer, &rej);
        solo.tells(&["REJECTED"]);
        assert_eq!(solo.cm.additional_info(it.id), [3; 72]);
        assert_eq!(solo.cm.private_data(it.id)[..2], [7, 0]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn an_application_rejects_with_any_reason_and_148_octets() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        let reason = RejectReason::VENDOR_OPTION_NOT_SUPPORTED;
        pair.reject(B, passive, reason, &[0x77; 148]);
        let told = pair.expect(A, "REJECTED");
        assert_eq!(told.kind(), EventKind::Rejected(reason));
        assert_eq!(told.data, [0x77; 148]);
        assert_eq!(pair.cm(A).state(active), Ok(State::Connect));
        let sent = pair.node(B).sent[0];
        let rej = Rej(&sent);
        assert_eq!((rej.local_comm_id(), rej.message_rejected()), (0, MessageKind::REQ));
        assert_eq!(rej.transaction_id(), Req(&pair.node(A).sent[0].clone()).transaction_id());
        pair.expect_silence();
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn nobody_listens() {
    World::new().run(|mut pair| {
        let active = pair.connect(7471, &[]);
        let told = pair.expect(A, "REJECTED");
        assert_eq!(told.kind(), EventKind::Rejected(RejectReason::INVALID_SERVICE_ID));
        assert_eq!(pair.cm(B).counters().no_listener, 1);
        assert_eq!(pair.cm(B).in_use(), (0, 0));
        // reports G7: the listener comes, and the same identifier tries again.
        let listener = pair.listen(7471, 0);
        pair.cm(A).reset(active).unwrap();
        let (now, qpn) = (pair.now, pair.node(A).qpn());
        pair.cm(A).connect(now, active, &nanocm_core::ConnParam::new(qpn)).unwrap();
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn the_active_side_may_refuse_a_rep_and_the_passive_side_may_change_its_mind() {
    for side in [A, B] {
        World::new().run(|mut pair: Pair<'_>| {
            let listener = pair.listen(7471, 0);
            let active = pair.connect(7471, &[]);
            let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
            pair.accept(passive, &[]);
            pair.expect(A, "CONNECT_RESPONSE");
            let (own, other, id) = if side == A { (A, B, active) } else { (B, A, passive) };
            pair.reject(own, id, RejectReason::CONSUMER, b"sorry");
            let told = pair.expect(other, "REJECTED");
            assert_eq!(told.kind(), EventKind::Rejected(RejectReason::CONSUMER));
            assert_eq!(told.data[..5], *b"sorry");
            // Both had sent something that a queue pair may have acted upon.
            pair.expect(own, "TIMEWAIT_EXIT");
            pair.expect(other, "TIMEWAIT_EXIT");
            pair.expect_silence();
            pair.assert_clean(&[active], &[listener, passive]);
        });
    }
}

#[test]
fn a_rejection_ends_a_connection_that_stood() {
    World::new().solo(|mut solo| {
        let it = solo.bring(Established, true);
        let rej = it.peer.rej(it.comm_id, MessageKind::OTHER, RejectReason::CONSUMER);
        let _ = solo.hears(&it.peer, &rej);
        let told = solo.tells(&["DISCONNECTED"])[0];
        assert_eq!(told.kind, EventKind::Disconnected(DisconnectCause::Peer));
        assert_eq!(solo.cm.state(it.id), Ok(State::Disconnect));
        // What the application does next is no mistake of its own.
        solo.cm.disconnect(solo.now, it.id, &[]).unwrap();
        solo.says(&[]);
        solo.wait(Duration::from_secs(1));
        solo.tells(&["TIMEWAIT_EXIT"]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn answers_to_what_the_peer_gave_up_say_so() {
    // reports C3. In each case the REJ came, but the application has not heard of it yet.
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(ReqRcvd, false);
        let _ = solo.hears(&it.peer, &it.peer.timeout_rej());
        let qpn = solo.qpn();
        let param = nanocm_core::ConnParam::new(qpn);
        let gone = Err(ConnectError::AlreadyGone);
        assert_eq!(solo.cm.accept(solo.now, it.id, &param), gone);
        assert_eq!(solo.cm.reject(solo.now, it.id, RejectReason::CONSUMER, &[]), gone);
        assert_eq!(solo.cm.disconnect(solo.now, it.id, &[]), gone);
        solo.tells(&["REJECTED"]);
        let active = solo.bring(RepRcvd, true);
        let rej = active.peer.rej(active.comm_id, MessageKind::OTHER, RejectReason::CONSUMER);
        let _ = solo.hears(&active.peer, &rej);
        assert_eq!(solo.cm.establish(solo.now, active.id, &[]), gone);
        solo.tells(&["REJECTED"]);
        let passive = solo.bring(RepSent, false);
        let rej = passive.peer.rej(passive.comm_id, MessageKind::REP, RejectReason::CONSUMER);
        let _ = solo.hears(&passive.peer, &rej);
        assert_eq!(solo.cm.notify_established(solo.now, passive.id), gone);
        solo.tells(&["REJECTED"]);
        solo.says(&[]);
        solo.assert_clean(&[listener, it.id, active.id, passive.id]);
    });
}

/// Who is too late by the engine's own clock is told so, too; who has rejected it itself has not
/// understood.
#[test]
fn answers_that_come_too_late_say_so() {
    World::new().set(|config| config.timers.accept_deadline = Duration::from_secs(5)).solo(
        |mut solo| {
            for (state, answer) in [(ReqRcvd, "REJ"), (ConnState::SidrReqRcvd, "SIDR_REP")] {
                let space = if state == ReqRcvd { PortSpace::Tcp } else { PortSpace::Udp };
                let listener = solo.listen_in(space, 7471, 0);
                let it = solo.bring(state, false);
                solo.wait(Duration::from_secs(6));
                solo.says(&[answer]);
                let qpn = solo.qpn();
                let param = nanocm_core::ConnParam::new(qpn);
                let gone = Err(ConnectError::AlreadyGone);
                for _ in 0..2 {
                    assert_eq!(solo.cm.accept(solo.now, it.id, &param), gone);
                    assert_eq!(solo.cm.reject(solo.now, it.id, RejectReason::CONSUMER, &[]), gone);
                    assert_eq!(solo.cm.notify_established(solo.now, it.id), gone);
                }
                solo.tells(&["CONNECT_ERROR"]);
                assert_eq!(solo.cm.accept(solo.now, it.id, &param), gone);

                let it = solo.bring(state, false);
                solo.cm.reject(solo.now, it.id, RejectReason::CONSUMER, &[]).unwrap();
                solo.says(&[answer]);
                let wrong = Err(ConnectError::InvalidState { state: State::Connect });
                assert_eq!(solo.cm.accept(solo.now, it.id, &param), wrong);
                solo.cm.destroy(solo.now, listener).unwrap();
            }
        },
    );
}

#[test]
fn a_response_that_is_overtaken_by_a_rejection_is_not_told() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        let _ = solo.hears(&it.peer, &it.peer.rep(it.comm_id));
        let rej = it.peer.rej(it.comm_id, MessageKind::OTHER, RejectReason::CONSUMER);
        let _ = solo.hears(&it.peer, &rej);
        solo.tells(&["REJECTED"]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn a_response_that_was_answered_before_it_was_told_is_not_told() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        let _ = solo.hears(&it.peer, &it.peer.rep(it.comm_id));
        solo.cm.establish(solo.now, it.id, &[]).unwrap();
        solo.tells(&["ESTABLISHED"]);
        solo.says(&["RTU"]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn a_request_that_nobody_has_seen_is_given_up_without_a_word() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 1);
        let peer = solo.peer();
        let _ = solo.hears(&peer, &peer.req(solo.ip, 7471));
        let _ = solo.hears(&peer, &peer.timeout_rej());
        solo.tells(&[]);
        assert_eq!(solo.cm.in_use(), (1, 0));
        // Its place in the backlog is free.
        let it = solo.bring(ReqRcvd, false);
        solo.assert_clean(&[listener, it.id]);
    });
}

/// What the peer of a destroyed connection sees.
fn last_word(state: ConnState) -> (&'static [&'static str], Option<(MessageKind, RejectReason)>) {
    let consumer = RejectReason::CONSUMER;
    match state {
        ReqSent => (&["REJ"], Some((MessageKind::OTHER, RejectReason::TIMEOUT))),
        ReqRcvd => (&["REJ"], Some((MessageKind::REQ, consumer))),
        RepRcvd => (&["REJ"], Some((MessageKind::REP, consumer))),
        RepSent => (&["REJ"], Some((MessageKind::OTHER, consumer))),
        Established => (&["DREQ"], None),
        DreqRcvd => (&["DREP"], None),
        // A DREQ is on its way; the others owe nothing.
        DreqSent | Timewait | Idle | RejSent => (&[], None),
        SidrReqRcvd => (&["SIDR_REP"], None),
        SidrReqSent | SidrResolved | SidrRepSent => (&[], None),
    }
}

#[test]
fn destroy_says_a_last_word_that_fits_the_state() {
    for (state, active) in EVERYWHERE {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            solo.cm.destroy(solo.now, it.id).unwrap();
            // A DREQ is repeated until it is answered, and holds its slot; all else is gone when it
            // is said, and waits for nothing but that.
            let waits = matches!(state, Established | DreqSent);
            assert_eq!(solo.cm.poll_at().is_some(), waits, "{state}");
            let (names, reject) = last_word(state);
            let said = solo.says(names);
            if let Some((kind, reason)) = reject {
                let rej = Rej(&said[0]);
                assert_eq!((rej.message_rejected(), rej.reason()), (kind, reason), "{state}");
            }
            assert_eq!(solo.cm.in_use(), (1, usize::from(waits)), "{state}");
            if waits {
                solo.wait(Duration::from_secs(1));
                let dreq = solo.says(&["DREQ"])[0];
                assert_eq!(name(&dreq), "DREQ");
                let _ = solo.hears(&it.peer, &it.peer.drep(it.comm_id));
                assert_eq!(solo.cm.in_use(), (1, 0), "{state}");
            }
            solo.wait(Duration::from_secs(200));
            solo.says(&[]);
            solo.tells(&[]);
            solo.assert_clean(&[listener]);
        });
    }
}

#[test]
fn a_farewell_hears_whatever_ends_it_and_ends() {
    // (what comes, what is answered)
    type End = (fn(&Brought) -> Mad, &'static [&'static str]);
    let ends: [End; 3] = [
        (|it| it.peer.drep(it.comm_id), &[]),
        (|it| it.peer.rej(it.comm_id, MessageKind::OTHER, RejectReason::CONSUMER), &[]),
        (|it| it.peer.dreq(it.comm_id, it.qpn), &["DREP"]),
    ];
    for (end, answer) in ends {
        for sent in [true, false] {
            World::new().solo(|mut solo| {
                let it = solo.bring(Established, true);
                solo.cm.destroy(solo.now, it.id).unwrap();
                if sent {
                    solo.says(&["DREQ"]);
                }
                // Neither asking for patience nor repeating oneself changes anything.
                let _ = solo.hears(&it.peer, &it.peer.mra(it.comm_id, MessageKind::OTHER, 20));
                let _ = solo.hears(&it.peer, &it.peer.rep(it.comm_id));
                let _ = solo.hears(&it.peer, &end(&it));
                solo.says(answer);
                assert_eq!(solo.cm.in_use(), (0, 0));
                solo.tells(&[]);
                solo.assert_clean(&[]);
            });
        }
    }
}

#[test]
fn a_farewell_that_nobody_answers_ends_at_the_deadline() {
    World::new().solo(|mut solo| {
        let it = solo.bring(Established, true);
        solo.cm.destroy(solo.now, it.id).unwrap();
        solo.wait(Duration::from_secs(29));
        solo.says(&["DREQ"]);
        assert_eq!(solo.cm.in_use(), (0, 1));
        solo.wait(Duration::from_secs(2));
        assert_eq!(solo.cm.in_use(), (0, 0));
        solo.says(&[]);
        solo.tells(&[]);
        solo.assert_clean(&[]);
    });
}

#[test]
fn destroying_what_was_destroyed_finds_nothing() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        solo.cm.destroy(solo.now, it.id).unwrap();
        let stale: [Id; 2] = [it.id, Id::from_raw(u64::MAX)];
        for id in stale {
            assert!(solo.cm.destroy(solo.now, id).is_err());
        }
        solo.says(&["REJ"]);
        solo.assert_clean(&[]);
    });
}
