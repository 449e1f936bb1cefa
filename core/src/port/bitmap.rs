//! [`Bitmap`]: which numbers of a range are held.
//!
//! A bit per number; above it a summary, a bit per word that says "full"; above that one word, a bit
//! per full word of the summary. Single bits go through `bitvec`; searches go by whole words, because
//! `bitvec`'s own search takes a hundred times as long when nearly all are held.

use bitvec::order::Lsb0;
use bitvec::view::BitView;

/// How many words a map of `ports` numbers needs, summary and all.
///
/// ```
/// use nanocm_core::port::map_words;
///
/// let memory = [0usize; map_words(1024)];
/// assert_eq!(size_of_val(&memory), 1024 / 8 + size_of::<usize>());
/// ```
pub const fn map_words(ports: usize) -> usize {
    let words = ports.div_ceil(BITS);
    words + words.div_ceil(BITS)
}

/// The held numbers of the range that begins at `base`.
///
/// ```
/// use nanocm_core::port::{Bitmap, map_words};
///
/// let mut memory = [0; map_words(3)];
/// let mut map = Bitmap::new(&mut memory, 10_000, 3).unwrap();
/// assert_eq!(map.allocate(2), Some(10_002));
/// assert_eq!(map.allocate(2), Some(10_000)); // around the end
/// assert!(map.set(10_001));
/// assert_eq!(map.allocate(0), None);
/// assert!(map.clear(10_000));
/// assert_eq!(map.allocate(1), Some(10_000));
/// ```
#[derive(Debug)]
pub struct Bitmap<'s> {
    /// A bit per number; those after the last number are set for good.
    held: &'s mut [usize],
    /// A bit per word of `held`: all its bits are set. Likewise at the end.
    full: &'s mut [usize],
    /// A bit per word of `full`; 65,536 / 32² are enough. Likewise.
    top: u64,
    base: u16,
    len: u32,
    count: u32,
}

impl<'s> Bitmap<'s> {
    /// A map of `len` numbers from `base` on, in memory that is all zero and at least
    /// [`map_words(len)`](map_words) long. `None` if it is shorter, or the range is empty or ends
    /// above 65,535.
    pub fn new(words: &'s mut [usize], base: u16, len: usize) -> Option<Self> {
        if len == 0 || base as usize + len > 1 << 16 || words.len() < map_words(len) {
            return None;
        }
        let (held, rest) = words.split_at_mut(len.div_ceil(BITS));
        let (full, _) = rest.split_at_mut(held.len().div_ceil(BITS));
        *full.last_mut()? |= !below(last_bits(held.len()));
        *held.last_mut()? |= !below(last_bits(len));
        let top = u64::MAX.checked_shl(full.len() as u32).unwrap_or(0);
        Some(Bitmap { held, full, top, base, len: len as u32, count: 0 })
    }

    /// How many numbers there are.
    pub const fn capacity(&self) -> usize {
        self.len as usize
    }

    /// How many are held.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Whether a number lies in the range.
    pub const fn covers(&self, port: u16) -> bool {
        (port.wrapping_sub(self.base) as u32) < self.len
    }

    /// Whether a number is held. One outside the range never is.
    pub fn is_held(&self, port: u16) -> bool {
        match self.offset(port) {
            Some(offset) => self.held.view_bits::<Lsb0>()[offset],
            None => false,
        }
    }

    /// The first free number at or after the one at offset `from`, around the end if need be.
    pub fn find_free(&self, from: usize) -> Option<u16> {
        Some(self.base + self.free_offset(from)? as u16)
    }

    /// Takes the first free number at or after the one at offset `from`, around the end if need be.
    #[inline]
    pub fn allocate(&mut self, from: usize) -> Option<u16> {
        let offset = self.free_offset(from)?;
        self.set_offset(offset);
        Some(self.base + offset as u16)
    }

    /// Marks a number held. False if it was, or lies outside the range.
    #[inline]
    pub fn set(&mut self, port: u16) -> bool {
        self.offset(port).is_some_and(|offset| self.set_offset(offset))
    }

    /// Marks a number free. False if it was, or lies outside the range.
    #[inline]
    pub fn clear(&mut self, port: u16) -> bool {
        self.offset(port).is_some_and(|offset| self.clear_offset(offset))
    }

    fn offset(&self, port: u16) -> Option<usize> {
        self.covers(port).then_some(port.wrapping_sub(self.base) as usize)
    }

    #[inline]
    fn free_offset(&self, from: usize) -> Option<usize> {
        if self.count == self.len {
            return None;
        }
        debug_assert!(from < self.capacity());
        let mut word = from / BITS;
        // The numbers before `from` in its word count as held, this once.
        let mut rest = self.held[word] | below(from % BITS);
        if rest == usize::MAX {
            word = self.open_word(word + 1);
            rest = self.held[word];
        }
        Some(word * BITS + rest.trailing_ones() as usize)
    }

    fn set_offset(&mut self, offset: usize) -> bool {
        let word = &mut self.held[offset / BITS];
        if word.view_bits_mut::<Lsb0>().replace(offset % BITS, true) {
            return false;
        }
        self.count += 1;
        if *word == usize::MAX {
            let full = &mut self.full[offset / BITS / BITS];
            *full |= 1 << (offset / BITS % BITS);
            if *full == usize::MAX {
                self.top |= 1 << (offset / BITS / BITS);
            }
        }
        true
    }

    fn clear_offset(&mut self, offset: usize) -> bool {
        let word = &mut self.held[offset / BITS];
        let was_full = *word == usize::MAX;
        if !word.view_bits_mut::<Lsb0>().replace(offset % BITS, false) {
            return false;
        }
        self.count -= 1;
        if was_full {
            self.full[offset / BITS / BITS] &= !(1 << (offset / BITS % BITS));
            self.top &= !(1 << (offset / BITS / BITS));
        }
        true
    }

    /// The first word at or after this one that is not full, around the end if need be. There is one.
    #[inline]
    fn open_word(&self, from: usize) -> usize {
        let mut i = from / BITS;
        let mut rest = self.full.get(i).map_or(usize::MAX, |full| full | below(from % BITS));
        if rest == usize::MAX {
            // Those up to this one count as full, this once.
            let later = self.top | u64::MAX >> (63 - i.min(63));
            i = if later != u64::MAX { later } else { self.top }.trailing_ones() as usize;
            rest = self.full[i];
        }
        i * BITS + rest.trailing_ones() as usize
    }
}

#[cfg(feature = "testing")]
impl Bitmap<'_> {
    /// These numbers are held and no others, and, where that is a short walk, the summaries say which
    /// words are full. Panics where not.
    pub(crate) fn audit(&self, mut numbers: alloc::collections::BTreeSet<u16>) {
        numbers.retain(|&port| self.covers(port));
        for &port in &numbers {
            assert!(self.is_held(port), "port {port} has an owner and is free");
        }
        assert_eq!(self.count(), numbers.len(), "a port map does not know how many are held");
        if self.held.len() > BITS {
            return;
        }
        let spare = self.held.len() * BITS - self.capacity();
        let set: usize = self.held.iter().map(|word| word.count_ones() as usize).sum();
        assert_eq!(set, numbers.len() + spare, "a port is held and has no owner");
        let summary = |words: &[usize], i: usize| words[i / BITS] >> (i % BITS) & 1 == 1;
        for (i, &word) in self.held.iter().enumerate() {
            assert_eq!(summary(self.full, i), word == usize::MAX, "word {i} of a port map: full?");
        }
        for (i, &word) in self.full.iter().enumerate() {
            assert_eq!(self.top >> i & 1 == 1, word == usize::MAX, "summary {i} of a port map");
        }
    }
}

const BITS: usize = usize::BITS as usize;

/// The lowest `bits` bits, fewer than a word.
const fn below(bits: usize) -> usize {
    match bits {
        BITS => usize::MAX,
        _ => (1 << bits) - 1,
    }
}

/// How many bits of the last word are in use when `len` are needed in all.
const fn last_bits(len: usize) -> usize {
    (len - 1) % BITS + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Key, Rng};
    use std::collections::BTreeSet;

    #[test]
    fn a_bitmap_finds_what_a_set_finds() {
        for (seed, len) in [1, 2, 63, 64, 65, 128, 700, 4_096, 4_097, 5_000].into_iter().enumerate()
        {
            let mut rng = Rng::new(Key::new(seed as u32, 4));
            let base = rng.below(60_000) as u16;
            let mut memory = vec![0; map_words(len)];
            let mut map = Bitmap::new(&mut memory, base, len).unwrap();
            let mut free: BTreeSet<u16> = (0..len as u16).map(|offset| base + offset).collect();
            // Fill up, churn near the top, empty again.
            for step in 0..6 * len as u32 + 400 {
                let filling = step < 4 * len as u32;
                let from = rng.below(len as u32);
                let first = base + from as u16;
                if rng.below(8) < if filling { 6 } else { 1 } {
                    let wanted = free.range(first..).next().or(free.first()).copied();
                    assert_eq!(map.find_free(from as usize), wanted);
                    assert_eq!(map.allocate(from as usize), wanted, "{len} numbers, step {step}");
                    wanted.inspect(|port| assert!(free.remove(port)));
                } else if rng.below(4) == 0 {
                    assert_eq!(map.set(first), free.remove(&first));
                } else {
                    assert_eq!(map.clear(first), free.insert(first));
                }
                assert_eq!(map.is_held(first), !free.contains(&first));
                assert_eq!(map.count(), len - free.len());
            }
            for port in base..base + len as u16 {
                map.clear(port);
            }
            assert_eq!(map.count(), 0);
            let spare = memory.iter().map(|word| word.count_ones() as usize).sum::<usize>();
            assert_eq!(spare, memory.len() * BITS - len - len.div_ceil(BITS), "only the tails");
        }
    }

    #[test]
    fn the_one_free_number_is_found_from_everywhere() {
        let mut memory = [0; map_words(28_232)];
        let mut map = Bitmap::new(&mut memory, 32_768, 28_232).unwrap();
        for n in 0..28_232 {
            assert_eq!(map.allocate(n), Some(32_768 + n as u16));
        }
        assert_eq!(map.allocate(5), None);
        for free in [32_768, 32_800, 45_000, 60_999] {
            map.clear(free);
            for from in [0, 1, 32, 63, 64, 12_232, 20_000, 28_230, 28_231] {
                assert_eq!(map.find_free(from), Some(free));
            }
            map.set(free);
        }
    }

    #[test]
    fn numbers_outside_the_range_are_never_held() {
        let mut memory = [0; map_words(10)];
        let mut map = Bitmap::new(&mut memory, 100, 10).unwrap();
        for port in [0, 99, 110, 65_535] {
            assert!(!map.set(port) && !map.is_held(port) && !map.clear(port) && !map.covers(port));
        }
        assert!(map.covers(100) && map.covers(109));
        assert_eq!((map.count(), map.capacity()), (0, 10));
    }

    #[test]
    fn the_highest_range_ends_at_65535() {
        let mut memory = [0; map_words(65_536)];
        assert!(Bitmap::new(&mut memory, 1, 65_536).is_none());
        assert!(Bitmap::new(&mut memory, 1, 0).is_none());
        assert!(Bitmap::new(&mut memory[1..], 1, 65_535).is_none());
        let mut map = Bitmap::new(&mut memory, 1, 65_535).unwrap();
        assert!(map.set(65_535) && map.is_held(65_535) && !map.is_held(0));
        assert_eq!(map.allocate(65_534), Some(1));
    }
}
