//! `nanocm listen`: accept or reject whoever asks, and say what happens.

use super::args::{self, Address, PrivateData};
use super::events::Reporter;
use super::failure::check_length;
use super::output::{Failure, Outcome};
use super::provider::{self, Provider};
use super::signals::{self, EVENTS_PER_TURN, Signals};
use nanocm::core::Id as Handle;
use nanocm::core::conn::limits;
use nanocm::{
    Cm, ConnParam, ConnState, Deadline, Event, EventChannel, EventKind, Id, PortSpace, RejectReason,
};
use std::collections::{HashMap, HashSet, VecDeque};
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

impl From<Space> for PortSpace {
    fn from(space: Space) -> PortSpace {
        match space {
            Space::Tcp => PortSpace::Tcp,
            Space::Udp => PortSpace::Udp,
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (answer, limit) = match (args.space, args.reject) {
        (Space::Tcp, None) => ("REP", limits::REP),
        (Space::Tcp, Some(_)) => ("REJ", limits::REJ),
        (Space::Udp, _) => ("SIDR_REP", limits::SIDR_REP),
    };
    check_length(&args.private_data.0, answer, limit)?;
    let address = provider::ip(args.address)?;
    let mut signals = Signals::take().map_err(signals::failure)?;
    let cm = args.provider.cm(CONNECTIONS)?;
    let channel = cm.channel()?;
    let listener = cm.create_id(&channel, args.space.into())?;
    listener.bind(address)?;
    listener.listen(args.backlog)?;
    let mut server = Server {
        args,
        cm: &cm,
        listener: listener.handle(),
        reporter: Reporter::new(args.json, args.space.into()),
        qpn: (args.space == Space::Udp).then(|| cm.next_qpn()),
        connections: HashMap::new(),
        over: HashSet::new(),
        answered: VecDeque::new(),
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
            self.ended += 1;
            self.over.insert(request.id);
            self.answered.push_back((Instant::now(), id));
        } else {
            self.connections.insert(request.id, id);
        }
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
