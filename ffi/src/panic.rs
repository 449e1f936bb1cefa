//! Panics where there is no operating system.

use core::panic::PanicInfo;

unsafe extern "C" {
    /// For a library built without an operating system (feature `std` off): the program defines this
    /// function, and it does not return. It is called if nanocm finds a bug in itself.
    safe fn ncm_panic() -> !;
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    ncm_panic()
}
