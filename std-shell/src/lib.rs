//! (in work)

pub mod provider;
