//! [`Listener`] and [`Request`]: who waits for connections.

use super::Connection;
use super::attempt::Attempt;
use crate::channel::Event;
use crate::cm::Cm;
use crate::deadline::Deadline;
use crate::error::Error;
use crate::id::Id;
use crate::queue::Inbox;
use nanocm_core::wire::RejectReason;
use nanocm_core::{ConnParam, EventKind, PeerParam, PortSpace, ServiceId};
use std::fmt;
use std::net::SocketAddr;
use std::sync::OnceLock;

/// A listener. Dropping it rejects the requests that nobody took.
#[must_use = "dropping a listener ends it"]
pub struct Listener {
    id: Id,
    inbox: Inbox,
    /// Its device is.
    gone: OnceLock<()>,
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
        Ok(Listener { id, inbox, gone: OnceLock::new() })
    }

    /// Its identifier.
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// Its address, with the port it got.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.id.local_addr()
    }

    /// The next request, or `None` when the deadline passed, or at once if the device of the listener's
    /// address is gone: then nobody comes any more. Several tasks may wait; each request goes to one of
    /// them, and none to a future that is dropped instead.
    pub async fn request(&self, deadline: Deadline) -> Option<Request> {
        let next = || {
            while let Some(event) = self.inbox.pop() {
                if let Some(request) = self.take(event) {
                    return Some(Some(request));
                }
            }
            self.gone.get().map(|()| None)
        };
        self.inbox.wait(deadline, next).await.flatten()
    }

    fn take(&self, event: Event) -> Option<Request> {
        if event.id == self.id.handle() && event.kind == EventKind::DeviceRemoval {
            let _ = self.gone.set(());
            // Who looked since the event was taken waits for another.
            self.inbox.wake_all();
        }
        Request::new(event)
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
        let service = ServiceId::new(PortSpace::Tcp, port);
        let attempt = Attempt { id: &id, inbox: &inbox, peer, service, deadline };
        attempt.until_established("accept").await?;
        Ok(Connection::new(id, inbox, peer, peer_param, private_data))
    }

    /// Rejects. Does not wait.
    ///
    /// # Errors
    /// [`Error`]: too much private data; the peer gave up before.
    pub fn reject(self, reason: RejectReason, private_data: &[u8]) -> Result<(), Error> {
        self.id.reject(reason, private_data)
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
