//! What holds of every connection between two calls: for tests, the model and the fuzzers.

use super::lookup::{BY_OWN_QPN, BY_PEER_ID, BY_PEER_QPN};
use super::slot::{ConnSlot, owed};
use super::state::Stage;
use super::{ConnState, Conns, Queue};
use crate::addr::Path;
use crate::slots::{Slot, Timed};
use crate::time::Tick;
use alloc::collections::BTreeSet;

impl Conns<'_> {
    /// A walk over everything; panics at what does not hold. While a device is being removed, a
    /// farewell may have nothing to say any more.
    pub(crate) fn audit(&self, removal: bool) {
        let slots = self.table.slots();
        self.table.audit();
        self.deadlines.audit(slots);
        self.audit_lists();
        self.audit_indexes();
        self.audit_flood();
        for (index, slot) in slots.iter().enumerate() {
            if self.table.is_live(index) {
                self.audit_slot(index, removal);
            } else {
                let idle = slot.stage == Stage::Idle && slot.owes == 0 && slot.tables() == 0;
                assert!(idle && slot.heap_link_ref().is_none(), "free slot {index} is in use");
            }
        }
    }

    /// Who owes something is in the list for that, and a destroyed connection among the farewells.
    fn audit_lists(&self) {
        let slots = self.table.slots();
        let members = |list: Vec<usize>| list.into_iter().collect::<BTreeSet<_>>();
        let owing =
            |queue| self.live().filter(move |(_, slot)| Queue::of(slot.owes) == Some(queue));
        for (queue, list, what) in [
            (Queue::Answers, &self.answers, "answers"),
            (Queue::Asks, &self.asks, "requests"),
            (Queue::Questions, &self.questions, "questions"),
        ] {
            let wanted: BTreeSet<_> = owing(queue).map(|(index, _)| index).collect();
            assert_eq!(members(list.audit(slots)), wanted, "the list of {what} owed");
        }
        let destroyed = self.live().filter(|(_, slot)| slot.owner.is_none());
        let wanted: BTreeSet<_> = destroyed.map(|(index, _)| index).collect();
        assert_eq!(members(self.farewells.audit(slots)), wanted, "the list of farewells");
    }

    /// Who says that it is in an index is there, and nothing is there twice.
    fn audit_indexes(&self) {
        let slots = self.table.slots();
        let in_table = |index: usize, table| slots[index].is_in(table).then_some(index);
        let gid = |slot: &ConnSlot| self.hashed_gid(&slot.path, slot.path.remote_gid());
        self.by_peer_id.audit(slots, "the index by the peer's communication ID", |index| {
            let slot = &slots[in_table(index, BY_PEER_ID)?];
            Some(self.peer_id_hash(slot.remote_comm_id, slot.remote_ca_guid, gid(slot)))
        });
        self.by_peer_qpn.audit(slots, "the index by the peer's queue pair", |index| {
            let slot = &slots[in_table(index, BY_PEER_QPN)?];
            Some(self.peer_qpn_hash(slot.remote_qpn, slot.remote_ca_guid, gid(slot)))
        });
        self.by_own_qpn.audit(slots, "the index by our queue pair", |index| {
            Some(self.own_qpn_hash(slots[in_table(index, BY_OWN_QPN)?].local_qpn))
        });
        let (mut own_qpns, mut peers_qpns, mut peers) =
            (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
        for (index, slot) in self.live() {
            let (guid, gid) = (slot.remote_ca_guid, slot.path.remote_gid());
            // Who comes by another kind of link is another peer.
            let link = matches!(slot.path, Path::Roce(_));
            let peer = (slot.is_datagram(), slot.remote_comm_id, guid, gid, link);
            let alone = !slot.is_in(BY_PEER_ID) || peers.insert(peer);
            assert!(alone, "connection {index}: another one has its peer's communication ID");
            let peers_qpn = (slot.remote_qpn, guid);
            let alone = !slot.is_in(BY_PEER_QPN) || guid == 0 || peers_qpns.insert(peers_qpn);
            assert!(alone, "connection {index}: another one has its peer's queue pair");
            let alone = !slot.is_in(BY_OWN_QPN) || own_qpns.insert(slot.local_qpn);
            assert!(alone, "connection {index}: another one has its queue pair");
        }
    }

    /// What a state says of deadline, debts and indexes.
    fn audit_slot(&self, index: usize, removal: bool) {
        let slot = &self.table.slots()[index];
        let state = slot.stage.state();
        let has_deadline = !slot.heap_link_ref().is_none();
        let own_comm_id = self.comm_ids.encode(index as u32, slot.incarnation());
        assert!(
            state == ConnState::Idle || slot.local_comm_id == own_comm_id,
            "connection {index} has a communication ID of another one"
        );
        if slot.owner.is_none() {
            // Destroyed: it waits for its DREP, or to say a last word, or for its device to be forgotten.
            assert!(slot.tables() == 0, "farewell {index} in {state} is in an index");
            let waits = state == ConnState::DreqSent && has_deadline;
            let speaks = waits || slot.owes != 0 || removal;
            assert!(speaks, "farewell {index} in {state} has nothing to say");
            return;
        }
        let peer = BY_PEER_ID | BY_PEER_QPN;
        let all = peer | BY_OWN_QPN;
        let last_words = owed::REJ | owed::DREP | owed::DREQ;
        // May owe; has a deadline; is in these indexes.
        let (owes, wakes, indexes) = match state {
            // What timewait has not said yet is said after it.
            ConnState::Idle => (owed::HOST | last_words, has_deadline, 0),
            ConnState::ReqSent => (owed::REQ, true, BY_OWN_QPN),
            ConnState::ReqRcvd => (owed::MRA, true, peer),
            ConnState::RepRcvd => (owed::MRA, false, all),
            ConnState::RepSent => (owed::REP, true, all),
            ConnState::Established => (owed::RTU, false, all),
            ConnState::DreqSent => (owed::RTU | owed::DREQ, true, all),
            ConnState::DreqRcvd => (0, false, all),
            // Who may repeat its REQ is still known.
            ConnState::Timewait => (last_words, true, slot.tables() & BY_PEER_ID),
            ConnState::RejSent => (owed::REJ, false, BY_PEER_ID),
            ConnState::SidrReqSent => (owed::REQ, true, 0),
            ConnState::SidrResolved => (0, false, 0),
            ConnState::SidrReqRcvd => (0, true, BY_PEER_ID),
            ConnState::SidrRepSent => (owed::REP, false, BY_PEER_ID),
        };
        assert_eq!(slot.owes & !owes, 0, "connection {index} in {state} owes what it cannot owe");
        assert_eq!(has_deadline, wakes, "connection {index} in {state}: has it a deadline?");
        assert_eq!(slot.tables(), indexes, "connection {index} in {state}: in which indexes?");
        if let Stage::ReqSent(wait)
        | Stage::RepSent(wait)
        | Stage::DreqSent(wait)
        | Stage::SidrReqSent(wait) = slot.stage
        {
            let at = self.deadlines.of(self.table.slots(), index);
            let in_time = at.is_some_and(|at| at.ahead_of(wait.until) <= 0);
            assert!(in_time, "connection {index} in {state} wakes after its end");
        }
    }

    pub(super) fn live(&self) -> impl Iterator<Item = (usize, &ConnSlot)> {
        self.table.slots().iter().enumerate().filter(|(_, slot)| slot.generation() & 1 == 1)
    }

    /// Whether an answer to a stranger waits.
    pub(crate) fn owes_strangers(&self) -> bool {
        !self.replies.is_empty()
    }

    /// The identifier of each connection that has one.
    pub(crate) fn owners(&self) -> impl Iterator<Item = (usize, usize)> {
        self.live().filter_map(|(index, slot)| Some((index, slot.owner.get()?)))
    }

    /// The identifier of a connection.
    pub(crate) fn owner(&self, index: usize) -> Option<usize> {
        self.slot(index).owner.get().filter(|_| self.table.is_live(index))
    }

    /// Communication IDs and queue pairs of a connection, its own first.
    pub(crate) fn numbers(&self, index: usize) -> [(u32, u32); 2] {
        let slot = self.slot(index);
        [(slot.local_comm_id, slot.local_qpn), (slot.remote_comm_id, slot.remote_qpn)]
    }

    /// Whether a connection has a deadline.
    pub(crate) fn has_deadline(&self, index: usize) -> bool {
        !self.slot(index).heap_link_ref().is_none()
    }

    /// How many deadlines have come at the latest time seen.
    pub(crate) fn due(&self) -> usize {
        self.deadlines.due(Tick::at(self.now))
    }

    /// How many messages can be owed at one time: one for each bit, and the answers to strangers.
    pub(crate) fn most_owed(&self) -> usize {
        self.replies.capacity() + self.table.capacity() * u8::BITS as usize
    }

    /// The identifier of the connection with this communication ID of ours.
    pub(crate) fn owner_of(&self, comm_id: u32) -> Option<usize> {
        self.slot(self.find_own(comm_id)?).owner.get()
    }
}
