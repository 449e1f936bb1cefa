//! The worst call against the typical one, per kind of call.
//!
//! An engine with nothing, half of its 65,536 connections or all of them open, to peers of different
//! kinds and with different deadlines pending, goes through the life of a few more connections: in
//! order, in reverse, at random. Every call is counted. A kind of call may cost four times its median
//! at worst. Exempt are the bursts that the design names: none of them is in here.

pub(crate) mod active;
mod binding;
pub(crate) mod datagrams;
pub(crate) mod passive;
mod timers;

use crate::count::count;
use crate::forge::{Peer, Peers};
use crate::report::Report;
use crate::rng::Rng;
use crate::spread::Spread;
use crate::world::{B, engine};
use nanocm_core::wire::Mad;
use nanocm_core::{
    Capacity, Cm, ConnParam, Event, EventKind, Id, Instant, Memory, PortSpace, Transmit,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// At worst so many times the typical count.
const RATIO: f64 = 4.0;

/// How many connections an engine has room for, beside the batch.
const CONNS: u32 = 65_536;

/// How many connections go through a phase together.
pub(crate) const BATCH: u32 = 4;

/// The port that everybody asks for.
pub(crate) const PORT: u16 = 7471;

/// What is open in an engine before anything is counted.
#[derive(Clone, Copy)]
pub(crate) struct Setting {
    /// With whom.
    pub(crate) peers: Peers,
    /// Which deadlines are pending.
    pub(crate) timers: Timers,
    /// How many connections.
    pub(crate) open: u32,
    /// How many the engine has room for: a batch more at least.
    pub(crate) room: u32,
    /// In which orders batches go through their lives.
    pub(crate) rounds: &'static [Order],
}

/// Measures and reports every kind of call.
pub fn worst(report: &mut Report) {
    report.section("worst call against typical (instructions; up to 65,536 connections open)");
    let mut jobs: Vec<Job> = vec![Box::new(binding::run), Box::new(timers::run)];
    for (peers, timers) in Peers::ALL.into_iter().zip(Timers::ALL) {
        for open in [0, CONNS / 2, CONNS] {
            let setting = Setting { peers, timers, open, room: CONNS + BATCH, rounds: &Order::ALL };
            jobs.push(Box::new(move |kinds| passive::run(kinds, setting)));
            jobs.push(Box::new(move |kinds| active::run(kinds, setting)));
            jobs.push(Box::new(move |kinds| datagrams::run(kinds, setting)));
        }
    }
    let mut kinds = Kinds::default();
    for counted in run_all(&jobs) {
        kinds.append(counted);
    }
    for (kind, spread) in &kinds.0 {
        let (typical, worst) = (spread.typical(), spread.worst());
        let what = format!("{kind:<36} {typical:>5} … {worst:>5} of {:>4}", spread.len());
        report.at_most(&what, worst as f64 / typical.max(1) as f64, RATIO);
    }
}

pub(crate) type Job = Box<dyn Fn(&mut Kinds) + Sync>;

/// Runs the jobs on all processors; what each has counted. Who runs what changes no count.
pub(crate) fn run_all(jobs: &[Job]) -> Vec<Kinds> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let number = next.fetch_add(1, Relaxed);
            let Some(job) = jobs.get(number) else { break };
            let mut counted = Kinds::default();
            job(&mut counted);
            done.lock().expect("nobody panics with it").insert(number, counted);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(work);
        }
    });
    done.into_inner().expect("nobody panics with it").into_values().collect()
}

/// Counts by kind of call.
#[derive(Default)]
pub(crate) struct Kinds(pub(crate) BTreeMap<&'static str, Spread>);

impl Kinds {
    fn call<R>(&mut self, kind: &'static str, call: impl FnOnce() -> R) -> R {
        let (result, steps) = count(call);
        self.0.entry(kind).or_default().add(steps);
        result
    }

    fn append(&mut self, other: Kinds) {
        for (kind, spread) in other.0 {
            self.0.entry(kind).or_default().append(spread);
        }
    }
}

/// Which deadlines the connections have that are open already.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timers {
    /// None: they stand.
    None,
    /// All the same one.
    Equal,
    /// Each an earlier one than all before.
    Descending,
}

impl Timers {
    const ALL: [Timers; 3] = [Timers::None, Timers::Equal, Timers::Descending];

    /// When the attempt with this number ends.
    fn timeout(self, number: u32) -> Option<Duration> {
        match self {
            Timers::None => None,
            Timers::Equal => Some(Duration::from_secs(500)),
            Timers::Descending => Some(Duration::from_millis(u64::from(500_000 - number))),
        }
    }
}

/// In which order the connections of a batch take their next step.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Same,
    Reverse,
    Random,
}

impl Order {
    const ALL: [Order; 3] = [Order::Same, Order::Reverse, Order::Random];
}

/// A connection as the bench knows it.
pub(crate) struct Conn {
    pub(crate) peer: Peer,
    pub(crate) id: Id,
    pub(crate) own_comm_id: u32,
    pub(crate) own_qpn: u32,
}

/// One engine at 10.0.0.2, whose calls are counted or just made.
pub(crate) struct Bench<'m, 'k> {
    pub(crate) cm: Cm<'m>,
    pub(crate) now: Instant,
    pub(crate) kinds: Option<&'k mut Kinds>,
    rng: Rng,
    order: Order,
    /// The next peer's number, and our next queue pair.
    next: u32,
}

impl<'m, 'k> Bench<'m, 'k> {
    pub(crate) fn new(memory: &'m mut Memory) -> Bench<'m, 'k> {
        let now = Instant::from_millis(1_000);
        let cm = engine(memory, B, now, |config| {
            // So that what is open stays as it is while the batch goes through its timers.
            config.timers.accept_deadline = Duration::from_secs(10_000);
        });
        Bench { cm, now, kinds: None, rng: Rng::new(11), order: Order::Same, next: 0 }
    }

    /// Begins to count into `kinds`, or ends; if asked to.
    pub(crate) fn swap_if(&mut self, wanted: bool, kinds: &mut Option<&'k mut Kinds>) {
        if wanted {
            std::mem::swap(&mut self.kinds, kinds);
        }
    }

    /// Makes a call of this kind.
    pub(crate) fn call<R>(
        &mut self,
        kind: &'static str,
        call: impl FnOnce(&mut Cm<'m>, Instant) -> R,
    ) -> R {
        let now = self.now;
        match &mut self.kinds {
            Some(kinds) => kinds.call(kind, || call(&mut self.cm, now)),
            None => call(&mut self.cm, now),
        }
    }

    /// Brings a batch into the order of this round.
    fn arrange(&mut self, conns: &mut [Conn]) {
        match self.order {
            Order::Same => {}
            Order::Reverse => conns.reverse(),
            Order::Random => self.rng.shuffle(conns),
        }
    }

    /// A message from a peer.
    pub(crate) fn receive(&mut self, kind: &'static str, peer: &Peer, mad: &[u8]) {
        let path = peer.path(B);
        let _ = self.call(kind, |cm, now| cm.handle_datagram(now, &path, mad));
    }

    /// An event that is due.
    pub(crate) fn event(&mut self, name: &str) -> Event {
        let event = self.call("poll_event", |cm, _| cm.poll_event());
        let event = event.unwrap_or_else(|| panic!("{name} is due"));
        assert_eq!(event.kind.name(), name);
        event
    }

    /// So many events that are due.
    fn events(&mut self, count: usize, name: &str) {
        for _ in 0..count {
            self.event(name);
        }
    }

    /// So many messages that are due.
    fn transmit_all(&mut self, count: usize) {
        for _ in 0..count {
            self.transmit();
        }
    }

    /// A message that is due.
    pub(crate) fn transmit(&mut self) -> Mad {
        let mut mad = [0; 256];
        let sent = self.call("poll_transmit", |cm, now| cm.poll_transmit(now, &mut mad));
        assert!(matches!(sent, Some(Transmit { .. })), "a message is due");
        mad
    }

    /// Nothing more is due.
    pub(crate) fn expect_silence(&mut self) {
        assert_eq!(self.cm.poll_event(), None);
        assert_eq!(self.cm.poll_transmit(self.now, &mut [0; 256]), None);
    }

    /// Time passes; so many deadlines with it.
    pub(crate) fn expire(&mut self, after: Duration, count: usize) {
        self.now = self.now + after;
        for left in (0..count).rev() {
            let more = self.call("handle_timeout(budget 1)", |cm, now| cm.handle_timeout(now, 1));
            assert_eq!(more, left > 0, "{count} deadlines");
        }
    }

    pub(crate) fn destroy(&mut self, kind: &'static str, conn: &Conn) {
        let _ = self.call(kind, |cm, now| cm.destroy(now, conn.id)).expect("a live identifier");
    }

    pub(crate) fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }
}

/// Room for two listeners beside the connections.
pub(crate) fn memory(conns: u32) -> Memory {
    let conns = conns as usize;
    Memory::new(Capacity { ids: conns + 2, ..Capacity::of(conns) })
}

/// The communication ID that our message names as ours.
fn own_comm_id(mad: &Mad) -> u32 {
    u32::from_be_bytes([mad[24], mad[25], mad[26], mad[27]])
}
