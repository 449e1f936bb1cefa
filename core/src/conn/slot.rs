//! A connection's slot: everything the CM protocol remembers of it.
//!
//! All zero bits is an empty slot, so that storage lands in `.bss`. The fields are packed: with the
//! identifier's slot, chain heads and heap entry a connection takes at most 512 octets (`ram_bill`).

use super::qp::Transport;
use super::state::Stage;
use crate::addr::{Gid, IbPath, Path};
use crate::slots::{Chained, Link, Linked, Links, Slot, Timed};
use crate::wire::{Ece, MessageKind};

/// The list of slots that owe a message, or a question to the host.
pub(super) const SENDS: u8 = 0;
/// The list of destroyed connections that still have something to say, oldest first.
pub(super) const FAREWELLS: u8 = 1;
/// Chain by (the peer's comm ID, its CA GUID): finds repeated REQs and REPs.
pub(super) const PEER_ID: u8 = 0;
/// Chain by (the peer's QPN, its CA GUID): finds stale connections.
pub(super) const PEER_QPN: u8 = 1;
/// Chain by our own QPN.
pub(super) const OWN_QPN: u8 = 2;

/// Octets of private data a message may carry at most (RTU, DREP).
pub(super) const BUFFER: usize = 224;
/// Where a REJ's additional information lies in the buffer: behind its 148 octets of private data.
pub(super) const ARI_AT: usize = 148;
/// Where its length stands. No data of a peer's reach so far.
const ARI_LEN: usize = BUFFER - 1;

/// Memory for one connection.
#[derive(Clone, Copy, Debug)]
pub struct ConnSlot {
    /// The exchange's transaction ID, to be echoed.
    pub(super) tid: u64,
    /// The peer's; of a SIDR request the service ID, which tells requests of one number apart.
    pub(super) remote_ca_guid: u64,
    pub(super) path: Path,
    pub(super) stage: Stage,
    /// The table's, odd while live; each connection in this slot moves it on by two, and the comm ID
    /// is made of it.
    generation: u32,
    pub(super) local_comm_id: u32,
    /// 0 until known.
    pub(super) remote_comm_id: u32,
    pub(super) local_qpn: u32,
    pub(super) remote_qpn: u32,
    /// The first PSN; of a datagram service the Q_Key.
    pub(super) local_psn: u32,
    pub(super) remote_psn: u32,
    /// The identifier; none once it is destroyed.
    pub(super) owner: Link,
    sends: Links,
    /// The chains by the peer's comm ID and QPN; in a destroyed connection, which is in neither, the
    /// list of farewells.
    peer: Links,
    by_own_qpn: Link,
    deadline: Link,
    pub(super) pkey: u16,
    /// REJ reason or SIDR status, received or to be sent.
    pub(super) reason: u16,
    /// Which entry of the GID table we are; its GUID is our CA GUID.
    pub(super) gid_index: u16,
    /// Messages owed ([`owed`]).
    pub(super) owes: u8,
    /// [`flag`]s.
    pub(super) flags: u8,
    /// The indexes it is in, which message an owed REJ rejects, and which of the last REQs could not
    /// be sent ([`bits`]).
    bits: u8,
    pub(super) responder_resources: u8,
    pub(super) initiator_depth: u8,
    pub(super) peer_responder_resources: u8,
    pub(super) peer_initiator_depth: u8,
    pub(super) retry_counts: u8,
    /// Of a REQ also how often its REP may be repeated ([`repeats`](super::qp::repeats)).
    pub(super) peer_retry_counts: u8,
    pub(super) mtu: u8,
    pub(super) rate: u8,
    /// Packet lifetime code of the path.
    pub(super) packet_lifetime: u8,
    pub(super) data_len: u8,
    /// ECE: options and vendor of ours until the peer has them, then of the peer.
    ece_options: u32,
    ece_vendor: [u8; 3],
    /// Target ACK delay code of the peer's REP.
    pub(super) peer_ack_delay: u8,
    /// Whose data the buffer has: the message of ours ([`owed`]) they belong to, 0 for the peer's.
    holds: u8,
    /// Private data owed or unread: one owner at a time.
    pub(super) buffer: [u8; BUFFER],
}

/// What a slot may owe. A datagram service's REQ and REP are SIDR_REQ and SIDR_REP.
pub(super) mod owed {
    pub(in crate::conn) const RTU: u8 = 1 << 0;
    pub(in crate::conn) const REP: u8 = 1 << 1;
    pub(in crate::conn) const REJ: u8 = 1 << 2;
    pub(in crate::conn) const DREP: u8 = 1 << 3;
    pub(in crate::conn) const REQ: u8 = 1 << 4;
    pub(in crate::conn) const DREQ: u8 = 1 << 5;
    /// A question to the host, not a message.
    pub(in crate::conn) const HOST: u8 = 1 << 6;
    pub(in crate::conn) const MRA: u8 = 1 << 7;

    /// Answers go before requests.
    pub(in crate::conn) const ANSWERS: u8 = RTU | REP | REJ | DREP | MRA;
}

/// The parts of `ConnSlot::bits`.
mod bits {
    pub(super) const TABLES: u8 = 0b111;
    pub(super) const REJECTS: u32 = 3;
    pub(super) const FAILED: u32 = 5;
}

pub(super) mod flag {
    /// We sent the REQ.
    pub(in crate::conn) const ACTIVE: u8 = 1 << 0;
    /// What is owed repeats what was sent.
    pub(in crate::conn) const REPEAT: u8 = 1 << 2;
    /// The transport: neither RC, both XRC.
    pub(in crate::conn) const TRANSPORT: u8 = UC | DATAGRAM;
    pub(in crate::conn) const UC: u8 = 1 << 1;
    /// SIDR's messages.
    pub(in crate::conn) const DATAGRAM: u8 = 1 << 3;
    /// We use a shared receive queue.
    pub(in crate::conn) const SRQ: u8 = 1 << 4;
    /// We do end-to-end flow control.
    pub(in crate::conn) const FLOW_CONTROL: u8 = 1 << 5;
    /// The peer uses a shared receive queue.
    pub(in crate::conn) const PEER_SRQ: u8 = 1 << 6;
    /// The peer does end-to-end flow control.
    pub(in crate::conn) const PEER_FLOW_CONTROL: u8 = 1 << 7;
}

/// All zero bits: of the two kinds of path this one has no tag of its own.
pub(super) const NO_PATH: Path = Path::Ib(IbPath {
    local: Gid::ZERO,
    remote: Gid::ZERO,
    lid: 0,
    pkey_index: 0,
    flow_label: 0,
    port: 0,
    sl: 0,
    traffic_class: 0,
    hop_limit: 0,
    grh: false,
});

impl ConnSlot {
    /// An unused slot.
    pub const EMPTY: ConnSlot = ConnSlot {
        tid: 0,
        remote_ca_guid: 0,
        path: NO_PATH,
        stage: Stage::Idle,
        generation: 0,
        local_comm_id: 0,
        remote_comm_id: 0,
        local_qpn: 0,
        remote_qpn: 0,
        local_psn: 0,
        remote_psn: 0,
        owner: Link::NONE,
        sends: Links::NONE,
        peer: Links::NONE,
        by_own_qpn: Link::NONE,
        deadline: Link::NONE,
        pkey: 0,
        reason: 0,
        gid_index: 0,
        owes: 0,
        flags: 0,
        bits: 0,
        responder_resources: 0,
        initiator_depth: 0,
        peer_responder_resources: 0,
        peer_initiator_depth: 0,
        retry_counts: 0,
        peer_retry_counts: 0,
        mtu: 0,
        rate: 0,
        packet_lifetime: 0,
        data_len: 0,
        ece_options: 0,
        ece_vendor: [0; 3],
        peer_ack_delay: 0,
        holds: 0,
        buffer: [0; BUFFER],
    };

    /// Forgets everything but the generation.
    pub(super) fn clear(&mut self) {
        let generation = self.generation;
        *self = ConnSlot::EMPTY;
        self.generation = generation;
    }

    /// Forgets all that the peer said.
    pub(super) fn forget_peer(&mut self) {
        self.remote_comm_id = 0;
        self.remote_ca_guid = 0;
        self.remote_qpn = 0;
        self.remote_psn = 0;
        self.reason = 0;
        self.peer_responder_resources = 0;
        self.peer_initiator_depth = 0;
        self.peer_retry_counts = 0;
        self.peer_ack_delay = 0;
        self.set_ece(Ece::NONE);
        self.set(flag::PEER_SRQ, false);
        self.set(flag::PEER_FLOW_CONTROL, false);
        self.put_peers_data(&[]);
    }

    /// Which connection of this slot this is: a number that comes back after 2³¹ of them.
    pub(super) fn incarnation(&self) -> u32 {
        self.generation >> 1
    }

    /// The next connection gets another number, in the same slot and for the same owner.
    pub(super) fn renew(&mut self) {
        self.generation = self.generation.wrapping_add(2);
    }

    /// Whether it is in any of these indexes.
    pub(super) fn is_in(&self, tables: u8) -> bool {
        self.bits & tables != 0
    }

    /// Which indexes it is in.
    #[cfg(feature = "testing")]
    pub(super) fn tables(&self) -> u8 {
        self.bits & bits::TABLES
    }

    /// Which of the last REQs could not be sent.
    #[cfg(feature = "testing")]
    pub(super) fn failures(&self) -> u8 {
        self.bits >> bits::FAILED & 3
    }

    #[cfg(feature = "testing")]
    pub(super) fn holder(&self) -> u8 {
        self.holds
    }

    pub(super) fn enter(&mut self, tables: u8) {
        self.bits |= tables & bits::TABLES;
    }

    pub(super) fn leave(&mut self, tables: u8) {
        self.bits &= !(tables & bits::TABLES);
    }

    /// Which message an owed REJ rejects.
    pub(super) fn rejects(&self) -> MessageKind {
        MessageKind(self.bits >> bits::REJECTS & 3)
    }

    pub(super) fn set_rejects(&mut self, of: MessageKind) {
        self.bits = self.bits & !(3 << bits::REJECTS) | (of.0 & 3) << bits::REJECTS;
    }

    /// Another REQ goes out.
    pub(super) fn note_req(&mut self) {
        let failed = self.bits >> bits::FAILED & 1;
        self.bits = self.bits & !(3 << bits::FAILED) | failed << (bits::FAILED + 1);
    }

    /// The last REQ could not be sent. True if the one before could not either.
    pub(super) fn note_failure(&mut self) -> bool {
        self.bits |= 1 << bits::FAILED;
        self.bits >> bits::FAILED & 3 == 3
    }

    /// What was sent got through.
    pub(super) fn forget_failures(&mut self) {
        self.bits &= !(3 << bits::FAILED);
    }

    pub(super) fn ece(&self) -> Ece {
        let [high, middle, low] = self.ece_vendor;
        Ece { vendor_id: u32::from_be_bytes([0, high, middle, low]), options: self.ece_options }
    }

    pub(super) fn set_ece(&mut self, ece: Ece) {
        let [_, high, middle, low] = ece.vendor_id.to_be_bytes();
        self.ece_vendor = [high, middle, low];
        self.ece_options = ece.options;
    }

    /// The transport of its queue pair; `None`: datagrams, so there is no connection.
    pub(super) fn transport(&self) -> Option<Transport> {
        match self.flags & flag::TRANSPORT {
            0 => Some(Transport::Rc),
            flag::UC => Some(Transport::Uc),
            flag::TRANSPORT => Some(Transport::Xrc),
            _ => None,
        }
    }

    pub(super) fn set_transport(&mut self, transport: Option<Transport>) {
        let bits = match transport {
            Some(Transport::Rc) => 0,
            Some(Transport::Uc) => flag::UC,
            Some(Transport::Xrc) => flag::TRANSPORT,
            None => flag::DATAGRAM,
        };
        self.flags = self.flags & !flag::TRANSPORT | bits;
    }

    /// Whether it asks for, or answers for, a datagram service: SIDR's messages instead of a
    /// connection's.
    pub(super) fn is_datagram(&self) -> bool {
        self.flags & flag::TRANSPORT == flag::DATAGRAM
    }

    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn set(&mut self, flag: u8, on: bool) {
        if on { self.flags |= flag } else { self.flags &= !flag }
    }

    /// Takes the buffer for the data of a message of ours. The caller has checked the length.
    pub(super) fn put_own_data(&mut self, message: u8, data: &[u8]) {
        self.put(message, data);
    }

    /// Takes the buffer for data of the peer's.
    pub(super) fn put_peers_data(&mut self, data: &[u8]) {
        self.put(0, data);
    }

    fn put(&mut self, holds: u8, data: &[u8]) {
        let len = data.len().min(BUFFER);
        self.buffer[ARI_LEN] = 0;
        self.buffer[..len].copy_from_slice(&data[..len]);
        self.holds = holds;
        self.data_len = len as u8;
    }

    /// Whether the last data put in were those of this message of ours.
    pub(super) fn holds(&self, message: u8) -> bool {
        self.holds == message
    }

    /// Puts additional rejection information behind the private data.
    pub(super) fn put_ari(&mut self, ari: &[u8]) {
        let len = ari.len().min(ARI_LEN - ARI_AT);
        self.buffer[ARI_AT..ARI_AT + len].copy_from_slice(&ari[..len]);
        self.buffer[ARI_LEN] = len as u8;
    }

    /// The data of a message of ours, unless others have taken the buffer since.
    pub(super) fn own_data(&self, message: u8) -> &[u8] {
        if self.holds(message) { self.data() } else { &[] }
    }

    /// The peer's data.
    pub(super) fn peers_data(&self) -> &[u8] {
        if self.holds(0) { self.data() } else { &[] }
    }

    /// The peer's additional rejection information.
    pub(super) fn peers_ari(&self) -> &[u8] {
        let len = if self.holds(0) { usize::from(self.buffer[ARI_LEN]) } else { 0 };
        &self.buffer[ARI_AT..(ARI_AT + len).min(ARI_LEN)]
    }

    fn data(&self) -> &[u8] {
        &self.buffer[..usize::from(self.data_len).min(BUFFER)]
    }
}

impl Slot for ConnSlot {
    fn generation(&self) -> u32 {
        self.generation
    }

    fn set_generation(&mut self, generation: u32) {
        self.generation = generation;
    }

    fn free_link(&mut self) -> &mut Link {
        &mut self.owner
    }
}

impl Timed for ConnSlot {
    fn heap_link(&mut self) -> &mut Link {
        &mut self.deadline
    }

    fn heap_link_ref(&self) -> Link {
        self.deadline
    }
}

macro_rules! linked {
    ($($list:ident $field:ident),*) => {$(
        impl Linked<$list> for ConnSlot {
            fn links(&mut self) -> &mut Links {
                &mut self.$field
            }

            fn links_ref(&self) -> &Links {
                &self.$field
            }
        }
    )*};
}
linked!(SENDS sends, FAREWELLS peer);

macro_rules! chained {
    ($($chain:ident $($field:ident).+),*) => {$(
        impl Chained<$chain> for ConnSlot {
            fn chain(&self) -> Link {
                self.$($field).+
            }

            fn set_chain(&mut self, link: Link) {
                self.$($field).+ = link;
            }
        }
    )*};
}
chained!(PEER_ID peer.prev, PEER_QPN peer.next, OWN_QPN by_own_qpn);
