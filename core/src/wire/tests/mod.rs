//! Tests of the codecs: what they share.
//!
//! `gsi.txt` holds packets that Linux sent. Everything random is seeded.

mod framing;
mod messages;

use super::packet::{Packet, parse_packet};
use super::roce::unframe;
use super::*;
use crate::addr::{Gid, ServiceId};

/// What a test can do with a field through its typed accessors. `layout!` makes one per row.
pub(super) struct Handle {
    pub(super) name: &'static str,
    /// Sets the field to a random value and checks that it reads back.
    pub(super) randomize: fn(&mut Mad, &mut Random),
    /// Sets the field to what the getter says of another MAD.
    pub(super) copy: fn(&Mad, &mut Mad),
}

/// A message's table as tests see it.
struct Table {
    attribute: Attribute,
    private_data: usize,
    fields: &'static [super::field::FieldInfo],
    handles: &'static [Handle],
    emit: fn(&mut Mad, u64),
    set_private_data: fn(&mut Mad, &[u8]) -> Result<(), PrivateDataTooLong>,
}

/// All eleven messages.
const TABLES: [Table; 11] = {
    macro_rules! tables {
        ($($Name:ident)*) => {
            [$(Table {
                attribute: $Name::<()>::ATTRIBUTE,
                private_data: $Name::<()>::PRIVATE_DATA,
                fields: $Name::<()>::FIELDS,
                handles: $Name::<()>::HANDLES,
                emit: |mad, transaction_id| { $Name::emit(mad, transaction_id); },
                set_private_data: |mad, data| $Name(mad).set_private_data(data),
            }),*]
        };
    }
    tables! { Req Mra Rej Rep Rtu Dreq Drep SidrReq SidrRep Lap Apr }
};

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

    pub(super) fn octets<const N: usize>(&mut self) -> [u8; N] {
        core::array::from_fn(|_| self.next() as u8)
    }
}

/// Random values no wider than a field.
pub(super) trait Sample {
    fn sample(random: &mut Random, width: usize) -> Self;
}

macro_rules! samples {
    ($($ty:ty: $from:expr;)*) => {$(
        impl Sample for $ty {
            fn sample(random: &mut Random, width: usize) -> $ty {
                let from: fn(u64) -> $ty = $from;
                from(random.next() >> (64 - width))
            }
        }
    )*};
}

samples! {
    bool: |bits| bits == 1;
    u8: |bits| bits as u8;
    u16: |bits| bits as u16;
    u32: |bits| bits as u32;
    u64: |bits| bits;
    ServiceId: ServiceId;
    Attribute: |bits| Attribute(bits as u16);
    RejectReason: |bits| RejectReason(bits as u16);
    MessageKind: |bits| MessageKind(bits as u8);
    SidrStatus: |bits| SidrStatus(bits as u8);
    ApStatus: |bits| ApStatus(bits as u8);
}

impl Sample for Gid {
    fn sample(random: &mut Random, _: usize) -> Gid {
        Gid(random.octets())
    }
}
