//! [`Cm`]: a connection manager for std programs, and how it is driven.

use crate::backend::{Backend, InUse};
use crate::binding::LentId;
use crate::channel::EventChannel;
use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::{Cause, Error};
use crate::host_ports::{HostPortConfig, HostPorts};
use crate::id::Id;
use crate::provider::MadTransport;
use crate::queue::{Bell, Inbox};
use crate::shared::Shared;
use nanocm_core::{Capacity, Config, Counters, PortSpace};
use rustix::event::{PollFd, PollFlags, poll};
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

/// A connection manager. Clones are the same one; it lives as long as any clone, identifier or
/// channel.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use nanocm::{Cm, ConnParam, Deadline};
///
/// let cm = Cm::udp()?;
/// let connection = cm.connect("192.0.2.7:4420".parse()?, Deadline::after_secs(5))?;
/// println!("connected to {}", connection.peer());
/// connection.disconnect(Deadline::after_secs(5))?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Cm {
    shared: Arc<Shared>,
    next_qpn: Arc<AtomicU32>,
    /// Ends with the last clone; none if the caller drives.
    driver: Option<Arc<Driver>>,
}

/// Who drives a [`Cm`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drive {
    /// A thread of its own: blocking calls and channels just work.
    Thread,
    /// The caller: polls [`Cm::as_fd`] and calls [`Cm::drive`], or uses the blocking calls, which
    /// drive while they wait.
    Caller,
}

impl Cm {
    /// A connection manager over RoCEv2 on plain UDP sockets, driven by a thread of its own, with
    /// room for 4,096 connections.
    ///
    /// # Errors
    /// Of the system: random numbers, descriptors, the thread.
    pub fn udp() -> Result<Cm, Error> {
        let transport = crate::provider::Udp::new(NO_PREFIX)
            .map_err(|error| Cause::from(error).during("set up", None, None))?;
        Cm::over(transport, Config::new(random_seed()?), Capacity::of(4096), Drive::Thread)
    }

    /// A connection manager over any transport.
    ///
    /// # Errors
    /// A configuration that cannot work; descriptors; the thread.
    pub fn over<T: MadTransport + 'static>(
        transport: T,
        config: Config,
        capacity: Capacity,
        drive: Drive,
    ) -> Result<Cm, Error> {
        let usual = Config::new(config.seed).port_range;
        let range = (config.port_range != usual).then_some(config.port_range);
        let engine = Engine::new(transport, config, capacity)
            .map_err(|error| Cause::from(error).during("set up", None, None))?;
        let cm = Cm::with_backend(Box::new(engine), drive)
            .map_err(|error| Cause::from(error).during("set up", None, None))?;
        cm.host_ports().set_config(HostPortConfig { range, ..HostPortConfig::default() });
        Ok(cm)
    }

    /// A connection manager on any backend.
    ///
    /// # Errors
    /// Descriptors; the thread.
    pub fn with_backend(backend: Box<dyn Backend>, drive: Drive) -> io::Result<Cm> {
        let shared = Arc::new(Shared::new(backend)?);
        let next_qpn = Arc::new(AtomicU32::new(random_seed()? as u32 & 0x7f_ffff | 0x100));
        let driver = match drive {
            Drive::Thread => Some(Arc::new(Driver::start(shared.clone())?)),
            Drive::Caller => None,
        };
        Ok(Cm { shared, next_qpn, driver })
    }

    /// A new event channel.
    ///
    /// # Errors
    /// Descriptors.
    pub fn channel(&self) -> Result<EventChannel, Error> {
        EventChannel::new(self)
            .map_err(|error| Cause::from(error).during("create a channel", None, None))
    }

    /// A new identifier whose events go to `channel`.
    ///
    /// # Errors
    /// [`Error`]: none is free; the channel is another connection manager's.
    pub fn create_id(&self, channel: &EventChannel, space: PortSpace) -> Result<Id, Error> {
        match self.is_same(channel.inbox().cm()) {
            true => self.create_id_in(channel.inbox(), space),
            false => Err(Cause::ForeignChannel.during("create an ID", None, None)),
        }
    }

    pub(crate) fn create_id_in(&self, inbox: &Inbox, space: PortSpace) -> Result<Id, Error> {
        let queue = inbox.number();
        let handle = self.shared.operate(|backend| backend.create_id(space, queue));
        let handle = handle.map_err(|cause| cause.during("create an ID", None, None))?;
        Ok(Id::adopt(self.clone(), handle, queue))
    }

    /// Makes a local address usable (the wildcard: all of its family), which binding, listening and
    /// connecting do by themselves; for who wants to know at once who has UDP port 4791 there.
    ///
    /// # Errors
    /// [`Cause::Open`].
    pub fn open(&self, local: SocketAddr) -> Result<(), Error> {
        let scope = if let SocketAddr::V6(v6) = local { v6.scope_id() } else { 0 };
        let opened = self.shared.operate(|backend| backend.open(local.ip(), scope));
        opened.map_err(|cause| cause.during("use", Some(local), None))
    }

    /// Which local address a connection to `peer` would come from.
    ///
    /// # Errors
    /// [`Error`]: no route.
    pub fn source_for(&self, peer: SocketAddr) -> Result<SocketAddr, Error> {
        let source = self.shared.operate(|backend| backend.source_for(peer));
        source.map_err(|cause| cause.during("find the way", None, Some(peer)))
    }

    /// A queue pair number that this connection manager has not handed out before (in 2²³), for
    /// programs without queue pairs.
    pub fn next_qpn(&self) -> u32 {
        let next = self.next_qpn.fetch_add(1, Ordering::Relaxed);
        next % 0xff_fefe + 0x100
    }

    /// A new identifier, bound to the address and number of a TCP listener that is lent to it. The
    /// listener is not touched, now or later.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let tcp = std::net::TcpListener::bind("10.0.0.1:8445")?;
    /// let cm = nanocm::Cm::udp()?;
    /// let channel = cm.channel()?;
    /// let rdma = cm.bind_shared(&channel, &tcp)?;
    /// rdma.listen(0)?;
    /// let (stream, peer) = tcp.accept()?; // and RDMA's requests come by the channel
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn bind_shared<'l>(
        &self,
        channel: &EventChannel,
        listener: &'l TcpListener,
    ) -> Result<LentId<'l>, Error> {
        let id = self.create_id(channel, PortSpace::Tcp)?;
        match self.shared.bind_lent(id.handle(), listener) {
            Ok(_) => Ok(LentId::new(id, listener)),
            Err(cause) => Err(cause.during("bind", listener.local_addr().ok(), None)),
        }
    }

    /// What it holds in the host's port spaces, and by which policies.
    pub fn host_ports(&self) -> &HostPorts {
        &self.shared.numbers.ports
    }

    /// How many numbers of the range for any port have owners, in RDMA's own books.
    pub fn ports_in_use(&self, space: PortSpace) -> usize {
        self.shared.look(|backend| backend.ports_in_use(space))
    }

    /// What has been counted.
    pub fn counters(&self) -> Counters {
        self.shared.look(|backend| backend.counters())
    }

    /// How much of it is in use.
    pub fn in_use(&self) -> InUse {
        self.shared.look(|backend| backend.in_use())
    }

    /// Does what is due, without waiting. For who drives; harmless for others. Returns when it is due
    /// next if nothing comes before; [`as_fd`](AsFd::as_fd) is readable then.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use nanocm::{provider::Udp, *};
    /// # fn wait_until_readable(_: impl std::os::fd::AsFd) {}
    /// let transport = Udp::new((0, 0))?;
    /// let config = Config::new(random_seed()?);
    /// let cm = Cm::over(transport, config, Capacity::of(1000), Drive::Caller)?;
    /// let channel = cm.channel()?;
    /// // ... create identifiers on the channel, then for ever:
    /// loop {
    ///     cm.drive()?;
    ///     while let Some(event) = channel.try_next()? {
    ///         println!("{event:?}");
    ///     }
    ///     wait_until_readable(&cm);
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of the transport. All else that was due has been done: go on, but pause, for it may fail again
    /// at once.
    pub fn drive(&self) -> Result<Option<Instant>, Error> {
        self.shared.drive().map_err(|error| Cause::from(error).during("drive", None, None))
    }

    pub(crate) fn is_same(&self, other: &Cm) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    pub(crate) fn drive_if_driverless(&self) -> io::Result<()> {
        match self.driver {
            Some(_) => Ok(()),
            None => self.shared.drive().map(drop),
        }
    }

    /// Lends this thread to a future until it is ready; drives meanwhile if nobody else does.
    pub(crate) fn block_on<R>(&self, future: impl Future<Output = R>) -> io::Result<R> {
        let bell = Bell::of_this_thread()?;
        let waker = Waker::from(bell.clone());
        let mut future = pin!(future);
        loop {
            let driven = self.drive_if_driverless();
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            if let Poll::Ready(result) = polled {
                return Ok(result);
            }
            driven?;
            // Without a driver, others may drive too, and take what woke us: the bell tells.
            match self.driver {
                Some(_) => wait_readable(&[bell.as_fd()])?,
                None => wait_readable(&[bell.as_fd(), self.shared.epoll()])?,
            }
            bell.quiet();
        }
    }
}

/// Readable when [`Cm::drive`] is due.
impl AsFd for Cm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.epoll()
    }
}

/// As [`AsFd`]; what event loops such as tokio's `AsyncFd` ask for.
impl AsRawFd for Cm {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for Cm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let drive = if self.driver.is_some() { Drive::Thread } else { Drive::Caller };
        f.debug_struct("Cm").field("drive", &drive).field("in_use", &self.in_use()).finish()
    }
}

/// Waits until one of these is readable.
fn wait_readable(fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let fds = fds.iter().copied();
    let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut fds, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A seed that does not repeat over reboots.
///
/// # Errors
/// Of the system's random number generator.
pub fn random_seed() -> Result<u64, Error> {
    let mut seed = [0; 8];
    match rustix::rand::getrandom(&mut seed, rustix::rand::GetRandomFlags::empty()) {
        Ok(8) => Ok(u64::from_ne_bytes(seed)),
        Ok(_) => Err(Cause::Io(io::ErrorKind::UnexpectedEof.into()).during("seed", None, None)),
        Err(error) => Err(Cause::Io(error.into()).during("seed", None, None)),
    }
}

/// All communication IDs of an address are one program's.
const NO_PREFIX: (u32, u8) = (0, 0);
