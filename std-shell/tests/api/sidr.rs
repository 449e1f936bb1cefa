//! Datagram services, as futures and with blocking calls.

use crate::common::eventually;
use crate::executor::*;
use crate::world::*;
use nanocm::core::conn::limits;
use nanocm::future::Service;
use nanocm::provider::LinkFaults;
use nanocm::{
    Cause, ConnParam, ConnState, Deadline, Drive, EventChannel, Id, PortSpace, RejectReason,
    SidrStatus, Unreachable,
};
use std::thread;

fn serve(world: &World) -> (EventChannel, Id) {
    let channel = world.server.channel().unwrap();
    let id = world.server.create_id(&channel, PortSpace::Udp).unwrap();
    id.bind(at(SERVER)).unwrap();
    id.listen(0).unwrap();
    (channel, id)
}

/// The next request, as a future.
async fn request(channel: &EventChannel) -> Id {
    let mut event = channel.next_async(soon()).await.expect("a request");
    assert_eq!(event.private_data.len(), limits::SIDR_REQ);
    event.take_request().expect("a new identifier")
}

#[test]
fn a_service_answers() {
    for world in worlds() {
        let (channel, listener) = serve(&world);
        let mut answer = ConnParam::new(0x77);
        answer.qkey = 0x8000_0001;
        answer.private_data = b"here";
        let server = async {
            let id = request(&channel).await;
            id.accept(&answer).unwrap();
            // Nothing more is told: there is no connection.
            assert!(channel.next_async(Deadline::after(millis(20))).await.is_none());
            assert_eq!(id.conn_state(), ConnState::SidrRepSent);
        };
        let client = async {
            let found = Service::resolve(&world.client, at(SERVER), soon()).await.unwrap();
            assert_eq!((found.qpn(), found.qkey()), (0x77, 0x8000_0001));
            assert_eq!(found.private_data().len(), limits::SIDR_REP);
            assert!(found.private_data().starts_with(b"here\0"));
            assert_eq!(found.peer(), at(SERVER));
            assert_eq!(found.id().local_addr().unwrap().ip(), CLIENT);
            assert_eq!(found.path().unwrap().remote_gid().to_ip(), SERVER);
            assert_eq!(found.peer_param().qpn, found.qpn());
            assert!(format!("{found:?}").contains("119"));
            let error = found.id().disconnect().unwrap_err();
            assert_eq!(error.errno(), libc::EINVAL, "{error}");
        };
        run_all(&world, vec![Box::pin(server), Box::pin(client)]);
        drop((listener, channel));
        world.assert_clean();
    }
}

#[test]
fn many_ask_at_once() {
    const MANY: u32 = 200;
    for world in worlds() {
        let (channel, listener) = serve(&world);
        let mut tasks: Vec<Task<'_>> = Vec::new();
        for _ in 0..MANY {
            tasks.push(Box::pin(async {
                let found = Service::resolve(&world.client, at(SERVER), soon()).await.unwrap();
                assert_eq!(found.qpn(), 0x77);
            }));
        }
        tasks.push(Box::pin(async {
            for _ in 0..MANY {
                request(&channel).await.accept(&ConnParam::new(0x77)).unwrap();
            }
        }));
        run_all(&world, tasks);
        assert_eq!(world.client.counters().resolved, MANY);
        drop((listener, channel));
        world.assert_clean();
    }
}

#[test]
fn threads_ask_too() {
    for drive in DRIVES {
        let world = World::new(drive);
        let (channel, listener) = serve(&world);
        thread::scope(|scope| {
            scope.spawn(|| {
                let event = channel.next(soon()).unwrap().expect("a request");
                let mut param = ConnParam::new(0x77);
                param.private_data = b"here";
                let id = event.request.unwrap();
                assert!(event.private_data.starts_with(b"anybody?\0"));
                id.accept(&param).unwrap();
                eventually("it is sent", || {
                    world.drive();
                    world.client.counters().resolved == 1
                });
            });
            let mut param = ConnParam::new(0);
            param.private_data = b"anybody?";
            let from = Some("10.0.0.1:5000".parse().unwrap());
            let found = world.client.resolve_with(from, at(SERVER), &param, soon()).unwrap();
            assert_eq!(found.id().local_addr(), from);
            assert!(found.private_data().starts_with(b"here\0"));
        });
        drop((listener, channel));
        world.assert_clean();
    }
}

#[test]
fn a_refusal_has_status_service_and_data() {
    for drive in DRIVES {
        let world = World::new(drive);
        let (channel, listener) = serve(&world);
        for (reason, status) in [
            (RejectReason::CONSUMER, SidrStatus::REJECTED),
            (RejectReason::NO_QP, SidrStatus::NO_QP),
        ] {
            let error = thread::scope(|scope| {
                scope.spawn(|| {
                    let id = expect_request(&channel);
                    id.reject(reason, b"not today").unwrap();
                    eventually("it is sent", || {
                        world.drive();
                        id.conn_state() == ConnState::SidrRepSent
                    });
                });
                world.client.resolve(at(SERVER), soon()).unwrap_err()
            });
            assert_eq!((error.operation, error.errno()), ("resolve", libc::ECONNREFUSED));
            assert_eq!(error.peer, Some(at(SERVER)));
            let Cause::SidrRejected(why) = error.cause else { panic!("{error}") };
            assert_eq!(
                (why.status, why.service.to_string()),
                (status, "RDMA udp port 4420".into())
            );
            assert!(why.private_data.starts_with(b"not today\0"));
            assert_eq!(why.private_data.len(), limits::SIDR_REP);
        }
        drop((listener, channel));
        world.assert_clean();
    }
}

#[test]
fn nothing_serves() {
    let world = World::new(Drive::Thread);
    world.server.open(at(SERVER)).unwrap();
    let error = world.client.resolve(at(SERVER), soon()).unwrap_err();
    let text = "10.0.0.2:4420: rejected with status 1: nothing serves that service ID (RDMA udp port 4420)";
    assert!(error.to_string().ends_with(text), "{error}");
    assert!(error.advice().unwrap().contains("datagrams"));
}

#[test]
fn nothing_answers() {
    for drive in DRIVES {
        let world = World::with(drive, |config| config.timers.sidr_first_retry = millis(20));
        let error = world.client.resolve(at(SILENT), Deadline::after(millis(100))).unwrap_err();
        assert!(matches!(error.cause, Cause::TimedOut), "{error}");
        assert_eq!((error.operation, error.errno()), ("resolve", libc::ETIMEDOUT));
        let nobody = "10.0.0.9:4420".parse().unwrap();
        let error = world.client.resolve(nobody, Deadline::NEVER).unwrap_err();
        let refused = Unreachable::SendFailed(libc::ECONNREFUSED);
        assert!(matches!(error.cause, Cause::Unreachable(why) if why == refused), "{error}");
        let mut param = ConnParam::new(0);
        param.timeout = Some(millis(60));
        let resolving = world.client.resolve_with(None, at(SILENT), &param, Deadline::NEVER);
        let error = resolving.unwrap_err();
        assert!(matches!(error.cause, Cause::Unreachable(Unreachable::Timeout)), "{error}");
        param.private_data = &[0; limits::SIDR_REQ + 1];
        let error = world.client.resolve_with(None, at(SERVER), &param, soon()).unwrap_err();
        assert_eq!(error.errno(), libc::EMSGSIZE, "{error}");
        world.assert_clean();
    }
}

#[test]
fn on_a_link_that_loses_some_all_are_told_in_the_end() {
    let world = World::with(Drive::Thread, |config| config.timers.sidr_first_retry = millis(10));
    world.net.set_faults(LinkFaults { loss: 150, duplicate: 100, reorder: 100 });
    let (channel, listener) = serve(&world);
    const MANY: u32 = 30;
    let mut answered = Vec::new();
    let server = async {
        // One for each who asks, however often it asks: whoever is answered is not told again.
        for _ in 0..MANY {
            let id = request(&channel).await;
            id.accept(&ConnParam::new(0x77)).unwrap();
            answered.push(id);
        }
    };
    let mut tasks: Vec<Task<'_>> = vec![Box::pin(server)];
    for _ in 0..MANY {
        tasks.push(Box::pin(async {
            Service::resolve(&world.client, at(SERVER), soon()).await.unwrap();
        }));
    }
    run_all(&world, tasks);
    world.mend();
    assert!(channel.try_next().unwrap().is_none(), "each has asked once");
    drop((answered, listener, channel));
    world.assert_clean();
}

/// Asking can be called off; a service that was found can be let go.
#[test]
fn a_question_is_called_off() {
    let world = World::slow();
    let (channel, listener) = serve(&world);
    for polls in 1..6 {
        let mut resolving = Running::new(Service::resolve(&world.client, at(SERVER), soon()));
        for _ in 0..polls {
            resolving.poll();
            world.drive();
        }
        assert!(resolving.stop().is_none());
        assert_eq!(world.client.in_use().ids, 0);
    }
    drop(listener);
    drop(channel);
    world.assert_clean();
}
