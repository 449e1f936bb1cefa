//! Seeds: what Linux sent, and scripts.

use super::corpus::Named;
use super::scripts;
use crate::hash::{Key, Rng};
use crate::wire::tables::TABLES;

/// The seeds of a target.
pub(super) fn of(target: &str) -> Vec<Named> {
    match target {
        "wire_parse" => {
            let good = packets().into_iter().chain(payloads()).chain(mads());
            good.chain(altered(packets()))
                .chain(altered(payloads()))
                .chain(altered(mads()))
                .collect()
        }
        "wire_round_trip" => mads().into_iter().chain(altered(mads())).chain(fields()).collect(),
        "frame" => packets().into_iter().chain(payloads()).chain(altered(packets())).collect(),
        "ports" => (0..8).map(|seed| (format!("random-{seed}"), random(seed, 600))).collect(),
        "ops" => scripts::ops().into_iter().chain(heard()).collect(),
        "pair" => scripts::pair(),
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

/// The first of these that are of a kind, with one octet of their headers altered, or cut off.
fn altered(inputs: Vec<Named>) -> Vec<Named> {
    let mut altered = Vec::new();
    for (name, octets) in inputs.into_iter().take(2) {
        for at in (0..48.min(octets.len())).chain([100]) {
            for flip in [0x01, 0x22, 0xf0] {
                let mut octets = octets.clone();
                octets[at] ^= flip;
                altered.push((format!("{name}-{at}-{flip:02x}"), octets));
            }
        }
        for length in [0, 1, 19, 23, 39, 41, 255] {
            altered.push((format!("{name}-cut-{length}"), octets[..length].to_vec()));
        }
    }
    altered
}

/// For `wire_round_trip`: messages of each kind with all bits set, with none, and by chance.
fn fields() -> Vec<Named> {
    let kinds = (0..TABLES.len() as u8).flat_map(|kind| {
        let octets = [vec![0xff; 600], vec![0; 600], random(kind.into(), 600)];
        octets.map(|octets| {
            let name = format!("fields-{kind}-{:02x}", octets[0]);
            (name, [[kind].as_slice(), &octets].concat())
        })
    });
    kinds.collect()
}

/// For `ops`: a listener hears what Linux sent.
fn heard() -> Vec<Named> {
    let raw = mads().into_iter().map(|(name, mad)| {
        let head = [0, 0x0b, 1, 0];
        (format!("heard-{name}"), [head.as_slice(), &scripts::LISTEN, &scripts::RAW, &mad].concat())
    });
    raw.collect()
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
