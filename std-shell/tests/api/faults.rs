//! A host that fails.

use crate::common::eventually;
use crate::world::*;
use nanocm::core::{PortEvent, ScopedIp};
use nanocm::provider::{
    MadTransport, Mem, MemNet, OpenError, Outgoing, Received, SendFailure, Source,
    TransportCounters,
};
use nanocm::{Capacity, Cause, Cm, ConnParam, Deadline, Drive, PortSpace};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

/// What a transport does wrong.
#[derive(Default)]
struct Wrongs {
    receiving: AtomicBool,
    sending_to: AtomicBool,
    full: AtomicBool,
    turns: AtomicU32,
}

struct Faulty {
    inner: Mem,
    wrongs: Arc<Wrongs>,
}

fn broken() -> io::Error {
    io::Error::from_raw_os_error(libc::EBADF)
}

impl MadTransport for Faulty {
    fn open(&mut self, local: IpAddr, scope: u32) -> Result<(), OpenError> {
        self.inner.open(local, scope)
    }

    fn ports(&mut self, f: &mut dyn FnMut(PortEvent)) -> io::Result<()> {
        self.inner.ports(f)
    }

    fn recv(&mut self, f: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        self.wrongs.turns.fetch_add(1, Ordering::SeqCst);
        if self.wrongs.receiving.load(Ordering::SeqCst) {
            return Err(broken());
        }
        self.inner.recv(f)
    }

    fn send(
        &mut self,
        batch: &[Outgoing],
        failed: &mut dyn FnMut(SendFailure<'_>),
    ) -> io::Result<usize> {
        if self.wrongs.full.load(Ordering::SeqCst) {
            return Ok(0);
        }
        let is_silent =
            batch.first().is_some_and(|first| first.path.remote_gid().to_ip() == SILENT);
        if is_silent && self.wrongs.sending_to.load(Ordering::SeqCst) {
            return Err(broken());
        }
        match batch {
            [] => Ok(0),
            [first, ..] => self.inner.send(std::slice::from_ref(first), failed),
        }
    }

    fn source_for(
        &mut self,
        source: Option<ScopedIp>,
        destination: SocketAddr,
    ) -> io::Result<Source> {
        self.inner.source_for(source, destination)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.inner.fd()
    }

    fn counters(&self) -> TransportCounters {
        self.inner.counters()
    }
}

/// A client with a faulty transport, and a server without.
fn faulty(drive: Drive) -> (Cm, Cm, Arc<Wrongs>) {
    let net = MemNet::new(7);
    let wrongs = Arc::new(Wrongs::default());
    let inner = net.endpoint(&[CLIENT]).unwrap();
    let transport = Faulty { inner, wrongs: wrongs.clone() };
    let client = Cm::over(transport, quick(1), Capacity::of(64), drive).unwrap();
    let endpoint = net.endpoint(&[SERVER]).unwrap();
    let server = Cm::over(endpoint, quick(2), Capacity::of(64), Drive::Thread).unwrap();
    (client, server, wrongs)
}

/// Connects once, with a server that accepts.
fn connect(client: &Cm, server: &Cm) -> Result<nanocm::Connection, nanocm::Error> {
    let listener = server.listen(at(SERVER), 0).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let request = listener.request(soon()).unwrap()?;
            Some(request.accept(&ConnParam::new(0x5000), soon()))
        });
        client.connect(at(SERVER), soon())
    })
}

#[test]
fn a_transport_that_cannot_receive_does_not_spin_the_driver() {
    let (client, server, wrongs) = faulty(Drive::Thread);
    client.open(SocketAddr::new(CLIENT, 0)).unwrap();
    server.open(SocketAddr::new(SERVER, 0)).unwrap();
    wrongs.receiving.store(true, Ordering::SeqCst);
    // Something to receive, so that the descriptor stays readable.
    let channel = client.channel().unwrap();
    let id = routed(&client, &channel, at(SERVER));
    id.connect(&ConnParam::new(0x4000)).unwrap();
    thread::sleep(millis(50));
    let before = wrongs.turns.load(Ordering::SeqCst);
    thread::sleep(millis(500));
    let turns = wrongs.turns.load(Ordering::SeqCst) - before;
    assert!((1..50).contains(&turns), "{turns} turns in half a second");
    assert!(client.counters().retransmitted > 0, "timers go on meanwhile");
    drop(id);
    wrongs.receiving.store(false, Ordering::SeqCst);
    drop(connect(&client, &server).expect("all is well again"));
}

#[test]
fn who_drives_is_told_of_a_fault_and_may_go_on() {
    let (client, server, wrongs) = faulty(Drive::Caller);
    wrongs.receiving.store(true, Ordering::SeqCst);
    let error = client.drive().unwrap_err();
    assert_eq!((error.operation, error.errno()), ("drive", libc::EBADF));
    let error = client.connect(at(SERVER), soon()).unwrap_err();
    assert_eq!(error.errno(), libc::EBADF, "{error}");
    assert_eq!(client.in_use().ids, 0);
    wrongs.receiving.store(false, Ordering::SeqCst);
    drop(connect(&client, &server).expect("all is well again"));
}

/// The transport's faults are not the operation's.
#[test]
fn an_operation_beside_a_fault_does_what_it_says() {
    let (client, _server, wrongs) = faulty(Drive::Caller);
    wrongs.receiving.store(true, Ordering::SeqCst);
    let channel = client.channel().unwrap();
    let id = client.create_id(&channel, PortSpace::Tcp).unwrap();
    id.bind(at(CLIENT)).unwrap();
    assert_eq!(client.in_use().ids, 1);
    id.resolve_addr(None, at(SERVER), millis(10_000)).unwrap();
    let event = channel.try_next().unwrap().expect("an event, fault or not");
    assert_eq!(event.kind.name(), "ADDR_RESOLVED");
    drop(id);
    assert_eq!(client.in_use().ids, 0);
}

/// A message that cannot go does not keep the others.
#[test]
fn a_socket_beyond_use_does_not_stop_the_others() {
    let (client, server, wrongs) = faulty(Drive::Thread);
    wrongs.sending_to.store(true, Ordering::SeqCst);
    let channel = client.channel().unwrap();
    let stuck = routed(&client, &channel, at(SILENT));
    stuck.connect(&ConnParam::new(0x4000)).unwrap();
    drop(connect(&client, &server).expect("another peer"));
    let event = expect(&channel, "UNREACHABLE");
    assert_eq!(event.id, stuck.handle());
}

/// "No more now" is no reason for haste, nor to forget what was to be sent.
#[test]
fn a_host_that_takes_no_more_is_offered_it_again_in_a_while() {
    let (client, server, wrongs) = faulty(Drive::Thread);
    server.open(SocketAddr::new(SERVER, 0)).unwrap();
    let channel = client.channel().unwrap();
    let id = routed(&client, &channel, at(SERVER));
    wrongs.full.store(true, Ordering::SeqCst);
    id.connect(&ConnParam::new(0x4000)).unwrap();
    let before = wrongs.turns.load(Ordering::SeqCst);
    thread::sleep(millis(200));
    let turns = wrongs.turns.load(Ordering::SeqCst) - before;
    assert!(turns < 400, "{turns} turns in 200 ms");
    assert_eq!(server.counters().received, 0);
    wrongs.full.store(false, Ordering::SeqCst);
    eventually("it arrives", || server.counters().received > 0);
}

#[test]
fn a_manager_without_room_says_so_and_loses_nothing() {
    let net = MemNet::new(7);
    let endpoint = net.endpoint(&[CLIENT]).unwrap();
    let cm = Cm::over(endpoint, quick(1), Capacity::of(1), Drive::Thread).unwrap();
    let channel = cm.channel().unwrap();
    let ids: Vec<_> = std::iter::from_fn(|| cm.create_id(&channel, PortSpace::Tcp).ok()).collect();
    let error = cm.create_id(&channel, PortSpace::Tcp).unwrap_err();
    assert!(matches!(error.cause, Cause::Create(_)), "{error}");
    assert_eq!(error.errno(), libc::ENOMEM);
    drop(ids);
    assert_eq!(cm.in_use().ids, 0);
    let error = cm.connect(at(SILENT), Deadline::after(millis(50))).unwrap_err();
    assert_eq!(error.errno(), libc::ETIMEDOUT, "{error}");
}
