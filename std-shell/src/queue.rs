//! The queue behind an event channel, who waits for it, and how: as a future, or as a thread that lends
//! itself to one.

use crate::backend::Told;
use crate::channel::Event;
use crate::cm::Cm;
use crate::deadline::Deadline;
use nanocm_core::{EventKind, Id};
use rustix::event::{EventfdFlags, eventfd};
use std::cell::OnceCell;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// What is to be told, and to whom. Its lock is the innermost: nothing else is called under it.
pub(crate) struct Queue {
    state: Mutex<Waiting>,
    /// Counts 1 while there are events, for who polls.
    fd: Option<Arc<OwnedFd>>,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<Told>,
    /// Futures to be polled when there is something; each enlists again when that was not for it.
    waiters: BTreeMap<u64, Waker>,
    next_waiter: u64,
}

impl Queue {
    fn new(fd: Option<Arc<OwnedFd>>) -> Queue {
        Queue { state: Mutex::default(), fd }
    }

    /// Appends, and adds to `woken` who waits.
    pub(crate) fn push(&self, told: Told, woken: &mut Vec<Waker>) {
        let mut state = self.lock();
        if state.events.is_empty()
            && let Some(fd) = &self.fd
        {
            ring(fd);
        }
        state.events.push_back(told);
        woken.extend(std::mem::take(&mut state.waiters).into_values());
    }

    /// Forgets what an identifier that is no more was to be told. Requests to a destroyed listener
    /// that nobody took are forgotten too, and returned to be destroyed.
    pub(crate) fn forget(&self, id: Id) -> Vec<Id> {
        let mut state = self.lock();
        let gone = concerned(&state.events, id);
        state.events.retain(|told| !gone.contains(&told.event.id));
        self.settle(&state);
        gone.into_iter().filter(|&other| other != id).collect()
    }

    /// Takes out what one identifier is to be told, and the requests to it that nobody took.
    pub(crate) fn take(&self, id: Id) -> VecDeque<Told> {
        let mut state = self.lock();
        let moved = concerned(&state.events, id);
        let events = std::mem::take(&mut state.events).into_iter();
        let (taken, kept) = events.partition(|told| moved.contains(&told.event.id));
        state.events = kept;
        self.settle(&state);
        taken
    }

    /// The requests that nobody took.
    pub(crate) fn requests(&self) -> Vec<Id> {
        let state = self.lock();
        let requests = state.events.iter().filter(|told| listener_of(told).is_some());
        requests.map(|told| told.event.id).collect()
    }

    /// Adds to `woken` who waits.
    pub(crate) fn wake_all(&self, woken: &mut Vec<Waker>) {
        woken.extend(std::mem::take(&mut self.lock().waiters).into_values());
    }

    /// Takes a waiter off the list.
    pub(crate) fn delist(&self, waiter: u64) -> Option<Waker> {
        self.lock().waiters.remove(&waiter)
    }

    fn new_waiter(&self) -> u64 {
        let mut state = self.lock();
        state.next_waiter += 1;
        state.next_waiter
    }

    fn enlist(&self, waiter: u64, waker: Waker) {
        let old = self.lock().waiters.insert(waiter, waker);
        // Not under the lock: it may be the last that holds its task, and with that anything.
        drop(old);
    }

    fn pop(&self) -> Option<Told> {
        let mut state = self.lock();
        let told = state.events.pop_front()?;
        self.settle(&state);
        Some(told)
    }

    /// An empty queue is not readable.
    fn settle(&self, state: &Waiting) {
        if state.events.is_empty()
            && let Some(fd) = &self.fd
        {
            quiet(fd);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        // The queue is whole at every moment: a panic elsewhere does not spoil it.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An identifier and the requests to it, if it listens, that nobody took.
fn concerned(events: &VecDeque<Told>, id: Id) -> HashSet<Id> {
    let requests = events.iter().filter(|told| listener_of(told) == Some(id));
    requests.map(|told| told.event.id).chain([id]).collect()
}

/// Whom a request asks.
fn listener_of(told: &Told) -> Option<Id> {
    match told.event.kind {
        EventKind::ConnectRequest { listener, .. } => Some(listener),
        _ => None,
    }
}

/// The receiving end of a queue. Once it is dropped, its identifiers go on in silence, and requests to
/// its listeners, those that wait in it too, are rejected.
pub(crate) struct Inbox {
    cm: Cm,
    queue: Arc<Queue>,
    number: u64,
}

impl Inbox {
    pub(crate) fn new(cm: &Cm, fd: Option<Arc<OwnedFd>>) -> Inbox {
        let queue = Arc::new(Queue::new(fd));
        let number = cm.shared().add_queue(queue.clone());
        Inbox { cm: cm.clone(), queue, number }
    }

    pub(crate) fn cm(&self) -> &Cm {
        &self.cm
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.lock().events.len()
    }

    /// The next event, if it is there already.
    pub(crate) fn pop(&self) -> Option<Event> {
        self.queue.pop().map(|told| Event::new(told, &self.cm))
    }

    /// The next event, or `None` when the deadline has passed. Dropped before it is ready, it has
    /// taken none.
    pub(crate) async fn event(&self, deadline: Deadline) -> Option<Event> {
        self.wait(deadline, || self.pop()).await
    }

    /// Waits for something that events bring about; asks again after each.
    pub(crate) fn wait<R, F: FnMut() -> Option<R>>(
        &self,
        deadline: Deadline,
        ready: F,
    ) -> Wait<'_, F> {
        Wait { inbox: self, deadline, ready, waiter: None }
    }

    /// Has all who wait ask again.
    pub(crate) fn wake_all(&self) {
        let mut woken = Vec::new();
        self.queue.wake_all(&mut woken);
        woken.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.cm.shared().remove_queue(self.number);
    }
}

/// Waits until `ready` has something, or the deadline has passed.
pub(crate) struct Wait<'a, F> {
    inbox: &'a Inbox,
    deadline: Deadline,
    ready: F,
    /// Its number in the queue, once it had to wait.
    waiter: Option<u64>,
}

impl<R, F: FnMut() -> Option<R> + Unpin> Future for Wait<'_, F> {
    type Output = Option<R>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<R>> {
        let this = self.get_mut();
        if let Some(result) = (this.ready)() {
            return Poll::Ready(Some(result));
        }
        this.enlist(context.waker().clone());
        // What came before there was somebody to wake; the end of the deadline, too.
        match (this.ready)() {
            Some(result) => Poll::Ready(Some(result)),
            None if this.deadline.has_passed() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl<F> Wait<'_, F> {
    fn enlist(&mut self, waker: Waker) {
        let Inbox { cm, queue, number } = self.inbox;
        match self.waiter {
            Some(waiter) => queue.enlist(waiter, waker),
            None => {
                let waiter = queue.new_waiter();
                self.waiter = Some(waiter);
                queue.enlist(waiter, waker);
                if let Some(at) = self.deadline.instant() {
                    cm.shared().add_deadline(at, *number, waiter);
                }
            }
        }
    }
}

impl<F> Drop for Wait<'_, F> {
    fn drop(&mut self) {
        let Some(waiter) = self.waiter else { return };
        let Inbox { cm, queue, number } = self.inbox;
        drop(queue.delist(waiter));
        if let Some(at) = self.deadline.instant() {
            cm.shared().remove_deadline(at, *number, waiter);
        }
    }
}

/// What wakes a thread that polls.
pub(crate) struct Bell(OwnedFd);

impl Bell {
    /// One serves all the calls of a thread, for they come one after the other.
    pub(crate) fn of_this_thread() -> io::Result<Arc<Bell>> {
        thread_local!(static BELL: OnceCell<Arc<Bell>> = const { OnceCell::new() });
        if let Ok(Some(bell)) = BELL.try_with(|bell| bell.get().cloned()) {
            return Ok(bell);
        }
        let bell = Arc::new(Bell(new_eventfd()?));
        // A thread that is about to end keeps none.
        let _ = BELL.try_with(|kept| kept.set(bell.clone()));
        Ok(bell)
    }

    /// It has been heard.
    pub(crate) fn quiet(&self) {
        quiet(&self.0);
    }
}

impl std::task::Wake for Bell {
    fn wake(self: Arc<Self>) {
        ring(&self.0);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

pub(crate) fn new_eventfd() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Makes it readable.
fn ring(fd: &OwnedFd) {
    // It need not be said twice: the counter is far from its limit.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Makes it unreadable.
fn quiet(fd: &OwnedFd) {
    // EAGAIN if it was not readable either.
    let _ = rustix::io::read(fd, &mut [0; 8]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::MemNet;
    use crate::{Capacity, Config, Drive};
    use nanocm_core::PortSpace;
    use std::pin::pin;
    use std::time::Duration;

    const LOCAL: [u8; 4] = [10, 0, 0, 1];

    fn driverless() -> Cm {
        let endpoint = MemNet::new(1).endpoint(&[LOCAL.into()]).unwrap();
        Cm::over(endpoint, Config::new(1), Capacity::of(4), Drive::Caller).unwrap()
    }

    fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(Waker::noop()))
    }

    /// Between the look and the place among those who wait.
    #[test]
    fn an_event_that_comes_just_then_is_seen() {
        let cm = driverless();
        let inbox = Inbox::new(&cm, None);
        let id = cm.create_id_in(&inbox, PortSpace::Tcp).unwrap();
        let mut looks = 0;
        let mut wait = pin!(inbox.wait(Deadline::NEVER, || {
            looks += 1;
            if looks == 1 {
                id.resolve_addr(None, (LOCAL, 4420).into(), Duration::from_secs(1)).unwrap();
                return None;
            }
            inbox.pop()
        }));
        assert!(poll(wait.as_mut()).is_ready());
    }

    /// One that was woken for nothing is not on the list when its deadline passes.
    #[test]
    fn a_deadline_that_passes_just_then_is_seen() {
        let cm = driverless();
        let inbox = Inbox::new(&cm, None);
        let time = Duration::from_millis(10);
        let mut looks = 0;
        let mut wait = pin!(inbox.wait(Deadline::after(time), || {
            looks += 1;
            if looks == 3 {
                std::thread::sleep(2 * time);
                cm.drive().unwrap();
            }
            None::<()>
        }));
        assert!(poll(wait.as_mut()).is_pending());
        inbox.wake_all();
        assert_eq!(poll(wait.as_mut()), Poll::Ready(None));
    }
}
