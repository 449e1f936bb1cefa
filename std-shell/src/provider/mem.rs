//! A network inside this process: endpoints with addresses, queues between them, and faults on demand.
//!
//! It behaves as `udp` does, addresses, refusals and "nothing answers" included, but loses, repeats and
//! reorders what it is told to, the same way for the same seed.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use nanocm_core::wire::Mad;
use nanocm_core::wire::icrc::Integrity;
use nanocm_core::{Gid, Path, PortEvent, RocePath, ScopedIp};
use rustix::event::{EventfdFlags, eventfd};

use super::datagram::BATCH;
use super::error::{OpenCause, OpenError};
use super::guid::Guids;
use super::owner::Holder;
use super::transport::{
    FailureCause, MadTransport, Outgoing, Received, SendFailure, Source, TransportCounters,
};

/// How often the network misbehaves, in cases of a thousand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LinkFaults {
    /// A datagram is lost.
    pub loss: u16,
    /// A datagram arrives twice.
    pub duplicate: u16,
    /// A datagram overtakes the one before it, if that is still under way.
    pub reorder: u16,
}

/// A network inside this process. Copies are the same network.
#[derive(Clone)]
pub struct MemNet(Arc<Mutex<Net>>);

impl MemNet {
    /// A network without endpoints and faults.
    pub fn new(seed: u64) -> MemNet {
        MemNet(Arc::new(Mutex::new(Net {
            random: seed,
            faults: LinkFaults::default(),
            inboxes: HashMap::new(),
            holders: HashMap::new(),
            next: 0,
        })))
    }

    /// Misbehave like this from now on.
    pub fn set_faults(&self, faults: LinkFaults) {
        self.lock().faults = faults;
    }

    /// A new endpoint that has these addresses.
    ///
    /// # Errors
    ///
    /// The host's, if it is out of descriptors.
    pub fn endpoint(&self, addresses: &[IpAddr]) -> io::Result<Mem> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let event = File::from(event);
        let inbox = Inbox { queue: VecDeque::new(), event: event.try_clone()?, overflow: 0 };
        let mut net = self.lock();
        let number = net.next;
        net.next += 1;
        net.inboxes.insert(number, inbox);
        drop(net);
        Ok(Mem {
            net: self.clone(),
            number,
            addresses: addresses.iter().copied().map(Gid::from_ip).collect(),
            told: false,
            event,
            taken: Vec::with_capacity(BATCH),
            counters: TransportCounters::default(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Net> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The `mem` provider: an endpoint of a [`MemNet`].
pub struct Mem {
    net: MemNet,
    number: usize,
    addresses: Vec<Gid>,
    told: bool,
    event: File,
    taken: Vec<Datagram>,
    counters: TransportCounters,
}

struct Net {
    random: u64,
    faults: LinkFaults,
    inboxes: HashMap<usize, Inbox>,
    /// Which endpoint has opened an address.
    holders: HashMap<Gid, usize>,
    next: usize,
}

struct Inbox {
    queue: VecDeque<Datagram>,
    /// Readable while the queue is not empty.
    event: File,
    overflow: u64,
}

#[derive(Clone, Copy)]
struct Datagram {
    path: RocePath,
    mad: Mad,
}

impl MadTransport for Mem {
    fn open(&mut self, local: IpAddr, _scope: u32) -> Result<(), OpenError> {
        let asked = Gid::from_ip(local);
        let wanted = |gid: &&Gid| {
            if asked.is_wildcard() { gid.is_v4() == asked.is_v4() } else { **gid == asked }
        };
        let error =
            |gid, errno, cause| Err(OpenError::new(ScopedIp { gid, scope: 0 }, errno, cause));
        let mut net = self.net.lock();
        let taken = |gid: &&Gid| net.holders.get(gid).is_some_and(|&holder| holder != self.number);
        if let Some(&gid) = self.addresses.iter().filter(wanted).find(taken) {
            return error(gid, libc::EADDRINUSE, OpenCause::Held(Holder::this_process()));
        }
        let found: Vec<Gid> = self.addresses.iter().filter(wanted).copied().collect();
        if found.is_empty() {
            let wildcard = asked.is_wildcard();
            let cause = if wildcard { OpenCause::NoAddress } else { OpenCause::NotLocal };
            return error(asked, libc::EADDRNOTAVAIL, cause);
        }
        net.holders.extend(found.into_iter().map(|gid| (gid, self.number)));
        Ok(())
    }

    fn ports(&mut self, f: &mut dyn FnMut(PortEvent)) -> io::Result<()> {
        if !self.told {
            self.told = true;
            let guids = Guids::new((0, 0));
            for &gid in &self.addresses {
                let address = ScopedIp { gid, scope: 0 };
                f(PortEvent::GidAdded { address, ca_guid: guids.guid(gid) });
            }
        }
        Ok(())
    }

    fn recv(&mut self, f: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        let mut net = self.net.lock();
        if let Some(inbox) = net.inboxes.get_mut(&self.number) {
            let count = inbox.queue.len().min(BATCH);
            self.taken.extend(inbox.queue.drain(..count));
            self.counters.rx_overflow = inbox.overflow;
            if inbox.queue.is_empty() {
                inbox.quiet()?;
            }
        }
        drop(net);
        let count = self.taken.len();
        self.counters.received += count as u64;
        for Datagram { path, mad } in self.taken.drain(..) {
            let path = Path::Roce(path);
            f(Received::Mad { path, mad: &mad, integrity: Integrity::Unchecked });
        }
        Ok(count)
    }

    fn send(
        &mut self,
        batch: &[Outgoing],
        failed: &mut dyn FnMut(SendFailure<'_>),
    ) -> io::Result<usize> {
        for outgoing in batch {
            let mut net = self.net.lock();
            let delivered = net.deliver(self.number, outgoing);
            drop(net);
            let (errno, cause) = match delivered {
                Ok(()) => {
                    self.counters.sent += 1;
                    continue;
                }
                Err(errno) if errno == libc::ECONNREFUSED => {
                    self.counters.undelivered += 1;
                    let remote = outgoing.path.remote_gid();
                    let (kind, code) = if remote.is_v4() { (3, 3) } else { (1, 4) };
                    let reporter = Some(remote.to_ip());
                    (errno, FailureCause::Icmp { kind, code, reporter })
                }
                Err(errno) => {
                    self.counters.send_errors += 1;
                    (errno, FailureCause::Host)
                }
            };
            failed(SendFailure {
                path: outgoing.path,
                token: Some(outgoing.token),
                mad: &outgoing.mad,
                errno,
                cause,
            });
        }
        Ok(batch.len())
    }

    fn source_for(
        &mut self,
        source: Option<ScopedIp>,
        destination: SocketAddr,
    ) -> io::Result<Source> {
        const MTU: u32 = 65_536;
        let v4 = Gid::from_ip(destination.ip()).is_v4();
        let wanted = |gid: &&Gid| match source {
            Some(source) => **gid == source.gid && gid.is_v4() == v4,
            None => gid.is_v4() == v4,
        };
        match self.addresses.iter().find(wanted) {
            Some(&gid) => Ok(Source::new(ScopedIp { gid, scope: 0 }, MTU)),
            None if source.is_some() => Err(io::Error::from_raw_os_error(libc::EADDRNOTAVAIL)),
            None => Err(io::Error::from_raw_os_error(libc::ENETUNREACH)),
        }
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    fn counters(&self) -> TransportCounters {
        self.counters
    }
}

impl fmt::Debug for MemNet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let net = self.lock();
        f.debug_struct("MemNet")
            .field("endpoints", &net.inboxes.len())
            .field("faults", &net.faults)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Mem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mem").field(&self.addresses).finish()
    }
}

/// What is on its way to it is lost, its addresses are free.
impl Drop for Mem {
    fn drop(&mut self) {
        let mut net = self.net.lock();
        net.inboxes.remove(&self.number);
        net.holders.retain(|_, holder| *holder != self.number);
    }
}

impl Net {
    /// Puts a datagram where it belongs, or says (errno) why not.
    fn deliver(&mut self, from: usize, outgoing: &Outgoing) -> Result<(), i32> {
        let Path::Roce(path) = outgoing.path else { return Err(libc::EAFNOSUPPORT) };
        if self.holders.get(&path.local) != Some(&from) {
            return Err(libc::EADDRNOTAVAIL);
        }
        let to = *self.holders.get(&path.remote).ok_or(libc::ECONNREFUSED)?;
        let LinkFaults { loss, duplicate, reorder } = self.faults;
        if self.happens(loss) {
            return Ok(());
        }
        let mut arriving = path;
        (arriving.local, arriving.remote) = (path.remote, path.local);
        let datagram = Datagram { path: arriving, mad: outgoing.mad };
        let copies = if self.happens(duplicate) { 2 } else { 1 };
        for _ in 0..copies {
            let overtake = self.happens(reorder);
            if let Some(inbox) = self.inboxes.get_mut(&to) {
                inbox.push(datagram, overtake).map_err(|_| libc::EIO)?;
            }
        }
        Ok(())
    }

    /// SplitMix64 against a chance of `of_thousand`.
    fn happens(&mut self, of_thousand: u16) -> bool {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % 1000 < u64::from(of_thousand)
    }
}

impl Inbox {
    /// As many datagrams as a socket's receive buffer of 8 MiB takes.
    const CAPACITY: usize = (16 << 20) / 1280;

    fn push(&mut self, datagram: Datagram, overtake: bool) -> io::Result<()> {
        let length = self.queue.len();
        if length == Inbox::CAPACITY {
            self.overflow += 1;
            return Ok(());
        }
        if length == 0 {
            self.event.write_all(&1_u64.to_ne_bytes())?;
        }
        self.queue.insert(length - usize::from(overtake && length > 0), datagram);
        Ok(())
    }

    fn quiet(&mut self) -> io::Result<()> {
        match self.event.read(&mut [0; 8]) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }
}
