//! The std API over the in-process network, and over real sockets in a network namespace.

#[path = "../common/mod.rs"]
mod common;
mod executor;
mod slow;
mod world;

mod again;
mod blocking;
mod cancel;
mod channels;
mod crowd;
mod deadlines;
mod destroy;
mod driverless;
mod errors;
mod faults;
mod futures;
mod migrate;
mod print;
mod removal;
mod sidr;
mod udp;
