//! Ethernet frames around CM messages. They never enter a UDP socket: the engine reads them where they lie, with the IP
//! header that their ICRC covers, and they leave without waiting behind one another.

use crate::board::Board;
use crate::neighbours::{self, Neighbours};
use core::net::Ipv4Addr;
use nanocm_core::wire::icrc::{Integrity, Ip, crc32, verify};
use nanocm_core::wire::packet::{IPV6_PACKET_LEN, Packet, frame_packet, parse_packet};
use nanocm_core::wire::roce::{QP1_SOURCE_PORT, UDP_PORT, unframe};
use nanocm_core::wire::{Mad, Message};
use nanocm_core::{Cm, Disposition, Instant, Path, RocePath};
use smoltcp::wire::EthernetAddress;

const ETHERNET_LEN: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const ARP: [u8; 2] = [0x08, 0x06];
const UDP: u8 = 17;

/// Frames, counted. Numbers wrap.
#[derive(Default)]
pub(crate) struct Frames {
    pub(crate) received: u32,
    pub(crate) sent: u32,
    /// To another MAC or IP address: a network that floods.
    pub(crate) for_others: u32,
    /// To UDP port 4791 of ours, from an address that no other host has.
    pub(crate) from_nobody: u32,
    /// To UDP port 4791 of ours, in an Ethernet frame to everybody (RFC 1122 §3.3.6).
    pub(crate) broadcast: u32,
    /// Fragments, and what is to UDP port 4791 with IP options or an impossible length.
    pub(crate) unusable: u32,
    /// To UDP port 4791 of ours, all others.
    pub(crate) roce: u32,
    /// Messages not sent because the way to their receiver was not known; it has been asked for.
    pub(crate) no_neighbour: u32,
    /// ARP questions.
    pub(crate) asked: u32,
}

/// What is to be done with a frame.
pub(crate) enum Taken {
    /// Nothing more: it was for the engine, or for nobody.
    Done,
    /// It is for smoltcp.
    ForHost,
    /// For smoltcp too, but now this neighbour is known.
    Neighbour(Ipv4Addr),
}

/// Our end of the wire.
pub(crate) struct Wire {
    pub(crate) us: (Ipv4Addr, EthernetAddress),
    pub(crate) neighbours: Neighbours,
    pub(crate) frames: Frames,
    /// REPs sent, for the clock that runs from REQ to REP.
    pub(crate) reps: u32,
}

impl Wire {
    /// Looks at a frame that came; what is a CM message goes to the engine.
    pub(crate) fn take(&mut self, cm: &mut Cm<'_>, now: Instant, frame: &[u8]) -> Taken {
        self.frames.received = self.frames.received.wrapping_add(1);
        let Some((header, packet)) = frame.split_first_chunk::<ETHERNET_LEN>() else {
            return Taken::Done;
        };
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1] = *header;
        let to = EthernetAddress([d0, d1, d2, d3, d4, d5]);
        if to != self.us.1 && !to.is_broadcast() {
            self.frames.for_others = self.frames.for_others.wrapping_add(1);
            return Taken::Done;
        }
        match [t0, t1] {
            ARP => match self.neighbours.hear(packet) {
                Some(neighbour) => Taken::Neighbour(neighbour),
                None => Taken::ForHost,
            },
            IPV4 => match parse_packet(packet) {
                Ok(packet) => {
                    let from = EthernetAddress([s0, s1, s2, s3, s4, s5]);
                    self.hand_over(cm, now, &packet, from, to);
                    Taken::Done
                }
                Err(_) if is_unusable(packet) => {
                    self.frames.unusable = self.frames.unusable.wrapping_add(1);
                    Taken::Done
                }
                Err(_) => Taken::ForHost,
            },
            _ => Taken::Done,
        }
    }

    /// A packet to UDP port 4791.
    fn hand_over(
        &mut self,
        cm: &mut Cm<'_>,
        now: Instant,
        packet: &Packet<'_>,
        from: EthernetAddress,
        to: EthernetAddress,
    ) {
        let Ip::V4 { source, destination, .. } = packet.ip else { return };
        if destination != self.us.0 {
            self.frames.for_others = self.frames.for_others.wrapping_add(1);
            return;
        }
        if to != self.us.1 {
            self.frames.broadcast = self.frames.broadcast.wrapping_add(1);
            return;
        }
        if !self.neighbours.is_host(source) {
            self.frames.from_nobody = self.frames.from_nobody.wrapping_add(1);
            return;
        }
        self.frames.roce = self.frames.roce.wrapping_add(1);
        let disposition = match unframe(packet.udp_payload) {
            Err(fault) => cm.handle_frame_fault(fault),
            Ok(gsi) => {
                match verify(&packet.ip, packet.udp_source_port, packet.udp_payload, crc32) {
                    Integrity::Ok => cm.handle_datagram(now, &Path::Roce(packet.path()), gsi.mad),
                    _ => cm.handle_bad_icrc(),
                }
            }
        };
        if !matches!(disposition, Disposition::Ignored(_)) {
            self.neighbours.learn(source, from);
        }
    }

    /// Sends a CM message. Where the way is not known it is asked for, and the message is lost: it will be repeated.
    pub(crate) fn send<B: Board>(&mut self, board: &mut B, path: &RocePath, mad: &Mad) {
        let core::net::IpAddr::V4(to) = path.remote.to_ip() else { return };
        let Some(mac) = self.neighbours.find(to) else {
            self.frames.no_neighbour = self.frames.no_neighbour.wrapping_add(1);
            return self.ask(board, to);
        };
        let mut frame = [0; ETHERNET_LEN + IPV6_PACKET_LEN];
        let Some((header, packet)) = frame.split_first_chunk_mut::<ETHERNET_LEN>() else { return };
        let Some(packet) = packet.first_chunk_mut() else { return };
        let [d0, d1, d2, d3, d4, d5] = mac.0;
        let [s0, s1, s2, s3, s4, s5] = self.us.1.0;
        let [t0, t1] = IPV4;
        *header = [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, t0, t1];
        let length = frame_packet(path, 0, QP1_SOURCE_PORT, 0, mad, crc32, packet).len();
        if let Some(frame) = frame.get(..ETHERNET_LEN + length) {
            board.send(frame);
            self.frames.sent = self.frames.sent.wrapping_add(1);
            if matches!(Message::parse(mad), Ok(Message::Rep(_))) {
                self.reps = self.reps.wrapping_add(1);
            }
        }
    }

    /// Asks who has an address.
    pub(crate) fn ask<B: Board>(&mut self, board: &mut B, whose: Ipv4Addr) {
        board.send(&neighbours::question(self.us, whose));
        self.frames.asked = self.frames.asked.wrapping_add(1);
    }
}

/// Whether a packet that is not one around a CM message is none of the host's either. Nobody here puts fragments together,
/// and smoltcp would take each for a whole packet. Of port 4791 it would say that nobody is there.
fn is_unusable(packet: &[u8]) -> bool {
    let Some([version_length, _, _, _, _, _, f0, f1, _, protocol]) = packet.first_chunk() else {
        return false;
    };
    let is_fragment = u16::from_be_bytes([*f0, *f1]) & 0x3fff != 0;
    let udp = packet.get(usize::from(version_length & 0x0f) * 4..).unwrap_or_default();
    is_fragment || *protocol == UDP && udp.get(2..4) == Some(&UDP_PORT.to_be_bytes())
}
