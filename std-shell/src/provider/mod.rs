//! Providers: how CM messages travel.
//!
//! | provider | needs | carries MADs over |
//! |---|---|---|
//! | [`Udp`] | nothing | UDP sockets on port 4791 (RoCEv2) |
//! | [`Raw`] | CAP_NET_RAW | raw IP sockets, the same on the wire; checks every ICRC in full |
//! | [`Mem`] | nothing | queues in this process, with losses on demand |
//!
//! All are [`MadTransport`]s. [`Frames`] is for tests of a peer: port 4791 without framing. `udp` and `raw` refuse addresses where they could hear nothing:
//! [`judge`] says why. One connection manager per address: a second one is told who the first is.

#![deny(unsafe_code)]

mod activation;
mod addresses;
mod datagram;
mod error;
mod frames;
mod guid;
mod host;
mod link;
mod mem;
mod owner;
mod raw;
mod roce;
mod sockopt;
mod sys;
mod transport;
mod udp;

pub use error::{OpenCause, OpenError};
pub use frames::Frames;
pub use guid::Guids;
pub use host::{HostFacts, Refusal, judge};
pub use mem::{LinkFaults, Mem, MemNet};
pub use owner::Holder;
pub(crate) use owner::{may_see_all_processes, parse_hex_address};
pub use raw::Raw;
pub use transport::{
    FailureCause, Fault, MadTransport, Outgoing, PortHome, Received, SendFailure, Source,
    TransportCounters,
};
pub use udp::Udp;
