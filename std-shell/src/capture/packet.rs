//! From a packet on a link to the UDP datagram for port 4791 in it.
//!
//! Owns the link types; `etherparse` reads VLAN tags, IP and UDP headers. Read first: Annex A17 (RoCEv2).

use std::fmt;
use std::net::IpAddr;

use etherparse::{
    EtherType, Ipv4Header, LaxIpv4Slice, LaxIpv6Slice, LaxNetSlice, LaxSlicedPacket,
    TransportSlice, UdpHeader, UdpSlice, ip_number,
};
use nanocm_core::wire::icrc::Ip;
use nanocm_core::wire::roce::UDP_PORT;

/// What stands at the beginning of the packets of an interface (`LINKTYPE_…`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum LinkType {
    /// Ethernet, with or without VLAN tags.
    Ethernet,
    /// IPv4 or IPv6 at once.
    RawIp,
    /// Linux cooked capture.
    Sll,
    /// Linux cooked capture, version 2 (what `tcpdump -i any` writes).
    Sll2,
    /// One that is not read here, by number.
    Other(u32),
}

impl LinkType {
    pub(super) const fn from_number(number: u32) -> LinkType {
        match number {
            1 => LinkType::Ethernet,
            // What raw IP is called in files differs between systems; 228 and 229 are single families.
            12 | 14 | 101 | 228 | 229 => LinkType::RawIp,
            113 => LinkType::Sll,
            276 => LinkType::Sll2,
            other => LinkType::Other(other),
        }
    }

    pub(super) const fn is_readable(self) -> bool {
        !matches!(self, LinkType::Other(_))
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkType::Ethernet => f.write_str("Ethernet"),
            LinkType::RawIp => f.write_str("raw IP"),
            LinkType::Sll => f.write_str("Linux cooked capture"),
            LinkType::Sll2 => f.write_str("Linux cooked capture v2"),
            LinkType::Other(0) => f.write_str("link type 0 (BSD loopback)"),
            LinkType::Other(105) => f.write_str("link type 105 (IEEE 802.11)"),
            LinkType::Other(127) => f.write_str("link type 127 (IEEE 802.11 with radiotap)"),
            LinkType::Other(247) => f.write_str("link type 247 (InfiniBand)"),
            LinkType::Other(number) => write!(f, "link type {number}"),
        }
    }
}

/// A UDP datagram for port 4791.
pub(super) struct Datagram<'a> {
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    /// The IP header as the ICRC sees it. `None` if it has options or extension headers, or is not
    /// exactly as long as the datagram: our ICRC knows no such packets.
    pub(super) ip: Option<Ip>,
    pub(super) source_port: u16,
    /// As much of the payload as was captured.
    pub(super) payload: &'a [u8],
    /// The payload's length as the UDP header says.
    pub(super) length: usize,
}

/// Why there is no datagram in a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoDatagram {
    /// Another protocol or port; or the headers are cut.
    Other,
    /// A fragment of a UDP datagram.
    Fragment,
}

/// Looks for the datagram in a packet.
pub(super) fn datagram(link: LinkType, octets: &[u8]) -> Result<Datagram<'_>, NoDatagram> {
    let packet = headers(link, octets).ok_or(NoDatagram::Other)?;
    let net = packet.net.as_ref().ok_or(NoDatagram::Other)?;
    let ip_payload = net.ip_payload_ref().ok_or(NoDatagram::Other)?;
    if ip_payload.fragmented && ip_payload.ip_number == ip_number::UDP {
        return Err(NoDatagram::Fragment);
    }
    let Some(TransportSlice::Udp(udp)) = &packet.transport else { return Err(NoDatagram::Other) };
    if udp.destination_port() != UDP_PORT {
        return Err(NoDatagram::Other);
    }
    let (source, destination, ip) = match net {
        LaxNetSlice::Ipv4(packet) => ipv4(packet, udp),
        LaxNetSlice::Ipv6(packet) => ipv6(packet, udp),
        LaxNetSlice::Arp(_) => return Err(NoDatagram::Other),
    };
    let length = usize::from(udp.length()).saturating_sub(UdpHeader::LEN);
    Ok(Datagram {
        source,
        destination,
        ip,
        source_port: udp.source_port(),
        payload: udp.payload().get(..length).unwrap_or(udp.payload()),
        length,
    })
}

fn headers(link: LinkType, octets: &[u8]) -> Option<LaxSlicedPacket<'_>> {
    match link {
        LinkType::Ethernet => LaxSlicedPacket::from_ethernet(octets).ok(),
        LinkType::RawIp => LaxSlicedPacket::from_ip(octets).ok(),
        LinkType::Sll => cooked::<16>(octets, 14),
        LinkType::Sll2 => cooked::<20>(octets, 0),
        LinkType::Other(_) => None,
    }
}

/// Behind a cooked header of `LENGTH` octets that has the Ethernet type at `at`.
fn cooked<const LENGTH: usize>(octets: &[u8], at: usize) -> Option<LaxSlicedPacket<'_>> {
    let (header, rest) = octets.split_first_chunk::<LENGTH>()?;
    let protocol = header.get(at..)?.first_chunk()?;
    let ether_type = EtherType(u16::from_be_bytes(*protocol));
    Some(LaxSlicedPacket::from_ether_type(ether_type, rest))
}

type Addresses = (IpAddr, IpAddr, Option<Ip>);

fn ipv4(packet: &LaxIpv4Slice<'_>, udp: &UdpSlice<'_>) -> Addresses {
    let header = packet.header();
    let (source, destination) = (header.source_addr(), header.destination_addr());
    // With options the packet is longer than that.
    let plain = usize::from(header.total_len()) == Ipv4Header::MIN_LEN + usize::from(udp.length());
    let ip = Ip::V4 {
        source,
        destination,
        id: header.identification(),
        flags_fragment: match header.slice() {
            [_, _, _, _, _, _, high, low, ..] => u16::from_be_bytes([*high, *low]),
            _ => 0,
        },
    };
    (source.into(), destination.into(), plain.then_some(ip))
}

fn ipv6(packet: &LaxIpv6Slice<'_>, udp: &UdpSlice<'_>) -> Addresses {
    let header = packet.header();
    let (source, destination) = (header.source_addr(), header.destination_addr());
    // With extension headers the packet is longer than that.
    let plain = header.payload_length() == udp.length();
    (source.into(), destination.into(), plain.then_some(Ip::V6 { source, destination }))
}
