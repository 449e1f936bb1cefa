//! How a message finds its connection: by our communication ID in O(1), by the peer's numbers
//! through keyed chains; and whether it may touch what it found.
//!
//! Read first: IBTA 12; the rules are in facts linux-rdma-cm §3.3, field-tests C5 and C6.

use super::slot::{ConnSlot, flag};
use super::state::Stage;
use super::{Conns, Outcome};
use crate::addr::{Gid, Path};
use crate::event::DisconnectCause;
use crate::wire::{Mad, Req};

/// What the tables know of a REQ.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// Nothing.
    New,
    /// It repeats this connection's REQ.
    Duplicate(usize),
    /// Its queue pair is in this connection, which the peer must have lost.
    Stale(usize),
    /// Its queue pair is in a connection with somebody else, who is not asking.
    Spoofed,
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

    /// The connection with this communication ID of the peer with this CA GUID.
    pub(super) fn find_peers(&self, comm_id: u32, guid: u64, gid: Gid) -> Option<usize> {
        let hash = self.peer_id_hash(comm_id, guid, gid);
        self.by_peer_id.find(self.table.slots(), hash, |slot| {
            slot.remote_comm_id == comm_id
                && slot.remote_ca_guid == guid
                && slot.path.remote_gid() == gid
        })
    }

    /// The connection with this queue pair of the peer with this CA GUID. Zero is a GUID that many
    /// have: there the GID must be the same too.
    pub(super) fn find_peers_qpn(&self, qpn: u32, guid: u64, gid: Gid) -> Option<usize> {
        let hash = self.peer_qpn_hash(qpn, guid, gid);
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

    /// Whether a REQ is new.
    pub(crate) fn classify(&self, path: &Path, req: &Req<&Mad>) -> Known {
        let (guid, gid) = (req.local_ca_guid(), path.remote_gid());
        if let Some(index) = self.find_peers(req.local_comm_id(), guid, gid) {
            return Known::Duplicate(index);
        }
        match self.find_peers_qpn(req.local_qpn(), guid, gid) {
            Some(index) if comes_from_peer(self.slot(index), path) => Known::Stale(index),
            Some(_) => Known::Spoofed,
            None => Known::New,
        }
    }

    /// Ends a connection whose peer has started anew with the same queue pair: a DREQ goes out, in
    /// case it is alive after all.
    pub(crate) fn tear_down_stale(&mut self, index: usize) -> Option<(usize, Outcome)> {
        crate::stats::bump(&mut self.counters.stale);
        match self.slot(index).stage {
            Stage::Established | Stage::RepSent(_) => {
                self.enter_timewait(index, "stale");
                let slot = self.slot_mut(index);
                slot.tid = super::close::dreq_tid(slot.local_comm_id);
                slot.put_own_data(&[]);
                self.set_owed(index, super::owed::DREQ);
                self.outcome(index, Outcome::Disconnected(DisconnectCause::Peer))
            }
            // Any other state ends by itself.
            _ => None,
        }
    }

    /// Enters the connection's peer into the indexes, as far as known.
    pub(super) fn enter_peer_tables(&mut self, index: usize) {
        let slot = self.slot(index);
        let (guid, gid) = (slot.remote_ca_guid, slot.path.remote_gid());
        let by_id = self.peer_id_hash(slot.remote_comm_id, guid, gid);
        let by_qpn = self.peer_qpn_hash(slot.remote_qpn, guid, gid);
        self.by_peer_id.insert(self.table.slots_mut(), by_id, index);
        self.by_peer_qpn.insert(self.table.slots_mut(), by_qpn, index);
        self.slot_mut(index).in_tables |= PEER;
    }

    /// Enters our queue pair into its index.
    pub(super) fn enter_own_table(&mut self, index: usize) {
        let hash = self.own_qpn_hash(self.slot(index).local_qpn);
        self.by_own_qpn.insert(self.table.slots_mut(), hash, index);
        self.slot_mut(index).in_tables |= OWN;
    }

    /// Takes a connection out of every index: it is over, or in timewait (facts §3.5).
    pub(super) fn leave_tables(&mut self, index: usize) {
        let slot = self.slot(index);
        let (guid, gid) = (slot.remote_ca_guid, slot.path.remote_gid());
        let in_tables = slot.in_tables;
        if in_tables & PEER != 0 {
            let by_id = self.peer_id_hash(slot.remote_comm_id, guid, gid);
            let by_qpn = self.peer_qpn_hash(slot.remote_qpn, guid, gid);
            self.by_peer_id.remove(self.table.slots_mut(), by_id, index);
            self.by_peer_qpn.remove(self.table.slots_mut(), by_qpn, index);
        }
        if in_tables & OWN != 0 {
            let hash = self.own_qpn_hash(self.slot(index).local_qpn);
            self.by_own_qpn.remove(self.table.slots_mut(), hash, index);
        }
        self.slot_mut(index).in_tables = 0;
    }

    /// Whoever chooses its GUID and numbers still cannot choose its GID freely: with it in the hash
    /// no chain grows longer than chance has it.
    fn peer_id_hash(&self, comm_id: u32, guid: u64, gid: Gid) -> u32 {
        let [a, b, c, d] = gid.words();
        self.key.hash(&[comm_id, (guid >> 32) as u32, guid as u32, a, b, c, d])
    }

    /// A GUID has each queue pair once, whatever the GID; but zero is the GUID of many.
    fn peer_qpn_hash(&self, qpn: u32, guid: u64, gid: Gid) -> u32 {
        let qpn = qpn | 1 << 31;
        if guid == 0 {
            let [a, b, c, d] = gid.words();
            return self.key.hash(&[qpn, a, b, c, d]);
        }
        self.key.hash(&[qpn, (guid >> 32) as u32, guid as u32])
    }

    fn own_qpn_hash(&self, qpn: u32) -> u32 {
        self.key.hash(&[qpn])
    }
}

const PEER: u8 = 1;
const OWN: u8 = 2;

/// The path rule (field-tests C6): on RoCE a message must come from the peer's GID; on InfiniBand
/// too if the packet names one, else both communication IDs, which the caller has compared, vouch
/// for it.
pub(super) fn comes_from_peer(slot: &ConnSlot, path: &Path) -> bool {
    match path {
        Path::Roce(p) => p.remote == slot.path.remote_gid(),
        Path::Ib(p) => !p.grh || p.remote == slot.path.remote_gid(),
    }
}

impl ConnSlot {
    /// Whether we sent the REQ.
    pub(super) fn is_active(&self) -> bool {
        self.has(flag::ACTIVE)
    }
}
