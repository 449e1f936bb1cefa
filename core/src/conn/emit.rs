//! How a slot becomes a MAD. Nothing encoded is stored: a retransmission is a re-encode.
//!
//! Read first: IBTA 12, tables 106 to 113; facts: wire-formats §2.

use super::qp::{Transport, ack_timeout};
use super::slot::{ConnSlot, flag, owed};
use super::{Conns, Endpoints};
use crate::addr::{Path, ServiceId};
use crate::config::Config;
use crate::handle::SendToken;
use crate::stats::bump;
use crate::wire::{
    Attribute, Drep, Dreq, Mad, MessageKind, Mra, PrivateDataTooLong, Rej, RejectReason, Rep, Req,
    Rtu, SidrRep, SidrReq, SidrStatus,
};

/// The LID of a path that leaves the subnet, as every RoCE path does.
const PERMISSIVE_LID: u16 = 0xffff;

/// Order in which one slot's messages go out.
const ORDER: [u8; 7] =
    [owed::RTU, owed::REP, owed::REJ, owed::DREP, owed::MRA, owed::REQ, owed::DREQ];

impl Conns<'_> {
    /// Encodes what is due next: answers to peers, answers to strangers, then requests. `endpoints` knows the
    /// addresses of an identifier, `guid` the CA GUID of an entry of the GID table, unless its device
    /// is gone: what is owed over that is dropped, and strangers wait (`hush`) until it is forgotten.
    pub(crate) fn emit_next(
        &mut self,
        mad: &mut Mad,
        hush: bool,
        endpoints: impl FnOnce(usize) -> Endpoints,
        guid: impl Fn(u16) -> Option<u64>,
    ) -> Option<(Path, SendToken)> {
        let strangers_next = !hush && self.answers.is_empty();
        if strangers_next && let Some(path) = self.emit_reply(mad, &guid) {
            bump(&mut self.counters.sent);
            return Some((path, SendToken(0)));
        }
        let (index, guid) = self.next_owing(guid)?;
        let slot = self.slot(index);
        let message = ORDER.into_iter().find(|message| slot.owes & message != 0)?;
        let attribute = match message {
            owed::REQ if slot.is_datagram() => {
                emit_sidr_req(slot, &endpoints(slot.owner.get()?), mad);
                Attribute::SIDR_REQ
            }
            owed::REP if slot.is_datagram() => {
                emit_sidr_rep(slot, self.sidr_service(index), mad);
                Attribute::SIDR_REP
            }
            owed::MRA => {
                emit_mra(slot, self.waits.service_timeout, mad);
                Attribute::MRA
            }
            owed::REQ => {
                emit_req(slot, &self.config, guid, &endpoints(slot.owner.get()?), mad);
                Attribute::REQ
            }
            owed::REP => {
                emit_rep(slot, &self.config, guid, mad);
                Attribute::REP
            }
            owed::RTU => {
                emit_rtu(slot, mad);
                Attribute::RTU
            }
            owed::REJ => {
                emit_rej(slot, guid, mad);
                Attribute::REJ
            }
            owed::DREP => {
                emit_drep(slot, mad);
                Attribute::DREP
            }
            _ => {
                emit_dreq(slot, mad);
                Attribute::DREQ
            }
        };
        let sent = (slot.path, token(slot.local_comm_id, attribute));
        let repeat = slot.has(flag::REPEAT);
        bump(&mut self.counters.sent);
        if repeat {
            bump(&mut self.counters.retransmitted);
        }
        if message == owed::REQ {
            self.slot_mut(index).note_req();
        }
        self.set_owed(index, self.slot(index).owes & !message);
        self.end_farewell_when_sent(index);
        Some(sent)
    }

    /// The next slot that owes a message, and its CA GUID. Of those that have none any more a few are
    /// looked at; the rest is found when slots are visited.
    fn next_owing(&mut self, guid: impl Fn(u16) -> Option<u64>) -> Option<(usize, u64)> {
        for _ in 0..16 {
            let index = self.answers.front().or_else(|| self.asks.front())?;
            if let Some(guid) = guid(self.slot(index).gid_index) {
                return Some((index, guid));
            }
            self.set_owed(index, 0);
        }
        None
    }
}

/// A transmission's name: its connection and message. A transport that gets the MAD back instead
/// can make it again with [`SendToken::of`].
fn token(comm_id: u32, attribute: Attribute) -> SendToken {
    SendToken(u64::from(comm_id) << 32 | u64::from(attribute.0))
}

impl SendToken {
    /// The token that `poll_transmit` gave for this MAD of ours.
    pub fn of(mad: &Mad) -> SendToken {
        let view = crate::wire::View::new(mad);
        let comm_id = u32::from_be_bytes([mad[24], mad[25], mad[26], mad[27]]);
        token(comm_id, view.attribute())
    }

    /// Connection and message.
    pub(crate) fn parts(self) -> (u32, Attribute) {
        ((self.0 >> 32) as u32, Attribute(self.0 as u16))
    }
}

fn emit_req(slot: &ConnSlot, config: &Config, guid: u64, ends: &Endpoints, mad: &mut Mad) {
    let mut req = Req::emit(mad, slot.tid);
    let transport = slot.transport().unwrap_or_default();
    let (service_type, extended) = transport.codes();
    req.set_local_comm_id(slot.local_comm_id)
        .set_ece(slot.ece())
        .set_transport_service_type(service_type)
        .set_extended_transport_type(extended)
        .set_service_id(ServiceId::new(ends.space, ends.remote_port))
        .set_local_ca_guid(guid)
        .set_local_qpn(slot.local_qpn)
        .set_responder_resources(slot.responder_resources)
        .set_initiator_depth(slot.initiator_depth)
        .set_remote_cm_response_timeout(config.remote_cm_response_timeout)
        .set_end_to_end_flow_control(slot.has(flag::FLOW_CONTROL))
        .set_starting_psn(slot.local_psn)
        .set_local_cm_response_timeout(config.local_cm_response_timeout)
        .set_retry_count(slot.retry_counts & 7)
        .set_partition_key(slot.pkey)
        .set_path_mtu(slot.mtu)
        .set_rnr_retry_count(slot.retry_counts >> 3 & 7)
        .set_max_cm_retries(config.max_cm_retries)
        .set_srq(slot.has(flag::SRQ))
        .set_primary_local_gid(slot.path.local_gid())
        .set_primary_remote_gid(slot.path.remote_gid())
        .set_primary_packet_rate(slot.rate)
        .set_primary_local_ack_timeout(ack_timeout(config.target_ack_delay, slot.packet_lifetime));
    if transport == Transport::Xrc {
        // An initiator serves nothing, so it says nothing of that.
        req.set_responder_resources(0).set_retry_count(0).set_rnr_retry_count(0).set_srq(false);
    }
    match &slot.path {
        Path::Roce(path) => req
            .set_primary_local_lid(PERMISSIVE_LID)
            .set_primary_remote_lid(PERMISSIVE_LID)
            .set_primary_flow_label(path.flow_label)
            .set_primary_traffic_class(path.traffic_class)
            .set_primary_hop_limit(path.hop_limit),
        Path::Ib(path) => req
            .set_primary_remote_lid(path.lid)
            .set_primary_flow_label(path.flow_label)
            .set_primary_traffic_class(path.traffic_class)
            .set_primary_hop_limit(path.hop_limit)
            .set_primary_sl(path.sl)
            .set_primary_subnet_local(path.hop_limit <= 1),
    };
    req.set_ip_cm(&ends.header());
    fill(req.set_consumer_data(slot.own_data(owed::REQ)));
}

fn emit_rep(slot: &ConnSlot, config: &Config, guid: u64, mad: &mut Mad) {
    let mut rep = Rep::emit(mad, slot.tid);
    rep.set_local_comm_id(slot.local_comm_id)
        .set_remote_comm_id(slot.remote_comm_id)
        .set_ece(slot.ece())
        .set_local_qpn(slot.local_qpn)
        .set_starting_psn(slot.local_psn)
        .set_responder_resources(slot.responder_resources)
        .set_initiator_depth(slot.initiator_depth)
        .set_target_ack_delay(config.target_ack_delay)
        .set_end_to_end_flow_control(slot.has(flag::FLOW_CONTROL))
        .set_rnr_retry_count(slot.retry_counts >> 3 & 7)
        .set_srq(slot.has(flag::SRQ))
        .set_local_ca_guid(guid);
    if slot.transport() == Some(Transport::Xrc) {
        rep.set_local_qpn(0).set_local_eecn(slot.local_qpn).set_srq(true);
    }
    fill(rep.set_private_data(slot.own_data(owed::REP)));
}

fn emit_sidr_req(slot: &ConnSlot, ends: &Endpoints, mad: &mut Mad) {
    let mut req = SidrReq::emit(mad, slot.tid);
    req.set_request_id(slot.local_comm_id)
        .set_partition_key(slot.pkey)
        .set_service_id(ServiceId::new(ends.space, ends.remote_port))
        .set_ip_cm(&ends.header());
    fill(req.set_consumer_data(slot.own_data(owed::REQ)));
}

fn emit_sidr_rep(slot: &ConnSlot, service: ServiceId, mad: &mut Mad) {
    let mut rep = SidrRep::emit(mad, slot.tid);
    let status = SidrStatus(slot.reason as u8);
    rep.set_request_id(slot.remote_comm_id).set_status(status).set_service_id(service);
    if status == SidrStatus::VALID {
        rep.set_qpn(slot.local_qpn).set_qkey(slot.local_psn).set_ece(slot.ece());
    }
    fill(rep.set_private_data(slot.own_data(owed::REP)));
}

/// Our application takes its time with the peer's REQ, or its REP.
fn emit_mra(slot: &ConnSlot, service_timeout: u8, mad: &mut Mad) {
    let of = if slot.is_active() { MessageKind::REP } else { MessageKind::REQ };
    Mra::emit(mad, slot.tid)
        .set_local_comm_id(slot.local_comm_id)
        .set_remote_comm_id(slot.remote_comm_id)
        .set_message_mraed(of)
        .set_service_timeout(service_timeout);
}

fn emit_rtu(slot: &ConnSlot, mad: &mut Mad) {
    let mut rtu = Rtu::emit(mad, u64::from(slot.local_comm_id));
    rtu.set_local_comm_id(slot.local_comm_id).set_remote_comm_id(slot.remote_comm_id);
    fill(rtu.set_private_data(slot.own_data(owed::RTU)));
}

fn emit_rej(slot: &ConnSlot, guid: u64, mad: &mut Mad) {
    let mut rej = Rej::emit(mad, slot.tid);
    // A REQ's sender knows us by no number yet (IBTA 12: zero).
    let known = slot.rejects() != MessageKind::REQ;
    rej.set_local_comm_id(if known { slot.local_comm_id } else { 0 })
        .set_remote_comm_id(slot.remote_comm_id)
        .set_message_rejected(slot.rejects())
        .set_reason(RejectReason(slot.reason));
    if slot.reason == RejectReason::TIMEOUT.0 {
        rej.set_additional_info(&guid.to_be_bytes());
    }
    fill(rej.set_private_data(slot.own_data(owed::REJ)));
}

fn emit_dreq(slot: &ConnSlot, mad: &mut Mad) {
    let mut dreq = Dreq::emit(mad, slot.tid);
    dreq.set_local_comm_id(slot.local_comm_id)
        .set_remote_comm_id(slot.remote_comm_id)
        .set_remote_qpn(slot.remote_qpn);
    fill(dreq.set_private_data(slot.own_data(owed::DREQ)));
}

fn emit_drep(slot: &ConnSlot, mad: &mut Mad) {
    let mut drep = Drep::emit(mad, slot.tid);
    drep.set_local_comm_id(slot.local_comm_id).set_remote_comm_id(slot.remote_comm_id);
    fill(drep.set_private_data(slot.own_data(owed::DREP)));
}

/// Lengths were checked when the data came in.
fn fill(result: Result<(), PrivateDataTooLong>) {
    debug_assert!(result.is_ok());
}
