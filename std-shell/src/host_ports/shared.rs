//! One number for a TCP service and an RDMA service.
//!
//! Listening belongs to the socket, not to the descriptor: a copy of a listening socket that nobody
//! accepts from makes clients hang. So either the socket is lent (`Cm::bind_shared`: it outlives
//! the identifier), or given ([`SharedTcpListener`]): then whoever leaves last closes it, and when
//! the TCP side leaves first, it goes back to being bound only, and clients are refused.
//!
//! Read first: field tests, H4.

use super::{fork, socket};
use socket2::{SockAddr, SockRef};
use std::fmt;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The TCP side of a number that RDMA has, too: a TCP listener. Dropping it ends the TCP service;
/// the number stays held while an identifier has it, and clients are refused.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use nanocm::host_ports::SharedTcpListener;
/// use nanocm::{Cm, PortSpace};
///
/// let cm = Cm::udp()?;
/// let channel = cm.channel()?;
/// // TCP first...
/// let tcp = SharedTcpListener::from(std::net::TcpListener::bind("10.0.0.1:8445")?);
/// let rdma = cm.create_id(&channel, PortSpace::Tcp)?;
/// rdma.bind_with(&tcp)?;
/// rdma.listen(0)?;
/// // ... or RDMA first.
/// let rdma = cm.create_id(&channel, PortSpace::Tcp)?;
/// rdma.bind("10.0.0.1:9445".parse()?)?;
/// let tcp = rdma.host_listener(128)?;
/// let (stream, peer) = tcp.accept()?;
/// # Ok(()) }
/// ```
#[must_use = "dropping it ends the TCP service"]
pub struct SharedTcpListener(Arc<SharedSocket>);

/// The socket of both sides.
pub(crate) struct SharedSocket {
    listener: TcpListener,
    /// Whether there is a TCP side.
    listens: AtomicBool,
    /// A forked child has copies of both, and ends neither.
    generation: u32,
}

impl From<TcpListener> for SharedTcpListener {
    fn from(listener: TcpListener) -> SharedTcpListener {
        SharedTcpListener(Arc::new(SharedSocket::new(listener, true)))
    }
}

impl SharedTcpListener {
    /// Waits for a client, as [`TcpListener::accept`].
    ///
    /// # Errors
    /// As there.
    pub fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        self.0.listener.accept()
    }

    /// Its address.
    ///
    /// # Errors
    /// Of the system.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.listener.local_addr()
    }

    /// The listener, for all else that listeners do.
    pub fn listener(&self) -> &TcpListener {
        &self.0.listener
    }

    pub(crate) fn socket(&self) -> &Arc<SharedSocket> {
        &self.0
    }
}

impl AsFd for SharedTcpListener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.listener.as_fd()
    }
}

impl Drop for SharedTcpListener {
    fn drop(&mut self) {
        if self.0.generation != fork::generation() {
            return;
        }
        let stopped = if Arc::strong_count(&self.0) > 1 {
            self.0.stop_listening()
        } else {
            // It is closed in a moment; but a child may have a copy, and accepts from it nobody.
            SockRef::from(&self.0.listener).shutdown(Shutdown::Read)
        };
        if let Err(error) = stopped {
            log::warn!("a TCP port is not held for RDMA any more: {error}");
        }
        // Not before: another TCP side would be shut down with this one.
        self.0.listens.store(false, SeqCst);
    }
}

impl SharedSocket {
    fn new(listener: TcpListener, listens: bool) -> SharedSocket {
        let listens = AtomicBool::new(listens);
        SharedSocket { listener, listens, generation: fork::generation() }
    }

    /// From a socket that is bound only.
    pub(super) fn of_reservation(fd: OwnedFd) -> SharedSocket {
        SharedSocket::new(fd.into(), false)
    }

    pub(crate) fn listener(&self) -> &TcpListener {
        &self.listener
    }

    /// A TCP side, unless there is one.
    pub(super) fn listen(self: Arc<Self>, backlog: u32) -> io::Result<Option<SharedTcpListener>> {
        if self.listens.swap(true, SeqCst) {
            return Ok(None);
        }
        let socket = SockRef::from(&self.listener);
        let listen = || socket.listen(i32::try_from(backlog).unwrap_or(i32::MAX));
        // Plain first, as for `bind`. Then the option stays, so that what is left of its
        // connections keeps nobody from the number later, as any service should set it; while it
        // listens it lets nobody in.
        let plain = listen();
        let done = socket.set_reuse_address(true);
        let done = done.and_then(|()| plain.or_else(|_| listen()));
        match done {
            Ok(()) => Ok(Some(SharedTcpListener(self))),
            Err(error) => {
                let _ = socket.set_reuse_address(false);
                self.listens.store(false, SeqCst);
                Err(error)
            }
        }
    }

    /// Back to bound only.
    fn stop_listening(&self) -> io::Result<()> {
        let address = SockAddr::from(self.listener.local_addr()?);
        let socket = SockRef::from(&self.listener);
        // Or others could share the number from now on.
        socket.set_reuse_address(false)?;
        socket.set_reuse_port(false)?;
        socket.shutdown(Shutdown::Read)?;
        // The kernel gives a number that it has chosen itself away with that; one that was asked
        // for it keeps, and says that the socket is bound already.
        match socket::bind(&socket, &address) {
            Err(error) if error.raw_os_error() != Some(libc::EINVAL) => Err(error),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for SharedTcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.listener.fmt(f)
    }
}
