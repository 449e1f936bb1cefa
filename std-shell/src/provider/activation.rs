//! Sockets that the service manager opened for us (`LISTEN_FDS`): the port stays ours while the program
//! restarts, and needs no race with others at boot.
//!
//! In the socket unit: `ListenDatagram=10.0.0.1:4791`, one line for each address; not the wildcard, which
//! would stand in the way of other programs' addresses. Read first: sd_listen_fds(3).

use std::env;
use std::ops::Range;
use std::os::fd::RawFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use nanocm_core::ScopedIp;
use nanocm_core::wire::roce::UDP_PORT;
use socket2::{Socket, Type};

use super::sys;

/// The socket passed for UDP port 4791 of this address, if there is one. It is handed out once.
pub(super) fn claim(address: ScopedIp) -> Option<Socket> {
    static PASSED: OnceLock<Mutex<Vec<Socket>>> = OnceLock::new();
    let passed = PASSED.get_or_init(|| {
        let numbers = passed_fds(|name| env::var(name).ok(), std::process::id());
        Mutex::new(numbers.filter_map(adopt).collect())
    });
    let mut passed = passed.lock().unwrap_or_else(PoisonError::into_inner);
    let index = passed.iter().position(|socket| bound_to(socket) == Some(address))?;
    Some(passed.swap_remove(index))
}

/// The descriptors passed to this process.
fn passed_fds(variable: impl Fn(&str) -> Option<String>, pid: u32) -> Range<RawFd> {
    const FIRST: RawFd = 3;
    let number = |name| variable(name)?.parse::<u32>().ok();
    let count = match (number("LISTEN_PID"), number("LISTEN_FDS")) {
        (Some(listen_pid), Some(count)) if listen_pid == pid => count.min(1 << 16),
        _ => 0,
    };
    FIRST..FIRST + count as RawFd
}

/// A descriptor of our own, if this is a UDP socket on port 4791 of one address. The others are for
/// others.
fn adopt(fd: RawFd) -> Option<Socket> {
    let socket = Socket::from(sys::duplicate(fd).ok()?);
    let udp = socket.r#type().is_ok_and(|kind| kind == Type::DGRAM);
    let address = bound_to(&socket).filter(|address| udp && !address.gid.is_wildcard())?;
    // Service managers set it for a quick restart of TCP servers; here it would let others in.
    let ready = sys::close_on_exec(fd)
        .and_then(|()| socket.set_reuse_address(false))
        .and_then(|()| socket.set_reuse_port(false))
        .and_then(|()| socket.set_nonblocking(true));
    match ready {
        Ok(()) => Some(socket),
        Err(error) => {
            log::warn!("the socket passed for {:?} is of no use: {error}", address.gid);
            None
        }
    }
}

fn bound_to(socket: &Socket) -> Option<ScopedIp> {
    let address = socket.local_addr().ok()?.as_socket()?;
    (address.port() == UDP_PORT).then(|| ScopedIp::of(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_taken_only_if_meant_for_this_process() {
        for (pid, count, range) in [
            (Some("7"), Some("2"), 3..5),
            (Some("8"), Some("2"), 3..3),
            (None, Some("2"), 3..3),
            (Some("7"), None, 3..3),
            (Some("7"), Some("x"), 3..3),
            (Some("7"), Some("-1"), 3..3),
            (Some("7"), Some("4294967295"), 3..3 + (1 << 16)),
        ] {
            let variable = |name: &str| match name {
                "LISTEN_PID" => pid.map(str::to_owned),
                _ => count.map(str::to_owned),
            };
            assert_eq!(passed_fds(variable, 7), range, "{pid:?} {count:?}");
        }
    }
}
