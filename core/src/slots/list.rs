//! [`List`]: a doubly linked FIFO whose links lie in the slots.
//!
//! The first slot's `prev` and the last one's `next` point at themselves, so that a slot knows by
//! itself whether it is in a list, even where many lists share one pair of links (the backlogs of
//! all listeners, say).

use super::Link;

/// A slot's place in one list. Zero: in none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Links {
    pub(crate) prev: Link,
    pub(crate) next: Link,
}

impl Links {
    /// In no list.
    pub const NONE: Links = Links { prev: Link::NONE, next: Link::NONE };

    /// Whether the slot is in a list.
    pub const fn is_linked(&self) -> bool {
        !self.next.is_none()
    }
}

/// A slot that can be in a list of kind `LIST`; one slot may be in several kinds at a time.
pub trait Linked<const LIST: u8> {
    /// Its links in lists of this kind.
    fn links(&mut self) -> &mut Links;
    /// The same, to read.
    fn links_ref(&self) -> &Links;
}

/// A FIFO through slots. Every call must be given the same slots.
///
/// ```
/// use nanocm_core::slots::{Linked, Links, List};
///
/// #[derive(Clone, Copy, Default)]
/// struct Conn { ready: Links }
/// impl Linked<0> for Conn {
///     fn links(&mut self) -> &mut Links { &mut self.ready }
///     fn links_ref(&self) -> &Links { &self.ready }
/// }
///
/// let mut conns = [Conn::default(); 3];
/// let mut ready = List::<0>::new();
/// ready.push_back(&mut conns, 2);
/// ready.push_back(&mut conns, 0);
/// ready.push_back(&mut conns, 2); // keeps its place
/// assert_eq!(ready.pop_front(&mut conns), Some(2));
/// assert_eq!(ready.pop_front(&mut conns), Some(0));
/// assert_eq!(ready.pop_front(&mut conns), None);
/// ```
#[derive(Clone, Copy, Default, Debug)]
pub struct List<const LIST: u8> {
    head: Link,
    tail: Link,
}

impl<const LIST: u8> List<LIST> {
    /// An empty list.
    pub const fn new() -> Self {
        List { head: Link::NONE, tail: Link::NONE }
    }

    /// Whether no slot is in it.
    pub const fn is_empty(&self) -> bool {
        self.head.is_none()
    }

    /// The first slot's index.
    pub const fn front(&self) -> Option<usize> {
        self.head.get()
    }

    /// Whether a slot is in a list of this kind.
    pub fn is_linked<T: Linked<LIST>>(slots: &[T], index: usize) -> bool {
        slots[index].links_ref().is_linked()
    }

    /// Puts a slot last. One that is in a list of this kind already keeps its place; the answer is
    /// then false.
    pub fn push_back<T: Linked<LIST>>(&mut self, slots: &mut [T], index: usize) -> bool {
        if Self::is_linked(slots, index) {
            return false;
        }
        let this = Link::to(index);
        let prev = match self.tail.get() {
            Some(tail) => {
                slots[tail].links().next = this;
                self.tail
            }
            None => {
                self.head = this;
                this
            }
        };
        self.tail = this;
        *slots[index].links() = Links { prev, next: this };
        true
    }

    /// Takes the first slot out.
    pub fn pop_front<T: Linked<LIST>>(&mut self, slots: &mut [T]) -> Option<usize> {
        let index = self.front()?;
        self.remove(slots, index);
        Some(index)
    }

    /// Takes a slot out, wherever it stands. The answer is false if it was in no list of this kind.
    /// It must not be in another one.
    pub fn remove<T: Linked<LIST>>(&mut self, slots: &mut [T], index: usize) -> bool {
        let Links { prev, next } = core::mem::take(slots[index].links());
        if next.is_none() {
            return false;
        }
        let this = Link::to(index);
        debug_assert!(prev != this || self.head == this, "slot {index} is in another list");
        debug_assert!(next != this || self.tail == this, "slot {index} is in another list");
        let before = prev.get().filter(|_| prev != this);
        let after = next.get().filter(|_| next != this);
        match before {
            Some(before) => {
                let next = if after.is_some() { next } else { prev };
                slots[before].links().next = next;
            }
            None => self.head = if after.is_some() { next } else { Link::NONE },
        }
        match after {
            Some(after) => {
                let prev = if before.is_some() { prev } else { next };
                slots[after].links().prev = prev;
            }
            None => self.tail = if before.is_some() { prev } else { Link::NONE },
        }
        true
    }

    /// The slot after this one, which must be in a list.
    pub fn next<T: Linked<LIST>>(slots: &[T], index: usize) -> Option<usize> {
        slots[index].links_ref().next.get().filter(|&next| next != index)
    }

    /// The indexes from first to last. For a list with as many slots as a table this is a walk over
    /// the table: not for hot paths.
    pub fn iter<T: Linked<LIST>>(&self, slots: &[T]) -> impl Iterator<Item = usize> {
        core::iter::successors(self.front(), |&index| Self::next(slots, index))
    }
}

#[cfg(feature = "testing")]
impl<const LIST: u8> List<LIST> {
    /// The slots in the list, first to last. A walk that panics where links do not lead back.
    pub(crate) fn audit<T: Linked<LIST>>(&self, slots: &[T]) -> Vec<usize> {
        let (mut members, mut before, mut at) = (Vec::new(), self.head, self.head);
        while let Some(index) = at.get() {
            assert!(members.len() < slots.len(), "a list leads round in circles");
            let links = slots[index].links_ref();
            assert_eq!(links.prev, before, "slot {index} of a list leads back elsewhere");
            members.push(index);
            (before, at) = (at, links.next);
            if at == before {
                break;
            }
        }
        assert_eq!(self.tail, before, "a list ends elsewhere");
        members
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::Rng;
    use std::collections::VecDeque;

    #[derive(Clone, Copy, Default)]
    struct Item {
        a: Links,
        b: Links,
    }

    impl Linked<0> for Item {
        fn links(&mut self) -> &mut Links {
            &mut self.a
        }
        fn links_ref(&self) -> &Links {
            &self.a
        }
    }

    impl Linked<1> for Item {
        fn links(&mut self) -> &mut Links {
            &mut self.b
        }
        fn links_ref(&self) -> &Links {
            &self.b
        }
    }

    #[test]
    fn lists_behave_like_a_deque() {
        for seed in 0..40 {
            let mut rng = Rng::new(super::super::Key::new(seed, 1));
            let mut items = [Item::default(); 9];
            // Two lists share links 0, a third has its own.
            let mut lists = [List::<0>::new(); 2];
            let mut other = List::<1>::new();
            let mut models = [VecDeque::new(), VecDeque::new()];
            let mut other_model = VecDeque::new();
            for _ in 0..2_000 {
                let index = rng.below(9) as usize;
                let which = rng.below(2) as usize;
                let linked = models.iter().any(|model| model.contains(&index));
                assert_eq!(List::<0>::is_linked(&items, index), linked);
                match rng.below(6) {
                    0 | 1 => {
                        assert_eq!(lists[which].push_back(&mut items, index), !linked);
                        if !linked {
                            models[which].push_back(index);
                        }
                    }
                    2 => {
                        let popped = lists[which].pop_front(&mut items);
                        assert_eq!(popped, models[which].pop_front(), "seed {seed}");
                    }
                    3 => {
                        if models[which].contains(&index) || !linked {
                            assert_eq!(lists[which].remove(&mut items, index), linked);
                            models[which].retain(|&i| i != index);
                        }
                    }
                    4 => {
                        if other.push_back(&mut items, index) {
                            other_model.push_back(index);
                        }
                    }
                    _ => assert_eq!(other.pop_front(&mut items), other_model.pop_front()),
                }
                for (list, model) in lists.iter().zip(&models) {
                    assert!(list.iter(&items).eq(model.iter().copied()), "seed {seed}");
                    assert_eq!(list.front(), model.front().copied());
                    assert_eq!(list.is_empty(), model.is_empty());
                }
            }
        }
    }

    #[test]
    fn an_emptied_list_leaves_zero_bits_behind() {
        let mut items = [Item::default(); 4];
        let mut list = List::<0>::new();
        for index in [3, 1, 2] {
            list.push_back(&mut items, index);
        }
        for index in [1, 2, 3] {
            assert!(list.remove(&mut items, index));
        }
        assert!(!list.remove(&mut items, 1));
        assert!(list.is_empty() && list.tail.is_none());
        assert!(items.iter().all(|item| item.a == Links::NONE));
    }
}
