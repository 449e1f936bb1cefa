//! A future that is dropped instead of awaited: nothing is lost, nothing is left.

use crate::executor::*;
use crate::world::*;
use nanocm::future::{Connection, Listener};
use nanocm::{ConnParam, Deadline, DisconnectCause, Drive, RejectReason};
use std::sync::Arc;
use std::task::Poll;

fn listen(world: &World) -> Listener {
    Listener::bind(&world.server, at(SERVER), 0).unwrap()
}

fn connect(world: &World) -> impl Future<Output = Result<Connection, nanocm::Error>> {
    Connection::connect(&world.client, at(SERVER), soon())
}

/// Accepts the first that asks; `None` if that comes to nothing.
async fn serve(listener: &Listener) -> Option<Connection> {
    let request = listener.request(soon()).await?;
    request.accept(&ConnParam::new(0x5000), soon()).await.ok()
}

fn meet(world: &World) -> (Connection, Connection) {
    let listener = listen(world);
    let (mut ours, mut theirs) = (Running::new(connect(world)), Running::new(serve(&listener)));
    for _ in 0..8 {
        ours.poll();
        theirs.poll();
        world.drive();
    }
    (ours.stop().unwrap().unwrap(), theirs.stop().unwrap().unwrap())
}

/// Calls `cancelled` with a world of its own for each number of waits, until it says that the future was
/// ready before it was to be dropped.
#[track_caller]
fn at_every_wait(expected: usize, mut cancelled: impl FnMut(&World, usize) -> bool) {
    let mut waits = 0;
    loop {
        let world = World::slow();
        let was_ready = cancelled(&world, waits);
        world.assert_clean();
        if was_ready {
            break;
        }
        waits += 1;
        assert!(waits < SOON);
    }
    assert_eq!(waits, expected, "it waits so often");
}

/// For the address, the route, the answer (two turns), and to be told that it stands.
#[test]
fn connecting() {
    let mut stood = 0;
    at_every_wait(5, |world, waits| {
        let listener = listen(world);
        // The server accepts whatever comes.
        let mut serving = Running::new(serve(&listener));
        let mut connecting = Running::new(connect(world));
        for _ in 0..=waits {
            connecting.poll();
            serving.poll();
            world.drive();
        }
        let ours = connecting.stop();
        assert_eq!(world.client.in_use().ids, usize::from(ours.is_some()));
        // One that called it off has told the server so.
        if serving.result.is_none() && waits >= 3 {
            stood += usize::from(serving.end(world).is_some());
        }
        ours.is_some()
    });
    assert!(stood > 0, "it was called off when it stood for the server");
}

#[test]
fn accepting() {
    at_every_wait(2, |world, waits| {
        let listener = listen(world);
        let mut connecting = Running::new(connect(world));
        for _ in 0..3 {
            connecting.poll();
            world.drive();
        }
        let request = Running::new(listener.request(soon())).end(world).unwrap();
        let param = ConnParam::new(0x5000);
        let mut accepting = Running::new(request.accept(&param, soon()));
        for _ in 0..=waits {
            accepting.poll();
            connecting.poll();
            world.drive();
        }
        let was_ready = accepting.stop().is_some();
        // The client is rejected, or its connection ends.
        match connecting.end(world) {
            Ok(ours) => {
                let cause = Running::new(ours.disconnected(soon())).end(world);
                assert_eq!(cause, Some(DisconnectCause::Peer));
            }
            Err(error) => assert_eq!(error.errno(), libc::ECONNREFUSED, "{error}"),
        }
        was_ready
    });
}

#[test]
fn disconnecting() {
    at_every_wait(2, |world, waits| {
        let (ours, theirs) = meet(world);
        let mut disconnecting = Running::new(ours.disconnect(soon()));
        let mut hearing = Running::new(theirs.disconnected(soon()));
        for _ in 0..=waits {
            disconnecting.poll();
            hearing.poll();
            world.drive();
        }
        let was_ready = disconnecting.stop().is_some();
        // Called off or not, the peer hears of it.
        assert_eq!(hearing.end(world), Some(DisconnectCause::Peer));
        was_ready
    });
}

/// Waiting for an end can be called off, and done again.
#[test]
fn waiting_for_an_end() {
    let world = World::slow();
    let (ours, theirs) = meet(&world);
    let mut waiting = Running::new(theirs.disconnected(soon()));
    waiting.poll();
    drop(ours);
    world.drive();
    // It has been woken, and does not look.
    assert!(waiting.stop().is_none());
    for _ in 0..2 {
        let cause = Running::new(theirs.disconnected(soon())).end(&world);
        assert_eq!(cause, Some(DisconnectCause::Peer));
    }
    drop(theirs);
    world.assert_clean();
}

/// A request that has come is not lost with the one who waited for it.
#[test]
fn waiting_for_a_request() {
    let world = World::new(Drive::Caller);
    let listener = listen(&world);
    let [gone, stays] = [(); 2].map(|()| Arc::new(Count::default()));
    let mut waiting = Box::pin(listener.request(Deadline::NEVER));
    let mut other = Box::pin(listener.request(soon()));
    assert!(poll_once(waiting.as_mut(), &gone).is_pending());
    assert!(poll_once(other.as_mut(), &stays).is_pending());
    let mut connecting = Running::new(connect(&world));
    connecting.poll();
    world.drive();
    assert_eq!((gone.get(), stays.get()), (1, 1), "both were woken for it");
    drop(waiting);
    assert_eq!(Arc::strong_count(&gone), 1);
    let Poll::Ready(request) = poll_once(other.as_mut(), &stays) else {
        panic!("the other one has it")
    };
    request.unwrap().reject(RejectReason::CONSUMER, &[]).unwrap();
    assert!(connecting.end(&world).is_err());
    drop(other);

    // Nor is it if nobody waits for a while.
    let mut waiting = Running::new(listener.request(soon()));
    waiting.poll();
    let mut connecting = Running::new(connect(&world));
    connecting.poll();
    world.drive();
    assert!(waiting.stop().is_none());
    drop(Running::new(listener.request(soon())).end(&world).expect("the request"));
    assert!(connecting.end(&world).is_err(), "a request that is dropped is rejected");
    drop(listener);
    world.assert_clean();
}

/// What was never polled never was.
#[test]
fn before_the_first_poll() {
    let world = World::new(Drive::Caller);
    drop(connect(&world));
    assert_eq!(world.client.in_use().ids, 0);
    let (ours, theirs) = meet(&world);
    // But for the connection that it holds.
    drop(ours.disconnect(soon()));
    let cause = Running::new(theirs.disconnected(soon())).end(&world);
    assert_eq!(cause, Some(DisconnectCause::Peer));
    drop(theirs);
    world.assert_clean();
}

/// Deadlines that nobody waits for any more do not wake the driver.
#[test]
fn deadlines_go_with_their_futures() {
    let world = World::new(Drive::Caller);
    let listener = listen(&world);
    while world.server.drive().unwrap().is_some() {}
    let minute = || Deadline::after_secs(60);
    let mut waiting = Running::new(listener.request(minute()));
    waiting.poll();
    assert!(world.server.drive().unwrap().is_some());
    assert!(waiting.stop().is_none());
    assert_eq!(world.server.drive().unwrap(), None);
    // Nor do the wakers of those who wait keep anything.
    let count = Arc::new(Count::default());
    let mut waiting = Box::pin(listener.request(minute()));
    for _ in 0..3 {
        assert!(poll_once(waiting.as_mut(), &count).is_pending());
    }
    assert_eq!(Arc::strong_count(&count), 2);
    drop(waiting);
    assert_eq!(Arc::strong_count(&count), 1);
}
