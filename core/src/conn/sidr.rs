//! SIDR: which queue pair serves these datagrams? One question, one answer, no connection. States
//! SIDR_REQ_SENT and SIDR_RESOLVED on the side that asks, SIDR_REQ_RCVD and SIDR_REP_SENT on the other.
//!
//! Read first: IBTA 12, tables 119 and 120; facts: wire-formats §2.8, §2.9, field-tests C12.

use super::active::NotNow;
use super::lookup::comes_from_port;
use super::qp::check_numbers;
use super::reply::back;
use super::slot::{flag, owed};
use super::state::Stage;
use super::{ConnParam, Conns, Outcome, Verdict, check_private_data, limits};
use crate::addr::{Path, ServiceId};
use crate::error::ConnectError;
use crate::stats::{IgnoreReason, bump};
use crate::wire::{Ece, Mad, RejectReason, SidrRep, SidrReq, SidrStatus};

impl Conns<'_> {
    /// `connect` of a datagram service: owes the SIDR_REQ from here on.
    pub(crate) fn ask_service(
        &mut self,
        index: usize,
        param: &ConnParam<'_>,
    ) -> Result<(), ConnectError> {
        check_private_data(param.private_data, limits::SIDR_REQ)?;
        check_numbers(param)?;
        self.begin(index);
        self.apply_param(index, owed::REQ, param);
        let slot = self.slot_mut(index);
        slot.local_psn = param.qkey;
        slot.flags = flag::ACTIVE | flag::DATAGRAM;
        slot.tid = u64::from(slot.local_comm_id);
        let wait = self.start_waiting(index, param.timeout, param.retries);
        self.set_stage(index, Stage::SidrReqSent(wait), "connect");
        self.owe(index, owed::REQ, false);
        Ok(())
    }

    pub(crate) fn on_sidr_rep(&mut self, path: &Path, rep: &SidrRep<&Mad>) -> Verdict {
        let Some(index) = self.find_own(rep.request_id()) else {
            return self.counters.ignore(IgnoreReason::UnknownConnection).into();
        };
        let slot = self.slot(index);
        if !self.may_touch(slot, path) {
            return self.counters.ignore(IgnoreReason::WrongPath).into();
        }
        match slot.stage {
            Stage::SidrReqSent(_) => {}
            Stage::SidrResolved => return self.counters.duplicate().into(),
            _ => return self.counters.ignore(IgnoreReason::NotForState).into(),
        }
        let status = rep.status();
        self.end_question(index);
        let slot = self.slot_mut(index);
        slot.reason = u16::from(status.0);
        slot.put_peers_data(rep.private_data());
        if status != SidrStatus::VALID {
            slot.put_ari(rep.information());
            self.set_stage(index, Stage::Idle, "SIDR_REP that refuses");
            return self.accepted(index, Outcome::Rejected(RejectReason(u16::from(status.0))));
        }
        slot.remote_qpn = rep.qpn();
        slot.remote_psn = rep.qkey();
        slot.set_ece(rep.ece());
        bump(&mut self.counters.resolved);
        self.set_stage(index, Stage::SidrResolved, "SIDR_REP");
        self.accepted(index, Outcome::Established)
    }

    /// A question needs no answer any more, whatever it was.
    pub(super) fn end_question(&mut self, index: usize) {
        self.set_owed(index, 0);
        self.sleep(index);
    }

    /// The connection slot of a SIDR_REQ that is known: by its number, its service and the port it
    /// comes from.
    pub(crate) fn find_sidr(&self, path: &Path, req: &SidrReq<&Mad>) -> Option<usize> {
        let (id, service) = (req.request_id(), req.service_id().0);
        let hash = self.peer_id_hash(id, service, self.hashed_gid(path, path.remote_gid()));
        self.find_peers(hash, id, service, |slot| slot.is_datagram() && comes_from_port(slot, path))
    }

    /// A repeated SIDR_REQ: what we answered, we answer again.
    pub(crate) fn on_duplicate_sidr_req(&mut self, index: usize) -> Verdict {
        if self.slot(index).stage == Stage::SidrRepSent {
            self.owe(index, owed::REP, true);
        }
        self.counters.duplicate().into()
    }

    /// Takes a SIDR_REQ into a claimed slot and waits for the application's answer.
    pub(crate) fn admit_sidr(
        &mut self,
        index: usize,
        path: &Path,
        req: &SidrReq<&Mad>,
        gid_index: u16,
    ) {
        self.begin(index);
        let slot = self.slot_mut(index);
        slot.flags = flag::DATAGRAM;
        slot.tid = req.transaction_id();
        slot.path = back(path);
        slot.gid_index = gid_index;
        slot.remote_comm_id = req.request_id();
        slot.remote_ca_guid = req.service_id().0;
        slot.pkey = req.partition_key();
        slot.set_ece(Ece::NONE);
        slot.put_peers_data(req.consumer_data());
        self.enter_sidr_table(index);
        self.set_stage(index, Stage::SidrReqRcvd, "SIDR_REQ");
        self.wake_after(index, self.waits.accept_deadline);
    }

    /// `accept`: owes the SIDR_REP, and again for every repetition of the request.
    pub(super) fn answer_sidr(
        &mut self,
        index: usize,
        param: &ConnParam<'_>,
    ) -> Result<(), NotNow> {
        check_private_data(param.private_data, limits::SIDR_REP).map_err(NotNow::Refused)?;
        check_numbers(param).map_err(NotNow::Refused)?;
        let slot = self.slot_mut(index);
        slot.local_qpn = param.qpn;
        slot.local_psn = param.qkey;
        slot.set_ece(param.ece);
        slot.put_own_data(owed::REP, param.private_data);
        self.send_sidr_rep(index, SidrStatus::VALID, "accept");
        Ok(())
    }

    /// Refuses a SIDR_REQ. SIDR has fewer words than REJ: no queue pair, or just no.
    pub(super) fn refuse_sidr(
        &mut self,
        index: usize,
        reason: RejectReason,
        data: &[u8],
        why: &'static str,
    ) {
        let status = match reason {
            RejectReason::NO_QP => SidrStatus::NO_QP,
            _ => SidrStatus::REJECTED,
        };
        self.slot_mut(index).put_own_data(owed::REP, data);
        self.send_sidr_rep(index, status, why);
    }

    fn send_sidr_rep(&mut self, index: usize, status: SidrStatus, why: &'static str) {
        self.sleep(index);
        self.slot_mut(index).reason = u16::from(status.0);
        self.set_stage(index, Stage::SidrRepSent, why);
        self.owe(index, owed::REP, false);
    }

    /// The service that a SIDR request asks for.
    pub(super) fn sidr_service(&self, index: usize) -> ServiceId {
        ServiceId(self.slot(index).remote_ca_guid)
    }
}
