//! From an address to a route: two questions to the host, or none (`set_route`).
//!
//! Read first: facts linux-rdma-cm §1.5 (resolve_addr, resolve_route).

use super::slot::{Stage, flag, pending};
use super::{Ids, State};
use crate::addr::{Path, ScopedIp};
use crate::cm::Cm;
use crate::error::{BindError, ResolveError, Stale, errno};
use crate::handle::{Id, RequestId};
use crate::request::{Outcome, Request, Route};
use crate::time::Instant;
use core::net::SocketAddr;
use core::time::Duration;

impl Cm<'_> {
    /// Finds the path to `destination` (`rdma_resolve_addr`): asks the host, then ADDR_RESOLVED or
    /// ADDR_ERROR. An idle identifier is bound on the way: to `source` (port 0: any port that is free
    /// towards this destination) now, or to whichever address the path leaves from. A bound one
    /// ignores `source`.
    ///
    /// # Errors
    /// [`ResolveError`]; the identifier is as it was.
    pub fn resolve_addr(
        &mut self,
        now: Instant,
        id: Id,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        timeout: Duration,
    ) -> Result<(), ResolveError> {
        self.conns.advance(now);
        if timeout.is_zero() {
            return Err(ResolveError::ZeroTimeout);
        }
        let index = self.start_active(id, source, destination)?;
        let Some(conn) = self.ids.conn(index) else { return Err(ResolveError::Full) };
        self.ids.ask(index, Stage::AddrQuery, "resolve_addr");
        self.conns.ask_host(conn, timeout);
        Ok(())
    }

    /// Finds what the path carries (`rdma_resolve_route`): asks the host, then ROUTE_RESOLVED or
    /// ROUTE_ERROR.
    ///
    /// # Errors
    /// [`ResolveError`]; the identifier is as it was.
    pub fn resolve_route(
        &mut self,
        now: Instant,
        id: Id,
        timeout: Duration,
    ) -> Result<(), ResolveError> {
        self.conns.advance(now);
        let index = self.ids.find(id).ok_or(ResolveError::NoSuchId)?;
        let state = self.ids.state(index);
        let (State::AddrResolved, Some(conn)) = (state, self.ids.conn(index)) else {
            return Err(ResolveError::InvalidState { state });
        };
        if timeout.is_zero() {
            return Err(ResolveError::ZeroTimeout);
        }
        self.ids.ask(index, Stage::RouteQuery, "resolve_route");
        self.conns.ask_host(conn, timeout);
        Ok(())
    }

    /// Takes a route the caller knows (a static neighbour table, a cache): no question, no event,
    /// `connect` is legal at once. Legal where `resolve_addr` or `resolve_route` is.
    ///
    /// # Errors
    /// [`ResolveError`]; the identifier is as it was.
    pub fn set_route(
        &mut self,
        now: Instant,
        id: Id,
        destination: SocketAddr,
        route: &Route,
    ) -> Result<(), ResolveError> {
        self.conns.advance(now);
        let index = self.ids.find(id).ok_or(ResolveError::NoSuchId)?;
        let local = ScopedIp { gid: route.path.local_gid(), scope: path_scope(&route.path) };
        let gid_index = self
            .gids
            .find_scoped(local)
            .ok_or(ResolveError::Bind { error: BindError::AddrNotLocal })?;
        if self.ids.state(index) != State::AddrResolved {
            self.start_active(id, Some(local.with_port(0)), destination)?;
            self.ids.take_path(index, &route.path);
        }
        let Some(conn) = self.ids.conn(index) else { return Err(ResolveError::Full) };
        let route = self.ids.route_with_options(index, route);
        self.conns.set_route(conn, &route, gid_index);
        self.ids.set_stage(index, Stage::RouteResolved, "set_route");
        Ok(())
    }

    /// All that an identifier needs to become active: a specific destination, a connection slot and,
    /// where the source is known, a port. State and pending events are the caller's.
    fn start_active(
        &mut self,
        id: Id,
        source: Option<SocketAddr>,
        destination: SocketAddr,
    ) -> Result<usize, ResolveError> {
        let index = self.ids.find(id).ok_or(ResolveError::NoSuchId)?;
        let state = self.ids.state(index);
        let bound = match state {
            State::Idle => false,
            State::AddrBound => true,
            state => return Err(ResolveError::InvalidState { state }),
        };
        if destination.port() == 0 || destination.ip().is_unspecified() {
            return Err(ResolveError::NotADestination);
        }
        let slot = self.ids.slot(index);
        let family =
            if bound { Some(slot.local.is_v4()) } else { source.map(|source| source.is_ipv4()) };
        if family.is_some_and(|v4| v4 != destination.is_ipv4()) {
            return Err(ResolveError::FamilyMismatch);
        }
        let source = source.filter(|source| !bound && !source.ip().is_unspecified());
        if let Some(source) = source {
            self.check_local(source).map_err(|error| ResolveError::Bind { error })?;
        }
        let conn = match self.ids.conn(index) {
            Some(conn) => conn,
            None => self.conns.claim(index).ok_or(ResolveError::Full)?,
        };
        if let Some(source) = source
            && let Err(error) = self.ids.take_port(index, source, Some(destination))
        {
            self.conns.free(conn);
            return Err(ResolveError::Bind { error });
        }
        self.ids.set_destination(index, conn, destination);
        Ok(index)
    }

    /// The next question to the host. Poll again after `resolve_addr` and `resolve_route`.
    #[must_use]
    pub fn poll_request(&mut self) -> Option<(RequestId, Request)> {
        let index = self.conns.next_question()?;
        let path = self.ids.conn(index).map(|conn| self.conns.path(conn))?;
        Some((self.ids.request_id(index), self.ids.question(index, path)))
    }

    /// The host's answer to a question.
    ///
    /// # Errors
    /// [`Stale`]: nobody waits for it any more. Nothing has changed.
    pub fn handle_completion(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: Outcome,
    ) -> Result<(), Stale> {
        self.conns.advance(now);
        let index = self.ids.find(request.id).ok_or(Stale)?;
        let slot = self.ids.slot(index);
        if slot.sequence != request.sequence {
            return Err(Stale);
        }
        let Some(conn) = slot.conn.get() else { return Err(Stale) };
        match (self.ids.state(index), outcome) {
            (State::AddrQuery, Outcome::AddrResolved { path }) => {
                self.conns.question_over(conn);
                self.take_address(index, conn, &path);
                Ok(())
            }
            (State::RouteQuery, Outcome::RouteResolved { route }) => {
                self.conns.question_over(conn);
                self.take_route(index, conn, &route);
                Ok(())
            }
            (State::AddrQuery | State::RouteQuery, Outcome::Failed(errno)) => {
                self.conns.question_over(conn);
                self.query_failed(index, errno);
                Ok(())
            }
            _ => Err(Stale),
        }
    }

    fn take_address(&mut self, index: usize, conn: usize, path: &Path) {
        let local = ScopedIp { gid: path.local_gid(), scope: path_scope(path) };
        let Some(gid_index) = self.gids.find_scoped(local) else {
            return self.query_failed(index, errno::EADDRNOTAVAIL);
        };
        if !self.ids.slot(index).held.is_some() {
            let slot = self.ids.slot(index);
            let remote = ScopedIp { gid: slot.remote, scope: slot.scope };
            let remote = remote.with_port(slot.remote_port);
            if let Err(error) = self.ids.take_port(index, local.with_port(0), Some(remote)) {
                return self.query_failed(index, error.errno());
            }
        }
        self.ids.take_path(index, path);
        self.conns.set_route(conn, &Route::new(*path), gid_index);
        self.ids.set_stage(index, Stage::AddrResolved, "the host found the path");
        self.ids.mark(index, pending::ADDR_RESOLVED);
    }

    fn take_route(&mut self, index: usize, conn: usize, route: &Route) {
        let Some(gid_index) = self.gids.find(route.path.local_gid()) else {
            return self.query_failed(index, errno::ENODEV);
        };
        let route = self.ids.route_with_options(index, route);
        self.conns.set_route(conn, &route, gid_index);
        self.ids.set_stage(index, Stage::RouteResolved, "the host found the route");
        self.ids.mark(index, pending::ROUTE_RESOLVED);
    }

    /// A question was answered with an error, or not in time.
    pub(crate) fn query_failed(&mut self, index: usize, errno: i32) {
        self.ids.slot_mut(index).set_errno(errno);
        self.ids.slot_mut(index).sequence = self.ids.slot(index).sequence.wrapping_add(1);
        if self.ids.state(index) == State::RouteQuery {
            self.ids.set_stage(index, Stage::AddrResolved, "the host did not");
            self.ids.mark(index, pending::ROUTE_ERROR);
            return;
        }
        let next = if self.ids.slot(index).held.is_some() { Stage::AddrBound } else { Stage::Idle };
        if let Some(conn) = self.ids.conn(index) {
            self.conns.free(conn);
            self.ids.slot_mut(index).conn = crate::slots::Link::NONE;
        }
        self.ids.set_stage(index, next, "the host did not");
        self.ids.mark(index, pending::ADDR_ERROR);
    }
}

impl Ids<'_> {
    fn set_destination(&mut self, index: usize, conn: usize, destination: SocketAddr) {
        let remote = ScopedIp::of(destination);
        let slot = self.slot_mut(index);
        slot.conn = crate::slots::Link::to(conn);
        slot.remote = remote.gid;
        slot.remote_port = destination.port();
        slot.scope = slot.scope.max(remote.scope);
    }

    /// A question is open from here on; what the last one led to is old news.
    fn ask(&mut self, index: usize, stage: Stage, why: &'static str) {
        self.slot_mut(index).sequence = self.slot(index).sequence.wrapping_add(1);
        self.unmark(index, pending::ADDR_ERROR | pending::ROUTE_ERROR);
        self.set_stage(index, stage, why);
    }

    /// The source is known now, even if the identifier is bound to the wildcard.
    fn take_path(&mut self, index: usize, path: &Path) {
        let slot = self.slot_mut(index);
        if slot.has(flag::WILDCARD) {
            slot.local = path.local_gid();
            slot.scope = slot.scope.max(path_scope(path));
        }
    }

    fn route_with_options(&self, index: usize, route: &Route) -> Route {
        let slot = self.slot(index);
        let mut route = *route;
        if let Path::Roce(path) = &mut route.path {
            path.traffic_class = if slot.tos != 0 { slot.tos } else { path.traffic_class };
            if path.flow_label == 0 {
                // As Linux fills it (facts: linux-rdma-cm §5.3).
                let (source, destination) =
                    (u32::from(slot.local_port), u32::from(slot.remote_port));
                path.flow_label = (source * 31 + destination) & 0xf_ffff;
            }
        }
        if slot.ack_timeout > 1 {
            route.packet_lifetime = slot.ack_timeout - 2;
        }
        route
    }

    fn request_id(&self, index: usize) -> RequestId {
        RequestId { id: self.handle(index), sequence: self.slot(index).sequence }
    }

    fn question(&self, index: usize, path: Path) -> Request {
        let slot = self.slot(index);
        if self.state(index) == State::RouteQuery {
            return Request::ResolveRoute { path };
        }
        let remote = ScopedIp { gid: slot.remote, scope: slot.scope };
        let specific = slot.held.is_some() && !slot.has(flag::WILDCARD);
        Request::ResolveAddr {
            source: specific.then_some(ScopedIp { gid: slot.local, scope: slot.scope }),
            destination: remote.with_port(slot.remote_port),
        }
    }
}

fn path_scope(path: &Path) -> u32 {
    match path {
        Path::Roce(path) => path.scope,
        Path::Ib(_) => 0,
    }
}
