//! Bodies of the fuzz targets: `fuzz/` only hands them octets, the tests some of their own.

use super::{Capacity, Memory};
use crate::addr::{Gid, Path, RocePath, ScopedIp};
use crate::gids::PortEvent;
use crate::time::Instant;
use crate::wire::{Message, View, icrc, packet, roce};
use crate::{Cm, Config, ConnParam, EventKind, PortSpace};
use core::net::{IpAddr, SocketAddr};

/// Any octets through every parser: none may panic, and what parses must print.
pub fn wire_parse(octets: &[u8]) {
    if let Ok(message) = Message::parse(octets) {
        let _ = format!("{}", message.view());
    }
    if let Some(mad) = octets.first_chunk::<256>() {
        let _ = format!("{}", View::new(mad));
    }
    if let Ok(gsi) = roce::unframe(octets) {
        let _ = Message::parse(gsi.mad);
        let gid = Gid::from_ip(IpAddr::from([10, 0, 0, 1]));
        let _ = icrc::verify(&icrc::Ip::new(gid, gid), 55410, octets, icrc::crc32);
    }
    let _ = packet::parse_packet(octets);
}

/// Datagrams, cut at 256 octets, into an engine that listens and accepts all it can: no panic, and
/// nothing left when its identifiers are gone.
pub fn datagrams(octets: &[u8]) {
    let mut memory = Memory::new(Capacity::of(4));
    let mut cm = memory.engine(Config::new(1)).expect("sound capacities");
    let (us, them) = (IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2]));
    let address = ScopedIp { gid: us.into(), scope: 0 };
    let mut now = Instant::ZERO;
    cm.handle_port_event(now, PortEvent::GidAdded { address, ca_guid: 1 });
    let listener = cm.create_id(PortSpace::Tcp, 0).expect("an empty engine has room");
    cm.bind(listener, SocketAddr::new(us, 7471)).expect("the port is free");
    cm.listen(listener, 0).expect("it is bound");
    let path = Path::Roce(RocePath::new(us.into(), them.into()));
    let mut ids = vec![listener];
    for (round, datagram) in octets.chunks(256).enumerate() {
        now = now + core::time::Duration::from_millis(u64::from(datagram[0]));
        let _ = cm.handle_datagram(now, &path, datagram);
        drain(&mut cm, now, round as u32, &mut ids);
    }
    for id in ids {
        // The engine gives up requests by itself, so some are gone.
        let _ = cm.destroy(now, id);
    }
    for _ in 0..64 {
        now = now + core::time::Duration::from_secs(10);
        drain(&mut cm, now, u32::MAX, &mut Vec::new());
    }
    assert!(cm.is_clean(), "something is left: {:?}", cm.in_use());
}

fn drain(cm: &mut Cm<'_>, now: Instant, round: u32, ids: &mut Vec<crate::Id>) {
    while cm.handle_timeout(now, 16) {}
    while let Some(event) = cm.poll_event() {
        if let EventKind::ConnectRequest { .. } = event.kind {
            ids.push(event.id);
            let _ = cm.accept(now, event.id, &ConnParam::new(round & 0xff_ffff));
        }
    }
    let mut mad = [0; 256];
    while cm.poll_transmit(now, &mut mad).is_some() {}
}

#[cfg(test)]
mod tests {
    use crate::hash::{Key, Rng};

    #[test]
    fn random_octets_do_no_harm() {
        let mut rng = Rng::new(Key::new(1, 2));
        for round in 0..300 {
            let mut octets: Vec<u8> = (0..rng.below(1200)).map(|_| rng.next_u32() as u8).collect();
            if let (true, Some(mad)) = (round % 2 == 0, octets.first_chunk_mut::<24>()) {
                // A sound MAD header, so that the message is looked at.
                mad[..4].copy_from_slice(&[1, 7, 2, 3]);
                mad[16..18].copy_from_slice(&[0, 0x10 + rng.below(11) as u8]);
            }
            super::wire_parse(&octets);
            super::datagrams(&octets);
        }
    }
}
