//! Bodies of the fuzz targets: `fuzz/` only hands them octets; the tests do so too (`tests/fuzz.rs`).
//!
//! | target | body | what |
//! |---|---|---|
//! | `wire_parse`, `wire_round_trip` | `wire.rs` | octets to fields and back |
//! | `frame` | `frame.rs` | RoCEv2 frames, ICRC, IP packets |
//! | `ports` | `ports.rs` | port numbers against a model that walks all owners |
//! | `ops` | `ops.rs`, `app.rs` | one engine: operations, events, datagrams, time in any order |
//! | `pair` | `pair.rs`, `app.rs` | two engines over a bad link |
//!
//! Each takes any octets: choices are read from them one after the other ([`Input`]), and zeros
//! when there are none left. A finding is a panic.

mod addresses;
mod app;
pub mod corpus;
mod frame;
mod input;
mod ops;
mod pair;
mod ports;
mod scripts;
mod seeds;
mod wire;

pub use frame::frame;
pub use input::Input;
pub use ops::ops;
pub use pair::pair;
pub use ports::ports;
pub use wire::{wire_parse, wire_round_trip};

/// A fuzz target.
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What is done with the octets.
    pub body: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident)*) => {
        /// Every target.
        pub const TARGETS: &[Target] =
            &[$(Target { name: stringify!($name), body: $name }),*];
    };
}
targets! { wire_parse wire_round_trip frame ports ops pair }
