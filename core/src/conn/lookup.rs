//! How a message finds its connection: by our communication ID in O(1), by the peer's numbers
//! through keyed chains; and whether it may touch what it found. What becomes of a connection whose
//! peer has started anew.
//!
//! Read first: IBTA 12; the rules are in facts linux-rdma-cm §3.3, field-tests C5 and C6.

use super::slot::{ConnSlot, flag};
use super::state::Stage;
use super::{Conns, Outcome};
use crate::addr::{Gid, Path};
use crate::event::DisconnectCause;
use crate::stats::bump;
use crate::wire::{Mad, RejectReason, Req};

/// What the tables know of a REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// Nothing.
    New(PeerHashes),
    /// It repeats this connection's REQ.
    Duplicate(usize),
    /// Its queue pair is in this connection, which the peer must have lost.
    Stale(usize),
    /// Its queue pair is in a connection with somebody else, who is not asking.
    Spoofed,
}

/// Where a peer belongs in the indexes: worked out once, to look it up and to enter it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PeerHashes {
    pub(super) by_id: u32,
    pub(super) by_qpn: u32,
}

impl Conns<'_> {
    /// The connection with this communication ID of ours.
    pub(super) fn find_own(&self, comm_id: u32) -> Option<usize> {
        let (index, _) = self.comm_ids.decode(comm_id)?;
        let index = index as usize;
        // The number outlives the connection in the slot, so ask the state too.
        let slot = self.table.slots().get(index)?;
        (slot.local_comm_id == comm_id && slot.stage != Stage::Idle).then_some(index)
    }

    /// The connection with these two communication IDs.
    pub(super) fn find_both(&self, own: u32, peers: u32) -> Option<usize> {
        self.find_own(own).filter(|&index| self.slot(index).remote_comm_id == peers)
    }

    /// The connection with this communication ID of the peer with this CA GUID. Zero is a GUID that
    /// many have, and comm IDs repeat among strangers: `is_peer` knows more.
    pub(super) fn find_peers(
        &self,
        hash: u32,
        comm_id: u32,
        guid: u64,
        is_peer: impl Fn(&ConnSlot) -> bool,
    ) -> Option<usize> {
        self.by_peer_id.find(self.table.slots(), hash, |slot| {
            slot.remote_comm_id == comm_id && slot.remote_ca_guid == guid && is_peer(slot)
        })
    }

    /// Enters a SIDR request into the index of the peers' numbers.
    pub(super) fn enter_sidr_table(&mut self, index: usize) {
        let slot = self.slot(index);
        let gid = self.hashed_gid(&slot.path, slot.path.remote_gid());
        let hash = self.peer_id_hash(slot.remote_comm_id, slot.remote_ca_guid, gid);
        self.by_peer_id.insert(self.table.slots_mut(), hash, index);
        self.slot_mut(index).enter(BY_PEER_ID);
    }

    /// The connection with this queue pair of the peer with this CA GUID. Zero is a GUID that many
    /// have: there the GID must be the same too.
    pub(super) fn find_peers_qpn(&self, hash: u32, qpn: u32, guid: u64, gid: Gid) -> Option<usize> {
        self.by_peer_qpn.find(self.table.slots(), hash, |slot| {
            slot.remote_qpn == qpn
                && slot.remote_ca_guid == guid
                && (guid != 0 || slot.path.remote_gid() == gid)
        })
    }

    /// Whether a live connection uses this queue pair of ours.
    pub(super) fn is_own_qpn_in_use(&self, qpn: u32) -> bool {
        let hash = self.own_qpn_hash(qpn);
        self.by_own_qpn.find(self.table.slots(), hash, |slot| slot.local_qpn == qpn).is_some()
    }

    /// Whether a REQ is new. On InfiniBand a packet need not name its sender's GID, so the REQ's own
    /// word is compared with the connection's, and the path rule says whether to believe it.
    pub(crate) fn classify(&self, path: &Path, req: &Req<&Mad>) -> Known {
        let (guid, gid) = (req.local_ca_guid(), req.primary_local_gid());
        let by_id = self.peer_id_hash(req.local_comm_id(), guid, self.hashed_gid(path, gid));
        let repeats = self.find_peers(by_id, req.local_comm_id(), guid, |slot| {
            !slot.is_datagram() && slot.path.remote_gid() == gid && self.may_touch(slot, path)
        });
        if let Some(index) = repeats {
            return Known::Duplicate(index);
        }
        let by_qpn = self.peer_qpn_hash(req.local_qpn(), guid, self.hashed_gid(path, gid));
        match self.find_peers_qpn(by_qpn, req.local_qpn(), guid, gid) {
            Some(index) if comes_from_port(self.slot(index), path) => Known::Stale(index),
            Some(_) => Known::Spoofed,
            None => Known::New(PeerHashes { by_id, by_qpn }),
        }
    }

    /// Ends a connection whose peer has started anew with the same queue pair, so that its next REQ
    /// will be a new one (reports B1).
    pub(crate) fn tear_down_stale(&mut self, index: usize) -> Option<(usize, Outcome)> {
        bump(&mut self.counters.stale);
        let over = Outcome::Disconnected(DisconnectCause::Peer);
        match self.slot(index).stage {
            // A DREQ goes out, in case the peer is alive after all (Linux does so too).
            Stage::Established | Stage::RepSent(_) => {
                self.set_owed(index, 0);
                self.enter_timewait(index, "stale");
                self.put_dreq(index, &[]);
                self.outcome(index, over)
            }
            // It will not answer ours, or needs no answer from us.
            Stage::DreqSent(_) => {
                self.set_owed(index, 0);
                self.enter_timewait(index, "stale");
                self.outcome(index, over)
            }
            Stage::DreqRcvd => {
                self.enter_timewait(index, "stale");
                None
            }
            Stage::ReqRcvd | Stage::RepRcvd(_) => self.give_up_on_peer(index),
            _ => None,
        }
    }

    /// Nothing stood yet, and the peer has forgotten it: as if it had sent a REJ.
    fn give_up_on_peer(&mut self, index: usize) -> Option<(usize, Outcome)> {
        let reason = RejectReason::STALE;
        self.slot_mut(index).reason = reason.0;
        self.slot_mut(index).put_peers_data(&[]);
        self.end_attempt(index, "stale");
        self.outcome(index, Outcome::Rejected(reason))
    }

    /// Enters the connection's peer into the indexes.
    pub(super) fn enter_peer_tables(&mut self, index: usize, hashes: PeerHashes) {
        self.by_peer_id.insert(self.table.slots_mut(), hashes.by_id, index);
        self.by_peer_qpn.insert(self.table.slots_mut(), hashes.by_qpn, index);
        self.slot_mut(index).enter(BY_PEER_ID | BY_PEER_QPN);
    }

    /// Enters our queue pair into its index.
    pub(super) fn enter_own_table(&mut self, index: usize) {
        let hash = self.own_qpn_hash(self.slot(index).local_qpn);
        self.by_own_qpn.insert(self.table.slots_mut(), hash, index);
        self.slot_mut(index).enter(BY_OWN_QPN);
    }

    /// Takes a connection out of every index: it is over, or in timewait (facts §3.5).
    pub(super) fn leave_tables(&mut self, index: usize) {
        let slot = self.slot(index);
        if slot.is_in(BY_PEER_ID) {
            let gid = self.hashed_gid(&slot.path, slot.path.remote_gid());
            let hash = self.peer_id_hash(slot.remote_comm_id, slot.remote_ca_guid, gid);
            self.by_peer_id.remove(self.table.slots_mut(), hash, index);
        }
        self.forget_queue_pairs(index);
        self.slot_mut(index).leave(BY_PEER_ID);
    }

    /// Neither queue pair is in use here any more. What repeats the peer's REQ is still known.
    pub(super) fn forget_queue_pairs(&mut self, index: usize) {
        let slot = self.slot(index);
        if slot.is_in(BY_PEER_QPN) {
            let gid = self.hashed_gid(&slot.path, slot.path.remote_gid());
            let hash = self.peer_qpn_hash(slot.remote_qpn, slot.remote_ca_guid, gid);
            self.by_peer_qpn.remove(self.table.slots_mut(), hash, index);
        }
        let slot = self.slot(index);
        if slot.is_in(BY_OWN_QPN) {
            let hash = self.own_qpn_hash(slot.local_qpn);
            self.by_own_qpn.remove(self.table.slots_mut(), hash, index);
        }
        self.slot_mut(index).leave(BY_PEER_QPN | BY_OWN_QPN);
    }

    /// The hashes of a peer with this GID, on this kind of path.
    pub(super) fn peer_hashes(
        &self,
        comm_id: u32,
        qpn: u32,
        guid: u64,
        path: &Path,
        gid: Gid,
    ) -> PeerHashes {
        let gid = self.hashed_gid(path, gid);
        PeerHashes {
            by_id: self.peer_id_hash(comm_id, guid, gid),
            by_qpn: self.peer_qpn_hash(qpn, guid, gid),
        }
    }

    /// Numbers and GUID are the sender's to choose, its address much less so: with that in the hash
    /// nobody makes a chain longer than chance has it. On InfiniBand packets need not name their
    /// sender's GID, and GUIDs are the fabric's; a lenient engine does not ask where a packet is from.
    pub(super) fn hashed_gid(&self, path: &Path, gid: Gid) -> Gid {
        match path {
            Path::Roce(_) if !self.config.lenient => gid,
            _ => Gid::ZERO,
        }
    }

    pub(super) fn peer_id_hash(&self, comm_id: u32, guid: u64, gid: Gid) -> u32 {
        let (high, low) = ((guid >> 32) as u32, guid as u32);
        let [a, b, c, d] = gid.words();
        if gid.is_v4() {
            return self.key.hash(&[comm_id, high, low, d]);
        }
        self.key.hash(&[comm_id, high, low, a, b, c, d])
    }

    /// A queue pair is found whatever the GID, and once per GUID; but zero is the GUID of many.
    pub(super) fn peer_qpn_hash(&self, qpn: u32, guid: u64, gid: Gid) -> u32 {
        if guid == 0 {
            return self.peer_id_hash(qpn | 1 << 31, 0, gid);
        }
        self.key.hash(&[qpn | 1 << 31, (guid >> 32) as u32, guid as u32])
    }

    pub(super) fn own_qpn_hash(&self, qpn: u32) -> u32 {
        self.key.mix(&[qpn])
    }
}

pub(super) const BY_PEER_ID: u8 = 1;
pub(super) const BY_PEER_QPN: u8 = 2;
pub(super) const BY_OWN_QPN: u8 = 4;

impl Conns<'_> {
    /// The path rule (field-tests C6): on RoCE, and on InfiniBand if the packet names its sender, a
    /// message must come from the peer's GID, unless the engine is lenient; else the communication IDs,
    /// which the caller has compared, vouch for it.
    pub(super) fn may_touch(&self, slot: &ConnSlot, path: &Path) -> bool {
        match (path, &slot.path) {
            (Path::Roce(from), Path::Roce(to)) => self.config.lenient || from.remote == to.remote,
            (Path::Ib(from), Path::Ib(to)) => {
                !from.grh || self.config.lenient || from.remote == to.remote
            }
            _ => false,
        }
    }
}

/// Whether a message that does not know our communication ID comes from the connection's peer: by
/// the packet's own source, never by what the message says (field-tests C5).
pub(super) fn comes_from_port(slot: &ConnSlot, path: &Path) -> bool {
    match (path, &slot.path) {
        (Path::Ib(from), Path::Ib(to)) if !from.grh => from.lid == to.lid,
        (Path::Ib(_), Path::Ib(_)) | (Path::Roce(_), Path::Roce(_)) => {
            path.remote_gid() == slot.path.remote_gid()
        }
        _ => false,
    }
}

impl ConnSlot {
    /// Whether we sent the REQ.
    pub(super) fn is_active(&self) -> bool {
        self.has(flag::ACTIVE)
    }
}
