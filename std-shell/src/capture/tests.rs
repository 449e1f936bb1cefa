//! Captures made up here: every link type, every way to be cut, fragmented or faulty.

use std::io::Read;

use nanocm_core::addr::Gid;
use nanocm_core::wire::icrc::{Integrity, Ip};
use nanocm_core::wire::roce::{PAYLOAD_LEN, QP1_SOURCE_PORT, UDP_PORT, frame};
use nanocm_core::wire::{Header, Mad, Message, Rtu};

use super::*;
use crate::crc::crc32;

const V4: [&str; 2] = ["10.99.0.2", "10.99.0.1"];
const V6: [&str; 2] = ["fd00:99::2", "fd00:99::1"];
const ETHERNET: u32 = 1;

fn mad() -> Mad {
    let mut mad = [0; 256];
    Rtu::emit(&mut mad, 7).set_local_comm_id(0x11).set_remote_comm_id(0x22);
    mad
}

/// The UDP datagram of a MAD.
fn udp([from, to]: [&str; 2], mad: &Mad) -> Vec<u8> {
    let ip = Ip::new(Gid::from_ip(from.parse().unwrap()), Gid::from_ip(to.parse().unwrap()));
    let mut payload = [0; PAYLOAD_LEN];
    frame(&ip, QP1_SOURCE_PORT, 0, mad, crc32, &mut payload);
    let length = (8 + PAYLOAD_LEN) as u16;
    let mut udp = Vec::new();
    for field in [QP1_SOURCE_PORT, UDP_PORT, length, 0] {
        udp.extend(field.to_be_bytes());
    }
    udp.extend(payload);
    udp
}

/// An IPv4 packet with `options` (whole words).
fn ipv4(options: &[u8], flags_fragment: u16, payload: &[u8]) -> Vec<u8> {
    let header = 20 + options.len();
    let mut packet = vec![0x40 | (header / 4) as u8, 0];
    packet.extend(((header + payload.len()) as u16).to_be_bytes());
    packet.extend([0, 0]);
    packet.extend(flags_fragment.to_be_bytes());
    packet.extend([64, 17, 0, 0, 10, 99, 0, 2, 10, 99, 0, 1]);
    packet.extend(options);
    packet.extend(payload);
    packet
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 64]);
    for address in V6 {
        packet.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
    }
    packet.extend(payload);
    packet
}

fn ethernet(tags: &[u16], kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0x52; 12];
    for tag in tags {
        frame.extend(tag.to_be_bytes());
        frame.extend(100_u16.to_be_bytes());
    }
    frame.extend(kind.to_be_bytes());
    frame.extend(payload);
    frame
}

/// An Ethernet frame with a CM message over IPv4.
fn good_frame() -> Vec<u8> {
    ethernet(&[], 0x0800, &ipv4(&[], 0x4000, &udp(V4, &mad())))
}

fn pcap(link: u32, packets: &[Vec<u8>]) -> Vec<u8> {
    let mut file = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0];
    file.extend(link.to_le_bytes());
    for (second, packet) in (1_u32..).zip(packets) {
        for field in [second, 500_000, packet.len() as u32, packet.len() as u32] {
            file.extend(field.to_le_bytes());
        }
        file.extend(packet);
    }
    file
}

type All = (Vec<Found>, Option<CaptureError>, Tally);

fn read(file: impl Read + Send) -> All {
    let mut messages = Messages::open(file).unwrap();
    let (mut found, mut error) = (Vec::new(), None);
    for item in &mut messages {
        match item {
            Ok(message) => found.push(message),
            Err(e) => error = Some(e),
        }
    }
    assert!(messages.next().is_none(), "it goes on after its end");
    (found, error, messages.tally().clone())
}

/// What a file with this one packet gives.
fn read_packet(link: u32, packet: Vec<u8>) -> (Option<Found>, Tally) {
    let (mut found, error, tally) = read(&pcap(link, &[packet])[..]);
    assert!(error.is_none());
    assert_eq!(tally.packets, 1);
    (found.pop(), tally)
}

#[test]
fn every_link_type_leads_to_the_message() {
    let v4 = ipv4(&[], 0x4000, &udp(V4, &mad()));
    let v6 = ipv6(17, &udp(V6, &mad()));
    let sll = |kind: &[u8], rest: &[u8]| [&[0; 14], kind, rest].concat();
    let sll2 = |kind: &[u8], rest: &[u8]| [kind, &[0; 18], rest].concat();
    let tag = [0, 100, 0x08, 0x00];
    for (link, packet) in [
        (ETHERNET, ethernet(&[], 0x0800, &v4)),
        (ETHERNET, ethernet(&[], 0x86dd, &v6)),
        (ETHERNET, ethernet(&[0x8100], 0x0800, &v4)),
        (ETHERNET, ethernet(&[0x88a8, 0x8100], 0x86dd, &v6)),
        (101, v4.clone()),
        (101, v6.clone()),
        (228, v4.clone()),
        (229, v6.clone()),
        (113, sll(&[0x08, 0x00], &v4)),
        (113, sll(&[0x86, 0xdd], &v6)),
        (276, sll2(&[0x08, 0x00], &v4)),
        (276, sll2(&[0x86, 0xdd], &v6)),
        (276, sll2(&[0x81, 0x00], &[&tag[..], &v4].concat())),
    ] {
        let (found, tally) = read_packet(link, packet);
        let found = found.unwrap_or_else(|| panic!("link type {link}: {tally:?}"));
        let [from, to] = if found.source.is_ipv4() { V4 } else { V6 };
        assert_eq!(
            (found.source.to_string(), found.destination.to_string()),
            (from.into(), to.into())
        );
        assert_eq!((found.frame, found.integrity), (1, Integrity::Ok));
        assert_eq!(found.time.unwrap().to_string(), "1.500000");
        assert!(matches!(found.message(), Message::Rtu(rtu) if rtu.remote_comm_id() == 0x22));
    }
}

#[test]
fn ethernet_padding_is_not_part_of_the_datagram() {
    let (found, _) = read_packet(ETHERNET, [good_frame(), vec![0xee; 9]].concat());
    assert_eq!(found.unwrap().integrity, Integrity::Ok);
}

#[test]
fn the_udp_length_delimits_the_datagram() {
    let longer = ipv4(&[], 0x4000, &[udp(V4, &mad()), vec![0xee; 4]].concat());
    let (found, _) = read_packet(101, longer);
    assert_eq!(found.unwrap().integrity, Integrity::Unchecked);
}

#[test]
fn headers_that_our_icrc_does_not_know_leave_it_unchecked() {
    let hop_by_hop = [&[17, 0, 1, 4, 0, 0, 0, 0][..], &udp(V6, &mad())].concat();
    for packet in [ipv4(&[1, 1, 1, 1], 0x4000, &udp(V4, &mad())), ipv6(0, &hop_by_hop)] {
        let (found, _) = read_packet(101, packet);
        assert_eq!(found.unwrap().integrity, Integrity::Unchecked);
    }
}

#[test]
fn a_damaged_octet_makes_the_icrc_bad() {
    let mut frame = good_frame();
    frame[200] ^= 1;
    let (found, tally) = read_packet(ETHERNET, frame);
    assert_eq!(found.unwrap().integrity, Integrity::Bad);
    assert_eq!((tally.messages, tally.bad_icrc), (1, 1));
}

#[test]
fn fragments_are_counted_and_left_out() {
    let last_fragment = [&[17, 0, 0x05, 0x08, 0, 0, 0, 1][..], &[0; 40]].concat();
    for packet in
        [ipv4(&[], 0x2000, &udp(V4, &mad())), ipv4(&[], 0x0010, &[0; 64]), ipv6(44, &last_fragment)]
    {
        let (found, tally) = read_packet(101, packet);
        assert!(found.is_none());
        assert_eq!((tally.fragments, tally.not_roce), (1, 0));
    }
}

#[test]
fn a_packet_that_is_cut_behind_the_mad_is_decoded() {
    let whole = good_frame();
    for missing in 1..=4 {
        let (found, tally) = read_packet(ETHERNET, whole[..whole.len() - missing].to_vec());
        assert_eq!(found.unwrap().integrity, Integrity::Unchecked);
        assert_eq!(tally.cut, 0);
    }
}

#[test]
fn a_packet_that_is_cut_within_the_mad_is_counted() {
    let whole = good_frame();
    // From here on the destination queue pair is seen, so that we know what was lost.
    let known = 14 + 20 + 8 + 8;
    for length in 0..whole.len() - 4 {
        let (found, tally) = read_packet(ETHERNET, whole[..length].to_vec());
        assert!(found.is_none());
        assert_eq!(tally.cut, u64::from(length >= known), "{length} octets: {tally:?}");
    }
}

#[test]
fn other_traffic_is_told_apart() {
    let changed = |change: fn(&mut Vec<u8>)| {
        let mut frame = good_frame();
        change(&mut frame);
        read_packet(ETHERNET, frame).1
    };
    let udp = 14 + 20;
    assert_eq!(changed(|f| f[14 + 9] = 6).not_roce, 1, "TCP");
    assert_eq!(changed(|f| f[36] = 0).not_roce, 1, "another port");
    assert_eq!(changed(|f| f[42] = 0x11).data, 1, "an RC acknowledgement");
    assert_eq!(changed(|f| f[42 + 7] = 17).data, 1, "to another queue pair");
    assert_eq!(changed(|f| f[44] = 0x12).faulty.first.unwrap().0, 1, "P_Key");
    assert_eq!(changed(|f| f[62 + 1] = 3).other_classes, 1, "a SA MAD");
    assert_eq!(changed(|f| f[62 + 17] = 0x1b).unknown_mads.count, 1, "SAP");
    assert_eq!(changed(|f| f[62 + 2] = 1).unknown_mads.count, 1, "class version 1");
    assert_eq!(udp + 8 + 20, 62, "where the MAD begins");
}

#[test]
fn attribute_modifier_and_status_are_no_reason_to_leave_a_message_out() {
    let mut mad = mad();
    Header(&mut mad).set_status(0x1234).set_attribute_modifier(0x5678).set_class_specific(9);
    let (found, _) = read_packet(101, ipv4(&[], 0x4000, &udp(V4, &mad)));
    assert_eq!(found.unwrap().message().mad(), &mad);
}

/// pcapng blocks, in either byte order.
struct Blocks {
    file: Vec<u8>,
    big_endian: bool,
}

impl Blocks {
    fn new(big_endian: bool) -> Blocks {
        let mut blocks = Blocks { file: Vec::new(), big_endian };
        blocks.section();
        blocks
    }

    fn section(&mut self) {
        let body = [&self.u32(0x1a2b_3c4d)[..], &self.u16(1), &self.u16(0), &[0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body);
    }

    fn interface(&mut self, link: u16, resolution: u8, offset: i64) {
        let offset = if self.big_endian { offset.to_be_bytes() } else { offset.to_le_bytes() };
        let body = [
            &self.u16(link)[..],
            &[0; 2],
            &self.u32(0),
            &self.u16(9),
            &self.u16(1),
            &[resolution, 0, 0, 0],
            &self.u16(14),
            &self.u16(8),
            &offset,
            &[0; 4],
        ];
        self.block(1, &body.concat());
    }

    fn packet(&mut self, interface: u32, ticks: u64, octets: &[u8]) {
        let length = self.u32(octets.len() as u32);
        let head = [
            self.u32(interface),
            self.u32((ticks >> 32) as u32),
            self.u32(ticks as u32),
            length,
            length,
        ];
        let padding = vec![0; octets.len().next_multiple_of(4) - octets.len()];
        self.block(6, &[head.as_flattened(), octets, &padding].concat());
    }

    fn simple_packet(&mut self, octets: &[u8]) {
        let padding = vec![0; octets.len().next_multiple_of(4) - octets.len()];
        self.block(3, &[&self.u32(octets.len() as u32), octets, &padding].concat());
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let length = self.u32(body.len() as u32 + 12);
        let block = [&self.u32(kind)[..], &length, body, &length].concat();
        self.file.extend(block);
    }

    fn u16(&self, value: u16) -> [u8; 2] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u32(&self, value: u32) -> [u8; 4] {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }
}

#[test]
fn pcapng_is_read_in_both_byte_orders() {
    for big_endian in [false, true] {
        let mut blocks = Blocks::new(big_endian);
        blocks.interface(1, 9, 0);
        blocks.interface(101, 6, 100);
        blocks.block(5, &[0; 12]);
        blocks.packet(0, 1_500_000_000, &good_frame());
        blocks.packet(1, 2_500_000, &good_frame()[14..]);
        blocks.simple_packet(&good_frame());
        let (found, error, _) = read(&blocks.file[..]);
        assert!(error.is_none());
        let times: Vec<_> = found.iter().map(|f| f.time.map(|time| time.to_string())).collect();
        assert_eq!(times, [Some("1.500000000".into()), Some("102.500000".into()), None]);
        assert_eq!(found.iter().map(|f| f.frame).collect::<Vec<_>>(), [1, 2, 3]);
        assert!(found.iter().all(|f| f.integrity == Integrity::Ok));
    }
}

#[test]
fn a_second_section_has_interfaces_of_its_own() {
    let mut blocks = Blocks::new(false);
    blocks.interface(1, 6, 0);
    blocks.packet(0, 1, &good_frame());
    blocks.section();
    blocks.interface(101, 6, 0);
    blocks.packet(0, 2, &good_frame()[14..]);
    assert_eq!(read(&blocks.file[..]).0.len(), 2);
}

#[test]
fn an_interface_that_can_not_be_read_is_counted_beside_one_that_can() {
    let mut blocks = Blocks::new(false);
    blocks.interface(1, 6, 0);
    blocks.interface(247, 6, 0);
    blocks.packet(1, 1, &good_frame());
    blocks.packet(0, 2, &good_frame());
    let (found, error, tally) = read(&blocks.file[..]);
    assert!(error.is_none());
    assert_eq!((found.len(), tally.unreadable_link), (1, 1));
}

#[test]
fn a_file_of_another_link_type_is_refused() {
    let mut blocks = Blocks::new(false);
    blocks.interface(247, 6, 0);
    for file in [blocks.file, pcap(247, &[]), pcap(247, &[good_frame()])] {
        let (_, error, _) = read(&file[..]);
        assert!(matches!(error, Some(CaptureError::Link(LinkType::Other(247)))));
    }
}

#[test]
fn what_is_no_capture_is_refused_at_once() {
    let open = |file: &'static [u8]| Messages::open(file).err().unwrap();
    assert!(matches!(open(b""), CaptureError::Empty));
    assert!(matches!(open(b"hi"), CaptureError::NotACapture));
    assert!(matches!(open(b"# a text file, longer than a header"), CaptureError::NotACapture));
    assert!(matches!(open(b"\xd4\xc3\xb2\xa1\x02\x00"), CaptureError::HeaderCutShort));
    assert!(matches!(open(b"\x0a\x0d\x0d\x0a\x1c\x00"), CaptureError::HeaderCutShort));
}

#[test]
fn a_file_that_is_cut_short_gives_all_before() {
    let file = pcap(ETHERNET, &[good_frame(), good_frame()]);
    let second = file.len() - 16 - good_frame().len();
    for length in second + 1..file.len() {
        let (found, error, _) = read(&file[..length]);
        assert_eq!(found.len(), 1);
        assert!(matches!(error, Some(CaptureError::CutShort { packet: 2 })));
    }
    assert!(read(&file[..second]).1.is_none(), "cut between packets is not cut");
}

#[test]
fn a_packet_longer_than_any_is_damage_and_costs_no_memory() {
    let mut file = pcap(ETHERNET, &[good_frame()]);
    file.extend([0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
    let endless = (&file[..]).chain(std::io::repeat(0));
    let (found, error, _) = read(endless);
    assert_eq!(found.len(), 1);
    assert!(matches!(error, Some(CaptureError::Damaged { after: 1 })));
}

#[test]
fn a_packet_of_an_unknown_interface_is_damage() {
    let mut blocks = Blocks::new(false);
    blocks.interface(1, 6, 0);
    blocks.packet(7, 1, &good_frame());
    assert!(matches!(read(&blocks.file[..]).1, Some(CaptureError::Damaged { after: 0 })));
}

#[test]
fn a_jumbo_packet_is_read() {
    let file = pcap(ETHERNET, &[vec![0; 200_000], good_frame()]);
    let (found, error, tally) = read(&file[..]);
    assert!(error.is_none());
    assert_eq!((found.len(), tally.packets), (1, 2));
}
