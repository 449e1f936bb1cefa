//! What was once wrong, one test each.
#![allow(missing_docs)]
use nanocm_core::ConnState::{Established, RepRcvd, RepSent, ReqRcvd, ReqSent};
use nanocm_core::addr::{IbPath, ScopedIp};
use nanocm_core::testing::{Capacity, Memory, Side::*, Solo, World, comm_id, name};
use nanocm_core::wire::{MessageKind, Rej, RejectReason, Rep, Req};
use nanocm_core::*;
use std::time::Duration;

#[test]
fn a_reply_that_never_went_out_is_rejected_as_the_request_it_answers() {
    World::new().run(|mut pair| {
        pair.listen(7471, 0);
        pair.connect(7471, &[]);
        let id = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.accept(id, &[]);
        pair.destroy(B, id); // before anything was polled
        let start = pair.now;
        let told = pair.run_until_told(A, Duration::from_secs(300)).unwrap();
        let rej = pair.node(B).sent.iter().find(|mad| nanocm_core::testing::name(mad) == "REJ");
        println!("REJ of {:?}", rej.map(|mad| Rej(mad).message_rejected()));
        println!("A: {:?} after {:?}", told.event.kind, pair.now.saturating_since(start));
        println!("B: {:?}", pair.node(B).told.iter().map(|t| t.kind().name()).collect::<Vec<_>>());
        assert_eq!(told.event.kind.name(), "REJECTED");
    });
}

#[test]
fn a_request_rejected_after_its_reply_gets_the_same_rejection_again() {
    World::new().solo(|mut solo| {
        solo.listen(7471, 0);
        let peer = solo.peer();
        let req = peer.req(solo.ip, 7471);
        let _ = solo.hears(&peer, &req);
        let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.accept(id);
        solo.says(&["REP"]); // lost
        solo.cm.reject(solo.now, id, RejectReason::CONSUMER, &[]).unwrap();
        solo.says(&["REJ"]); // ignored by who has no REP
        let _ = solo.hears(&peer, &req);
        solo.tells(&[]); // today: CONNECT_REQUEST
    });
}

#[test]
fn memory_serves_one_engine_after_another() {
    let mut memory = Memory::new(Capacity::of(4));
    for seed in 0..2 {
        let mut cm = memory.engine(Config::new(seed)).unwrap();
        assert!(cm.is_clean());
        let id = cm.create_id(PortSpace::Tcp, 0).unwrap();
        assert!(cm.state(id).is_ok());
    }
}

#[test]
fn a_wildcard_bind_and_an_infiniband_route_leave_no_port_behind() {
    let mut memory = Memory::new(Capacity::of(4));
    let mut cm = memory.engine(Config::new(7)).unwrap();
    let gid = Gid::from_ip("fe80::2:c903:0:1".parse().unwrap());
    let address = ScopedIp { gid, scope: 0 };
    assert!(cm.handle_port_event(Instant::ZERO, PortEvent::GidAdded { address, ca_guid: 9 }));
    let id = cm.create_id(PortSpace::Tcp, 0).unwrap();
    cm.bind(id, "0.0.0.0:0".parse().unwrap()).unwrap();
    let mut path = IbPath::default();
    (path.local, path.remote, path.lid) =
        (gid, Gid::from_ip("fe80::2:c903:0:2".parse().unwrap()), 3);
    let to = "10.0.0.2:7471".parse().unwrap();
    cm.set_route(Instant::ZERO, id, to, &Route::new(Path::Ib(path))).unwrap();
    cm.destroy(Instant::ZERO, id).unwrap();
    assert!(cm.is_clean());
}

#[test]
fn a_rep_on_another_kind_of_path_leaves_the_indexes_whole() {
    World::new().solo(|mut solo| {
        let peer = solo.peer();
        let id = solo.route_to(&peer);
        solo.connect(id);
        let own = comm_id(&solo.says(&["REQ"])[0]);
        let mut path = IbPath::default();
        (path.local, path.remote) = (solo.ip.into(), peer.ip.into());
        println!("{:?}", solo.cm.handle_datagram(solo.now, &Path::Ib(path), &peer.rep(own)));
        while solo.cm.poll_event().is_some() {}
        solo.assert_clean(&[id]);
    });
}

#[test]
fn a_queue_pair_can_be_initialised_before_connect() {
    World::new().solo(|mut solo| {
        let peer = solo.peer();
        let id = solo.route_to(&peer);
        assert!(solo.cm.qp_attrs(id, QpState::Init).is_ok());
    });
}

#[test]
fn a_setting_that_its_field_cannot_hold_is_refused() {
    let mut memory = Memory::new(Capacity::of(4));
    let mut config = Config::new(1);
    (config.max_cm_retries, config.remote_cm_response_timeout) = (16, 32); // both 0 on the wire
    assert!(memory.engine(config).is_err());
}

#[test]
fn patience_asked_for_by_mra_survives_a_repeated_req() {
    World::new().solo(|mut solo| {
        solo.listen(7471, 0);
        let peer = solo.peer();
        let req = peer.req(solo.ip, 7471);
        let _ = solo.hears(&peer, &req);
        let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.accept(id);
        let own = comm_id(&solo.says(&["REP"])[0]);
        let _ = solo.hears(&peer, &peer.mra(own, MessageKind::REP, 22));
        let before = solo.cm.poll_at();
        let _ = solo.hears(&peer, &req);
        solo.says(&["REP"]);
        assert_eq!(solo.cm.poll_at(), before);
    });
}

#[test]
fn failures_that_are_not_in_a_row_end_nothing() {
    World::new().solo(|mut solo| {
        let peer = solo.peer();
        let id = solo.route_to(&peer);
        solo.connect(id);
        let mut mad = [0; 256];
        for fails in [true, false, false, true] {
            let sent = solo.cm.poll_transmit(solo.now, &mut mad).unwrap();
            if fails {
                solo.cm.handle_send_failed(solo.now, sent.token, 101);
            }
            solo.tells(&[]);
            solo.now = solo.cm.poll_at().unwrap();
            let _ = solo.cm.handle_timeout(solo.now, 1);
        }
    });
}

#[test]
fn the_wildcard_is_no_destination_in_any_form() {
    World::new().solo(|mut solo| {
        let id = solo.cm.create_id(PortSpace::Tcp, 0).unwrap();
        let to = "[::ffff:0.0.0.0]:80".parse().unwrap();
        assert!(solo.cm.resolve_addr(solo.now, id, None, to, Duration::from_secs(1)).is_err());
    });
}

/// Not a failure: what the header claims is what `peer_addr` says.
#[test]
fn an_inbox_that_fills_as_fast_as_it_is_emptied_does_not_hold_the_engine() {
    let mut memory = Memory::new(Capacity::of(4));
    let mut cm = memory.engine(Config::new(7)).unwrap();
    let inbox: &'static mut Inbox<64> = Box::leak(Box::new(Inbox::new()));
    let (mut handler, mut owner) = inbox.split();
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = stop.clone();
    let thread = std::thread::spawn(move || {
        let path = Path::Roce(RocePath::new(Gid::ZERO, Gid::ZERO));
        let mut mad = [0; 256];
        Rep::emit(&mut mad, 1).set_remote_comm_id(5);
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            let _ = handler.enqueue(Inbound { path, mad });
        }
    });
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(2));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    std::thread::sleep(Duration::from_millis(50));
    let most = (0..200)
        .map(|_| {
            let before = cm.counters().received;
            cm.handle_inbox(Instant::ZERO, &mut owner);
            cm.counters().received - before
        })
        .max();
    thread.join().unwrap();
    assert!(most <= Some(63), "{most:?} datagrams in one call; the ring has 63");
}

#[test]
fn a_response_that_was_rejected_before_it_was_told_is_not_told() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ConnState::ReqSent, true);
        let _ = solo.hears(&it.peer, &it.peer.rep(it.comm_id));
        solo.cm.reject(solo.now, it.id, RejectReason::CONSUMER, &[]).unwrap();
        solo.says(&["REJ"]);
        solo.tells(&[]); // once: CONNECT_RESPONSE
        solo.assert_clean(&[it.id]);
    });
}

fn add(solo: &mut Solo<'_>, last: u8, guid: u64) {
    let address = ScopedIp::new(Gid::from_ip([10, 0, 1, last].into()), 0);
    assert!(
        solo.cm.handle_port_event(solo.now, PortEvent::GidAdded { address, ca_guid: guid }),
        "{last}"
    );
}

#[test]
fn answers_of_connections_do_not_wait_behind_answers_to_strangers() {
    World::new().of(Capacity { replies: 256, ..Capacity::of(4) }).solo(|mut solo| {
        let _ = solo.listen(7471, 4);
        let honest = solo.bring(ReqRcvd, false);
        solo.accept(honest.id);
        let mut said = false;
        for _ in 0..1_000 {
            for _ in 0..64 {
                let stranger = solo.peer();
                let _ = solo.hears(&stranger, &stranger.req(solo.ip, 9));
            }
            let mut mad = [0; 256];
            for _ in 0..64 {
                let _ = solo.cm.poll_transmit(solo.now, &mut mad);
                said |= name(&mad) == "REP";
            }
        }
        assert!(said, "64,000 answers to strangers, and no REP");
    });
}

#[test]
fn most_retries_are_254() {
    for retries in [254u8, 255] {
        World::new().set(|config| config.timers.first_retry = Duration::from_millis(1)).solo(
            |mut solo| {
                let peer = solo.peer();
                let id = solo.route_to(&peer);
                let mut param = ConnParam::new(solo.qpn());
                param.retries = Some(retries);
                param.timeout = Some(Duration::from_secs(12 * 86_400));
                solo.cm.connect(solo.now, id, &param).unwrap();
                let (mut mad, mut n) = ([0; 256], 0);
                loop {
                    while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {
                        if name(&mad) == "REQ" {
                            n += 1;
                        }
                    }
                    let Some(at) = solo.cm.poll_at() else { break };
                    solo.now = at;
                    while solo.cm.handle_timeout(solo.now, 1) {}
                }
                assert_eq!(n, 255);
            },
        );
    }
}

#[test]
fn an_ack_timeout_of_more_than_five_bits_is_not_for_ever() {
    World::new().solo(|mut solo| {
        let it = solo.bring(RepRcvd, true);
        let before = solo.cm.qp_attrs(it.id, QpState::ReadyToSend).unwrap().timeout;
        if solo.cm.set_option(it.id, IdOption::AckTimeout(32)).is_ok() {
            let attrs = solo.cm.qp_attrs(it.id, QpState::ReadyToSend).unwrap();
            assert_ne!(attrs.timeout, 0, "32 became 0: no timeout at all (it was {before})");
        }
    });
}

#[test]
fn an_rtu_for_what_was_rejected_gets_a_rej_that_its_sender_can_find() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 4);
        let _ = listener;
        let it = solo.bring(RepSent, false);
        solo.cm.reject(solo.now, it.id, RejectReason::CONSUMER, &[]).unwrap();
        let first = solo.says(&["REJ"])[0];
        assert_eq!(Rej(&first).message_rejected(), MessageKind::OTHER);
        // Its REQ had been repeated before the REP came.
        let req = it.peer.req(solo.ip, 7471);
        let _ = solo.hears(&it.peer, &req);
        solo.says(&["REJ"]);
        // Both were lost; it has the REP and says RTU.
        let _ = solo.hears(&it.peer, &it.peer.rtu(it.comm_id));
        let third = solo.says(&["REJ"])[0];
        assert_ne!(Rej(&third).message_rejected(), MessageKind::REQ, "an established peer");
        assert_ne!(Rej(&third).local_comm_id(), 0);
    });
}

#[test]
fn the_answer_to_rej_26_is_no_retransmission() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        // A repetition is due, not sent.
        solo.wait(Duration::from_millis(1_100));
        let mut rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::INVALID_PATH_MTU);
        Rej(&mut rej).set_additional_info(&[1 << 4]);
        let _ = solo.hears(&it.peer, &rej);
        let before = solo.cm.counters().retransmitted;
        let said = solo.says(&["REQ"]);
        assert_eq!(Req(&said[0]).path_mtu(), 1);
        assert_eq!(solo.cm.counters().retransmitted, before, "a new attempt, with a new comm ID");
    });
}

#[test]
fn a_device_removed_twice_is_swept_once() {
    World::new().of(Capacity::of(100)).solo(|mut solo| {
        let removed = PortEvent::DeviceRemoved { ca_guid: Solo::CA_GUID };
        for _ in 0..1000 {
            assert!(solo.cm.handle_port_event(solo.now, removed));
            let _ = solo.cm.handle_timeout(solo.now, 4);
        }
        let address = ScopedIp::new(solo.ip.into(), 0);
        let added = PortEvent::GidAdded { address, ca_guid: Solo::CA_GUID };
        assert!(solo.cm.handle_port_event(solo.now, added), "still being swept");
    });
}

#[test]
fn deadlines_are_handled_although_addresses_keep_changing() {
    World::new().of(Capacity::of(100)).solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        for _ in 0..600 {
            let address = ScopedIp::new(Gid::from_ip([10, 9, 9, 9].into()), 0);
            let _ = solo.cm.handle_port_event(solo.now, PortEvent::AddrChanged { address });
            solo.now = solo.now + Duration::from_secs(1);
            let _ = solo.cm.handle_timeout(solo.now, 4);
        }
        // Ten minutes later; the attempt had 30 s.
        solo.tells(&["UNREACHABLE"]);
        let _ = it;
    });
}

#[test]
fn another_devices_removal_does_not_end_a_connection() {
    let capacity = Capacity { gids: 1, ..Capacity::of(4) };
    World::new().of(capacity).solo(|mut solo| {
        let _ = solo.listen(7471, 4);
        let it = solo.bring(Established, false);
        let address = ScopedIp::new(solo.ip.into(), 0);
        assert!(solo.cm.handle_port_event(solo.now, PortEvent::GidRemoved { address }));
        add(&mut solo, 1, 77);
        assert!(solo.cm.handle_port_event(solo.now, PortEvent::DeviceRemoved { ca_guid: 77 }));
        while solo.cm.handle_timeout(solo.now, 1) {}
        assert_eq!(solo.cm.conn_state(it.id), Ok(Established));
    });
}

#[test]
fn a_rej4_survives_the_removal_of_another_device() {
    World::new().of(Capacity { gids: 4, ..Capacity::of(4) }).solo(|mut solo| {
        add(&mut solo, 9, 77);
        let it = solo.bring(ReqSent, true);
        solo.cm.destroy(solo.now, it.id).unwrap();
        assert!(solo.cm.handle_port_event(solo.now, PortEvent::DeviceRemoved { ca_guid: 77 }));
        while solo.cm.handle_timeout(solo.now, 1) {}
        solo.says(&["REJ"]);
    });
}
