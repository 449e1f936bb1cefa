//! Why a number cannot be held: one cause, one error, in words, with the holder and what to do.
//!
//! Read first: `docs/ports.md`; field tests, H1, H2, H7.

use super::look::{Found, What, is_local, look};
use super::{Number, Space};
use crate::provider::Holder;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::net::SocketAddr;

/// A number that cannot be held.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PortError {
    /// Which.
    pub number: Number,
    /// The errno: EADDRINUSE, EAGAIN, EADDRNOTAVAIL, EMFILE, EACCES…
    pub errno: i32,
    /// Why.
    pub cause: PortCause,
}

/// Why a number cannot be held.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PortCause {
    /// A program listens there (UDP: has it).
    Listener(Box<Found>),
    /// Connections of a service that has ended, or what is left of them; it did not set
    /// SO_REUSEADDR.
    Remnants(Box<Found>),
    /// It is the source port of an outgoing connection.
    SourcePort(Box<Found>),
    /// A socket holds it that does not listen; who, where the system tells.
    Reservation(Option<Box<Found>>),
    /// The kernel itself listens there.
    Kernel(Box<Found>),
    /// Another RDMA identifier of this connection manager has it.
    RdmaId,
    /// The TCP side of a shared number listens already.
    Listening,
    /// The number counts on the socket of a wider address, which would serve all of those.
    Wider {
        /// The number of that socket.
        on: Box<Number>,
    },
    /// It is below `ip_unprivileged_port_start`.
    Privileged {
        /// The first number that needs no privilege.
        start: u16,
    },
    /// A security policy forbids it.
    Policy,
    /// The address is not this host's.
    NotLocal,
    /// This process, or the system, has no descriptor left.
    Descriptors,
    /// None of the range was free.
    Exhausted {
        /// The range to choose from.
        range: (u16, u16),
    },
    /// As many numbers of the range are held as may be.
    HostShare {
        /// So many.
        limit: u16,
        /// The host's ephemeral range.
        range: (u16, u16),
    },
    /// Anything else the host says.
    Host,
}

/// What a socket call said, explained.
pub(super) fn refused(number: &Number, error: &io::Error) -> PortError {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let cause = match errno {
        libc::EADDRINUSE => in_the_way(number),
        libc::EACCES | libc::EPERM => denied(number),
        libc::EADDRNOTAVAIL => PortCause::NotLocal,
        libc::EMFILE | libc::ENFILE => PortCause::Descriptors,
        // A link-local address of an interface that has none, or of no interface.
        libc::EINVAL | libc::ENODEV if !is_local(number.local) => PortCause::NotLocal,
        _ => PortCause::Host,
    };
    let errno = if cause == PortCause::NotLocal { libc::EADDRNOTAVAIL } else { errno };
    PortError::new(number, errno, cause)
}

fn in_the_way(number: &Number) -> PortCause {
    let Some(found) = look(number).into_iter().next() else { return PortCause::Reservation(None) };
    let (what, found) = (found.what, Box::new(found));
    match what {
        What::Listener => PortCause::Listener(found),
        What::Kernel => PortCause::Kernel(found),
        What::Reservation | What::Bound => PortCause::Reservation(Some(found)),
        What::SourcePort => PortCause::SourcePort(found),
        What::Remnant => PortCause::Remnants(found),
    }
}

fn denied(number: &Number) -> PortCause {
    let start = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let start = start.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(1024);
    // Any port is never one of those.
    let privileged = (1..start).contains(&number.port);
    if privileged { PortCause::Privileged { start } } else { PortCause::Policy }
}

impl PortError {
    pub(crate) fn new(number: &Number, errno: i32, cause: PortCause) -> PortError {
        PortError { number: *number, errno, cause }
    }

    /// The cause in one word, as JSON output has it.
    pub fn cause_name(&self) -> &'static str {
        match &self.cause {
            PortCause::Listener(_) | PortCause::Listening => "listener",
            PortCause::Remnants(_) => "remnants",
            PortCause::SourcePort(_) => "source-port",
            PortCause::Reservation(_) => "reservation",
            PortCause::Kernel(_) => "kernel",
            PortCause::RdmaId | PortCause::Wider { .. } => "rdma-id",
            PortCause::Privileged { .. } => "privileged",
            PortCause::Policy => "policy",
            PortCause::NotLocal => "not-local",
            PortCause::Descriptors => "descriptors",
            PortCause::Exhausted { .. } => "exhausted",
            PortCause::HostShare { .. } => "host-share",
            PortCause::Host => "host",
        }
    }

    /// Who has it, as far as the system tells.
    pub fn holder(&self) -> Option<&Holder> {
        self.found().map(|found| &found.holder).filter(|holder| **holder != Holder::default())
    }

    /// What is in the way.
    pub fn found(&self) -> Option<&Found> {
        match &self.cause {
            PortCause::Listener(found)
            | PortCause::Remnants(found)
            | PortCause::SourcePort(found)
            | PortCause::Kernel(found)
            | PortCause::Reservation(Some(found)) => Some(found),
            _ => None,
        }
    }

    /// What to do about it.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match &self.cause {
            PortCause::Listener(_) => {
                "stop it, use another port, or let both services share the number (docs/ports.md)"
            }
            PortCause::Remnants(found) | PortCause::SourcePort(found) if !found.is_certain => {
                "whether it is a service's connection or an outgoing one nobody can tell: a service \
                 that sets SO_REUSEADDR does not leave this behind, and `sysctl \
                 net.ipv4.ip_local_reserved_ports` keeps a number from being a source port; it is \
                 free when the connection has ended, in at most 60 s if it has"
            }
            PortCause::Remnants(found) if found.holder.pid.is_some() => {
                "wait until its connections have ended; a service that sets SO_REUSEADDR does \
                 not leave this behind"
            }
            PortCause::Remnants(_) => {
                "it is free in at most 60 s; a service that sets SO_REUSEADDR does not leave \
                 this behind"
            }
            PortCause::SourcePort(_) => {
                "use a port below the ephemeral range, or keep this one out of it with \
                 `sysctl net.ipv4.ip_local_reserved_ports`"
            }
            PortCause::Reservation(Some(_)) => "stop it, or use another port",
            PortCause::Reservation(None) => {
                "use another port; sockets that do not listen are shown by no tool before Linux 6.8, \
                 and by `ss -tan` not even later"
            }
            PortCause::Kernel(_) => {
                "use another port: it is perhaps an RDMA listener on soft iWARP, or a server of \
                 the kernel's"
            }
            PortCause::RdmaId => "use another port; 0 stands for any",
            PortCause::Listening => "drop the listener there is",
            PortCause::Wider { .. } => {
                "let the identifier on the wider address have the TCP side, or use another port"
            }
            PortCause::Privileged { .. } => {
                "run as root, or `setcap cap_net_bind_service+ep` the program, or lower \
                 `sysctl net.ipv4.ip_unprivileged_port_start`"
            }
            PortCause::Policy => {
                "look at the policies of SELinux, Landlock, systemd and BPF for this program"
            }
            PortCause::NotLocal => "`ip address` shows this host's addresses",
            PortCause::Descriptors => {
                "raise RLIMIT_NOFILE (`ulimit -n`): each number held takes one"
            }
            PortCause::Exhausted { .. } => {
                "widen the range: `sysctl net.ipv4.ip_local_port_range`, or the one that was set"
            }
            PortCause::HostShare { .. } => {
                "raise host_share, use explicit ports outside the range, or `--ports independent`"
            }
            PortCause::Host => return None,
        })
    }
}

/// "TCP 127.0.0.1:5001 is held by iperf (pid 4242), which listens on 0.0.0.0:5001", and so on.
impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.number.address();
        let space = if self.number.space == Space::Tcp { "TCP" } else { "UDP" };
        let remote = |found: &Found| found.remote.unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
        match &self.cause {
            PortCause::Listener(found) => {
                let verb = if self.number.space == Space::Tcp { "listens on" } else { "has" };
                write!(
                    f,
                    "{space} {address} is held by {}, which {verb} {}",
                    found.holder, found.local
                )
            }
            PortCause::Remnants(found) => {
                write!(
                    f,
                    "{space} {address} is not free yet: a connection of an earlier service, to {}",
                    remote(found)
                )?;
                of_process(f, &found.holder)
            }
            PortCause::SourcePort(found) => {
                write!(
                    f,
                    "{space} {address} is the source port of an outgoing connection to {}",
                    remote(found)
                )?;
                of_process(f, &found.holder)
            }
            PortCause::Reservation(Some(found)) => {
                write!(
                    f,
                    "{space} {address} is reserved by {}, which does not listen there",
                    found.holder
                )
            }
            PortCause::Reservation(None) => {
                write!(
                    f,
                    "{space} {address} is reserved by a program that the system does not name"
                )
            }
            PortCause::Kernel(found) => {
                write!(
                    f,
                    "{space} {address} is held inside the kernel, which listens on {}",
                    found.local
                )
            }
            PortCause::RdmaId => write!(f, "{space} {address} is in use by another RDMA ID"),
            PortCause::Listening => write!(f, "{space} {address} has a TCP listener already"),
            PortCause::Wider { on } => write!(
                f,
                "{space} {address} has no socket of its own: that of {} holds it, and a listener on \
                 that would serve every address",
                on.address()
            ),
            PortCause::Privileged { start } => {
                write!(f, "{space} {address} needs privileges, as all ports below {start}")
            }
            PortCause::Policy => write!(f, "a security policy forbids {space} {address}"),
            PortCause::NotLocal => write!(f, "{} is not an address of this host", address.ip()),
            PortCause::Descriptors => {
                write!(f, "no descriptor is left to hold {space} {address} with")
            }
            PortCause::Exhausted { range: (low, high) } => {
                write!(
                    f,
                    "{space} ports exhausted: none of {low} to {high} is free on {}",
                    address.ip()
                )
            }
            PortCause::HostShare { limit, range: (low, high) } => write!(
                f,
                "{space} ports exhausted: {limit} of {low} to {high} are held, as many as host_share \
                 allows, for the host's own connections need the others"
            ),
            PortCause::Host => {
                write!(f, "{space} {address}: {}", io::Error::from_raw_os_error(self.errno))
            }
        }
    }
}

fn of_process(f: &mut fmt::Formatter<'_>, holder: &Holder) -> fmt::Result {
    if *holder == Holder::default() { Ok(()) } else { write!(f, ", of {holder}") }
}

impl Error for PortError {}
