//! Connections the easy way: one call connects, one accepts, each within a deadline.

use crate::channel::{Event, EventChannel};
use crate::cm::Cm;
use crate::error::{Cause, Error, Rejection};
use crate::id::Id;
use nanocm_core::wire::RejectReason;
use nanocm_core::{ConnParam, DisconnectCause, EventKind, PeerParam, PortSpace, ServiceId};
use std::fmt;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Until when a call may block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// For ever.
    pub const NEVER: Deadline = Deadline(None);

    /// So long from now.
    pub fn after(time: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(time))
    }

    /// So many seconds from now.
    pub fn after_secs(seconds: u64) -> Deadline {
        Deadline::after(Duration::from_secs(seconds))
    }

    /// At that instant.
    pub const fn at(instant: Instant) -> Deadline {
        Deadline(Some(instant))
    }

    /// The instant, if there is one.
    pub fn instant(self) -> Option<Instant> {
        self.0
    }

    /// What is left of it; `None`: for ever.
    pub fn remaining(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }
}

/// A connection that stands, with a channel of its own. Dropping it disconnects without waiting.
#[must_use = "dropping a connection disconnects it"]
pub struct Connection {
    id: Id,
    channel: EventChannel,
    peer: SocketAddr,
    peer_param: PeerParam,
    private_data: Vec<u8>,
    ended: OnceLock<DisconnectCause>,
}

impl Connection {
    /// Its identifier.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// What the peer offered: its queue pair, PSN, resources.
    pub fn peer_param(&self) -> PeerParam {
        self.peer_param
    }

    /// What the peer's application said when it connected or accepted: the whole field.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Waits for the connection to end and answers the peer; `None` when the deadline passed. Once it
    /// has ended, says so again whenever it is asked.
    ///
    /// # Errors
    /// Of the transport, if the caller drives.
    pub fn wait_disconnected(&self, deadline: Deadline) -> Result<Option<DisconnectCause>, Error> {
        self.channel.wait(deadline, || {
            while self.ended.get().is_none()
                && let Some(event) = self.channel.pop()
            {
                self.take(&event.kind);
            }
            self.ended.get().copied()
        })
    }

    fn take(&self, event: &EventKind) {
        let EventKind::Disconnected(cause) = *event else { return };
        if cause == DisconnectCause::Peer {
            // Lets the peer stop asking; it may have stopped by now.
            let _ = self.id.disconnect();
        }
        let _ = self.ended.set(cause);
        self.channel.end();
    }

    /// Ends the connection and waits for the peer's agreement.
    ///
    /// # Errors
    /// [`Cause::TimedOut`] if the deadline passes first; the engine goes on trying.
    pub fn disconnect(self, deadline: Deadline) -> Result<DisconnectCause, Error> {
        // Refused if the peer was first: then its DISCONNECTED is waiting.
        let _ = self.id.disconnect();
        self.wait_disconnected(deadline)?.ok_or_else(|| self.error("disconnect", Cause::TimedOut))
    }

    fn error(&self, operation: &'static str, cause: Cause) -> Error {
        cause.during(operation, self.id.local_addr(), Some(self.peer))
    }
}

/// A listener with a channel of its own. Dropping it rejects the requests that nobody took.
#[must_use = "dropping a listener ends it"]
pub struct Listener {
    id: Id,
    channel: EventChannel,
    cm: Cm,
}

impl Listener {
    /// Its identifier.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Its address, with the port it got.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.id.local_addr()
    }

    /// The next request, or `None` when the deadline passed.
    ///
    /// # Errors
    /// Of the transport, if the caller drives; descriptors, in which case the request is rejected.
    pub fn request(&self, deadline: Deadline) -> Result<Option<Request>, Error> {
        loop {
            match self.channel.next(deadline)? {
                None => return Ok(None),
                Some(Event { request: Some(mut id), kind, private_data, peer, .. }) => {
                    let EventKind::ConnectRequest { peer: peer_param, .. } = kind else { continue };
                    let channel = self.cm.channel()?;
                    id.migrate(&channel)?;
                    return Ok(Some(Request { id, channel, peer, peer_param, private_data }));
                }
                Some(_) => {}
            }
        }
    }
}

/// A request to connect. Dropping it rejects it.
#[must_use = "dropping a request rejects it"]
pub struct Request {
    id: Id,
    channel: EventChannel,
    peer: SocketAddr,
    peer_param: PeerParam,
    private_data: Vec<u8>,
}

impl Request {
    /// Its identifier.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Who asks.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// What the peer's application says: the whole field, 56 octets.
    pub fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// What the peer offers.
    pub fn peer_param(&self) -> PeerParam {
        self.peer_param
    }

    /// Accepts, and waits until the connection stands. Unless `param` says otherwise, the deadline is
    /// the attempt's.
    ///
    /// # Errors
    /// [`Error`]: the peer gave up, or the deadline passed; the request is gone.
    pub fn accept(self, param: &ConnParam<'_>, deadline: Deadline) -> Result<Connection, Error> {
        self.id.accept(&deadline.applied_to(param))?;
        let Request { id, channel, peer, peer_param, private_data } = self;
        let port = id.local_addr().map_or(0, |local| local.port());
        let attempt = Attempt { id: &id, channel: &channel, peer, port };
        attempt.until_established("accept", deadline)?;
        Ok(Connection { id, channel, peer, peer_param, private_data, ended: OnceLock::new() })
    }

    /// Rejects.
    ///
    /// # Errors
    /// [`Error`]: too much private data; the peer gave up before.
    pub fn reject(self, reason: RejectReason, private_data: &[u8]) -> Result<(), Error> {
        self.id.reject(reason, private_data)
    }
}

impl Cm {
    /// Listens on a local address (or the wildcard) and port (0: any).
    ///
    /// # Errors
    /// [`Error`]: the address or port cannot be had.
    pub fn listen(&self, local: SocketAddr, backlog: u32) -> Result<Listener, Error> {
        let channel = self.channel()?;
        let id = self.create_id(&channel, PortSpace::Tcp)?;
        id.bind(local)?;
        id.listen(backlog)?;
        Ok(Listener { id, channel, cm: self.clone() })
    }

    /// Connects with a queue pair number of [`next_qpn`](Cm::next_qpn) and no private data.
    ///
    /// # Errors
    /// [`Error`]: rejected, unreachable, the deadline passed.
    pub fn connect(&self, peer: SocketAddr, deadline: Deadline) -> Result<Connection, Error> {
        self.connect_with(None, peer, &ConnParam::new(self.next_qpn()), deadline)
    }

    /// Connects: resolves, asks, establishes. Unless `param` says otherwise, the deadline is the
    /// attempt's.
    ///
    /// # Errors
    /// [`Error`]: rejected, unreachable, the deadline passed. Nothing is left of the attempt.
    pub fn connect_with(
        &self,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        param: &ConnParam<'_>,
        deadline: Deadline,
    ) -> Result<Connection, Error> {
        let channel = self.channel()?;
        let id = self.create_id(&channel, PortSpace::Tcp)?;
        let local = match local {
            Some(local) if !local.ip().to_canonical().is_unspecified() => local,
            // The route's address; the port as told.
            any => {
                let mut source = self.source_for(peer)?;
                source.set_port(any.map_or(0, |any| any.port()));
                source
            }
        };
        // Here it can still be said who has the address's UDP port.
        self.open(local)?;
        let attempt = Attempt { id: &id, channel: &channel, peer, port: peer.port() };
        id.resolve_addr(Some(local), peer, deadline.for_resolving())?;
        attempt.until("resolve", deadline, |kind| matches!(kind, EventKind::AddrResolved))?;
        id.resolve_route(deadline.for_resolving())?;
        attempt.until("resolve", deadline, |kind| matches!(kind, EventKind::RouteResolved))?;
        id.connect(&deadline.applied_to(param))?;
        let response = attempt
            .until("connect", deadline, |kind| matches!(kind, EventKind::ConnectResponse { .. }))?;
        // Refused if the peer has given up meanwhile, as its REJECTED says.
        let _ = id.establish();
        attempt.until_established("connect", deadline)?;
        let EventKind::ConnectResponse { peer: peer_param } = response.kind else {
            return Err(attempt.failed("connect", Cause::Closed));
        };
        let private_data = response.private_data;
        Ok(Connection { id, channel, peer, peer_param, private_data, ended: OnceLock::new() })
    }
}

/// librdmacm's `rdma_create_ep` waits so long for each step of resolving.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The engine gives up so much later than the blocking call, which so says what happened.
const SLACK: Duration = Duration::from_secs(1);

impl Deadline {
    fn for_resolving(self) -> Duration {
        let left = self.remaining().unwrap_or(RESOLVE_TIMEOUT);
        left.clamp(Duration::from_millis(1), RESOLVE_TIMEOUT)
    }

    /// The engine shall try as long as the caller waits.
    fn applied_to<'a>(self, param: &ConnParam<'a>) -> ConnParam<'a> {
        let mut param = *param;
        param.timeout = param.timeout.or(self.remaining().map(|left| left.saturating_add(SLACK)));
        param
    }
}

/// An attempt to connect, on either side.
struct Attempt<'a> {
    id: &'a Id,
    channel: &'a EventChannel,
    peer: SocketAddr,
    /// Of the service.
    port: u16,
}

impl Attempt<'_> {
    fn until_established(&self, operation: &'static str, deadline: Deadline) -> Result<(), Error> {
        self.until(operation, deadline, |kind| matches!(kind, EventKind::Established)).map(drop)
    }

    /// Waits for the wanted event; one that ends the attempt is an error.
    fn until(
        &self,
        operation: &'static str,
        deadline: Deadline,
        wanted: impl Fn(&EventKind) -> bool,
    ) -> Result<Event, Error> {
        loop {
            let event = self.channel.next(deadline)?;
            let event = event.ok_or_else(|| self.failed(operation, Cause::TimedOut))?;
            let cause = match event.kind {
                ref kind if wanted(kind) => return Ok(event),
                EventKind::AddrError(errno)
                | EventKind::RouteError(errno)
                | EventKind::ConnectError(errno) => Cause::Host(errno),
                EventKind::Unreachable(why) => Cause::Unreachable(why),
                EventKind::Rejected(reason) => Cause::Rejected(Box::new(Rejection {
                    reason,
                    service: ServiceId::new(PortSpace::Tcp, self.port),
                    private_data: event.private_data,
                    additional_info: event.additional_info,
                })),
                EventKind::Disconnected(_) => Cause::Closed,
                _ => continue,
            };
            return Err(self.failed(operation, cause));
        }
    }

    fn failed(&self, operation: &'static str, cause: Cause) -> Error {
        cause.during(operation, self.id.local_addr(), Some(self.peer))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("id", &self.id)
            .field("peer", &self.peer)
            .field("ended", &self.ended.get())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("local", &self.local_addr()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("peer", &self.peer).finish_non_exhaustive()
    }
}
