//! Counters: where everything that nobody is told about is written down.

use crate::wire::MadError;
use crate::wire::roce::FrameFault;

/// What became of a datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Disposition {
    /// It moved a connection, or was answered.
    Accepted,
    /// It repeats what was known; the answer, if one is due, goes out again.
    Duplicate,
    /// It changed nothing but a counter.
    Ignored(IgnoreReason),
}

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident $name:literal,)*) => {
        /// Why a datagram changed nothing.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum IgnoreReason { $($(#[$doc])* $variant,)* }

        impl IgnoreReason {
            /// Every reason.
            pub const ALL: &'static [IgnoreReason] = &[$(IgnoreReason::$variant,)*];

            /// Its name in counters and logs.
            pub const fn name(self) -> &'static str {
                match self { $(IgnoreReason::$variant => $name,)* }
            }
        }
    };
}

reasons! {
    /// Not 256 octets.
    Length "length",
    /// MAD base version not 1.
    BaseVersion "base-version",
    /// Management class not 7.
    Class "class",
    /// Class version not 2.
    ClassVersion "class-version",
    /// Method not Send.
    Method "method",
    /// An attribute that is no CM message.
    Attribute "attribute",
    /// RoCE framing: BTH, DETH or length.
    Framing "framing",
    /// The ICRC does not match.
    Icrc "icrc",
    /// No connection has these communication IDs.
    UnknownConnection "unknown-connection",
    /// The connection is known, but the message came from elsewhere.
    WrongPath "wrong-path",
    /// The connection is in no state for this message.
    NotForState "not-for-state",
    /// A DREQ that names another queue pair.
    WrongQpn "wrong-qpn",
    /// The listener's backlog is full; the peer will repeat its REQ.
    BacklogFull "backlog-full",
    /// As many connections are half open as may be, in all or from this source; the peer will repeat
    /// its request.
    HalfOpen "half-open",
    /// A message of alternate paths, which there are none of: an APR, a LAP on RoCE.
    Unsupported "unsupported",
}

impl From<MadError> for IgnoreReason {
    fn from(error: MadError) -> IgnoreReason {
        match error {
            MadError::Length(_) => IgnoreReason::Length,
            MadError::BaseVersion(_) => IgnoreReason::BaseVersion,
            MadError::Class(_) => IgnoreReason::Class,
            MadError::ClassVersion(_) => IgnoreReason::ClassVersion,
            MadError::Method(_) => IgnoreReason::Method,
            MadError::Attribute(_) => IgnoreReason::Attribute,
        }
    }
}

impl From<FrameFault> for IgnoreReason {
    fn from(_: FrameFault) -> IgnoreReason {
        IgnoreReason::Framing
    }
}

/// What an engine has counted since it was made. Numbers wrap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Counters {
    /// Datagrams handed in.
    pub received: u32,
    /// Datagrams that changed nothing, by reason (index: `IgnoreReason as usize`).
    pub ignored: [u32; IgnoreReason::ALL.len()],
    /// Messages that repeated a known one.
    pub duplicates: u32,
    /// Datagrams handed out.
    pub sent: u32,
    /// Of those, repeats of a REQ, REP, RTU, DREQ, DREP or REJ.
    pub retransmitted: u32,
    /// Datagrams that the transport could not send.
    pub send_failed: u32,
    /// Requests refused because nothing listens (REJ 8).
    pub no_listener: u32,
    /// Requests refused for their IP CM header or a foreign destination (REJ 28).
    pub bad_ip_cm_header: u32,
    /// Requests refused for their primary path (REJ 12).
    pub bad_primary_path: u32,
    /// Requests refused for their path MTU (REJ 26).
    pub bad_path_mtu: u32,
    /// Requests refused for their transport type (REJ 9), or to the wrong kind of port space (SIDR
    /// status 2).
    pub bad_transport: u32,
    /// Requests refused because every slot was in use (REJ 3).
    pub no_resources: u32,
    /// Requests refused because the backlog was full, by a listener with
    /// [`RejectWhenFull`](crate::IdOption::RejectWhenFull) (REJ 3).
    pub backlog_full: u32,
    /// Connections torn down because their peer came back with the same queue pair (REJ 10).
    pub stale: u32,
    /// Requests that named somebody else's queue pair (REJ 10), whose connection was left alone.
    pub stale_spoofed: u32,
    /// Answers dropped because the reply ring was full, or a device went away.
    pub replies_dropped: u32,
    /// Answers to strangers not given because there were too many in a second.
    pub answers_limited: u32,
    /// Last words of destroyed connections dropped to make room for new ones.
    pub farewells_dropped: u32,
    /// Requests rejected because the application did not answer in time.
    pub accept_overdue: u32,
    /// Connections that reached ESTABLISHED.
    pub established: u32,
    /// Datagram services that answered.
    pub resolved: u32,
}

impl Counters {
    /// How many datagrams were ignored for `reason`.
    pub const fn ignored_for(&self, reason: IgnoreReason) -> u32 {
        self.ignored[reason as usize]
    }

    pub(crate) fn ignore(&mut self, reason: IgnoreReason) -> Disposition {
        bump(&mut self.ignored[reason as usize]);
        Disposition::Ignored(reason)
    }

    pub(crate) fn duplicate(&mut self) -> Disposition {
        bump(&mut self.duplicates);
        Disposition::Duplicate
    }
}

/// Adds one, wrapping.
pub(crate) fn bump(counter: &mut u32) {
    *counter = counter.wrapping_add(1);
}
