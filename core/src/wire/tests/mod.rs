//! Tests of the codecs: what they share.
//!
//! `gsi.txt` holds packets that Linux sent. Everything random is seeded.

mod framing;
mod messages;

use super::packet::{Packet, parse_packet};
use super::roce::unframe;
use super::tables::TABLES;
use super::*;
use crate::addr::{Gid, ServiceId};

/// A packet of Linux: which message, and the octets from the IP header on.
struct Captured {
    name: &'static str,
    octets: Vec<u8>,
}

impl Captured {
    fn packet(&self) -> Packet<'_> {
        parse_packet(&self.octets).unwrap()
    }

    fn mad(&self) -> &Mad {
        unframe(self.packet().udp_payload).unwrap().mad
    }
}

fn captured() -> Vec<Captured> {
    include_str!("gsi.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (what, digits) = line.rsplit_once(' ').unwrap();
            Captured { name: what.split(' ').next().unwrap(), octets: hex(digits) }
        })
        .collect()
}

/// The first captured MAD of that name.
fn captured_mad(name: &str) -> Mad {
    *captured().iter().find(|captured| captured.name == name).unwrap().mad()
}

fn hex(digits: &str) -> Vec<u8> {
    let octet = |i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap();
    (0..digits.len()).step_by(2).map(octet).collect()
}

/// SplitMix64.
pub(super) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn bits(&mut self, width: usize) -> u64 {
        self.next() >> (64 - width)
    }

    pub(super) fn octets<const N: usize>(&mut self) -> [u8; N] {
        core::array::from_fn(|_| self.next() as u8)
    }
}
