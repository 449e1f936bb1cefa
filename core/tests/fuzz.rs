//! The fuzz bodies on random octets, a few hundred seeded inputs each: what nobody runs rots.

use nanocm_core::testing::fuzz::{TARGETS, corpus};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
}

#[test]
fn random_octets_do_no_harm() {
    for target in TARGETS {
        for seed in 0..300 {
            let mut random = Random(seed);
            let length = random.next() % 1500;
            let mut octets: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
            if let (true, Some(mad)) = (seed % 2 == 0, octets.first_chunk_mut::<24>()) {
                // A sound MAD header, so that the message is looked at.
                mad[..4].copy_from_slice(&[1, 7, 2, 3]);
                mad[16..18].copy_from_slice(&[0, 0x10 + (random.next() % 11) as u8]);
            }
            (target.body)(&octets);
        }
    }
}

#[test]
fn what_was_kept_does_no_harm() {
    for target in TARGETS {
        let inputs = corpus::inputs(target).unwrap();
        assert!(!inputs.is_empty(), "{} has no seeds", target.name);
        for (name, octets) in inputs {
            println!("{} {name}", target.name);
            (target.body)(&octets);
        }
    }
}
