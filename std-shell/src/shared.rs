//! What all clones of a [`Cm`](crate::Cm) share: the backend behind a lock, the queues of its channels,
//! the deadlines of who waits, and the one descriptor that says when a turn is due.

use crate::backend::{Backend, Told, Turn};
use crate::binding::Numbers;
use crate::error::Cause;
use crate::queue::Queue;
use nanocm_core::{EventKind, Id, State};
use rustix::event::{Timespec, epoll};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;
use std::time::{Duration, Instant};

pub(crate) struct Shared {
    inner: Mutex<Inner>,
    /// What the identifiers hold in the host's port spaces. Its lock is taken after the other.
    pub(crate) numbers: Numbers,
    /// Readable when a turn is due: the transport's descriptors and the timer.
    epoll: OwnedFd,
    timer: OwnedFd,
}

struct Inner {
    backend: Box<dyn Backend>,
    queues: HashMap<u64, Arc<Queue>>,
    next_queue: u64,
    /// Who waits no longer than until then: the number of a queue, and of a waiter in it.
    deadlines: BTreeSet<(Instant, u64, u64)>,
    /// When the backend wants its next turn.
    wake_at: Option<Instant>,
    /// Whom to wake as soon as the lock is free, for a waker may do anything, this manager's
    /// operations included.
    woken: Vec<Waker>,
}

impl Shared {
    pub(crate) fn new(backend: Box<dyn Backend>) -> io::Result<Shared> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        for fd in [timer.as_fd(), backend.fd()] {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        }
        let inner = Inner {
            backend,
            queues: HashMap::new(),
            next_queue: 1,
            deadlines: BTreeSet::new(),
            wake_at: None,
            woken: Vec::new(),
        };
        let (inner, numbers) = (Mutex::new(inner), Numbers::default());
        Ok(Shared { inner, numbers, epoll, timer })
    }

    pub(crate) fn epoll(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Reads without changing anything.
    pub(crate) fn look<R>(&self, f: impl FnOnce(&dyn Backend) -> R) -> R {
        self.with(|inner| f(&*inner.backend))
    }

    /// Runs a part of an operation, whose last part does what is due.
    pub(crate) fn prepare<R>(&self, f: impl FnOnce(&mut dyn Backend) -> R) -> R {
        self.with(|inner| f(&mut *inner.backend))
    }

    /// Runs an operation, then does what it made due.
    pub(crate) fn operate<R>(
        &self,
        f: impl FnOnce(&mut dyn Backend) -> Result<R, Cause>,
    ) -> Result<R, Cause> {
        self.with(|inner| {
            let done = f(&mut *inner.backend);
            self.turn_quietly(inner);
            done
        })
    }

    /// Does what is due.
    pub(crate) fn drive(&self) -> io::Result<Option<Instant>> {
        // The timer's job is to wake; an empty one answers EAGAIN.
        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        self.with(|inner| match self.turn(inner).fault {
            Some(fault) => Err(fault),
            None => Ok(inner.next_wake()),
        })
    }

    /// Takes a new queue in, and returns its number: the cookie of the identifiers that report to it.
    pub(crate) fn add_queue(&self, queue: Arc<Queue>) -> u64 {
        self.with(|inner| {
            let number = inner.next_queue;
            inner.next_queue += 1;
            inner.queues.insert(number, queue);
            number
        })
    }

    /// Nobody will take what the queue holds: its requests are rejected.
    pub(crate) fn remove_queue(&self, number: u64) {
        self.with(|inner| {
            if let Some(queue) = inner.queues.remove(&number) {
                inner.destroy_all(queue.requests());
                queue.wake_all(&mut inner.woken);
            }
            self.turn_quietly(inner);
        });
    }

    /// Destroys an identifier and what its queue was to say of it.
    pub(crate) fn destroy(&self, id: Id, queue: u64) {
        self.with(|inner| {
            // Stale only if the backend destroyed it itself.
            let _ = inner.backend.destroy(id);
            self.numbers.forget(id);
            let requests = inner.queues.get(&queue).map(|queue| queue.forget(id));
            inner.destroy_all(requests.unwrap_or_default());
            self.turn_quietly(inner);
        });
    }

    /// Moves an identifier, and what it is to be told, to another queue. So are the requests to a
    /// listener that nobody has taken. No turn comes between: nothing is told twice or to nobody.
    pub(crate) fn migrate(&self, id: Id, from: u64, to: u64) -> Result<(), Cause> {
        self.with(|inner| {
            inner.backend.set_user(id, to)?;
            let queues = (inner.queues.get(&from), inner.queues.get(&to));
            let (Some(old), Some(new)) = queues else { return Ok(()) };
            if from == to {
                return Ok(());
            }
            for mut told in old.take(id) {
                if told.event.id != id {
                    // Stale if it has ended and been destroyed: then its event says so.
                    let _ = inner.backend.set_user(told.event.id, to);
                }
                told.event.user = to;
                new.push(told, &mut inner.woken);
            }
            Ok(())
        })
    }

    /// A waiter of a queue is woken at that moment, if nothing wakes it before.
    pub(crate) fn add_deadline(&self, at: Instant, queue: u64, waiter: u64) {
        self.with(|inner| {
            inner.deadlines.insert((at, queue, waiter));
            // Who drives meets the system's refusal at the next turn.
            let _ = self.set_timer(inner);
        });
    }

    /// It waits no more.
    pub(crate) fn remove_deadline(&self, at: Instant, queue: u64, waiter: u64) {
        self.with(|inner| inner.deadlines.remove(&(at, queue, waiter)));
    }

    /// One turn of the backend: events go to their queues, the timer is set for the next.
    fn turn(&self, inner: &mut Inner) -> Turn {
        let Inner { backend, queues, woken, .. } = inner;
        let (mut unclaimed, mut unresolved) = (Vec::new(), Vec::new());
        let mut turn = backend.turn(&mut |told| {
            if matches!(told.event.kind, EventKind::AddrError(_)) {
                unresolved.push(told.event.id);
            }
            match queues.get(&told.event.user) {
                Some(queue) => queue.push(told, woken),
                // The channel is closed, so nobody could answer.
                None if is_request(&told) => unclaimed.push(told.event.id),
                None => {}
            }
        });
        // Who was bound on the way is not any more.
        unresolved.retain(|&id| matches!(backend.state(id), Ok(State::Idle)));
        unresolved.into_iter().for_each(|id| self.numbers.release(id));
        turn.more |= !unclaimed.is_empty();
        inner.destroy_all(unclaimed);
        inner.wake_at = if turn.more { Some(Instant::now()) } else { turn.wake_at };
        inner.expire();
        if let Err(error) = self.set_timer(inner) {
            turn.fault.get_or_insert(error);
        }
        turn
    }

    /// A turn beside an operation that is not to blame for the transport's faults; who drives meets
    /// them too.
    fn turn_quietly(&self, inner: &mut Inner) {
        if let Some(fault) = self.turn(inner).fault {
            log::debug!("the connection manager's transport: {fault}");
        }
    }

    fn set_timer(&self, inner: &Inner) -> io::Result<()> {
        // Zero would disarm it.
        let left =
            |at: Instant| at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let it_value = to_timespec(inner.next_wake().map_or(Duration::ZERO, left));
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = Itimerspec { it_interval, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value)?;
        Ok(())
    }

    /// Holds the lock, then wakes whom that made ready.
    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        // The engine holds its invariants at every return; a panic in a caller's closure cannot
        // happen while it is locked.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let result = f(&mut inner);
        let woken = std::mem::take(&mut inner.woken);
        drop(inner);
        woken.into_iter().for_each(Waker::wake);
        result
    }
}

impl Inner {
    /// Destroys requests that nobody will answer; stale handles are others' doing.
    fn destroy_all(&mut self, requests: Vec<Id>) {
        for request in requests {
            let _ = self.backend.destroy(request);
        }
    }

    /// Wakes who waits no longer.
    fn expire(&mut self) {
        let Some(&(first, ..)) = self.deadlines.first() else { return };
        let now = Instant::now();
        if first > now {
            return;
        }
        while let Some(&(at, number, waiter)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            let queue = self.queues.get(&number);
            self.woken.extend(queue.and_then(|queue| queue.delist(waiter)));
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let deadline = self.deadlines.first().map(|(at, ..)| *at);
        [self.wake_at, deadline].into_iter().flatten().min()
    }
}

fn is_request(told: &Told) -> bool {
    matches!(told.event.kind, EventKind::ConnectRequest { .. })
}

pub(crate) fn to_timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
