//! Keyed hashing: the hash itself, the permutation behind communication IDs, and the generator.
//!
//! Everything the engine hides from strangers (chain positions, communication IDs, PSNs, where a
//! search for a port begins) comes from HalfSipHash, a keyed function of 32-bit words: cheap on the
//! smallest targets and fast enough on large ones. Read first: Aumasson and Bernstein, "SipHash: a
//! fast short-input PRF"; Luby and Rackoff on four Feistel rounds; DESIGN §4 (comm IDs).

/// A 64-bit secret for HalfSipHash.
#[derive(Clone, Copy)]
pub struct Key {
    k0: u32,
    k1: u32,
}

impl Key {
    /// From two words, best drawn from a random number generator.
    pub const fn new(k0: u32, k1: u32) -> Key {
        Key { k0, k1 }
    }

    /// HalfSipHash-1-3 of whole words. Their number is fixed, so that the rounds inline.
    #[inline]
    pub const fn hash<const N: usize>(&self, words: &[u32; N]) -> u32 {
        half_sip::<1, 3, N>(self, words)
    }

    /// A quick mix of words that no stranger chooses: our own numbers and addresses.
    #[inline]
    pub(crate) const fn mix<const N: usize>(&self, words: &[u32; N]) -> u32 {
        let mut hash = self.k0;
        let mut i = 0;
        while i < N {
            let product = (hash ^ words[i]).wrapping_mul(0x9e37_79b1);
            hash = product ^ product >> 15;
            i += 1;
        }
        hash
    }

    /// Its two words, for mixes that need no more than a secret.
    pub(crate) const fn words(&self) -> [u32; 2] {
        [self.k0, self.k1]
    }

    /// An independent key, one per `purpose`, so that what one use gives away helps with no other.
    #[inline(never)]
    pub(crate) const fn derive(&self, purpose: u32) -> Key {
        Key { k0: self.derive_word(purpose, 0), k1: self.derive_word(purpose, 1) }
    }

    #[inline(never)]
    const fn derive_word(&self, purpose: u32, n: u32) -> u32 {
        half_sip::<2, 4, 2>(self, &[purpose, n])
    }
}

/// Says nothing: a key in a log is no secret.
impl core::fmt::Debug for Key {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Key(..)")
    }
}

/// A keyed permutation of the numbers below 2ᵂ, where W (16 to 32) is chosen in [`new`](Self::new).
///
/// Four Feistel rounds on two halves, each round one HalfSipHash block; under 300 instructions. A
/// peer sees thousands of pairs, which a multiply-and-shift mix would not survive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Permutation {
    key: Key,
    low_bits: u32,
    low_mask: u32,
    high_mask: u32,
}

impl Permutation {
    /// A permutation of the numbers of `width` bits.
    pub(crate) const fn new(key: Key, width: u32) -> Permutation {
        debug_assert!(width >= 16 && width <= 32);
        let low_bits = width / 2;
        Permutation { key, low_bits, low_mask: mask(low_bits), high_mask: mask(width - low_bits) }
    }

    /// Where `value` goes.
    pub(crate) const fn permute(&self, value: u32) -> u32 {
        let (mut low, mut high) = self.split(value);
        let mut round = 0;
        while round < 4 {
            high ^= self.round(round, low) & self.high_mask;
            low ^= self.round(round + 1, high) & self.low_mask;
            round += 2;
        }
        high << self.low_bits | low
    }

    /// What goes to `value`.
    pub(crate) const fn invert(&self, value: u32) -> u32 {
        let (mut low, mut high) = self.split(value);
        let mut round = 4;
        while round > 0 {
            low ^= self.round(round - 1, high) & self.low_mask;
            high ^= self.round(round - 2, low) & self.high_mask;
            round -= 2;
        }
        high << self.low_bits | low
    }

    const fn split(&self, value: u32) -> (u32, u32) {
        debug_assert!((value >> self.low_bits) & !self.high_mask == 0);
        (value & self.low_mask, value >> self.low_bits)
    }

    /// One block; all blocks are of one length, so the length block is left out.
    #[inline]
    const fn round(&self, round: u32, half: u32) -> u32 {
        State::new(&self.key).absorb::<1>(round << 16 | half).finish::<3>()
    }
}

/// Communication IDs: slot index and generation under a keyed permutation, so that a message finds
/// its slot in O(1) and a stranger cannot guess an ID (DESIGN §4, facts C4, D1).
///
/// The top bits may be a fixed prefix, by which several programs can share one QP1. An ID is never
/// 0, which means "none" in a REJ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommIds {
    permutation: Permutation,
    prefix: u32,
    body_mask: u32,
    index_bits: u32,
}

impl CommIds {
    /// IDs that begin with `prefix` (value, number of bits), for slots whose index is less than
    /// `2^index_bits − 1`: see [`index_bits`](Self::index_bits). What remains of the 32 bits is the
    /// generation. Check with [`fits`](Self::fits) before.
    pub(crate) const fn new(key: Key, prefix: (u32, u8), index_bits: u32) -> CommIds {
        debug_assert!(CommIds::fits(prefix, index_bits));
        let width = 32 - prefix.1 as u32;
        CommIds {
            permutation: Permutation::new(key, width),
            prefix: if width < 32 { prefix.0 << width } else { 0 },
            body_mask: mask(width),
            index_bits,
        }
    }

    /// How many index bits a table of `capacity` slots needs.
    pub(crate) const fn index_bits(capacity: usize) -> u32 {
        // Indexes are stored plus one, as in a link: field 0 belongs to no slot.
        usize::BITS - capacity.leading_zeros()
    }

    /// Whether a prefix and an index leave room for at least one bit of generation.
    pub(crate) const fn fits(prefix: (u32, u8), index_bits: u32) -> bool {
        prefix.1 <= 8
            && prefix.0 & !mask(prefix.1 as u32) == 0
            && index_bits > 0
            && prefix.1 as u32 + index_bits < 32
    }

    /// The communication ID of a slot. Only the generation's low bits go in.
    pub(crate) const fn encode(&self, index: u32, generation: u32) -> u32 {
        debug_assert!(index < mask(self.index_bits));
        let plain = (generation << self.index_bits | (index + 1)) & self.body_mask;
        let mut body = self.permutation.permute(plain);
        if body == 0 {
            // One step further along the cycle: 0 is never encoded, so nothing else lands there.
            body = self.permutation.permute(0);
        }
        self.prefix | body
    }

    /// Slot index and (truncated) generation of a communication ID, or `None` if its prefix is not
    /// ours or no slot has it. The index may lie beyond the table.
    pub(crate) const fn decode(&self, id: u32) -> Option<(u32, u32)> {
        let body = id & self.body_mask;
        if id & !self.body_mask != self.prefix || body == 0 {
            return None;
        }
        let mut plain = self.permutation.invert(body);
        if plain == 0 {
            plain = self.permutation.invert(0);
        }
        let index = plain & mask(self.index_bits);
        if index == 0 {
            return None;
        }
        Some((index - 1, plain >> self.index_bits))
    }

    /// What [`decode`](Self::decode) gives back of a generation: its low
    /// `32 − prefix bits − index bits` bits.
    #[cfg(test)]
    pub(crate) const fn truncate(&self, generation: u32) -> u32 {
        generation & (self.body_mask >> self.index_bits)
    }
}

/// A seeded generator in counter mode. Equal seeds, equal sequence.
#[derive(Clone, Debug)]
pub(crate) struct Rng {
    key: Key,
    counter: u64,
}

impl Rng {
    /// The generator of this key, at its beginning.
    pub(crate) const fn new(key: Key) -> Rng {
        Rng { key, counter: 0 }
    }

    /// The next 32 bits.
    pub(crate) const fn next_u32(&mut self) -> u32 {
        let counter = self.counter;
        self.counter = counter.wrapping_add(1);
        self.key.hash(&[counter as u32, (counter >> 32) as u32])
    }

    /// A number below `bound` (which must not be 0), all equally likely but for one in 2³².
    pub(crate) const fn below(&mut self, bound: u32) -> u32 {
        ((self.next_u32() as u64 * bound as u64) >> 32) as u32
    }
}

/// The lowest `bits` bits.
const fn mask(bits: u32) -> u32 {
    if bits >= 32 { u32::MAX } else { (1 << bits) - 1 }
}

#[inline(always)]
const fn half_sip<const C: usize, const D: usize, const N: usize>(
    key: &Key,
    words: &[u32; N],
) -> u32 {
    let mut state = State::new(key);
    let mut i = 0;
    while i < N {
        state = state.absorb::<C>(words[i]);
        i += 1;
    }
    // The last block: no odd octets, and the length in octets on top.
    state.absorb::<C>((4 * N as u32) << 24).finish::<D>()
}

#[derive(Clone, Copy)]
struct State {
    v0: u32,
    v1: u32,
    v2: u32,
    v3: u32,
}

impl State {
    #[inline(always)]
    const fn new(key: &Key) -> State {
        State { v0: key.k0, v1: key.k1, v2: 0x6c79_6765 ^ key.k0, v3: 0x7465_6462 ^ key.k1 }
    }

    #[inline(always)]
    const fn absorb<const C: usize>(mut self, word: u32) -> State {
        self.v3 ^= word;
        let mut i = 0;
        while i < C {
            self = self.round();
            i += 1;
        }
        self.v0 ^= word;
        self
    }

    #[inline(always)]
    const fn finish<const D: usize>(mut self) -> u32 {
        self.v2 ^= 0xff;
        let mut i = 0;
        while i < D {
            self = self.round();
            i += 1;
        }
        self.v1 ^ self.v3
    }

    #[inline(always)]
    const fn round(self) -> State {
        let State { mut v0, mut v1, mut v2, mut v3 } = self;
        v0 = v0.wrapping_add(v1);
        v1 = v1.rotate_left(5) ^ v0;
        v0 = v0.rotate_left(16);
        v2 = v2.wrapping_add(v3);
        v3 = v3.rotate_left(8) ^ v2;
        v0 = v0.wrapping_add(v3);
        v3 = v3.rotate_left(7) ^ v0;
        v2 = v2.wrapping_add(v1);
        v1 = v1.rotate_left(13) ^ v2;
        v2 = v2.rotate_left(16);
        State { v0, v1, v2, v3 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key 00 01 … 07, message 00 01 02 …, as the published vectors have it.
    const KEY: Key = Key::new(0x0302_0100, 0x0706_0504);
    const WORDS: [u32; 5] = [0x0302_0100, 0x0706_0504, 0x0b0a_0908, 0x0f0e_0d0c, 0x1312_1110];

    fn first<const N: usize>() -> [u32; N] {
        core::array::from_fn(|i| WORDS[i])
    }

    fn of_all_lengths<const C: usize, const D: usize>() -> [u32; 6] {
        [
            half_sip::<C, D, 0>(&KEY, &first()),
            half_sip::<C, D, 1>(&KEY, &first()),
            half_sip::<C, D, 2>(&KEY, &first()),
            half_sip::<C, D, 3>(&KEY, &first()),
            half_sip::<C, D, 4>(&KEY, &first()),
            half_sip::<C, D, 5>(&KEY, &first()),
        ]
    }

    /// `vectors_hsip32` of the reference implementation, messages of 0, 4, … 20 octets.
    #[test]
    fn half_sip_hash_2_4_gives_the_reference_vectors() {
        assert_eq!(
            of_all_lengths::<2, 4>(),
            [0x5b9f_35a9, 0x8946_6e2a, 0x8f84_b8d0, 0x2f87_f057, 0x84ac_b5d9, 0x4510_4de3]
        );
    }

    /// Those of Linux's siphash self test for 32-bit machines.
    #[test]
    fn half_sip_hash_1_3_gives_the_published_vectors() {
        assert_eq!(
            of_all_lengths::<1, 3>(),
            [0x5814_c896, 0x7e05_9ea6, 0x5779_99b1, 0x6b28_096c, 0x8b31_d501, 0x911b_b605]
        );
        assert_eq!(KEY.hash(&first::<3>()), 0x6b28_096c);
    }

    #[test]
    fn a_permutation_hits_every_number_once_and_inverts() {
        for width in [16, 17] {
            let p = Permutation::new(Key::new(1, width), width);
            let mut seen = vec![0u64; 1 << (width - 6)];
            for value in 0..1u32 << width {
                let image = p.permute(value);
                assert!(image < 1 << width);
                seen[(image >> 6) as usize] |= 1 << (image & 63);
            }
            assert!(seen.iter().all(|&word| word == u64::MAX));
        }
        for width in 16..=32 {
            let p = Permutation::new(Key::new(2, width), width);
            let mut rng = Rng::new(KEY);
            for _ in 0..5_000 {
                let value = rng.next_u32() & mask(width);
                assert_eq!(p.invert(p.permute(value)), value);
                assert_eq!(p.permute(p.invert(value)), value);
            }
        }
    }

    #[test]
    fn one_bit_of_input_changes_half_of_the_output() {
        let p = Permutation::new(KEY, 32);
        let mut rng = Rng::new(Key::new(3, 4));
        let mut flipped = 0;
        for round in 0..3_200 {
            let value = rng.next_u32();
            flipped += (p.permute(value) ^ p.permute(value ^ 1 << (round % 32))).count_ones();
        }
        assert!((47_000..55_000).contains(&flipped), "{flipped} of 102,400 bits");
    }

    #[test]
    fn comm_ids_come_back_and_are_never_zero() {
        for (prefix, index_bits) in [((0, 0), 16), ((0xa5, 8), 17), ((0, 3), 1), ((5, 3), 20)] {
            assert!(CommIds::fits(prefix, index_bits));
            let ids = CommIds::new(KEY, prefix, index_bits);
            let mut rng = Rng::new(KEY);
            for _ in 0..20_000 {
                let (index, generation) = (rng.below(mask(index_bits)), rng.next_u32());
                let id = ids.encode(index, generation);
                assert_ne!(id, 0);
                assert_eq!(ids.decode(id), Some((index, ids.truncate(generation))));
                if prefix.1 > 0 {
                    assert_eq!(id >> (32 - prefix.1), prefix.0);
                }
            }
            assert_eq!(ids.decode(0), None);
        }
    }

    #[test]
    fn a_foreign_prefix_is_nobodys() {
        let ids = CommIds::new(KEY, (5, 3), 16);
        let id = ids.encode(7, 1);
        for flip in [1 << 29, 1 << 30, 1 << 31] {
            assert_eq!(ids.decode(id ^ flip), None);
        }
    }

    /// The one place where the cycle is walked: look for the slot that would get ID 0.
    #[test]
    fn the_slot_whose_id_would_be_zero_gets_another() {
        let mut walked = 0;
        for k in 0..40 {
            let ids = CommIds::new(Key::new(k, 9), (0, 8), 16);
            let plain = ids.permutation.invert(0);
            let Some(index) = (plain & 0xffff).checked_sub(1) else { continue };
            let generation = plain >> 16;
            let id = ids.encode(index, generation);
            assert_ne!(id, 0);
            assert_eq!(ids.decode(id), Some((index, generation)));
            walked += 1;
        }
        assert!(walked > 30);
    }

    #[test]
    fn index_bits_hold_every_index_plus_one() {
        for (capacity, bits) in
            [(1, 1), (2, 2), (3, 2), (4, 3), (16, 5), (65_535, 16), (65_536, 17)]
        {
            assert_eq!(CommIds::index_bits(capacity), bits);
        }
        assert!(!CommIds::fits((0, 9), 10));
        assert!(!CommIds::fits((4, 2), 10));
        assert!(!CommIds::fits((3, 8), 24));
        assert!(!CommIds::fits((0, 0), 0));
    }

    #[test]
    fn equal_seeds_give_equal_sequences_and_others_differ() {
        let draw = |key| {
            let mut rng = Rng::new(key);
            [(); 64].map(|()| rng.next_u32())
        };
        assert_eq!(draw(KEY), draw(KEY));
        assert_ne!(draw(KEY), draw(KEY.derive(1)));
        assert_ne!(draw(KEY.derive(1)), draw(KEY.derive(2)));
        let mut rng = Rng::new(KEY);
        assert!((0..1_000).all(|_| rng.below(10) < 10));
    }
}
