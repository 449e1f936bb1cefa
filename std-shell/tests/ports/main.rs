//! Ports of RDMA and of the host: real sockets and real programs, each test in a network namespace
//! of its own. Who stands in whose way, who is told what, who lives on.
//!
//! Read first: `docs/ports.md`.

#[path = "../common/mod.rs"]
mod common;
#[allow(dead_code)]
#[path = "../program/process.rs"]
mod process;
mod world;

mod active;
mod covered;
mod crowd;
mod daemon;
mod fork;
mod limits;
mod listing;
mod others;
mod refused;
mod shared;
mod udp;
