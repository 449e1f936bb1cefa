//! [`Chains`]: an index through the slots, by keyed hash.
//!
//! A table of probed cells refuses now and then before it is full; a chain never does. With as many
//! heads as slots a chain has one slot on average, and who does not know the key cannot make a long
//! one.

use super::Link;

/// A slot that can be in a chain of kind `CHAIN`; one slot may be in several kinds at a time.
pub trait Chained<const CHAIN: u8> {
    /// The next slot in its chain.
    fn chain(&self) -> Link;
    /// Sets it.
    fn set_chain(&mut self, next: Link);
}

/// The heads of chains through slots: at least one, zero at first.
///
/// Which hash belongs to a slot is the caller's to know ([`Key::hash`](super::Key::hash)): the same
/// one at insertion and removal.
///
/// ```
/// use nanocm_core::slots::{Chained, Chains, Key, Link};
///
/// #[derive(Clone, Copy, Default)]
/// struct Conn { qpn: u32, by_qpn: Link }
/// impl Chained<0> for Conn {
///     fn chain(&self) -> Link { self.by_qpn }
///     fn set_chain(&mut self, next: Link) { self.by_qpn = next }
/// }
///
/// let key = Key::new(0x5eed, 0x0fac);
/// let mut heads = [Link::NONE; 4];
/// let mut conns = [Conn::default(); 3];
/// let mut by_qpn = Chains::<0>::new(&mut heads).unwrap();
/// conns[1].qpn = 0x11;
/// by_qpn.insert(&mut conns, key.hash(&[0x11]), 1);
/// assert_eq!(by_qpn.find(&conns, key.hash(&[0x11]), |c| c.qpn == 0x11), Some(1));
/// assert_eq!(by_qpn.find(&conns, key.hash(&[0x12]), |c| c.qpn == 0x12), None);
/// assert!(by_qpn.remove(&mut conns, key.hash(&[0x11]), 1));
/// ```
#[derive(Debug)]
pub struct Chains<'s, const CHAIN: u8 = 0> {
    heads: &'s mut [Link],
}

impl<'s, const CHAIN: u8> Chains<'s, CHAIN> {
    /// Chains with these heads. `None` if there are none.
    pub const fn new(heads: &'s mut [Link]) -> Option<Self> {
        if !heads.is_empty() { Some(Chains { heads }) } else { None }
    }

    /// Puts a slot into the chain of its hash. It must not be in one of this kind.
    pub fn insert<T: Chained<CHAIN>>(&mut self, slots: &mut [T], hash: u32, index: usize) {
        debug_assert!(!self.iter(slots, hash).any(|i| i == index), "slot {index} is in already");
        let head = self.bucket(hash);
        slots[index].set_chain(self.heads[head]);
        self.heads[head] = Link::to(index);
    }

    /// Takes a slot out of the chain of its hash. False if it was not there.
    pub fn remove<T: Chained<CHAIN>>(&mut self, slots: &mut [T], hash: u32, index: usize) -> bool {
        let head = self.bucket(hash);
        let this = Link::to(index);
        let after = slots[index].chain();
        if self.heads[head] == this {
            self.heads[head] = after;
        } else {
            let mut at = self.heads[head];
            loop {
                let Some(before) = at.get() else { return false };
                at = slots[before].chain();
                if at == this {
                    slots[before].set_chain(after);
                    break;
                }
            }
        }
        slots[index].set_chain(Link::NONE);
        true
    }

    /// The first slot in the chain of `hash` that `wanted` accepts.
    #[inline]
    pub fn find<T: Chained<CHAIN>>(
        &self,
        slots: &[T],
        hash: u32,
        mut wanted: impl FnMut(&T) -> bool,
    ) -> Option<usize> {
        // A loop of its own: it is shorter than what `iter` becomes.
        let mut at = self.heads[self.bucket(hash)];
        while let Some(index) = at.get() {
            let slot = &slots[index];
            if wanted(slot) {
                return Some(index);
            }
            at = slot.chain();
        }
        None
    }

    /// The indexes in the chain of `hash`: all slots with this hash, and others.
    pub fn iter<T: Chained<CHAIN>>(&self, slots: &[T], hash: u32) -> impl Iterator<Item = usize> {
        let head = self.heads[self.bucket(hash)];
        core::iter::successors(head.get(), |&index| slots[index].chain().get())
    }

    /// Whether every chain is empty: a walk over the heads, for tests.
    pub fn is_empty(&self) -> bool {
        self.heads.iter().all(|head| head.is_none())
    }

    fn bucket(&self, hash: u32) -> usize {
        ((u64::from(hash) * self.heads.len() as u64) >> 32) as usize
    }
}

#[cfg(feature = "testing")]
impl<const CHAIN: u8> Chains<'_, CHAIN> {
    /// Each slot that has a hash is once in its chain, and no other is. A walk that panics.
    pub(crate) fn audit<T: Chained<CHAIN>>(
        &self,
        slots: &[T],
        what: &str,
        hash: impl Fn(usize) -> Option<u32>,
    ) {
        let mut found = vec![None; slots.len()];
        for (bucket, head) in self.heads.iter().enumerate() {
            let mut at = *head;
            while let Some(index) = at.get() {
                assert_eq!(found[index], None, "slot {index} is in two places of {what}");
                found[index] = Some(bucket);
                at = slots[index].chain();
            }
        }
        for (index, bucket) in found.into_iter().enumerate() {
            let wanted = hash(index).map(|hash| self.bucket(hash));
            assert_eq!(bucket, wanted, "slot {index} is not in its place in {what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Key, Rng};
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, Default)]
    struct Item {
        name: u32,
        chains: [Link; 2],
    }

    impl Chained<0> for Item {
        fn chain(&self) -> Link {
            self.chains[0]
        }
        fn set_chain(&mut self, next: Link) {
            self.chains[0] = next;
        }
    }

    impl Chained<1> for Item {
        fn chain(&self) -> Link {
            self.chains[1]
        }
        fn set_chain(&mut self, next: Link) {
            self.chains[1] = next;
        }
    }

    #[test]
    fn chains_find_what_a_map_finds() {
        for (seed, buckets) in [(1, 1), (2, 2), (3, 16), (4, 64)] {
            let key = Key::new(seed, 7);
            let mut rng = Rng::new(key);
            let mut heads = vec![Link::NONE; buckets];
            let mut index = Chains::<1>::new(&mut heads).unwrap();
            let mut items = [Item::default(); 20];
            let mut model: BTreeMap<usize, u32> = BTreeMap::new();
            for _ in 0..5_000 {
                let slot = rng.below(20) as usize;
                // Names repeat: several slots under one hash are legal.
                let name = rng.below(12);
                if let Some(old) = model.remove(&slot) {
                    assert!(index.remove(&mut items, key.hash(&[old]), slot));
                } else {
                    assert!(!index.remove(&mut items, key.hash(&[name]), slot));
                    items[slot].name = name;
                    index.insert(&mut items, key.hash(&[name]), slot);
                    model.insert(slot, name);
                }
                for name in 0..12 {
                    let hash = key.hash(&[name]);
                    let mut found: Vec<_> =
                        index.iter(&items, hash).filter(|&i| items[i].name == name).collect();
                    found.sort();
                    let wanted: Vec<_> =
                        model.iter().filter(|(_, n)| **n == name).map(|(i, _)| *i).collect();
                    assert_eq!(found, wanted, "seed {seed}");
                    let any = index.find(&items, hash, |item| item.name == name);
                    assert_eq!(any.is_some(), !wanted.is_empty());
                }
            }
            for (slot, name) in model {
                assert!(index.remove(&mut items, key.hash(&[name]), slot));
                assert!(!index.remove(&mut items, key.hash(&[name]), slot));
            }
            assert!(index.is_empty());
            assert!(items.iter().all(|item| item.chains == [Link::NONE; 2]));
        }
    }

    #[test]
    fn any_number_of_heads_will_do_but_none() {
        for (len, ok) in [(0, false), (1, true), (3, true), (64, true)] {
            assert_eq!(Chains::<0>::new(&mut vec![Link::NONE; len]).is_some(), ok, "{len}");
        }
    }
}
