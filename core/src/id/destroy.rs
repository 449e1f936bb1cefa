//! `destroy`: never blocks, releases the port at once; the connection says its last word by itself.

use super::{Ids, State};
use crate::cm::Cm;
use crate::error::OpError;
use crate::handle::Id;
use crate::port::PortKey;
use crate::time::Instant;

impl Cm<'_> {
    /// Destroys an identifier in whichever state (`rdma_destroy_id`). Its handle is stale from now
    /// on, its events are forgotten, its port is free. The peer is told what it needs to know: a
    /// connection that stood sends its DREQ until it is answered, in a slot that is given up when
    /// another connection wants it.
    ///
    /// Returns the port whose last owner left, for hosts that reserve ports.
    ///
    /// # Errors
    /// [`OpError::NoSuchId`].
    pub fn destroy(&mut self, now: Instant, id: Id) -> Result<Option<PortKey>, OpError> {
        self.conns.advance(now);
        let index = self.ids.find(id).ok_or(OpError::NoSuchId)?;
        Ok(self.let_go(index))
    }

    /// Gives an identifier's slot, port and connection back.
    pub(crate) fn let_go(&mut self, index: usize) -> Option<PortKey> {
        match self.ids.conn(index) {
            // Nothing can be said over a device that is gone.
            Some(conn) if self.gids.has_gone(self.conns.gid_index(conn)) => self.conns.free(conn),
            Some(conn) => self.conns.retire(conn),
            None => {}
        }
        self.ids.withdraw(index, 0);
        let key = self.ids.release_port(index);
        self.ids.table.release(index);
        key
    }
}

impl Ids<'_> {
    /// An identifier is no listener's request and nobody's listener any more, and has nothing more to
    /// tell but what is in `keep`.
    pub(super) fn withdraw(&mut self, index: usize, keep: u16) {
        self.answered(index);
        if self.state(index) == State::Listen {
            self.stop_listening(index);
        }
        self.unmark(index, !keep);
    }
}
