//! What QEMU's host does for the board, through semihosting: lines on its console, an exit code, random octets.

use cortex_m_semihosting::{nr, syscall, syscall1};

const EXIT_EXTENDED: usize = 0x20;
const STOPPED_APPLICATION_EXIT: usize = 0x2_0026;

/// Prints a line.
pub(crate) fn print(line: &str) {
    for octet in line.bytes().chain(*b"\n") {
        // SAFETY: SYS_WRITEC reads one octet at the address given.
        unsafe { syscall1(nr::WRITEC, &raw const octet as usize) };
    }
}

/// Ends the emulator with this exit code.
pub(crate) fn exit(code: usize) -> ! {
    let block = [STOPPED_APPLICATION_EXIT, code];
    loop {
        // SAFETY: SYS_EXIT_EXTENDED reads two words at the address given.
        unsafe { syscall(EXIT_EXTENDED, &block) };
    }
}

/// A random number of the host's. The chip has no generator: a real board hashes a secret of its own and a count of its
/// starts, which it keeps in flash.
pub(crate) fn random() -> Option<u64> {
    const READ_BINARY: usize = 1;
    let path = c"/dev/urandom";
    let open = [path.as_ptr() as usize, READ_BINARY, path.count_bytes()];
    // SAFETY: SYS_OPEN reads three words at the address given, and a string of the length given.
    let file = unsafe { syscall(nr::OPEN, &open) };
    if file == usize::MAX {
        return None;
    }
    let mut octets = [0u8; 8];
    let read = [file, octets.as_mut_ptr() as usize, octets.len()];
    // SAFETY: SYS_READ reads three words, and writes as many octets as the last of them says.
    let missing = unsafe { syscall(nr::READ, &read) };
    (missing == 0).then(|| u64::from_le_bytes(octets))
}
