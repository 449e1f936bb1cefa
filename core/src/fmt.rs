//! Logging macros over `log`, `defmt`, both or nothing. The arguments are used either way.

#![allow(unused_macros)]

macro_rules! debug {
    ($($arg:expr),* $(,)?) => {{
        #[cfg(feature = "log")]
        ::log::debug!($($arg),*);
        #[cfg(feature = "defmt")]
        ::defmt::debug!($($arg),*);
        #[cfg(not(any(feature = "log", feature = "defmt")))]
        { let _ = ($(&$arg),*); }
    }};
}
