//! SIGINT and SIGTERM as something to poll.

use super::output::{Failure, errno_of, words};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Events that a loop takes before it looks for signals again.
pub(crate) const EVENTS_PER_TURN: usize = 256;

/// What cannot be waited for.
pub(crate) fn failure(error: io::Error) -> Failure {
    let message = format!("cannot wait for signals: {}", words(&error));
    Failure::new(errno_of(&error), "host", message)
}

/// The wish to stop.
pub(crate) struct Signals {
    told: UnixStream,
}

impl Signals {
    /// Takes the signals from here on.
    pub(crate) fn take() -> io::Result<Signals> {
        let (told, teller) = UnixStream::pair()?;
        told.set_nonblocking(true)?;
        for signal in [SIGINT, SIGTERM] {
            signal_hook::low_level::pipe::register(signal, teller.try_clone()?)?;
        }
        Ok(Signals { told })
    }

    /// Whether one came since the last question.
    pub(crate) fn arrived(&mut self) -> bool {
        matches!(self.told.read(&mut [0; 16]), Ok(1..))
    }

    /// Waits for a signal, for one of the others to be readable, or for the moment.
    pub(crate) fn wait(&self, others: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<()> {
        let left = until.map(|until| to_timespec(until.saturating_duration_since(Instant::now())));
        let all = others.iter().copied().chain([self.told.as_fd()]);
        let mut fds: Vec<_> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut fds, left.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn to_timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    }
}
