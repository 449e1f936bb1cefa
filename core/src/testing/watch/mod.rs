//! [`Watch`]: an engine that is watched. What must hold whatever anybody does, written once, for
//! tests, model and fuzzers alike.
//!
//! | what holds | where |
//! |---|---|
//! | no slot, port or deadline is lost or doubled | [`Cm::audit`](crate::Cm::audit), each room for itself |
//! | an attempt ends in one terminal event, or by the application's `reject`, `reset` or `destroy` | `app.rs` |
//! | after ESTABLISHED of a connection comes one DISCONNECTED, and no other end | `app.rs` |
//! | DEVICE_REMOVAL is the last event | `app.rs` |
//! | no event after `destroy`; no identifier that the application has not been told of | `app.rs` |
//! | what the application was told is what the engine thinks | `app.rs` |
//! | datagrams go to the connection's peer, or answer, once, one that has just come | `wire.rs` |
//! | no communication ID comes twice | `wire.rs` |
//! | counters add up: received = accepted + duplicates + ignored; sent is what came out | `wire.rs` |
//! | a drain ends; `handle_timeout` handles what is due, and no more than its budget | here |
//!
//! It has the engine's methods (`calls.rs`), and panics at what does not hold.

mod app;
mod calls;
mod wire;

use crate::testing::Picture;
use crate::{Cm, Id, Instant};
use app::Known;
pub use app::Phase;
use std::collections::BTreeMap;
use wire::Ledger;

/// An engine and what is known of it. Getters are the engine's own.
pub struct Watch<'s> {
    cm: Cm<'s>,
    /// The identifiers that the application has.
    known: BTreeMap<Id, Known>,
    ledger: Ledger,
    /// Events and datagrams that came out since something went in.
    events: usize,
    transmits: usize,
    /// Changes since the last audit, and after how many the next one is due.
    changes: usize,
    stride: usize,
    /// Audits so far.
    audits: usize,
}

/// An engine with more slots is not audited whenever its events are drained, but after as many
/// changes.
const SMALL: usize = 64;
/// Who does not drain is audited all the same, after so many times more.
const PATIENCE: usize = 16;
/// After so many audits they become as rare as if the engine were large.
const MANY: usize = 500;

impl<'s> Watch<'s> {
    /// Watches a new engine.
    pub fn new(cm: Cm<'s>) -> Watch<'s> {
        let slots = cm.ids.capacity().max(cm.conns.capacity());
        Watch {
            cm,
            known: BTreeMap::new(),
            ledger: Ledger::default(),
            events: 0,
            transmits: 0,
            changes: 0,
            stride: if slots <= SMALL { 1 } else { slots },
            audits: 0,
        }
    }

    /// Looks at nothing until asked to.
    pub fn look_away(&mut self) {
        self.stride = usize::MAX / PATIENCE;
    }

    /// Looks at everything. All events have been fetched.
    pub fn look(&mut self) {
        self.nothing_to_tell();
        self.audit();
    }

    /// Whether there are events, and datagrams, to be fetched.
    pub fn has_more(&self) -> (bool, bool) {
        (!self.cm.ids.is_silent(), !self.cm.conns.is_silent())
    }

    /// Communication ID and queue pair of an identifier's connection, then its peer's.
    pub fn numbers(&self, id: Id) -> Option<[(u32, u32); 2]> {
        let conn = self.cm.ids.conn(self.cm.ids.find(id)?)?;
        Some(self.cm.conns.numbers(conn))
    }

    /// Adds the engine, and what the application knows, to a picture.
    pub fn paint(&self, picture: &mut Picture) {
        self.cm.paint(picture);
        for (id, known) in &self.known {
            picture.put(self.cm.ids.rank(id.index as usize));
            known.paint(picture);
        }
    }

    /// Something went in: an operation or a `handle_*`.
    fn went_in(&mut self) {
        (self.events, self.transmits) = (0, 0);
        self.changes += 1;
        self.ledger.check(self.cm.counters());
        if self.changes >= self.stride * PATIENCE {
            self.audit();
        }
    }

    /// The application has fetched all events.
    fn drained(&mut self) {
        if self.changes >= self.stride {
            self.nothing_to_tell();
            self.audit();
        }
    }

    fn audit(&mut self) {
        self.cm.audit();
        self.changes = 0;
        self.audits += 1;
        if self.audits == MANY {
            self.stride = self.stride.max(SMALL);
        }
    }

    /// How many deadlines are due, where that is a short walk and all that is to be done.
    fn due(&mut self, now: Instant) -> Option<usize> {
        self.cm.conns.advance(now);
        let small = self.cm.conns.capacity() <= SMALL;
        (small && self.cm.sweep.visit.is_none()).then(|| self.cm.conns.due())
    }
}

impl<'s> std::ops::Deref for Watch<'s> {
    type Target = Cm<'s>;

    fn deref(&self) -> &Cm<'s> {
        &self.cm
    }
}

/// The engine's own.
impl std::fmt::Debug for Watch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.cm.fmt(f)
    }
}

impl Cm<'_> {
    /// Walks every table, list, index, map and the deadlines, and panics where a room does not hold
    /// what it promises itself or another room.
    pub fn audit(&self) {
        self.conns.audit(self.sweep.is_removal());
        self.ids.audit(&self.conns);
        self.gids.audit();
    }
}
