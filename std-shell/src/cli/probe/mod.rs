//! `nanocm probe`: is that peer's CM right?
//!
//! | file | what it owns |
//! |---|---|
//! | `conversations/` | what is sent, and what may follow: a table |
//! | `talk.rs` | one conversation: its names, sending, hearing, leaving nothing behind |
//! | `frame.rs` | BTH, DETH and ICRC of what comes in, and wrong ones to be sent |
//! | `verdict.rs` | what is made of an answer, and where it is wrong |
//! | `peer.rs` | the socket, and who is told what comes through it |
//! | `report.rs` | JSON, sentences, Markdown |
//!
//! This file owns the order of things: is anybody there, what does the listener do, all conversations.

mod conversations;
mod frame;
mod peer;
mod report;
mod talk;
mod verdict;

use super::args::{self, Address};
use super::output::{Failure, Stop, errno};
use super::provider::{self, Provider};
use super::signals::{self, Signals};
use super::source;
use conversations::{Conversation, Needs};
use nanocm::core::ScopedIp;
use nanocm::core::error::BindError;
use nanocm::provider::Frames;
use nanocm::{Cause, Error, PortSpace, random_seed};
use nanocm_core::wire::{Attribute, Header, Rej, RejectReason, SidrRep, SidrStatus};
use peer::{Patience, Peer};
use report::{Form, Probed, Report};
use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use talk::Talk;
use verdict::{NO_ANSWER, Stop as End, Verdict, message};

/// Test a peer's connection manager: what it does with good, odd and wrong messages
#[derive(clap::Args)]
#[command(after_help = VERDICTS)]
pub(crate) struct Args {
    /// Whom to test, and the port of a listener there: 1.2.3.4[:PORT], [v6][:PORT], [fe80::1%eth0][:PORT]
    #[arg(value_name = "ADDR[:PORT]", value_parser = whom)]
    address: Address,
    /// From which local address
    #[arg(long, value_name = "ADDR", value_parser = from)]
    from: Option<Address>,
    /// How CM messages travel: udp
    #[arg(long, value_name = "P", default_value = "udp")]
    provider: Provider,
    /// Also send payloads that are no MADs: a longer one ends the CM of Linux 6.1
    #[arg(long)]
    rude: bool,
    /// One JSON object a line instead of a table
    #[arg(long, conflicts_with = "markdown")]
    pub(crate) json: bool,
    /// A report in Markdown under this title
    #[arg(long, value_name = "TITLE")]
    markdown: Option<String>,
}

const VERDICTS: &str = "\
Verdicts:
  as-specified  what the specification, as far as it is known here, asks for or leaves open
  as-linux      not that, but what Linux does
  deviates      neither
  not-tested    and why

Exit status: 0 nothing deviates, 1 something does, or no CM answers, or a signal came, 2 an argument
cannot be understood.";

/// One host's address, with a port or without.
fn whom(text: &str) -> Result<Address, String> {
    let address = args::source(text)?;
    if let Address::Ip(ip) = address {
        let ip = ip.ip().to_canonical();
        if ip.is_unspecified() || ip.is_multicast() || ip == Ipv4Addr::BROADCAST {
            return Err(format!("{ip} is no single host's address"));
        }
    }
    Ok(address)
}

/// A local address, without a port: nothing that is sent comes from one.
fn from(text: &str) -> Result<Address, String> {
    match args::source(text)? {
        address if address.port() == 0 => Ok(address),
        _ => Err("a probe comes from no RDMA port; give the address alone".into()),
    }
}

/// True if nothing deviates.
///
/// Nothing is left behind, whatever comes of a conversation, and if a signal ends it.
pub(crate) fn run(args: &Args) -> Result<bool, Stop> {
    let remote = provider::ip(args.address)?;
    if args.provider != Provider::Udp {
        let message = "a probe takes `--provider udp`: nothing that it sends needs another";
        return Err(Failure::new(errno::EOPNOTSUPP, "provider", message.into()).into());
    }
    let signals = Signals::take().map_err(signals::failure)?;
    let route = || match Frames::source_for(remote) {
        Ok(source) => Ok(source.address.with_port(0)),
        Err(error) => Err(failed("find the way", None, remote, Cause::Io(error))),
    };
    let opened = scope_of(remote, None, remote).map_err(Stop::from).and_then(|()| {
        source::open_with(args.from, route, |local| {
            scope_of(local, Some(local), remote)?;
            Frames::open(ScopedIp::of(local))
                .map_err(|error| failed("probe", Some(local), remote, Cause::Open(Box::new(error))))
        })
    });
    let (local, frames) = opened.map_err(without_port)?;
    let peer = Peer::new(frames, local, remote, random_seed()?);
    thread::scope(|scope| {
        scope.spawn(|| peer.receive(signals));
        // The scope waits for it, also if there is a panic here.
        let _end = EndWhenDropped(&peer);
        Probe { args, peer: &peer, local, remote }.run()
    })
}

struct EndWhenDropped<'a>(&'a Peer);

impl Drop for EndWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A link-local address needs its interface.
fn scope_of(address: SocketAddr, local: Option<SocketAddr>, peer: SocketAddr) -> Result<(), Error> {
    match address {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
            Err(failed("probe", local, peer, Cause::Bind(BindError::ScopeMissing)))
        }
        _ => Ok(()),
    }
}

/// As it was given: without a port that nobody gave.
fn name(address: &str) -> String {
    let host = address.strip_suffix(":0").map(|host| host.trim_matches(['[', ']']));
    host.unwrap_or(address).to_owned()
}

fn without_port(stop: Stop) -> Stop {
    let Stop::Failed(mut failure) = stop else { return stop };
    let Failure { message, local, peer, .. } = &mut *failure;
    for address in [local, peer].into_iter().flatten() {
        let name = name(address);
        *message = message.replace(&*address, &name);
        *address = name;
    }
    Stop::Failed(failure)
}

fn failed(
    operation: &'static str,
    local: Option<SocketAddr>,
    peer: SocketAddr,
    cause: Cause,
) -> Error {
    Error { operation, local, peer: Some(peer), cause }
}

struct Probe<'a> {
    args: &'a Args,
    peer: &'a Peer,
    local: SocketAddr,
    remote: SocketAddr,
}

/// What is at the port, as far as a good request can tell.
enum Listener {
    NoPort,
    Nobody,
    Rejects(RejectReason),
    Silent,
    Accepts,
}

/// Conversations that go on at a time, where they may.
const SIDE_BY_SIDE: usize = 12;

/// A peer that does not answer a first REQ so soon is asked again.
const FIRST: Patience =
    Patience { silence: Duration::from_millis(700), answer: Duration::from_millis(3_500) };

/// Of a peer that has been there.
const GONE: &str = "the CM does not answer any more";

/// So soon a server is there again, if at all.
const RETURN: Duration = Duration::from_secs(4);

impl Probe<'_> {
    fn run(self) -> Result<bool, Stop> {
        let begin = Instant::now();
        if self.peer.local_gid() == self.peer.remote_gid() {
            // We could take the port, so nobody has it.
            return Err(self.unreachable(libc::ECONNREFUSED));
        }
        let patience = Patience::of(self.round_trip()?);
        let listener = self.listener(patience);
        let serves = self.serves_datagrams(patience);
        self.go_on("all conversations")?;
        let form = match &self.args.markdown {
            _ if self.args.json => Form::Json,
            Some(title) => Form::Markdown(title.clone()),
            None => Form::Sentences,
        };
        let mut report = Report::begin(form, &self.name(), self.local)?;
        let obstacle = |needs| self.obstacle(needs, &listener, serves);
        let all: Vec<_> = conversations::all().map(|what| (what, obstacle(what.needs))).collect();
        let is_sequential =
            |what: &Conversation| matches!(what.needs, Needs::Acceptor | Needs::Rudeness);
        let first = all.iter().take_while(|(what, _)| !is_sequential(what)).count();
        let (first, then) = all.split_at(first);
        let results = side_by_side(first, |(what, obstacle)| {
            play(self.peer, patience, what, obstacle.as_deref())
        });
        self.go_on("some conversations")?;
        for ((what, _), probed) in first.iter().zip(&results) {
            report.tell(what, probed)?;
        }
        let mut is_there = self.is_there(patience);
        for (what, obstacle) in then {
            let obstacle = if is_there { obstacle.as_deref() } else { Some(GONE) };
            let mut probed = play(self.peer, patience, what, obstacle);
            if what.needs == Needs::Acceptor && probed.is_without_listener() {
                probed = self.again(patience, what);
            }
            self.go_on(format_args!("the end of the conversation {}", what.name))?;
            report.tell(what, &probed)?;
            is_there = is_there && (!probed.is_without_answer() || self.is_there(patience));
        }
        is_there = is_there && self.is_there(patience);
        self.go_on("the sum")?;
        report.end(&self.remarks(is_there), begin.elapsed())?;
        Ok(is_there && report.count(Verdict::Deviates) == 0)
    }

    /// As `ADDR[:PORT]` says it.
    fn name(&self) -> String {
        name(&self.remote.to_string())
    }

    /// Unless a signal has come, which was before this.
    fn go_on(&self, before: impl Display) -> Result<(), Stop> {
        if !self.peer.is_interrupted() {
            return Ok(());
        }
        let message = format!("interrupted before {before}");
        Err(Failure::new(libc::EINTR, "interrupted", message).into())
    }

    /// How long the peer takes to refuse a request for a service that nobody has, as each CM must. Where
    /// the answer is wrong it counts all the same: the conversations will tell.
    fn round_trip(&self) -> Result<Duration, Stop> {
        let mut talk = Talk::new(self.peer, FIRST);
        let mut shortest = None;
        for pause in [300, 700, 1_000, 1_500].map(Duration::from_millis) {
            let call = talk.call_nobody();
            let begin = Instant::now();
            talk.send(&call.mad);
            let mut taken = None;
            while taken.is_none() && begin.elapsed() < pause {
                let until = (begin + pause).min(Instant::now() + Duration::from_millis(20));
                taken = (!matches!(talk.take(until), Ok(None))).then(|| begin.elapsed());
                if self.peer.is_interrupted() {
                    talk.close();
                }
                self.go_on("the first answer")?;
                if let Some(errno) = self.peer.trouble().filter(|_| taken.is_none()) {
                    return Err(self.unreachable(errno));
                }
            }
            // The first one may have waited for the link layer's address.
            shortest = [shortest, taken].into_iter().flatten().min();
        }
        talk.close();
        if let Some(shortest) = shortest {
            return Ok(shortest);
        }
        let message = format!("probe {}: no CM answers there", self.name());
        let mut failure = Failure::new(libc::ETIMEDOUT, "timeout", message);
        failure.peer = Some(self.name());
        failure.advice = Some("does UDP 4791 get through, both ways?".into());
        Err(failure.into())
    }

    /// Whether it still answers anything: silence is right in many places, and also what a dead CM has to say.
    fn is_there(&self, patience: Patience) -> bool {
        let mut talk = Talk::new(self.peer, patience);
        let call = talk.call_nobody();
        let heard = talk.exchange(&call.mad, &[call.rej(8)]);
        talk.close();
        !matches!(heard, Err(End::Deviates(deviation)) if deviation.place == NO_ANSWER)
    }

    /// The network says that nothing gets there, or that nothing is there.
    fn unreachable(&self, errno: i32) -> Stop {
        let what = match errno {
            libc::ECONNREFUSED => "nothing answers UDP 4791 at that address".to_owned(),
            _ => super::output::words(&std::io::Error::from_raw_os_error(errno)),
        };
        let message = format!("probe {}: {what}", self.name());
        let mut failure = Failure::new(libc::ETIMEDOUT, "send-failed", message);
        failure.peer = Some(self.name());
        failure.into()
    }

    fn listener(&self, patience: Patience) -> Listener {
        if self.remote.port() == 0 {
            return Listener::NoPort;
        }
        let mut talk = Talk::new(self.peer, patience);
        let call = talk.call();
        let any = [message(Attribute::REP, &[]), message(Attribute::REJ, &[]), call.rej(8)];
        let heard = talk.exchange(&call.mad, &any);
        talk.close();
        match heard {
            Ok(Some(mad)) if Header(&mad).attribute() == Attribute::REJ => {
                match Rej(&mad).reason() {
                    RejectReason::INVALID_SERVICE_ID => Listener::Nobody,
                    reason => Listener::Rejects(reason),
                }
            }
            Err(End::Deviates(deviation)) if deviation.place == NO_ANSWER => Listener::Silent,
            // Something came, right or wrong.
            _ => Listener::Accepts,
        }
    }

    /// Suddenly nobody listens: many servers end when a connection fails, and are started anew. A peer that
    /// answers this conversation so, and no other, will do so again.
    fn again(&self, patience: Patience, what: &Conversation) -> Probed {
        let begin = Instant::now();
        while begin.elapsed() < RETURN && !self.peer.is_interrupted() {
            if let Listener::Accepts = self.listener(patience) {
                return play(self.peer, patience, what, None);
            }
            thread::sleep(Duration::from_millis(100));
        }
        let gone = format!("the listener at port {} has gone", self.remote.port());
        play(self.peer, patience, what, Some(&gone))
    }

    fn serves_datagrams(&self, patience: Patience) -> bool {
        if self.remote.port() == 0 {
            return false;
        }
        let mut talk = Talk::new(self.peer, patience);
        let question = talk.question(talk.service(PortSpace::Udp));
        match talk.exchange(&question.mad, &[message(Attribute::SIDR_REP, &[])]) {
            Ok(Some(mad)) => SidrRep(&mad).status() == SidrStatus::VALID,
            _ => false,
        }
    }

    /// Why conversations with this need are not held.
    fn obstacle(&self, needs: Needs, listener: &Listener, serves: bool) -> Option<String> {
        let port = self.remote.port();
        let no_listener = match listener {
            Listener::NoPort => Some("no port was given".to_owned()),
            Listener::Nobody => Some(format!("there is no listener at port {port}")),
            _ => None,
        };
        match needs {
            Needs::Nothing => None,
            Needs::Listener => no_listener,
            Needs::Acceptor => no_listener.or_else(|| match listener {
                Listener::Rejects(reason) => {
                    Some(format!("the listener at port {port} rejects all: {reason}"))
                }
                Listener::Silent => Some(format!("the listener at port {port} never answers")),
                _ => None,
            }),
            Needs::Service if port == 0 => Some("no port was given".into()),
            Needs::Service if !serves => {
                Some(format!("there is no datagram service at port {port}"))
            }
            Needs::Service => None,
            Needs::Rudeness if self.args.rude => None,
            Needs::Rudeness => Some("only with --rude".into()),
        }
    }

    fn remarks(&self, is_there: bool) -> Vec<String> {
        let mut remarks = Vec::new();
        if !is_there {
            remarks.push(format!("{GONE}: what was silence before may have been its end"));
        }
        let strays = self.peer.strays();
        if strays.count > 0 {
            let (count, some) = (strays.count, strays.first.join(", "));
            remarks.push(format!("datagrams that belonged to no conversation: {count} ({some})"));
        }
        remarks
    }
}

/// Holds one conversation, unless something is in the way.
fn play(peer: &Peer, patience: Patience, what: &Conversation, obstacle: Option<&str>) -> Probed {
    let begin = Instant::now();
    let mut talk = Talk::new(peer, patience);
    let ended = match obstacle {
        _ if peer.is_interrupted() => Err(End::Interrupted),
        Some(reason) => Err(End::NotTested(reason.to_owned())),
        None => (what.play)(&mut talk),
    };
    talk.close();
    let (verdict, deviation, reason) = match ended {
        Ok(()) => (talk.verdict(), None, None),
        Err(End::Deviates(deviation)) => (Verdict::Deviates, Some(deviation), None),
        Err(End::NotTested(reason)) => (Verdict::NotTested, None, Some(reason)),
        Err(End::Interrupted) => (Verdict::NotTested, None, Some("interrupted".into())),
    };
    Probed { verdict, seen: talk.seen(), deviation, reason, taken: begin.elapsed() }
}

/// What a function makes of each, some at a time; in their order.
fn side_by_side<T: Sync, R: Send>(all: &[T], make: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let made: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..SIDE_BY_SIDE.min(all.len()) {
            scope.spawn(|| {
                while let at = next.fetch_add(1, Relaxed)
                    && let Some(one) = all.get(at)
                {
                    let result = make(one);
                    made.lock().unwrap_or_else(|e| e.into_inner()).push((at, result));
                }
            });
        }
    });
    let mut made = made.into_inner().unwrap_or_else(|e| e.into_inner());
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, result)| result).collect()
}
