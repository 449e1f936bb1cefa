//! The engine's methods, watched. They take and give what the engine's do.

use super::Watch;
use super::app::Phase;
use crate::error::{
    BindError, ConnectError, CreateError, ListenError, OpError, ResolveError, Stale,
};
use crate::port::{PortKey, Proposal};
use crate::wire::roce::FrameFault;
use crate::wire::{Mad, RejectReason};
use crate::{
    ConnParam, Disposition, Event, Id, IdOption, Instant, Outcome, Path, PortEvent, PortSpace,
    Request, RequestId, Route, SendToken, State, Transmit,
};
use core::net::SocketAddr;
use core::time::Duration;

/// Calls that move no attempt: the engine's, and an audit.
macro_rules! plain {
    ($($name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {$(
        #[allow(missing_docs)]
        pub fn $name(&mut self, $($arg: $type),*) -> $out {
            let out = self.cm.$name($($arg),*);
            self.went_in();
            out
        }
    )*};
}

/// Calls on an identifier that, if they succeed, take it from one phase to another.
macro_rules! moves {
    ($($name:ident($($arg:ident: $type:ty),*) of $id:ident: $from:expr, $to:expr;)*) => {$(
        #[allow(missing_docs)]
        pub fn $name(&mut self, $($arg: $type),*) -> Result<(), ConnectError> {
            let done = self.cm.$name($($arg),*);
            if done.is_ok() {
                self.moved($id, stringify!($name), &$from, $to);
            }
            self.went_in();
            done
        }
    )*};
}

impl Watch<'_> {
    plain! {
        bind(id: Id, local: SocketAddr) -> Result<u16, BindError>;
        propose_port(
            id: Id, local: SocketAddr, remote: Option<SocketAddr>
        ) -> Result<Proposal, BindError>;
        bind_reserved(id: Id, key: PortKey, remote: Option<SocketAddr>) -> Result<(), BindError>;
        listen(id: Id, backlog: u32) -> Result<(), ListenError>;
        set_user(id: Id, user: u64) -> Result<(), OpError>;
        set_option(id: Id, option: IdOption) -> Result<(), OpError>;
        poll_request() -> Option<(RequestId, Request)>;
    }

    moves! {
        connect(now: Instant, id: Id, param: &ConnParam<'_>) of id:
            [Phase::None], Some(Phase::Attempt);
        reject(now: Instant, id: Id, reason: RejectReason, data: &[u8]) of id:
            [Phase::Attempt], Some(Phase::Over);
        establish(now: Instant, id: Id, data: &[u8]) of id: [Phase::Attempt], None;
        notify_established(now: Instant, id: Id) of id: [Phase::Attempt], None;
        disconnect(now: Instant, id: Id, data: &[u8]) of id:
            [Phase::Attempt, Phase::Standing, Phase::Over], None;
        reset(id: Id) of id:
            [Phase::Attempt, Phase::Standing, Phase::Over], Some(Phase::None);
    }

    #[allow(missing_docs)]
    pub fn create_id(&mut self, space: PortSpace, user: u64) -> Result<Id, CreateError> {
        let made = self.cm.create_id(space, user);
        if let Ok(id) = made {
            self.created(id, space);
        }
        self.went_in();
        made
    }

    #[allow(missing_docs)]
    pub fn accept(
        &mut self,
        now: Instant,
        id: Id,
        param: &ConnParam<'_>,
    ) -> Result<(), ConnectError> {
        let done = self.cm.accept(now, id, param);
        if done.is_ok() {
            self.accepted(id);
        }
        self.went_in();
        done
    }

    #[allow(missing_docs)]
    pub fn destroy(&mut self, now: Instant, id: Id) -> Result<Option<PortKey>, OpError> {
        let done = self.cm.destroy(now, id);
        if done.is_ok() {
            self.destroyed(id);
        }
        self.went_in();
        done
    }

    #[allow(missing_docs)]
    pub fn resolve_addr(
        &mut self,
        now: Instant,
        id: Id,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        timeout: Duration,
    ) -> Result<(), ResolveError> {
        let done = self.cm.resolve_addr(now, id, source, destination, timeout);
        if done.is_ok() {
            self.asked_address(id);
        }
        self.went_in();
        done
    }

    #[allow(missing_docs)]
    pub fn resolve_route(
        &mut self,
        now: Instant,
        id: Id,
        timeout: Duration,
    ) -> Result<(), ResolveError> {
        let done = self.cm.resolve_route(now, id, timeout);
        if done.is_ok() {
            self.asked_route(id);
        }
        self.went_in();
        done
    }

    #[allow(missing_docs)]
    pub fn set_route(
        &mut self,
        now: Instant,
        id: Id,
        destination: SocketAddr,
        route: &Route,
    ) -> Result<(), ResolveError> {
        let resolved = self.cm.state(id) == Ok(State::AddrResolved);
        let done = self.cm.set_route(now, id, destination, route);
        if done.is_ok() {
            self.given_route(id, route.path, resolved);
        }
        self.went_in();
        done
    }

    #[allow(missing_docs)]
    pub fn handle_completion(
        &mut self,
        now: Instant,
        request: RequestId,
        outcome: Outcome,
    ) -> Result<(), Stale> {
        let done = self.cm.handle_completion(now, request, outcome);
        if done.is_ok() {
            match outcome {
                Outcome::AddrResolved { path } => self.host_found(request.id, path),
                Outcome::RouteResolved { route } => self.host_found(request.id, route.path),
                Outcome::Failed(_) => {}
            }
        }
        self.went_in();
        done
    }

    #[allow(missing_docs)]
    pub fn handle_datagram(&mut self, now: Instant, path: &Path, mad: &[u8]) -> Disposition {
        self.received(path, mad);
        let disposition = self.cm.handle_datagram(now, path, mad);
        self.ledger.disposed(disposition);
        self.went_in();
        disposition
    }

    #[allow(missing_docs)]
    #[must_use]
    pub fn handle_port_event(&mut self, now: Instant, event: PortEvent) -> bool {
        let taken = self.cm.handle_port_event(now, event);
        self.went_in();
        taken
    }

    #[allow(missing_docs)]
    pub fn handle_frame_fault(&mut self, fault: FrameFault) -> Disposition {
        let disposition = self.cm.handle_frame_fault(fault);
        self.ledger.disposed(disposition);
        self.went_in();
        disposition
    }

    #[allow(missing_docs)]
    pub fn handle_bad_icrc(&mut self) -> Disposition {
        let disposition = self.cm.handle_bad_icrc();
        self.ledger.disposed(disposition);
        self.went_in();
        disposition
    }

    #[allow(missing_docs)]
    pub fn handle_send_failed(&mut self, now: Instant, token: SendToken, errno: i32) {
        self.cm.handle_send_failed(now, token, errno);
        self.ledger.send_failed = self.ledger.send_failed.wrapping_add(1);
        self.went_in();
    }

    #[allow(missing_docs)]
    #[must_use]
    pub fn handle_timeout(&mut self, now: Instant, budget: usize) -> bool {
        let before = self.due(now);
        let more = self.cm.handle_timeout(now, budget);
        if let (Some(before), Some(after)) = (before, self.due(now)) {
            let handled = before.saturating_sub(after);
            assert_eq!(handled, before.min(budget), "deadlines handled, of {before}, in {budget}");
            assert_eq!(more, after > 0, "{after} deadlines are due");
        }
        self.went_in();
        more
    }

    #[allow(missing_docs)]
    #[must_use]
    pub fn poll_transmit(&mut self, now: Instant, mad: &mut Mad) -> Option<Transmit> {
        let transmit = self.cm.poll_transmit(now, mad);
        match &transmit {
            Some(transmit) => {
                self.transmits += 1;
                self.changes += 1;
                self.sent(transmit, mad);
                self.ledger.check(self.cm.counters());
            }
            None => self.nothing_to_send(),
        }
        transmit
    }

    #[allow(missing_docs)]
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.cm.poll_event();
        match &event {
            Some(event) => {
                self.events += 1;
                self.told(event);
            }
            None => self.drained(),
        }
        event
    }
}
