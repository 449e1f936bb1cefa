//! Events.

use super::{ncm_id, ncm_peer_param};
use nanocm_core::{DisconnectCause, Event, EventKind, PeerParam, Unreachable};

/// What happened (enum rdma_cm_event_type, with its numbers).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ncm_event_kind {
    /// The destination's path is known, the source is bound.
    NCM_EVENT_ADDR_RESOLVED = 0,
    /// It could not be found; the identifier is as before ncm_resolve_addr.
    NCM_EVENT_ADDR_ERROR = 1,
    /// The route is known: ncm_connect is legal.
    NCM_EVENT_ROUTE_RESOLVED = 2,
    /// It could not be found; the identifier's address is still resolved.
    NCM_EVENT_ROUTE_ERROR = 3,
    /// A peer asks to connect, or for a datagram service. The identifier is new, and the receiver's to
    /// answer and destroy. Private data: 56 octets, or 180.
    NCM_EVENT_CONNECT_REQUEST = 4,
    /// The peer accepted: make the queue pair ready, then ncm_establish. Private data: 196 octets.
    NCM_EVENT_CONNECT_RESPONSE = 5,
    /// This side could not go on: the application did not answer a request in time (ETIMEDOUT). Ends
    /// the attempt.
    NCM_EVENT_CONNECT_ERROR = 6,
    /// The peer did not answer. Ends the attempt.
    NCM_EVENT_UNREACHABLE = 7,
    /// The peer, or its connection manager, refused. Private data: 148 octets, of a datagram service
    /// 136. Ends the attempt.
    NCM_EVENT_REJECTED = 8,
    /// The connection stands. Or the datagram service has answered: `peer` has its queue pair and
    /// Q_Key, ncm_get_path the way. Private data then: 136 octets.
    NCM_EVENT_ESTABLISHED = 9,
    /// The connection is over.
    NCM_EVENT_DISCONNECTED = 10,
    /// The device is gone, and with it all that the identifier had there; only ncm_destroy is left to
    /// do. Ends an attempt; a connection that stood has been told DISCONNECTED before.
    NCM_EVENT_DEVICE_REMOVAL = 11,
    /// The link layer beneath the connection's own or its peer's address has changed. The connection
    /// goes on; address handles want to be made anew.
    NCM_EVENT_ADDR_CHANGE = 14,
    /// The queue pair number may be used again.
    NCM_EVENT_TIMEWAIT_EXIT = 15,
    /// Something that this interface has no name for.
    NCM_EVENT_OTHER = 255,
}

/// What the `value` of an event is.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ncm_status {
    /// Nothing: all is well.
    NCM_STATUS_NONE = 0,
    /// Nothing: there was no answer in time.
    NCM_STATUS_TIMEOUT = 1,
    /// An errno of the host, positive: the lookup's, or the transport's that could not send.
    NCM_STATUS_ERRNO = 2,
    /// The reason in the peer's REJ: ncm_reject_reason_name and _text.
    NCM_STATUS_REJECTED = 3,
    /// How the connection ended: ncm_disconnect_cause.
    NCM_STATUS_DISCONNECTED = 4,
    /// The status of a datagram service's SIDR_REP: ncm_sidr_status_name and _text.
    NCM_STATUS_SIDR = 5,
}

/// How a connection ended.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ncm_disconnect_cause {
    /// In a way that this interface has no name for.
    NCM_DISCONNECT_OTHER = 0,
    /// We asked, the peer agreed.
    NCM_DISCONNECT_LOCAL = 1,
    /// The peer asked, or tore it down.
    NCM_DISCONNECT_PEER = 2,
    /// We asked and the peer did not answer.
    NCM_DISCONNECT_TIMEOUT = 3,
    /// The device went away.
    NCM_DISCONNECT_REMOVED = 4,
}

/// Something happened to an identifier. A value: it needs no release and stays good whatever becomes
/// of the identifier.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_event {
    /// sizeof(ncm_event).
    pub size: u32,
    /// What happened (ncm_event_kind).
    pub kind: u32,
    /// The identifier it happened to.
    pub id: ncm_id,
    /// The identifier's cookie (ncm_create_id, ncm_set_user); a new identifier has its listener's.
    pub user: u64,
    /// CONNECT_REQUEST: whom the peer asked. Else 0.
    pub listener: ncm_id,
    /// What `value` is (ncm_status).
    pub status: u32,
    /// An errno, a reason, a cause; never negative.
    pub value: u32,
    /// How many octets of private data there are: the whole field of the message, as received.
    pub private_data_len: u32,
    /// REJECTED: how many octets of additional information there are.
    pub additional_info_len: u32,
    /// The peer's private data, zeros behind.
    pub private_data: [u8; 196],
    /// REJECTED: the peer's additional information, zeros behind.
    pub additional_info: [u8; 72],
    /// CONNECT_REQUEST, CONNECT_RESPONSE, and ESTABLISHED of a datagram service: what the peer offers.
    /// This structure grows with it.
    pub peer: ncm_peer_param,
}

impl ncm_event {
    /// An event with what the engine has to say about it: `service`, of a datagram service that has
    /// answered.
    pub(crate) fn new(
        event: Event,
        service: PeerParam,
        private_data: &[u8],
        additional_info: &[u8],
    ) -> ncm_event {
        use ncm_event_kind::*;
        use ncm_status::*;
        let nothing = (NCM_STATUS_NONE, 0);
        let errno = |errno: i32| (NCM_STATUS_ERRNO, errno.unsigned_abs());
        let none = (0, PeerParam::default());
        let (kind, (status, value), (listener, peer)) = match event.kind {
            EventKind::AddrResolved => (NCM_EVENT_ADDR_RESOLVED, nothing, none),
            EventKind::AddrError(error) => (NCM_EVENT_ADDR_ERROR, errno(error), none),
            EventKind::RouteResolved => (NCM_EVENT_ROUTE_RESOLVED, nothing, none),
            EventKind::RouteError(error) => (NCM_EVENT_ROUTE_ERROR, errno(error), none),
            EventKind::ConnectRequest { listener, peer } => {
                (NCM_EVENT_CONNECT_REQUEST, nothing, (listener.to_raw(), peer))
            }
            EventKind::ConnectResponse { peer } => (NCM_EVENT_CONNECT_RESPONSE, nothing, (0, peer)),
            EventKind::Established => (NCM_EVENT_ESTABLISHED, nothing, (0, service)),
            EventKind::Rejected(reason) => {
                (NCM_EVENT_REJECTED, (NCM_STATUS_REJECTED, reason.0.into()), none)
            }
            EventKind::SidrRejected(status) => {
                (NCM_EVENT_REJECTED, (NCM_STATUS_SIDR, status.0.into()), none)
            }
            EventKind::Unreachable(Unreachable::SendFailed(error)) => {
                (NCM_EVENT_UNREACHABLE, errno(error), none)
            }
            EventKind::Unreachable(_) => (NCM_EVENT_UNREACHABLE, (NCM_STATUS_TIMEOUT, 0), none),
            EventKind::ConnectError(error) => (NCM_EVENT_CONNECT_ERROR, errno(error), none),
            EventKind::Disconnected(cause) => {
                let cause = ncm_disconnect_cause::from(cause) as u32;
                (NCM_EVENT_DISCONNECTED, (NCM_STATUS_DISCONNECTED, cause), none)
            }
            EventKind::DeviceRemoval => (NCM_EVENT_DEVICE_REMOVAL, nothing, none),
            EventKind::AddrChange => (NCM_EVENT_ADDR_CHANGE, nothing, none),
            EventKind::TimewaitExit => (NCM_EVENT_TIMEWAIT_EXIT, nothing, none),
            _ => (NCM_EVENT_OTHER, nothing, none),
        };
        let (private_data_len, private_data) = field(private_data);
        let (additional_info_len, additional_info) = field(additional_info);
        ncm_event {
            size: size_of::<ncm_event>() as u32,
            kind: kind as u32,
            id: event.id.to_raw(),
            user: event.user,
            listener,
            status: status as u32,
            value,
            private_data_len,
            additional_info_len,
            private_data,
            additional_info,
            peer: peer.into(),
        }
    }
}

/// Octets and how many, in a field of fixed length.
fn field<const N: usize>(octets: &[u8]) -> (u32, [u8; N]) {
    let mut field = [0; N];
    let len = octets.len().min(N);
    field[..len].copy_from_slice(&octets[..len]);
    (len as u32, field)
}

impl From<DisconnectCause> for ncm_disconnect_cause {
    fn from(cause: DisconnectCause) -> ncm_disconnect_cause {
        match cause {
            DisconnectCause::Local => ncm_disconnect_cause::NCM_DISCONNECT_LOCAL,
            DisconnectCause::Peer => ncm_disconnect_cause::NCM_DISCONNECT_PEER,
            DisconnectCause::Timeout => ncm_disconnect_cause::NCM_DISCONNECT_TIMEOUT,
            DisconnectCause::Removed => ncm_disconnect_cause::NCM_DISCONNECT_REMOVED,
            _ => ncm_disconnect_cause::NCM_DISCONNECT_OTHER,
        }
    }
}
