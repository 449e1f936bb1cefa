//! A file in memory: a line is written, or blanked, without a system call.
//!
//! Owns the system calls for it, and so some `unsafe`. What is mapped has its blocks, so that a
//! full disk is an error and no signal; only its owner could cut it off.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};

/// Octets from the file's beginning.
#[derive(Debug)]
pub(super) struct Map {
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: whoever has it has the memory; writing takes `&mut`.
unsafe impl Send for Map {}

impl Map {
    /// Nothing yet.
    pub(super) const fn empty() -> Map {
        Map { at: NonNull::dangling(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Makes the file, and what is mapped of it, this long.
    pub(super) fn grow(&mut self, file: BorrowedFd<'_>, len: usize) -> io::Result<()> {
        let size = libc::off_t::try_from(len).map_err(io::Error::other)?;
        // SAFETY: numbers alone.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, size) } {
            0 => {}
            errno => return Err(io::Error::from_raw_os_error(errno)),
        }
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address of the kernel's choice.
        let at = unsafe {
            libc::mmap(ptr::null_mut(), len, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let at = NonNull::new(at.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        *self = Map { at, len };
        Ok(())
    }

    /// Writes a line; its first octet, by which readers know that there is one, comes last.
    pub(super) fn write(&mut self, offset: usize, line: &[u8]) {
        let Some((first, rest)) = line.split_first() else { return };
        if offset + line.len() > self.len {
            return;
        }
        // SAFETY: all of it lies within the mapping, which nothing in this process has a reference
        // to; other processes only read.
        unsafe {
            let at = self.at.add(offset);
            at.write_volatile(b' ');
            at.add(1).copy_from_nonoverlapping(NonNull::from(rest).cast(), rest.len());
            std::sync::atomic::fence(std::sync::atomic::Ordering::Release);
            at.write_volatile(*first);
        }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        if self.len > 0 {
            // SAFETY: our own mapping, which nobody uses any more.
            unsafe { libc::munmap(self.at.as_ptr().cast(), self.len) };
        }
    }
}
