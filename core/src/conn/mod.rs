//! Machine 2, the connection: the CM protocol of IBTA chapter 12, without I/O, clock or encoding
//! buffers.
//!
//! `Conns` owns every connection's slot, the indexes that find it, its deadline and what it owes.
//! It knows nothing of identifiers but their index (`owner`), and tells what happened in a dozen
//! `Outcome`s: the seam where another connection protocol would fit.
//!
//! Follow a connection through `active.rs` or `passive.rs` to `close.rs`; `state.rs` has the table
//! of legal moves; `retry.rs` what happens when nothing comes; `lookup.rs` how messages find their
//! connection; `emit.rs` how a slot becomes a MAD; `flood.rs` what strangers may cost.

mod active;
#[cfg(feature = "testing")]
mod audit;
mod close;
mod emit;
mod flood;
pub mod limits;
mod lookup;
mod pace;
mod passive;
#[cfg(feature = "testing")]
mod picture;
mod qp;
mod reject;
mod reply;
mod retry;
mod sidr;
mod slot;
mod state;

pub use qp::{ConnParam, QpAttrs, QpState, Transport, UDP_QKEY};
pub use state::{ConnState, TRANSITIONS};

pub(crate) use active::NotNow;
pub(crate) use lookup::{Known, PeerHashes};
pub use reply::Reply;
pub use slot::ConnSlot;

pub(crate) use reply::ReplyRing;

use crate::addr::{PortSpace, ScopedIp};
use crate::config::Config;
use crate::error::ConnectError;
use crate::event::{DisconnectCause, Unreachable};
use crate::hash::{CommIds, Key, Rng};
use crate::slots::{Chains, Deadlines, Link, List, Table};
use crate::stats::{Counters, Disposition, bump};
use crate::time::{Instant, Span, Tick};
use crate::wire::{IpCmHeader, RejectReason};
use core::time::Duration;
use flood::Flood;
use pace::Pace;
use retry::Waits;
use slot::{FAREWELLS, OWN_QPN, PEER_ID, PEER_QPN, SENDS, flag, owed};
use state::{Stage, Wait};

/// What a message or a deadline means to the identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The host did not answer a question in time.
    QueryExpired,
    /// The peer accepted.
    Response,
    /// The connection stands, or the datagram service has answered.
    Established,
    /// The peer refused, or gave up. The reason is a SIDR status where there is no connection.
    Rejected(RejectReason),
    /// The peer does not answer.
    Unreachable(Unreachable),
    /// The application did not answer in time; the request has been rejected.
    AcceptOverdue,
    /// It is over.
    Disconnected(DisconnectCause),
    /// Timewait is over.
    TimewaitExit,
}

/// What became of a message, and what it means to which identifier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Verdict {
    pub(crate) disposition: Disposition,
    pub(crate) outcome: Option<(usize, Outcome)>,
}

impl From<Disposition> for Verdict {
    fn from(disposition: Disposition) -> Verdict {
        Verdict { disposition, outcome: None }
    }
}

/// The addresses of an identifier, as a REQ names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Endpoints {
    pub(crate) space: PortSpace,
    pub(crate) local: ScopedIp,
    pub(crate) local_port: u16,
    pub(crate) remote: ScopedIp,
    pub(crate) remote_port: u16,
}

impl Endpoints {
    /// The IP CM header of a REQ or SIDR_REQ.
    fn header(&self) -> IpCmHeader {
        IpCmHeader {
            source_port: self.local_port,
            source: self.local.gid,
            destination: self.remote.gid,
        }
    }
}

/// Memory for [`Conns`].
pub(crate) struct ConnParts<'s> {
    pub(crate) slots: &'s mut [ConnSlot],
    pub(crate) deadlines: &'s mut [crate::slots::DeadlineEntry],
    pub(crate) by_peer_id: &'s mut [Link],
    pub(crate) by_peer_qpn: &'s mut [Link],
    pub(crate) by_own_qpn: &'s mut [Link],
    pub(crate) replies: &'s mut [Reply],
}

/// Every connection.
#[derive(Debug)]
pub(crate) struct Conns<'s> {
    table: Table<'s, ConnSlot>,
    deadlines: Deadlines<'s>,
    by_peer_id: Chains<'s, PEER_ID>,
    by_peer_qpn: Chains<'s, PEER_QPN>,
    by_own_qpn: Chains<'s, OWN_QPN>,
    /// Slots that owe an answer to the peer.
    answers: List<SENDS>,
    /// Slots that owe a REQ or DREQ.
    asks: List<SENDS>,
    /// Slots whose identifier has a question for the host.
    questions: List<SENDS>,
    /// Destroyed connections that still have something to say, oldest first.
    farewells: List<FAREWELLS>,
    replies: ReplyRing<'s>,
    flood: Flood,
    comm_ids: CommIds,
    rng: Rng,
    key: Key,
    pub(crate) config: Config,
    waits: Waits,
    /// Of those who asked us, and of those whom we have asked.
    paces: [Pace; 2],
    /// Our clock, and the latest time that the caller has brought.
    now: Instant,
    seen: Instant,
    /// Nanoseconds by which the earliest deadline may be overdue, at most.
    overdue: u64,
    pub(crate) counters: Counters,
}

impl<'s> Conns<'s> {
    /// `None` if the communication IDs have no room for that many slots beside the prefix.
    pub(crate) fn new(parts: ConnParts<'s>, config: &Config, key: Key) -> Option<Conns<'s>> {
        let (value, bits) = config.comm_id_prefix;
        let prefix = (u32::from(value), bits);
        let index_bits = CommIds::index_bits(parts.slots.len());
        if !CommIds::fits(prefix, index_bits) {
            return None;
        }
        Some(Conns {
            table: Table::new(parts.slots),
            deadlines: Deadlines::new(parts.deadlines),
            by_peer_id: Chains::new(parts.by_peer_id)?,
            by_peer_qpn: Chains::new(parts.by_peer_qpn)?,
            by_own_qpn: Chains::new(parts.by_own_qpn)?,
            answers: List::new(),
            asks: List::new(),
            questions: List::new(),
            farewells: List::new(),
            replies: ReplyRing::new(parts.replies),
            flood: Flood::new(config),
            comm_ids: CommIds::new(key.derive(1), prefix, index_bits),
            rng: Rng::new(key.derive(2)),
            key: key.derive(3),
            config: *config,
            waits: Waits::new(&config.timers),
            paces: [Pace::default(); 2],
            now: Instant::ZERO,
            seen: Instant::ZERO,
            overdue: 0,
            counters: Counters::default(),
        })
    }

    /// Takes note of the time; the latest seen counts. Of a jump beyond every deadline (a suspended
    /// machine), or while nobody handles what is due, no more is felt than makes them all due: ticks a
    /// month apart cannot be compared.
    pub(crate) fn advance(&mut self, now: Instant) {
        if now > self.seen {
            self.pass(now);
        }
    }

    /// Apart from [`advance`](Self::advance), which is in every call.
    #[inline(never)]
    fn pass(&mut self, now: Instant) {
        let most = Span::LONGEST.as_nanos();
        let mut felt = now.as_nanos() - self.seen.as_nanos();
        if felt > most - self.overdue {
            self.overdue = 0;
            if let Some(earliest) = self.deadlines.earliest() {
                self.overdue = earliest.overdue(Tick::at(self.now)).min(most);
                felt = felt.min(most - self.overdue);
            }
        }
        self.overdue = self.overdue.saturating_add(felt).min(most);
        self.seen = now;
        self.now = Instant::from_nanos(self.now.as_nanos() + felt);
    }

    /// Whether a deadline has come.
    pub(crate) fn is_due(&self) -> bool {
        self.deadlines.earliest().is_some_and(|tick| tick.is_due(Tick::at(self.now)))
    }

    /// When the next deadline falls due.
    pub(crate) fn poll_at(&self) -> Option<Instant> {
        let at = self.deadlines.earliest()?.to_instant(self.now);
        let slept = self.seen.as_nanos() - self.now.as_nanos();
        Some(Instant::from_nanos(at.as_nanos().saturating_add(slept)))
    }

    /// The latest time seen.
    pub(crate) fn seen(&self) -> Instant {
        self.seen
    }

    /// Whether `claim` would succeed.
    pub(crate) fn has_room(&self) -> bool {
        self.table.len() < self.table.capacity() || !self.farewells.is_empty()
    }

    /// A slot for `owner`, if need be in place of the oldest farewell. Nothing is sent yet.
    pub(crate) fn claim(&mut self, owner: usize) -> Option<usize> {
        if self.table.len() == self.table.capacity() {
            let oldest = self.farewells.front()?;
            bump(&mut self.counters.farewells_dropped);
            self.free(oldest);
        }
        let index = self.table.claim()?;
        self.slot_mut(index).owner = Link::to(owner);
        Some(index)
    }

    /// Gives a slot back at once: nothing is owed, nothing remembered.
    pub(crate) fn free(&mut self, index: usize) {
        self.set_owed(index, 0);
        self.leave_tables(index);
        self.sleep(index);
        if self.slot(index).owner.is_none() {
            self.farewells.remove(self.table.slots_mut(), index);
        }
        self.put_stage(index, Stage::Idle);
        self.slot_mut(index).clear();
        self.table.release(index);
    }

    /// A new communication ID and PSN for a slot that starts a connection.
    fn begin(&mut self, index: usize) {
        let psn = self.rng.next_u32() & 0xff_ffff;
        let slot = &mut self.table.slots_mut()[index];
        slot.local_comm_id = self.comm_ids.encode(index as u32, slot.incarnation());
        slot.local_psn = psn;
        slot.flags = 0;
        slot.forget_failures();
    }

    fn slot(&self, index: usize) -> &ConnSlot {
        &self.table.slots()[index]
    }

    fn slot_mut(&mut self, index: usize) -> &mut ConnSlot {
        &mut self.table.slots_mut()[index]
    }

    /// The only writer of a connection's state.
    fn set_stage(&mut self, index: usize, next: Stage, why: &'static str) {
        let slot = self.slot(index);
        let (from, to) = (slot.stage.state(), next.state());
        debug_assert!(from.may_become(to), "{from} -> {to} ({why})");
        debug!("conn {}: {} -> {} ({})", slot.local_comm_id, from.name(), to.name(), why);
        self.put_stage(index, next);
    }

    /// The same wait with other figures, or none if it is over: no move.
    fn set_wait(&mut self, index: usize, wait: Wait) {
        let slot = self.slot_mut(index);
        if let Stage::ReqSent(old)
        | Stage::RepSent(old)
        | Stage::DreqSent(old)
        | Stage::SidrReqSent(old) = &mut slot.stage
        {
            *old = wait;
        }
    }

    /// Adds a message to what a slot owes, as a first sending or a repetition. What has not gone out
    /// since it was owed first is not repeated yet.
    fn owe(&mut self, index: usize, message: u8, repeat: bool) {
        let slot = self.slot_mut(index);
        if slot.owes & message == 0 {
            slot.set(flag::REPEAT, repeat);
        }
        self.set_owed(index, self.slot(index).owes | message);
    }

    /// The only writer of what a slot owes: keeps it in the list that fits.
    fn set_owed(&mut self, index: usize, owes: u8) {
        let before = core::mem::replace(&mut self.slot_mut(index).owes, owes);
        let (old, new) = (Queue::of(before), Queue::of(owes));
        if old == new {
            return;
        }
        if let Some(queue) = old {
            let slots = self.table.slots_mut();
            match queue {
                Queue::Answers => self.answers.remove(slots, index),
                Queue::Asks => self.asks.remove(slots, index),
                Queue::Questions => self.questions.remove(slots, index),
            };
        }
        if let Some(queue) = new {
            let slots = self.table.slots_mut();
            match queue {
                Queue::Answers => self.answers.push_back(slots, index),
                Queue::Asks => self.asks.push_back(slots, index),
                Queue::Questions => self.questions.push_back(slots, index),
            };
        }
    }

    /// Sets a slot's only deadline.
    #[inline(never)]
    fn wake_after(&mut self, index: usize, after: impl Into<Span>) {
        let at = Tick::after(self.now, after.into());
        self.deadlines.set(self.table.slots_mut(), index, at);
    }

    fn sleep(&mut self, index: usize) {
        self.deadlines.cancel(self.table.slots_mut(), index);
    }

    /// The identifier of a connection and what happened to it; of a destroyed one, nothing.
    fn outcome(&self, index: usize, outcome: Outcome) -> Option<(usize, Outcome)> {
        self.slot(index).owner.get().map(|owner| (owner, outcome))
    }

    #[inline(never)]
    fn accepted(&self, index: usize, outcome: Outcome) -> Verdict {
        Verdict { disposition: Disposition::Accepted, outcome: self.outcome(index, outcome) }
    }

    /// Asks for the host's answer to a question of this slot's identifier within `timeout`.
    pub(crate) fn ask_host(&mut self, index: usize, timeout: Duration) {
        self.owe(index, owed::HOST, false);
        self.wake_after(index, timeout);
    }

    /// The next slot whose identifier has a question; it has been asked then.
    pub(crate) fn next_question(&mut self) -> Option<usize> {
        let index = self.questions.front()?;
        self.set_owed(index, self.slot(index).owes & !owed::HOST);
        self.slot(index).owner.get()
    }

    /// The question is answered or given up.
    pub(crate) fn question_over(&mut self, index: usize) {
        self.set_owed(index, self.slot(index).owes & !owed::HOST);
        self.sleep(index);
    }

    /// Whether no message is due.
    pub(crate) fn is_silent(&self) -> bool {
        self.answers.is_empty() && self.asks.is_empty() && self.replies.is_empty()
    }

    pub(crate) fn state(&self, index: usize) -> ConnState {
        self.slot(index).stage.state()
    }

    /// The peer's private data that can be read now.
    pub(crate) fn private_data(&self, index: usize) -> &[u8] {
        self.slot(index).peers_data()
    }

    /// The peer's additional rejection information that can be read now.
    pub(crate) fn additional_info(&self, index: usize) -> &[u8] {
        self.slot(index).peers_ari()
    }

    pub(crate) fn reason(&self, index: usize) -> RejectReason {
        RejectReason(self.slot(index).reason)
    }

    pub(crate) fn path(&self, index: usize) -> crate::addr::Path {
        self.slot(index).path
    }

    /// Which entry of the GID table it runs over, once it has a route.
    pub(crate) fn gid_index(&self, index: usize) -> u16 {
        self.slot(index).gid_index
    }

    /// The same of a destroyed connection that still has something to say, if this slot has one.
    pub(crate) fn farewell_from(&self, index: usize) -> Option<u16> {
        let is_farewell = self.table.is_live(index) && self.slot(index).owner.is_none();
        is_farewell.then(|| self.gid_index(index))
    }

    pub(crate) fn capacity(&self) -> usize {
        self.table.capacity()
    }

    /// Whether an application that lets go of this connection owes nothing to anybody.
    pub(crate) fn is_resettable(&self, index: usize) -> bool {
        let slot = self.slot(index);
        slot.has(flag::ACTIVE) && matches!(slot.stage, Stage::Idle | Stage::SidrResolved)
    }

    /// Whether nothing is left: no slot, list entry, deadline or reply. A walk, for tests.
    pub(crate) fn is_clean(&self) -> bool {
        self.table.is_empty()
            && self.deadlines.is_empty()
            && self.by_peer_id.is_empty()
            && self.by_peer_qpn.is_empty()
            && self.by_own_qpn.is_empty()
            && self.answers.is_empty()
            && self.asks.is_empty()
            && self.questions.is_empty()
            && self.farewells.is_empty()
            && self.replies.is_empty()
            && self.flood.is_clean()
    }

    /// How many slots are in use, farewells included.
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }
}

/// Where a slot waits that owes something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Queue {
    Answers,
    Asks,
    Questions,
}

impl Queue {
    fn of(owes: u8) -> Option<Queue> {
        if owes & owed::ANSWERS != 0 {
            Some(Queue::Answers)
        } else if owes & owed::HOST != 0 {
            Some(Queue::Questions)
        } else if owes != 0 {
            Some(Queue::Asks)
        } else {
            None
        }
    }
}

/// Checks private data against what a message takes.
pub(crate) fn check_private_data(data: &[u8], limit: usize) -> Result<(), ConnectError> {
    if data.len() > limit { Err(ConnectError::PrivateDataTooLong { limit }) } else { Ok(()) }
}
