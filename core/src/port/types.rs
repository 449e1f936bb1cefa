//! What goes into [`Ports`](super::Ports) and what comes out.

use crate::addr::{PortSpace, ScopedIp};
use crate::slots::Chained;
use core::fmt;

/// What an ID wants to own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// The port space.
    pub space: PortSpace,
    /// The local address; a wildcard is one.
    pub local: ScopedIp,
    /// The number; 0 for any.
    pub port: u16,
    /// REUSEADDR.
    pub reuse: bool,
    /// For addresses of this family alone (`IPV6_V6ONLY`; IPv4 binds have it by default).
    pub af_only: bool,
    /// The peer's address and port, on the active side: the number is shared with owners that have
    /// other peers.
    pub remote: Option<(ScopedIp, u16)>,
}

/// What an ID remembers of the number it owns, beside its local address: 8 octets. Zero: it owns none.
///
/// Hand it back once: `ports.release(mem::take(&mut id.held), …)`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Held {
    port: u16,
    space: u8,
    flags: u8,
    /// The keyed hash of the peer, if there is one: with the number, its chain.
    peer: u32,
}

impl Held {
    /// Owns nothing.
    pub const NONE: Held = Held { port: 0, space: 0, flags: 0, peer: 0 };

    const REUSE: u8 = 1;
    const AF_ONLY: u8 = 2;
    const TUPLE: u8 = 4;

    pub(super) const fn new(want: &Want, port: u16, peer: u32) -> Held {
        let mut flags = 0;
        if want.reuse {
            flags |= Held::REUSE;
        }
        if want.af_only {
            flags |= Held::AF_ONLY;
        }
        if want.remote.is_some() {
            flags |= Held::TUPLE;
        }
        Held { port, space: NumberSpace::of(want.space) as u8, flags, peer }
    }

    /// Whether a number is owned.
    pub const fn is_some(self) -> bool {
        self.port != 0
    }

    /// The number; 0 if none.
    pub const fn port(self) -> u16 {
        self.port
    }

    /// Whether it has REUSEADDR, and doesn't listen.
    pub const fn reuse(self) -> bool {
        self.flags & Held::REUSE != 0
    }

    /// Whether it was bound for one address family alone.
    pub const fn af_only(self) -> bool {
        self.flags & Held::AF_ONLY != 0
    }

    /// Whether it was bound with a peer.
    pub const fn has_peer(self) -> bool {
        self.flags & Held::TUPLE != 0
    }

    pub(super) const fn set_reuse(&mut self, on: bool) {
        self.flags = if on { self.flags | Held::REUSE } else { self.flags & !Held::REUSE };
    }

    pub(super) const fn peer(self) -> u32 {
        self.peer
    }

    /// The chain of an owner with this number and peer. One peer's numbers spread evenly.
    pub(super) const fn chain(self) -> u32 {
        self.peer.wrapping_add((self.port as u32).wrapping_mul(0x9e37_79b1))
    }

    pub(super) const fn space(self) -> NumberSpace {
        NumberSpace::ALL[self.space as usize & 3]
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_some() {
            return f.write_str("none");
        }
        write!(f, "{} port {}", self.space().name().name(), self.port)?;
        for (flag, name) in
            [(self.reuse(), "reuse"), (self.af_only(), "af-only"), (self.has_peer(), "peer")]
        {
            if flag {
                write!(f, " {name}")?;
            }
        }
        Ok(())
    }
}

/// A number on a local address: what one host socket would hold, however many IDs own it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortKey {
    /// The port space whose numbers these are: TCP for SDP.
    pub space: PortSpace,
    /// The local address.
    pub local: ScopedIp,
    /// The number.
    pub port: u16,
}

/// A number that the rules allow; nothing is owned yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proposal {
    /// Others own it on this address: share what holds it, unless all of them are bound without.
    Held(PortKey),
    /// Nobody does: ask the host for it.
    AskHost(PortKey),
}

impl Proposal {
    /// The number and address proposed.
    pub const fn key(self) -> PortKey {
        match self {
            Proposal::Held(key) | Proposal::AskHost(key) => key,
        }
    }
}

/// Both ends of an owner that has a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuple {
    /// The port space.
    pub space: PortSpace,
    /// The local address.
    pub local: ScopedIp,
    /// The number it owns.
    pub local_port: u16,
    /// The peer's address.
    pub remote: ScopedIp,
    /// The peer's port.
    pub remote_port: u16,
}

/// Which chain through an owner's slot is the 4-tuple index.
pub const TUPLE: u8 = 0xf7;

/// A slot that can own a number.
pub trait TupleOwner: Chained<TUPLE> {
    /// What `bind` gave it.
    fn held(&self) -> Held;
    /// Its ends: what `bind` was given, and the number that came back. Only asked of owners that have a
    /// peer.
    fn tuple(&self) -> Tuple;
}

/// Why a number cannot be had. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PortError {
    /// Another ID owns it, on this address or an overlapping one (EADDRINUSE).
    InUse,
    /// Another ID owns it with the same peer (EADDRINUSE).
    TupleInUse,
    /// Bound with REUSEADDR, and another ID overlaps: only a sole owner can listen (EADDRINUSE).
    ListenConflict,
    /// No number of the range would do (EAGAIN).
    Exhausted,
    /// No port record is left (ENOMEM).
    TableFull,
}

impl PortError {
    /// The errno a librdmacm user would expect.
    pub const fn errno(self) -> i32 {
        match self {
            PortError::InUse | PortError::TupleInUse | PortError::ListenConflict => 98,
            PortError::Exhausted => 11,
            PortError::TableFull => 12,
        }
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PortError::InUse => "the port is in use by another RDMA ID",
            PortError::TupleInUse => "another RDMA ID has this local port and the same peer",
            PortError::ListenConflict => {
                "another RDMA ID shares the port (REUSEADDR); only a sole owner can listen"
            }
            PortError::Exhausted => "no free RDMA port in the range",
            PortError::TableFull => "no free port record: give the engine more storage",
        })
    }
}

impl core::error::Error for PortError {}

/// The sets of numbers there are. SDP has TCP's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum NumberSpace {
    Tcp,
    Udp,
    Ipoib,
    Ib,
}

impl NumberSpace {
    pub(super) const ALL: [NumberSpace; 4] =
        [NumberSpace::Tcp, NumberSpace::Udp, NumberSpace::Ipoib, NumberSpace::Ib];

    pub(super) const fn of(space: PortSpace) -> NumberSpace {
        match space {
            PortSpace::Tcp | PortSpace::Sdp => NumberSpace::Tcp,
            PortSpace::Udp => NumberSpace::Udp,
            PortSpace::Ipoib => NumberSpace::Ipoib,
            PortSpace::Ib => NumberSpace::Ib,
        }
    }

    /// The port space named in keys.
    pub(super) const fn name(self) -> PortSpace {
        match self {
            NumberSpace::Tcp => PortSpace::Tcp,
            NumberSpace::Udp => PortSpace::Udp,
            NumberSpace::Ipoib => PortSpace::Ipoib,
            NumberSpace::Ib => PortSpace::Ib,
        }
    }
}
