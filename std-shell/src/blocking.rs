//! Connections the easy way: one call connects, one accepts, each within a deadline. The futures of
//! [`future`], with the calling thread to run them.

use crate::cm::Cm;
use crate::deadline::Deadline;
use crate::error::{Cause, Error};
use crate::future::{self, Service};
use crate::id::Id;
use nanocm_core::wire::RejectReason;
use nanocm_core::{ConnParam, DisconnectCause, PeerParam};
use std::fmt;
use std::net::SocketAddr;

/// A connection that stands. Dropping it disconnects without waiting.
#[must_use = "dropping a connection disconnects it"]
pub struct Connection(future::Connection);

impl Connection {
    /// Its identifier.
    pub fn id(&self) -> &Id {
        self.0.id()
    }

    /// The peer's address.
    pub fn peer(&self) -> SocketAddr {
        self.0.peer()
    }

    /// What the peer offered: its queue pair, PSN, resources.
    pub fn peer_param(&self) -> PeerParam {
        self.0.peer_param()
    }

    /// What the peer's application said when it connected or accepted: the whole field.
    pub fn private_data(&self) -> &[u8] {
        self.0.private_data()
    }

    /// Waits for the connection to end and answers the peer; `None` when the deadline passed. Once it
    /// has ended, says so again whenever it is asked.
    ///
    /// # Errors
    /// Of the transport, if the caller drives; of the system, if it is out of descriptors.
    pub fn wait_disconnected(&self, deadline: Deadline) -> Result<Option<DisconnectCause>, Error> {
        self.id().cm().wait("wait for events", self.0.disconnected(deadline))
    }

    /// Ends the connection and waits for the peer's agreement.
    ///
    /// # Errors
    /// [`Cause::TimedOut`] if the deadline passes first; the engine goes on trying.
    pub fn disconnect(self, deadline: Deadline) -> Result<DisconnectCause, Error> {
        let cm = self.id().cm().clone();
        cm.wait("disconnect", self.0.disconnect(deadline))?
    }
}

/// A listener. Dropping it rejects the requests that nobody took.
#[must_use = "dropping a listener ends it"]
pub struct Listener(future::Listener);

impl Listener {
    /// Its identifier.
    pub fn id(&self) -> &Id {
        self.0.id()
    }

    /// Its address, with the port it got.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.0.local_addr()
    }

    /// The next request, or `None` when the deadline passed, or at once if the device of the listener's
    /// address is gone: then nobody comes any more.
    ///
    /// # Errors
    /// Of the transport, if the caller drives; of the system, if it is out of descriptors.
    pub fn request(&self, deadline: Deadline) -> Result<Option<Request>, Error> {
        let request = self.id().cm().wait("wait for events", self.0.request(deadline))?;
        Ok(request.map(Request))
    }
}

/// A request to connect. Dropping it rejects it.
#[must_use = "dropping a request rejects it"]
pub struct Request(future::Request);

impl Request {
    /// Its identifier.
    pub fn id(&self) -> &Id {
        self.0.id()
    }

    /// Who asks.
    pub fn peer(&self) -> SocketAddr {
        self.0.peer()
    }

    /// What the peer's application says: the whole field, 56 octets.
    pub fn private_data(&self) -> &[u8] {
        self.0.private_data()
    }

    /// What the peer offers.
    pub fn peer_param(&self) -> PeerParam {
        self.0.peer_param()
    }

    /// Accepts, and waits until the connection stands. Unless `param` says otherwise, the deadline is
    /// the attempt's.
    ///
    /// # Errors
    /// [`Error`]: the peer gave up, or the deadline passed; the request is gone.
    pub fn accept(self, param: &ConnParam<'_>, deadline: Deadline) -> Result<Connection, Error> {
        let cm = self.id().cm().clone();
        cm.wait("accept", self.0.accept(param, deadline))?.map(Connection)
    }

    /// Rejects.
    ///
    /// # Errors
    /// [`Error`]: too much private data; the peer gave up before.
    pub fn reject(self, reason: RejectReason, private_data: &[u8]) -> Result<(), Error> {
        self.0.reject(reason, private_data)
    }
}

impl Cm {
    /// Listens on a local address (or the wildcard) and port (0: any), for at most `backlog`
    /// unanswered requests (0: 1024).
    ///
    /// # Errors
    /// [`Error`]: the address or port cannot be had.
    pub fn listen(&self, local: SocketAddr, backlog: u32) -> Result<Listener, Error> {
        future::Listener::bind(self, local, backlog).map(Listener)
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
        let connecting = future::Connection::connect_with(self, local, peer, param, deadline);
        self.wait("connect", connecting)?.map(Connection)
    }

    /// Asks for a datagram service (`RDMA_PS_UDP`), with no private data.
    ///
    /// # Errors
    /// [`Error`]: refused, no answer, the deadline passed.
    pub fn resolve(&self, peer: SocketAddr, deadline: Deadline) -> Result<Service, Error> {
        self.resolve_with(None, peer, &ConnParam::new(0), deadline)
    }

    /// Asks for a datagram service. Of `param` the private data (180 octets at most) and the timing
    /// count; unless it says otherwise, the deadline is the attempt's.
    ///
    /// # Errors
    /// [`Error`]: refused, no answer, the deadline passed.
    pub fn resolve_with(
        &self,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        param: &ConnParam<'_>,
        deadline: Deadline,
    ) -> Result<Service, Error> {
        self.wait("resolve", Service::resolve_with(self, local, peer, param, deadline))?
    }

    fn wait<R>(
        &self,
        operation: &'static str,
        future: impl Future<Output = R>,
    ) -> Result<R, Error> {
        self.block_on(future).map_err(|error| Cause::from(error).during(operation, None, None))
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
