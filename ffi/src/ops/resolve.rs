//! From an address to a route: two questions to the host, or none.

use super::bind::optional_addr;
use crate::border::{enter, input, ncm_cm, optional, output_sized, value};
use crate::ncm_error;
use crate::types::*;
use core::time::Duration;
use nanocm_core::{Id, Instant};

/// Finds the path to `destination` (rdma_resolve_addr): asks the host, then ADDR_RESOLVED or
/// ADDR_ERROR. An idle identifier is bound on the way: to `source` (port 0: any port that is free
/// towards this destination) now or, if `source` is NULL, to whichever address the path leaves from. A
/// bound one ignores `source`. `timeout` is in nanoseconds, and not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_resolve_addr(
    cm: *mut ncm_cm,
    now: u64,
    id: ncm_id,
    source: *const ncm_addr,
    destination: *const ncm_addr,
    timeout: u64,
) -> ncm_error {
    border! {
        let (source, to) = (optional_addr(optional(source)?)?, value(destination)?.to_rust()?);
        enter(cm, |engine| {
            let (now, timeout) = (Instant::from_nanos(now), Duration::from_nanos(timeout));
            Ok(engine.cm.resolve_addr(now, Id::from_raw(id), source, to, timeout)?)
        })
    }
}

/// Finds what the path carries (rdma_resolve_route): asks the host, then ROUTE_RESOLVED or
/// ROUTE_ERROR. `timeout` is in nanoseconds, and not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_resolve_route(
    cm: *mut ncm_cm,
    now: u64,
    id: ncm_id,
    timeout: u64,
) -> ncm_error {
    border! {
        enter(cm, |engine| {
            let (now, timeout) = (Instant::from_nanos(now), Duration::from_nanos(timeout));
            Ok(engine.cm.resolve_route(now, Id::from_raw(id), timeout)?)
        })
    }
}

/// Fills in a route with Linux's defaults for RoCE. `size` is sizeof(ncm_route). The path is looked at
/// when the route is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_route_init(
    route: *mut ncm_route,
    size: usize,
    path: *const ncm_path,
) -> ncm_error {
    border! {
        let (place, path) = (output_sized(route, size)?, value(path)?);
        place.put(ncm_route::new(path));
        Ok(())
    }
}

/// Takes a route that the caller knows (a static neighbour table, a cache): no question, no event,
/// ncm_connect is legal at once. Legal where ncm_resolve_addr or ncm_resolve_route is; an identifier
/// whose address is resolved stays with that destination.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_set_route(
    cm: *mut ncm_cm,
    now: u64,
    id: ncm_id,
    destination: *const ncm_addr,
    route: *const ncm_route,
) -> ncm_error {
    border! {
        let (to, route) = (value(destination)?.to_rust()?, input(route)?.to_rust()?);
        enter(cm, |engine| {
            Ok(engine.cm.set_route(Instant::from_nanos(now), Id::from_raw(id), to, &route)?)
        })
    }
}
