//! Time stamps, with exactly the digits that the file has.

use std::fmt;

/// When a packet was captured: seconds since 1970 (UTC) to the resolution of the file.
///
/// Prints all its digits and no more: `1796026096.544931` from a file that counts microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamp {
    /// In units of 10⁻ᵈⁱᵍⁱᵗˢ seconds.
    units: i128,
    digits: u32,
}

/// More decimal digits than that are taken for a damaged file.
const MAX_DIGITS: u32 = 18;
const NANO_DIGITS: u32 = 9;

impl Timestamp {
    /// `resolution` as pcapng codes it: 6 for microseconds, 0x80 + n for 2⁻ⁿ s. `offset` is in
    /// seconds. `None` if the resolution is nonsense.
    pub(super) fn new(ticks: u64, resolution: u8, offset: i64) -> Option<Timestamp> {
        let exponent = u32::from(resolution & 0x7f);
        let (ticks, digits) = if resolution & 0x80 == 0 {
            (i128::from(ticks), exponent)
        } else {
            ((i128::from(ticks) * power(NANO_DIGITS)) >> exponent, NANO_DIGITS)
        };
        if digits > MAX_DIGITS {
            return None;
        }
        Some(Timestamp { units: ticks + i128::from(offset) * power(digits), digits })
    }

    /// So many nanoseconds since 1970.
    pub fn from_nanoseconds(nanoseconds: u64) -> Timestamp {
        Timestamp { units: nanoseconds.into(), digits: NANO_DIGITS }
    }

    /// Nanoseconds from `earlier` to this; negative if that is in truth the later one.
    pub fn nanoseconds_since(&self, earlier: &Timestamp) -> i64 {
        let difference = self.nanoseconds() - earlier.nanoseconds();
        i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
    }

    fn nanoseconds(&self) -> i128 {
        match NANO_DIGITS.checked_sub(self.digits) {
            Some(missing) => self.units * power(missing),
            None => self.units / power(self.digits - NANO_DIGITS),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.units < 0 { "-" } else { "" };
        let unit = power(self.digits).unsigned_abs();
        let (seconds, fraction) =
            (self.units.unsigned_abs() / unit, self.units.unsigned_abs() % unit);
        match self.digits as usize {
            0 => write!(f, "{sign}{seconds}"),
            digits => write!(f, "{sign}{seconds}.{fraction:0digits$}"),
        }
    }
}

const fn power(digits: u32) -> i128 {
    10_i128.pow(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(ticks: u64, resolution: u8, offset: i64) -> Timestamp {
        Timestamp::new(ticks, resolution, offset).unwrap()
    }

    #[test]
    fn a_time_stamp_prints_the_digits_of_its_file() {
        for (ticks, resolution, offset, text) in [
            (1_796_026_096_544_931, 6, 0, "1796026096.544931"),
            (7_000_000_005, 9, 0, "7.000000005"),
            (1_500, 3, 10, "11.500"),
            (12, 0, 0, "12"),
            (1_000_000_000_001, 12, 0, "1.000000000001"),
            (3 << 19, 0x80 | 20, 0, "1.500000000"),
            (500_000, 6, -1, "-0.500000"),
        ] {
            assert_eq!(time(ticks, resolution, offset).to_string(), text);
        }
    }

    #[test]
    fn no_resolution_and_no_offset_overflows() {
        for resolution in 0..=u8::MAX {
            for offset in [i64::MIN, -1, 0, i64::MAX] {
                match Timestamp::new(u64::MAX, resolution, offset) {
                    None => assert!((19..0x80).contains(&resolution)),
                    Some(time) => {
                        let since = time.nanoseconds_since(&self::time(0, 6, 0));
                        assert_eq!(since < 0, time.to_string().starts_with('-'));
                    }
                }
            }
        }
    }

    #[test]
    fn differences_are_exact_across_resolutions() {
        let (micro, nano) = (time(10_000_001, 6, 0), time(10_000_000_002, 9, 0));
        assert_eq!(micro.nanoseconds_since(&nano), 998);
        assert_eq!(nano.nanoseconds_since(&micro), -998);
    }
}
