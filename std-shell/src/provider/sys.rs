//! The border to the kernel: system calls that neither std nor socket2 and rustix wrap, and nothing else.
//! All `unsafe` of the providers is here.
//!
//! Read first: recvmmsg(2), sendmmsg(2), ip(7).

#![allow(unsafe_code)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_void};

use super::datagram::{BATCH, Slot};

/// Sets a socket option whose value is an `int`.
pub(super) fn set_option(
    fd: BorrowedFd<'_>,
    level: c_int,
    name: c_int,
    value: c_int,
) -> io::Result<()> {
    let size = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` is an int that outlives the call, and `size` is its size.
    check(unsafe { libc::setsockopt(fd.as_raw_fd(), level, name, (&raw const value).cast(), size) })
        .map(drop)
}

/// Reads a socket option whose value is an `int`.
pub(super) fn option(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut size = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` has room for the `size` octets that the kernel may write.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut size)
    })?;
    Ok(value)
}

/// Gives a netlink socket an address, and makes it hear these multicast groups (a bit mask).
///
/// Membership alone is not enough: without an address a socket misses what the kernel announces by
/// itself, not on behalf of a program.
pub(super) fn bind_netlink(fd: BorrowedFd<'_>, groups: libc::c_int) -> io::Result<()> {
    // SAFETY: a structure of integers.
    let mut name: libc::sockaddr_nl = unsafe { std::mem::zeroed() };
    name.nl_family = libc::AF_NETLINK as libc::sa_family_t;
    name.nl_groups = groups as u32;
    let size = size_of_val(&name) as libc::socklen_t;
    // SAFETY: `name` outlives the call, and `size` is its size.
    check(unsafe { libc::bind(fd.as_raw_fd(), (&raw const name).cast(), size) }).map(drop)
}

/// Receives as many datagrams as are there and fit, without waiting. `flags` may ask for the error
/// queue.
pub(super) fn receive(fd: BorrowedFd<'_>, slots: &mut [Slot], flags: c_int) -> io::Result<usize> {
    let mut headers = Headers::new();
    let count = headers.point_at(slots, Direction::In);
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_TRUNC;
    // SAFETY: the first `count` headers are initialised and point into `slots` and `headers`, which
    // outlive the call; each says how much room there is. No timeout is passed.
    let received = check(unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            headers.messages.as_mut_ptr().cast(),
            count as u32,
            flags as _,
            std::ptr::null_mut(),
        )
    })? as usize;
    for (slot, message) in slots.iter_mut().zip(&headers.messages).take(received) {
        // SAFETY: `point_at` initialised this header, the kernel updated it.
        let message = unsafe { message.assume_init_ref() };
        slot.received(
            message.msg_len as _,
            message.msg_hdr.msg_namelen as _,
            message.msg_hdr.msg_controllen as _,
        );
    }
    Ok(received)
}

/// Sends datagrams without waiting; returns how many went out. An error is that of the first one.
pub(super) fn send(fd: BorrowedFd<'_>, slots: &mut [Slot]) -> io::Result<usize> {
    let mut headers = Headers::new();
    let count = headers.point_at(slots, Direction::Out);
    // SAFETY: the first `count` headers are initialised and point into `slots` and `headers`, which
    // outlive the call; each says how many octets are there.
    let sent = check(unsafe {
        libc::sendmmsg(
            fd.as_raw_fd(),
            headers.messages.as_mut_ptr().cast(),
            count as u32,
            (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _,
        )
    })?;
    Ok(sent as usize)
}

/// The arrays that `recvmmsg` and `sendmmsg` take. They are made anew for each call, on the stack, so
/// that no pointer lives longer.
struct Headers {
    messages: [MaybeUninit<libc::mmsghdr>; BATCH],
    parts: [MaybeUninit<libc::iovec>; BATCH],
}

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    In,
    Out,
}

impl Headers {
    fn new() -> Headers {
        Headers { messages: [MaybeUninit::uninit(); BATCH], parts: [MaybeUninit::uninit(); BATCH] }
    }

    /// Initialises a header for each slot; returns how many.
    fn point_at(&mut self, slots: &mut [Slot], direction: Direction) -> usize {
        let count = slots.len().min(BATCH);
        let arrays = self.messages.iter_mut().zip(&mut self.parts);
        for (slot, (message, part)) in slots.iter_mut().zip(arrays) {
            let (data, name, control) = match direction {
                Direction::In => slot.room(),
                Direction::Out => slot.contents(),
            };
            let part = part.write(libc::iovec {
                iov_base: data.as_mut_ptr().cast::<c_void>(),
                iov_len: data.len(),
            });
            // SAFETY: a structure of integers and pointers, for all of which zero is a value. (It
            // cannot be written as a literal: some C libraries have private padding in it.)
            let message = message.write(unsafe { std::mem::zeroed() });
            let header = &mut message.msg_hdr;
            header.msg_name = name.as_mut_ptr().cast::<c_void>();
            header.msg_namelen = name.len() as libc::socklen_t;
            header.msg_iov = part;
            header.msg_iovlen = 1;
            header.msg_controllen = control.len() as _;
            if !control.is_empty() {
                header.msg_control = control.as_mut_ptr().cast::<c_void>();
            }
        }
        count
    }
}

/// A descriptor of our own for the same file as number `fd`, which this process was started with.
pub(super) fn duplicate(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed; a number that is no descriptor is an error.
    let own = check(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0) })?;
    // SAFETY: the kernel has just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(own) })
}

/// Keeps a descriptor that this process was started with from programs that it starts.
pub(super) fn close_on_exec(fd: RawFd) -> io::Result<()> {
    // SAFETY: no pointers are passed; a number that is no descriptor is an error.
    check(unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) }).map(drop)
}

fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
