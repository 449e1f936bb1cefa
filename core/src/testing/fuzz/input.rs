//! Choices made of octets.

/// Octets to choose by. When they are used up, every choice is the first.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    /// Choices by these octets.
    pub const fn new(octets: &'a [u8]) -> Input<'a> {
        Input(octets)
    }

    /// Whether all are used up.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Those not used yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next octet.
    pub fn octet(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    /// The next octets.
    pub fn octets<const N: usize>(&mut self) -> [u8; N] {
        core::array::from_fn(|_| self.octet())
    }

    /// A number of so many bits, 64 at most.
    pub fn bits(&mut self, width: usize) -> u64 {
        let whole = (0..width.div_ceil(8)).fold(0, |bits, _| bits << 8 | u64::from(self.octet()));
        whole & (u64::MAX >> (64 - width))
    }

    /// Yes or no.
    pub fn flag(&mut self) -> bool {
        self.octet() & 1 == 1
    }

    /// A number below this one, which is 256 at most.
    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.octet()) % n
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}
