//! A connection's life where nothing goes wrong: what travels, what is told, what each side knows.

use nanocm_core::error::ConnectError;
use nanocm_core::testing::{Pair, Side, Side::*, Solo, World, name};
use nanocm_core::wire::{IpCmHeader, RejectReason, Rep, Req};
use nanocm_core::{
    ConnParam, ConnState, DisconnectCause, Disposition, EventKind, Id, IdOption, PeerParam,
    PortSpace, QpState, ServiceId, State,
};
use std::net::IpAddr;
use std::time::Duration;

/// Runs a test on IPv4 and on IPv6.
fn both_families(test: impl Fn(Pair<'_>)) {
    World::new().run(&test);
    World::new().v6().run(&test);
}

/// A request that side B has seen.
fn requested(pair: &mut Pair<'_>) -> [Id; 3] {
    let listener = pair.listen(7471, 0);
    let active = pair.connect(7471, &[]);
    [active, pair.expect(B, "CONNECT_REQUEST").event.id, listener]
}

#[test]
fn five_messages_connect_and_disconnect() {
    both_families(|mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, b"hello");
        let request = pair.expect(B, "CONNECT_REQUEST");
        assert_eq!(request.data[..5], *b"hello");
        assert_eq!(request.data.len(), 56);
        let passive = request.event.id;
        pair.accept(passive, b"welcome");
        let response = pair.expect(A, "CONNECT_RESPONSE");
        assert_eq!(response.data[..7], *b"welcome");
        assert_eq!(response.data.len(), 196);
        pair.establish(active, &[]);
        pair.expect(A, "ESTABLISHED");
        pair.expect(B, "ESTABLISHED");
        pair.disconnect(A, active);
        let gone = pair.expect(B, "DISCONNECTED");
        assert_eq!(gone.kind(), EventKind::Disconnected(DisconnectCause::Peer));
        pair.disconnect(B, passive);
        let gone = pair.expect(A, "DISCONNECTED");
        assert_eq!(gone.kind(), EventKind::Disconnected(DisconnectCause::Local));
        pair.expect(A, "TIMEWAIT_EXIT");
        pair.expect(B, "TIMEWAIT_EXIT");
        assert_eq!(pair.node(A).sent_names(), ["REQ", "RTU", "DREQ"]);
        assert_eq!(pair.node(B).sent_names(), ["REP", "DREP"]);
        for side in [A, B] {
            let counters = *pair.cm(side).counters();
            assert_eq!((counters.established, counters.retransmitted), (1, 0));
            assert_eq!((counters.sent, counters.received), [(3, 2), (2, 3)][side as usize]);
        }
        pair.expect_silence();
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn the_passive_side_may_disconnect_first() {
    both_families(|mut pair| {
        let listener = pair.listen(7471, 0);
        let (active, passive) = pair.established(7471);
        pair.disconnect(B, passive);
        assert_eq!(
            pair.expect(A, "DISCONNECTED").kind(),
            EventKind::Disconnected(DisconnectCause::Peer)
        );
        pair.disconnect(A, active);
        assert_eq!(
            pair.expect(B, "DISCONNECTED").kind(),
            EventKind::Disconnected(DisconnectCause::Local)
        );
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn both_sides_know_both_addresses() {
    both_families(|mut pair| {
        let listener = pair.listen(7471, 0);
        let (active, passive) = pair.established(7471);
        let (a, b) = (pair.node(A).ip, pair.node(B).ip);
        let port = pair.cm(A).local_addr(active).unwrap().port();
        assert!((32768..=60999).contains(&port));
        let ends = |pair: &mut Pair<'_>, side, id| {
            (pair.cm(side).local_addr(id).unwrap(), pair.cm(side).peer_addr(id).unwrap())
        };
        assert_eq!(ends(&mut pair, A, active), ((a, port).into(), (b, 7471).into()));
        assert_eq!(ends(&mut pair, B, passive), ((b, 7471).into(), (a, port).into()));
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn a_req_says_what_the_application_and_the_route_say() {
    both_families(|mut pair| {
        let [active, passive, listener] = requested(&mut pair);
        let (a, b) = (pair.node(A).ip, pair.node(B).ip);
        let port = pair.cm(A).local_addr(active).unwrap().port();
        let mad = pair.node(A).sent[0];
        let req = Req(&mad);
        assert_eq!(req.service_id(), ServiceId::new(PortSpace::Tcp, 7471));
        assert_eq!(req.primary_local_gid(), a.into());
        assert_eq!(req.primary_remote_gid(), b.into());
        assert_eq!(
            req.ip_cm(),
            Ok(IpCmHeader { source_port: port, source: a.into(), destination: b.into() })
        );
        assert_eq!(req.primary_flow_label(), (u32::from(port) * 31 + 7471) & 0xf_ffff);
        assert_eq!(req.local_ca_guid(), 0x0200_0000_0000_0001);
        assert_eq!((req.remote_cm_response_timeout(), req.local_cm_response_timeout()), (20, 18));
        assert_eq!((req.max_cm_retries(), req.primary_hop_limit()), (15, 64));
        assert_eq!((req.primary_local_lid(), req.primary_remote_lid()), (0xffff, 0xffff));
        assert_eq!((req.partition_key(), req.path_mtu()), (0xffff, 3));
        assert_eq!(req.primary_local_ack_timeout(), 17);
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn what_the_route_carries_reaches_both_queue_pairs() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let (now, a, b) = (pair.now, pair.node(A).ip, pair.node(B).ip);
        let active = pair.cm(A).create_id(PortSpace::Tcp, 0).unwrap();
        let mut route = route(a, b);
        (route.pkey, route.mtu, route.rate, route.packet_lifetime) = (0x8123, 5, 7, 12);
        pair.cm(A).set_route(now, active, (b, 7471).into(), &route).unwrap();
        pair.cm(A).connect(now, active, &ConnParam::new(0x77)).unwrap();
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        let mad = pair.node(A).sent[0];
        let req = Req(&mad);
        assert_eq!((req.partition_key(), req.path_mtu()), (0x8123, 5));
        assert_eq!((req.primary_packet_rate(), req.primary_local_ack_timeout()), (7, 15));
        for (side, id) in [(A, active), (B, passive)] {
            let attrs = pair.cm(side).qp_attrs(id, QpState::Init).unwrap();
            assert_eq!((attrs.pkey, attrs.path_mtu, attrs.rate), (0x8123, 5, 7));
        }
        assert_eq!(pair.cm(B).qp_attrs(passive, QpState::Init).unwrap().timeout, 15);
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn an_exchange_has_one_number_and_a_dreq_begins_another() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let (first, passive) = pair.established(7471);
        pair.disconnect(A, first);
        pair.expect(B, "DISCONNECTED");
        pair.disconnect(B, passive);
        pair.expect(A, "DISCONNECTED");
        let second = pair.connect(7471, &[]);
        let request = pair.expect(B, "CONNECT_REQUEST").event.id;
        let tids = |pair: &mut Pair<'_>, side: Side| -> Vec<u64> {
            pair.node(side).sent.iter().map(|mad| Req(mad).transaction_id()).collect()
        };
        let (a, b) = (tids(&mut pair, A), tids(&mut pair, B));
        // REQ, RTU, DREQ, REQ; REP, DREP.
        assert_eq!((a[0], a[0], a[2]), (a[1], b[0], b[1]));
        assert!(a[0] != 0 && a[0] != a[2] && a[0] != a[3] && a[2] != a[3]);
        pair.assert_clean(&[first, second], &[listener, passive, request]);
    });
}

/// Who says what to whom, each field different.
fn params() -> (ConnParam<'static>, ConnParam<'static>) {
    let mut req = ConnParam::new(0xabcdef);
    (req.responder_resources, req.initiator_depth) = (7, 3);
    (req.retry_count, req.rnr_retry_count) = (6, 5);
    req.srq = true;
    let mut rep = ConnParam::new(0xfedcba);
    (rep.responder_resources, rep.initiator_depth) = (2, 4);
    (rep.retry_count, rep.rnr_retry_count) = (1, 2);
    rep.flow_control = true;
    (req, rep)
}

/// Connects with [`params`] until the passive side has seen the request.
fn requested_with_params(pair: &mut Pair<'_>) -> [Id; 3] {
    let listener = pair.listen(7471, 0);
    let active = pair.route_to(7471);
    let now = pair.now;
    pair.cm(A).connect(now, active, &params().0).unwrap();
    [active, pair.expect(B, "CONNECT_REQUEST").event.id, listener]
}

#[test]
fn each_side_sees_the_others_parameters_from_its_own_point_of_view() {
    World::new().run(|mut pair| {
        let [active, passive, listener] = requested_with_params(&mut pair);
        let at_b = pair.cm(B).peer_param(passive).unwrap();
        // What the peer wants outstanding is what we shall serve, and the other way round.
        assert_eq!((at_b.responder_resources, at_b.initiator_depth), (3, 7));
        assert_eq!((at_b.retry_count, at_b.rnr_retry_count), (6, 5));
        assert_eq!((at_b.qpn, at_b.srq, at_b.flow_control), (0xabcdef, true, false));
        let now = pair.now;
        pair.cm(B).accept(now, passive, &params().1).unwrap();
        let response = pair.expect(A, "CONNECT_RESPONSE");
        let at_a = pair.cm(A).peer_param(active).unwrap();
        assert_eq!(response.kind(), EventKind::ConnectResponse { peer: at_a });
        assert_eq!((at_a.responder_resources, at_a.initiator_depth), (4, 2));
        assert_eq!((at_a.qpn, at_a.srq, at_a.flow_control), (0xfedcba, false, true));
        // The number of retries is in no REP: it is our own.
        assert_eq!((at_a.retry_count, at_a.rnr_retry_count), (6, 2));
        let psn = |pair: &mut Pair<'_>, side| pair.node(side).sent[0];
        let (req, rep) = (psn(&mut pair, A), psn(&mut pair, B));
        assert_eq!(at_b.starting_psn, Req(&req).starting_psn());
        assert_eq!(at_a.starting_psn, Rep(&rep).starting_psn());
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn what_a_queue_pair_can_do_is_said_both_ways() {
    for flags in 0..16 {
        let flag = |bit: u32| flags >> bit & 1 == 1;
        World::new().run(|mut pair| {
            let listener = pair.listen(7471, 0);
            let active = pair.route_to(7471);
            let (now, mut param) = (pair.now, ConnParam::new(0x11));
            (param.srq, param.flow_control) = (flag(0), flag(1));
            pair.cm(A).connect(now, active, &param).unwrap();
            let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
            let (now, mut param) = (pair.now, ConnParam::new(0x21));
            (param.srq, param.flow_control) = (flag(2), flag(3));
            pair.cm(B).accept(now, passive, &param).unwrap();
            pair.expect(A, "CONNECT_RESPONSE");
            let at_a = pair.cm(A).peer_param(active).unwrap();
            let at_b = pair.cm(B).peer_param(passive).unwrap();
            assert_eq!((at_b.srq, at_b.flow_control), (flag(0), flag(1)));
            assert_eq!((at_a.srq, at_a.flow_control), (flag(2), flag(3)));
            pair.assert_clean(&[active], &[listener, passive]);
        });
    }
}

#[test]
fn queue_pairs_get_what_was_agreed() {
    World::new().run(|mut pair| {
        let [active, passive, listener] = requested_with_params(&mut pair);
        let at = |pair: &mut Pair<'_>, side, id| {
            pair.cm(side).qp_attrs(id, QpState::ReadyToSend).unwrap()
        };
        // REQ sent: the peer is unknown, but receives may be posted.
        let init = pair.cm(A).qp_attrs(active, QpState::Init).unwrap();
        assert_eq!((init.pkey, init.remote_read), (0xffff, true));
        for step in [QpState::ReadyToReceive, QpState::ReadyToSend] {
            assert!(pair.cm(A).qp_attrs(active, step).is_err());
        }
        // Before `accept`: what the peer asks for.
        let b = at(&mut pair, B, passive);
        assert_eq!((b.max_dest_rd_atomic, b.max_rd_atomic, b.dest_qpn), (3, 7, 0xabcdef));
        let now = pair.now;
        pair.cm(B).accept(now, passive, &params().1).unwrap();
        pair.expect(A, "CONNECT_RESPONSE");
        // Afterwards: what we said, and never more outstanding than the peer serves.
        let b = at(&mut pair, B, passive);
        assert_eq!((b.max_dest_rd_atomic, b.max_rd_atomic, b.dest_qpn), (2, 4, 0xabcdef));
        assert_eq!((b.retry_count, b.rnr_retry), (6, 5));
        let a = at(&mut pair, A, active);
        assert_eq!((a.max_dest_rd_atomic, a.max_rd_atomic, a.dest_qpn), (7, 2, 0xfedcba));
        assert_eq!((a.retry_count, a.rnr_retry), (6, 2));
        assert_eq!((a.sq_psn, a.rq_psn), (b.rq_psn, b.sq_psn));
        assert_eq!((a.path_mtu, b.path_mtu), (3, 3));
        // The REQ's timeout is the passive side's; the active one adds the REP's delay to its path.
        assert_eq!((b.timeout, a.timeout), (17, 17));
        pair.establish(active, &[]);
        pair.expect(B, "ESTABLISHED");
        assert_eq!((at(&mut pair, A, active), at(&mut pair, B, passive)), (a, b));
        pair.disconnect(A, active);
        pair.expect(B, "DISCONNECTED");
        for (side, id) in [(A, active), (B, passive)] {
            let attrs = pair.cm(side).qp_attrs(id, QpState::ReadyToSend);
            assert!(matches!(attrs, Err(ConnectError::InvalidState { .. })), "{side:?}");
        }
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn the_ack_timeout_of_the_active_side_follows_the_peers_delay() {
    for (delay, timeout) in [(0, 17), (15, 17), (16, 18), (20, 20)] {
        let world = match delay {
            0 => World::new().set(|config| config.target_ack_delay = 0),
            15 => World::new(),
            16 => World::new().set(|config| config.target_ack_delay = 16),
            _ => World::new().set(|config| config.target_ack_delay = 20),
        };
        world.run(|mut pair| {
            let listener = pair.listen(7471, 0);
            let (active, passive) = pair.established(7471);
            let attrs = pair.cm(A).qp_attrs(active, QpState::ReadyToSend).unwrap();
            assert_eq!(attrs.timeout, timeout, "delay {delay}");
            pair.assert_clean(&[active], &[listener, passive]);
        });
    }
}

#[test]
fn the_ack_timeout_of_the_passive_side_is_what_the_req_says() {
    for code in [1, 14, 16, 31] {
        World::new().solo(|mut solo| {
            let (listener, peer) = (solo.listen(7471, 0), solo.peer());
            let mut req = peer.req(solo.ip, 7471);
            Req(&mut req).set_primary_local_ack_timeout(code);
            let _ = solo.hears(&peer, &req);
            let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
            let attrs = solo.cm.qp_attrs(id, QpState::ReadyToSend).unwrap();
            assert_eq!(attrs.timeout, code);
            solo.assert_clean(&[listener, id]);
        });
    }
}

#[test]
fn type_of_service_and_ack_timeout_count_for_the_route() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let (now, a, b) = (pair.now, pair.node(A).ip, pair.node(B).ip);
        let cm = pair.cm(A);
        let id = cm.create_id(PortSpace::Tcp, 0).unwrap();
        cm.set_option(id, IdOption::Tos(0x68)).unwrap();
        cm.set_option(id, IdOption::AckTimeout(20)).unwrap();
        cm.set_route(now, id, (b, 7471).into(), &route(a, b)).unwrap();
        cm.connect(now, id, &ConnParam::new(0x99)).unwrap();
        let request = pair.expect(B, "CONNECT_REQUEST").event.id;
        let mad = pair.node(A).sent[0];
        assert_eq!(Req(&mad).primary_traffic_class(), 0x68);
        assert_eq!(Req(&mad).primary_local_ack_timeout(), 20);
        let nanocm_core::Path::Roce(back) = pair.cm(B).path(request).unwrap().unwrap() else {
            panic!("RoCE it is")
        };
        assert_eq!((back.traffic_class, back.hop_limit), (0x68, 64));
        pair.accept(request, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        for (option, timeout) in [(20, 20), (0, 0), (31, 31)] {
            pair.cm(A).set_option(id, IdOption::AckTimeout(option)).unwrap();
            let attrs = pair.cm(A).qp_attrs(id, QpState::ReadyToSend).unwrap();
            assert_eq!(attrs.timeout, timeout);
        }
        pair.assert_clean(&[id], &[listener, request]);
    });
}

/// What a message carries at most, and how to send it: (name, limit, side, call).
type Limit =
    (&'static str, usize, Side, fn(&mut Pair<'_>, [Id; 2], &[u8]) -> Result<(), ConnectError>);

const LIMITS: [Limit; 6] = [
    ("REQ", 56, A, |pair, [active, _], data| {
        let (now, mut param) = (pair.now, ConnParam::new(0x11));
        param.private_data = data;
        pair.cm(A).connect(now, active, &param)
    }),
    ("REP", 196, B, |pair, [_, passive], data| {
        let (now, mut param) = (pair.now, ConnParam::new(0x21));
        param.private_data = data;
        pair.cm(B).accept(now, passive, &param)
    }),
    ("REJ", 148, B, |pair, [_, passive], data| {
        let now = pair.now;
        pair.cm(B).reject(now, passive, RejectReason::CONSUMER, data)
    }),
    ("RTU", 224, A, |pair, [active, _], data| {
        let now = pair.now;
        pair.cm(A).establish(now, active, data)
    }),
    ("DREQ", 220, A, |pair, [active, _], data| {
        let now = pair.now;
        pair.cm(A).disconnect(now, active, data)
    }),
    ("DREP", 224, B, |pair, [_, passive], data| {
        let now = pair.now;
        pair.cm(B).disconnect(now, passive, data)
    }),
];

/// Leads two identifiers to where the named message is next.
fn before(pair: &mut Pair<'_>, message: &str, active: Id) -> [Id; 2] {
    if message == "REQ" {
        return [active, active];
    }
    let now = pair.now;
    pair.cm(A).connect(now, active, &ConnParam::new(0x11)).unwrap();
    let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
    if message == "REP" || message == "REJ" {
        return [active, passive];
    }
    pair.accept(passive, &[]);
    pair.expect(A, "CONNECT_RESPONSE");
    if message == "RTU" {
        return [active, passive];
    }
    pair.establish(active, &[]);
    pair.expect(A, "ESTABLISHED");
    pair.expect(B, "ESTABLISHED");
    if message == "DREP" {
        pair.disconnect(A, active);
        pair.expect(B, "DISCONNECTED");
    }
    [active, passive]
}

#[test]
fn private_data_fit_or_are_refused_with_the_limit_and_without_effect() {
    for (message, limit, side, call) in LIMITS {
        World::new().run(|mut pair| {
            let listener = pair.listen(7471, 0);
            let active = pair.route_to(7471);
            let ids = before(&mut pair, message, active);
            let untouched = format!("{:?}", pair.cm(side));
            let refused = call(&mut pair, ids, &[0x5a; 300][..limit + 1]);
            assert_eq!(refused, Err(ConnectError::PrivateDataTooLong { limit }), "{message}");
            assert_eq!(format!("{:?}", pair.cm(side)), untouched, "{message}");
            call(&mut pair, ids, &[0x5a; 300][..limit]).unwrap();
            pair.drain();
            let mad = *pair.node(side).sent.last().unwrap();
            assert_eq!(name(&mad), message);
            assert_eq!(mad[256 - limit..], [0x5a; 300][..limit], "{message}");
            pair.run_for(Duration::from_secs(1));
            let passive = [ids[1]];
            let passive = if message == "REQ" {
                vec![pair.expect(B, "CONNECT_REQUEST").event.id]
            } else {
                passive.to_vec()
            };
            pair.assert_clean(&[active], &[&passive[..], &[listener]].concat());
        });
    }
}

#[test]
fn what_an_application_leaves_free_is_zero_whatever_was_there_before() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        for (data, rest) in [(&[0xaa; 56][..], 0), (b"abc", 53)] {
            let active = pair.connect(7471, data);
            let request = pair.expect(B, "CONNECT_REQUEST");
            assert_eq!(request.data, [data, &vec![0; rest]].concat());
            let passive = request.event.id;
            pair.reject(B, passive, RejectReason::CONSUMER, data);
            let rejected = pair.expect(A, "REJECTED");
            assert_eq!(rejected.data, [data, &vec![0; 148 - data.len()]].concat());
            pair.destroy(A, active);
            pair.destroy(B, passive);
        }
        pair.assert_clean(&[], &[listener]);
    });
}

#[test]
fn data_of_rtu_dreq_and_drep_travel_but_are_not_delivered() {
    World::new().run(|mut pair| {
        let [active, passive, listener] = requested(&mut pair);
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.establish(active, b"rtu");
        assert_eq!(pair.expect(B, "ESTABLISHED").data, []);
        let now = pair.now;
        pair.cm(A).disconnect(now, active, b"dreq").unwrap();
        assert_eq!(pair.expect(B, "DISCONNECTED").data, []);
        let now = pair.now;
        pair.cm(B).disconnect(now, passive, b"drep").unwrap();
        pair.expect(A, "ESTABLISHED");
        assert_eq!(pair.expect(A, "DISCONNECTED").data, []);
        let sent = |pair: &mut Pair<'_>, side, at: usize| pair.node(side).sent[at];
        assert_eq!(sent(&mut pair, A, 1)[32..36], *b"rtu\0");
        assert_eq!(sent(&mut pair, A, 2)[36..41], *b"dreq\0");
        assert_eq!(sent(&mut pair, B, 1)[32..37], *b"drep\0");
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn private_data_can_be_read_until_they_are_answered() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, b"req");
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        assert_eq!(pair.cm(A).private_data(active), [], "ours are not the peer's");
        assert_eq!(pair.cm(B).private_data(passive)[..3], *b"req");
        pair.accept(passive, b"rep");
        assert_eq!(pair.cm(B).private_data(passive), []);
        pair.expect(A, "CONNECT_RESPONSE");
        assert_eq!(pair.cm(A).private_data(active)[..3], *b"rep");
        pair.establish(active, b"rtu");
        assert_eq!(pair.cm(A).private_data(active), []);
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn data_that_arrive_before_the_rtu_establish_the_passive_side() {
    World::new().run(|mut pair| {
        let [active, passive, listener] = requested(&mut pair);
        pair.accept(passive, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        let now = pair.now;
        pair.cm(B).notify_established(now, passive).unwrap();
        pair.expect(B, "ESTABLISHED");
        pair.establish(active, &[]);
        pair.expect(A, "ESTABLISHED");
        pair.run_for(Duration::from_secs(60));
        pair.expect_silence();
        assert_eq!(pair.node(B).sent_names(), ["REP"]);
        assert_eq!(pair.cm(B).counters().duplicates, 1, "the RTU says nothing new");
        let again = pair.cm(B).notify_established(now, passive);
        assert_eq!(again, Err(ConnectError::AlreadyEstablished));
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

#[test]
fn a_new_identifier_has_its_listeners_cookie_and_can_get_its_own() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        pair.cm(B).set_user(listener, 77).unwrap();
        let active = pair.connect(7471, &[]);
        let request = pair.expect(B, "CONNECT_REQUEST").event;
        assert_eq!(request.user, 77);
        let EventKind::ConnectRequest { listener: asked, peer } = request.kind else {
            panic!("{request:?}")
        };
        assert_eq!(asked, listener);
        assert_eq!(Ok(peer), pair.cm(B).peer_param(request.id));
        pair.cm(B).set_user(request.id, u64::MAX).unwrap();
        pair.accept(request.id, &[]);
        pair.expect(A, "CONNECT_RESPONSE");
        pair.establish(active, &[]);
        assert_eq!(pair.expect(B, "ESTABLISHED").event.user, u64::MAX);
        pair.assert_clean(&[active], &[listener, request.id]);
    });
}

#[test]
fn many_connections_of_one_pair_do_not_mix() {
    World::new().of(nanocm_core::testing::Capacity::of(40)).run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let ids: Vec<_> = (0..40).map(|_| pair.established(7471)).collect();
        for &(active, passive) in ids.iter().rev() {
            let peer = pair.cm(A).peer_param(active).unwrap();
            let own = pair.cm(B).qp_attrs(passive, QpState::ReadyToSend).unwrap();
            assert_eq!(peer.starting_psn, own.sq_psn);
            pair.disconnect(A, active);
            assert_eq!(pair.expect(B, "DISCONNECTED").event.id, passive);
            pair.disconnect(B, passive);
            assert_eq!(pair.expect(A, "DISCONNECTED").event.id, active);
            pair.destroy(A, active);
            pair.destroy(B, passive);
        }
        pair.assert_clean(&[], &[listener]);
    });
}

#[test]
fn an_engine_connects_to_itself() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        solo.peer_ip = solo.ip;
        let own = solo.peer_at_home();
        let active = solo.route_to(&own);
        solo.connect(active);
        let deliver = |solo: &mut Solo<'_>, names| {
            for mad in solo.says(names) {
                assert!(!matches!(solo.hears(&own, &mad), Disposition::Ignored(_)));
            }
        };
        deliver(&mut solo, &["REQ"]);
        let passive = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.accept(passive);
        deliver(&mut solo, &["REP"]);
        solo.tells(&["CONNECT_RESPONSE"]);
        solo.cm.establish(solo.now, active, &[]).unwrap();
        deliver(&mut solo, &["RTU"]);
        solo.tells(&["ESTABLISHED", "ESTABLISHED"]);
        solo.cm.disconnect(solo.now, passive, &[]).unwrap();
        deliver(&mut solo, &["DREQ"]);
        solo.tells(&["DISCONNECTED"]);
        solo.cm.disconnect(solo.now, active, &[]).unwrap();
        deliver(&mut solo, &["DREP"]);
        solo.tells(&["DISCONNECTED"]);
        solo.assert_clean(&[listener, active, passive]);
    });
}

#[test]
fn a_connection_that_begins_says_nothing_of_the_last_one_in_its_slot() {
    World::new().run(|mut pair| {
        let listener = pair.listen(7471, 0);
        let active = pair.connect(7471, &[]);
        let passive = pair.expect(B, "CONNECT_REQUEST").event.id;
        let (now, mut param) = (pair.now, ConnParam::new(0x21));
        (param.srq, param.flow_control) = (true, true);
        pair.cm(B).accept(now, passive, &param).unwrap();
        pair.expect(A, "CONNECT_RESPONSE");
        pair.establish(active, &[]);
        pair.expect(A, "ESTABLISHED");
        pair.disconnect(A, active);
        pair.expect(B, "ESTABLISHED");
        pair.expect(B, "DISCONNECTED");
        pair.disconnect(B, passive);
        pair.expect(A, "DISCONNECTED");
        pair.expect(A, "TIMEWAIT_EXIT");
        pair.cm(A).reset(active).unwrap();
        assert_eq!(pair.cm(A).peer_param(active), Ok(PeerParam::default()));
        assert_eq!(pair.cm(A).state(active), Ok(State::RouteResolved));
        assert_eq!(pair.cm(A).conn_state(active), Ok(ConnState::Idle));
        pair.assert_clean(&[active], &[listener, passive]);
    });
}

fn route(local: IpAddr, remote: IpAddr) -> nanocm_core::Route {
    nanocm_core::Route::new(nanocm_core::Path::Roce(nanocm_core::addr::RocePath::new(
        local.into(),
        remote.into(),
    )))
}
