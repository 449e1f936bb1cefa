//! The active side: REQ out, REP in, RTU out. States REQ_SENT and REP_RCVD.
//!
//! Read first: IBTA 12 (active side of the state diagram); facts: linux-rdma-cm §3.4.

use super::lookup::comes_from_port;
use super::qp::retry_counts;
use super::slot::{BUFFER, ConnSlot, flag, owed};
use super::state::Stage;
use super::{ConnParam, Conns, Outcome, Reply, Verdict, check_private_data};
use crate::addr::Path;
use crate::error::ConnectError;
use crate::event::PeerParam;
use crate::request::Route;
use crate::stats::{Disposition, IgnoreReason, bump};
use crate::wire::{Mad, MessageKind, RejectReason, Rep};

/// Private data an application can put into a REQ behind the IP CM header.
pub(crate) const REQ_DATA: usize = 56;

impl Conns<'_> {
    /// Takes the resolved route; nothing is sent yet.
    pub(crate) fn set_route(&mut self, index: usize, route: &Route, gid_index: u16) {
        let slot = self.slot_mut(index);
        slot.path = route.path;
        slot.pkey = route.pkey;
        slot.mtu = route.mtu;
        slot.rate = route.rate;
        slot.packet_lifetime = route.packet_lifetime & 31;
        slot.gid_index = gid_index;
    }

    /// `connect`: owes the REQ from here on.
    pub(crate) fn connect(
        &mut self,
        index: usize,
        param: &ConnParam<'_>,
    ) -> Result<(), ConnectError> {
        self.check_param(param, REQ_DATA)?;
        self.begin(index);
        self.apply_param(index, owed::REQ, param);
        let slot = self.slot_mut(index);
        slot.set(flag::ACTIVE, true);
        slot.tid = u64::from(slot.local_comm_id);
        self.enter_own_table(index);
        let wait = self.start_waiting(index, param.timeout, param.retries);
        self.set_stage(index, Stage::ReqSent(wait), "connect");
        self.owe(index, owed::REQ, false);
        Ok(())
    }

    pub(crate) fn on_rep(&mut self, path: &Path, rep: &Rep<&Mad>) -> Verdict {
        let Some(index) = self.find_own(rep.remote_comm_id()) else {
            return self.refuse_late_rep(path, rep);
        };
        let slot = self.slot(index);
        if !self.may_touch(slot, path) {
            return self.counters.ignore(IgnoreReason::WrongPath).into();
        }
        let repeats = slot.is_active() && slot.remote_comm_id == rep.local_comm_id();
        match slot.stage {
            // The answer we wait for.
            Stage::ReqSent(_) => self.take_rep(index, path, rep),
            // Our RTU was lost: it goes out again.
            Stage::Established if repeats => {
                self.owe(index, owed::RTU, true);
                self.counters.duplicate().into()
            }
            // Our REJ was lost: likewise.
            Stage::Timewait if repeats && slot.holds(owed::REJ) => {
                self.owe(index, owed::REJ, true);
                self.counters.duplicate().into()
            }
            // The application has not answered yet.
            Stage::RepRcvd if repeats => self.counters.duplicate().into(),
            _ => self.counters.ignore(IgnoreReason::NotForState).into(),
        }
    }

    /// A reply to an attempt that is over: the peer need not repeat it (field-tests C10).
    fn refuse_late_rep(&mut self, path: &Path, rep: &Rep<&Mad>) -> Verdict {
        let reply = Reply::reject(path, rep.transaction_id(), RejectReason::INVALID_COMM_ID)
            .of(MessageKind::REP)
            .between(rep.remote_comm_id(), rep.local_comm_id());
        self.reply(reply);
        self.counters.ignore(IgnoreReason::UnknownConnection).into()
    }

    fn take_rep(&mut self, index: usize, path: &Path, rep: &Rep<&Mad>) -> Verdict {
        let (guid, gid) = (rep.local_ca_guid(), self.slot(index).path.remote_gid());
        let (comm_id, qpn) = (rep.local_comm_id(), rep.local_qpn());
        let hashes = self.peer_hashes(comm_id, qpn, guid, &self.slot(index).path, gid);
        let is_peer = |slot: &ConnSlot| slot.path.remote_gid() == gid;
        if self.find_peers(hashes.by_id, comm_id, guid, is_peer).is_some() {
            // One communication ID for two connections: not ours to believe.
            return self.counters.ignore(IgnoreReason::NotForState).into();
        }
        if let Some(old) = self.find_peers_qpn(hashes.by_qpn, qpn, guid, gid) {
            return self.refuse_stale_rep(old, path, rep);
        }
        let slot = self.slot_mut(index);
        slot.remote_comm_id = comm_id;
        slot.remote_ca_guid = guid;
        slot.remote_qpn = qpn;
        slot.remote_psn = rep.starting_psn();
        slot.peer_responder_resources = rep.responder_resources();
        slot.peer_initiator_depth = rep.initiator_depth();
        slot.peer_ack_delay = rep.target_ack_delay();
        // How often to retry is our own wish; the receiver-not-ready count is the peer's.
        slot.peer_retry_counts = retry_counts(slot.retry_counts & 7, rep.rnr_retry_count());
        slot.set(flag::PEER_SRQ, rep.srq());
        slot.set(flag::PEER_FLOW_CONTROL, rep.end_to_end_flow_control());
        slot.put_peers_data(rep.private_data());
        self.enter_peer_tables(index, hashes);
        self.sleep(index);
        self.set_owed(index, 0);
        self.set_stage(index, Stage::RepRcvd, "REP");
        self.accepted(index, Outcome::Response)
    }

    /// A REP whose queue pair is in another connection: that one is stale, unless somebody else
    /// speaks. Our own REQ keeps waiting.
    fn refuse_stale_rep(&mut self, old: usize, path: &Path, rep: &Rep<&Mad>) -> Verdict {
        let reply = Reply::reject(path, rep.transaction_id(), RejectReason::STALE)
            .of(MessageKind::REP)
            .between(rep.remote_comm_id(), rep.local_comm_id());
        self.reply(reply);
        let outcome = if comes_from_port(self.slot(old), path) {
            self.tear_down_stale(old)
        } else {
            bump(&mut self.counters.stale_spoofed);
            None
        };
        Verdict { disposition: Disposition::Accepted, outcome }
    }

    /// `establish`: owes the RTU.
    pub(crate) fn establish(&mut self, index: usize, data: &[u8]) -> Result<(), NotNow> {
        match self.slot(index).stage {
            Stage::RepRcvd => {}
            Stage::Established => return Err(NotNow::Already),
            _ => return Err(self.not_now(index)),
        }
        check_private_data(data, BUFFER).map_err(NotNow::Refused)?;
        self.slot_mut(index).put_own_data(owed::RTU, data);
        self.set_stage(index, Stage::Established, "establish");
        bump(&mut self.counters.established);
        self.owe(index, owed::RTU, false);
        Ok(())
    }

    /// What the peer offers, from our point of view.
    pub(crate) fn peer_param(&self, index: usize) -> PeerParam {
        let slot = self.slot(index);
        PeerParam {
            qpn: slot.remote_qpn,
            starting_psn: slot.remote_psn,
            responder_resources: slot.peer_initiator_depth,
            initiator_depth: slot.peer_responder_resources,
            retry_count: slot.peer_retry_counts & 7,
            rnr_retry_count: slot.peer_retry_counts >> 4,
            flow_control: slot.has(flag::PEER_FLOW_CONTROL),
            srq: slot.has(flag::PEER_SRQ),
        }
    }

    /// Ends an attempt that the peer may still be working on: REJ 4 (timeout) names us by our CA
    /// GUID, since the peer's communication ID is unknown (IBTA 12, REJ). If no REQ has gone out the
    /// peer knows nothing of it.
    pub(super) fn give_up(&mut self, index: usize, why: &'static str) {
        let slot = self.slot(index);
        if slot.owes & owed::REQ == 0 || slot.has(flag::REPEAT) {
            let reply = Reply::timeout(&slot.path, slot.tid, slot.gid_index);
            self.reply(reply.from(slot.local_comm_id));
        }
        self.end_attempt(index, why);
    }

    /// An attempt is over. Where the peer had, or has, a queue pair that may have sent to ours, there
    /// is a timewait.
    pub(super) fn end_attempt(&mut self, index: usize, why: &'static str) {
        self.set_owed(index, 0);
        if matches!(self.slot(index).stage, Stage::ReqSent(_) | Stage::ReqRcvd) {
            self.leave_tables(index);
            self.sleep(index);
            self.set_stage(index, Stage::Idle, why);
        } else {
            self.enter_timewait(index, why);
        }
    }

    /// Why an operation on an attempt is not possible.
    pub(super) fn not_now(&self, index: usize) -> NotNow {
        match self.slot(index).stage {
            Stage::Idle | Stage::Timewait => NotNow::Gone,
            _ => NotNow::WrongState,
        }
    }
}

/// Why an operation is not possible, to be told with the identifier's state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotNow {
    WrongState,
    Already,
    /// The attempt or connection is over.
    Gone,
    Refused(ConnectError),
}
