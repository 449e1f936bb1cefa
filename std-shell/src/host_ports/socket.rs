//! The socket that holds a number in the host's port space: bound, and never listening.
//!
//! Read first: field tests, H1 (why it binds plain first), "UDP reservation"; DESIGN §5.

use super::fork::Unforked;
use super::{Number, Space};
use rustix::io::Errno;
use socket2::{Domain, SockAddr, SockFilter, SockRef, Socket, Type};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Binds a socket to the number. `beside`: our own sockets on addresses that this one overlaps
/// with; they make way for it. (For three system calls they would for anybody else with
/// SO_REUSEADDR, too: Linux has no way to mean a single socket.)
pub(super) fn reserve(number: &Number, beside: &[BorrowedFd<'_>]) -> io::Result<Unforked> {
    Unforked::open(|| {
        let address = number.address();
        let socket = new(number)?;
        let name = SockAddr::from(address);
        if !beside.is_empty() {
            bind_beside(&socket, &name, beside)?;
        } else if number.space == Space::Udp {
            socket.bind(&name)?;
        } else {
            bind(&socket, &name)?;
        }
        if number.space == Space::Udp {
            make_deaf(&socket, address)?;
        }
        Ok(OwnedFd::from(socket))
    })
}

/// Any number that the host gives.
pub(super) fn reserve_any(number: &Number) -> io::Result<(Unforked, u16)> {
    let mut port = 0;
    let held = Unforked::open(|| {
        let socket = new(number)?;
        socket.bind(&SockAddr::from(number.address()))?;
        let given = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
        port = given.port();
        if number.space == Space::Udp {
            make_deaf(&socket, given)?;
        }
        Ok::<_, io::Error>(OwnedFd::from(socket))
    })?;
    Ok((held, port))
}

fn new(number: &Number) -> io::Result<Socket> {
    let address = number.address();
    let kind = if number.space == Space::Udp { Type::DGRAM } else { Type::STREAM };
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() && address.ip().is_unspecified() {
        socket.set_only_v6(number.v6_only)?;
    }
    Ok(socket)
}

/// Plain; if that is refused, with SO_REUSEADDR, which only remnants of an earlier service let
/// pass, and which is taken back at once, or others could share the number.
pub(super) fn bind(socket: &Socket, name: &SockAddr) -> io::Result<()> {
    match socket.bind(name) {
        Err(error) if Errno::from_io_error(&error) == Some(Errno::ADDRINUSE) => {
            bind_with_reuse(socket, name)
        }
        done => done,
    }
}

fn bind_beside(socket: &Socket, name: &SockAddr, beside: &[BorrowedFd<'_>]) -> io::Result<()> {
    let make_way =
        |way: bool| beside.iter().try_for_each(|other| SockRef::from(other).set_reuse_address(way));
    socket.set_reuse_address(true)?;
    let bound = make_way(true).and_then(|()| socket.bind(name));
    make_way(false)?;
    socket.set_reuse_address(false)?;
    bound
}

fn bind_with_reuse(socket: &Socket, name: &SockAddr) -> io::Result<()> {
    socket.set_reuse_address(true)?;
    let bound = socket.bind(name);
    socket.set_reuse_address(false)?;
    bound
}

/// Datagrams to a reserved number are refused, as they would be without the reservation, or at
/// least not kept. A socket with a peer takes no one else's; but one on a wildcard address would
/// shrink to a single address by that.
fn make_deaf(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if !address.ip().is_unspecified() {
        return socket.connect(&SockAddr::from(address));
    }
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    socket.attach_filter(&[SockFilter::new(RETURN, 0, 0, 0)])?;
    socket.set_recv_buffer_size(0)
}
