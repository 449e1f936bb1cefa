//! What the kernel takes for it: the five datagrams of a connection between two sockets, without
//! anything in them.

use super::IN_FLIGHT;
use nanocm_core::wire::roce::{PAYLOAD_LEN, UDP_PORT};
use nix::sys::socket::{MsgFlags, MultiHeaders, SockaddrIn, recvmmsg, sendmmsg};
use std::io::{self, IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;

/// The conversation: who speaks, and how many datagrams. REQ; REP; RTU and DREQ; DREP.
const TURNS: [(Side, usize); 4] = [(Side::A, 1), (Side::B, 1), (Side::A, 2), (Side::B, 1)];

#[derive(Clone, Copy, PartialEq)]
enum Side {
    A,
    B,
}

/// Two sockets on port 4791, of addresses that the engines have not taken.
struct Sockets([(UdpSocket, SocketAddrV4); 2]);

impl Sockets {
    fn new() -> io::Result<Sockets> {
        let bind = |last| {
            let address = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), UDP_PORT);
            UdpSocket::bind(address).map(|socket| (socket, address))
        };
        Ok(Sockets([bind(3)?, bind(4)?]))
    }

    /// Sender, receiver, and the receiver's address.
    fn of(&self, speaker: Side) -> (&UdpSocket, &UdpSocket, SocketAddrV4) {
        let [(a, to_a), (b, to_b)] = &self.0;
        if speaker == Side::A { (a, b, *to_b) } else { (b, a, *to_a) }
    }
}

/// A system call for each datagram.
pub(super) fn plain(rounds: usize) -> io::Result<()> {
    let sockets = Sockets::new()?;
    let mut payload = [0; PAYLOAD_LEN];
    for _ in 0..rounds.div_ceil(IN_FLIGHT) {
        for (speaker, count) in TURNS {
            let (from, to, address) = sockets.of(speaker);
            for _ in 0..count * IN_FLIGHT {
                from.send_to(&payload, address)?;
            }
            for _ in 0..count * IN_FLIGHT {
                to.recv_from(&mut payload)?;
            }
        }
    }
    Ok(())
}

/// A system call for 64 datagrams.
pub(super) fn batched(rounds: usize) -> io::Result<()> {
    let sockets = Sockets::new()?;
    let mut incoming = [[0; PAYLOAD_LEN]; IN_FLIGHT];
    let outgoing = [[0; PAYLOAD_LEN]; IN_FLIGHT];
    let mut headers = MultiHeaders::<SockaddrIn>::preallocate(IN_FLIGHT, None);
    for _ in 0..rounds.div_ceil(IN_FLIGHT) {
        for (speaker, count) in TURNS {
            let (from, to, address) = sockets.of(speaker);
            let addresses = [Some(SockaddrIn::from(address)); IN_FLIGHT];
            for _ in 0..count {
                let parts: [_; IN_FLIGHT] = std::array::from_fn(|i| [IoSlice::new(&outgoing[i])]);
                let sent = sendmmsg(
                    from.as_raw_fd(),
                    &mut headers,
                    &parts,
                    addresses,
                    [],
                    MsgFlags::empty(),
                )?;
                assert_eq!(sent.count(), IN_FLIGHT);
            }
            for _ in 0..count {
                let mut parts = incoming.each_mut().map(|room| [IoSliceMut::new(room)]);
                let received = recvmmsg(
                    to.as_raw_fd(),
                    &mut headers,
                    parts.iter_mut(),
                    MsgFlags::empty(),
                    None,
                )?;
                assert_eq!(received.count(), IN_FLIGHT);
            }
        }
    }
    Ok(())
}
