//! Socket options, as tables.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use libc::c_int;
use socket2::{Domain, SockFilter, Socket};

use super::sys;

/// Level, name, value.
pub(super) type SocketOption = (c_int, c_int, c_int);

/// Sets options in their order.
pub(super) fn set_all(socket: &Socket, options: &[SocketOption]) -> io::Result<()> {
    for &(level, name, value) in options {
        sys::set_option(socket.as_fd(), level, name, value)?;
    }
    Ok(())
}

/// A burst of requests comes faster than anybody answers, and each datagram costs 1,280 octets of the
/// buffer: the default holds 166 (field tests, R7).
pub(super) fn enlarge_receive_buffer(fd: BorrowedFd<'_>) -> io::Result<()> {
    const WANTED: c_int = 8 << 20;
    sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, WANTED)
        // Without CAP_NET_ADMIN the host grants what net.core.rmem_max allows, and says nothing.
        .or_else(|_| sys::set_option(fd, libc::SOL_SOCKET, libc::SO_RCVBUF, WANTED))
}

/// A classic BPF instruction.
const fn instruction(code: u32, k: u32, jump_true: u8, jump_false: u8) -> SockFilter {
    SockFilter::new(code as u16, jump_true, jump_false, k)
}

/// Lets nothing through.
pub(super) fn drop_all(socket: &Socket) -> io::Result<()> {
    socket.attach_filter(&[instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0)])
}

/// Lets UDP datagrams to one port through. Raw IPv4 sockets show the IP header in front, IPv6 ones don't.
pub(super) fn keep_udp_port(socket: &Socket, domain: Domain, port: u16) -> io::Result<()> {
    use libc::{
        BPF_ABS, BPF_B, BPF_H, BPF_IND, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_LDX, BPF_MSH, BPF_RET,
    };
    const DESTINATION: u32 = 2;
    let keep = [
        instruction(BPF_JMP | BPF_JEQ | BPF_K, port.into(), 0, 1),
        instruction(BPF_RET | BPF_K, u32::MAX, 0, 0),
        instruction(BPF_RET | BPF_K, 0, 0, 0),
    ];
    let mut program = if domain == Domain::IPV4 {
        vec![
            // The header's length: four times the low half of its first octet.
            instruction(BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0),
            instruction(BPF_LD | BPF_H | BPF_IND, DESTINATION, 0, 0),
        ]
    } else {
        vec![instruction(BPF_LD | BPF_H | BPF_ABS, DESTINATION, 0, 0)]
    };
    program.extend(keep);
    socket.attach_filter(&program)
}

/// linux/in6.h; not in the libc crate.
pub(super) const IPV6_AUTOFLOWLABEL: c_int = 70;
