//! The std API over the in-process network, and over real sockets in a network namespace.

#[path = "../common/mod.rs"]
mod common;
mod world;

mod again;
mod blocking;
mod channels;
mod crowd;
mod deadlines;
mod destroy;
mod driverless;
mod errors;
mod faults;
mod udp;
