//! Port numbers of RDMA that are the host's, too.
//!
//! RDMA's port spaces are number spaces of their own. On iWARP, which shares the wire with TCP, an
//! RDMA listener on the port of a TCP daemon takes that daemon's clients; on InfiniBand and RoCE
//! one number is two services, which confuses people and firewalls. So a number can be held in the
//! host's port space too, by a socket that is bound and never listens; or one number can
//! deliberately serve both, see [`SharedTcpListener`]. `docs/ports.md` tells the whole story.
//!
//! | file | what it owns |
//! |---|---|
//! | `policy.rs` | [`PortPolicy`], [`HostPortConfig`]: where numbers come from |
//! | `table.rs` | [`HostPorts`]: which numbers are held, by how many; [`Reservation`] |
//! | `ephemeral.rs` | the host's range, and which of its numbers to take for "any port" |
//! | `socket.rs` | the socket that holds a number |
//! | `fork.rs` | that no forked child holds it too |
//! | `shared.rs` | [`SharedTcpListener`]: one number for TCP and RDMA |
//! | `why.rs` | [`PortError`]: causes, told apart; in words |
//! | `look.rs` | who or what holds a number: `/proc/net`, sock_diag, the registry |
//! | `registry.rs`, `map.rs` | what each process holds, for others to read |
//!
//! Read first: DESIGN §5; field tests, H1 to H10.

#![deny(unsafe_code)]

mod ephemeral;
mod fork;
mod look;
mod map;
mod policy;
mod registry;
mod shared;
mod socket;
mod table;
mod why;

pub use look::{Found, What, look};
pub use policy::{Ephemeral, HostPortConfig, PortPolicy};
pub use registry::{Registered, namespace, registered};
pub use shared::SharedTcpListener;
pub use table::{HostPorts, Reservation};
pub use why::{PortCause, PortError};

pub(crate) use shared::SharedSocket;
pub(crate) use table::Search;

use nanocm_core::{PortSpace, ScopedIp};
use std::net::SocketAddr;

/// A port space of the host.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Space {
    /// TCP's: for `RDMA_PS_TCP` and SDP.
    Tcp,
    /// UDP's: for `RDMA_PS_UDP`.
    Udp,
}

impl Space {
    /// The host's space for one of RDMA's; `None` where the host has no such numbers.
    pub const fn of(space: PortSpace) -> Option<Space> {
        match space {
            PortSpace::Tcp | PortSpace::Sdp => Some(Space::Tcp),
            PortSpace::Udp => Some(Space::Udp),
            _ => None,
        }
    }

    /// `tcp` or `udp`.
    pub const fn name(self) -> &'static str {
        match self {
            Space::Tcp => "tcp",
            Space::Udp => "udp",
        }
    }

    fn from_name(name: &str) -> Option<Space> {
        [Space::Tcp, Space::Udp].into_iter().find(|space| space.name() == name)
    }
}

/// A number on a local address: what one socket holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Number {
    /// Whose number.
    pub space: Space,
    /// The address; a wildcard is one.
    pub local: ScopedIp,
    /// The number; 0 for any.
    pub port: u16,
    /// Of the IPv6 wildcard: it does not stand for IPv4 addresses.
    pub v6_only: bool,
}

impl Number {
    /// Of a socket's address.
    pub fn new(space: Space, address: SocketAddr, v6_only: bool) -> Number {
        let (local, port) = (ScopedIp::of(address), address.port());
        let v6_only = v6_only && local.gid.is_wildcard() && !local.gid.is_v4();
        Number { space, local, port, v6_only }
    }

    /// As a socket takes it.
    pub fn address(&self) -> SocketAddr {
        self.local.with_port(self.port)
    }

    /// Whether a socket here holds the other number as well.
    fn covers(&self, other: &Number) -> bool {
        if (self.space, self.port) != (other.space, other.port) {
            return false;
        }
        if !self.local.gid.is_wildcard() {
            return self.local == other.local;
        }
        match (self.local.gid.is_v4(), other.local.gid.is_v4()) {
            (true, v4) => v4,
            (false, true) => !self.v6_only,
            (false, false) => !self.v6_only || !other.local.gid.is_wildcard() || other.v6_only,
        }
    }

    /// Whether sockets on both would be in each other's way.
    fn overlaps(&self, other: &Number) -> bool {
        self.covers(other)
            || other.covers(self)
            || (self.space, self.port) == (other.space, other.port)
                && self.local.gid.is_wildcard()
                && other.local.gid.is_wildcard()
                && self.local.gid.is_v4() == other.local.gid.is_v4()
    }
}
