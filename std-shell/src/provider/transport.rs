//! The contract: how CM messages (GSI MADs) travel, and what a provider tells about it.
//!
//! Read first: DESIGN §7; IBTA 13 (MADs).

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::BorrowedFd;

use nanocm_core::wire::Mad;
use nanocm_core::wire::icrc::Integrity;
use nanocm_core::wire::packet::PacketFault;
use nanocm_core::wire::roce::FrameFault;
use nanocm_core::{Path, PortEvent, ScopedIp, SendToken};

use super::error::OpenError;

/// Carries GSI MADs.
///
/// A driver waits for [`fd`](Self::fd); when it is readable, it calls [`recv`](Self::recv) until that
/// returns 0, and [`ports`](Self::ports) once. No call blocks. Sockets belong to the network namespace of
/// the thread that calls [`open`](Self::open).
///
/// ```
/// use nanocm::core::{Gid, Path, RocePath, SendToken};
/// use nanocm::provider::{MadTransport, MemNet, Outgoing, Received};
///
/// let net = MemNet::new(1);
/// let [a, b] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
/// let (mut left, mut right) = (net.endpoint(&[a])?, net.endpoint(&[b])?);
/// left.open(a, 0)?;
/// right.open(b, 0)?;
///
/// let path = Path::Roce(RocePath::new(Gid::from_ip(a), Gid::from_ip(b)));
/// let batch = [Outgoing { path, token: SendToken::from_raw(1), mad: [0; 256] }];
/// left.send(&batch, &mut |failure| panic!("{failure}"))?;
///
/// let mut heard = 0;
/// while right.recv(&mut |received| match received {
///     Received::Mad { path, .. } => {
///         assert_eq!(path.remote_gid().to_ip(), a);
///         heard += 1;
///     }
///     other => panic!("{other:?}"),
/// })? > 0
/// {}
/// assert_eq!(heard, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait MadTransport: Send {
    /// Makes an address usable: opens its sockets, unless they are open. An unspecified address stands
    /// for every local address of its family, one socket each, and for those to come.
    ///
    /// Call [`ports`](Self::ports) afterwards: the engine must know an address before an ID can be
    /// bound to it.
    ///
    /// # Errors
    ///
    /// [`OpenError`] names the holder if the address is taken. Nothing is opened then.
    fn open(&mut self, local: IpAddr, scope: u32) -> Result<(), OpenError>;

    /// Tells of the open addresses that came and went since the last call.
    ///
    /// # Errors
    ///
    /// The host's, if it does not tell its addresses.
    fn ports(&mut self, f: &mut dyn FnMut(PortEvent)) -> io::Result<()>;

    /// Hands over one bounded batch of what came in, and returns how many; 0 if nothing is left.
    ///
    /// # Errors
    ///
    /// The host's, if a socket is beyond use. What the network does is never an error.
    fn recv(&mut self, f: &mut dyn FnMut(Received<'_>)) -> io::Result<usize>;

    /// Sends a batch. Returns how many from its beginning are done with: sent, or reported to `failed`.
    /// Fewer than all: the host takes no more now, offer the rest again a little later.
    ///
    /// `failed` may also be called for datagrams of earlier calls, about which the network has
    /// complained since.
    ///
    /// # Errors
    ///
    /// The host's, if a socket is beyond use; of this batch nothing is done then.
    fn send(
        &mut self,
        batch: &[Outgoing],
        failed: &mut dyn FnMut(SendFailure<'_>),
    ) -> io::Result<usize>;

    /// Where a datagram to `destination` would leave this host. Nothing is sent or opened.
    ///
    /// # Errors
    ///
    /// The host's: no route, or `source` is not one of its addresses.
    fn source_for(
        &mut self,
        source: Option<ScopedIp>,
        destination: SocketAddr,
    ) -> io::Result<Source>;

    /// What to poll: readable when [`recv`](Self::recv) or [`ports`](Self::ports) has something. It
    /// stays the same for the provider's life.
    fn fd(&self) -> BorrowedFd<'_>;

    /// What was counted since the provider was made.
    fn counters(&self) -> TransportCounters;

    /// Whose the port numbers of its addresses are, beside RDMA's.
    fn port_home(&self) -> PortHome {
        PortHome::Elsewhere
    }
}

/// Whether the numbers of RDMA's port spaces can, and must, be held in the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortHome {
    /// The addresses are the kernel's: the policies of [`host_ports`](crate::host_ports) apply.
    Host,
    /// The device takes the host's TCP port by itself (soft iWARP): that is the reservation.
    Device,
    /// The kernel does not know the addresses: there is nothing to hold.
    Elsewhere,
}

impl<T: MadTransport + ?Sized> MadTransport for Box<T> {
    fn open(&mut self, local: IpAddr, scope: u32) -> Result<(), OpenError> {
        (**self).open(local, scope)
    }

    fn ports(&mut self, f: &mut dyn FnMut(PortEvent)) -> io::Result<()> {
        (**self).ports(f)
    }

    fn recv(&mut self, f: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        (**self).recv(f)
    }

    fn send(
        &mut self,
        batch: &[Outgoing],
        failed: &mut dyn FnMut(SendFailure<'_>),
    ) -> io::Result<usize> {
        (**self).send(batch, failed)
    }

    fn source_for(
        &mut self,
        source: Option<ScopedIp>,
        destination: SocketAddr,
    ) -> io::Result<Source> {
        (**self).source_for(source, destination)
    }

    fn fd(&self) -> BorrowedFd<'_> {
        (**self).fd()
    }

    fn counters(&self) -> TransportCounters {
        (**self).counters()
    }

    fn port_home(&self) -> PortHome {
        (**self).port_home()
    }
}

/// Something that came in.
#[derive(Clone, Copy, Debug)]
pub enum Received<'a> {
    /// A MAD: for `Cm::handle_datagram`.
    Mad {
        /// Our address that it came to, the sender's, traffic class and hop limit.
        path: Path,
        /// The 256 octets.
        mad: &'a Mad,
        /// `Ok`, or `Unchecked` where the link itself vouches for it. Never `Bad`.
        integrity: Integrity,
    },
    /// A datagram that holds no intact MAD. It is counted; the engine keeps a ledger too.
    Fault {
        /// Our address that it came to, and the sender's.
        path: Path,
        /// What is wrong.
        fault: Fault,
    },
    /// The network could not deliver a datagram of ours: for `Cm::handle_send_failed`.
    SendFailed(SendFailure<'a>),
}

/// Why a datagram was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Fault {
    /// BTH, DETH or length: for `Cm::handle_frame_fault`.
    Frame(FrameFault),
    /// The IP or UDP header, where the provider sees it.
    Packet(PacketFault),
    /// The ICRC does not match: for `Cm::handle_bad_icrc`.
    Icrc,
}

impl From<FrameFault> for Fault {
    fn from(fault: FrameFault) -> Fault {
        Fault::Frame(fault)
    }
}

impl From<PacketFault> for Fault {
    fn from(fault: PacketFault) -> Fault {
        Fault::Packet(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Frame(fault) => fault.fmt(f),
            Fault::Packet(fault) => fault.fmt(f),
            Fault::Icrc => f.write_str("the ICRC does not match"),
        }
    }
}

/// A MAD to send.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing {
    /// From which of our addresses, where to, and how.
    pub path: Path,
    /// Comes back if it cannot be sent.
    pub token: SendToken,
    /// The 256 octets.
    pub mad: Mad,
}

/// A MAD that was not sent, or not delivered.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct SendFailure<'a> {
    /// Where it should have gone.
    pub path: Path,
    /// Its token; `None` if too little of it came back to tell.
    pub token: Option<SendToken>,
    /// As much of the MAD as is known: from Linux hosts all of it comes back.
    pub mad: &'a [u8],
    /// The errno that describes it best.
    pub errno: i32,
    /// Who says so.
    pub cause: FailureCause,
}

/// Who reports that a datagram was not delivered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FailureCause {
    /// This host: it was not sent.
    Host,
    /// An ICMP message. Anybody can forge one: end an attempt for it only if it repeats.
    Icmp {
        /// ICMP or ICMPv6 type.
        kind: u8,
        /// ICMP or ICMPv6 code.
        code: u8,
        /// The host or router that says so, if known.
        reporter: Option<IpAddr>,
    },
}

impl SendFailure<'_> {
    /// Whether the peer's host itself says that no program holds UDP port 4791 there.
    ///
    /// Linux says so at once, but over IPv4 only: an IPv6 datagram without UDP checksum to a closed port
    /// it drops in silence, and RoCE datagrams have none.
    pub fn nothing_answers(&self) -> bool {
        let FailureCause::Icmp { kind, code, .. } = self.cause else { return false };
        let port_unreachable = if self.path.remote_gid().is_v4() { (3, 3) } else { (1, 4) };
        (kind, code) == port_unreachable
    }
}

/// "nothing answers UDP 4791 at 10.0.0.9", or what else is known.
impl fmt::Display for SendFailure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = self.path.remote_gid().to_ip();
        if self.nothing_answers() {
            return write!(f, "nothing answers UDP 4791 at {peer}");
        }
        if (self.cause, self.errno) == (FailureCause::Host, libc::EPERM) {
            return write!(f, "{peer}: this host's firewall forbids UDP 4791");
        }
        write!(f, "{peer}: {}", io::Error::from_raw_os_error(self.errno))?;
        match self.cause {
            FailureCause::Icmp { reporter: Some(reporter), .. } if reporter != peer => {
                write!(f, ", says {reporter}")
            }
            _ => Ok(()),
        }
    }
}

/// What a provider counted. Numbers never go back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TransportCounters {
    /// Intact MADs received.
    pub received: u64,
    /// MADs sent.
    pub sent: u64,
    /// Datagrams lost because the receive buffer was full.
    pub rx_overflow: u64,
    /// Datagrams dropped because their ICRC does not match.
    pub bad_icrc: u64,
    /// Datagrams dropped because they are no framed MAD.
    pub frame_faults: u64,
    /// MADs that the host refused to send.
    pub send_errors: u64,
    /// MADs that the network says it did not deliver.
    pub undelivered: u64,
}

/// Where datagrams to some destination leave the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Source {
    /// The source address.
    pub address: ScopedIp,
    /// The largest IP packet that the route takes, in octets.
    pub mtu: u32,
}

impl Source {
    /// A source address and the MTU of its link.
    pub const fn new(address: ScopedIp, mtu: u32) -> Source {
        Source { address, mtu }
    }

    /// The RDMA path MTU code that fits: 1 = 256 … 5 = 4096 octets. A link too small even for that
    /// gets 1.
    pub const fn path_mtu_code(&self) -> u8 {
        // IPv6, UDP, BTH, the longest extension headers, ICRC (Linux, facts §6.1).
        const HEADERS: u32 = 40 + 8 + 12 + 4 + 28 + 4;
        match self.mtu.saturating_sub(HEADERS) {
            4096.. => 5,
            2048.. => 4,
            1024.. => 3,
            512.. => 2,
            _ => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nanocm_core::Gid;

    #[test]
    fn a_path_mtu_leaves_room_for_the_headers() {
        for (mtu, code) in [
            (0, 1),
            (352, 1),
            (607, 1),
            (608, 2),
            (1119, 2),
            (1120, 3),
            (1500, 3),
            (2143, 3),
            (2144, 4),
            (4191, 4),
            (4192, 5),
            (9000, 5),
            (65_536, 5),
        ] {
            assert_eq!(Source::new(ScopedIp::default(), mtu).path_mtu_code(), code, "{mtu}");
        }
    }

    #[test]
    fn failures_are_told_in_words() {
        let gid = |ip: &str| Gid::from_ip(ip.parse().unwrap());
        let icmp = |kind, code, reporter: &str| FailureCause::Icmp {
            kind,
            code,
            reporter: reporter.parse().ok(),
        };
        let no_route = io::Error::from_raw_os_error(libc::EHOSTUNREACH);
        for (remote, errno, cause, sentence) in [
            (
                "10.0.0.9",
                libc::ECONNREFUSED,
                icmp(3, 3, "10.0.0.9"),
                "nothing answers UDP 4791 at 10.0.0.9",
            ),
            (
                "fd00::9",
                libc::ECONNREFUSED,
                icmp(1, 4, "fd00::9"),
                "nothing answers UDP 4791 at fd00::9",
            ),
            (
                "10.0.0.9",
                libc::EHOSTUNREACH,
                icmp(3, 1, "10.0.0.1"),
                &format!("10.0.0.9: {no_route}, says 10.0.0.1"),
            ),
            (
                "10.0.0.9",
                libc::EPERM,
                FailureCause::Host,
                "10.0.0.9: this host's firewall forbids UDP 4791",
            ),
        ] {
            let path = Path::Roce(nanocm_core::RocePath::new(gid(remote), gid(remote)));
            let failure = SendFailure { path, token: None, mad: &[], errno, cause };
            assert_eq!(failure.to_string(), sentence);
        }
    }
}
