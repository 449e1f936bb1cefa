//! UDP payloads on port 4791 as they are: for who tests a peer and needs wrong frames too, and to see
//! whatever comes back. Nothing is framed, checked or counted here.
//!
//! The socket is that of the `udp` provider, so the IPv4 identification is 0 and DF is set: the ICRC of
//! what is sent can be computed. Read first: `udp.rs`.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use nanocm_core::ScopedIp;
use nanocm_core::wire::roce::UDP_PORT;

use super::addresses;
use super::datagram::{DATA, Slot};
use super::error::OpenError;
use super::host::{self, HostFacts};
use super::link::Link;
use super::sys;
use super::transport::Source;
use super::udp::UdpLink;

/// Port 4791 of one local address, with nothing between it and the caller.
///
/// ```
/// use nanocm::provider::Frames;
///
/// let peer = "127.0.0.2:0".parse()?;
/// println!("{:?}", Frames::source_for(peer)?.address);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Frames(UdpLink);

impl Frames {
    /// Takes the port, as the `udp` provider does, where that could hear something.
    ///
    /// # Errors
    ///
    /// [`OpenError`] names the holder if the address is taken.
    pub fn open(local: ScopedIp) -> Result<Frames, OpenError> {
        host::judge(&HostFacts::read(local.gid.to_ip()))
            .map_err(|refusal| OpenError::refused(local, refusal))?;
        UdpLink::open(local).map(Frames)
    }

    /// Where datagrams to `peer` leave this host.
    ///
    /// # Errors
    ///
    /// The host's: no route.
    pub fn source_for(peer: SocketAddr) -> io::Result<Source> {
        addresses::source_for(None, peer)
    }

    /// Sends a UDP payload, of 512 octets at most, to port 4791 of `peer`.
    ///
    /// # Errors
    ///
    /// The host's, also for earlier datagrams that came to nothing.
    pub fn send(&self, peer: SocketAddr, payload: &[u8]) -> io::Result<()> {
        let mut slot = Slot::EMPTY;
        let mut to = peer;
        to.set_port(UDP_PORT);
        let room = slot.begin::<DATA>(to).get_mut(..payload.len());
        room.ok_or_else(|| io::Error::from_raw_os_error(libc::EMSGSIZE))?.copy_from_slice(payload);
        slot.shorten(payload.len());
        sys::send(self.as_fd(), std::slice::from_mut(&mut slot)).map(drop)
    }

    /// Hands over one datagram, with its sender and its first 512 octets; false if none is there.
    ///
    /// # Errors
    ///
    /// What the network says of earlier datagrams, each once.
    pub fn recv(&self, f: impl FnOnce(SocketAddr, &[u8])) -> io::Result<bool> {
        let mut slot = Slot::EMPTY;
        match sys::receive(self.as_fd(), std::slice::from_mut(&mut slot), 0) {
            Ok(0) => Ok(false),
            Ok(_) => {
                if let Some(sender) = slot.address() {
                    f(sender, slot.data());
                }
                Ok(true)
            }
            Err(error) => {
                self.forget_an_error();
                if error.kind() == io::ErrorKind::WouldBlock { Ok(false) } else { Err(error) }
            }
        }
    }
}

impl Frames {
    /// What comes with an error stays in a queue of its own, and keeps the socket ready until it is read.
    fn forget_an_error(&self) {
        let mut slot = Slot::EMPTY;
        let _ = sys::receive(self.as_fd(), std::slice::from_mut(&mut slot), libc::MSG_ERRQUEUE);
    }
}

impl AsFd for Frames {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.socket()
    }
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Frames").field(&self.0.address()).finish()
    }
}
