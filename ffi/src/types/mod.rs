//! The structures of the header, and what they are in Rust. Enumerations come and go as integers: a
//! number that is none of theirs is an error, not undefined behaviour.

mod addr;
mod config;
mod conn;
mod counters;
mod event;
mod host;
#[cfg(test)]
pub(crate) mod tests;

pub use addr::*;
pub use config::*;
pub use conn::*;
pub use counters::*;
pub use event::*;
pub use host::*;

use crate::ncm_error_code;
use crate::ncm_error_code::*;

/// An identifier (rdma_cm_id). Copy it freely: once the identifier is destroyed every copy is stale,
/// and stays so. Never 0.
pub type ncm_id = u64;

/// Nanoseconds since any zero the program likes; of a deadline that there is none: never.
pub const NCM_NEVER: u64 = u64::MAX;

/// 0 or 1.
pub(crate) fn flag(value: u32) -> Result<bool, ncm_error_code> {
    match value {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(NCM_INVALID_VALUE),
    }
}

/// A number that has a most.
pub(crate) fn at_most<T: PartialOrd>(value: T, most: T) -> Result<T, ncm_error_code> {
    if value <= most { Ok(value) } else { Err(NCM_INVALID_VALUE) }
}

/// Reserved octets are zero.
pub(crate) fn unused(octets: &[u8]) -> Result<(), ncm_error_code> {
    if octets.iter().all(|&octet| octet == 0) { Ok(()) } else { Err(NCM_UNKNOWN_FIELDS) }
}

/// A host's errno, as the engine keeps it.
pub(crate) fn errno(value: u32) -> Result<i32, ncm_error_code> {
    match i16::try_from(value) {
        Ok(errno @ 1..) => Ok(errno.into()),
        _ => Err(NCM_INVALID_VALUE),
    }
}
