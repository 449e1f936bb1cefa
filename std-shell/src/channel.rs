//! Event channels: what happened, in order, behind a file descriptor (`rdma_event_channel`).

use crate::backend::Told;
use crate::cm::Cm;
use crate::error::{Cause, Error};
use crate::id::Id;
use nanocm_core::EventKind;
use rustix::event::{EventfdFlags, eventfd};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Something happened to an identifier of a channel.
pub struct Event {
    /// The identifier, as a value to compare with [`Id::handle`].
    pub id: nanocm_core::Id,
    /// What happened.
    pub kind: EventKind,
    /// The peer's private data: the whole field as received.
    pub private_data: Vec<u8>,
    /// The additional information of a rejection.
    pub additional_info: Vec<u8>,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The new identifier of a CONNECT_REQUEST: whoever drops it rejects the request.
    pub request: Option<Id>,
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {} -> {}", self.kind.name(), self.id, self.local, self.peer)
    }
}

/// A queue of events. Readable ([`AsFd`]) while there are some. Once it is dropped, requests for its
/// listeners are rejected.
pub struct EventChannel {
    cm: Cm,
    queue: Arc<Queue>,
    number: u64,
}

impl EventChannel {
    pub(crate) fn new(cm: Cm, queue: Arc<Queue>, number: u64) -> EventChannel {
        EventChannel { cm, queue, number }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next event, if there is one. Does not wait; a driverless [`Cm`] is driven once.
    ///
    /// # Errors
    /// Of the transport.
    pub fn try_next(&self) -> Result<Option<Event>, Error> {
        self.cm.drive_if_driverless().map_err(waiting)?;
        Ok(self.queue.pop(&self.cm))
    }

    /// The next event, or `None` when `deadline` has passed.
    ///
    /// # Errors
    /// Of the transport.
    pub fn next(&self, deadline: Option<Instant>) -> Result<Option<Event>, Error> {
        let pop = || self.queue.pop(&self.cm);
        self.cm.wait_for(self.queue.fd.as_fd(), deadline, pop).map_err(waiting)
    }
}

fn waiting(error: io::Error) -> Error {
    Cause::from(error).during("wait for events", None, None)
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        self.cm.close_channel(self.number);
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.fd.as_fd()
    }
}

/// The queue behind a channel, shared with who fills it.
pub(crate) struct Queue {
    events: Mutex<VecDeque<Told>>,
    /// Counts 1 while there are events.
    fd: OwnedFd,
}

impl Queue {
    pub(crate) fn new() -> io::Result<Queue> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Queue { events: Mutex::new(VecDeque::new()), fd })
    }

    pub(crate) fn push(&self, told: Told) {
        let mut events = self.lock();
        if events.is_empty() {
            // Cannot fail: the counter is 0.
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
        events.push_back(told);
    }

    /// Forgets what an identifier that is no more was to be told. Requests to a destroyed listener
    /// that nobody took are returned, to be destroyed too.
    pub(crate) fn forget(&self, id: nanocm_core::Id) -> Vec<nanocm_core::Id> {
        let mut events = self.lock();
        let mut orphans = Vec::new();
        events.retain(|told| match told.event.kind {
            _ if told.event.id == id => false,
            EventKind::ConnectRequest { listener, .. } if listener == id => {
                orphans.push(told.event.id);
                false
            }
            _ => true,
        });
        self.settle(&events);
        orphans
    }

    /// Takes out what one identifier is to be told.
    pub(crate) fn take(&self, id: nanocm_core::Id) -> Vec<Told> {
        let mut events = self.lock();
        let (taken, kept) = events.drain(..).partition(|told| told.event.id == id);
        *events = kept;
        self.settle(&events);
        let taken: VecDeque<Told> = taken;
        taken.into()
    }

    fn pop(&self, cm: &Cm) -> Option<Event> {
        let mut events = self.lock();
        let told = events.pop_front()?;
        self.settle(&events);
        drop(events);
        Some(Event::new(told, cm))
    }

    /// An empty queue is not readable.
    fn settle(&self, events: &VecDeque<Told>) {
        if events.is_empty() {
            // EAGAIN if it was not readable either.
            let _ = rustix::io::read(&self.fd, &mut [0; 8]);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Told>> {
        // The queue is whole at every moment: a panic elsewhere does not spoil it.
        self.events.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Event {
    fn new(told: Told, cm: &Cm) -> Event {
        let Told { event, private_data, additional_info, local, peer } = told;
        let request = matches!(event.kind, EventKind::ConnectRequest { .. })
            .then(|| Id::adopt(cm.clone(), event.id, event.user));
        Event {
            id: event.id,
            kind: event.kind,
            private_data,
            additional_info,
            local,
            peer,
            request,
        }
    }
}
