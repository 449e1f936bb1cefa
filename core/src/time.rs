//! Time as the engine sees it: an argument, never a clock.
//!
//! Owns [`Instant`] (what callers pass in), `Tick` (the 32-bit form that deadlines are stored in)
//! and the five-bit timeout codes of the CM messages. Read first: IBTA 12 (timeout fields are
//! `4.096 µs · 2ⁿ`).

use core::time::Duration;

/// A point in time: nanoseconds since any zero the caller likes. It may repeat; one that goes
/// backwards is taken for the latest one seen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The caller's zero.
    pub const ZERO: Instant = Instant(0);

    /// From nanoseconds since zero.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// From milliseconds since zero.
    pub const fn from_millis(millis: u64) -> Self {
        Instant(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since zero.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long ago `earlier` was; zero if it is still to come.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl core::ops::Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, rhs: Duration) -> Instant {
        let nanos = u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanos))
    }
}

/// A deadline in milliseconds modulo 2³²: compared by distance, so it works across the wrap (every
/// 49.7 days) as long as no deadline lies more than 24 days ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tick(u32);

impl Tick {
    /// The last whole millisecond that has passed at `now`.
    pub(crate) const fn at(now: Instant) -> Tick {
        Tick((now.0 / 1_000_000) as u32)
    }

    /// The tick `after` later, rounded up, so that nothing expires early.
    pub(crate) const fn after(now: Instant, after: Duration) -> Tick {
        let longest = LONGEST.as_secs() * NANOS;
        let nanos =
            after.as_secs().saturating_mul(NANOS).saturating_add(after.subsec_nanos() as u64);
        let nanos = if nanos < longest { nanos } else { longest };
        Tick(now.0.saturating_add(nanos).div_ceil(1_000_000) as u32)
    }

    /// The tick so many milliseconds later.
    pub(crate) const fn plus_millis(self, millis: u32) -> Tick {
        Tick(self.0.wrapping_add(millis))
    }

    /// Whether this tick has been reached when the clock shows `now`.
    pub(crate) const fn is_due(self, now: Tick) -> bool {
        self.ahead_of(now) <= 0
    }

    /// Milliseconds from `other` to `self`, negative if it is earlier.
    pub(crate) const fn ahead_of(self, other: Tick) -> i32 {
        self.0.wrapping_sub(other.0) as i32
    }

    /// The earlier of two ticks.
    pub(crate) const fn min(self, other: Tick) -> Tick {
        if self.ahead_of(other) <= 0 { self } else { other }
    }

    /// The later of two ticks.
    pub(crate) const fn max(self, other: Tick) -> Tick {
        if self.ahead_of(other) >= 0 { self } else { other }
    }

    /// As an instant, given one (`now`) that is within 24 days of it.
    pub(crate) fn to_instant(self, now: Instant) -> Instant {
        let millis = (now.0 / 1_000_000) as i64 + i64::from(self.ahead_of(Tick::at(now)));
        Instant::from_millis(millis.max(0) as u64)
    }
}

/// In a second.
const NANOS: u64 = 1_000_000_000;

/// No deadline is set further ahead than this (12 days).
pub(crate) const LONGEST: Duration = Duration::from_secs(12 * 86_400);

/// The duration of a five-bit timeout code: `4.096 µs · 2ⁿ` (IBTA 12). Bits above the fifth are
/// ignored.
pub const fn code_to_duration(code: u8) -> Duration {
    Duration::from_nanos(4096u64 << (code & 31))
}

/// The shortest duration a code has that is not shorter than this.
pub const fn duration_to_code(duration: Duration) -> u8 {
    let mut code = 0;
    while code < 31 && (4096u128 << code) < duration.as_nanos() {
        code += 1;
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_round_up_and_compare_across_the_wrap() {
        for start in [0, 4_294_967_295_000_000 - 5_000_000] {
            let now = Instant::from_nanos(start + 1);
            let due = Tick::after(now, Duration::from_millis(10));
            assert!(!due.is_due(Tick::at(Instant::from_nanos(start + 10_000_000))));
            assert!(due.is_due(Tick::at(Instant::from_nanos(start + 11_000_000))));
            assert_eq!(due.to_instant(now), Instant::from_nanos(start + 11_000_000));
        }
    }

    #[test]
    fn timeout_codes_are_powers_of_two_of_4096_ns() {
        assert_eq!(code_to_duration(0), Duration::from_nanos(4096));
        assert_eq!(code_to_duration(18), Duration::from_nanos(4096 << 18));
        assert_eq!(code_to_duration(31), 2 * code_to_duration(30));
        assert_eq!(code_to_duration(32), code_to_duration(0));
    }
}
