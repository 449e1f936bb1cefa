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
        Tick(millis(now.0) as u32)
    }

    /// The tick `after` later, rounded up, so that nothing expires early.
    pub(crate) const fn after(now: Instant, after: Span) -> Tick {
        Tick(millis(now.0.saturating_add(after.0).saturating_add(MILLION - 1)) as u32)
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

    /// Nanoseconds that have passed since this tick when the clock shows `now`; 0 if it is to come.
    pub(crate) const fn overdue(self, now: Tick) -> u64 {
        let passed = now.ahead_of(self);
        if passed > 0 { passed as u64 * MILLION } else { 0 }
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
        let passed = millis(now.0);
        let millis = passed as i64 + i64::from(self.ahead_of(Tick(passed as u32)));
        Instant::from_millis(millis.max(0) as u64)
    }
}

/// How far ahead a deadline is: nanoseconds, at most [`LONGEST`](Span::LONGEST). What is a power of
/// two is one here too; a [`Duration`] takes divisions of 64 bits, for which small processors have no
/// instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Span(u64);

impl Span {
    /// No deadline is set further ahead than this (12 days).
    pub(crate) const LONGEST: Span = Span(12 * 86_400 * 1_000 * MILLION);

    /// The shortest one that counts.
    pub(crate) const MILLISECOND: Span = Span(MILLION);

    /// That of a five-bit timeout code.
    pub(crate) const fn of_code(code: u8) -> Span {
        Span(code_to_nanos(code))
    }

    /// In nanoseconds.
    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    /// In whole milliseconds.
    pub(crate) const fn as_millis(self) -> u32 {
        millis(self.0) as u32
    }

    /// What is left of it after another one.
    pub(crate) const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// Doubled so many times (at most 63).
    pub(crate) const fn doubled(self, times: u32) -> Span {
        if self.0 > Span::LONGEST.0 >> times { Span::LONGEST } else { Span(self.0 << times) }
    }
}

impl core::ops::Add for Span {
    type Output = Span;

    fn add(self, rhs: Span) -> Span {
        Span(self.0 + rhs.0).min(Span::LONGEST)
    }
}

impl From<Duration> for Span {
    /// Apart: done once for each setting, and for a deadline of the user's.
    #[inline(never)]
    fn from(duration: Duration) -> Span {
        match u32::try_from(duration.as_secs()) {
            Ok(secs) => {
                let nanos = u64::from(secs) * 1_000 * MILLION + u64::from(duration.subsec_nanos());
                Span(nanos).min(Span::LONGEST)
            }
            Err(_) => Span::LONGEST,
        }
    }
}

/// Nanoseconds in a millisecond.
const MILLION: u64 = 1_000_000;

/// Whole milliseconds in so many nanoseconds.
const fn millis(nanos: u64) -> u64 {
    if usize::BITS >= 64 { nanos / MILLION } else { millis_by_digits(nanos) }
}

/// The same for processors that divide 32 bits at most: long division by 1,000,000 = 15,625 · 2⁶, in
/// digits of 16 bits.
#[inline(never)]
const fn millis_by_digits(nanos: u64) -> u64 {
    let mut digits = nanos >> 6;
    let (mut quotient, mut rest) = (0, 0);
    let mut digit = 0;
    while digit < 4 {
        let part = rest << 16 | (digits >> 48) as u32;
        quotient = quotient << 16 | (part / 15_625) as u64;
        rest = part % 15_625;
        digits <<= 16;
        digit += 1;
    }
    quotient
}

/// The duration of a five-bit timeout code: `4.096 µs · 2ⁿ` (IBTA 12). Bits above the fifth are
/// ignored.
pub const fn code_to_duration(code: u8) -> Duration {
    Duration::from_nanos(code_to_nanos(code))
}

const fn code_to_nanos(code: u8) -> u64 {
    4096 << (code & 31)
}

/// The shortest duration a code has that is not shorter than this.
pub(crate) fn duration_to_code(duration: Duration) -> u8 {
    let (mut code, nanos) = (0, Span::from(duration).0);
    while code < 31 && code_to_nanos(code) < nanos {
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
            let due = Tick::after(now, Duration::from_millis(10).into());
            assert!(!due.is_due(Tick::at(Instant::from_nanos(start + 10_000_000))));
            assert!(due.is_due(Tick::at(Instant::from_nanos(start + 11_000_000))));
            assert_eq!(due.to_instant(now), Instant::from_nanos(start + 11_000_000));
        }
    }

    #[test]
    fn milliseconds_by_digits_are_those_by_division() {
        for nanos in [0, 999_999, MILLION, u64::from(u32::MAX) * MILLION, u64::MAX - 1, u64::MAX] {
            assert_eq!(millis_by_digits(nanos), nanos / MILLION);
        }
        let mut rng = crate::hash::Rng::new(crate::hash::Key::new(7, 7));
        for _ in 0..20_000 {
            let nanos = u64::from(rng.next_u32()) << 32 | u64::from(rng.next_u32());
            let nanos = nanos >> rng.below(64);
            assert_eq!(millis_by_digits(nanos), nanos / MILLION, "{nanos}");
        }
    }

    #[test]
    fn spans_end_at_the_longest() {
        let longest = Duration::from_secs(12 * 86_400);
        assert_eq!(Span::from(longest), Span::LONGEST);
        for duration in [longest + Duration::from_nanos(1), Duration::MAX] {
            assert_eq!(Span::from(duration), Span::LONGEST);
        }
        let almost = Duration::from_secs(12 * 86_400 - 1) + Duration::from_nanos(999_999_999);
        assert_eq!(Span::from(almost).as_nanos(), Span::LONGEST.as_nanos() - 1);
        assert_eq!(Span::LONGEST + Span::MILLISECOND, Span::LONGEST);
        assert_eq!(Span::MILLISECOND.doubled(3).as_nanos(), 8 * MILLION);
        assert_eq!(Span::LONGEST.doubled(1), Span::LONGEST);
        assert_eq!(Span::of_code(31), Span::from(code_to_duration(31)));
    }

    #[test]
    fn timeout_codes_are_powers_of_two_of_4096_ns() {
        assert_eq!(code_to_duration(0), Duration::from_nanos(4096));
        assert_eq!(code_to_duration(18), Duration::from_nanos(4096 << 18));
        assert_eq!(code_to_duration(31), 2 * code_to_duration(30));
        assert_eq!(code_to_duration(32), code_to_duration(0));
    }
}
