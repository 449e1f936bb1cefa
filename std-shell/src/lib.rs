//! RDMA connection management for std programs.
//!
//! | to do this | use |
//! |---|---|
//! | connect, listen and accept with blocking calls | [`Cm::connect`], [`Cm::listen`] |
//! | the same with `.await`, under any executor | [`future`] |
//! | find datagram services | [`Cm::resolve`], [`future::Service`] |
//! | many connections from one event loop | [`Cm::create_id`], [`EventChannel`], [`Id`] |
//! | drive it from one's own loop, without a thread | [`Drive::Caller`], [`Cm::drive`] |
//! | hold RDMA's port numbers in the host's port space, or share one with TCP | [`host_ports`] |
//! | carry CM messages another way | [`provider::MadTransport`] |
//! | put the API on another connection manager | [`Backend`] |
//! | read CM messages out of capture files | [`capture`] |
//!
//! The protocol is `nanocm-core`'s ([`core`]), which firmware links without this crate.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use nanocm::{Cm, ConnParam, Deadline};
//!
//! let cm = Cm::udp()?;
//! let listener = cm.listen("10.0.0.1:4420".parse()?, 0)?;
//! while let Some(request) = listener.request(Deadline::NEVER)? {
//!     let mut param = ConnParam::new(cm.next_qpn());
//!     param.private_data = b"welcome";
//!     let connection = request.accept(&param, Deadline::after_secs(5))?;
//!     println!("{} is connected", connection.peer());
//! }
//! # Ok(()) }
//! ```

#![warn(missing_debug_implementations)]

#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../docs/ports.md")]
struct Ports;

mod backend;
mod binding;
mod blocking;
#[cfg(feature = "capture")]
pub mod capture;
mod channel;
mod cm;
pub mod crc;
mod deadline;
mod driver;
mod engine;
mod error;
pub mod future;
pub mod host_ports;
mod id;
pub mod netns;
pub mod provider;
mod queue;
mod shared;

pub use backend::{Backend, InUse, Told, Turn};
pub use binding::LentId;
pub use blocking::{Connection, Listener, Request};
pub use channel::{Event, EventChannel};
pub use cm::{Cm, Drive, random_seed};
pub use deadline::Deadline;
pub use engine::Engine;
pub use error::{Cause, Error, Rejection, SidrRejection};
pub use id::Id;
pub use nanocm_core as core;
pub use nanocm_core::wire::{RejectReason, SidrStatus};
pub use nanocm_core::{
    Capacity, Config, ConnParam, ConnState, Counters, DisconnectCause, Ece, EventKind, IdOption,
    PeerParam, PortSpace, QpAttrs, QpState, State, Timers, Transport, Transports, Unreachable,
};
