//! Between the engine and its host: datagrams, questions and answers, changes of the ports.

use super::{errno, ncm_addr, ncm_id, ncm_path, ncm_route};
use crate::border::Struct;
use crate::ncm_error_code;
use crate::ncm_error_code::*;
use core::net::SocketAddr;
use nanocm_core::{Outcome, PortEvent, Request, RequestId};

/// A datagram to be sent.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_transmit {
    /// sizeof(ncm_transmit).
    pub size: u32,
    /// Zero.
    pub reserved: u32,
    /// Its name, for ncm_handle_send_failed.
    pub token: u64,
    /// Which way.
    pub path: ncm_path,
}

/// What is known of the IP packet around a frame that came in, and of its ICRC, which covers both.
#[repr(C)]
pub enum ncm_seen {
    /// It came through a UDP socket, which does not show the IP header: the IPv4 identification is
    /// solved for, which lets one damaged frame in 65,536 pass. IPv6 is checked fully.
    NCM_SEEN_UDP = 0,
    /// `ip_id` and `ip_flags` are those of the packet.
    NCM_SEEN_IP = 1,
    /// The ICRC has been verified (by hardware, say): it is not checked again.
    NCM_SEEN_VERIFIED = 2,
}

/// How a frame (the UDP payload of a RoCEv2 packet) travels.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_frame {
    /// sizeof(ncm_frame).
    pub size: u32,
    /// Incoming: what is known of the packet (ncm_seen). Outgoing: NCM_SEEN_IP.
    pub seen: u32,
    /// Outgoing: its name, for ncm_handle_send_failed. Incoming: not looked at.
    pub token: u64,
    /// The UDP source port. The destination port is 4791.
    pub udp_source_port: u16,
    /// IPv4 identification. Outgoing: 0, and the ICRC is right for no other.
    pub ip_id: u16,
    /// IPv4 flags and fragment offset. Outgoing: 0x4000, don't fragment.
    pub ip_flags: u16,
    /// Zero.
    pub reserved: u16,
    /// Which way, over RoCE.
    pub path: ncm_path,
}

/// Questions to the host, and its answers: `kind` of ncm_request and ncm_completion.
#[repr(C)]
pub enum ncm_request_kind {
    /// It could not be done (an answer only): `error`.
    NCM_FAILED = 0,
    /// Find the path to `destination`: which local address, which link.
    NCM_RESOLVE_ADDR = 1,
    /// Find what the path carries: P_Key, MTU, rate, lifetime.
    NCM_RESOLVE_ROUTE = 2,
}

/// A question to the host. Answer it with ncm_handle_completion, now or later.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_request {
    /// sizeof(ncm_request).
    pub size: u32,
    /// What is asked (ncm_request_kind).
    pub kind: u32,
    /// The identifier that asks.
    pub id: ncm_id,
    /// Which of its questions this is: goes into the answer.
    pub sequence: u32,
    /// Zero.
    pub reserved: u32,
    /// RESOLVE_ADDR: the source asked for; its family is NCM_FAMILY_NONE if there is none. The port
    /// does not matter.
    pub source: ncm_addr,
    /// RESOLVE_ADDR: where to.
    pub destination: ncm_addr,
    /// RESOLVE_ROUTE: the path found before.
    pub path: ncm_path,
}

impl ncm_request {
    pub(crate) fn new(request: RequestId, question: Request) -> ncm_request {
        use ncm_request_kind::*;
        let (id, sequence) = request.to_parts();
        let mut asks = ncm_request {
            size: size_of::<ncm_request>() as u32,
            kind: NCM_FAILED as u32,
            id: id.to_raw(),
            sequence: sequence.into(),
            reserved: 0,
            source: ncm_addr::default(),
            destination: ncm_addr::default(),
            path: ncm_path::default(),
        };
        match question {
            Request::ResolveAddr { source, destination } => {
                asks.kind = NCM_RESOLVE_ADDR as u32;
                let source: Option<SocketAddr> = source.map(|source| source.with_port(0));
                asks.source = source.map_or(ncm_addr::default(), ncm_addr::from);
                asks.destination = destination.into();
            }
            Request::ResolveRoute { path } => {
                asks.kind = NCM_RESOLVE_ROUTE as u32;
                asks.path = path.into();
            }
            // One that this interface cannot put: the host's answer is NCM_FAILED.
            _ => {}
        }
        asks
    }
}

/// The host's answer to an ncm_request. Start from ncm_completion_init, which makes the answer that
/// suffices on RoCE; only where the question names no source the host must find the path.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_completion {
    /// sizeof(ncm_completion).
    pub size: u32,
    /// What was done: the question's `kind`, or NCM_FAILED.
    pub kind: u32,
    /// The question's `id`.
    pub id: ncm_id,
    /// The question's `sequence`.
    pub sequence: u32,
    /// NCM_FAILED: why, as an errno from 1 to 32,767.
    pub error: u32,
    /// RESOLVE_ADDR: its path; the local GID must be one the engine knows. RESOLVE_ROUTE: all of it.
    pub route: ncm_route,
}

impl ncm_completion {
    /// The answer to a question, as far as it is in the question.
    pub(crate) fn new(request: &ncm_request) -> ncm_completion {
        let ncm_request { kind, id, sequence, source, destination, path, .. } = *request;
        let mut path = path;
        if kind == ncm_request_kind::NCM_RESOLVE_ADDR as u32 {
            path = crate::ncm_roce_path(source, destination);
        }
        let route = ncm_route::new(path);
        ncm_completion {
            size: size_of::<ncm_completion>() as u32,
            kind,
            id,
            sequence,
            error: 0,
            route,
        }
    }

    pub(crate) fn to_rust(self) -> Result<(RequestId, Outcome), ncm_error_code> {
        const FAILED: u32 = ncm_request_kind::NCM_FAILED as u32;
        const RESOLVE_ADDR: u32 = ncm_request_kind::NCM_RESOLVE_ADDR as u32;
        const RESOLVE_ROUTE: u32 = ncm_request_kind::NCM_RESOLVE_ROUTE as u32;
        let sizes = <ncm_route as Struct>::FIRST_SIZE..=size_of::<ncm_route>();
        if self.kind != FAILED && !sizes.contains(&(self.route.size as usize)) {
            return Err(NCM_BAD_SIZE);
        }
        let outcome = match self.kind {
            FAILED => Outcome::Failed(errno(self.error)?),
            RESOLVE_ADDR => Outcome::AddrResolved { path: self.route.to_rust()?.path },
            RESOLVE_ROUTE => Outcome::RouteResolved { route: self.route.to_rust()? },
            _ => return Err(NCM_INVALID_VALUE),
        };
        let sequence = u8::try_from(self.sequence).map_err(|_| NCM_STALE_REQUEST)?;
        Ok((RequestId::from_parts(nanocm_core::Id::from_raw(self.id), sequence), outcome))
    }
}

/// What can happen to the local ports: `kind` of ncm_port_event.
#[repr(C)]
pub enum ncm_port_event_kind {
    /// A local address (GID) can be used. Known ones are updated.
    NCM_GID_ADDED = 1,
    /// A local address is gone. Connections over it are left to their timers.
    NCM_GID_REMOVED = 2,
    /// A device is gone, and with it all its addresses, those too that were removed one by one
    /// before. Identifiers bound to one of them and those whose connection runs over it are told
    /// DEVICE_REMOVAL; those whose connection stands, DISCONNECTED before. The addresses can be added
    /// again, for another device, when all have been told.
    NCM_DEVICE_REMOVED = 3,
    /// The link layer beneath an IP address has changed: a neighbour's or, after a fail-over, our own.
    /// Identifiers whose connection stands and has this address, on either side, are told ADDR_CHANGE.
    NCM_ADDR_CHANGED = 4,
}

/// Something happened to a local port.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_port_event {
    /// sizeof(ncm_port_event).
    pub size: u32,
    /// What happened (ncm_port_event_kind).
    pub kind: u32,
    /// DEVICE_REMOVED: the CA GUID its addresses were added with: a device is its CA GUID. GID_ADDED:
    /// the CA GUID to speak with from there. Peers tell connections of one queue pair
    /// number apart by it: it must be stable over restarts, and differ between programs that run at
    /// the same time.
    pub ca_guid: u64,
    /// The address; of ADDR_CHANGED ours or a peer's; of DEVICE_REMOVED not looked at. Its port does
    /// not matter.
    pub address: ncm_addr,
}

impl ncm_port_event {
    pub(crate) fn to_rust(self) -> Result<PortEvent, ncm_error_code> {
        const GID_ADDED: u32 = ncm_port_event_kind::NCM_GID_ADDED as u32;
        const GID_REMOVED: u32 = ncm_port_event_kind::NCM_GID_REMOVED as u32;
        const DEVICE_REMOVED: u32 = ncm_port_event_kind::NCM_DEVICE_REMOVED as u32;
        const ADDR_CHANGED: u32 = ncm_port_event_kind::NCM_ADDR_CHANGED as u32;
        let address = self.address.to_scoped_ip();
        match self.kind {
            GID_ADDED => Ok(PortEvent::GidAdded { address: address?, ca_guid: self.ca_guid }),
            DEVICE_REMOVED => Ok(PortEvent::DeviceRemoved { ca_guid: self.ca_guid }),
            ADDR_CHANGED => Ok(PortEvent::AddrChanged { address: address? }),
            GID_REMOVED => Ok(PortEvent::GidRemoved { address: address? }),
            _ => Err(NCM_INVALID_VALUE),
        }
    }
}
