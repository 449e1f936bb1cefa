//! Connections as futures: for any executor, and for none in particular.
//!
//! A future here is woken by whoever drives the [`Cm`]: its thread ([`Drive::Thread`](crate::Drive)), or
//! a task of yours that waits until the `Cm` is readable and calls [`Cm::drive`]
//! (`examples/async_tokio.rs` does so with tokio's `AsyncFd`). Deadlines need no timer of the executor.
//!
//! Dropping a future calls off what it does: the peer hears what it needs to know, nothing is lost that
//! it had not returned, and nothing is left of it.
//!
//! ```
//! # use nanocm::provider::MemNet;
//! # use nanocm::*;
//! use nanocm::future::{Connection, Listener};
//!
//! async fn serve(listener: Listener) -> Result<(), Error> {
//!     while let Some(request) = listener.request(Deadline::NEVER).await {
//!         let qpn = request.id().cm().next_qpn();
//!         let connection = request.accept(&ConnParam::new(qpn), Deadline::after_secs(5)).await?;
//!         connection.disconnected(Deadline::NEVER).await;
//! #       break;
//!     }
//!     Ok(())
//! }
//!
//! async fn call(cm: Cm, peer: std::net::SocketAddr) -> Result<(), Error> {
//!     let connection = Connection::connect(&cm, peer, Deadline::after_secs(5)).await?;
//!     println!("connected to {}", connection.peer());
//!     connection.disconnect(Deadline::after_secs(5)).await?;
//!     Ok(())
//! }
//! # // As an executor: one that asks again and again.
//! # fn run(mut both: std::pin::Pin<Box<dyn Future<Output = ()>>>) {
//! #     let mut context = std::task::Context::from_waker(std::task::Waker::noop());
//! #     while both.as_mut().poll(&mut context).is_pending() {
//! #         std::thread::sleep(std::time::Duration::from_millis(1));
//! #     }
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let endpoint = MemNet::new(1).endpoint(&["10.0.0.1".parse()?])?;
//! # let cm = Cm::over(endpoint, Config::new(random_seed()?), Capacity::of(16), Drive::Thread)?;
//! # let peer = "10.0.0.1:4420".parse()?;
//! # let listener = Listener::bind(&cm, peer, 0)?;
//! # let server = std::thread::spawn(|| run(Box::pin(async { serve(listener).await.unwrap() })));
//! # run(Box::pin(async move { call(cm, peer).await.unwrap() }));
//! # server.join().unwrap();
//! # Ok(()) }
//! ```

use crate::channel::Event;
use crate::cm::Cm;
use crate::deadline::Deadline;
use crate::error::{Cause, Error, Rejection};
use crate::id::Id;
use crate::queue::Inbox;
use nanocm_core::wire::RejectReason;
use nanocm_core::{ConnParam, DisconnectCause, EventKind, PeerParam, PortSpace, ServiceId};
use std::fmt;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

/// A connection that stands. Dropping it disconnects without waiting.
#[must_use = "dropping a connection disconnects it"]
pub struct Connection {
    id: Id,
    inbox: Inbox,
    peer: SocketAddr,
    peer_param: PeerParam,
    private_data: Vec<u8>,
    ended: OnceLock<DisconnectCause>,
}

impl Connection {
    /// Connects with a queue pair number of [`next_qpn`](Cm::next_qpn) and no private data.
    ///
    /// # Errors
    /// [`Error`]: rejected, unreachable, the deadline passed.
    pub async fn connect(
        cm: &Cm,
        peer: SocketAddr,
        deadline: Deadline,
    ) -> Result<Connection, Error> {
        let param = ConnParam::new(cm.next_qpn());
        Connection::connect_with(cm, None, peer, &param, deadline).await
    }

    /// Connects: resolves, asks, establishes. Unless `param` says otherwise, the deadline is the
    /// attempt's.
    ///
    /// # Errors
    /// [`Error`]: rejected, unreachable, the deadline passed. Nothing is left of the attempt.
    pub async fn connect_with(
        cm: &Cm,
        local: Option<SocketAddr>,
        peer: SocketAddr,
        param: &ConnParam<'_>,
        deadline: Deadline,
    ) -> Result<Connection, Error> {
        let inbox = Inbox::new(cm, None);
        let id = cm.create_id_in(&inbox, PortSpace::Tcp)?;
        let local = match local {
            Some(local) if !local.ip().to_canonical().is_unspecified() => local,
            // The route's address; the port as told.
            any => {
                let mut source = cm.source_for(peer)?;
                source.set_port(any.map_or(0, |any| any.port()));
                source
            }
        };
        // Here it can still be said who has the address's UDP port.
        cm.open(local)?;
        let attempt = Attempt { id: &id, inbox: &inbox, peer, port: peer.port(), deadline };
        id.resolve_addr(Some(local), peer, deadline.for_resolving())?;
        attempt.until("resolve", |kind| matches!(kind, EventKind::AddrResolved)).await?;
        id.resolve_route(deadline.for_resolving())?;
        attempt.until("resolve", |kind| matches!(kind, EventKind::RouteResolved)).await?;
        id.connect(&deadline.applied_to(param))?;
        let answered = |kind: &EventKind| matches!(kind, EventKind::ConnectResponse { .. });
        let response = attempt.until("connect", answered).await?;
        // Refused if the peer has given up meanwhile, as its REJECTED says.
        let _ = id.establish();
        attempt.until_established("connect").await?;
        let EventKind::ConnectResponse { peer: peer_param } = response.kind else {
            return Err(attempt.failed("connect", Cause::Closed));
        };
        let private_data = response.private_data;
        Ok(Connection { id, inbox, peer, peer_param, private_data, ended: OnceLock::new() })
    }

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
    pub async fn disconnected(&self, deadline: Deadline) -> Option<DisconnectCause> {
        let ended = || {
            while self.ended.get().is_none()
                && let Some(event) = self.inbox.pop()
            {
                self.take(&event.kind);
            }
            self.ended.get().copied()
        };
        self.inbox.wait(deadline, ended).await
    }

    fn take(&self, event: &EventKind) {
        let EventKind::Disconnected(cause) = *event else { return };
        if cause == DisconnectCause::Peer {
            // Lets the peer stop asking; it may have stopped by now.
            let _ = self.id.disconnect();
        }
        let _ = self.ended.set(cause);
        // Who looked since the event was taken waits for another.
        self.inbox.wake_all();
    }

    /// Ends the connection and waits for the peer's agreement.
    ///
    /// # Errors
    /// [`Cause::TimedOut`] if the deadline passes first; the engine goes on trying.
    pub async fn disconnect(self, deadline: Deadline) -> Result<DisconnectCause, Error> {
        // Refused if the peer was first: then its DISCONNECTED is waiting.
        let _ = self.id.disconnect();
        let timed_out = || self.error("disconnect", Cause::TimedOut);
        self.disconnected(deadline).await.ok_or_else(timed_out)
    }

    pub(crate) fn error(&self, operation: &'static str, cause: Cause) -> Error {
        cause.during(operation, self.id.local_addr(), Some(self.peer))
    }
}

/// A listener. Dropping it rejects the requests that nobody took.
#[must_use = "dropping a listener ends it"]
pub struct Listener {
    id: Id,
    inbox: Inbox,
}

impl Listener {
    /// Listens on a local address (or the wildcard) and port (0: any), for at most `backlog`
    /// unanswered requests (0: 1024). Does not wait.
    ///
    /// # Errors
    /// [`Error`]: the address or port cannot be had.
    pub fn bind(cm: &Cm, local: SocketAddr, backlog: u32) -> Result<Listener, Error> {
        let inbox = Inbox::new(cm, None);
        let id = cm.create_id_in(&inbox, PortSpace::Tcp)?;
        id.bind(local)?;
        id.listen(backlog)?;
        Ok(Listener { id, inbox })
    }

    /// Its identifier.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Its address, with the port it got.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.id.local_addr()
    }

    /// The next request, or `None` when the deadline passed. Several tasks may wait; each request goes
    /// to one of them, and none to a future that is dropped instead.
    pub async fn request(&self, deadline: Deadline) -> Option<Request> {
        let next = || {
            while let Some(event) = self.inbox.pop() {
                let request = Request::new(event);
                if request.is_some() {
                    return request;
                }
            }
            None
        };
        self.inbox.wait(deadline, next).await
    }
}

/// A request to connect. Dropping it rejects it.
#[must_use = "dropping a request rejects it"]
pub struct Request {
    id: Id,
    inbox: Inbox,
    peer: SocketAddr,
    peer_param: PeerParam,
    private_data: Vec<u8>,
}

impl Request {
    /// What a listener's event asks, with an inbox of its own.
    fn new(event: Event) -> Option<Request> {
        let Event { request: Some(mut id), kind, private_data, peer, .. } = event else {
            return None;
        };
        let EventKind::ConnectRequest { peer: peer_param, .. } = kind else { return None };
        let inbox = Inbox::new(id.cm(), None);
        // Fails only for another connection manager's.
        id.migrate_to(&inbox).ok()?;
        Some(Request { id, inbox, peer, peer_param, private_data })
    }

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
    pub async fn accept(
        self,
        param: &ConnParam<'_>,
        deadline: Deadline,
    ) -> Result<Connection, Error> {
        self.id.accept(&deadline.applied_to(param))?;
        let Request { id, inbox, peer, peer_param, private_data } = self;
        let port = id.local_addr().map_or(0, |local| local.port());
        let attempt = Attempt { id: &id, inbox: &inbox, peer, port, deadline };
        attempt.until_established("accept").await?;
        Ok(Connection { id, inbox, peer, peer_param, private_data, ended: OnceLock::new() })
    }

    /// Rejects. Does not wait.
    ///
    /// # Errors
    /// [`Error`]: too much private data; the peer gave up before.
    pub fn reject(self, reason: RejectReason, private_data: &[u8]) -> Result<(), Error> {
        self.id.reject(reason, private_data)
    }
}

/// librdmacm's `rdma_create_ep` waits so long for each step of resolving.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(2);

/// The engine gives up so much later than the call, which so says what happened.
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
    inbox: &'a Inbox,
    peer: SocketAddr,
    /// Of the service.
    port: u16,
    deadline: Deadline,
}

impl Attempt<'_> {
    async fn until_established(&self, operation: &'static str) -> Result<(), Error> {
        self.until(operation, |kind| matches!(kind, EventKind::Established)).await.map(drop)
    }

    /// Waits for the wanted event; one that ends the attempt is an error.
    async fn until(
        &self,
        operation: &'static str,
        wanted: impl Fn(&EventKind) -> bool,
    ) -> Result<Event, Error> {
        loop {
            let event = self.inbox.event(self.deadline).await;
            let event = event.ok_or_else(|| self.failed(operation, Cause::TimedOut))?;
            let cause = match event.kind {
                ref kind if wanted(kind) => return Ok(event),
                EventKind::AddrError(errno)
                | EventKind::RouteError(errno)
                | EventKind::ConnectError(errno) => Cause::Host(errno),
                EventKind::DeviceRemoval => Cause::Host(libc::ENODEV),
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
