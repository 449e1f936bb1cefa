//! Why an address could not be opened: in words, with the holder, an errno and what to do.
//!
//! Read first: `docs/cli.md` (Providers); field tests, R4 and D1.

use std::error::Error;
use std::fmt;
use std::io;

use nanocm_core::ScopedIp;
use nanocm_core::wire::roce::UDP_PORT;

use super::host::Refusal;
use super::owner::Holder;

/// An address that could not be opened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OpenError {
    /// The address.
    pub address: ScopedIp,
    /// The errno: EADDRINUSE, EADDRNOTAVAIL, EPERM, EOPNOTSUPP, or what the host said.
    pub errno: i32,
    /// Why.
    pub cause: OpenCause,
}

/// Why an address could not be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenCause {
    /// Somebody else has UDP port 4791 there.
    Held(Holder),
    /// It is not an address of this host (or not yet: an IPv6 address is tried for duplicates first).
    NotLocal,
    /// Raw sockets need a capability that this process does not have.
    NoCapability,
    /// A security policy forbids it.
    Denied,
    /// The provider cannot work on this host, or not on this address.
    Refused(Refusal),
    /// No local address of this family.
    NoAddress,
    /// Anything else the host says.
    Host,
}

impl OpenError {
    pub(super) fn new(address: ScopedIp, errno: i32, cause: OpenCause) -> OpenError {
        OpenError { address, errno, cause }
    }

    /// For what a socket call said, where the reason needs no looking up.
    pub(super) fn host(address: ScopedIp, error: &io::Error) -> OpenError {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        let cause = match errno {
            libc::EADDRNOTAVAIL => OpenCause::NotLocal,
            libc::EACCES | libc::EPERM => OpenCause::Denied,
            _ => OpenCause::Host,
        };
        OpenError { address, errno, cause }
    }

    /// For an address where the provider cannot work.
    pub(super) fn refused(address: ScopedIp, refusal: Refusal) -> OpenError {
        match refusal {
            Refusal::SoftRoce => {
                let holder = Holder { kernel: true, uid: Some(0), ..Holder::default() };
                OpenError::new(address, libc::EADDRINUSE, OpenCause::Held(holder))
            }
            _ => OpenError::new(address, libc::EOPNOTSUPP, OpenCause::Refused(refusal)),
        }
    }

    /// The cause in one word, as JSON output has it.
    pub fn cause_name(&self) -> &'static str {
        match &self.cause {
            OpenCause::Held(holder) if holder.kernel => "kernel",
            OpenCause::Held(_) => "held",
            OpenCause::NotLocal => "not-local",
            OpenCause::NoCapability => "privileged",
            OpenCause::Denied => "policy",
            OpenCause::Refused(_) => "unsupported",
            OpenCause::NoAddress => "no-address",
            OpenCause::Host => "host",
        }
    }

    /// Who has it, if that is the cause.
    pub fn holder(&self) -> Option<&Holder> {
        match &self.cause {
            OpenCause::Held(holder) => Some(holder),
            _ => None,
        }
    }

    /// What to do about it.
    pub fn advice(&self) -> Option<&'static str> {
        match &self.cause {
            OpenCause::Held(holder) if holder.kernel => {
                Some("use another network namespace, or unload rdma_rxe")
            }
            OpenCause::Held(_) => Some("stop it, or use another local address"),
            OpenCause::NotLocal => Some("`ip address` shows this host's addresses"),
            OpenCause::NoCapability => {
                Some("run as root, or `setcap cap_net_raw+ep` the program, or use `--provider udp`")
            }
            OpenCause::Denied => {
                Some("look at the policies of SELinux, Landlock and systemd for this program")
            }
            OpenCause::Refused(_) => Some("use an address that is not on a RoCE device"),
            OpenCause::Host | OpenCause::NoAddress => None,
        }
    }
}

/// "UDP 127.0.0.1:4791 is held by nanocm (pid 123): one CM per address", and so on.
impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.address.gid.to_ip();
        let what = self.address.with_port(UDP_PORT);
        match &self.cause {
            OpenCause::Held(holder) => {
                write!(f, "UDP {what} is held by {holder}")?;
                if holder.kernel { Ok(()) } else { f.write_str(": one CM per address") }
            }
            OpenCause::NotLocal => write!(f, "{address} is not an address of this host"),
            OpenCause::NoCapability => {
                write!(f, "raw sockets on {address} need the capability CAP_NET_RAW")
            }
            OpenCause::Denied => write!(f, "a security policy forbids UDP {what}"),
            OpenCause::Refused(refusal) => write!(f, "{address}: {refusal}"),
            OpenCause::NoAddress if self.address.gid.is_v4() => {
                f.write_str("this host has no IPv4 address")
            }
            OpenCause::NoAddress => f.write_str("this host has no IPv6 address"),
            OpenCause::Host => {
                write!(f, "UDP {what}: {}", io::Error::from_raw_os_error(self.errno))
            }
        }
    }
}

impl Error for OpenError {}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> io::Error {
        io::Error::new(io::Error::from_raw_os_error(error.errno).kind(), error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    fn error(address: &str, cause: OpenCause) -> OpenError {
        let address: SocketAddr = address.parse().unwrap();
        OpenError::new(ScopedIp::of(address), libc::EADDRINUSE, cause)
    }

    #[test]
    fn the_sentences_are_the_contracts() {
        let nanocm =
            Holder { pid: Some(123), name: Some("nanocm".into()), uid: Some(0), kernel: false };
        let somebody = Holder { pid: None, name: None, uid: Some(1000), kernel: false };
        let nobody = Holder { pid: None, name: None, uid: None, kernel: false };
        let rxe = Holder { pid: None, name: None, uid: Some(0), kernel: true };
        for (address, cause, sentence) in [
            (
                "127.0.0.1:0",
                OpenCause::Held(nanocm.clone()),
                "UDP 127.0.0.1:4791 is held by nanocm (pid 123): one CM per address",
            ),
            (
                "[::1]:0",
                OpenCause::Held(nanocm),
                "UDP [::1]:4791 is held by nanocm (pid 123): one CM per address",
            ),
            (
                "10.0.0.1:0",
                OpenCause::Held(somebody),
                "UDP 10.0.0.1:4791 is held by a program of user 1000: one CM per address",
            ),
            (
                "10.0.0.1:0",
                OpenCause::Held(nobody),
                "UDP 10.0.0.1:4791 is held by a program that the system does not name: one CM per \
                 address",
            ),
            (
                "10.0.0.1:0",
                OpenCause::Held(rxe),
                "UDP 10.0.0.1:4791 is held by the kernel's Soft-RoCE",
            ),
            ("10.0.0.1:0", OpenCause::NotLocal, "10.0.0.1 is not an address of this host"),
        ] {
            assert_eq!(error(address, cause).to_string(), sentence);
        }
    }

    #[test]
    fn hosts_where_a_socket_is_no_use_are_refused_in_words() {
        let address = ScopedIp::of("10.99.0.1:0".parse().unwrap());
        let soft_roce = OpenError::refused(address, Refusal::SoftRoce);
        assert_eq!(soft_roce.to_string(), "UDP 10.99.0.1:4791 is held by the kernel's Soft-RoCE");
        assert_eq!((soft_roce.errno, soft_roce.cause_name()), (libc::EADDRINUSE, "kernel"));
        let hardware = OpenError::refused(address, Refusal::RoceDevice("mlx5_0".into()));
        assert_eq!(
            hardware.to_string(),
            "10.99.0.1: it is on the RoCE device mlx5_0, which takes UDP 4791 before a socket can \
             hear it"
        );
        assert_eq!((hardware.errno, hardware.cause_name()), (libc::EOPNOTSUPP, "unsupported"));
        for error in [soft_roce, hardware] {
            assert!(error.advice().unwrap().starts_with("use a"));
        }
    }
}
