//! Who or what holds a number: `/proc/net/tcp` and `udp` with the processes that have the sockets,
//! sock_diag for those that are bound and do not listen (Linux 6.8 and later), and the registry of
//! nanocm's own.
//!
//! Read first: field tests, H7 and H8; proc_pid_net(5), sock_diag(7).

use super::registry::{namespace, registered};
use super::{Number, Space};
use crate::provider::{Holder, may_see_all_processes, parse_hex_address};
use nanocm_core::ScopedIp;
use socket2::{Domain, Protocol, Socket, Type};
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// What was found on a number.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Found {
    /// What it is.
    pub what: What,
    /// Whether that is certain. Of connections the system does not say who made them.
    pub is_certain: bool,
    /// Its local address.
    pub local: SocketAddr,
    /// Its remote address, if it has one.
    pub remote: Option<SocketAddr>,
    /// Whose it is, as far as the system tells.
    pub holder: Holder,
}

/// Kinds of what can be found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum What {
    /// A socket that listens; for UDP, one that takes datagrams from anybody.
    Listener,
    /// Likewise, of the kernel itself.
    Kernel,
    /// A reservation of nanocm's.
    Reservation,
    /// A socket that is bound, and does not listen.
    Bound,
    /// An outgoing connection has it as its source port.
    SourcePort,
    /// Connections of a service, or what is left of them.
    Remnant,
}

/// Everything that is in the way of a plain bind to this number, most telling first.
pub fn look(number: &Number) -> Vec<Found> {
    let sockets = sockets(number.space, number.port);
    let listening: Vec<SocketAddr> =
        sockets.iter().filter(|s| s.state == LISTEN).map(|s| s.local).collect();
    let in_the_way = sockets.iter().filter(|socket| in_the_way(number, socket));
    let range = ephemeral_range();
    let classify = |socket| (classify(number, socket, &listening, range), socket);
    let mut kinds: Vec<_> = in_the_way.map(classify).collect();
    // The tables do not say of an IPv6 wildcard whether it stands for IPv4 too. Beside a socket that
    // is certainly in the way, it does not.
    let may_be =
        |socket: &Line| number.local.gid.is_v4() && socket.local.ip() == Ipv6Addr::UNSPECIFIED;
    if kinds.iter().any(|((what, _), socket)| *what <= What::Bound && !may_be(socket)) {
        kinds.retain(|(_, socket)| !may_be(socket));
    }
    // Those that are certain first.
    kinds.sort_by_key(|((what, is_certain), _)| (*what, !is_certain));
    // A service may have many connections; looking for whose they are takes long.
    kinds.truncate(MOST);
    let mut found: Vec<Found> =
        kinds.into_iter().map(|(kind, socket)| describe(kind, socket)).collect();
    let here = namespace();
    for other in registered().into_iter().filter(|other| other.namespace == here) {
        if other.number.overlaps(number)
            || number.port == other.number.port && other.number.covers(number)
        {
            let local = other.number.address();
            // Once the service has both, its listener says it.
            let known = |f: &Found| f.what == What::Listener && f.holder.pid == other.holder.pid;
            if !found.iter().any(known) {
                let (what, remote, holder) = (What::Reservation, None, other.holder);
                found.push(Found { what, is_certain: true, local, remote, holder });
            }
        }
    }
    found.sort_by_key(|found| found.what);
    let reserved: Vec<_> = found.iter().filter(|f| f.what == What::Reservation).cloned().collect();
    // The same socket twice: by its name is better.
    found.retain(|f| {
        f.what != What::Bound
            || !reserved.iter().any(|r| r.local == f.local && r.holder.pid == f.holder.pid)
    });
    found
}

/// So many are looked at closely.
const MOST: usize = 8;

/// A line of one of the kernel's tables.
#[derive(Clone, Debug)]
struct Line {
    local: SocketAddr,
    remote: SocketAddr,
    state: u8,
    uid: u32,
    inode: u64,
}

/// Linux's TCP states.
const SYN_SENT: u8 = 2;
const TIME_WAIT: u8 = 6;
const CLOSE: u8 = 7;
const LISTEN: u8 = 10;
const BOUND_INACTIVE: u8 = 13;

/// All sockets of this space, but only those that listen if they have other numbers.
fn sockets(space: Space, port: u16) -> Vec<Line> {
    // The thread's own view: threads may live in namespaces of their own.
    let tables = [space.name().to_owned(), format!("{}6", space.name())];
    let texts = tables.map(|table| fs::read_to_string(format!("/proc/thread-self/net/{table}")));
    let lines = texts.iter().flatten().flat_map(|text| text.lines().skip(1));
    let mut all: Vec<Line> = lines.filter_map(parse).collect();
    all.retain(|line| line.local.port() == port || line.state == LISTEN);
    if space == Space::Tcp {
        for family in [libc::AF_INET, libc::AF_INET6] {
            all.extend(bound_sockets(family as u8).into_iter().filter(|b| b.local.port() == port));
        }
    }
    all
}

/// `sl local:port remote:port st queues timer retrnsmt uid timeout inode …`.
fn parse(line: &str) -> Option<Line> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let mut address = || -> Option<SocketAddr> {
        let (ip, port) = fields.next()?.split_once(':')?;
        Some(SocketAddr::new(parse_hex_address(ip)?, u16::from_str_radix(port, 16).ok()?))
    };
    let (local, remote) = (address()?, address()?);
    let state = u8::from_str_radix(fields.next()?, 16).ok()?;
    let uid = fields.nth(3)?.parse().ok()?;
    Some(Line { local, remote, state, uid, inode: fields.nth(1)?.parse().ok()? })
}

fn in_the_way(number: &Number, socket: &Line) -> bool {
    if socket.local.port() != number.port {
        return false;
    }
    let (theirs, ours) = (socket.local.ip(), number.local.gid.to_ip());
    let same = theirs.to_canonical() == ours.to_canonical();
    let they_cover = theirs.is_unspecified() && (theirs.is_ipv6() || ours.to_canonical().is_ipv4());
    let both = ours.is_ipv6() && !number.v6_only;
    let we_cover =
        ours.is_unspecified() && (both || theirs.to_canonical().is_ipv4() == ours.is_ipv4());
    same || they_cover || we_cover
}

impl Line {
    fn peer(&self) -> Option<SocketAddr> {
        let is_none = self.remote.ip().is_unspecified() && self.remote.port() == 0;
        (!is_none).then_some(self.remote)
    }
}

/// And whether that is certain.
fn classify(
    number: &Number,
    socket: &Line,
    listening: &[SocketAddr],
    range: (u16, u16),
) -> (What, bool) {
    let what = match (number.space, socket.state, socket.peer()) {
        (Space::Udp, _, Some(remote)) if remote == socket.local => What::Bound,
        (Space::Udp, _, Some(_)) => What::SourcePort,
        (Space::Udp, _, None) | (_, LISTEN, _) => What::Listener,
        (_, BOUND_INACTIVE | CLOSE, _) => What::Bound,
        (_, SYN_SENT, _) => What::SourcePort,
        (_, _, None) => What::Remnant,
        (_, _, Some(remote)) if listens(listening, remote) => What::SourcePort,
        (_, _, Some(remote)) => return direction(socket.local.port(), remote.port(), range),
    };
    (what, true)
}

/// With its process, if it has one.
fn describe((what, is_certain): (What, bool), socket: &Line) -> Found {
    let (local, remote) = (socket.local, socket.peer());
    if socket.state == TIME_WAIT {
        let holder = Holder::default();
        return Found { what, is_certain, local, remote, holder };
    }
    let holder = Holder::of_socket(socket.inode, socket.uid);
    let unseen = holder.pid.is_none() && socket.uid == 0 && may_see_all_processes();
    if what == What::Listener && unseen {
        let (what, holder) = (What::Kernel, Holder::default());
        return Found { what, is_certain, local, remote, holder };
    }
    Found { what, is_certain, local, remote, holder }
}

/// Whether somebody here listens where the connection leads: then it was made from here.
fn listens(listening: &[SocketAddr], remote: SocketAddr) -> bool {
    listening.iter().any(|local| {
        let ip = local.ip();
        local.port() == remote.port()
            && (ip.is_unspecified() || ip.to_canonical() == remote.ip().to_canonical())
    })
}

/// Who made a connection, by its numbers, and whether that is certain: an ephemeral number, or a
/// reserved one of the old kind (NFS clients, rsh), is on the side that did.
fn direction(local: u16, remote: u16, (low, high): (u16, u16)) -> (What, bool) {
    // Other systems have those of IANA.
    let is_ephemeral = |port: u16| (low..=high).contains(&port) || port >= 49_152;
    let is_reserved = |port: u16| (512..1024).contains(&port);
    match (is_ephemeral(local), is_ephemeral(remote)) {
        // Few programs connect from such a number; LDAP, IMAP and rsync serve there.
        (true, false) => (What::SourcePort, true),
        (false, true) => (What::Remnant, true),
        (false, false) if is_reserved(remote) && !is_reserved(local) => (What::Remnant, true),
        (false, false) if is_reserved(local) && !is_reserved(remote) => (What::SourcePort, true),
        (false, false) if remote < low => (What::SourcePort, false),
        _ => (What::Remnant, false),
    }
}

fn ephemeral_range() -> (u16, u16) {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    super::ephemeral::parse_range(&range).unwrap_or(super::ephemeral::DEFAULT_RANGE)
}

/// Sockets that are bound and do nothing, which Linux tells since 6.8, and before does not even
/// refuse to.
fn bound_sockets(family: u8) -> Vec<Line> {
    dump(family).unwrap_or_default()
}

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_DONE: u16 = 3;
const NLMSG_ERROR: u16 = 2;

fn dump(family: u8) -> std::io::Result<Vec<Line>> {
    let netlink = Domain::from(libc::AF_NETLINK);
    let mut socket =
        Socket::new(netlink, Type::RAW, Some(Protocol::from(libc::NETLINK_SOCK_DIAG)))?;
    socket.set_read_timeout(Some(Duration::from_secs(2)))?;
    // nlmsghdr, inet_diag_req_v2.
    let mut request = [0u8; 72];
    request[0..4].copy_from_slice(&72u32.to_ne_bytes());
    request[4..6].copy_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    request[6..8].copy_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    (request[16], request[17]) = (family, libc::IPPROTO_TCP as u8);
    request[20..24].copy_from_slice(&(1u32 << BOUND_INACTIVE).to_ne_bytes());
    socket.write_all(&request)?;
    let (mut all, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    loop {
        let len = socket.read(&mut buffer)?;
        let mut rest = &buffer[..len];
        while let Some((header, _)) = rest.split_first_chunk::<16>() {
            let len = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            if kind == NLMSG_DONE || kind == NLMSG_ERROR || len < 16 || len > rest.len() {
                return Ok(all);
            }
            all.extend(parse_diag(&rest[16..len]));
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
        if len == 0 {
            return Ok(all);
        }
    }
}

/// `struct inet_diag_msg`.
fn parse_diag(message: &[u8]) -> Option<Line> {
    let message: &[u8; 72] = message.first_chunk()?;
    let word = |at: usize| [message[at], message[at + 1], message[at + 2], message[at + 3]];
    let port = |at: usize| u16::from_be_bytes([message[at], message[at + 1]]);
    let address = |at: usize| match i32::from(message[0]) {
        libc::AF_INET => IpAddr::V4(Ipv4Addr::from(word(at))),
        _ => {
            let mut octets = [0; 16];
            octets.copy_from_slice(&message[at..at + 16]);
            IpAddr::V6(Ipv6Addr::from(octets))
        }
    };
    let number = |at: usize| u32::from_ne_bytes(word(at));
    Some(Line {
        local: SocketAddr::new(address(8), port(4)),
        remote: SocketAddr::new(address(24), port(6)),
        state: message[1].max(BOUND_INACTIVE),
        uid: number(64),
        inode: number(68).into(),
    })
}

/// Whether the address is one that the kernel lets sockets have.
pub(super) fn is_local(address: ScopedIp) -> bool {
    std::net::UdpSocket::bind(address.with_port(0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_table_is_understood() {
        let line = "   1: 0100007F:1389 0200007F:C001 06 00000000:00000000 03:00001388 00000000  1000        0 42 3 0";
        if cfg!(target_endian = "little") {
            let parsed = parse(line).unwrap();
            assert_eq!(parsed.local, "127.0.0.1:5001".parse().unwrap());
            assert_eq!(parsed.remote, "127.0.0.2:49153".parse().unwrap());
            assert_eq!((parsed.state, parsed.uid, parsed.inode), (TIME_WAIT, 1000, 42));
        }
        assert!(parse("sl local rem").is_none());
    }

    #[test]
    fn an_address_is_in_the_way_of_what_it_overlaps_with() {
        let socket = |local: &str| Line {
            local: local.parse().unwrap(),
            remote: "0.0.0.0:0".parse().unwrap(),
            state: LISTEN,
            uid: 0,
            inode: 1,
        };
        for (ours, v6_only, theirs, is) in [
            ("127.0.0.1:5001", false, "127.0.0.1:5001", true),
            ("127.0.0.1:5001", false, "127.0.0.1:5002", false),
            ("127.0.0.1:5001", false, "127.0.0.2:5001", false),
            ("127.0.0.1:5001", false, "0.0.0.0:5001", true),
            ("127.0.0.1:5001", false, "[::]:5001", true),
            ("127.0.0.1:5001", false, "[::ffff:127.0.0.1]:5001", true),
            ("[::1]:5001", false, "0.0.0.0:5001", false),
            ("[::]:5001", false, "127.0.0.1:5001", true),
            ("[::]:5001", true, "127.0.0.1:5001", false),
            ("0.0.0.0:5001", false, "[::1]:5001", false),
        ] {
            let number = Number::new(Space::Tcp, ours.parse().unwrap(), v6_only);
            assert_eq!(in_the_way(&number, &socket(theirs)), is, "{theirs} of {ours}");
        }
    }

    #[test]
    fn who_made_a_connection_is_told_by_its_numbers() {
        use What::{Remnant, SourcePort};
        let linux = (32_768, 60_999);
        for (local, remote, range, told) in [
            (40_000, 443, linux, (SourcePort, true)),
            (40_000, 993, linux, (SourcePort, true)),
            (5_001, 40_000, linux, (Remnant, true)),
            (5_001, 61_000, linux, (Remnant, true)),
            // An NFS server's, and an NFS client's.
            (2_049, 700, linux, (Remnant, true)),
            (2_049, 512, linux, (Remnant, true)),
            (2_049, 1_023, linux, (Remnant, true)),
            (700, 2_049, linux, (SourcePort, true)),
            // Nobody knows.
            (2_049, 511, linux, (SourcePort, false)),
            (2_049, 1_024, linux, (SourcePort, false)),
            (700, 701, linux, (SourcePort, false)),
            (40_000, 40_001, linux, (Remnant, false)),
            (5_001, 40_000, (1_024, 65_535), (Remnant, false)),
        ] {
            assert_eq!(direction(local, remote, range), told, "{local} to {remote}");
        }
    }
}
