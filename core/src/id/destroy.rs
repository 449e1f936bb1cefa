//! `destroy`: never blocks, releases the port at once; the connection says its last word by itself.

use super::State;
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
        if let Some(conn) = self.ids.conn(index) {
            self.conns.retire(conn);
        }
        self.ids.answered(index);
        if self.ids.state(index) == State::Listen {
            self.ids.stop_listening(index);
        }
        self.ids.unmark(index, u16::MAX);
        let key = self.ids.release_port(index);
        self.ids.table.release(index);
        key
    }
}
