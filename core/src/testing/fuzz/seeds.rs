//! Seeds: what Linux sent, and scripts.

use super::corpus::Named;
use crate::hash::{Key, Rng};
use crate::wire::tables::TABLES;

/// The seeds of a target.
pub(super) fn of(target: &str) -> Vec<Named> {
    match target {
        "wire_parse" => packets().into_iter().chain(payloads()).chain(mads()).collect(),
        "wire_round_trip" => mads(),
        "frame" => packets().into_iter().chain(payloads()).collect(),
        "ports" => (0..8).map(|seed| (format!("random-{seed}"), random(seed, 600))).collect(),
        _ => Vec::new(),
    }
}

/// Packets of Linux, from the IP header on.
fn packets() -> Vec<Named> {
    let lines = include_str!("../../wire/tests/gsi.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, digits)| (format!("packet-{}", name.replace(' ', "-")), hex(digits)))
        .collect()
}

/// Their UDP payloads.
fn payloads() -> Vec<Named> {
    packets()
        .into_iter()
        .map(|(name, mut packet)| {
            let payload = packet.split_off(packet.len() - crate::wire::roce::PAYLOAD_LEN);
            (name.replace("packet", "payload"), payload)
        })
        .collect()
}

/// Their MADs, and an empty one of each kind.
fn mads() -> Vec<Named> {
    let captured = payloads()
        .into_iter()
        .map(|(name, payload)| (name.replace("payload", "mad"), payload[20..276].to_vec()));
    let empty = TABLES.iter().map(|table| {
        let mut mad = [0; 256];
        (table.emit)(&mut mad, 7);
        (format!("mad-empty-{}", table.attribute), mad.to_vec())
    });
    captured.chain(empty).collect()
}

/// So many octets by chance.
fn random(seed: u32, length: usize) -> Vec<u8> {
    let mut rng = Rng::new(Key::new(seed, 0x5eed));
    (0..length).map(|_| rng.next_u32() as u8).collect()
}

fn hex(digits: &str) -> Vec<u8> {
    let octet = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    (0..digits.len()).step_by(2).map(octet).collect()
}
