//! What holds of every identifier between two calls: for tests, the model and the fuzzers.

use super::slot::{IdSlot, Stage};
use super::{Ids, State};
use crate::addr::ServiceId;
use crate::conn::{ConnState, Conns};
use crate::slots::Slot;
use alloc::collections::BTreeSet;

impl Ids<'_> {
    /// A walk over everything; panics at what does not hold.
    pub(crate) fn audit(&self, conns: &Conns<'_>) {
        let slots = self.table.slots();
        self.table.audit();
        self.ports.audit(slots, |slot| {
            let holds = slot.is_live() && slot.held.is_some();
            holds.then(|| (slot.held, slot.bound_address()))
        });
        let ready: BTreeSet<_> = self.ready.audit(slots).into_iter().collect();
        let telling = self.live().filter(|(_, slot)| slot.pending != 0);
        let telling: BTreeSet<_> = telling.map(|(index, _)| index).collect();
        assert_eq!(ready, telling, "the list of identifiers with something to tell");
        self.listeners.audit(slots, "the index of listeners", |index| {
            let listens = |slot: &&IdSlot| slot.is_live() && slot.stage.state() == State::Listen;
            let slot = Some(&slots[index]).filter(listens)?;
            let service = ServiceId::new(slot.space(), slot.local_port);
            Some(self.listener_hash(service, slot.bound_address()))
        });
        for (index, slot) in self.live() {
            self.audit_slot(index, slot, conns);
        }
        for (conn, owner) in conns.owners() {
            let mutual = self.table.is_live(owner) && self.conn(owner) == Some(conn);
            assert!(mutual, "connection {conn} belongs to identifier {owner}, which has another");
        }
    }

    /// What a state says of port, connection and requests.
    fn audit_slot(&self, index: usize, slot: &IdSlot, conns: &Conns<'_>) {
        let state = slot.stage.state();
        let (holds, conn) = (slot.held.is_some(), slot.conn.get());
        assert!(!holds || slot.held.port() == slot.local_port, "identifier {index} has two ports");
        let active = matches!(
            state,
            State::AddrQuery | State::AddrResolved | State::RouteQuery | State::RouteResolved
        );
        let (port, connection) = match state {
            State::Idle => (false, false),
            State::AddrBound | State::Listen => (true, false),
            State::AddrResolved | State::RouteQuery | State::RouteResolved => (true, true),
            State::AddrQuery | State::Connect | State::Disconnect => (holds, true),
            State::DeviceRemoval => (holds, false),
        };
        assert_eq!(holds, port, "identifier {index} in {state}: has it a port?");
        assert_eq!(conn.is_some(), connection, "identifier {index} in {state}: a connection?");
        if let Stage::Listen { waiting, backlog } = slot.stage {
            let handle = self.handle(index);
            let requests = self.live().filter(|(_, other)| other.listener() == handle).count();
            assert_eq!(waiting as usize, requests, "requests that listener {index} counts");
            assert!(waiting <= backlog, "listener {index} takes more than its backlog");
        }
        let Some(conn) = conn else { return };
        let owner = conns.owner(conn);
        assert_eq!(owner, Some(index), "connection {conn} of identifier {index} is another's");
        let there = conns.state(conn);
        let fits = match state {
            State::Connect => there != ConnState::DreqRcvd,
            State::Disconnect => {
                use ConnState::*;
                matches!(there, DreqRcvd | Timewait | Idle)
            }
            _ => there == ConnState::Idle,
        };
        assert!(fits, "identifier {index} is in {state}, its connection in {there}");
        let unanswered = matches!(there, ConnState::ReqRcvd | ConnState::SidrReqRcvd);
        let waits = slot.listener().generation != 0;
        assert_eq!(waits, unanswered, "identifier {index} in {there}: does its listener wait?");
        if there == ConnState::Idle {
            let asks = matches!(state, State::AddrQuery | State::RouteQuery);
            assert_eq!(asks, conns.has_deadline(conn), "identifier {index} in {state}: deadline?");
        }
        assert!(!active || slot.remote_port != 0 || !slot.remote.is_wildcard(), "no destination");
    }

    pub(super) fn live(&self) -> impl Iterator<Item = (usize, &IdSlot)> {
        self.table.slots().iter().enumerate().filter(|(_, slot)| slot.is_live())
    }

    /// How many slots there are.
    pub(crate) fn capacity(&self) -> usize {
        self.table.capacity()
    }
}

impl IdSlot {
    fn is_live(&self) -> bool {
        self.generation() & 1 == 1
    }
}
