//! `--from`: the local address of `connect`, `resolve` and `probe`.

use super::args::Address;
use super::output::Stop;
use super::provider;
use nanocm::core::wire::roce::UDP_PORT;
use nanocm::{Cause, Cm, Error};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// The local address as told, or the one that leads to `peer`; its UDP port is ours from now on.
pub(crate) fn open(cm: &Cm, from: Option<Address>, peer: SocketAddr) -> Result<SocketAddr, Stop> {
    let route = || cm.source_for(peer);
    open_with(from, route, |source| cm.open(source)).map(|(source, ())| source)
}

/// The same, with what `take` makes of the address; `route` says which one leads to the peer.
pub(crate) fn open_with<T>(
    from: Option<Address>,
    route: impl FnOnce() -> Result<SocketAddr, Error>,
    take: impl Fn(SocketAddr) -> Result<T, Error>,
) -> Result<(SocketAddr, T), Stop> {
    match from.map(provider::ip).transpose()? {
        Some(from) if !from.ip().to_canonical().is_unspecified() => Ok((from, take(from)?)),
        any => choose(route()?, any.map_or(0, |any| any.port()), take),
    }
}

/// The route's local address; if that is a loopback address whose UDP port is taken, the first free one
/// of 127.0.0.2 to 127.0.0.254.
fn choose<T>(
    mut source: SocketAddr,
    port: u16,
    take: impl Fn(SocketAddr) -> Result<T, Error>,
) -> Result<(SocketAddr, T), Stop> {
    source.set_port(port);
    let taken = match take(source) {
        Ok(what) => return Ok((source, what)),
        Err(error) => error,
    };
    let is_taken = matches!(&taken.cause, Cause::Open(open) if open.holder().is_some());
    if !is_taken || !matches!(source.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
        return Err(taken.into());
    }
    // A bind is cheap, while asking who is in the way looks at every process.
    let others = (2..=254).map(|last| Ipv4Addr::new(127, 0, 0, last));
    for other in others.filter(|ip| UdpSocket::bind((*ip, UDP_PORT)).is_ok()) {
        let other = SocketAddr::from((other, source.port()));
        if let Ok(what) = take(other) {
            return Ok((other, what));
        }
    }
    Err(taken.into())
}
