//! Names and texts of everything that has a number. They are static, end in NUL and never change;
//! numbers that mean nothing are "unknown".

use crate::get::{CONN_STATES, STATES};
use crate::types::{FIRST_IGNORED, IGNORED};
use core::ffi::{CStr, c_char};
use nanocm_core::wire::{RejectReason, SidrStatus};

/// The name of an event's kind, such as "CONNECT_REQUEST".
#[unsafe(no_mangle)]
pub extern "C" fn ncm_event_name(kind: u32) -> *const c_char {
    let name = match kind {
        0 => c"ADDR_RESOLVED",
        1 => c"ADDR_ERROR",
        2 => c"ROUTE_RESOLVED",
        3 => c"ROUTE_ERROR",
        4 => c"CONNECT_REQUEST",
        5 => c"CONNECT_RESPONSE",
        6 => c"CONNECT_ERROR",
        7 => c"UNREACHABLE",
        8 => c"REJECTED",
        9 => c"ESTABLISHED",
        10 => c"DISCONNECTED",
        11 => c"DEVICE_REMOVAL",
        14 => c"ADDR_CHANGE",
        15 => c"TIMEWAIT_EXIT",
        _ => UNKNOWN,
    };
    name.as_ptr()
}

/// The name of an identifier's state, such as "ROUTE_RESOLVED".
#[unsafe(no_mangle)]
pub extern "C" fn ncm_state_name(state: u32) -> *const c_char {
    nth(STATE_NAMES, Some(state as usize))
}

/// The name of a connection's state, such as "REQ_SENT".
#[unsafe(no_mangle)]
pub extern "C" fn ncm_conn_state_name(state: u32) -> *const c_char {
    nth(CONN_STATE_NAMES, Some(state as usize))
}

/// The name of an ncm_disposition: "accepted", "duplicate", or why a datagram was ignored, such as
/// "unknown-connection".
#[unsafe(no_mangle)]
pub extern "C" fn ncm_disposition_name(disposition: u32) -> *const c_char {
    match disposition {
        0 => c"accepted".as_ptr(),
        1 => c"duplicate".as_ptr(),
        _ => nth(IGNORED_NAMES, (disposition as usize).checked_sub(FIRST_IGNORED)),
    }
}

/// The name of a reject reason, such as "invalid-service-id".
#[unsafe(no_mangle)]
pub extern "C" fn ncm_reject_reason_name(reason: u32) -> *const c_char {
    nth(REASON_NAMES, known_reason(reason))
}

/// What a reject reason means: a part of a sentence, without capital and full stop.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_reject_reason_text(reason: u32) -> *const c_char {
    match known_reason(reason) {
        None => c"the peer gave a reason we don't know".as_ptr(),
        place => nth(REASON_TEXTS, place),
    }
}

/// The name of a SIDR status, such as "unsupported-service-id".
#[unsafe(no_mangle)]
pub extern "C" fn ncm_sidr_status_name(status: u32) -> *const c_char {
    nth(SIDR_NAMES, known_status(status))
}

/// What a SIDR status means: a part of a sentence, without capital and full stop.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_sidr_status_text(status: u32) -> *const c_char {
    match known_status(status) {
        None => c"the peer gave a status we don't know".as_ptr(),
        place => nth(SIDR_TEXTS, place),
    }
}

const UNKNOWN: &CStr = c"unknown";

fn known_reason(reason: u32) -> Option<usize> {
    RejectReason::ALL.iter().position(|known| u32::from(known.0) == reason)
}

fn known_status(status: u32) -> Option<usize> {
    SidrStatus::ALL.iter().position(|known| u32::from(known.0) == status)
}

/// The n-th of some strings that lie one behind the other, each with its NUL.
fn nth(strings: &'static [u8], n: Option<usize>) -> *const c_char {
    let Some(n) = n else { return UNKNOWN.as_ptr() };
    let string = strings.split_inclusive(|&octet| octet == 0).nth(n);
    let string = string.and_then(|octets| CStr::from_bytes_with_nul(octets).ok());
    string.unwrap_or(UNKNOWN).as_ptr()
}

/// Makes such strings of the core's names, which have no NUL.
macro_rules! strings {
    ($($NAMES:ident = $all:expr, $one:ident => $name:expr;)*) => {$(
        static $NAMES: &[u8] = {
            const LEN: usize = {
                let (mut len, mut i) = (0, 0);
                while i < $all.len() {
                    let $one = $all[i];
                    len += $name.len() + 1;
                    i += 1;
                }
                len
            };
            const OCTETS: [u8; LEN] = {
                let mut octets = [0; LEN];
                let (mut at, mut i) = (0, 0);
                while i < $all.len() {
                    let $one = $all[i];
                    let name = $name.as_bytes();
                    let mut j = 0;
                    while j < name.len() {
                        octets[at + j] = name[j];
                        j += 1;
                    }
                    at += name.len() + 1;
                    i += 1;
                }
                octets
            };
            &OCTETS
        };
    )*};
}

strings! {
    STATE_NAMES = STATES, state => state.name();
    CONN_STATE_NAMES = CONN_STATES, state => state.name();
    IGNORED_NAMES = IGNORED, reason => reason.name();
    REASON_NAMES = RejectReason::ALL, reason => match reason.name() {
        Some(name) => name,
        None => "unknown",
    };
    REASON_TEXTS = RejectReason::ALL, reason => reason.text();
    SIDR_NAMES = SidrStatus::ALL, status => match status.name() {
        Some(name) => name,
        None => "unknown",
    };
    SIDR_TEXTS = SidrStatus::ALL, status => status.text();
}

#[cfg(test)]
mod tests;
