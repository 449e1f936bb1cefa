//! A network namespace of one's own, with loopback up: where UDP port 4791 is free and nobody else is
//! disturbed. For demonstrations and tests.
//!
//! Owns the system calls for it, and so some `unsafe`.

use std::fs;
use std::io;

/// Moves the calling thread into a new network namespace; where that takes privileges which it does not
/// have, into a new user namespace first. Call it before other threads are started.
///
/// # Errors
/// Of the system: most often that user namespaces are not allowed.
pub fn isolate() -> io::Result<()> {
    if unshare(libc::CLONE_NEWNET).is_err() {
        // SAFETY: no arguments, no memory.
        let (uid, gid) = unsafe { (libc::getuid(), libc::getgid()) };
        unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNET)?;
        fs::write("/proc/self/setgroups", "deny")?;
        fs::write("/proc/self/uid_map", format!("0 {uid} 1"))?;
        fs::write("/proc/self/gid_map", format!("0 {gid} 1"))?;
    }
    loopback_up()
}

fn unshare(what: libc::c_int) -> io::Result<()> {
    // SAFETY: takes flags alone; none of these touches this process's memory.
    match unsafe { libc::unshare(what) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn loopback_up() -> io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: all zero octets are a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
    // SAFETY: the request is an `ifreq` that lives through the call, as SIOCSIFFLAGS reads.
    match unsafe { libc::ioctl(fd, libc::SIOCSIFFLAGS as _, &request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
