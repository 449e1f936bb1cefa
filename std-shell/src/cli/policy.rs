//! `--ports`: where the port numbers of `listen` and `connect` come from.
//!
//! Owns the system calls for an inherited descriptor, and so some `unsafe`.

use super::args::Address;
use super::output::{Failure, Stop, errno, errno_of, words};
use nanocm::host_ports::{HostPortConfig, PortPolicy};
use nanocm::{Cm, PortSpace};
use socket2::{SockRef, Socket, Type};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, FromRawFd, RawFd};
use std::str::FromStr;

/// As on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ports {
    /// Every number is held in the host's port space too.
    Host,
    /// RDMA has numbers of its own.
    Independent,
    /// The number of a TCP socket that we were started with.
    SharedFd(RawFd),
}

impl FromStr for Ports {
    type Err = String;

    fn from_str(text: &str) -> Result<Ports, String> {
        match text {
            "host" => Ok(Ports::Host),
            "independent" => Ok(Ports::Independent),
            _ => {
                let number = text
                    .strip_prefix("shared-fd")
                    .and_then(|rest| rest.strip_prefix([' ', ':', '=']));
                let number = number.and_then(|digits| digits.parse().ok()).filter(|fd| *fd >= 0);
                number.map(Ports::SharedFd).ok_or_else(|| {
                    "expected host, independent or shared-fd N, the number of a descriptor".into()
                })
            }
        }
    }
}

/// `--ports shared-fd 3` is one value, of two words.
pub(crate) fn join(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut joined: Vec<OsString> = Vec::new();
    for argument in arguments {
        let digits = argument.to_str().is_some_and(|a| a.parse::<u32>().is_ok());
        let after = |n: usize| joined.len().checked_sub(n).and_then(|i| joined[i].to_str());
        let open = after(1) == Some("shared-fd") && after(2) == Some("--ports");
        let open = open || after(1) == Some("--ports=shared-fd");
        match joined.last_mut() {
            Some(last) if open && digits => {
                last.push(" ");
                last.push(argument);
            }
            _ => joined.push(argument),
        }
    }
    joined
}

pub(crate) fn apply(ports: Option<Ports>, cm: &Cm) {
    match ports {
        None => {}
        Some(Ports::Host) => cm.host_ports().set_config(HostPortConfig::all(PortPolicy::Host)),
        // The socket holds the number already.
        Some(Ports::Independent | Ports::SharedFd(_)) => {
            cm.host_ports().set_config(HostPortConfig::all(PortPolicy::Independent));
        }
    }
}

/// The socket of `shared-fd`. Call it before anything else opens descriptors.
pub(crate) fn take_shared(ports: Option<Ports>) -> Result<Option<Socket>, Stop> {
    let Some(Ports::SharedFd(fd)) = ports else { return Ok(None) };
    let failed = |error: std::io::Error| {
        let message = format!("descriptor {fd} can't be used: {}", words(&error));
        Failure::new(errno_of(&error), "shared-fd", message)
    };
    // SAFETY: a number; without descriptor it is refused.
    if unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
        return Err(failed(std::io::Error::last_os_error()).into());
    }
    // SAFETY: it is open, and stays so.
    let lent = unsafe { BorrowedFd::borrow_raw(fd) };
    // What is no socket may be our standard output: it is not ours to close.
    let is_tcp = SockRef::from(&lent).r#type().map_err(failed)? == Type::STREAM;
    match SockRef::from(&lent).local_addr().map_err(failed)?.as_socket() {
        Some(address) if is_tcp && address.port() != 0 => {
            // SAFETY: it is open, and nobody else in this program has it: what we open ourselves
            // comes later.
            Ok(Some(unsafe { Socket::from_raw_fd(fd) }))
        }
        _ => {
            let message = format!("descriptor {fd} is no TCP socket that is bound to a port");
            Err(Failure::new(errno::EINVAL, "shared-fd", message).into())
        }
    }
}

/// A TCP socket has TCP's numbers.
pub(crate) fn check_space(ports: Option<Ports>, space: PortSpace) -> Result<(), Stop> {
    if !matches!(ports, Some(Ports::SharedFd(_))) || space != PortSpace::Udp {
        return Ok(());
    }
    let message = "a TCP socket has no number for datagram services".to_owned();
    Err(Failure::new(errno::EINVAL, "shared-fd", message).into())
}

/// Where to listen: the shared socket's address, if there is one.
pub(crate) fn address(told: SocketAddr, shared: Option<&Socket>) -> Result<SocketAddr, Stop> {
    let Some(shared) = shared.and_then(bound) else { return Ok(told) };
    if told.ip().to_canonical() == shared.ip().to_canonical()
        && [0, shared.port()].contains(&told.port())
    {
        return Ok(shared);
    }
    let message = format!("the shared socket is bound to {shared}, not to {told}");
    Err(Failure::new(errno::EINVAL, "shared-fd", message).into())
}

/// Where to connect from, likewise; of a wildcard socket the number counts.
pub(crate) fn source(
    told: Option<Address>,
    shared: Option<&Socket>,
) -> Result<Option<Address>, Stop> {
    let Some(bound) = shared.and_then(bound) else { return Ok(told) };
    match told {
        None => Ok(Some(Address::Ip(bound))),
        Some(Address::Ip(told)) if bound.ip().is_unspecified() && told.port() == 0 => {
            Ok(Some(Address::Ip(SocketAddr::new(told.ip(), bound.port()))))
        }
        Some(Address::Ip(told)) => Ok(Some(Address::Ip(address(told, shared)?))),
        gid => Ok(gid),
    }
}

fn bound(socket: &Socket) -> Option<SocketAddr> {
    socket.local_addr().ok()?.as_socket()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_a_second_word() {
        let joined = |text: &str| {
            let all = join(text.split(' ').map(OsString::from));
            all.into_iter().map(|a| a.into_string().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(
            joined("listen --ports shared-fd 3 1.2.3.4:5"),
            ["listen", "--ports", "shared-fd 3", "1.2.3.4:5"]
        );
        assert_eq!(joined("listen --ports=shared-fd 3"), ["listen", "--ports=shared-fd 3"]);
        assert_eq!(joined("listen --ports host 3"), ["listen", "--ports", "host", "3"]);
        assert_eq!("shared-fd 3".parse(), Ok(Ports::SharedFd(3)));
        assert_eq!("shared-fd:12".parse(), Ok(Ports::SharedFd(12)));
        for wrong in ["shared-fd", "shared-fd x", "shared-fd -1", "shared", "Host", ""] {
            assert!(wrong.parse::<Ports>().unwrap_err().contains("shared-fd N"), "{wrong}");
        }
    }
}
