//! The providers on real sockets, each test in a network namespace of its own.

mod addresses;
mod bad_input;
mod capture;
mod errors;
mod mem;
mod netns;
mod refusals;
mod rig;
mod travel;
