//! An executor for tests: runs tasks on this thread, and drives who wants to be driven.

use crate::world::World;
use nanocm::Drive;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

pub(crate) type Task<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

/// No test waits so long.
const LONGEST: Duration = Duration::from_secs(20);

/// Which tasks are to be polled.
#[derive(Default)]
struct Ready {
    tasks: Mutex<VecDeque<usize>>,
    came: Condvar,
}

struct TaskWaker {
    task: usize,
    ready: Arc<Ready>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.ready.tasks.lock().unwrap().push_back(self.task);
        self.ready.came.notify_one();
    }
}

/// Runs the tasks until all have ended. A task that nothing wakes is a failure.
#[track_caller]
pub(crate) fn run_all(world: &World, tasks: Vec<Task<'_>>) {
    let ready = Arc::new(Ready::default());
    ready.tasks.lock().unwrap().extend(0..tasks.len());
    let mut left = tasks.len();
    let mut tasks: Vec<_> = tasks.into_iter().map(Some).collect();
    let wakers: Vec<_> = (0..tasks.len())
        .map(|task| Waker::from(Arc::new(TaskWaker { task, ready: ready.clone() })))
        .collect();
    while left > 0 {
        let Some(number) = next(&ready, world) else { panic!("{left} tasks wait for ever") };
        let Some(task) = &mut tasks[number] else { continue };
        if task.as_mut().poll(&mut Context::from_waker(&wakers[number])).is_ready() {
            tasks[number] = None;
            left -= 1;
        }
    }
}

/// Runs one future until it is ready.
#[track_caller]
pub(crate) fn run<R>(world: &World, future: impl Future<Output = R>) -> R {
    let mut result = None;
    run_all(world, vec![Box::pin(async { result = Some(future.await) })]);
    result.expect("it has ended")
}

fn next(ready: &Ready, world: &World) -> Option<usize> {
    let end = Instant::now() + LONGEST;
    loop {
        let mut tasks = ready.tasks.lock().unwrap();
        if let Some(task) = tasks.pop_front() {
            return Some(task);
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        match world.drive {
            Drive::Thread => drop(ready.came.wait_timeout(tasks, left).unwrap()),
            Drive::Caller => {
                drop(tasks);
                wait(world, left);
                world.drive();
            }
        }
    }
}

/// Waits until one side wants to be driven.
fn wait(world: &World, left: Duration) {
    let fds = [&world.client, &world.server];
    let mut fds = fds.map(|cm| PollFd::from_borrowed_fd(cm.as_fd(), PollFlags::IN));
    let left = Timespec { tv_sec: left.as_secs() as i64 + 1, tv_nsec: 0 };
    poll(&mut fds, Some(&left)).unwrap();
}

/// A waker that counts.
#[derive(Default)]
pub(crate) struct Count(AtomicUsize);

impl Count {
    pub(crate) fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls once.
pub(crate) fn poll_once<F: Future>(future: Pin<&mut F>, count: &Arc<Count>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(count.clone())))
}

/// A future that a test polls by hand.
pub(crate) struct Running<F: Future> {
    future: Option<Pin<Box<F>>>,
    /// What it returned, once it was ready.
    pub(crate) result: Option<F::Output>,
}

impl<F: Future> Running<F> {
    pub(crate) fn new(future: F) -> Running<F> {
        Running { future: Some(Box::pin(future)), result: None }
    }

    /// Polls it, unless it was ready already.
    pub(crate) fn poll(&mut self) {
        let count = Arc::new(Count::default());
        if let Some(future) = &mut self.future
            && let Poll::Ready(result) = poll_once(future.as_mut(), &count)
        {
            self.result = Some(result);
            self.future = None;
        }
    }

    /// Drops it, unless it was ready already.
    pub(crate) fn stop(self) -> Option<F::Output> {
        self.result
    }

    /// Polls it until it is ready, which it must soon be.
    #[track_caller]
    pub(crate) fn end(mut self, world: &World) -> F::Output {
        for _ in 0..SOON {
            self.poll();
            if self.result.is_some() {
                break;
            }
            world.drive();
        }
        self.result.expect("it is ready soon")
    }
}

/// Nothing takes so many turns.
pub(crate) const SOON: usize = 60;
