//! The active side: REQ out, REP in, RTU out. States REQ_SENT and REP_RCVD.
//!
//! Read first: IBTA 12 (active side of the state diagram); facts: linux-rdma-cm §3.4.

use super::lookup::comes_from_port;
use super::qp::{Transport, retry_counts};
use super::slot::{ConnSlot, flag, owed};
use super::state::{Stage, Wait};
use super::{ConnParam, Conns, Outcome, Reply, Verdict, check_private_data, limits};
use crate::addr::Path;
use crate::error::ConnectError;
use crate::event::PeerParam;
use crate::request::Route;
use crate::stats::{Disposition, IgnoreReason, bump};
use crate::time::{Span, Tick};
use crate::wire::{Ece, Mad, MessageKind, RejectReason, Rep};

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

    /// Marks the packets of a connection that has not begun yet.
    pub(crate) fn set_traffic_class(&mut self, index: usize, traffic_class: u8) {
        if let Path::Roce(path) = &mut self.slot_mut(index).path {
            path.traffic_class = traffic_class;
        }
    }

    /// `connect`: owes the REQ from here on.
    pub(crate) fn connect(
        &mut self,
        index: usize,
        param: &ConnParam<'_>,
    ) -> Result<(), ConnectError> {
        self.check_param(param, limits::REQ)?;
        self.begin(index);
        self.apply_param(index, owed::REQ, param);
        let slot = self.slot_mut(index);
        slot.set(flag::ACTIVE, true);
        slot.set_transport(Some(param.transport));
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
            Stage::ReqSent(wait) => self.take_rep(index, wait, path, rep),
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
            // The application has not answered yet. A copy that comes before the peer can have sent the REP
            // again is the network's doing: if our RTU got lost after an MRA, the peer would be patient in vain.
            Stage::RepRcvd(since) if repeats => {
                let soonest = Span::of_code(self.config.local_cm_response_timeout).as_millis() / 2;
                if Tick::at(self.now).ahead_of(since) >= soonest as i32 {
                    self.owe(index, owed::MRA, false);
                }
                self.counters.duplicate().into()
            }
            _ => self.counters.ignore(IgnoreReason::NotForState).into(),
        }
    }

    /// A reply to an attempt that is over: the peer need not repeat it (field-tests C10).
    fn refuse_late_rep(&mut self, path: &Path, rep: &Rep<&Mad>) -> Verdict {
        self.reject_rep(path, rep, RejectReason::INVALID_COMM_ID);
        self.counters.ignore(IgnoreReason::UnknownConnection).into()
    }

    fn take_rep(&mut self, index: usize, wait: Wait, path: &Path, rep: &Rep<&Mad>) -> Verdict {
        let (guid, gid) = (rep.local_ca_guid(), self.slot(index).path.remote_gid());
        let comm_id = rep.local_comm_id();
        // An XRC target names its queue pair where others have an EE context.
        let qpn = match self.slot(index).transport() {
            Some(Transport::Xrc) => rep.local_eecn(),
            _ => rep.local_qpn(),
        };
        let hashes = self.peer_hashes(comm_id, qpn, guid, &self.slot(index).path, gid);
        let is_peer = |slot: &ConnSlot| !slot.is_datagram() && slot.path.remote_gid() == gid;
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
        slot.set_ece(rep.ece());
        // How often to retry is our own wish; the receiver-not-ready count is the peer's.
        slot.peer_retry_counts = retry_counts(slot.retry_counts & 7, rep.rnr_retry_count());
        slot.set(flag::PEER_SRQ, rep.srq());
        slot.set(flag::PEER_FLOW_CONTROL, rep.end_to_end_flow_control());
        slot.put_peers_data(rep.private_data());
        self.enter_peer_tables(index, hashes);
        self.note_answer(index, wait);
        self.sleep(index);
        self.set_owed(index, 0);
        self.set_stage(index, Stage::RepRcvd(Tick::at(self.now)), "REP");
        self.accepted(index, Outcome::Response)
    }

    /// A REP whose queue pair is in another connection: that one is stale, unless somebody else
    /// speaks. Our own REQ keeps waiting.
    fn refuse_stale_rep(&mut self, old: usize, path: &Path, rep: &Rep<&Mad>) -> Verdict {
        self.reject_rep(path, rep, RejectReason::STALE);
        let outcome = if comes_from_port(self.slot(old), path) {
            self.tear_down_stale(old)
        } else {
            bump(&mut self.counters.stale_spoofed);
            None
        };
        Verdict { disposition: Disposition::Accepted, outcome }
    }

    fn reject_rep(&mut self, path: &Path, rep: &Rep<&Mad>, reason: RejectReason) {
        let reply = Reply::reject(path, rep.transaction_id(), MessageKind::REP, reason);
        self.reply(reply.between(rep.remote_comm_id(), rep.local_comm_id()));
    }

    /// The peer takes a smaller path MTU (REJ 26): asks again with that, as a new attempt within the
    /// same time. False if what it offers is none.
    pub(super) fn ask_with_mtu(&mut self, index: usize, offered: u8) -> bool {
        let slot = self.slot_mut(index);
        let Stage::ReqSent(wait) = slot.stage else { return false };
        if offered == 0 || offered >= slot.mtu {
            return false;
        }
        slot.mtu = offered;
        slot.renew();
        // A repetition of the old one that has not gone out is none of the new one.
        self.set_owed(index, self.slot(index).owes & !owed::REQ);
        let slot = self.slot_mut(index);
        let incarnation = slot.incarnation();
        let comm_id = self.comm_ids.encode(index as u32, incarnation);
        let slot = self.slot_mut(index);
        slot.local_comm_id = comm_id;
        slot.tid = u64::from(comm_id);
        self.restart(index, wait);
        self.owe(index, owed::REQ, false);
        true
    }

    /// `establish`: owes the RTU.
    pub(crate) fn establish(&mut self, index: usize, data: &[u8]) -> Result<(), NotNow> {
        match self.slot(index).stage {
            Stage::RepRcvd(_) => {}
            Stage::Established => return Err(NotNow::Already),
            _ => return Err(self.not_now(index)),
        }
        check_private_data(data, limits::RTU).map_err(NotNow::Refused)?;
        self.slot_mut(index).put_own_data(owed::RTU, data);
        self.set_owed(index, 0);
        self.set_stage(index, Stage::Established, "establish");
        bump(&mut self.counters.established);
        self.owe(index, owed::RTU, false);
        Ok(())
    }

    /// What the peer offers, from our point of view.
    pub(crate) fn peer_param(&self, index: usize) -> PeerParam {
        let slot = self.slot(index);
        // The slot holds one side's word at a time.
        let has_peers_ece = match slot.stage {
            Stage::Idle | Stage::ReqSent(_) | Stage::SidrReqSent(_) => false,
            Stage::ReqRcvd | Stage::SidrReqRcvd => true,
            _ => slot.is_active(),
        };
        let (starting_psn, qkey) =
            if slot.is_datagram() { (0, slot.remote_psn) } else { (slot.remote_psn, 0) };
        PeerParam {
            qpn: slot.remote_qpn,
            qkey,
            transport: slot.transport().unwrap_or_default(),
            ece: if has_peers_ece { slot.ece() } else { Ece::NONE },
            starting_psn,
            responder_resources: slot.peer_initiator_depth,
            initiator_depth: slot.peer_responder_resources,
            retry_count: slot.peer_retry_counts & 7,
            rnr_retry_count: slot.peer_retry_counts >> 3 & 7,
            flow_control: slot.has(flag::PEER_FLOW_CONTROL),
            srq: slot.has(flag::PEER_SRQ),
        }
    }

    /// Ends an attempt that the peer may still be working on: REJ 4 (timeout) names us by our CA
    /// GUID, since the peer's communication ID is unknown (IBTA 12, REJ). If no REQ has gone out the
    /// peer knows nothing of it.
    pub(super) fn give_up(&mut self, index: usize, why: &'static str) {
        let slot = self.slot(index);
        let unsent = slot.owes & owed::REQ != 0 && !slot.has(flag::REPEAT);
        if !unsent && !slot.is_datagram() {
            let reply = Reply::timeout(&slot.path, slot.tid, slot.gid_index);
            self.push_reply(reply.from(slot.local_comm_id));
        }
        self.end_attempt(index, why);
    }

    /// An attempt is over. Where the peer had, or has, a queue pair that may have sent to ours, there
    /// is a timewait.
    pub(super) fn end_attempt(&mut self, index: usize, why: &'static str) {
        self.set_owed(index, 0);
        if matches!(
            self.slot(index).stage,
            Stage::ReqSent(_) | Stage::ReqRcvd | Stage::SidrReqSent(_)
        ) {
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
