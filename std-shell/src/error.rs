//! What can go wrong, said with who, what and why; each with its errno.

use crate::host_ports::PortError;
use crate::provider::OpenError;
use nanocm_core::error::{
    BindError, ConnectError, CreateError, ListenError, OpError, ResolveError,
};
use nanocm_core::wire::{RejectReason, SidrStatus};
use nanocm_core::{ServiceId, Unreachable};
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// A failed operation: what was tried, between whom, and why it failed.
#[derive(Debug)]
pub struct Error {
    /// What was tried, as a verb: "bind", "connect".
    pub operation: &'static str,
    /// Our address, as far as known.
    pub local: Option<SocketAddr>,
    /// The peer's address, as far as known.
    pub peer: Option<SocketAddr>,
    /// Why it failed.
    pub cause: Cause,
}

/// Why an operation failed.
#[derive(Debug)]
#[non_exhaustive]
pub enum Cause {
    /// No identifier is free.
    Create(CreateError),
    /// The address or port cannot be had.
    Bind(BindError),
    /// It cannot listen.
    Listen(ListenError),
    /// It cannot be resolved.
    Resolve(ResolveError),
    /// The connection is in no state for it.
    Connect(ConnectError),
    /// The identifier is in no state for it.
    Op(OpError),
    /// The provider cannot use the address.
    Open(Box<OpenError>),
    /// The number cannot be held in the host's port space.
    Port(Box<PortError>),
    /// The host could not find the way (errno).
    Host(i32),
    /// The peer, or its connection manager, refused.
    Rejected(Box<Rejection>),
    /// The datagram service, or the peer's connection manager, refused.
    SidrRejected(Box<SidrRejection>),
    /// The peer does not answer.
    Unreachable(Unreachable),
    /// The deadline of a blocking call passed.
    TimedOut,
    /// The connection ended before it stood.
    Closed,
    /// The channel is another connection manager's.
    ForeignChannel,
    /// The engine cannot be set up.
    Setup(nanocm_core::SetupError),
    /// A system call failed.
    Io(io::Error),
}

/// A REJ: what a peer, or its connection manager, says when it refuses.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rejection {
    /// Why, in the peer's words.
    pub reason: RejectReason,
    /// The service that was asked for.
    pub service: ServiceId,
    /// What the peer's application says: the whole field, 148 octets.
    pub private_data: Vec<u8>,
    /// Additional information.
    pub additional_info: Vec<u8>,
}

/// A SIDR_REP that refuses: what a peer, or its connection manager, says when there is no such service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SidrRejection {
    /// Why, in the peer's words.
    pub status: SidrStatus,
    /// The service that was asked for.
    pub service: ServiceId,
    /// What the peer's application says: the whole field, 136 octets.
    pub private_data: Vec<u8>,
    /// Additional information.
    pub additional_info: Vec<u8>,
}

impl Error {
    /// The errno a librdmacm user would expect: one per cause.
    pub fn errno(&self) -> i32 {
        self.cause.errno()
    }

    /// What to do about it, where there is something to say.
    pub fn advice(&self) -> Option<&'static str> {
        self.cause.advice()
    }
}

impl Cause {
    /// The errno a librdmacm user would expect: one per cause.
    pub fn errno(&self) -> i32 {
        match self {
            Cause::Create(e) => e.errno(),
            Cause::Bind(e) => e.errno(),
            Cause::Listen(e) => e.errno(),
            Cause::Resolve(e) => e.errno(),
            Cause::Connect(e) => e.errno(),
            Cause::Op(e) => e.errno(),
            Cause::Open(e) => e.errno,
            Cause::Port(e) => e.errno,
            Cause::Host(errno) => *errno,
            Cause::Rejected(_) | Cause::SidrRejected(_) => libc::ECONNREFUSED,
            Cause::Unreachable(_) | Cause::TimedOut => libc::ETIMEDOUT,
            Cause::Closed => libc::ECONNABORTED,
            Cause::Setup(_) | Cause::ForeignChannel => libc::EINVAL,
            Cause::Io(e) => e.raw_os_error().unwrap_or(libc::EIO),
        }
    }

    /// What to do about it, where there is something to say.
    pub fn advice(&self) -> Option<&'static str> {
        match self {
            Cause::Open(error) => error.advice(),
            Cause::Port(error) => error.advice(),
            Cause::Bind(error) | Cause::Resolve(ResolveError::Bind { error }) => match error {
                BindError::PortInUse => Some("use another port; 0 stands for any"),
                BindError::TupleInUse => Some("use another local port; 0 stands for any"),
                BindError::ScopeMissing => Some("write it as fe80::1%eth0"),
                _ => None,
            },
            Cause::Rejected(rejection) => match rejection.reason {
                RejectReason::INVALID_SERVICE_ID => {
                    Some("start a listener on that port, or connect to the port of one")
                }
                RejectReason::NO_RESOURCES | RejectReason::STALE => Some("try again in a moment"),
                _ => None,
            },
            Cause::SidrRejected(rejection) => match rejection.status {
                SidrStatus::UNSUPPORTED_SERVICE_ID => {
                    Some("start a listener for datagrams on that port, or ask for the port of one")
                }
                SidrStatus::NO_QP => Some("try again in a moment"),
                _ => None,
            },
            Cause::Unreachable(Unreachable::SendFailed(libc::ECONNREFUSED)) => {
                Some("start a connection manager there")
            }
            Cause::Unreachable(_) | Cause::TimedOut => Some(
                "see whether a connection manager runs there, whether its application answers, and \
                 whether UDP 4791 gets through",
            ),
            _ => None,
        }
    }

    /// With what was tried and between whom.
    pub(crate) fn during(
        self,
        operation: &'static str,
        local: Option<SocketAddr>,
        peer: Option<SocketAddr>,
    ) -> Error {
        Error { operation, local, peer, cause: self }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.operation)?;
        match (self.local, self.peer) {
            (Some(local), Some(peer)) => write!(f, " {local} -> {peer}")?,
            (Some(local), None) => write!(f, " {local}")?,
            (None, Some(peer)) => write!(f, " {peer}")?,
            (None, None) => {}
        }
        write!(f, ": {}", self.cause)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Create(e) => e.fmt(f),
            Cause::Bind(e) => e.fmt(f),
            Cause::Listen(e) => e.fmt(f),
            Cause::Resolve(e) => e.fmt(f),
            Cause::Connect(e) => e.fmt(f),
            Cause::Op(e) => e.fmt(f),
            Cause::Open(e) => e.fmt(f),
            Cause::Port(e) => e.fmt(f),
            Cause::Host(errno) => f.write_str(&words(&io::Error::from_raw_os_error(*errno))),
            Cause::Rejected(rejection) => rejection.fmt(f),
            Cause::SidrRejected(rejection) => rejection.fmt(f),
            Cause::Unreachable(Unreachable::SendFailed(libc::ECONNREFUSED)) => {
                f.write_str("nothing answers UDP 4791 at that address")
            }
            Cause::Unreachable(Unreachable::SendFailed(errno)) => {
                let error = io::Error::from_raw_os_error(*errno);
                write!(f, "cannot be sent there: {}", words(&error))
            }
            Cause::Unreachable(_) => f.write_str("no answer"),
            Cause::TimedOut => f.write_str("no answer before the deadline"),
            Cause::Closed => f.write_str("the connection ended before it stood"),
            Cause::ForeignChannel => {
                f.write_str("the event channel belongs to another connection manager")
            }
            Cause::Setup(e) => e.fmt(f),
            Cause::Io(e) => f.write_str(&words(e)),
        }
    }
}

/// What a system error says, without its number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rejection { reason, service, .. } = self;
        write!(f, "rejected with reason {}: {} ({service})", reason.0, reason.text())
    }
}

impl fmt::Display for SidrRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SidrRejection { status, service, .. } = self;
        write!(f, "rejected with status {}: {} ({service})", status.0, status.text())
    }
}

impl std::error::Error for Error {}

impl From<OpenError> for Cause {
    fn from(error: OpenError) -> Cause {
        Cause::Open(Box::new(error))
    }
}

impl From<PortError> for Cause {
    fn from(error: PortError) -> Cause {
        Cause::Port(Box::new(error))
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        let kind = io::Error::from_raw_os_error(error.errno()).kind();
        io::Error::new(kind, error)
    }
}

macro_rules! causes {
    ($($error:ty => $variant:ident),* $(,)?) => {$(
        impl From<$error> for Cause {
            fn from(error: $error) -> Cause {
                Cause::$variant(error)
            }
        }
    )*};
}
causes! {
    CreateError => Create,
    BindError => Bind,
    ListenError => Listen,
    ResolveError => Resolve,
    ConnectError => Connect,
    OpError => Op,
    nanocm_core::SetupError => Setup,
    io::Error => Io,
}
