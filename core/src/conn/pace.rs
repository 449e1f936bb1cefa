//! How long peers take to answer lately, so that one that is behind with its work is not asked everything again.
//!
//! A thousand connections that begin at once take a host seconds. Repetitions come on top of what it has
//! not got to yet; what they ask has been answered when it sees them, and a late copy of a REQ may be taken
//! for a new one. So a repetition waits while messages that were not lost have waited longer. Read first:
//! RFC 6298 §3 (Karn's algorithm), §5.

use crate::time::Tick;

/// Milliseconds after which nobody remembers how long answers took.
const MEMORY: i32 = 10_000;

/// How long the latest answers took, the slower ones counting more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pace {
    millis: u32,
    at: Tick,
}

impl Pace {
    /// An answer has come, so many milliseconds after its question was sent for the only time.
    pub(super) fn note(&mut self, millis: u32, now: Tick) {
        let before = self.lately(now);
        *self = Pace { millis: millis.max(before - before / 8), at: now };
    }

    /// Milliseconds that answers take; 0 if that is not known.
    pub(super) fn lately(&self, now: Tick) -> u32 {
        // Half the range of ticks later it is negative.
        let age = now.ahead_of(self.at);
        if (0..=MEMORY).contains(&age) { self.millis } else { 0 }
    }

    /// Whether an answer that has not come for so long may still be in time.
    pub(super) fn may_come(&self, millis: u32, now: Tick) -> bool {
        self.lately(now).saturating_mul(2) > millis
    }
}

#[cfg(feature = "testing")]
impl Pace {
    /// How long answers take, and since when that is known.
    pub(super) fn paint(&self, now: Tick, picture: &mut crate::testing::Picture) {
        let millis = self.lately(now);
        let age = if millis == 0 { 0 } else { now.ahead_of(self.at) };
        picture.put_all([u64::from(millis), age as u64]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Instant;

    /// Just under the wrap, and zero.
    const STARTS: [u64; 2] = [0, 4_294_967_000];

    fn tick(start: u64, millis: u64) -> Tick {
        Tick::at(Instant::from_millis(start + millis))
    }

    #[test]
    fn slow_answers_are_felt_at_once_and_quick_ones_bit_by_bit() {
        for start in STARTS {
            let mut pace = Pace::default();
            assert!(!pace.may_come(0, tick(start, 0)));
            pace.note(800, tick(start, 900));
            assert!(pace.may_come(1_599, tick(start, 900)));
            assert!(!pace.may_come(1_600, tick(start, 900)));
            pace.note(0, tick(start, 901));
            assert_eq!(pace.lately(tick(start, 901)), 700);
            for at in 0..40 {
                pace.note(3, tick(start, 902 + at));
            }
            assert!(pace.lately(tick(start, 942)) < 20);
        }
    }

    #[test]
    fn after_a_silence_nothing_is_known() {
        for start in STARTS {
            let mut pace = Pace::default();
            pace.note(5_000, tick(start, 0));
            assert_eq!(pace.lately(tick(start, 10_000)), 5_000);
            assert_eq!(pace.lately(tick(start, 10_001)), 0);
            // Nor after a month, when ticks are on their way round.
            assert_eq!(pace.lately(tick(start, 30 * 86_400_000)), 0);
        }
    }
}
