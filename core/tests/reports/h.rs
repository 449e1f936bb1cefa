//! Ordering.

use crate::Dice;
use nanocm_core::addr::ScopedIp;
use nanocm_core::testing::{Side::*, Solo, World, name};
use nanocm_core::wire::{MessageKind, RejectReason};
use nanocm_core::{ConnState::*, EventKind, PortEvent};
use std::time::Duration;

/// A peer's neighbour entry has changed, and everybody concerned has been looked at.
fn neighbour_changed(solo: &mut Solo<'_>) {
    let address = ScopedIp::new(solo.peer_ip.into(), 0);
    assert!(solo.cm.handle_port_event(solo.now, PortEvent::AddrChanged { address }));
    while solo.cm.handle_timeout(solo.now, 1) {}
}

#[test]
fn h1_a_changed_neighbour_fails_nothing_and_a_failure_is_told_once() {
    for (state, told) in [
        (Established, &["ADDR_CHANGE"][..]),
        (ReqSent, &[]),
        (RepSent, &[]),
        // DISCONNECTED has been told.
        (DreqRcvd, &[]),
        (Timewait, &[]),
        (Idle, &[]),
    ] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, state == ReqSent);
            neighbour_changed(&mut solo);
            assert_eq!(it.states(&solo.cm).1, state);
            solo.tells(told);
            solo.says(&[]);
            solo.assert_clean(&[listener, it.id]);
        });
    }
    // In the tick of the deadline, before it and after it.
    for before in [true, false] {
        World::new().solo(|mut solo| {
            let it = solo.bring(ReqSent, true);
            solo.wait(Duration::from_millis(29_999));
            solo.now = solo.now + Duration::from_millis(2);
            if !before {
                while solo.cm.handle_timeout(solo.now, 1) {}
            }
            neighbour_changed(&mut solo);
            solo.wait(Duration::from_secs(100));
            solo.tells(&["UNREACHABLE"]);
            solo.assert_clean(&[it.id]);
        });
    }
}

#[test]
fn h2_a_disconnected_is_owed_exactly_from_established_to_disconnected() {
    // One connection, and what its application, its peer and the clock may do to it in any order;
    // events are polled one at a time, now and then.
    for seed in 0..400 {
        for active in [true, false] {
            World::new().solo(|mut solo| {
                let mut dice = Dice::new(seed);
                let listener = solo.listen(7471, 0);
                let it = solo.bring(if active { RepRcvd } else { RepSent }, active);
                let (mut established, mut disconnected) = (0, 0);
                for step in 0..60 {
                    let now = solo.now;
                    match dice.below(12) {
                        0 => _ = solo.cm.establish(now, it.id, &[]),
                        1 => _ = solo.cm.notify_established(now, it.id),
                        2 => _ = solo.hears(&it.peer, &it.peer.rtu(it.comm_id)),
                        3 if step > 20 => _ = solo.cm.disconnect(now, it.id, &[]),
                        4 if step > 20 => {
                            _ = solo.hears(&it.peer, &it.peer.dreq(it.comm_id, it.qpn));
                        }
                        5 => _ = solo.hears(&it.peer, &it.peer.drep(it.comm_id)),
                        6 if dice.below(8) == 0 => {
                            let reason = RejectReason::CONSUMER;
                            let rej = it.peer.rej(it.comm_id, MessageKind::OTHER, reason);
                            _ = solo.hears(&it.peer, &rej);
                        }
                        // The peer has restarted.
                        7 if dice.below(8) == 0 => {
                            let mut again = it.peer;
                            again.comm_id += 1 + step;
                            _ = solo.hears(&again, &again.req(solo.ip, 9));
                        }
                        8 => _ = solo.cm.poll_transmit(now, &mut [0; 256]),
                        9 => solo.wait(Duration::from_millis([1, 600, 2_000][dice.below(3)])),
                        _ => {
                            let told = solo.cm.poll_event().filter(|event| event.id == it.id);
                            match told.map(|event| event.kind) {
                                Some(EventKind::Established) => established += 1,
                                Some(EventKind::Disconnected(_)) => disconnected += 1,
                                _ => {}
                            }
                        }
                    }
                    let owed = established > 0 && disconnected == 0;
                    assert_eq!(solo.cm.owes_disconnected(it.id), Ok(owed), "{seed} {step}");
                }
                // Whatever came before, `disconnect` leads to the end within the deadline.
                let _ = solo.cm.disconnect(solo.now, it.id, &[]);
                solo.wait(Duration::from_secs(31));
                while let Some(event) = solo.cm.poll_event() {
                    established += usize::from(event.kind == EventKind::Established);
                    let over = matches!(event.kind, EventKind::Disconnected(_));
                    disconnected += usize::from(over);
                    let owed = established > 0 && disconnected == 0;
                    assert_eq!(solo.cm.owes_disconnected(it.id), Ok(owed), "{seed}");
                }
                assert!(established <= 1 && disconnected <= 1, "{seed}");
                assert!(disconnected >= established, "{seed}: DISCONNECTED never came");
                solo.assert_clean(&[listener, it.id]);
            });
        }
    }
}

#[test]
fn h2_who_begins_anew_is_owed_nothing_of_the_old() {
    World::new().solo(|mut solo| {
        let it = solo.bring(Established, true);
        let rej = it.peer.rej(it.comm_id, MessageKind::OTHER, RejectReason::CONSUMER);
        let _ = solo.hears(&it.peer, &rej);
        solo.wait(Duration::from_secs(1));
        assert_eq!(solo.cm.owes_disconnected(it.id), Ok(true), "nobody has polled");
        solo.cm.reset(it.id).unwrap();
        assert_eq!(solo.cm.owes_disconnected(it.id), Ok(false));
        solo.tells(&[]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn h2_a_datagram_service_owes_no_disconnected() {
    World::new().solo(|mut solo| {
        let it = solo.bring(SidrResolved, true);
        assert_eq!(solo.cm.owes_disconnected(it.id), Ok(false));
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn h3_connects_that_cross_are_two_connections() {
    // A and B each listen and each connect; A's answer to B's request is no, B's to A's is yes. The
    // advice for applications: decide by something both know, such as the smaller address, and reject
    // the other request; our own attempt does not notice.
    World::new().run(|mut pair| {
        let (listener, now) = (pair.listen(7471, 0), pair.now);
        let [a, b] = [A, B].map(|side| pair.node(side).ip);
        let other = pair.cm(A).create_id(nanocm_core::PortSpace::Tcp, 0).unwrap();
        pair.cm(A).bind(other, (a, 7471).into()).unwrap();
        pair.cm(A).listen(other, 0).unwrap();
        let b1 = pair.cm(B).create_id(nanocm_core::PortSpace::Tcp, 0).unwrap();
        let path = nanocm_core::Path::Roce(nanocm_core::RocePath::new(b.into(), a.into()));
        let route = nanocm_core::Route::new(path);
        pair.cm(B).set_route(now, b1, (a, 7471).into(), &route).unwrap();
        let qpn = pair.node(B).qpn();
        // Neither has polled yet: the REQs cross.
        pair.cm(B).connect(now, b1, &nanocm_core::ConnParam::new(qpn)).unwrap();
        let a1 = pair.connect(7471, &[]);
        let at_a = pair.expect(A, "CONNECT_REQUEST").event.id;
        let at_b = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.reject(A, at_a, RejectReason::CONSUMER, &[]);
        pair.accept(at_b, &[]);
        let refused = pair.expect(B, "REJECTED");
        assert_eq!(refused.event.id, b1);
        assert_eq!(refused.kind(), EventKind::Rejected(RejectReason::CONSUMER));
        assert_eq!(pair.expect(A, "CONNECT_RESPONSE").event.id, a1);
        pair.establish(a1, &[]);
        assert_eq!(pair.expect(A, "ESTABLISHED").event.id, a1);
        assert_eq!(pair.expect(B, "ESTABLISHED").event.id, at_b);
        pair.expect_silence();
        pair.assert_clean(&[other, at_a, a1], &[listener, b1, at_b]);
    });
}

#[test]
fn h4_no_call_waits_for_anything() {
    // The core's part: what is not there yet is None, and the only thing to wait for is `poll_at`.
    // That an accept with a deadline returns in time is the shell's to show.
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        assert_eq!(solo.cm.poll_event(), None);
        assert_eq!(solo.cm.poll_request(), None);
        assert_eq!(solo.cm.poll_transmit(solo.now, &mut [0; 256]), None);
        assert_eq!(solo.cm.poll_at(), None, "nobody has come: there is nothing to wake up for");
        let peer = solo.peer();
        let _ = solo.hears(&peer, &peer.req(solo.ip, 7471));
        let request = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.accept(request);
        assert_eq!(name(&solo.says(&["REP"])[0]), "REP");
        solo.assert_clean(&[listener, request]);
    });
}
