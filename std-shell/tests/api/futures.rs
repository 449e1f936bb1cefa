//! Connections as futures, under an executor of our own: with a driver thread, and driverless.

use crate::executor::*;
use crate::world::*;
use nanocm::future::{Connection, Listener, Request};
use nanocm::{
    Cause, ConnParam, Deadline, DisconnectCause, Drive, Error, PortSpace, RejectReason, Unreachable,
};
use std::fs;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

fn listen(world: &World) -> Listener {
    Listener::bind(&world.server, at(SERVER), 0).unwrap()
}

async fn connect(world: &World) -> Result<Connection, Error> {
    Connection::connect(&world.client, at(SERVER), soon()).await
}

async fn request(listener: &Listener) -> Request {
    listener.request(soon()).await.expect("a request")
}

async fn accept(listener: &Listener) -> Connection {
    let request = request(listener).await;
    let param = ConnParam::new(request.id().cm().next_qpn());
    request.accept(&param, soon()).await.unwrap()
}

/// A connection, from both ends.
fn meet(world: &World) -> (Connection, Connection) {
    let listener = listen(world);
    let (mut ours, mut theirs) = (None, None);
    run_all(
        world,
        vec![
            Box::pin(async { ours = Some(connect(world).await.unwrap()) }),
            Box::pin(async { theirs = Some(accept(&listener).await) }),
        ],
    );
    (ours.unwrap(), theirs.unwrap())
}

#[test]
fn both_sides_connect_talk_and_part() {
    for world in worlds() {
        let listener = listen(&world);
        assert_eq!(listener.local_addr(), Some(at(SERVER)));
        let server = async {
            let request = request(&listener).await;
            assert_eq!(request.private_data()[..5], *b"hello");
            assert_eq!(request.private_data().len(), 56);
            assert_eq!(request.peer_param().qpn, 0x4000);
            let peer = request.peer();
            let mut param = ConnParam::new(0x5000);
            param.private_data = b"welcome";
            let theirs = request.accept(&param, soon()).await.unwrap();
            assert_eq!(theirs.peer(), peer);
            let cause = theirs.disconnected(soon()).await;
            assert_eq!(cause, Some(DisconnectCause::Peer));
            assert_eq!(theirs.disconnected(Deadline::NEVER).await, cause, "as often as asked");
            assert_eq!(theirs.disconnect(Deadline::NEVER).await.unwrap(), DisconnectCause::Peer);
        };
        let client = async {
            let mut param = ConnParam::new(0x4000);
            param.private_data = b"hello";
            let connecting =
                Connection::connect_with(&world.client, None, at(SERVER), &param, soon());
            let ours = connecting.await.unwrap();
            assert_eq!(ours.private_data()[..7], *b"welcome");
            assert_eq!(ours.private_data().len(), 196);
            assert_eq!(ours.peer_param().qpn, 0x5000);
            assert_eq!(ours.peer(), at(SERVER));
            assert_eq!(ours.disconnect(soon()).await.unwrap(), DisconnectCause::Local);
        };
        run_all(&world, vec![Box::pin(server), Box::pin(client)]);
        drop(listener);
        world.assert_clean();
    }
}

/// All at once on one thread; those who accept wait for one listener.
#[test]
fn many_connect_at_once() {
    const MANY: u32 = 300;
    for world in worlds() {
        let listener = listen(&world);
        let mut tasks: Vec<Task<'_>> = Vec::new();
        for _ in 0..MANY {
            tasks.push(Box::pin(async {
                let theirs = accept(&listener).await;
                assert_eq!(theirs.disconnected(soon()).await, Some(DisconnectCause::Peer));
            }));
            tasks.push(Box::pin(async {
                let ours = connect(&world).await.unwrap();
                assert_eq!(ours.disconnect(soon()).await.unwrap(), DisconnectCause::Local);
            }));
        }
        run_all(&world, tasks);
        assert_eq!(world.client.counters().established, MANY);
        assert_eq!(world.server.counters().established, MANY);
        drop(listener);
        world.assert_clean();
    }
}

#[test]
fn a_connection_takes_no_descriptor() {
    crate::isolated!();
    let world = World::new(Drive::Thread);
    let descriptors = || fs::read_dir("/proc/self/fd").unwrap().count();
    let first = meet(&world);
    let before = descriptors();
    let more: Vec<_> = (0..20).map(|_| meet(&world)).collect();
    assert_eq!(descriptors(), before);
    drop((first, more));
    world.assert_clean();
}

#[test]
fn a_rejection_has_reason_and_data() {
    for world in worlds() {
        let listener = listen(&world);
        let server = async {
            request(&listener).await.reject(RejectReason::CONSUMER, b"not today").unwrap();
        };
        let client = async {
            let error = connect(&world).await.unwrap_err();
            assert_eq!((error.errno(), error.peer), (libc::ECONNREFUSED, Some(at(SERVER))));
            let Cause::Rejected(rejection) = error.cause else { panic!("{error}") };
            assert_eq!(rejection.reason, RejectReason::CONSUMER);
            assert_eq!(rejection.private_data[..9], *b"not today");
        };
        run_all(&world, vec![Box::pin(server), Box::pin(client)]);
        drop(listener);
        let error = run(&world, connect(&world)).unwrap_err();
        assert!(error.to_string().contains("nothing listens"), "{error}");
        world.assert_clean();
    }
}

#[test]
fn an_unreachable_peer_is_told() {
    for world in worlds() {
        let nobody = "10.0.0.9:4420".parse().unwrap();
        let connecting = Connection::connect(&world.client, nobody, Deadline::NEVER);
        let error = run(&world, connecting).unwrap_err();
        let refused = Unreachable::SendFailed(libc::ECONNREFUSED);
        assert!(matches!(error.cause, Cause::Unreachable(why) if why == refused), "{error}");

        let mut param = ConnParam::new(0x4000);
        param.timeout = Some(millis(60));
        let connecting =
            Connection::connect_with(&world.client, None, at(SILENT), &param, Deadline::NEVER);
        let error = run(&world, connecting).unwrap_err();
        assert!(matches!(error.cause, Cause::Unreachable(Unreachable::Timeout)), "{error}");

        let v6 = "[2001:db8::1]:1".parse().unwrap();
        let error = run(&world, Connection::connect(&world.client, v6, soon())).unwrap_err();
        assert_eq!(error.errno(), libc::ENETUNREACH);
        world.assert_clean();
    }
}

/// The executor has no timer: the manager's wakes the task.
#[test]
fn deadlines_pass_under_any_executor() {
    const SHORT: std::time::Duration = std::time::Duration::from_millis(40);
    for world in worlds() {
        let start = Instant::now();
        let soon = || Deadline::after(SHORT);
        let listener = listen(&world);
        assert!(run(&world, listener.request(soon())).is_none());
        drop(listener);
        let connecting = Connection::connect(&world.client, at(SILENT), soon());
        let error = run(&world, connecting).unwrap_err();
        assert!(matches!(error.cause, Cause::TimedOut), "{error}");
        let (ours, theirs) = meet(&world);
        assert_eq!(run(&world, ours.disconnected(soon())), None);
        world.cut();
        let error = run(&world, ours.disconnect(soon())).unwrap_err();
        assert_eq!((error.operation, error.errno()), ("disconnect", libc::ETIMEDOUT));
        assert!(start.elapsed() >= SHORT * 4, "none of them before its time");
        // One that has passed already.
        let channel = world.server.channel().unwrap();
        assert!(run(&world, channel.next_async(Deadline::at(start))).is_none());
        world.mend();
        drop((theirs, channel));
        world.assert_clean();
    }
}

/// The longer deadline of one does not keep the shorter one of another.
#[test]
fn many_deadlines_pass_in_their_order() {
    for world in worlds() {
        let channel = world.client.channel().unwrap();
        let order = Mutex::new(Vec::new());
        let wait = |time| -> Task<'_> {
            let (channel, order) = (&channel, &order);
            Box::pin(async move {
                assert!(channel.next_async(Deadline::after(millis(time))).await.is_none());
                order.lock().unwrap().push(time);
            })
        };
        run_all(&world, [90, 30, 60, 1].map(wait).into());
        assert_eq!(*order.lock().unwrap(), [1, 30, 60, 90]);
    }
}

/// The events of a channel, one for each who waits.
#[test]
fn the_events_of_a_channel() {
    for world in worlds() {
        let channel = world.client.channel().unwrap();
        let ids = [(); 8].map(|()| world.client.create_id(&channel, PortSpace::Tcp).unwrap());
        let seen = Mutex::new(Vec::new());
        let mut tasks: Vec<Task<'_>> = Vec::new();
        for _ in &ids {
            tasks.push(Box::pin(async {
                let event = channel.next_async(soon()).await.unwrap();
                seen.lock().unwrap().push(event.id);
            }));
        }
        tasks.push(Box::pin(async {
            for id in &ids {
                id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
            }
        }));
        run_all(&world, tasks);
        assert_eq!(*seen.lock().unwrap(), ids.each_ref().map(|id| id.handle()));
    }
}

#[test]
fn all_who_wait_for_an_end_hear_of_it() {
    for world in worlds() {
        let (ours, theirs) = meet(&world);
        let waiting = || -> Task<'_> {
            let theirs = &theirs;
            Box::pin(async move {
                let cause = theirs.disconnected(Deadline::NEVER).await;
                assert_eq!(cause, Some(DisconnectCause::Peer));
            })
        };
        let mut tasks = vec![waiting(), waiting(), waiting()];
        tasks.push(Box::pin(async { drop(ours) }));
        run_all(&world, tasks);
    }
}

/// Whoever waits is woken, also if it was another task that asked first; nobody else is.
#[test]
fn the_waker_of_the_last_poll_counts() {
    let world = World::new(Drive::Caller);
    let listener = listen(&world);
    let [first, last] = [(); 2].map(|()| Arc::new(Count::default()));
    let mut request = pin!(listener.request(Deadline::NEVER));
    assert!(poll_once(request.as_mut(), &first).is_pending());
    assert!(poll_once(request.as_mut(), &last).is_pending());
    assert_eq!(Arc::strong_count(&first), 1, "it is not kept");
    let mut asking = Running::new(connect(&world));
    asking.poll();
    world.drive();
    assert_eq!((first.get(), last.get()), (0, 1));
    assert!(poll_once(request.as_mut(), &last).is_ready());
    assert_eq!(Arc::strong_count(&last), 1);
}

/// It may be the executor's way to poll at once, or to ask the manager something.
#[test]
fn a_waker_may_do_anything() {
    struct Asks(nanocm::Cm, Mutex<usize>);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            *self.1.lock().unwrap() = self.0.in_use().ids;
        }
    }
    /// Holds what a task would.
    struct Holds(#[expect(dead_code, reason = "to be dropped")] nanocm::Id);
    impl Wake for Holds {
        fn wake(self: Arc<Self>) {}
    }
    for world in worlds() {
        let cm = &world.client;
        let channel = cm.channel().unwrap();
        let id = cm.create_id(&channel, PortSpace::Tcp).unwrap();
        let held = cm.create_id(&channel, PortSpace::Tcp).unwrap();
        let asks = Arc::new(Asks(cm.clone(), Mutex::new(0)));
        let asking = Waker::from(asks.clone());
        let mut first = pin!(channel.next_async(soon()));
        assert!(first.as_mut().poll(&mut Context::from_waker(&asking)).is_pending());
        let mut second = pin!(channel.next_async(Deadline::NEVER));
        let holding = Waker::from(Arc::new(Holds(held)));
        assert!(second.as_mut().poll(&mut Context::from_waker(&holding)).is_pending());
        drop(holding);
        id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
        // Both were woken, the second one's waker was dropped: outside the manager's lock.
        crate::common::eventually("it is woken", || *asks.1.lock().unwrap() > 0);
        crate::common::eventually("it is dropped", || cm.in_use().ids == 1);
        let woken = first.as_mut().poll(&mut Context::from_waker(&asking));
        let Poll::Ready(Some(event)) = woken else { panic!("{woken:?}") };
        assert_eq!(event.id, id.handle());
    }
}

/// What executors with several threads ask for.
#[test]
fn futures_go_to_other_threads() {
    fn is_send<T: Send>(_: T) {}
    let world = World::new(Drive::Thread);
    let cm = world.client.clone();
    is_send(async move {
        let listener = Listener::bind(&cm, at(CLIENT), 0)?;
        let connection = Connection::connect(&cm, at(SERVER), soon()).await?;
        let request = listener.request(soon()).await;
        let param = ConnParam::new(1);
        let other = request.expect("one").accept(&param, soon()).await?;
        other.disconnected(soon()).await;
        connection.disconnect(soon()).await
    });
}
