//! SIDR, both ways: one question, one answer, no connection.

use nanocm_core::conn::limits;
use nanocm_core::error::ConnectError;
use nanocm_core::testing::{Brought, Side, Solo, World, comm_id};
use nanocm_core::wire::{Attribute, MessageKind, RejectReason, SidrRep, SidrReq, SidrStatus, View};
use nanocm_core::{
    ConnParam, ConnState, Disposition, Ece, EventKind, IgnoreReason, PortSpace, QpState, State,
    Unreachable,
};
use std::time::Duration;

const PORT: u16 = 7471;

#[test]
fn a_service_is_found_with_private_data_both_ways() {
    World::new().run(|mut pair| {
        let listener = pair.listen_in(PortSpace::Udp, PORT, 0);
        let question: Vec<u8> = (0..180).collect();
        let asking = pair.ask(PORT, &question);
        let request = pair.expect(Side::B, "CONNECT_REQUEST");
        assert_eq!(request.data, question);
        let now = pair.now;
        let mut param = ConnParam::new(0x77);
        param.qkey = 0x8123_4567;
        param.ece = Ece { vendor_id: 0x12_3456, options: 9 };
        param.private_data = b"here";
        let answering = request.event.id;
        pair.cm(Side::B).accept(now, answering, &param).unwrap();

        let found = pair.expect(Side::A, "ESTABLISHED");
        assert_eq!((found.data.len(), &found.data[..5]), (136, b"here\0".as_slice()));
        let peer = pair.cm(Side::A).peer_param(asking).unwrap();
        assert_eq!((peer.qpn, peer.qkey, peer.ece), (0x77, 0x8123_4567, param.ece));
        assert_eq!(pair.cm(Side::A).state(asking), Ok(State::Connect));
        pair.run_for(Duration::from_secs(300));
        pair.expect_silence();
        assert_eq!(pair.node(Side::A).sent_names(), ["SIDR_REQ"]);
        assert_eq!(pair.node(Side::B).sent_names(), ["SIDR_REP"]);
        pair.assert_clean(&[asking], &[listener, answering]);
    });
}

#[test]
fn lost_messages_are_repeated_after_four_seconds_and_the_answer_is_the_same() {
    World::new().run(|mut pair| {
        let listener = pair.listen_in(PortSpace::Udp, PORT, 0);
        pair.link.drop_next(Attribute::SIDR_REQ, 1, 1);
        pair.link.drop_next(Attribute::SIDR_REP, 0, 1);
        let begin = pair.now;
        let asking = pair.ask(PORT, &[]);
        let answering = pair.expect(Side::B, "CONNECT_REQUEST").event.id;
        assert_eq!(pair.now.saturating_since(begin).as_millis() / 10, 409);
        pair.accept(answering, b"once");
        pair.expect(Side::A, "ESTABLISHED");
        pair.expect_silence();
        let sent = &pair.node(Side::B).sent;
        assert_eq!((sent.len(), sent[0]), (2, sent[1]));
        pair.assert_clean(&[asking], &[listener, answering]);
    });
}

#[test]
fn who_does_not_answer_is_unreachable() {
    World::new().run(|mut pair| {
        let asking = pair.ask(PORT, &[]);
        pair.node(Side::B).transmits = false;
        let told = pair.expect(Side::A, "UNREACHABLE");
        assert_eq!(told.kind(), EventKind::Unreachable(Unreachable::Timeout));
        // 0, 4.1, 12.3 and 28.7 s.
        assert_eq!(pair.node(Side::A).sent_names(), ["SIDR_REQ"; 4]);
        pair.node(Side::B).transmits = true;
        pair.assert_clean(&[asking], &[]);
    });
}

#[test]
fn a_refusal_has_its_status_and_the_identifier_can_ask_again() {
    let by_the_application = |reason| Some(reason);
    for (listens, reason, status) in [
        (None, None, SidrStatus::UNSUPPORTED_SERVICE_ID),
        (Some(PortSpace::Udp), by_the_application(RejectReason::CONSUMER), SidrStatus::REJECTED),
        (Some(PortSpace::Udp), by_the_application(RejectReason::NO_QP), SidrStatus::NO_QP),
    ] {
        World::new().run(|mut pair| {
            let mut b = Vec::new();
            if let Some(space) = listens {
                b.push(pair.listen_in(space, PORT, 0));
            }
            let asking = pair.ask(PORT, &[]);
            if let Some(reason) = reason {
                let id = pair.expect(Side::B, "CONNECT_REQUEST").event.id;
                pair.reject(Side::B, id, reason, b"no");
                b.push(id);
            }
            let told = pair.expect(Side::A, "REJECTED");
            assert_eq!(told.kind(), EventKind::SidrRejected(status));
            let failure = pair.cm(Side::A).failure(&told.event).unwrap().to_string();
            let says = match status {
                SidrStatus::UNSUPPORTED_SERVICE_ID => "no listener for RDMA udp port 7471",
                status => status.text(),
            };
            assert!(failure.contains(&format!("{says} (SIDR {})", status.0)), "{failure}");
            assert_eq!(told.data.starts_with(b"no"), reason.is_some());
            let now = pair.now;
            pair.cm(Side::A).reset(asking).unwrap();
            pair.cm(Side::A).connect(now, asking, &ConnParam::new(0)).unwrap();
            pair.drain();
            let numbers: Vec<_> = pair.node(Side::A).sent.iter().map(comm_id).collect();
            assert!(numbers.len() == 2 && numbers[0] != numbers[1]);
            pair.assert_clean(&[asking], &b);
        });
    }
}

/// What a stateless answer says.
fn answer(solo: &mut Solo<'_>, mad: &[u8; 256]) -> (SidrStatus, u32) {
    let peer = solo.peer_at_home();
    assert_eq!(solo.hears(&peer, mad), Disposition::Accepted);
    let rep = solo.says(&["SIDR_REP"])[0];
    let (asked, rep) = (SidrReq(mad), SidrRep(&rep));
    assert_eq!(rep.transaction_id(), asked.transaction_id());
    assert_eq!((rep.request_id(), rep.service_id()), (asked.request_id(), asked.service_id()));
    (rep.status(), rep.qpn())
}

#[test]
fn what_a_listener_does_not_take_is_refused_with_the_status_linux_gives() {
    World::new().solo(|mut solo| {
        let tcp = solo.listen(80, 0);
        let udp = solo.listen_in(PortSpace::Udp, PORT, 0);
        let (peer, ip) = (solo.peer(), solo.ip);
        assert_eq!(answer(&mut solo, &peer.sidr_req(ip, 9)).0, SidrStatus::UNSUPPORTED_SERVICE_ID);
        let mut to_tcp = peer.sidr_req(ip, 80);
        SidrReq(&mut to_tcp).set_service_id(nanocm_core::ServiceId::new(PortSpace::Tcp, 80));
        assert_eq!(answer(&mut solo, &to_tcp).0, SidrStatus::REJECTED);
        let mut headless = peer.sidr_req(ip, PORT);
        headless[40] = 0x99;
        assert_eq!(answer(&mut solo, &headless).0, SidrStatus::REJECTED);
        let foreign = peer.sidr_req("10.9.9.9".parse().unwrap(), PORT);
        assert_eq!(answer(&mut solo, &foreign).0, SidrStatus::REJECTED);
        // A REQ for a datagram service: not this way.
        let mut req = peer.req(ip, PORT);
        nanocm_core::wire::Req(&mut req)
            .set_service_id(nanocm_core::ServiceId::new(PortSpace::Udp, PORT));
        assert_eq!(solo.hears(&peer, &req), Disposition::Accepted);
        let rej = solo.says(&["REJ"])[0];
        let reason = nanocm_core::wire::Rej(&rej).reason();
        assert_eq!(reason, RejectReason::INVALID_TRANSPORT_TYPE);
        assert_eq!(solo.cm.counters().bad_transport, 2);
        solo.assert_clean(&[tcp, udp]);
    });
}

#[test]
fn a_repeated_request_is_known_by_number_service_and_source() {
    World::new().solo(|mut solo| {
        let listener = solo.listen_in(PortSpace::Udp, PORT, 0);
        let other = solo.listen_in(PortSpace::Udp, PORT + 1, 0);
        let Brought { peer, id, .. } = solo.bring(ConnState::SidrReqRcvd, false);
        let req = peer.sidr_req(solo.ip, PORT);
        // Not answered yet: silence.
        assert_eq!(solo.hears(&peer, &req), Disposition::Duplicate);
        solo.says(&[]);
        solo.accept(id);
        let first = solo.says(&["SIDR_REP"]);
        assert_eq!(solo.hears(&peer, &req), Disposition::Duplicate);
        assert_eq!(solo.says(&["SIDR_REP"]), first);
        // The same number from elsewhere, or for another service, is another request.
        let stranger = nanocm_core::testing::Peer { ip: "10.0.0.77".parse().unwrap(), ..peer };
        assert_eq!(solo.hears(&stranger, &stranger.sidr_req(solo.ip, PORT)), Disposition::Accepted);
        let sibling = peer.sidr_req(solo.ip, PORT + 1);
        assert_eq!(solo.hears(&peer, &sibling), Disposition::Accepted);
        let mut ids: Vec<_> =
            solo.tells(&["CONNECT_REQUEST"; 2]).iter().map(|event| event.id).collect();
        // Once the identifier is gone nobody remembers.
        solo.cm.destroy(solo.now, id).unwrap();
        assert_eq!(solo.hears(&peer, &req), Disposition::Accepted);
        ids.push(solo.tells(&["CONNECT_REQUEST"])[0].id);
        ids.extend([listener, other]);
        solo.assert_clean(&ids);
    });
}

#[test]
fn a_request_nobody_answers_in_time_is_refused_and_destroy_refuses_too() {
    World::new().set(|config| config.timers.accept_deadline = Duration::from_secs(5)).solo(
        |mut solo| {
            let listener = solo.listen_in(PortSpace::Udp, PORT, 1);
            let late = solo.bring(ConnState::SidrReqRcvd, false);
            // The backlog is full.
            let next = solo.peer();
            let full = solo.hears(&next, &next.sidr_req(solo.ip, PORT));
            assert_eq!(full, Disposition::Ignored(IgnoreReason::BacklogFull));
            solo.wait(Duration::from_secs(6));
            assert_eq!(solo.tells(&["CONNECT_ERROR"])[0].id, late.id);
            let status = SidrRep(&solo.says(&["SIDR_REP"])[0]).status();
            assert_eq!(status, SidrStatus::REJECTED);
            let Brought { id, .. } = solo.bring(ConnState::SidrReqRcvd, false);
            solo.cm.destroy(solo.now, id).unwrap();
            let status = SidrRep(&solo.says(&["SIDR_REP"])[0]).status();
            assert_eq!(status, SidrStatus::REJECTED);
            solo.assert_clean(&[listener, late.id]);
        },
    );
}

#[test]
fn an_answer_counts_once_and_only_from_whom_was_asked() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ConnState::SidrReqSent, true);
        let rep = it.peer.sidr_rep(it.comm_id, SidrStatus::VALID);
        let thief = nanocm_core::testing::Peer { ip: "10.0.0.66".parse().unwrap(), ..it.peer };
        assert_eq!(solo.hears(&thief, &rep), Disposition::Ignored(IgnoreReason::WrongPath));
        let wrong = it.peer.sidr_rep(it.comm_id ^ 1, SidrStatus::VALID);
        let unknown = Disposition::Ignored(IgnoreReason::UnknownConnection);
        assert_eq!(solo.hears(&it.peer, &wrong), unknown);
        // Nor does a REP, a REJ, an MRA or a DREQ concern a question.
        let not_now = Disposition::Ignored(IgnoreReason::NotForState);
        let (to, reason) = (it.comm_id, RejectReason::CONSUMER);
        assert_eq!(solo.hears(&it.peer, &it.peer.rep(to)), not_now);
        assert_eq!(solo.hears(&it.peer, &it.peer.mra(to, MessageKind::REQ, 20)), not_now);
        assert_eq!(solo.hears(&it.peer, &it.peer.rej(to, MessageKind::REQ, reason)), unknown);
        solo.tells(&[]);
        assert_eq!(solo.hears(&it.peer, &rep), Disposition::Accepted);
        solo.tells(&["ESTABLISHED"]);
        assert_eq!(solo.hears(&it.peer, &rep), Disposition::Duplicate);
        solo.tells(&[]);
        solo.says(&[]);
        let attrs = solo.cm.qp_attrs(it.id, QpState::ReadyToSend).unwrap();
        assert_eq!((attrs.qkey, attrs.sq_psn), (nanocm_core::conn::UDP_QKEY, 0));
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn a_redirection_has_its_information_although_linux_says_no_length() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ConnState::SidrReqSent, true);
        let mut rep = it.peer.sidr_rep(it.comm_id, SidrStatus::REDIRECT);
        SidrRep(&mut rep).set_additional_info(&[7; 72]);
        assert_eq!(solo.hears(&it.peer, &rep), Disposition::Accepted);
        let kind = solo.tells(&["REJECTED"])[0].kind;
        assert_eq!(kind, EventKind::SidrRejected(SidrStatus::REDIRECT));
        assert_eq!(solo.cm.additional_info(it.id), [7; 72]);
        assert_eq!(solo.cm.private_data(it.id).len(), limits::SIDR_REP);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn illegal_calls_change_nothing() {
    World::new().solo(|mut solo| {
        let listener = solo.listen_in(PortSpace::Udp, PORT, 0);
        let peer = solo.peer();
        let id = solo.route_in(PortSpace::Udp, &peer);
        let mut param = ConnParam::new(0);
        param.private_data = &[1; limits::SIDR_REQ + 1];
        let too_long = ConnectError::PrivateDataTooLong { limit: 180 };
        assert_eq!(solo.cm.connect(solo.now, id, &param), Err(too_long));
        param.private_data = &[];
        param.qpn = 1 << 24;
        let large = ConnectError::NumberTooLarge;
        assert_eq!(solo.cm.connect(solo.now, id, &param), Err(large));
        solo.says(&[]);
        solo.connect(id);
        let wrong_space = Err(ConnectError::WrongPortSpace);
        assert_eq!(solo.cm.disconnect(solo.now, id, &[]), wrong_space);
        let state = ConnectError::InvalidState { state: State::Connect };
        assert_eq!(solo.cm.establish(solo.now, id, &[]), Err(state));
        assert_eq!(solo.cm.notify_established(solo.now, id), Err(state));
        assert_eq!(solo.cm.accept(solo.now, id, &ConnParam::new(1)), Err(state));
        assert_eq!(solo.cm.reset(id), Err(state));
        solo.says(&["SIDR_REQ"]);

        let asked = solo.bring(ConnState::SidrReqRcvd, false);
        let mut param = ConnParam::new(5);
        param.private_data = &[1; limits::SIDR_REP + 1];
        let too_long = ConnectError::PrivateDataTooLong { limit: 136 };
        assert_eq!(solo.cm.accept(solo.now, asked.id, &param), Err(too_long));
        let consumer = RejectReason::CONSUMER;
        let rejected = solo.cm.reject(solo.now, asked.id, consumer, param.private_data);
        assert_eq!(rejected, Err(too_long));
        assert_eq!(solo.cm.conn_state(asked.id), Ok(ConnState::SidrReqRcvd));
        solo.accept(asked.id);
        assert_eq!(solo.cm.accept(solo.now, asked.id, &ConnParam::new(5)), Err(state));
        assert_eq!(solo.cm.disconnect(solo.now, asked.id, &[]), wrong_space);
        solo.says(&["SIDR_REP"]);
        solo.assert_clean(&[listener, id, asked.id]);
    });
}

#[test]
fn requests_carry_the_prefix_and_linuxs_fields() {
    World::new().set(|config| config.comm_id_prefix = (0x5a, 8)).solo(|mut solo| {
        let peer = solo.peer();
        let id = solo.route_in(PortSpace::Ipoib, &peer);
        solo.connect(id);
        let sent = solo.says(&["SIDR_REQ"])[0];
        let req = SidrReq(&sent);
        assert_eq!(req.request_id() >> 24, 0x5a);
        assert_eq!((req.partition_key(), req.service_id().0), (0xffff, 0x0002_0000 | 7471));
        let header = req.ip_cm().unwrap();
        assert_eq!((header.source, header.destination), (solo.ip.into(), peer.ip.into()));
        assert_eq!(View::new(&sent).attribute(), Attribute::SIDR_REQ);
        solo.assert_clean(&[id]);
    });
}
