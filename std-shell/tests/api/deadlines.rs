//! Calls that wait end in time, and leave nothing behind.

use crate::world::*;
use nanocm::{Cause, ConnParam, Deadline, DisconnectCause, Drive, EventKind, Unreachable};
use std::thread;
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(120);

/// Not before its time, and not much later even on a slow machine.
#[track_caller]
fn takes_short<R>(f: impl FnOnce() -> R) -> R {
    let start = Instant::now();
    let result = f();
    assert!((SHORT..SHORT + millis(5000)).contains(&start.elapsed()), "{:?}", start.elapsed());
    result
}

#[test]
fn connecting() {
    for drive in DRIVES {
        let world = World::new(drive);
        let error =
            takes_short(|| world.client.connect(at(SILENT), Deadline::after(SHORT)).unwrap_err());
        assert!(matches!(error.cause, Cause::TimedOut), "{error}");
        assert_eq!((error.operation, error.errno()), ("connect", libc::ETIMEDOUT));
        assert!(world.client.counters().retransmitted >= 1);
        world.assert_clean();
    }
}

/// The listener takes the request and is silent. Called off, the request ends there too.
#[test]
fn waiting_for_an_answer() {
    for drive in DRIVES {
        let world = World::new(drive);
        let listener = world.listen();
        let channel = world.client.channel().unwrap();
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                let request = request(&listener);
                takes_short(|| thread::sleep(SHORT));
                request.accept(&ConnParam::new(0x5000), soon())
            });
            let error = world.client.connect(at(SERVER), Deadline::after(SHORT / 2)).unwrap_err();
            assert!(matches!(error.cause, Cause::TimedOut), "{error}");
            // Gone, or (if nobody drove meanwhile) going.
            let error = server.join().unwrap().unwrap_err();
            assert!(matches!(error.errno(), libc::ECONNABORTED | libc::ECONNREFUSED), "{error}");
        });
        drop((channel, listener));
        world.assert_clean();
    }
}

#[test]
fn waiting_for_a_request() {
    for drive in DRIVES {
        let world = World::new(drive);
        let listener = world.listen();
        assert!(takes_short(|| listener.request(Deadline::after(SHORT)).unwrap()).is_none());
        drop(listener);
        world.assert_clean();
    }
}

/// The peer never sends its RTU.
#[test]
fn accepting() {
    for drive in DRIVES {
        let world = World::new(drive);
        let listener = world.listen();
        let channel = world.client.channel().unwrap();
        let id = world.ask(&channel);
        let request = request(&listener);
        let accept = || request.accept(&ConnParam::new(0x5000), Deadline::after(SHORT));
        let error = takes_short(accept).unwrap_err();
        assert!(matches!(error.cause, Cause::TimedOut), "{error}");
        assert_eq!((error.operation, error.errno()), ("accept", libc::ETIMEDOUT));
        drop((id, listener));
        world.assert_clean();
    }
}

#[test]
fn disconnecting() {
    for drive in DRIVES {
        let world = World::new(drive);
        let (ours, theirs) = world.meet();
        world.cut();
        let error = takes_short(|| ours.disconnect(Deadline::after(SHORT)).unwrap_err());
        assert!(matches!(error.cause, Cause::TimedOut), "{error}");
        assert_eq!(world.client.in_use().ids, 0, "the engine goes on by itself");
        world.mend();
        thread::scope(|scope| {
            let server = scope.spawn(|| theirs.wait_disconnected(soon()).unwrap());
            crate::common::eventually("the DREQ is repeated", || {
                world.drive();
                server.is_finished()
            });
            assert_eq!(server.join().unwrap(), Some(DisconnectCause::Peer));
        });
        drop(theirs);
        world.assert_clean();
    }
}

/// A deadline beyond the engine's own is the attempt's.
#[test]
fn a_long_deadline_is_waited_for() {
    let world = World::with(Drive::Thread, |config| config.timers.deadline = millis(100));
    let start = Instant::now();
    let error = world.client.connect(at(SILENT), Deadline::after(millis(400))).unwrap_err();
    assert!(matches!(error.cause, Cause::TimedOut), "{error}");
    assert!(start.elapsed() >= millis(400));
    // Without one, the engine's counts.
    let error = world.client.connect(at(SILENT), Deadline::NEVER).unwrap_err();
    assert!(matches!(error.cause, Cause::Unreachable(Unreachable::Timeout)), "{error}");
}

/// An application that takes its time has the engine's answer deadline.
#[test]
fn a_request_that_is_taken_too_late_is_rejected() {
    let world = World::with(Drive::Thread, |config| {
        config.timers.accept_deadline = millis(50);
    });
    let listener = world.listen();
    let channel = world.client.channel().unwrap();
    let id = world.ask(&channel);
    let event = expect(&channel, "REJECTED");
    assert!(matches!(event.kind, EventKind::Rejected(_)));
    let late = request(&listener);
    let error = late.accept(&ConnParam::new(0x5000), soon()).unwrap_err();
    assert_eq!(error.errno(), libc::ECONNABORTED, "{error}");
    drop((id, listener));
    world.assert_clean();
}
