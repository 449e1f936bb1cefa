//! MADs travel, and look on the wire as they should.

use std::net::SocketAddr;

use nanocm_core::wire::icrc::{Integrity, Ip, crc32};
use nanocm_core::wire::packet::{frame_packet, parse_packet};
use nanocm_core::wire::roce::{frame, unframe};
use socket2::{Domain, Protocol, Socket, Type};

use crate::capture::{Capture, integrity};
use crate::netns::isolated;
use crate::rig::{Endpoint, KINDS, PAIRS, ip, mad, outgoing, path};

#[test]
fn mads_travel_both_ways_between_all_kinds_and_addresses() {
    isolated(|| {
        for (a_kind, b_kind) in KINDS.iter().flat_map(|a| KINDS.map(|b| (*a, b))) {
            for (a, b) in PAIRS {
                let mut left = Endpoint::open(a_kind, a);
                let mut right = Endpoint::open(b_kind, b);
                assert!(!right.is_readable());
                assert_eq!(left.send(&[outgoing(path(a, b), 1), outgoing(path(a, b), 2)]), 2);
                right.until(|right| right.mads.len() == 2);
                assert!(!right.is_readable());
                assert_eq!(right.send(&[outgoing(path(b, a), 3)]), 1);
                left.until(|left| left.mads.len() == 1);

                let mut came = path(b, a);
                came.hop_limit = 64;
                assert_eq!(
                    right.mads[0],
                    (came, mad(1), Integrity::Ok),
                    "{a_kind} {a} {b_kind} {b}"
                );
                assert_eq!(right.mads[1], (came, mad(2), Integrity::Ok));
                assert_eq!(left.mads[0].0, path(a, b));
                assert_eq!(left.failures, []);
                assert_eq!(
                    (left.transport.counters().sent, left.transport.counters().received),
                    (2, 1)
                );
                assert_eq!(right.transport.counters().received, 2);
            }
        }
    });
}

#[test]
fn an_endpoint_can_send_to_itself() {
    isolated(|| {
        for kind in KINDS {
            let mut endpoint = Endpoint::open(kind, "127.0.0.1");
            endpoint.send(&[outgoing(path("127.0.0.1", "127.0.0.1"), 7)]);
            endpoint.until(|endpoint| endpoint.mads.len() == 1);
        }
    });
}

#[test]
fn packets_have_identification_zero_df_no_udp_checksum_and_a_right_icrc() {
    isolated(|| {
        for kind in KINDS {
            for (a, b) in PAIRS {
                let mut sender = Endpoint::open(kind, a);
                let mut capture = Capture::start();
                // Twice: a counter would show. A flow label gives `raw` another source port.
                for flow_label in [0, 0x27486] {
                    let mut there = path(a, b);
                    there.flow_label = flow_label;
                    assert_eq!(sender.send(&[outgoing(there, 9)]), 1);
                    let octets = capture.next();
                    let packet = parse_packet(&octets).unwrap();
                    if let Ip::V4 { id, flags_fragment, .. } = packet.ip {
                        assert_eq!((id, flags_fragment), (0, 0x4000));
                    }
                    let ip_header = if ip(a).is_ipv4() { 20 } else { 40 };
                    assert_eq!(octets[ip_header + 6..ip_header + 8], [0, 0], "UDP checksum");
                    let source_port = match (kind, flow_label) {
                        ("udp", _) => 4791,
                        (_, 0) => 55_410,
                        _ => 0xf48f,
                    };
                    assert_eq!(packet.udp_source_port, source_port);
                    assert_eq!((packet.hop_limit, packet.flow_label), (64, 0));
                    assert_eq!(integrity(&packet), Integrity::Ok, "{kind} {a}");
                    assert_eq!(*unframe(packet.udp_payload).unwrap().mad, mad(9));
                    // The loopback interface shows a packet going out and coming in.
                    assert_eq!(capture.next(), octets);
                }
            }
        }
    });
}

#[test]
fn traffic_class_and_hop_limit_go_with_the_packet() {
    isolated(|| {
        for (a_kind, b_kind) in [("udp", "udp"), ("raw", "raw"), ("udp", "raw"), ("raw", "udp")] {
            for (a, b) in PAIRS {
                let mut left = Endpoint::open(a_kind, a);
                let mut right = Endpoint::open(b_kind, b);
                let marks = [(0, 64), (0xb8, 64), (0x03, 1), (0xff, 255), (0, 0)];
                let batch = marks.map(|(traffic_class, hop_limit)| {
                    let mut there = path(a, b);
                    (there.traffic_class, there.hop_limit) = (traffic_class, hop_limit);
                    outgoing(there, 1)
                });
                assert_eq!(left.send(&batch), batch.len());
                right.until(|right| right.mads.len() == batch.len());
                for ((came, ..), (traffic_class, hop_limit)) in right.mads.iter().zip(marks) {
                    let hop_limit = if hop_limit == 0 { 64 } else { hop_limit };
                    assert_eq!((came.traffic_class, came.hop_limit), (traffic_class, hop_limit));
                }
            }
        }
    });
}

/// What Linux sends: identifications from a counter, and port 55410.
#[test]
fn any_ipv4_identification_and_source_port_is_accepted() {
    isolated(|| {
        for kind in KINDS {
            let mut receiver = Endpoint::open(kind, "127.0.0.2");
            let raw = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)).unwrap();
            raw.set_header_included_v4(true).unwrap();
            for (id, port) in [(0x6481, 55_410), (1, 1000), (0xffff, 4791), (0x8000, 0xffff)] {
                let mut packet = [0; 328];
                let there = path("127.0.0.1", "127.0.0.2");
                let packet = frame_packet(&there, id, port, 1, &mad(1), crc32, &mut packet);
                raw.send_to(packet, &sockaddr("127.0.0.2")).unwrap();
            }
            receiver.until(|receiver| receiver.mads.len() == 4);
            assert!(receiver.mads.iter().all(|(.., integrity)| *integrity == Integrity::Ok));
        }
    });
}

#[test]
fn valid_udp_checksums_are_accepted_too() {
    isolated(|| {
        for kind in KINDS {
            for (a, b) in PAIRS {
                let mut receiver = Endpoint::open(kind, b);
                // Unlike our own sockets it computes the checksum.
                let plain = crate::errors::plain_sender(a);
                let mut octets = [0; 280];
                let there = path(a, b);
                let ip_header = Ip::new(there.local, there.remote);
                frame(&ip_header, 4791, 0, &mad(5), crc32, &mut octets);
                plain.send_to(&octets, (ip(b), 4791)).unwrap();
                receiver.until(|receiver| receiver.mads.len() == 1);
            }
        }
    });
}

#[test]
fn a_batch_over_several_addresses_and_families_is_sent_in_order() {
    isolated(|| {
        for kind in KINDS {
            let mut sender = Endpoint::open(kind, "127.0.0.1");
            sender.transport.open(ip("fd00::1"), 0).unwrap();
            let mut receiver = Endpoint::open("udp", "127.0.0.2");
            receiver.transport.open(ip("fd00::2"), 0).unwrap();
            let batch: Vec<_> = (0..500)
                .map(|number| match number % 7 {
                    0..=2 => outgoing(path("fd00::1", "fd00::2"), number),
                    _ => outgoing(path("127.0.0.1", "127.0.0.2"), number),
                })
                .collect();
            assert_eq!(sender.send(&batch), 500);
            receiver.until(|receiver| receiver.mads.len() == 500);
            for v4 in [true, false] {
                let here = receiver.mads.iter().filter(|(path, ..)| path.local.is_v4() == v4);
                let numbers = here.map(|(_, mad, _)| [mad[26], mad[27]]);
                assert!(numbers.is_sorted());
            }
        }
    });
}

#[test]
fn a_burst_of_5000_is_not_lost() {
    isolated(|| {
        for kind in KINDS {
            let mut sender = Endpoint::open(kind, "127.0.0.1");
            let mut receiver = Endpoint::open(kind, "127.0.0.2");
            let batch: Vec<_> =
                (0..5000).map(|i| outgoing(path("127.0.0.1", "127.0.0.2"), i)).collect();
            assert_eq!(sender.send(&batch), 5000);
            receiver.drain();
            let lost = receiver.transport.counters().rx_overflow;
            // Without privileges net.core.rmem_max may allow less than 8 MiB.
            assert!(lost == 0 || !crate::netns::is_root(), "{lost} lost");
            assert_eq!(receiver.mads.len() as u64 + lost, 5000);
        }
    });
}

#[test]
fn what_does_not_fit_the_receive_buffer_is_counted() {
    isolated(|| {
        for kind in KINDS {
            let mut sender = Endpoint::open(kind, "127.0.0.1");
            let mut receiver = Endpoint::open(kind, "127.0.0.2");
            let batch: Vec<_> =
                (0..20_000).map(|i| outgoing(path("127.0.0.1", "127.0.0.2"), i)).collect();
            for round in 1..=2 {
                assert_eq!(sender.send(&batch), 20_000);
                receiver.drain();
                // The loss is told with the first datagram that came after it.
                sender.send(&batch[..1]);
                receiver.drain();
                let lost = receiver.transport.counters().rx_overflow;
                assert!(lost > 0);
                assert_eq!(receiver.mads.len() as u64 + lost, round * 20_001, "{kind}");
            }
        }
    });
}

#[test]
fn link_local_addresses_work_with_their_scope() {
    isolated(|| {
        crate::netns::ip("link add d0 type veth peer name d1");
        crate::netns::ip("link set d0 up");
        crate::netns::ip("link set d1 up");
        crate::netns::ip("address add fe80::a/64 dev d0 nodad");
        crate::netns::ip("address add fe80::b/64 dev d0 nodad");
        for (from, to) in [("fe80::a%d0", "fe80::b%d0"), ("fe80::b%d0", "fe80::a%d0")] {
            crate::netns::wait_for_route(from, to);
        }
        let scope = crate::netns::index_of("d0");
        for (a_kind, b_kind) in [("udp", "raw"), ("raw", "udp")] {
            let mut sender = Endpoint::new(a_kind);
            let mut receiver = Endpoint::new(b_kind);
            sender.transport.open(ip("fe80::a"), scope).unwrap();
            receiver.transport.open(ip("fe80::b"), scope).unwrap();
            let mut there = path("fe80::a", "fe80::b");
            there.scope = scope;
            assert_eq!(sender.send(&[outgoing(there, 1)]), 1);
            receiver.until(|receiver| receiver.mads.len() == 1);
            let mut back = path("fe80::b", "fe80::a");
            back.scope = scope;
            assert_eq!(receiver.mads[0].0, back);
            receiver.send(&[outgoing(back, 2)]);
            sender.until(|sender| sender.mads.len() == 1);
        }
    });
}

#[test]
fn a_route_has_a_source_and_an_mtu() {
    isolated(|| {
        let mut udp = Endpoint::new("udp");
        let there: SocketAddr = "127.0.0.9:4420".parse().unwrap();
        let source = udp.transport.source_for(None, there).unwrap();
        assert_eq!((source.address.gid.to_ip(), source.path_mtu_code()), (ip("127.0.0.1"), 5));
        crate::netns::ip("link add d0 mtu 1500 type veth peer name d1");
        crate::netns::ip("link set d0 up");
        crate::netns::ip("link set d1 up");
        crate::netns::ip("address add 10.9.0.1/24 dev d0");
        crate::netns::ip("address add fd09::1/64 dev d0 nodad");
        for (there, here) in [("10.9.0.2:1", "10.9.0.1"), ("[fd09::2]:1", "fd09::1")] {
            let source = udp.transport.source_for(None, there.parse().unwrap()).unwrap();
            assert_eq!((source.address.gid.to_ip(), source.path_mtu_code()), (ip(here), 3));
        }
        let error = udp.transport.source_for(None, "192.0.2.1:1".parse().unwrap()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENETUNREACH));
    });
}

fn sockaddr(address: &str) -> socket2::SockAddr {
    SocketAddr::new(ip(address), 0).into()
}
