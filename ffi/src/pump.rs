//! What goes in and what comes out: `ncm_handle_*` and `ncm_poll_*`.

use crate::border::{
    enter, input, ncm_cm, octets, optional_output, output, output_sized, output_struct, value,
};
use crate::ncm_error;
use crate::ncm_error_code::*;
use crate::types::*;
use nanocm_core::wire::MAD_LEN;
use nanocm_core::{ConnState, EventKind, Instant, PeerParam, SendToken};

/// Octets of a management datagram (MAD).
pub const NCM_MAD_LEN: usize = 256;
const _: () = assert!(NCM_MAD_LEN == MAD_LEN);

/// No datagram is longer: a length above it is a mistake of the caller's.
pub(crate) const LONGEST: usize = 65_535;

/// A datagram (MAD) came from the peer at `path->remote`. Whatever it holds, it cannot do more than
/// move the connection it belongs to: what came of it is no error but its ncm_disposition, and a
/// counter. `disposition` may be NULL. The program has verified the ICRC; ncm_handle_frame does.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_handle_datagram(
    cm: *mut ncm_cm,
    now: u64,
    path: *const ncm_path,
    datagram: *const u8,
    len: usize,
    disposition: *mut u32,
) -> ncm_error {
    border! {
        let path = value(path)?.to_rust()?;
        let datagram = octets(datagram, len, LONGEST, NCM_INVALID_VALUE)?;
        let place = optional_output(disposition)?;
        let came = enter(cm, |engine| {
            Ok(engine.cm.handle_datagram(Instant::from_nanos(now), &path, datagram))
        })?;
        place.put(crate::types::disposition(came));
        Ok(())
    }
}

/// Time has passed: handles at most `budget` expired deadlines (0: as many as there are). What concerns
/// many identifiers (a device that is gone, a changed address) is told them beside that, 16 of them for
/// each unit of the budget. `*more`, which may be NULL, is 1 if more are due: call again when convenient. After a clock jump hand in
/// what the wire holds first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_handle_timeout(
    cm: *mut ncm_cm,
    now: u64,
    budget: u32,
    more: *mut u8,
) -> ncm_error {
    border! {
        let place = optional_output(more)?;
        let budget = if budget == 0 { usize::MAX } else { budget as usize };
        let due = enter(cm, |engine| {
            Ok(engine.cm.handle_timeout(Instant::from_nanos(now), budget))
        })?;
        place.put(due.into());
        Ok(())
    }
}

/// The transport could not send the datagram of this token, and why: an errno from 1 to 32,767, its
/// own, or that of an ICMP error later on. A token that names nothing is counted, and that is all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_handle_send_failed(
    cm: *mut ncm_cm,
    now: u64,
    token: u64,
    error: u32,
) -> ncm_error {
    border! {
        let error = errno(error)?;
        enter(cm, |engine| {
            let token = SendToken::from_raw(token);
            engine.cm.handle_send_failed(Instant::from_nanos(now), token, error);
            Ok(())
        })
    }
}

/// Something happened to a local port. NCM_FULL: try again later; there is no room for another address,
/// or its place is still that of a device that is gone, or too many addresses have changed at once and
/// nobody has been told yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_handle_port_event(
    cm: *mut ncm_cm,
    now: u64,
    event: *const ncm_port_event,
) -> ncm_error {
    border! {
        let event = input(event)?.to_rust()?;
        enter(cm, |engine| {
            let done = engine.cm.handle_port_event(Instant::from_nanos(now), event);
            if done { Ok(()) } else { Err(NCM_FULL) }
        })
    }
}

/// The host's answer to a question. NCM_STALE_REQUEST: nobody waits for it any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_handle_completion(
    cm: *mut ncm_cm,
    now: u64,
    completion: *const ncm_completion,
) -> ncm_error {
    border! {
        let (request, outcome) = input(completion)?.to_rust()?;
        enter(cm, |engine| {
            Ok(engine.cm.handle_completion(Instant::from_nanos(now), request, outcome)?)
        })
    }
}

/// Prepares the answer to a question: see ncm_completion. `size` is sizeof(ncm_completion).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_completion_init(
    completion: *mut ncm_completion,
    size: usize,
    request: *const ncm_request,
) -> ncm_error {
    border! {
        let (place, request) = (output_sized(completion, size)?, input(request)?);
        place.put(ncm_completion::new(&request));
        Ok(())
    }
}

/// Writes the next datagram into `mad`, which has room for NCM_MAD_LEN octets, and says where it goes.
/// It counts as sent. NCM_EMPTY: there is none. Poll again after every ncm_handle_* and operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_poll_transmit(
    cm: *mut ncm_cm,
    now: u64,
    mad: *mut u8,
    transmit: *mut ncm_transmit,
) -> ncm_error {
    border! {
        let place = output_struct(transmit)?;
        let out = output(mad.cast::<[u8; MAD_LEN]>())?;
        let mut mad = [0; MAD_LEN];
        let next = enter(cm, |engine| {
            engine.cm.poll_transmit(Instant::from_nanos(now), &mut mad).ok_or(NCM_EMPTY)
        })?;
        out.put(mad);
        place.put(ncm_transmit {
            size: size_of::<ncm_transmit>() as u32,
            reserved: 0,
            token: next.token.to_raw(),
            path: next.path.into(),
        });
        Ok(())
    }
}

/// What the application is to be told next. NCM_EMPTY: nothing. Poll again after every ncm_handle_* and
/// operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_poll_event(cm: *mut ncm_cm, event: *mut ncm_event) -> ncm_error {
    border! {
        let place = output_struct(event)?;
        let told = enter(cm, |engine| {
            let event = engine.cm.poll_event().ok_or(NCM_EMPTY)?;
            let (cm, id) = (&engine.cm, event.id);
            let has_answer = cm.conn_state(id) == Ok(ConnState::SidrResolved);
            let peer = if has_answer { cm.peer_param(id)? } else { PeerParam::default() };
            let (data, info): (&[u8], &[u8]) = match event.kind {
                EventKind::ConnectRequest { .. } | EventKind::ConnectResponse { .. } => {
                    (cm.private_data(id), &[])
                }
                EventKind::Established if has_answer => (cm.private_data(id), &[]),
                EventKind::Rejected(_) | EventKind::SidrRejected(_) => {
                    (cm.private_data(id), cm.additional_info(id))
                }
                _ => (&[], &[]),
            };
            Ok(ncm_event::new(event, peer, data, info))
        })?;
        place.put(told);
        Ok(())
    }
}

/// The next question to the host. NCM_EMPTY: there is none. Poll again after ncm_resolve_addr and
/// ncm_resolve_route.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_poll_request(cm: *mut ncm_cm, request: *mut ncm_request) -> ncm_error {
    border! {
        let place = output_struct(request)?;
        let (request, question) =
            enter(cm, |engine| engine.cm.poll_request().ok_or(NCM_EMPTY))?;
        place.put(ncm_request::new(request, question));
        Ok(())
    }
}

/// When to call ncm_handle_timeout if nothing happens before; NCM_NEVER: not at all. Exact once every
/// poll function has said NCM_EMPTY; being late delays what is due.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_poll_at(cm: *const ncm_cm, at: *mut u64) -> ncm_error {
    border! {
        let place = output(at)?;
        let at = enter(cm, |engine| Ok(engine.cm.poll_at()))?;
        place.put(at.map_or(NCM_NEVER, Instant::as_nanos));
        Ok(())
    }
}
