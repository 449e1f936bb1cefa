//! What the application does with its connections: takes whoever asks, as long as it has room and is open; answers for a
//! datagram service; calls one peer when told to. A queue pair here is a number.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use nanocm_core::error::errno;
use nanocm_core::wire::RejectReason;
use nanocm_core::{
    Cm, ConnParam, DisconnectCause, Event, EventKind, Id, Instant, Outcome, Path, PortSpace,
    Request, RequestId, RocePath, Route, Unreachable,
};

/// The RDMA port of both services, the connected one and that of datagrams.
pub(crate) const PORT: u16 = 7471;
/// The cookies of the two listeners, which their requests inherit.
const CONNECTIONS: u64 = 0;
const DATAGRAMS: u64 = 1;
/// What a datagram service is asked for.
const Q_KEY: u32 = 0x0150_0a11;
/// What a peer is told that comes while we are closed.
const CLOSED: &[u8] = b"closed";
/// How long a path may take to be found, and how often its ARP question is repeated.
const RESOLVE: Duration = Duration::from_secs(3);
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// No route to that network, as Linux says it.
const ENETUNREACH: i32 = 101;

/// What became of our call: an event's name, and its reason, status or errno.
#[derive(Clone, Copy)]
pub(crate) struct CallState {
    pub(crate) name: &'static str,
    pub(crate) code: u32,
}

/// A question of the engine that waits for an ARP answer.
struct Search {
    request: RequestId,
    whose: Ipv4Addr,
    ask_at: Instant,
}

/// The application.
pub(crate) struct Service {
    us: Ipv4Addr,
    prefix: u8,
    next_qpn: u32,
    /// Why requests are refused, while they are.
    pub(crate) closed: Option<RejectReason>,
    pub(crate) call: Option<Id>,
    pub(crate) call_state: CallState,
    /// Whether the peer has been told that our call is over.
    hung_up: bool,
    search: Option<Search>,
    pub(crate) accepted: u32,
    pub(crate) refused: u32,
    pub(crate) resolved: u32,
    pub(crate) ended: u32,
}

impl Service {
    /// Both services listen. `None` if the engine has no room for that.
    pub(crate) fn start(
        cm: &mut Cm<'_>,
        us: Ipv4Addr,
        prefix: u8,
        first_qpn: u32,
    ) -> Option<Service> {
        for (space, user) in [(PortSpace::Tcp, CONNECTIONS), (PortSpace::Udp, DATAGRAMS)] {
            let id = cm.create_id(space, user).ok()?;
            cm.bind(id, SocketAddr::new(IpAddr::V4(us), PORT)).ok()?;
            cm.listen(id, 0).ok()?;
        }
        Some(Service {
            us,
            prefix,
            next_qpn: first_qpn,
            closed: None,
            call: None,
            call_state: CallState { name: "NONE", code: 0 },
            hung_up: false,
            search: None,
            accepted: 0,
            refused: 0,
            resolved: 0,
            ended: 0,
        })
    }

    /// The next queue pair number of 24 bits; 0 and 1 are not for us. Peers take an old number for an old connection.
    fn queue_pair(&mut self) -> u32 {
        self.next_qpn = self.next_qpn.wrapping_add(1) & 0xff_ffff;
        self.next_qpn = self.next_qpn.max(2);
        self.next_qpn
    }

    /// Calls a peer: errno if it cannot even be tried.
    pub(crate) fn call(
        &mut self,
        cm: &mut Cm<'_>,
        now: Instant,
        whom: SocketAddr,
    ) -> Result<(), i32> {
        if self.call.is_some() {
            return Err(errno::EISCONN);
        }
        let id = cm.create_id(PortSpace::Tcp, 0).map_err(|e| e.errno())?;
        let source = SocketAddr::new(IpAddr::V4(self.us), 0);
        if let Err(error) = cm.resolve_addr(now, id, Some(source), whom, RESOLVE) {
            let _ = cm.destroy(now, id);
            return Err(error.errno());
        }
        self.call = Some(id);
        self.hung_up = false;
        self.call_state = CallState { name: "CALLING", code: 0 };
        Ok(())
    }

    /// Ends our call; one that is not yet established is cancelled.
    pub(crate) fn hang_up(&mut self, cm: &mut Cm<'_>, now: Instant) -> Result<(), i32> {
        let id = self.call.ok_or(errno::ENOENT)?;
        if self.hung_up {
            return Ok(());
        }
        self.hung_up = cm.disconnect(now, id, &[]).is_ok();
        if !self.hung_up {
            self.call_state = CallState { name: "CANCELLED", code: 0 };
            self.let_go(cm, now, id);
        }
        Ok(())
    }

    /// What happened to a connection.
    pub(crate) fn on_event(&mut self, cm: &mut Cm<'_>, now: Instant, event: Event) {
        let id = event.id;
        if self.call == Some(id) {
            self.call_state = CallState { name: event.kind.name(), code: code(&event.kind) };
        }
        let goes_on = match event.kind {
            EventKind::ConnectRequest { .. } => self.answer(cm, now, event),
            EventKind::AddrResolved => cm.resolve_route(now, id, RESOLVE).is_ok(),
            EventKind::RouteResolved => {
                let param = ConnParam::new(self.queue_pair());
                cm.connect(now, id, &param).is_ok()
            }
            EventKind::ConnectResponse { .. } => cm.establish(now, id, &[]).is_ok(),
            EventKind::Established | EventKind::AddrChange => true,
            // Rejected, unreachable, over …: `destroy` says what a peer still has to hear, a DREP for one.
            _ => false,
        };
        if !goes_on {
            self.let_go(cm, now, id);
        }
    }

    /// Answers a request; whether its identifier goes on.
    fn answer(&mut self, cm: &mut Cm<'_>, now: Instant, event: Event) -> bool {
        let id = event.id;
        if let Some(reason) = self.closed {
            self.refused = self.refused.wrapping_add(1);
            let _ = cm.reject(now, id, reason, CLOSED);
            return false;
        }
        let mut param = ConnParam::new(self.queue_pair());
        param.qkey = Q_KEY;
        let accepted = cm.accept(now, id, &param).is_ok();
        if event.user == DATAGRAMS {
            self.resolved = self.resolved.wrapping_add(1);
            return false; // once answered, nothing is left of it
        }
        self.accepted = self.accepted.wrapping_add(u32::from(accepted));
        accepted
    }

    fn let_go(&mut self, cm: &mut Cm<'_>, now: Instant, id: Id) {
        self.ended = self.ended.wrapping_add(1);
        if self.call == Some(id) {
            self.call = None;
            self.search = None;
        }
        let _ = cm.destroy(now, id);
    }

    /// What the engine wants to know. Whether a neighbour has to be asked for now is up to [`due`](Self::due).
    pub(crate) fn on_request(
        &mut self,
        cm: &mut Cm<'_>,
        now: Instant,
        id: RequestId,
        request: Request,
    ) {
        let outcome = match request {
            Request::ResolveAddr { destination, .. } => match destination.ip() {
                IpAddr::V4(whose) if self.is_near(whose) => {
                    self.search = Some(Search { request: id, whose, ask_at: now });
                    return;
                }
                _ => Outcome::Failed(ENETUNREACH),
            },
            Request::ResolveRoute { path } => Outcome::RouteResolved { route: Route::new(path) },
            _ => Outcome::Failed(errno::EOPNOTSUPP),
        };
        let _ = cm.handle_completion(now, id, outcome);
    }

    /// Whose MAC address the engine waits for, if it is to be asked for now. What is known of it may be old.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Ipv4Addr> {
        let search = self.search.as_mut().filter(|search| search.ask_at <= now)?;
        search.ask_at = now + ASK_AGAIN;
        Some(search.whose)
    }

    pub(crate) fn poll_at(&self) -> Option<Instant> {
        self.search.as_ref().map(|search| search.ask_at)
    }

    /// A neighbour is known.
    pub(crate) fn found(&mut self, cm: &mut Cm<'_>, now: Instant, who: Ipv4Addr) {
        if let Some(search) = self.search.take_if(|search| search.whose == who) {
            let path = RocePath::new(IpAddr::V4(self.us).into(), IpAddr::V4(who).into());
            let outcome = Outcome::AddrResolved { path: Path::Roce(path) };
            let _ = cm.handle_completion(now, search.request, outcome);
        }
    }

    /// Whether an address is in our network.
    fn is_near(&self, ip: Ipv4Addr) -> bool {
        let shift = 32 - u32::from(self.prefix);
        (ip.to_bits() ^ self.us.to_bits()).checked_shr(shift).unwrap_or(0) == 0
    }
}

/// The number in an event that ends an attempt.
fn code(kind: &EventKind) -> u32 {
    match *kind {
        EventKind::Rejected(reason) => u32::from(reason.0),
        EventKind::SidrRejected(status) => u32::from(status.0),
        EventKind::AddrError(errno)
        | EventKind::RouteError(errno)
        | EventKind::ConnectError(errno)
        | EventKind::Unreachable(Unreachable::SendFailed(errno)) => errno.unsigned_abs(),
        EventKind::Unreachable(Unreachable::Timeout)
        | EventKind::Disconnected(DisconnectCause::Timeout) => errno::ETIMEDOUT.unsigned_abs(),
        _ => 0,
    }
}
