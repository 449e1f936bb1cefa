//! `nanocm demo`: two connection managers in this process, on 127.0.0.1 and 127.0.0.2, with real UDP
//! sockets on port 4791. Shows every message as it travels, then what it checked.

mod scenes;
mod tap;

use super::output::{Failure, Object, Outcome, Stop, print_line, print_object};
use super::provider::Provider;
use nanocm::{Capacity, Cm, Config, Drive, random_seed};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use tap::{Tap, Wire};

/// Watch two endpoints connect, reject, miss each other and recover, with real packets
#[derive(clap::Args)]
pub(crate) struct Args {
    /// In a user and network namespace of its own, where UDP port 4791 is free
    #[arg(long)]
    isolated: bool,
    /// One JSON object a line instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

/// The side that connects.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
/// The side that listens.
const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

pub(crate) fn run(args: &Args) -> Outcome {
    if args.isolated {
        nanocm::netns::isolate().map_err(|error| {
            let errno = error.raw_os_error().unwrap_or(libc::EPERM);
            let message = format!("no namespace of its own: {error}");
            let mut failure = Failure::new(errno, "policy", message);
            failure.advice = Some("allow unprivileged user namespaces, or run as root".into());
            failure
        })?;
    }
    let show = Arc::new(Show::new(args.json));
    let wire = Wire::new(show.clone());
    let client = endpoint(CLIENT, &wire).map_err(|stop| advise(stop, args))?;
    let server = endpoint(SERVER, &wire).map_err(|stop| advise(stop, args))?;
    show.text(&format!(
        "Two connection managers, {CLIENT} and {SERVER}, speaking IBTA CM in RoCEv2 packets on UDP \
         port 4791."
    ))?;
    scenes::play(&client, &server, &wire, &show)?;
    show.conclude()
}

/// A connection manager on one address.
fn endpoint(ip: IpAddr, wire: &Arc<Wire>) -> Result<Cm, Stop> {
    let transport = Tap::new(Provider::Udp.transport()?, wire.clone());
    let config = Config::new(random_seed()?);
    let cm = Cm::over(transport, config, Capacity::of(64), Drive::Thread)?;
    cm.open(SocketAddr::new(ip, 0))?;
    Ok(cm)
}

/// If the port is taken, there is a way round.
fn advise(stop: Stop, args: &Args) -> Stop {
    match stop {
        Stop::Failed(mut failure) if failure.holder.is_some() && !args.isolated => {
            failure.advice =
                Some("stop it, or run `nanocm demo --isolated` in a namespace of its own".into());
            Stop::Failed(failure)
        }
        other => other,
    }
}

/// What is shown, and what was found.
pub(crate) struct Show {
    json: bool,
    checks: Mutex<Vec<(String, bool)>>,
}

impl Show {
    fn new(json: bool) -> Show {
        Show { json, checks: Mutex::new(Vec::new()) }
    }

    /// A line for people.
    fn text(&self, text: &str) -> io::Result<()> {
        if self.json { Ok(()) } else { print_line(text) }
    }

    /// A scene begins.
    fn scene(&self, title: &str) -> io::Result<()> {
        if !self.json {
            print_line("")?;
            return print_line(title);
        }
        let mut object = Object::new();
        object.insert("event".into(), "SCENE".into());
        object.insert("title".into(), title.into());
        print_object(&object)
    }

    /// An object for programs, a line for people.
    fn either(&self, object: &Object, text: &str) -> io::Result<()> {
        if self.json { print_object(object) } else { print_line(text) }
    }

    /// Something that must have been so.
    fn check(&self, what: impl Into<String>, held: bool) {
        self.lock().push((what.into(), held));
    }

    /// Says what was checked; an error if anything did not hold.
    fn conclude(&self) -> Outcome {
        let checks = std::mem::take(&mut *self.lock());
        self.scene("Checked:")?;
        for (what, held) in &checks {
            let mut object = Object::new();
            object.insert("event".into(), "CHECK".into());
            object.insert("what".into(), what.as_str().into());
            object.insert("ok".into(), (*held).into());
            self.either(&object, &format!("  {} {what}", if *held { "ok  " } else { "FAIL" }))?;
        }
        let failed = checks.iter().filter(|(_, held)| !held).count();
        if failed == 0 {
            return Ok(());
        }
        let message = format!("{failed} of {} checks did not hold", checks.len());
        Err(Failure::new(libc::EIO, "demo", message).into())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(String, bool)>> {
        self.checks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
