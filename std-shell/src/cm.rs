//! [`Cm`]: a connection manager for std programs. Owns the backend behind a lock, the event channels,
//! and the one descriptor that says when there is something to do.

use crate::backend::{Backend, InUse, Told, Turn};
use crate::channel::{EventChannel, Queue};
use crate::driver::Driver;
use crate::engine::Engine;
use crate::error::{Cause, Error};
use crate::id::Id;
use crate::provider::MadTransport;
use nanocm_core::{Capacity, Config, Counters, EventKind, PortSpace};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

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
    /// Ends with the last clone; none if the caller drives.
    driver: Option<Arc<Driver>>,
}

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// Readable when a turn is due: the transport's descriptors and the timer.
    epoll: OwnedFd,
    timer: OwnedFd,
    next_qpn: AtomicU32,
}

struct Inner {
    backend: Box<dyn Backend>,
    channels: HashMap<u64, Arc<Queue>>,
    next_channel: u64,
}

impl Inner {
    /// Destroys requests that nobody will answer; stale handles are others' doing.
    fn destroy_all(&mut self, requests: Vec<nanocm_core::Id>) {
        for request in requests {
            let _ = self.backend.destroy(request);
        }
    }
}

fn is_request(told: &Told) -> bool {
    matches!(told.event.kind, EventKind::ConnectRequest { .. })
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
        let engine = Engine::new(transport, config, capacity)
            .map_err(|error| Cause::from(error).during("set up", None, None))?;
        Cm::with_backend(Box::new(engine), drive)
            .map_err(|error| Cause::from(error).during("set up", None, None))
    }

    /// A connection manager on any backend.
    ///
    /// # Errors
    /// Descriptors; the thread.
    pub fn with_backend(backend: Box<dyn Backend>, drive: Drive) -> io::Result<Cm> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        watch(&epoll, timer.as_fd())?;
        watch(&epoll, backend.fd())?;
        let inner = Inner { backend, channels: HashMap::new(), next_channel: 1 };
        let first_qpn = random_seed()? as u32 & 0x7f_ffff | 0x100;
        let shared = Arc::new(Shared {
            inner: Mutex::new(inner),
            epoll,
            timer,
            next_qpn: AtomicU32::new(first_qpn),
        });
        let driver = match drive {
            Drive::Thread => Some(Arc::new(Driver::start(shared.clone())?)),
            Drive::Caller => None,
        };
        Ok(Cm { shared, driver })
    }

    /// A new event channel.
    ///
    /// # Errors
    /// Descriptors.
    pub fn channel(&self) -> Result<EventChannel, Error> {
        let queue = Queue::new()
            .map_err(|error| Cause::from(error).during("create a channel", None, None))?;
        let queue = Arc::new(queue);
        let mut inner = self.shared.lock();
        let number = inner.next_channel;
        inner.next_channel += 1;
        inner.channels.insert(number, queue.clone());
        drop(inner);
        Ok(EventChannel::new(self.clone(), queue, number))
    }

    /// A new identifier whose events go to `channel`.
    ///
    /// # Errors
    /// [`Error`]: none is free; the channel is another connection manager's.
    pub fn create_id(&self, channel: &EventChannel, space: PortSpace) -> Result<Id, Error> {
        let number = channel.number();
        let handle = match self.is_same(channel.cm()) {
            true => self.operate(|backend| backend.create_id(space, number)),
            false => Err(Cause::ForeignChannel),
        };
        let handle = handle.map_err(|cause| cause.during("create an ID", None, None))?;
        Ok(Id::adopt(self.clone(), handle, number))
    }

    /// Makes a local address usable (the wildcard: all of its family), which binding, listening and
    /// connecting do by themselves; for who wants to know at once who has UDP port 4791 there.
    ///
    /// # Errors
    /// [`Cause::Open`].
    pub fn open(&self, local: SocketAddr) -> Result<(), Error> {
        let scope = if let SocketAddr::V6(v6) = local { v6.scope_id() } else { 0 };
        let opened = self.operate(|backend| backend.open(local.ip(), scope));
        opened.map_err(|cause| cause.during("use", Some(local), None))
    }

    /// Which local address a connection to `peer` would come from.
    ///
    /// # Errors
    /// [`Error`]: no route.
    pub fn source_for(&self, peer: SocketAddr) -> Result<SocketAddr, Error> {
        let source = self.operate(|backend| backend.source_for(peer));
        source.map_err(|cause| cause.during("find the way", None, Some(peer)))
    }

    /// A queue pair number that this connection manager has not handed out before (in 2²³), for
    /// programs without queue pairs.
    pub fn next_qpn(&self) -> u32 {
        let next = self.shared.next_qpn.fetch_add(1, Ordering::Relaxed);
        next % 0xff_fefe + 0x100
    }

    /// What has been counted.
    pub fn counters(&self) -> Counters {
        self.look(|backend| backend.counters())
    }

    /// How much of it is in use.
    pub fn in_use(&self) -> InUse {
        self.look(|backend| backend.in_use())
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

    fn is_same(&self, other: &Cm) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// Runs an operation, then does what it made due.
    pub(crate) fn operate<R>(
        &self,
        f: impl FnOnce(&mut dyn Backend) -> Result<R, Cause>,
    ) -> Result<R, Cause> {
        let mut inner = self.shared.lock();
        let done = f(&mut *inner.backend);
        self.shared.turn_quietly(&mut inner);
        done
    }

    /// Reads without changing anything.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&dyn Backend) -> R) -> R {
        f(&*self.shared.lock().backend)
    }

    /// Destroys an identifier and what its channel was to say of it.
    pub(crate) fn destroy(&self, handle: nanocm_core::Id, channel: u64) {
        let mut inner = self.shared.lock();
        // Stale only if the backend destroyed it itself.
        let _ = inner.backend.destroy(handle);
        let queue = inner.channels.get(&channel).cloned();
        inner.destroy_all(queue.map(|queue| queue.forget(handle)).unwrap_or_default());
        self.shared.turn_quietly(&mut inner);
    }

    /// Moves an identifier, and what it is to be told, to another channel. So are the requests to a
    /// listener that nobody has taken.
    pub(crate) fn migrate(
        &self,
        handle: nanocm_core::Id,
        from: u64,
        channel: &EventChannel,
    ) -> Result<(), Cause> {
        if !self.is_same(channel.cm()) {
            return Err(Cause::ForeignChannel);
        }
        let to = channel.number();
        let mut inner = self.shared.lock();
        inner.backend.set_user(handle, to)?;
        let queues = (inner.channels.get(&from).cloned(), inner.channels.get(&to).cloned());
        if let (Some(from), Some(to_queue)) = queues {
            for mut told in from.take(handle) {
                if told.event.id != handle {
                    let _ = inner.backend.set_user(told.event.id, to);
                }
                told.event.user = to;
                to_queue.push(told);
            }
        }
        Ok(())
    }

    /// Nobody will take what the channel holds: its requests are rejected.
    pub(crate) fn close_channel(&self, number: u64) {
        let mut inner = self.shared.lock();
        if let Some(queue) = inner.channels.remove(&number) {
            inner.destroy_all(queue.requests());
        }
        self.shared.turn_quietly(&mut inner);
    }

    pub(crate) fn drive_if_driverless(&self) -> io::Result<()> {
        match self.driver {
            Some(_) => Ok(()),
            None => self.shared.drive().map(drop),
        }
    }

    /// Waits until `ready` has something or the deadline has passed; drives meanwhile if nobody else
    /// does. `fd` becomes readable when `ready` may have something.
    pub(crate) fn wait_for<R>(
        &self,
        fd: BorrowedFd<'_>,
        deadline: Option<Instant>,
        mut ready: impl FnMut() -> Option<R>,
    ) -> io::Result<Option<R>> {
        loop {
            let driven = self.drive_if_driverless();
            if let Some(result) = ready() {
                return Ok(Some(result));
            }
            driven?;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            // Without a driver, others may drive too, and take what woke us: `fd` tells.
            match self.driver {
                Some(_) => wait_readable(&[fd], left)?,
                None => wait_readable(&[fd, self.shared.epoll()], left)?,
            }
        }
    }
}

/// Readable when [`Cm::drive`] is due.
impl AsFd for Cm {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.shared.epoll.as_fd()
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

impl Shared {
    pub(crate) fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub(crate) fn drive(&self) -> io::Result<Option<Instant>> {
        // The timer's job is to wake; an empty one answers EAGAIN.
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        let turn = self.turn(&mut self.lock());
        match turn.fault {
            Some(fault) => Err(fault),
            None if turn.more => Ok(Some(Instant::now())),
            None => Ok(turn.wake_at),
        }
    }

    /// One turn of the backend: events go to their channels, the timer is set for the next.
    fn turn(&self, inner: &mut Inner) -> Turn {
        let Inner { backend, channels, .. } = inner;
        let mut unclaimed = Vec::new();
        let mut turn = backend.turn(&mut |told| match channels.get(&told.event.user) {
            Some(queue) => queue.push(told),
            // The channel is closed, so nobody could answer.
            None if is_request(&told) => unclaimed.push(told.event.id),
            None => {}
        });
        turn.more |= !unclaimed.is_empty();
        inner.destroy_all(unclaimed);
        let wake = match turn.wake_at {
            _ if turn.more => Some(Duration::ZERO),
            at => at.map(|at| at.saturating_duration_since(Instant::now())),
        };
        if let Err(error) = self.set_timer(wake) {
            turn.fault.get_or_insert(error);
        }
        turn
    }

    /// A turn beside an operation that is not to blame for the transport's faults; who drives meets
    /// them too.
    fn turn_quietly(&self, inner: &mut Inner) {
        if let Some(fault) = self.turn(inner).fault {
            log::debug!("the connection manager's transport: {fault}");
        }
    }

    fn set_timer(&self, wake: Option<Duration>) -> io::Result<()> {
        // Zero would disarm it.
        let it_value =
            to_timespec(wake.map_or(Duration::ZERO, |wake| wake.max(Duration::from_nanos(1))));
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value)?;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // The engine holds its invariants at every return; a panic in a caller's closure cannot
        // happen while it is locked.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until one of these is readable, for at most `left`.
fn wait_readable(fds: &[BorrowedFd<'_>], left: Option<Duration>) -> io::Result<()> {
    let fds = fds.iter().copied();
    let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    match poll(&mut fds, left.map(to_timespec).as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn to_timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}

fn watch(epoll: &OwnedFd, fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(epoll::add(epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?)
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
