//! An event that ends an attempt, in words: who, what and why.

use crate::border::{buffer, enter, input, ncm_cm, output};
use crate::ncm_error_code::*;
use crate::types::*;
use crate::{ncm_error, ncm_error_code};
use core::ffi::c_char;
use core::fmt::{self, Write};
use nanocm_core::wire::{RejectReason, SidrStatus};
use nanocm_core::{Event, EventKind, Id, Unreachable};

/// No failure takes more octets in words, the NUL included.
pub const NCM_FAILURE_TEXT_SIZE: usize = 256;

/// What there is to say of an ADDR_ERROR, ROUTE_ERROR, UNREACHABLE, REJECTED or CONNECT_ERROR, whose
/// identifier is not destroyed yet, in one line:
///
/// 192.0.2.1:40000 -> 192.0.2.2:4420: no listener for RDMA tcp port 4420 (REJ 8)
///
/// The arrow leads from who asked to who was asked. `text` has room for `size` octets;
/// NCM_FAILURE_TEXT_SIZE will do. `*len`, which is not NULL, is how many it took, without the NUL.
/// NCM_INVALID_VALUE for other events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_failure_text(
    cm: *const ncm_cm,
    event: *const ncm_event,
    text: *mut c_char,
    size: usize,
    len: *mut usize,
) -> ncm_error {
    border! {
        let event = input(event)?;
        let kind = kind(&event)?;
        let (text, len) = (buffer(text.cast(), size)?, output(len)?);
        let mut line = Line { octets: [0; NCM_FAILURE_TEXT_SIZE], len: 0 };
        enter(cm, |engine| {
            let id = Id::from_raw(event.id);
            engine.cm.state(id)?;
            let failure = engine.cm.failure(&Event { id, user: event.user, kind });
            let failure = failure.ok_or(NCM_INVALID_VALUE)?;
            write!(line, "{failure}").map_err(|_| NCM_BUFFER_TOO_SMALL)
        })?;
        text.put(line.octets.get(..=line.len).unwrap_or(&[]))?;
        len.put(line.len);
        Ok(())
    }
}

/// What happened, as the core says it.
fn kind(event: &ncm_event) -> Result<EventKind, ncm_error_code> {
    const ADDR_ERROR: u32 = ncm_event_kind::NCM_EVENT_ADDR_ERROR as u32;
    const ROUTE_ERROR: u32 = ncm_event_kind::NCM_EVENT_ROUTE_ERROR as u32;
    const CONNECT_ERROR: u32 = ncm_event_kind::NCM_EVENT_CONNECT_ERROR as u32;
    const UNREACHABLE: u32 = ncm_event_kind::NCM_EVENT_UNREACHABLE as u32;
    const REJECTED: u32 = ncm_event_kind::NCM_EVENT_REJECTED as u32;
    const TIMEOUT: u32 = ncm_status::NCM_STATUS_TIMEOUT as u32;
    const ERRNO: u32 = ncm_status::NCM_STATUS_ERRNO as u32;
    const REASON: u32 = ncm_status::NCM_STATUS_REJECTED as u32;
    const SIDR: u32 = ncm_status::NCM_STATUS_SIDR as u32;
    match (event.kind, event.status) {
        (ADDR_ERROR, ERRNO) => Ok(EventKind::AddrError(errno(event.value)?)),
        (ROUTE_ERROR, ERRNO) => Ok(EventKind::RouteError(errno(event.value)?)),
        (CONNECT_ERROR, ERRNO) => Ok(EventKind::ConnectError(errno(event.value)?)),
        (UNREACHABLE, TIMEOUT) => Ok(EventKind::Unreachable(Unreachable::Timeout)),
        (UNREACHABLE, ERRNO) => {
            Ok(EventKind::Unreachable(Unreachable::SendFailed(errno(event.value)?)))
        }
        (REJECTED, REASON) => match u16::try_from(event.value) {
            Ok(reason) => Ok(EventKind::Rejected(RejectReason(reason))),
            Err(_) => Err(NCM_INVALID_VALUE),
        },
        (REJECTED, SIDR) => match u8::try_from(event.value) {
            Ok(status) => Ok(EventKind::SidrRejected(SidrStatus(status))),
            Err(_) => Err(NCM_INVALID_VALUE),
        },
        _ => Err(NCM_INVALID_VALUE),
    }
}

/// A line of text, with room for its NUL.
struct Line {
    octets: [u8; NCM_FAILURE_TEXT_SIZE],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        if end >= self.octets.len() {
            return Err(fmt::Error);
        }
        self.octets[self.len..end].copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
