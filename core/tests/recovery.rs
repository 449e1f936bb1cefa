//! What happens to a connection when messages are lost, repeated or late: who says what again, how
//! often, until when, and what the applications hear of it.

use nanocm_core::testing::{Capacity, Pair, Side::*, Solo, World};
use nanocm_core::wire::{Attribute, Dreq, MessageKind, Rej, RejectReason, Rtu};
use nanocm_core::{ConnParam, ConnState, DisconnectCause, EventKind, Instant, Unreachable};
use std::time::Duration;

const FOR_EVER: u32 = u32::MAX;
const TIMEOUT: EventKind = EventKind::Unreachable(Unreachable::Timeout);

/// Towards which side.
const TO_A: usize = 0;
const TO_B: usize = 1;

fn since(start: Instant, pair: &Pair<'_>) -> Duration {
    pair.now.saturating_since(start)
}

/// Within a few milliseconds: ticks round up, and the link takes its time.
#[track_caller]
fn assert_about(time: Duration, seconds: u64) {
    let (from, to) = (Duration::from_secs(seconds), Duration::from_millis(seconds * 1000 + 5));
    assert!((from..to).contains(&time), "{time:?}, not {seconds} s");
}

/// The same exchange with one kind of message lost `count` times.
fn losing(message: Attribute, to: usize, count: u32, test: impl Fn(Pair<'_>)) {
    World::new().run(|mut pair| {
        pair.link.drop_next(message, to, count);
        test(pair);
    });
}

#[test]
fn a_lost_req_is_sent_again_after_one_two_and_four_seconds() {
    for (lost, seconds, reqs) in [(1, 1, 2), (2, 3, 3), (3, 7, 4), (4, 15, 5)] {
        losing(Attribute::REQ, TO_B, lost, |mut pair| {
            let (start, listener) = (pair.now, pair.listen(7471, 0));
            let (active, passive) = pair.established(7471);
            assert_about(since(start, &pair), seconds);
            let sent = pair.node(A).sent.clone();
            assert!(sent[..reqs].iter().all(|req| *req == sent[0]), "octet for octet");
            assert_eq!(pair.node(A).sent_names()[reqs - 1..], ["REQ", "RTU"]);
            assert_eq!(pair.cm(A).counters().retransmitted, lost);
            pair.assert_clean(&[active], &[listener, passive]);
        });
    }
}

#[test]
fn a_dead_peer_is_unreachable_at_the_deadline_and_told_once() {
    losing(Attribute::REQ, TO_B, FOR_EVER, |mut pair| {
        let (start, listener) = (pair.now, pair.listen(7471, 0));
        let active = pair.connect(7471, &[]);
        assert_eq!(pair.expect(A, "UNREACHABLE").kind(), TIMEOUT);
        assert_about(since(start, &pair), 30);
        let names = ["REQ", "REQ", "REQ", "REQ", "REQ", "REJ"];
        assert_eq!(pair.node(A).sent_names(), names);
        let last = *pair.node(A).sent.last().unwrap();
        let rej = Rej(&last);
        assert_eq!(
            (rej.reason(), rej.message_rejected()),
            (RejectReason::TIMEOUT, MessageKind::OTHER)
        );
        assert_eq!((rej.remote_comm_id(), rej.reject_info_length()), (0, 8));
        assert_eq!(rej.additional_info(), 0x0200_0000_0000_0001u64.to_be_bytes());
        pair.run_for(Duration::from_secs(100));
        pair.expect_silence();
        assert_eq!(pair.node(A).sent_names(), names);
        pair.assert_clean(&[active], &[listener]);
    });
}

#[test]
fn the_user_bounds_an_attempt_by_time_and_by_retries() {
    let seconds = |n| Some(Duration::from_secs(n));
    for (timeout, retries, end, reqs) in [
        (seconds(5), None, 5, 3),
        (seconds(1), None, 1, 1),
        (seconds(100), None, 100, 7),
        (None, Some(0), 1, 1),
        (None, Some(2), 7, 3),
        (seconds(2), Some(9), 2, 2),
    ] {
        losing(Attribute::REQ, TO_B, FOR_EVER, |mut pair| {
            let start = pair.now;
            let active = pair.route_to(7471);
            let mut param = ConnParam::new(0x11);
            (param.timeout, param.retries) = (timeout, retries);
            pair.cm(A).connect(start, active, &param).unwrap();
            assert_eq!(pair.expect(A, "UNREACHABLE").kind(), TIMEOUT);
            assert_about(since(start, &pair), end);
            assert_eq!(pair.node(A).sent.len(), reqs + 1, "{timeout:?} {retries:?}");
            pair.assert_clean(&[active], &[]);
        });
    }
}

/// A connection whose application takes so long to accept; how often A has sent its REQ.
fn accepted_after(pair: &mut Pair<'_>, millis: u64) -> usize {
    let before = pair.node(A).sent.len();
    pair.connect(7471, &[]);
    let request = pair.expect(B, "CONNECT_REQUEST").event.id;
    pair.run_for(Duration::from_millis(millis));
    pair.accept(request, &[]);
    let active = pair.expect(A, "CONNECT_RESPONSE").event.id;
    let reqs = pair.node(A).sent.len() - before;
    pair.establish(active, &[]);
    pair.expect(A, "ESTABLISHED");
    pair.expect(B, "ESTABLISHED");
    reqs
}

#[test]
fn while_peers_answer_slowly_nothing_is_sent_again_too_soon() {
    let never = World::new().set(|config| config.timers.put_off = Duration::ZERO);
    for (world, reqs) in [(World::new(), 1), (never, 2)] {
        world.run(|mut pair| {
            pair.listen(7471, 0);
            assert_eq!(accepted_after(&mut pair, 900), 1);
            // Answers take 0.9 s: after 1 s this one may still come.
            assert_eq!(accepted_after(&mut pair, 1_200), reqs);
        });
    }
}

#[test]
fn what_is_lost_while_peers_answer_slowly_is_sent_again_a_little_later() {
    // Answers take so long: then it is put off from 1 s to 3, never beyond.
    for (answers, seconds) in [(&[400][..], 1), (&[900], 3), (&[900, 1_700, 2_900], 3)] {
        World::new().run(|mut pair| {
            pair.listen(7471, 0);
            for &answer in answers {
                assert_eq!(accepted_after(&mut pair, answer), 1);
            }
            pair.link.drop_next(Attribute::REQ, TO_B, 1);
            let start = pair.now;
            pair.connect(7471, &[]);
            pair.expect(B, "CONNECT_REQUEST");
            assert_about(since(start, &pair), seconds);
        });
    }
}

#[test]
fn an_attempt_without_time_for_more_is_not_put_off() {
    // Answers take 2.9 s: what comes due after 1 s would be put off to 3 s.
    let seconds = |n| Some(Duration::from_secs(n));
    for (timeout, retries, end, reqs) in
        [(seconds(2), None, 2, 2), (seconds(5), None, 5, 2), (seconds(5), Some(1), 5, 2)]
    {
        World::new().run(|mut pair| {
            let listener = pair.listen(7471, 0);
            for answer in [900, 1_700, 2_900] {
                assert_eq!(accepted_after(&mut pair, answer), 1);
            }
            pair.link.drop_next(Attribute::REQ, TO_B, FOR_EVER);
            let (start, before) = (pair.now, pair.node(A).sent.len());
            let active = pair.route_to(7471);
            let mut param = ConnParam::new(0x99);
            (param.timeout, param.retries) = (timeout, retries);
            pair.cm(A).connect(start, active, &param).unwrap();
            assert_eq!(pair.expect(A, "UNREACHABLE").kind(), TIMEOUT);
            assert_about(since(start, &pair), end);
            // And the REJ that gives up.
            assert_eq!(pair.node(A).sent.len() - before, reqs + 1, "{timeout:?} {retries:?}");
            let _ = listener;
        });
    }
}

#[test]
fn who_asks_us_slowly_does_not_slow_down_what_we_ask() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let slow = solo.bring(ConnState::RepSent, false);
        solo.wait(Duration::from_millis(900));
        let _ = solo.hears(&slow.peer, &slow.peer.rtu(slow.comm_id));
        solo.tells(&["ESTABLISHED"]);
        let passive = solo.bring(ConnState::RepSent, false);
        let active = solo.bring(ConnState::ReqSent, true);
        solo.wait(Duration::from_millis(1_001));
        solo.says(&["REQ"]);
        solo.wait(Duration::from_secs(2));
        solo.says(&["REP", "REQ"]);
        solo.assert_clean(&[listener, slow.id, passive.id, active.id]);
    });
}

#[test]
fn a_lossy_wire_is_no_slow_peer() {
    World::new().run(|mut pair| {
        pair.listen(7471, 0);
        for _ in 0..3 {
            pair.link.drop_next(Attribute::REQ, TO_B, 1);
            let start = pair.now;
            pair.established(7471);
            assert_about(since(start, &pair), 1);
        }
    });
}

#[test]
fn a_rep_is_sent_again_until_its_rtu_comes_or_the_time_is_up() {
    for (timeout, retries, end, reps) in [
        (None, None, 30, 4),
        (Some(Duration::from_secs(5)), None, 5, 3),
        (None, Some(1), 30, 2),
        (None, Some(0), 30, 1),
        (Some(Duration::from_secs(5)), Some(1), 5, 2),
        (None, Some(254), 30, 5),
    ] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(ConnState::ReqRcvd, false);
            let start = solo.now;
            let mut param = ConnParam::new(0x77);
            (param.timeout, param.retries) = (timeout, retries);
            solo.cm.accept(solo.now, it.id, &param).unwrap();
            let rep = solo.says(&["REP"])[0];
            let mut sent = 1;
            let told = loop {
                let at = solo.cm.poll_at().expect("a deadline");
                solo.wait(at.saturating_since(solo.now));
                if let Some(event) = solo.cm.poll_event() {
                    break event;
                }
                let mut mad = [0; 256];
                if solo.cm.poll_transmit(solo.now, &mut mad).is_some() {
                    assert_eq!(mad, rep);
                    sent += 1;
                }
            };
            assert_eq!((told.kind, sent), (TIMEOUT, reps));
            assert_about(solo.now.saturating_since(start), end);
            let rej = solo.says(&["REJ"])[0];
            let rej = Rej(&rej);
            assert_eq!(rej.reason(), RejectReason::TIMEOUT);
            assert_eq!(rej.remote_comm_id(), it.peer.comm_id);
            assert_eq!(rej.additional_info(), 0x0200_00b0u64.to_be_bytes());
            solo.wait(Duration::from_secs(1));
            solo.tells(&["TIMEWAIT_EXIT"]);
            solo.assert_clean(&[listener, it.id]);
        });
    }
}

#[test]
fn a_lost_rep_is_sent_again_as_soon_as_the_req_is() {
    for (lost, seconds) in [(1, 1), (2, 2), (3, 3)] {
        losing(Attribute::REP, TO_A, lost, |mut pair| {
            let (start, listener) = (pair.now, pair.listen(7471, 0));
            let (active, passive) = pair.established(7471);
            // The REQ comes again after 1 and 3 s; in between the REP's own timer runs out.
            assert_about(since(start, &pair), seconds);
            let reps = lost as usize + 1;
            assert_eq!(pair.node(B).sent_names(), vec!["REP"; reps]);
            let sent = pair.node(B).sent.clone();
            assert!(sent.iter().all(|rep| *rep == sent[0]), "octet for octet");
            pair.assert_clean(&[active], &[listener, passive]);
        });
    }
}

#[test]
fn reps_that_never_arrive_end_both_sides_once() {
    losing(Attribute::REP, TO_A, FOR_EVER, |mut pair| {
        let (start, listener) = (pair.now, pair.listen(7471, 0));
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.accept(passive, &[]);
        assert_eq!(pair.expect(A, "UNREACHABLE").kind(), TIMEOUT);
        assert_about(since(start, &pair), 30);
        // Our REJ 4 finds the peer by our CA GUID.
        let rejected = pair.expect(B, "REJECTED");
        assert_eq!(rejected.kind(), EventKind::Rejected(RejectReason::TIMEOUT));
        assert_eq!(rejected.info, 0x0200_0000_0000_0001u64.to_be_bytes());
        pair.expect(B, "TIMEWAIT_EXIT");
        pair.expect_silence();
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn a_late_rep_is_answered_so_that_its_sender_can_stop() {
    World::new().solo(|mut solo| {
        let peer = solo.peer();
        let id = solo.route_to(&peer);
        let mut param = ConnParam::new(0x11);
        param.timeout = Some(Duration::from_secs(1));
        solo.cm.connect(solo.now, id, &param).unwrap();
        let ours = nanocm_core::testing::comm_id(&solo.says(&["REQ"])[0]);
        solo.wait(Duration::from_secs(2));
        solo.says(&["REJ"]);
        solo.tells(&["UNREACHABLE"]);
        let before = *solo.cm.counters();
        let _ = solo.hears(&peer, &peer.rep(ours));
        let rej = solo.says(&["REJ"])[0];
        let rej = Rej(&rej);
        assert_eq!((rej.reason(), rej.message_rejected()), (RejectReason(6), MessageKind::REP));
        assert_eq!((rej.local_comm_id(), rej.remote_comm_id()), (ours, peer.comm_id));
        let unknown = nanocm_core::IgnoreReason::UnknownConnection;
        assert_eq!(solo.cm.counters().ignored_for(unknown), before.ignored_for(unknown) + 1);
        solo.tells(&[]);
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_lost_rtu_is_sent_again_with_its_data() {
    for (lost, seconds) in [(1, 1), (2, 3), (3, 7)] {
        losing(Attribute::RTU, TO_B, lost, |mut pair| {
            let (start, listener) = (pair.now, pair.listen(7471, 0));
            let active = pair.connect(7471, &[]);
            let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
            pair.accept(passive, &[]);
            pair.expect(A, "CONNECT_RESPONSE");
            pair.establish(active, b"the same each time");
            pair.expect(A, "ESTABLISHED");
            pair.expect(B, "ESTABLISHED");
            assert_about(since(start, &pair), seconds);
            let sent = pair.node(A).sent.clone();
            let rtus = lost as usize + 1;
            assert_eq!(pair.node(A).sent_names(), [&["REQ"][..], &vec!["RTU"; rtus]].concat());
            assert!(sent[1..].iter().all(|rtu| Rtu(rtu).private_data()[..8] == *b"the same"));
            pair.expect_silence();
            pair.assert_clean(&[active], &[listener, passive]);
        });
    }
}

#[test]
fn rtus_that_never_arrive_end_both_sides_once() {
    losing(Attribute::RTU, TO_B, FOR_EVER, |mut pair| {
        let (start, listener) = (pair.now, pair.listen(7471, 0));
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.establish(active, &[]);
        pair.expect(A, "ESTABLISHED");
        assert_eq!(pair.expect(B, "UNREACHABLE").kind(), TIMEOUT);
        assert_about(since(start, &pair), 30);
        assert_eq!(pair.node(B).sent_names(), ["REP", "REP", "REP", "REP", "REJ"]);
        // The passive side's REJ is the end of what the active side took for standing.
        let gone = pair.expect(A, "DISCONNECTED").kind();
        assert_eq!(gone, EventKind::Disconnected(DisconnectCause::Peer));
        pair.expect(A, "TIMEWAIT_EXIT");
        pair.expect(B, "TIMEWAIT_EXIT");
        pair.expect_silence();
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn a_lost_dreq_is_sent_again_with_its_data() {
    for (lost, seconds) in [(1, 1), (2, 3)] {
        losing(Attribute::DREQ, TO_B, lost, |mut pair| {
            let listener = pair.listen(7471, 0);
            let (active, passive) = pair.established(7471);
            let start = pair.now;
            pair.cm(A).disconnect(start, active, b"bye").unwrap();
            pair.expect(B, "DISCONNECTED");
            assert_about(since(start, &pair), seconds);
            pair.disconnect(B, passive);
            pair.expect(A, "DISCONNECTED");
            let dreqs = pair.node(A).sent.split_off(2);
            assert_eq!(dreqs.len(), lost as usize + 1);
            assert!(dreqs.iter().all(|dreq| Dreq(dreq).private_data()[..4] == *b"bye\0"));
            pair.assert_clean(&[active], &[listener, passive]);
        });
    }
}

#[test]
fn dreqs_that_never_arrive_are_told_as_such() {
    losing(Attribute::DREQ, TO_B, FOR_EVER, |mut pair| {
        let listener = pair.listen(7471, 0);
        let (active, passive) = pair.established(7471);
        let start = pair.now;
        pair.disconnect(A, active);
        // reports G6
        let gone = pair.expect(A, "DISCONNECTED").kind();
        assert_eq!(gone, EventKind::Disconnected(DisconnectCause::Timeout));
        assert_about(since(start, &pair), 30);
        pair.expect(A, "TIMEWAIT_EXIT");
        assert_eq!(pair.node(A).sent_names()[2..], ["DREQ"; 5]);
        assert_eq!(pair.cm(B).conn_state(passive), Ok(ConnState::Established));
        pair.expect_silence();
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn a_lost_drep_is_sent_again_in_timewait_and_after() {
    // Before the passive side's timewait (0.5 s) is over its data come again; afterwards nobody
    // knows the connection, and a stranger is answered.
    let worlds = [
        (World::new().set(|config| config.timers.first_retry = Duration::from_millis(100)), true),
        (World::new(), false),
    ];
    for (world, remembered) in worlds {
        world.run(|mut pair| {
            let listener = pair.listen(7471, 0);
            let (active, passive) = pair.established(7471);
            pair.link.drop_next(Attribute::DREP, TO_A, 1);
            pair.disconnect(A, active);
            pair.expect(B, "DISCONNECTED");
            let now = pair.now;
            pair.cm(B).disconnect(now, passive, b"drep").unwrap();
            pair.expect(A, "DISCONNECTED");
            let sent = pair.node(B).sent.split_off(1);
            assert_eq!(sent.len(), 2);
            assert_eq!(sent[0] == sent[1], remembered);
            assert_eq!(sent[0][..32], sent[1][..32], "the same exchange");
            pair.assert_clean(&[active], &[listener, passive]);
        });
    }
}

#[test]
fn a_dreq_for_a_forgotten_connection_is_answered() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let (active, passive) = pair.established(7471);
        pair.link.drop_next(Attribute::DREQ, TO_A, FOR_EVER);
        pair.destroy(B, passive);
        pair.run_for(Duration::from_secs(40));
        assert_eq!(pair.cm(B).in_use(), (1, 0), "the passive side is gone");
        pair.disconnect(A, active);
        let gone = pair.expect(A, "DISCONNECTED").kind();
        assert_eq!(gone, EventKind::Disconnected(DisconnectCause::Local));
        pair.assert_clean(&[active], &[listener]);
    });
}

#[test]
fn drep_for_ever_lost_is_a_timeout() {
    losing(Attribute::DREP, TO_A, FOR_EVER, |mut pair| {
        let listener = pair.listen(7471, 0);
        let (active, passive) = pair.established(7471);
        pair.disconnect(A, active);
        pair.expect(B, "DISCONNECTED");
        pair.disconnect(B, passive);
        pair.expect(B, "TIMEWAIT_EXIT");
        let gone = pair.expect(A, "DISCONNECTED").kind();
        assert_eq!(gone, EventKind::Disconnected(DisconnectCause::Timeout));
        pair.expect(A, "TIMEWAIT_EXIT");
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn rejections_are_repeated_when_what_they_reject_is() {
    // (REJ of what, reject on which side, lost on which way)
    losing(Attribute::REJ, TO_A, 1, |mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.reject(B, passive, RejectReason::CONSUMER, b"no");
        assert_eq!(pair.expect(A, "REJECTED").data[..3], *b"no\0");
        assert_eq!(pair.node(B).sent_names(), ["REJ", "REJ"]);
        pair.assert_clean(&[active], &[listener, passive]);
    });
    let short = World::new().set(|config| config.timers.first_retry = Duration::from_millis(100));
    short.run(|mut pair| {
        pair.link.drop_next(Attribute::REJ, TO_B, 1);
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.reject(A, active, RejectReason::CONSUMER, b"no");
        assert_eq!(pair.expect(B, "REJECTED").data[..3], *b"no\0");
        assert_eq!(pair.node(A).sent_names(), ["REQ", "REJ", "REJ"]);
        pair.assert_clean(&[active], &[listener, passive]);
    });
    short.run(|mut pair| {
        // The REJ is lost while the RTU is under way.
        pair.link.drop_next(Attribute::REJ, TO_A, 1);
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.reject(B, passive, RejectReason::CONSUMER, b"no");
        pair.establish(active, &[]);
        pair.expect(A, "ESTABLISHED");
        assert_eq!(pair.expect(A, "DISCONNECTED").data[..3], *b"no\0");
        assert_eq!(pair.node(B).sent_names(), ["REP", "REJ", "REJ"]);
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn what_was_never_sent_is_not_sent_again_and_not_taken_back() {
    World::new().run(|mut pair| {
        pair.node(A).transmits = false;
        let active = pair.connect(7471, &[]);
        pair.run_for(Duration::from_secs(5));
        pair.node(A).transmits = true;
        pair.drain();
        assert_eq!(pair.node(A).sent_names(), ["REQ"]);
        assert_eq!(pair.cm(A).counters().retransmitted, 0);
        pair.node(A).transmits = false;
        let other = pair.connect(7472, &[]);
        pair.destroy(A, other);
        pair.node(A).transmits = true;
        pair.drain();
        assert_eq!(pair.node(A).sent_names(), ["REQ"], "nobody has heard of the second");
        pair.assert_clean(&[active], &[]);
    });
}

#[test]
fn only_what_waits_has_a_deadline() {
    use ConnState::*;
    for (state, active, waits) in [
        (Idle, true, false),
        (ReqSent, true, true),
        (ReqRcvd, false, true),
        (RepRcvd, true, false),
        (RepSent, false, true),
        (Established, true, false),
        (Established, false, false),
        (DreqSent, true, true),
        (DreqRcvd, false, false),
        (Timewait, true, true),
        (RejSent, false, false),
    ] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            assert_eq!(solo.cm.poll_at().is_some(), waits, "{state}");
            solo.assert_clean(&[listener, it.id]);
        });
    }
}

#[test]
fn an_answer_overtakes_the_repetition_of_its_question() {
    use ConnState::*;
    for (state, active, message) in [
        (ReqSent, true, "REP"),
        (RepSent, false, "RTU"),
        (DreqSent, true, "DREP"),
        (RepSent, false, "DREQ"),
    ] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            solo.wait(Duration::from_secs(1));
            // The question is owed once more, and not polled yet.
            let mad = match message {
                "REP" => it.peer.rep(it.comm_id),
                "RTU" => it.peer.rtu(it.comm_id),
                "DREP" => it.peer.drep(it.comm_id),
                _ => it.peer.dreq(it.comm_id, it.qpn),
            };
            let _ = solo.hears(&it.peer, &mad);
            solo.says(&[]);
            assert_eq!(solo.cm.poll_at().is_some(), message == "DREP", "timewait");
            solo.wait(Duration::from_secs(60));
            solo.says(&[]);
            solo.assert_clean(&[listener, it.id]);
        });
    }
}

#[test]
fn what_the_peer_ended_or_nobody_waits_for_is_not_said_any_more() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ConnState::RepRcvd, true);
        solo.cm.establish(solo.now, it.id, &[]).unwrap();
        let rej = it.peer.rej(it.comm_id, MessageKind::OTHER, RejectReason::CONSUMER);
        let _ = solo.hears(&it.peer, &rej);
        solo.says(&[]);
        solo.tells(&["ESTABLISHED", "DISCONNECTED"]);
        solo.assert_clean(&[it.id]);
    });
    World::new().solo(|mut solo| {
        let it = solo.bring(ConnState::Established, true);
        solo.cm.disconnect(solo.now, it.id, &[]).unwrap();
        solo.wait(Duration::from_millis(30_100));
        assert_eq!(it.states(&solo.cm).1, ConnState::Timewait);
        solo.says(&[]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn a_new_attempt_begins_with_a_clean_record() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ConnState::ReqSent, true);
        for seconds in [1, 2] {
            solo.wait(Duration::from_secs(seconds));
            let token = nanocm_core::SendToken::of(&solo.says(&["REQ"])[0]);
            solo.cm.handle_send_failed(solo.now, token, 111);
        }
        solo.tells(&["UNREACHABLE"]);
        solo.says(&["REJ"]);
        solo.cm.reset(it.id).unwrap();
        solo.connect(it.id);
        let token = nanocm_core::SendToken::of(&solo.says(&["REQ"])[0]);
        solo.cm.handle_send_failed(solo.now, token, 111);
        solo.tells(&[]);
        solo.assert_clean(&[it.id]);
    });
}

/// What is called with the time, and how many milliseconds later something is due.
type Timed = (&'static str, u64, fn(&mut Solo<'_>, Duration));

const TIMED: [Timed; 8] = [
    ("resolve_addr", 3_000, |solo, later| {
        let id = solo.cm.create_id(nanocm_core::PortSpace::Tcp, 0).unwrap();
        let to = (solo.peer_ip, 7471).into();
        solo.now = solo.now + later;
        solo.cm.resolve_addr(solo.now, id, None, to, Duration::from_secs(3)).unwrap();
    }),
    ("resolve_route", 3_000, |solo, later| {
        let id = solo.cm.create_id(nanocm_core::PortSpace::Tcp, 0).unwrap();
        let (to, time) = ((solo.peer_ip, 7471).into(), Duration::from_secs(3));
        solo.cm.resolve_addr(solo.now, id, None, to, time).unwrap();
        let (request, _) = solo.cm.poll_request().unwrap();
        let path = solo.path(&solo.peer_at_home());
        let found = nanocm_core::Outcome::AddrResolved { path };
        solo.cm.handle_completion(solo.now, request, found).unwrap();
        solo.now = solo.now + later;
        solo.cm.resolve_route(solo.now, id, time).unwrap();
    }),
    ("connect", 1_000, |solo, later| {
        let peer = solo.peer();
        let id = solo.route_to(&peer);
        solo.now = solo.now + later;
        solo.connect(id);
    }),
    ("handle_datagram", 60_000, |solo, later| {
        let peer = solo.peer();
        solo.now = solo.now + later;
        let _ = solo.hears(&peer, &peer.req(solo.ip, 7471));
    }),
    ("accept", 1_000, |solo, later| {
        let it = solo.bring(ConnState::ReqRcvd, false);
        solo.now = solo.now + later;
        solo.accept(it.id);
    }),
    ("disconnect", 1_000, |solo, later| {
        let it = solo.bring(ConnState::Established, true);
        solo.now = solo.now + later;
        solo.cm.disconnect(solo.now, it.id, &[]).unwrap();
    }),
    ("reject", 537, |solo, later| {
        let it = solo.bring(ConnState::RepRcvd, true);
        solo.now = solo.now + later;
        solo.cm.reject(solo.now, it.id, RejectReason::CONSUMER, &[]).unwrap();
    }),
    ("destroy", 1_000, |solo, later| {
        let it = solo.bring(ConnState::Established, true);
        solo.now = solo.now + later;
        solo.cm.destroy(solo.now, it.id).unwrap();
    }),
];

#[test]
fn each_call_brings_the_time() {
    // Nothing else tells the engine that ten seconds have passed.
    for (name, millis, call) in TIMED {
        World::new().solo(|mut solo| {
            let _ = solo.listen(7471, 0);
            call(&mut solo, Duration::from_secs(10));
            let due = solo.cm.poll_at().expect(name).saturating_since(solo.now);
            assert!(due.as_millis().abs_diff(u128::from(millis)) <= 1, "{name}: {due:?}");
        });
    }
}

#[test]
fn a_change_of_mind_overtakes_what_was_not_sent_yet() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(ConnState::ReqRcvd, false);
        solo.accept(it.id);
        solo.cm.reject(solo.now, it.id, RejectReason::CONSUMER, &[]).unwrap();
        solo.says(&["REJ"]);
        // What an old connection still owed is not said in a new one.
        let old = solo.bring(ConnState::DreqRcvd, true);
        solo.cm.disconnect(solo.now, old.id, &[]).unwrap();
        solo.wait(Duration::from_secs(1));
        solo.cm.reset(old.id).unwrap();
        solo.says(&[]);
        solo.connect(old.id);
        solo.says(&["REQ"]);
        solo.assert_clean(&[listener, it.id, old.id]);
    });
}

#[test]
fn a_transport_that_cannot_send_ends_the_attempt_the_second_time() {
    World::new().solo(|mut solo| {
        let peer = solo.peer();
        let id = solo.route_to(&peer);
        solo.connect(id);
        let fail = |solo: &mut Solo<'_>, errno| {
            let mut mad = [0; 256];
            let sent = solo.cm.poll_transmit(solo.now, &mut mad).expect("a REQ");
            assert_eq!(sent.token, nanocm_core::SendToken::of(&mad));
            solo.cm.handle_send_failed(solo.now, sent.token, errno);
            let next = solo.cm.poll_at().map_or(Duration::ZERO, |at| at.saturating_since(solo.now));
            solo.wait(next);
        };
        // A full queue says nothing about the peer.
        fail(&mut solo, 105);
        fail(&mut solo, 11);
        solo.tells(&[]);
        fail(&mut solo, 111);
        solo.tells(&[]);
        fail(&mut solo, 111);
        let kind = solo.tells(&["UNREACHABLE"])[0].kind;
        assert_eq!(kind, EventKind::Unreachable(Unreachable::SendFailed(111)));
        assert_eq!(solo.cm.counters().send_failed, 4);
        solo.assert_clean(&[id]);
    });
}

#[test]
fn an_mra_says_that_what_was_sent_got_through() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ConnState::ReqSent, true);
        let token = nanocm_core::SendToken::of(&{
            solo.wait(Duration::from_secs(1));
            solo.says(&["REQ"])[0]
        });
        for _ in 0..3 {
            solo.cm.handle_send_failed(solo.now, token, 111);
            let mra = it.peer.mra(it.comm_id, MessageKind::REQ, 15);
            let _ = solo.hears(&it.peer, &mra);
        }
        solo.tells(&[]);
        // Two reports about one REQ are one failure.
        solo.cm.handle_send_failed(solo.now, token, 111);
        solo.cm.handle_send_failed(solo.now, token, 111);
        solo.tells(&[]);
        solo.wait(Duration::from_secs(2));
        solo.says(&["REQ"]);
        solo.cm.handle_send_failed(solo.now, token, 111);
        solo.tells(&["UNREACHABLE"]);
        // What fails later is another attempt's, or nobody's.
        solo.cm.handle_send_failed(solo.now, token, 111);
        solo.cm.handle_send_failed(solo.now, nanocm_core::SendToken::from_raw(0), 111);
        solo.tells(&[]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn a_failed_sending_of_anything_but_a_req_is_left_to_the_timers() {
    for (state, active) in [(ConnState::RepSent, false), (ConnState::DreqSent, true)] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            solo.wait(Duration::from_secs(1));
            let name = if active { "DREQ" } else { "REP" };
            let token = nanocm_core::SendToken::of(&solo.says(&[name])[0]);
            for _ in 0..3 {
                solo.cm.handle_send_failed(solo.now, token, 111);
            }
            solo.tells(&[]);
            assert_eq!(it.states(&solo.cm).1, state);
            solo.assert_clean(&[listener, it.id]);
        });
    }
}

#[test]
fn a_month_of_sleep_makes_everything_due_at_once() {
    for days in [13, 24, 25, 30, 49, 50, 400] {
        World::new().of(Capacity::of(8)).solo(|mut solo| {
            let ids: Vec<_> = (0..8).map(|_| solo.bring(ConnState::ReqSent, true).id).collect();
            solo.now = solo.now + Duration::from_secs(days * 86_400);
            while solo.cm.handle_timeout(solo.now, 1) {}
            solo.tells(&["UNREACHABLE"; 8]);
            assert_eq!(solo.cm.poll_at(), None);
            // Time goes on as usual afterwards.
            solo.cm.reset(ids[0]).unwrap();
            solo.connect(ids[0]);
            let at = solo.cm.poll_at().unwrap();
            assert_about(at.saturating_since(solo.now), 1);
            solo.assert_clean(&ids);
        });
    }
}

/// Found by the fuzz target `ops`: ticks a month apart look the other way round.
#[test]
fn what_is_due_stays_due_however_long_nobody_asks() {
    for days in [1, 5, 11, 13, 25, 400] {
        World::new().of(Capacity::of(8)).solo(|mut solo| {
            let ids: Vec<_> = (0..8).map(|_| solo.bring(ConnState::ReqSent, true).id).collect();
            let mut mad = [0; 256];
            for _ in 0..60 {
                solo.now = solo.now + Duration::from_secs(days * 86_400);
                let _ = solo.cm.poll_transmit(solo.now, &mut mad);
                assert!(solo.cm.poll_at().unwrap() <= solo.now);
            }
            while solo.cm.handle_timeout(solo.now, 1) {}
            solo.tells(&["UNREACHABLE"; 8]);
            // Nothing was due for as long again: deadlines are kept to the second.
            for _ in 0..60 {
                solo.now = solo.now + Duration::from_secs(days * 86_400);
                solo.cm.reset(ids[0]).unwrap();
                solo.connect(ids[0]);
                let at = solo.cm.poll_at().unwrap();
                assert_about(at.saturating_since(solo.now), 1);
                solo.wait(Duration::from_secs(40));
                solo.tells(&["UNREACHABLE"]);
            }
            solo.assert_clean(&ids);
        });
    }
}

#[test]
fn a_clock_that_goes_backwards_stands_still() {
    World::new().solo(|mut solo| {
        let peer = solo.peer();
        let id = solo.route_to(&peer);
        solo.wait(Duration::from_secs(5));
        let (now, at) = (solo.now, Instant::from_nanos(solo.now.as_nanos() - 3_000_000_000));
        solo.now = at;
        solo.connect(id);
        assert_about(solo.cm.poll_at().unwrap().saturating_since(now), 1);
        solo.now = now;
        solo.assert_clean(&[id]);
    });
}

#[test]
fn work_per_call_is_what_the_budget_says() {
    World::new().of(Capacity::of(10)).solo(|mut solo| {
        let mut ids = Vec::new();
        for _ in 0..10 {
            let peer = solo.peer();
            let id = solo.route_to(&peer);
            solo.connect(id);
            ids.push(id);
        }
        solo.says(&["REQ"; 10]);
        let now = solo.cm.poll_at().unwrap();
        for handled in 1..=10 {
            let more = solo.cm.handle_timeout(now, 1);
            assert_eq!(more, handled < 10);
            solo.now = now;
            solo.says(&["REQ"]);
            assert_eq!(solo.cm.poll_at().unwrap() > now, !more, "drained, or due");
        }
        assert!(!solo.cm.handle_timeout(now, 0));
        solo.assert_clean(&ids);
    });
}
