//! Answers to strangers: REJ, DREP, SIDR_REP, APR and ClassPortInfo that no slot owes, in a small ring. When it is full the answer
//! is dropped and counted; whoever asked will ask again.

use super::Conns;
use crate::addr::{Gid, Path, ServiceId};
use crate::stats::bump;
use crate::wire::{
    ApStatus, Apr, Drep, Mad, MessageKind, Rej, RejectReason, SidrRep, SidrReq, SidrStatus,
    class_port_info,
};

/// One answer, as small as it can be told.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    tid: u64,
    path: Path,
    own_comm_id: u32,
    /// Of a SIDR_REP: the request's number.
    peers_comm_id: u32,
    what: What,
    ari: Ari,
}

/// Which message it is.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum What {
    Drep,
    Rej { of: MessageKind, reason: RejectReason },
    SidrRep(SidrStatus),
    Apr(ApStatus),
    ClassPortInfo,
}

/// A reply's additional information.
#[derive(Clone, Copy, Debug)]
#[repr(u8)]
enum Ari {
    None,
    Gid(Gid),
    /// The CA GUID of an entry of the GID table.
    Guid(u16),
    /// A path MTU (code).
    Mtu(u8),
    /// Not information: the service that a SIDR_REP speaks of.
    Service([u8; 8]),
}

impl Reply {
    /// Memory for one answer.
    pub const EMPTY: Reply = Reply {
        tid: 0,
        path: super::slot::NO_PATH,
        own_comm_id: 0,
        peers_comm_id: 0,
        what: What::Drep,
        ari: Ari::None,
    };

    /// This answer to a message of that number, back along the path it came.
    #[inline(never)]
    fn new(path: &Path, tid: u64, what: What) -> Reply {
        let mut reply = Reply::EMPTY;
        (reply.tid, reply.path, reply.what) = (tid, back(path), what);
        reply
    }

    /// A REJ of this message.
    pub(crate) fn reject(path: &Path, tid: u64, of: MessageKind, reason: RejectReason) -> Reply {
        Reply::new(path, tid, What::Rej { of, reason })
    }

    /// A REJ 4 of nothing in particular, along a connection's path.
    pub(crate) fn timeout(path: &Path, tid: u64, gid_index: u16) -> Reply {
        Reply {
            tid,
            path: *path,
            what: What::Rej { of: MessageKind::OTHER, reason: RejectReason::TIMEOUT },
            ari: Ari::Guid(gid_index),
            ..Reply::EMPTY
        }
    }

    /// A DREP.
    pub(crate) fn drep(path: &Path, tid: u64) -> Reply {
        Reply::new(path, tid, What::Drep)
    }

    /// A SIDR_REP that refuses.
    pub(crate) fn sidr_rep(path: &Path, req: &SidrReq<&Mad>, status: SidrStatus) -> Reply {
        let mut reply = Reply::new(path, req.transaction_id(), What::SidrRep(status));
        reply.peers_comm_id = req.request_id();
        reply.ari = Ari::Service(req.service_id().0.to_be_bytes());
        reply
    }

    /// An APR.
    pub(crate) fn apr(path: &Path, tid: u64, status: ApStatus) -> Reply {
        Reply::new(path, tid, What::Apr(status))
    }

    /// What this CM can do.
    pub(crate) fn class_port_info(path: &Path, tid: u64) -> Reply {
        Reply::new(path, tid, What::ClassPortInfo)
    }

    /// Between these communication IDs, ours first.
    pub(crate) fn between(mut self, own_comm_id: u32, peers_comm_id: u32) -> Reply {
        (self.own_comm_id, self.peers_comm_id) = (own_comm_id, peers_comm_id);
        self
    }

    /// From this communication ID of ours; the peer's is unknown.
    pub(crate) fn from(self, own_comm_id: u32) -> Reply {
        self.between(own_comm_id, 0)
    }

    /// With a path MTU (code) as additional information.
    pub(crate) fn with_mtu(mut self, mtu: u8) -> Reply {
        self.ari = Ari::Mtu(mtu);
        self
    }

    /// With a GID as additional information.
    pub(crate) fn with_gid(mut self, gid: Gid) -> Reply {
        self.ari = Ari::Gid(gid);
        self
    }

    fn emit(&self, mad: &mut Mad, guid: impl FnOnce(u16) -> Option<u64>) -> Path {
        match self.what {
            What::Drep => {
                Drep::emit(mad, self.tid);
            }
            What::Rej { of, reason } => {
                let mut rej = Rej::emit(mad, self.tid);
                rej.set_message_rejected(of).set_reason(reason);
                match self.ari {
                    Ari::None | Ari::Service(_) => {}
                    Ari::Gid(gid) => {
                        rej.set_additional_info(&gid.0);
                    }
                    Ari::Guid(index) => {
                        rej.set_additional_info(&guid(index).unwrap_or(0).to_be_bytes());
                    }
                    // The top four bits (facts: wire-formats §2.3).
                    Ari::Mtu(code) => {
                        rej.set_additional_info(&[code << 4]);
                    }
                }
            }
            What::SidrRep(status) => {
                let mut rep = SidrRep::emit(mad, self.tid);
                rep.set_request_id(self.peers_comm_id).set_status(status);
                if let Ari::Service(id) = self.ari {
                    rep.set_service_id(ServiceId(u64::from_be_bytes(id)));
                }
                return self.path;
            }
            What::Apr(status) => {
                Apr::emit(mad, self.tid).set_ap_status(status);
            }
            What::ClassPortInfo => {
                class_port_info::answer(mad, self.tid);
                return self.path;
            }
        }
        // All but SIDR's begin with them.
        Drep(mad).set_local_comm_id(self.own_comm_id).set_remote_comm_id(self.peers_comm_id);
        self.path
    }
}

/// Answers to strangers travel with default marking, whatever came in (facts: wire-formats §6.1).
pub(super) fn back(path: &Path) -> Path {
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

    #[cfg(feature = "testing")]
    pub(crate) fn capacity(&self) -> usize {
        self.slots.len()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn paint(&self, picture: &mut crate::testing::Picture) {
        for n in 0..self.len {
            let reply = &self.slots[(self.first + n) % self.slots.len()];
            for name in [reply.own_comm_id, reply.peers_comm_id] {
                picture.name(u64::from(name));
            }
            picture.name(reply.tid);
            picture.path(&reply.path);
            let (kind, code) = match reply.what {
                What::Drep => (0, 0),
                What::Rej { of, reason } => (1 + u64::from(of.0), u64::from(reason.0)),
                What::SidrRep(status) => (8, u64::from(status.0)),
                What::Apr(status) => (9, u64::from(status.0)),
                What::ClassPortInfo => (10, 0),
            };
            picture.put_all([kind, code]);
        }
        picture.put(self.len as u64);
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
    /// Answers a stranger, unless there are too many of them.
    #[inline(never)]
    pub(crate) fn reply(&mut self, reply: Reply) {
        if self.may_answer() {
            self.push_reply(reply);
        }
    }

    pub(super) fn push_reply(&mut self, reply: Reply) {
        if !self.replies.push(reply) {
            bump(&mut self.counters.replies_dropped);
        }
    }

    /// Encodes the oldest answer to a stranger.
    pub(super) fn emit_reply(
        &mut self,
        mad: &mut Mad,
        guid: impl FnOnce(u16) -> Option<u64>,
    ) -> Option<Path> {
        self.replies.pop().map(|reply| reply.emit(mad, guid))
    }

    /// Drops the answers to strangers that would go these ways.
    pub(crate) fn drop_replies(&mut self, along: impl Fn(&Path) -> bool) {
        for _ in 0..self.replies.len {
            let Some(&reply) = self.replies.pop() else { return };
            if along(&reply.path) {
                bump(&mut self.counters.replies_dropped);
            } else {
                self.replies.push(reply);
            }
        }
    }
}
