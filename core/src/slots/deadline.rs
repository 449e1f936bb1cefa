//! [`Deadlines`]: at most one deadline per slot, in a heap with four children per node.
//!
//! A slot knows where its deadline stands, so it can be moved or cancelled. Deadlines that fall on
//! one tick come out in an order that depends only on what was set before.

use super::Link;
use crate::time::{Instant, Tick};

/// A slot that can have a deadline.
pub trait Timed {
    /// Where in the heap it stands; "none" without deadline.
    fn heap_link(&mut self) -> &mut Link;
    /// The same, to read.
    fn heap_link_ref(&self) -> Link;
}

/// Memory for one deadline; all zero at first.
#[derive(Clone, Copy, Default, Debug)]
pub struct DeadlineEntry {
    at: Tick,
    index: u32,
}

impl DeadlineEntry {
    /// One that is not in use.
    pub const EMPTY: DeadlineEntry = DeadlineEntry { at: Tick::at(Instant::ZERO), index: 0 };
}

/// The deadlines of a table's slots. Every call must be given the same slots, and there must be an
/// entry for each.
///
/// Ticks compare by distance, so whatever is due has to be taken out within 12 days.
#[derive(Debug)]
pub struct Deadlines<'s> {
    entries: &'s mut [DeadlineEntry],
    len: u32,
}

impl<'s> Deadlines<'s> {
    /// Without any deadline. The entries are not touched.
    pub const fn new(entries: &'s mut [DeadlineEntry]) -> Self {
        Deadlines { entries, len: 0 }
    }

    /// How many slots have a deadline.
    pub const fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether none has.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Gives a slot this deadline instead of the one it had.
    pub(crate) fn set<T: Timed>(&mut self, slots: &mut [T], index: usize, at: Tick) {
        let entry = DeadlineEntry { at, index: index as u32 };
        match slots[index].heap_link_ref().get() {
            Some(place) if at.ahead_of(self.entries[place].at) > 0 => {
                self.sink(slots, place, entry);
            }
            Some(place) => self.rise(slots, place, entry),
            None if self.len() < self.entries.len() => {
                self.len += 1;
                self.rise(slots, self.len() - 1, entry);
            }
            None => debug_assert!(false, "fewer entries than slots"),
        }
    }

    /// Takes a slot's deadline away. False if it had none.
    pub(crate) fn cancel<T: Timed>(&mut self, slots: &mut [T], index: usize) -> bool {
        match core::mem::take(slots[index].heap_link()).get() {
            Some(place) => {
                self.vacate(slots, place);
                true
            }
            None => false,
        }
    }

    /// The earliest deadline.
    pub(crate) fn earliest(&self) -> Option<Tick> {
        self.heap().first().map(|entry| entry.at)
    }

    /// A slot's deadline.
    pub(crate) fn of<T: Timed>(&self, slots: &[T], index: usize) -> Option<Tick> {
        slots[index].heap_link_ref().get().map(|place| self.entries[place].at)
    }

    /// Takes out a slot whose deadline has come, the earliest first.
    pub(crate) fn pop_due<T: Timed>(&mut self, slots: &mut [T], now: Tick) -> Option<usize> {
        let first = *self.heap().first().filter(|entry| entry.at.is_due(now))?;
        self.cancel(slots, first.index as usize);
        Some(first.index as usize)
    }

    fn heap(&self) -> &[DeadlineEntry] {
        &self.entries[..self.len()]
    }

    /// Closes the gap at `place` with the last entry.
    fn vacate<T: Timed>(&mut self, slots: &mut [T], place: usize) {
        self.len -= 1;
        let last = self.entries[self.len()];
        if place == self.len() {
            return;
        }
        if place > 0 && last.at.ahead_of(self.entries[parent(place)].at) < 0 {
            self.rise(slots, place, last);
        } else {
            self.sink(slots, place, last);
        }
    }

    /// Puts `entry` at `place` or nearer to the root; what was at `place` is gone.
    fn rise<T: Timed>(&mut self, slots: &mut [T], mut place: usize, entry: DeadlineEntry) {
        while place > 0 {
            let above = self.entries[parent(place)];
            if entry.at.ahead_of(above.at) >= 0 {
                break;
            }
            self.put(slots, place, above);
            place = parent(place);
        }
        self.put(slots, place, entry);
    }

    /// Puts `entry` at `place` or further from the root; what was at `place` is gone.
    fn sink<T: Timed>(&mut self, slots: &mut [T], mut place: usize, entry: DeadlineEntry) {
        loop {
            let first = CHILDREN * place + 1;
            let Some([head, others @ ..]) = self.heap().get(first..) else { break };
            let (mut child, mut below) = (first, *head);
            for (i, other) in others.iter().take(CHILDREN - 1).enumerate() {
                if other.at.ahead_of(below.at) < 0 {
                    (child, below) = (first + 1 + i, *other);
                }
            }
            if below.at.ahead_of(entry.at) >= 0 {
                break;
            }
            self.put(slots, place, below);
            place = child;
        }
        self.put(slots, place, entry);
    }

    fn put<T: Timed>(&mut self, slots: &mut [T], place: usize, entry: DeadlineEntry) {
        self.entries[place] = entry;
        *slots[entry.index as usize].heap_link() = Link::to(place);
    }
}

#[cfg(feature = "testing")]
impl Deadlines<'_> {
    /// The heap is in order, and slots and entries name each other. A walk that panics.
    pub(crate) fn audit<T: Timed>(&self, slots: &[T]) {
        for (place, entry) in self.heap().iter().enumerate() {
            let index = entry.index as usize;
            let link = slots[index].heap_link_ref().get();
            assert_eq!(link, Some(place), "the deadline of slot {index} is elsewhere");
            let in_order = place == 0 || entry.at.ahead_of(self.entries[parent(place)].at) >= 0;
            assert!(in_order, "the deadline of slot {index} comes too late");
        }
        let set = slots.iter().filter(|slot| !slot.heap_link_ref().is_none()).count();
        assert_eq!(set, self.len(), "a deadline is lost");
    }

    /// The heap, as it decides the order of what falls due.
    pub(crate) fn paint(
        &self,
        now: Tick,
        nth: impl Fn(usize) -> usize,
        picture: &mut crate::testing::Picture,
    ) {
        picture.list(self.heap().iter().map(|entry| nth(entry.index as usize)));
        for entry in self.heap() {
            picture.put(entry.at.ahead_of(now) as u64);
        }
    }

    /// How many have come.
    pub(crate) fn due(&self, now: Tick) -> usize {
        self.heap().iter().filter(|entry| entry.at.is_due(now)).count()
    }
}

const CHILDREN: usize = 4;

const fn parent(place: usize) -> usize {
    (place - 1) / CHILDREN
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Key, Rng};
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, Default)]
    struct Item(Link);

    impl Timed for Item {
        fn heap_link(&mut self) -> &mut Link {
            &mut self.0
        }
        fn heap_link_ref(&self) -> Link {
            self.0
        }
    }

    fn tick(millis: u64) -> Tick {
        Tick::at(Instant::from_millis(millis))
    }

    #[test]
    fn deadlines_come_out_in_order_from_zero_and_across_the_wrap() {
        for (seed, start) in (0..20).map(|seed| (seed, 0)).chain((20..40).map(|s| (s, WRAP - 300)))
        {
            let mut rng = Rng::new(Key::new(seed, 3));
            let mut entries = [DeadlineEntry::EMPTY; 30];
            let mut items = [Item::default(); 30];
            let mut deadlines = Deadlines::new(&mut entries);
            let mut model: BTreeMap<usize, u64> = BTreeMap::new();
            let mut now = start;
            for _ in 0..2_000 {
                let index = rng.below(30) as usize;
                match rng.below(5) {
                    0..=2 => {
                        // Few distinct values, so that ticks coincide.
                        let at = now + u64::from(rng.below(40));
                        deadlines.set(&mut items, index, tick(at));
                        model.insert(index, at);
                    }
                    3 => {
                        let had = model.remove(&index).is_some();
                        assert_eq!(deadlines.cancel(&mut items, index), had);
                    }
                    _ => {
                        now += u64::from(rng.below(12));
                        while let Some(index) = deadlines.pop_due(&mut items, tick(now)) {
                            let at = model.remove(&index).expect("a slot with a deadline");
                            assert!(at <= now && model.values().all(|&other| other >= at));
                        }
                        assert!(model.values().all(|&at| at > now), "seed {seed}");
                    }
                }
                assert_eq!(deadlines.len(), model.len());
                assert_eq!(deadlines.is_empty(), model.is_empty());
                assert_eq!(deadlines.earliest(), model.values().min().map(|&at| tick(at)));
                for index in 0..30 {
                    let at = model.get(&index).map(|&at| tick(at));
                    assert_eq!(deadlines.of(&items, index), at, "seed {seed}");
                }
            }
        }
    }

    #[test]
    fn equal_ticks_come_out_in_the_same_order_every_time() {
        let run = || {
            let mut entries = [DeadlineEntry::EMPTY; 50];
            let mut items = [Item::default(); 50];
            let mut deadlines = Deadlines::new(&mut entries);
            for index in 0..50 {
                deadlines.set(&mut items, index * 7 % 50, tick(5));
            }
            let order: Vec<_> =
                core::iter::from_fn(|| deadlines.pop_due(&mut items, tick(5))).collect();
            assert!(items.iter().all(|item| item.0.is_none()));
            order
        };
        assert_eq!(run(), run());
        assert_eq!(run().len(), 50);
    }

    /// The tick counter's period in milliseconds.
    const WRAP: u64 = 1 << 32;
}
