//! Addresses: GIDs, port spaces, service IDs and the paths that datagrams travel.
//!
//! Read first: Annex A11 (service IDs of the RDMA IP CM service), Annex A17 (RoCEv2: a GID is an IP
//! address).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// A global identifier: 16 octets. On RoCEv2 it is an IPv6 address, or an IPv4 address in its
/// `::ffff:a.b.c.d` form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// All zero: "no GID", and also the IPv6 wildcard.
    pub const ZERO: Gid = Gid([0; 16]);

    /// `0.0.0.0` in its mapped form.
    pub const V4_WILDCARD: Gid = Gid::from_ip(IpAddr::V4(Ipv4Addr::UNSPECIFIED));

    /// The GID of an IP address.
    pub const fn from_ip(ip: IpAddr) -> Gid {
        match ip {
            IpAddr::V4(v4) => Gid(v4.to_ipv6_mapped().octets()),
            IpAddr::V6(v6) => Gid(v6.octets()),
        }
    }

    /// The IP address of a GID; `::ffff:a.b.c.d` becomes the IPv4 address.
    pub const fn to_ip(self) -> IpAddr {
        if self.is_v4() {
            let o = self.0;
            IpAddr::V4(Ipv4Addr::new(o[12], o[13], o[14], o[15]))
        } else {
            IpAddr::V6(Ipv6Addr::from_bits(u128::from_be_bytes(self.0)))
        }
    }

    /// As four words, for hashing.
    pub(crate) const fn words(self) -> [u32; 4] {
        let o = self.0;
        [
            u32::from_ne_bytes([o[0], o[1], o[2], o[3]]),
            u32::from_ne_bytes([o[4], o[5], o[6], o[7]]),
            u32::from_ne_bytes([o[8], o[9], o[10], o[11]]),
            u32::from_ne_bytes([o[12], o[13], o[14], o[15]]),
        ]
    }

    /// Whether this is an IPv4 address in its mapped form.
    pub const fn is_v4(self) -> bool {
        // In words: octet by octet it would be compiled as it is written.
        match self.0.first_chunk() {
            Some(zeros) => u64::from_ne_bytes(*zeros) == 0 && self.words()[2] == MAPPED,
            None => false,
        }
    }

    /// Whether this is the wildcard of its family: `0.0.0.0` (mapped) or `::`.
    pub fn is_wildcard(self) -> bool {
        let [a, b, c, d] = self.words();
        a | b | d == 0 && (c == 0 || c == MAPPED)
    }

    /// Whether this is a loopback address: `127.0.0.0/8` (mapped) or `::1`.
    pub fn is_loopback(self) -> bool {
        self.to_ip().is_loopback()
    }

    /// Whether this is a multicast address: `224.0.0.0/4` (mapped) or `ff00::/8`.
    pub const fn is_multicast(self) -> bool {
        if self.is_v4() { self.0[12] >> 4 == 0xe } else { self.0[0] == 0xff }
    }

    /// Whether this is an IPv6 link-local address, `fe80::/10`: one per interface, so it needs a
    /// scope.
    pub const fn is_link_local(self) -> bool {
        self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
    }
}

/// The third word of a mapped IPv4 address.
const MAPPED: u32 = u32::from_ne_bytes([0, 0, 0xff, 0xff]);

impl From<IpAddr> for Gid {
    fn from(ip: IpAddr) -> Gid {
        Gid::from_ip(ip)
    }
}

impl fmt::Debug for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Ipv6Addr::from_bits(u128::from_be_bytes(self.0)), f)
    }
}

/// An IP address in GID form with its IPv6 scope (0 where there is none): what an ID is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct ScopedIp {
    /// The address; IPv4 in mapped form.
    pub gid: Gid,
    /// The IPv6 scope (interface index) of a link-local address, else 0.
    pub scope: u32,
}

impl ScopedIp {
    /// An address seen in a scope, which counts for link-local addresses alone.
    pub const fn new(gid: Gid, scope: u32) -> ScopedIp {
        ScopedIp { gid, scope: if gid.is_link_local() { scope } else { 0 } }
    }

    /// The address part of a socket address.
    pub const fn of(addr: SocketAddr) -> ScopedIp {
        let scope = match addr {
            SocketAddr::V6(v6) => v6.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        ScopedIp::new(Gid::from_ip(addr.ip()), scope)
    }

    /// Whether it says all it takes to find it: a link-local address has a scope.
    pub const fn is_complete(self) -> bool {
        self.scope != 0 || !self.gid.is_link_local()
    }

    /// With a port, as a socket address.
    pub const fn with_port(self, port: u16) -> SocketAddr {
        match self.gid.to_ip() {
            IpAddr::V4(v4) => SocketAddr::V4(SocketAddrV4::new(v4, port)),
            IpAddr::V6(v6) => SocketAddr::V6(SocketAddrV6::new(v6, port, 0, self.scope)),
        }
    }
}

/// A port space: which service IDs an ID's port numbers stand for (`rdma_port_space`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
#[repr(u16)]
pub enum PortSpace {
    /// Sockets direct protocol (0x0001); its numbers are TCP's.
    Sdp = 0x0001,
    /// IP over InfiniBand (0x0002): datagrams with IPoIB's Q_Key.
    Ipoib = 0x0002,
    /// Reliable connections (0x0106, `RDMA_PS_TCP`).
    Tcp = 0x0106,
    /// Datagrams (0x0111, `RDMA_PS_UDP`).
    Udp = 0x0111,
    /// Any InfiniBand transport (0x013F, `RDMA_PS_IB`).
    Ib = 0x013f,
}

impl PortSpace {
    /// Every port space, in the order of their values.
    pub const ALL: [PortSpace; 5] =
        [PortSpace::Sdp, PortSpace::Ipoib, PortSpace::Tcp, PortSpace::Udp, PortSpace::Ib];

    /// The space of a 16-bit value, if it is one of ours.
    pub const fn from_value(value: u16) -> Option<PortSpace> {
        match value {
            0x0001 => Some(PortSpace::Sdp),
            0x0002 => Some(PortSpace::Ipoib),
            0x0106 => Some(PortSpace::Tcp),
            0x0111 => Some(PortSpace::Udp),
            0x013f => Some(PortSpace::Ib),
            _ => None,
        }
    }

    /// The space whose port numbers these are: SDP has TCP's.
    pub const fn numbers(self) -> PortSpace {
        match self {
            PortSpace::Sdp => PortSpace::Tcp,
            space => space,
        }
    }

    /// Whether IDs of this space make connections with REQ/REP/RTU (the others use SIDR).
    pub const fn is_connected(self) -> bool {
        matches!(self, PortSpace::Tcp | PortSpace::Sdp | PortSpace::Ib)
    }

    /// The name as the command line writes it.
    pub const fn name(self) -> &'static str {
        match self {
            PortSpace::Sdp => "sdp",
            PortSpace::Ipoib => "ipoib",
            PortSpace::Tcp => "tcp",
            PortSpace::Udp => "udp",
            PortSpace::Ib => "ib",
        }
    }
}

/// A 64-bit service ID. Those of the IP CM service are `port space << 16 | port` (Annex A11).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ServiceId(pub u64);

impl ServiceId {
    /// The service ID of a port.
    pub const fn new(space: PortSpace, port: u16) -> ServiceId {
        ServiceId(((space as u64) << 16) | port as u64)
    }

    /// Whether it is asked for with a REQ: not so services of datagram port spaces, which have
    /// SIDR_REQ.
    pub const fn makes_connections(self) -> bool {
        match self.to_port() {
            Some((space, _)) => space.is_connected(),
            None => true,
        }
    }

    /// Whether it is asked for with a SIDR_REQ: services of datagram port spaces, and of that for any
    /// transport.
    pub const fn serves_datagrams(self) -> bool {
        match self.to_port() {
            Some((space, _)) => matches!(space, PortSpace::Udp | PortSpace::Ipoib | PortSpace::Ib),
            None => false,
        }
    }

    /// Port space and port, if this is a service ID of the IP CM service.
    pub const fn to_port(self) -> Option<(PortSpace, u16)> {
        if self.0 >> 32 != 0 {
            return None;
        }
        match PortSpace::from_value((self.0 >> 16) as u16) {
            Some(space) => Some((space, self.0 as u16)),
            None => None,
        }
    }
}

impl fmt::Debug for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#018x}", self.0)
    }
}

/// Says "RDMA tcp port 4420", or the number where the prefix is not one of ours.
impl fmt::Display for ServiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_port() {
            Some((space, port)) => write!(f, "RDMA {} port {port}", space.name()),
            None => write!(f, "service ID {:#018x}", self.0),
        }
    }
}

/// How a GSI datagram travels, seen from here: `local` is us, `remote` the peer, whichever way it
/// goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Path {
    /// RoCEv2: UDP port 4791 between two IP addresses.
    Roce(RocePath),
    /// InfiniBand, by LID.
    Ib(IbPath),
}

impl Path {
    /// Our GID.
    pub fn local_gid(&self) -> Gid {
        match self {
            Path::Roce(p) => p.local,
            Path::Ib(p) => p.local,
        }
    }

    /// The peer's GID.
    pub fn remote_gid(&self) -> Gid {
        match self {
            Path::Roce(p) => p.remote,
            Path::Ib(p) => p.remote,
        }
    }

    /// The scope of its link-local addresses.
    pub const fn scope(&self) -> u32 {
        match self {
            Path::Roce(p) => p.scope,
            Path::Ib(_) => 0,
        }
    }

    /// Our address.
    pub fn local_ip(&self) -> ScopedIp {
        ScopedIp::new(self.local_gid(), self.scope())
    }
}

/// A path over RoCEv2.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct RocePath {
    /// Our address.
    pub local: Gid,
    /// The peer's address.
    pub remote: Gid,
    /// IPv6 scope (interface index) of link-local addresses, else 0.
    pub scope: u32,
    /// IP TOS or traffic class.
    pub traffic_class: u8,
    /// IP TTL or hop limit; 0 stands for the default (64).
    pub hop_limit: u8,
    /// 20-bit flow label.
    pub flow_label: u32,
}

impl RocePath {
    /// A path between two addresses, all else default.
    pub const fn new(local: Gid, remote: Gid) -> RocePath {
        RocePath { local, remote, scope: 0, traffic_class: 0, hop_limit: 64, flow_label: 0 }
    }
}

/// A path over InfiniBand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct IbPath {
    /// Our port's GID.
    pub local: Gid,
    /// The peer port's GID.
    pub remote: Gid,
    /// The peer's LID.
    pub lid: u16,
    /// Index into our port's P_Key table.
    pub pkey_index: u16,
    /// 20-bit flow label of the global route header.
    pub flow_label: u32,
    /// Which of our ports, as the transport numbers them.
    pub port: u8,
    /// Service level.
    pub sl: u8,
    /// Traffic class of the global route header.
    pub traffic_class: u8,
    /// Hop limit of the global route header.
    pub hop_limit: u8,
    /// Whether datagrams carry (or carried) a global route header: only then the packet itself
    /// vouches for `remote`.
    pub grh: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gid_is_an_ip_address_and_back() {
        for ip in ["10.99.0.1", "fd00:99::1", "0.0.0.0", "::", "127.0.0.1"] {
            let ip: IpAddr = ip.parse().unwrap();
            assert_eq!(Gid::from_ip(ip).to_ip(), ip);
        }
        assert!(Gid::from_ip("0.0.0.0".parse().unwrap()).is_wildcard());
        assert!(Gid::from_ip("::1".parse().unwrap()).is_loopback());
    }

    #[test]
    fn service_ids_name_their_port() {
        let sid = ServiceId(0x0000_0000_0106_1144);
        assert_eq!(sid.to_port(), Some((PortSpace::Tcp, 4420)));
        assert_eq!(ServiceId::new(PortSpace::Tcp, 4420), sid);
        for other in [0x1_0106_1144, 0x0107_1144, 0x1000_0000_0106_1144] {
            assert_eq!(ServiceId(other).to_port(), None);
        }
    }
}
