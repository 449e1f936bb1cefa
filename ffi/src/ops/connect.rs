//! The operations on a connection.

use crate::border::{enter, input, ncm_cm, output_sized, private_data};
use crate::ncm_error;
use crate::ncm_error_code::*;
use crate::types::*;
use nanocm_core::wire::RejectReason;
use nanocm_core::{Id, Instant};

/// Fills in librdmacm's defaults, for our queue pair's number. `size` is sizeof(ncm_conn_param).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_conn_param_init(
    param: *mut ncm_conn_param,
    size: usize,
    qpn: u32,
) -> ncm_error {
    border! {
        output_sized(param, size)?.put(ncm_conn_param::new(qpn));
        Ok(())
    }
}

/// Sends a REQ (rdma_connect), again until it is answered. Then CONNECT_RESPONSE, REJECTED or
/// UNREACHABLE. From a datagram port space a SIDR_REQ, then ESTABLISHED, REJECTED or UNREACHABLE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_connect(
    cm: *mut ncm_cm,
    now: u64,
    id: ncm_id,
    param: *const ncm_conn_param,
) -> ncm_error {
    border! {
        let param = input(param)?;
        let data = private_data(param.private_data, param.private_data_len)?;
        let param = param.to_rust(data)?;
        enter(cm, |engine| {
            Ok(engine.cm.connect(Instant::from_nanos(now), Id::from_raw(id), &param)?)
        })
    }
}

/// Accepts a request (rdma_accept): sends a REP, again until its RTU comes. Then ESTABLISHED,
/// REJECTED, UNREACHABLE or DISCONNECTED. Of a datagram port space: sends a SIDR_REP, again for each
/// repetition of the request while the identifier lives. Then nothing: no connection.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_accept(
    cm: *mut ncm_cm,
    now: u64,
    id: ncm_id,
    param: *const ncm_conn_param,
) -> ncm_error {
    border! {
        let param = input(param)?;
        let data = private_data(param.private_data, param.private_data_len)?;
        let param = param.to_rust(data)?;
        enter(cm, |engine| {
            Ok(engine.cm.accept(Instant::from_nanos(now), Id::from_raw(id), &param)?)
        })
    }
}

/// The reason that applications give with ncm_reject: "consumer".
pub const NCM_REJECT_CONSUMER: u32 = 28;

/// Rejects a request (rdma_reject), or on either side a connection that does not stand yet, for a
/// reason of 16 bits. SIDR has fewer: reason 1 (no-qp) is status 3, any other 2. Destroy the identifier when you like: the REJ goes out all the same. At most
/// NCM_MAX_REJECT_DATA octets; `data` may be NULL for none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_reject(
    cm: *mut ncm_cm,
    now: u64,
    id: ncm_id,
    reason: u32,
    data: *const u8,
    len: usize,
) -> ncm_error {
    border! {
        let data = private_data(data, len)?;
        let reason = RejectReason(u16::try_from(reason).map_err(|_| NCM_INVALID_VALUE)?);
        enter(cm, |engine| {
            Ok(engine.cm.reject(Instant::from_nanos(now), Id::from_raw(id), reason, data)?)
        })
    }
}

/// The queue pair is ready: sends the RTU that CONNECT_RESPONSE waits for (rdma_establish).
/// ESTABLISHED follows. The data (at most NCM_MAX_ESTABLISH_DATA octets; NULL for none) travel, but no
/// peer's connection manager delivers them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_establish(
    cm: *mut ncm_cm,
    now: u64,
    id: ncm_id,
    data: *const u8,
    len: usize,
) -> ncm_error {
    border! {
        let data = private_data(data, len)?;
        enter(cm, |engine| {
            Ok(engine.cm.establish(Instant::from_nanos(now), Id::from_raw(id), data)?)
        })
    }
}

/// Data have come over the connection before its RTU (rdma_notify, IBV_EVENT_COMM_EST): it stands.
/// ESTABLISHED follows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_notify_established(
    cm: *mut ncm_cm,
    now: u64,
    id: ncm_id,
) -> ncm_error {
    border! {
        enter(cm, |engine| {
            Ok(engine.cm.notify_established(Instant::from_nanos(now), Id::from_raw(id))?)
        })
    }
}

/// Ends a connection (rdma_disconnect): sends a DREQ, again until it is answered, then DISCONNECTED;
/// or, after the peer's DISCONNECTED, the DREP it waits for. TIMEWAIT_EXIT comes when the queue pair may
/// be used again. The data (at most NCM_MAX_DISCONNECT_DATA octets; NULL for none) travel, but no peer's
/// connection manager delivers them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_disconnect(
    cm: *mut ncm_cm,
    now: u64,
    id: ncm_id,
    data: *const u8,
    len: usize,
) -> ncm_error {
    border! {
        let data = private_data(data, len)?;
        enter(cm, |engine| {
            Ok(engine.cm.disconnect(Instant::from_nanos(now), Id::from_raw(id), data)?)
        })
    }
}

/// Makes an active identifier whose attempt or connection is over ready to connect again, with its
/// address, port and route. Legal after REJECTED and UNREACHABLE; where a REP was seen, after
/// TIMEWAIT_EXIT, when the queue pair is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_reset(cm: *mut ncm_cm, id: ncm_id) -> ncm_error {
    border! {
        enter(cm, |engine| Ok(engine.cm.reset(Id::from_raw(id))?))
    }
}
