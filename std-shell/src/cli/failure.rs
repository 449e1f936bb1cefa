//! The library's errors as the program reports them: cause in one word, holder, advice.

use super::output::{Failure, Object, Outcome, Stop};
use nanocm::core::error::{BindError, ConnectError, ListenError, ResolveError};
use nanocm::provider::Holder;
use nanocm::{Cause, Error, Unreachable};

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Failure::from(error).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let mut failure = Failure::new(error.errno(), cause_name(&error.cause), error.to_string());
        failure.local = error.local.map(|local| local.to_string());
        failure.peer = error.peer.map(|peer| peer.to_string());
        let holder = match &error.cause {
            Cause::Open(open) => open.holder(),
            Cause::Port(port) => port.holder(),
            _ => None,
        };
        failure.holder = holder.map(holder_object);
        failure.advice = error.advice().map(str::to_owned);
        failure
    }
}

pub(crate) fn holder_object(holder: &Holder) -> Object {
    let mut object = Object::new();
    if let Some(name) = &holder.name {
        object.insert("name".into(), name.as_str().into());
    }
    if let Some(pid) = holder.pid {
        object.insert("pid".into(), pid.into());
    }
    if let Some(uid) = holder.uid {
        object.insert("uid".into(), uid.into());
    }
    object
}

/// Names are part of the program's contract: see `docs/cli.md`.
fn cause_name(cause: &Cause) -> &'static str {
    match cause {
        Cause::Open(open) => open.cause_name(),
        Cause::Port(port) => port.cause_name(),
        Cause::Bind(error) | Cause::Resolve(ResolveError::Bind { error }) => bind_name(error),
        Cause::Listen(ListenError::ListenConflict) => "listen-conflict",
        Cause::Connect(ConnectError::PrivateDataTooLong { .. }) => TOO_LONG,
        Cause::Connect(ConnectError::AlreadyGone) | Cause::Closed => "closed",
        Cause::Rejected(_) | Cause::SidrRejected(_) => "rejected",
        Cause::Unreachable(Unreachable::SendFailed(_)) => "send-failed",
        Cause::Unreachable(_) | Cause::TimedOut => "timeout",
        Cause::Host(_) | Cause::Io(_) => "host",
        Cause::Create(_) | Cause::Resolve(ResolveError::Full) => "full",
        _ => "illegal",
    }
}

fn bind_name(error: &BindError) -> &'static str {
    match error {
        BindError::PortInUse => "rdma-id",
        BindError::TupleInUse => "tuple",
        BindError::PortsExhausted => "exhausted",
        BindError::AddrNotLocal => "not-local",
        BindError::ScopeMissing => "scope-missing",
        BindError::Full => "full",
        _ => "illegal",
    }
}

const TOO_LONG: &str = "too-long";

/// Private data that does not fit into its message, told before anything is sent.
pub(crate) fn check_length(data: &[u8], message: &str, limit: usize) -> Outcome {
    if data.len() <= limit {
        return Ok(());
    }
    let text =
        format!("{} octets of private data are too many: a {message} takes {limit}", data.len());
    Err(Failure::new(libc::EMSGSIZE, TOO_LONG, text).into())
}
