//! The driver thread: waits until a turn is due, and takes it.

use crate::cm::Shared;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// After a failed turn.
const PAUSE: Duration = Duration::from_millis(100);

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

fn run(shared: &Shared, stop: &OwnedFd) {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(shared.epoll(), PollFlags::IN),
            PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) if fds[1].revents().contains(PollFlags::IN) => return,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return log::error!("the driver thread ends: {error}"),
        }
        if let Err(error) = shared.drive() {
            log::warn!("{error}");
            // A socket beyond use stays readable: don't spin on it.
            thread::sleep(PAUSE);
        }
    }
}
