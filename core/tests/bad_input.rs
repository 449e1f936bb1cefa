//! Whatever comes from the wire: no panic, no state change but what a valid message may cause, and a
//! reason counted.

use nanocm_core::addr::{RocePath, ScopedIp};
use nanocm_core::testing::{Brought, Capacity, Peer, Solo, World};
use nanocm_core::wire::{Attribute, Header, Mad, MessageKind, Rej, RejectReason, Req, roce};
use nanocm_core::{ConnState, ConnState::*, Disposition, IgnoreReason, Path, PortEvent};
use std::net::IpAddr;

/// A small generator of the test's own.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn octets(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// All but the counters, which are there to change.
fn state(solo: &Solo<'_>) -> String {
    let all = format!("{:?}", solo.cm);
    let at = all.find("counters: Counters").expect("the counters");
    let end = all[at..].find('}').expect("their end");
    all[..at].to_owned() + &all[at + end..]
}

/// Hands in what must change nothing but this counter.
#[track_caller]
fn ignored(solo: &mut Solo<'_>, peer: &Peer, octets: &[u8], reason: IgnoreReason) {
    let (before, counters) = (state(solo), *solo.cm.counters());
    assert_eq!(solo.hears(peer, octets), Disposition::Ignored(reason));
    assert_eq!(state(solo), before, "{reason:?}");
    let mut expected = counters;
    expected.received += 1;
    expected.ignored[reason as usize] += 1;
    assert_eq!(*solo.cm.counters(), expected, "{reason:?}");
}

/// A connection in each state, all in one engine.
fn everywhere(solo: &mut Solo<'_>) -> Vec<Brought> {
    [
        (ReqSent, true),
        (ReqRcvd, false),
        (RepRcvd, true),
        (RepSent, false),
        (Established, true),
        (Established, false),
        (DreqSent, true),
        (DreqRcvd, false),
        (RejSent, false),
    ]
    .into_iter()
    .map(|(state, active)| solo.bring(state, active))
    .collect()
}

/// One valid message of each kind, for a connection.
fn messages(it: &Brought, ip: IpAddr) -> [(Attribute, Mad); 7] {
    let peer = it.peer;
    [
        (Attribute::REQ, peer.req(ip, 7471)),
        (Attribute::MRA, peer.mra(it.comm_id, MessageKind::REQ, 20)),
        (Attribute::REJ, peer.rej(it.comm_id, MessageKind::OTHER, RejectReason::CONSUMER)),
        (Attribute::REP, peer.rep(it.comm_id)),
        (Attribute::RTU, peer.rtu(it.comm_id)),
        (Attribute::DREQ, peer.dreq(it.comm_id, it.qpn)),
        (Attribute::DREP, peer.drep(it.comm_id)),
    ]
}

fn world() -> World {
    World::new().of(Capacity::of(16))
}

#[test]
fn any_length_but_256_octets_is_no_message() {
    world().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(Established, true);
        let valid = it.peer.dreq(it.comm_id, it.qpn);
        let mut dice = Dice(1);
        let untouched = state(&solo);
        for len in (0..4096).filter(|&len| len != 256) {
            let mut octets = dice.octets(len);
            if len % 2 == 0 {
                // As much of a valid message as there is room for.
                let head = len.min(256);
                octets[..head].copy_from_slice(&valid[..head]);
            }
            let disposition = solo.hears(&it.peer, &octets);
            assert_eq!(disposition, Disposition::Ignored(IgnoreReason::Length), "{len}");
        }
        assert_eq!(state(&solo), untouched);
        assert_eq!(solo.cm.counters().ignored_for(IgnoreReason::Length), 4095);
        solo.says(&[]);
        solo.tells(&[]);
        solo.assert_clean(&[listener, it.id]);
    });
}

#[test]
fn each_fault_of_the_header_has_its_reason() {
    type Spoil = fn(&mut Header<&mut Mad>, u8);
    let faults: [(IgnoreReason, Spoil, u8); 4] = [
        (
            IgnoreReason::BaseVersion,
            |h, v| {
                h.set_base_version(v);
            },
            1,
        ),
        (
            IgnoreReason::Class,
            |h, v| {
                h.set_class(v);
            },
            7,
        ),
        (
            IgnoreReason::ClassVersion,
            |h, v| {
                h.set_class_version(v);
            },
            2,
        ),
        (
            IgnoreReason::Method,
            |h, v| {
                h.set_method(v);
            },
            3,
        ),
    ];
    world().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let all = everywhere(&mut solo);
        for it in &all {
            for (_, valid) in messages(it, solo.ip) {
                for (reason, spoil, right) in faults {
                    for value in [0, 1, 2, 3, 7, 0x81, 0x83, 0xff] {
                        if value != right {
                            let mut mad = valid;
                            spoil(&mut Header(&mut mad), value);
                            ignored(&mut solo, &it.peer, &mad, reason);
                        }
                    }
                }
            }
        }
        solo.says(&[]);
        solo.tells(&[]);
        let ids: Vec<_> = all.iter().map(|it| it.id).collect();
        solo.assert_clean(&[&ids[..], &[listener]].concat());
    });
}

#[test]
fn attributes_that_are_no_connection_message_are_counted() {
    world().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(Established, false);
        for attribute in 0..0x40u16 {
            let mut mad = it.peer.dreq(it.comm_id, it.qpn);
            Header(&mut mad).set_attribute(Attribute(attribute));
            match attribute {
                0x10..=0x17 => {}
                0x18 => ignored(&mut solo, &it.peer, &mad, IgnoreReason::UnknownConnection),
                // LAP and APR, on RoCE.
                0x19..=0x1a => ignored(&mut solo, &it.peer, &mad, IgnoreReason::Unsupported),
                _ => ignored(&mut solo, &it.peer, &mad, IgnoreReason::Attribute),
            }
        }
        solo.assert_clean(&[listener, it.id]);
    });
}

#[test]
fn frames_that_the_host_could_not_unwrap_are_in_the_same_ledger() {
    world().solo(|mut solo| {
        let before = *solo.cm.counters();
        let fault = roce::unframe(&[0; 12]).expect_err("too short");
        assert_eq!(solo.cm.handle_frame_fault(fault), Disposition::Ignored(IgnoreReason::Framing));
        assert_eq!(solo.cm.handle_bad_icrc(), Disposition::Ignored(IgnoreReason::Icrc));
        let after = *solo.cm.counters();
        assert_eq!(after.received, before.received + 2);
        assert_eq!(after.ignored_for(IgnoreReason::Framing), 1);
        assert_eq!(after.ignored_for(IgnoreReason::Icrc), 1);
        solo.assert_clean(&[]);
    });
}

/// Sets every bit that nobody defines, and those that are not ours to judge.
fn decorate(mad: &mut Mad, attribute: Attribute) {
    Header(&mut *mad)
        .set_status(0xffff)
        .set_class_specific(0xffff)
        .set_attribute_modifier(0xdead_beef);
    (mad[18], mad[19]) = (0xff, 0xff);
    // Offsets from the MAD's beginning, masks.
    let reserved: &[(usize, u8)] = match attribute {
        Attribute::REQ => {
            &[(28, 0xff), (48, 0xff), (114, 0x0f), (115, 0xc0), (118, 0x07), (119, 0x07)]
        }
        Attribute::MRA => &[(32, 0x3f), (33, 0x07)],
        Attribute::REJ => &[(32, 0x3f), (33, 0x01)],
        Attribute::REP => &[(51, 0x0f), (39, 0xff), (43, 0xff), (47, 0xff)],
        Attribute::DREQ => &[(35, 0xff)],
        _ => &[],
    };
    for &(at, mask) in reserved {
        mad[at] |= mask;
    }
}

#[test]
fn reserved_bits_and_the_attribute_modifier_are_never_a_reason_to_drop() {
    // ECE lives there. Where each message is at home, and what it leads to.
    let homes: [(Attribute, ConnState, bool, Disposition); 7] = [
        (Attribute::REQ, ReqRcvd, false, Disposition::Duplicate),
        (Attribute::MRA, ReqSent, true, Disposition::Accepted),
        (Attribute::REJ, Established, true, Disposition::Accepted),
        (Attribute::REP, ReqSent, true, Disposition::Accepted),
        (Attribute::RTU, RepSent, false, Disposition::Accepted),
        (Attribute::DREQ, Established, true, Disposition::Accepted),
        (Attribute::DREP, DreqSent, true, Disposition::Accepted),
    ];
    for (attribute, state, active, disposition) in homes {
        world().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            let (_, mut mad) =
                messages(&it, solo.ip).into_iter().find(|(a, _)| *a == attribute).unwrap();
            decorate(&mut mad, attribute);
            assert_eq!(solo.hears(&it.peer, &mad), disposition, "{attribute}");
            solo.assert_clean(&[listener, it.id]);
        });
    }
    world().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let peer = solo.peer();
        let mut req = peer.req(solo.ip, 7471);
        decorate(&mut req, Attribute::REQ);
        assert_eq!(solo.hears(&peer, &req), Disposition::Accepted);
        let request = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.assert_clean(&[listener, request]);
    });
}

#[test]
fn every_message_must_come_from_the_peer() {
    world().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        for it in everywhere(&mut solo) {
            let mut stranger = it.peer;
            stranger.ip = "10.9.9.9".parse().unwrap();
            for (attribute, mad) in messages(&it, solo.ip) {
                // Of a REQ, and where the peer knows no number of ours, there is more to say elsewhere.
                if attribute == Attribute::REQ || it.comm_id == 0 {
                    continue;
                }
                // In REQ_SENT only what names our number alone finds the connection.
                let named = it.states(&solo.cm).1 != ReqSent
                    || matches!(attribute, Attribute::REP | Attribute::MRA);
                if named {
                    ignored(&mut solo, &stranger, &mad, IgnoreReason::WrongPath);
                }
            }
            // Named by its sender's numbers alone, which from elsewhere are nobody's.
            if matches!(it.states(&solo.cm).1, ReqRcvd | RepRcvd | RepSent | Established) {
                let reason = IgnoreReason::UnknownConnection;
                ignored(&mut solo, &stranger, &it.peer.timeout_rej(), reason);
            }
            solo.says(&[]);
            solo.cm.destroy(solo.now, it.id).unwrap();
            let mut mad = [0; 256];
            while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
        }
        solo.tells(&[]);
        solo.assert_clean(&[listener]);
    });
}

#[test]
fn a_rejection_of_our_req_must_come_from_where_it_went() {
    world().solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        let mut stranger = it.peer;
        stranger.ip = "10.9.9.9".parse().unwrap();
        let rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::CONSUMER);
        ignored(&mut solo, &stranger, &rej, IgnoreReason::WrongPath);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn unknown_numbers_are_counted_and_where_it_helps_answered() {
    world().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        for it in everywhere(&mut solo) {
            for wrong in [0, 1, it.comm_id ^ 1, it.comm_id.wrapping_add(1), u32::MAX] {
                let other = Brought { comm_id: wrong, ..it };
                for (attribute, mad) in messages(&other, solo.ip) {
                    if attribute == Attribute::REQ {
                        continue;
                    }
                    let disposition = solo.hears(&it.peer, &mad);
                    let unknown = Disposition::Ignored(IgnoreReason::UnknownConnection);
                    assert_eq!(disposition, unknown, "{attribute} for {wrong:#x}");
                    match attribute {
                        Attribute::DREQ => drop(solo.says(&["DREP"])),
                        Attribute::REP => drop(solo.says(&["REJ"])),
                        _ => drop(solo.says(&[])),
                    }
                }
            }
            solo.cm.destroy(solo.now, it.id).unwrap();
            let mut mad = [0; 256];
            while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
        }
        solo.tells(&[]);
        solo.assert_clean(&[listener]);
    });
}

#[test]
fn a_dreq_for_another_queue_pair_is_counted() {
    world().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        for (state, active) in [(Established, true), (RepSent, false), (DreqSent, true)] {
            let it = solo.bring(state, active);
            let dreq = it.peer.dreq(it.comm_id, it.qpn + 1);
            ignored(&mut solo, &it.peer, &dreq, IgnoreReason::WrongQpn);
            solo.says(&[]);
            solo.cm.destroy(solo.now, it.id).unwrap();
            let mut mad = [0; 256];
            while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
        }
        solo.assert_clean(&[listener]);
    });
}

/// What is wrong with a REQ, and how it is rejected.
type Refusal = (&'static str, fn(&mut Mad), RejectReason, fn(&nanocm_core::Counters) -> u32);

const REFUSALS: [Refusal; 12] = [
    ("version", |mad| mad[164] = 0x01, RejectReason::CONSUMER, |c| c.bad_ip_cm_header),
    ("major version", |mad| mad[164] = 0x10, RejectReason::CONSUMER, |c| c.bad_ip_cm_header),
    ("IP version", |mad| mad[165] = 0x50, RejectReason::CONSUMER, |c| c.bad_ip_cm_header),
    ("no header", |mad| mad[164..].fill(0), RejectReason::CONSUMER, |c| c.bad_ip_cm_header),
    ("foreign destination", |mad| mad[199] ^= 9, RejectReason::CONSUMER, |c| c.bad_ip_cm_header),
    ("from nobody", |mad| mad[168..184].fill(0), RejectReason::CONSUMER, |c| c.bad_ip_cm_header),
    ("from many", |mad| mad[180] = 224, RejectReason::CONSUMER, |c| c.bad_ip_cm_header),
    (
        "foreign GID",
        |mad| mad[24 + 72 + 15] ^= 9,
        RejectReason::INVALID_PRIMARY_GID,
        |c| c.bad_primary_path,
    ),
    (
        "another source",
        |mad| mad[24 + 56 + 15] ^= 9,
        RejectReason::INVALID_PRIMARY_GID,
        |c| c.bad_primary_path,
    ),
    ("UC", |mad| mad[67] |= 2, RejectReason::INVALID_TRANSPORT_TYPE, |c| c.bad_transport),
    ("XRC", |mad| mad[67] |= 6, RejectReason::INVALID_TRANSPORT_TYPE, |c| c.bad_transport),
    ("no service", |mad| mad[39] ^= 1, RejectReason::INVALID_SERVICE_ID, |c| c.no_listener),
];

#[test]
fn a_req_that_cannot_be_served_is_rejected_with_its_reason() {
    for (what, spoil, reason, counter) in REFUSALS {
        world().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let peer = solo.peer();
            let mut req = peer.req(solo.ip, 7471);
            spoil(&mut req);
            assert_eq!(solo.hears(&peer, &req), Disposition::Accepted);
            let said = solo.says(&["REJ"]);
            let rej = Rej(&said[0]);
            assert_eq!(rej.reason(), reason, "{what}");
            assert_eq!(rej.message_rejected(), MessageKind::REQ);
            assert_eq!((rej.local_comm_id(), rej.remote_comm_id()), (0, peer.comm_id));
            assert_eq!(rej.transaction_id(), peer.tid);
            let info: &[u8] = if reason == RejectReason::INVALID_PRIMARY_GID {
                &nanocm_core::Gid::from(solo.ip).0
            } else {
                &[]
            };
            assert_eq!(rej.additional_info(), info, "{what}");
            assert_eq!(counter(solo.cm.counters()), 1, "{what}");
            solo.tells(&[]);
            assert_eq!(solo.cm.in_use(), (1, 0));
            solo.assert_clean(&[listener]);
        });
    }
}

#[test]
fn a_rejected_gid_comes_with_one_that_would_do() {
    // The one that the packet came to, where it is ours, else any.
    for (to, hint) in [("10.0.0.5", "10.0.0.5"), ("10.0.0.9", "10.0.0.2")] {
        world().solo(|mut solo| {
            let address = ScopedIp::of("10.0.0.5:0".parse().unwrap());
            let event = PortEvent::GidAdded { address, ca_guid: 5 };
            assert!(solo.cm.handle_port_event(solo.now, event));
            let listener = solo.listen(7471, 0);
            let (peer, to) = (solo.peer(), to.parse::<IpAddr>().unwrap());
            let req = peer.req("10.0.0.77".parse().unwrap(), 7471);
            let path = Path::Roce(RocePath::new(to.into(), peer.ip.into()));
            let _ = solo.cm.handle_datagram(solo.now, &path, &req);
            let said = solo.says(&["REJ"]);
            let hint = nanocm_core::Gid::from_ip(hint.parse().unwrap());
            assert_eq!(Rej(&said[0]).additional_info(), hint.0);
            solo.assert_clean(&[listener]);
        });
    }
}

#[test]
fn answers_to_strangers_go_back_where_the_packet_came_from() {
    world().solo(|mut solo| {
        let peer = solo.peer();
        let mut req = peer.req(solo.ip, 7471);
        Req(&mut req).set_primary_local_gid("10.7.7.7".parse::<IpAddr>().unwrap().into());
        let mut arrived = RocePath::new(solo.ip.into(), peer.ip.into());
        (arrived.traffic_class, arrived.hop_limit, arrived.flow_label) = (0xff, 1, 0x12345);
        let _ = solo.cm.handle_datagram(solo.now, &Path::Roce(arrived), &req);
        let mut mad = [0; 256];
        let sent = solo.cm.poll_transmit(solo.now, &mut mad).unwrap();
        // Marked as by default, whatever came in.
        assert_eq!(sent.path, solo.path(&peer));
        solo.assert_clean(&[]);
    });
}

#[test]
fn oddities_that_linux_takes_are_taken() {
    // wire-formats B: accepted by Linux.
    type Oddity = (&'static str, fn(&mut Req<&mut Mad>));
    let oddities: [Oddity; 8] = [
        ("queue pair 0", |req| {
            req.set_local_qpn(0);
        }),
        ("GUID 0", |req| {
            req.set_local_ca_guid(0);
        }),
        ("LIDs 0", |req| {
            req.set_primary_local_lid(0).set_primary_remote_lid(0);
        }),
        ("hop limit 0", |req| {
            req.set_primary_hop_limit(0);
        }),
        ("PSN", |req| {
            req.set_starting_psn(0xff_ffff);
        }),
        ("flow label", |req| {
            req.set_primary_flow_label(0xf_ffff).set_primary_sl(15);
        }),
        ("P_Key", |req| {
            req.set_partition_key(0x7fff);
        }),
        ("ACK timeout 0", |req| {
            req.set_primary_local_ack_timeout(0);
        }),
    ];
    for (what, oddity) in oddities {
        world().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let peer = solo.peer();
            let mut req = peer.req(solo.ip, 7471);
            oddity(&mut Req(&mut req));
            assert_eq!(solo.hears(&peer, &req), Disposition::Accepted, "{what}");
            let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
            solo.accept(id);
            solo.says(&["REP"]);
            for step in [nanocm_core::QpState::Init, nanocm_core::QpState::ReadyToSend] {
                solo.cm.qp_attrs(id, step).unwrap();
            }
            solo.assert_clean(&[listener, id]);
        });
    }
}

#[test]
fn an_empty_engine_takes_any_octets() {
    world().solo(|mut solo| {
        let mut dice = Dice(2);
        let peer = solo.peer();
        for round in 0..20_000 {
            let mut octets = dice.octets(256);
            if round % 2 == 0 {
                octets[..4].copy_from_slice(&[1, 7, 2, 3]);
                (octets[16], octets[17]) = (0, 0x10 + dice.below(12) as u8);
            }
            let _ = solo.hears(&peer, &octets);
            let mut mad = [0; 256];
            while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
        }
        solo.tells(&[]);
        solo.assert_clean(&[]);
    });
}

/// Hands 100,000 altered messages to one engine with a connection in each state, whose application
/// answers what it is told.
fn mutate(seed: u64, flips: u64) {
    world().of(Capacity { replies: 4, ..Capacity::of(24) }).solo(|mut solo| {
        let mut dice = Dice(seed);
        let listener = solo.listen(7471, 4);
        let mut all = everywhere(&mut solo);
        let mut strangers: Vec<nanocm_core::Id> = Vec::new();
        for round in 0..34_000 {
            let it = all[dice.below(all.len() as u64) as usize];
            let which = dice.below(8) as usize;
            let mut mad = match messages(&it, solo.ip).get(which) {
                Some((_, mad)) => *mad,
                None => it.peer.timeout_rej(),
            };
            for _ in 0..dice.below(flips + 1) {
                let bit = dice.below(256 * 8) as usize;
                mad[bit / 8] ^= 1 << (bit % 8);
            }
            let _ = solo.hears(&it.peer, &mad);
            let mut mad = [0; 256];
            while dice.below(4) != 0 && solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
            while let Some(event) = solo.cm.poll_event() {
                let known = all.iter().any(|it| it.id == event.id) || strangers.contains(&event.id);
                if !known {
                    strangers.push(event.id);
                }
                let qpn = solo.qpn();
                let _ = solo.cm.accept(solo.now, event.id, &nanocm_core::ConnParam::new(qpn));
                let _ = solo.cm.establish(solo.now, event.id, &[1; 224]);
            }
            solo.wait(std::time::Duration::from_millis(dice.below(200)));
            // What is over makes room for new ones.
            if round % 16 == 0 {
                for id in strangers.drain(..) {
                    solo.cm.destroy(solo.now, id).unwrap();
                }
                let over =
                    all.iter().position(|it| matches!(it.states(&solo.cm).1, Idle | RejSent));
                if let Some(at) = over {
                    let old = all.swap_remove(at);
                    solo.cm.destroy(solo.now, old.id).unwrap();
                    while solo.cm.poll_event().is_some() {}
                    while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
                    let states = [(ReqSent, true), (RepSent, false), (Established, true)];
                    let (state, active) = states[dice.below(3) as usize];
                    all.push(solo.bring(state, active));
                }
            }
        }
        let ids: Vec<_> = all.iter().map(|it| it.id).chain(strangers).collect();
        solo.assert_clean(&[&ids[..], &[listener]].concat());
    });
}

#[test]
fn a_hundred_thousand_damaged_messages_leave_nothing_behind() {
    mutate(3, 4);
}

#[test]
fn nor_do_as_many_that_are_hardly_damaged() {
    mutate(4, 1);
}
