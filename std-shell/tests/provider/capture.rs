//! What is on the wire, from a packet socket, taken apart by the core.

use std::io::Read;
use std::time::Duration;

use nanocm_core::wire::icrc::{Integrity, crc32, verify};
use nanocm_core::wire::packet::{Packet, parse_packet};
use socket2::{Domain, Protocol, Socket, Type};

pub(crate) struct Capture(Socket);

impl Capture {
    /// Of every interface, from now on.
    pub(crate) fn start() -> Capture {
        let everything = i32::from((libc::ETH_P_ALL as u16).to_be());
        let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(Protocol::from(everything)));
        let socket = socket.unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        Capture(socket)
    }

    /// The next RoCEv2 packet, from the IP header on.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        loop {
            let mut packet = vec![0; 65_536];
            let length = self.0.read(&mut packet).expect("a packet comes");
            packet.truncate(length);
            if parse_packet(&packet).is_ok() {
                return packet;
            }
        }
    }
}

/// Whether the ICRC of a captured packet is right.
pub(crate) fn integrity(packet: &Packet<'_>) -> Integrity {
    verify(&packet.ip, packet.udp_source_port, packet.udp_payload, crc32)
}
