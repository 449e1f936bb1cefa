//! Whole IP packets, for firmware and raw sockets that write and read their own IP and UDP headers.
//!
//! Read first: Annex A17 (RoCEv2). The UDP checksum is 0 on both families, as every RNIC sends it: the ICRC
//! protects more.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::Mad;
use super::bits::{part, part_mut};
use super::icrc::{Crc, DONT_FRAGMENT, Ip, UDP, UDP_LEN};
use super::roce::{PAYLOAD_LEN, UDP_PORT, frame};
use crate::addr::{Gid, RocePath};

/// Octets of an IPv4 packet around a MAD, from the IP header on.
pub const IPV4_PACKET_LEN: usize = IPV4_LEN + UDP_LEN + PAYLOAD_LEN;
/// Octets of an IPv6 packet around a MAD, from the IP header on.
pub const IPV6_PACKET_LEN: usize = IPV6_LEN + UDP_LEN + PAYLOAD_LEN;

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
/// What a hop limit of 0 in a path stands for.
const DEFAULT_HOP_LIMIT: u8 = 64;

/// Wraps a MAD into a whole packet from `path.local` to `path.remote`; returns the 308 (IPv4) or 328 (IPv6)
/// octets of it.
///
/// `ip_id` is the IPv4 identification. 0 will do, since DF is set.
pub fn frame_packet<'a>(
    path: &RocePath,
    ip_id: u16,
    udp_source_port: u16,
    psn: u32,
    mad: &Mad,
    crc: Crc,
    out: &'a mut [u8; IPV6_PACKET_LEN],
) -> &'a [u8] {
    let hop_limit = if path.hop_limit == 0 { DEFAULT_HOP_LIMIT } else { path.hop_limit };
    let udp = udp_header(udp_source_port);
    match Ip::new(path.local, path.remote) {
        Ip::V4 { source, destination, flags_fragment, .. } => {
            let ip = Ip::V4 { source, destination, id: ip_id, flags_fragment };
            let out = part_mut::<0, IPV4_PACKET_LEN, IPV6_PACKET_LEN>(out);
            *part_mut::<0, IPV4_LEN, IPV4_PACKET_LEN>(out) =
                ipv4_header(source, destination, ip_id, path.traffic_class, hop_limit);
            *part_mut::<IPV4_LEN, UDP_LEN, IPV4_PACKET_LEN>(out) = udp;
            let payload = part_mut::<{ IPV4_LEN + UDP_LEN }, PAYLOAD_LEN, IPV4_PACKET_LEN>(out);
            frame(&ip, udp_source_port, psn, mad, crc, payload);
            out
        }
        ip @ Ip::V6 { source, destination } => {
            *part_mut::<0, IPV6_LEN, IPV6_PACKET_LEN>(out) =
                ipv6_header(source, destination, path.traffic_class, path.flow_label, hop_limit);
            *part_mut::<IPV6_LEN, UDP_LEN, IPV6_PACKET_LEN>(out) = udp;
            let payload = part_mut::<{ IPV6_LEN + UDP_LEN }, PAYLOAD_LEN, IPV6_PACKET_LEN>(out);
            frame(&ip, udp_source_port, psn, mad, crc, payload);
            out
        }
    }
}

/// The IPv4 header of a packet around a MAD: DF, no options, checksum filled in.
pub fn ipv4_header(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    id: u16,
    traffic_class: u8,
    hop_limit: u8,
) -> [u8; 20] {
    let mut header = [0; IPV4_LEN];
    header[0] = 0x45;
    header[1] = traffic_class;
    [header[2], header[3]] = (IPV4_PACKET_LEN as u16).to_be_bytes();
    [header[4], header[5]] = id.to_be_bytes();
    [header[6], header[7]] = DONT_FRAGMENT.to_be_bytes();
    header[8] = hop_limit;
    header[9] = UDP;
    *part_mut::<12, 4, IPV4_LEN>(&mut header) = source.octets();
    *part_mut::<16, 4, IPV4_LEN>(&mut header) = destination.octets();
    [header[10], header[11]] = internet_checksum(&header).to_be_bytes();
    header
}

/// The IPv6 header of a packet around a MAD.
pub fn ipv6_header(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    traffic_class: u8,
    flow_label: u32,
    hop_limit: u8,
) -> [u8; 40] {
    let mut header = [0; IPV6_LEN];
    let first = 6 << 28 | u32::from(traffic_class) << 20 | flow_label & 0xf_ffff;
    *part_mut::<0, 4, IPV6_LEN>(&mut header) = first.to_be_bytes();
    [header[4], header[5]] = ((UDP_LEN + PAYLOAD_LEN) as u16).to_be_bytes();
    header[6] = UDP;
    header[7] = hop_limit;
    *part_mut::<8, 16, IPV6_LEN>(&mut header) = source.octets();
    *part_mut::<24, 16, IPV6_LEN>(&mut header) = destination.octets();
    header
}

/// The UDP header of a packet around a MAD.
pub fn udp_header(source_port: u16) -> [u8; 8] {
    let [s0, s1] = source_port.to_be_bytes();
    let [d0, d1] = UDP_PORT.to_be_bytes();
    let [l0, l1] = ((UDP_LEN + PAYLOAD_LEN) as u16).to_be_bytes();
    [s0, s1, d0, d1, l0, l1, 0, 0]
}

/// A RoCEv2 packet taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Packet<'a> {
    /// What the ICRC covers of the IP header.
    pub ip: Ip,
    /// TOS or traffic class.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Flow label; 0 for IPv4.
    pub flow_label: u32,
    /// UDP source port.
    pub udp_source_port: u16,
    /// From the BTH to the ICRC; for [`unframe`](super::roce::unframe).
    pub udp_payload: &'a [u8],
}

impl Packet<'_> {
    /// The path that an answer takes: from the packet's destination to its source.
    pub fn path(&self) -> RocePath {
        let (source, destination) = match self.ip {
            Ip::V4 { source, destination, .. } => (IpAddr::V4(source), IpAddr::V4(destination)),
            Ip::V6 { source, destination } => (IpAddr::V6(source), IpAddr::V6(destination)),
        };
        let mut path = RocePath::new(Gid::from_ip(destination), Gid::from_ip(source));
        path.traffic_class = self.traffic_class;
        path.flow_label = self.flow_label;
        path
    }
}

/// Takes an IP packet apart. Octets behind the UDP datagram (Ethernet padding) are ignored. The checksums of
/// IP and UDP are not looked at: the ICRC covers what matters.
pub fn parse_packet(packet: &[u8]) -> Result<Packet<'_>, PacketFault> {
    match packet.first().map(|octet| octet >> 4) {
        Some(4) => parse_v4(packet),
        Some(6) => parse_v6(packet),
        Some(version) => Err(PacketFault::IpVersion(version)),
        None => Err(PacketFault::TooShort(0)),
    }
}

/// Why an IP packet is not a RoCEv2 packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PacketFault {
    /// Cut off: this many octets.
    TooShort(usize),
    /// Neither 4 nor 6.
    IpVersion(u8),
    /// IPv4 options, which RoCEv2 does not use; this is the header's length in octets.
    Options(u8),
    /// A fragment.
    Fragment,
    /// Another protocol (or an IPv6 extension header) than UDP.
    Protocol(u8),
    /// Another UDP port than 4791.
    DestinationPort(u16),
    /// A UDP length that cannot be.
    UdpLength(u16),
}

impl fmt::Display for PacketFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PacketFault::TooShort(n) => write!(f, "the packet is cut off after {n} octets"),
            PacketFault::IpVersion(v) => write!(f, "IP version {v}"),
            PacketFault::Options(n) => write!(f, "an IPv4 header of {n} octets, not 20"),
            PacketFault::Fragment => write!(f, "an IPv4 fragment"),
            PacketFault::Protocol(p) => write!(f, "IP protocol {p}, not UDP"),
            PacketFault::DestinationPort(p) => write!(f, "UDP port {p}, not 4791"),
            PacketFault::UdpLength(n) => write!(f, "a UDP length of {n}"),
        }
    }
}

impl core::error::Error for PacketFault {}

fn parse_v4(packet: &[u8]) -> Result<Packet<'_>, PacketFault> {
    let too_short = PacketFault::TooShort(packet.len());
    let (ip, rest) = packet.split_first_chunk::<IPV4_LEN>().ok_or(too_short)?;
    if ip[0] != 0x45 {
        return Err(PacketFault::Options((ip[0] & 0x0f) * 4));
    }
    let flags_fragment = u16::from_be_bytes([ip[6], ip[7]]);
    if flags_fragment & 0x3fff != 0 {
        return Err(PacketFault::Fragment);
    }
    let (udp_source_port, udp_payload) = parse_udp(ip[9], rest, too_short)?;
    Ok(Packet {
        ip: Ip::V4 {
            source: Ipv4Addr::from(*part::<12, 4, IPV4_LEN>(ip)),
            destination: Ipv4Addr::from(*part::<16, 4, IPV4_LEN>(ip)),
            id: u16::from_be_bytes([ip[4], ip[5]]),
            flags_fragment,
        },
        traffic_class: ip[1],
        hop_limit: ip[8],
        flow_label: 0,
        udp_source_port,
        udp_payload,
    })
}

fn parse_v6(packet: &[u8]) -> Result<Packet<'_>, PacketFault> {
    let too_short = PacketFault::TooShort(packet.len());
    let (ip, rest) = packet.split_first_chunk::<IPV6_LEN>().ok_or(too_short)?;
    let (udp_source_port, udp_payload) = parse_udp(ip[6], rest, too_short)?;
    let first = u32::from_be_bytes(*part::<0, 4, IPV6_LEN>(ip));
    Ok(Packet {
        ip: Ip::V6 {
            source: Ipv6Addr::from(*part::<8, 16, IPV6_LEN>(ip)),
            destination: Ipv6Addr::from(*part::<24, 16, IPV6_LEN>(ip)),
        },
        traffic_class: (first >> 20) as u8,
        hop_limit: ip[7],
        flow_label: first & 0xf_ffff,
        udp_source_port,
        udp_payload,
    })
}

/// Source port and payload. The UDP length delimits the packet, not the IP length.
fn parse_udp(
    protocol: u8,
    rest: &[u8],
    too_short: PacketFault,
) -> Result<(u16, &[u8]), PacketFault> {
    if protocol != UDP {
        return Err(PacketFault::Protocol(protocol));
    }
    let (udp, payload) = rest.split_first_chunk::<UDP_LEN>().ok_or(too_short)?;
    let port = u16::from_be_bytes([udp[2], udp[3]]);
    if port != UDP_PORT {
        return Err(PacketFault::DestinationPort(port));
    }
    let length = u16::from_be_bytes([udp[4], udp[5]]);
    let Some(payload_length) = usize::from(length).checked_sub(UDP_LEN) else {
        return Err(PacketFault::UdpLength(length));
    };
    let payload = payload.get(..payload_length).ok_or(too_short)?;
    Ok((u16::from_be_bytes([udp[0], udp[1]]), payload))
}

/// The Internet checksum of a header whose checksum field is zero.
fn internet_checksum(header: &[u8; IPV4_LEN]) -> u16 {
    let sum: u32 =
        header.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}
