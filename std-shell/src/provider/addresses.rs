//! This host's addresses: which there are, how they change, and which one a route uses.
//!
//! The kernel announces changes on a netlink socket; each announcement only says "look again", and
//! what there is now is compared with what was there before. Nothing can be missed, however fast things
//! change. Read first: rtnetlink(7).

use std::collections::BTreeSet;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use nanocm_core::wire::roce::UDP_PORT;
use nanocm_core::{Gid, ScopedIp};
use socket2::{Domain, Protocol, Socket, Type};

use super::sys;
use super::transport::Source;

/// The local addresses of this thread's network namespace.
#[derive(Debug)]
pub(super) struct Addresses {
    announcements: Socket,
    looked: bool,
    known: BTreeSet<Key>,
}

/// What happened to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Added(ScopedIp),
    Removed(ScopedIp),
}

/// A [`ScopedIp`] in an order.
type Key = (Gid, u32);

impl Addresses {
    pub(super) fn new() -> io::Result<Addresses> {
        let announcements = netlink()?;
        announcements.set_nonblocking(true)?;
        sys::bind_netlink(
            announcements.as_fd(),
            libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR,
        )?;
        Ok(Addresses { announcements, looked: false, known: BTreeSet::new() })
    }

    /// What changed since the last call. The first call finds all addresses added.
    pub(super) fn changes(&mut self) -> io::Result<Vec<Change>> {
        if self.take_announcements()? {
            // Owed until a look succeeds.
            self.looked = false;
        }
        if self.looked {
            return Ok(Vec::new());
        }
        let now = dump()?;
        self.looked = true;
        let scoped = |&(gid, scope): &Key| ScopedIp { gid, scope };
        let gone = self.known.difference(&now).map(scoped).map(Change::Removed);
        let new = now.difference(&self.known).map(scoped).map(Change::Added);
        let changes = gone.chain(new).collect();
        self.known = now;
        Ok(changes)
    }

    /// Those of [`changes`](Self::changes), as of its last call.
    pub(super) fn known(&self) -> impl Iterator<Item = ScopedIp> {
        self.known.iter().map(|&(gid, scope)| ScopedIp { gid, scope })
    }

    /// Readable when an address changed.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.announcements.as_fd()
    }

    fn take_announcements(&mut self) -> io::Result<bool> {
        let mut any = false;
        loop {
            match (&self.announcements).read(&mut [0; 64]) {
                Ok(length) => any |= length > 0,
                Err(error) => match error.raw_os_error() {
                    Some(libc::EAGAIN) => return Ok(any),
                    // There were more than it could keep.
                    Some(libc::ENOBUFS | libc::EINTR) => any = true,
                    _ => return Err(error),
                },
            }
        }
    }
}

/// The source address and MTU of the route to `destination`, which must be from `source` if there is
/// one.
///
/// # Errors
///
/// The host's: no route, or `source` is none of its addresses.
pub(super) fn source_for(source: Option<ScopedIp>, destination: SocketAddr) -> io::Result<Source> {
    let socket = Socket::new(Domain::for_address(destination), Type::DGRAM, None)?;
    if let Some(source) = source {
        socket.bind(&source.with_port(0).into())?;
    }
    // Connecting a UDP socket sends nothing: it looks the route up.
    let mut destination = destination;
    destination.set_port(UDP_PORT);
    socket.connect(&destination.into())?;
    let local = socket.local_addr()?.as_socket();
    let local = local.ok_or_else(|| io::Error::from_raw_os_error(libc::EAFNOSUPPORT))?;
    let (level, name) = match destination {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU),
        SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU),
    };
    let mtu = sys::option(socket.as_fd(), level, name)?;
    Ok(Source::new(ScopedIp::of(local), u32::try_from(mtu).unwrap_or(0)))
}

fn netlink() -> io::Result<Socket> {
    let route = Protocol::from(libc::NETLINK_ROUTE);
    Socket::new(Domain::from(libc::AF_NETLINK), Type::RAW, Some(route))
}

/// All usable addresses.
fn dump() -> io::Result<BTreeSet<Key>> {
    // An address that changes meanwhile may be in the list twice or not at all: ask again.
    for _ in 0..8 {
        let mut socket = netlink()?;
        // struct nlmsghdr: length, type, flags, sequence number, sender; then struct ifaddrmsg.
        let mut request = [0; 24];
        request[..4].copy_from_slice(&24_u32.to_ne_bytes());
        request[4..6].copy_from_slice(&libc::RTM_GETADDR.to_ne_bytes());
        let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
        request[6..8].copy_from_slice(&flags.to_ne_bytes());
        socket.write_all(&request)?;
        if let Some(addresses) = read_dump(&mut socket)? {
            return Ok(addresses);
        }
    }
    Err(io::Error::from_raw_os_error(libc::EAGAIN))
}

/// `None` if it was interrupted by a change.
fn read_dump(socket: &mut Socket) -> io::Result<Option<BTreeSet<Key>>> {
    let mut addresses = BTreeSet::new();
    let mut buffer = vec![0; 1 << 15];
    let mut interrupted = false;
    loop {
        let length = socket.read(&mut buffer)?;
        let mut rest = &buffer[..length];
        while let Some((kind, flags, body)) = next_message(&mut rest) {
            interrupted |= i32::from(flags) & libc::NLM_F_DUMP_INTR != 0;
            match i32::from(kind) {
                libc::NLMSG_DONE => return Ok((!interrupted).then_some(addresses)),
                libc::NLMSG_ERROR => {
                    let errno = body.first_chunk().map_or(0, |e| i32::from_ne_bytes(*e));
                    return Err(io::Error::from_raw_os_error(-errno));
                }
                _ if kind == libc::RTM_NEWADDR => addresses.extend(parse_address(body)),
                _ => {}
            }
        }
    }
}

/// Type, flags and body of the next netlink message.
fn next_message<'a>(rest: &mut &'a [u8]) -> Option<(u16, u16, &'a [u8])> {
    let header = rest.first_chunk::<16>()?;
    let [l0, l1, l2, l3, k0, k1, f0, f1, ..] = *header;
    let length = u32::from_ne_bytes([l0, l1, l2, l3]) as usize;
    let body = rest.get(16..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((u16::from_ne_bytes([k0, k1]), u16::from_ne_bytes([f0, f1]), body))
}

/// An address that can be bound: `struct ifaddrmsg` and its attributes.
fn parse_address(body: &[u8]) -> Option<Key> {
    let (header, mut rest) = body.split_first_chunk::<8>()?;
    let [_family, _prefix, flags, _scope, index @ ..] = *header;
    let mut flags = u32::from(flags);
    let (mut address, mut local) = (None, None);
    while let Some((kind, value)) = next_attribute(&mut rest) {
        match kind {
            libc::IFA_ADDRESS => address = parse_ip(value),
            libc::IFA_LOCAL => local = parse_ip(value),
            libc::IFA_FLAGS => flags = u32::from_ne_bytes(*value.first_chunk()?),
            _ => {}
        }
    }
    // Still being tried for duplicates (it will be announced again), or found to be one.
    let trial = flags & libc::IFA_F_TENTATIVE != 0 && flags & libc::IFA_F_OPTIMISTIC == 0;
    if trial || flags & libc::IFA_F_DADFAILED != 0 {
        return None;
    }
    // On point-to-point links `address` is the other end.
    let ip = local.or(address)?;
    let scope = match ip {
        IpAddr::V6(v6) if v6.is_unicast_link_local() => u32::from_ne_bytes(index),
        _ => 0,
    };
    Some((Gid::from_ip(ip), scope))
}

/// Type and value of the next attribute (`struct rtattr`).
fn next_attribute<'a>(rest: &mut &'a [u8]) -> Option<(u16, &'a [u8])> {
    let [l0, l1, k0, k1] = *rest.first_chunk()?;
    let length = usize::from(u16::from_ne_bytes([l0, l1]));
    let value = rest.get(4..length)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((u16::from_ne_bytes([k0, k1]), value))
}

fn parse_ip(value: &[u8]) -> Option<IpAddr> {
    match value.len() {
        4 => Some(IpAddr::V4(Ipv4Addr::from(*value.first_chunk::<4>()?))),
        16 => Some(IpAddr::V6(Ipv6Addr::from(*value.first_chunk::<16>()?))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_address_is_there_and_nothing_changes_by_itself() {
        let mut addresses = Addresses::new().unwrap();
        let loopback = ScopedIp::of("127.0.0.1:0".parse().unwrap());
        assert!(addresses.changes().unwrap().contains(&Change::Added(loopback)));
        assert!(addresses.known().any(|known| known == loopback));
        assert_eq!(addresses.changes().unwrap(), []);
    }

    #[test]
    fn a_loopback_route_has_a_loopback_source() {
        let destination = "127.0.0.9:7".parse().unwrap();
        let route = source_for(None, destination).unwrap();
        assert!(route.address.gid.is_loopback());
        assert_eq!(route.path_mtu_code(), 5);
        let source = ScopedIp::of("127.0.0.3:0".parse().unwrap());
        assert_eq!(source_for(Some(source), destination).unwrap().address, source);
        let foreign = ScopedIp::of("192.0.2.1:0".parse().unwrap());
        let error = source_for(Some(foreign), destination).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL));
    }

    #[test]
    fn garbage_from_the_kernel_is_no_address() {
        for length in 0..64 {
            for fill in [0x00, 0x04, 0x10, 0xff] {
                let octets = vec![fill; length];
                parse_address(&octets);
                let mut rest = octets.as_slice();
                while next_message(&mut rest).is_some() {}
            }
        }
    }
}
