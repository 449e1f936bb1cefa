//! The invariant CRC of RoCEv2: what it covers, how it is made and checked.
//!
//! Read first: Annex A17 (RoCEv2). The CRC is that of Ethernet over: eight octets of ones, the IP header,
//! the UDP header, the BTH, and all that follows up to the ICRC; fields that routers may change are taken
//! as ones.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::bits::part_mut;
use super::roce::{BTH_LEN, ICRC_LEN, UDP_PORT};
use crate::addr::Gid;

pub use super::crc::crc32;
pub use super::ip_id::{solve_ip_id, verify_unseen_id};

/// CRC-32 (IEEE 802.3) of some pieces put together. [`crc32`] is one; the `crc32fast` crate makes a
/// faster one where there is room for its tables.
pub type Crc = fn(&[&[u8]]) -> u32;

/// The "don't fragment" bit of [`Ip::V4::flags_fragment`](Ip::V4).
pub const DONT_FRAGMENT: u16 = 0x4000;

/// The protocol number of UDP.
pub(super) const UDP: u8 = 17;
pub(super) const UDP_LEN: usize = 8;

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
pub fn icrc(ip: &Ip, udp_source_port: u16, covered: &[u8], crc: Crc) -> u32 {
    let Some((bth, rest)) = covered.split_first_chunk() else {
        return crc(&[covered]);
    };
    let udp_length = (covered.len() + ICRC_LEN + UDP_LEN) as u16;
    // UDP header and BTH stand at the end; before them the IP header, and eight octets of ones.
    let mut head = [0xff; HEAD_LEN];
    *part_mut::<UDP_AT, 2, HEAD_LEN>(&mut head) = udp_source_port.to_be_bytes();
    *part_mut::<{ UDP_AT + 2 }, 2, HEAD_LEN>(&mut head) = UDP_PORT.to_be_bytes();
    *part_mut::<{ UDP_AT + 4 }, 2, HEAD_LEN>(&mut head) = udp_length.to_be_bytes();
    *part_mut::<BTH_AT, BTH_LEN, HEAD_LEN>(&mut head) = *bth;
    head[BTH_AT + 4] = 0xff;
    let unused = match *ip {
        Ip::V4 { source, destination, id, flags_fragment } => {
            let ip = part_mut::<{ UDP_AT - 20 }, 20, HEAD_LEN>(&mut head);
            ip[0] = 0x45;
            *part_mut::<2, 2, 20>(ip) = udp_length.wrapping_add(20).to_be_bytes();
            *part_mut::<4, 2, 20>(ip) = id.to_be_bytes();
            *part_mut::<6, 2, 20>(ip) = flags_fragment.to_be_bytes();
            ip[9] = UDP;
            *part_mut::<12, 4, 20>(ip) = source.octets();
            *part_mut::<16, 4, 20>(ip) = destination.octets();
            20
        }
        Ip::V6 { source, destination } => {
            let ip = part_mut::<{ UDP_AT - 40 }, 40, HEAD_LEN>(&mut head);
            ip[0] = 0x6f;
            *part_mut::<4, 2, 40>(ip) = udp_length.to_be_bytes();
            ip[6] = UDP;
            *part_mut::<8, 16, 40>(ip) = source.octets();
            *part_mut::<24, 16, 40>(ip) = destination.octets();
            0
        }
    };
    crc(&[&head[unused..], rest])
}

const UDP_AT: usize = 8 + 40;
const BTH_AT: usize = UDP_AT + UDP_LEN;
const HEAD_LEN: usize = BTH_AT + BTH_LEN;

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
