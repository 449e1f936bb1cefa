//! RoCEv2 GSI over plain UDP sockets on port 4791: no privileges, no hardware.
//!
//! Three things make a plain socket speak RoCEv2. The IPv4 identification is 0, so that the ICRC, which
//! covers it, can be computed: an unconnected socket with `IP_PMTUDISC_DO` does that, and only that; so
//! this socket is never connected, and never segments. The UDP checksum is 0 both ways, or Linux over IPv6
//! is never heard. And there is one socket for each local address, since the source address is in the ICRC,
//! and so that programs with addresses of their own don't meet.
//!
//! Read first: field tests, R1 to R9.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nanocm_core::wire::Mad;
use nanocm_core::wire::icrc::Ip;
use nanocm_core::wire::roce::{PAYLOAD_LEN, UDP_PORT, frame};
use nanocm_core::{RocePath, ScopedIp};
use socket2::{Domain, Protocol, Socket, Type};

use crate::crc::crc32;

use super::activation;
use super::datagram::Slot;
use super::error::{OpenCause, OpenError};
use super::link::{Arrival, HOP_LIMIT, Link, Payload, mark};
use super::owner::Holder;
use super::roce::{Roce, roce_provider};
use super::sockopt::{self, SocketOption};

/// The `udp` provider.
///
/// It refuses addresses on RoCE hardware, and does not work through NAT: the ICRC covers addresses and
/// ports, and answers go to the GIDs in the request.
///
/// ```no_run
/// use nanocm::provider::{MadTransport, Udp};
///
/// let mut udp = Udp::new((0, 0))?;
/// if let Err(error) = udp.open("10.0.0.1".parse()?, 0) {
///     // "UDP 10.0.0.1:4791 is held by nanocm (pid 123): one CM per address"
///     eprintln!("{error}; {}", error.advice().unwrap_or("try later"));
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Udp(Roce<UdpLink>);

roce_provider!(Udp, UdpLink);

pub(super) struct UdpLink {
    socket: Socket,
    address: ScopedIp,
}

impl UdpLink {
    pub(super) fn address(&self) -> ScopedIp {
        self.address
    }
}

impl Link for UdpLink {
    fn open(address: ScopedIp) -> Result<UdpLink, OpenError> {
        let options: &[SocketOption] = if address.gid.is_v4() { &OPTIONS_V4 } else { &OPTIONS_V6 };
        let socket = claim_or_bind(address, |socket| {
            sockopt::set_all(socket, options)?;
            sockopt::enlarge_receive_buffer(socket.as_fd())
        })?;
        Ok(UdpLink { socket, address })
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn write(&self, slot: &mut Slot, path: &RocePath, psn: u32, mad: &Mad) {
        let remote = ScopedIp { gid: path.remote, scope: path.scope }.with_port(UDP_PORT);
        let out = slot.begin::<PAYLOAD_LEN>(remote);
        frame(&Ip::new(self.address.gid, path.remote), UDP_PORT, psn, mad, crc32, out);
        mark(slot, path);
    }

    fn headers(&self) -> usize {
        0
    }

    fn read<'a>(&self, slot: &'a Slot) -> Arrival<'a> {
        let source_port = slot.address().map_or(0, |address| address.port());
        let payload = Payload { octets: slot.data(), source_port, ip: None };
        Arrival::of(slot, Ok(payload))
    }

    fn returned<'a>(&self, slot: &'a Slot) -> Option<&'a [u8]> {
        slot.address().filter(|address| address.port() == UDP_PORT).map(|_| slot.data())
    }
}

/// A socket on UDP port 4791 of an address, the service manager's or a new one. It is prepared before it
/// hears anything.
pub(super) fn claim_or_bind(
    address: ScopedIp,
    prepare: impl Fn(&Socket) -> io::Result<()>,
) -> Result<Socket, OpenError> {
    let name = address.with_port(UDP_PORT);
    let open = || {
        if let Some(socket) = activation::claim(address) {
            prepare(&socket)?;
            return Ok(socket);
        }
        let domain = Domain::for_address(name);
        let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        prepare(&socket)?;
        socket.bind(&name.into())?;
        Ok(socket)
    };
    open().map_err(|error: io::Error| match error.raw_os_error() {
        Some(libc::EADDRINUSE) => {
            let holder = Holder::of_udp(name.ip(), UDP_PORT);
            OpenError::new(address, libc::EADDRINUSE, OpenCause::Held(holder))
        }
        _ => OpenError::host(address, &error),
    })
}

const OPTIONS_V4: [SocketOption; 7] = [
    // Identification 0 and DF (R1).
    (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DO),
    (libc::IPPROTO_IP, libc::IP_TTL, HOP_LIMIT as i32),
    // Checksum 0, as every RNIC sends it.
    (libc::SOL_SOCKET, libc::SO_NO_CHECK, 1),
    // ICMP messages, with the datagram that they are about (R6).
    (libc::IPPROTO_IP, libc::IP_RECVERR, 1),
    (libc::IPPROTO_IP, libc::IP_RECVTOS, 1),
    (libc::IPPROTO_IP, libc::IP_RECVTTL, 1),
    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
];

const OPTIONS_V6: [SocketOption; 9] = [
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, HOP_LIMIT as i32),
    // Flow label 0, which is what Linux sends on queue pair 1.
    (libc::IPPROTO_IPV6, sockopt::IPV6_AUTOFLOWLABEL, 0),
    (libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_TX, 1),
    // Without this nothing that Linux sends over IPv6 is ever heard (R2).
    (libc::IPPROTO_UDP, libc::UDP_NO_CHECK6_RX, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1),
    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
];
