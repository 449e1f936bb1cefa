//! [`Failure`]: an event that ends an attempt, with who, what and why in one line.

use crate::addr::{ScopedIp, ServiceId};
use crate::cm::Cm;
use crate::error::errno::ETIMEDOUT;
use crate::event::{Event, EventKind, Unreachable};
use crate::wire::{RejectReason, SidrStatus};
use core::fmt;
use core::net::SocketAddr;

/// An attempt that failed. Its `Display` allocates nothing:
///
/// `192.0.2.1:40000 -> 192.0.2.2:4420: no listener for RDMA tcp port 4420 (REJ 8)`
///
/// The arrow leads from who asked to who was asked, on either side; an address that is not known is
/// left out. A REJECTED takes at most 160 octets, scopes included (link-local addresses being
/// `fe80::/64`, RFC 4291 §2.5.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// Our address and port, as far as known (else the wildcard and 0).
    pub local: SocketAddr,
    /// The peer's, likewise.
    pub peer: SocketAddr,
    /// Whether we were the one that asked.
    pub is_active: bool,
    /// The service asked for.
    pub service: ServiceId,
    /// What happened: ADDR_ERROR, ROUTE_ERROR, UNREACHABLE, REJECTED (of either kind) or
    /// CONNECT_ERROR.
    pub kind: EventKind,
}

impl Cm<'_> {
    /// What there is to say of an event that ends an attempt; `None` for others, and once its ID is
    /// destroyed. After ADDR_ERROR the ID is as before `resolve_addr`, and has no peer to name.
    pub fn failure(&self, event: &Event) -> Option<Failure> {
        use EventKind::*;
        let (AddrError(_) | RouteError(_) | Unreachable(_) | Rejected(_) | SidrRejected(_)
        | ConnectError(_) | DeviceRemoval) = event.kind
        else {
            return None;
        };
        let index = self.ids.find(event.id)?;
        let is_active = !self.ids.is_passive(index);
        let ends = self.ids.endpoints(index);
        let port = if is_active { ends.remote_port } else { ends.local_port };
        Some(Failure {
            local: ends.local.with_port(ends.local_port),
            peer: ends.remote.with_port(ends.remote_port),
            is_active,
            service: ServiceId::new(ends.space, port),
            kind: event.kind,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (from, to) =
            if self.is_active { (self.local, self.peer) } else { (self.peer, self.local) };
        match (is_known(from), is_known(to)) {
            (true, true) => write!(f, "{from} -> {to}: ")?,
            (true, false) => write!(f, "{from}: ")?,
            (false, true) => write!(f, "{to}: ")?,
            (false, false) => {}
        }
        match self.kind {
            EventKind::Rejected(RejectReason::INVALID_SERVICE_ID) => {
                write!(f, "no listener for {} (REJ 8)", self.service)
            }
            EventKind::Rejected(reason) => write!(f, "{} (REJ {})", reason.text(), reason.0),
            EventKind::SidrRejected(SidrStatus::UNSUPPORTED_SERVICE_ID) => {
                write!(f, "no listener for {} (SIDR 1)", self.service)
            }
            EventKind::SidrRejected(status) => write!(f, "{} (SIDR {})", status.text(), status.0),
            EventKind::Unreachable(Unreachable::Timeout) => f.write_str("no answer"),
            EventKind::DeviceRemoval => f.write_str("the device is gone"),
            EventKind::Unreachable(Unreachable::SendFailed(errno)) => {
                write!(f, "cannot be sent there (errno {errno})")
            }
            EventKind::AddrError(errno) => write!(f, "no path to that address (errno {errno})"),
            EventKind::RouteError(errno) => write!(f, "no route (errno {errno})"),
            EventKind::ConnectError(ETIMEDOUT) => {
                f.write_str("the application did not answer the request in time")
            }
            EventKind::ConnectError(errno) => write!(f, "this side cannot go on (errno {errno})"),
            kind => f.write_str(kind.name()),
        }
    }
}

fn is_known(address: SocketAddr) -> bool {
    address.port() != 0 || !ScopedIp::of(address).gid.is_wildcard()
}
