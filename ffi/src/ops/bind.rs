//! Identifiers: made, bound, listening, changed, destroyed.

use crate::border::{
    enter, input, ncm_cm, optional, optional_output, output, output_struct, value,
};
use crate::ncm_error_code::*;
use crate::types::*;
use crate::{ncm_error, ncm_error_code};
use core::net::SocketAddr;
use nanocm_core::port::Proposal;
use nanocm_core::{Id, IdOption, Instant, Transports};

/// Makes an identifier without an address (rdma_create_id), of one of ncm_port_space. `user` comes
/// back with each of its events.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_create_id(
    cm: *mut ncm_cm,
    space: u32,
    user: u64,
    id: *mut ncm_id,
) -> ncm_error {
    border! {
        let (space, place) = (port_space(space)?, output(id)?);
        let id = enter(cm, |engine| Ok(engine.cm.create_id(space, user)?))?;
        place.put(id.to_raw());
        Ok(())
    }
}

/// Binds an idle identifier (rdma_bind_addr): to a local address or the wildcard, to a port or (0) any
/// free one: `*port`, which may be NULL. The number is one of RDMA's own; a host that wants it held in
/// its TCP port space too goes by ncm_propose_port.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_bind(
    cm: *mut ncm_cm,
    id: ncm_id,
    local: *const ncm_addr,
    port: *mut u16,
) -> ncm_error {
    border! {
        let (local, place) = (value(local)?.to_rust()?, optional_output(port)?);
        let port = enter(cm, |engine| Ok(engine.cm.bind(Id::from_raw(id), local)?))?;
        place.put(port);
        Ok(())
    }
}

/// What a bind would need of the host: whether a port it holds already serves, or which one it should
/// reserve. All RDMA rules have been applied, nothing is owned yet. Reserve the port, then
/// ncm_bind_reserved. With `remote`, which may be NULL, for an active identifier whose port needs to be
/// free towards that peer alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_propose_port(
    cm: *mut ncm_cm,
    id: ncm_id,
    local: *const ncm_addr,
    remote: *const ncm_addr,
    key: *mut ncm_port_key,
) -> ncm_error {
    border! {
        let (local, remote) = (value(local)?.to_rust()?, optional_addr(optional(remote)?)?);
        let place = output_struct(key)?;
        let proposal = enter(cm, |engine| {
            Ok(engine.cm.propose_port(Id::from_raw(id), local, remote)?)
        })?;
        let held = matches!(proposal, Proposal::Held(_));
        place.put(ncm_port_key::new(Some(proposal.key()), held));
        Ok(())
    }
}

/// Binds to a proposed port that the host has reserved. If it fails the reservation is the caller's to
/// release: another bind may have come between.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_bind_reserved(
    cm: *mut ncm_cm,
    id: ncm_id,
    key: *const ncm_port_key,
    remote: *const ncm_addr,
) -> ncm_error {
    border! {
        let (key, remote) = (input(key)?.to_rust()?, optional_addr(optional(remote)?)?);
        enter(cm, |engine| Ok(engine.cm.bind_reserved(Id::from_raw(id), key, remote)?))
    }
}

/// Lets a bound identifier listen (rdma_listen) for at most `backlog` requests that are neither
/// accepted nor rejected; 0 for the engine's default. One more is dropped silently, for the peer to
/// repeat it, or rejected (NCM_OPTION_REJECT_WHEN_FULL).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_listen(cm: *mut ncm_cm, id: ncm_id, backlog: u32) -> ncm_error {
    border! {
        enter(cm, |engine| Ok(engine.cm.listen(Id::from_raw(id), backlog)?))
    }
}

/// Gives an identifier another cookie, for its further events: it moves to whoever that stands for.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_set_user(cm: *mut ncm_cm, id: ncm_id, user: u64) -> ncm_error {
    border! {
        enter(cm, |engine| Ok(engine.cm.set_user(Id::from_raw(id), user)?))
    }
}

/// Options of an identifier (rdma_set_option). The first four have librdmacm's numbers.
#[repr(C)]
pub enum ncm_option {
    /// Type of service of the connection's packets, 0 to 255; 0 is not the same as unset, where the
    /// route says it. Until ncm_connect; connections that are accepted have their peer's.
    NCM_OPTION_TOS = 0,
    /// 1: share a port with others that say so too. Not while listening; 0 only while idle.
    NCM_OPTION_REUSEADDR = 1,
    /// 1: an IPv6 wildcard is for IPv6 alone. Only while idle: it decides at ncm_bind with whom the
    /// port can be shared.
    NCM_OPTION_AFONLY = 2,
    /// Local ACK timeout code, 0 (none) to 31. Goes into the queue pair's attributes at once, and into
    /// the REQ of routes resolved afterwards.
    NCM_OPTION_ACK_TIMEOUT = 3,
    /// The transports that a listener takes, 1 << ncm_transport each: 1 (RC alone, the default) to 7. A
    /// REQ with another gets REJ 9.
    NCM_OPTION_TRANSPORTS = 16,
    /// 1: a listener answers a request beyond its backlog with REJ 3 (SIDR status 3), not with
    /// silence. Silence lets the peer repeat its request until there is room; a rejection lets it go
    /// elsewhere at once. Only while idle, bound or listening.
    NCM_OPTION_REJECT_WHEN_FULL = 17,
}

fn id_option(option: u32, value: u32) -> Result<IdOption, ncm_error_code> {
    const TOS: u32 = ncm_option::NCM_OPTION_TOS as u32;
    const REUSEADDR: u32 = ncm_option::NCM_OPTION_REUSEADDR as u32;
    const AFONLY: u32 = ncm_option::NCM_OPTION_AFONLY as u32;
    const ACK_TIMEOUT: u32 = ncm_option::NCM_OPTION_ACK_TIMEOUT as u32;
    const TRANSPORTS: u32 = ncm_option::NCM_OPTION_TRANSPORTS as u32;
    const REJECT_WHEN_FULL: u32 = ncm_option::NCM_OPTION_REJECT_WHEN_FULL as u32;
    match option {
        TOS => Ok(IdOption::Tos(at_most(value, 255)? as u8)),
        REUSEADDR => Ok(IdOption::ReuseAddr(flag(value)?)),
        AFONLY => Ok(IdOption::AfOnly(flag(value)?)),
        ACK_TIMEOUT => Ok(IdOption::AckTimeout(at_most(value, 31)? as u8)),
        TRANSPORTS => transports(value).map(IdOption::Transports),
        REJECT_WHEN_FULL => Ok(IdOption::RejectWhenFull(flag(value)?)),
        _ => Err(NCM_INVALID_VALUE),
    }
}

/// A set of transports, a bit each; not an empty one.
fn transports(bits: u32) -> Result<Transports, ncm_error_code> {
    at_most(bits, 7)?;
    let all = [Transports::RC, Transports::UC, Transports::XRC];
    let chosen = (0..).zip(all).filter(|(bit, _)| bits & 1 << bit != 0).map(|(_, one)| one);
    chosen.reduce(|some, one| some | one).ok_or(NCM_INVALID_VALUE)
}

/// Sets an option (ncm_option) of an identifier.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_set_option(
    cm: *mut ncm_cm,
    id: ncm_id,
    option: u32,
    value: u32,
) -> ncm_error {
    border! {
        let option = id_option(option, value)?;
        enter(cm, |engine| Ok(engine.cm.set_option(Id::from_raw(id), option)?))
    }
}

/// Destroys an identifier in whichever state (rdma_destroy_id). It never blocks. The handle is stale
/// from now on, its events are forgotten, its port is free; events handed out before stay good. The
/// peer is told what it needs to know. `*released`, which may be NULL, is the port whose last owner
/// left, for hosts that reserve ports; its `space` is 0 if there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_destroy(
    cm: *mut ncm_cm,
    now: u64,
    id: ncm_id,
    released: *mut ncm_port_key,
) -> ncm_error {
    border! {
        let place = if released.is_null() { None } else { Some(output_struct(released)?) };
        let key = enter(cm, |engine| {
            Ok(engine.cm.destroy(Instant::from_nanos(now), Id::from_raw(id))?)
        })?;
        if let Some(place) = place {
            place.put(ncm_port_key::new(key, false));
        }
        Ok(())
    }
}

pub(super) fn optional_addr(addr: Option<ncm_addr>) -> Result<Option<SocketAddr>, ncm_error_code> {
    addr.map(ncm_addr::to_rust).transpose()
}
