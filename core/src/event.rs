//! What the application is told: small `Copy` values. Private data stay in the ID's slot and are
//! read with `Cm::private_data` until the next call that concerns the ID.

use crate::conn::Transport;
use crate::handle::Id;
use crate::wire::{Ece, RejectReason, SidrStatus};
use core::fmt;

/// Something happened to an ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The ID it happened to. For [`EventKind::ConnectRequest`] it is new, and the receiver's to
    /// answer and destroy.
    pub id: Id,
    /// The ID's cookie (`create_id`); a new ID has its listener's.
    pub user: u64,
    /// What happened.
    pub kind: EventKind,
}

/// The events of librdmacm (`enum rdma_cm_event_type`), with what each carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum EventKind {
    /// The destination's path is known, the source is bound.
    AddrResolved,
    /// It could not be found; the ID is as before `resolve_addr`. Errno.
    AddrError(i32),
    /// The route is known: `connect` is legal.
    RouteResolved,
    /// It could not be found; the ID is back in ADDR_RESOLVED. Errno.
    RouteError(i32),
    /// A peer asks to connect, or for a datagram service. Private data: 56 octets, or 180.
    ConnectRequest {
        /// Whom it asked.
        listener: Id,
        /// What it offers, from our point of view.
        peer: PeerParam,
    },
    /// The peer accepted: make the queue pair ready, then `establish`. Private data: 196 octets.
    ConnectResponse {
        /// What it offers, from our point of view.
        peer: PeerParam,
    },
    /// The connection stands. Or the datagram service has answered: `Cm::peer_param` has its queue
    /// pair and Q_Key, `Cm::path` the way. Private data then: 136 octets.
    Established,
    /// The peer, or its connection manager, refused. Private data: 148 octets, and
    /// `Cm::additional_info`. Ends the attempt.
    Rejected(RejectReason),
    /// The datagram service, or its connection manager, refused. Private data: 136 octets, and
    /// `Cm::additional_info`. Ends the attempt. A REJECTED too.
    SidrRejected(SidrStatus),
    /// The peer did not answer. Ends the attempt.
    Unreachable(Unreachable),
    /// This side could not go on: ETIMEDOUT, the application did not answer a request in time, which
    /// has been rejected. Errno. Ends the attempt.
    ConnectError(i32),
    /// The connection is over.
    Disconnected(DisconnectCause),
    /// The link layer beneath the connection's own or its peer's address has changed. The connection
    /// goes on; address handles want to be made anew.
    AddrChange,
    /// The device is gone, and with it all that the ID had there; only `destroy` is left to do. Ends
    /// an attempt; a connection that stood has been told [`Disconnected`](Self::Disconnected) before.
    DeviceRemoval,
    /// The queue pair number may be used again.
    TimewaitExit,
}

impl EventKind {
    /// The field's name for the event.
    pub const fn name(&self) -> &'static str {
        match self {
            EventKind::AddrResolved => "ADDR_RESOLVED",
            EventKind::AddrError(_) => "ADDR_ERROR",
            EventKind::RouteResolved => "ROUTE_RESOLVED",
            EventKind::RouteError(_) => "ROUTE_ERROR",
            EventKind::ConnectRequest { .. } => "CONNECT_REQUEST",
            EventKind::ConnectResponse { .. } => "CONNECT_RESPONSE",
            EventKind::Established => "ESTABLISHED",
            EventKind::Rejected(_) | EventKind::SidrRejected(_) => "REJECTED",
            EventKind::Unreachable(_) => "UNREACHABLE",
            EventKind::ConnectError(_) => "CONNECT_ERROR",
            EventKind::Disconnected(_) => "DISCONNECTED",
            EventKind::AddrChange => "ADDR_CHANGE",
            EventKind::DeviceRemoval => "DEVICE_REMOVAL",
            EventKind::TimewaitExit => "TIMEWAIT_EXIT",
        }
    }
}

/// Why a peer counts as unreachable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Unreachable {
    /// No answer within the deadline or the retransmissions allowed.
    Timeout,
    /// The transport could not send (errno).
    SendFailed(i32),
}

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
#[repr(u8)]
pub enum DisconnectCause {
    /// We asked, the peer agreed.
    #[default]
    Local,
    /// The peer asked, or tore it down.
    Peer,
    /// We asked and the peer did not answer.
    Timeout,
    /// The device went away.
    Removed,
}

impl DisconnectCause {
    /// The word the command line prints.
    pub const fn name(self) -> &'static str {
        match self {
            DisconnectCause::Local => "local",
            DisconnectCause::Peer => "peer",
            DisconnectCause::Timeout => "timeout",
            DisconnectCause::Removed => "removed",
        }
    }
}

impl fmt::Display for DisconnectCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the peer's REQ or REP offers, turned round to our point of view (`struct rdma_conn_param`
/// as events carry it): its initiator depth is our responder resources. Of a SIDR_REP the queue pair
/// number, Q_Key and ECE count; a SIDR_REQ says nothing of its sender's queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct PeerParam {
    /// The peer's queue pair number, 24 bits.
    pub qpn: u32,
    /// Of a datagram service: the Q_Key that its queue pair expects.
    pub qkey: u32,
    /// The transport asked for.
    pub transport: Transport,
    /// What the peer's vendor says.
    pub ece: Ece,
    /// The first PSN the peer will send, 24 bits.
    pub starting_psn: u32,
    /// RDMA reads and atomics the peer wants outstanding towards us.
    pub responder_resources: u8,
    /// RDMA reads and atomics the peer can serve.
    pub initiator_depth: u8,
    /// Retries the peer asks us to make (REQ only).
    pub retry_count: u8,
    /// Receiver-not-ready retries; 7 = for ever.
    pub rnr_retry_count: u8,
    /// Whether the peer does end-to-end flow control.
    pub flow_control: bool,
    /// Whether the peer uses a shared receive queue.
    pub srq: bool,
}
