//! Checking an ICRC without having seen the IPv4 identification.
//!
//! The ICRC covers the 16 bits of the IPv4 identification, and a plain UDP socket does not show them. But
//! a CRC is affine: changing bit `j` of the identification flips a fixed set of CRC bits. So the difference
//! between the CRC that came and the CRC for identification 0 names the identification, if there is one at
//! all. For a damaged frame there is one with probability 2⁻¹⁶.
//!
//! Read first: `icrc.rs`.

use core::net::Ipv4Addr;

use super::crc::shift_8;
use super::icrc::{Crc, DONT_FRAGMENT, Integrity, Ip, UDP_LEN, icrc, verify};
use super::roce::{ICRC_LEN, PAYLOAD_LEN};
use crate::addr::Gid;

/// Checks the ICRC at the end of a UDP payload that came through a UDP socket.
///
/// IPv6 is checked fully. For IPv4 identification 0 is tried first, then the identification is solved for;
/// DF is taken for set, as every RoCE sender sets it.
pub fn verify_unseen_id(
    source: Gid,
    destination: Gid,
    udp_source_port: u16,
    udp_payload: &[u8],
    crc: Crc,
) -> Integrity {
    match Ip::new(source, destination) {
        ip @ Ip::V6 { .. } => verify(&ip, udp_source_port, udp_payload, crc),
        Ip::V4 { source, destination, .. } => {
            if Basis::of(udp_payload.len()).is_none() {
                return Integrity::Unchecked;
            }
            let id =
                solve_ip_id(source, destination, DONT_FRAGMENT, udp_source_port, udp_payload, crc);
            if id.is_some() { Integrity::Ok } else { Integrity::Bad }
        }
    }
}

/// The IPv4 identification with which the ICRC at the end of a UDP payload is right. `None` if there is
/// none, or if this is not the length of a GSI frame (280 octets, 284 with immediate data).
pub fn solve_ip_id(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    flags_fragment: u16,
    udp_source_port: u16,
    udp_payload: &[u8],
    crc: Crc,
) -> Option<u16> {
    let basis = Basis::of(udp_payload.len())?;
    let (covered, stored) = udp_payload.split_last_chunk::<ICRC_LEN>()?;
    let ip = Ip::V4 { source, destination, id: 0, flags_fragment };
    match icrc(&ip, udp_source_port, covered, crc) ^ u32::from_le_bytes(*stored) {
        0 => Some(0),
        difference => basis.solve(difference),
    }
}

/// What each bit of the identification does to the CRC, brought into echelon form.
struct Basis([Row; 16]);

/// Flipping the bits `id` of the identification flips the bits `crc` of the CRC. The lowest bit of `crc`
/// is set in no later row.
#[derive(Clone, Copy)]
struct Row {
    crc: u32,
    id: u16,
}

impl Basis {
    const fn of(udp_payload_length: usize) -> Option<&'static Basis> {
        static PLAIN: Basis = Basis::new(PAYLOAD_LEN);
        static IMMEDIATE: Basis = Basis::new(PAYLOAD_LEN + 4);
        match udp_payload_length {
            PAYLOAD_LEN => Some(&PLAIN),
            IMMEDIATE_LEN => Some(&IMMEDIATE),
            _ => None,
        }
    }

    fn solve(&self, difference: u32) -> Option<u16> {
        let (mut rest, mut id) = (difference, 0);
        for row in &self.0 {
            if rest & row.crc & row.crc.wrapping_neg() != 0 {
                rest ^= row.crc;
                id ^= row.id;
            }
        }
        (rest == 0).then_some(id)
    }

    const fn new(udp_payload_length: usize) -> Basis {
        let mut rows = [Row { crc: 0, id: 0 }; 16];
        let mut bit = 0;
        while bit < 16 {
            rows[bit] = Row { crc: effect(1 << bit, udp_payload_length), id: 1 << bit };
            bit += 1;
        }
        let mut pivot = 0;
        while pivot < 16 {
            assert!(rows[pivot].crc != 0, "the bits of the identification are independent");
            let lowest = rows[pivot].crc & rows[pivot].crc.wrapping_neg();
            let mut later = pivot + 1;
            while later < 16 {
                if rows[later].crc & lowest != 0 {
                    rows[later].crc ^= rows[pivot].crc;
                    rows[later].id ^= rows[pivot].id;
                }
                later += 1;
            }
            pivot += 1;
        }
        Basis(rows)
    }
}

const IMMEDIATE_LEN: usize = PAYLOAD_LEN + 4;

/// The CRC bits that these bits of the identification flip.
const fn effect(id: u16, udp_payload_length: usize) -> u32 {
    // From the identification, octet 4 of 20 in the IP header, to the ICRC.
    let octets = (20 - 4) + UDP_LEN + udp_payload_length - ICRC_LEN;
    let [high, low] = id.to_be_bytes();
    let mut crc = 0;
    let mut i = 0;
    while i < octets {
        let octet = match i {
            0 => high,
            1 => low,
            _ => 0,
        };
        crc = shift_8(crc ^ octet as u32);
        i += 1;
    }
    crc
}
