//! What an application may be told, and when: one identifier at a time.

use super::Watch;
use crate::testing::Picture;
use crate::{ConnState, Event, EventKind, Id, Path, PortSpace, State};
use std::mem;

/// What the application knows of one of its identifiers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    phase: Phase,
    /// Which event ended it.
    end: Option<EventKind>,
    /// The path it was given, or the host's.
    pub(super) route: Option<Path>,
    /// The communication ID of its attempt, once it has sent one.
    pub(super) comm_id: Option<u32>,
    /// ADDR_RESOLVED or ADDR_ERROR is to come; ROUTE_RESOLVED or ROUTE_ERROR.
    addr_asked: bool,
    route_asked: bool,
    /// Of a datagram port space: ESTABLISHED is the end of the question, there is no connection.
    datagram: bool,
    /// CONNECT_RESPONSE has come; TIMEWAIT_EXIT has.
    response: bool,
    timewait_over: bool,
}

impl Known {
    pub(super) fn paint(&self, picture: &mut Picture) {
        let flags = [self.addr_asked, self.route_asked, self.response, self.timewait_over];
        picture.put(self.phase as u64);
        picture.put_all(flags.map(u64::from));
    }
}

/// Where the application thinks its attempt or connection is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Phase {
    /// There is none yet, or none any more since `reset`.
    #[default]
    None,
    /// Asked for, by `connect` or CONNECT_REQUEST.
    Attempt,
    /// ESTABLISHED has come.
    Standing,
    /// It has ended: an event said so, or the application rejected it.
    Over,
    /// DEVICE_REMOVAL has come.
    Removed,
}

impl Phase {
    /// Whether a connection may be in this state when all events have been fetched.
    fn agrees(self, state: ConnState) -> bool {
        use ConnState::*;
        match self {
            Phase::None => state == Idle,
            Phase::Attempt => {
                let sidr = matches!(state, SidrReqSent | SidrReqRcvd);
                sidr || matches!(state, ReqSent | ReqRcvd | RepRcvd | RepSent)
            }
            Phase::Standing => matches!(state, Established | DreqSent),
            Phase::Over => {
                let sidr = matches!(state, SidrResolved | SidrRepSent);
                sidr || matches!(state, Idle | Timewait | DreqRcvd | RejSent)
            }
            Phase::Removed => state == Idle,
        }
    }
}

impl Watch<'_> {
    /// The identifiers that the application has, and where it thinks they are.
    pub fn known(&self) -> impl Iterator<Item = (Id, Phase)> {
        self.known.iter().map(|(&id, known)| (id, known.phase))
    }

    /// The event that ended an identifier's attempt or connection.
    pub fn end(&self, id: Id) -> Option<EventKind> {
        self.known.get(&id)?.end
    }

    /// What is known of an identifier that the engine has just found.
    pub(super) fn knows(&mut self, id: Id) -> &mut Known {
        self.known.get_mut(&id).unwrap_or_else(|| panic!("{id:?} is accepted and nobody has it"))
    }

    pub(super) fn created(&mut self, id: Id, space: PortSpace) {
        let known = Known { datagram: !space.is_connected(), ..Known::default() };
        let before = self.known.insert(id, known);
        assert!(before.is_none(), "{id:?} was made twice");
    }

    pub(super) fn destroyed(&mut self, id: Id) {
        self.knows(id);
        self.known.remove(&id);
    }

    pub(super) fn asked_address(&mut self, id: Id) {
        self.knows(id).addr_asked = true;
    }

    pub(super) fn asked_route(&mut self, id: Id) {
        self.knows(id).route_asked = true;
    }

    /// A route of the caller's; an error that was not fetched before is old news.
    pub(super) fn given_route(&mut self, id: Id, path: Path, resolved: bool) {
        let known = self.knows(id);
        known.route = Some(path);
        known.route_asked = false;
        known.addr_asked &= resolved;
    }

    pub(super) fn host_found(&mut self, id: Id, path: Path) {
        self.knows(id).route = Some(path);
    }

    /// An operation that goes from one phase to another.
    pub(super) fn moved(&mut self, id: Id, call: &str, from: &[Phase], to: Option<Phase>) {
        let known = self.knows(id);
        let phase = known.phase;
        assert!(from.contains(&phase), "{id:?}: {call} succeeds, though it is in {phase:?}");
        known.phase = to.unwrap_or(phase);
        match known.phase {
            Phase::None => {
                let Known { route, datagram, .. } = *known;
                *known = Known { route, datagram, ..Known::default() };
            }
            Phase::Attempt if to.is_some() => {
                (known.response, known.timewait_over, known.comm_id) = (false, false, None);
            }
            _ => {}
        }
    }

    /// `accept`: of a datagram service that is all.
    pub(super) fn accepted(&mut self, id: Id) {
        let to = self.knows(id).datagram.then_some(Phase::Over);
        self.moved(id, "accept", &[Phase::Attempt], to);
    }

    pub(super) fn told(&mut self, event: &Event) {
        let Event { id, kind, user } = *event;
        let limit = self.cm.ids.capacity() * u16::BITS as usize;
        assert!(self.events <= limit, "events without end: {event:?}");
        if let EventKind::ConnectRequest { listener, .. } = kind {
            assert!(self.known.contains_key(&listener), "a request to {listener:?}, nobody's");
            assert_eq!(self.cm.state(listener), Ok(State::Listen), "a request to {listener:?}");
            let datagram = self.knows(listener).datagram;
            let known = Known { phase: Phase::Attempt, datagram, ..Known::default() };
            let before = self.known.insert(id, known);
            assert!(before.is_none(), "{id:?} is told as new twice");
            return;
        }
        let known = self.known.get_mut(&id);
        let known = known.unwrap_or_else(|| panic!("{kind:?} for {id:?} ({user}), nobody's"));
        let Known { phase, datagram, .. } = *known;
        let (legal, next) = match kind {
            EventKind::AddrResolved | EventKind::AddrError(_) => {
                (mem::take(&mut known.addr_asked), phase)
            }
            EventKind::RouteResolved | EventKind::RouteError(_) => {
                (mem::take(&mut known.route_asked), phase)
            }
            EventKind::ConnectResponse { .. } => {
                (phase == Phase::Attempt && !mem::replace(&mut known.response, true), phase)
            }
            EventKind::Established if datagram => (phase == Phase::Attempt, Phase::Over),
            EventKind::Established => (phase == Phase::Attempt, Phase::Standing),
            EventKind::AddrChange => (phase == Phase::Standing, phase),
            EventKind::Rejected(_) => (phase == Phase::Attempt && !datagram, Phase::Over),
            EventKind::SidrRejected(_) => (phase == Phase::Attempt && datagram, Phase::Over),
            EventKind::Unreachable(_) | EventKind::ConnectError(_) => {
                (phase == Phase::Attempt, Phase::Over)
            }
            EventKind::Disconnected(_) => {
                (matches!(phase, Phase::Attempt | Phase::Standing), Phase::Over)
            }
            EventKind::TimewaitExit => {
                (phase == Phase::Over && !mem::replace(&mut known.timewait_over, true), phase)
            }
            EventKind::DeviceRemoval => {
                (known.addr_asked, known.route_asked) = (false, false);
                (!matches!(phase, Phase::Standing | Phase::Removed), Phase::Removed)
            }
            EventKind::ConnectRequest { .. } => (false, phase),
        };
        assert!(legal, "{id:?} in {phase:?} is told {kind:?}");
        known.phase = next;
        if next != phase && matches!(next, Phase::Over | Phase::Removed) {
            known.end = Some(kind);
        }
        let owes = self.cm.owes_disconnected(id);
        assert_eq!(owes, Ok(next == Phase::Standing), "{id:?} is told {kind:?}: is an end owed?");
    }

    /// All events have been fetched: the application knows what the engine knows.
    pub(super) fn nothing_to_tell(&self) {
        let (ids, _) = self.cm.in_use();
        assert_eq!(ids, self.known.len(), "identifiers in use, and those that somebody has");
        for (&id, known) in &self.known {
            let state = self.cm.state(id).unwrap_or_else(|_| panic!("{id:?} is gone by itself"));
            let conn = self.cm.conn_state(id).unwrap_or_default();
            let phase = known.phase;
            assert!(phase.agrees(conn), "{id:?}: the application is in {phase:?}, CM in {conn}");
            let (is_removed, told) = (state == State::DeviceRemoval, phase == Phase::Removed);
            assert_eq!(is_removed, told, "{id:?} in {state}: has it lost its device?");
            let asked = known.addr_asked && state != State::AddrQuery
                || known.route_asked && state != State::RouteQuery;
            assert!(!asked, "{id:?} in {state}: a question was never answered");
        }
    }
}
