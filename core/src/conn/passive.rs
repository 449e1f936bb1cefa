//! The passive side: REQ in, REP or REJ out, RTU in. States REQ_RCVD, REP_SENT and REJ_SENT.
//!
//! Read first: IBTA 12 (passive side of the state diagram); facts: linux-rdma-cm §1.7, §3.4.

use super::active::NotNow;
use super::lookup::PeerHashes;
use super::qp::{Transport, repeats, repeats_of, retry_counts};
use super::slot::{flag, owed};
use super::state::Stage;
use super::{ConnParam, Conns, Outcome, Verdict, check_private_data, limits};
use crate::addr::{Path, RocePath};
use crate::stats::{IgnoreReason, bump};
use crate::wire::{Mad, MessageKind, RejectReason, Req, Rtu};

impl Conns<'_> {
    /// Takes a REQ into a claimed slot and waits for the application's answer.
    pub(crate) fn admit(
        &mut self,
        index: usize,
        path: &Path,
        req: &Req<&Mad>,
        transport: Transport,
        gid_index: u16,
        hashes: PeerHashes,
    ) {
        self.begin(index);
        let slot = self.slot_mut(index);
        slot.tid = req.transaction_id();
        slot.path = answer_path(path, req);
        slot.gid_index = gid_index;
        slot.remote_comm_id = req.local_comm_id();
        slot.remote_ca_guid = req.local_ca_guid();
        slot.remote_qpn = req.local_qpn();
        slot.remote_psn = req.starting_psn();
        slot.peer_responder_resources = req.responder_resources();
        slot.peer_initiator_depth = req.initiator_depth();
        slot.peer_retry_counts =
            retry_counts(req.retry_count(), req.rnr_retry_count()) | repeats(req.max_cm_retries());
        slot.pkey = req.partition_key();
        slot.mtu = req.path_mtu();
        slot.rate = req.primary_packet_rate();
        slot.packet_lifetime = req.primary_local_ack_timeout().saturating_sub(1);
        slot.set(flag::PEER_SRQ, req.srq());
        slot.set(flag::PEER_FLOW_CONTROL, req.end_to_end_flow_control());
        slot.set_transport(Some(transport));
        slot.set_ece(req.ece());
        slot.put_peers_data(req.consumer_data());
        self.enter_peer_tables(index, hashes);
        self.set_stage(index, Stage::ReqRcvd, "REQ");
        self.wake_after(index, self.waits.accept_deadline);
    }

    /// A REQ that repeats a known one: what we answered, we answer again.
    pub(crate) fn on_duplicate_req(&mut self, index: usize) -> Verdict {
        match self.slot(index).stage {
            // Linux waits for its timer here; the peer has just told us that it waits. The timer
            // begins anew, lest it say the same again at once; patience that it asked for stays.
            Stage::RepSent(wait) => {
                self.wake_not_before(index, &wait);
                self.owe(index, owed::REP, true);
            }
            Stage::RejSent => self.owe(index, owed::REJ, true),
            // The application takes its time: the peer shall know (facts: linux-rdma-cm §3.2).
            Stage::ReqRcvd => self.owe(index, owed::MRA, false),
            Stage::Timewait if self.slot(index).holds(owed::REJ) => {
                self.slot_mut(index).set_rejects(MessageKind::REQ);
                self.owe(index, owed::REJ, true);
            }
            _ => {}
        }
        self.counters.duplicate().into()
    }

    /// `accept`: owes the REP.
    pub(crate) fn accept(&mut self, index: usize, param: &ConnParam<'_>) -> Result<(), NotNow> {
        self.expect_request(index)?;
        if self.slot(index).is_datagram() {
            return self.answer_sidr(index, param);
        }
        self.check_param(param, limits::REP).map_err(NotNow::Refused)?;
        self.apply_param(index, owed::REP, param);
        self.set_owed(index, 0);
        self.enter_own_table(index);
        let retries = param.retries.unwrap_or(self.config.passive_retries);
        let retries = repeats_of(self.slot(index).peer_retry_counts, retries);
        let wait = self.start_waiting(index, param.timeout, Some(retries));
        self.set_stage(index, Stage::RepSent(wait), "accept");
        self.owe(index, owed::REP, false);
        Ok(())
    }

    /// `reject`: owes the REJ, and again for every repetition of the REQ until destroyed. Legal for
    /// a REP too, on the active side.
    pub(crate) fn reject(
        &mut self,
        index: usize,
        reason: RejectReason,
        data: &[u8],
    ) -> Result<(), NotNow> {
        let stage = self.slot(index).stage;
        if !matches!(stage, Stage::RepRcvd(_) | Stage::RepSent(_)) {
            self.expect_request(index)?;
        }
        let datagram = self.slot(index).is_datagram();
        let limit = if datagram { limits::SIDR_REP } else { limits::REJ };
        check_private_data(data, limit).map_err(NotNow::Refused)?;
        self.refuse(index, reason, data, "reject");
        Ok(())
    }

    /// Rejects what is pending, in whichever state that is.
    pub(super) fn refuse(
        &mut self,
        index: usize,
        reason: RejectReason,
        data: &[u8],
        why: &'static str,
    ) {
        match self.slot(index).stage {
            // The peer's queue pair is free for its next attempt.
            Stage::ReqRcvd => {
                self.owe_reject(index, reason, MessageKind::REQ, data);
                self.forget_queue_pairs(index);
                self.sleep(index);
                self.set_stage(index, Stage::RejSent, why);
            }
            Stage::SidrReqRcvd => self.refuse_sidr(index, reason, data, why),
            Stage::RepRcvd(_) => {
                self.owe_reject(index, reason, MessageKind::REP, data);
                self.enter_timewait(index, why);
            }
            // A peer that lacks the REP repeats its REQ, and is known by it until timewait is over.
            Stage::RepSent(_) => {
                let slot = self.slot(index);
                let unsent = slot.owes & owed::REP != 0 && !slot.has(flag::REPEAT);
                let of = if unsent { MessageKind::REQ } else { MessageKind::OTHER };
                self.owe_reject(index, reason, of, data);
                if reason == RejectReason::TIMEOUT {
                    self.leave_tables(index);
                } else {
                    self.forget_queue_pairs(index);
                }
                self.begin_timewait(index, why);
            }
            _ => {}
        }
    }

    /// The slot owes this REJ, and nothing else any more.
    pub(super) fn owe_reject(
        &mut self,
        index: usize,
        reason: RejectReason,
        of: MessageKind,
        data: &[u8],
    ) {
        let slot = self.slot_mut(index);
        slot.reason = reason.0;
        slot.set_rejects(of);
        slot.put_own_data(owed::REJ, data);
        self.set_owed(index, 0);
        self.owe(index, owed::REJ, false);
    }

    pub(crate) fn on_rtu(&mut self, path: &Path, rtu: &Rtu<&Mad>) -> Verdict {
        let Some(index) = self.find_both(rtu.remote_comm_id(), rtu.local_comm_id()) else {
            return self.counters.ignore(IgnoreReason::UnknownConnection).into();
        };
        let slot = self.slot(index);
        if !self.may_touch(slot, path) {
            return self.counters.ignore(IgnoreReason::WrongPath).into();
        }
        match slot.stage {
            Stage::RepSent(wait) => {
                self.note_answer(index, wait);
                self.stand(index, "RTU");
                self.accepted(index, Outcome::Established)
            }
            Stage::Established if !slot.is_active() => self.counters.duplicate().into(),
            // The peer takes it for standing: our REJ was lost, or is under way.
            Stage::Timewait if slot.holds(owed::REJ) => {
                // Past its REQ, whatever we rejected last.
                self.slot_mut(index).set_rejects(MessageKind::OTHER);
                self.owe(index, owed::REJ, true);
                self.counters.duplicate().into()
            }
            _ => self.counters.ignore(IgnoreReason::NotForState).into(),
        }
    }

    /// `notify_established`: data have come, so the peer must have sent its RTU.
    pub(crate) fn notify_established(&mut self, index: usize) -> Result<(), NotNow> {
        match self.slot(index).stage {
            Stage::RepSent(_) => {
                self.stand(index, "notify_established");
                Ok(())
            }
            Stage::Established => Err(NotNow::Already),
            _ => Err(self.not_now(index)),
        }
    }

    fn stand(&mut self, index: usize, why: &'static str) {
        self.sleep(index);
        self.set_owed(index, 0);
        self.set_stage(index, Stage::Established, why);
        bump(&mut self.counters.established);
    }

    fn expect_request(&self, index: usize) -> Result<(), NotNow> {
        match self.slot(index).stage {
            Stage::ReqRcvd | Stage::SidrReqRcvd => Ok(()),
            _ => Err(self.not_now(index)),
        }
    }
}

/// Where answers to a REQ go: its primary path, the other way round (facts: wire-formats §6.1).
fn answer_path(path: &Path, req: &Req<&Mad>) -> Path {
    match *path {
        Path::Roce(arrived) => Path::Roce(RocePath {
            local: req.primary_remote_gid(),
            remote: req.primary_local_gid(),
            scope: arrived.scope,
            flow_label: req.primary_flow_label(),
            traffic_class: req.primary_traffic_class(),
            // 0 would not leave this host.
            hop_limit: match req.primary_hop_limit() {
                0 => 64,
                limit => limit,
            },
        }),
        Path::Ib(mut arrived) => {
            arrived.local = req.primary_remote_gid();
            arrived.remote = req.primary_local_gid();
            arrived.flow_label = req.primary_flow_label();
            arrived.traffic_class = req.primary_traffic_class();
            arrived.hop_limit = req.primary_hop_limit();
            arrived.sl = req.primary_sl();
            Path::Ib(arrived)
        }
    }
}
