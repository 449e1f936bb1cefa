//! RoCEv2 framing, the ICRC, solving for the IPv4 identification, whole packets.

use super::*;
use crate::addr::RocePath;
use crate::wire::icrc::{
    DONT_FRAGMENT, Integrity, Ip, crc32, icrc, solve_ip_id, verify, verify_unseen_id,
};
use crate::wire::packet::{IPV4_PACKET_LEN, IPV6_PACKET_LEN, PacketFault, frame_packet};
use crate::wire::roce::{FrameFault, PAYLOAD_LEN, QP1_SOURCE_PORT, frame, source_port};

/// CRC-32 bit by bit, without a table.
fn slow_crc32(pieces: &[&[u8]]) -> u32 {
    let mut crc = u32::MAX;
    for octet in pieces.concat() {
        crc ^= u32::from(octet);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

#[test]
fn the_table_crc_is_the_bitwise_one() {
    assert_eq!(crc32(&[b"1234", b"56789"]), 0xcbf4_3926);
    assert_eq!((crc32(&[]), crc32(&[&[]])), (0, 0));
    let mut random = Random(4);
    for length in 0..700 {
        let mut octets: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        let zeros = random.next() as usize % (length + 1);
        octets[length - zeros..].fill(0);
        let (a, b) = octets.split_at(random.next() as usize % (length + 1));
        let expected = slow_crc32(&[&octets]);
        assert_eq!(crc32(&[&octets]), expected, "{length} octets, {zeros} zeros");
        assert_eq!(crc32(&[a, b]), expected, "{length} octets in two pieces");
    }
}

#[test]
fn the_worked_examples_of_the_fact_sheet_match() {
    let v4 = Ip::V4 {
        source: "10.99.0.1".parse().unwrap(),
        destination: "10.99.0.2".parse().unwrap(),
        id: 0x6481,
        flags_fragment: DONT_FRAGMENT,
    };
    let v6 = Ip::V6 {
        source: "fd00:99::1".parse().unwrap(),
        destination: "fd00:99::2".parse().unwrap(),
    };
    let table = [
        (v4, 0xf48f, "1100ffff00000011002ddeea1f000001", 0x7824_f9f6),
        (v6, 0xed6e, "1100ffff000000110032b5c51f000001", 0x131b_54b1),
    ];
    for (ip, udp_source_port, covered, expected) in table {
        assert_eq!(icrc(&ip, udp_source_port, &hex(covered), crc32), expected);
    }
}

#[test]
fn every_icrc_of_linux_is_right() {
    for captured in captured() {
        let packet = captured.packet();
        for crc in [crc32, slow_crc32] {
            let verdict = verify(&packet.ip, packet.udp_source_port, packet.udp_payload, crc);
            assert_eq!(verdict, Integrity::Ok, "{}", captured.name);
        }
    }
}

#[test]
fn a_packet_of_linux_is_framed_again_octet_for_octet() {
    for captured in captured() {
        let packet = captured.packet();
        let gsi = unframe(packet.udp_payload).unwrap();
        assert_eq!((gsi.pkey, gsi.source_qpn, gsi.immediate), (0xffff, 1, None));
        let (mut path, ip_id) = match packet.ip {
            Ip::V4 { source, destination, id, .. } => {
                (RocePath::new(Gid::from_ip(source.into()), Gid::from_ip(destination.into())), id)
            }
            Ip::V6 { source, destination } => {
                (RocePath::new(Gid::from_ip(source.into()), Gid::from_ip(destination.into())), 0)
            }
        };
        path.traffic_class = packet.traffic_class;
        path.hop_limit = packet.hop_limit;
        path.flow_label = packet.flow_label;
        let mut out = [0xa5; IPV6_PACKET_LEN];
        let ours = frame_packet(&path, ip_id, QP1_SOURCE_PORT, gsi.psn, gsi.mad, crc32, &mut out);
        assert_eq!(ours, captured.octets, "{}", captured.name);

        let answer = packet.path();
        assert_eq!((answer.local, answer.remote), (path.remote, path.local));
    }
}

#[test]
fn a_frame_comes_out_as_it_went_in() {
    let mut random = Random(5);
    for (source, destination) in [("127.0.0.1", "127.0.0.2"), ("fd00::1", "fd00::2")] {
        let source = Gid::from_ip(source.parse().unwrap());
        let destination = Gid::from_ip(destination.parse().unwrap());
        let ip = Ip::new(source, destination);
        for _ in 0..100 {
            let mad = random.octets();
            let psn = random.next() as u32;
            let port = random.next() as u16;
            let mut out = [0; PAYLOAD_LEN];
            frame(&ip, port, psn, &mad, crc32, &mut out);
            let gsi = unframe(&out).unwrap();
            assert_eq!((gsi.mad, gsi.psn), (&mad, psn & 0xff_ffff));
            assert_eq!(verify(&ip, port, &out, crc32), Integrity::Ok);
            assert_eq!(verify_unseen_id(source, destination, port, &out, crc32), Integrity::Ok);
            assert_eq!(verify(&ip, port ^ 1, &out, crc32), Integrity::Bad);
        }
    }
}

/// A frame of ours from 10.0.0.1 to 10.0.0.2, its addresses and its UDP source port.
fn framed() -> (Ip, u16, [u8; PAYLOAD_LEN]) {
    let [source, destination] =
        ["10.0.0.1", "10.0.0.2"].map(|ip| Gid::from_ip(ip.parse().unwrap()));
    let ip = Ip::new(source, destination);
    let mut out = [0; PAYLOAD_LEN];
    frame(&ip, 50000, 7, &captured_mad("REQ"), crc32, &mut out);
    (ip, 50000, out)
}

#[test]
fn what_soft_roce_lets_through_we_let_through() {
    let table: [(&str, usize, u8); 9] = [
        ("no AckReq", 8, 0),
        ("reserved octet 8", 8, 0x7f),
        ("solicited event", 1, 0x80),
        ("MigReq", 1, 0x40),
        ("FECN, BECN and reserved", 4, 0xff),
        ("another PSN", 9, 0xff),
        ("another source QPN", 19, 0x55),
        ("limited P_Key", 2, 0x7f),
        ("reserved octet of the DETH", 16, 0xff),
    ];
    for (what, at, octet) in table {
        let (.., mut payload) = framed();
        payload[at] = octet;
        assert!(unframe(&payload).is_ok(), "{what}");
    }
    let (.., payload) = framed();
    let mut immediate = payload.to_vec();
    immediate[0] = 0x65;
    immediate.splice(20..20, [1, 2, 3, 4]);
    let gsi = unframe(&immediate).unwrap();
    assert_eq!((gsi.mad, gsi.immediate), (&captured_mad("REQ"), Some(0x0102_0304)));
}

#[test]
fn each_fault_of_a_frame_has_its_name() {
    let table: [(usize, u8, FrameFault); 14] = [
        (0, 0x04, FrameFault::Opcode(0x04)),
        (0, 0x24, FrameFault::Opcode(0x24)),
        (1, 0x01, FrameFault::TransportVersion(1)),
        (1, 0x0f, FrameFault::TransportVersion(15)),
        (7, 0x00, FrameFault::DestinationQpn(0)),
        (7, 0x11, FrameFault::DestinationQpn(0x11)),
        (5, 0x80, FrameFault::DestinationQpn(0x80_0001)),
        (2, 0x80, FrameFault::PKey(0x80ff)),
        (3, 0x00, FrameFault::PKey(0xff00)),
        (12, 0x00, FrameFault::QKey(0x0001_0000)),
        (15, 0x01, FrameFault::QKey(0x8001_0001)),
        (1, 0x10, FrameFault::Padding(1)),
        (1, 0x30, FrameFault::Padding(3)),
        (0, 0x65, FrameFault::MadLength(252)),
    ];
    for (at, octet, fault) in table {
        let (.., mut payload) = framed();
        payload[at] = octet;
        assert_eq!(unframe(&payload).unwrap_err(), fault);
    }
}

#[test]
fn a_frame_of_another_length_is_refused() {
    let (.., payload) = framed();
    let mut long = payload.to_vec();
    long.resize(4096, 0xff);
    for length in (0..=4096).filter(|length| *length != PAYLOAD_LEN) {
        let expected = if length < 24 {
            FrameFault::TooShort(length)
        } else {
            FrameFault::MadLength(length - 24)
        };
        assert_eq!(unframe(&long[..length]).unwrap_err(), expected);
    }
}

#[test]
fn arbitrary_octets_are_refused_and_never_panic() {
    let mut random = Random(6);
    for length in 0..=4096 {
        let octets: Vec<u8> = (0..length).map(|_| random.next() as u8).collect();
        assert!(unframe(&octets).is_err());
        assert!(parse_packet(&octets).is_err());
        let (ip, port, _) = framed();
        assert_ne!(verify(&ip, port, &octets, crc32), Integrity::Ok);
    }
}

#[test]
fn every_flipped_bit_is_caught_but_those_that_routers_change() {
    let (ip, port, payload) = framed();
    let Ip::V4 { source, destination, .. } = ip else { unreachable!() };
    for bit in 0..PAYLOAD_LEN * 8 {
        let mut damaged = payload;
        damaged[bit / 8] ^= 0x80 >> (bit % 8);
        let expected = if bit / 8 == 4 { Integrity::Ok } else { Integrity::Bad };
        assert_eq!(verify(&ip, port, &damaged, crc32), expected, "bit {bit}");
        let [source, destination] = [source, destination].map(|ip| Gid::from_ip(ip.into()));
        assert_eq!(verify_unseen_id(source, destination, port, &damaged, crc32), expected);
    }
}

#[test]
fn a_frame_cut_before_its_end_is_unchecked() {
    let (ip, port, payload) = framed();
    for length in 0..16 {
        assert_eq!(verify(&ip, port, &payload[..length], crc32), Integrity::Unchecked);
    }
    let [source, destination] =
        ["10.0.0.1", "10.0.0.2"].map(|ip| Gid::from_ip(ip.parse().unwrap()));
    let verdict = verify_unseen_id(source, destination, port, &payload[..100], crc32);
    assert_eq!(verdict, Integrity::Unchecked);
}

#[test]
fn the_unseen_identification_of_linux_is_found() {
    let mut found = 0;
    for captured in captured() {
        let packet = captured.packet();
        let Ip::V4 { source, destination, id, flags_fragment } = packet.ip else { continue };
        let port = packet.udp_source_port;
        let solve =
            |payload| solve_ip_id(source, destination, flags_fragment, port, payload, crc32);
        assert_eq!(solve(packet.udp_payload), Some(id), "{}", captured.name);
        found += 1;
    }
    assert!(found > 8);
}

#[test]
fn any_identification_is_found_with_and_without_immediate_data() {
    let (.., payload) = framed();
    let mut immediate = payload.to_vec();
    immediate.splice(20..20, [1, 2, 3, 4]);
    let [source, destination] = ["10.0.0.1", "10.0.0.2"].map(|ip| ip.parse().unwrap());
    for payload in [payload.to_vec(), immediate] {
        for (id, flags_fragment) in
            [(0, DONT_FRAGMENT), (1, DONT_FRAGMENT), (0xffff, DONT_FRAGMENT), (0x1234, 0)]
        {
            let mut payload = payload.clone();
            let ip = Ip::V4 { source, destination, id, flags_fragment };
            let end = payload.len() - 4;
            let crc = icrc(&ip, 50000, &payload[..end], crc32);
            payload[end..].copy_from_slice(&crc.to_le_bytes());
            let solved = solve_ip_id(source, destination, flags_fragment, 50000, &payload, crc32);
            assert_eq!(solved, Some(id));
            let [a, b] = [source, destination].map(|ip| Gid::from_ip(ip.into()));
            let expected = if flags_fragment == 0 { Integrity::Bad } else { Integrity::Ok };
            assert_eq!(verify_unseen_id(a, b, 50000, &payload, crc32), expected);
        }
    }
}

#[test]
fn a_random_icrc_has_no_identification() {
    let (ip, port, mut payload) = framed();
    let Ip::V4 { source, destination, .. } = ip else { unreachable!() };
    let mut random = Random(7);
    for _ in 0..7000 {
        payload[PAYLOAD_LEN - 4..].copy_from_slice(&random.octets::<4>());
        let solved = solve_ip_id(source, destination, DONT_FRAGMENT, port, &payload, crc32);
        assert_eq!(solved, None);
    }
}

#[test]
fn udp_source_ports_come_from_flow_labels() {
    for (flow_label, port) in [(0x27486, 0xf48f), (0x45708, 0xd719), (0xcad5c, 0xed6e)] {
        assert_eq!(source_port(flow_label), port);
    }
}

#[test]
fn each_fault_of_a_packet_has_its_name() {
    let captured = captured();
    let (v4, v6) = (&captured[0].octets, &captured[1].octets);
    let table: [(&[u8], usize, u8, PacketFault); 9] = [
        (v4, 0, 0x55, PacketFault::IpVersion(5)),
        (v4, 0, 0x46, PacketFault::Options(24)),
        (v4, 6, 0x20, PacketFault::Fragment),
        (v4, 7, 0x01, PacketFault::Fragment),
        (v4, 9, 6, PacketFault::Protocol(6)),
        (v4, 23, 0xb8, PacketFault::DestinationPort(4792)),
        (v4, 24, 0xff, PacketFault::TooShort(IPV4_PACKET_LEN)),
        (v6, 6, 0, PacketFault::Protocol(0)),
        (v6, 43, 0xb8, PacketFault::DestinationPort(4792)),
    ];
    for (packet, at, octet, fault) in table {
        let mut packet = packet.to_vec();
        packet[at] = octet;
        assert_eq!(parse_packet(&packet).unwrap_err(), fault);
    }
    let mut short = v4.to_vec();
    short[24..26].copy_from_slice(&[0, 7]);
    assert_eq!(parse_packet(&short).unwrap_err(), PacketFault::UdpLength(7));
}

#[test]
fn a_packet_cut_short_is_refused_and_padding_is_ignored() {
    for captured in &captured()[..2] {
        for length in 0..captured.octets.len() {
            assert_eq!(
                parse_packet(&captured.octets[..length]),
                Err(PacketFault::TooShort(length))
            );
        }
        let padded = [&captured.octets[..], &[0; 18]].concat();
        assert_eq!(parse_packet(&padded).unwrap().udp_payload.len(), PAYLOAD_LEN);
    }
}
