//! `create_id` and binding: how an identifier gets its address and port.
//!
//! Read first: facts linux-rdma-cm §2 (ports); DESIGN §5.

use super::slot::{Stage, flag};
use super::{Ids, State};
use crate::addr::{Gid, PortSpace, ScopedIp};
use crate::cm::Cm;
use crate::error::{BindError, CreateError, OpError};
use crate::handle::Id;
use crate::port::{PortError, PortKey, Proposal, Want};
use core::net::SocketAddr;

impl Cm<'_> {
    /// Makes an identifier in IDLE (`rdma_create_id`). `user` comes back with each of its events.
    ///
    /// # Errors
    /// [`CreateError::Full`].
    pub fn create_id(&mut self, space: PortSpace, user: u64) -> Result<Id, CreateError> {
        let index = self.ids.claim(space, user).ok_or(CreateError::Full)?;
        Ok(self.ids.handle(index))
    }

    /// Binds an idle identifier (`rdma_bind_addr`): to a local address or the wildcard, to a port or
    /// (0) any free one. Returns the port. The number is one of RDMA's own; a host that wants it
    /// held in its TCP port space too goes by [`propose_port`](Cm::propose_port).
    ///
    /// # Errors
    /// [`BindError`]; the identifier is as it was.
    pub fn bind(&mut self, id: Id, local: SocketAddr) -> Result<u16, BindError> {
        let index = self.bindable(id, local)?;
        self.ids.take_port(index, local, None, None)?;
        self.ids.set_stage(index, Stage::AddrBound, "bind");
        Ok(self.ids.slot(index).local_port)
    }

    /// What a bind would need of the host: whether a port it holds already serves, or which one it
    /// should reserve. All RDMA rules have been applied; nothing but the search's starting point has
    /// changed. Reserve the port, outside of any lock around the engine, then
    /// [`bind_reserved`](Cm::bind_reserved). With `remote`, for an active identifier whose port needs
    /// to be free towards that peer alone.
    ///
    /// # Errors
    /// [`BindError`]; the identifier is as it was.
    pub fn propose_port(
        &mut self,
        id: Id,
        local: SocketAddr,
        remote: Option<SocketAddr>,
    ) -> Result<Proposal, BindError> {
        let index = self.bindable(id, local)?;
        let want = self.ids.want(index, local, remote);
        let proposal = self.ids.ports.propose(&want, self.ids.table.slots())?;
        Ok(proposal)
    }

    /// Binds to a proposed port that the host has reserved.
    ///
    /// # Errors
    /// [`BindError`]: another bind may have come between. The identifier is as it was, the
    /// reservation the caller's to release.
    pub fn bind_reserved(
        &mut self,
        id: Id,
        key: PortKey,
        remote: Option<SocketAddr>,
    ) -> Result<(), BindError> {
        let local = key.local.with_port(key.port);
        let index = self.bindable(id, local)?;
        if key.port == 0 || key.space != self.ids.slot(index).space().numbers() {
            return Err(BindError::WrongKey);
        }
        self.ids.take_port(index, local, remote, Some(key))?;
        self.ids.set_stage(index, Stage::AddrBound, "bind");
        Ok(())
    }

    /// The port space it was made in.
    ///
    /// # Errors
    /// [`OpError::NoSuchId`].
    pub fn port_space(&self, id: Id) -> Result<PortSpace, OpError> {
        let index = self.ids.find(id).ok_or(OpError::NoSuchId)?;
        Ok(self.ids.slot(index).space())
    }

    /// Checks all that does not concern the port.
    fn bindable(&self, id: Id, local: SocketAddr) -> Result<usize, BindError> {
        let index = self.ids.find(id).ok_or(BindError::NoSuchId)?;
        match self.ids.state(index) {
            State::Idle => self.check_local(local).map(|()| index),
            state => Err(BindError::in_state(state)),
        }
    }

    pub(super) fn check_local(&self, local: SocketAddr) -> Result<(), BindError> {
        let address = ScopedIp::of(local);
        if address.gid.is_wildcard() {
            return Ok(());
        }
        if !address.is_complete() {
            return Err(BindError::ScopeMissing);
        }
        match self.gids.find(address) {
            Some(_) => Ok(()),
            None => Err(BindError::AddrNotLocal),
        }
    }
}

impl Ids<'_> {
    fn want(&self, index: usize, local: SocketAddr, remote: Option<SocketAddr>) -> Want {
        let (slot, address) = (self.slot(index), ScopedIp::of(local));
        // Linux's default: IPv4 alone, or (IPv6 wildcard) both families.
        let af_only =
            if slot.has(flag::AF_EXPLICIT) { slot.has(flag::AF_ONLY) } else { address.gid.is_v4() };
        Want {
            space: slot.space(),
            local: address,
            port: local.port(),
            reuse: slot.has(flag::REUSE),
            af_only,
            remote: remote.map(|remote| (ScopedIp::of(remote), remote.port())),
        }
    }

    /// Takes a port for an identifier, one that the host has reserved if there is a key, and writes its
    /// addresses. On error nothing has changed.
    pub(super) fn take_port(
        &mut self,
        index: usize,
        local: SocketAddr,
        remote: Option<SocketAddr>,
        key: Option<PortKey>,
    ) -> Result<(), BindError> {
        let want = self.want(index, local, remote);
        let slots = self.table.slots_mut();
        let (held, port) = match key {
            Some(key) => (self.ports.bind_reserved(&want, key, slots, index)?, key.port),
            None => self.ports.bind(&want, slots, index)?,
        };
        let slot = self.slot_mut(index);
        slot.held = held;
        slot.local = want.local.gid;
        slot.local_port = port;
        slot.scope = want.local.scope.max(want.remote.map_or(0, |(remote, _)| remote.scope));
        slot.set(flag::WILDCARD, want.local.gid.is_wildcard());
        if let Some((remote, remote_port)) = want.remote {
            slot.remote = remote.gid;
            slot.remote_port = remote_port;
        }
        Ok(())
    }

    /// REUSEADDR, on a port that it may have already.
    pub(super) fn share_port(&mut self, index: usize) {
        let slot = self.slot(index);
        let (mut held, local) = (slot.held, slot.bound_address());
        self.ports.share(&mut held, local);
        self.slot_mut(index).held = held;
    }

    /// Undoes [`take_port`](Self::take_port), for an identifier that goes on without a port.
    pub(super) fn unbind(&mut self, index: usize) -> Option<PortKey> {
        let key = self.release_port(index);
        let slot = self.slot_mut(index);
        slot.local = Gid::ZERO;
        slot.local_port = 0;
        slot.set(flag::WILDCARD, false);
        slot.set(flag::BOUND_ON_THE_WAY, false);
        key
    }

    /// Gives the port back; the key whose last owner left.
    pub(super) fn release_port(&mut self, index: usize) -> Option<PortKey> {
        let slot = self.slot_mut(index);
        let (held, local) = (core::mem::take(&mut slot.held), slot.bound_address());
        self.ports.release(held, local, self.table.slots_mut(), index)
    }
}

impl From<PortError> for BindError {
    fn from(error: PortError) -> BindError {
        match error {
            PortError::InUse | PortError::ListenConflict => BindError::PortInUse,
            PortError::TupleInUse => BindError::TupleInUse,
            PortError::Exhausted => BindError::PortsExhausted,
            PortError::TableFull => BindError::Full,
        }
    }
}
