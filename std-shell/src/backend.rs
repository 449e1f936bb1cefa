//! [`Backend`]: who does the connection management. [`Engine`](crate::Engine) does it here, over any
//! [`MadTransport`](crate::provider::MadTransport); everything public in this crate sits on the trait.

use crate::error::Cause;
use crate::provider::PortHome;
use nanocm_core::port::PortKey;
use nanocm_core::wire::RejectReason;
use nanocm_core::{
    ConnParam, ConnState, Counters, Event, Id, IdOption, Path, PeerParam, PortSpace, QpAttrs,
    QpState, State,
};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Identifiers and events: the operations of `nanocm_core::Cm`, wherever they are carried out. An
/// operation that fails has changed nothing.
#[allow(missing_docs)] // each is documented where it is named alike: `nanocm_core::Cm`
pub trait Backend: Send {
    /// Makes a local address usable (the wildcard: all of its family), or says who has it.
    fn open(&mut self, local: IpAddr, scope: u32) -> Result<(), Cause>;
    /// Which local address datagrams to `destination` leave from.
    fn source_for(&mut self, destination: SocketAddr) -> Result<SocketAddr, Cause>;
    fn create_id(&mut self, space: PortSpace, user: u64) -> Result<Id, Cause>;
    fn bind(&mut self, id: Id, local: SocketAddr) -> Result<u16, Cause>;
    fn listen(&mut self, id: Id, backlog: u32) -> Result<(), Cause>;
    fn resolve_addr(
        &mut self,
        id: Id,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        timeout: Duration,
    ) -> Result<(), Cause>;
    fn resolve_route(&mut self, id: Id, timeout: Duration) -> Result<(), Cause>;
    fn connect(&mut self, id: Id, param: &ConnParam<'_>) -> Result<(), Cause>;
    fn accept(&mut self, id: Id, param: &ConnParam<'_>) -> Result<(), Cause>;
    fn reject(&mut self, id: Id, reason: RejectReason, data: &[u8]) -> Result<(), Cause>;
    fn establish(&mut self, id: Id, data: &[u8]) -> Result<(), Cause>;
    fn notify_established(&mut self, id: Id) -> Result<(), Cause>;
    fn disconnect(&mut self, id: Id, data: &[u8]) -> Result<(), Cause>;
    fn reset(&mut self, id: Id) -> Result<(), Cause>;
    fn set_option(&mut self, id: Id, option: IdOption) -> Result<(), Cause>;
    fn set_user(&mut self, id: Id, user: u64) -> Result<(), Cause>;
    fn destroy(&mut self, id: Id) -> Result<(), Cause>;
    fn state(&self, id: Id) -> Result<State, Cause>;
    fn conn_state(&self, id: Id) -> Result<ConnState, Cause>;
    fn local_addr(&self, id: Id) -> Result<SocketAddr, Cause>;
    fn peer_addr(&self, id: Id) -> Result<SocketAddr, Cause>;
    fn peer_param(&self, id: Id) -> Result<PeerParam, Cause>;
    fn path(&self, id: Id) -> Result<Option<Path>, Cause>;
    fn qp_attrs(&self, id: Id, to: QpState) -> Result<QpAttrs, Cause>;
    fn counters(&self) -> Counters;
    fn in_use(&self) -> InUse;

    /// Whether numbers are to be held in the host's port spaces; then the next five are called.
    fn port_home(&self) -> PortHome {
        PortHome::Elsewhere
    }
    fn port_space(&self, _id: Id) -> Result<PortSpace, Cause> {
        Err(unsupported())
    }
    /// What to hold for this bind, and whether the IPv6 wildcard does not stand for IPv4.
    fn propose_port(
        &mut self,
        _id: Id,
        _local: SocketAddr,
        _remote: Option<SocketAddr>,
    ) -> Result<(PortKey, bool), Cause> {
        Err(unsupported())
    }
    fn bind_reserved(&mut self, _id: Id, _key: PortKey) -> Result<(), Cause> {
        Err(unsupported())
    }
    fn is_port_in_use(&self, _space: PortSpace, _port: u16) -> bool {
        false
    }
    /// How many numbers of the range for any port have owners.
    fn ports_in_use(&self, _space: PortSpace) -> usize {
        0
    }

    /// Does what is due, a bounded amount of it: takes what has come, sends what is owed, tells what
    /// happened. A fault of the host stops none of the rest.
    fn turn(&mut self, tell: &mut dyn FnMut(Told)) -> Turn;

    /// What to wait for: `turn` is due when it is readable. It stays the same.
    fn fd(&self) -> BorrowedFd<'_>;
}

fn unsupported() -> Cause {
    io::Error::from_raw_os_error(libc::EOPNOTSUPP).into()
}

/// When the next turn is due.
#[derive(Debug)]
pub struct Turn {
    /// At once: the bound was hit.
    pub more: bool,
    /// If nothing comes before.
    pub wake_at: Option<Instant>,
    /// What the host could not do. It may well be so again at once: pause before the next turn.
    pub fault: Option<io::Error>,
}

/// How much of a connection manager is in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InUse {
    /// Identifiers: listeners, connections, requests that nobody has answered.
    pub ids: usize,
    /// Connections, and those of destroyed identifiers that still wait for the peer's last word.
    pub connections: usize,
}

/// An event with all that belongs to it, by value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// What happened to whom.
    pub event: Event,
    /// Its private data: the whole field as received.
    pub private_data: Vec<u8>,
    /// The additional information of a rejection.
    pub additional_info: Vec<u8>,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
}
