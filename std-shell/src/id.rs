//! Owned identifiers (`rdma_cm_id`): the operations of the engine, and drop = destroy.

use crate::channel::EventChannel;
use crate::cm::Cm;
use crate::error::{Cause, Error};
use crate::host_ports::{PortPolicy, SharedTcpListener};
use crate::queue::Inbox;
use nanocm_core::wire::RejectReason;
use nanocm_core::{ConnParam, ConnState, IdOption, Path, PeerParam, QpAttrs, QpState, State};
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

/// An identifier. Dropping it destroys it: never blocks, tells the peer what it needs to know,
/// releases the port.
#[must_use = "dropping an identifier destroys it"]
pub struct Id {
    cm: Cm,
    handle: nanocm_core::Id,
    /// Where its events go.
    queue: u64,
}

impl Id {
    pub(crate) fn adopt(cm: Cm, handle: nanocm_core::Id, queue: u64) -> Id {
        Id { cm, handle, queue }
    }

    /// Its name: events carry it.
    pub fn handle(&self) -> nanocm_core::Id {
        self.handle
    }

    /// The connection manager it belongs to.
    pub fn cm(&self) -> &Cm {
        &self.cm
    }

    /// Sends its further events to another channel, and takes those along that wait in the old one:
    /// its own, and the requests to it if it listens.
    ///
    /// # Errors
    /// [`Cause::ForeignChannel`]; nothing has changed.
    pub fn migrate(&mut self, channel: &EventChannel) -> Result<(), Error> {
        self.migrate_to(channel.inbox())
    }

    pub(crate) fn migrate_to(&mut self, inbox: &Inbox) -> Result<(), Error> {
        let moved = match self.cm.is_same(inbox.cm()) {
            true => self.cm.shared().migrate(self.handle, self.queue, inbox.number()),
            false => Err(Cause::ForeignChannel),
        };
        moved.map_err(|cause| self.error("migrate", cause))?;
        self.queue = inbox.number();
        Ok(())
    }

    /// Binds it to a local address (opening its socket) or the wildcard, and to a port or, with 0,
    /// any free one, which is returned.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn bind(&self, local: SocketAddr) -> Result<u16, Error> {
        let bound = self.cm.shared().bind(self.handle, local);
        bound.map_err(|cause| cause.during("bind", Some(local), None))
    }

    /// Where its number shall come from, when it is bound next, explicitly or on the way of resolving; see
    /// [`HostPortConfig`](crate::host_ports::HostPortConfig) for what is so by default.
    pub fn set_port_policy(&self, policy: PortPolicy) {
        self.cm.shared().numbers.set_policy(self.handle, policy);
    }

    /// Binds it to the address and number of a TCP listener that it shares from now on: who leaves first does not
    /// disturb the other.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn bind_with(&self, listener: &SharedTcpListener) -> Result<u16, Error> {
        let bound = self.cm.shared().bind_with(self.handle, listener.socket());
        bound.map_err(|cause| cause.during("bind", listener.local_addr().ok(), None))
    }

    /// Lets the socket that holds its number listen for TCP connections as well. No other program can come between.
    ///
    /// # Errors
    /// [`Cause::Port`]: it has a TCP listener already; [`Cause::Op`]: the host does not hold its number.
    pub fn host_listener(&self, backlog: u32) -> Result<SharedTcpListener, Error> {
        let listener = self.cm.shared().numbers.host_listener(self.handle, backlog);
        listener.map_err(|cause| self.error("listen for TCP on", cause))
    }

    /// Lets it listen for at most `backlog` unanswered requests (0: the default, 1024).
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn listen(&self, backlog: u32) -> Result<(), Error> {
        self.run("listen", |backend, id| backend.listen(id, backlog))
    }

    /// Finds the path to `destination`; ADDR_RESOLVED or ADDR_ERROR follows.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn resolve_addr(
        &self,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        timeout: Duration,
    ) -> Result<(), Error> {
        let done = self.cm.shared().resolve_addr(self.handle, source, destination, timeout);
        done.map_err(|cause| cause.during("resolve", source, Some(destination)))
    }

    /// Finds what the path carries; ROUTE_RESOLVED or ROUTE_ERROR follows.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn resolve_route(&self, timeout: Duration) -> Result<(), Error> {
        self.run("resolve the route", |backend, id| backend.resolve_route(id, timeout))
    }

    /// Sends a REQ; CONNECT_RESPONSE, REJECTED or UNREACHABLE follows. In a datagram port space a
    /// SIDR_REQ; ESTABLISHED (see [`peer_param`](Id::peer_param)), REJECTED or UNREACHABLE follows.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn connect(&self, param: &ConnParam<'_>) -> Result<(), Error> {
        self.run("connect", |backend, id| backend.connect(id, param))
    }

    /// Accepts a request; ESTABLISHED, REJECTED, UNREACHABLE or DISCONNECTED follows. In a datagram
    /// port space nothing follows: the request is answered, and so are its repetitions as long as the
    /// identifier lives.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn accept(&self, param: &ConnParam<'_>) -> Result<(), Error> {
        self.run("accept", |backend, id| backend.accept(id, param))
    }

    /// Rejects a request, or on either side a connection that does not stand yet.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn reject(&self, reason: RejectReason, private_data: &[u8]) -> Result<(), Error> {
        self.run("reject", |backend, id| backend.reject(id, reason, private_data))
    }

    /// The queue pair is ready: completes what CONNECT_RESPONSE began. ESTABLISHED follows.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn establish(&self) -> Result<(), Error> {
        self.run("establish", |backend, id| backend.establish(id, &[]))
    }

    /// Data have come over the connection before its RTU: it stands. ESTABLISHED follows.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn notify_established(&self) -> Result<(), Error> {
        self.run("notify", |backend, id| backend.notify_established(id))
    }

    /// Ends a connection, or answers the peer that did. DISCONNECTED follows (if it has not been
    /// told yet), then TIMEWAIT_EXIT.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn disconnect(&self) -> Result<(), Error> {
        self.run("disconnect", |backend, id| backend.disconnect(id, &[]))
    }

    /// Makes an active identifier whose attempt or connection is over ready to connect again.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn reset(&self) -> Result<(), Error> {
        self.run("reset", |backend, id| backend.reset(id))
    }

    /// Sets an option.
    ///
    /// # Errors
    /// [`Error`]; nothing has changed.
    pub fn set_option(&self, option: IdOption) -> Result<(), Error> {
        self.run("set an option of", |backend, id| backend.set_option(id, option))
    }

    /// What the verbs need to move the queue pair to `to`.
    ///
    /// # Errors
    /// [`Error`]: not known yet.
    pub fn qp_attrs(&self, to: QpState) -> Result<QpAttrs, Error> {
        self.run("ask for queue pair attributes of", |backend, id| backend.qp_attrs(id, to))
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.cm.shared().look(|backend| backend.state(self.handle)).unwrap_or_default()
    }

    /// Where its connection stands.
    pub fn conn_state(&self) -> ConnState {
        self.cm.shared().look(|backend| backend.conn_state(self.handle)).unwrap_or_default()
    }

    /// Its address and port, once bound.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        let local = self.cm.shared().look(|backend| backend.local_addr(self.handle)).ok()?;
        (local.port() != 0).then_some(local)
    }

    /// The peer's address and port, once known.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        let peer = self.cm.shared().look(|backend| backend.peer_addr(self.handle)).ok()?;
        (peer.port() != 0).then_some(peer)
    }

    /// What the peer offers, or its datagram service's queue pair and Q_Key, once known.
    pub fn peer_param(&self) -> PeerParam {
        self.cm.shared().look(|backend| backend.peer_param(self.handle)).unwrap_or_default()
    }

    /// The path of its connection, once known.
    pub fn path(&self) -> Option<Path> {
        self.cm.shared().look(|backend| backend.path(self.handle)).ok().flatten()
    }

    fn run<R>(
        &self,
        operation: &'static str,
        f: impl FnOnce(&mut dyn crate::Backend, nanocm_core::Id) -> Result<R, Cause>,
    ) -> Result<R, Error> {
        let done = self.cm.shared().operate(|backend| f(backend, self.handle));
        done.map_err(|cause| self.error(operation, cause))
    }

    pub(crate) fn error(&self, operation: &'static str, cause: Cause) -> Error {
        cause.during(operation, self.local_addr(), self.peer_addr())
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        self.cm.shared().destroy(self.handle, self.queue);
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {}", self.handle, self.state())
    }
}
