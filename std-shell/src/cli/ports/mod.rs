//! `nanocm ports`: numbers in the host's port spaces.
//!
//! Read first: `docs/ports.md`.

mod check;
mod list;
mod reserve;

use super::args::Address;
use super::failure::holder_object;
use super::output::{Failure, Object, Outcome, Stop, errno_name, print_line, print_object};
use nanocm::host_ports::{Number, PortError, Space};
use nanocm::provider::Holder;
use std::net::SocketAddr;

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    Reserve(reserve::Args),
    Check(check::Args),
    List(list::Args),
}

impl Command {
    pub(crate) fn json(&self) -> bool {
        match self {
            Command::Reserve(args) => args.json,
            Command::Check(args) => args.json,
            Command::List(args) => args.json,
        }
    }
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Reserve(args) => reserve::run(args),
        Command::Check(args) => check::run(args),
        Command::List(args) => list::run(args),
    }
}

/// Port spaces whose numbers the host has.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum HostSpace {
    Tcp,
    Udp,
    /// Its numbers are TCP's.
    Sdp,
}

impl HostSpace {
    fn of_host(self) -> Space {
        match self {
            HostSpace::Tcp | HostSpace::Sdp => Space::Tcp,
            HostSpace::Udp => Space::Udp,
        }
    }

    fn name(self) -> &'static str {
        match self {
            HostSpace::Tcp => "tcp",
            HostSpace::Udp => "udp",
            HostSpace::Sdp => "sdp",
        }
    }
}

/// A number, with what became of it.
fn object(event: &str, space: &str, number: &Number) -> Object {
    let mut object = Object::new();
    object.insert("event".into(), event.into());
    object.insert("addr".into(), number.address().to_string().into());
    object.insert("space".into(), space.into());
    object
}

fn put_holder(object: &mut Object, holder: &Holder) {
    object.insert("holder".into(), holder_object(holder).into());
}

fn print(json: bool, object: &Object, words: &str) -> Outcome {
    if json {
        print_object(object)?
    } else {
        print_line(words)?
    }
    Ok(())
}

/// REFUSED, and then the failure.
fn refuse(json: bool, space: HostSpace, error: &PortError) -> Stop {
    let mut failure = Failure::new(error.errno, error.cause_name(), error.to_string());
    failure.local = Some(error.number.address().to_string());
    failure.holder = error.holder().map(holder_object);
    failure.advice = error.advice().map(str::to_owned);
    if json {
        let mut object = object("REFUSED", space.name(), &error.number);
        object.insert("error".into(), errno_name(error.errno).into());
        object.insert("cause".into(), error.cause_name().into());
        object.insert("message".into(), error.to_string().into());
        if let Some(holder) = error.holder() {
            put_holder(&mut object, holder);
        }
        if let Some(advice) = error.advice() {
            object.insert("advice".into(), advice.into());
        }
        if let Err(error) = print_object(&object) {
            return error.into();
        }
    }
    failure.into()
}

/// The host knows IP addresses alone.
fn ip(address: Address) -> Result<SocketAddr, Stop> {
    match address {
        Address::Ip(address) => Ok(address),
        Address::Gid(..) => {
            let message = format!(
                "{address}: the host has no numbers for GID addresses; theirs are RDMA's alone"
            );
            Err(Failure::new(libc::EOPNOTSUPP, "provider", message).into())
        }
    }
}
