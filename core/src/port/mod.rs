//! Port numbers: who holds which, who may share one, and which is free.
//!
//! | file | what it owns |
//! |---|---|
//! | `ports.rs` | [`Ports`]: bind, propose, listen, release |
//! | `rules.rs` | who is compatible with whom, as masks over kinds of owners |
//! | `table.rs` | [`PortRecord`]: how many owners of each kind a number and an address have |
//! | `bitmap.rs` | [`Bitmap`]: "any free port" in a handful of word operations |
//! | `types.rs` | what goes in and comes out |
//!
//! An ID *owns* a number of a port space on a local address. Owners are never walked: a record per
//! (space, number) and one per (space, number, address) count them by kind, and the rules are masks
//! over what is counted. Owners with a peer ("active") are also found by their 4-tuple, through a
//! chain in their own slots.
//!
//! # The rules
//!
//! A bind is refused if it clashes with one owner of the same number; these do not clash:
//!
//! | # | compatible | which binds |
//! |---|---|---|
//! | T | both have a peer, and the peers (address or port) differ | all |
//! | 1 | both have REUSEADDR | explicit numbers |
//! | 2 | both are AF-only, and their families differ | explicit numbers |
//! | 3 | both addresses are *specific*, and they differ | all |
//!
//! Specific is what is neither the wildcard nor, if so configured, a loopback address; IPv6
//! link-local addresses differ by scope too. A number bound explicitly without a peer clashes with
//! every owner that rules 1 to 3 don't excuse. "Any port" without a peer takes a number that nobody
//! has, and rule 3 only when there is none left. Where sharing decides, a few numbers are tried in a
//! row, from a place that depends on the peer and that each search moves on; then any that nobody has
//! at all; then a few spread over the range. A listener gives up REUSEADDR for good.
//!
//! Rules 1 to 3 are Linux's. T is Linux's for "any port" and ours for explicit numbers: a source port
//! given with a destination is shared by any number of peers. SDP's numbers are TCP's.
//!
//! Read first: DESIGN §5; facts/linux-rdma-cm §2.3; facts/reports A2, A3, A5 to A9. RFC 6056 §3.3.

mod bitmap;
mod ports;
mod rules;
mod table;
#[cfg(test)]
mod tests;
mod types;

pub use bitmap::{Bitmap, map_words};
pub use ports::{PortConfig, PortParts, Ports, SPACES};
pub use table::PortRecord;
pub use types::{Held, PortError, PortKey, Proposal, TUPLE, Tuple, TupleOwner, Want};
