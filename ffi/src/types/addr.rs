//! Addresses and paths.

use super::{at_most, flag, unused};
use crate::ncm_error_code;
use crate::ncm_error_code::*;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use nanocm_core::port::PortKey;
use nanocm_core::{Gid, Path, PortSpace, RocePath, ScopedIp};

/// Address families: `ncm_addr.family`.
#[repr(C)]
pub enum ncm_family {
    /// No address.
    NCM_FAMILY_NONE = 0,
    /// IPv4: the first four octets of `ip`.
    NCM_IPV4 = 4,
    /// IPv6, or a GID.
    NCM_IPV6 = 6,
}

/// An IP address, or a GID, and a port. Make one with ncm_ipv4 or ncm_ipv6. This structure never
/// changes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ncm_addr {
    /// One of ncm_family.
    pub family: u16,
    /// The port, in the machine's own order of octets; 0 for none, or for any.
    pub port: u16,
    /// IPv6 scope (interface index), which link-local addresses need; else 0.
    pub scope: u32,
    /// The address, first octet first.
    pub ip: [u8; 16],
}

impl ncm_addr {
    pub(crate) fn to_rust(self) -> Result<SocketAddr, ncm_error_code> {
        const IPV4: u16 = ncm_family::NCM_IPV4 as u16;
        const IPV6: u16 = ncm_family::NCM_IPV6 as u16;
        let [a, b, c, d, ..] = self.ip;
        match self.family {
            IPV4 => Ok((Ipv4Addr::new(a, b, c, d), self.port).into()),
            IPV6 => Ok(SocketAddrV6::new(Ipv6Addr::from(self.ip), self.port, 0, self.scope).into()),
            _ => Err(NCM_INVALID_VALUE),
        }
    }

    /// The address without its port.
    pub(crate) fn to_scoped_ip(self) -> Result<ScopedIp, ncm_error_code> {
        self.to_rust().map(ScopedIp::of)
    }
}

impl From<SocketAddr> for ncm_addr {
    fn from(addr: SocketAddr) -> ncm_addr {
        let mut ip = [0; 16];
        let (family, scope) = match addr {
            SocketAddr::V4(v4) => {
                ip[..4].copy_from_slice(&v4.ip().octets());
                (ncm_family::NCM_IPV4, 0)
            }
            SocketAddr::V6(v6) => {
                ip = v6.ip().octets();
                (ncm_family::NCM_IPV6, v6.scope_id())
            }
        };
        ncm_addr { family: family as u16, port: addr.port(), scope, ip }
    }
}

/// The IPv4 address a.b.c.d with a port.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_ipv4(a: u8, b: u8, c: u8, d: u8, port: u16) -> ncm_addr {
    SocketAddr::from((IpAddr::from([a, b, c, d]), port)).into()
}

/// An IPv6 address of 16 octets with a scope (interface index; 0 for none) and a port. For NULL the
/// wildcard.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ncm_ipv6(ip: *const u8, scope: u32, port: u16) -> ncm_addr {
    let mut addr = ncm_addr { family: ncm_family::NCM_IPV6 as u16, port, scope, ip: [0; 16] };
    border! {
        addr.ip = crate::border::value(ip.cast::<[u8; 16]>())?;
        Ok(())
    };
    addr
}

/// What kind of link a path is on: `ncm_path.link`.
#[repr(C)]
pub enum ncm_link {
    /// No path.
    NCM_LINK_NONE = 0,
    /// RoCEv2: UDP port 4791 between two IP addresses.
    NCM_LINK_ROCE = 1,
    /// InfiniBand, by LID.
    NCM_LINK_IB = 2,
}

/// How a datagram travels, seen from here: `local` is this side, `remote` the peer, whichever way it
/// goes. Make one for RoCE with ncm_roce_path. This structure never changes.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ncm_path {
    /// One of ncm_link.
    pub link: u32,
    /// RoCE: IPv6 scope (interface index) of link-local addresses, else 0.
    pub scope: u32,
    /// Our GID. That of an IPv4 address is its IPv6 form ::ffff:a.b.c.d.
    pub local: [u8; 16],
    /// The peer's GID.
    pub remote: [u8; 16],
    /// Flow label, 20 bits; 0 for the default.
    pub flow_label: u32,
    /// IB: the peer's LID.
    pub lid: u16,
    /// IB: index into the port's P_Key table.
    pub pkey_index: u16,
    /// IB: which of our ports, as the transport numbers them.
    pub port: u8,
    /// IB: service level, at most 15.
    pub sl: u8,
    /// IP TOS, or traffic class.
    pub traffic_class: u8,
    /// IP TTL, or hop limit; 0 for the default.
    pub hop_limit: u8,
    /// IB: 1 if datagrams carry a global route header, else 0.
    pub grh: u8,
    /// Zero.
    pub reserved: [u8; 11],
}

impl ncm_path {
    pub(crate) fn to_rust(self) -> Result<Path, ncm_error_code> {
        const ROCE: u32 = ncm_link::NCM_LINK_ROCE as u32;
        const IB: u32 = ncm_link::NCM_LINK_IB as u32;
        unused(&self.reserved)?;
        at_most(self.flow_label, 0xf_ffff)?;
        let (local, remote) = (Gid(self.local), Gid(self.remote));
        match self.link {
            ROCE => {
                let mut path = RocePath::new(local, remote);
                path.scope = self.scope;
                path.traffic_class = self.traffic_class;
                path.hop_limit = self.hop_limit;
                path.flow_label = self.flow_label;
                if local.is_v4() != remote.is_v4() {
                    return Err(NCM_FAMILY_MISMATCH);
                }
                Ok(Path::Roce(path))
            }
            IB => {
                let mut path = nanocm_core::addr::IbPath::default();
                (path.local, path.remote, path.lid) = (local, remote, self.lid);
                (path.pkey_index, path.port) = (self.pkey_index, self.port);
                path.sl = at_most(self.sl, 15)?;
                path.flow_label = self.flow_label;
                path.traffic_class = self.traffic_class;
                path.hop_limit = self.hop_limit;
                path.grh = flag(self.grh.into())?;
                Ok(Path::Ib(path))
            }
            _ => Err(NCM_INVALID_VALUE),
        }
    }
}

impl From<Path> for ncm_path {
    fn from(path: Path) -> ncm_path {
        match path {
            Path::Roce(path) => ncm_path {
                link: ncm_link::NCM_LINK_ROCE as u32,
                scope: path.scope,
                local: path.local.0,
                remote: path.remote.0,
                flow_label: path.flow_label,
                traffic_class: path.traffic_class,
                hop_limit: path.hop_limit,
                ..ncm_path::default()
            },
            Path::Ib(path) => ncm_path {
                link: ncm_link::NCM_LINK_IB as u32,
                scope: 0,
                local: path.local.0,
                remote: path.remote.0,
                flow_label: path.flow_label,
                lid: path.lid,
                pkey_index: path.pkey_index,
                port: path.port,
                sl: path.sl,
                traffic_class: path.traffic_class,
                hop_limit: path.hop_limit,
                grh: path.grh.into(),
                reserved: [0; 11],
            },
            _ => ncm_path::default(),
        }
    }
}

/// The path over RoCEv2 between two addresses, whose ports do not matter, all else default. If they
/// are no addresses, or of two families, its link is NCM_LINK_NONE, and no function takes it.
#[unsafe(no_mangle)]
pub extern "C" fn ncm_roce_path(local: ncm_addr, remote: ncm_addr) -> ncm_path {
    match (local.to_scoped_ip(), remote.to_scoped_ip()) {
        (Ok(local), Ok(remote)) if local.gid.is_v4() == remote.gid.is_v4() => {
            let mut path = RocePath::new(local.gid, remote.gid);
            path.scope = local.scope.max(remote.scope);
            Path::Roce(path).into()
        }
        _ => ncm_path::default(),
    }
}

/// Port spaces (enum rdma_port_space): which service IDs an identifier's port numbers stand for.
#[repr(C)]
pub enum ncm_port_space {
    /// Sockets direct protocol; its numbers are TCP's.
    NCM_PS_SDP = 0x0001,
    /// IP over InfiniBand: datagrams.
    NCM_PS_IPOIB = 0x0002,
    /// Reliable connections.
    NCM_PS_TCP = 0x0106,
    /// Datagrams.
    NCM_PS_UDP = 0x0111,
    /// Any InfiniBand transport.
    NCM_PS_IB = 0x013f,
}

pub(crate) fn port_space(value: u32) -> Result<PortSpace, ncm_error_code> {
    let value = u16::try_from(value).ok();
    value.and_then(PortSpace::from_value).ok_or(NCM_INVALID_VALUE)
}

/// A number on a local address: what one host socket would hold, however many identifiers own it.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ncm_port_key {
    /// sizeof(ncm_port_key).
    pub size: u32,
    /// The port space whose numbers these are (ncm_port_space): TCP for SDP. 0: there is none.
    pub space: u32,
    /// The local address and the number.
    pub local: ncm_addr,
    /// From ncm_propose_port: 1 if identifiers own it already, so that whatever holds it can be
    /// shared; 0 if nobody does. Else 0.
    pub held: u32,
    /// Zero.
    pub reserved: u32,
}

impl ncm_port_key {
    pub(crate) fn to_rust(self) -> Result<PortKey, ncm_error_code> {
        flag(self.held)?;
        unused(&self.reserved.to_ne_bytes())?;
        Ok(PortKey {
            space: port_space(self.space)?,
            local: self.local.to_scoped_ip()?,
            port: self.local.port,
        })
    }

    pub(crate) fn new(key: Option<PortKey>, held: bool) -> ncm_port_key {
        ncm_port_key {
            size: size_of::<ncm_port_key>() as u32,
            space: key.map_or(0, |key| key.space as u32),
            local: key.map_or_else(ncm_addr::default, |key| key.local.with_port(key.port).into()),
            held: held.into(),
            reserved: 0,
        }
    }
}
