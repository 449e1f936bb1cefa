//! Which numbers to take for "any port".
//!
//! A number that is held is lost to every program's outgoing connections, on every address; and
//! `connect` searches the even half of the range first, `bind(0)` the odd half (counted from its
//! lowest number). So the odd half is taken.
//!
//! Read first: field tests, H3.

use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

const WORDS: usize = (1 << 16) / 64;

/// A bit for each number.
type Bits = [u64; WORDS];

/// What the host says about its ephemeral ports, in this thread's network namespace.
pub(super) struct Facts {
    /// `ip_local_port_range`.
    pub(super) range: (u16, u16),
    /// The range to choose from, if it is another.
    wanted: Option<(u16, u16)>,
    /// What the host's outgoing connections have: in `ip_local_port_range`, and not in
    /// `ip_local_reserved_ports`. Another one only if it has changed.
    ephemeral: Arc<Bits>,
    /// To choose from: in the range, and not in `ip_local_reserved_ports`.
    allowed: Box<Bits>,
    /// Those of them that no outgoing connection has first.
    odd: Box<Bits>,
    /// So many numbers of the host's range does `bind(0)` take first.
    half: u16,
    read: Option<Instant>,
}

/// Linux's, unless somebody has set another.
pub(super) const DEFAULT_RANGE: (u16, u16) = (32_768, 60_999);

/// They may change, but not often.
const FRESH: Duration = Duration::from_secs(2);

impl Default for Facts {
    fn default() -> Facts {
        let none = || Box::new([0; WORDS]);
        let (range, ephemeral) = ((1, 0), Arc::new([0; WORDS]));
        Facts { range, wanted: None, ephemeral, allowed: none(), odd: none(), half: 0, read: None }
    }
}

impl Facts {
    /// Reads them again if they are old. `wanted`: a range of one's own.
    pub(super) fn refresh(&mut self, wanted: Option<(u16, u16)>) {
        let now = Instant::now();
        if self.wanted == wanted && self.read.is_some_and(|read| now - read < FRESH) {
            return;
        }
        self.wanted = wanted;
        self.read = Some(now);
        let read = |name: &str| {
            fs::read_to_string(format!("/proc/sys/net/ipv4/{name}")).unwrap_or_default()
        };
        self.set(&read("ip_local_port_range"), &read("ip_local_reserved_ports"));
    }

    fn set(&mut self, range: &str, reserved: &str) {
        self.range = parse_range(range).unwrap_or(DEFAULT_RANGE);
        (*self.allowed, *self.odd, self.half) = ([0; WORDS], [0; WORDS], 0);
        let mut kept_out = Box::new([0; WORDS]);
        for part in reserved.trim().split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<u16>(), last.parse::<u16>()) else {
                continue;
            };
            (first..=last).for_each(|port| kept_out[usize::from(port) / 64] |= bit(port));
        }
        let is_odd = |port: u16| (port - self.range.0) % 2 == 1;
        let is_free = |port: u16| kept_out[usize::from(port) / 64] & bit(port) == 0;
        let (low, high) = self.range;
        self.half = (low..=high).filter(|&port| is_odd(port) && is_free(port)).count() as u16;
        let mut ephemeral = [0; WORDS];
        for port in (low..=high).filter(|&port| is_free(port)) {
            ephemeral[usize::from(port) / 64] |= bit(port);
        }
        if *self.ephemeral != ephemeral {
            self.ephemeral = Arc::new(ephemeral);
        }
        let (low, high) = self.to_choose_from();
        for port in (low..=high).filter(|&port| is_free(port)) {
            self.allowed[usize::from(port) / 64] |= bit(port);
            if !self.is_ephemeral(port) || (port - self.range.0) % 2 == 1 {
                self.odd[usize::from(port) / 64] |= bit(port);
            }
        }
    }

    /// The range for any port.
    pub(super) fn to_choose_from(&self) -> (u16, u16) {
        self.wanted.unwrap_or(self.range)
    }

    /// Whether outgoing connections have numbers of it.
    pub(super) fn is_hosts(&self) -> bool {
        let (low, high) = self.to_choose_from();
        low <= self.range.1 && self.range.0 <= high
    }

    /// Whether `connect` and `bind(0)` take it.
    pub(super) fn is_ephemeral(&self, port: u16) -> bool {
        self.ephemeral[usize::from(port) / 64] & bit(port) != 0
    }

    /// How many numbers may be held.
    pub(super) fn share(&self, asked: Option<u16>) -> u16 {
        asked.unwrap_or(self.half)
    }
}

pub(super) fn parse_range(text: &str) -> Option<(u16, u16)> {
    let mut words = text.split_ascii_whitespace();
    let (low, high) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    (low <= high).then_some((low, high))
}

/// The numbers of a port space that we hold.
pub(super) struct Choices {
    held: Box<Bits>,
    /// How many of those are the host's ephemeral ones, and which ones these were.
    within: usize,
    ephemeral: Arc<Bits>,
    /// Where the next search begins.
    at: usize,
    state: u64,
}

impl Default for Choices {
    fn default() -> Choices {
        // Not a secret: it spreads the searches of several programs.
        let state = u64::from(std::process::id()) << 32
            | u64::from(Instant::now().elapsed().subsec_nanos())
            | 1;
        let (held, ephemeral) = (Box::new([0; WORDS]), Arc::new([0; WORDS]));
        Choices { held, within: 0, ephemeral, at: 0, state }
    }
}

impl Choices {
    pub(super) fn set(&mut self, facts: &Facts, port: u16, held: bool) {
        self.follow(facts);
        let word = &mut self.held[usize::from(port) / 64];
        let was = *word & bit(port) != 0;
        if held {
            *word |= bit(port);
        } else {
            *word &= !bit(port);
        }
        if was != held && facts.is_ephemeral(port) {
            self.within = if held { self.within + 1 } else { self.within - 1 };
        }
    }

    /// How many numbers are held that outgoing connections would have.
    pub(super) fn held_within(&self, facts: &Facts) -> usize {
        if Arc::ptr_eq(&self.ephemeral, &facts.ephemeral) { self.within } else { self.count(facts) }
    }

    /// A number that is not held; the odd ones first. `jump`: from a random place on, not after the
    /// last one.
    pub(super) fn next(&mut self, facts: &Facts, jump: Option<()>, odd_only: bool) -> Option<u16> {
        if jump.is_some() {
            self.state ^= self.state << 13;
            self.state ^= self.state >> 7;
            self.state ^= self.state << 17;
            let (low, high) = facts.to_choose_from();
            self.at = usize::from(low) + self.state as usize % (usize::from(high - low) + 1);
        }
        let found = self.find(&facts.odd);
        let found = if odd_only { found } else { found.or_else(|| self.find(&facts.allowed)) };
        self.at = found.map_or(0, |port| (usize::from(port) + 1) % (1 << 16));
        found
    }

    fn find(&self, allowed: &Bits) -> Option<u16> {
        let (first, below) = (self.at / 64, (1 << (self.at % 64)) - 1);
        let free = |word: usize| allowed[word] & !self.held[word];
        let number = |word: usize, bits: u64| (word * 64) as u16 + bits.trailing_zeros() as u16;
        let rest = free(first) & !below;
        if rest != 0 {
            return Some(number(first, rest));
        }
        // Around, to the part of the first word that was left out.
        let words = (first + 1..WORDS).chain(0..=first);
        words
            .map(|word| (word, free(word)))
            .find(|(_, bits)| *bits != 0)
            .map(|(w, bits)| number(w, bits))
    }

    fn follow(&mut self, facts: &Facts) {
        if !Arc::ptr_eq(&self.ephemeral, &facts.ephemeral) {
            self.ephemeral = facts.ephemeral.clone();
            self.within = self.count(facts);
        }
    }

    fn count(&self, facts: &Facts) -> usize {
        let both = self.held.iter().zip(facts.ephemeral.iter()).map(|(held, theirs)| held & theirs);
        both.map(|bits| bits.count_ones() as usize).sum()
    }
}

const fn bit(port: u16) -> u64 {
    1 << (port % 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(range: &str, reserved: &str) -> Facts {
        let mut facts = Facts::default();
        facts.set(range, reserved);
        facts
    }

    fn take_all(facts: &Facts, odd_only: bool) -> Vec<u16> {
        let mut choices = Choices::default();
        let mut taken = Vec::new();
        while let Some(port) = choices.next(facts, (taken.len() % 3 == 0).then_some(()), odd_only) {
            choices.set(facts, port, true);
            taken.push(port);
        }
        assert_eq!(choices.held_within(facts), taken.len());
        taken
    }

    #[test]
    fn the_odd_half_is_taken_and_no_reserved_number() {
        let facts = facts("32768\t60999\n", "40001,50000-50100\n");
        let mut taken = take_all(&facts, true);
        assert_eq!(taken.len(), usize::from(facts.share(None)));
        assert_eq!(taken.len(), 28_232 / 2 - 1 - 50);
        assert!(taken.iter().all(|port| port % 2 == 1 && (32_768..=60_999).contains(port)));
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len(), usize::from(facts.share(None)), "all distinct");
        assert!(!taken.contains(&40_001) && !taken.iter().any(|p| (50_000..=50_100).contains(p)));
    }

    #[test]
    fn parity_counts_from_the_lowest_number() {
        let taken = take_all(&facts("10001 10004", ""), true);
        assert_eq!(
            taken.iter().copied().collect::<std::collections::BTreeSet<_>>(),
            [10_002, 10_004].into()
        );
        let taken = take_all(&facts("10001 10004", ""), false);
        assert_eq!(taken.len(), 4);
        assert!(taken[..2].iter().all(|port| port % 2 == 0), "the better half first: {taken:?}");
    }

    #[test]
    fn the_last_free_number_is_found_from_everywhere() {
        let facts = facts("32768 60999", "");
        let mut choices = Choices::default();
        for port in (32_769..=60_999).step_by(2).filter(|&port| port != 50_001) {
            choices.set(&facts, port, true);
        }
        for at in [0, 32_768, 50_000, 50_001, 50_002, 65_535] {
            choices.at = at;
            assert_eq!(choices.next(&facts, None, true), Some(50_001), "from {at}");
        }
        choices.set(&facts, 50_001, true);
        assert_eq!(choices.next(&facts, None, true), None);
    }

    #[test]
    fn a_range_that_changes_is_counted_anew() {
        let (wide, narrow) = (facts("100 200", ""), facts("150 160", ""));
        let mut choices = Choices::default();
        for port in [101, 151, 153] {
            choices.set(&wide, port, true);
        }
        assert_eq!((choices.held_within(&wide), choices.held_within(&narrow)), (3, 2));
        choices.set(&narrow, 151, false);
        assert_eq!((choices.held_within(&narrow), choices.held_within(&wide)), (1, 2));
    }

    #[test]
    fn a_number_that_is_kept_out_of_the_range_does_not_count() {
        let mut facts = facts("100 200", "101,150-160");
        let mut choices = Choices::default();
        for port in [101, 103, 151, 153] {
            choices.set(&facts, port, true);
        }
        assert_eq!(choices.held_within(&facts), 1);
        // What is kept out may change while numbers are held.
        facts.set("100 200", "101");
        assert_eq!(choices.held_within(&facts), 3);
        choices.set(&facts, 151, false);
        choices.set(&facts, 101, false);
        assert_eq!(choices.held_within(&facts), 2);
    }

    #[test]
    fn a_range_of_ones_own_is_taken_in_full_where_it_is_not_the_hosts() {
        let mut facts = Facts { wanted: Some((10_000, 10_002)), ..Facts::default() };
        facts.set("32768 60999", "");
        assert!(!facts.is_hosts());
        let mut choices = Choices::default();
        for _ in 0..3 {
            let port = choices.next(&facts, Some(()), true).unwrap();
            assert!((10_000..=10_002).contains(&port));
            choices.set(&facts, port, true);
        }
        assert_eq!(choices.next(&facts, None, true), None);
        assert_eq!(choices.held_within(&facts), 0, "none of the host's");
        facts.wanted = Some((32_760, 32_780));
        facts.set("32768 60999", "");
        assert!(facts.is_hosts());
        // All below the host's, the odd ones within.
        let odd = facts.odd.iter().map(|word| word.count_ones()).sum::<u32>();
        assert_eq!(odd, 8 + 6);
        assert_eq!(facts.share(None), 28_232 / 2);
    }

    #[test]
    fn the_whole_space_is_a_range_too() {
        assert_eq!(take_all(&facts("1 65535", ""), false).len(), 65_535);
    }
}
