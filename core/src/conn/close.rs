//! The end: DREQ, DREP, timewait, and what a destroyed connection still has to say. States
//! DREQ_SENT, DREQ_RCVD and TIMEWAIT.
//!
//! Read first: IBTA 12 (communication release); facts: linux-rdma-cm §3.5, §3.6.

use super::active::NotNow;
use super::slot::owed;
use super::state::Stage;
use super::{Conns, Outcome, Reply, Verdict, check_private_data, limits};
use crate::addr::Path;
use crate::event::DisconnectCause;
use crate::slots::Link;
use crate::stats::{Disposition, IgnoreReason};
use crate::time::Span;
use crate::wire::{ApStatus, Drep, Dreq, Lap, Mad, RejectReason};

/// Timewait lasts twice the packet lifetime, whose code is the peer's to say; not longer than this
/// one stands for (4.3 s).
const LONGEST_TIMEWAIT: u8 = 20;

/// How long a destroyed connection keeps its slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Farewell {
    /// Not at all.
    Silent,
    /// Until what it owes is sent.
    Once,
    /// Until its DREQ is answered, or given up.
    Answered,
}

impl Conns<'_> {
    /// `disconnect`: owes the DREQ, or the DREP where the peer was first.
    pub(crate) fn disconnect(&mut self, index: usize, data: &[u8]) -> Result<(), NotNow> {
        let limit = match self.slot(index).stage {
            Stage::Established => limits::DREQ,
            Stage::DreqRcvd => limits::DREP,
            _ => return Err(self.not_now(index)),
        };
        check_private_data(data, limit).map_err(NotNow::Refused)?;
        match self.slot(index).stage {
            Stage::Established => self.send_dreq(index, data, "disconnect"),
            _ => self.send_drep(index, data, "disconnect"),
        }
        Ok(())
    }

    fn send_dreq(&mut self, index: usize, data: &[u8], why: &'static str) {
        let wait = self.start_waiting(index, None, None);
        self.set_stage(index, Stage::DreqSent(wait), why);
        self.put_dreq(index, data);
    }

    /// Owes a DREQ with these data. An RTU that is still owed goes first.
    pub(super) fn put_dreq(&mut self, index: usize, data: &[u8]) {
        let slot = self.slot_mut(index);
        slot.put_own_data(owed::DREQ, data);
        // A new exchange: not the REQ's number again.
        slot.tid = 1 << 32 | u64::from(slot.local_comm_id);
        self.owe(index, owed::DREQ, false);
    }

    fn send_drep(&mut self, index: usize, data: &[u8], why: &'static str) {
        self.slot_mut(index).put_own_data(owed::DREP, data);
        self.enter_timewait(index, why);
        self.owe(index, owed::DREP, false);
    }

    pub(crate) fn on_dreq(&mut self, path: &Path, dreq: &Dreq<&Mad>) -> Verdict {
        let Some(index) = self.find_both(dreq.remote_comm_id(), dreq.local_comm_id()) else {
            // Forgotten here, or never known: the peer may stop asking.
            let reply = Reply::drep(path, dreq.transaction_id())
                .between(dreq.remote_comm_id(), dreq.local_comm_id());
            self.reply(reply);
            return self.counters.ignore(IgnoreReason::UnknownConnection).into();
        };
        let slot = self.slot(index);
        if !self.may_touch(slot, path) {
            return self.counters.ignore(IgnoreReason::WrongPath).into();
        }
        if dreq.remote_qpn() != slot.local_qpn {
            return self.counters.ignore(IgnoreReason::WrongQpn).into();
        }
        let stage = slot.stage;
        match stage {
            // In REP_SENT the RTU was lost: the peer would not disconnect what does not stand.
            Stage::Established | Stage::RepSent(_) => {
                self.slot_mut(index).tid = dreq.transaction_id();
                self.sleep(index);
                self.set_owed(index, 0);
                self.set_stage(index, Stage::DreqRcvd, "DREQ");
                self.accepted(index, Outcome::Disconnected(DisconnectCause::Peer))
            }
            // Crossing: both want it. Theirs is answered; ours needs no answer any more.
            Stage::DreqSent(_) => {
                self.slot_mut(index).tid = dreq.transaction_id();
                self.set_owed(index, 0);
                self.send_drep(index, &[], "DREQ (crossing)");
                self.accepted(index, Outcome::Disconnected(DisconnectCause::Local))
            }
            // The application takes its time, the peer does not: it gets its DREP.
            Stage::DreqRcvd => {
                self.slot_mut(index).tid = dreq.transaction_id();
                self.send_drep(index, &[], "DREQ repeated");
                self.counters.duplicate().into()
            }
            // Our DREP was lost.
            Stage::Timewait => {
                self.slot_mut(index).tid = dreq.transaction_id();
                self.owe(index, owed::DREP, true);
                self.counters.duplicate().into()
            }
            _ => self.counters.ignore(IgnoreReason::NotForState).into(),
        }
    }

    pub(crate) fn on_drep(&mut self, path: &Path, drep: &Drep<&Mad>) -> Verdict {
        let Some(index) = self.find_both(drep.remote_comm_id(), drep.local_comm_id()) else {
            return self.counters.ignore(IgnoreReason::UnknownConnection).into();
        };
        if !self.may_touch(self.slot(index), path) {
            return self.counters.ignore(IgnoreReason::WrongPath).into();
        }
        match self.slot(index).stage {
            Stage::DreqSent(wait) => {
                self.note_answer(index, wait);
                self.set_owed(index, 0);
                self.over(index, DisconnectCause::Local, "DREP")
            }
            Stage::Timewait => self.counters.duplicate().into(),
            _ => self.counters.ignore(IgnoreReason::NotForState).into(),
        }
    }

    /// A LAP: there are no alternate paths here. On RoCE there are none anywhere.
    pub(crate) fn on_lap(&mut self, path: &Path, lap: &Lap<&Mad>) -> Verdict {
        if matches!(path, Path::Roce(_)) {
            return self.counters.ignore(IgnoreReason::Unsupported).into();
        }
        let known = self.find_both(lap.remote_comm_id(), lap.local_comm_id());
        if known.is_some_and(|index| !self.may_touch(self.slot(index), path)) {
            return self.counters.ignore(IgnoreReason::WrongPath).into();
        }
        let status = match known.map(|index| self.slot(index).stage) {
            Some(Stage::Established) => ApStatus::UNSUPPORTED,
            _ => ApStatus::INVALID_COMM_INSTANCE,
        };
        let reply = Reply::apr(path, lap.transaction_id(), status);
        self.reply(reply.between(lap.remote_comm_id(), lap.local_comm_id()));
        Disposition::Accepted.into()
    }

    /// A connection that stood is over; of a destroyed one nothing is left.
    pub(super) fn over(
        &mut self,
        index: usize,
        cause: DisconnectCause,
        why: &'static str,
    ) -> Verdict {
        self.enter_timewait(index, why);
        let verdict = self.accepted(index, Outcome::Disconnected(cause));
        self.end_farewell_when_sent(index);
        verdict
    }

    /// From here on a REQ with the same numbers is a new one (facts: linux-rdma-cm §3.5).
    pub(super) fn enter_timewait(&mut self, index: usize, why: &'static str) {
        self.leave_tables(index);
        self.begin_timewait(index, why);
    }

    /// Timewait alone: who is in an index stays there.
    pub(super) fn begin_timewait(&mut self, index: usize, why: &'static str) {
        self.set_stage(index, Stage::Timewait, why);
        let code = self.slot(index).round_trip().min(LONGEST_TIMEWAIT);
        self.wake_after(index, Span::of_code(code));
    }

    /// `destroy`: the identifier lets go. The slot is given back now, or when the last word is said.
    pub(crate) fn retire(&mut self, index: usize) {
        let farewell = match self.slot(index).stage {
            Stage::ReqSent(_) | Stage::SidrReqSent(_) => {
                self.give_up(index, "destroy");
                Farewell::Silent
            }
            Stage::ReqRcvd | Stage::RepRcvd(_) | Stage::RepSent(_) | Stage::SidrReqRcvd => {
                self.refuse(index, RejectReason::CONSUMER, &[], "destroy");
                Farewell::Once
            }
            Stage::Established => {
                self.send_dreq(index, &[], "destroy");
                Farewell::Answered
            }
            Stage::DreqSent(_) => Farewell::Answered,
            Stage::DreqRcvd => {
                self.send_drep(index, &[], "destroy");
                Farewell::Once
            }
            Stage::Idle
            | Stage::Timewait
            | Stage::RejSent
            | Stage::SidrRepSent
            | Stage::SidrResolved => Farewell::Silent,
        };
        let owes = self.slot(index).owes & !owed::HOST;
        if owes == 0 && farewell != Farewell::Answered {
            self.free(index);
            return;
        }
        self.leave_tables(index);
        self.slot_mut(index).owner = Link::NONE;
        self.farewells.push_back(self.table.slots_mut(), index);
        if farewell != Farewell::Answered {
            self.sleep(index);
        }
    }

    /// A destroyed connection that has said its last word, or has nobody left to wait for, goes.
    pub(super) fn end_farewell_when_sent(&mut self, index: usize) {
        let slot = self.slot(index);
        let destroyed = slot.owner.is_none();
        if destroyed && slot.owes == 0 && !matches!(slot.stage, Stage::DreqSent(_)) {
            self.free(index);
        }
    }

    /// `reset`: the connection is over, the route stays.
    pub(crate) fn reset(&mut self, index: usize) {
        self.set_owed(index, 0);
        if self.slot(index).stage == Stage::SidrResolved {
            self.set_stage(index, Stage::Idle, "reset");
        }
        let slot = self.slot_mut(index);
        slot.forget_peer();
        slot.renew();
    }
}
