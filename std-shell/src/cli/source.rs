//! `--from`: the local address of `connect` and `resolve`.

use super::args::Address;
use super::output::Stop;
use super::provider;
use nanocm::core::wire::roce::UDP_PORT;
use nanocm::{Cause, Cm};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

/// The local address as told, or the one that leads to `peer`; its UDP port is ours from now on.
pub(crate) fn open(cm: &Cm, from: Option<Address>, peer: SocketAddr) -> Result<SocketAddr, Stop> {
    match from.map(provider::ip).transpose()? {
        Some(from) if !from.ip().to_canonical().is_unspecified() => {
            cm.open(from)?;
            Ok(from)
        }
        any => choose(cm, peer, any.map_or(0, |any| any.port())),
    }
}

/// The route's local address; if that is a loopback address whose UDP port is taken, the first free one
/// of 127.0.0.2 to 127.0.0.254.
fn choose(cm: &Cm, peer: SocketAddr, port: u16) -> Result<SocketAddr, Stop> {
    let mut source = cm.source_for(peer)?;
    source.set_port(port);
    let taken = match cm.open(source) {
        Ok(()) => return Ok(source),
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
        if cm.open(other).is_ok() {
            return Ok(other);
        }
    }
    Err(taken.into())
}
