//! `nanocm connect`: one connection or many, a few at a time, and what becomes of each.

use super::args::{self, Address, PrivateData, QPNS};
use super::events::Reporter;
use super::failure::check_length;
use super::output::{Failure, Outcome};
use super::policy::{self, Ports};
use super::provider::{self, Provider};
use super::signals::{self, EVENTS_PER_TURN, Signals};
use super::source;
use nanocm::core::wire::{Mad, Req};
use nanocm::core::{Counters, Id as Handle, ServiceId};
use nanocm::{
    Cause, Cm, ConnParam, ConnState, Error, Event, EventChannel, EventKind, Id, IdOption,
    PortSpace, RejectReason, Rejection,
};
use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Connect to a listener, hold the connection, disconnect
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whom to connect to: 1.2.3.4:PORT, [v6]:PORT, [fe80::1%eth0]:PORT
    #[arg(value_name = "ADDR:PORT", value_parser = args::peer)]
    address: Address,
    /// From which local address; port 0 or none for any
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = args::source)]
    from: Option<Address>,
    /// How CM messages travel: udp, raw, umad:CA/PORT, kernel
    #[arg(long, value_name = "P", default_value = "udp")]
    provider: Provider,
    /// Where ports come from: host, independent, shared-fd N; default: host for a given source port, else independent
    #[arg(long, value_name = "WHERE")]
    ports: Option<Ports>,
    /// How many connections in all
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// How many at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16_384))]
    parallel: u32,
    /// Milliseconds from established to disconnect
    #[arg(long, value_name = "MS", default_value_t = 0)]
    hold: u64,
    /// Private data for the request, as hexadecimal digits (56 octets at most)
    #[arg(long, value_name = "HEX", default_value = "", value_parser = args::private_data)]
    private_data: PrivateData,
    /// Milliseconds until an attempt is given up, resolving included
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Retransmissions after the first REQ (default: as many as the timeout allows)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=254))]
    retries: Option<u8>,
    /// Type of service of the packets
    #[arg(long, value_name = "N")]
    tos: Option<u8>,
    /// The first connection's queue pair number; the others count up from it (default: from a random one)
    #[arg(long, value_name = "N", value_parser = args::qpn)]
    qpn: Option<u32>,
    /// Report the end of timewait too
    #[arg(long)]
    verbose: bool,
    /// Say in the end what was counted, such as datagrams that were ignored
    #[arg(long)]
    counters: bool,
    /// One JSON object a line instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, counted: &mut Option<Counters>) -> Outcome {
    let peer = provider::ip(args.address)?;
    check_length(&args.private_data.0, "REQ", Req::<&Mad>::CONSUMER_DATA)?;
    let shared = policy::take_shared(args.ports)?;
    let mut signals = Signals::take().map_err(signals::failure)?;
    let lingering = if args.verbose { LINGERING } else { 0 };
    let room = (args.count as usize).min(args.parallel as usize + lingering);
    let cm = args.provider.cm(room)?;
    policy::apply(args.ports, &cm);
    let from = policy::source(args.from, shared.as_ref())?;
    let outcome = connect(args, &cm, room, from, peer, &mut signals);
    *counted = args.counters.then(|| cm.counters());
    outcome
}

/// Until all have been made, or a signal comes.
fn connect(
    args: &Args,
    cm: &Cm,
    room: usize,
    from: Option<Address>,
    peer: SocketAddr,
    signals: &mut Signals,
) -> Outcome {
    let source = source::open(cm, from, peer)?;
    let channel = cm.channel()?;
    let mut client = Client {
        args,
        cm,
        channel: &channel,
        source,
        peer,
        reporter: Reporter::new(args.json, PortSpace::Tcp),
        attempts: HashMap::new(),
        holds: BTreeSet::new(),
        lingering: HashMap::new(),
        room,
        qpn: args.qpn,
        started: 0,
        made: 0,
        first_failure: None,
        failures: 0,
        stop_at: None,
        stay_until: None,
    };
    client.run(signals)?;
    client.stay(signals)?;
    client.conclude()
}

/// Connections that are over but in timewait keep their slots with `--verbose`; there is room for so
/// many.
const LINGERING: usize = 16_384;

/// After a signal peers have so long to agree to the end.
const GRACE: Duration = Duration::from_secs(3);

/// For the DREQs of a peer that has had its answer, or is about to ask: what it says of an old connection (REJ 10) it tells
/// that connection too. As passive side it repeats them after our REQs' Local CM Response Timeout, 1.07 s.
const STAY: Duration = Duration::from_secs(2);

/// However much still comes: Linux asks for 17 s.
const LONGEST_STAY: Duration = Duration::from_secs(20);

/// The queue pair number of the next connection.
fn next_qpn(next: &mut Option<u32>, cm: &Cm) -> u32 {
    let Some(qpn) = *next else { return cm.next_qpn() };
    let (first, last) = (*QPNS.start(), *QPNS.end());
    *next = Some(if qpn == last { first } else { qpn + 1 });
    qpn
}

/// One connection on its way.
struct Attempt {
    id: Id,
    until: Instant,
    /// When to disconnect, once established.
    hold_until: Option<Instant>,
}

struct Client<'a> {
    args: &'a Args,
    cm: &'a Cm,
    channel: &'a EventChannel,
    source: SocketAddr,
    peer: SocketAddr,
    reporter: Reporter,
    attempts: HashMap<Handle, Attempt>,
    /// Which connection to end when.
    holds: BTreeSet<(Instant, Handle)>,
    /// Connections in timewait.
    lingering: HashMap<Handle, Id>,
    /// For so many connections, lingering ones included.
    room: usize,
    /// The next one, if it is not the connection manager that counts.
    qpn: Option<u32>,
    started: u32,
    made: u32,
    first_failure: Option<Failure>,
    failures: u32,
    /// Set by a signal.
    stop_at: Option<Instant>,
    /// Set by a peer's DREQ, or by a REJ 10, behind which there is one.
    stay_until: Option<Instant>,
}

impl Client<'_> {
    fn run(&mut self, signals: &mut Signals) -> Outcome {
        loop {
            self.start_some();
            if self.attempts.is_empty() && self.lingering.is_empty() {
                return Ok(());
            }
            let wake = self.holds.first().map(|(at, _)| *at).into_iter().chain(self.stop_at).min();
            let fds = [self.cm.as_fd(), self.channel.as_fd()];
            signals.wait(&fds, wake).map_err(signals::failure)?;
            // Not for ever: signals and holds have their turn too.
            for _ in 0..EVENTS_PER_TURN {
                let Some(event) = self.channel.try_next()? else { break };
                self.take(event)?;
            }
            self.end_holds();
            let signal = signals.arrived();
            if self.stop_at.is_some_and(|at| signal || at <= Instant::now()) {
                return Ok(());
            }
            if signal {
                self.interrupt();
            }
        }
    }

    /// Nobody else would answer a DREQ that is still to come. A signal cuts this short.
    fn stay(&self, signals: &mut Signals) -> Outcome {
        let Some(mut until) = self.stay_until.filter(|_| self.stop_at.is_none()) else {
            return Ok(());
        };
        let longest = until + LONGEST_STAY;
        let mut received = self.cm.counters().received;
        while until.min(longest) > Instant::now() && !signals.arrived() {
            signals.wait(&[self.cm.as_fd()], Some(until)).map_err(signals::failure)?;
            // No identifier is left to have events.
            self.channel.try_next()?;
            if self.cm.counters().received != received {
                received = self.cm.counters().received;
                until = Instant::now() + STAY;
            }
        }
        Ok(())
    }

    fn start_some(&mut self) {
        while self.started < self.args.count
            && self.attempts.len() < self.args.parallel as usize
            && self.attempts.len() + self.lingering.len() < self.room
            && self.stop_at.is_none()
        {
            self.started += 1;
            if let Err(error) = self.start() {
                self.note_failure(error);
            }
        }
    }

    fn start(&mut self) -> Result<(), Error> {
        let timeout = Duration::from_millis(self.args.timeout);
        let until = Instant::now() + timeout;
        let id = self.cm.create_id(self.channel, PortSpace::Tcp)?;
        if let Some(tos) = self.args.tos {
            id.set_option(IdOption::Tos(tos))?;
        }
        id.resolve_addr(Some(self.source), self.peer, timeout)?;
        self.attempts.insert(id.handle(), Attempt { id, until, hold_until: None });
        Ok(())
    }

    fn take(&mut self, event: Event) -> Outcome {
        // Its timewait is over, or its device is gone.
        if self.lingering.remove(&event.id).is_some() {
            self.reporter.event(&event, None)?;
            self.reporter.forget(event.id);
            return Ok(());
        }
        let Some(attempt) = self.attempts.get_mut(&event.id) else { return Ok(()) };
        let left = attempt.until.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        match event.kind {
            EventKind::AddrResolved => {
                let resolving = attempt.id.resolve_route(left);
                self.go_on(event.id, resolving);
            }
            EventKind::RouteResolved => {
                let mut param = ConnParam::new(next_qpn(&mut self.qpn, self.cm));
                param.private_data = &self.args.private_data.0;
                param.timeout = Some(left);
                param.retries = self.args.retries;
                let connecting = attempt.id.connect(&param);
                self.go_on(event.id, connecting);
            }
            // Refused only if the peer gave up meanwhile, as the next event says.
            EventKind::ConnectResponse { .. } if attempt.id.establish().is_ok() => {
                // Said as ESTABLISHED, with the private data that only this event has.
                let established = Event { kind: EventKind::Established, ..event };
                self.reporter.event(&established, None)?;
                self.hold(established.id);
            }
            EventKind::Disconnected(_) => {
                self.reporter.event(&event, None)?;
                if attempt.id.conn_state() == ConnState::DreqRcvd {
                    let _ = attempt.id.disconnect();
                    self.stay_until = Some(Instant::now() + STAY);
                }
                self.made += 1;
                if let Some(id) = self.finish(event.id)
                    && self.args.verbose
                {
                    self.lingering.insert(event.id, id);
                } else {
                    self.reporter.forget(event.id);
                }
            }
            EventKind::Rejected(_) | EventKind::Unreachable(_) | EventKind::DeviceRemoval => {
                self.reporter.event(&event, None)?;
                if event.kind == EventKind::Rejected(RejectReason::STALE) {
                    self.stay_until = Some(Instant::now() + STAY);
                }
                self.fail(event);
            }
            EventKind::AddrChange => self.reporter.event(&event, None)?,
            EventKind::AddrError(_) | EventKind::RouteError(_) | EventKind::ConnectError(_) => {
                self.fail(event);
            }
            _ => {}
        }
        Ok(())
    }

    /// An attempt that cannot take its next step is over.
    fn go_on(&mut self, id: Handle, step: Result<(), Error>) {
        if let Err(error) = step {
            self.note_failure(error);
            self.finish(id);
            self.reporter.forget(id);
        }
    }

    /// From established to disconnect.
    fn hold(&mut self, id: Handle) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            let at = Instant::now() + Duration::from_millis(self.args.hold);
            attempt.hold_until = Some(at);
            self.holds.insert((at, id));
        }
    }

    fn end_holds(&mut self) {
        let now = Instant::now();
        while let Some(&(at, id)) = self.holds.first().filter(|(at, _)| *at <= now) {
            self.holds.remove(&(at, id));
            if let Some(attempt) = self.attempts.get(&id)
                && attempt.id.conn_state() == ConnState::Established
            {
                let _ = attempt.id.disconnect();
            }
        }
    }

    /// A signal: nothing new is begun, connections are ended, attempts given up.
    fn interrupt(&mut self) {
        self.stop_at = Some(Instant::now() + GRACE);
        self.lingering.clear();
        self.holds.clear();
        self.attempts.retain(|_, attempt| {
            let _ = attempt.id.disconnect();
            attempt.hold_until.is_some()
        });
    }

    /// Takes an attempt off the books.
    fn finish(&mut self, id: Handle) -> Option<Id> {
        let attempt = self.attempts.remove(&id)?;
        if let Some(at) = attempt.hold_until {
            self.holds.remove(&(at, id));
        }
        Some(attempt.id)
    }

    fn fail(&mut self, event: Event) {
        let cause = match event.kind {
            EventKind::Rejected(reason) => Cause::Rejected(Box::new(Rejection {
                reason,
                service: ServiceId::new(PortSpace::Tcp, event.peer.port()),
                private_data: event.private_data,
                additional_info: event.additional_info,
            })),
            EventKind::Unreachable(why) => Cause::Unreachable(why),
            EventKind::AddrError(errno)
            | EventKind::RouteError(errno)
            | EventKind::ConnectError(errno) => Cause::Host(errno),
            EventKind::DeviceRemoval => Cause::Host(libc::ENODEV),
            _ => Cause::Closed,
        };
        let (local, peer) = (Some(event.local), Some(event.peer));
        let error = Error { operation: "connect", local, peer, cause };
        self.go_on(event.id, Err(error));
    }

    fn note_failure(&mut self, error: Error) {
        self.failures += 1;
        self.first_failure.get_or_insert_with(|| error.into());
    }

    /// How it ended, all in all.
    fn conclude(self) -> Outcome {
        let (made, failed, all) = (self.made, self.failures, self.args.count);
        if self.stop_at.is_some() {
            let message = format!("interrupted after {made} of {all} connections");
            return Err(Failure::new(libc::EINTR, "interrupted", message).into());
        }
        let Some(mut failure) = self.first_failure else { return Ok(()) };
        if all > 1 {
            let first = failure.message;
            failure.message = format!("{failed} of {all} connections failed; the first: {first}");
        }
        Err(failure.into())
    }
}
