//! What concerns many identifiers at once: a device that is gone, a link layer that has changed. All
//! slots are visited once round, a few with each unit of `handle_timeout`'s budget.
//!
//! Read first: DESIGN §4 (bursts); reports H1, I4, I5; facts: linux-rdma-cm §5.4.

use super::State;
use super::slot::{Stage, pending};
use crate::addr::ScopedIp;
use crate::cm::Cm;
use crate::conn::ConnState;
use crate::event::DisconnectCause;
use crate::gids::PortEvent;
use crate::slots::Link;
use core::fmt;

/// How many slots are visited for a unit of budget.
const VISITS: u32 = 16;

/// How many addresses may have changed at a time.
const CHANGES: usize = 2;

/// A round through the slots. Each number stands for an identifier's and a connection's.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Visits the next few slots; none: there is nothing to visit them for. Named where an event asks
    /// for it and nowhere else, so a firmware whose devices stay does not carry it.
    pub(crate) visit: Option<fn(&mut Cm<'_>)>,
    /// The next slot.
    at: u32,
    /// How many are still to be visited since a device went.
    removal: u32,
    /// The same since the link layer beneath an address changed.
    changes: [(ScopedIp, u32); CHANGES],
}

impl Sweep {
    /// Whether there are GID entries whose device is gone.
    pub(crate) fn is_removal(&self) -> bool {
        self.removal > 0
    }

    /// Where a changed address goes; nowhere if there are too many.
    fn place_for(&self, address: ScopedIp) -> Option<usize> {
        let same = self.changes.iter().position(|(known, _)| *known == address);
        same.or_else(|| self.changes.iter().position(|(_, left)| *left == 0))
    }
}

fn visit_some(cm: &mut Cm<'_>) {
    for _ in 0..VISITS {
        cm.visit(cm.sweep.at as usize);
        let next = cm.sweep.at + 1;
        cm.sweep.at = if next < cm.round() { next } else { 0 };
        if !cm.sweep.is_removal() && cm.sweep.changes.iter().all(|(_, left)| *left == 0) {
            cm.sweep.visit = None;
            return;
        }
    }
}

impl Cm<'_> {
    /// Takes note of an event of a port. False: not now.
    pub(crate) fn take_port_event(&mut self, event: PortEvent) -> bool {
        match event {
            PortEvent::GidAdded { address, ca_guid } => {
                self.gids.add(ScopedIp::new(address.gid, address.scope), ca_guid)
            }
            PortEvent::GidRemoved { address } => {
                self.gids.remove(ScopedIp::new(address.gid, address.scope));
                true
            }
            PortEvent::DeviceRemoved { ca_guid } => {
                if self.gids.remove_device(ca_guid) {
                    self.sweep.removal = self.round();
                    self.sweep.visit = Some(visit_some);
                }
                true
            }
            PortEvent::AddrChanged { address } => {
                let address = ScopedIp::new(address.gid, address.scope);
                let Some(place) = self.sweep.place_for(address) else { return false };
                self.sweep.changes[place] = (address, self.round());
                self.sweep.visit = Some(visit_some);
                true
            }
        }
    }

    /// How many slots a round has.
    fn round(&self) -> u32 {
        self.ids.table.capacity().max(self.conns.capacity()) as u32
    }

    fn visit(&mut self, at: usize) {
        if let Some(left) = self.sweep.removal.checked_sub(1) {
            if self.conns.farewell_from(at).is_some_and(|index| self.gids.has_gone(index)) {
                self.conns.free(at);
            }
            if self.ids.table.is_live(at) && self.has_lost_its_device(at) {
                self.take_device_away(at);
            }
            self.sweep.removal = left;
            if left == 0 {
                let gids = &self.gids;
                self.conns.drop_replies(|path| gids.is_gone(path.local_ip()));
                self.gids.forget_gone();
            }
        }
        for place in 0..CHANGES {
            let (address, left) = self.sweep.changes[place];
            if left > 0 && self.ids.table.is_live(at) && self.is_connected_at(at, address) {
                self.ids.mark(at, pending::ADDR_CHANGE);
            }
            self.sweep.changes[place].1 = left.saturating_sub(1);
        }
    }

    /// Whether an identifier is bound to an address of a device that is gone, or its connection runs
    /// over one, and it has not been told.
    fn has_lost_its_device(&self, index: usize) -> bool {
        let slot = self.ids.slot(index);
        let state = slot.stage.state();
        // In ADDR_QUERY there is no route yet.
        let conn = slot.conn.get().filter(|_| state != State::AddrQuery);
        let runs = conn.is_some_and(|conn| {
            let (index, local) = (self.conns.gid_index(conn), self.conns.path(conn).local_ip());
            self.gids.has_gone(index) && self.gids.is_gone(local)
        });
        let bound = || self.gids.is_gone(slot.local_ip());
        state != State::DeviceRemoval && (runs || bound())
    }

    fn take_device_away(&mut self, index: usize) {
        // Nobody will see this request.
        if self.ids.is_pending(index, pending::CONNECT_REQUEST) {
            self.let_go(index);
            return;
        }
        let conn = self.ids.conn(index);
        let state = conn.map_or(ConnState::Idle, |conn| self.conns.state(conn));
        // That a connection stood is told, and how it ended; of a datagram service nothing is left.
        let over = pending::ESTABLISHED | pending::DISCONNECTED;
        self.ids.withdraw(index, if state == ConnState::SidrResolved { 0 } else { over });
        if let Some(conn) = conn {
            if matches!(state, ConnState::Established | ConnState::DreqSent) {
                self.ids.disconnected(index, DisconnectCause::Removed);
            }
            self.ids.slot_mut(index).conn = Link::NONE;
            self.conns.free(conn);
        }
        self.ids.set_stage(index, Stage::DeviceRemoval, "the device is gone");
        self.ids.mark(index, pending::DEVICE_REMOVAL);
    }

    /// Whether an identifier's connection stands and has this address on either side.
    fn is_connected_at(&self, index: usize, address: ScopedIp) -> bool {
        let slot = self.ids.slot(index);
        let stands = |conn| self.conns.state(conn) == ConnState::Established;
        slot.conn.get().is_some_and(stands)
            && (slot.local == address.gid || slot.remote == address.gid)
            && (address.scope == 0 || address.scope == slot.scope)
    }
}

#[cfg(feature = "testing")]
impl Sweep {
    pub(crate) fn paint(&self, picture: &mut crate::testing::Picture) {
        let at = if self.visit.is_some() { 1 + u64::from(self.at) } else { 0 };
        picture.put_all([at, u64::from(self.removal)]);
        picture.list(self.changes.iter().map(|(_, left)| *left as usize));
    }
}

/// All but a function's address.
impl fmt::Debug for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sweep")
            .field("at", &self.at)
            .field("removal", &self.removal)
            .field("changes", &self.changes)
            .finish_non_exhaustive()
    }
}
