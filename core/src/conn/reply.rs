//! Answers to strangers: REJ and DREP that no slot owes, in a small ring. When it is full the answer
//! is dropped and counted; whoever asked will ask again.

use super::Conns;
use crate::addr::{Gid, Path};
use crate::stats::bump;
use crate::wire::{Drep, Mad, MessageKind, Rej, RejectReason};

/// One answer, as small as it can be told.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    tid: u64,
    path: Path,
    own_comm_id: u32,
    peers_comm_id: u32,
    /// 0: a DREP.
    reason: u16,
    of: u8,
    ari: Ari,
}

/// A reply's additional information.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Ari {
    None,
    Gid(Gid),
    /// The CA GUID of an entry of the GID table.
    Guid(u16),
}

impl Reply {
    /// Memory for one answer.
    pub const EMPTY: Reply = Reply {
        tid: 0,
        path: super::slot::NO_PATH,
        own_comm_id: 0,
        peers_comm_id: 0,
        reason: 0,
        of: 0,
        ari: Ari::None,
    };

    /// A REJ of a REQ, back along the path it came.
    #[inline(never)]
    pub(crate) fn reject(path: &Path, tid: u64, reason: RejectReason) -> Reply {
        let mut reply = Reply::EMPTY;
        (reply.tid, reply.path, reply.reason) = (tid, back(path), reason.0);
        reply
    }

    /// A REJ 4 of nothing in particular, along a connection's path.
    pub(crate) fn timeout(path: &Path, tid: u64, gid_index: u16) -> Reply {
        Reply {
            tid,
            path: *path,
            reason: RejectReason::TIMEOUT.0,
            of: MessageKind::OTHER.0,
            ari: Ari::Guid(gid_index),
            ..Reply::EMPTY
        }
    }

    /// A DREP.
    pub(crate) fn drep(path: &Path, tid: u64) -> Reply {
        Reply::reject(path, tid, RejectReason(0))
    }

    /// Between these communication IDs, ours first.
    pub(crate) fn between(self, own_comm_id: u32, peers_comm_id: u32) -> Reply {
        Reply { own_comm_id, peers_comm_id, ..self }
    }

    /// From this communication ID of ours; the peer's is unknown.
    pub(crate) fn from(self, own_comm_id: u32) -> Reply {
        self.between(own_comm_id, 0)
    }

    /// Which message is rejected.
    pub(crate) fn of(self, message: MessageKind) -> Reply {
        Reply { of: message.0, ..self }
    }

    /// With a GID as additional information.
    pub(crate) fn with_gid(self, gid: Gid) -> Reply {
        Reply { ari: Ari::Gid(gid), ..self }
    }

    fn emit(&self, mad: &mut Mad, guid: impl FnOnce(u16) -> u64) -> Path {
        if self.reason == 0 {
            let mut drep = Drep::emit(mad, self.tid);
            drep.set_local_comm_id(self.own_comm_id).set_remote_comm_id(self.peers_comm_id);
        } else {
            let mut rej = Rej::emit(mad, self.tid);
            rej.set_local_comm_id(self.own_comm_id)
                .set_remote_comm_id(self.peers_comm_id)
                .set_message_rejected(MessageKind(self.of))
                .set_reason(RejectReason(self.reason));
            match self.ari {
                Ari::None => &mut rej,
                Ari::Gid(gid) => rej.set_additional_info(&gid.0),
                Ari::Guid(index) => rej.set_additional_info(&guid(index).to_be_bytes()),
            };
        }
        self.path
    }
}

/// Answers to strangers travel with default marking, whatever came in (facts: wire-formats §6.1).
fn back(path: &Path) -> Path {
    let mut path = *path;
    if let Path::Roce(roce) = &mut path {
        roce.traffic_class = 0;
        roce.flow_label = 0;
        roce.hop_limit = 64;
    }
    path
}

/// A FIFO of answers over borrowed memory.
#[derive(Debug)]
pub(crate) struct ReplyRing<'s> {
    slots: &'s mut [Reply],
    first: usize,
    len: usize,
}

impl<'s> ReplyRing<'s> {
    pub(crate) fn new(slots: &'s mut [Reply]) -> ReplyRing<'s> {
        ReplyRing { slots, first: 0, len: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// False if there is no room.
    fn push(&mut self, reply: Reply) -> bool {
        let capacity = self.slots.len();
        if self.len == capacity {
            return false;
        }
        self.slots[(self.first + self.len) % capacity] = reply;
        self.len += 1;
        true
    }

    fn pop(&mut self) -> Option<&Reply> {
        if self.len == 0 {
            return None;
        }
        let at = self.first;
        self.first = (self.first + 1) % self.slots.len();
        self.len -= 1;
        Some(&self.slots[at])
    }
}

impl Conns<'_> {
    #[inline(never)]
    pub(crate) fn reply(&mut self, reply: Reply) {
        if !self.replies.push(reply) {
            bump(&mut self.counters.replies_dropped);
        }
    }

    /// Encodes the oldest answer to a stranger.
    pub(super) fn emit_reply(
        &mut self,
        mad: &mut Mad,
        guid: impl FnOnce(u16) -> u64,
    ) -> Option<Path> {
        self.replies.pop().map(|reply| reply.emit(mad, guid))
    }
}
