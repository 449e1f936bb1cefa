//! The library's errors as the program reports them: cause in one word, holder, advice.

use super::output::{Failure, Object, Stop};
use nanocm::core::error::{BindError, ListenError};
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
        if let Cause::Open(open) = &error.cause {
            failure.holder = open.holder().map(holder_object);
            failure.advice = open.advice().map(str::to_owned);
        }
        failure
    }
}

fn holder_object(holder: &Holder) -> Object {
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

fn cause_name(cause: &Cause) -> &'static str {
    match cause {
        Cause::Open(open) => open.cause_name(),
        Cause::Bind(BindError::PortInUse) => "rdma-id",
        Cause::Bind(BindError::TupleInUse) => "tuple",
        Cause::Bind(BindError::PortsExhausted) => "exhausted",
        Cause::Bind(BindError::AddrNotLocal) => "not-local",
        Cause::Bind(BindError::ScopeMissing) => "scope-missing",
        Cause::Listen(ListenError::ListenConflict) => "listen-conflict",
        Cause::Rejected { .. } => "rejected",
        Cause::Unreachable(Unreachable::SendFailed(_)) => "send-failed",
        Cause::Unreachable(_) | Cause::TimedOut => "timeout",
        Cause::Host(_) | Cause::Io(_) => "host",
        Cause::Create(_) => "full",
        Cause::Closed => "closed",
        _ => "illegal",
    }
}
