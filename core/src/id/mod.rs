//! Machine 1, the identifier: librdmacm's view of a connection (`rdma_cm_id`).
//!
//! `Ids` owns the identifiers' slots, the listeners' index, the ports and what the application has
//! not been told yet. It never touches a message. The operations of [`Cm`](crate::Cm) live here, one
//! file per theme: `bind.rs`, `resolve.rs`, `listen.rs`, `connect.rs`, `destroy.rs`; `sweep.rs` has
//! what concerns many at once.

#[cfg(feature = "testing")]
mod audit;
mod bind;
mod connect;
mod destroy;
mod listen;
mod options;
#[cfg(feature = "testing")]
mod picture;
mod resolve;
mod slot;
mod state;
mod sweep;

pub use options::{IdOption, Transports};
pub use state::{State, TRANSITIONS};

pub use slot::IdSlot;

pub(crate) use sweep::Sweep;

use crate::addr::PortSpace;
use crate::conn::{Conns, Endpoints};
use crate::event::{DisconnectCause, Event, EventKind, Unreachable};
use crate::handle::Id;
use crate::hash::Key;
use crate::port::Ports;
use crate::slots::{Chains, Link, List, Slot, Table};
use crate::wire::SidrStatus;
use slot::{CHAIN, READY, Stage, flag, pending};

/// Every identifier.
#[derive(Debug)]
pub(crate) struct Ids<'s> {
    table: Table<'s, IdSlot>,
    listeners: Chains<'s, CHAIN>,
    /// Identifiers with something to tell, in order.
    ready: List<READY>,
    pub(crate) ports: Ports<'s>,
    key: Key,
}

impl<'s> Ids<'s> {
    pub(crate) fn new(
        slots: &'s mut [IdSlot],
        listener_heads: &'s mut [Link],
        ports: Ports<'s>,
        key: Key,
    ) -> Option<Ids<'s>> {
        Some(Ids {
            table: Table::new(slots),
            listeners: Chains::new(listener_heads)?,
            ready: List::new(),
            ports,
            key,
        })
    }

    /// A fresh identifier.
    fn claim(&mut self, space: PortSpace, user: u64) -> Option<usize> {
        let index = self.table.claim()?;
        self.slot_mut(index).clear(space, user);
        Some(index)
    }

    /// The slot of a live handle.
    pub(crate) fn find(&self, id: Id) -> Option<usize> {
        self.table.get(id.index as usize, id.generation).map(|_| id.index as usize)
    }

    /// The handle of a slot.
    pub(crate) fn handle(&self, index: usize) -> Id {
        Id { index: index as u32, generation: self.slot(index).generation() }
    }

    fn slot(&self, index: usize) -> &IdSlot {
        &self.table.slots()[index]
    }

    fn slot_mut(&mut self, index: usize) -> &mut IdSlot {
        &mut self.table.slots_mut()[index]
    }

    pub(crate) fn state(&self, index: usize) -> State {
        self.slot(index).stage.state()
    }

    /// The connection of an identifier, if it has one.
    pub(crate) fn conn(&self, index: usize) -> Option<usize> {
        self.slot(index).conn.get()
    }

    /// The only writer of an identifier's state.
    fn set_stage(&mut self, index: usize, next: Stage, why: &'static str) {
        let slot = self.slot_mut(index);
        let (from, to) = (slot.stage.state(), next.state());
        debug_assert!(from.may_become(to), "{from} -> {to} ({why})");
        debug!("id {}: {} -> {} ({})", index, from.name(), to.name(), why);
        slot.stage = next;
    }

    pub(crate) fn endpoints(&self, index: usize) -> Endpoints {
        let slot = self.slot(index);
        Endpoints {
            space: slot.space(),
            local: slot.local_ip(),
            local_port: slot.local_port,
            remote: slot.remote_ip(),
            remote_port: slot.remote_port,
        }
    }

    /// Marks what the application is to be told.
    fn mark(&mut self, index: usize, event: u16) {
        self.slot_mut(index).pending |= event;
        self.ready.push_back(self.table.slots_mut(), index);
    }

    /// Takes back what it was not told yet.
    fn unmark(&mut self, index: usize, events: u16) {
        let slot = self.slot_mut(index);
        slot.pending &= !events;
        if slot.pending == 0 {
            self.ready.remove(self.table.slots_mut(), index);
        }
    }

    /// Whether it was made for a request.
    pub(crate) fn is_passive(&self, index: usize) -> bool {
        self.slot(index).has(flag::PASSIVE)
    }

    /// Whether the application has been told ESTABLISHED and not yet DISCONNECTED.
    pub(crate) fn owes_disconnected(&self, index: usize) -> bool {
        self.slot(index).has(flag::OWES_DISCONNECTED)
    }

    /// Whether the application has not been told this yet.
    fn is_pending(&self, index: usize, event: u16) -> bool {
        self.slot(index).pending & event != 0
    }

    /// Whether the application has been told everything.
    pub(crate) fn is_silent(&self) -> bool {
        self.ready.is_empty()
    }

    /// The next thing to tell. An identifier's own events come in the order of `pending`'s bits,
    /// which is the order in which they can happen.
    pub(crate) fn next_event(&mut self, conns: &Conns<'_>) -> Option<Event> {
        let index = self.ready.pop_front(self.table.slots_mut())?;
        let slot = self.slot_mut(index);
        let event = slot.pending & slot.pending.wrapping_neg();
        slot.pending &= !event;
        match event {
            // A datagram service is found and needs no end.
            pending::ESTABLISHED => {
                slot.set(flag::OWES_DISCONNECTED, slot.space().is_connected());
            }
            pending::DISCONNECTED => slot.set(flag::OWES_DISCONNECTED, false),
            _ => {}
        }
        if slot.pending != 0 {
            self.ready.push_back(self.table.slots_mut(), index);
        }
        let kind = self.describe(index, event, conns);
        Some(Event { id: self.handle(index), user: self.slot(index).user(), kind })
    }

    /// Apart: as part of another function its result would be put together octet by octet.
    #[inline(never)]
    fn describe(&self, index: usize, event: u16, conns: &Conns<'_>) -> EventKind {
        let slot = self.slot(index);
        let peer = || slot.conn.get().map(|conn| conns.peer_param(conn)).unwrap_or_default();
        match event {
            pending::CONNECT_REQUEST => {
                EventKind::ConnectRequest { listener: slot.listener(), peer: peer() }
            }
            pending::ADDR_RESOLVED => EventKind::AddrResolved,
            pending::ADDR_ERROR => EventKind::AddrError(slot.errno()),
            pending::ROUTE_RESOLVED => EventKind::RouteResolved,
            pending::ROUTE_ERROR => EventKind::RouteError(slot.errno()),
            pending::CONNECT_RESPONSE => EventKind::ConnectResponse { peer: peer() },
            pending::ESTABLISHED => EventKind::Established,
            pending::CONNECT_ERROR => EventKind::ConnectError(slot.errno()),
            pending::UNREACHABLE if slot.error == 0 => EventKind::Unreachable(Unreachable::Timeout),
            pending::UNREACHABLE => EventKind::Unreachable(Unreachable::SendFailed(slot.errno())),
            pending::REJECTED => {
                let reason = slot.conn.get().map(|conn| conns.reason(conn)).unwrap_or_default();
                match slot.space().is_connected() {
                    true => EventKind::Rejected(reason),
                    false => EventKind::SidrRejected(SidrStatus(reason.0 as u8)),
                }
            }
            pending::DISCONNECTED => EventKind::Disconnected(slot.cause),
            pending::ADDR_CHANGE => EventKind::AddrChange,
            pending::DEVICE_REMOVAL => EventKind::DeviceRemoval,
            _ => EventKind::TimewaitExit,
        }
    }

    /// `CONNECT` is over for the application.
    fn disconnected(&mut self, index: usize, cause: DisconnectCause) {
        self.slot_mut(index).cause = cause;
        self.set_stage(index, Stage::Disconnect, cause.name());
        self.mark(index, pending::DISCONNECTED);
    }

    /// Whether nothing is left: no identifier, port, listener or event. A walk, for tests.
    pub(crate) fn is_clean(&self) -> bool {
        self.table.is_empty()
            && self.listeners.is_empty()
            && self.ready.is_empty()
            && self.ports.is_clean()
    }

    /// How many identifiers there are.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}
