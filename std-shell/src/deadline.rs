//! [`Deadline`]: until when a call may take.

use std::time::{Duration, Instant};

/// Until when a call may take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Deadline(Option<Instant>);

impl Deadline {
    /// For ever.
    pub const NEVER: Deadline = Deadline(None);

    /// So long from now.
    pub fn after(time: Duration) -> Deadline {
        Deadline(Instant::now().checked_add(time))
    }

    /// So many seconds from now.
    pub fn after_secs(seconds: u64) -> Deadline {
        Deadline::after(Duration::from_secs(seconds))
    }

    /// At that instant.
    pub const fn at(instant: Instant) -> Deadline {
        Deadline(Some(instant))
    }

    /// The instant, if there is one.
    pub fn instant(self) -> Option<Instant> {
        self.0
    }

    /// What is left of it; `None`: for ever.
    pub fn remaining(self) -> Option<Duration> {
        self.0.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn has_passed(self) -> bool {
        self.0.is_some_and(|at| at <= Instant::now())
    }
}
