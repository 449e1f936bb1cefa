//! An identifier's slot. All zero bits is an empty one.

use super::options::Transports;
use super::state::State;
use crate::addr::{Gid, PortSpace, ScopedIp};
use crate::event::DisconnectCause;
use crate::handle::Id;
use crate::port::{Held, TUPLE, Tuple, TupleOwner};
use crate::slots::{Chained, Link, Linked, Links, Slot};

/// The list of identifiers that have something to tell.
pub(super) const READY: u8 = 0;
/// Chain of listeners, by service ID. A listener has no peer, so it is never in the 4-tuple index
/// and may use the same link.
pub(super) const CHAIN: u8 = 100;

/// Memory for one identifier.
#[derive(Clone, Copy, Debug)]
pub struct IdSlot {
    /// The application's cookie, in halves: eight-octet alignment would cost four octets.
    user: [u32; 2],
    generation: u32,
    pub(super) stage: Stage,
    /// IPv6 scope of whichever address is link-local: they are on one link.
    pub(super) scope: u32,
    pub(super) local: Gid,
    pub(super) remote: Gid,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    /// [`pending`] events.
    pub(super) pending: u16,
    /// Errno of the last error event.
    pub(super) error: i16,
    /// The port it holds.
    pub(super) held: Held,
    /// Its connection, or the slot that will be it.
    pub(super) conn: Link,
    /// In the free list, the listeners' index or the 4-tuple index.
    link: Link,
    ready: Links,
    /// [`flag`]s.
    flags: u16,
    /// Index into [`PortSpace::ALL`].
    space: u8,
    /// The TOS option, if [`flag::TOS`] says that it is set.
    tos: u8,
    /// ACK_TIMEOUT option plus 1; 0 = not set.
    ack_timeout: u8,
    /// Counts questions to the host.
    pub(super) sequence: u8,
    pub(super) cause: DisconnectCause,
}

/// An identifier's state with what is valid in it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Stage {
    Idle,
    AddrBound,
    AddrQuery,
    AddrResolved,
    RouteQuery,
    RouteResolved,
    /// A request that is not answered yet has its listener.
    Connect {
        listener_index: u32,
        /// 0: none.
        listener_generation: u32,
    },
    Disconnect,
    Listen {
        backlog: u32,
        /// Requests neither accepted nor rejected.
        waiting: u32,
    },
    DeviceRemoval,
}

impl Stage {
    pub(super) const CONNECT: Stage = Stage::Connect { listener_index: 0, listener_generation: 0 };

    pub(super) const fn state(&self) -> State {
        match self {
            Stage::Idle => State::Idle,
            Stage::AddrBound => State::AddrBound,
            Stage::AddrQuery => State::AddrQuery,
            Stage::AddrResolved => State::AddrResolved,
            Stage::RouteQuery => State::RouteQuery,
            Stage::RouteResolved => State::RouteResolved,
            Stage::Connect { .. } => State::Connect,
            Stage::Disconnect => State::Disconnect,
            Stage::Listen { .. } => State::Listen,
            Stage::DeviceRemoval => State::DeviceRemoval,
        }
    }
}

pub(super) mod flag {
    pub(in crate::id) const REUSE: u16 = 1 << 0;
    pub(in crate::id) const AF_ONLY: u16 = 1 << 1;
    /// AF_ONLY was set by the application, not by default.
    pub(in crate::id) const AF_EXPLICIT: u16 = 1 << 2;
    /// Bound to a wildcard; `local` may have become specific since.
    pub(in crate::id) const WILDCARD: u16 = 1 << 3;
    /// Bound by `resolve_addr` or `set_route`, not by the application.
    pub(in crate::id) const BOUND_ON_THE_WAY: u16 = 1 << 4;
    /// Where the transports of a listener are, three bits, RC the other way round.
    pub(in crate::id) const TRANSPORTS: u32 = 5;
    /// The application has been told ESTABLISHED and not yet DISCONNECTED.
    pub(in crate::id) const OWES_DISCONNECTED: u16 = 1 << 8;
    /// A request beyond the backlog is rejected.
    pub(in crate::id) const REJECT_WHEN_FULL: u16 = 1 << 9;
    /// The TOS option is set; 0 is a value like any other.
    pub(in crate::id) const TOS: u16 = 1 << 10;
    /// The application has not answered this request in time.
    pub(in crate::id) const OVERDUE: u16 = 1 << 11;
    /// Made for a request.
    pub(in crate::id) const PASSIVE: u16 = 1 << 12;
}

/// What an application is still to be told, in the order in which it can happen.
pub(super) mod pending {
    pub(in crate::id) const CONNECT_REQUEST: u16 = 1 << 0;
    pub(in crate::id) const ADDR_RESOLVED: u16 = 1 << 1;
    pub(in crate::id) const ADDR_ERROR: u16 = 1 << 2;
    pub(in crate::id) const ROUTE_RESOLVED: u16 = 1 << 3;
    pub(in crate::id) const ROUTE_ERROR: u16 = 1 << 4;
    pub(in crate::id) const CONNECT_RESPONSE: u16 = 1 << 5;
    pub(in crate::id) const ESTABLISHED: u16 = 1 << 6;
    pub(in crate::id) const ADDR_CHANGE: u16 = 1 << 7;
    pub(in crate::id) const CONNECT_ERROR: u16 = 1 << 8;
    pub(in crate::id) const UNREACHABLE: u16 = 1 << 9;
    pub(in crate::id) const REJECTED: u16 = 1 << 10;
    pub(in crate::id) const DISCONNECTED: u16 = 1 << 11;
    pub(in crate::id) const TIMEWAIT_EXIT: u16 = 1 << 12;
    pub(in crate::id) const DEVICE_REMOVAL: u16 = 1 << 13;
}

impl IdSlot {
    /// An unused slot.
    pub const EMPTY: IdSlot = IdSlot {
        user: [0; 2],
        generation: 0,
        stage: Stage::Idle,
        scope: 0,
        local: Gid::ZERO,
        remote: Gid::ZERO,
        local_port: 0,
        remote_port: 0,
        space: 0,
        pending: 0,
        error: 0,
        held: Held::NONE,
        conn: Link::NONE,
        link: Link::NONE,
        ready: Links::NONE,
        flags: 0,
        tos: 0,
        ack_timeout: 0,
        sequence: 0,
        cause: DisconnectCause::Local,
    };

    pub(super) fn clear(&mut self, space: PortSpace, user: u64) {
        let (generation, sequence) = (self.generation, self.sequence);
        *self = IdSlot::EMPTY;
        (self.generation, self.sequence) = (generation, sequence);
        self.space = PortSpace::ALL.iter().position(|&s| s == space).unwrap_or_default() as u8;
        self.set_user(user);
    }

    pub(super) fn user(&self) -> u64 {
        u64::from(self.user[1]) << 32 | u64::from(self.user[0])
    }

    pub(super) fn set_user(&mut self, user: u64) {
        self.user = [user as u32, (user >> 32) as u32];
    }

    /// The transports a listener takes.
    pub(super) fn transports(&self) -> Transports {
        Transports((self.flags >> flag::TRANSPORTS) as u8 & 7 ^ Transports::RC.0)
    }

    pub(super) fn set_transports(&mut self, transports: Transports) {
        let bits = u16::from(transports.0 & 7 ^ Transports::RC.0);
        self.flags = self.flags & !(7 << flag::TRANSPORTS) | bits << flag::TRANSPORTS;
    }

    /// The TOS option, if it is set.
    pub(super) fn tos(&self) -> Option<u8> {
        self.has(flag::TOS).then_some(self.tos)
    }

    pub(super) fn set_tos(&mut self, tos: u8) {
        self.tos = tos;
        self.set(flag::TOS, true);
    }

    /// The ACK_TIMEOUT option, if it is set.
    pub(super) fn ack_timeout(&self) -> Option<u8> {
        self.ack_timeout.checked_sub(1)
    }

    pub(super) fn set_ack_timeout(&mut self, code: u8) {
        self.ack_timeout = code + 1;
    }

    pub(super) fn space(&self) -> PortSpace {
        match self.space {
            0 => PortSpace::Sdp,
            1 => PortSpace::Ipoib,
            2 => PortSpace::Tcp,
            3 => PortSpace::Udp,
            _ => PortSpace::Ib,
        }
    }

    pub(super) fn errno(&self) -> i32 {
        i32::from(self.error)
    }

    /// Takes note of an errno; Linux's fit.
    pub(super) fn set_errno(&mut self, errno: i32) {
        self.error = i16::try_from(errno).unwrap_or(i16::MAX);
    }

    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    #[cfg(feature = "testing")]
    pub(super) fn flags(&self) -> u16 {
        self.flags
    }

    pub(super) fn set(&mut self, flag: u16, on: bool) {
        if on { self.flags |= flag } else { self.flags &= !flag }
    }

    /// Its own address, as far as known.
    pub(super) fn local_ip(&self) -> ScopedIp {
        ScopedIp::new(self.local, self.scope)
    }

    /// The peer's address, as far as known.
    pub(super) fn remote_ip(&self) -> ScopedIp {
        ScopedIp::new(self.remote, self.scope)
    }

    /// The address the port is held on: the one it was bound to.
    pub(super) fn bound_address(&self) -> ScopedIp {
        if self.has(flag::WILDCARD) {
            let any = if self.local.is_v4() { Gid::V4_WILDCARD } else { Gid::ZERO };
            ScopedIp::new(any, 0)
        } else {
            self.local_ip()
        }
    }

    /// The listener of a request that is not answered yet.
    pub(super) fn listener(&self) -> Id {
        match self.stage {
            Stage::Connect { listener_index, listener_generation } => {
                Id { index: listener_index, generation: listener_generation }
            }
            _ => Id { index: 0, generation: 0 },
        }
    }
}

impl Slot for IdSlot {
    fn generation(&self) -> u32 {
        self.generation
    }

    fn set_generation(&mut self, generation: u32) {
        self.generation = generation;
    }

    fn free_link(&mut self) -> &mut Link {
        &mut self.link
    }
}

impl Linked<READY> for IdSlot {
    fn links(&mut self) -> &mut Links {
        &mut self.ready
    }

    fn links_ref(&self) -> &Links {
        &self.ready
    }
}

impl Chained<CHAIN> for IdSlot {
    fn chain(&self) -> Link {
        self.link
    }

    fn set_chain(&mut self, link: Link) {
        self.link = link;
    }
}

impl Chained<TUPLE> for IdSlot {
    fn chain(&self) -> Link {
        self.link
    }

    fn set_chain(&mut self, link: Link) {
        self.link = link;
    }
}

impl TupleOwner for IdSlot {
    fn tuple(&self) -> Tuple {
        Tuple {
            space: self.space(),
            local: self.bound_address(),
            local_port: self.local_port,
            remote: self.remote_ip(),
            remote_port: self.remote_port,
        }
    }

    fn held(&self) -> Held {
        self.held
    }
}
