//! Connections: what the program says of its queue pair, what the peer says of its own.

use super::{at_most, flag, ncm_path, unused};
use crate::ncm_error_code;
use crate::ncm_error_code::*;
use core::time::Duration;
use nanocm_core::conn::limits;
use nanocm_core::{
    ConnParam, Ece, Gid, Path, PeerParam, QpAttrs, QpState, RocePath, Route, Transport,
};

/// Private data of ncm_connect (REQ), in octets.
pub const NCM_MAX_CONNECT_DATA: usize = 56;
/// Private data of ncm_accept (REP).
pub const NCM_MAX_ACCEPT_DATA: usize = 196;
/// Private data of ncm_reject (REJ).
pub const NCM_MAX_REJECT_DATA: usize = 148;
/// Private data of ncm_connect for a datagram service (SIDR_REQ).
pub const NCM_MAX_SIDR_REQ_DATA: usize = 180;
/// Private data of ncm_accept and ncm_reject for a datagram service (SIDR_REP).
pub const NCM_MAX_SIDR_REP_DATA: usize = 136;
/// Private data of ncm_establish (RTU).
pub const NCM_MAX_ESTABLISH_DATA: usize = 224;
/// Private data of ncm_disconnect: of a DREQ; a DREP takes four octets more.
pub const NCM_MAX_DISCONNECT_DATA: usize = 220;

const _: () = assert!(
    NCM_MAX_CONNECT_DATA == limits::REQ
        && NCM_MAX_ACCEPT_DATA == limits::REP
        && NCM_MAX_REJECT_DATA == limits::REJ
        && NCM_MAX_SIDR_REQ_DATA == limits::SIDR_REQ
        && NCM_MAX_SIDR_REP_DATA == limits::SIDR_REP
        && NCM_MAX_ESTABLISH_DATA == limits::RTU
        && NCM_MAX_DISCONNECT_DATA == limits::DREQ
);

/// `ncm_conn_param.retries`: of a REQ as many as the time allows, of a REP `ncm_config.passive_retries`.
pub const NCM_RETRIES_DEFAULT: u8 = 255;

/// The transport of a connection's queue pair. Datagrams have no connection, but SIDR.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ncm_transport {
    /// Reliable connection.
    NCM_TRANSPORT_RC = 0,
    /// Unreliable connection.
    NCM_TRANSPORT_UC = 1,
    /// Extended reliable connection: who connects is the initiator, who accepts the target.
    NCM_TRANSPORT_XRC = 2,
}

fn transport(value: u8) -> Result<Transport, ncm_error_code> {
    match value {
        0 => Ok(Transport::Rc),
        1 => Ok(Transport::Uc),
        2 => Ok(Transport::Xrc),
        _ => Err(NCM_INVALID_VALUE),
    }
}

fn transport_number(transport: Transport) -> u8 {
    match transport {
        Transport::Rc => ncm_transport::NCM_TRANSPORT_RC as u8,
        Transport::Uc => ncm_transport::NCM_TRANSPORT_UC as u8,
        Transport::Xrc => ncm_transport::NCM_TRANSPORT_XRC as u8,
    }
}

/// What ncm_connect and ncm_accept are told (struct rdma_conn_param). Start from
/// ncm_conn_param_init.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_conn_param {
    /// sizeof(ncm_conn_param).
    pub size: u32,
    /// Our queue pair number, 24 bits. No live connection may use it. Who asks for a datagram service
    /// needs none.
    pub qpn: u32,
    /// A hard end for this attempt, in nanoseconds, which no MRA extends. Default 0: the engine's
    /// `deadline`, which one does.
    pub timeout: u64,
    /// Retransmissions after the first REQ or REP, at most 254. Without an answer to the last of a REQ
    /// the attempt ends; after that of a REP there is silence until the time is up, unless the peer
    /// repeats its REQ. Default NCM_RETRIES_DEFAULT.
    pub retries: u8,
    /// RDMA reads and atomics we can serve. Default 1.
    pub responder_resources: u8,
    /// RDMA reads and atomics we want outstanding. Default 1.
    pub initiator_depth: u8,
    /// How often the peer shall retry, at most 7. Default 7.
    pub retry_count: u8,
    /// How often to retry when the receiver is not ready, at most 7 (for ever). Default 7.
    pub rnr_retry_count: u8,
    /// 1: we do end-to-end flow control. Default 0.
    pub flow_control: u8,
    /// 1: the queue pair uses a shared receive queue. Default 0.
    pub srq: u8,
    /// Of a connection: the queue pair's transport (ncm_transport). Who accepts has that of the
    /// request. Default NCM_TRANSPORT_RC.
    pub transport: u8,
    /// Of a datagram service: the Q_Key that its queue pair expects. Default 0x01234567, as
    /// RDMA_PS_UDP.
    pub qkey: u32,
    /// Enhanced connection establishment: our queue pair's vendor, 24 bits. Default 0: none.
    pub ece_vendor_id: u32,
    /// The vendor's options. Default 0.
    pub ece_options: u32,
    /// Zero.
    pub reserved: u32,
    /// For the peer's application. It receives the whole field of the message, filled up with zeros:
    /// a length, if it matters, is part of the data. Default NULL.
    pub private_data: *const u8,
    /// How many octets: at most NCM_MAX_CONNECT_DATA or NCM_MAX_ACCEPT_DATA, for datagram services
    /// NCM_MAX_SIDR_REQ_DATA or NCM_MAX_SIDR_REP_DATA. Default 0.
    pub private_data_len: usize,
}

impl ncm_conn_param {
    /// With the private data it points to.
    pub(crate) fn to_rust(self, private_data: &[u8]) -> Result<ConnParam<'_>, ncm_error_code> {
        unused(&self.reserved.to_ne_bytes())?;
        let mut param = ConnParam::new(self.qpn);
        param.private_data = private_data;
        param.transport = transport(self.transport)?;
        param.qkey = self.qkey;
        param.ece = Ece { vendor_id: self.ece_vendor_id, options: self.ece_options };
        param.responder_resources = self.responder_resources;
        param.initiator_depth = self.initiator_depth;
        param.retry_count = at_most(self.retry_count, 7)?;
        param.rnr_retry_count = at_most(self.rnr_retry_count, 7)?;
        param.flow_control = flag(self.flow_control.into())?;
        param.srq = flag(self.srq.into())?;
        param.timeout = (self.timeout != 0).then(|| Duration::from_nanos(self.timeout));
        param.retries = (self.retries != NCM_RETRIES_DEFAULT).then_some(self.retries);
        Ok(param)
    }

    pub(crate) fn new(qpn: u32) -> ncm_conn_param {
        let param = ConnParam::new(qpn);
        ncm_conn_param {
            size: size_of::<ncm_conn_param>() as u32,
            qpn,
            timeout: 0,
            retries: NCM_RETRIES_DEFAULT,
            responder_resources: param.responder_resources,
            initiator_depth: param.initiator_depth,
            retry_count: param.retry_count,
            rnr_retry_count: param.rnr_retry_count,
            flow_control: param.flow_control.into(),
            srq: param.srq.into(),
            transport: transport_number(param.transport),
            qkey: param.qkey,
            ece_vendor_id: param.ece.vendor_id,
            ece_options: param.ece.options,
            reserved: 0,
            private_data: core::ptr::null(),
            private_data_len: 0,
        }
    }
}

/// What the peer's REQ or REP offers, turned round to our point of view: its initiator depth is our
/// responder resources. Of a SIDR_REP the queue pair number, Q_Key and ECE count; a SIDR_REQ says
/// nothing of its sender's queue pair.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_peer_param {
    /// sizeof(ncm_peer_param).
    pub size: u32,
    /// The peer's queue pair number; 0 until it is known.
    pub qpn: u32,
    /// The first PSN the peer will send.
    pub starting_psn: u32,
    /// RDMA reads and atomics the peer wants outstanding towards us.
    pub responder_resources: u8,
    /// RDMA reads and atomics the peer can serve.
    pub initiator_depth: u8,
    /// Retries the peer asks us to make (REQ only).
    pub retry_count: u8,
    /// Receiver-not-ready retries; 7: for ever.
    pub rnr_retry_count: u8,
    /// 1 if the peer does end-to-end flow control.
    pub flow_control: u8,
    /// 1 if the peer uses a shared receive queue.
    pub srq: u8,
    /// The transport asked for (ncm_transport).
    pub transport: u8,
    /// Zero.
    pub reserved: [u8; 13],
    /// Of a datagram service: the Q_Key that its queue pair expects.
    pub qkey: u32,
    /// What the peer's vendor says (ECE): which it is; 0 for none.
    pub ece_vendor_id: u32,
    /// The vendor's options.
    pub ece_options: u32,
}

impl From<PeerParam> for ncm_peer_param {
    fn from(peer: PeerParam) -> ncm_peer_param {
        ncm_peer_param {
            size: size_of::<ncm_peer_param>() as u32,
            qpn: peer.qpn,
            starting_psn: peer.starting_psn,
            responder_resources: peer.responder_resources,
            initiator_depth: peer.initiator_depth,
            retry_count: peer.retry_count,
            rnr_retry_count: peer.rnr_retry_count,
            flow_control: peer.flow_control.into(),
            srq: peer.srq.into(),
            transport: transport_number(peer.transport),
            reserved: [0; 13],
            qkey: peer.qkey,
            ece_vendor_id: peer.ece.vendor_id,
            ece_options: peer.ece.options,
        }
    }
}

/// A resolved path: everything a REQ says about it (struct ibv_sa_path_rec, as far as needed). Start
/// from ncm_route_init.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_route {
    /// sizeof(ncm_route).
    pub size: u32,
    /// P_Key. Default 0xFFFF.
    pub pkey: u16,
    /// Path MTU code: 1 for 256 to 5 for 4096 octets. Default 3.
    pub mtu: u8,
    /// Packet rate code, at most 63; 0 for the port's. Default 0.
    pub rate: u8,
    /// Packet lifetime code (4.096 us times 2^n), at most 31. Default 16, as Linux on RoCE.
    pub packet_lifetime: u8,
    /// Zero.
    pub reserved: [u8; 7],
    /// How datagrams travel.
    pub path: ncm_path,
}

impl ncm_route {
    pub(crate) fn to_rust(self) -> Result<Route, ncm_error_code> {
        unused(&self.reserved)?;
        let mut route = Route::new(self.path.to_rust()?);
        route.pkey = self.pkey;
        route.mtu = at_most(self.mtu, 5)?;
        route.rate = at_most(self.rate, 63)?;
        route.packet_lifetime = at_most(self.packet_lifetime, 31)?;
        if route.mtu == 0 { Err(NCM_INVALID_VALUE) } else { Ok(route) }
    }

    /// The route with Linux's defaults for RoCE. The path is looked at when the route is used.
    pub(crate) fn new(path: ncm_path) -> ncm_route {
        let nowhere = Path::Roce(RocePath::new(Gid::ZERO, Gid::ZERO));
        let route = Route::new(nowhere);
        ncm_route {
            size: size_of::<ncm_route>() as u32,
            pkey: route.pkey,
            mtu: route.mtu,
            rate: route.rate,
            packet_lifetime: route.packet_lifetime,
            reserved: [0; 7],
            path,
        }
    }
}

/// The states a queue pair is to be moved to, with the numbers of enum ibv_qp_state.
#[repr(C)]
pub enum ncm_qp_state {
    /// Initialised: receives may be posted.
    NCM_QP_INIT = 1,
    /// Ready to receive.
    NCM_QP_RTR = 2,
    /// Ready to send.
    NCM_QP_RTS = 3,
}

pub(crate) fn qp_state(value: u32) -> Result<QpState, ncm_error_code> {
    match value {
        1 => Ok(QpState::Init),
        2 => Ok(QpState::ReadyToReceive),
        3 => Ok(QpState::ReadyToSend),
        _ => Err(NCM_INVALID_VALUE),
    }
}

/// What the verbs need to move a queue pair (struct ibv_qp_attr).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_qp_attrs {
    /// sizeof(ncm_qp_attrs).
    pub size: u32,
    /// The state asked for (ncm_qp_state).
    pub state: u32,
    /// The peer's queue pair number.
    pub dest_qpn: u32,
    /// The first PSN to expect.
    pub rq_psn: u32,
    /// The first PSN to send.
    pub sq_psn: u32,
    /// P_Key of the path.
    pub pkey: u16,
    /// 1 if the peer may read from and do atomics on our memory.
    pub remote_read: u8,
    /// Path MTU code: 1 for 256 to 5 for 4096 octets.
    pub path_mtu: u8,
    /// Static rate code of the path; 0 for the port's.
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
    /// Zero.
    pub reserved: [u8; 2],
    /// The Q_Key of a datagram queue pair; 0 for a connection's.
    pub qkey: u32,
    /// The path: address handle attributes.
    pub path: ncm_path,
}

impl ncm_qp_attrs {
    pub(crate) fn new(state: u32, attrs: QpAttrs) -> ncm_qp_attrs {
        ncm_qp_attrs {
            size: size_of::<ncm_qp_attrs>() as u32,
            state,
            dest_qpn: attrs.dest_qpn,
            rq_psn: attrs.rq_psn,
            sq_psn: attrs.sq_psn,
            pkey: attrs.pkey,
            remote_read: attrs.remote_read.into(),
            path_mtu: attrs.path_mtu,
            rate: attrs.rate,
            max_dest_rd_atomic: attrs.max_dest_rd_atomic,
            max_rd_atomic: attrs.max_rd_atomic,
            timeout: attrs.timeout,
            retry_count: attrs.retry_count,
            rnr_retry: attrs.rnr_retry,
            reserved: [0; 2],
            qkey: attrs.qkey,
            path: attrs.path.into(),
        }
    }
}
