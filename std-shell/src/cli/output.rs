//! What a subcommand prints, and how it ends.
//!
//! Owns the output rules of `docs/cli.md`: one JSON object a line, flushed; an error as an object on
//! stdout (with `--json`) and always as a sentence on stderr; the exit codes.

use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::{Map, Value};

/// A JSON object that keeps the order of its fields.
pub(crate) type Object = Map<String, Value>;

/// Prints one compact line, at once.
pub(crate) fn print_object(object: &Object) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    serde_json::to_writer(&mut stdout, object)?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Prints one line for people, at once.
pub(crate) fn print_line(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

/// How a subcommand ends.
pub(crate) type Outcome = Result<(), Stop>;

/// Why a subcommand ends before it is done.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The operation failed.
    Failed(Box<Failure>),
    /// Nobody reads our output any more (`nanocm … | head`), which is no failure.
    Unread,
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(Box::new(failure))
    }
}

/// For errors in writing our own output.
impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Stop {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Stop::Unread;
        }
        let message = format!("the output can't be written: {}", words(&error));
        Failure::new(errno_of(&error), "output", message).into()
    }
}

/// A failed operation: what the error object and the sentence say.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) errno: i32,
    /// Tells causes with the same errno apart; one word or `several-words`.
    pub(crate) cause: &'static str,
    /// Who, what and why, without a full stop.
    pub(crate) message: String,
    pub(crate) local: Option<String>,
    pub(crate) peer: Option<String>,
    /// Who holds what we wanted: `name`, `pid`, `uid`, as far as known.
    pub(crate) holder: Option<Object>,
    /// What to do.
    pub(crate) advice: Option<String>,
}

impl Failure {
    pub(crate) fn new(errno: i32, cause: &'static str, message: String) -> Failure {
        Failure { errno, cause, message, local: None, peer: None, holder: None, advice: None }
    }

    fn object(&self) -> Object {
        let mut object = Object::new();
        let mut put = |name: &str, value: Value| object.insert(name.into(), value);
        put("event", "ERROR".into());
        put("error", errno_name(self.errno).into());
        put("errno", self.errno.into());
        put("cause", self.cause.into());
        put("message", self.message.as_str().into());
        for (name, text) in [("local", &self.local), ("peer", &self.peer)] {
            if let Some(text) = text {
                put(name, text.as_str().into());
            }
        }
        if let Some(holder) = &self.holder {
            put("holder", holder.clone().into());
        }
        if let Some(advice) = &self.advice {
            put("advice", advice.as_str().into());
        }
        object
    }

    fn sentence(&self) -> String {
        match &self.advice {
            Some(advice) => format!("{}: {advice}", self.message),
            None => self.message.clone(),
        }
    }
}

/// Tells the user how it ended, and the system by the exit code.
pub(crate) fn exit(json: bool, outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(()) | Err(Stop::Unread) => ExitCode::SUCCESS,
        Err(Stop::Failed(failure)) => {
            report(json, &failure);
            ExitCode::FAILURE
        }
    }
}

fn report(json: bool, failure: &Failure) {
    if json {
        // Where stdout can't be written, stderr and the exit code still say it.
        let _ = print_object(&failure.object());
    }
    note(&format!("nanocm: {}", failure.sentence()));
}

/// Says something on stderr. If nobody can hear it, so be it.
pub(crate) fn note(sentence: &str) {
    let _ = writeln!(anstream::stderr(), "{sentence}");
}

/// The error object for arguments that can't be understood; clap writes the sentence.
pub(crate) fn report_usage(error: &clap::Error) {
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    let message = first.trim_start_matches("error: ").trim().to_string();
    let _ = print_object(&Failure::new(errno::EINVAL, "usage", message).object());
}

/// The errno of a system error.
pub(crate) fn errno_of(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(errno::EIO)
}

/// What a system error says, without its number.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).into()
}

/// The numbers used here; what others fail with comes from the engine or the system.
pub(crate) mod errno {
    pub(crate) const EIO: i32 = 5;
    pub(crate) const EINVAL: i32 = 22;
    pub(crate) const EOPNOTSUPP: i32 = 95;
}

/// Linux's names.
pub(crate) fn errno_name(errno: i32) -> String {
    let name = match errno {
        libc::EPERM => "EPERM",
        libc::ENOENT => "ENOENT",
        libc::EINTR => "EINTR",
        libc::EIO => "EIO",
        libc::EBADF => "EBADF",
        libc::EAGAIN => "EAGAIN",
        libc::ENOMEM => "ENOMEM",
        libc::EACCES => "EACCES",
        libc::EEXIST => "EEXIST",
        libc::ENODEV => "ENODEV",
        libc::ENOTDIR => "ENOTDIR",
        libc::EISDIR => "EISDIR",
        libc::EINVAL => "EINVAL",
        libc::ENFILE => "ENFILE",
        libc::EMFILE => "EMFILE",
        libc::ENOSPC => "ENOSPC",
        libc::EPIPE => "EPIPE",
        libc::ENOTSOCK => "ENOTSOCK",
        libc::EMSGSIZE => "EMSGSIZE",
        libc::EPROTONOSUPPORT => "EPROTONOSUPPORT",
        libc::EOPNOTSUPP => "EOPNOTSUPP",
        libc::EAFNOSUPPORT => "EAFNOSUPPORT",
        libc::EADDRINUSE => "EADDRINUSE",
        libc::EADDRNOTAVAIL => "EADDRNOTAVAIL",
        libc::ENETDOWN => "ENETDOWN",
        libc::ENETUNREACH => "ENETUNREACH",
        libc::ECONNABORTED => "ECONNABORTED",
        libc::ECONNRESET => "ECONNRESET",
        libc::ENOBUFS => "ENOBUFS",
        libc::EISCONN => "EISCONN",
        libc::ETIMEDOUT => "ETIMEDOUT",
        libc::ECONNREFUSED => "ECONNREFUSED",
        libc::EHOSTDOWN => "EHOSTDOWN",
        libc::EHOSTUNREACH => "EHOSTUNREACH",
        other => return format!("errno {other}"),
    };
    name.into()
}
