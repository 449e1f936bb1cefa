//! RoCEv2 GSI over raw IP sockets: needs CAP_NET_RAW, sees IP headers, and checks every ICRC in full.
//!
//! A UDP socket on port 4791 stands beside each raw one and hears nothing: without it the kernel would
//! answer every datagram with ICMP, and with it a second connection manager is refused (field tests, R5).
//! IPv4 headers are ours, with identification 0 and DF; IPv6 headers the kernel writes. Read first: raw(7);
//! field tests, R1 and R5.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use nanocm_core::wire::Mad;
use nanocm_core::wire::icrc::Ip;
use nanocm_core::wire::packet::{
    IPV4_PACKET_LEN, IPV6_PACKET_LEN, PacketFault, frame_packet, parse_packet, udp_header,
};
use nanocm_core::wire::roce::{PAYLOAD_LEN, QP1_SOURCE_PORT, UDP_PORT, frame, source_port};
use nanocm_core::{RocePath, ScopedIp};
use socket2::{Domain, Protocol, Socket, Type};

use crate::crc::crc32;

use super::datagram::{DATA, Slot};
use super::error::{OpenCause, OpenError};
use super::link::{Arrival, HOP_LIMIT, Link, Payload, mark};
use super::roce::{Roce, roce_provider};
use super::sockopt::{self, SocketOption};
use super::transport::Fault;
use super::udp::claim_or_bind;

/// The `raw` provider.
pub struct Raw(Roce<RawLink>);

roce_provider!(Raw, RawLink);

struct RawLink {
    socket: Socket,
    address: ScopedIp,
    /// Holds the port, and hears nothing.
    _sink: Socket,
}

impl Link for RawLink {
    fn open(address: ScopedIp) -> Result<RawLink, OpenError> {
        let domain = Domain::for_address(address.with_port(0));
        let new = Socket::new(domain, Type::RAW.nonblocking(), Some(Protocol::UDP));
        let socket = new.map_err(|error| match error.raw_os_error() {
            Some(errno @ (libc::EPERM | libc::EACCES)) => {
                OpenError::new(address, errno, OpenCause::NoCapability)
            }
            _ => OpenError::host(address, &error),
        })?;
        let sink = claim_or_bind(address, |sink| {
            sockopt::drop_all(sink)?;
            sockopt::set_all(sink, &[(libc::SOL_SOCKET, libc::SO_RCVBUF, 0)])
        })?;
        prepare(&socket, domain, address).map_err(|error| OpenError::host(address, &error))?;
        Ok(RawLink { socket, address, _sink: sink })
    }

    fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn write(&self, slot: &mut Slot, path: &RocePath, psn: u32, mad: &Mad) {
        let port = match path.flow_label {
            0 => QP1_SOURCE_PORT,
            label => source_port(label),
        };
        // The port of a raw socket's address is the protocol, or 0.
        let remote = ScopedIp { gid: path.remote, scope: path.scope }.with_port(0);
        let mut path = *path;
        path.local = self.address.gid;
        if remote.is_ipv4() {
            let out = slot.begin::<IPV6_PACKET_LEN>(remote);
            let length = frame_packet(&path, 0, port, psn, mad, crc32, out).len();
            slot.shorten(length);
        } else {
            let out = slot.begin::<{ UDP_LEN + PAYLOAD_LEN }>(remote);
            if let Some((udp, payload)) = out.split_first_chunk_mut()
                && let Some(payload) = payload.first_chunk_mut()
            {
                *udp = udp_header(port);
                frame(&Ip::new(path.local, path.remote), port, psn, mad, crc32, payload);
            }
            mark(slot, &path);
        }
    }

    fn headers(&self) -> usize {
        if self.address.gid.is_v4() { IPV4_PACKET_LEN - PAYLOAD_LEN } else { UDP_LEN }
    }

    fn read<'a>(&self, slot: &'a Slot) -> Arrival<'a> {
        if !self.address.gid.is_v4() {
            let remote = slot.address().map_or(self.address, ScopedIp::of);
            let ip = Ip::new(remote.gid, self.address.gid);
            return Arrival::of(slot, udp_payload(slot.data(), ip).map_err(Fault::from));
        }
        match parse_packet(slot.data()) {
            Ok(packet) => {
                let payload = Payload {
                    octets: packet.udp_payload,
                    source_port: packet.udp_source_port,
                    ip: Some(packet.ip),
                };
                let mut arrival = Arrival::of(slot, Ok(payload));
                arrival.traffic_class = packet.traffic_class;
                arrival.hop_limit = packet.hop_limit;
                arrival
            }
            Err(fault) => Arrival::of(slot, Err(fault.into())),
        }
    }

    fn returned<'a>(&self, slot: &'a Slot) -> Option<&'a [u8]> {
        let mut octets = slot.data();
        if self.address.gid.is_v4() {
            // It begins with the IP header that we wrote.
            let length = usize::from(octets.first()? & 0x0f) * 4;
            octets = octets.get(length..)?;
        }
        // A raw socket is told of every UDP datagram of this host that comes back.
        let (udp, payload) = octets.split_first_chunk::<UDP_LEN>()?;
        (udp[2..4] == UDP_PORT.to_be_bytes()).then_some(payload)
    }
}

/// Makes a raw socket hear what is meant for `address` and UDP port 4791, and nothing else.
fn prepare(socket: &Socket, domain: Domain, address: ScopedIp) -> io::Result<()> {
    sockopt::keep_udp_port(socket, domain, UDP_PORT)?;
    let options: &[SocketOption] = if address.gid.is_v4() { &OPTIONS_V4 } else { &OPTIONS_V6 };
    sockopt::set_all(socket, options)?;
    sockopt::enlarge_receive_buffer(socket.as_fd())?;
    socket.bind(&address.with_port(0).into())?;
    // What came before filter and address were set can be anything.
    let mut buffer = [std::mem::MaybeUninit::uninit(); DATA];
    while socket.recv(&mut buffer).is_ok() {}
    Ok(())
}

/// What follows a UDP header.
fn udp_payload(datagram: &[u8], ip: Ip) -> Result<Payload<'_>, PacketFault> {
    let too_short = PacketFault::TooShort(datagram.len());
    let (udp, rest) = datagram.split_first_chunk::<UDP_LEN>().ok_or(too_short)?;
    let [s0, s1, d0, d1, l0, l1, _, _] = *udp;
    let port = u16::from_be_bytes([d0, d1]);
    if port != UDP_PORT {
        return Err(PacketFault::DestinationPort(port));
    }
    let length = u16::from_be_bytes([l0, l1]);
    let payload_length = usize::from(length).checked_sub(UDP_LEN);
    let payload_length = payload_length.ok_or(PacketFault::UdpLength(length))?;
    let octets = rest.get(..payload_length).ok_or(too_short)?;
    Ok(Payload { octets, source_port: u16::from_be_bytes([s0, s1]), ip: Some(ip) })
}

const UDP_LEN: usize = 8;

const OPTIONS_V4: [SocketOption; 3] = [
    (libc::IPPROTO_IP, libc::IP_HDRINCL, 1),
    (libc::IPPROTO_IP, libc::IP_RECVERR, 1),
    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
];

const OPTIONS_V6: [SocketOption; 8] = [
    // No UDP checksum is written or asked for. (SOL_RAW takes this option too, and as protocol 17 it is.)
    (libc::IPPROTO_IPV6, libc::IPV6_CHECKSUM, -1),
    (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DO),
    (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, HOP_LIMIT as i32),
    (libc::IPPROTO_IPV6, sockopt::IPV6_AUTOFLOWLABEL, 0),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1),
    (libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1),
    (libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1),
];
