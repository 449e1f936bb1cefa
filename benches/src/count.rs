//! Counts the instructions of one call, exactly.
//!
//! The processor's trap flag is set around the call: every instruction ends in SIGTRAP, whose handler
//! adds one. So the count of *each single call* is a plain number in this program: the worst call out
//! of thousands can be found, which totals over a run (valgrind's callgrind, perf) cannot show without
//! a dump per call; what prepares a call, 65,536 open connections say, runs at full speed; and nothing
//! has to be installed. Counts agree with callgrind's (README). The price is 1 to 10 µs per
//! instruction counted, so samples are chosen, not heaped up. x86-64 Linux only.
//!
//! All of the crate's unsafe code for counting is in this file.

use core::arch::asm;
use core::cell::Cell;
use core::mem::{ManuallyDrop, MaybeUninit};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;

thread_local! {
    /// Instructions executed since this thread set its trap flag. Constant to begin with and without
    /// a destructor: a plain load for the handler.
    static STEPS: Cell<u64> = const { Cell::new(0) };
}

/// What an empty call counts.
static OVERHEAD: OnceLock<u64> = OnceLock::new();

/// Starts the program over where counts do not depend on the processor, for each of which glibc would
/// choose another memcpy, nor on the moment: addresses, which memcpy looks at too, are the same in each
/// run, where the system allows that.
///
/// # Errors
/// If the program cannot be started.
pub fn on_a_plain_processor() -> io::Result<()> {
    const NAME: &str = "GLIBC_TUNABLES";
    const PLAIN: &str = "glibc.cpu.hwcaps=-AVX_Usable,-AVX2_Usable,-AVX2,-AVX512F,-AVX512VL,-EVEX,\
                         -ERMS,-FSRM,-SSSE3,-AVX_Fast_Unaligned_Load";
    if std::env::var_os(NAME).is_some_and(|value| value == PLAIN) {
        return Ok(());
    }
    // SAFETY: it changes where the next program's memory will lie, nothing in this one.
    unsafe { libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) };
    let program = std::env::current_exe()?;
    Err(Command::new(program).args(std::env::args_os().skip(1)).env(NAME, PLAIN).exec())
}

/// Calls `call` and says how many instructions it took.
pub fn count<R>(call: impl FnOnce() -> R) -> (R, u64) {
    let overhead = *OVERHEAD.get_or_init(|| {
        install_handler();
        step(|| ()).1
    });
    let (result, steps) = step(call);
    (result, steps - overhead)
}

/// A call and where its result goes: without a detour that would be counted.
struct Frame<F, R> {
    call: ManuallyDrop<F>,
    result: MaybeUninit<R>,
}

#[inline(never)]
fn step<F: FnOnce() -> R, R>(call: F) -> (R, u64) {
    let mut frame = Frame { call: ManuallyDrop::new(call), result: MaybeUninit::uninit() };
    STEPS.set(0);
    // SAFETY: the pushes and pops are balanced, and without `nostack` there is no red zone below the
    // stack pointer. `clobber_abi` covers what an `extern "C"` function may change. The flag's only
    // effect is SIGTRAP, which has a handler. `run` gets the pointer it expects, good for the call,
    // and cannot unwind, being `extern "C"`.
    unsafe {
        asm!(
            "pushfq",
            "or qword ptr [rsp], 0x100",
            "popfq",
            "call {run}",
            "pushfq",
            "and qword ptr [rsp], -0x101",
            "popfq",
            run = sym run::<F, R>,
            inout("rdi") &raw mut frame => _,
            clobber_abi("C"),
        );
    }
    let steps = STEPS.get();
    // SAFETY: `run` has written it.
    (unsafe { frame.result.assume_init() }, steps)
}

/// # Safety
/// `frame` must be good, its call not made yet.
unsafe extern "C" fn run<F: FnOnce() -> R, R>(frame: *mut Frame<F, R>) {
    // SAFETY: see above; nobody else touches the frame, and its call is taken once.
    unsafe { (*frame).result.write(ManuallyDrop::take(&mut (*frame).call)()) };
}

fn install_handler() {
    // SAFETY: all zero is a valid `sigaction`, and its address is good for the call. The handler only
    // touches a cell of the thread that is stepping, which does not use it meanwhile.
    let installed = unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = on_step as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGTRAP, &action, core::ptr::null_mut())
    };
    assert_eq!(installed, 0, "SIGTRAP can always be handled");
}

extern "C" fn on_step(_signal: libc::c_int) {
    STEPS.set(STEPS.get() + 1);
}
