//! An identifier that moves from one channel to another takes its events along: all, once, in order,
//! whoever waits, and whatever is dropped meanwhile.

use crate::common::eventually;
use crate::world::*;
use nanocm::core::Id as Handle;
use nanocm::{ConnParam, ConnState, Deadline, Drive, EventChannel, EventKind, Id, PortSpace};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

/// What an identifier of the client is told in the course of a connection.
const STORY: [&str; 5] =
    ["ADDR_RESOLVED", "ROUTE_RESOLVED", "CONNECT_RESPONSE", "ESTABLISHED", "DISCONNECTED"];

/// Lives through [`STORY`] without looking at any event; `pause` comes before each chapter.
fn live(world: &World, id: &mut Id, mut pause: impl FnMut(&mut Id)) {
    pause(id);
    id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
    pause(id);
    id.resolve_route(millis(10_000)).unwrap();
    pause(id);
    id.connect(&ConnParam::new(world.client.next_qpn())).unwrap();
    wait_for(world, id, ConnState::RepRcvd);
    pause(id);
    id.establish().unwrap();
    pause(id);
    wait_for(world, id, ConnState::DreqRcvd);
    pause(id);
}

fn wait_for(world: &World, id: &Id, state: ConnState) {
    eventually("it gets there", || {
        world.drive();
        id.conn_state() == state
    });
}

/// A listener of the server, and its channel.
fn listen(world: &World) -> (EventChannel, Id) {
    let channel = world.server.channel().unwrap();
    let listener = world.server.create_id(&channel, PortSpace::Tcp).unwrap();
    listener.bind(at(SERVER)).unwrap();
    listener.listen(0).unwrap();
    (channel, listener)
}

/// Tells the threads of a test to stop, also when it fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Accepts whatever comes and ends it once it stands, until told to stop.
fn serve(world: &World, channel: &EventChannel, stop: &AtomicBool) {
    let mut ids = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let Some(event) = channel.next(Deadline::after(millis(20))).unwrap() else { continue };
        match event.kind {
            EventKind::ConnectRequest { .. } => {
                let id = event.request.unwrap();
                id.accept(&ConnParam::new(world.server.next_qpn())).unwrap();
                ids.push(id);
            }
            EventKind::Established => {
                let id = ids.iter().find(|id| id.handle() == event.id).unwrap();
                id.disconnect().unwrap();
            }
            _ => {}
        }
    }
}

fn drain(channel: &EventChannel) -> Vec<(Handle, &'static str)> {
    std::iter::from_fn(|| channel.try_next().unwrap())
        .map(|event| (event.id, event.kind.name()))
        .collect()
}

#[test]
fn all_events_move_once_and_in_order_wherever_they_are() {
    let world = World::new(Drive::Thread);
    let stop = AtomicBool::new(false);
    let (servers, listener) = listen(&world);
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| serve(&world, &servers, &stop));
        let [first, second] = [(); 2].map(|()| world.client.channel().unwrap());
        // Another one in the first channel is not moved.
        let other = world.client.create_id(&first, PortSpace::Tcp).unwrap();
        other.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
        // As bits: before which chapters it moves.
        for moves in 0..1 << (STORY.len() + 1) {
            let mut id = world.client.create_id(&first, PortSpace::Tcp).unwrap();
            let (mut chapter, mut here) = (0, &first);
            live(&world, &mut id, |id| {
                if moves >> chapter & 1 == 1 {
                    here = if std::ptr::eq(here, &first) { &second } else { &first };
                    id.migrate(here).unwrap();
                    // To where it is already: nothing changes.
                    id.migrate(here).unwrap();
                }
                chapter += 1;
            });
            let told = |channel| {
                let mut told = drain(channel);
                told.retain(|(of, _)| *of == id.handle());
                told.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
            };
            let mut told = [told(&first), told(&second)];
            if std::ptr::eq(here, &first) {
                told.reverse();
            }
            assert_eq!(told, [Vec::new(), STORY.to_vec()], "moved before chapters {moves:b}");
        }
        drop(other);
    });
    drop((listener, servers));
    world.assert_clean();
}

/// Each event goes to one of those who wait, and to each of them in order.
#[test]
fn while_others_wait_on_both_channels() {
    const MANY: usize = 40;
    let world = World::new(Drive::Thread);
    let stop = AtomicBool::new(false);
    let (servers, listener) = listen(&world);
    let channels = [(); 2].map(|()| world.client.channel().unwrap());
    let taken = [(); 2].map(|()| Mutex::new(Vec::new()));
    let mut expected = Vec::new();
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        scope.spawn(|| serve(&world, &servers, &stop));
        for (channel, taken) in channels.iter().zip(&taken) {
            let stop = &stop;
            scope.spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    if let Some(event) = channel.next(Deadline::after(millis(5))).unwrap() {
                        taken.lock().unwrap().push((event.id, event.kind.name()));
                    }
                }
            });
        }
        for round in 0..MANY {
            let mut id = world.client.create_id(&channels[0], PortSpace::Tcp).unwrap();
            let mut moves = round;
            live(&world, &mut id, |id| {
                moves += 1;
                id.migrate(&channels[moves % 2]).unwrap();
            });
            expected.extend(STORY.map(|name| (id.handle(), name)));
            // All have been taken before it goes, and they with it.
            eventually("they are taken", || {
                taken.iter().map(|taken| taken.lock().unwrap().len()).sum::<usize>()
                    == expected.len()
            });
        }
    });
    drop((listener, servers));
    let [first, second] = taken.map(|taken| taken.into_inner().unwrap());
    for taken in [&first, &second] {
        let places: Vec<_> =
            taken.iter().map(|event| expected.iter().position(|other| other == event)).collect();
        assert!(places.is_sorted(), "{taken:?}");
    }
    let mut all = [first, second].concat();
    all.sort_by_key(|event| expected.iter().position(|other| other == event));
    assert_eq!(all, expected);
    world.assert_clean();
}

/// A listener that is moved all the time loses no request.
#[test]
fn a_listener_on_the_move() {
    const MANY: usize = 200;
    let world = World::new(Drive::Thread);
    let channels = [(); 2].map(|()| world.server.channel().unwrap());
    let mut listener = world.server.create_id(&channels[0], PortSpace::Tcp).unwrap();
    listener.bind(at(SERVER)).unwrap();
    listener.listen(0).unwrap();
    let (accepted, connected) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_done = || connected.load(Ordering::SeqCst) == MANY;
    thread::scope(|scope| {
        for channel in &channels {
            let (accepted, server, is_done) = (&accepted, &world.server, &is_done);
            scope.spawn(move || {
                let mut ids = Vec::new();
                while !is_done() {
                    let Some(event) = channel.next(Deadline::after(millis(5))).unwrap() else {
                        continue;
                    };
                    if let Some(id) = event.request {
                        id.accept(&ConnParam::new(server.next_qpn())).unwrap();
                        accepted.fetch_add(1, Ordering::SeqCst);
                        ids.push(id);
                    }
                }
            });
        }
        for _ in 0..4 {
            let (client, connected) = (world.client.clone(), &connected);
            scope.spawn(move || {
                for _ in 0..MANY / 4 {
                    let connection = client.connect(at(SERVER), soon()).unwrap();
                    connected.fetch_add(1, Ordering::SeqCst);
                    drop(connection);
                }
            });
        }
        let mut moves = 0;
        while !is_done() {
            moves += 1;
            listener.migrate(&channels[moves % 2]).unwrap();
            thread::yield_now();
        }
    });
    assert_eq!(accepted.into_inner(), MANY);
    drop((listener, channels));
    world.assert_clean();
}

/// The old channel is dropped just then: each request has moved or is rejected, never both, never neither.
#[test]
fn while_the_old_channel_is_dropped() {
    const ROUNDS: usize = 60;
    const REQUESTS: usize = 3;
    let world = World::new(Drive::Thread);
    let (mut moved, mut rejected) = (0, 0);
    for _ in 0..ROUNDS {
        let [old, new] = [(); 2].map(|()| world.server.channel().unwrap());
        let mut listener = world.server.create_id(&old, PortSpace::Tcp).unwrap();
        listener.bind(at(SERVER)).unwrap();
        listener.listen(0).unwrap();
        let clients = world.client.channel().unwrap();
        let asking: Vec<_> = (0..REQUESTS).map(|_| world.ask(&clients)).collect();
        eventually("they have come", || world.server.in_use().connections == REQUESTS);
        let start = Barrier::new(2);
        thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                drop(old);
            });
            start.wait();
            listener.migrate(&new).unwrap();
        });
        let requests: Vec<_> = std::iter::from_fn(|| new.try_next().unwrap()).collect();
        // One that waits in the new channel is alive.
        for event in &requests {
            let id = event.request.as_ref().expect("a request");
            id.accept(&ConnParam::new(world.server.next_qpn())).unwrap();
        }
        let mut answers = Vec::new();
        for _ in 0..REQUESTS {
            answers.push(next(&clients).kind.name());
        }
        let accepted = answers.iter().filter(|name| **name == "CONNECT_RESPONSE").count();
        assert_eq!(accepted, requests.len(), "{answers:?}");
        moved += accepted;
        rejected += REQUESTS - accepted;
        drop((requests, asking, listener));
    }
    assert_eq!(moved + rejected, ROUNDS * REQUESTS);
    world.assert_clean();
}

/// As identifiers of the channel go, from several threads.
#[test]
fn while_identifiers_and_channels_go() {
    let world = World::new(Drive::Thread);
    let listener = world.listen();
    thread::scope(|scope| {
        for _ in 0..4 {
            let world = &world;
            let client = world.client.clone();
            scope.spawn(move || {
                for round in 0..50 {
                    let old = client.channel().unwrap();
                    let new = client.channel().unwrap();
                    let mut id = client.create_id(&old, PortSpace::Tcp).unwrap();
                    let sibling = client.create_id(&old, PortSpace::Tcp).unwrap();
                    for id in [&id, &sibling] {
                        id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
                    }
                    thread::scope(|scope| {
                        scope.spawn(move || drop(sibling));
                        if round % 2 == 0 {
                            scope.spawn(move || drop(old));
                        }
                        id.migrate(&new).unwrap();
                        let told = drain(&new);
                        assert!(told.len() <= 1, "{told:?}");
                        // What closing has not swallowed has moved.
                        assert!(round % 2 == 0 || told.len() == 1, "{told:?}");
                        drop(new);
                        // Silent, but alive.
                        id.resolve_route(millis(10_000)).unwrap();
                    });
                }
            });
        }
    });
    drop(listener);
    world.assert_clean();
}

/// What moved with the listener is the new channel's to reject.
#[test]
fn the_new_channel_rejects_what_has_moved() {
    for drive in DRIVES {
        let world = World::new(drive);
        let (old, new) = (world.server.channel().unwrap(), world.server.channel().unwrap());
        let mut listener = world.server.create_id(&old, PortSpace::Tcp).unwrap();
        listener.bind(at(SERVER)).unwrap();
        listener.listen(0).unwrap();
        let clients = world.client.channel().unwrap();
        let asking = world.ask(&clients);
        eventually("it has come", || {
            world.drive();
            world.server.in_use().connections == 1
        });
        listener.migrate(&new).unwrap();
        drop(old);
        world.drive();
        assert!(clients.try_next().unwrap().is_none(), "the old one has nothing to reject");
        drop(new);
        eventually("it is rejected", || {
            world.drive();
            clients.try_next().unwrap().is_some_and(|event| event.kind.name() == "REJECTED")
        });
        drop((asking, listener));
        world.assert_clean();
    }
}

/// The end of a request that has moved is told where it is.
#[test]
fn the_end_of_a_request_moves_with_it() {
    let world = World::new(Drive::Thread);
    let [old, new] = [(); 2].map(|()| world.server.channel().unwrap());
    let mut listener = world.server.create_id(&old, PortSpace::Tcp).unwrap();
    listener.bind(at(SERVER)).unwrap();
    listener.listen(0).unwrap();
    let clients = world.client.channel().unwrap();
    let asking = world.ask(&clients);
    eventually("it has come", || world.server.in_use().connections == 1);
    listener.migrate(&new).unwrap();
    // It gives up only now.
    drop(asking);
    let id = expect_request(&new);
    let event = expect(&new, "REJECTED");
    assert_eq!(event.id, id.handle());
    assert!(old.try_next().unwrap().is_none());
}

/// To the channel where it is: the others' events are not overtaken.
#[test]
fn nowhere() {
    let world = World::new(Drive::Thread);
    let channel = world.client.channel().unwrap();
    let mut ids = [(); 2].map(|()| world.client.create_id(&channel, PortSpace::Tcp).unwrap());
    for id in &ids {
        id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
    }
    ids[0].migrate(&channel).unwrap();
    assert_eq!(drain(&channel), ids.each_ref().map(|id| (id.handle(), "ADDR_RESOLVED")));
}
