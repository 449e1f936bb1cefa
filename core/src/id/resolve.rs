//! From an address to a route: two questions to the host, or none (`set_route`).
//!
//! Read first: facts linux-rdma-cm §1.5 (resolve_addr, resolve_route).

use super::slot::{Stage, flag, pending};
use super::{Ids, State};
use crate::addr::{Gid, Path, ScopedIp};
use crate::cm::Cm;
use crate::error::{BindError, ResolveError, Stale, errno};
use crate::handle::{Id, RequestId};
use crate::request::{Outcome, Request, Route};
use crate::slots::Link;
use crate::time::Instant;
use core::net::SocketAddr;
use core::time::Duration;

impl Cm<'_> {
    /// Finds the path to `destination` (`rdma_resolve_addr`): asks the host, then ADDR_RESOLVED or
    /// ADDR_ERROR. An idle identifier is bound on the way: to `source` (port 0: any port that is free
    /// towards this destination) now, or to whichever address the path leaves from; after ADDR_ERROR it is
    /// idle again (ADDR_BOUND if it is the last one on a number that was reserved for others, see
    /// [`bind_reserved`](Cm::bind_reserved)). A bound one ignores `source`.
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
            return Err(ResolveError::in_state(state));
        };
        if timeout.is_zero() {
            return Err(ResolveError::ZeroTimeout);
        }
        self.ids.ask(index, Stage::RouteQuery, "resolve_route");
        self.conns.ask_host(conn, timeout);
        Ok(())
    }

    /// Takes a route the caller knows (a static neighbour table, a cache): no question, no event,
    /// `connect` is legal at once. Legal where `resolve_addr` or `resolve_route` is; an identifier
    /// whose address is resolved stays with that destination.
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
        let state = self.ids.state(index);
        if !matches!(state, State::Idle | State::AddrBound | State::AddrResolved) {
            return Err(ResolveError::in_state(state));
        }
        let local = route.path.local_ip();
        let not_local = ResolveError::Bind { error: BindError::AddrNotLocal };
        let gid_index = self.gids.find(local).ok_or(not_local)?;
        if !self.ids.may_leave_by(index, &route.path, destination.ip().into()) {
            return Err(ResolveError::OtherSource);
        }
        if state == State::AddrResolved {
            self.ids.check_destination(index, None, destination)?;
        } else {
            self.start_active(id, Some(local.with_port(0)), destination)?;
            self.ids.take_path(index, &route.path);
        }
        let Some(conn) = self.ids.conn(index) else { return Err(ResolveError::Full) };
        let route = self.ids.route_with_options(index, route);
        self.conns.set_route(conn, &route, gid_index);
        self.ids.unmark(index, pending::ADDR_ERROR | pending::ROUTE_ERROR);
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
        if !matches!(state, State::Idle | State::AddrBound) {
            return Err(ResolveError::in_state(state));
        }
        let source = source.filter(|_| state == State::Idle);
        let remote = self.ids.check_destination(index, source, destination)?;
        if !self.conns.has_room() {
            return Err(ResolveError::Full);
        }
        // The wildcard with a port is bound now, without one when the path says the address.
        let is_any = |s: &SocketAddr| s.port() == 0 && ScopedIp::of(*s).gid.is_wildcard();
        if let Some(source) = source.filter(|source| !is_any(source)) {
            let done = self.bind_on_the_way(index, source, remote);
            done.map_err(|error| ResolveError::Bind { error })?;
        }
        let conn = self.conns.claim(index).ok_or(ResolveError::Full)?;
        self.ids.set_destination(index, conn, remote);
        Ok(index)
    }

    /// Binds an idle identifier to a port that is free towards its destination.
    fn bind_on_the_way(
        &mut self,
        index: usize,
        source: SocketAddr,
        remote: SocketAddr,
    ) -> Result<(), BindError> {
        self.check_local(source)?;
        self.ids.take_port(index, source, Some(remote), None)?;
        self.ids.slot_mut(index).set(flag::BOUND_ON_THE_WAY, true);
        Ok(())
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
                self.query_failed(index, errno);
                Ok(())
            }
            _ => Err(Stale),
        }
    }

    fn take_address(&mut self, index: usize, conn: usize, path: &Path) {
        let gid_index = match self.source_of(index, path) {
            Ok(gid_index) => gid_index,
            Err(errno) => return self.query_failed(index, errno),
        };
        if !self.ids.slot(index).held.is_some() {
            let slot = self.ids.slot(index);
            let remote = slot.remote_ip().with_port(slot.remote_port);
            let source = path.local_ip().with_port(0);
            if let Err(error) = self.bind_on_the_way(index, source, remote) {
                return self.query_failed(index, error.errno());
            }
        }
        self.ids.take_path(index, path);
        self.conns.set_route(conn, &Route::new(*path), gid_index);
        self.ids.set_stage(index, Stage::AddrResolved, "the host found the path");
        self.ids.mark(index, pending::ADDR_RESOLVED);
    }

    fn take_route(&mut self, index: usize, conn: usize, route: &Route) {
        let gid_index = match self.source_of(index, &route.path) {
            Ok(gid_index) => gid_index,
            Err(errno) => return self.query_failed(index, errno),
        };
        let route = self.ids.route_with_options(index, route);
        self.conns.set_route(conn, &route, gid_index);
        self.ids.set_stage(index, Stage::RouteResolved, "the host found the route");
        self.ids.mark(index, pending::ROUTE_RESOLVED);
    }

    /// The GID table's entry for the source the host chose, or what is wrong with it (errno).
    fn source_of(&self, index: usize, path: &Path) -> Result<u16, i32> {
        let gid_index = self.gids.find(path.local_ip()).ok_or(errno::ENODEV)?;
        let remote = self.ids.slot(index).remote;
        let may = self.ids.may_leave_by(index, path, remote);
        may.then_some(gid_index).ok_or(errno::EADDRNOTAVAIL)
    }

    /// A question was answered with an error, or not in time: the identifier is as it was before.
    pub(crate) fn query_failed(&mut self, index: usize, errno: i32) {
        let slot = self.ids.slot_mut(index);
        slot.set_errno(errno);
        let Some(conn) = slot.conn.get() else { return };
        if self.ids.state(index) == State::RouteQuery {
            self.conns.question_over(conn);
            self.ids.set_stage(index, Stage::AddrResolved, "the host did not");
            self.ids.mark(index, pending::ROUTE_ERROR);
            return;
        }
        self.conns.free(conn);
        let next = self.ids.forget_destination(index);
        self.ids.set_stage(index, next, "the host did not");
        self.ids.mark(index, pending::ADDR_ERROR);
    }
}

impl Ids<'_> {
    /// The destination, complete with the scope that the source gives it, if the identifier may go
    /// there. `source`: what an idle one asks for.
    fn check_destination(
        &self,
        index: usize,
        source: Option<SocketAddr>,
        to: SocketAddr,
    ) -> Result<SocketAddr, ResolveError> {
        let mut remote = ScopedIp::of(to);
        if to.port() == 0 || remote.gid.is_wildcard() {
            return Err(ResolveError::NotADestination);
        }
        let slot = self.slot(index);
        let bound = slot.held.is_some().then(|| slot.local_ip());
        let source = bound.or(source.map(ScopedIp::of));
        if let Some(source) = source {
            if source.gid.is_v4() != remote.gid.is_v4() {
                return Err(ResolveError::FamilyMismatch);
            }
            if !remote.is_complete() {
                remote.scope = source.scope;
            }
            if source.scope != 0 && remote.scope != 0 && source.scope != remote.scope {
                return Err(ResolveError::ScopeMismatch);
            }
        }
        if !remote.is_complete() {
            return Err(ResolveError::Bind { error: BindError::ScopeMissing });
        }
        let chosen = slot.held.has_peer() || self.state(index) == State::AddrResolved;
        if chosen && (slot.remote_ip(), slot.remote_port) != (remote, to.port()) {
            return Err(ResolveError::OtherDestination);
        }
        Ok(remote.with_port(to.port()))
    }

    fn set_destination(&mut self, index: usize, conn: usize, destination: SocketAddr) {
        let remote = ScopedIp::of(destination);
        let slot = self.slot_mut(index);
        slot.conn = Link::to(conn);
        slot.remote = remote.gid;
        slot.remote_port = destination.port();
        if remote.gid.is_link_local() {
            slot.scope = remote.scope;
        }
    }

    /// Undoes what `resolve_addr` did, and says which state that leaves. Who was bound on the way is not
    /// any more, unless it is left alone with a number that the host has reserved for others before: only
    /// `destroy` can return the key of that.
    fn forget_destination(&mut self, index: usize) -> Stage {
        let slot = self.slot(index);
        let stays = !slot.has(flag::BOUND_ON_THE_WAY)
            || self.ports.is_last_of_reserved(slot.held, slot.bound_address());
        let slot = self.slot_mut(index);
        slot.conn = Link::NONE;
        if !(slot.held.has_peer() && stays) {
            slot.remote_port = 0;
            slot.remote = Gid::ZERO;
        }
        if slot.held.is_some() && stays {
            slot.set(flag::BOUND_ON_THE_WAY, false);
            return Stage::AddrBound;
        }
        let _ = self.unbind(index);
        Stage::Idle
    }

    /// A question is open from here on; what the last one led to is old news.
    fn ask(&mut self, index: usize, stage: Stage, why: &'static str) {
        let slot = self.slot_mut(index);
        slot.sequence = slot.sequence.wrapping_add(1);
        self.unmark(index, pending::ADDR_ERROR | pending::ROUTE_ERROR);
        self.set_stage(index, stage, why);
    }

    /// Whether a path to this destination leaves from what the identifier is bound to. On InfiniBand
    /// an IP address and a GID are two things.
    fn may_leave_by(&self, index: usize, path: &Path, remote: Gid) -> bool {
        let slot = self.slot(index);
        let suits = slot.local.is_wildcard() || slot.local_ip() == path.local_ip();
        let same_family = path.local_gid().is_v4() == remote.is_v4();
        matches!(path, Path::Ib(_)) || suits && same_family
    }

    /// The source is known now, even if the identifier is bound to the wildcard.
    fn take_path(&mut self, index: usize, path: &Path) {
        let slot = self.slot_mut(index);
        let local = path.local_ip();
        if slot.has(flag::WILDCARD) && matches!(path, Path::Roce(_)) {
            slot.local = local.gid;
            slot.scope = if local.gid.is_link_local() { local.scope } else { slot.scope };
        }
    }

    fn route_with_options(&self, index: usize, route: &Route) -> Route {
        let slot = self.slot(index);
        let mut route = *route;
        if let Path::Roce(path) = &mut route.path {
            path.traffic_class = slot.tos().unwrap_or(path.traffic_class);
            path.hop_limit = if path.hop_limit != 0 { path.hop_limit } else { 64 };
            if path.flow_label == 0 {
                // As Linux fills it (facts: linux-rdma-cm §5.3).
                let (source, destination) =
                    (u32::from(slot.local_port), u32::from(slot.remote_port));
                path.flow_label = (source * 31 + destination) & 0xf_ffff;
            }
        }
        // 0 says how long the queue pair waits (for ever), not how long packets live.
        if let Some(timeout @ 1..) = slot.ack_timeout() {
            route.packet_lifetime = timeout - 1;
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
        let specific = slot.held.is_some() && !slot.has(flag::WILDCARD);
        Request::ResolveAddr {
            source: specific.then(|| slot.local_ip()),
            destination: slot.remote_ip().with_port(slot.remote_port),
        }
    }
}
