//! RoCEv2 framing of GSI datagrams: 280 octets of UDP payload around a MAD.
//!
//! Read first: Annex A17 (RoCEv2). What is dropped and what is let through is what Linux's Soft-RoCE does
//! (Linux, facts §6.3), except that a MAD must have 256 octets.
//!
//! ```
//! use nanocm_core::addr::Gid;
//! use nanocm_core::wire::icrc::{Integrity, Ip, crc32, verify};
//! use nanocm_core::wire::roce::{PAYLOAD_LEN, QP1_SOURCE_PORT, frame, unframe};
//!
//! let [us, peer] = ["10.0.0.1", "10.0.0.2"].map(|ip| Gid::from_ip(ip.parse().unwrap()));
//! let (ip, mad) = (Ip::new(us, peer), [0; 256]);
//! let mut udp_payload = [0; PAYLOAD_LEN];
//! frame(&ip, QP1_SOURCE_PORT, 0, &mad, crc32, &mut udp_payload);
//!
//! assert_eq!(unframe(&udp_payload).unwrap().mad, &mad);
//! assert_eq!(verify(&ip, QP1_SOURCE_PORT, &udp_payload, crc32), Integrity::Ok);
//! ```

use core::fmt;

use super::bits::{part, part_mut};
use super::icrc::{Crc, Ip, icrc};
use super::{MAD_LEN, Mad};

/// The UDP port of RoCEv2.
pub const UDP_PORT: u16 = 4791;
/// Octets of UDP payload around a MAD: BTH 12, DETH 8, MAD 256, ICRC 4.
pub const PAYLOAD_LEN: usize = 280;
/// The UDP source port that Linux's Soft-RoCE gives to queue pair 1.
pub const QP1_SOURCE_PORT: u16 = 55410;

/// UD SEND only.
const OPCODE_SEND: u8 = 0x64;
/// UD SEND only with immediate data.
const OPCODE_SEND_IMMEDIATE: u8 = 0x65;
const DEFAULT_P_KEY: u16 = 0xffff;
/// The Q_Key of every port's queue pair 1.
const GSI_Q_KEY: u32 = 0x8001_0000;
const GSI_QPN: u32 = 1;
pub(super) const BTH_LEN: usize = 12;
const DETH_LEN: usize = 8;
pub(super) const ICRC_LEN: usize = 4;
const COVERED_LEN: usize = PAYLOAD_LEN - ICRC_LEN;

/// The UDP source port that a flow label stands for (RoCEv2 entropy; Linux, facts §6.1).
pub const fn source_port(flow_label: u32) -> u16 {
    ((flow_label & 0x3fff) ^ (flow_label >> 14 & 0x3f)) as u16 | 0xc000
}

/// Wraps a MAD. `ip` and `udp_source_port` must be those it will travel with, since the ICRC covers them.
pub fn frame(
    ip: &Ip,
    udp_source_port: u16,
    psn: u32,
    mad: &Mad,
    crc: Crc,
    out: &mut [u8; PAYLOAD_LEN],
) {
    let [_, s0, s1, s2] = psn.to_be_bytes();
    let [p0, p1] = DEFAULT_P_KEY.to_be_bytes();
    let [q0, q1, q2, q3] = GSI_Q_KEY.to_be_bytes();
    // AckReq (0x80) means nothing on an unreliable datagram; it is what Linux sends.
    *part_mut::<0, BTH_LEN, PAYLOAD_LEN>(out) =
        [OPCODE_SEND, 0, p0, p1, 0, 0, 0, 1, 0x80, s0, s1, s2];
    *part_mut::<BTH_LEN, DETH_LEN, PAYLOAD_LEN>(out) = [q0, q1, q2, q3, 0, 0, 0, 1];
    *part_mut::<20, MAD_LEN, PAYLOAD_LEN>(out) = *mad;
    let crc = icrc(ip, udp_source_port, part::<0, COVERED_LEN, PAYLOAD_LEN>(out), crc);
    *part_mut::<COVERED_LEN, ICRC_LEN, PAYLOAD_LEN>(out) = crc.to_le_bytes();
}

/// A GSI datagram taken out of its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Gsi<'a> {
    /// The MAD.
    pub mad: &'a Mad,
    /// The ICRC that came with it; [`verify`](super::icrc::verify) says whether it is right.
    pub icrc: u32,
    /// Packet sequence number, without meaning here.
    pub psn: u32,
    /// P_Key: 0xFFFF, or 0x7FFF from a limited member.
    pub pkey: u16,
    /// The sender's queue pair: 1, but others are answered too.
    pub source_qpn: u32,
    /// Immediate data, if the sender used that opcode.
    pub immediate: Option<u32>,
}

/// Takes the MAD out of a UDP payload. The ICRC is not checked here.
pub fn unframe(udp_payload: &[u8]) -> Result<Gsi<'_>, FrameFault> {
    let too_short = FrameFault::TooShort(udp_payload.len());
    let (bth, rest) = udp_payload.split_first_chunk::<BTH_LEN>().ok_or(too_short)?;
    let has_immediate = match bth[0] {
        OPCODE_SEND => false,
        OPCODE_SEND_IMMEDIATE => true,
        other => return Err(FrameFault::Opcode(other)),
    };
    let (deth, rest) = rest.split_first_chunk::<DETH_LEN>().ok_or(too_short)?;
    let (immediate, rest) = if has_immediate {
        let (immediate, rest) = rest.split_first_chunk().ok_or(too_short)?;
        (Some(u32::from_be_bytes(*immediate)), rest)
    } else {
        (None, rest)
    };
    let (body, stored) = rest.split_last_chunk::<ICRC_LEN>().ok_or(too_short)?;

    let version = bth[1] & 0x0f;
    if version != 0 {
        return Err(FrameFault::TransportVersion(version));
    }
    let destination_qpn = u32::from_be_bytes([0, bth[5], bth[6], bth[7]]);
    if destination_qpn != GSI_QPN {
        return Err(FrameFault::DestinationQpn(destination_qpn));
    }
    let pkey = u16::from_be_bytes([bth[2], bth[3]]);
    if pkey & 0x7fff != DEFAULT_P_KEY & 0x7fff {
        return Err(FrameFault::PKey(pkey));
    }
    let qkey = u32::from_be_bytes([deth[0], deth[1], deth[2], deth[3]]);
    if qkey != GSI_Q_KEY {
        return Err(FrameFault::QKey(qkey));
    }
    let padding = bth[1] >> 4 & 3;
    if padding != 0 {
        return Err(FrameFault::Padding(padding));
    }
    Ok(Gsi {
        mad: body.try_into().map_err(|_| FrameFault::MadLength(body.len()))?,
        icrc: u32::from_le_bytes(*stored),
        psn: u32::from_be_bytes([0, bth[9], bth[10], bth[11]]),
        pkey,
        source_qpn: u32::from_be_bytes([0, deth[5], deth[6], deth[7]]),
        immediate,
    })
}

/// Why a UDP payload is not a GSI datagram for us. The checks are made in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FrameFault {
    /// No room for the headers and the ICRC in this many octets.
    TooShort(usize),
    /// Not UD SEND only, with or without immediate data.
    Opcode(u8),
    /// Another transport version than 0.
    TransportVersion(u8),
    /// Another destination than queue pair 1.
    DestinationQpn(u32),
    /// Not the default partition.
    PKey(u16),
    /// Not the Q_Key of queue pair 1.
    QKey(u32),
    /// Octets of padding: a MAD needs none.
    Padding(u8),
    /// This many octets where a MAD should be.
    MadLength(usize),
}

impl fmt::Display for FrameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FrameFault::TooShort(n) => write!(f, "{n} octets are too short for a GSI datagram"),
            FrameFault::Opcode(o) => write!(f, "opcode {o:#04x} is not UD SEND"),
            FrameFault::TransportVersion(v) => write!(f, "transport version {v}, not 0"),
            FrameFault::DestinationQpn(q) => write!(f, "destination QPN {q:#x}, not 1"),
            FrameFault::PKey(p) => write!(f, "P_Key {p:#06x} is not the default partition's"),
            FrameFault::QKey(q) => write!(f, "Q_Key {q:#010x}, not 0x80010000"),
            FrameFault::Padding(n) => write!(f, "{n} octets of padding"),
            FrameFault::MadLength(n) => write!(f, "a MAD has 256 octets, not {n}"),
        }
    }
}

impl core::error::Error for FrameFault {}
