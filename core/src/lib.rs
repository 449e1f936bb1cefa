#![doc = "An RDMA connection manager (IBTA CM) without std, heap or I/O."]
#![cfg_attr(not(any(test, feature = "testing")), no_std)]
#![forbid(unsafe_code)]

#[macro_use]
mod fmt;
pub mod addr;
mod handle;
mod hash;
pub mod port;
pub mod slots;
pub mod time;
pub mod wire;

pub use handle::{Id, RequestId, SendToken};
