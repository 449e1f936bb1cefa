//! What of the connections decides what they will do.

use super::slot::{ConnSlot, owed};
use super::state::{Stage, Wait};
use super::{ConnState, Conns};
use crate::testing::Picture;
use crate::time::Tick;

impl Conns<'_> {
    /// `rank` is that of identifiers.
    pub(crate) fn paint(&self, rank: impl Fn(usize) -> u64, picture: &mut Picture) {
        let (slots, now) = (self.table.slots(), Tick::at(self.now));
        self.table.paint(picture);
        for (_, slot) in self.live() {
            picture.put(slot.owner.get().map_or(0, |owner| 1 + rank(owner)));
            slot.paint(now, picture);
        }
        let nth = |index| self.rank(index) as usize;
        self.deadlines.paint(now, nth, picture);
        for list in [&self.answers, &self.asks, &self.questions] {
            picture.list(list.iter(slots).map(nth));
        }
        picture.list(self.farewells.iter(slots).map(nth));
        self.replies.paint(picture);
        self.paces.iter().for_each(|pace| pace.paint(now, picture));
    }

    /// Which of the live slots this is.
    pub(crate) fn rank(&self, index: usize) -> u64 {
        self.live().take_while(|(other, _)| *other < index).count() as u64
    }
}

impl ConnSlot {
    fn paint(&self, now: Tick, picture: &mut Picture) {
        let state = self.stage.state();
        picture.put(state as u64);
        picture.path(&self.path);
        picture.put_all([u64::from(self.gid_index), u64::from(self.mtu)]);
        if state == ConnState::Idle && self.owes == 0 {
            return;
        }
        if let Stage::ReqSent(wait)
        | Stage::RepSent(wait)
        | Stage::DreqSent(wait)
        | Stage::SidrReqSent(wait) = self.stage
        {
            let Wait { until, patience, beats, left } = wait;
            picture.put(until.ahead_of(now) as u64);
            picture.put_all([u64::from(patience), u64::from(beats), u64::from(left)]);
        }
        if let Stage::RepRcvd(since) = self.stage {
            picture.put(now.ahead_of(since) as u64);
        }
        for name in [self.local_comm_id, self.remote_comm_id] {
            picture.name(u64::from(name));
        }
        picture.put(self.remote_ca_guid);
        picture.queue_pair(self.local_qpn);
        picture.queue_pair(self.remote_qpn);
        for octet in [self.owes, self.flags, self.tables(), self.failures(), self.holder()] {
            picture.put(u64::from(octet));
        }
        picture.put(u64::from(self.packet_lifetime));
        // What has been said in a REJ or SIDR_REP is said again.
        if (self.owes | self.holder()) & (owed::REJ | owed::REP) != 0 {
            picture.name(self.tid);
            picture.put_all([u64::from(self.rejects().0), u64::from(self.reason)]);
        }
    }
}
