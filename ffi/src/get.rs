//! Getters. Each is NCM_NO_SUCH_ID for a stale handle.

use crate::border::{buffer, enter, ncm_cm, output, output_struct};
use crate::ncm_error;
use crate::types::*;
use nanocm_core::{ConnState, Id, State};

/// What an identifier is doing: librdmacm's states.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ncm_state {
    /// Fresh: no address, no port.
    NCM_STATE_IDLE = 0,
    /// Address and port held.
    NCM_STATE_ADDR_BOUND = 1,
    /// The host is looking for the destination.
    NCM_STATE_ADDR_QUERY = 2,
    /// Path and source known.
    NCM_STATE_ADDR_RESOLVED = 3,
    /// The host is looking for the route.
    NCM_STATE_ROUTE_QUERY = 4,
    /// Ready to connect.
    NCM_STATE_ROUTE_RESOLVED = 5,
    /// From REQ sent or received until the connection is over, rejected and unreachable included.
    NCM_STATE_CONNECT = 6,
    /// DREQ or DREP seen.
    NCM_STATE_DISCONNECT = 7,
    /// Listening; there is no way back.
    NCM_STATE_LISTEN = 8,
    /// The device is gone; only ncm_destroy is useful.
    NCM_STATE_DEVICE_REMOVAL = 9,
}

/// The states, by their number in C.
pub(crate) const STATES: [State; 10] = [
    State::Idle,
    State::AddrBound,
    State::AddrQuery,
    State::AddrResolved,
    State::RouteQuery,
    State::RouteResolved,
    State::Connect,
    State::Disconnect,
    State::Listen,
    State::DeviceRemoval,
];

/// What an identifier is doing: `*state`, one of ncm_state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_state(
    cm: *const ncm_cm,
    id: ncm_id,
    state: *mut u32,
) -> ncm_error {
    border! {
        let place = output(state)?;
        let state = enter(cm, |engine| Ok(engine.cm.state(Id::from_raw(id))?))?;
        place.put(number(&STATES, state));
        Ok(())
    }
}

/// Where a connection stands: the CM's states.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ncm_conn_state {
    /// None, or none any more.
    NCM_CONN_IDLE = 0,
    /// REQ sent, waiting for REP, REJ or MRA.
    NCM_CONN_REQ_SENT = 1,
    /// REQ received, waiting for the application's answer.
    NCM_CONN_REQ_RCVD = 2,
    /// REP received, waiting for ncm_establish.
    NCM_CONN_REP_RCVD = 3,
    /// REP sent, waiting for RTU.
    NCM_CONN_REP_SENT = 4,
    /// It stands.
    NCM_CONN_ESTABLISHED = 5,
    /// DREQ sent, waiting for DREP.
    NCM_CONN_DREQ_SENT = 6,
    /// DREQ received, waiting for ncm_disconnect.
    NCM_CONN_DREQ_RCVD = 7,
    /// Over; stray packets of the queue pair may still be under way.
    NCM_CONN_TIMEWAIT = 8,
    /// We rejected it; a repeated REQ gets the same answer again.
    NCM_CONN_REJ_SENT = 9,
    /// SIDR_REQ sent, waiting for SIDR_REP.
    NCM_CONN_SIDR_REQ_SENT = 10,
    /// SIDR_REP received: the service's queue pair is known.
    NCM_CONN_SIDR_RESOLVED = 11,
    /// SIDR_REQ received, waiting for the application's answer.
    NCM_CONN_SIDR_REQ_RCVD = 12,
    /// SIDR_REP sent; a repeated SIDR_REQ gets the same answer again.
    NCM_CONN_SIDR_REP_SENT = 13,
}

/// The states of connections, by their number in C.
pub(crate) const CONN_STATES: [ConnState; 14] = [
    ConnState::Idle,
    ConnState::ReqSent,
    ConnState::ReqRcvd,
    ConnState::RepRcvd,
    ConnState::RepSent,
    ConnState::Established,
    ConnState::DreqSent,
    ConnState::DreqRcvd,
    ConnState::Timewait,
    ConnState::RejSent,
    ConnState::SidrReqSent,
    ConnState::SidrResolved,
    ConnState::SidrReqRcvd,
    ConnState::SidrRepSent,
];

/// Where an identifier's connection stands: `*state`, one of ncm_conn_state.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_conn_state(
    cm: *const ncm_cm,
    id: ncm_id,
    state: *mut u32,
) -> ncm_error {
    border! {
        let place = output(state)?;
        let state = enter(cm, |engine| Ok(engine.cm.conn_state(Id::from_raw(id))?))?;
        place.put(number(&CONN_STATES, state));
        Ok(())
    }
}

/// The number of a state; of one without a number, the largest there is.
fn number<T: PartialEq>(known: &[T], state: T) -> u32 {
    known.iter().position(|k| *k == state).map_or(u32::MAX, |place| place as u32)
}

/// Its own address and port, as far as known, else the wildcard and 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_local_addr(
    cm: *const ncm_cm,
    id: ncm_id,
    addr: *mut ncm_addr,
) -> ncm_error {
    border! {
        let place = output(addr)?;
        let addr = enter(cm, |engine| Ok(engine.cm.local_addr(Id::from_raw(id))?))?;
        place.put(addr.into());
        Ok(())
    }
}

/// The peer's address and port, as far as known, else the wildcard and 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_peer_addr(
    cm: *const ncm_cm,
    id: ncm_id,
    addr: *mut ncm_addr,
) -> ncm_error {
    border! {
        let place = output(addr)?;
        let addr = enter(cm, |engine| Ok(engine.cm.peer_addr(Id::from_raw(id))?))?;
        place.put(addr.into());
        Ok(())
    }
}

/// What the peer offers, once a REQ or REP has come.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_peer_param(
    cm: *const ncm_cm,
    id: ncm_id,
    param: *mut ncm_peer_param,
) -> ncm_error {
    border! {
        let place = output_struct(param)?;
        let param = enter(cm, |engine| Ok(engine.cm.peer_param(Id::from_raw(id))?))?;
        place.put(param.into());
        Ok(())
    }
}

/// The path of its connection, once resolved or requested; its link is NCM_LINK_NONE before.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_path(
    cm: *const ncm_cm,
    id: ncm_id,
    path: *mut ncm_path,
) -> ncm_error {
    border! {
        let place = output(path)?;
        let path = enter(cm, |engine| Ok(engine.cm.path(Id::from_raw(id))?))?;
        place.put(path.map_or(ncm_path::default(), ncm_path::from));
        Ok(())
    }
}

/// What the verbs need to move the connection's queue pair to `state`, one of ncm_qp_state
/// (rdma_init_qp_attr). NCM_INVALID_STATE before the connection knows it: INIT from ROUTE_RESOLVED on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_qp_attrs(
    cm: *const ncm_cm,
    id: ncm_id,
    state: u32,
    attrs: *mut ncm_qp_attrs,
) -> ncm_error {
    border! {
        let (to, place) = (qp_state(state)?, output_struct(attrs)?);
        let attrs = enter(cm, |engine| Ok(engine.cm.qp_attrs(Id::from_raw(id), to)?))?;
        place.put(ncm_qp_attrs::new(state, attrs));
        Ok(())
    }
}

/// The peer's private data, as its event brought them: that of a CONNECT_REQUEST until it is
/// answered, of a CONNECT_RESPONSE until ncm_establish, of a REJECTED and of a datagram
/// service until ncm_reset; else none.
/// `*len` octets go into `data`, which has room for `size`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_private_data(
    cm: *const ncm_cm,
    id: ncm_id,
    data: *mut u8,
    size: usize,
    len: *mut usize,
) -> ncm_error {
    border! {
        let (place, len) = (buffer(data, size)?, output(len)?);
        let got = enter(cm, |engine| {
            let id = Id::from_raw(id);
            engine.cm.state(id)?;
            let octets = engine.cm.private_data(id);
            place.put(octets).map(|()| octets.len())
        })?;
        len.put(got);
        Ok(())
    }
}

/// The additional information of a REJECTED, until ncm_reset; else none. As ncm_get_private_data.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_additional_info(
    cm: *const ncm_cm,
    id: ncm_id,
    data: *mut u8,
    size: usize,
    len: *mut usize,
) -> ncm_error {
    border! {
        let (place, len) = (buffer(data, size)?, output(len)?);
        let got = enter(cm, |engine| {
            let id = Id::from_raw(id);
            engine.cm.state(id)?;
            let octets = engine.cm.additional_info(id);
            place.put(octets).map(|()| octets.len())
        })?;
        len.put(got);
        Ok(())
    }
}

/// Whether a DISCONNECTED is still to come: `*owes` is 1 from the ESTABLISHED that ncm_poll_event gave
/// until the DISCONNECTED it gives, or until ncm_reset; else 0. Who wants to end in order disconnects
/// and waits as long as it is 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_owes_disconnected(
    cm: *const ncm_cm,
    id: ncm_id,
    owes: *mut u8,
) -> ncm_error {
    border! {
        let place = output(owes)?;
        let owes = enter(cm, |engine| Ok(engine.cm.owes_disconnected(Id::from_raw(id))?))?;
        place.put(owes.into());
        Ok(())
    }
}

/// What has been counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_get_counters(
    cm: *const ncm_cm,
    counters: *mut ncm_counters,
) -> ncm_error {
    border! {
        let place = output_struct(counters)?;
        let counters = enter(cm, |engine| Ok(ncm_counters::from(engine.cm.counters())))?;
        place.put(counters);
        Ok(())
    }
}

/// Whether nothing is left of anything: `*clean` is 1 if there is no identifier, connection, port,
/// deadline, event or answer, else 0. Walks the tables: for tests.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_is_clean(cm: *const ncm_cm, clean: *mut u8) -> ncm_error {
    border! {
        let place = output(clean)?;
        let clean = enter(cm, |engine| Ok(engine.cm.is_clean()))?;
        place.put(clean.into());
        Ok(())
    }
}
