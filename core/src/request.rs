//! What the engine asks of its host, and what the host answers.

use crate::addr::{Path, ScopedIp};
use core::net::SocketAddr;

/// A question to the host. Answer it with `Cm::handle_completion`, now or later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Request {
    /// Find the path to `destination`: which local address, which link. Answer
    /// [`Outcome::AddrResolved`].
    ResolveAddr {
        /// The source asked for, if any.
        source: Option<ScopedIp>,
        /// Where to.
        destination: SocketAddr,
    },
    /// Find what the path carries. Answer [`Outcome::RouteResolved`].
    ResolveRoute {
        /// The path found before.
        path: Path,
    },
}

/// The host's answer to a [`Request`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// The path to the destination. Its local GID must be one the engine knows.
    AddrResolved {
        /// The path.
        path: Path,
    },
    /// What the path carries.
    RouteResolved {
        /// The route.
        route: Route,
    },
    /// It could not be done, and why (errno).
    Failed(i32),
}

/// A resolved path: everything a REQ says about it (`struct ib_sa_path_rec`, as far as needed).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Route {
    /// How datagrams travel.
    pub path: Path,
    /// P_Key, 0xFFFF on RoCE.
    pub pkey: u16,
    /// Path MTU code: 1 = 256 … 5 = 4096 octets.
    pub mtu: u8,
    /// Packet rate code; 0 = the port's.
    pub rate: u8,
    /// Packet lifetime code (4.096 µs · 2ⁿ); Linux assumes 16 on RoCE.
    pub packet_lifetime: u8,
}

impl Route {
    /// A RoCE route with Linux's defaults: P_Key 0xFFFF, MTU 1024, lifetime 16.
    pub const fn new(path: Path) -> Route {
        Route { path, pkey: 0xffff, mtu: 3, rate: 0, packet_lifetime: 16 }
    }
}
