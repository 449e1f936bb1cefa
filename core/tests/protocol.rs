//! The rest of the protocol: MRA of our own, path MTU, transports, ECE, alternate paths.

use nanocm_core::addr::{IbPath, ScopedIp};
use nanocm_core::testing::{Peer, Side, Solo, World, comm_id};
use nanocm_core::wire::{
    ApStatus, Apr, Attribute, ClassPortInfo, Header, Lap, Mad, MessageKind, Mra, Rej, RejectReason,
    Rep, Req,
};
use nanocm_core::{
    ConnParam, ConnState, Disposition, Ece, EventKind, Gid, IdOption, IgnoreReason, Path,
    PortEvent, Transport, Transports,
};
use std::time::Duration;

#[test]
fn a_slow_application_is_excused_with_an_mra_until_it_answers() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(Side::B, "CONNECT_REQUEST").event.id;
        let begin = pair.now;
        // Longer than the peer would wait without.
        pair.run_for(Duration::from_secs(50));
        pair.expect_silence();
        assert_eq!(pair.node(Side::A).sent_names(), ["REQ", "REQ"]);
        let mra = pair.node(Side::B).sent[0];
        let mra = Mra(&mra);
        assert_eq!((mra.message_mraed(), mra.service_timeout()), (MessageKind::REQ, 24));
        pair.accept(passive, &[]);
        pair.expect(Side::A, "CONNECT_RESPONSE");
        // The active side takes its time too.
        pair.run_for(Duration::from_secs(50));
        assert!(pair.node(Side::A).sent_names().ends_with(&["MRA"]));
        pair.establish(active, &[]);
        pair.expect(Side::A, "ESTABLISHED");
        pair.expect(Side::B, "ESTABLISHED");
        assert!(pair.now.saturating_since(begin) > Duration::from_secs(100));
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn an_answer_overtakes_the_mra_that_was_owed() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        for rejects in [false, true] {
            let it = solo.bring(ConnState::ReqRcvd, false);
            let req = it.peer.req(solo.ip, 7471);
            assert_eq!(solo.hears(&it.peer, &req), Disposition::Duplicate);
            if rejects {
                solo.cm.reject(solo.now, it.id, RejectReason::CONSUMER, &[]).unwrap();
                solo.says(&["REJ"]);
            } else {
                solo.accept(it.id);
                solo.says(&["REP"]);
            }
            solo.cm.destroy(solo.now, it.id).unwrap();
            let _ = solo.cm.poll_transmit(solo.now, &mut [0; 256]);
        }
        let it = solo.bring(ConnState::RepRcvd, true);
        assert_eq!(solo.hears(&it.peer, &it.peer.rep(it.comm_id)), Disposition::Duplicate);
        solo.cm.establish(solo.now, it.id, &[]).unwrap();
        solo.says(&["RTU"]);
        solo.assert_clean(&[listener, it.id]);
    });
}

#[test]
fn a_smaller_path_mtu_is_offered_and_taken() {
    World::new().set(|config| config.max_path_mtu = 2).run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, b"data");
        let request = pair.expect(Side::B, "CONNECT_REQUEST");
        assert_eq!(&request.data[..4], b"data");
        pair.accept(request.event.id, &[]);
        pair.expect(Side::A, "CONNECT_RESPONSE");
        let to = nanocm_core::QpState::ReadyToReceive;
        for (side, id) in [(Side::A, active), (Side::B, request.event.id)] {
            assert_eq!(pair.cm(side).qp_attrs(id, to).unwrap().path_mtu, 2);
        }
        assert_eq!(pair.node(Side::A).sent_names(), ["REQ", "REQ"]);
        let [first, second] = [0, 1].map(|at| comm_id(&pair.node(Side::A).sent[at]));
        assert_ne!(first, second);
        let rej = pair.node(Side::B).sent[0];
        let rej = Rej(&rej);
        assert_eq!(
            (rej.reason(), rej.additional_info()),
            (RejectReason::INVALID_PATH_MTU, &[2 << 4][..])
        );
        assert_eq!(pair.cm(Side::B).counters().bad_path_mtu, 1);
        pair.assert_clean(&[active], &[listener, request.event.id]);
    });
}

#[test]
fn an_offer_that_is_none_is_a_rejection() {
    for offer in [&[][..], &[0x30], &[0x50], &[0x0f]] {
        World::new().solo(|mut solo| {
            let it = solo.bring(ConnState::ReqSent, true);
            let mut rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::INVALID_PATH_MTU);
            Rej(&mut rej).set_additional_info(offer);
            assert_eq!(solo.hears(&it.peer, &rej), Disposition::Accepted);
            let kind = solo.tells(&["REJECTED"])[0].kind;
            assert_eq!(kind, EventKind::Rejected(RejectReason::INVALID_PATH_MTU));
            solo.says(&[]);
            solo.assert_clean(&[it.id]);
        });
    }
}

#[test]
fn offers_get_smaller_so_they_end() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ConnState::ReqSent, true);
        let mut to = it.comm_id;
        for offer in [2, 1] {
            let mut rej = it.peer.rej(to, MessageKind::REQ, RejectReason::INVALID_PATH_MTU);
            Rej(&mut rej).set_additional_info(&[offer << 4]);
            assert_eq!(solo.hears(&it.peer, &rej), Disposition::Accepted);
            let req = solo.says(&["REQ"])[0];
            assert_eq!(Req(&req).path_mtu(), offer);
            // What still comes for the attempt before is too late.
            let late = solo.hears(&it.peer, &it.peer.rep(to));
            assert_eq!(late, Disposition::Ignored(IgnoreReason::UnknownConnection));
            solo.says(&["REJ"]);
            to = comm_id(&req);
        }
        // The end is that of the first attempt.
        solo.wait(Duration::from_secs(31));
        solo.tells(&["UNREACHABLE"]);
        let mut mad = [0; 256];
        while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn a_listener_chooses_which_transports_it_takes() {
    let sets = [
        Transports::RC,
        Transports::UC,
        Transports::XRC,
        Transports::RC | Transports::UC,
        Transports::UC | Transports::XRC,
        Transports::RC | Transports::UC | Transports::XRC,
    ];
    for set in sets {
        for transport in [Transport::Rc, Transport::Uc, Transport::Xrc] {
            World::new().run(|mut pair| {
                let listener = pair.listen(7471, 0);
                let cm = pair.cm(Side::B);
                cm.set_option(listener, IdOption::Transports(set)).unwrap();
                let active = pair.route_to(7471);
                let (now, mut param) = (pair.now, ConnParam::new(0x21));
                param.transport = transport;
                pair.cm(Side::A).connect(now, active, &param).unwrap();
                if !set.has(transport) {
                    let kind = pair.expect(Side::A, "REJECTED").kind();
                    assert_eq!(kind, EventKind::Rejected(RejectReason::INVALID_TRANSPORT_TYPE));
                    pair.assert_clean(&[active], &[listener]);
                    return;
                }
                let request = pair.expect(Side::B, "CONNECT_REQUEST");
                let EventKind::ConnectRequest { peer, .. } = request.kind() else { unreachable!() };
                assert_eq!((peer.transport, peer.qpn), (transport, 0x21));
                pair.accept(request.event.id, &[]);
                let response = pair.expect(Side::A, "CONNECT_RESPONSE");
                let EventKind::ConnectResponse { peer } = response.kind() else { unreachable!() };
                assert_eq!(peer.qpn, 0x21);
                // An XRC target is named where others have an EE context.
                let rep = pair.node(Side::B).sent[0];
                let named = (Rep(&rep).local_qpn(), Rep(&rep).local_eecn());
                let xrc = transport == Transport::Xrc;
                assert_eq!(named, if xrc { (0, 0x21) } else { (0x21, 0) });
                pair.assert_clean(&[active], &[listener, request.event.id]);
            });
        }
    }
}

#[test]
fn transports_nobody_has_are_refused_whatever_the_listener_takes() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let all = Transports::RC | Transports::UC | Transports::XRC;
        solo.cm.set_option(listener, IdOption::Transports(all)).unwrap();
        for (service, extended) in [(2, 0), (3, 0), (3, 2)] {
            let peer = solo.peer();
            let mut req = peer.req(solo.ip, 7471);
            Req(&mut req).set_transport_service_type(service).set_extended_transport_type(extended);
            assert_eq!(solo.hears(&peer, &req), Disposition::Accepted);
            let rej = solo.says(&["REJ"])[0];
            assert_eq!(Rej(&rej).reason(), RejectReason::INVALID_TRANSPORT_TYPE);
        }
        assert_eq!(solo.cm.counters().bad_transport, 3);
        solo.assert_clean(&[listener]);
    });
}

#[test]
fn each_side_hears_the_others_ece_and_nobody_its_own() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.route_to(7471);
        let ours = Ece { vendor_id: 0xab_cdef, options: 0x1234_5678 };
        let theirs = Ece { vendor_id: 0x00_8001, options: 3 };
        let (now, mut param) = (pair.now, ConnParam::new(0x21));
        param.ece = ours;
        pair.cm(Side::A).connect(now, active, &param).unwrap();
        assert_eq!(pair.cm(Side::A).peer_param(active).unwrap().ece, Ece::NONE);
        // A repeated REQ says the same.
        pair.link.drop_next(Attribute::REQ, 1, 1);
        let passive = pair.expect(Side::B, "CONNECT_REQUEST").event.id;
        assert_eq!(pair.cm(Side::B).peer_param(passive).unwrap().ece, ours);
        param.ece = theirs;
        let now = pair.now;
        pair.cm(Side::B).accept(now, passive, &param).unwrap();
        assert_eq!(pair.cm(Side::B).peer_param(passive).unwrap().ece, Ece::NONE);
        pair.expect(Side::A, "CONNECT_RESPONSE");
        assert_eq!(pair.cm(Side::A).peer_param(active).unwrap().ece, theirs);
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

/// An engine's port on InfiniBand, and a connection over it that stands.
fn over_infiniband(solo: &mut Solo<'_>) -> (Peer, Path, u32, nanocm_core::Id) {
    let gid = |last| {
        let mut gid = Gid([0; 16]);
        (gid.0[0], gid.0[1], gid.0[15]) = (0xfe, 0x80, last);
        gid
    };
    let event = PortEvent::GidAdded { address: ScopedIp::new(gid(2), 0), ca_guid: 2 };
    assert!(solo.cm.handle_port_event(solo.now, event));
    let peer = solo.peer();
    let mut path = IbPath::default();
    (path.lid, path.local) = (17, gid(2));
    let path = Path::Ib(path);
    let mut req = peer.req(solo.ip, 7471);
    Req(&mut req).set_primary_local_gid(gid(1)).set_primary_remote_gid(gid(2));
    let now = solo.now;
    assert_eq!(solo.cm.handle_datagram(now, &path, &req), Disposition::Accepted);
    let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
    solo.accept(id);
    let own = comm_id(&solo.says(&["REP"])[0]);
    assert_eq!(solo.cm.handle_datagram(now, &path, &peer.rtu(own)), Disposition::Accepted);
    solo.tells(&["ESTABLISHED"]);
    (peer, path, own, id)
}

#[test]
fn an_alternate_path_is_declined_on_infiniband_and_unheard_of_on_roce() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let (peer, path, own, id) = over_infiniband(&mut solo);
        let lap = |to| {
            let mut mad: Mad = [0; 256];
            Lap::emit(&mut mad, 0x77).set_local_comm_id(peer.comm_id).set_remote_comm_id(to);
            mad
        };
        let unknown = ApStatus::INVALID_COMM_INSTANCE;
        for (to, status) in [(own, ApStatus::UNSUPPORTED), (own ^ 1, unknown)] {
            let now = solo.now;
            let _ = solo.cm.handle_datagram(now, &path, &lap(to));
            let apr = solo.says(&["APR"])[0];
            let apr = Apr(&apr);
            assert_eq!((apr.transaction_id(), apr.ap_status()), (0x77, status));
            assert_eq!((apr.local_comm_id(), apr.remote_comm_id()), (to, peer.comm_id));
        }
        assert_eq!(solo.cm.conn_state(id), Ok(ConnState::Established));
        let unsupported = Disposition::Ignored(IgnoreReason::Unsupported);
        assert_eq!(solo.hears(&peer, &lap(own)), unsupported);
        let mut apr: Mad = [0; 256];
        Apr::emit(&mut apr, 1).set_local_comm_id(peer.comm_id).set_remote_comm_id(own);
        let now = solo.now;
        assert_eq!(solo.cm.handle_datagram(now, &path, &apr), unsupported);
        solo.says(&[]);
        solo.assert_clean(&[listener, id]);
    });
}

#[test]
fn a_rep_is_repeated_no_more_often_than_the_peer_lets_us() {
    for (max_cm_retries, repeated) in [(0, 0), (1, 1), (2, 2), (3, 3), (4, 3), (15, 3)] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let peer = solo.peer();
            let mut req = peer.req(solo.ip, 7471);
            Req(&mut req).set_max_cm_retries(max_cm_retries);
            assert_eq!(solo.hears(&peer, &req), Disposition::Accepted);
            let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
            solo.accept(id);
            let comm_id = comm_id(&solo.says(&["REP"])[0]);
            let (mut reps, mut mad) = (0, [0; 256]);
            for _ in 0..20 {
                solo.wait(Duration::from_secs(1));
                while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {
                    reps += 1;
                }
            }
            assert_eq!(reps, repeated, "Max CM Retries {max_cm_retries}");
            // The other counts in the REQ are what they were.
            let attrs = solo.cm.qp_attrs(id, nanocm_core::QpState::ReadyToSend).unwrap();
            assert_eq!((attrs.retry_count, attrs.rnr_retry), (6, 5));
            let _ = solo.hears(&peer, &peer.rtu(comm_id));
            solo.tells(&["ESTABLISHED"]);
            solo.assert_clean(&[listener, id]);
        });
    }
}

#[test]
fn who_asks_what_the_cm_can_do_is_told() {
    World::new().solo(|mut solo| {
        let peer = solo.peer();
        let mut question = peer.drep(0);
        Header(&mut question).set_method(1).set_attribute(Attribute::CLASS_PORT_INFO);
        assert_eq!(solo.hears(&peer, &question), Disposition::Accepted);
        let mut mad = [0; 256];
        let answer = solo.cm.poll_transmit(solo.now, &mut mad).unwrap();
        assert_eq!(answer.path.remote_gid(), peer.ip.into());
        let header = Header(&mad);
        assert_eq!((header.method(), header.status()), (0x81, 0));
        assert_eq!(header.transaction_id(), peer.tid);
        assert_eq!(header.attribute(), Attribute::CLASS_PORT_INFO);
        let info = ClassPortInfo(&mad);
        assert_eq!((info.base_version(), info.class_version()), (1, 2));
        assert_eq!((info.capability_mask(), info.response_time()), (0x3200, 18));
        assert_eq!(mad[24..32], [1, 2, 0x32, 0, 0, 0, 0, 18]);
        // Nobody answers a Set, an answer, or a question about anything else.
        for (method, attribute) in [(2, 1), (0x81, 1), (1, 0x10)] {
            Header(&mut question).set_method(method).set_attribute(Attribute(attribute));
            let ignored = Disposition::Ignored(IgnoreReason::Method);
            assert_eq!(solo.hears(&peer, &question), ignored);
        }
        solo.assert_clean(&[]);
    });
}
