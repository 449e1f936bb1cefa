//! The budgets of nanocm, measured: instructions per operation, worst case against typical, RAM,
//! flash, and the rate over real sockets against bare ones. `README.md` says how each number is got
//! and what counts as a regression; `budgets.rs` prints them.

pub mod calls;
pub mod count;
mod forge;
pub mod handshake;
#[cfg(feature = "sockets")]
pub mod host_ports;
pub mod memory;
pub mod ports;
#[cfg(feature = "sockets")]
pub mod rate;
pub mod report;
mod rng;
pub mod scale;
mod spread;
pub mod stack;
mod world;
pub mod worst;
