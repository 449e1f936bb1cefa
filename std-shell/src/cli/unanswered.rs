//! Requests that wait for their answer (`listen --accept-after`), in the order in which it is due.

use nanocm::core::Id as Handle;
use nanocm::{Event, Id};
use std::collections::{BTreeSet, HashMap};
use std::time::Instant;

/// Requests, each with its new identifier and the moment of its answer.
#[derive(Default)]
pub(crate) struct Unanswered {
    requests: HashMap<Handle, (Instant, Event, Id)>,
    due: BTreeSet<(Instant, Handle)>,
}

impl Unanswered {
    pub(crate) fn insert(&mut self, at: Instant, request: Event, id: Id) {
        self.due.insert((at, id.handle()));
        self.requests.insert(id.handle(), (at, request, id));
    }

    /// When the next answer is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// A request whose answer is due.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<(Event, Id)> {
        let &(_, id) = self.due.first().filter(|(at, _)| *at <= now)?;
        self.take(id)
    }

    /// Any request.
    pub(crate) fn pop(&mut self) -> Option<(Event, Id)> {
        let &(_, id) = self.due.first()?;
        self.take(id)
    }

    /// A request that is over without an answer of ours.
    pub(crate) fn remove(&mut self, id: Handle) -> Option<Id> {
        self.take(id).map(|(_, id)| id)
    }

    fn take(&mut self, id: Handle) -> Option<(Event, Id)> {
        let (at, request, owned) = self.requests.remove(&id)?;
        self.due.remove(&(at, id));
        Some((request, owned))
    }
}
