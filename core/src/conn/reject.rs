//! REJ, which may come in any state and has three ways to name its connection.
//!
//! Read first: IBTA 12, table 108; facts: wire-formats §2.3, linux-rdma-cm §3.4 (REJ).

use super::state::Stage;
use super::{Conns, Outcome, Verdict};
use crate::addr::Path;
use crate::event::DisconnectCause;
use crate::stats::{Disposition, IgnoreReason};
use crate::wire::{Mad, MessageKind, Rej, RejectReason};

impl Conns<'_> {
    pub(crate) fn on_rej(&mut self, path: &Path, rej: &Rej<&Mad>) -> Verdict {
        let Some(index) = self.find_rejected(path, rej) else {
            return self.counters.ignore(IgnoreReason::UnknownConnection).into();
        };
        if !self.may_touch(self.slot(index), path) {
            return self.counters.ignore(IgnoreReason::WrongPath).into();
        }
        let reason = rej.reason();
        let rejected = Outcome::Rejected(reason);
        let gone = Outcome::Disconnected(DisconnectCause::Peer);
        if reason == RejectReason::INVALID_PATH_MTU && self.ask_with_mtu(index, rej.ari()[0] >> 4) {
            return Disposition::Accepted.into();
        }
        match self.slot(index).stage {
            // Nothing stood yet.
            Stage::ReqSent(_) | Stage::ReqRcvd | Stage::RepRcvd(_) | Stage::RepSent(_) => {
                self.take_rej(index, rej);
                self.end_attempt(index, "REJ");
                self.accepted(index, rejected)
            }
            // Not a refusal any more: the end of a connection. Linux says REJECTED here.
            Stage::Established => {
                self.take_rej(index, rej);
                self.over(index, DisconnectCause::Peer, "REJ")
            }
            Stage::DreqSent(_) => {
                self.set_owed(index, 0);
                self.enter_timewait(index, "REJ");
                let verdict = self.accepted(index, gone);
                self.end_farewell_when_sent(index);
                verdict
            }
            _ => self.counters.ignore(IgnoreReason::NotForState).into(),
        }
    }

    /// A timeout names the peer's communication ID and CA GUID; the rejection of a REQ only ours;
    /// every other REJ both communication IDs.
    fn find_rejected(&self, path: &Path, rej: &Rej<&Mad>) -> Option<usize> {
        if rej.reason() == RejectReason::TIMEOUT && rej.remote_comm_id() == 0 {
            let ari = rej.ari();
            let guid = u64::from_be_bytes([
                ari[0], ari[1], ari[2], ari[3], ari[4], ari[5], ari[6], ari[7],
            ]);
            let peers = rej.local_comm_id();
            let gid = self.hashed_gid(path, path.remote_gid());
            let hash = self.peer_id_hash(peers, guid, gid);
            self.find_peers(hash, peers, guid, |slot| {
                !slot.is_datagram() && self.may_touch(slot, path)
            })
        } else if rej.message_rejected() == MessageKind::REQ {
            self.find_own(rej.remote_comm_id())
                .filter(|&index| matches!(self.slot(index).stage, Stage::ReqSent(_)))
        } else {
            self.find_both(rej.remote_comm_id(), rej.local_comm_id())
        }
    }

    /// A REJ supersedes whatever was owed or unread: nobody repeats it.
    fn take_rej(&mut self, index: usize, rej: &Rej<&Mad>) {
        self.set_owed(index, 0);
        let slot = self.slot_mut(index);
        slot.reason = rej.reason().0;
        slot.put_peers_data(rej.private_data());
        slot.put_ari(rej.additional_info());
    }
}
