//! Everything tests, fuzzers and benches share: memory of run-time size, a simulated link, a pair of
//! engines under one clock. With std; behind the feature `testing`.

pub mod fuzz;
mod link;
mod pair;
mod picture;
mod solo;
mod watch;
mod world;

pub use crate::memory::{Capacity, Memory};
pub use link::{Faults, Flight, Link};
pub use pair::{Node, Pair, Side, Told};
pub use picture::{Picture, digest};
pub use solo::{Brought, Peer, Solo, comm_id, is_terminal, name};
pub use watch::{Phase, Watch};
pub use world::{STARTS, World};
