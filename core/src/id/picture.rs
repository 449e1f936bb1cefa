//! What of the identifiers decides what they will do.

use super::Ids;
use super::slot::{IdSlot, Stage};
use crate::conn::Conns;
use crate::testing::Picture;

impl Ids<'_> {
    pub(crate) fn paint(&self, conns: &Conns<'_>, picture: &mut Picture) {
        self.table.paint(picture);
        for (_, slot) in self.live() {
            self.paint_slot(slot, conns, picture);
        }
        let ready = self.ready.iter(self.table.slots());
        picture.list(ready.map(|index| self.rank(index) as usize));
    }

    /// Which of the live slots this is.
    pub(crate) fn rank(&self, index: usize) -> u64 {
        self.live().take_while(|(other, _)| *other < index).count() as u64
    }

    fn paint_slot(&self, slot: &IdSlot, conns: &Conns<'_>, picture: &mut Picture) {
        picture.put(1 + slot.stage.state() as u64);
        let waiting = match slot.stage {
            Stage::Listen { waiting, .. } => u64::from(waiting),
            _ => 0,
        };
        let listener = self.find(slot.listener()).map_or(0, |index| 1 + self.rank(index));
        let conn = slot.conn.get().map_or(0, |conn| 1 + conns.rank(conn));
        picture.put_all([waiting, listener, conn]);
        for number in [slot.local_port, slot.remote_port, slot.held.port(), slot.flags()] {
            picture.put(u64::from(number));
        }
        picture.put_all([u64::from(slot.pending), slot.errno() as u64, slot.cause as u64]);
    }
}
