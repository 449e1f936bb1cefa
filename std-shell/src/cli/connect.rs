//! `nanocm connect`: one connection or many, a few at a time, and what becomes of each.

use super::args::{self, Address, PrivateData};
use super::events::Reporter;
use super::output::{Failure, Outcome, Stop};
use super::provider::{self, Provider};
use nanocm::core::Id as Handle;
use nanocm::{
    Cause, Cm, ConnParam, ConnState, Error, Event, EventChannel, EventKind, Id, IdOption, PortSpace,
};
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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
    /// Report the end of timewait too
    #[arg(long)]
    verbose: bool,
    /// One JSON object a line instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let cm = args.provider.cm(2 * args.parallel as usize + 64)?;
    let peer = provider::ip(args.address)?;
    let source = match args.from {
        Some(from) => use_source(&cm, provider::ip(from)?)?,
        None => choose_source(&cm, peer)?,
    };
    let channel = cm.channel()?;
    let mut client = Client {
        args,
        cm: &cm,
        channel: &channel,
        source,
        peer,
        reporter: Reporter::new(args.json),
        attempts: HashMap::new(),
        holds: BTreeSet::new(),
        started: 0,
        first_failure: None,
        failures: 0,
    };
    client.run()?;
    match client.first_failure {
        None => Ok(()),
        Some(mut failure) => {
            if args.count > 1 {
                let (failed, all) = (client.failures, args.count);
                failure.message =
                    format!("{failed} of {all} connections failed; the first: {}", failure.message);
            }
            Err(failure.into())
        }
    }
}

/// The local address as told.
fn use_source(cm: &Cm, from: SocketAddr) -> Result<SocketAddr, Stop> {
    cm.open(from)?;
    Ok(from)
}

/// The route's local address; if that is a loopback address whose UDP port is taken, the first free one
/// of 127.0.0.2 to 127.0.0.254.
fn choose_source(cm: &Cm, peer: SocketAddr) -> Result<SocketAddr, Stop> {
    let source = cm.source_for(peer)?;
    let taken = match cm.open(source) {
        Ok(()) => return Ok(source),
        Err(error) => error,
    };
    let is_taken = matches!(&taken.cause, Cause::Open(open) if open.holder().is_some());
    if !is_taken || !matches!(source.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
        return Err(taken.into());
    }
    for last in 2..=254 {
        let other = SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), source.port()));
        if cm.open(other).is_ok() {
            return Ok(other);
        }
    }
    Err(taken.into())
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
    /// What is to happen when: the end of a hold or of an attempt.
    holds: BTreeSet<(Instant, Handle)>,
    started: u32,
    first_failure: Option<Failure>,
    failures: u32,
}

impl Client<'_> {
    fn run(&mut self) -> Outcome {
        loop {
            while self.started < self.args.count
                && self.attempts.len() < self.args.parallel as usize
            {
                self.start()?;
            }
            if self.attempts.is_empty() {
                return Ok(());
            }
            let wake = self.holds.first().map(|(at, _)| *at);
            if let Some(event) = self.channel.next(wake)? {
                self.take(event)?;
            }
            self.end_holds()?;
        }
    }

    fn start(&mut self) -> Outcome {
        self.started += 1;
        let timeout = Duration::from_millis(self.args.timeout);
        let until = Instant::now() + timeout;
        let id = self.cm.create_id(self.channel, PortSpace::Tcp)?;
        if let Some(tos) = self.args.tos {
            id.set_option(IdOption::Tos(tos))?;
        }
        id.resolve_addr(Some(self.source), self.peer, timeout)?;
        self.holds.insert((until, id.handle()));
        self.attempts.insert(id.handle(), Attempt { id, until, hold_until: None });
        Ok(())
    }

    fn take(&mut self, event: Event) -> Outcome {
        let Some(attempt) = self.attempts.get_mut(&event.id) else { return Ok(()) };
        let left = attempt.until.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        match event.kind {
            EventKind::AddrResolved => attempt.id.resolve_route(left)?,
            EventKind::RouteResolved => {
                let mut param = ConnParam::new(self.cm.next_qpn());
                param.private_data = &self.args.private_data.0;
                param.timeout = Some(left);
                param.retries = self.args.retries;
                attempt.id.connect(&param)?;
            }
            EventKind::ConnectResponse { .. } => {
                // Said as ESTABLISHED, with the private data that only this event has.
                attempt.id.establish()?;
                let established = Event { kind: EventKind::Established, ..event };
                self.reporter.event(&established, None)?;
                self.hold(established.id);
            }
            EventKind::Established => {}
            EventKind::Disconnected(_) => {
                self.reporter.event(&event, None)?;
                if attempt.id.conn_state() == ConnState::DreqRcvd {
                    attempt.id.disconnect()?;
                }
                self.finish(event.id);
            }
            EventKind::Rejected(_) | EventKind::Unreachable(_) => {
                self.reporter.event(&event, None)?;
                self.fail(event);
            }
            EventKind::AddrError(_) | EventKind::RouteError(_) | EventKind::ConnectError(_) => {
                self.fail(event);
            }
            _ => {}
        }
        Ok(())
    }

    /// From established to disconnect.
    fn hold(&mut self, id: Handle) {
        if let Some(attempt) = self.attempts.get_mut(&id) {
            self.holds.remove(&(attempt.until, id));
            let at = Instant::now() + Duration::from_millis(self.args.hold);
            attempt.hold_until = Some(at);
            self.holds.insert((at, id));
        }
    }

    fn end_holds(&mut self) -> Outcome {
        let now = Instant::now();
        while let Some(&(at, id)) = self.holds.first().filter(|(at, _)| *at <= now) {
            self.holds.remove(&(at, id));
            let Some(attempt) = self.attempts.get(&id) else { continue };
            if attempt.hold_until.is_some() && attempt.id.conn_state() == ConnState::Established {
                attempt.id.disconnect()?;
            }
        }
        Ok(())
    }

    fn finish(&mut self, id: Handle) {
        if let Some(attempt) = self.attempts.remove(&id) {
            self.holds.remove(&(attempt.until, id));
            if let Some(at) = attempt.hold_until {
                self.holds.remove(&(at, id));
            }
        }
        self.reporter.forget(id);
    }

    fn fail(&mut self, event: Event) {
        let cause = match event.kind {
            EventKind::Rejected(reason) => Cause::Rejected {
                reason,
                service: nanocm::core::ServiceId::new(PortSpace::Tcp, event.peer.port()),
                private_data: event.private_data,
                additional_info: event.additional_info,
            },
            EventKind::Unreachable(why) => Cause::Unreachable(why),
            EventKind::AddrError(errno)
            | EventKind::RouteError(errno)
            | EventKind::ConnectError(errno) => Cause::Host(errno),
            _ => Cause::Closed,
        };
        let error =
            Error { operation: "connect", local: Some(event.local), peer: Some(event.peer), cause };
        self.failures += 1;
        self.first_failure.get_or_insert_with(|| error.into());
        self.finish(event.id);
    }
}
