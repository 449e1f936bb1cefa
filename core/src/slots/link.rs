//! [`Link`]: an index that may be absent, in 32 bits, zero meaning absent.

/// A slot's index plus one; 0 is "none".
#[derive(Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct Link(u32);

impl Link {
    /// No slot.
    pub const NONE: Link = Link(0);

    /// The slot with this index.
    pub const fn to(index: usize) -> Link {
        debug_assert!(index < u32::MAX as usize);
        Link(index as u32 + 1)
    }

    /// The index, if there is one.
    pub const fn get(self) -> Option<usize> {
        match self.0 {
            0 => None,
            n => Some(n as usize - 1),
        }
    }

    /// Whether this leads nowhere.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }
}

impl From<Option<usize>> for Link {
    fn from(index: Option<usize>) -> Link {
        index.map_or(Link::NONE, Link::to)
    }
}

impl core::fmt::Debug for Link {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.get() {
            Some(index) => write!(f, "->{index}"),
            None => f.write_str("-"),
        }
    }
}
