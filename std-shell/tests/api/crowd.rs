//! Many at once: threads, losses, a small backlog.

use crate::common::eventually;
use crate::world::*;
use nanocm::core::IgnoreReason;
use nanocm::provider::LinkFaults;
use nanocm::{Capacity, Cm, ConnParam, ConnState, Deadline, Drive, EventKind, Id, PortSpace};
use std::collections::{HashMap, HashSet};
use std::thread;
use std::time::Duration;

const THREADS: usize = 8;
const EACH: usize = 200;

#[test]
fn eight_threads_make_two_hundred_connections_each() {
    let world = World::new(Drive::Thread);
    let listener = world.listen();
    thread::scope(|scope| {
        for _ in 0..THREADS {
            let cm = world.client.clone();
            scope.spawn(move || {
                for _ in 0..EACH {
                    let connection = cm.connect(at(SERVER), soon()).unwrap();
                    connection.disconnect(soon()).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..THREADS * EACH / 2 {
                    let request = request(&listener);
                    let param = ConnParam::new(world.server.next_qpn());
                    let connection = request.accept(&param, soon()).unwrap();
                    connection.wait_disconnected(soon()).unwrap().expect("an end");
                }
            });
        }
    });
    let total = (THREADS * EACH) as u32;
    assert_eq!(world.client.counters().established, total);
    assert_eq!(world.server.counters().established, total);
    drop(listener);
    world.assert_clean();
}

#[test]
fn requests_from_one_address_take_half_of_the_connections_at_most() {
    let small = |endpoint, config| {
        Cm::over(endpoint, config, Capacity { conns: 4, ..Capacity::of(8) }, Drive::Thread).unwrap()
    };
    let world = World::of(Drive::Thread, small);
    let listener = world.listen();
    thread::scope(|scope| {
        for _ in 0..3 {
            let cm = world.client.clone();
            scope.spawn(move || {
                cm.connect(at(SERVER), Deadline::after(Duration::from_secs(1))).unwrap_err()
            });
        }
        let crowded = || world.server.counters().ignored_for(IgnoreReason::HalfOpen) > 0;
        eventually("one is dropped", crowded);
        assert_eq!(world.server.in_use().connections, 2);
    });
    drop(listener);
    world.assert_clean();
}

/// What wakes one thread may be what another waits for.
#[test]
fn threads_that_drive_one_manager_do_not_take_each_others_wake_ups() {
    let world = World::new(Drive::Caller);
    let listener = world.listen();
    thread::scope(|scope| {
        for _ in 0..4 {
            let cm = world.client.clone();
            scope.spawn(move || {
                for _ in 0..50 {
                    let connection = cm.connect(at(SERVER), soon()).unwrap();
                    connection.disconnect(soon()).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let request = request(&listener);
                    let param = ConnParam::new(world.server.next_qpn());
                    let connection = request.accept(&param, soon()).unwrap();
                    connection.wait_disconnected(soon()).unwrap().expect("an end");
                }
            });
        }
    });
    // Nobody had to wait for a retransmission to be woken.
    assert_eq!(world.client.counters().established, 200);
    drop(listener);
    world.assert_clean();
}

/// Each connection as its events say: a server and a client in one thread.
#[test]
fn on_a_link_that_loses_a_fifth_all_connect_in_the_end() {
    const MANY: usize = 200;
    let world = World::new(Drive::Thread);
    world.net.set_faults(LinkFaults { loss: 200, duplicate: 50, reorder: 50 });
    let servers = world.server.channel().unwrap();
    let clients = world.client.channel().unwrap();
    let listener = world.server.create_id(&servers, PortSpace::Tcp).unwrap();
    listener.bind(at(SERVER)).unwrap();
    listener.listen(0).unwrap();
    let mut ids: HashMap<nanocm::core::Id, Id> = (0..MANY)
        .map(|_| {
            let id = world.client.create_id(&clients, PortSpace::Tcp).unwrap();
            id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
            (id.handle(), id)
        })
        .collect();
    let mut accepted: HashMap<nanocm::core::Id, Id> = HashMap::new();
    let (mut established, mut ended) = (HashSet::new(), HashSet::new());
    eventually("all are connected and disconnected", || {
        while let Some(event) = clients.try_next().unwrap() {
            let id = &ids[&event.id];
            match event.kind {
                EventKind::AddrResolved => id.resolve_route(millis(10_000)).unwrap(),
                EventKind::RouteResolved => {
                    id.connect(&ConnParam::new(world.client.next_qpn())).unwrap();
                }
                EventKind::ConnectResponse { .. } => id.establish().unwrap(),
                EventKind::Established => {
                    established.insert(event.id);
                    id.disconnect().unwrap();
                }
                EventKind::Disconnected(_) => {
                    assert!(ended.insert(event.id), "it ended twice");
                    // Stays for the peer's repetitions, until timewait is over.
                }
                EventKind::TimewaitExit => {}
                _ => panic!("{event:?}"),
            }
        }
        while let Some(mut event) = servers.try_next().unwrap() {
            match event.kind {
                EventKind::ConnectRequest { .. } => {
                    let id = event.take_request().unwrap();
                    id.accept(&ConnParam::new(world.server.next_qpn())).unwrap();
                    accepted.insert(id.handle(), id);
                }
                EventKind::Disconnected(_) => {
                    let id = &accepted[&event.id];
                    if id.conn_state() == ConnState::DreqRcvd {
                        id.disconnect().unwrap();
                    }
                }
                EventKind::Established | EventKind::TimewaitExit => {}
                _ => panic!("{event:?}"),
            }
        }
        ended.len() == MANY
    });
    assert_eq!((established.len(), accepted.len()), (MANY, MANY));
    assert!(world.client.counters().retransmitted > 0);
    world.mend();
    ids.clear();
    accepted.clear();
    drop(listener);
    world.assert_clean();
}

/// A request beyond the backlog is dropped in silence; its repetition comes in when there is room.
#[test]
fn a_full_backlog_lets_the_others_wait() {
    let world = World::new(Drive::Thread);
    let listener = world.server.listen(at(SERVER), 1).unwrap();
    let channel = world.client.channel().unwrap();
    let first = world.ask(&channel);
    let waiting = request(&listener);
    let second = world.ask(&channel);
    eventually("the second is dropped, and repeated", || {
        world.server.counters().ignored_for(nanocm::core::IgnoreReason::BacklogFull) >= 2
    });
    assert!(listener.request(Deadline::after(millis(1))).unwrap().is_none());
    waiting.reject(nanocm::RejectReason::CONSUMER, &[]).unwrap();
    assert_eq!(expect(&channel, "REJECTED").id, first.handle());
    let request = request(&listener);
    assert_eq!(Some(request.peer()), second.local_addr());
    drop((first, second, request, listener));
    world.assert_clean();
}
