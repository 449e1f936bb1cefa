//! Event channels: what happened, in order, behind a file descriptor (`rdma_event_channel`).

use crate::backend::Told;
use crate::cm::Cm;
use crate::deadline::Deadline;
use crate::error::{Cause, Error};
use crate::id::Id;
use crate::queue::{Inbox, new_eventfd};
use nanocm_core::EventKind;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

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
    /// The new identifier of a CONNECT_REQUEST: whoever drops it rejects the request. See
    /// [`take_request`](Event::take_request).
    pub request: Option<Id>,
}

impl Event {
    pub(crate) fn new(told: Told, cm: &Cm) -> Event {
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

    /// Takes the new identifier out of a CONNECT_REQUEST, once: it is the caller's to answer.
    pub fn take_request(&mut self) -> Option<Id> {
        self.request.take()
    }
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
///             let id = event.take_request().expect("a request has a new identifier");
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
    inbox: Inbox,
    /// Counts 1 while there are events.
    fd: Arc<OwnedFd>,
}

impl EventChannel {
    pub(crate) fn new(cm: &Cm) -> io::Result<EventChannel> {
        let fd = Arc::new(new_eventfd()?);
        Ok(EventChannel { inbox: Inbox::new(cm, Some(fd.clone())), fd })
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// The next event, if there is one. Does not wait; if there is none, a driverless [`Cm`] is driven
    /// once.
    ///
    /// # Errors
    /// Of the transport, if the caller drives.
    pub fn try_next(&self) -> Result<Option<Event>, Error> {
        if let Some(event) = self.inbox.pop() {
            return Ok(Some(event));
        }
        let driven = self.inbox.cm().drive_if_driverless();
        match self.inbox.pop() {
            Some(event) => Ok(Some(event)),
            None => driven.map(|()| None).map_err(waiting),
        }
    }

    /// The next event, or `None` when the deadline has passed. Several threads may wait; each event
    /// goes to one of them.
    ///
    /// # Errors
    /// Of the transport, if the caller drives; of the system, if it is out of descriptors.
    pub fn next(&self, deadline: Deadline) -> Result<Option<Event>, Error> {
        self.inbox.cm().block_on(self.next_async(deadline)).map_err(waiting)
    }

    /// The next event, or `None` when the deadline has passed, as a future: for any executor. Several
    /// may wait; each event goes to one of them, and none to a future that is dropped instead.
    ///
    /// A driverless [`Cm`] must be driven elsewhere.
    pub async fn next_async(&self, deadline: Deadline) -> Option<Event> {
        self.inbox.event(deadline).await
    }
}

fn waiting(error: io::Error) -> Error {
    Cause::from(error).during("wait for events", None, None)
}

/// Readable while there are events.
impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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
        f.debug_struct("EventChannel").field("waiting", &self.inbox.len()).finish_non_exhaustive()
    }
}
