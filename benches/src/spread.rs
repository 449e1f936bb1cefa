//! Counts of one kind of call: how many, the typical one, the worst.

/// Samples of a kind of call.
#[derive(Default)]
pub(crate) struct Spread {
    counts: Vec<u64>,
}

impl Spread {
    pub(crate) fn add(&mut self, count: u64) {
        self.counts.push(count);
    }

    pub(crate) fn append(&mut self, other: Spread) {
        self.counts.extend(other.counts);
    }

    pub(crate) fn len(&self) -> usize {
        self.counts.len()
    }

    /// The median.
    pub(crate) fn typical(&self) -> u64 {
        let mut sorted = self.counts.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }

    pub(crate) fn worst(&self) -> u64 {
        self.counts.iter().copied().max().unwrap_or(0)
    }
}
