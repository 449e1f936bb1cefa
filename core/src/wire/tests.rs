//! Tests of the codecs.

use super::*;
use crate::addr::ServiceId;

/// The REQ of `rping-v4.pcap`, frame 17.
fn linux_req() -> Mad {
    let mut mad = [0; MAD_LEN];
    let head = hex(concat!(
        "010702030000000000000002e7a2a7390010000000000000",
        "39a7a2e7000000000000000001061c06505400fffe000002",
        "00000000000000000000110100000001000000a0a07c2aa7",
        "ffff37f0ffffffff",
        "00000000000000000000ffff0a63000200000000000000000000ffff0a630001",
        "2748600000400098",
    ));
    let data = hex("004097800000000000000000000000000a6300020000000000000000000000000a630001");
    mad[..head.len()].copy_from_slice(&head);
    mad[0xa4..0xa4 + data.len()].copy_from_slice(&data);
    mad
}

fn hex(digits: &str) -> Vec<u8> {
    (0..digits.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap())
        .collect()
}

#[test]
fn the_req_that_linux_sends_reads_as_the_fact_sheet_says() {
    let mad = linux_req();
    let Message::Req(req) = Message::parse(&mad).unwrap() else { panic!("not a REQ") };
    assert_eq!(req.transaction_id(), 0x0000_0002_e7a2_a739);
    assert_eq!(req.local_comm_id(), 0x39a7_a2e7);
    assert_eq!(req.service_id(), ServiceId(0x0106_1c06));
    assert_eq!(req.local_ca_guid(), 0x5054_00ff_fe00_0002);
    assert_eq!(req.local_qpn(), 0x11);
    assert_eq!((req.responder_resources(), req.initiator_depth()), (1, 1));
    assert_eq!((req.remote_cm_response_timeout(), req.local_cm_response_timeout()), (20, 20));
    assert_eq!(req.starting_psn(), 0xa07c2a);
    assert_eq!((req.retry_count(), req.rnr_retry_count(), req.max_cm_retries()), (7, 7, 15));
    assert_eq!((req.partition_key(), req.path_mtu()), (0xffff, 3));
    assert_eq!((req.primary_local_lid(), req.primary_remote_lid()), (0xffff, 0xffff));
    assert_eq!(req.primary_local_gid().to_ip(), "10.99.0.2".parse::<std::net::IpAddr>().unwrap());
    assert_eq!(req.primary_flow_label(), 0x27486);
    assert_eq!((req.primary_hop_limit(), req.primary_local_ack_timeout()), (64, 19));
    let header = req.ip_cm().unwrap();
    assert_eq!(header.source_port, 0x9780);
    assert_eq!(header.source.to_string(), "10.99.0.2");
    assert_eq!(header.destination.to_string(), "10.99.0.1");
}
