//! Stale connections and timewait.

use nanocm_core::testing::{Brought, Capacity, Peer, Solo, World, comm_id, name};
use nanocm_core::wire::{MessageKind, Rej, RejectReason};
use nanocm_core::{ConnState::*, DisconnectCause, Disposition, EventKind, Id};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The REJ 10 that a REQ of this peer gets.
#[track_caller]
fn expect_stale(solo: &mut Solo<'_>, peer: &Peer, says: &[&str]) {
    let req = peer.req(solo.ip, 7471);
    assert_eq!(solo.hears(peer, &req), Disposition::Accepted);
    let rej = solo.says(says)[0];
    assert_eq!(Rej(&rej).reason(), RejectReason::STALE);
    assert_eq!(Rej(&rej).remote_comm_id(), peer.comm_id);
}

#[test]
fn b1_a_peer_that_lost_power_is_refused_once_and_connects_then() {
    // DESIGN: the old connection is forgotten at the first refusal, so that the next REQ is a new one
    // even while timewait lasts; the report asks for it only afterwards.
    for wait in [Duration::ZERO, SECOND] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let first = Peer { comm_id: 1, qpn: 0x100, ..solo.peer() };
            let _ = solo.hears(&first, &first.req(solo.ip, 7471));
            let old = solo.tells(&["CONNECT_REQUEST"])[0].id;
            solo.accept(old);
            let rep = solo.says(&["REP"])[0];
            let _ = solo.hears(&first, &first.rtu(comm_id(&rep)));
            solo.tells(&["ESTABLISHED"]);
            expect_stale(&mut solo, &Peer { comm_id: 2, tid: 2, ..first }, &["REJ", "DREQ"]);
            let over = solo.tells(&["DISCONNECTED"])[0];
            assert_eq!(over.id, old);
            assert_eq!(over.kind, EventKind::Disconnected(DisconnectCause::Peer));
            solo.wait(wait);
            let timewait: &[&str] = if wait.is_zero() { &[] } else { &["TIMEWAIT_EXIT"] };
            solo.tells(timewait);
            let third = Peer { comm_id: 3, tid: 3, ..first };
            assert_eq!(solo.hears(&third, &third.req(solo.ip, 7471)), Disposition::Accepted);
            let new = solo.tells(&["CONNECT_REQUEST"])[0].id;
            solo.assert_clean(&[listener, old, new]);
        });
    }
}

#[test]
fn b2_a_node_that_rejoins_a_mesh_needs_two_attempts_at_most() {
    // P1 and P2 heard the node's DREQ, P3 and P4 did not. There is no "retry after" to hand out: a REJ
    // has no field for it, and the second attempt need not wait.
    for heard in [true, true, false, false] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let old = solo.bring(Established, false);
            if heard {
                let _ = solo.hears(&old.peer, &old.peer.dreq(old.comm_id, old.qpn));
                solo.tells(&["DISCONNECTED"]);
                solo.cm.disconnect(solo.now, old.id, &[]).unwrap();
                solo.says(&["DREP"]);
            }
            let mut node = old.peer;
            let again = |node: &mut Peer| {
                (node.comm_id, node.tid) = (node.comm_id + 0x1000, node.tid + 0x1000);
            };
            again(&mut node);
            if !heard {
                expect_stale(&mut solo, &node, &["REJ", "DREQ"]);
                solo.tells(&["DISCONNECTED"]);
                again(&mut node);
            }
            let _ = solo.hears(&node, &node.req(solo.ip, 7471));
            let new = solo.tells(&["CONNECT_REQUEST"])[0].id;
            solo.accept(new);
            let rep = solo.says(&["REP"])[0];
            let _ = solo.hears(&node, &node.rtu(comm_id(&rep)));
            assert_eq!(solo.tells(&["ESTABLISHED"])[0].id, new);
            solo.assert_clean(&[listener, old.id, new]);
        });
    }
}

/// How it ends, and how many TIMEWAIT_EXITs that leads to.
type Ending = (&'static str, usize, fn(&mut Solo<'_>) -> Brought);

/// The three last are the paths without: a queue pair whose device is gone is gone, who only sent a REQ
/// has none to wait for, and who destroys does not hear of it.
const ENDINGS: [Ending; 8] = [
    ("we disconnect", 1, |solo| solo.bring(Timewait, true)),
    ("the peer disconnects", 1, |solo| {
        let it = solo.bring(DreqRcvd, false);
        solo.cm.disconnect(solo.now, it.id, &[]).unwrap();
        it
    }),
    ("both at once", 1, |solo| {
        let it = solo.bring(DreqSent, true);
        let _ = solo.hears(&it.peer, &it.peer.dreq(it.comm_id, it.qpn));
        it
    }),
    ("nobody answers our DREQ", 1, |solo| solo.bring(DreqSent, false)),
    ("REJ after REP", 1, |solo| {
        let it = solo.bring(RepSent, false);
        let rej = it.peer.rej(it.comm_id, MessageKind::REP, RejectReason::CONSUMER);
        let _ = solo.hears(&it.peer, &rej);
        it
    }),
    // DISCONNECTED(removed) and DEVICE_REMOVAL say all there is to say.
    ("the device is gone", 0, |solo| {
        let it = solo.bring(Established, true);
        solo.remove_device();
        it
    }),
    ("our REQ is rejected", 0, |solo| {
        let it = solo.bring(ReqSent, true);
        let rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::CONSUMER);
        let _ = solo.hears(&it.peer, &rej);
        it
    }),
    ("destroyed", 0, |solo| {
        let it = solo.bring(Timewait, true);
        solo.cm.destroy(solo.now, it.id).unwrap();
        it
    }),
];

#[test]
fn b3_timewait_exit_comes_exactly_once() {
    for (how, exits, end) in ENDINGS {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = end(&mut solo);
            solo.wait(100 * SECOND);
            let told = std::iter::from_fn(|| solo.cm.poll_event());
            let heard = told.filter(|event| event.kind == EventKind::TimewaitExit).count();
            assert_eq!(heard, exits, "{how}");
            let ids = [listener, it.id];
            solo.assert_clean(if how == "destroyed" { &ids[..1] } else { &ids });
        });
    }
}

/// Why nothing can be sent.
type Mute = (&'static str, fn(&mut Solo<'_>, Id));

#[test]
fn b4_nothing_leaks_while_nothing_can_be_sent() {
    // DESIGN: the engine does not send, it is polled. A sink without buffers is one that does not
    // poll, or one that says so afterwards; `connect` succeeds either way.
    const ENOBUFS: i32 = 105;
    let mutes: [Mute; 3] = [
        ("nobody polls", |_, _| {}),
        ("the sink has no buffer", |solo, _| {
            let mut mad = [0; 256];
            while let Some(sent) = solo.cm.poll_transmit(solo.now, &mut mad) {
                solo.cm.handle_send_failed(solo.now, sent.token, ENOBUFS);
            }
        }),
        ("nobody polls, and what stood is destroyed too", |solo, id| {
            let (peer, mut mad) = (solo.peer(), [0; 256]);
            // Its own REQ gets out, whatever waits before it.
            while name(&mad) != "REQ" {
                solo.cm.poll_transmit(solo.now, &mut mad).expect("a REQ");
            }
            let _ = solo.hears(&peer, &peer.rep(comm_id(&mad)));
            solo.cm.establish(solo.now, id, &[]).unwrap();
        }),
    ];
    for (why, mute) in mutes {
        World::new().of(Capacity { ids: 9, conns: 4, ..Capacity::of(9) }).solo(|mut solo| {
            for _ in 0..100 {
                let peer = solo.peer();
                let id = solo.route_to(&peer);
                solo.connect(id);
                mute(&mut solo, id);
                solo.cm.destroy(solo.now, id).unwrap();
                assert_eq!(solo.cm.in_use().0, 0, "{why}");
            }
            while solo.cm.poll_transmit(solo.now, &mut [0; 256]).is_some() {}
            let four: Vec<_> = (0..4).map(|_| solo.bring(ReqSent, true).id).collect();
            assert_eq!(solo.cm.in_use(), (4, 4), "{why}");
            solo.assert_clean(&four);
        });
    }
}
