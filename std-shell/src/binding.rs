//! Binding an identifier under a policy: RDMA's rules first, then the host, then RDMA's books. The
//! host is asked outside of the lock around the backend, so others may come between; the last step
//! notices.
//!
//! A number is held for each identifier that asked for it, whichever others own it in RDMA's books:
//! it is free for the host's programs as soon as the last of those has gone.
//!
//! Read first: DESIGN §5.

use crate::backend::Backend;
use crate::error::Cause;
use crate::host_ports::{
    HostPorts, Number, PortPolicy, Reservation, Search, SharedSocket, SharedTcpListener, Space,
};
use crate::id::Id;
use crate::provider::PortHome;
use crate::shared::Shared;
use nanocm_core::error::{BindError, ResolveError};
use nanocm_core::port::PortKey;
use nanocm_core::{Id as Handle, PortSpace, State};
use socket2::SockRef;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What identifiers hold in the host's port spaces.
#[derive(Default)]
pub(crate) struct Numbers {
    pub(crate) ports: HostPorts,
    ids: Mutex<HashMap<Handle, Holding>>,
}

#[derive(Default)]
struct Holding {
    /// Instead of the default.
    policy: Option<PortPolicy>,
    reservation: Option<Reservation>,
}

impl Numbers {
    pub(crate) fn set_policy(&self, id: Handle, policy: PortPolicy) {
        self.ids().entry(id).or_default().policy = Some(policy);
    }

    /// Its number is held no more.
    pub(crate) fn release(&self, id: Handle) {
        let held = self.ids().get_mut(&id).and_then(|holding| holding.reservation.take());
        drop(held);
    }

    /// It is no more.
    pub(crate) fn forget(&self, id: Handle) {
        let holding = self.ids().remove(&id);
        drop(holding);
    }

    pub(crate) fn host_listener(
        &self,
        id: Handle,
        backlog: u32,
    ) -> Result<SharedTcpListener, Cause> {
        let ids = self.ids();
        let held = ids.get(&id).and_then(|holding| holding.reservation.as_ref());
        let held = held.ok_or(io::Error::from_raw_os_error(libc::EINVAL))?;
        Ok(held.host_listener(backlog)?)
    }

    fn set(&self, id: Handle, reservation: Reservation) {
        self.ids().entry(id).or_default().reservation = Some(reservation);
    }

    fn policy(&self, id: Handle, space: PortSpace, any_towards_peer: bool) -> PortPolicy {
        let own = self.ids().get(&id).and_then(|holding| holding.policy);
        own.unwrap_or_else(|| self.ports.config().policy(space, any_towards_peer))
    }

    fn ids(&self) -> MutexGuard<'_, HashMap<Handle, Holding>> {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bind in work.
struct Bind {
    id: Handle,
    space: PortSpace,
    host: Space,
    local: SocketAddr,
    /// The peer: the number may be shared with owners that have other peers.
    remote: Option<SocketAddr>,
}

impl Shared {
    pub(crate) fn bind(&self, id: Handle, local: SocketAddr) -> Result<u16, Cause> {
        let Some((space, host)) = self.host_space(id, false) else {
            return self.operate(|backend| backend.bind(id, local));
        };
        let bind = Bind { id, space, host, local, remote: None };
        self.bind_reserving(&bind, |backend, key| backend.bind_reserved(id, key).map(|()| key.port))
    }

    pub(crate) fn resolve_addr(
        &self,
        id: Handle,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        timeout: Duration,
    ) -> Result<(), Cause> {
        let any = source.is_none_or(|source| source.port() == 0);
        let idle = matches!(self.look(|backend| backend.state(id)), Ok(State::Idle));
        let host = if idle { self.host_space(id, any) } else { None };
        let is_any = |source: &SocketAddr| any && source.ip().to_canonical().is_unspecified();
        let local = match source.filter(|source| !is_any(source)) {
            Some(source) => Some(source),
            None if host.is_some() => self.prepare(|backend| backend.source_for(destination)).ok(),
            None => None,
        };
        // Without a way there the identifier is not bound either.
        let Some(((space, host), local)) = host.zip(local) else {
            return self.operate(|backend| backend.resolve_addr(id, source, destination, timeout));
        };
        let bind = Bind { id, space, host, local, remote: Some(destination) };
        self.bind_reserving(&bind, |backend, key| {
            let source = key.local.with_port(key.port);
            backend.resolve_addr(id, Some(source), destination, timeout)
        })
    }

    /// Binds it to the number of a socket that TCP and RDMA have in common.
    pub(crate) fn bind_with(&self, id: Handle, socket: &Arc<SharedSocket>) -> Result<u16, Cause> {
        self.bind_to_socket(id, socket.listener(), Some(socket))
    }

    /// Binds it to the number of a socket that outlives it.
    pub(crate) fn bind_lent(&self, id: Handle, listener: &TcpListener) -> Result<u16, Cause> {
        self.bind_to_socket(id, listener, None)
    }

    fn bind_to_socket(
        &self,
        id: Handle,
        listener: &TcpListener,
        socket: Option<&Arc<SharedSocket>>,
    ) -> Result<u16, Cause> {
        let space = self.look(|backend| backend.port_space(id))?;
        if Space::of(space) != Some(Space::Tcp) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL).into());
        }
        let local = listener.local_addr()?;
        let (key, _) = self.prepare(|backend| backend.propose_port(id, local, None))?;
        let v6_only = local.is_ipv6() && SockRef::from(listener).only_v6().unwrap_or(false);
        let number = Number::new(Space::Tcp, local, v6_only);
        let reservation = self.numbers.ports.adopt(number, socket)?;
        self.operate(|backend| {
            backend.bind_reserved(id, key)?;
            self.numbers.set(id, reservation);
            Ok(key.port)
        })
    }

    /// Which of the host's port spaces the identifier's number shall be held in, if in any. A stale
    /// one is refused later.
    fn host_space(&self, id: Handle, any_towards_peer: bool) -> Option<(PortSpace, Space)> {
        let space = self.look(|backend| match backend.port_home() {
            PortHome::Host => backend.port_space(id).ok(),
            PortHome::Device | PortHome::Elsewhere => None,
        })?;
        let policy = self.numbers.policy(id, space, any_towards_peer);
        let host = Space::of(space).filter(|_| policy == PortPolicy::Host)?;
        Some((space, host))
    }

    /// Finds a number that both RDMA and the host can give, holds it, and takes it.
    fn bind_reserving<R>(
        &self,
        bind: &Bind,
        mut take: impl FnMut(&mut dyn Backend, PortKey) -> Result<R, Cause>,
    ) -> Result<R, Cause> {
        let mut search = Search::new();
        if bind.local.port() != 0 {
            let (key, number) = self.propose(bind, bind.local.port())?;
            let shareable = bind.remote.is_some();
            let reservation = self.numbers.ports.reserve_number(number, shareable)?;
            return self.take(bind, key, reservation, &mut take);
        }
        let any = Number::new(bind.host, bind.local, false);
        if bind.remote.is_some() {
            // A number that is held already costs the host nothing.
            for port in self.numbers.ports.shareable(&any) {
                if let Some(taken) = self.try_number(bind, port, &mut search, &mut take)? {
                    return Ok(taken);
                }
            }
        }
        loop {
            let port = self.numbers.ports.candidate(&any, &mut search)?;
            // Also if it would share, by REUSEADDR: who wants any port wants one for himself.
            if self.look(|backend| backend.is_port_in_use(bind.space, port)) {
                search.discard();
                continue;
            }
            if let Some(taken) = self.try_number(bind, port, &mut search, &mut take)? {
                return Ok(taken);
            }
        }
    }

    /// `None` if this number cannot be had, and others may.
    fn try_number<R>(
        &self,
        bind: &Bind,
        port: u16,
        search: &mut Search,
        take: &mut impl FnMut(&mut dyn Backend, PortKey) -> Result<R, Cause>,
    ) -> Result<Option<R>, Cause> {
        let (key, number) = match self.propose(bind, port) {
            Err(cause) if is_of_this_number(&cause) => return Ok(None),
            proposed => proposed?,
        };
        let shareable = bind.remote.is_some();
        let reserved = self.numbers.ports.reserve_candidate(number, shareable, search)?;
        let Some(reservation) = reserved else { return Ok(None) };
        match self.take(bind, key, reservation, take) {
            Err(cause) if is_of_this_number(&cause) => Ok(None),
            taken => taken.map(Some),
        }
    }

    /// The identifier has it before anything else happens to it.
    fn take<R>(
        &self,
        bind: &Bind,
        key: PortKey,
        reservation: Reservation,
        take: &mut impl FnMut(&mut dyn Backend, PortKey) -> Result<R, Cause>,
    ) -> Result<R, Cause> {
        self.operate(|backend| {
            let taken = take(backend, key)?;
            self.numbers.set(bind.id, reservation);
            Ok(taken)
        })
    }

    fn propose(&self, bind: &Bind, port: u16) -> Result<(PortKey, Number), Cause> {
        let mut local = bind.local;
        local.set_port(port);
        let proposed = self.prepare(|backend| backend.propose_port(bind.id, local, bind.remote));
        let (key, v6_only) = proposed?;
        Ok((key, Number::new(bind.host, key.local.with_port(port), v6_only)))
    }
}

fn is_of_this_number(cause: &Cause) -> bool {
    matches!(
        cause,
        Cause::Bind(BindError::PortInUse | BindError::TupleInUse)
            | Cause::Resolve(ResolveError::Bind {
                error: BindError::PortInUse | BindError::TupleInUse
            })
    )
}

/// An identifier on the number of a TCP listener that is lent to it, and cannot go before it.
#[derive(Debug)]
#[must_use = "dropping an identifier destroys it"]
pub struct LentId<'l> {
    id: Id,
    _listener: &'l TcpListener,
}

impl<'l> LentId<'l> {
    pub(crate) fn new(id: Id, listener: &'l TcpListener) -> LentId<'l> {
        LentId { id, _listener: listener }
    }
}

impl Deref for LentId<'_> {
    type Target = Id;

    fn deref(&self) -> &Id {
        &self.id
    }
}

impl fmt::Debug for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.ports.fmt(f)
    }
}
