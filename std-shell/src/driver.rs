//! The driver thread: waits until a turn is due, and takes it.

use crate::shared::{Shared, to_timespec};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The thread behind a [`Cm`](crate::Cm) that drives itself. Dropping it ends and joins it.
pub(crate) struct Driver {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Driver {
    pub(crate) fn start(shared: Arc<Shared>) -> io::Result<Driver> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let seen = stop.clone();
        let thread =
            thread::Builder::new().name("nanocm".into()).spawn(move || run(&shared, &seen))?;
        Ok(Driver { stop, thread: Some(thread) })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        let Some(thread) = self.thread.take() else { return };
        // The last clone may be dropped by the thread itself.
        if thread.thread().id() != thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// After a fault of the host the next turn waits a little, for longer each time it happens again.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

fn run(shared: &Shared, stop: &OwnedFd) {
    let mut pause = None;
    while !wait(shared, stop, pause) {
        pause = match (shared.drive(), pause) {
            (Ok(_), _) => None,
            (Err(error), None) => {
                log::warn!("the connection manager's transport: {error}");
                Some(FIRST_PAUSE)
            }
            (Err(_), Some(pause)) => Some(LONGEST_PAUSE.min(pause * 2)),
        };
    }
}

/// Waits until a turn is due, or for so long; true if it is the end.
fn wait(shared: &Shared, stop: &OwnedFd, pause: Option<Duration>) -> bool {
    let mut fds = [
        PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(shared.epoll(), PollFlags::IN),
    ];
    let (watched, timeout) = match pause {
        None => (&mut fds[..], None),
        Some(pause) => (&mut fds[..1], Some(to_timespec(pause))),
    };
    match poll(watched, timeout.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        // Want of memory: as good a moment as any for a turn, but not for a storm of them.
        Err(_) => thread::sleep(LONGEST_PAUSE),
    }
    fds[0].revents().contains(PollFlags::IN)
}
