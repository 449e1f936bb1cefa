//! [`Table`]: slots that are claimed and released, told apart over time by generations.

use super::Link;

/// What a [`Table`] keeps in each of its slots.
pub trait Slot {
    /// How often the slot has been claimed and released: odd while it is live, 0 if never used.
    fn generation(&self) -> u32;
    /// Sets it. For the table alone.
    fn set_generation(&mut self, generation: u32);
    /// A link that is free for the table's use while the slot is not live; it may be one that
    /// another structure uses while the slot is. It is "none" when the slot is claimed.
    fn free_link(&mut self) -> &mut Link;
}

/// A fixed number of slots. What a slot holds besides its generation is the caller's: clear it at
/// release, or set it at claim.
///
/// Never-used slots are claimed first, in order; then the one that has been free for longest, so that
/// a generation (and a communication ID made of it) comes back as late as it can (facts D1).
///
/// ```
/// use nanocm_core::slots::{Link, Slot, Table};
///
/// #[derive(Default)]
/// struct Conn { generation: u32, link: Link }
/// impl Slot for Conn {
///     fn generation(&self) -> u32 { self.generation }
///     fn set_generation(&mut self, generation: u32) { self.generation = generation }
///     fn free_link(&mut self) -> &mut Link { &mut self.link }
/// }
///
/// let mut memory = [Conn::default(), Conn::default()];
/// let mut conns = Table::new(&mut memory);
/// let index = conns.claim().unwrap();
/// let generation = conns.generation(index);
/// assert!(conns.get(index, generation).is_some());
/// conns.release(index);
/// assert!(conns.get(index, generation).is_none()); // stale
/// ```
#[derive(Debug)]
pub struct Table<'s, T> {
    slots: &'s mut [T],
    oldest: Link,
    newest: Link,
    fresh: u32,
    live: u32,
}

impl<'s, T> Table<'s, T> {
    /// A table over never-used slots. They are not touched; at most 2³² − 2 of them are used.
    pub const fn new(slots: &'s mut [T]) -> Self {
        Table { slots, oldest: Link::NONE, newest: Link::NONE, fresh: 0, live: 0 }
    }

    /// How many slots are live.
    pub const fn len(&self) -> usize {
        self.live as usize
    }

    /// Whether none is.
    pub const fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// How many slots there are.
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// All slots, live or not, for the structures that link them.
    pub const fn slots(&self) -> &[T] {
        self.slots
    }

    /// The same, to change.
    pub const fn slots_mut(&mut self) -> &mut [T] {
        self.slots
    }
}

impl<T: Slot> Table<'_, T> {
    /// Makes a slot live. `None` if the table is full.
    pub fn claim(&mut self) -> Option<usize> {
        let index = if (self.fresh as usize) < self.slots.len().min(u32::MAX as usize - 1) {
            self.fresh += 1;
            self.fresh as usize - 1
        } else {
            let index = self.oldest.get()?;
            self.oldest = core::mem::take(self.slots[index].free_link());
            if self.oldest.is_none() {
                self.newest = Link::NONE;
            }
            index
        };
        let slot = &mut self.slots[index];
        debug_assert!(slot.generation() & 1 == 0 && slot.free_link().is_none());
        slot.set_generation(slot.generation().wrapping_add(1));
        self.live += 1;
        Some(index)
    }

    /// Makes a live slot free; its handles are stale from now on. One that is not live is left as it
    /// is.
    pub fn release(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        debug_assert!(slot.generation() & 1 == 1, "slot {index} is not live");
        if slot.generation() & 1 == 0 {
            return;
        }
        slot.set_generation(slot.generation().wrapping_add(1));
        *slot.free_link() = Link::NONE;
        match self.newest.get() {
            Some(newest) => *self.slots[newest].free_link() = Link::to(index),
            None => self.oldest = Link::to(index),
        }
        self.newest = Link::to(index);
        self.live -= 1;
    }

    /// The slot of a handle, if it is still the same one. Any numbers may be asked for.
    pub fn get(&self, index: usize, generation: u32) -> Option<&T> {
        self.slots.get(index).filter(|slot| is_same(*slot, generation))
    }

    /// A slot's generation: with its index, a handle.
    pub fn generation(&self, index: usize) -> u32 {
        self.slots[index].generation()
    }

    /// Whether there is such a slot and it is live.
    pub fn is_live(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(|slot| slot.generation() & 1 == 1)
    }
}

#[cfg(feature = "testing")]
impl<T: Slot + Copy> Table<'_, T> {
    /// The places that are free again, in the order in which they will be claimed: with how many are
    /// live, that says where everything to come will stand.
    pub(crate) fn paint(&self, picture: &mut crate::testing::Picture) {
        let first = self.oldest.get();
        let next = |&index: &usize| { self.slots[index] }.free_link().get();
        picture.list(core::iter::successors(first, next));
    }

    /// Each slot is live, or once in the free list, or was never used. A walk that panics.
    pub(crate) fn audit(&self) {
        let used = self.fresh as usize;
        let live = (0..self.slots.len()).filter(|&index| self.is_live(index)).count();
        assert_eq!(live, self.len(), "a table does not know how many of its slots are live");
        assert!(
            self.slots[used..].iter().all(|slot| slot.generation() == 0),
            "a slot was used and never claimed"
        );
        let (mut free, mut last, mut at) = (0, Link::NONE, self.oldest);
        while let Some(index) = at.get() {
            assert!(index < used && !self.is_live(index), "slot {index} is free and is not");
            free += 1;
            assert!(live + free <= used, "slot {index} is free twice");
            last = at;
            at = *{ self.slots[index] }.free_link();
        }
        assert_eq!(last, self.newest, "the free list ends elsewhere");
        assert_eq!(live + free, used, "a slot is lost: neither live nor free");
    }
}

fn is_same<T: Slot>(slot: &T, generation: u32) -> bool {
    slot.generation() == generation && generation & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Key, Rng};
    use std::collections::{BTreeMap, VecDeque};

    #[derive(Clone, Copy, Default)]
    struct Item {
        generation: u32,
        link: Link,
    }

    impl Slot for Item {
        fn generation(&self) -> u32 {
            self.generation
        }
        fn set_generation(&mut self, generation: u32) {
            self.generation = generation;
        }
        fn free_link(&mut self) -> &mut Link {
            &mut self.link
        }
    }

    #[test]
    fn a_table_hands_out_the_slot_free_for_longest() {
        for seed in 0..40 {
            let mut rng = Rng::new(Key::new(seed, 2));
            let mut memory = [Item::default(); 7];
            let mut table = Table::new(&mut memory);
            let mut free: VecDeque<usize> = (0..7).collect();
            let mut live: BTreeMap<usize, u32> = BTreeMap::new();
            let mut stale = Vec::new();
            for _ in 0..2_000 {
                if rng.below(2) == 0 {
                    let claimed = table.claim();
                    assert_eq!(claimed, free.pop_front(), "seed {seed}");
                    if let Some(index) = claimed {
                        // The link is the caller's while the slot is live.
                        table.slots_mut()[index].link = Link::to(99);
                        live.insert(index, table.generation(index));
                    }
                } else if let Some(&index) = live.keys().nth(rng.below(7) as usize) {
                    table.release(index);
                    stale.push((index, live.remove(&index).unwrap()));
                    free.push_back(index);
                }
                assert_eq!(table.len(), live.len());
                assert_eq!(table.is_empty(), live.is_empty());
                for index in 0..9 {
                    let generation = live.get(&index).copied();
                    assert_eq!(table.is_live(index), generation.is_some());
                    if let Some(generation) = generation {
                        assert!(table.get(index, generation).is_some());
                        assert!(table.get(index, generation + 2).is_none());
                    }
                }
                for &(index, generation) in stale.iter().rev().take(20) {
                    assert!(table.get(index, generation).is_none());
                    assert!(table.get(index, generation + 1).is_none());
                }
            }
        }
    }

    #[test]
    fn generations_go_on_after_the_wrap() {
        let mut memory = [Item { generation: u32::MAX - 1, link: Link::NONE }];
        let mut table = Table::new(&mut memory);
        assert_eq!(table.claim(), Some(0));
        assert!(table.get(0, u32::MAX).is_some());
        assert_eq!(table.claim(), None);
        table.release(0);
        assert!(table.get(0, 0).is_none());
        assert_eq!(table.claim(), Some(0));
        assert!(table.get(0, 1).is_some());
    }

    #[test]
    fn a_table_without_slots_is_full() {
        let mut memory: [Item; 0] = [];
        let mut table = Table::new(&mut memory);
        assert_eq!((table.capacity(), table.claim()), (0, None));
        assert!(table.get(0, 1).is_none());
    }
}
