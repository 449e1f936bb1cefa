//! [`ncm_cm`]: an engine in the caller's memory, and its door. One call at a time gets in.

use super::{Done, check};
use crate::ncm_error_code;
use crate::ncm_error_code::*;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering};
use nanocm_core::Cm;

/// An engine: a connection manager with all its tables, in memory that the program brings.
///
/// One thread at a time may be in a call; which one does not matter, unless `ncm_config.check_thread`
/// says so. A call while another runs is refused with NCM_IN_CALL, from an interrupt or signal handler
/// too: such a handler leaves what came in for later.
pub struct ncm_cm {
    door: AtomicUsize,
    engine: UnsafeCell<Engine>,
}

/// What is behind the door.
pub(crate) struct Engine {
    pub(crate) cm: Cm<'static>,
    /// Of the last frame sent.
    pub(crate) psn: u32,
    /// The only thread that may call, if it is checked.
    thread: Option<usize>,
}

/// Any thread may come in.
const _: () = {
    const fn may_move<T: Send>() {}
    may_move::<Engine>();
};

/// What the door says, plus where it is: memory that was never an engine, or an engine that was
/// copied elsewhere, says something else.
mod sign {
    pub(super) const OPEN: usize = 0x6e63_6d01;
    pub(super) const IN_CALL: usize = 0x6e63_6d02;
    pub(super) const PANICKED: usize = 0x6e63_6d03;
    pub(super) const GONE: usize = 0;
}

/// Makes an engine at the beginning of memory that a `Carver` has given away for it.
///
/// # Safety
/// As `Carver::new` for `memory`, which has room for an `ncm_cm`; nothing but the engine has the rest.
pub(crate) unsafe fn create(
    memory: *mut u8,
    check_thread: bool,
    make: impl FnOnce() -> Result<Cm<'static>, ncm_error_code>,
) -> Result<*mut ncm_cm, ncm_error_code> {
    let place = memory.cast::<ncm_cm>();
    // SAFETY: room and alignment are the caller's promise. What was here before is nobody's; that an
    // engine was must not be seen while its tables are made anew.
    unsafe { (&raw mut (*place).door).write(AtomicUsize::new(sign::GONE)) };
    let engine = Engine { cm: make()?, psn: 0, thread: check_thread.then(this_thread) };
    let door = AtomicUsize::new(sign::OPEN.wrapping_add(place.addr()));
    // SAFETY: as above.
    unsafe { place.write(ncm_cm { door, engine: UnsafeCell::new(engine) }) };
    Ok(place)
}

/// Calls `f` with the engine, if nobody else is in it. If `f` panics the engine is never used again.
///
/// # Safety
/// The border's contract.
pub(crate) unsafe fn enter<R>(
    cm: *const ncm_cm,
    f: impl FnOnce(&mut Engine) -> Result<R, ncm_error_code>,
) -> Result<R, ncm_error_code> {
    // SAFETY: as here.
    unsafe { hold(cm, |engine, _| f(engine)) }
}

/// Ends an engine that `may_end`.
///
/// # Safety
/// The border's contract.
pub(crate) unsafe fn finish(cm: *mut ncm_cm, may_end: impl FnOnce(&Engine) -> Done) -> Done {
    let end = |engine: &mut Engine, held: &mut Held<'_>| {
        may_end(engine)?;
        // SAFETY: nobody looks at it again: the door says so. Its keys go with it; nothing in it is
        // to be dropped.
        unsafe { core::ptr::from_mut(engine).write_bytes(0, 1) };
        held.leaves = sign::GONE;
        Ok(())
    };
    // SAFETY: as here.
    unsafe { hold(cm, end) }
}

unsafe fn hold<R>(
    cm: *const ncm_cm,
    f: impl FnOnce(&mut Engine, &mut Held<'_>) -> Result<R, ncm_error_code>,
) -> Result<R, ncm_error_code> {
    check(cm)?;
    // SAFETY: the pointer is neither NULL nor misaligned, so it leads to as much memory.
    let door = unsafe { &(*cm).door };
    let mut held = Held::new(door, cm.addr())?;
    // SAFETY: the door was open, so `create` has been here, and now is ours alone until `held` goes.
    let engine = unsafe { &mut *UnsafeCell::raw_get(&raw const (*cm).engine) };
    let result = if engine.thread.is_some_and(|thread| thread != this_thread()) {
        Err(NCM_WRONG_THREAD)
    } else {
        f(engine, &mut held)
    };
    if held.leaves != sign::GONE {
        held.leaves = sign::OPEN.wrapping_add(cm.addr());
    }
    result
}

/// The door is closed behind a call.
struct Held<'a> {
    door: &'a AtomicUsize,
    /// What the door will say.
    leaves: usize,
}

impl<'a> Held<'a> {
    fn new(door: &'a AtomicUsize, address: usize) -> Result<Held<'a>, ncm_error_code> {
        let [open, in_call, panicked] =
            [sign::OPEN, sign::IN_CALL, sign::PANICKED].map(|sign| sign.wrapping_add(address));
        // Looked at first: what is no engine may be memory that cannot be written.
        let seen = match door.load(Ordering::Relaxed) {
            found if found == open => swap_if(door, open, in_call),
            found => Err(found),
        };
        match seen {
            Ok(_) => Ok(Held { door, leaves: panicked }),
            Err(found) if found == in_call => Err(NCM_IN_CALL),
            Err(found) if found == panicked => Err(NCM_PANICKED),
            Err(_) => Err(NCM_NOT_AN_ENGINE),
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.door.store(self.leaves, Ordering::Release);
    }
}

#[cfg(target_has_atomic = "ptr")]
fn swap_if(door: &AtomicUsize, old: usize, new: usize) -> Result<usize, usize> {
    door.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed)
}

/// Small machines have one core: nothing comes between but an interrupt handler, which has left again.
#[cfg(not(target_has_atomic = "ptr"))]
fn swap_if(door: &AtomicUsize, old: usize, new: usize) -> Result<usize, usize> {
    match door.load(Ordering::Acquire) {
        found if found == old => {
            door.store(new, Ordering::Relaxed);
            Ok(found)
        }
        found => Err(found),
    }
}

/// A number that no other running thread has.
#[cfg(feature = "std")]
fn this_thread() -> usize {
    std::thread_local! { static HERE: u8 = const { 0 } }
    HERE.with(|here| core::ptr::from_ref(here).addr())
}

#[cfg(not(feature = "std"))]
fn this_thread() -> usize {
    0
}
