//! The error codes: what went wrong with a call. Their numbers never change and are never used again.

use crate::ncm_error_code::*;
use core::ffi::{CStr, c_char};
use nanocm_core::SetupError;
use nanocm_core::error::{
    BindError, ConnectError, CreateError, ListenError, OpError, ResolveError, Stale,
};

/// What came of a call: one of ncm_error_code.
pub type ncm_error = i32;

/// What came of a call. A call that failed has changed nothing and has written nothing. These numbers
/// never change.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ncm_error_code {
    /// Done.
    NCM_OK = 0,
    /// Nothing more to hand out. No failure: a poll function's last answer.
    NCM_EMPTY = 1,

    /// A pointer that must not be NULL is.
    NCM_NULL_POINTER = 10,
    /// A pointer is not aligned for what it points to.
    NCM_MISALIGNED = 11,
    /// The `size` in front of a structure cannot be: set it to sizeof before the call.
    NCM_BAD_SIZE = 12,
    /// A field that this version does not know, or a reserved one, is not zero.
    NCM_UNKNOWN_FIELDS = 13,
    /// A number that is none of its enumeration, or out of its range.
    NCM_INVALID_VALUE = 14,
    /// The pointer leads to no engine: never initialised, finished, or copied elsewhere.
    NCM_NOT_AN_ENGINE = 15,
    /// Another call is in this engine: of another thread, or interrupted by this one.
    NCM_IN_CALL = 16,
    /// `check_thread` is set, and this is not the thread that called ncm_init.
    NCM_WRONG_THREAD = 17,
    /// The result does not fit into the buffer.
    NCM_BUFFER_TOO_SMALL = 18,
    /// nanocm found a bug in itself. The engine cannot be used any more; its memory can.
    NCM_PANICKED = 19,
    /// This build of the library cannot do it.
    NCM_NOT_SUPPORTED = 20,

    /// The memory has less than ncm_memory_size octets.
    NCM_MEMORY_TOO_SMALL = 30,
    /// A capacity is zero or too large.
    NCM_BAD_CAPACITY = 31,
    /// Communication IDs have no room for so many connections beside this prefix.
    NCM_TOO_MANY_CONNECTIONS = 32,
    /// The prefix of communication IDs has more than eight bits, or its value more than that.
    NCM_BAD_PREFIX = 33,
    /// The port range is empty or begins at 0.
    NCM_BAD_PORT_RANGE = 34,
    /// A timeout code above 31, or more than 15 retries.
    NCM_BAD_TIMER = 35,
    /// The port range has more numbers than the port maps.
    NCM_PORT_MAP_TOO_SMALL = 36,
    /// The engine has identifiers that are not destroyed.
    NCM_BUSY = 37,
    /// `max_path_mtu` is no code of a path MTU.
    NCM_BAD_MTU = 38,

    /// The handle is stale: its identifier was destroyed.
    NCM_NO_SUCH_ID = 50,
    /// Not legal in the identifier's state, or at this point of its connection.
    NCM_INVALID_STATE = 51,
    /// Every slot of the table in question is in use.
    NCM_FULL = 52,
    /// The address is not one of the engine's.
    NCM_ADDR_NOT_LOCAL = 53,
    /// A link-local address needs its interface (scope).
    NCM_SCOPE_MISSING = 54,
    /// Another identifier owns the port on this or an overlapping address.
    NCM_PORT_IN_USE = 55,
    /// Another identifier owns the port towards the same peer.
    NCM_TUPLE_IN_USE = 56,
    /// No number of the range is free.
    NCM_PORTS_EXHAUSTED = 57,
    /// The reserved port is not one of the identifier's port space.
    NCM_WRONG_KEY = 58,
    /// Bound with REUSEADDR, and another identifier overlaps: only a sole owner can listen.
    NCM_LISTEN_CONFLICT = 59,
    /// Source and destination are of different address families.
    NCM_FAMILY_MISMATCH = 60,
    /// The destination is a wildcard, or has no port.
    NCM_NOT_A_DESTINATION = 61,
    /// The identifier belongs to another destination.
    NCM_OTHER_DESTINATION = 62,
    /// The identifier is bound to another address than the route leaves from.
    NCM_OTHER_SOURCE = 63,
    /// Source and destination are link-local, on different interfaces.
    NCM_SCOPE_MISMATCH = 64,
    /// The timeout is zero.
    NCM_ZERO_TIMEOUT = 65,
    /// Identifiers of this port space resolve datagram services: there is no connection.
    NCM_WRONG_PORT_SPACE = 66,
    /// More private data than the message takes: NCM_MAX_*.
    NCM_PRIVATE_DATA_TOO_LONG = 67,
    /// The queue pair is in another live connection.
    NCM_QPN_IN_USE = 68,
    /// The peer has given up this connection, or the answer comes too late; see the event.
    NCM_ALREADY_GONE = 69,
    /// The connection is established already.
    NCM_ALREADY_ESTABLISHED = 70,
    /// The request is not open any more: answered, timed out, or its identifier destroyed.
    NCM_STALE_REQUEST = 71,
    /// The datagram does not travel over RoCE, so it has no frame.
    NCM_WRONG_LINK = 72,
    /// A number has more bits than its field: queue pair numbers and ECE vendor IDs 24.
    NCM_NUMBER_TOO_LARGE = 73,
    /// The identifier's device is gone (DEVICE_REMOVAL): only ncm_destroy is left.
    NCM_DEVICE_GONE = 74,

    /// An error that has no code of its own here.
    NCM_OTHER_ERROR = 99,
}

/// Everything that is said about an error.
struct Entry(ncm_error_code, &'static CStr, i32, &'static CStr);

macro_rules! table {
    ($($code:ident = $errno:expr, $text:literal;)*) => {
        &[$(Entry($code, c_name!($code), $errno, c_text!($text)),)*]
    };
}

macro_rules! c_text {
    ($text:expr) => {
        match CStr::from_bytes_with_nul(concat!($text, "\0").as_bytes()) {
            Ok(text) => text,
            Err(_) => c"",
        }
    };
}

macro_rules! c_name {
    ($code:ident) => {
        c_text!(stringify!($code))
    };
}

/// In the order of the codes. Errnos are Linux's, and the core's where it has the same error.
const TABLE: &[Entry] = table! {
    NCM_OK = 0, "no error";
    NCM_EMPTY = EAGAIN, "nothing more to hand out";
    NCM_NULL_POINTER = EFAULT, "a pointer that must not be NULL is";
    NCM_MISALIGNED = EFAULT, "a pointer is not aligned for what it points to";
    NCM_BAD_SIZE = EINVAL, "a structure's size field is wrong: set it to sizeof before the call";
    NCM_UNKNOWN_FIELDS = E2BIG, "a field that this version does not know is not zero";
    NCM_INVALID_VALUE = EINVAL, "a number is none of its enumeration, or out of its range";
    NCM_NOT_AN_ENGINE = EBADF, "no engine: never initialised, finished, or copied elsewhere";
    NCM_IN_CALL = EBUSY, "another call is in this engine";
    NCM_WRONG_THREAD = EPERM, "this is not the thread that initialised the engine (check_thread)";
    NCM_BUFFER_TOO_SMALL = ERANGE, "the result does not fit into the buffer";
    NCM_PANICKED = ENOTRECOVERABLE, "a bug in nanocm: the engine cannot be used any more";
    NCM_NOT_SUPPORTED = EOPNOTSUPP, "this build of the library cannot do it";
    NCM_MEMORY_TOO_SMALL = ENOMEM, "the memory has less than ncm_memory_size octets";
    NCM_BAD_CAPACITY = EINVAL, "a capacity is zero or too large";
    NCM_TOO_MANY_CONNECTIONS = EINVAL, "too many connections for this comm_id_prefix";
    NCM_BAD_PREFIX = EINVAL, "comm_id_prefix: at most 8 bits, and the value must fit them";
    NCM_BAD_PORT_RANGE = EINVAL, "port_range: low must be at least 1 and not above high";
    NCM_BAD_TIMER = EINVAL, "timeout codes have 5 bits (0 to 31), CM retries 4 (0 to 15)";
    NCM_PORT_MAP_TOO_SMALL = EINVAL, "port_range: more numbers than the port maps have";
    NCM_BUSY = EBUSY, "the engine has identifiers that are not destroyed";
    NCM_BAD_MTU = EINVAL, "max_path_mtu: 1 (256 octets) to 5 (4096)";
    NCM_NO_SUCH_ID = ENOENT, "no such ID (it was destroyed)";
    NCM_INVALID_STATE = EINVAL, "not legal in the ID's state, or at this point of its connection";
    NCM_FULL = ENOMEM, "no free slot: destroy something or give the engine more memory";
    NCM_ADDR_NOT_LOCAL = EADDRNOTAVAIL, "the address is not a local one";
    NCM_SCOPE_MISSING = EINVAL, "a link-local address needs its interface (scope)";
    NCM_PORT_IN_USE = EADDRINUSE, "the port is in use by another RDMA ID";
    NCM_TUPLE_IN_USE = EADDRINUSE, "another RDMA ID has this local port, peer address and peer port";
    NCM_PORTS_EXHAUSTED = EAGAIN, "no free RDMA port in the range";
    NCM_WRONG_KEY = EINVAL, "the reserved port is not one of the ID's port space";
    NCM_LISTEN_CONFLICT = EADDRINUSE, "another RDMA ID shares the port (REUSEADDR); only a sole owner can listen";
    NCM_FAMILY_MISMATCH = EINVAL, "source and destination are of different address families";
    NCM_NOT_A_DESTINATION = EINVAL, "the destination needs a specific address and a port";
    NCM_OTHER_DESTINATION = EINVAL, "the ID belongs to another destination";
    NCM_OTHER_SOURCE = EINVAL, "the ID is bound to another address than the route leaves from";
    NCM_SCOPE_MISMATCH = EINVAL, "source and destination are on different interfaces";
    NCM_ZERO_TIMEOUT = EINVAL, "the timeout must not be zero";
    NCM_WRONG_PORT_SPACE = EINVAL, "IDs of this port space resolve datagram services, they have no connection";
    NCM_PRIVATE_DATA_TOO_LONG = EMSGSIZE, "private data too long for the message";
    NCM_QPN_IN_USE = EADDRINUSE, "the queue pair is in use by another live connection";
    NCM_ALREADY_GONE = ECONNABORTED, "this connection was given up before";
    NCM_ALREADY_ESTABLISHED = EISCONN, "the connection is established already";
    NCM_STALE_REQUEST = ESTALE, "the request is no longer open (timed out, answered or its ID destroyed)";
    NCM_WRONG_LINK = EAFNOSUPPORT, "the datagram does not travel over RoCE, so it has no frame";
    NCM_NUMBER_TOO_LARGE = EINVAL, "a number has more bits than its field: queue pair numbers and ECE vendor IDs 24";
    NCM_DEVICE_GONE = ENODEV, "the ID's device is gone: destroy the ID";
    NCM_OTHER_ERROR = EIO, "an error without a code of its own";
};

use errno::*;

/// Linux's numbers.
mod errno {
    pub(super) use nanocm_core::error::errno::*;

    pub(super) const EPERM: i32 = 1;
    pub(super) const EIO: i32 = 5;
    pub(super) const E2BIG: i32 = 7;
    pub(super) const EBADF: i32 = 9;
    pub(super) const EFAULT: i32 = 14;
    pub(super) const EBUSY: i32 = 16;
    pub(super) const ERANGE: i32 = 34;
    pub(super) const EAFNOSUPPORT: i32 = 97;
    pub(super) const ESTALE: i32 = 116;
    pub(super) const ENOTRECOVERABLE: i32 = 131;
}

fn entry(code: i32) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.0 as i32 == code)
}

/// The name of an error code, such as "NCM_PORT_IN_USE"; "unknown" if there is no such code. Static.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_error_name(code: i32) -> *const c_char {
    entry(code).map_or(c"unknown", |entry| entry.1).as_ptr()
}

/// What an error code means, in words, without capital and full stop. Static.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_error_text(code: i32) -> *const c_char {
    entry(code).map_or(c"unknown error code", |entry| entry.3).as_ptr()
}

/// The errno that a user of librdmacm would expect for an error code, positive, with Linux's
/// numbers: one for each cause. 0 for NCM_OK, EINVAL (22) if there is no such code.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_error_errno(code: i32) -> i32 {
    entry(code).map_or(EINVAL, |entry| entry.2)
}

macro_rules! from {
    ($($Core:ident: $($variant:ident => $code:ident),*;)*) => {$(
        impl From<$Core> for ncm_error_code {
            fn from(error: $Core) -> ncm_error_code {
                match error {
                    $($Core::$variant { .. } => $code,)*
                    _ => NCM_OTHER_ERROR,
                }
            }
        }
    )*};
}

from! {
    CreateError: Full => NCM_FULL;
    BindError:
        NoSuchId => NCM_NO_SUCH_ID, InvalidState => NCM_INVALID_STATE,
        DeviceGone => NCM_DEVICE_GONE, AddrNotLocal => NCM_ADDR_NOT_LOCAL, ScopeMissing => NCM_SCOPE_MISSING,
        PortInUse => NCM_PORT_IN_USE, TupleInUse => NCM_TUPLE_IN_USE,
        PortsExhausted => NCM_PORTS_EXHAUSTED, Full => NCM_FULL, WrongKey => NCM_WRONG_KEY;
    ListenError:
        NoSuchId => NCM_NO_SUCH_ID, InvalidState => NCM_INVALID_STATE,
        DeviceGone => NCM_DEVICE_GONE, ListenConflict => NCM_LISTEN_CONFLICT;
    ConnectError:
        NoSuchId => NCM_NO_SUCH_ID, InvalidState => NCM_INVALID_STATE,
        DeviceGone => NCM_DEVICE_GONE, WrongPortSpace => NCM_WRONG_PORT_SPACE, PrivateDataTooLong => NCM_PRIVATE_DATA_TOO_LONG,
        NumberTooLarge => NCM_NUMBER_TOO_LARGE, QpnInUse => NCM_QPN_IN_USE,
        AlreadyGone => NCM_ALREADY_GONE,
        AlreadyEstablished => NCM_ALREADY_ESTABLISHED;
    OpError:
        NoSuchId => NCM_NO_SUCH_ID, InvalidState => NCM_INVALID_STATE,
        DeviceGone => NCM_DEVICE_GONE, NumberTooLarge => NCM_NUMBER_TOO_LARGE;
    SetupError:
        TooManyConnections => NCM_TOO_MANY_CONNECTIONS, BadPrefix => NCM_BAD_PREFIX,
        BadPortRange => NCM_BAD_PORT_RANGE, BadTimer => NCM_BAD_TIMER, BadMtu => NCM_BAD_MTU,
        NoStorage => NCM_BAD_CAPACITY, TooFewDeadlines => NCM_BAD_CAPACITY,
        PortMapTooSmall => NCM_PORT_MAP_TOO_SMALL;
}

impl From<ResolveError> for ncm_error_code {
    fn from(error: ResolveError) -> ncm_error_code {
        match error {
            ResolveError::NoSuchId => NCM_NO_SUCH_ID,
            ResolveError::InvalidState { .. } => NCM_INVALID_STATE,
            ResolveError::DeviceGone => NCM_DEVICE_GONE,
            ResolveError::FamilyMismatch => NCM_FAMILY_MISMATCH,
            ResolveError::NotADestination => NCM_NOT_A_DESTINATION,
            ResolveError::OtherDestination => NCM_OTHER_DESTINATION,
            ResolveError::OtherSource => NCM_OTHER_SOURCE,
            ResolveError::ScopeMismatch => NCM_SCOPE_MISMATCH,
            ResolveError::ZeroTimeout => NCM_ZERO_TIMEOUT,
            ResolveError::Bind { error } => error.into(),
            ResolveError::Full => NCM_FULL,
            _ => NCM_OTHER_ERROR,
        }
    }
}

impl From<Stale> for ncm_error_code {
    fn from(_: Stale) -> ncm_error_code {
        NCM_STALE_REQUEST
    }
}

#[cfg(test)]
mod tests;
