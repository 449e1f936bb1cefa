//! The program as scripts see it: real processes, each test in a network namespace of its own.
//!
//! Read first: `docs/cli.md`.

#[path = "../common/mod.rs"]
mod common;
mod process;
mod wire;

mod addresses;
mod arguments;
mod counters;
mod crossing;
mod demo;
mod events;
mod many;
mod numbers;
mod output;
mod probe;
mod resolve;
mod signals;
mod states;
mod thinking;
mod unanswered;
mod vanished;
