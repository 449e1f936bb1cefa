//! Drop = destroy, in every state: the peer hears what it needs to know, and nothing is left.

use crate::common::eventually;
use crate::world::*;
use nanocm::{
    Cause, ConnParam, ConnState, Deadline, DisconnectCause, Drive, EventChannel, EventKind, Id,
    PortSpace, RejectReason, State,
};

/// A listener on a channel, and the channel of who connects to it.
struct Stage {
    world: World,
    servers: EventChannel,
    clients: EventChannel,
    listener: Id,
}

impl Stage {
    fn new(drive: Drive) -> Stage {
        let world = World::new(drive);
        let servers = world.server.channel().unwrap();
        let clients = world.client.channel().unwrap();
        let listener = world.server.create_id(&servers, PortSpace::Tcp).unwrap();
        listener.bind(at(SERVER)).unwrap();
        listener.listen(0).unwrap();
        Stage { world, servers, clients, listener }
    }

    /// The next event of a channel, while both sides are driven.
    #[track_caller]
    fn expect(&self, channel: &EventChannel, name: &str) -> nanocm::Event {
        let mut event = None;
        eventually(name, || {
            self.world.drive();
            event = channel.try_next().unwrap();
            event.is_some()
        });
        let event = event.unwrap();
        assert_eq!(event.kind.name(), name);
        event
    }

    fn asked(&self) -> (Id, Id) {
        let client = self.world.ask(&self.clients);
        let request = self.expect(&self.servers, "CONNECT_REQUEST").request.unwrap();
        (client, request)
    }

    fn answered(&self) -> (Id, Id) {
        let (client, server) = self.asked();
        server.accept(&ConnParam::new(0x5000)).unwrap();
        self.expect(&self.clients, "CONNECT_RESPONSE");
        (client, server)
    }

    fn established(&self) -> (Id, Id) {
        let (client, server) = self.answered();
        client.establish().unwrap();
        self.expect(&self.clients, "ESTABLISHED");
        self.expect(&self.servers, "ESTABLISHED");
        (client, server)
    }

    /// No event is left, nor anything else.
    #[track_caller]
    fn end(self) {
        let Stage { world, servers, clients, listener } = self;
        drop(listener);
        world.assert_clean();
        for channel in [&servers, &clients] {
            let left = channel.try_next().unwrap();
            assert!(left.is_none(), "{left:?}");
        }
    }
}

fn stages(play: impl Fn(&Stage)) {
    for drive in DRIVES {
        let stage = Stage::new(drive);
        play(&stage);
        stage.end();
    }
}

#[test]
fn before_there_is_a_connection() {
    stages(|stage| {
        let cm = &stage.world.client;
        let idle = cm.create_id(&stage.clients, PortSpace::Tcp).unwrap();
        assert_eq!((idle.state(), idle.local_addr()), (State::Idle, None));
        drop(idle);
        let bound = cm.create_id(&stage.clients, PortSpace::Tcp).unwrap();
        bound.bind(at(CLIENT)).unwrap();
        assert_eq!(bound.state(), State::AddrBound);
        drop(bound);
        // The port is free at once.
        let listening = cm.create_id(&stage.clients, PortSpace::Tcp).unwrap();
        listening.bind(at(CLIENT)).unwrap();
        listening.listen(0).unwrap();
        assert_eq!(listening.state(), State::Listen);
        drop(listening);
        let resolved = cm.create_id(&stage.clients, PortSpace::Tcp).unwrap();
        resolved.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
        assert_eq!(resolved.state(), State::AddrResolved);
        drop(resolved);
        assert!(stage.clients.try_next().unwrap().is_none());
        let routed = routed(cm, &stage.clients, at(SERVER));
        assert_eq!(routed.state(), State::RouteResolved);
        drop(routed);
    });
}

/// The attempt is called off: the listener never hears of it again.
#[test]
fn with_a_request_on_its_way() {
    stages(|stage| {
        let (client, server) = stage.asked();
        assert_eq!(client.conn_state(), ConnState::ReqSent);
        drop(client);
        let event = stage.expect(&stage.servers, "REJECTED");
        assert_eq!(event.kind, EventKind::Rejected(RejectReason::TIMEOUT));
        assert_eq!(event.id, server.handle());
        let error = server.accept(&ConnParam::new(0x5000)).unwrap_err();
        assert_eq!(error.errno(), libc::ECONNABORTED);
    });
}

#[test]
fn with_a_request_that_is_not_answered() {
    stages(|stage| {
        let (client, server) = stage.asked();
        assert_eq!(server.conn_state(), ConnState::ReqRcvd);
        drop(server);
        let event = stage.expect(&stage.clients, "REJECTED");
        assert_eq!(event.kind, EventKind::Rejected(RejectReason::CONSUMER));
        assert_eq!((event.id, event.private_data.len()), (client.handle(), 148));
    });
}

#[test]
fn with_an_answer_that_is_not_taken() {
    stages(|stage| {
        let (client, server) = stage.answered();
        assert_eq!(client.conn_state(), ConnState::RepRcvd);
        drop(client);
        let event = stage.expect(&stage.servers, "REJECTED");
        assert_eq!((event.id, event.kind), (server.handle(), REJECTED));
    });
}

const REJECTED: EventKind = EventKind::Rejected(RejectReason::CONSUMER);

#[test]
fn with_an_answer_on_its_way() {
    stages(|stage| {
        let (client, server) = stage.answered();
        assert_eq!(server.conn_state(), ConnState::RepSent);
        drop(server);
        let event = stage.expect(&stage.clients, "REJECTED");
        assert_eq!((event.id, event.kind), (client.handle(), REJECTED));
        assert!(client.establish().is_err());
    });
}

#[test]
fn with_a_connection_that_stands() {
    stages(|stage| {
        let (client, server) = stage.established();
        drop(client);
        let event = stage.expect(&stage.servers, "DISCONNECTED");
        assert_eq!(event.kind, EventKind::Disconnected(DisconnectCause::Peer));
        assert_eq!(server.conn_state(), ConnState::DreqRcvd);
        drop(server);

        let (client, server) = stage.established();
        drop(server);
        let event = stage.expect(&stage.clients, "DISCONNECTED");
        assert_eq!(event.kind, EventKind::Disconnected(DisconnectCause::Peer));
        drop(client);
    });
}

#[test]
fn with_a_disconnect_on_its_way() {
    stages(|stage| {
        let (client, server) = stage.established();
        client.disconnect().unwrap();
        assert_eq!(client.conn_state(), ConnState::DreqSent);
        drop(client);
        stage.expect(&stage.servers, "DISCONNECTED");
        server.disconnect().unwrap();
        assert_eq!(server.conn_state(), ConnState::Timewait);
        drop(server);
    });
}

#[test]
fn with_a_rejection_sent() {
    stages(|stage| {
        let (client, server) = stage.asked();
        server.reject(RejectReason::NO_RESOURCES, b"full").unwrap();
        assert_eq!(server.conn_state(), ConnState::RejSent);
        drop(server);
        let event = stage.expect(&stage.clients, "REJECTED");
        assert_eq!(event.kind, EventKind::Rejected(RejectReason::NO_RESOURCES));
        assert_eq!(client.conn_state(), ConnState::Idle);
    });
}

/// An event that nobody took is a request that nobody will answer.
#[test]
fn an_event_with_a_request_in_it() {
    stages(|stage| {
        let client = stage.world.ask(&stage.clients);
        drop(stage.expect(&stage.servers, "CONNECT_REQUEST"));
        let event = stage.expect(&stage.clients, "REJECTED");
        assert_eq!((event.id, event.kind), (client.handle(), REJECTED));
    });
}

/// Requests that were told to the channel but taken by nobody go with the listener; one that was taken
/// lives on.
#[test]
fn a_listener_with_unanswered_requests() {
    for drive in DRIVES {
        let stage = Stage::new(drive);
        let (taken_client, taken) = stage.asked();
        let mut waiting: Vec<_> = (0..5).map(|_| stage.world.ask(&stage.clients)).collect();
        // One of them has given up: there are two events of it.
        eventually("all have come", || {
            stage.world.drive();
            stage.world.server.in_use().connections == 6
        });
        drop(waiting.pop());
        eventually("one has given up", || {
            stage.world.drive();
            stage.world.server.counters().received >= 7
        });
        let Stage { world, servers, clients, listener } = stage;
        drop(listener);
        for _ in 0..4 {
            eventually("the others are rejected", || {
                world.drive();
                clients.try_next().unwrap().is_some_and(|event| event.kind == REJECTED)
            });
        }
        assert!(servers.try_next().unwrap().is_none());
        taken.accept(&ConnParam::new(0x5000)).unwrap();
        eventually("the one that was taken is accepted", || {
            world.drive();
            clients.try_next().unwrap().is_some_and(|event| event.id == taken_client.handle())
        });
        drop((taken, taken_client, waiting));
        world.assert_clean();
    }
}

/// Whatever the order in which the pieces of a connection are dropped, and on whichever thread.
#[test]
fn a_manager_that_goes_before_its_connections() {
    for drive in DRIVES {
        let world = World::new(drive);
        let (ours, theirs) = world.meet();
        let World { client, server, .. } = world;
        drop(client);
        std::thread::spawn(move || drop(ours)).join().unwrap();
        let cause = theirs.wait_disconnected(soon()).unwrap();
        assert_eq!(cause, Some(DisconnectCause::Peer));
        drop((theirs, server));
    }
}

/// A waiting call ends with its deadline even if everything else is gone.
#[test]
fn a_peer_that_vanishes_is_waited_for_no_longer_than_asked() {
    let world = World::new(Drive::Thread);
    let (ours, theirs) = world.meet();
    world.cut();
    drop(theirs);
    assert_eq!(ours.wait_disconnected(Deadline::after(millis(50))).unwrap(), None);
    let error = ours.disconnect(Deadline::after(millis(50))).unwrap_err();
    assert!(matches!(error.cause, Cause::TimedOut), "{error}");
}
