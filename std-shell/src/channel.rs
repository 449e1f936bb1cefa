//! Event channels: what happened, in order, behind a file descriptor (`rdma_event_channel`).

use crate::backend::Told;
use crate::blocking::Deadline;
use crate::cm::Cm;
use crate::error::{Cause, Error};
use crate::id::Id;
use nanocm_core::EventKind;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex};

/// Something happened to an identifier of a channel.
pub struct Event {
    /// The identifier, as a value to compare with [`Id::handle`].
    pub id: nanocm_core::Id,
    /// What happened.
    pub kind: EventKind,
    /// The peer's private data: the whole field as received.
    pub private_data: Vec<u8>,
    /// The additional information of a rejection.
    pub additional_info: Vec<u8>,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The new identifier of a CONNECT_REQUEST: whoever drops it rejects the request.
    pub request: Option<Id>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {} -> {}", self.kind.name(), self.id, self.local, self.peer)
    }
}

/// A queue of events. Readable ([`AsFd`]) while there are some. Once it is dropped, its identifiers go
/// on in silence, and requests to its listeners, those that wait in it too, are rejected.
///
/// For an event loop: wait until the descriptor is readable, then take events until there is none. (With
/// tokio's `AsyncFd` clear the readiness only then.)
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use nanocm::provider::MemNet;
/// use nanocm::*;
/// use std::collections::HashMap;
/// use std::time::Duration;
///
/// // A network inside this process; `Cm::udp` does the same over real sockets.
/// let endpoint = MemNet::new(1).endpoint(&["10.0.0.1".parse()?])?;
/// let cm = Cm::over(endpoint, Config::new(random_seed()?), Capacity::of(16), Drive::Thread)?;
/// let channel = cm.channel()?;
/// let mut ids = HashMap::new();
///
/// let listener = cm.create_id(&channel, PortSpace::Tcp)?;
/// listener.bind("10.0.0.1:4420".parse()?)?;
/// listener.listen(0)?;
///
/// let id = cm.create_id(&channel, PortSpace::Tcp)?;
/// id.resolve_addr(None, "10.0.0.1:4420".parse()?, Duration::from_secs(2))?;
/// let client = id.handle();
/// ids.insert(client, id);
///
/// while let Some(mut event) = channel.next(Deadline::after_secs(5))? {
///     match event.kind {
///         EventKind::ConnectRequest { .. } => {
///             let id = event.request.take().expect("a request has a new identifier");
///             id.accept(&ConnParam::new(cm.next_qpn()))?;
///             ids.insert(event.id, id);
///         }
///         EventKind::AddrResolved => ids[&event.id].resolve_route(Duration::from_secs(2))?,
///         EventKind::RouteResolved => ids[&event.id].connect(&ConnParam::new(cm.next_qpn()))?,
///         EventKind::ConnectResponse { .. } => ids[&event.id].establish()?,
///         EventKind::Established if event.id == client => ids[&client].disconnect()?,
///         EventKind::Disconnected(DisconnectCause::Peer) => ids[&event.id].disconnect()?,
///         EventKind::Disconnected(_) => break,
///         _ => {}
///     }
/// }
/// # Ok(()) }
/// ```
#[must_use = "dropping a channel rejects the requests that wait in it"]
pub struct EventChannel {
    cm: Cm,
    queue: Arc<Queue>,
    number: u64,
}

impl EventChannel {
    pub(crate) fn new(cm: Cm, queue: Arc<Queue>, number: u64) -> EventChannel {
        EventChannel { cm, queue, number }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn cm(&self) -> &Cm {
        &self.cm
    }

    /// The next event, if there is one. Does not wait; if there is none, a driverless [`Cm`] is driven
    /// once.
    ///
    /// # Errors
    /// Of the transport, if the caller drives.
    pub fn try_next(&self) -> Result<Option<Event>, Error> {
        if let Some(event) = self.pop() {
            return Ok(Some(event));
        }
        let driven = self.cm.drive_if_driverless();
        match self.queue.pop(&self.cm) {
            Some(event) => Ok(Some(event)),
            None => driven.map(|()| None).map_err(waiting),
        }
    }

    /// The next event, or `None` when the deadline has passed. Several threads may wait; each event
    /// goes to one of them.
    ///
    /// # Errors
    /// Of the transport, if the caller drives.
    pub fn next(&self, deadline: Deadline) -> Result<Option<Event>, Error> {
        self.wait(deadline, || self.queue.pop(&self.cm))
    }

    /// Waits for something that events bring about; asks again after each.
    pub(crate) fn wait<R>(
        &self,
        deadline: Deadline,
        ready: impl FnMut() -> Option<R>,
    ) -> Result<Option<R>, Error> {
        self.cm.wait_for(self.queue.fd.as_fd(), deadline.instant(), ready).map_err(waiting)
    }

    /// The next event, if it is there already.
    pub(crate) fn pop(&self) -> Option<Event> {
        self.queue.pop(&self.cm)
    }

    /// Wakes whoever waits, from now on: there will be no more to wait for.
    pub(crate) fn end(&self) {
        self.queue.ring();
    }
}

fn waiting(error: io::Error) -> Error {
    Cause::from(error).during("wait for events", None, None)
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        self.cm.close_channel(self.number);
    }
}

/// Readable while there are events.
impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.fd.as_fd()
    }
}

/// As [`AsFd`]; what event loops such as tokio's `AsyncFd` ask for.
impl AsRawFd for EventChannel {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

impl fmt::Debug for EventChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waiting = self.queue.lock().len();
        f.debug_struct("EventChannel").field("waiting", &waiting).finish_non_exhaustive()
    }
}

/// The queue behind a channel, shared with who fills it.
pub(crate) struct Queue {
    events: Mutex<VecDeque<Told>>,
    /// Counts 1 while there are events.
    fd: OwnedFd,
}

impl Queue {
    pub(crate) fn new() -> io::Result<Queue> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Queue { events: Mutex::new(VecDeque::new()), fd })
    }

    pub(crate) fn push(&self, told: Told) {
        let mut events = self.lock();
        if events.is_empty() {
            self.ring();
        }
        events.push_back(told);
    }

    /// Forgets what an identifier that is no more was to be told. Requests to a destroyed listener
    /// that nobody took are forgotten too, and returned to be destroyed.
    pub(crate) fn forget(&self, id: nanocm_core::Id) -> Vec<nanocm_core::Id> {
        let mut events = self.lock();
        let gone = concerned(&events, id);
        events.retain(|told| !gone.contains(&told.event.id));
        self.settle(&events);
        gone.into_iter().filter(|&other| other != id).collect()
    }

    /// Takes out what one identifier is to be told, and the requests to it that nobody took.
    pub(crate) fn take(&self, id: nanocm_core::Id) -> VecDeque<Told> {
        let mut events = self.lock();
        let moved = concerned(&events, id);
        let (taken, kept) = events.drain(..).partition(|told| moved.contains(&told.event.id));
        *events = kept;
        self.settle(&events);
        taken
    }

    /// The requests that nobody took.
    pub(crate) fn requests(&self) -> Vec<nanocm_core::Id> {
        let events = self.lock();
        events.iter().filter(|told| listener_of(told).is_some()).map(|told| told.event.id).collect()
    }

    fn pop(&self, cm: &Cm) -> Option<Event> {
        let mut events = self.lock();
        let told = events.pop_front()?;
        self.settle(&events);
        drop(events);
        Some(Event::new(told, cm))
    }

    /// Makes it readable, even if it is empty.
    fn ring(&self) {
        // It need not be said twice: the counter is far from its limit.
        let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
    }

    /// An empty queue is not readable.
    fn settle(&self, events: &VecDeque<Told>) {
        if events.is_empty() {
            // EAGAIN if it was not readable either.
            let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Told>> {
        // The queue is whole at every moment: a panic elsewhere does not spoil it.
        self.events.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// An identifier and the requests to it, if it listens, that nobody took.
fn concerned(events: &VecDeque<Told>, id: nanocm_core::Id) -> HashSet<nanocm_core::Id> {
    let requests = events.iter().filter(|told| listener_of(told) == Some(id));
    requests.map(|told| told.event.id).chain([id]).collect()
}

/// Whom a request asks.
fn listener_of(told: &Told) -> Option<nanocm_core::Id> {
    match told.event.kind {
        EventKind::ConnectRequest { listener, .. } => Some(listener),
        _ => None,
    }
}

impl Event {
    fn new(told: Told, cm: &Cm) -> Event {
        let Told { event, private_data, additional_info, local, peer } = told;
        let request = matches!(event.kind, EventKind::ConnectRequest { .. })
            .then(|| Id::adopt(cm.clone(), event.id, event.user));
        Event {
            id: event.id,
            kind: event.kind,
            private_data,
            additional_info,
            local,
            peer,
            request,
        }
    }
}
