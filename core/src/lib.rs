#![doc = "An RDMA connection manager (IBTA CM) without std, heap or I/O."]
#![cfg_attr(not(any(test, feature = "testing")), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[macro_use]
mod fmt;
pub mod addr;
mod cm;
mod config;
pub mod conn;
pub mod error;
mod event;
mod gids;
mod handle;
mod hash;
pub mod id;
#[cfg(feature = "alloc")]
mod memory;
pub mod port;
mod request;
pub mod slots;
mod stats;
mod storage;
#[cfg(feature = "testing")]
pub mod testing;
pub mod time;
pub mod wire;

pub use addr::{Gid, Path, PortSpace, RocePath, ScopedIp, ServiceId};
pub use cm::{Cm, SetupError, Transmit};
pub use config::{Config, Timers};
pub use conn::{ConnParam, ConnState, QpAttrs, QpState};
pub use event::{DisconnectCause, Event, EventKind, PeerParam, Unreachable};
pub use gids::{GidEntry, PortEvent};
pub use handle::{Id, RequestId, SendToken};
pub use id::{IdOption, State};
#[cfg(feature = "alloc")]
pub use memory::{Capacity, Memory};
pub use request::{Outcome, Request, Route};
pub use stats::{Counters, Disposition, IgnoreReason};
pub use storage::{Parts, Storage};
pub use time::Instant;
