//! What may be sent, and to whom; and whether the counters know it.

use super::Watch;
use crate::addr::Gid;
use crate::stats::Counters;
use crate::wire::{Attribute, Header, Mad, Message, RejectReason};
use crate::{Disposition, IgnoreReason, Path, Transmit};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;

/// What has come and gone.
#[derive(Default)]
pub(super) struct Ledger {
    received: u32,
    accepted: u32,
    duplicates: u32,
    ignored: [u32; IgnoreReason::ALL.len()],
    sent: u32,
    /// Of those, answers to strangers, which are never repeated.
    answered: u32,
    pub(super) send_failed: u32,
    /// Datagrams that came since all was sent: each may be answered once.
    senders: BTreeMap<End, usize>,
    /// Who has sent a REQ with which communication ID, or a SIDR_REQ with which request ID.
    asked: BTreeSet<(End, u32)>,
    /// Where our own REQs go, by communication ID.
    asking: BTreeMap<u32, End>,
    /// The attempts that we have told the peer we gave up.
    given_up: BTreeSet<u32>,
}

/// The one answer that is no CM message.
fn is_class_port_info(mad: &Mad) -> bool {
    let header = Header(mad);
    (header.method(), header.attribute()) == (0x81, Attribute::CLASS_PORT_INFO)
}

/// The other end of a path: its GID and LID.
type End = (Gid, u16);

fn end(path: &Path) -> End {
    match path {
        Path::Roce(path) => (path.remote, 0),
        Path::Ib(path) => (path.remote, path.lid),
    }
}

impl Ledger {
    /// Every datagram that came in was accepted, a duplicate, or ignored for a reason.
    pub(super) fn check(&self, counters: &Counters) {
        assert_eq!(counters.received, self.received, "datagrams received");
        assert_eq!(counters.duplicates, self.duplicates, "duplicates");
        assert_eq!(counters.ignored, self.ignored, "datagrams ignored");
        assert_eq!(counters.sent, self.sent, "datagrams sent");
        assert_eq!(counters.send_failed, self.send_failed, "datagrams that could not be sent");
        let ignored = self.ignored.iter().fold(0, |sum: u32, n| sum.wrapping_add(*n));
        let handled = self.accepted.wrapping_add(self.duplicates).wrapping_add(ignored);
        assert_eq!(counters.received, handled, "received = accepted + duplicates + ignored");
        let connections = self.sent.wrapping_sub(self.answered);
        assert!(counters.retransmitted <= connections, "more was repeated than connections sent");
    }

    pub(super) fn disposed(&mut self, disposition: Disposition) {
        self.received = self.received.wrapping_add(1);
        let counter = match disposition {
            Disposition::Accepted => &mut self.accepted,
            Disposition::Duplicate => &mut self.duplicates,
            Disposition::Ignored(reason) => &mut self.ignored[reason as usize],
        };
        *counter = counter.wrapping_add(1);
    }
}

impl Watch<'_> {
    pub(super) fn received(&mut self, path: &Path, datagram: &[u8]) {
        *self.ledger.senders.entry(end(path)).or_default() += 1;
        match Message::parse(datagram) {
            Ok(Message::Req(req)) => {
                let claimed = (req.primary_local_gid(), end(path).1);
                let believed = self.cm.conns.config.lenient || matches!(path, Path::Ib(_));
                let from = if believed { claimed } else { end(path) };
                self.ledger.asked.insert((from, req.local_comm_id()));
            }
            Ok(Message::SidrReq(req)) => {
                self.ledger.asked.insert((end(path), req.request_id()));
            }
            _ => {}
        }
    }

    pub(super) fn sent(&mut self, transmit: &Transmit, mad: &Mad) {
        self.ledger.sent = self.ledger.sent.wrapping_add(1);
        let limit = self.cm.conns.most_owed();
        assert!(self.transmits <= limit, "datagrams without end: {transmit:?}");
        let to = end(&transmit.path);
        if is_class_port_info(mad) {
            self.ledger.answered = self.ledger.answered.wrapping_add(1);
            return self.answers_somebody(to, &"ClassPortInfo");
        }
        let message = Message::parse(mad).unwrap_or_else(|why| panic!("no CM message: {why:?}"));
        if transmit.token.to_raw() == 0 {
            self.ledger.answered = self.ledger.answered.wrapping_add(1);
            self.sent_without_connection(to, &message);
            return;
        }
        let (comm_id, _) = transmit.token.parts();
        let peers = match &message {
            Message::Req(_) | Message::SidrReq(_) => {
                return self.sent_request(comm_id, to);
            }
            Message::Rep(rep) => rep.remote_comm_id(),
            Message::Rtu(rtu) => rtu.remote_comm_id(),
            Message::Rej(rej) => rej.remote_comm_id(),
            Message::Dreq(dreq) => dreq.remote_comm_id(),
            Message::Drep(drep) => drep.remote_comm_id(),
            Message::Mra(mra) => mra.remote_comm_id(),
            Message::SidrRep(rep) => rep.request_id(),
            other => panic!("nobody asked for {other:?}"),
        };
        match self.ledger.asking.get(&comm_id) {
            Some(peer) => assert_eq!(*peer, to, "{message:?} goes to another than the REQ"),
            None => {
                let asked = self.ledger.asked.contains(&(to, peers));
                assert!(asked, "{message:?} goes to {to:?}, who sent no such REQ");
            }
        }
    }

    /// An answer to who has just sent something; or word of an attempt that we give up.
    fn sent_without_connection(&mut self, to: End, message: &Message<'_>) {
        if let Message::Rej(rej) = message
            && rej.reason() == RejectReason::TIMEOUT
        {
            let comm_id = rej.local_comm_id();
            assert_eq!(self.ledger.asking.get(&comm_id), Some(&to), "{message:?}: no such REQ");
            assert!(self.ledger.given_up.insert(comm_id), "{message:?} twice");
            return;
        }
        self.answers_somebody(to, message);
    }

    fn answers_somebody(&mut self, to: End, what: &dyn Debug) {
        let unanswered = self.ledger.senders.get_mut(&to).filter(|unanswered| **unanswered > 0);
        *unanswered.unwrap_or_else(|| panic!("{what:?} answers nothing from {to:?}")) -= 1;
    }

    pub(super) fn nothing_to_send(&mut self) {
        // While a device is taken away strangers wait.
        if !self.cm.conns.owes_strangers() {
            self.ledger.senders.clear();
        }
    }

    /// It goes where the application, or the host, said that the peer is; each attempt has a number
    /// that there was never before.
    fn sent_request(&mut self, comm_id: u32, to: End) {
        let owner = self.cm.conns.owner_of(comm_id).expect("whoever sends a REQ is there");
        let known = *self.knows(self.cm.ids.handle(owner));
        assert_eq!(known.route.as_ref().map(end), Some(to), "a REQ goes where nobody sent it");
        let before = self.ledger.asking.insert(comm_id, to);
        let repeats = known.comm_id == Some(comm_id);
        assert_eq!(before.is_some(), repeats, "communication ID {comm_id:#x}: is it in use again?");
        self.knows(self.cm.ids.handle(owner)).comm_id = Some(comm_id);
    }
}
