//! What travels, as every network interface of the namespace sees it.

use socket2::{Domain, Protocol, Socket, Type};
use std::io::Read;
use std::time::Duration;

pub(crate) struct Wire(Socket);

/// A UDP datagram to port 4791.
pub(crate) struct Datagram {
    pub(crate) traffic_class: u8,
    /// The CM message's number.
    pub(crate) attribute: u16,
    /// What UDP carries.
    pub(crate) payload: Vec<u8>,
}

impl Wire {
    /// Listens from now on.
    pub(crate) fn tap() -> Wire {
        const ETH_P_ALL: u16 = 0x0003;
        let protocol = Protocol::from(i32::from(ETH_P_ALL.to_be()));
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol)).expect("a tap");
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
        Wire(socket)
    }

    /// What has travelled so far: each datagram twice, as it leaves one interface and enters another.
    pub(crate) fn datagrams(mut self) -> Vec<Datagram> {
        let mut packet = [0; 2048];
        let mut datagrams = Vec::new();
        while let Ok(length) = self.0.read(&mut packet) {
            datagrams.extend(parse(&packet[..length]));
        }
        datagrams
    }
}

fn parse(packet: &[u8]) -> Option<Datagram> {
    const UDP: u8 = 17;
    let (traffic_class, protocol, udp) = match packet.first()? >> 4 {
        4 => (packet[1], packet[9], usize::from(packet[0] & 15) * 4),
        6 => (packet[0] << 4 | packet[1] >> 4, packet[6], 40),
        _ => return None,
    };
    let port = packet.get(udp + 2..udp + 4)?;
    if protocol != UDP || port != 4791u16.to_be_bytes() {
        return None;
    }
    // UDP, BTH and DETH, then the MAD's header with the attribute.
    let payload = packet.get(udp + 8..)?.to_vec();
    let attribute = u16::from_be_bytes(*payload.get(20 + 16..)?.first_chunk()?);
    Some(Datagram { traffic_class, attribute, payload })
}
