//! Where applications and their peers are: few addresses and ports, so that they meet.

use crate::addr::{Gid, IbPath, Path};
use core::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};

/// Local addresses: those that are ours, might be, and are not.
pub(super) fn local(here: u8, a: u8, b: u8) -> SocketAddr {
    const PORTS: [u16; 8] = [0, 7471, 7472, 40_000, 40_001, 0, 1, 65_535];
    let port = PORTS[usize::from(b & 7)];
    let ip = match a & 7 {
        0 => v4(here),
        1 => v6(here),
        2 => IpAddr::from([0, 0, 0, 0]),
        3 => Ipv6Addr::UNSPECIFIED.into(),
        4 => v4(here + 100),
        5 => v4(77),
        6 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, here.into()).into(),
        _ => return with_port(link_local(here), port),
    };
    SocketAddr::new(ip, port)
}

/// Where peers are, and where they cannot be.
pub(super) fn remote(there: &[u8; 2], a: u8) -> SocketAddr {
    let port = [7471, 7472, 40_000, 7471][usize::from(a >> 2 & 3)];
    match a & 0x33 {
        0x30 => return SocketAddr::new(IpAddr::from([0, 0, 0, 0]), port),
        0x31 => return SocketAddr::new(v4(there[0]), 0),
        0x32 => return with_port(link_local(there[0]), port),
        _ => {}
    }
    let ip = match a & 3 {
        0 | 3 => v4(there[0]),
        1 => v6(there[0]),
        _ => v4(there[1]),
    };
    SocketAddr::new(ip, port)
}

pub(super) fn v4(last: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, last])
}

pub(super) fn v6(last: u8) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last.into()).into()
}

pub(super) fn link_local(last: u8) -> SocketAddr {
    let ip = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, last.into());
    SocketAddrV6::new(ip, 0, 0, 2).into()
}

fn with_port(mut addr: SocketAddr, port: u16) -> SocketAddr {
    addr.set_port(port);
    addr
}

/// Over InfiniBand; `grh`: the packet names its sender.
pub(super) fn ib_path(local: Gid, remote: Gid, grh: bool) -> Path {
    Path::Ib(IbPath { local, remote, lid: 3, grh, ..IbPath::default() })
}
