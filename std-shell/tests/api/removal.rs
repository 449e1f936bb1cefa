//! A device that goes, with all that runs over it.

use crate::executor::*;
use crate::world::*;
use nanocm::core::{PortEvent, ScopedIp};
use nanocm::provider::{
    MadTransport, Mem, MemNet, OpenError, Outgoing, Received, SendFailure, Source,
    TransportCounters,
};
use nanocm::{
    Capacity, Cm, ConnParam, Connection, Deadline, DisconnectCause, Drive, Error, State, future,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// An endpoint whose device can be pulled out.
struct Plug {
    inner: Mem,
    ca_guid: u64,
    pulled: Arc<AtomicBool>,
    back: bool,
}

impl MadTransport for Plug {
    fn open(&mut self, local: IpAddr, scope: u32) -> Result<(), OpenError> {
        self.inner.open(local, scope)
    }

    fn ports(&mut self, f: &mut dyn FnMut(PortEvent)) -> io::Result<()> {
        let guid = &mut self.ca_guid;
        self.inner.ports(&mut |event| {
            if let PortEvent::GidAdded { ca_guid, .. } = event {
                *guid = ca_guid;
            }
            f(event);
        })?;
        if self.pulled.swap(false, Ordering::SeqCst) {
            f(PortEvent::DeviceRemoved { ca_guid: self.ca_guid });
            if self.back {
                let address = ScopedIp::new(OURS.into(), 0);
                f(PortEvent::GidAdded { address, ca_guid: self.ca_guid });
            }
        }
        Ok(())
    }

    fn recv(&mut self, f: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        self.inner.recv(f)
    }

    fn send(
        &mut self,
        batch: &[Outgoing],
        failed: &mut dyn FnMut(SendFailure<'_>),
    ) -> io::Result<usize> {
        self.inner.send(batch, failed)
    }

    fn source_for(&mut self, from: Option<ScopedIp>, to: SocketAddr) -> io::Result<Source> {
        self.inner.source_for(from, to)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.inner.fd()
    }

    fn counters(&self) -> TransportCounters {
        self.inner.counters()
    }
}

/// A manager at SERVER, and what pulls its device out.
struct Pluggable {
    world: World,
    cm: Cm,
    pulled: Arc<AtomicBool>,
}

/// Its own address, which the world's server does not have.
const OURS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 4));

impl Pluggable {
    fn new(drive: Drive) -> Pluggable {
        Pluggable::that_comes_back(drive, false)
    }

    fn that_comes_back(drive: Drive, back: bool) -> Pluggable {
        let world = World::new(drive);
        let pulled = Arc::new(AtomicBool::new(false));
        let inner = endpoint(&world.net);
        let plug = Plug { inner, ca_guid: 0, pulled: pulled.clone(), back };
        let cm = Cm::over(plug, quick(3), Capacity::of(64), drive).unwrap();
        Pluggable { world, cm, pulled }
    }

    fn pull(&self) {
        self.pulled.store(true, Ordering::SeqCst);
        self.cm.drive().unwrap();
    }

    /// A connection to the world's server, and its other end.
    fn connection(&self) -> (Connection, Connection) {
        let listener = self.world.listen();
        thread::scope(|scope| {
            let server = scope.spawn(|| accept(request(&listener)));
            let ours = self.cm.connect(at(SERVER), soon()).unwrap();
            (ours, server.join().unwrap())
        })
    }
}

fn endpoint(net: &MemNet) -> Mem {
    net.endpoint(&[OURS]).unwrap()
}

#[test]
fn a_connection_ends() {
    for drive in DRIVES {
        let it = Pluggable::new(drive);
        let (ours, theirs) = it.connection();
        it.pull();
        let cause = ours.wait_disconnected(soon()).unwrap();
        assert_eq!(cause, Some(DisconnectCause::Removed));
        assert_eq!(ours.disconnect(soon()).unwrap(), DisconnectCause::Removed);
        drop(theirs);
        assert_eq!(it.cm.in_use().ids, 0);
    }
}

#[test]
fn an_attempt_fails_and_says_why() {
    let it = Pluggable::new(Drive::Thread);
    thread::scope(|scope| {
        let connecting = scope.spawn(|| it.cm.connect(at(SILENT), Deadline::NEVER));
        crate::common::eventually("it asks", || it.cm.in_use().connections == 1);
        thread::sleep(millis(30));
        it.pull();
        let error: Error = connecting.join().unwrap().unwrap_err();
        assert_eq!(error.errno(), libc::ENODEV, "{error}");
    });
    assert_eq!(it.cm.in_use().ids, 0);
}

/// Nobody comes any more, so nobody is waited for.
#[test]
fn a_listener_has_no_further_request() {
    for drive in DRIVES {
        let it = Pluggable::new(drive);
        let listener = it.cm.listen(at(OURS), 0).unwrap();
        thread::scope(|scope| {
            let waiting: Vec<_> = (0..3)
                .map(|_| scope.spawn(|| listener.request(Deadline::NEVER).unwrap().is_none()))
                .collect();
            thread::sleep(millis(20));
            it.pull();
            assert!(waiting.into_iter().all(|thread| thread.join().unwrap()));
        });
        assert!(listener.request(Deadline::NEVER).unwrap().is_none(), "as often as it is asked");
        assert_eq!(listener.id().state(), State::DeviceRemoval);
    }
    let it = Pluggable::new(Drive::Thread);
    let listener = future::Listener::bind(&it.cm, at(OURS), 0).unwrap();
    it.pull();
    run(&it.world, async {
        while let Some(request) = listener.request(Deadline::NEVER).await {
            let _ = request.accept(&ConnParam::new(1), soon()).await;
        }
    });
}

/// Nobody can answer it.
#[test]
fn a_request_that_came_before_goes_with_it() {
    let it = Pluggable::new(Drive::Thread);
    let listener = it.cm.listen(at(OURS), 0).unwrap();
    let channel = it.world.client.channel().unwrap();
    let asking = routed(&it.world.client, &channel, at(OURS));
    asking.connect(&ConnParam::new(0x4000)).unwrap();
    crate::common::eventually("it is there", || it.cm.in_use().connections == 1);
    it.pull();
    assert!(listener.request(Deadline::NEVER).unwrap().is_none());
    assert_eq!(it.cm.in_use().ids, 1, "the listener");
    // One that had been taken says so.
    let it = Pluggable::new(Drive::Thread);
    let listener = it.cm.listen(at(OURS), 0).unwrap();
    let channel = it.world.client.channel().unwrap();
    let asking = routed(&it.world.client, &channel, at(OURS));
    asking.connect(&ConnParam::new(0x4000)).unwrap();
    let taken = request(&listener);
    it.pull();
    let error = taken.accept(&ConnParam::new(1), soon()).unwrap_err();
    assert_eq!(error.errno(), libc::ENODEV, "{error}");
}

/// A driver that is reset: the device goes, and is there again at once.
#[test]
fn a_device_that_comes_back_at_once_can_be_used() {
    for drive in DRIVES {
        let it = Pluggable::that_comes_back(drive, true);
        it.cm.open(at(OURS)).unwrap();
        it.pull();
        thread::sleep(millis(200));
        it.cm.drive().unwrap();
        let listening = it.cm.listen(at(OURS), 0);
        assert!(listening.is_ok(), "{}", listening.unwrap_err());
    }
}
