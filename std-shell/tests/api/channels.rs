//! Event channels and the identifiers that report to them.

use crate::world::*;
use nanocm::{Cause, ConnParam, Deadline, EventChannel, PortSpace, RejectReason};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{AsFd, AsRawFd};

fn is_readable(channel: &EventChannel) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN)];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
}

#[test]
fn a_channel_is_readable_exactly_while_there_are_events() {
    for drive in DRIVES {
        let world = World::new(drive);
        let channel = world.client.channel().unwrap();
        assert_eq!(channel.as_raw_fd(), channel.as_fd().as_raw_fd());
        assert!(!is_readable(&channel));
        let ids: Vec<_> = (0..3)
            .map(|_| {
                let id = world.client.create_id(&channel, PortSpace::Tcp).unwrap();
                id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
                id
            })
            .collect();
        for id in &ids {
            assert!(is_readable(&channel));
            assert_eq!(expect(&channel, "ADDR_RESOLVED").id, id.handle());
        }
        assert!(!is_readable(&channel));
        ids[0].resolve_route(millis(10_000)).unwrap();
        assert!(is_readable(&channel));
        drop(ids);
        assert!(!is_readable(&channel), "the only event was of an identifier that is no more");
        assert!(channel.try_next().unwrap().is_none());
    }
}

#[test]
fn each_channel_has_the_events_of_its_own_identifiers() {
    let world = World::new(nanocm::Drive::Thread);
    let channels = [(); 2].map(|()| world.client.channel().unwrap());
    let ids = [0, 1].map(|i| world.client.create_id(&channels[i], PortSpace::Tcp).unwrap());
    for id in &ids {
        id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
    }
    for (id, channel) in ids.iter().zip(&channels) {
        assert_eq!(expect(channel, "ADDR_RESOLVED").id, id.handle());
        assert!(channel.try_next().unwrap().is_none());
    }
}

#[test]
fn an_identifier_takes_its_events_along() {
    let world = World::new(nanocm::Drive::Thread);
    let [old, new] = [(); 2].map(|()| world.client.channel().unwrap());
    let mut id = world.client.create_id(&old, PortSpace::Tcp).unwrap();
    let other = world.client.create_id(&old, PortSpace::Tcp).unwrap();
    for id in [&id, &other] {
        id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
    }
    id.migrate(&new).unwrap();
    assert_eq!(expect(&new, "ADDR_RESOLVED").id, id.handle());
    id.resolve_route(millis(10_000)).unwrap();
    assert_eq!(expect(&new, "ROUTE_RESOLVED").id, id.handle());
    assert_eq!(expect(&old, "ADDR_RESOLVED").id, other.handle());
    assert!(old.try_next().unwrap().is_none());
}

#[test]
fn a_listener_takes_the_requests_along_that_nobody_took() {
    let world = World::new(nanocm::Drive::Thread);
    let [old, new] = [(); 2].map(|()| world.server.channel().unwrap());
    let mut listener = world.server.create_id(&old, PortSpace::Tcp).unwrap();
    listener.bind(at(SERVER)).unwrap();
    listener.listen(0).unwrap();
    let channel = world.client.channel().unwrap();
    let asking = world.ask(&channel);
    crate::common::eventually("the request is there", || is_readable(&old));
    listener.migrate(&new).unwrap();
    assert!(!is_readable(&old));
    let id = expect_request(&new);
    id.accept(&ConnParam::new(0x5000)).unwrap();
    expect(&channel, "CONNECT_RESPONSE");
    asking.establish().unwrap();
    assert_eq!(expect(&new, "ESTABLISHED").id, id.handle());
    assert!(old.try_next().unwrap().is_none());
    // The new identifier is of the new channel, and its events go with it.
    asking.disconnect().unwrap();
    crate::common::eventually("the end is there", || is_readable(&new));
    drop(id);
    assert!(!is_readable(&new));
}

#[test]
fn identifiers_outlive_their_channel_in_silence() {
    let world = World::new(nanocm::Drive::Thread);
    let listener = world.listen();
    let channel = world.client.channel().unwrap();
    let id = world.ask(&channel);
    let request = request(&listener);
    drop(channel);
    request.reject(RejectReason::CONSUMER, &[]).unwrap();
    let other = world.client.channel().unwrap();
    let bound = world.client.create_id(&other, PortSpace::Tcp).unwrap();
    bound.bind(at(CLIENT)).unwrap();
    assert!(other.try_next().unwrap().is_none());
    drop((id, bound, listener));
    world.assert_clean();
}

/// The requests that wait in the channel, and those that come later.
#[test]
fn a_channel_that_is_dropped_rejects_its_requests() {
    for drive in DRIVES {
        let world = World::new(drive);
        let servers = world.server.channel().unwrap();
        let listener = world.server.create_id(&servers, PortSpace::Tcp).unwrap();
        listener.bind(at(SERVER)).unwrap();
        listener.listen(0).unwrap();
        let channels = [(); 2].map(|()| world.client.channel().unwrap());
        let before = world.ask(&channels[0]);
        crate::common::eventually("the request is there", || {
            world.drive();
            is_readable(&servers)
        });
        drop(servers);
        let after = world.ask(&channels[1]);
        for (channel, id) in channels.iter().zip([before, after]) {
            crate::common::eventually("it is rejected", || {
                world.drive();
                is_readable(channel)
            });
            assert_eq!(expect(channel, "REJECTED").id, id.handle());
        }
        drop(listener);
        world.assert_clean();
    }
}

#[test]
fn another_managers_channel_is_refused() {
    let world = World::new(nanocm::Drive::Thread);
    let foreign = world.server.channel().unwrap();
    let error = world.client.create_id(&foreign, PortSpace::Tcp).unwrap_err();
    assert!(matches!(error.cause, Cause::ForeignChannel));
    assert_eq!(error.errno(), libc::EINVAL);
    let own = world.client.channel().unwrap();
    let mut id = world.client.create_id(&own, PortSpace::Tcp).unwrap();
    assert!(matches!(id.migrate(&foreign).unwrap_err().cause, Cause::ForeignChannel));
    id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
    assert_eq!(expect(&own, "ADDR_RESOLVED").id, id.handle());
}

#[test]
fn an_empty_channel_waits_until_the_deadline() {
    for drive in DRIVES {
        let world = World::new(drive);
        let channel = world.client.channel().unwrap();
        let start = std::time::Instant::now();
        assert!(channel.next(Deadline::after(millis(30))).unwrap().is_none());
        assert!(start.elapsed() >= millis(30));
        assert!(channel.next(Deadline::at(start)).unwrap().is_none());
    }
}
