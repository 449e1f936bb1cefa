//! What `udp` and `raw` have in common: a set of links, one for each local address in use, which
//! follows the host's addresses.
//!
//! Read first: field tests, R1 and D1.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use nanocm_core::{Gid, Path, PortEvent, RocePath, ScopedIp};
use rustix::event::{Timespec, epoll};

use super::addresses::{Addresses, Change};
use super::datagram::{BATCH, Slot};
use super::error::{OpenCause, OpenError};
use super::guid::Guids;
use super::host::{self, HostFacts};
use super::link::{Link, Opened, refused};
use super::transport::{Outgoing, Received, SendFailure, TransportCounters};

/// GSI over RoCEv2 over the links' sockets.
pub(super) struct Roce<L> {
    links: Vec<Option<Opened<L>>>,
    by_address: HashMap<ScopedIp, usize>,
    follow: Follow,
    addresses: Addresses,
    guids: Guids,
    news: VecDeque<Change>,
    epoll: OwnedFd,
    incoming: Box<[Slot]>,
    outgoing: Box<[Slot]>,
    counters: TransportCounters,
}

/// Which wildcards are open.
#[derive(Default)]
struct Follow {
    v4: bool,
    v6: bool,
}

/// The name of the address changes among those that are polled; links go by their index.
const ADDRESSES: u64 = u64::MAX;

/// How many links have their turn at a time.
const TURNS: usize = 16;

impl<L: Link> Roce<L> {
    pub(super) fn new(comm_id_prefix: (u32, u8)) -> io::Result<Roce<L>> {
        let addresses = Addresses::new()?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let news = epoll::EventData::new_u64(ADDRESSES);
        epoll::add(&epoll, addresses.fd(), news, epoll::EventFlags::IN)?;
        Ok(Roce {
            links: Vec::new(),
            by_address: HashMap::new(),
            follow: Follow::default(),
            addresses,
            guids: Guids::new(comm_id_prefix),
            news: VecDeque::new(),
            epoll,
            incoming: Slot::batch(),
            outgoing: Slot::batch(),
            counters: TransportCounters::default(),
        })
    }

    /// The addresses in use.
    pub(super) fn in_use(&self) -> Vec<ScopedIp> {
        self.by_address.keys().copied().collect()
    }

    pub(super) fn open(&mut self, local: IpAddr, scope: u32) -> Result<(), OpenError> {
        let address = ScopedIp::of(with_scope(local, scope));
        self.look_around().map_err(|error| OpenError::host(address, &error))?;
        // As a GID: `::ffff:0.0.0.0` is a wildcard too.
        if !address.gid.is_wildcard() {
            self.open_link(address, true)?;
            return Ok(());
        }
        let all: Vec<_> = self.addresses.known().filter(|a| same_family(*a, address)).collect();
        if all.is_empty() {
            return Err(OpenError::new(address, libc::EADDRNOTAVAIL, OpenCause::NoAddress));
        }
        let mut opened = Vec::new();
        for address in all {
            match self.open_link(address, false) {
                Ok(true) => opened.push(address),
                // It has gone since we looked.
                Ok(false) | Err(OpenError { cause: OpenCause::NotLocal, .. }) => {}
                Err(error) => {
                    opened.into_iter().for_each(|address| self.close_link(address));
                    return Err(error);
                }
            }
        }
        *self.follow.of(address) = true;
        Ok(())
    }

    pub(super) fn ports(&mut self, f: &mut dyn FnMut(PortEvent)) -> io::Result<()> {
        self.look_around()?;
        while let Some(change) = self.news.pop_front() {
            f(match change {
                Change::Added(address) => {
                    PortEvent::GidAdded { address, ca_guid: self.guids.guid(address.gid) }
                }
                Change::Removed(address) => PortEvent::GidRemoved { address },
            });
        }
        Ok(())
    }

    /// Learns what changed, and lets the wildcards follow. Addresses that are not open are nobody's
    /// business.
    fn look_around(&mut self) -> io::Result<()> {
        for change in self.addresses.changes()? {
            match change {
                // Opened by name, and back again.
                Change::Added(address) if self.opened(address).is_some() => {
                    self.news.push_back(change);
                }
                Change::Added(address) if *self.follow.of(address) => {
                    if let Err(error) = self.open_link(address, false) {
                        log::warn!("a new address is left out: {error}");
                    }
                }
                Change::Removed(address) => match self.opened(address) {
                    Some(opened) if opened.named => self.news.push_back(change),
                    Some(_) => self.close_link(address),
                    None => {}
                },
                Change::Added(_) => {}
            }
        }
        Ok(())
    }

    fn opened(&self, address: ScopedIp) -> Option<&Opened<L>> {
        self.by_address.get(&address).and_then(|&index| self.links[index].as_ref())
    }

    /// False if it is open already.
    fn open_link(&mut self, address: ScopedIp, named: bool) -> Result<bool, OpenError> {
        if let Some(&index) = self.by_address.get(&address) {
            if let Some(opened) = &mut self.links[index] {
                opened.named |= named;
            }
            return Ok(false);
        }
        host::judge(&HostFacts::read(address.gid.to_ip()))
            .map_err(|refusal| OpenError::refused(address, refusal))?;
        let opened = Opened::open(address, named)?;
        let free = self.links.iter().position(Option::is_none);
        let index = free.unwrap_or_else(|| {
            self.links.push(None);
            self.links.len() - 1
        });
        let key = epoll::EventData::new_u64(index as u64);
        epoll::add(&self.epoll, opened.socket(), key, epoll::EventFlags::IN)
            .map_err(|error| OpenError::host(address, &error.into()))?;
        self.links[index] = Some(opened);
        self.by_address.insert(address, index);
        self.news.push_back(Change::Added(address));
        Ok(true)
    }

    fn close_link(&mut self, address: ScopedIp) {
        self.news.push_back(Change::Removed(address));
        let index = self.by_address.remove(&address);
        if let Some(opened) = index.and_then(|index| self.links[index].take())
            // A socket that the service manager has too stays open, and would go on being polled.
            && let Err(error) = epoll::delete(&self.epoll, opened.socket())
        {
            log::warn!("cannot stop polling a closed socket: {error}");
        }
    }

    pub(super) fn recv(&mut self, f: &mut dyn FnMut(Received<'_>)) -> io::Result<usize> {
        let Roce { links, epoll, incoming, counters, .. } = self;
        // With one link the epoll instance would only say what the socket says itself.
        if let [Some(opened)] = links.as_mut_slice() {
            return opened.recv(incoming, counters, f);
        }
        let mut events = [const { MaybeUninit::uninit() }; TURNS];
        let (ready, _) = epoll::wait(&*epoll, &mut events, Some(&Timespec::default()))?;
        // A fair share for each; who has more waiting is ready the next time too.
        let share = (BATCH / ready.len().max(1)).max(1);
        let mut total = 0;
        for event in ready {
            let index = usize::try_from(event.data.u64()).ok();
            if let Some(Some(opened)) = index.and_then(|index| links.get_mut(index)) {
                total += opened.recv(&mut incoming[..share], counters, f)?;
            }
        }
        Ok(total)
    }

    pub(super) fn send(
        &mut self,
        batch: &[Outgoing],
        failed: &mut dyn FnMut(SendFailure<'_>),
    ) -> io::Result<usize> {
        let mut done = 0;
        while let Some(first) = batch.get(done) {
            let link = match &first.path {
                Path::Roce(path) => self.link_for(path),
                _ => Err(libc::EAFNOSUPPORT),
            };
            let rest = &batch[done..];
            let (count, full) = match link {
                Ok(index) => {
                    let run = rest.iter().take(BATCH).take_while(|next| same_link(first, next));
                    let run = &rest[..run.count()];
                    let Roce { links, outgoing, incoming, counters, .. } = self;
                    let sent = match &mut links[index] {
                        Some(opened) => opened.send(run, outgoing, incoming, counters, failed),
                        None => Ok((0, true)),
                    };
                    match sent {
                        Ok(sent) => sent,
                        Err(error) if done == 0 => return Err(error),
                        // What is done is done; the next call tells.
                        Err(_) => (0, true),
                    }
                }
                Err(errno) => {
                    self.counters.send_errors += 1;
                    failed(refused(first, errno));
                    (1, false)
                }
            };
            done += count;
            if full {
                break;
            }
        }
        Ok(done)
    }

    /// The link that a path begins at, or an errno.
    fn link_for(&self, path: &RocePath) -> Result<usize, i32> {
        if path.local.is_v4() != path.remote.is_v4() {
            return Err(libc::EAFNOSUPPORT);
        }
        let address = ScopedIp::of(with_scope(path.local.to_ip(), path.scope));
        self.by_address.get(&address).copied().ok_or(libc::EADDRNOTAVAIL)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    pub(super) fn counters(&self) -> TransportCounters {
        self.counters
    }
}

fn same_link(a: &Outgoing, b: &Outgoing) -> bool {
    match (&a.path, &b.path) {
        (Path::Roce(a), Path::Roce(b)) => {
            a.local == b.local && a.scope == b.scope && a.remote.is_v4() == b.remote.is_v4()
        }
        _ => false,
    }
}

fn same_family(a: ScopedIp, b: ScopedIp) -> bool {
    a.gid.is_v4() == b.gid.is_v4()
}

pub(super) fn with_scope(ip: IpAddr, scope: u32) -> SocketAddr {
    ScopedIp { gid: Gid::from_ip(ip), scope }.with_port(0)
}

impl Follow {
    fn of(&mut self, address: ScopedIp) -> &mut bool {
        if address.gid.is_v4() { &mut self.v4 } else { &mut self.v6 }
    }
}

/// Makes a public provider of a [`Roce`].
macro_rules! roce_provider {
    ($Name:ident, $Link:ty) => {
        impl $Name {
            /// A provider without open addresses. The comm-ID prefix (value, number of bits) is that
            /// of the engine it serves; CA GUIDs depend on it.
            ///
            /// # Errors
            ///
            /// The host's, if it is out of descriptors, or does not tell its addresses.
            pub fn new(comm_id_prefix: (u32, u8)) -> ::std::io::Result<$Name> {
                $crate::provider::roce::Roce::new(comm_id_prefix).map($Name)
            }
        }

        impl ::std::fmt::Debug for $Name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_tuple(stringify!($Name)).field(&self.0.in_use()).finish()
            }
        }

        impl $crate::provider::MadTransport for $Name {
            fn open(
                &mut self,
                local: ::std::net::IpAddr,
                scope: u32,
            ) -> Result<(), $crate::provider::OpenError> {
                self.0.open(local, scope)
            }

            fn ports(
                &mut self,
                f: &mut dyn FnMut(::nanocm_core::PortEvent),
            ) -> ::std::io::Result<()> {
                self.0.ports(f)
            }

            fn recv(
                &mut self,
                f: &mut dyn FnMut($crate::provider::Received<'_>),
            ) -> ::std::io::Result<usize> {
                self.0.recv(f)
            }

            fn send(
                &mut self,
                batch: &[$crate::provider::Outgoing],
                failed: &mut dyn FnMut($crate::provider::SendFailure<'_>),
            ) -> ::std::io::Result<usize> {
                self.0.send(batch, failed)
            }

            fn source_for(
                &mut self,
                source: Option<::nanocm_core::ScopedIp>,
                destination: ::std::net::SocketAddr,
            ) -> ::std::io::Result<$crate::provider::Source> {
                $crate::provider::addresses::source_for(source, destination)
            }

            fn fd(&self) -> ::std::os::fd::BorrowedFd<'_> {
                self.0.fd()
            }

            fn counters(&self) -> $crate::provider::TransportCounters {
                self.0.counters()
            }

            fn port_home(&self) -> $crate::provider::PortHome {
                $crate::provider::PortHome::Host
            }
        }
    };
}

pub(super) use roce_provider;
