//! Listening: who owns a service ID, and how many unanswered requests it may have.
//!
//! Read first: facts linux-rdma-cm §1.7 (what a listener accepts); reports G1 (backlog).

use super::slot::{CHAIN, Stage, flag, pending};
use super::{Ids, State};
use crate::addr::{Gid, ScopedIp, ServiceId};
use crate::cm::Cm;
use crate::conn::Transport;
use crate::error::ListenError;
use crate::handle::Id;
use crate::slots::Link;
use crate::wire::IpCmHeader;

impl Cm<'_> {
    /// Lets a bound identifier listen (`rdma_listen`) for at most `backlog` requests that are neither
    /// accepted nor rejected; 0 stands for the engine's default. One more is dropped silently, for the
    /// peer to repeat it, or rejected ([`IdOption::RejectWhenFull`](crate::IdOption)).
    ///
    /// # Errors
    /// [`ListenError`]; the identifier is as it was.
    pub fn listen(&mut self, id: Id, backlog: u32) -> Result<(), ListenError> {
        let index = self.ids.find(id).ok_or(ListenError::NoSuchId)?;
        let state = self.ids.state(index);
        if state != State::AddrBound {
            return Err(ListenError::in_state(state));
        }
        let backlog = if backlog == 0 { self.conns.config.default_backlog.max(1) } else { backlog };
        self.ids.start_listening(index, backlog)
    }
}

impl Ids<'_> {
    fn start_listening(&mut self, index: usize, backlog: u32) -> Result<(), ListenError> {
        let slot = self.slot(index);
        let (local, mut held) = (slot.bound_address(), slot.held);
        let space = slot.space();
        let hash = self.listener_hash(ServiceId::new(space, slot.local_port), local);
        self.ports.listen(&mut held, local).map_err(|_| ListenError::ListenConflict)?;
        let slot = self.slot_mut(index);
        slot.held = held;
        self.set_stage(index, Stage::Listen { backlog, waiting: 0 }, "listen");
        self.listeners.insert(self.table.slots_mut(), hash, index);
        Ok(())
    }

    /// Takes a listener out of the index. Requests it has not answered go on without it.
    pub(super) fn stop_listening(&mut self, index: usize) {
        let slot = self.slot(index);
        let service = ServiceId::new(slot.space(), slot.local_port);
        let hash = self.listener_hash(service, slot.bound_address());
        self.listeners.remove(self.table.slots_mut(), hash, index);
    }

    /// The listener for a service ID at a local address: one bound to the address, else one bound to
    /// the wildcard of its family, else to that of both.
    pub(crate) fn find_listener(&self, service: ServiceId, local: ScopedIp) -> Option<usize> {
        if let Some(specific) = self.find_bound(service, local, false) {
            return Some(specific);
        }
        let v6 = ScopedIp::new(Gid::ZERO, 0);
        if !local.gid.is_v4() {
            return self.find_bound(service, v6, true);
        }
        let v4 = ScopedIp::new(Gid::V4_WILDCARD, 0);
        self.find_bound(service, v4, true).or_else(|| {
            self.find_bound(service, v6, true).filter(|&index| !self.slot(index).has(flag::AF_ONLY))
        })
    }

    /// The listener for a service ID that is bound to this address.
    fn find_bound(&self, service: ServiceId, local: ScopedIp, wildcard: bool) -> Option<usize> {
        let (space, port) = service.to_port()?;
        let hash = self.listener_hash(service, local);
        self.listeners.find(self.table.slots(), hash, |slot| {
            slot.local_port == port
                && slot.has(flag::WILDCARD) == wildcard
                && slot.local_ip() == local
                && slot.space() == space
        })
    }

    /// Whether anything may be listening on a service ID, at whichever address: somebody owns its port.
    pub(crate) fn may_be_listened_on(&self, service: ServiceId) -> bool {
        service.to_port().is_some_and(|(space, port)| self.ports.is_owned(space, port))
    }

    /// Whether a listener can take one more request.
    pub(crate) fn has_room(&self, listener: usize) -> bool {
        match self.slot(listener).stage {
            Stage::Listen { backlog, waiting } => waiting < backlog,
            _ => false,
        }
    }

    /// Whether a listener takes queue pairs of this transport.
    pub(crate) fn takes_transport(&self, listener: usize, transport: Transport) -> bool {
        self.slot(listener).transports().has(transport)
    }

    /// Whether a listener rejects the request that it cannot take.
    pub(crate) fn rejects_when_full(&self, listener: usize) -> bool {
        self.slot(listener).has(flag::REJECT_WHEN_FULL)
    }

    /// A new identifier for a request to `listener`; `None` if there is none left.
    pub(crate) fn admit(&mut self, listener: usize) -> Option<usize> {
        let (space, user) = (self.slot(listener).space(), self.slot(listener).user());
        let index = self.claim(space, user)?;
        Some(index)
    }

    /// The new identifier has its connection: the application is told.
    pub(crate) fn request(
        &mut self,
        index: usize,
        listener: usize,
        conn: usize,
        header: &IpCmHeader,
        scope: u32,
    ) {
        let id = self.handle(listener);
        let local_port = self.slot(listener).local_port;
        if let Stage::Listen { waiting, .. } = &mut self.slot_mut(listener).stage {
            *waiting += 1;
        }
        let slot = self.slot_mut(index);
        slot.conn = Link::to(conn);
        slot.local = header.destination;
        slot.remote = header.source;
        slot.scope = scope;
        slot.local_port = local_port;
        slot.remote_port = header.source_port;
        slot.set(flag::PASSIVE, true);
        let stage = Stage::Connect { listener_index: id.index, listener_generation: id.generation };
        self.set_stage(index, stage, "REQ received (a new ID)");
        self.mark(index, pending::CONNECT_REQUEST);
    }

    /// A request is neither pending nor unanswered any more: its unit of backlog is free.
    pub(super) fn answered(&mut self, index: usize) {
        let listener = self.slot(index).listener();
        if listener.generation == 0 {
            return;
        }
        // No move: what is valid in the state.
        self.slot_mut(index).stage = Stage::CONNECT;
        if let Some(listener) = self.find(listener)
            && let Stage::Listen { waiting, .. } = &mut self.slot_mut(listener).stage
        {
            *waiting = waiting.saturating_sub(1);
        }
    }

    /// A request that lost its listener before anybody saw it, if it is the next thing to be told.
    /// Nobody will see it, so it is let go: one with each `poll_transmit`, all at once by `poll_event`,
    /// which has nothing to tell before. A burst as long as the backlog.
    pub(crate) fn next_orphan(&self) -> Option<usize> {
        let index = self.ready.front()?;
        let unseen = self.is_pending(index, pending::CONNECT_REQUEST);
        (unseen && self.find(self.slot(index).listener()).is_none()).then_some(index)
    }

    pub(super) fn listener_hash(&self, service: ServiceId, local: ScopedIp) -> u32 {
        let [a, b, c, d] = local.gid.words();
        self.key.mix(&[service.0 as u32, local.scope, a, b, c, d])
    }
}

/// The chain of listeners is this one.
const _: () = assert!(CHAIN != crate::port::TUPLE);
