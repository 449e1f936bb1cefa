//! Connecting again: after a rejection, after a crash.

use crate::common::eventually;
use crate::world::*;
use nanocm::provider::MemNet;
use nanocm::{
    Capacity, Cause, Cm, ConnParam, DisconnectCause, Drive, EventChannel, EventKind, RejectReason,
};
use std::thread;

/// Programs may hand them from thread to thread, and share them.
#[test]
fn everything_is_send_and_sync() {
    fn is<T: Send + Sync>() {}
    is::<Cm>();
    is::<EventChannel>();
    is::<nanocm::Event>();
    is::<nanocm::Id>();
    is::<nanocm::Connection>();
    is::<nanocm::Listener>();
    is::<nanocm::Request>();
    is::<nanocm::Error>();
}

#[test]
fn an_identifier_that_was_rejected_may_ask_again() {
    let world = World::new(Drive::Thread);
    let listener = world.listen();
    let channel = world.client.channel().unwrap();
    let id = world.ask(&channel);
    request(&listener).reject(RejectReason::NO_RESOURCES, &[]).unwrap();
    expect(&channel, "REJECTED");
    id.reset().unwrap();
    id.connect(&ConnParam::new(world.client.next_qpn())).unwrap();
    let accepting = thread::spawn(move || {
        let connection = accept(request(&listener));
        connection.wait_disconnected(soon()).unwrap()
    });
    expect(&channel, "CONNECT_RESPONSE");
    id.establish().unwrap();
    expect(&channel, "ESTABLISHED");
    drop(id);
    assert_eq!(accepting.join().unwrap(), Some(DisconnectCause::Peer));
    world.assert_clean();
}

/// A rejection is repeated as long as its identifier lives.
#[test]
fn a_lost_rejection_is_repeated() {
    let world = World::new(Drive::Thread);
    let servers = world.server.channel().unwrap();
    let listener = world.server.create_id(&servers, nanocm::PortSpace::Tcp).unwrap();
    listener.bind(at(SERVER)).unwrap();
    listener.listen(0).unwrap();
    let channel = world.client.channel().unwrap();
    let id = world.ask(&channel);
    let request = expect_request(&servers);
    world.cut();
    request.reject(RejectReason::CONSUMER, b"no").unwrap();
    eventually("the answer and a repetition are lost", || {
        world.client.counters().retransmitted >= 2
    });
    world.mend();
    let event = expect(&channel, "REJECTED");
    assert_eq!(event.private_data[..2], *b"no");
    assert!(servers.try_next().unwrap().is_none(), "it was not a new request");
    drop((id, request, listener));
    world.assert_clean();
}

/// The peer crashed, and comes back with the queue pair number it had: the old connection is over.
#[test]
fn a_peer_that_starts_anew_ends_its_old_connection() {
    let net = MemNet::new(7);
    let start = |seed, ip| {
        let endpoint = net.endpoint(&[ip]).unwrap();
        Cm::over(endpoint, quick(seed), Capacity::of(64), Drive::Thread).unwrap()
    };
    let server = start(2, SERVER);
    let listener = server.listen(at(SERVER), 0).unwrap();
    let param = ConnParam::new(0x4000);
    let connect = |client: &Cm| client.connect_with(None, at(SERVER), &param, soon());
    let both = |client: &Cm| {
        thread::scope(|scope| {
            let server = scope.spawn(|| accept(request(&listener)));
            (connect(client).unwrap(), server.join().unwrap())
        })
    };
    let (crashing, kept) = {
        let client = start(1, CLIENT);
        let (ours, theirs) = both(&client);
        ((client, ours), theirs)
    };
    net.set_faults(nanocm::provider::LinkFaults { loss: 1000, ..Default::default() });
    drop(crashing);
    net.set_faults(Default::default());

    let client = start(3, CLIENT);
    let error = connect(&client).unwrap_err();
    let Cause::Rejected(rejection) = &error.cause else { panic!("{error}") };
    assert_eq!(rejection.reason, RejectReason::STALE);
    assert!(error.advice().is_some(), "{error}");
    let cause = kept.wait_disconnected(soon()).unwrap();
    assert_eq!(cause, Some(DisconnectCause::Peer));
    drop(kept);
    let (ours, theirs) = both(&client);
    assert_eq!(ours.disconnect(soon()).unwrap(), DisconnectCause::Local);
    drop(theirs);
}

/// What happens to one identifier is told in order, however late it is asked for.
#[test]
fn a_whole_life_waits_in_the_channel() {
    let world = World::new(Drive::Thread);
    let listener = world.listen();
    let channel = world.client.channel().unwrap();
    let id = world.ask(&channel);
    let server = thread::spawn(move || accept(request(&listener)));
    expect(&channel, "CONNECT_RESPONSE");
    id.establish().unwrap();
    drop(server.join().unwrap());
    eventually("it is over", || id.conn_state() == nanocm::ConnState::DreqRcvd);
    id.disconnect().unwrap();
    let kinds = [(); 2].map(|()| next(&channel).kind);
    assert_eq!(kinds[0], EventKind::Established);
    assert_eq!(kinds[1], EventKind::Disconnected(DisconnectCause::Peer));
}
