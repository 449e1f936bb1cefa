//! The end of a connection: who asks, who answers, how long timewait lasts, and beginning anew.

use nanocm_core::error::ConnectError;
use nanocm_core::testing::{Pair, Side, Side::*, Solo, World};
use nanocm_core::wire::{Attribute, Drep, MessageKind, RejectReason, Req};
use nanocm_core::{
    ConnParam, ConnState, DisconnectCause, EventKind, Id, Path, Route, State, addr::RocePath,
};
use std::time::Duration;

/// How a connection ended, as both sides see it.
fn causes(pair: &mut Pair<'_>, [a, b]: [DisconnectCause; 2]) {
    assert_eq!(pair.expect(A, "DISCONNECTED").kind(), EventKind::Disconnected(a));
    assert_eq!(pair.expect(B, "DISCONNECTED").kind(), EventKind::Disconnected(b));
}

#[test]
fn requests_to_disconnect_may_cross() {
    use DisconnectCause::Local;
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let (active, passive) = pair.established(7471);
        pair.disconnect(A, active);
        pair.disconnect(B, passive);
        causes(&mut pair, [Local, Local]);
        pair.expect(A, "TIMEWAIT_EXIT");
        pair.expect(B, "TIMEWAIT_EXIT");
        pair.expect_silence();
        assert_eq!(pair.node(A).sent_names(), ["REQ", "RTU", "DREQ", "DREP"]);
        assert_eq!(pair.node(B).sent_names(), ["REP", "DREQ", "DREP"]);
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn a_crossing_dreq_is_answered_by_its_number() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ConnState::DreqSent, true);
        let mut peer = it.peer;
        peer.tid = 0x77_0000_0001;
        let _ = solo.hears(&peer, &peer.dreq(it.comm_id, it.qpn));
        let drep = solo.says(&["DREP"])[0];
        assert_eq!(Drep(&drep).transaction_id(), peer.tid);
        solo.tells(&["DISCONNECTED"]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn crossing_requests_may_be_lost_too() {
    for (to_a, to_b) in [(1, 0), (0, 1), (1, 1), (2, 1)] {
        World::new().run(|mut pair| {
            let listener = pair.listen(7471, 0);
            let (active, passive) = pair.established(7471);
            pair.link.drop_next(Attribute::DREQ, 0, to_a);
            pair.link.drop_next(Attribute::DREQ, 1, to_b);
            pair.disconnect(A, active);
            pair.disconnect(B, passive);
            for side in [A, B] {
                pair.expect(side, "DISCONNECTED");
                pair.expect(side, "TIMEWAIT_EXIT");
            }
            pair.run_for(Duration::from_secs(60));
            pair.expect_silence();
            pair.assert_clean(&[active], &[listener, passive]);
        });
    }
}

#[test]
fn a_lazy_application_does_not_keep_the_peer_waiting() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let (active, passive) = pair.established(7471);
        pair.disconnect(A, active);
        pair.expect(B, "DISCONNECTED");
        // Nobody answers on side B; the repeated DREQ is answered for it.
        let gone = pair.expect(A, "DISCONNECTED").kind();
        assert_eq!(gone, EventKind::Disconnected(DisconnectCause::Local));
        assert_eq!(pair.node(A).sent_names()[2..], ["DREQ", "DREQ"]);
        pair.expect(B, "TIMEWAIT_EXIT");
        // The application's answer comes late; that is no mistake.
        pair.disconnect(B, passive);
        pair.run_for(Duration::from_secs(5));
        pair.expect(A, "TIMEWAIT_EXIT");
        pair.expect_silence();
        assert_eq!(pair.node(B).sent_names(), ["REP", "DREP"]);
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn a_dreq_in_place_of_the_rtu_ends_what_the_passive_side_never_saw_stand() {
    World::new().run(|mut pair| {
        pair.link.drop_next(Attribute::RTU, 1, 1);
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.establish(active, &[]);
        pair.expect(A, "ESTABLISHED");
        pair.disconnect(A, active);
        pair.expect(B, "DISCONNECTED");
        pair.disconnect(B, passive);
        pair.expect(A, "DISCONNECTED");
        pair.expect(A, "TIMEWAIT_EXIT");
        pair.expect(B, "TIMEWAIT_EXIT");
        pair.expect_silence();
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn an_rtu_that_is_still_owed_goes_before_the_dreq() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.node(A).transmits = false;
        pair.establish(active, &[1; 224]);
        let now = pair.now;
        pair.cm(A).disconnect(now, active, &[2; 220]).unwrap();
        pair.node(A).transmits = true;
        pair.expect(B, "ESTABLISHED");
        pair.expect(B, "DISCONNECTED");
        assert_eq!(pair.node(A).sent_names(), ["REQ", "RTU", "DREQ"]);
        // The DREQ's data have the buffer; the RTU goes without.
        let sent = pair.node(A).sent.clone();
        assert_eq!(sent[1][32..], [0; 224]);
        assert_eq!(sent[2][36..], [2; 220]);
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn a_drep_carries_the_data_of_no_other_message() {
    World::new().solo(|mut solo| {
        // What was in the buffer before: our DREQ's data, or the peer's REJ's.
        let it = solo.bring(ConnState::Established, true);
        solo.cm.disconnect(solo.now, it.id, &[0x55; 220]).unwrap();
        solo.says(&["DREQ"]);
        let _ = solo.hears(&it.peer, &it.peer.drep(it.comm_id));
        let _ = solo.hears(&it.peer, &it.peer.dreq(it.comm_id, it.qpn));
        let drep = solo.says(&["DREP"])[0];
        assert_eq!(drep[32..], [0; 224]);
        assert_eq!(Drep(&drep).transaction_id(), it.peer.tid, "the number of the DREQ");
        solo.tells(&["DISCONNECTED"]);
        let other = solo.bring(ConnState::Established, true);
        let mut rej = other.peer.rej(other.comm_id, MessageKind::OTHER, RejectReason::CONSUMER);
        rej[108..].fill(0x66);
        let _ = solo.hears(&other.peer, &rej);
        let _ = solo.hears(&other.peer, &other.peer.dreq(other.comm_id, other.qpn));
        assert_eq!(solo.says(&["DREP"])[0][32..], [0; 224]);
        assert_eq!(solo.cm.private_data(other.id), [0x66; 148], "still there to be read");
        solo.tells(&["DISCONNECTED"]);
        solo.assert_clean(&[it.id, other.id]);
    });
}

#[test]
fn timewait_lasts_twice_the_packet_lifetime() {
    // Code n is 4.096 µs · 2ⁿ; the lifetime is the route's to say, and no more than 4.3 s of it count.
    for (lifetime, millis) in [(0, 1), (14, 135), (16, 537), (18, 2148), (19, 4295), (31, 4295)] {
        World::new().solo(|mut solo| {
            let peer = solo.peer();
            let id = solo.cm.create_id(nanocm_core::PortSpace::Tcp, 0).unwrap();
            let mut route = Route::new(solo.path(&peer));
            route.packet_lifetime = lifetime;
            solo.cm.set_route(solo.now, id, (peer.ip, 7471).into(), &route).unwrap();
            solo.connect(id);
            let comm_id = nanocm_core::testing::comm_id(&solo.says(&["REQ"])[0]);
            let _ = solo.hears(&peer, &peer.rep(comm_id));
            solo.cm.establish(solo.now, id, &[]).unwrap();
            solo.cm.disconnect(solo.now, id, &[]).unwrap();
            solo.says(&["RTU", "DREQ"]);
            let _ = solo.hears(&peer, &peer.drep(comm_id));
            solo.tells(&["ESTABLISHED", "DISCONNECTED"]);
            let length = solo.cm.poll_at().unwrap().saturating_since(solo.now);
            assert!(length.as_millis().abs_diff(millis) <= 1, "{lifetime}: {length:?}");
            solo.wait(length - Duration::from_millis(1));
            solo.tells(&[]);
            solo.wait(Duration::from_millis(1));
            solo.tells(&["TIMEWAIT_EXIT"]);
            solo.assert_clean(&[id]);
        });
    }
}

/// How an attempt or a connection (`stands`) may end, and how many TIMEWAIT_EXITs each side hears
/// (reports B3).
struct Ending {
    name: &'static str,
    stands: bool,
    exits: [usize; 2],
    end: fn(&mut Pair<'_>, Id, Id),
}

const fn ending(
    name: &'static str,
    stands: bool,
    exits: [usize; 2],
    end: fn(&mut Pair<'_>, Id, Id),
) -> Ending {
    Ending { name, stands, exits, end }
}

const ENDINGS: [Ending; 9] = [
    ending("the active side asks", true, [1, 1], |pair, active, passive| {
        pair.disconnect(A, active);
        pair.expect(B, "DISCONNECTED");
        pair.disconnect(B, passive);
    }),
    ending("the passive side asks", true, [1, 1], |pair, active, passive| {
        pair.disconnect(B, passive);
        pair.expect(A, "DISCONNECTED");
        pair.disconnect(A, active);
    }),
    ending("both ask", true, [1, 1], |pair, active, passive| {
        pair.disconnect(A, active);
        pair.disconnect(B, passive);
    }),
    ending("nobody answers", true, [1, 1], |pair, active, passive| {
        pair.link.drop_next(Attribute::DREQ, 1, u32::MAX);
        pair.disconnect(A, active);
        pair.expect(A, "DISCONNECTED");
        pair.link.drop_next(Attribute::DREP, 1, u32::MAX);
        pair.disconnect(B, passive);
    }),
    ending("the other is gone", true, [1, 0], |pair, active, passive| {
        pair.destroy(B, passive);
        pair.expect(A, "DISCONNECTED");
        pair.disconnect(A, active);
    }),
    ending("the request is rejected", false, [0, 0], |pair, _, passive| {
        pair.reject(B, passive, RejectReason::CONSUMER, &[]);
    }),
    ending("the reply is rejected", false, [1, 1], |pair, active, passive| {
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.reject(A, active, RejectReason::CONSUMER, &[]);
    }),
    ending("the passive side changes its mind", false, [1, 1], |pair, _, passive| {
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.reject(B, passive, RejectReason::CONSUMER, &[]);
    }),
    ending("the reply is never answered", false, [0, 1], |pair, _, passive| {
        pair.link.drop_next(Attribute::REP, 0, u32::MAX);
        pair.accept(passive, &[]);
    }),
];

#[test]
fn whoever_sent_a_rep_or_an_rtu_hears_of_timewaits_end_once() {
    for Ending { name, stands, exits, end } in ENDINGS {
        World::new().run(|mut pair| {
            let listener = pair.listen(7471, 0);
            let (active, passive) = if stands {
                pair.established(7471)
            } else {
                let active = pair.connect(7471, &[]);
                (active, pair.expect(B, "CONNECT_REQUEST").event.id)
            };
            end(&mut pair, active, passive);
            pair.run_for(Duration::from_secs(100));
            let heard = |pair: &mut Pair<'_>, side: Side| {
                let told = &pair.node(side).told;
                told.iter().filter(|told| told.kind() == EventKind::TimewaitExit).count()
            };
            assert_eq!([heard(&mut pair, A), heard(&mut pair, B)], exits, "{name}");
            let passive: &[Id] = if name == "the other is gone" { &[] } else { &[passive] };
            pair.assert_clean(&[active], &[passive, &[listener]].concat());
        });
    }
}

#[test]
fn a_req_with_the_same_numbers_in_timewait_is_a_new_one() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(ConnState::Timewait, false);
        let _ = solo.hears(&it.peer, &it.peer.req(solo.ip, 7471));
        let again = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.says(&[]);
        solo.accept(again);
        let rep = solo.says(&["REP"])[0];
        assert_ne!(nanocm_core::testing::comm_id(&rep), it.comm_id);
        solo.assert_clean(&[listener, it.id, again]);
    });
}

#[test]
fn an_identifier_can_begin_anew_when_its_attempt_or_connection_is_over() {
    // How an attempt ends, and what is heard of it.
    type Over = (&'static [&'static str], fn(&mut Solo<'_>) -> Id);
    let over: [Over; 4] = [
        (&["REJECTED"], |solo| {
            let it = solo.bring(ConnState::ReqSent, true);
            let rej = it.peer.rej(it.comm_id, MessageKind::REQ, RejectReason::CONSUMER);
            let _ = solo.hears(&it.peer, &rej);
            it.id
        }),
        (&["UNREACHABLE"], |solo| {
            let it = solo.bring(ConnState::ReqSent, true);
            solo.wait(Duration::from_secs(31));
            it.id
        }),
        (&["TIMEWAIT_EXIT"], |solo| {
            let it = solo.bring(ConnState::Timewait, true);
            solo.wait(Duration::from_secs(1));
            it.id
        }),
        (&["REJECTED", "TIMEWAIT_EXIT"], |solo| {
            let it = solo.bring(ConnState::RepRcvd, true);
            let rej = it.peer.rej(it.comm_id, MessageKind::REP, RejectReason::CONSUMER);
            let _ = solo.hears(&it.peer, &rej);
            solo.wait(Duration::from_secs(1));
            it.id
        }),
    ];
    for (told, bring) in over {
        for heard in [true, false] {
            World::new().solo(|mut solo| {
                let id = bring(&mut solo);
                if heard {
                    solo.tells(told);
                }
                let mut mad = [0; 256];
                while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
                let local = solo.cm.local_addr(id);
                solo.cm.reset(id).unwrap();
                assert_eq!(solo.cm.state(id), Ok(State::RouteResolved));
                assert_eq!(solo.cm.local_addr(id), local, "the port stays");
                // What it has not heard by now it will not hear.
                solo.tells(&[]);
                let mut numbers = Vec::new();
                for _ in 0..3 {
                    solo.connect(id);
                    let req = solo.says(&["REQ"])[0];
                    numbers.push((Req(&req).local_comm_id(), Req(&req).starting_psn()));
                    solo.wait(Duration::from_secs(31));
                    solo.tells(&["UNREACHABLE"]);
                    while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
                    solo.cm.reset(id).unwrap();
                }
                let (ids, psns): (Vec<_>, Vec<_>) = numbers.into_iter().unzip();
                for list in [ids, psns] {
                    assert!(list[0] != list[1] && list[1] != list[2] && list[0] != list[2]);
                }
                solo.assert_clean(&[id]);
            });
        }
    }
}

#[test]
fn what_is_not_over_cannot_begin_anew() {
    use ConnState::*;
    World::new().of(nanocm_core::testing::Capacity::of(16)).solo(|mut solo| {
        let mut ids =
            vec![solo.listen(7471, 0), solo.cm.create_id(nanocm_core::PortSpace::Tcp, 0).unwrap()];
        for (state, active) in [
            (ReqSent, true),
            (RepRcvd, true),
            (Established, true),
            (DreqSent, true),
            (DreqRcvd, true),
            (Timewait, true),
            // Who was asked cannot ask.
            (Idle, false),
            (RejSent, false),
            (Established, false),
        ] {
            ids.push(solo.bring(state, active).id);
        }
        for &id in &ids {
            let untouched = format!("{:?}", solo.cm);
            let refused = solo.cm.reset(id);
            assert!(matches!(refused, Err(ConnectError::InvalidState { .. })), "{id:?}");
            assert_eq!(format!("{:?}", solo.cm), untouched);
        }
        solo.assert_clean(&ids);
    });
}

#[test]
fn a_queue_pair_is_free_when_its_connection_is_over() {
    use ConnState::*;
    let param = ConnParam::new(0x99);
    World::new().solo(|mut solo| {
        let peer = solo.peer();
        let one = solo.route_to(&peer);
        let two = solo.route_to(&peer);
        solo.cm.connect(solo.now, one, &param).unwrap();
        let comm_id = nanocm_core::testing::comm_id(&solo.says(&["REQ"])[0]);
        let untouched = format!("{:?}", solo.cm);
        let busy = Err(ConnectError::QpnInUse);
        assert_eq!(solo.cm.connect(solo.now, two, &param), busy);
        let large = Err(ConnectError::NumberTooLarge);
        assert_eq!(solo.cm.connect(solo.now, two, &ConnParam::new(1 << 24)), large);
        assert_eq!(format!("{:?}", solo.cm), untouched);
        let rej = peer.rej(comm_id, MessageKind::REQ, RejectReason::CONSUMER);
        let _ = solo.hears(&peer, &rej);
        solo.cm.connect(solo.now, two, &param).unwrap();
        solo.tells(&["REJECTED"]);
        solo.says(&["REQ"]);
        // On the passive side too.
        let listener = solo.listen(7471, 0);
        let request = solo.bring(ReqRcvd, false);
        assert_eq!(solo.cm.accept(solo.now, request.id, &param), busy);
        solo.cm.destroy(solo.now, two).unwrap();
        solo.says(&["REJ"]);
        solo.cm.accept(solo.now, request.id, &param).unwrap();
        solo.says(&["REP"]);
        let other = solo.bring(ReqRcvd, false);
        assert_eq!(solo.cm.accept(solo.now, other.id, &param), busy);
        solo.assert_clean(&[listener, one, request.id, other.id]);
    });
}

#[test]
fn an_answer_goes_where_the_path_of_the_req_leads() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let peer = solo.peer();
        let mut req = peer.req(solo.ip, 7471);
        Req(&mut req)
            .set_primary_traffic_class(0x68)
            .set_primary_flow_label(0x12345)
            .set_primary_hop_limit(3);
        let mut arrived = RocePath::new(solo.ip.into(), peer.ip.into());
        // Some hops have been used up on the way.
        (arrived.hop_limit, arrived.flow_label) = (1, 0x54321);
        let _ = solo.cm.handle_datagram(solo.now, &Path::Roce(arrived), &req);
        let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.accept(id);
        let mut mad = [0; 256];
        let sent = solo.cm.poll_transmit(solo.now, &mut mad).unwrap();
        let Path::Roce(back) = sent.path else { panic!("{sent:?}") };
        assert_eq!((back.local, back.remote), (solo.ip.into(), peer.ip.into()));
        assert_eq!((back.traffic_class, back.flow_label, back.hop_limit), (0x68, 0x12345, 3));
        solo.assert_clean(&[listener, id]);
    });
}
