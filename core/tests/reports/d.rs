//! Destroy, hang, leak.

use nanocm_core::error::OpError;
use nanocm_core::testing::{Capacity, Memory, Side::*, Solo, World, comm_id};
use nanocm_core::wire::{MessageKind, RejectReason};
use nanocm_core::{
    Cm, Config, ConnState::*, Event, EventKind, Failure, Instant, PortSpace, Transmit,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn d1_an_event_needs_no_acknowledgement() {
    // What C makes of it (an event that outlives its identifier in the caller's memory) is ffi's.
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(RepSent, false);
        let _ = solo.hears(&it.peer, &it.peer.rtu(it.comm_id));
        let _ = solo.hears(&it.peer, &it.peer.dreq(it.comm_id, it.qpn));
        let first = solo.cm.poll_event().unwrap();
        solo.cm.destroy(solo.now, it.id).unwrap();
        assert_eq!((first.id, first.kind), (it.id, EventKind::Established), "a value like any");
        solo.tells(&[]);
        assert_eq!(solo.cm.state(it.id), Err(OpError::NoSuchId));
        solo.says(&["DREP"]);
        solo.assert_clean(&[listener]);
    });
}

#[test]
fn d2_everything_may_be_destroyed_while_events_are_polled() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let request = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.destroy(B, listener);
        pair.destroy(B, request);
        let told = pair.expect(A, "REJECTED").kind();
        assert_eq!(told, EventKind::Rejected(RejectReason::CONSUMER));
        assert_eq!(pair.node(B).sent_names(), ["REJ"]);
        pair.expect_silence();
        pair.assert_clean(&[active], &[]);
    });
    // One event of each identifier is ready; each handler destroys its own, and the one after it.
    World::new().of(Capacity::of(9)).solo(|mut solo| {
        let all: Vec<_> = (0..9).map(|_| solo.bring(ReqSent, true)).collect();
        for it in &all {
            let rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::CONSUMER);
            let _ = solo.hears(&it.peer, &rej);
        }
        let mut told = Vec::new();
        while let Some(event) = solo.cm.poll_event() {
            let at = all.iter().position(|it| it.id == event.id).unwrap();
            for it in all.iter().skip(at).take(2) {
                solo.cm.destroy(solo.now, it.id).unwrap();
            }
            told.push(at);
        }
        assert_eq!(told, [0, 2, 4, 6, 8]);
        solo.says(&[]);
        solo.assert_clean(&[]);
    });
}

/// Destroys so many connections to peers that are gone; how many datagrams and deadlines that takes.
fn farewells(n: usize) -> usize {
    let mut memory = Memory::new(Capacity { ids: n, ..Capacity::of(n) });
    let cm = memory.engine(Config::new(3)).unwrap();
    let ips = [1, 2].map(|last| std::net::IpAddr::from([10, 0, 0, last]));
    let mut solo = Solo::new(cm, ips, Instant::ZERO);
    let all: Vec<_> = (0..n).map(|_| solo.bring(Established, true)).collect();
    let start = solo.now;
    for it in &all {
        solo.cm.destroy(start, it.id).unwrap();
    }
    // The clock has not moved, and every identifier is gone; the goodbyes have the connections' own
    // slots, of which there are as many as were configured.
    assert_eq!(solo.cm.in_use(), (0, n));
    let (mut steps, mut mad) = (0, [0; 256]);
    while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {
        steps += 1;
    }
    assert_eq!(steps, n, "one DREQ each");
    // A new connection takes the place of a goodbye, and nothing more is said of that one.
    let new = solo.bring(ReqSent, true);
    assert_eq!(solo.cm.counters().farewells_dropped, 1);
    solo.cm.destroy(start, new.id).unwrap();
    solo.says(&["REJ"]);
    assert_eq!(solo.cm.in_use(), (0, n - 1));
    while let Some(at) = solo.cm.poll_at() {
        solo.now = at;
        let _ = solo.cm.handle_timeout(at, 1);
        steps += 1;
        while solo.cm.poll_transmit(at, &mut mad).is_some() {
            assert_ne!(comm_id(&mad), all[0].comm_id, "the oldest gave way");
            steps += 1;
        }
    }
    assert!(solo.now <= start + 31 * SECOND, "the deadline ends it");
    solo.assert_clean(&[]);
    steps
}

#[test]
fn d3_ten_thousand_goodbyes_cost_ten_times_as_much_as_a_thousand() {
    // DESIGN: a destroyed connection lingers in its own slot, until another connection wants it; there
    // is no other number to configure. What one `destroy` costs is counted by benches (`worst`).
    let (thousand, ten_thousand) = (farewells(1_000), farewells(10_000));
    assert!(ten_thousand <= 12 * thousand, "{ten_thousand} against {thousand}");
}

#[test]
fn d4_an_engine_may_go_before_its_identifiers() {
    // Rust does not let the memory go first. Nothing of the old engine is found in the memory by the
    // next one. That C says Busy is ffi's.
    let mut memory = Memory::new(Capacity::of(4));
    let old = {
        let mut cm = memory.engine(Config::new(1)).unwrap();
        let id = cm.create_id(PortSpace::Tcp, 0).unwrap();
        let listener = cm.create_id(PortSpace::Tcp, 0).unwrap();
        cm.bind(listener, "0.0.0.0:7471".parse().unwrap()).unwrap();
        cm.listen(listener, 0).unwrap();
        [id, listener]
    };
    let mut cm = memory.engine(Config::new(2)).unwrap();
    assert!(cm.is_clean());
    for stale in old {
        assert_eq!(cm.destroy(Instant::ZERO, stale), Err(OpError::NoSuchId));
    }
}

#[test]
fn d5_an_event_path_without_room_cannot_be() {
    // DESIGN: events are derived from the slots' state, so there is no queue to fill and no REP that
    // must wait for one. Each identifier has as much to tell as it can.
    World::new().of(Capacity::of(4)).solo(|mut solo| {
        let all: Vec<_> = (0..4).map(|_| solo.bring(ReqSent, true)).collect();
        for it in &all {
            let _ = solo.hears(&it.peer, &it.peer.rep(it.comm_id));
            assert_eq!(solo.cm.conn_state(it.id), Ok(RepRcvd), "nobody has polled");
        }
        for it in &all {
            solo.cm.establish(solo.now, it.id, &[]).unwrap();
            let _ = solo.hears(&it.peer, &it.peer.dreq(it.comm_id, it.qpn));
            solo.cm.disconnect(solo.now, it.id, &[]).unwrap();
        }
        solo.wait(SECOND);
        let told: Vec<_> = std::iter::from_fn(|| solo.cm.poll_event()).collect();
        for it in &all {
            let its = told.iter().filter(|event| event.id == it.id);
            let names: Vec<_> = its.map(|event| event.kind.name()).collect();
            assert_eq!(names, ["ESTABLISHED", "DISCONNECTED", "TIMEWAIT_EXIT"]);
        }
        let ids: Vec<_> = all.iter().map(|it| it.id).collect();
        solo.assert_clean(&ids);
    });
}

#[test]
fn d7_an_engine_is_sent_between_threads_and_ends_without_its_peers() {
    const fn may_move<T: Send>() {}
    const fn may_be_shared<T: Send + Sync>() {}
    const {
        may_move::<Cm<'_>>();
        may_move::<Memory>();
        may_be_shared::<Event>();
        may_be_shared::<Failure>();
        may_be_shared::<Transmit>();
        // Its end is no call at all, so that it waits for nobody.
        assert!(!std::mem::needs_drop::<Cm<'_>>());
    }
    // Every method that changes something takes `&mut`: two threads at once do not compile. That C
    // notices a second thread is ffi's.
    World::new().of(Capacity::of(100)).solo(|mut solo| {
        solo.listen(7471, 0);
        for _ in 0..100 {
            solo.bring(Established, false);
        }
        std::thread::scope(|scope| {
            scope.spawn(move || assert_eq!(solo.cm.in_use(), (101, 100)));
        });
    });
}
