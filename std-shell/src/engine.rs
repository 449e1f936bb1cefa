//! [`Engine`]: the core engine over a transport. Follows the core's run-loop contract to the letter.

use crate::backend::{Backend, InUse, Told, Turn};
use crate::error::Cause;
use crate::provider::{Fault, MadTransport, OpenCause, Outgoing, PortHome, Received, SendFailure};
use nanocm_core::error::BindError;
use nanocm_core::port::PortKey;
use nanocm_core::wire::roce::UDP_PORT;
use nanocm_core::wire::{Mad, RejectReason};
use nanocm_core::{
    Capacity, Cm, Config, ConnParam, ConnState, Counters, Id, IdOption, Memory, Outcome, Path,
    PeerParam, PortEvent, PortSpace, QpAttrs, QpState, Request, RocePath, Route, ScopedIp,
    SetupError, State,
};
use self_cell::{MutBorrow, self_cell};
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Datagrams taken, sent or expired deadlines handled in one turn.
const BATCH: usize = 64;

self_cell!(
    struct Owned {
        owner: MutBorrow<Memory>,
        #[not_covariant]
        dependent: Cm,
    }
);

/// A connection manager of our own: the core engine, its memory, a clock and a transport.
pub struct Engine<T> {
    cm: Owned,
    transport: T,
    zero: Instant,
    outgoing: Vec<Outgoing>,
    /// Identifiers for which the IPv6 wildcard does not stand for IPv4 too.
    af_only: HashSet<Id>,
    /// Port events that the engine could not take yet, and all that came after them.
    deferred: VecDeque<PortEvent>,
}

impl<T: MadTransport> Engine<T> {
    /// An engine of this capacity over `transport`. No socket is opened yet. Unless the configuration
    /// says otherwise, half-open connections from one address (or group of addresses, see
    /// [`Config::half_open_per_source`]) leave half of the connections to others.
    ///
    /// # Errors
    /// [`SetupError`].
    pub fn new(
        transport: T,
        mut config: Config,
        capacity: Capacity,
    ) -> Result<Engine<T>, SetupError> {
        if config.half_open_per_source == 0 {
            let half = capacity.conns.div_ceil(2);
            config.half_open_per_source = u16::try_from(half).unwrap_or(u16::MAX);
        }
        let memory = MutBorrow::new(Memory::new(capacity));
        let cm = Owned::try_new(memory, |memory| memory.borrow_mut().engine(config))?;
        let (zero, outgoing) = (Instant::now(), Vec::with_capacity(BATCH));
        let (af_only, deferred) = (HashSet::new(), VecDeque::new());
        Ok(Engine { cm, transport, zero, outgoing, af_only, deferred })
    }

    /// The transport.
    pub fn transport(&self) -> &T {
        &self.transport
    }

    fn now(&self) -> nanocm_core::Instant {
        let nanos = self.zero.elapsed().as_nanos();
        nanocm_core::Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    fn with<R>(&mut self, f: impl FnOnce(&mut Cm<'_>, nanocm_core::Instant) -> R) -> R {
        let now = self.now();
        self.cm.with_dependent_mut(|_, cm| f(cm, now))
    }

    fn get<R>(&self, f: impl FnOnce(&Cm<'_>) -> R) -> R {
        self.cm.with_dependent(|_, cm| f(cm))
    }

    /// All addresses of the wildcard's family; `::` stands for IPv4 too, unless told otherwise. One
    /// family may have none.
    fn open_wildcard(&mut self, any: IpAddr, af_only: bool) -> Result<(), Cause> {
        if any.is_ipv4() || af_only {
            return self.open(any, 0);
        }
        let no_v6 = match self.open(any, 0) {
            Err(Cause::Open(error)) if error.cause == OpenCause::NoAddress => {
                Err(Cause::Open(error))
            }
            opened => Ok(opened?),
        };
        match self.open(Ipv4Addr::UNSPECIFIED.into(), 0) {
            Err(Cause::Open(error)) if error.cause == OpenCause::NoAddress => Ok(no_v6?),
            opened => opened,
        }
    }

    /// Hands port events to the engine. While it is busy with some it takes no others that concern
    /// the same: those wait, in order.
    fn follow_ports(&mut self) -> io::Result<()> {
        let now = self.now();
        let (cm, transport, deferred) = (&mut self.cm, &mut self.transport, &mut self.deferred);
        cm.with_dependent_mut(|_, cm| {
            transport.ports(&mut |event| {
                if !deferred.is_empty() || !cm.handle_port_event(now, event) {
                    deferred.push_back(event);
                }
            })
        })
    }

    /// Offers the port events that had to wait, now that the engine has done all that was due. What it
    /// still cannot take it has no room for.
    fn offer_deferred(&mut self) {
        for event in std::mem::take(&mut self.deferred) {
            if !self.deferred.is_empty() {
                self.deferred.push_back(event);
            } else if !self.with(|cm, now| cm.handle_port_event(now, event)) {
                if self.get(|cm| cm.poll_at()).is_some_and(|at| at <= self.now()) {
                    self.deferred.push_back(event);
                } else {
                    log::warn!("no room for {event:?}: more local addresses than the engine takes");
                }
            }
        }
    }

    /// Takes one batch of what has come.
    fn receive(&mut self) -> io::Result<usize> {
        let now = self.now();
        let (cm, transport) = (&mut self.cm, &mut self.transport);
        cm.with_dependent_mut(|_, cm| transport.recv(&mut |received| take(cm, now, received)))
    }

    /// Answers the engine's questions; on a host with sockets both answers are at hand.
    fn answer_requests(&mut self) {
        while let Some((request, question)) = self.with(|cm, _| cm.poll_request()) {
            let outcome = self.answer(question);
            // Stale if the identifier was destroyed meanwhile: nobody waits.
            let _ = self.with(|cm, now| cm.handle_completion(now, request, outcome));
        }
    }

    fn answer(&mut self, question: Request) -> Outcome {
        let found = match question {
            Request::ResolveAddr { source, destination } => {
                self.find_path(source, destination).map(|path| Outcome::AddrResolved { path })
            }
            Request::ResolveRoute { path } => {
                self.find_route(path).map(|route| Outcome::RouteResolved { route })
            }
            _ => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        };
        found.unwrap_or_else(|error| Outcome::Failed(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    fn find_path(&mut self, source: Option<ScopedIp>, destination: SocketAddr) -> io::Result<Path> {
        let source = self.transport.source_for(source, destination)?.address;
        let opened = self.open(source.gid.to_ip(), source.scope);
        opened.map_err(|cause| io::Error::from_raw_os_error(cause.errno()))?;
        let mut path = RocePath::new(source.gid, destination.ip().into());
        path.scope = source.scope;
        Ok(Path::Roce(path))
    }

    fn find_route(&mut self, path: Path) -> io::Result<Route> {
        let Path::Roce(roce) = path else {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        };
        let source = ScopedIp { gid: roce.local, scope: roce.scope };
        let destination = ScopedIp { gid: roce.remote, scope: roce.scope }.with_port(UDP_PORT);
        let mut route = Route::new(path);
        route.mtu = self.transport.source_for(Some(source), destination)?.path_mtu_code();
        Ok(route)
    }

    /// Sends one batch of what is owed.
    fn send(&mut self, faults: &mut Faults) -> Sent {
        let now = self.now();
        let (cm, transport, outgoing) = (&mut self.cm, &mut self.transport, &mut self.outgoing);
        cm.with_dependent_mut(|_, cm| {
            let mut mad: Mad = [0; 256];
            while outgoing.len() < BATCH
                && let Some(transmit) = cm.poll_transmit(now, &mut mad)
            {
                outgoing.push(Outgoing { path: transmit.path, token: transmit.token, mad });
            }
            let mut sent = Sent { full: outgoing.len() == BATCH, ..Sent::default() };
            let mut done = 0;
            while done < outgoing.len() {
                let mut failed = |failure: SendFailure<'_>| {
                    sent.failed = true;
                    report(cm, now, &failure);
                };
                match transport.send(&outgoing[done..], &mut failed) {
                    Ok(count) => {
                        done += count;
                        sent.blocked = done < outgoing.len();
                        break;
                    }
                    // What cannot go must not keep the others.
                    Err(error) => {
                        let errno = error.raw_os_error().unwrap_or(libc::EIO);
                        cm.handle_send_failed(now, outgoing[done].token, errno);
                        done += 1;
                        sent.failed = true;
                        faults.note(error);
                    }
                }
            }
            // What the host does not take now is offered again, before anything newer.
            outgoing.drain(..done);
            sent
        })
    }
}

impl<T: MadTransport> fmt::Debug for Engine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("in_use", &self.in_use()).finish_non_exhaustive()
    }
}

/// What became of a batch.
#[derive(Default)]
struct Sent {
    /// There may be more than it held.
    full: bool,
    /// The host takes no more now.
    blocked: bool,
    /// The engine has been told of failures, which may be events and new messages.
    failed: bool,
}

/// What the host is given to recover before it is offered more.
const BLOCKED_PAUSE: Duration = Duration::from_millis(1);

/// The first fault of a turn.
#[derive(Default)]
struct Faults(Option<io::Error>);

impl Faults {
    fn note(&mut self, error: io::Error) {
        self.0.get_or_insert(error);
    }

    /// The result, or what stands for it after a fault.
    fn or<R: Default>(&mut self, result: io::Result<R>) -> R {
        result.map_err(|error| self.note(error)).unwrap_or_default()
    }
}

fn take(cm: &mut Cm<'_>, now: nanocm_core::Instant, received: Received<'_>) {
    let _ = match received {
        Received::Mad { path, mad, .. } => cm.handle_datagram(now, &path, mad),
        Received::Fault { fault: Fault::Icrc, .. } => cm.handle_bad_icrc(),
        Received::Fault { fault: Fault::Frame(fault), .. } => cm.handle_frame_fault(fault),
        Received::Fault { .. } => return,
        Received::SendFailed(failure) => return report(cm, now, &failure),
    };
}

fn report(cm: &mut Cm<'_>, now: nanocm_core::Instant, failure: &SendFailure<'_>) {
    log::debug!("{failure}");
    if let Some(token) = failure.token {
        cm.handle_send_failed(now, token, failure.errno);
    }
}

impl<T: MadTransport> Backend for Engine<T> {
    /// Its socket, then its place in the engine's GID table.
    fn open(&mut self, local: IpAddr, scope: u32) -> Result<(), Cause> {
        check_scope(local, scope)?;
        self.transport.open(local, scope)?;
        self.follow_ports()?;
        Ok(())
    }

    fn source_for(&mut self, destination: SocketAddr) -> Result<SocketAddr, Cause> {
        check_scope(destination.ip(), scope_of(destination))?;
        Ok(self.transport.source_for(None, destination)?.address.with_port(0))
    }

    fn create_id(&mut self, space: PortSpace, user: u64) -> Result<Id, Cause> {
        Ok(self.with(|cm, _| cm.create_id(space, user))?)
    }

    fn bind(&mut self, id: Id, local: SocketAddr) -> Result<u16, Cause> {
        if !local.ip().is_unspecified() {
            self.open(local.ip(), scope_of(local))?;
        }
        Ok(self.with(|cm, _| cm.bind(id, local))?)
    }

    fn listen(&mut self, id: Id, backlog: u32) -> Result<(), Cause> {
        let local = self.local_addr(id)?;
        if self.state(id)? == State::AddrBound && local.ip().is_unspecified() {
            self.open_wildcard(local.ip(), self.af_only.contains(&id))?;
        }
        Ok(self.with(|cm, _| cm.listen(id, backlog))?)
    }

    fn resolve_addr(
        &mut self,
        id: Id,
        source: Option<SocketAddr>,
        destination: SocketAddr,
        timeout: Duration,
    ) -> Result<(), Cause> {
        if let Some(source) = source.filter(|source| !source.ip().is_unspecified()) {
            self.open(source.ip(), scope_of(source))?;
        }
        Ok(self.with(|cm, now| cm.resolve_addr(now, id, source, destination, timeout))?)
    }

    fn resolve_route(&mut self, id: Id, timeout: Duration) -> Result<(), Cause> {
        Ok(self.with(|cm, now| cm.resolve_route(now, id, timeout))?)
    }

    fn connect(&mut self, id: Id, param: &ConnParam<'_>) -> Result<(), Cause> {
        Ok(self.with(|cm, now| cm.connect(now, id, param))?)
    }

    fn accept(&mut self, id: Id, param: &ConnParam<'_>) -> Result<(), Cause> {
        Ok(self.with(|cm, now| cm.accept(now, id, param))?)
    }

    fn reject(&mut self, id: Id, reason: RejectReason, data: &[u8]) -> Result<(), Cause> {
        Ok(self.with(|cm, now| cm.reject(now, id, reason, data))?)
    }

    fn establish(&mut self, id: Id, data: &[u8]) -> Result<(), Cause> {
        Ok(self.with(|cm, now| cm.establish(now, id, data))?)
    }

    fn notify_established(&mut self, id: Id) -> Result<(), Cause> {
        Ok(self.with(|cm, now| cm.notify_established(now, id))?)
    }

    fn disconnect(&mut self, id: Id, data: &[u8]) -> Result<(), Cause> {
        Ok(self.with(|cm, now| cm.disconnect(now, id, data))?)
    }

    fn reset(&mut self, id: Id) -> Result<(), Cause> {
        Ok(self.with(|cm, _| cm.reset(id))?)
    }

    fn set_option(&mut self, id: Id, option: IdOption) -> Result<(), Cause> {
        self.with(|cm, _| cm.set_option(id, option))?;
        match option {
            IdOption::AfOnly(true) => _ = self.af_only.insert(id),
            IdOption::AfOnly(false) => _ = self.af_only.remove(&id),
            _ => {}
        }
        Ok(())
    }

    fn set_user(&mut self, id: Id, user: u64) -> Result<(), Cause> {
        Ok(self.with(|cm, _| cm.set_user(id, user))?)
    }

    fn destroy(&mut self, id: Id) -> Result<(), Cause> {
        self.with(|cm, now| cm.destroy(now, id))?;
        self.af_only.remove(&id);
        Ok(())
    }

    fn state(&self, id: Id) -> Result<State, Cause> {
        Ok(self.get(|cm| cm.state(id))?)
    }

    fn conn_state(&self, id: Id) -> Result<ConnState, Cause> {
        Ok(self.get(|cm| cm.conn_state(id))?)
    }

    fn local_addr(&self, id: Id) -> Result<SocketAddr, Cause> {
        Ok(self.get(|cm| cm.local_addr(id))?)
    }

    fn peer_addr(&self, id: Id) -> Result<SocketAddr, Cause> {
        Ok(self.get(|cm| cm.peer_addr(id))?)
    }

    fn peer_param(&self, id: Id) -> Result<PeerParam, Cause> {
        Ok(self.get(|cm| cm.peer_param(id))?)
    }

    fn path(&self, id: Id) -> Result<Option<Path>, Cause> {
        Ok(self.get(|cm| cm.path(id))?)
    }

    fn qp_attrs(&self, id: Id, to: QpState) -> Result<QpAttrs, Cause> {
        Ok(self.get(|cm| cm.qp_attrs(id, to))?)
    }

    fn counters(&self) -> Counters {
        self.get(|cm| *cm.counters())
    }

    fn in_use(&self) -> InUse {
        let (ids, connections) = self.get(|cm| cm.in_use());
        InUse { ids, connections }
    }

    fn port_home(&self) -> PortHome {
        self.transport.port_home()
    }

    fn port_space(&self, id: Id) -> Result<PortSpace, Cause> {
        Ok(self.get(|cm| cm.port_space(id))?)
    }

    fn propose_port(
        &mut self,
        id: Id,
        local: SocketAddr,
        remote: Option<SocketAddr>,
    ) -> Result<(PortKey, bool), Cause> {
        if !local.ip().is_unspecified() {
            self.open(local.ip(), scope_of(local))?;
        }
        let key = self.with(|cm, _| cm.propose_port(id, local, remote))?.key();
        Ok((key, self.af_only.contains(&id)))
    }

    fn bind_reserved(&mut self, id: Id, key: PortKey) -> Result<(), Cause> {
        Ok(self.with(|cm, _| cm.bind_reserved(id, key, None))?)
    }

    fn is_port_in_use(&self, space: PortSpace, port: u16) -> bool {
        self.get(|cm| cm.is_port_in_use(space, port))
    }

    fn ports_in_use(&self, space: PortSpace) -> usize {
        self.get(|cm| cm.ports_in_use(space))
    }

    fn turn(&mut self, tell: &mut dyn FnMut(Told)) -> Turn {
        let mut faults = Faults::default();
        // What the wire holds first, then the clock: after a pause answers may be waiting there.
        let received = faults.or(self.receive());
        if received == 0 {
            // Addresses come and go rarely: they need not be asked for under load.
            faults.or(self.follow_ports());
        }
        let late = self.with(|cm, now| cm.handle_timeout(now, BATCH));
        if !late {
            self.offer_deferred();
        }
        self.answer_requests();
        self.with(|cm, _| {
            while let Some(event) = cm.poll_event() {
                tell(describe(cm, event));
            }
        });
        let sent = self.send(&mut faults);
        let due =
            self.get(|cm| cm.poll_at()).map(|at| self.zero + Duration::from_nanos(at.as_nanos()));
        let again = sent.blocked.then(|| Instant::now() + BLOCKED_PAUSE);
        Turn {
            more: received > 0
                || late
                || !self.deferred.is_empty()
                || sent.failed
                || sent.full && !sent.blocked,
            wake_at: [due, again].into_iter().flatten().min(),
            fault: faults.0,
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.transport.fd()
    }
}

fn describe(cm: &Cm<'_>, event: nanocm_core::Event) -> Told {
    let any = SocketAddr::from(([0, 0, 0, 0], 0));
    Told {
        event,
        private_data: cm.private_data(event.id).to_vec(),
        additional_info: cm.additional_info(event.id).to_vec(),
        local: cm.local_addr(event.id).unwrap_or(any),
        peer: cm.peer_addr(event.id).unwrap_or(any),
    }
}

/// Of a link-local address the kernel would only say that it is invalid.
fn check_scope(ip: IpAddr, scope: u32) -> Result<(), BindError> {
    match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() && scope == 0 => Err(BindError::ScopeMissing),
        _ => Ok(()),
    }
}

fn scope_of(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V6(v6) => v6.scope_id(),
        SocketAddr::V4(_) => 0,
    }
}
