//! RoCEv2 frames, their ICRC, whole packets.

use super::Input;
use crate::addr::{Gid, RocePath};
use crate::wire::icrc::{
    DONT_FRAGMENT, Integrity, Ip, crc32, icrc, solve_ip_id, verify, verify_unseen_id,
};
use crate::wire::packet::{IPV6_PACKET_LEN, Packet, PacketFault, frame_packet, parse_packet};
use crate::wire::roce::{PAYLOAD_LEN, frame as frame_payload, source_port, unframe};
use crate::wire::{MAD_LEN, Mad};

/// Whatever is framed comes out the same, and one flipped bit is noticed; other packets are taken
/// apart or refused.
pub fn frame(octets: &[u8]) {
    taken_apart(octets);
    let mut input = Input::new(octets);
    let sent = Sent::from_input(&mut input);
    let mut out = [0xa5; IPV6_PACKET_LEN];
    let (path, port) = (&sent.path, sent.udp_source_port);
    let whole = frame_packet(path, sent.ip_id, port, sent.psn, &sent.mad, crc32, &mut out).to_vec();

    // With what Ethernet adds to short packets.
    let mut padded = whole.clone();
    padded.resize(whole.len() + input.below(32), input.octet());
    let packet = parse_packet(&padded).expect("a packet of ours");
    sent.is_all_there(&packet);
    solved(&sent, &packet);
    flipped(&mut input, &packet);
    cut(&mut input, &whole);
    with_immediate_data(&mut input, &packet);
}

/// A packet as its sender makes it.
#[derive(Debug)]
struct Sent {
    path: RocePath,
    ip_id: u16,
    udp_source_port: u16,
    psn: u32,
    mad: Mad,
}

impl Sent {
    fn from_input(input: &mut Input<'_>) -> Sent {
        let families = input.octet();
        let [local, remote] = [1, 2].map(|bit| {
            let mut gid = Gid(input.octets());
            if families & bit == 0 {
                gid.0[..12].copy_from_slice(&Gid::V4_WILDCARD.0[..12]);
            }
            gid
        });
        let mut path = RocePath::new(local, remote);
        path.traffic_class = input.octet();
        path.hop_limit = input.octet();
        path.flow_label = input.bits(32) as u32;
        let udp_source_port = match input.octet() {
            0 => source_port(path.flow_label),
            _ => input.bits(16) as u16,
        };
        let (ip_id, psn) = (input.bits(16) as u16, input.bits(32) as u32);
        let mut mad = [0; MAD_LEN];
        let length = input.rest().len().min(MAD_LEN);
        mad[..length].copy_from_slice(&input.rest()[..length]);
        Sent { path, ip_id, udp_source_port, psn, mad }
    }

    fn is_v4(&self) -> bool {
        self.path.local.is_v4() && self.path.remote.is_v4()
    }

    fn is_all_there(&self, packet: &Packet<'_>) {
        let answer = packet.path();
        let there = (answer.local, answer.remote, packet.traffic_class, packet.udp_source_port);
        let sent =
            (self.path.remote, self.path.local, self.path.traffic_class, self.udp_source_port);
        assert_eq!(there, sent);
        let hop_limit = if self.path.hop_limit == 0 { 64 } else { self.path.hop_limit };
        assert_eq!(packet.hop_limit, hop_limit);
        let flow_label = if self.is_v4() { 0 } else { self.path.flow_label & 0xf_ffff };
        assert_eq!(packet.flow_label, flow_label);
        let gsi = unframe(packet.udp_payload).expect("a frame of ours");
        assert_eq!((gsi.mad, gsi.psn), (&self.mad, self.psn & 0xff_ffff));
        assert_eq!((gsi.pkey, gsi.source_qpn, gsi.immediate), (0xffff, 1, None));
        assert_eq!(checked(packet, packet.udp_payload), Integrity::Ok);
    }
}

/// The identification is found without having been seen, and so is the verdict.
fn solved(sent: &Sent, packet: &Packet<'_>) {
    let (port, payload) = (packet.udp_source_port, packet.udp_payload);
    let (from, to) = (sent.path.local, sent.path.remote);
    assert_eq!(verify_unseen_id(from, to, port, payload, crc32), Integrity::Ok);
    if let Ip::V4 { source, destination, id, flags_fragment } = packet.ip {
        assert_eq!((id, flags_fragment), (sent.ip_id, DONT_FRAGMENT));
        let solved = solve_ip_id(source, destination, flags_fragment, port, payload, crc32);
        assert_eq!(solved, Some(sent.ip_id));
    }
}

/// One bit of the payload flipped: noticed, but for those that routers may change.
fn flipped(input: &mut Input<'_>, packet: &Packet<'_>) {
    let bit = input.bits(16) as usize % (PAYLOAD_LEN * 8);
    let mut damaged = packet.udp_payload.to_vec();
    damaged[bit / 8] ^= 0x80 >> (bit % 8);
    let expected = if bit / 8 == 4 { Integrity::Ok } else { Integrity::Bad };
    assert_eq!(checked(packet, &damaged), expected, "bit {bit}");
    let answer = packet.path();
    let port = packet.udp_source_port;
    let unseen = verify_unseen_id(answer.remote, answer.local, port, &damaged, crc32);
    assert_eq!(unseen, expected, "bit {bit}, identification unseen");
}

/// A packet that ends too early is no packet.
fn cut(input: &mut Input<'_>, whole: &[u8]) {
    let short = &whole[..input.bits(16) as usize % whole.len()];
    assert_eq!(parse_packet(short), Err(PacketFault::TooShort(short.len())));
}

/// Immediate data change nothing but the length.
fn with_immediate_data(input: &mut Input<'_>, packet: &Packet<'_>) {
    let mut payload = packet.udp_payload[..PAYLOAD_LEN - 4].to_vec();
    payload[0] = 0x65;
    let immediate = input.octets();
    payload.splice(20..20, immediate);
    let icrc = icrc(&packet.ip, packet.udp_source_port, &payload, crc32);
    payload.extend(icrc.to_le_bytes());
    let gsi = unframe(&payload).expect("a frame with immediate data");
    assert_eq!(gsi.immediate, Some(u32::from_be_bytes(immediate)));
    assert_eq!(gsi.mad.as_slice(), &packet.udp_payload[20..276]);
    assert_eq!(checked(packet, &payload), Integrity::Ok);
    let answer = packet.path();
    let port = packet.udp_source_port;
    let unseen = verify_unseen_id(answer.remote, answer.local, port, &payload, crc32);
    assert_eq!(unseen, Integrity::Ok);
}

fn checked(packet: &Packet<'_>, payload: &[u8]) -> Integrity {
    verify(&packet.ip, packet.udp_source_port, payload, crc32)
}

/// Any octets: what is taken for a packet lies within them, and what is taken for a frame is
/// framed again to the same.
fn taken_apart(octets: &[u8]) {
    let packet = match parse_packet(octets) {
        Ok(packet) => packet,
        Err(fault) => return drop(fault.to_string()),
    };
    assert!(packet.udp_payload.len() + 28 <= octets.len());
    let gsi = match unframe(packet.udp_payload) {
        Ok(gsi) => gsi,
        Err(fault) => return drop(fault.to_string()),
    };
    let answer = packet.path();
    let port = packet.udp_source_port;
    let seen = checked(&packet, packet.udp_payload);
    let unseen = verify_unseen_id(answer.remote, answer.local, port, packet.udp_payload, crc32);
    let takes_df = match packet.ip {
        Ip::V4 { flags_fragment, .. } => flags_fragment == DONT_FRAGMENT,
        // Two mapped addresses in an IPv6 packet look like IPv4 from above.
        Ip::V6 { .. } => !(answer.local.is_v4() && answer.remote.is_v4()),
    };
    assert!(seen == Integrity::Bad || !takes_df || unseen == Integrity::Ok);
    if gsi.immediate.is_none() {
        let mut again = [0; PAYLOAD_LEN];
        frame_payload(&packet.ip, port, gsi.psn, gsi.mad, crc32, &mut again);
        let once_more = unframe(&again).expect("a frame of ours");
        assert_eq!((once_more.mad, once_more.psn), (gsi.mad, gsi.psn));
    }
}
