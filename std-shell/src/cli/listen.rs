//! `nanocm listen`: accept or reject whoever asks, and say what happens.

use super::args::{self, Address, PrivateData};
use super::events::Reporter;
use super::failure::check_length;
use super::output::{Failure, Outcome};
use super::provider::{self, Provider};
use super::signals::{self, EVENTS_PER_TURN, Signals};
use nanocm::core::Id as Handle;
use nanocm::core::wire::{Mad, Rej, Rep};
use nanocm::{
    Cm, ConnParam, ConnState, Deadline, Event, EventChannel, EventKind, Id, PortSpace, RejectReason,
};
use std::collections::{HashMap, HashSet, VecDeque};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Listen for connections: accept them (or reject, with --reject) and report what happens
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
    /// Exit after N requests have ended (rejected, disconnected or failed)
    #[arg(long, value_name = "N")]
    count: Option<u64>,
    /// Reject every request with this reason: a code (1-33, 35) or a name such as "consumer"
    #[arg(long, value_name = "REASON", value_parser = args::reject_reason)]
    reject: Option<RejectReason>,
    /// Private data for the answer, as hexadecimal digits (accept 196 octets, reject 148)
    #[arg(long, value_name = "HEX", default_value = "", value_parser = args::private_data)]
    private_data: PrivateData,
    /// How many requests may wait for an answer; 0 stands for 1024
    #[arg(long, value_name = "N", default_value_t = 0)]
    backlog: u32,
    /// Report the end of timewait too
    #[arg(long)]
    verbose: bool,
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

pub(crate) fn run(args: &Args) -> Outcome {
    if args.space == Space::Udp {
        return Err(no_datagrams().into());
    }
    match args.reject {
        Some(_) => check_length(&args.private_data.0, "REJ", Rej::<&Mad>::PRIVATE_DATA)?,
        None => check_length(&args.private_data.0, "REP", Rep::<&Mad>::PRIVATE_DATA)?,
    }
    let address = provider::ip(args.address)?;
    let mut signals = Signals::take().map_err(signals::failure)?;
    let cm = args.provider.cm(CONNECTIONS)?;
    let channel = cm.channel()?;
    let listener = cm.create_id(&channel, PortSpace::Tcp)?;
    listener.bind(address)?;
    listener.listen(args.backlog)?;
    let mut server = Server {
        args,
        cm: &cm,
        listener: listener.handle(),
        reporter: Reporter::new(args.json),
        connections: HashMap::new(),
        over: HashSet::new(),
        rejected: VecDeque::new(),
        ended: 0,
    };
    let local = listener.local_addr().unwrap_or(address);
    server.reporter.listening(listener.handle(), local)?;
    loop {
        server.take_events(&channel)?;
        if server.is_done() {
            return Ok(());
        }
        if signals.arrived() {
            drop(listener);
            return server.stop(&channel);
        }
        signals.wait(&[cm.as_fd(), channel.as_fd()], None).map_err(signals::failure)?;
    }
}

fn no_datagrams() -> Failure {
    let message = "datagram services (SIDR) are not part of this version".to_owned();
    let mut failure = Failure::new(libc::EOPNOTSUPP, "unsupported", message);
    failure.advice = Some("use `--space tcp`".to_owned());
    failure
}

/// Room for so many connections at a time.
const CONNECTIONS: usize = 16_384;

/// A rejected request's identifier is kept so long, to answer a repetition alike, while there are not
/// too many of them.
const KEEP_REJECTED: Duration = Duration::from_secs(30);
const MOST_REJECTED: usize = CONNECTIONS / 4;

/// After a signal peers have so long to agree to the end.
const GRACE: Duration = Duration::from_secs(3);

struct Server<'a> {
    args: &'a Args,
    cm: &'a Cm,
    listener: Handle,
    reporter: Reporter,
    connections: HashMap<Handle, Id>,
    /// Which of them were told DISCONNECTED.
    over: HashSet<Handle>,
    rejected: VecDeque<(Instant, Id)>,
    ended: u64,
}

impl Server<'_> {
    fn is_done(&self) -> bool {
        self.args.count.is_some_and(|count| self.ended >= count)
    }

    fn take_events(&mut self, channel: &EventChannel) -> Outcome {
        self.forget_rejected();
        // Not for ever: signals and rejected requests have their turn too.
        for _ in 0..EVENTS_PER_TURN {
            if self.is_done() {
                break;
            }
            let Some(event) = channel.try_next()? else { break };
            self.take(event)?;
        }
        Ok(())
    }

    fn forget_rejected(&mut self) {
        let now = Instant::now();
        while self.rejected.front().is_some_and(|(at, _)| *at + KEEP_REJECTED < now)
            || self.rejected.len() > MOST_REJECTED
        {
            self.rejected.pop_front();
        }
    }

    fn take(&mut self, mut event: Event) -> Outcome {
        if event.kind != EventKind::TimewaitExit || self.args.verbose {
            self.reporter.event(&event, Some(self.listener))?;
        }
        match event.kind {
            EventKind::ConnectRequest { .. } => {
                if let Some(id) = event.request.take() {
                    return self.answer(&event, id);
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
            EventKind::Rejected(_) | EventKind::Unreachable(_) | EventKind::ConnectError(_) => {
                self.ended += 1;
                self.forget(event.id);
            }
            _ => {}
        }
        Ok(())
    }

    fn forget(&mut self, id: Handle) {
        self.connections.remove(&id);
        self.over.remove(&id);
        self.reporter.forget(id);
    }

    fn answer(&mut self, request: &Event, id: Id) -> Outcome {
        if let Some(reason) = self.args.reject {
            if id.reject(reason, &self.args.private_data.0).is_ok() {
                self.rejected.push_back((Instant::now(), id));
                self.ended += 1;
                self.reporter.rejected_by_us(request, self.listener, reason)?;
                self.reporter.forget(request.id);
            } else {
                // The peer gave up meanwhile, as the next event says.
                self.connections.insert(request.id, id);
            }
            return Ok(());
        }
        let mut param = ConnParam::new(self.cm.next_qpn());
        param.private_data = &self.args.private_data.0;
        if let EventKind::ConnectRequest { peer, .. } = request.kind {
            param.responder_resources = peer.responder_resources;
            param.initiator_depth = peer.initiator_depth;
        }
        // Refused only if the peer gave up meanwhile, as the next event says.
        if let Err(error) = id.accept(&param) {
            log::debug!("{error}");
        }
        self.connections.insert(request.id, id);
        Ok(())
    }

    /// Disconnects all and waits a little for the peers to agree.
    fn stop(&mut self, channel: &EventChannel) -> Outcome {
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
