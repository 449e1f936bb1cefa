//! The calls that do it all at once.

use crate::world::*;
use nanocm::{
    Cause, ConnParam, ConnState, Deadline, DisconnectCause, RejectReason, State, Unreachable,
};
use std::thread;

#[test]
fn both_sides_connect_talk_and_part() {
    for drive in DRIVES {
        let world = World::new(drive);
        let listener = world.listen();
        let (ours, theirs) = thread::scope(|scope| {
            let server = scope.spawn(|| {
                let request = request(&listener);
                assert_eq!(request.private_data()[..5], *b"hello");
                assert_eq!(request.private_data().len(), 56);
                assert_eq!(request.peer_param().qpn, 0x4000);
                let mut param = ConnParam::new(0x5000);
                param.private_data = b"welcome";
                request.accept(&param, soon()).unwrap()
            });
            let mut param = ConnParam::new(0x4000);
            param.private_data = b"hello";
            let ours = world.client.connect_with(None, at(SERVER), &param, soon()).unwrap();
            (ours, server.join().unwrap())
        });
        assert_eq!(ours.private_data()[..7], *b"welcome");
        assert_eq!(ours.private_data().len(), 196);
        assert_eq!(ours.peer_param().qpn, 0x5000);
        assert_eq!(ours.peer(), at(SERVER));
        assert_eq!(Some(theirs.peer()), ours.id().local_addr());
        assert_eq!(theirs.id().local_addr(), Some(at(SERVER)));
        for side in [&ours, &theirs] {
            assert_eq!((side.id().state(), side.id().conn_state()), STANDS);
        }
        thread::scope(|scope| {
            let server = scope.spawn(|| theirs.wait_disconnected(soon()).unwrap());
            assert_eq!(ours.disconnect(soon()).unwrap(), DisconnectCause::Local);
            assert_eq!(server.join().unwrap(), Some(DisconnectCause::Peer));
        });
        drop((theirs, listener));
        world.assert_clean();
    }
}

const STANDS: (State, ConnState) = (State::Connect, ConnState::Established);

#[test]
fn a_rejection_has_reason_service_and_data() {
    for drive in DRIVES {
        let world = World::new(drive);
        let listener = world.listen();
        let error = thread::scope(|scope| {
            scope.spawn(|| request(&listener).reject(RejectReason::CONSUMER, b"not today"));
            world.client.connect(at(SERVER), soon()).unwrap_err()
        });
        assert_eq!(error.errno(), libc::ECONNREFUSED);
        assert_eq!(error.peer, Some(at(SERVER)));
        let Cause::Rejected(rejection) = error.cause else { panic!("{error}") };
        assert_eq!(rejection.reason, RejectReason::CONSUMER);
        assert_eq!(rejection.service.to_string(), "RDMA tcp port 4420");
        assert_eq!(rejection.private_data.len(), 148);
        assert_eq!(rejection.private_data[..9], *b"not today");
        drop(listener);
        world.assert_clean();
    }
}

#[test]
fn an_end_is_told_as_often_as_it_is_asked() {
    for drive in DRIVES {
        let world = World::new(drive);
        let (ours, theirs) = world.meet();
        drop(ours);
        for _ in 0..2 {
            let cause = theirs.wait_disconnected(Deadline::NEVER).unwrap();
            assert_eq!(cause, Some(DisconnectCause::Peer));
        }
        assert_eq!(theirs.disconnect(Deadline::NEVER).unwrap(), DisconnectCause::Peer);
    }
}

#[test]
fn all_who_wait_for_an_end_hear_of_it() {
    for drive in DRIVES {
        let world = World::new(drive);
        let (ours, theirs) = world.meet();
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| theirs.wait_disconnected(Deadline::NEVER).unwrap()))
                .collect();
            thread::sleep(millis(20));
            drop(ours);
            for thread in waiting {
                assert_eq!(thread.join().unwrap(), Some(DisconnectCause::Peer));
            }
        });
    }
}

#[test]
fn both_may_disconnect_at_once() {
    for drive in DRIVES {
        let world = World::new(drive);
        let (ours, theirs) = world.meet();
        thread::scope(|scope| {
            let server = scope.spawn(|| theirs.disconnect(soon()).unwrap());
            ours.disconnect(soon()).unwrap();
            server.join().unwrap();
        });
        world.assert_clean();
    }
}

#[test]
fn nobody_at_the_address_is_told_soon() {
    for drive in DRIVES {
        let world = World::new(drive);
        let nobody = "10.0.0.9:4420".parse().unwrap();
        let error = world.client.connect(nobody, Deadline::NEVER).unwrap_err();
        let refused = Unreachable::SendFailed(libc::ECONNREFUSED);
        assert!(matches!(error.cause, Cause::Unreachable(why) if why == refused), "{error}");
        assert_eq!(error.errno(), libc::ETIMEDOUT);
        world.assert_clean();
    }
}

#[test]
fn a_source_port_goes_with_the_routes_address() {
    let world = World::new(nanocm::Drive::Thread);
    let listener = world.listen();
    thread::scope(|scope| {
        scope.spawn(|| request(&listener).reject(RejectReason::CONSUMER, &[]));
        let any = "0.0.0.0:5555".parse().unwrap();
        let param = ConnParam::new(0x4000);
        let connecting = world.client.connect_with(Some(any), at(SERVER), &param, soon());
        let error = connecting.unwrap_err();
        assert_eq!(error.local, Some("10.0.0.1:5555".parse().unwrap()), "{error}");
    });
}
