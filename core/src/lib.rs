//! An RDMA connection manager (IBTA CM) without std, heap or I/O.
//!
//! # The rooms
//!
//! | room | owns | knows nothing of |
//! |---|---|---|
//! | [`wire`] | octets and fields: MAD header, CM messages, RoCEv2 framing, ICRC | everything else |
//! | [`slots`] | fixed-capacity structures: table, lists, chains, deadlines | protocols |
//! | [`port`] | port numbers: who holds which, who may share | protocols |
//! | [`conn`] | machine 2: a connection, REQ to timewait | identifiers |
//! | [`id`] | machine 1: an identifier, and the operations on it | messages |
//! | [`Cm`] | the engine: routes between the two | the protocol |
//!
//! To follow one connection read, in this order: this page, `wire/req.rs`, `conn/state.rs`,
//! `conn/active.rs`, `conn/passive.rs`, `cm.rs`, `testing/pair.rs`, and then `tests/connect.rs`.
//!
//! # The contract
//!
//! One API for firmware, shell, tests, fuzzers and C. Four kinds of method:
//!
//! * `handle_*`: the world did something: [`handle_datagram`](Cm::handle_datagram),
//!   [`handle_timeout`](Cm::handle_timeout), [`handle_completion`](Cm::handle_completion),
//!   [`handle_port_event`](Cm::handle_port_event), [`handle_send_failed`](Cm::handle_send_failed).
//! * operations: the application wants something: [`create_id`](Cm::create_id), [`bind`](Cm::bind),
//!   [`listen`](Cm::listen), [`connect`](Cm::connect), [`accept`](Cm::accept), …
//! * `poll_*`: what must be done next: [`poll_transmit`](Cm::poll_transmit),
//!   [`poll_event`](Cm::poll_event), [`poll_request`](Cm::poll_request), [`poll_at`](Cm::poll_at).
//! * getters: [`state`](Cm::state), [`private_data`](Cm::private_data), [`counters`](Cm::counters), …
//!
//! 1. After any `handle_*` or operation drain every `poll_*` until one full pass yields nothing; then
//!    sleep until [`poll_at`](Cm::poll_at).
//! 2. Each call's work is bounded by constants or by what expired, never by how full the tables are.
//!    [`handle_timeout`](Cm::handle_timeout) takes a budget, which it also spends on what concerns
//!    many identifiers at once (a device that is gone, an address that has changed): 16 of the table's
//!    slots for each unit, while [`poll_at`](Cm::poll_at) says "now". One burst is left: the first
//!    [`poll_event`](Cm::poll_event) after a listener with unseen requests was destroyed.
//! 3. State is the send queue: a slot remembers *that* it owes a REP, and `poll_transmit` encodes it. A
//!    retransmission is a re-encode. Answers to strangers use a small ring; overflow is counted.
//! 4. Events are derived from slots, so the event path cannot overflow and nothing needs
//!    acknowledging. `destroy` never blocks.
//! 5. Nothing the network sends can panic, allocate or return `Err`: see [`Disposition`] and
//!    [`Counters`]. A caller's mistake is a typed [`error`] with no state change. A full table is an
//!    answer, not an exception.
//! 6. Equal seeds and inputs give equal outputs. Handles are generational: a stale [`Id`] is
//!    `NoSuchId`, never another connection.
//!
//! # Example
//!
//! Two engines whose datagrams are carried by hand:
//!
//! ```
//! use nanocm_core::{port::map_words, *};
//! use core::net::{IpAddr, SocketAddr};
//!
//! type Small = Storage<4, 4, 4, 8, 1, { map_words(28_232) }>;
//!
//! fn engine(storage: &mut Small, seed: u64, ip: IpAddr) -> Cm<'_> {
//!     let mut cm = Cm::new(storage.parts(), Config::new(seed)).unwrap();
//!     let address = ScopedIp { gid: ip.into(), scope: 0 };
//!     assert!(cm.handle_port_event(Instant::ZERO, PortEvent::GidAdded { address, ca_guid: seed }));
//!     cm
//! }
//!
//! /// Carries what each engine owes to the other, until neither owes anything.
//! fn carry(now: Instant, sides: [(&mut Cm, IpAddr); 2]) {
//!     let [(a, a_ip), (b, b_ip)] = sides;
//!     let (to_a, to_b) = (RocePath::new(a_ip.into(), b_ip.into()), RocePath::new(b_ip.into(), a_ip.into()));
//!     let mut mad = [0; 256];
//!     loop {
//!         if a.poll_transmit(now, &mut mad).is_some() {
//!             let _ = b.handle_datagram(now, &Path::Roce(to_b), &mad);
//!         } else if b.poll_transmit(now, &mut mad).is_some() {
//!             let _ = a.handle_datagram(now, &Path::Roce(to_a), &mad);
//!         } else {
//!             return;
//!         }
//!     }
//! }
//!
//! let (mut a_storage, mut b_storage) = (Small::new(), Small::new());
//! let (a_ip, b_ip) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
//! let mut a = engine(&mut a_storage, 1, a_ip);
//! let mut b = engine(&mut b_storage, 2, b_ip);
//! let now = Instant::ZERO;
//!
//! let listener = b.create_id(PortSpace::Tcp, 0)?;
//! b.bind(listener, SocketAddr::new(b_ip, 4420))?;
//! b.listen(listener, 0)?;
//!
//! let id = a.create_id(PortSpace::Tcp, 0)?;
//! let path = Path::Roce(RocePath::new(a_ip.into(), b_ip.into()));
//! a.set_route(now, id, SocketAddr::new(b_ip, 4420), &Route::new(path))?;
//! a.connect(now, id, &ConnParam::new(0x11))?;
//! carry(now, [(&mut a, a_ip), (&mut b, b_ip)]);
//!
//! let request = b.poll_event().unwrap();
//! assert!(matches!(request.kind, EventKind::ConnectRequest { .. }));
//! b.accept(now, request.id, &ConnParam::new(0x12))?;
//! carry(now, [(&mut a, a_ip), (&mut b, b_ip)]);
//!
//! assert!(matches!(a.poll_event().unwrap().kind, EventKind::ConnectResponse { .. }));
//! a.establish(now, id, &[])?;
//! carry(now, [(&mut a, a_ip), (&mut b, b_ip)]);
//! assert_eq!(b.poll_event().unwrap().kind, EventKind::Established);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! None by default. `log`, `defmt`: log through either or both. `spin`: `Shared`, an engine behind a lock.
//! `alloc`: storage as vectors. `testing`: simulated link and pair of engines, with std.

#![cfg_attr(not(any(test, feature = "testing")), no_std)]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[macro_use]
mod fmt;
pub mod addr;
mod admission;
mod cm;
mod config;
pub mod conn;
pub mod error;
mod event;
mod failure;
mod gids;
mod handle;
mod hash;
pub mod id;
#[cfg(feature = "alloc")]
mod memory;
pub mod port;
mod request;
mod share;
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
pub use conn::{ConnParam, ConnState, QpAttrs, QpState, Transport};
pub use event::{DisconnectCause, Event, EventKind, PeerParam, Unreachable};
pub use failure::Failure;
pub use gids::{GidEntry, PortEvent};
pub use handle::{Id, RequestId, SendToken};
pub use id::{IdOption, State, Transports};
#[cfg(feature = "alloc")]
pub use memory::{Capacity, Memory};
pub use request::{Outcome, Request, Route};
#[cfg(feature = "spin")]
pub use share::Shared;
pub use share::{Inbound, Inbox};
pub use stats::{Counters, Disposition, IgnoreReason};
pub use storage::{Parts, Storage};
pub use time::Instant;
pub use wire::Ece;
