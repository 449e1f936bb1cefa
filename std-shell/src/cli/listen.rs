//! `nanocm listen`: accept or reject whoever asks, and say what happens.

use super::args::{self, Address, PrivateData};
use super::events::Reporter;
use super::failure::check_length;
use super::output::{Failure, Outcome};
use super::policy::{self, Ports};
use super::provider::{self, Provider};
use super::signals::{self, EVENTS_PER_TURN, Signals};
use super::unanswered::Unanswered;
use nanocm::core::conn::limits;
use nanocm::core::{Counters, Id as Handle};
use nanocm::{
    Cm, ConnParam, ConnState, Deadline, Event, EventChannel, EventKind, Id, PortSpace, RejectReason,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Listen for connections or datagram services: accept or reject, and report what happens
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Where to listen: 1.2.3.4:PORT, [v6]:PORT, 0.0.0.0:PORT for every address; port 0 for any
    #[arg(value_name = "ADDR:PORT", value_parser = args::address)]
    address: Address,
    /// In which port space: tcp (connections) or udp (datagram services)
    #[arg(long, value_name = "tcp|udp", default_value = "tcp", hide_possible_values = true)]
    space: Space,
    /// How CM messages travel: udp, raw, umad:CA/PORT, kernel
    #[arg(long, value_name = "P", default_value = "udp")]
    provider: Provider,
    /// Where ports come from: host, independent, shared-fd N; default: the host's port space too (tcp)
    #[arg(long, value_name = "WHERE")]
    ports: Option<Ports>,
    /// Exit after N requests have ended (rejected, disconnected or failed)
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Reject every request with this reason: a code (1-33, 35) or a name such as "consumer"
    #[arg(long, value_name = "REASON", value_parser = args::reject_reason)]
    reject: Option<RejectReason>,
    /// Private data for the answer, as hexadecimal digits (accept 196 octets, reject 148; udp 136)
    #[arg(long, value_name = "HEX", default_value = "", value_parser = args::private_data)]
    private_data: PrivateData,
    /// How many requests may wait for an answer; 0 stands for 1024
    #[arg(long, value_name = "N", default_value_t = 0)]
    backlog: u32,
    /// Milliseconds from a request to its answer, as of an application that thinks
    #[arg(long, value_name = "MS", default_value_t = 0)]
    accept_after: u64,
    /// Milliseconds after which a request without answer is rejected
    #[arg(long, value_name = "MS", default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..))]
    accept_deadline: u64,
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

/// The port spaces of the command line.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Space {
    Tcp,
    Udp,
}

impl From<Space> for PortSpace {
    fn from(space: Space) -> PortSpace {
        match space {
            Space::Tcp => PortSpace::Tcp,
            Space::Udp => PortSpace::Udp,
        }
    }
}

pub(crate) fn run(args: &Args, counted: &mut Option<Counters>) -> Outcome {
    let (answer, limit) = match (args.space, args.reject) {
        (Space::Tcp, None) => ("REP", limits::REP),
        (Space::Tcp, Some(_)) => ("REJ", limits::REJ),
        (Space::Udp, _) => ("SIDR_REP", limits::SIDR_REP),
    };
    check_length(&args.private_data.0, answer, limit)?;
    let address = provider::ip(args.address)?;
    let shared = policy::take_shared(args.ports)?;
    policy::check_space(args.ports, args.space.into())?;
    let mut signals = Signals::take().map_err(signals::failure)?;
    let cm = args.provider.cm_with(CONNECTIONS, |config| {
        config.timers.accept_deadline = Duration::from_millis(args.accept_deadline);
    })?;
    policy::apply(args.ports, &cm);
    let address = policy::address(address, shared.as_ref())?;
    let outcome = serve(args, &cm, address, &mut signals);
    *counted = args.counters.then(|| cm.counters());
    outcome
}

/// Until it is done, or a signal comes.
fn serve(args: &Args, cm: &Cm, address: SocketAddr, signals: &mut Signals) -> Outcome {
    let channel = cm.channel()?;
    let listener = cm.create_id(&channel, args.space.into())?;
    listener.bind(address)?;
    listener.listen(args.backlog)?;
    let mut server = Server {
        args,
        cm,
        listener: listener.handle(),
        reporter: Reporter::new(args.json, args.space.into()),
        qpn: (args.space == Space::Udp).then(|| cm.next_qpn()),
        unanswered: Unanswered::default(),
        connections: HashMap::new(),
        over: HashSet::new(),
        answered: VecDeque::new(),
        ended: 0,
    };
    let local = listener.local_addr().unwrap_or(address);
    server.reporter.listening(listener.handle(), local)?;
    loop {
        server.take_events(&channel)?;
        server.answer_some()?;
        if server.is_done() {
            return Ok(());
        }
        if signals.arrived() {
            drop(listener);
            return server.stop(&channel);
        }
        let wake = server.unanswered.next();
        signals.wait(&[cm.as_fd(), channel.as_fd()], wake).map_err(signals::failure)?;
    }
}

/// Room for so many connections at a time.
const CONNECTIONS: usize = 16_384;

/// The identifier of a request that has its only answer, a rejection or a datagram service's queue pair,
/// is kept so long, to answer a repetition alike, while there are not too many of them.
const KEEP_ANSWERED: Duration = Duration::from_secs(30);
const MOST_ANSWERED: usize = CONNECTIONS / 4;

/// After a signal peers have so long to agree to the end.
const GRACE: Duration = Duration::from_secs(3);

struct Server<'a> {
    args: &'a Args,
    cm: &'a Cm,
    listener: Handle,
    reporter: Reporter,
    /// Of a datagram service, which has one.
    qpn: Option<u32>,
    unanswered: Unanswered,
    connections: HashMap<Handle, Id>,
    /// Which identifiers have been counted as ended.
    over: HashSet<Handle>,
    answered: VecDeque<(Instant, Id)>,
    ended: u64,
}

impl Server<'_> {
    fn is_done(&self) -> bool {
        self.args.count.is_some_and(|count| self.ended >= count)
    }

    fn take_events(&mut self, channel: &EventChannel) -> Outcome {
        self.forget_answered();
        // Not for ever: signals and answered requests have their turn too.
        for _ in 0..EVENTS_PER_TURN {
            if self.is_done() {
                break;
            }
            let Some(event) = channel.try_next()? else { break };
            self.take(event)?;
        }
        Ok(())
    }

    fn forget_answered(&mut self) {
        let now = Instant::now();
        while let Some((at, id)) = self.answered.front()
            && (*at + KEEP_ANSWERED < now || self.answered.len() > MOST_ANSWERED)
        {
            let id = id.handle();
            self.answered.pop_front();
            self.forget(id);
        }
    }

    fn take(&mut self, mut event: Event) -> Outcome {
        if event.kind != EventKind::TimewaitExit || self.args.verbose {
            self.reporter.event(&event, Some(self.listener))?;
        }
        match event.kind {
            EventKind::ConnectRequest { .. } => {
                if let Some(id) = event.take_request() {
                    return self.receive(event, id);
                }
            }
            EventKind::Disconnected(_) => {
                // Answers the peer's DREQ; after our own there is nothing to answer, and it may have
                // stopped asking.
                if let Some(id) = self.connections.get(&event.id)
                    && id.conn_state() == ConnState::DreqRcvd
                {
                    let _ = id.disconnect();
                }
                // The identifier stays until timewait is over.
                self.ended += 1;
                self.over.insert(event.id);
            }
            EventKind::DeviceRemoval if event.id == self.listener => {
                let message = format!("listen {}: the device is gone", event.local);
                return Err(Failure::new(libc::ENODEV, "host", message).into());
            }
            EventKind::DeviceRemoval => {
                self.ended += u64::from(!self.over.contains(&event.id));
                self.forget(event.id);
            }
            EventKind::TimewaitExit => self.forget(event.id),
            EventKind::Rejected(_) | EventKind::Unreachable(_) => {
                self.ended += 1;
                self.forget(event.id);
            }
            // Not answered in time: the engine has rejected it.
            EventKind::ConnectError(_) => {
                let waiting = self.unanswered.remove(event.id);
                if let Some(id) = waiting.or_else(|| self.connections.remove(&event.id)) {
                    self.keep_answered(id);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn forget(&mut self, id: Handle) {
        self.unanswered.remove(id);
        self.connections.remove(&id);
        self.over.remove(&id);
        self.reporter.forget(id);
    }

    /// A request, to be answered now or later.
    fn receive(&mut self, request: Event, id: Id) -> Outcome {
        if self.args.accept_after == 0 {
            return self.answer(&request, id);
        }
        let at = Instant::now() + Duration::from_millis(self.args.accept_after);
        self.unanswered.insert(at, request, id);
        Ok(())
    }

    /// Answers whoever has waited long enough.
    fn answer_some(&mut self) -> Outcome {
        for _ in 0..EVENTS_PER_TURN {
            if self.is_done() {
                break;
            }
            let Some((request, id)) = self.unanswered.pop_due(Instant::now()) else { break };
            self.answer(&request, id)?;
        }
        Ok(())
    }

    fn answer(&mut self, request: &Event, id: Id) -> Outcome {
        let mut param = ConnParam::new(self.qpn.unwrap_or_else(|| self.cm.next_qpn()));
        param.private_data = &self.args.private_data.0;
        if let EventKind::ConnectRequest { peer, .. } = request.kind {
            param.responder_resources = peer.responder_resources;
            param.initiator_depth = peer.initiator_depth;
        }
        let done = match self.args.reject {
            Some(reason) => id.reject(reason, param.private_data),
            None => id.accept(&param),
        };
        let is_last = match (done, self.args.space, self.args.reject) {
            // The peer gave up meanwhile, as the next event says.
            (Err(error), ..) => {
                log::debug!("{error}");
                false
            }
            (Ok(()), Space::Tcp, None) => false,
            (Ok(()), Space::Udp, None) => {
                self.reporter.answered(request, self.listener, param.qpn, param.qkey)?;
                true
            }
            (Ok(()), _, Some(reason)) => {
                self.reporter.rejected_by_us(request, self.listener, reason)?;
                true
            }
        };
        if is_last {
            self.keep_answered(id);
        } else {
            self.connections.insert(request.id, id);
        }
        Ok(())
    }

    /// It has had its only answer.
    fn keep_answered(&mut self, id: Id) {
        self.ended += 1;
        self.over.insert(id.handle());
        self.answered.push_back((Instant::now(), id));
    }

    /// Rejects who waits, disconnects all and waits a little for the peers to agree.
    fn stop(&mut self, channel: &EventChannel) -> Outcome {
        while let Some((request, id)) = self.unanswered.pop() {
            let reason = self.args.reject.unwrap_or(RejectReason::CONSUMER);
            if id.reject(reason, &[]).is_ok() {
                self.reporter.rejected_by_us(&request, self.listener, reason)?;
                self.keep_answered(id);
            } else {
                self.connections.insert(request.id, id);
            }
        }
        let until = Deadline::after(GRACE);
        for id in self.connections.values() {
            if id.conn_state() == ConnState::Established {
                let _ = id.disconnect();
            }
        }
        // Whom we have accepted may take it for established already.
        let waits = |id: &Id| matches!(id.conn_state(), ConnState::RepSent | ConnState::DreqSent);
        while self.connections.values().any(waits) {
            let Some(event) = channel.next(until)? else { break };
            let (id, stands) = (event.id, event.kind == EventKind::Established);
            self.take(event)?;
            if stands && let Some(id) = self.connections.get(&id) {
                // Refused if it was told to end before this was said.
                let _ = id.disconnect();
            }
        }
        while let Some(event) = channel.try_next()? {
            self.take(event)?;
        }
        Ok(())
    }
}
