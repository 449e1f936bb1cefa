//! MAD header, the eleven messages, codes and the IP CM header.

use std::collections::HashSet;
use std::net::IpAddr;

use super::*;
use crate::wire::check::{check, check_names};
use crate::wire::field::{FieldInfo, Kind};

fn gid(ip: &str) -> Gid {
    ip.parse::<IpAddr>().unwrap().into()
}

#[test]
fn the_req_that_linux_sends_reads_as_the_fact_sheet_says() {
    let mad = captured_mad("REQ");
    let Message::Req(req) = Message::parse(&mad).unwrap() else { panic!("not a REQ") };
    assert_eq!(req.transaction_id(), 0x0000_0002_e7a2_a739);
    assert_eq!((req.local_comm_id(), req.ece_vendor_id()), (0x39a7_a2e7, 0));
    assert_eq!(req.service_id(), ServiceId(0x0106_1c06));
    assert_eq!(req.local_ca_guid(), 0x5054_00ff_fe00_0002);
    assert_eq!((req.local_qkey(), req.local_qpn()), (0, 0x11));
    assert_eq!((req.responder_resources(), req.initiator_depth()), (1, 1));
    assert_eq!((req.local_eecn(), req.remote_eecn()), (0, 0));
    assert_eq!((req.remote_cm_response_timeout(), req.local_cm_response_timeout()), (20, 20));
    assert_eq!((req.transport_service_type(), req.extended_transport_type()), (0, 0));
    assert!(!req.end_to_end_flow_control() && !req.rdc_exists() && !req.srq());
    assert_eq!(req.starting_psn(), 0xa0_7c2a);
    assert_eq!((req.retry_count(), req.rnr_retry_count(), req.max_cm_retries()), (7, 7, 15));
    assert_eq!((req.partition_key(), req.path_mtu()), (0xffff, 3));
    assert_eq!((req.primary_local_lid(), req.primary_remote_lid()), (0xffff, 0xffff));
    assert_eq!(req.primary_local_gid().to_string(), "::ffff:10.99.0.2");
    assert_eq!(req.primary_remote_gid().to_string(), "::ffff:10.99.0.1");
    assert_eq!((req.primary_flow_label(), req.primary_packet_rate()), (0x27486, 0));
    assert_eq!((req.primary_traffic_class(), req.primary_hop_limit()), (0, 64));
    assert_eq!((req.primary_sl(), req.primary_subnet_local()), (0, false));
    assert_eq!(req.primary_local_ack_timeout(), 19);
    assert_eq!((req.alternate_local_gid(), req.alternate_local_lid()), (Gid::ZERO, 0));
    assert!(!req.sap_supported());
    let header = req.ip_cm().unwrap();
    assert_eq!(header.source_port, 0x9780);
    assert_eq!(header.source, gid("10.99.0.2"));
    assert_eq!(header.destination, gid("10.99.0.1"));
    assert_eq!(req.consumer_data(), &[0; 56]);
}

#[test]
fn the_other_messages_that_linux_sends_read_as_the_fact_sheet_says() {
    let mad = captured_mad("REP");
    let Message::Rep(rep) = Message::parse(&mad).unwrap() else { panic!("not a REP") };
    assert_eq!((rep.local_qpn(), rep.target_ack_delay(), rep.rnr_retry_count()), (0x11, 15, 7));
    assert_eq!((rep.responder_resources(), rep.initiator_depth()), (1, 1));
    assert_eq!((rep.ece_vendor_id(), rep.local_ca_guid()), (0, 0x5054_00ff_fe00_0001));

    let mad = captured_mad("MRA");
    let Message::Mra(mra) = Message::parse(&mad).unwrap() else { panic!("not an MRA") };
    assert_eq!((mra.message_mraed(), mra.service_timeout()), (MessageKind::REQ, 24));

    let mad = captured_mad("REJ");
    let Message::Rej(rej) = Message::parse(&mad).unwrap() else { panic!("not a REJ") };
    assert_eq!((rej.reason(), rej.message_rejected()), (RejectReason::TIMEOUT, MessageKind::OTHER));
    assert_eq!((rej.remote_comm_id(), rej.reject_info_length()), (0, 8));
    assert_eq!(rej.additional_info(), 0x5054_00ff_fe00_0002u64.to_be_bytes());

    let mad = captured_mad("SIDR_REP");
    let Message::SidrRep(sidr) = Message::parse(&mad).unwrap() else { panic!("not a SIDR_REP") };
    assert_eq!((sidr.status(), sidr.qkey()), (SidrStatus::VALID, 0x0123_4567));
    assert_eq!(sidr.service_id(), ServiceId(0x0111_1c06));
}

/// Messages that no capture has, laid out by hand from the fact sheet (§2.1, §2.6, §2.7).
#[test]
fn alternate_paths_stand_where_the_fact_sheet_puts_them() {
    let gid = |last| Gid([0xfe, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
    let path = "fe000000000000000000000000000001fe000000000000000000000000000002";
    let mut mad = [0; MAD_LEN];
    Lap::emit(&mut mad, 0)
        .set_local_comm_id(0x1111_1111)
        .set_remote_comm_id(0x2222_2222)
        .set_remote_qpn(0x33_3333)
        .set_remote_cm_response_timeout(20)
        .set_alternate_local_lid(0x4444)
        .set_alternate_remote_lid(0x5555)
        .set_alternate_local_gid(gid(1))
        .set_alternate_remote_gid(gid(2))
        .set_alternate_flow_label(0x1_2345)
        .set_alternate_traffic_class(0x66)
        .set_alternate_hop_limit(0x77)
        .set_alternate_packet_rate(0x2a)
        .set_alternate_sl(9)
        .set_alternate_subnet_local(true)
        .set_alternate_local_ack_timeout(17);
    let expected =
        ["1111111122222222 00000000 333333a0 00000000 44445555", path, "123450 66 77 2a 98 88"];
    assert_eq!(mad[24..88], hex(&expected.concat().replace(' ', "")));

    Req::emit(&mut mad, 0)
        .set_alternate_local_lid(0x4444)
        .set_alternate_remote_lid(0x5555)
        .set_alternate_local_gid(gid(1))
        .set_alternate_remote_gid(gid(2))
        .set_alternate_flow_label(0x1_2345)
        .set_alternate_traffic_class(0x66)
        .set_alternate_hop_limit(0x77)
        .set_alternate_packet_rate(0x2a)
        .set_alternate_sl(9)
        .set_alternate_subnet_local(true)
        .set_alternate_local_ack_timeout(17)
        .set_sap_supported(true);
    let expected = ["44445555", path, "123450 2a 66 77 98 8c"];
    assert_eq!(mad[24 + 96..24 + 140], hex(&expected.concat().replace(' ', "")));

    Apr::emit(&mut mad, 0)
        .set_local_comm_id(0x1111_1111)
        .set_remote_comm_id(0x2222_2222)
        .set_additional_info_length(2)
        .set_ap_status(ApStatus::LID_REJECTED)
        .set_additional_info(&[0x44; 72]);
    assert_eq!(mad[24..40], hex("11111111222222220207000044444444"));
    assert_eq!((mad[24 + 83], mad[24 + 84]), (0x44, 0));
}

#[test]
fn a_captured_message_re_encodes_to_the_same_octets() {
    for captured in captured() {
        let theirs = *captured.mad();
        let message = Message::parse(&theirs).unwrap();
        let table = TABLES.iter().find(|table| table.attribute == message.attribute()).unwrap();
        let mut ours = [0xa5; MAD_LEN];
        (table.emit)(&mut ours, message.transaction_id());
        for field in table.handles {
            (field.copy)(&theirs, &mut ours);
        }
        assert_eq!(ours, theirs, "{}", captured.name);
    }
}

#[test]
fn every_field_reads_back_what_was_written() {
    let mut random = Random(1);
    for table in &TABLES {
        for _ in 0..50 {
            let mut mad = random.octets();
            (table.emit)(&mut mad, random.next());
            for field in table.handles {
                (field.fill)(&mut mad, &mut |width| random.bits(width));
            }
            assert_eq!(Message::parse(&mad).unwrap().attribute(), table.attribute);
            let mut again = mad;
            for field in table.handles {
                (field.copy)(&mad, &mut again);
            }
            assert_eq!(mad, again, "{}: a getter disagrees with its setter", table.attribute);
        }
    }
}

#[test]
fn writing_one_field_leaves_every_other_bit_alone() {
    let mut random = Random(2);
    for table in &TABLES {
        for handle in table.handles {
            let field = table.fields.iter().find(|field| field.name == handle.name).unwrap();
            for _ in 0..20 {
                let before: Mad = random.octets();
                let mut after = before;
                (handle.fill)(&mut after, &mut |width| random.bits(width));
                for bit in 0..MAD_LEN * 8 {
                    let inside = (field.position..field.position + field.width).contains(&bit);
                    let differs = (before[bit / 8] ^ after[bit / 8]) >> (7 - bit % 8) & 1 != 0;
                    assert!(inside || !differs, "{} {}", table.attribute, field.name);
                }
            }
        }
    }
}

#[test]
fn a_value_too_wide_for_its_field_is_cut_to_it() {
    let mut mad = [0; MAD_LEN];
    let mut req = Req::emit(&mut mad, 0);
    req.set_local_qpn(u32::MAX).set_retry_count(0xff).set_primary_flow_label(u32::MAX);
    let req = Req(&mad);
    assert_eq!((req.local_qpn(), req.responder_resources()), (0xff_ffff, 0));
    assert_eq!((req.retry_count(), req.local_cm_response_timeout()), (7, 0));
    assert_eq!((req.primary_flow_label(), req.primary_packet_rate()), (0xf_ffff, 0));
    assert_eq!(mad.iter().map(|octet| octet.count_ones()).sum::<u32>(), {
        24 + 3 + 20 + [1u32, 7, 2, 3, 0x10].iter().map(|v| v.count_ones()).sum::<u32>()
    });
}

#[test]
fn a_message_begins_with_the_header_of_its_kind_and_zeros() {
    let attributes =
        [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a].map(Attribute);
    let names =
        ["REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"];
    for (attribute, name) in attributes.into_iter().zip(names) {
        let table = TABLES.iter().find(|table| table.attribute == attribute).unwrap();
        let mut mad = [0xff; MAD_LEN];
        (table.emit)(&mut mad, 0x0102_0304_0506_0708);
        let mut expected = [0; MAD_LEN];
        expected[..16].copy_from_slice(&[1, 7, 2, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
        expected[16..18].copy_from_slice(&attribute.0.to_be_bytes());
        assert_eq!(mad, expected, "{name}");
        assert_eq!(attribute.name(), Some(name));
    }
}

#[test]
fn each_attribute_names_its_own_message() {
    let kinds: HashSet<u16> = TABLES.iter().map(|table| table.attribute.0).collect();
    assert_eq!(kinds.len(), TABLES.len());
    let mut mad = [0; MAD_LEN];
    SidrReq::emit(&mut mad, 1);
    assert!(matches!(Message::parse(&mad), Ok(Message::SidrReq(_))));
    Drep::emit(&mut mad, 1);
    assert!(matches!(Message::parse(&mad), Ok(Message::Drep(_))));
}

#[test]
fn a_datagram_of_another_length_than_256_is_refused() {
    let octets = [0xff; 4097];
    for length in (0..=4096).filter(|length| *length != MAD_LEN) {
        assert_eq!(Message::parse(&octets[..length]).unwrap_err(), MadError::Length(length));
    }
}

#[test]
fn each_fault_of_the_header_has_its_name() {
    let table: [(usize, u8, MadError); 9] = [
        (0, 2, MadError::BaseVersion(2)),
        (1, 3, MadError::Class(3)),
        (2, 1, MadError::ClassVersion(1)),
        (2, 3, MadError::ClassVersion(3)),
        (3, 0x83, MadError::Method(0x83)),
        (3, 1, MadError::Method(1)),
        (16, 1, MadError::Attribute(0x0110)),
        (17, 1, MadError::Attribute(1)),
        (17, 0x1b, MadError::Attribute(0x1b)),
    ];
    let good = captured_mad("REQ");
    for (at, octet, error) in table {
        let mut mad = good;
        mad[at] = octet;
        assert_eq!(Message::parse(&mad).unwrap_err(), error);
        // The faults are found in the order of the header: one further back changes nothing.
        mad[17] = 0x77;
        if at < 16 {
            assert_eq!(Message::parse(&mad).unwrap_err(), error);
        }
    }
}

#[test]
fn status_modifier_and_reserved_bits_are_never_a_reason_to_refuse() {
    for table in &TABLES {
        let mut mad = [0; MAD_LEN];
        (table.emit)(&mut mad, 7);
        Header(&mut mad)
            .set_status(0xffff)
            .set_class_specific(0xffff)
            .set_attribute_modifier(u32::MAX);
        mad[18..20].fill(0xff);
        mad[24..].fill(0xff);
        assert_eq!(Message::parse(&mad).unwrap().attribute(), table.attribute);
    }
}

#[test]
fn private_data_is_zero_filled_and_its_limit_is_named() {
    let limits = [92, 222, 148, 196, 224, 220, 224, 216, 136, 168, 148];
    for (table, limit) in TABLES.iter().zip(limits) {
        assert_eq!(table.private_data, limit, "{}", table.attribute);
        let mut mad = [0xff; MAD_LEN];
        (table.set_private_data)(&mut mad, &[1, 2, 3]).unwrap();
        assert_eq!(mad[MAD_LEN - limit..][..4], [1, 2, 3, 0]);
        assert!(mad[MAD_LEN - limit + 3..].iter().all(|octet| *octet == 0));
        assert!(mad[..MAD_LEN - limit].iter().all(|octet| *octet == 0xff));

        let before = mad;
        let refused = (table.set_private_data)(&mut mad, &[9; 256][..limit + 1]);
        assert_eq!(refused, Err(PrivateDataTooLong { limit }));
        assert_eq!(mad, before, "a refused call changed something");
        (table.set_private_data)(&mut mad, &[9; 256][..limit]).unwrap();
        assert!(mad[MAD_LEN - limit..].iter().all(|octet| *octet == 9));
    }
}

#[test]
fn ece_vendor_ids_are_put_together_from_their_pieces() {
    let mut mad = [0; MAD_LEN];
    Rep::emit(&mut mad, 0).set_ece_vendor_id(0xff12_3456);
    assert_eq!(Rep(&mad).ece_vendor_id(), 0x12_3456);
    assert_eq!((mad[24 + 15], mad[24 + 19], mad[24 + 23]), (0x12, 0x34, 0x56));
    assert_eq!((Rep(&mad).local_qpn(), Rep(&mad).starting_psn()), (0, 0));
    SidrRep::emit(&mut mad, 0).set_ece_vendor_id(0xff12_3456);
    assert_eq!(SidrRep(&mad).ece_vendor_id(), 0x12_3456);
    assert_eq!((mad[24 + 6], mad[24 + 7], mad[24 + 11]), (0x12, 0x34, 0x56));
}

#[test]
fn additional_reject_information_is_cut_to_its_length() {
    let mut mad = [0; MAD_LEN];
    let mut rej = Rej::emit(&mut mad, 0);
    rej.set_additional_info(&[7; 16]);
    assert_eq!(rej.reject_info_length(), 16);
    for (length, seen) in [(0, 0), (5, 5), (72, 72), (73, 72), (127, 72)] {
        rej.set_reject_info_length(length);
        assert_eq!(Rej(&*rej.0).additional_info().len(), seen);
    }
    rej.set_additional_info(&[7; 100]);
    assert_eq!((rej.reject_info_length(), *rej.ari()), (72, [7; 72]));
}

#[test]
fn the_view_loses_nothing() {
    let mut random = Random(3);
    let unknown = [0, 1, 0x1b, 0x7777].map(Attribute);
    for attribute in TABLES.iter().map(|table| table.attribute).chain(unknown) {
        let mut mad: Mad = random.octets();
        Header(&mut mad).set_attribute(attribute).set_class(7);
        let mut bits = String::new();
        for (_, value) in View::new(&mad).fields() {
            let octets = |octets: &[u8]| octets.iter().map(|o| format!("{o:08b}")).collect();
            let digits: String = match value {
                FieldValue::Reserved { value, width }
                | FieldValue::Number { value, width }
                | FieldValue::Code { value, width, .. } => {
                    format!("{value:0width$b}", width = width as usize)
                }
                FieldValue::Gid(gid) => octets(&gid.0),
                FieldValue::Octets(field) => octets(field),
            };
            bits += &digits;
        }
        let expected: String = mad.iter().map(|octet| format!("{octet:08b}")).collect();
        assert_eq!(bits, expected, "{attribute}");
    }
}

#[test]
fn a_view_prints_one_line() {
    let table = [
        (
            "REQ",
            "REQ tid 0x00000002e7a2a739 local_comm_id 0x39a7a2e7 service_id 0x0000000001061c06 \
             local_qpn 0x000011 starting_psn 0xa07c2a primary_local_gid ::ffff:10.99.0.2 \
             primary_remote_gid ::ffff:10.99.0.1",
        ),
        (
            "REJ",
            "REJ tid 0x00000002c8a21171 local_comm_id 0x7111a2c8 remote_comm_id 0x00000000 \
             message_rejected 2 (other) reason 4 (timeout)",
        ),
    ];
    for (name, line) in table {
        let mad = captured_mad(name);
        assert_eq!(View::new(&mad).to_string(), line);
        assert_eq!(format!("{:?}", Message::parse(&mad).unwrap().view()), line);
    }
}

#[test]
fn a_view_of_a_strange_mad_prints_what_it_can() {
    let mut mad = [0; MAD_LEN];
    Header(&mut mad).set_class(7).set_attribute(Attribute(0x77)).set_transaction_id(5);
    assert_eq!(View::new(&mad).to_string(), "attribute 0x0077 tid 0x0000000000000005");
    // In the class of the SA the number of MRA is NodeRecord's.
    Header(&mut mad).set_class(3).set_attribute(Attribute::MRA);
    assert_eq!(View::new(&mad).to_string(), "class 0x03 attribute 0x0011 tid 0x0000000000000005");
    assert_eq!(View::new(&mad).fields().last().unwrap().0, "data");
}

#[test]
fn reject_reasons_have_stable_names() {
    let known: Vec<u16> = (1..=33).chain([35]).collect();
    assert_eq!(RejectReason::ALL.iter().map(|reason| reason.0).collect::<Vec<_>>(), known);
    for code in 0..=u16::MAX {
        let reason = RejectReason(code);
        assert!(!reason.text().is_empty());
        assert_eq!(reason.name().is_some(), known.contains(&code));
        if let Some(name) = reason.name() {
            assert_eq!(RejectReason::from_name(name), Some(reason));
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'-'), "{name}");
        }
    }
    assert_eq!(RejectReason::from_name("invalid-service-id"), Some(RejectReason(8)));
    assert_eq!(RejectReason::from_name("no-such-reason"), None);
    assert_eq!(RejectReason::CONSUMER.to_string(), "28 (consumer)");
    assert_eq!(RejectReason(34).to_string(), "34");
}

#[test]
fn an_ip_cm_header_reads_back() {
    for (source, destination, version) in
        [("10.0.0.1", "10.0.0.2", 4), ("fd00::1", "fd00::2", 6), ("0.0.0.0", "127.0.0.1", 4)]
    {
        let header =
            IpCmHeader { source_port: 0x1234, source: gid(source), destination: gid(destination) };
        let octets = header.emit();
        assert_eq!(octets[..4], [0, version << 4, 0x12, 0x34]);
        assert_eq!(IpCmHeader::parse(&octets), Ok(header));
        let mut mad = [0; MAD_LEN];
        let mut req = Req::emit(&mut mad, 0);
        req.set_ip_cm(&header).set_consumer_data(&[5; 56]).unwrap();
        assert_eq!(req.set_consumer_data(&[5; 57]), Err(PrivateDataTooLong { limit: 56 }));
        assert_eq!((Req(&mad).ip_cm(), Req(&mad).consumer_data()), (Ok(header), &[5; 56]));
        let mut sidr = SidrReq::emit(&mut mad, 0);
        sidr.set_ip_cm(&header).set_consumer_data(&[6; 180]).unwrap();
        assert_eq!((SidrReq(&mad).ip_cm(), SidrReq(&mad).consumer_data()), (Ok(header), &[6; 180]));
        assert_eq!(SidrReq(&mad).private_data()[..36], octets);
    }
}

#[test]
fn an_ipv4_address_is_zero_padded_not_mapped() {
    let header = IpCmHeader { source_port: 0, source: gid("1.2.3.4"), destination: gid("5.6.7.8") };
    let octets = header.emit();
    assert_eq!(octets[4..20], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(octets[20..36], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 6, 7, 8]);
    // A receiver does not ask what it is padded with.
    let mut padded = octets;
    padded[4..16].fill(0x5a);
    padded[20..32].fill(0xff);
    assert_eq!(IpCmHeader::parse(&padded), Ok(header));
    assert_eq!(IpCmView::new(&padded).source().to_string(), "1.2.3.4");
}

#[test]
fn an_ip_cm_header_of_another_version_is_named() {
    let mut octets = [0; 92];
    assert_eq!(IpCmHeader::parse(&octets), Err(IpCmError::IpVersion(0)));
    octets[1] = 0x5f;
    assert_eq!(IpCmHeader::parse(&octets), Err(IpCmError::IpVersion(5)));
    octets[0] = 0x21;
    assert_eq!(IpCmHeader::parse(&octets), Err(IpCmError::Version(0x21)));
    assert_eq!(IpCmError::Version(0x21).to_string(), "IP CM header version 2.1, not 0.0");
    assert_eq!((IpCmView::new(&octets).version(), IpCmView::new(&octets).ip_version()), (0x21, 5));
}

const fn row(position: usize, width: usize) -> FieldInfo {
    FieldInfo { name: "row", position, width, kind: Kind::Number }
}

#[test]
fn a_table_whose_fields_follow_each_other_passes() {
    check(&[row(192, 32), row(224, 4), row(228, 4)], 24, 5);
}

#[test]
#[should_panic(expected = "overlaps")]
fn a_table_with_an_overlap_does_not_compile() {
    check(&[row(192, 32), row(223, 1), row(224, 8)], 24, 5);
}

#[test]
#[should_panic(expected = "gap")]
fn a_table_with_a_gap_does_not_compile() {
    check(&[row(192, 32), row(225, 7)], 24, 5);
}

#[test]
#[should_panic(expected = "fill")]
fn a_table_that_ends_early_does_not_compile() {
    check(&[row(192, 32)], 24, 5);
}

#[test]
#[should_panic(expected = "unknown field")]
fn a_summary_of_an_unknown_field_does_not_compile() {
    check_names(&[row(0, 8)], &["row", "rowing"]);
}
