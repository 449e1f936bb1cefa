//! The invariant CRC of RoCEv2: what it covers, CRC-32 with one table, checking it with and without the
//! IP header in sight.
//!
//! Read first: Annex A17 (RoCEv2). The CRC is that of Ethernet over: eight octets of ones, the IP header,
//! the UDP header, the BTH, and all that follows up to the ICRC; fields that routers may change are taken
//! as ones.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::roce::UDP_PORT;
use crate::addr::Gid;

/// CRC-32 (IEEE 802.3) of some pieces put together. [`crc32`] is one; the `crc32fast` crate makes a
/// faster one where there is room for its tables.
pub type Crc = fn(&[&[u8]]) -> u32;

/// The "don't fragment" bit of [`Ip::V4::flags_fragment`](Ip::V4).
pub const DONT_FRAGMENT: u16 = 0x4000;

/// The parts of an IP header that the ICRC covers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Ip {
    /// IPv4, without options.
    V4 {
        /// Source address.
        source: Ipv4Addr,
        /// Destination address.
        destination: Ipv4Addr,
        /// Identification. It must be final before the ICRC is computed.
        id: u16,
        /// Flags and fragment offset; [`DONT_FRAGMENT`] as a rule.
        flags_fragment: u16,
    },
    /// IPv6, without extension headers.
    V6 {
        /// Source address.
        source: Ipv6Addr,
        /// Destination address.
        destination: Ipv6Addr,
    },
}

impl Ip {
    /// Between two GIDs: IPv4 if both are mapped addresses, with identification 0 and DF, which is what
    /// a socket with `IP_PMTUDISC_DO` sends.
    #[inline]
    pub const fn new(source: Gid, destination: Gid) -> Ip {
        match (source.to_ip(), destination.to_ip()) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                Ip::V4 { source, destination, id: 0, flags_fragment: DONT_FRAGMENT }
            }
            _ => Ip::V6 {
                source: Ipv6Addr::from_bits(u128::from_be_bytes(source.0)),
                destination: Ipv6Addr::from_bits(u128::from_be_bytes(destination.0)),
            },
        }
    }
}

/// Whether the ICRC of a frame is right.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Integrity {
    /// It is.
    Ok,
    /// It is not: the frame was damaged on its way.
    Bad,
    /// Nobody can tell: part of what it covers is missing.
    Unchecked,
}

/// The ICRC of a frame. `covered` is the UDP payload without the ICRC, from the BTH on; the destination
/// port is 4791. It travels least significant octet first.
#[inline]
pub fn icrc(ip: &Ip, udp_source_port: u16, covered: &[u8], crc: Crc) -> u32 {
    let Some((bth, rest)) = covered.split_first_chunk::<12>() else {
        return crc(&[covered]);
    };
    let udp_length = (covered.len() + 4 + 8) as u16;
    match *ip {
        Ip::V4 { source, destination, id, flags_fragment } => {
            let mut head = [0xff; 8 + 20 + 8 + 12];
            head[8] = 0x45;
            [head[10], head[11]] = (udp_length.wrapping_add(20)).to_be_bytes();
            [head[12], head[13]] = id.to_be_bytes();
            [head[14], head[15]] = flags_fragment.to_be_bytes();
            head[17] = 17;
            [head[20], head[21], head[22], head[23]] = source.octets();
            [head[24], head[25], head[26], head[27]] = destination.octets();
            if let Some(tail) = head.last_chunk_mut() {
                *tail = udp_and_bth(udp_source_port, udp_length, bth);
            }
            crc(&[&head, rest])
        }
        Ip::V6 { source, destination } => {
            let mut head = [0xff; 8 + 40 + 8 + 12];
            head[8] = 0x6f;
            [head[12], head[13]] = udp_length.to_be_bytes();
            head[14] = 17;
            let addresses = source.octets().into_iter().chain(destination.octets());
            for (to, from) in head.iter_mut().skip(16).zip(addresses) {
                *to = from;
            }
            if let Some(tail) = head.last_chunk_mut() {
                *tail = udp_and_bth(udp_source_port, udp_length, bth);
            }
            crc(&[&head, rest])
        }
    }
}

/// Checks the ICRC at the end of a UDP payload whose IP header is known.
#[inline]
pub fn verify(ip: &Ip, udp_source_port: u16, udp_payload: &[u8], crc: Crc) -> Integrity {
    match udp_payload.split_last_chunk::<4>() {
        Some((covered, stored)) if covered.len() >= 12 => {
            if icrc(ip, udp_source_port, covered, crc) == u32::from_le_bytes(*stored) {
                Integrity::Ok
            } else {
                Integrity::Bad
            }
        }
        _ => Integrity::Unchecked,
    }
}

/// UDP header and BTH, with ones where the ICRC does not look.
#[inline(always)]
fn udp_and_bth(source_port: u16, length: u16, bth: &[u8; 12]) -> [u8; 20] {
    let mut out = [0xff; 20];
    [out[0], out[1]] = source_port.to_be_bytes();
    [out[2], out[3]] = UDP_PORT.to_be_bytes();
    [out[4], out[5]] = length.to_be_bytes();
    if let Some(tail) = out.last_chunk_mut() {
        *tail = *bth;
    }
    out[8 + 4] = 0xff;
    out
}

/// CRC-32 (IEEE 802.3) of the pieces put together, with one table of 1 KiB.
pub fn crc32(pieces: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for piece in pieces {
        let (words, rest) = piece.as_chunks::<4>();
        for word in words {
            crc ^= u32::from_le_bytes(*word);
            crc = step(step(step(step(crc))));
        }
        for octet in rest {
            crc = step(crc ^ u32::from(*octet));
        }
    }
    !crc
}

/// Shifts eight bits out of the register.
#[inline(always)]
const fn step(crc: u32) -> u32 {
    TABLE[crc as u8 as usize] ^ crc >> 8
}

static TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        let mut crc = i as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        table[i] = crc;
        i += 1;
    }
    table
}

/// x³² + x²⁶ + … + 1, least significant bit first.
const POLYNOMIAL: u32 = 0xedb8_8320;
