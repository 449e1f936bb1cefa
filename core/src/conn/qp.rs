//! What the application says about its queue pair, and what the engine says back: the attributes
//! that the verbs need for each step.

use super::Conns;
use super::slot::{ConnSlot, flag};
use super::state::Stage;
use crate::addr::Path;
use crate::wire::Ece;
use core::time::Duration;

/// What `connect` and `accept` are told (`struct rdma_conn_param`). Start from
/// [`ConnParam::new`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnParam<'a> {
    /// Our queue pair number, 24 bits. No live connection may use it. Who asks for a datagram service
    /// needs none.
    pub qpn: u32,
    /// For the peer's application: up to 56 octets in a REQ, 196 in a REP, 180 in a SIDR_REQ, 136 in
    /// a SIDR_REP.
    pub private_data: &'a [u8],
    /// Of a connection: the queue pair's transport. Who accepts has that of the request.
    pub transport: Transport,
    /// Of a datagram service: the Q_Key that its queue pair expects.
    pub qkey: u32,
    /// What our queue pair's vendor says.
    pub ece: Ece,
    /// RDMA reads and atomics we can serve.
    pub responder_resources: u8,
    /// RDMA reads and atomics we want outstanding.
    pub initiator_depth: u8,
    /// How often the peer shall retry (3 bits).
    pub retry_count: u8,
    /// How often to retry when the receiver is not ready (3 bits; 7 = for ever).
    pub rnr_retry_count: u8,
    /// Whether we do end-to-end flow control.
    pub flow_control: bool,
    /// Whether the queue pair uses a shared receive queue.
    pub srq: bool,
    /// A hard end for this attempt, which no MRA extends. Default: the engine's
    /// [`Timers::deadline`](crate::Timers::deadline), which one does.
    pub timeout: Option<Duration>,
    /// Retransmissions after the first REQ or REP, 254 at most. Without an answer to the last of a REQ
    /// the attempt ends; after that of a REP there is silence until the time is up, unless the peer
    /// repeats its REQ. Default: of a REQ as many as the time allows, of a REP
    /// [`Config::passive_retries`](crate::Config::passive_retries).
    pub retries: Option<u8>,
}

impl<'a> ConnParam<'a> {
    /// librdmacm's defaults: one outstanding read each way, 7 retries.
    pub const fn new(qpn: u32) -> ConnParam<'a> {
        ConnParam {
            qpn,
            private_data: &[],
            transport: Transport::Rc,
            qkey: UDP_QKEY,
            ece: Ece::NONE,
            responder_resources: 1,
            initiator_depth: 1,
            retry_count: 7,
            rnr_retry_count: 7,
            flow_control: false,
            srq: false,
            timeout: None,
            retries: None,
        }
    }
}

/// The transport of a connection's queue pair. Datagrams (UD) have no connection, but SIDR.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Transport {
    /// Reliable connection.
    #[default]
    Rc,
    /// Unreliable connection.
    Uc,
    /// Extended reliable connection (Annex A14): who connects is the initiator, who accepts the target.
    Xrc,
}

impl Transport {
    /// As a REQ says it: transport service type and extended transport type (IBTA 12, table 106).
    pub(super) const fn codes(self) -> (u8, u8) {
        match self {
            Transport::Rc => (0, 0),
            Transport::Uc => (1, 0),
            Transport::Xrc => (3, 1),
        }
    }

    /// What these codes stand for, if a queue pair can have it.
    pub(crate) const fn from_codes(service_type: u8, extended: u8) -> Option<Transport> {
        match (service_type, extended) {
            (0, _) => Some(Transport::Rc),
            (1, _) => Some(Transport::Uc),
            (3, 1) => Some(Transport::Xrc),
            _ => None,
        }
    }
}

/// The Q_Key of `RDMA_PS_UDP`, unless both sides agree on another.
pub const UDP_QKEY: u32 = 0x0123_4567;

/// The state a queue pair is to be moved to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QpState {
    /// Initialised: receives may be posted.
    Init,
    /// Ready to receive.
    ReadyToReceive,
    /// Ready to send.
    ReadyToSend,
}

/// What the verbs need to move a queue pair (`struct ibv_qp_attr`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct QpAttrs {
    /// The state asked for.
    pub state: QpState,
    /// P_Key of the path.
    pub pkey: u16,
    /// Whether the peer may read from and do atomics on our memory.
    pub remote_read: bool,
    /// The peer's queue pair number.
    pub dest_qpn: u32,
    /// The first PSN to expect.
    pub rq_psn: u32,
    /// The first PSN to send.
    pub sq_psn: u32,
    /// The Q_Key of a datagram queue pair; 0 for a connection's.
    pub qkey: u32,
    /// Path MTU code: 1 = 256 … 5 = 4096 octets.
    pub path_mtu: u8,
    /// Static rate code of the path; 0 = the port's.
    pub rate: u8,
    /// Reads and atomics to serve.
    pub max_dest_rd_atomic: u8,
    /// Reads and atomics outstanding.
    pub max_rd_atomic: u8,
    /// Local ACK timeout code.
    pub timeout: u8,
    /// Retries.
    pub retry_count: u8,
    /// Receiver-not-ready retries.
    pub rnr_retry: u8,
    /// The path: address handle attributes.
    pub path: Path,
}

impl Conns<'_> {
    /// Checks what can be checked before anything is changed.
    pub(super) fn check_param(
        &self,
        param: &ConnParam<'_>,
        limit: usize,
    ) -> Result<(), super::ConnectError> {
        super::check_private_data(param.private_data, limit)?;
        check_numbers(param)?;
        if self.is_own_qpn_in_use(param.qpn) {
            return Err(super::ConnectError::QpnInUse);
        }
        Ok(())
    }

    /// Writes our side of the connection's parameters, which goes out in this message.
    pub(super) fn apply_param(&mut self, index: usize, message: u8, param: &ConnParam<'_>) {
        let slot = self.slot_mut(index);
        slot.local_qpn = param.qpn;
        slot.responder_resources = param.responder_resources;
        slot.initiator_depth = param.initiator_depth;
        slot.retry_counts = retry_counts(param.retry_count, param.rnr_retry_count);
        slot.set_ece(param.ece);
        slot.set(flag::SRQ, param.srq);
        slot.set(flag::FLOW_CONTROL, param.flow_control);
        slot.put_own_data(message, param.private_data);
    }

    /// The attributes for a queue pair's move, if the connection knows them by now.
    pub(crate) fn qp_attrs(
        &self,
        index: usize,
        state: QpState,
        has_route: bool,
    ) -> Option<QpAttrs> {
        let slot = self.slot(index);
        let known = match slot.stage {
            // Receives are posted before the REQ goes out.
            Stage::Idle => state == QpState::Init && has_route,
            Stage::ReqSent(_) => state == QpState::Init,
            Stage::ReqRcvd | Stage::RepRcvd(_) | Stage::RepSent(_) | Stage::Established => true,
            // A datagram queue pair needs to know nothing of its peers.
            _ => slot.is_datagram(),
        };
        let (served, outstanding) = slot.reads();
        let (sq_psn, rq_psn, qkey) = match slot.is_datagram() {
            true => (0, 0, slot.local_psn),
            false => (slot.local_psn, slot.remote_psn, 0),
        };
        known.then(|| QpAttrs {
            state,
            pkey: slot.pkey,
            remote_read: served > 0,
            dest_qpn: slot.remote_qpn,
            rq_psn,
            sq_psn,
            qkey,
            path_mtu: slot.mtu,
            rate: slot.rate,
            max_dest_rd_atomic: served,
            max_rd_atomic: outstanding,
            timeout: slot.local_ack_timeout(),
            retry_count: slot.peer_retry_counts & 7,
            rnr_retry: slot.peer_retry_counts >> 3 & 7,
            path: slot.path,
        })
    }
}

impl ConnSlot {
    /// Reads and atomics to serve, and to have outstanding: ours, but no more than the peer serves. A
    /// request that is not answered yet has what the peer asks for.
    fn reads(&self) -> (u8, u8) {
        match self.stage {
            Stage::ReqSent(_) => (self.responder_resources, self.initiator_depth),
            Stage::ReqRcvd => (self.peer_initiator_depth, self.peer_responder_resources),
            _ => {
                let most = self.peer_responder_resources;
                (self.responder_resources, self.initiator_depth.min(most))
            }
        }
    }

    /// How long our queue pair waits for an acknowledgement (code). A REQ says it to the passive
    /// side; the active side adds the delay that the REP names.
    fn local_ack_timeout(&self) -> u8 {
        if self.is_active() {
            ack_timeout(self.peer_ack_delay, self.packet_lifetime)
        } else {
            self.round_trip()
        }
    }

    /// Twice the packet lifetime (code).
    pub(super) fn round_trip(&self) -> u8 {
        (self.packet_lifetime + 1).min(31)
    }
}

/// Numbers of 24 bits have no more.
pub(super) fn check_numbers(param: &ConnParam<'_>) -> Result<(), super::ConnectError> {
    if param.qpn > 0xff_ffff || param.ece.vendor_id > 0xff_ffff {
        return Err(super::ConnectError::NumberTooLarge);
    }
    Ok(())
}

/// Two three-bit counts in one octet, with two bits left: see [`repeats`].
pub(super) fn retry_counts(retry: u8, rnr: u8) -> u8 {
    retry.min(7) | rnr.min(7) << 3
}

/// In the bits that `retry_counts` leaves: how often a REP may be repeated, 3 standing for more too.
pub(super) fn repeats(max_cm_retries: u8) -> u8 {
    max_cm_retries.min(3) << 6
}

/// How often it is repeated, if `wanted` is what we would do: no more often than the peer's REQ lets us.
pub(super) fn repeats_of(peer_retry_counts: u8, wanted: u8) -> u8 {
    match peer_retry_counts >> 6 {
        3 => wanted,
        few => few.min(wanted),
    }
}

/// The local ACK timeout code of a path: its round trip and the channel adapter's delay, both powers
/// of two, added (facts: linux-rdma-cm §3.2).
pub(super) fn ack_timeout(ack_delay: u8, packet_lifetime: u8) -> u8 {
    let round_trip = (packet_lifetime & 31) + 1;
    let (large, small) =
        if round_trip >= ack_delay { (round_trip, ack_delay) } else { (ack_delay, round_trip) };
    (large + u8::from(small + 1 >= large)).min(31)
}

#[cfg(test)]
mod tests {
    use super::ack_timeout;

    #[test]
    fn the_ack_timeout_adds_two_powers_of_two() {
        for (delay, lifetime, code) in [
            (0, 16, 17),
            (0, 18, 19),
            (0, 31, 31),
            (15, 18, 19),
            (15, 16, 17),
            (17, 16, 18),
            (20, 16, 20),
        ] {
            assert_eq!(ack_timeout(delay, lifetime), code, "delay {delay}, lifetime {lifetime}");
        }
    }
}
