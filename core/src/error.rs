//! The caller's mistakes: one small enum per operation, each with its errno. The peer's faults are
//! counters ([`crate::Counters`]), never errors; the host's are [`crate::Outcome::Failed`].

use crate::id::State;
use core::fmt;

/// The errno values this crate uses (Linux's numbers).
pub mod errno {
    #![allow(missing_docs)]
    pub const ENOENT: i32 = 2;
    pub const EAGAIN: i32 = 11;
    pub const ENOMEM: i32 = 12;
    pub const ENODEV: i32 = 19;
    pub const EINVAL: i32 = 22;
    pub const EMSGSIZE: i32 = 90;
    pub const EOPNOTSUPP: i32 = 95;
    pub const EADDRINUSE: i32 = 98;
    pub const EADDRNOTAVAIL: i32 = 99;
    pub const ECONNABORTED: i32 = 103;
    pub const EISCONN: i32 = 106;
    pub const ETIMEDOUT: i32 = 110;
    pub const ECONNREFUSED: i32 = 111;
}
use errno::*;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident $({ $($(#[$fdoc:meta])* $field:ident: $ty:ty),* })? = $errno:expr, $text:literal;)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        pub enum $name { $($(#[$vdoc])* $variant $({ $($(#[$fdoc])* $field: $ty),* })?,)* }

        impl $name {
            /// The errno a librdmacm user would expect: one per cause.
            pub const fn errno(&self) -> i32 {
                match *self { $(Self::$variant $({ $($field),* })? => { $($(let _ = $field;)*)? $errno })* }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self { $(Self::$variant $({ $($field),* })? => write!(f, $text),)* }
            }
        }

        impl core::error::Error for $name {}
    )*};
}

errors! {
    /// Why `create_id` failed.
    CreateError {
        /// Every identifier is in use.
        Full = ENOMEM, "no free identifier: destroy one or give the engine more storage";
    }

    /// Why `bind`, `propose_port` or `bind_reserved` failed. The ID is as it was.
    BindError {
        /// The handle is stale.
        NoSuchId = ENOENT, "no such ID (it was destroyed)";
        /// Only an idle ID can be bound.
        InvalidState {
            /// What it was in.
            state: State
        } = EINVAL, "an ID in {state} cannot be bound; only an idle one can";
        /// The device is gone (DEVICE_REMOVAL): only `destroy` is left.
        DeviceGone = ENODEV, "the ID's device is gone: destroy the ID";
        /// The address is not one of ours.
        AddrNotLocal = EADDRNOTAVAIL, "the address is not a local one";
        /// An IPv6 link-local address needs its scope.
        ScopeMissing = EINVAL, "a link-local address needs its interface (scope)";
        /// Another ID owns the port on this or an overlapping address.
        PortInUse = EADDRINUSE, "the port is in use by another RDMA ID";
        /// Another ID owns the port towards the same peer.
        TupleInUse = EADDRINUSE, "another RDMA ID has this local port, peer address and peer port";
        /// No number of the range is free.
        PortsExhausted = EAGAIN, "no free RDMA port in the range";
        /// No port record is left.
        Full = ENOMEM, "no free port record: give the engine more storage";
        /// The key is no port of the ID's port space.
        WrongKey = EINVAL, "the reserved port is not one of the ID's port space";
    }

    /// Why `listen` failed. The ID is as it was.
    ListenError {
        /// The handle is stale.
        NoSuchId = ENOENT, "no such ID (it was destroyed)";
        /// Only a bound ID can listen.
        InvalidState {
            /// What it was in.
            state: State
        } = EINVAL, "an ID in {state} cannot listen; bind it first";
        /// The device is gone (DEVICE_REMOVAL): only `destroy` is left.
        DeviceGone = ENODEV, "the ID's device is gone: destroy the ID";
        /// The ID was bound with REUSEADDR and another ID overlaps.
        ListenConflict = EADDRINUSE, "another RDMA ID shares the port (REUSEADDR); only a sole owner can listen";
    }

    /// Why `resolve_addr`, `resolve_route` or `set_route` failed. The ID is as it was.
    ResolveError {
        /// The handle is stale.
        NoSuchId = ENOENT, "no such ID (it was destroyed)";
        /// Not legal in this state.
        InvalidState {
            /// What it was in.
            state: State
        } = EINVAL, "an ID in {state} cannot be resolved";
        /// The device is gone (DEVICE_REMOVAL): only `destroy` is left.
        DeviceGone = ENODEV, "the ID's device is gone: destroy the ID";
        /// Source and destination are of different families.
        FamilyMismatch = EINVAL, "source and destination are of different address families";
        /// The destination is a wildcard, or its port is 0.
        NotADestination = EINVAL, "the destination needs a specific address and a port";
        /// The ID is bound, or was resolved, towards another destination.
        OtherDestination = EINVAL, "the ID belongs to another destination";
        /// The ID is bound to another address than the route leaves from.
        OtherSource = EINVAL, "the ID is bound to another address than the route leaves from";
        /// Source and destination are link-local, on different interfaces.
        ScopeMismatch = EINVAL, "source and destination are on different interfaces";
        /// A zero timeout.
        ZeroTimeout = EINVAL, "the timeout must not be zero";
        /// Binding the source failed.
        Bind {
            /// Why.
            error: BindError
        } = error.errno(), "binding the source: {error}";
        /// Every connection slot is in use.
        Full = ENOMEM, "no free connection slot: give the engine more storage";
    }

    /// Why `connect`, `accept`, `reject`, `establish`, `notify_established`, `disconnect`, `reset`
    /// or `qp_attrs` failed. The ID is as it was.
    ConnectError {
        /// The handle is stale.
        NoSuchId = ENOENT, "no such ID (it was destroyed)";
        /// Not legal in this state.
        InvalidState {
            /// What it was in.
            state: State
        } = EINVAL, "not legal for an ID in {state} at this point of its connection";
        /// The device is gone (DEVICE_REMOVAL): only `destroy` is left.
        DeviceGone = ENODEV, "the ID's device is gone: destroy the ID";
        /// IDs of this port space resolve datagram services: there is no connection.
        WrongPortSpace = EINVAL, "IDs of this port space resolve datagram services, they have no connection";
        /// More private data than the message takes.
        PrivateDataTooLong {
            /// The most it takes, in octets.
            limit: usize
        } = EMSGSIZE, "private data too long: the message takes {limit} octets";
        /// The queue pair number, or the ECE vendor ID, has more than 24 bits.
        NumberTooLarge = EINVAL, "queue pair numbers and ECE vendor IDs have 24 bits";
        /// The queue pair number is another live connection's.
        QpnInUse = EADDRINUSE, "the queue pair is in use by another live connection";
        /// The peer has given the connection up, or the application's answer comes too late; see the
        /// event.
        AlreadyGone = ECONNABORTED, "this connection was given up before";
        /// It is established already.
        AlreadyEstablished = EISCONN, "the connection is established already";
    }

    /// Why another operation failed. The ID is as it was.
    OpError {
        /// The handle is stale.
        NoSuchId = ENOENT, "no such ID (it was destroyed)";
        /// Not legal in this state.
        InvalidState {
            /// What it was in.
            state: State
        } = EINVAL, "not legal for an ID in {state}";
        /// The ACK timeout code has more than 5 bits.
        NumberTooLarge = EINVAL, "ACK timeout codes have 5 bits (0 to 31)";
        /// The device is gone (DEVICE_REMOVAL): only `destroy` is left.
        DeviceGone = ENODEV, "the ID's device is gone: destroy the ID";
    }
}

macro_rules! in_state {
    ($($name:ident)*) => {$(
        impl $name {
            /// Not legal in this state.
            pub(crate) const fn in_state(state: State) -> $name {
                match state {
                    State::DeviceRemoval => $name::DeviceGone,
                    state => $name::InvalidState { state },
                }
            }
        }
    )*};
}
in_state!(BindError ListenError ResolveError ConnectError OpError);

/// `handle_completion` for a request that is no longer open. Nothing happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale;

impl fmt::Display for Stale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request is no longer open (timed out, answered or its ID destroyed)")
    }
}

impl core::error::Error for Stale {}
