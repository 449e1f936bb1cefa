//! Fixed-capacity structures over borrowed memory: no heap, nothing that grows.
//!
//! | structure | what it is | costs |
//! |---|---|---|
//! | [`Table`] | slots with generations; a stale handle finds nothing | O(1) |
//! | [`List`] | a FIFO through the slots themselves (ready list, owed replies) | O(1) |
//! | [`Chains`] | keyed hash chains through the slots: an index that is never full | O(1) expected |
//! | [`Deadlines`] | a heap of deadlines, one per slot | O(log n); the earliest O(1) |
//!
//! Links are 32-bit indexes kept inside the slots, one field per structure that a slot can be in;
//! the traits [`Slot`], [`Linked`], [`Chained`] and [`Timed`] say where. **All zero bits is the empty
//! state of everything here**, so that a `static` full of slots lies in .bss and no constructor
//! walks a table. Nothing here knows a protocol. Read first: DESIGN §2 (Storage, Lookups).

mod chain;
mod deadline;
mod link;
mod list;
mod table;

pub use crate::hash::Key;
pub use chain::{Chained, Chains};
pub use deadline::{DeadlineEntry, Deadlines, Timed};
pub use link::Link;
pub use list::{Linked, Links, List};
pub use table::{Slot, Table};
