//! One descriptor to poll, `drive` when it is readable.

use crate::world::*;
use nanocm::{ConnParam, Drive, EventKind, Unreachable};
use rustix::event::{PollFd, PollFlags, poll};
use std::os::fd::AsFd;
use std::time::Instant;

/// Waits for the descriptor alone: the timer behind it must do the rest.
fn wait(cm: &nanocm::Cm) {
    let mut fds = [PollFd::from_borrowed_fd(cm.as_fd(), PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: 20, tv_nsec: 0 };
    assert_eq!(poll(&mut fds, Some(&limit)).unwrap(), 1, "it was never due");
}

#[test]
fn one_thread_drives_both_sides_by_their_descriptors() {
    let world = World::new(Drive::Caller);
    let servers = world.server.channel().unwrap();
    let listener = world.server.create_id(&servers, nanocm::PortSpace::Tcp).unwrap();
    listener.bind(at(SERVER)).unwrap();
    listener.listen(0).unwrap();
    let clients = world.client.channel().unwrap();
    let id = world.ask(&clients);
    wait(&world.server);
    world.server.drive().unwrap();
    let request = servers.try_next().unwrap().unwrap().request.unwrap();
    request.accept(&ConnParam::new(0x5000)).unwrap();
    wait(&world.client);
    world.client.drive().unwrap();
    let response = clients.try_next().unwrap().unwrap();
    assert!(matches!(response.kind, EventKind::ConnectResponse { .. }));
    id.establish().unwrap();
    wait(&world.server);
    world.server.drive().unwrap();
    assert_eq!(servers.try_next().unwrap().unwrap().kind, EventKind::Established);
    drop((request, id, listener));
    world.assert_clean();
}

/// Three retransmissions and the end, with nothing but the descriptor to wait for.
#[test]
fn timers_fire() {
    let world = World::new(Drive::Caller);
    let channel = world.client.channel().unwrap();
    let id = routed(&world.client, &channel, at(SILENT));
    let mut param = ConnParam::new(0x4000);
    param.retries = Some(3);
    id.connect(&param).unwrap();
    let event = loop {
        let next = world.client.drive().unwrap();
        if let Some(event) = channel.try_next().unwrap() {
            break event;
        }
        let next = next.expect("a wake-up while it waits for an answer");
        assert!(next <= Instant::now() + millis(2000), "it is due within its retry interval");
        wait(&world.client);
    };
    assert_eq!(event.kind, EventKind::Unreachable(Unreachable::Timeout));
    assert_eq!(world.client.counters().retransmitted, 3);
    // The attempt is over: nothing is due any more.
    while world.client.drive().unwrap().is_some() {}
    drop(id);
    world.assert_clean();
}

/// What the transport says of a datagram as it is sent is an event like any other.
#[test]
fn a_failure_while_sending_is_told_without_further_ado() {
    let world = World::new(Drive::Caller);
    let channel = world.client.channel().unwrap();
    let nobody = "10.0.0.9:4420".parse().unwrap();
    let id = routed(&world.client, &channel, nobody);
    id.connect(&ConnParam::new(0x4000)).unwrap();
    let event = loop {
        wait(&world.client);
        if let Some(event) = channel.try_next().unwrap() {
            break event;
        }
    };
    let refused = Unreachable::SendFailed(libc::ECONNREFUSED);
    assert_eq!((event.id, event.kind), (id.handle(), EventKind::Unreachable(refused)));
    assert_eq!(world.client.counters().retransmitted, 1, "at the first retransmission");
}
