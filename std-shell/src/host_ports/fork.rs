//! A forked child that never execs (a snapshot of a database, a launcher, Python's multiprocessing)
//! has copies of all descriptors, and would keep every port reserved for its life, although they
//! are close-on-exec. So they are closed in the child, by a handler of `fork`, which in the parent
//! returns when that is done: what the parent releases is free at once. In the child nothing is
//! reserved, and nothing of this is closed twice.
//!
//! Descriptors are opened and closed inside a *section*, for which `fork` waits: none slips
//! through. A child that is made without `fork` (a bare `clone`) is not helped. A child of a process
//! with threads may drop what it has inherited, without a lock that a lost thread may have had; as
//! always, little else before it execs.
//!
//! Owns the system calls for it, and so some `unsafe`. Read first: pthread_atfork(3); field tests,
//! H9.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::SeqCst};

/// Descriptors up to this number are known; Linux gives the lowest free one, and by default no
/// higher.
const MOST: usize = 1 << 20;

/// A bit for each descriptor to be closed in a child.
static MARKED: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];
/// So many words of it are in use.
static WORDS: AtomicUsize = AtomicUsize::new(0);
/// Threads inside a section; the top bit: a fork waits, or is under way.
static INSIDE: AtomicU32 = AtomicU32::new(0);
const FORKING: u32 = 1 << 31;
/// How many forks lie between the first process and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// A pipe whose writing end the child closes when it is done; -1 if there is none.
static READ: AtomicI32 = AtomicI32::new(-1);
static WRITE: AtomicI32 = AtomicI32::new(-1);
/// A parent waits no longer than that, whatever its child is doing.
const PATIENCE_MS: libc::c_int = 1000;
const INTERRUPTIONS: u32 = 1000;

/// How many forks lie between the first process and this one: what another one has made is not this
/// one's.
pub(super) fn generation() -> u32 {
    GENERATION.load(SeqCst)
}

/// A descriptor that no forked child keeps.
#[derive(Debug)]
pub(super) struct Unforked {
    fd: Option<OwnedFd>,
    generation: u32,
}

impl Unforked {
    /// Runs what opens a descriptor.
    pub(super) fn open<E>(make: impl FnOnce() -> Result<OwnedFd, E>) -> Result<Unforked, E> {
        register();
        let _section = Section::enter();
        let fd = make()?;
        mark(fd.as_fd(), true);
        Ok(Unforked { fd: Some(fd), generation: generation() })
    }

    /// The descriptor, which a child does keep from now on. `None` in a child.
    pub(super) fn release(mut self) -> Option<OwnedFd> {
        let _section = Section::enter();
        let fd = self.take()?;
        mark(fd.as_fd(), false);
        Some(fd)
    }

    /// `None` in a child.
    pub(super) fn get(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().filter(|_| self.is_ours()).map(AsFd::as_fd)
    }

    fn is_ours(&self) -> bool {
        self.generation == generation()
    }

    fn take(&mut self) -> Option<OwnedFd> {
        let fd = self.fd.take()?;
        if self.is_ours() {
            return Some(fd);
        }
        // Closed long ago; the number may be something else's.
        std::mem::forget(fd);
        None
    }
}

impl Drop for Unforked {
    fn drop(&mut self) {
        let _section = Section::enter();
        if let Some(fd) = self.take() {
            mark(fd.as_fd(), false);
        }
    }
}

/// While one lives no fork happens.
struct Section;

impl Section {
    fn enter() -> Section {
        while INSIDE.fetch_add(1, SeqCst) & FORKING != 0 {
            INSIDE.fetch_sub(1, SeqCst);
            std::thread::yield_now();
        }
        Section
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, SeqCst);
    }
}

fn mark(fd: BorrowedFd<'_>, on: bool) {
    let number = fd.as_raw_fd() as usize;
    if number >= MOST {
        return;
    }
    let (word, bit) = (number / 64, 1 << (number % 64));
    if on {
        MARKED[word].fetch_or(bit, SeqCst);
        WORDS.fetch_max(word + 1, SeqCst);
    } else {
        MARKED[word].fetch_and(!bit, SeqCst);
    }
}

fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the handlers use atomics and a few system calls alone, which may be called after
        // a fork.
        unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    });
}

extern "C" fn before() {
    // One fork at a time, and nobody inside.
    while INSIDE.fetch_or(FORKING, SeqCst) & FORKING != 0 {
        std::hint::spin_loop();
    }
    while INSIDE.load(SeqCst) != FORKING {
        std::hint::spin_loop();
    }
    let mut pipe = [-1; 2];
    // SAFETY: there is room for two descriptors.
    if WORDS.load(SeqCst) > 0 && unsafe { libc::pipe2(pipe.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        pipe = [-1; 2];
    }
    READ.store(pipe[0], SeqCst);
    WRITE.store(pipe[1], SeqCst);
}

extern "C" fn in_parent() {
    let (read, write) = (READ.swap(-1, SeqCst), WRITE.swap(-1, SeqCst));
    if read >= 0 {
        let mut fds = libc::pollfd { fd: read, events: libc::POLLIN, revents: 0 };
        // SAFETY: the pipe is ours; the structure outlives the call. Whoever forks has its errno
        // from the fork.
        unsafe {
            let errno = *libc::__errno_location();
            libc::close(write);
            // Signals begin it anew, but not for ever.
            for _ in 0..INTERRUPTIONS {
                if libc::poll(&raw mut fds, 1, PATIENCE_MS) >= 0
                    || *libc::__errno_location() != libc::EINTR
                {
                    break;
                }
            }
            libc::close(read);
            *libc::__errno_location() = errno;
        }
    }
    INSIDE.fetch_and(!FORKING, SeqCst);
}

extern "C" fn in_child() {
    for (i, word) in MARKED.iter().enumerate().take(WORDS.load(SeqCst)) {
        let mut bits = word.swap(0, SeqCst);
        while bits != 0 {
            let fd = i as i32 * 64 + bits.trailing_zeros() as i32;
            bits &= bits - 1;
            // SAFETY: the descriptor is this module's: who owns it sees the new generation, and
            // leaves it alone.
            unsafe { libc::close(fd) };
        }
    }
    WORDS.store(0, SeqCst);
    GENERATION.fetch_add(1, SeqCst);
    for end in [READ.swap(-1, SeqCst), WRITE.swap(-1, SeqCst)] {
        if end >= 0 {
            // SAFETY: the pipe is this module's.
            unsafe { libc::close(end) };
        }
    }
    // Threads that were about to enter are not in this process.
    INSIDE.store(0, SeqCst);
}
