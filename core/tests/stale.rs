//! New or not: duplicates, peers that have started anew, strangers that pretend to; queue pairs in
//! use; and peers that ask for patience.

use nanocm_core::addr::IbPath;
use nanocm_core::testing::{Capacity, Peer, Solo, World, comm_id};
use nanocm_core::wire::{Dreq, Mad, MessageKind, Rej, RejectReason, Req};
use nanocm_core::{
    ConnParam, ConnState, ConnState::*, DisconnectCause, Disposition, EventKind, Gid, Id,
    IgnoreReason, Path, PortEvent, PortSpace, State, Unreachable,
};
use std::net::SocketAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// The same machine and queue pair, in another attempt.
fn anew(peer: &Peer) -> Peer {
    Peer { comm_id: peer.comm_id + 0x1000, tid: peer.tid + 0x1000, ..*peer }
}

/// The request among all that there is to tell.
fn request_among(solo: &mut Solo<'_>) -> Option<Id> {
    let mut events = std::iter::from_fn(|| solo.cm.poll_event());
    events.find(|event| matches!(event.kind, EventKind::ConnectRequest { .. })).map(|e| e.id)
}

/// Hands in a REQ that is answered with REJ 10, besides what else is said.
#[track_caller]
fn expect_stale(solo: &mut Solo<'_>, from: &Peer, req: &Mad, says: &[&str]) -> Vec<Mad> {
    assert_eq!(solo.hears(from, req), Disposition::Accepted);
    let said = solo.says(says);
    let rej = Rej(&said[0]);
    assert_eq!(rej.reason(), RejectReason::STALE);
    assert_eq!(rej.remote_comm_id(), Req(req).local_comm_id());
    assert_eq!((rej.local_comm_id(), rej.message_rejected()), (0, MessageKind::REQ));
    said
}

#[test]
fn a_peer_that_lost_power_connects_at_its_second_attempt() {
    // reports B1; the connection's own RTU carried as many octets as fit.
    for active in [true, false] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let old = solo.bring(Established, active);
            let second = anew(&old.peer);
            let req = second.req(solo.ip, 7471);
            let said = expect_stale(&mut solo, &second, &req, &["REJ", "DREQ"]);
            let dreq = Dreq(&said[1]);
            assert_eq!(dreq.remote_comm_id(), old.peer.comm_id);
            assert_eq!(dreq.remote_qpn(), old.peer.qpn);
            assert_eq!(said[1][36..], [0; 220], "a DREQ of nobody's data");
            let told = solo.tells(&["DISCONNECTED"])[0];
            assert_eq!(told.id, old.id);
            assert_eq!(told.kind, EventKind::Disconnected(DisconnectCause::Peer));
            assert_eq!(solo.cm.counters().stale, 1);
            let third = anew(&second);
            let _ = solo.hears(&third, &third.req(solo.ip, 7471));
            let new = solo.tells(&["CONNECT_REQUEST"])[0].id;
            solo.wait(SECOND);
            assert_eq!(solo.tells(&["TIMEWAIT_EXIT"])[0].id, old.id);
            solo.says(&[]);
            solo.assert_clean(&[listener, old.id, new]);
        });
    }
}

#[test]
fn a_stale_connection_whose_last_data_were_long_says_a_short_goodbye() {
    World::new().solo(|mut solo| {
        let it = solo.bring(RepRcvd, true);
        solo.cm.establish(solo.now, it.id, &[0x77; 224]).unwrap();
        solo.tells(&["ESTABLISHED"]);
        // The RTU is still owed: nobody waits for it any more.
        let second = anew(&it.peer);
        let _ = solo.listen(7471, 0);
        let req = second.req(solo.ip, 7471);
        let said = expect_stale(&mut solo, &second, &req, &["REJ", "DREQ"]);
        assert_eq!(said[1][36..], [0; 220]);
    });
}

#[test]
fn a_peer_that_has_started_anew_ends_what_was_pending_in_each_state() {
    // (state, side, said besides the REJ, told)
    type Case = (ConnState, bool, &'static [&'static str], &'static [&'static str]);
    let cases: [Case; 12] = [
        (ReqRcvd, false, &["REJ"], &["REJECTED"]),
        (RepRcvd, true, &["REJ"], &["REJECTED"]),
        (RepSent, false, &["REJ", "DREQ"], &["DISCONNECTED"]),
        (Established, true, &["REJ", "DREQ"], &["DISCONNECTED"]),
        (Established, false, &["REJ", "DREQ"], &["DISCONNECTED"]),
        (DreqSent, true, &["REJ"], &["DISCONNECTED"]),
        (DreqSent, false, &["REJ"], &["DISCONNECTED"]),
        (DreqRcvd, true, &["REJ"], &[]),
        (DreqRcvd, false, &["REJ"], &[]),
        // Over already: the REQ is a new one.
        (RejSent, false, &[], &["CONNECT_REQUEST"]),
        (Timewait, true, &[], &["CONNECT_REQUEST"]),
        (Idle, false, &[], &["CONNECT_REQUEST"]),
    ];
    for (state, active, says, tells) in cases {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            let second = anew(&it.peer);
            let req = second.req(solo.ip, 7471);
            let _ = solo.hears(&second, &req);
            solo.says(says);
            let told = solo.tells(tells);
            if let Some(EventKind::Rejected(reason)) = told.first().map(|event| event.kind) {
                assert_eq!(reason, RejectReason::STALE);
                assert_eq!(solo.cm.private_data(it.id), []);
            }
            let new = if says.is_empty() {
                told[0].id
            } else {
                // Nothing that was owed before is said now; and the next attempt counts.
                solo.wait(Duration::from_secs(40));
                solo.says(&[]);
                let third = anew(&second);
                let _ = solo.hears(&third, &third.req(solo.ip, 7471));
                request_among(&mut solo).expect("a new request")
            };
            solo.assert_clean(&[listener, it.id, new]);
        });
    }
}

#[test]
fn nothing_of_a_stale_connection_is_repeated() {
    for (state, active, says) in
        [(DreqSent, true, &["REJ"][..]), (RepSent, false, &["REJ", "DREQ"])]
    {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            solo.wait(SECOND);
            // A repetition is owed, and not polled yet.
            let second = anew(&it.peer);
            let req = second.req(solo.ip, 7471);
            expect_stale(&mut solo, &second, &req, says);
            solo.assert_clean(&[listener, it.id]);
        });
    }
}

#[test]
fn a_rejected_peer_tries_again_with_the_same_queue_pair() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(RejSent, false);
        // Its REQ again is answered as before; another one is another attempt.
        let req = it.peer.req(solo.ip, 7471);
        assert_eq!(solo.hears(&it.peer, &req), Disposition::Duplicate);
        solo.says(&["REJ"]);
        let second = anew(&it.peer);
        let _ = solo.hears(&second, &second.req(solo.ip, 7471));
        let again = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.says(&[]);
        assert_eq!(solo.cm.counters().stale, 0);
        solo.assert_clean(&[listener, it.id, again]);
    });
}

#[test]
fn a_stranger_tears_down_nothing() {
    // field-tests C5: GUID and queue pair are easy to guess.
    for (state, active) in
        [(Established, true), (Established, false), (RepSent, false), (DreqSent, true)]
    {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            let mut stranger = anew(&it.peer);
            stranger.ip = "10.9.9.9".parse().unwrap();
            let req = stranger.req(solo.ip, 7471);
            expect_stale(&mut solo, &stranger, &req, &["REJ"]);
            // It may say that it is the peer, but its packet does not.
            let mut liar = req;
            Req(&mut liar).set_primary_local_gid(it.peer.ip.into());
            expect_stale(&mut solo, &stranger, &liar, &["REJ"]);
            // Even with the numbers of the REQ that the connection began with.
            let copy = it.peer.req(solo.ip, 7471);
            expect_stale(&mut solo, &stranger, &copy, &["REJ"]);
            solo.tells(&[]);
            assert_eq!(it.states(&solo.cm).1, state);
            assert_eq!(solo.cm.counters().stale, 0);
            assert_eq!(solo.cm.counters().stale_spoofed, 3);
            solo.assert_clean(&[listener, it.id]);
        });
    }
}

#[test]
fn strangers_without_a_guid_are_strangers() {
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let mut ids = vec![listener];
        for last in 1..=3 {
            let peer = Peer {
                ip: [10, 0, 1, last].into(),
                comm_id: 7,
                guid: 0,
                qpn: 0x11,
                tid: u64::from(last),
            };
            let req = peer.req(solo.ip, 7471);
            assert_eq!(solo.hears(&peer, &req), Disposition::Accepted);
            ids.push(solo.tells(&["CONNECT_REQUEST"])[0].id);
            assert_eq!(solo.hears(&peer, &req), Disposition::Duplicate);
            solo.says(&["MRA"]);
        }
        assert_eq!(solo.cm.counters().stale_spoofed, 0);
        // But each is somebody: the first one comes back with the same queue pair.
        let back = Peer { ip: [10, 0, 1, 1].into(), comm_id: 8, guid: 0, qpn: 0x11, tid: 9 };
        let req = back.req(solo.ip, 7471);
        expect_stale(&mut solo, &back, &req, &["REJ"]);
        assert_eq!(solo.tells(&["REJECTED"])[0].id, ids[1]);
        // And each gives up for itself.
        for last in [2, 3] {
            let peer = Peer { ip: [10, 0, 1, last].into(), comm_id: 7, ..back };
            assert_eq!(solo.hears(&peer, &peer.timeout_rej()), Disposition::Accepted);
            assert_eq!(solo.tells(&["REJECTED"])[0].id, ids[usize::from(last)]);
        }
        solo.assert_clean(&ids);
    });
}

#[test]
fn a_repeated_req_gets_what_its_state_has_for_it() {
    for (state, active, says) in [
        (ReqRcvd, false, &["MRA"][..]),
        (RepSent, false, &["REP"]),
        (RejSent, false, &["REJ"]),
        (Established, false, &[]),
        (DreqSent, false, &[]),
        (DreqRcvd, false, &[]),
    ] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            let req = it.peer.req(solo.ip, 7471);
            for _ in 0..2 {
                assert_eq!(solo.hears(&it.peer, &req), Disposition::Duplicate, "{state}");
                solo.says(says);
            }
            assert_eq!(solo.cm.counters().duplicates, 2);
            solo.tells(&[]);
            assert_eq!(it.states(&solo.cm).1, state);
            solo.assert_clean(&[listener, it.id]);
        });
    }
}

#[test]
fn a_rep_with_a_queue_pair_of_another_connection_makes_that_one_stale() {
    World::new().solo(|mut solo| {
        let old = solo.bring(Established, true);
        let new = solo.bring(ReqSent, true);
        let liar = Peer { guid: old.peer.guid, qpn: old.peer.qpn, ..new.peer };
        let _ = solo.hears(&liar, &liar.rep(new.comm_id));
        let said = solo.says(&["REJ", "DREQ"]);
        let rej = Rej(&said[0]);
        assert_eq!((rej.reason(), rej.message_rejected()), (RejectReason::STALE, MessageKind::REP));
        assert_eq!((rej.local_comm_id(), rej.remote_comm_id()), (new.comm_id, liar.comm_id));
        assert_eq!(solo.tells(&["DISCONNECTED"])[0].id, old.id);
        // Our own REQ keeps waiting, and its next REP counts.
        assert_eq!(new.states(&solo.cm).1, ReqSent);
        let _ = solo.hears(&liar, &liar.rep(new.comm_id));
        assert_eq!(solo.tells(&["CONNECT_RESPONSE"])[0].id, new.id);
        solo.assert_clean(&[old.id, new.id]);
    });
}

#[test]
fn a_rep_that_lies_about_a_third_party_harms_only_itself() {
    World::new().solo(|mut solo| {
        let old = solo.bring(Established, true);
        solo.peer_ip = "10.9.9.9".parse().unwrap();
        let new = solo.bring(ReqSent, true);
        let liar = Peer { guid: old.peer.guid, qpn: old.peer.qpn, ..new.peer };
        let _ = solo.hears(&liar, &liar.rep(new.comm_id));
        solo.says(&["REJ"]);
        solo.tells(&[]);
        assert_eq!(solo.cm.counters().stale_spoofed, 1);
        assert_eq!(old.states(&solo.cm).1, Established);
        solo.assert_clean(&[old.id, new.id]);
    });
}

#[test]
fn a_rep_with_a_communication_id_of_another_connection_is_not_believed() {
    World::new().solo(|mut solo| {
        let old = solo.bring(Established, true);
        let new = solo.bring(ReqSent, true);
        let liar = Peer { comm_id: old.peer.comm_id, guid: old.peer.guid, ..new.peer };
        let disposition = solo.hears(&liar, &liar.rep(new.comm_id));
        assert_eq!(disposition, Disposition::Ignored(IgnoreReason::NotForState));
        assert_eq!(new.states(&solo.cm).1, ReqSent);
        solo.assert_clean(&[old.id, new.id]);
    });
}

#[test]
fn a_repeated_rep_gets_what_its_state_has_for_it() {
    use Disposition::*;
    for (state, active, disposition, says) in [
        (RepRcvd, true, Duplicate, &["MRA"][..]),
        (Established, true, Duplicate, &["RTU"]),
        (DreqSent, true, Ignored(IgnoreReason::NotForState), &[]),
        (Timewait, true, Ignored(IgnoreReason::NotForState), &[]),
        (RepSent, false, Ignored(IgnoreReason::NotForState), &[]),
        (Established, false, Ignored(IgnoreReason::NotForState), &[]),
        (Idle, true, Ignored(IgnoreReason::UnknownConnection), &["REJ"]),
    ] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            // So soon the peer may send it again.
            solo.now = solo.now + Duration::from_millis(540);
            assert_eq!(solo.hears(&it.peer, &it.peer.rep(it.comm_id)), disposition, "{state}");
            solo.says(says);
            solo.tells(&[]);
            assert_eq!(it.states(&solo.cm).1, state);
            solo.assert_clean(&[listener, it.id]);
        });
    }
}

#[test]
fn a_rep_that_the_network_doubles_asks_for_no_patience() {
    // Linux 6.1 over a wire that doubles packets: REP, REP, MRA, RTU within a millisecond, the RTU lost, and
    // Linux sent its REP again after 136 s.
    World::new().solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(RepRcvd, true);
        let rep = it.peer.rep(it.comm_id);
        for after in [0, 1, 500] {
            solo.now = solo.now + Duration::from_millis(after);
            assert_eq!(solo.hears(&it.peer, &rep), Disposition::Duplicate);
            solo.says(&[]);
        }
        solo.now = solo.now + Duration::from_millis(100);
        assert_eq!(solo.hears(&it.peer, &rep), Disposition::Duplicate);
        solo.says(&["MRA"]);
        solo.assert_clean(&[listener, it.id]);
    });
}

/// A REQ of an InfiniBand peer, and the path it came by.
fn over_infiniband(solo: &mut Solo<'_>, grh: bool) -> (Peer, Path, Mad) {
    let gid = |last| {
        let mut gid = Gid([0; 16]);
        (gid.0[0], gid.0[1], gid.0[15]) = (0xfe, 0x80, last);
        gid
    };
    let address = nanocm_core::addr::ScopedIp::new(gid(2), 0);
    let event = PortEvent::GidAdded { address, ca_guid: 2 };
    assert!(solo.cm.handle_port_event(solo.now, event));
    let peer = solo.peer();
    let mut path = IbPath::default();
    (path.lid, path.grh) = (17, grh);
    path.local = gid(2);
    if grh {
        path.remote = gid(1);
    }
    let mut req = peer.req(solo.ip, 7471);
    Req(&mut req).set_primary_local_gid(gid(1)).set_primary_remote_gid(gid(2));
    (peer, Path::Ib(path), req)
}

#[test]
fn on_infiniband_a_packet_need_not_name_its_sender() {
    for grh in [true, false] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let (peer, path, req) = over_infiniband(&mut solo, grh);
            let now = solo.now;
            let hear = |solo: &mut Solo<'_>, mad: &Mad| solo.cm.handle_datagram(now, &path, mad);
            assert_eq!(hear(&mut solo, &req), Disposition::Accepted);
            let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
            assert_eq!(hear(&mut solo, &req), Disposition::Duplicate, "grh {grh}");
            solo.says(&["MRA"]);
            assert_eq!(hear(&mut solo, &peer.timeout_rej()), Disposition::Accepted, "grh {grh}");
            solo.tells(&["REJECTED"]);
            let again = anew(&peer);
            let mut req = req;
            Req(&mut req).set_local_comm_id(again.comm_id);
            assert_eq!(hear(&mut solo, &req), Disposition::Accepted);
            let second = solo.tells(&["CONNECT_REQUEST"])[0].id;
            solo.accept(second);
            let rep = solo.says(&["REP"])[0];
            // From another LID, as after a sweep of the subnet manager.
            let Path::Ib(mut moved) = path else { unreachable!() };
            moved.lid = 99;
            let rtu = again.rtu(comm_id(&rep));
            let done = solo.cm.handle_datagram(now, &Path::Ib(moved), &rtu);
            assert_eq!(done, Disposition::Accepted, "grh {grh}");
            solo.tells(&["ESTABLISHED"]);
            // But the numbers that everybody knows are believed from the same port only.
            let third = anew(&again);
            Req(&mut req).set_local_comm_id(third.comm_id);
            let mut elsewhere = moved;
            elsewhere.remote = Gid([9; 16]);
            let _ = solo.cm.handle_datagram(now, &Path::Ib(elsewhere), &req);
            assert_eq!(solo.cm.counters().stale_spoofed, 1, "grh {grh}");
            solo.says(&["REJ"]);
            let _ = hear(&mut solo, &req);
            assert_eq!(solo.cm.counters().stale, 1, "grh {grh}");
            solo.says(&["REJ", "DREQ"]);
            solo.tells(&["DISCONNECTED"]);
            solo.assert_clean(&[listener, id, second]);
        });
    }
}

/// Found by the fuzz target `ops`: each repetition was another request.
#[test]
fn on_infiniband_a_packet_that_names_its_sender_names_the_path_in_the_req() {
    for lenient in [false, true] {
        let strict: fn(&mut nanocm_core::Config) = |_| {};
        let world = World::new().set(if lenient { |config| config.lenient = true } else { strict });
        world.solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let (peer, path, req) = over_infiniband(&mut solo, true);
            let Path::Ib(mut path) = path else { unreachable!() };
            path.remote = Gid([9; 16]);
            let now = solo.now;
            let hear =
                |solo: &mut Solo<'_>, mad: &Mad| solo.cm.handle_datagram(now, &Path::Ib(path), mad);
            assert_eq!(hear(&mut solo, &req), Disposition::Accepted);
            if !lenient {
                let rej = solo.says(&["REJ"])[0];
                assert_eq!(Rej(&rej).reason(), RejectReason::INVALID_PRIMARY_GID);
                return solo.assert_clean(&[listener]);
            }
            let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
            assert_eq!(hear(&mut solo, &req), Disposition::Duplicate);
            solo.says(&["MRA"]);
            solo.accept(id);
            let rep = solo.says(&["REP"])[0];
            assert_eq!(hear(&mut solo, &peer.rtu(comm_id(&rep))), Disposition::Accepted);
            solo.tells(&["ESTABLISHED"]);
            solo.assert_clean(&[listener, id]);
        });
    }
}

#[test]
fn a_connection_is_of_one_kind_of_link() {
    for lenient in [false, true] {
        let strict: fn(&mut nanocm_core::Config) = |_| {};
        let world = World::new().set(if lenient { |config| config.lenient = true } else { strict });
        world.solo(|mut solo| {
            let it = solo.bring(ReqSent, true);
            let mut path = IbPath::default();
            (path.local, path.remote) = (solo.ip.into(), it.peer.ip.into());
            for grh in [false, true] {
                path.grh = grh;
                let rep = it.peer.rep(it.comm_id);
                let done = solo.cm.handle_datagram(solo.now, &Path::Ib(path), &rep);
                assert_eq!(done, Disposition::Ignored(IgnoreReason::WrongPath));
            }
            solo.assert_clean(&[it.id]);
        });
    }
}

#[test]
fn a_lenient_engine_takes_peers_at_their_word() {
    let world = World::new().set(|config| config.lenient = true);
    world.solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let peer = solo.peer();
        let mut elsewhere = peer;
        elsewhere.ip = "10.7.7.7".parse().unwrap();
        let req = peer.req(solo.ip, 7471);
        assert_eq!(solo.hears(&elsewhere, &req), Disposition::Accepted);
        let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
        assert_eq!(solo.hears(&elsewhere, &req), Disposition::Duplicate);
        solo.accept(id);
        let mut mad = [0; 256];
        let sent = solo.cm.poll_transmit(solo.now, &mut mad).unwrap();
        assert_eq!(sent.path.remote_gid(), peer.ip.into(), "the answer goes where the REQ says");
        let ours = comm_id(&mad);
        assert_eq!(solo.hears(&elsewhere, &elsewhere.rtu(ours)), Disposition::Accepted);
        solo.tells(&["ESTABLISHED"]);
        // Communication IDs are believed, what is easy to guess is not.
        let mut second = anew(&peer);
        second.ip = elsewhere.ip;
        let mut req = second.req(solo.ip, 7471);
        Req(&mut req).set_primary_local_gid(peer.ip.into());
        expect_stale(&mut solo, &second, &req, &["REJ"]);
        solo.tells(&[]);
        assert_eq!(solo.cm.counters().stale_spoofed, 1);
        solo.assert_clean(&[listener, id]);
    });
}

/// When an attempt that hears these MRAs (when, code) ends, in seconds.
fn patience(user: Option<u64>, mras: &[(u64, u8)], ends: f64) {
    for active in [true, false] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let peer = solo.peer();
            let mut param = ConnParam::new(0x99);
            param.timeout = user.map(Duration::from_secs);
            let id = if active {
                let id = solo.route_to(&peer);
                solo.cm.connect(solo.now, id, &param).unwrap();
                id
            } else {
                let _ = solo.hears(&peer, &peer.req(solo.ip, 7471));
                let id = solo.tells(&["CONNECT_REQUEST"])[0].id;
                solo.cm.accept(solo.now, id, &param).unwrap();
                id
            };
            let (name, kind) =
                if active { ("REQ", MessageKind::REQ) } else { ("REP", MessageKind::REP) };
            let ours = comm_id(&solo.says(&[name])[0]);
            let (start, mut mad) = (solo.now, [0; 256]);
            for &(at, code) in mras {
                solo.wait((start + Duration::from_secs(at)).saturating_since(solo.now));
                while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
                let wrong = peer.mra(ours, MessageKind::OTHER, 31);
                let ignored = Disposition::Ignored(IgnoreReason::NotForState);
                assert_eq!(solo.hears(&peer, &wrong), ignored);
                let mra = peer.mra(ours, kind, code);
                assert_eq!(solo.hears(&peer, &mra), Disposition::Accepted);
            }
            let told = loop {
                let next = solo.cm.poll_at().expect("a deadline").saturating_since(solo.now);
                solo.wait(next);
                if let Some(event) = solo.cm.poll_event() {
                    break event;
                }
            };
            assert_eq!(told.kind, EventKind::Unreachable(Unreachable::Timeout));
            let took = solo.now.saturating_since(start).as_secs_f64();
            // Patience is kept in tenths of a second, and never exceeded.
            assert!(took < ends + 0.01 && took > ends - 0.1, "{mras:?}: {took} s, not {ends}");
            while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
            solo.assert_clean(&[listener, id]);
        });
    }
}

#[test]
fn an_mra_extends_the_wait_within_bounds() {
    // field-tests C2: the new end is service timeout and round trip after the MRA. Code 24 is 68.7 s.
    let (service, round_trip) = (68.719, 0.537);
    patience(None, &[], 30.0);
    patience(None, &[(1, 24)], 1.0 + service + round_trip);
    patience(None, &[(1, 24), (40, 24)], 40.0 + service + round_trip);
    // Never beyond 120 s from the start.
    patience(None, &[(1, 24), (60, 24)], 120.0);
    patience(None, &[(1, 31)], 120.0);
    // A short one does not bring the end nearer, be it the first or a later one.
    patience(None, &[(1, 10)], 30.0);
    patience(None, &[(1, 24), (60, 15)], 1.0 + service + round_trip);
}

#[test]
fn an_end_that_the_user_set_is_hard() {
    patience(Some(5), &[(1, 24)], 5.0);
    patience(Some(5), &[(1, 31), (2, 31), (3, 31)], 5.0);
    patience(Some(100), &[(1, 24)], 100.0);
}

#[test]
fn an_mra_stops_the_repetitions_for_as_long_as_it_says() {
    World::new().solo(|mut solo| {
        let it = solo.bring(ReqSent, true);
        // Code 20 is 4.3 s.
        let _ = solo.hears(&it.peer, &it.peer.mra(it.comm_id, MessageKind::REQ, 20));
        solo.wait(Duration::from_millis(4_800));
        solo.says(&[]);
        solo.wait(Duration::from_millis(100));
        solo.says(&["REQ"]);
        solo.assert_clean(&[it.id]);
    });
}

#[test]
fn an_mra_in_any_other_state_changes_nothing() {
    for (state, active) in [
        (ReqRcvd, false),
        (RepRcvd, true),
        (Established, true),
        (DreqSent, true),
        (DreqRcvd, true),
        (Timewait, true),
        (RejSent, false),
        (Idle, true),
    ] {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(state, active);
            let at = solo.cm.poll_at();
            for kind in [MessageKind::REQ, MessageKind::REP, MessageKind::OTHER] {
                let mra = it.peer.mra(it.comm_id, kind, 20);
                assert!(matches!(solo.hears(&it.peer, &mra), Disposition::Ignored(_)), "{state}");
            }
            assert_eq!((it.states(&solo.cm).1, solo.cm.poll_at()), (state, at));
            solo.assert_clean(&[listener, it.id]);
        });
    }
}

#[test]
fn restarted_peers_of_a_mesh_are_back_within_two_attempts() {
    // reports B2 and D13: half of the old connections never heard that the node went down.
    World::new().of(Capacity::of(64)).solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let mut ids: Vec<Id> = vec![listener];
        let olds: Vec<_> =
            (0..16).map(|n| solo.bring([Established, RepSent][n % 2], false)).collect();
        for (n, old) in olds.iter().enumerate() {
            if n % 4 < 2 {
                let _ = solo.hears(&old.peer, &old.peer.dreq(old.comm_id, old.qpn));
                solo.tells(&["DISCONNECTED"]);
            }
            ids.push(old.id);
        }
        let mut attempts = 0;
        for old in &olds {
            let mut peer = old.peer;
            loop {
                peer = anew(&peer);
                attempts += 1;
                let _ = solo.hears(&peer, &peer.req(solo.ip, 7471));
                let mut mad = [0; 256];
                while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {}
                if let Some(new) = request_among(&mut solo) {
                    ids.push(new);
                    break;
                }
            }
        }
        assert_eq!(attempts, 32, "two each");
        solo.assert_clean(&ids);
    });
}

#[test]
fn a_service_for_datagrams_takes_no_connection() {
    World::new().solo(|mut solo| {
        for space in [PortSpace::Udp, PortSpace::Ipoib] {
            let id = solo.cm.create_id(space, 0).unwrap();
            solo.cm.bind(id, SocketAddr::new(solo.ip, 7471)).unwrap();
            solo.cm.listen(id, 0).unwrap();
            let peer = solo.peer();
            let mut req = peer.req(solo.ip, 7471);
            Req(&mut req).set_service_id(nanocm_core::ServiceId::new(space, 7471));
            let _ = solo.hears(&peer, &req);
            let rej = solo.says(&["REJ"])[0];
            assert_eq!(Rej(&rej).reason(), RejectReason::INVALID_TRANSPORT_TYPE);
            solo.tells(&[]);
            solo.cm.destroy(solo.now, id).unwrap();
        }
        assert_eq!(solo.cm.counters().bad_transport, 2);
        solo.assert_clean(&[]);
    });
}

#[test]
fn sdp_and_ib_services_take_connections() {
    World::new().solo(|mut solo| {
        for space in [PortSpace::Sdp, PortSpace::Ib] {
            let id = solo.cm.create_id(space, 0).unwrap();
            solo.cm.bind(id, SocketAddr::new(solo.ip, 7471)).unwrap();
            solo.cm.listen(id, 0).unwrap();
            let peer = solo.peer();
            let mut req = peer.req(solo.ip, 7471);
            Req(&mut req).set_service_id(nanocm_core::ServiceId::new(space, 7471));
            let _ = solo.hears(&peer, &req);
            let request = solo.tells(&["CONNECT_REQUEST"])[0].id;
            assert_eq!(solo.cm.state(request), Ok(State::Connect));
            solo.cm.destroy(solo.now, request).unwrap();
            solo.says(&["REJ"]);
            solo.cm.destroy(solo.now, id).unwrap();
        }
        solo.assert_clean(&[]);
    });
}
