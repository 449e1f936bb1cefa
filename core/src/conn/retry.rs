//! What happens when nothing comes: repetition with doubling intervals, put off while peers are slow
//! (`pace.rs`), the end of waiting, and MRA, which asks for patience.
//!
//! Read first: IBTA 12 (timeouts and retries); facts: wire-formats §2.11, field-tests C1, C2.

use super::pace::Pace;
use super::slot::owed;
use super::state::{Stage, Wait};
use super::{Conns, Outcome, Verdict};
use crate::addr::Path;
use crate::config::Timers;
use crate::event::{DisconnectCause, Unreachable};
use crate::stats::{Disposition, IgnoreReason, bump};
use crate::time::{Span, Tick, duration_to_code};
use crate::wire::{Attribute, Mad, MessageKind, Mra, RejectReason};
use core::time::Duration;

/// errno of a full transmit queue (Linux): the next repetition may get through.
const ENOBUFS: i32 = 105;

/// Of `Wait::left`: as many as the time allows.
const UNLIMITED: u8 = u8::MAX;

/// Milliseconds in the unit of `Wait::patience`.
const TENTH: u32 = 100;

/// The engine's timers in the form in which they are used.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    first_retry: Span,
    sidr_first_retry: Span,
    /// In milliseconds.
    put_off: u32,
    deadline: Span,
    pub(super) accept_deadline: Span,
    /// How far an MRA may move a deadline, as `Wait::patience` has it; 109 minutes at most.
    patience: u16,
    /// What our own MRA says.
    pub(super) service_timeout: u8,
}

impl Waits {
    pub(super) fn new(timers: &Timers) -> Waits {
        let deadline = Span::from(timers.deadline);
        let patience = Span::from(timers.max_wait).saturating_sub(deadline);
        Waits {
            first_retry: Span::from(timers.first_retry).max(Span::MILLISECOND),
            sidr_first_retry: Span::from(timers.sidr_first_retry).max(Span::MILLISECOND),
            put_off: Span::from(timers.put_off).as_millis(),
            deadline,
            accept_deadline: timers.accept_deadline.into(),
            patience: u16::try_from(patience.as_millis() / TENTH).unwrap_or(u16::MAX),
            service_timeout: duration_to_code(timers.accept_deadline),
        }
    }
}

impl Conns<'_> {
    /// Begins to wait for an answer: the first repetition after `first_retry`, the end after
    /// `timeout` or the engine's deadline.
    pub(super) fn start_waiting(
        &mut self,
        index: usize,
        timeout: Option<Duration>,
        retries: Option<u8>,
    ) -> Wait {
        let (after, patience) = match timeout {
            Some(timeout) => (timeout.into(), 0),
            None => (self.waits.deadline, self.waits.patience),
        };
        let until = Tick::after(self.now, after);
        let wait = Wait {
            until,
            patience,
            beats: 0,
            left: retries.map_or(UNLIMITED, |n| n.min(UNLIMITED - 1)),
        };
        self.wake_for(index, &wait);
        wait
    }

    /// Begins anew to repeat, with the same end.
    pub(super) fn restart(&mut self, index: usize, wait: Wait) {
        let wait = Wait { beats: 0, ..wait };
        self.wake_for(index, &wait);
        self.set_wait(index, wait);
    }

    /// Sets the deadline of the next repetition, or of the end.
    fn wake_for(&mut self, index: usize, wait: &Wait) {
        let next = self.next_repetition(index, wait);
        self.deadlines.set(self.table.slots_mut(), index, next);
    }

    /// The same, unless that would bring it forward.
    pub(super) fn wake_not_before(&mut self, index: usize, wait: &Wait) {
        let next = self.next_repetition(index, wait);
        let set = self.deadlines.of(self.table.slots(), index).unwrap_or(next);
        self.deadlines.set(self.table.slots_mut(), index, next.max(set));
    }

    fn next_repetition(&self, index: usize, wait: &Wait) -> Tick {
        let datagram = self.slot(index).is_datagram();
        let waits = &self.waits;
        let first = if datagram { waits.sidr_first_retry } else { waits.first_retry };
        let interval = first.doubled(wait.beats());
        Tick::after(self.now, interval).min(wait.until)
    }

    /// Handles one deadline that has come. `None`: there is none.
    pub(crate) fn next_expired(&mut self) -> Option<Option<(usize, Outcome)>> {
        let now = Tick::at(self.now);
        let index = self.deadlines.pop_due(self.table.slots_mut(), now)?;
        Some(self.on_deadline(index, now))
    }

    fn on_deadline(&mut self, index: usize, now: Tick) -> Option<(usize, Outcome)> {
        match self.slot(index).stage {
            Stage::ReqSent(wait) => {
                if self.try_again(index, wait, now, owed::REQ) {
                    return None;
                }
                self.give_up(index, "no answer");
                self.outcome(index, Outcome::Unreachable(Unreachable::Timeout))
            }
            Stage::RepSent(wait) => {
                if self.try_again(index, wait, now, owed::REP) {
                    return None;
                }
                // Said often enough, lest it be said to somebody who has not asked. Who has, asks again.
                if !wait.until.is_due(now) {
                    self.deadlines.set(self.table.slots_mut(), index, wait.until);
                    return None;
                }
                self.refuse(index, RejectReason::TIMEOUT, &[], "no answer");
                self.outcome(index, Outcome::Unreachable(Unreachable::Timeout))
            }
            Stage::DreqSent(wait) => {
                if self.try_again(index, wait, now, owed::DREQ) {
                    return None;
                }
                self.set_owed(index, 0);
                self.over(index, DisconnectCause::Timeout, "no answer").outcome
            }
            Stage::SidrReqSent(wait) => {
                if self.try_again(index, wait, now, owed::REQ) {
                    return None;
                }
                self.give_up(index, "no answer");
                self.outcome(index, Outcome::Unreachable(Unreachable::Timeout))
            }
            Stage::ReqRcvd | Stage::SidrReqRcvd => {
                bump(&mut self.counters.accept_overdue);
                self.refuse(index, RejectReason::CONSUMER, &[], "not answered");
                self.outcome(index, Outcome::AcceptOverdue)
            }
            Stage::Timewait => {
                self.leave_tables(index);
                self.set_stage(index, Stage::Idle, "timewait over");
                self.outcome(index, Outcome::TimewaitExit)
            }
            // The host's answer to a question, not the peer's.
            Stage::Idle => self.outcome(index, Outcome::QueryExpired),
            _ => None,
        }
    }

    /// Repeats the question, or puts that off; false if there is no time or no try left.
    fn try_again(&mut self, index: usize, wait: Wait, now: Tick, question: u8) -> bool {
        if wait.until.is_due(now) || wait.left == 0 {
            return false;
        }
        let later = wait.after_a_beat();
        let waited = self.waited(&later);
        let again = self.slot(index).is_datagram()
            || wait.is_spoilt()
            || waited >= self.waits.put_off
            || !self.pace(index).may_come(waited, now)
            // There is no other time for it.
            || self.next_repetition(index, &later) == wait.until;
        let mut wait = later;
        if again {
            wait = wait.spoilt();
            wait.left -= u8::from(wait.left != UNLIMITED);
            self.owe(index, question, true);
        }
        self.set_wait(index, wait);
        self.wake_for(index, &wait);
        true
    }

    /// That of the peers on the other side of connections like this one: who asks us cannot slow down what
    /// we ask others.
    fn pace(&mut self, index: usize) -> &mut Pace {
        let active = self.slot(index).is_active();
        &mut self.paces[usize::from(active)]
    }

    /// Milliseconds from a question to its last beat.
    fn waited(&self, wait: &Wait) -> u32 {
        let first = self.waits.first_retry.as_millis();
        first.saturating_mul((1 << wait.beats()) - 1)
    }

    /// The answer has come. How long it took counts if it can only be the answer to what was sent first.
    pub(super) fn note_answer(&mut self, index: usize, wait: Wait) {
        let next = self.deadlines.of(self.table.slots(), index);
        let Some(next) = next.filter(|&next| next != wait.until && !wait.is_spoilt()) else {
            return;
        };
        let now = Tick::at(self.now);
        let left = u32::try_from(next.ahead_of(now)).unwrap_or(0);
        if self.waits.put_off > 0
            && let Some(took) = self.waited(&wait.after_a_beat()).checked_sub(left)
        {
            self.pace(index).note(took, now);
        }
    }

    /// The peer is alive but slow: wait as long as it asks, up to `max_wait`; an end that the user
    /// set stays.
    pub(crate) fn on_mra(&mut self, path: &Path, mra: &Mra<&Mad>) -> Verdict {
        let Some(index) = self.find_own(mra.remote_comm_id()) else {
            return self.counters.ignore(IgnoreReason::UnknownConnection).into();
        };
        let slot = self.slot(index);
        if !self.may_touch(slot, path) {
            return self.counters.ignore(IgnoreReason::WrongPath).into();
        }
        match (slot.stage, mra.message_mraed()) {
            (Stage::ReqSent(wait), MessageKind::REQ) => {
                self.be_patient(index, wait, mra.service_timeout());
                Disposition::Accepted.into()
            }
            (Stage::RepSent(wait), MessageKind::REP)
                if slot.remote_comm_id == mra.local_comm_id() =>
            {
                self.be_patient(index, wait, mra.service_timeout());
                Disposition::Accepted.into()
            }
            _ => self.counters.ignore(IgnoreReason::NotForState).into(),
        }
    }

    fn be_patient(&mut self, index: usize, wait: Wait, service_timeout: u8) {
        let round_trip = Span::of_code(self.slot(index).round_trip());
        let next = Tick::after(self.now, Span::of_code(service_timeout) + round_trip);
        let furthest = wait.until.plus_millis(u32::from(wait.patience) * TENTH);
        let until = wait.until.max(next.min(furthest));
        let moved = until.ahead_of(wait.until).unsigned_abs().div_ceil(TENTH) as u16;
        let patience = wait.patience.saturating_sub(moved);
        self.deadlines.set(self.table.slots_mut(), index, next.min(until));
        self.set_wait(index, Wait { until, patience, ..wait.spoilt() });
        // What we sent got through.
        self.slot_mut(index).forget_failures();
    }

    /// The transport could not send a message of this connection. Two REQs in a row that fail, and not
    /// for want of buffers, end an attempt; a connection that stands has its timers.
    pub(crate) fn on_send_failed(
        &mut self,
        comm_id: u32,
        message: Attribute,
        errno: i32,
    ) -> Option<(usize, Outcome)> {
        bump(&mut self.counters.send_failed);
        let index = self.find_own(comm_id)?;
        let slot = self.slot_mut(index);
        let waiting = match slot.stage {
            Stage::ReqSent(_) => message == Attribute::REQ,
            Stage::SidrReqSent(_) => message == Attribute::SIDR_REQ,
            _ => false,
        };
        if !waiting || errno == ENOBUFS || errno == crate::error::errno::EAGAIN {
            return None;
        }
        if !slot.note_failure() {
            return None;
        }
        self.give_up(index, "cannot send");
        self.outcome(index, Outcome::Unreachable(Unreachable::SendFailed(errno)))
    }
}
