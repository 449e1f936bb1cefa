//! What the tests have in common: a connection manager over `udp`, and sockets of "other programs".

use nanocm::provider::Udp;
use nanocm::{Capacity, Cm, Config, Drive, EventChannel, Id, PortSpace, random_seed};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

pub(crate) fn cm(connections: usize) -> (Cm, EventChannel) {
    let config = Config::new(random_seed().unwrap());
    let transport = Udp::new((0, 0)).unwrap();
    let cm = Cm::over(transport, config, Capacity::of(connections), Drive::Caller).unwrap();
    let channel = cm.channel().unwrap();
    (cm, channel)
}

pub(crate) fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

pub(crate) fn id((cm, channel): &(Cm, EventChannel)) -> Id {
    cm.create_id(channel, PortSpace::Tcp).unwrap()
}

/// Socket options of another program's.
#[derive(Clone, Copy, Default)]
pub(crate) struct Options {
    pub(crate) reuse_addr: bool,
    pub(crate) reuse_port: bool,
    /// Of an IPv6 socket: not for IPv4.
    pub(crate) v6_only: bool,
}

pub(crate) const REUSE: Options = Options { reuse_addr: true, reuse_port: false, v6_only: false };

/// Binds a TCP socket as any program might.
pub(crate) fn bind(address: SocketAddr, options: Options) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(options.v6_only)?;
    }
    socket.set_reuse_address(options.reuse_addr)?;
    socket.set_reuse_port(options.reuse_port)?;
    socket.bind(&SockAddr::from(address))?;
    Ok(socket)
}

/// Nobody can have it, with whichever options.
#[track_caller]
pub(crate) fn assert_held(address: SocketAddr) {
    for (reuse_addr, reuse_port) in [(false, false), (true, false), (false, true), (true, true)] {
        let options = Options { reuse_addr, reuse_port, v6_only: false };
        let bound = bind(address, options).map(drop);
        let errno = bound.err().and_then(|error| error.raw_os_error());
        assert_eq!(errno, Some(libc::EADDRINUSE), "{address}, {reuse_addr}, {reuse_port}");
    }
}

/// Anybody can have it.
#[track_caller]
pub(crate) fn assert_free(address: SocketAddr) {
    let bound = bind(address, Options::default());
    assert!(bound.is_ok(), "{address}: {bound:?}");
}

/// A client is told at once that nobody serves there.
#[track_caller]
pub(crate) fn assert_refused(address: SocketAddr) {
    let error = TcpStream::connect(address).expect_err("nobody listens");
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused, "{address}");
}

/// One service on the number, without SO_REUSEADDR, closes its connection first, and ends:
/// TIME_WAIT is there.
pub(crate) fn leave_remnants(address: SocketAddr, options: Options) {
    let listener = bind(address, options).unwrap();
    listener.listen(1).unwrap();
    let listener = TcpListener::from(listener);
    let client = TcpStream::connect(address).unwrap();
    drop(listener.accept().unwrap());
    assert_eq!(io::Read::read(&mut &client, &mut [0]).unwrap(), 0);
}
