//! [`Connection`]: one that stands.

use super::attempt::{self, Attempt};
use crate::cm::Cm;
use crate::deadline::Deadline;
use crate::error::{Cause, Error};
use crate::id::Id;
use crate::queue::Inbox;
use nanocm_core::{ConnParam, DisconnectCause, EventKind, PeerParam, PortSpace, ServiceId};
use std::fmt;
use std::net::SocketAddr;
use std::sync::OnceLock;

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
        let (id, inbox) = attempt::route(cm, PortSpace::Tcp, local, peer, deadline).await?;
        let service = ServiceId::new(PortSpace::Tcp, peer.port());
        let attempt = Attempt { id: &id, inbox: &inbox, peer, service, deadline };
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
        Ok(Connection::new(id, inbox, peer, peer_param, private_data))
    }

    pub(super) fn new(
        id: Id,
        inbox: Inbox,
        peer: SocketAddr,
        peer_param: PeerParam,
        private_data: Vec<u8>,
    ) -> Connection {
        Connection { id, inbox, peer, peer_param, private_data, ended: OnceLock::new() }
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

    fn error(&self, operation: &'static str, cause: Cause) -> Error {
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
