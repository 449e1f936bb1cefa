//! What became of a datagram, and how often.

use nanocm_core::{Counters, Disposition, IgnoreReason};

/// What became of a datagram: its index in `ncm_counters.ignored`, from 2 on.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ncm_disposition {
    /// It moved a connection, or was answered.
    NCM_ACCEPTED = 0,
    /// It repeats what was known; the answer, if one is due, goes out again.
    NCM_DUPLICATE = 1,
    /// Ignored, for a reason that this interface has no name for.
    NCM_IGNORED = 2,
    /// Ignored: not 256 octets.
    NCM_IGNORED_LENGTH = 3,
    /// Ignored: MAD base version not 1.
    NCM_IGNORED_BASE_VERSION = 4,
    /// Ignored: management class not 7.
    NCM_IGNORED_CLASS = 5,
    /// Ignored: class version not 2.
    NCM_IGNORED_CLASS_VERSION = 6,
    /// Ignored: method not Send.
    NCM_IGNORED_METHOD = 7,
    /// Ignored: an attribute that is no CM message.
    NCM_IGNORED_ATTRIBUTE = 8,
    /// Ignored: RoCE framing (BTH, DETH or length).
    NCM_IGNORED_FRAMING = 9,
    /// Ignored: the ICRC does not match.
    NCM_IGNORED_ICRC = 10,
    /// Ignored: no connection has these communication IDs.
    NCM_IGNORED_UNKNOWN_CONNECTION = 11,
    /// Ignored: the connection is known, but the message came from elsewhere.
    NCM_IGNORED_WRONG_PATH = 12,
    /// Ignored: the connection is in no state for this message.
    NCM_IGNORED_NOT_FOR_STATE = 13,
    /// Ignored: a DREQ that names another queue pair.
    NCM_IGNORED_WRONG_QPN = 14,
    /// Ignored: the listener's backlog is full; the peer will repeat its REQ.
    NCM_IGNORED_BACKLOG_FULL = 15,
    /// Ignored: a message of alternate paths, which there are none of.
    NCM_IGNORED_UNSUPPORTED = 16,
    /// Ignored: as many connections are half open as may be, in all or from this source; the peer will
    /// repeat its request.
    NCM_IGNORED_HALF_OPEN = 17,
}

/// The reasons from NCM_IGNORED_LENGTH on.
pub(crate) const IGNORED: [IgnoreReason; 15] = [
    IgnoreReason::Length,
    IgnoreReason::BaseVersion,
    IgnoreReason::Class,
    IgnoreReason::ClassVersion,
    IgnoreReason::Method,
    IgnoreReason::Attribute,
    IgnoreReason::Framing,
    IgnoreReason::Icrc,
    IgnoreReason::UnknownConnection,
    IgnoreReason::WrongPath,
    IgnoreReason::NotForState,
    IgnoreReason::WrongQpn,
    IgnoreReason::BacklogFull,
    IgnoreReason::Unsupported,
    IgnoreReason::HalfOpen,
];

/// The number of the first of [`IGNORED`].
pub(crate) const FIRST_IGNORED: usize = ncm_disposition::NCM_IGNORED_LENGTH as usize;

pub(crate) fn disposition(disposition: Disposition) -> u32 {
    match disposition {
        Disposition::Accepted => ncm_disposition::NCM_ACCEPTED as u32,
        Disposition::Duplicate => ncm_disposition::NCM_DUPLICATE as u32,
        Disposition::Ignored(reason) => number(reason) as u32,
    }
}

fn number(reason: IgnoreReason) -> usize {
    let place = IGNORED.iter().position(|&known| known == reason);
    place.map_or(ncm_disposition::NCM_IGNORED as usize, |place| FIRST_IGNORED + place)
}

/// What an engine has counted since it was made. Numbers wrap.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_counters {
    /// sizeof(ncm_counters).
    pub size: u32,
    /// Datagrams handed in.
    pub received: u32,
    /// Datagrams that changed nothing, by what became of them (ncm_disposition).
    pub ignored: [u32; 32],
    /// Messages that repeated a known one.
    pub duplicates: u32,
    /// Datagrams handed out.
    pub sent: u32,
    /// Of those, repeats of a REQ, REP, RTU, DREQ or REJ.
    pub retransmitted: u32,
    /// Datagrams that the transport could not send.
    pub send_failed: u32,
    /// Requests refused because nothing listens (REJ 8).
    pub no_listener: u32,
    /// Requests refused for their IP CM header or a foreign destination (REJ 28).
    pub bad_ip_cm_header: u32,
    /// Requests refused for their primary path (REJ 12).
    pub bad_primary_path: u32,
    /// Requests refused for their transport type (REJ 9), or to the wrong kind of port space (SIDR
    /// status 2).
    pub bad_transport: u32,
    /// Requests refused because every slot was in use (REJ 3).
    pub no_resources: u32,
    /// Connections torn down because their peer came back with the same queue pair (REJ 10).
    pub stale: u32,
    /// Requests that named somebody else's queue pair (REJ 10), whose connection was left alone.
    pub stale_spoofed: u32,
    /// Answers dropped because there was no room for them, or a device went away.
    pub replies_dropped: u32,
    /// Last words of destroyed connections dropped to make room for new ones.
    pub farewells_dropped: u32,
    /// Requests rejected because the application did not answer in time.
    pub accept_overdue: u32,
    /// Connections that reached ESTABLISHED.
    pub established: u32,
    /// Requests refused for their path MTU (REJ 26).
    pub bad_path_mtu: u32,
    /// Requests refused because the backlog was full, by a listener with
    /// NCM_OPTION_REJECT_WHEN_FULL (REJ 3).
    pub backlog_full: u32,
    /// Datagram services that answered.
    pub resolved: u32,
    /// Answers to strangers not given because there were too many in a second.
    pub answers_limited: u32,
}

impl From<&Counters> for ncm_counters {
    fn from(counters: &Counters) -> ncm_counters {
        let mut ignored = [0; 32];
        for &reason in IgnoreReason::ALL {
            let count: &mut u32 = &mut ignored[number(reason)];
            *count = count.wrapping_add(counters.ignored_for(reason));
        }
        ncm_counters {
            size: size_of::<ncm_counters>() as u32,
            received: counters.received,
            ignored,
            duplicates: counters.duplicates,
            sent: counters.sent,
            retransmitted: counters.retransmitted,
            send_failed: counters.send_failed,
            no_listener: counters.no_listener,
            bad_ip_cm_header: counters.bad_ip_cm_header,
            bad_primary_path: counters.bad_primary_path,
            bad_transport: counters.bad_transport,
            no_resources: counters.no_resources,
            stale: counters.stale,
            stale_spoofed: counters.stale_spoofed,
            replies_dropped: counters.replies_dropped,
            farewells_dropped: counters.farewells_dropped,
            accept_overdue: counters.accept_overdue,
            established: counters.established,
            bad_path_mtu: counters.bad_path_mtu,
            backlog_full: counters.backlog_full,
            resolved: counters.resolved,
            answers_limited: counters.answers_limited,
        }
    }
}
