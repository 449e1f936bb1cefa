//! Hostile networks (DESIGN §7): who forges messages without knowing the communication IDs hurts
//! nobody; who floods leaves room for others; and few answers go to whom a forger names.

use nanocm_core::testing::{Brought, Capacity, Memory, Peer, Solo, World, comm_id, name};
use nanocm_core::wire::{Apr, Lap, Mad, MessageKind, RejectReason, Rep, Req, SidrStatus};
use nanocm_core::{
    Config, ConnState, ConnState::*, Disposition, EventKind, Id, IgnoreReason, Instant, PortSpace,
};
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A small generator of the test's own.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 32) as u32
    }

    fn below(&mut self, n: usize) -> usize {
        ((u64::from(self.next()) * n as u64) >> 32) as usize
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// All there is to send is sent: how much that was.
fn flush(solo: &mut Solo<'_>) -> usize {
    let mut mad = [0; 256];
    std::iter::from_fn(|| solo.cm.poll_transmit(solo.now, &mut mad)).count()
}

/// A connection in each state, on both sides where both have it.
fn everywhere(solo: &mut Solo<'_>) -> Vec<(Brought, ConnState, bool)> {
    let both = |state| [(state, true), (state, false)];
    let all = ConnState::ALL.into_iter().flat_map(both);
    all.map(|(state, active)| (solo.bring(state, active), state, active)).collect()
}

/// What a blind attacker sends: anything, between any of the numbers it knows, with communication
/// IDs that it has to guess.
fn forge(dice: &mut Dice, known: &[Brought], us: IpAddr) -> (IpAddr, Mad) {
    const OWN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 9, 9, 9));
    let (victim, other) = (dice.pick(known), dice.pick(known));
    let mut from = dice.pick(&[victim.peer.ip, OWN]);
    let mut peer = Peer { ip: from, comm_id: dice.next(), tid: dice.next().into(), ..victim.peer };
    let (to, port) = (dice.next(), dice.pick(&[7471, 7471, 7472]));
    let of = dice.pick(&[MessageKind::REQ, MessageKind::REP, MessageKind::OTHER]);
    let reason = dice.pick(&[RejectReason::CONSUMER, RejectReason::STALE, RejectReason::TIMEOUT]);
    let mad = match dice.below(12) {
        0 => {
            // With its GUID and queue pair from its own address a peer says that it has started
            // anew, which nobody can tell from a forgery (field-tests C5): all other combinations.
            match dice.below(3) {
                0 => peer.qpn = dice.next() & 0xff_ffff | 0x80_0000,
                1 => peer.guid = dice.next().into(),
                _ => from = OWN,
            }
            let mut req = peer.req(us, port);
            if dice.below(2) == 0 {
                Req(&mut req).set_primary_local_gid(victim.peer.ip.into());
            }
            req
        }
        1 => {
            let mut rep = peer.rep(to);
            Rep(&mut rep).set_local_qpn(dice.pick(&[victim, other]).peer.qpn);
            rep
        }
        2 => peer.rtu(to),
        3 => peer.rej(to, of, reason),
        4 => peer.timeout_rej(),
        5 => peer.mra(to, of, 31),
        6 => peer.dreq(to, dice.pick(&[victim, other]).qpn),
        7 => peer.drep(to),
        8 => peer.sidr_req(us, port),
        9 => peer.sidr_rep(to, dice.pick(&[SidrStatus::VALID, SidrStatus::REJECTED])),
        10 => {
            let mut mad = [0; 256];
            Lap::emit(&mut mad, peer.tid).set_local_comm_id(peer.comm_id).set_remote_comm_id(to);
            mad
        }
        _ => {
            let mut mad = [0; 256];
            Apr::emit(&mut mad, peer.tid).set_local_comm_id(peer.comm_id).set_remote_comm_id(to);
            mad
        }
    };
    (from, mad)
}

/// A connection that nobody has hurt goes where its peer and its application lead it.
fn goes_on(solo: &mut Solo<'_>, it: &Brought, state: ConnState, active: bool) {
    let (peer, now) = (it.peer, solo.now);
    let hears = |solo: &mut Solo<'_>, mad: &Mad, tells: &[&str]| {
        let _ = solo.hears(&peer, mad);
        solo.tells(tells);
    };
    match state {
        ReqSent => {
            hears(solo, &peer.rep(it.comm_id), &["CONNECT_RESPONSE"]);
            goes_on(solo, it, RepRcvd, true);
        }
        RepRcvd => {
            solo.cm.establish(now, it.id, &[]).unwrap();
            solo.says(&["RTU"]);
            solo.tells(&["ESTABLISHED"]);
            goes_on(solo, it, Established, true);
        }
        ReqRcvd => {
            solo.accept(it.id);
            let rep = solo.says(&["REP"])[0];
            assert_eq!(Rep(&rep).remote_comm_id(), peer.comm_id);
            hears(solo, &peer.rtu(comm_id(&rep)), &["ESTABLISHED"]);
        }
        RepSent => {
            hears(solo, &peer.rtu(it.comm_id), &["ESTABLISHED"]);
            goes_on(solo, it, Established, false);
        }
        Established => {
            solo.cm.disconnect(now, it.id, &[]).unwrap();
            let dreq = solo.says(&["DREQ"])[0];
            assert_eq!(comm_id(&dreq), it.comm_id);
            hears(solo, &peer.drep(it.comm_id), &["DISCONNECTED"]);
        }
        DreqSent => hears(solo, &peer.drep(it.comm_id), &["DISCONNECTED"]),
        DreqRcvd => {
            solo.cm.disconnect(now, it.id, &[]).unwrap();
            solo.says(&["DREP"]);
        }
        Timewait => {
            let _ = solo.hears(&peer, &peer.dreq(it.comm_id, it.qpn));
            solo.says(&["DREP"]);
        }
        RejSent => {
            let _ = solo.hears(&peer, &peer.req(solo.ip, 7471));
            solo.says(&["REJ"]);
        }
        SidrReqSent => {
            hears(solo, &peer.sidr_rep(it.comm_id, SidrStatus::VALID), &["ESTABLISHED"]);
        }
        SidrReqRcvd => {
            solo.accept(it.id);
            solo.says(&["SIDR_REP"]);
        }
        SidrRepSent => {
            let _ = solo.hears(&peer, &peer.sidr_req(solo.ip, 7471));
            solo.says(&["SIDR_REP"]);
        }
        Idle if active => {
            solo.cm.reset(it.id).unwrap();
            solo.connect(it.id);
            solo.says(&["REQ"]);
        }
        SidrResolved | Idle => {}
    }
}

#[test]
fn a_million_forged_messages_hurt_nobody() {
    let mut memory = Memory::new(Capacity::of(64));
    let cm = memory.engine(Config::new(0xa77ac)).unwrap();
    let ips = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])];
    let mut solo = Solo::new(cm, ips, Instant::ZERO);
    let listeners = [solo.listen(7471, 8), solo.listen_in(PortSpace::Udp, 7471, 8)];
    let all = everywhere(&mut solo);
    let known: Vec<_> = all.iter().map(|(it, ..)| *it).collect();
    let ours: BTreeSet<_> = known.iter().map(|it| it.id).chain(listeners).collect();
    let states: Vec<_> = known.iter().map(|it| it.states(&solo.cm)).collect();
    let used = solo.cm.in_use();
    let (mut dice, mut asked) = (Dice(0xb11d), 0);
    for _ in 0..1_000_000 {
        let (from, mad) = forge(&mut dice, &known, solo.ip);
        let _ = solo.hears(&Peer { ip: from, ..known[0].peer }, &mad);
        while let Some(event) = solo.cm.poll_event() {
            // Somebody asks to connect; that is no secret. The application does not want it.
            assert!(matches!(event.kind, EventKind::ConnectRequest { .. }), "{event:?}");
            assert!(!ours.contains(&event.id));
            solo.cm.destroy(solo.now, event.id).unwrap();
            asked += 1;
        }
        flush(&mut solo);
        solo.now = solo.now + Duration::from_nanos(100);
    }
    assert!(asked > 10_000, "{asked}");
    assert_eq!(solo.cm.in_use(), used, "memory is as before");
    assert_eq!(known.iter().map(|it| it.states(&solo.cm)).collect::<Vec<_>>(), states);
    let counters = *solo.cm.counters();
    assert!(counters.stale_spoofed > 1000, "those that name others' queue pairs");
    assert_eq!(counters.stale, 0);
    assert!(counters.answers_limited > 1000 && counters.sent < 40_000 + 3 * asked, "{counters:?}");
    solo.now = solo.now + SECOND / 10;
    for (it, state, active) in &all {
        goes_on(&mut solo, it, *state, *active);
    }
    solo.assert_clean(&ours.into_iter().collect::<Vec<_>>());
}

/// A REQ with numbers chosen to meet others.
fn flood(solo: &mut Solo<'_>, dice: &mut Dice, ip: IpAddr) -> Disposition {
    let (long, short) = (u64::from(dice.next()) << 32 | 7, dice.next());
    let peer = Peer {
        ip,
        comm_id: dice.pick(&[0, 7, 7, 1 << 31, short]),
        guid: dice.pick(&[0, 1, 1, u64::MAX, long]),
        qpn: dice.pick(&[0, 5, 5, 0xff_ffff, short & 0xff_ffff]),
        tid: long,
    };
    let req = peer.req(solo.ip, 7471);
    solo.hears(&peer, &req)
}

/// The application accepts whoever asks, and honest clients answer. How many connected; they are
/// gone then.
fn serve(solo: &mut Solo<'_>, honest: &[Peer]) -> usize {
    let mut connected = 0;
    let mut mad = [0; 256];
    loop {
        while let Some(event) = solo.cm.poll_event() {
            match event.kind {
                EventKind::ConnectRequest { .. } => solo.accept(event.id),
                EventKind::Established => {
                    connected += 1;
                    solo.cm.destroy(solo.now, event.id).unwrap();
                }
                _ => drop(solo.cm.destroy(solo.now, event.id)),
            }
        }
        if solo.cm.poll_transmit(solo.now, &mut mad).is_none() {
            return connected;
        }
        let client = honest.iter().find(|client| client.comm_id == Rep(&mad).remote_comm_id());
        match (client, name(&mad)) {
            (Some(client), "REP") => {
                let _ = solo.hears(client, &client.rtu(comm_id(&mad)));
            }
            (Some(client), "DREQ") => {
                let _ = solo.hears(client, &client.drep(comm_id(&mad)));
            }
            _ => {}
        }
    }
}

#[test]
fn whoever_gets_a_place_in_a_flood_connects() {
    let world = World::new().of(Capacity { replies: 64, ..Capacity::of(48) });
    world.set(|config| config.half_open = 40).solo(|mut solo| {
        let listener = solo.listen(7471, 24);
        let (mut dice, mut honest, mut connected) = (Dice(0xf100d), Vec::new(), 0);
        for _ in 0..1000 {
            let at = dice.below(30);
            for n in 0..30 {
                let from = IpAddr::from([10, 7, 0, dice.below(200) as u8]);
                let _ = flood(&mut solo, &mut dice, from);
                if n == at {
                    let client = solo.peer();
                    let before = solo.cm.in_use();
                    let _ = solo.hears(&client, &client.req(solo.ip, 7471));
                    if solo.cm.in_use() != before {
                        honest.push(client);
                    }
                }
                let (ids, conns) = solo.cm.in_use();
                assert!(ids <= 52 && conns <= 48, "{ids} {conns}");
            }
            connected += serve(&mut solo, &honest);
            solo.wait(SECOND / 2);
        }
        assert!(honest.len() > 20, "{}", honest.len());
        assert_eq!(connected, honest.len());
        assert!(solo.cm.counters().ignored_for(IgnoreReason::HalfOpen) > 1000);
        solo.wait(SECOND * 40);
        serve(&mut solo, &[]);
        solo.assert_clean(&[listener]);
    });
}

#[test]
fn a_flood_from_one_address_leaves_room_for_all_others() {
    let world = World::new().of(Capacity { replies: 64, ..Capacity::of(48) });
    world.set(|config| config.half_open_per_source = 24).solo(|mut solo| {
        let listener = solo.listen(7471, 48);
        let mut dice = Dice(0xf100d);
        for _ in 0..300 {
            for _ in 0..100 {
                let _ = flood(&mut solo, &mut dice, IpAddr::from([10, 7, 7, 7]));
            }
            let client = solo.peer();
            assert_eq!(solo.hears(&client, &client.req(solo.ip, 7471)), Disposition::Accepted);
            assert_eq!(serve(&mut solo, &[client]), 1);
            solo.wait(SECOND / 4);
        }
        solo.wait(SECOND * 40);
        serve(&mut solo, &[]);
        solo.assert_clean(&[listener]);
    });
}

/// All that is said to whom a forger has named, until it is over.
fn said_in_all(solo: &mut Solo<'_>) -> Vec<&'static str> {
    let (mut said, mut mad) = (Vec::new(), [0; 256]);
    for _ in 0..200 {
        while solo.cm.poll_transmit(solo.now, &mut mad).is_some() {
            said.push(name(&mad));
        }
        solo.wait(SECOND);
        while let Some(event) = solo.cm.poll_event() {
            assert!(!matches!(event.kind, EventKind::ConnectRequest { .. }));
        }
    }
    said
}

#[test]
fn a_forged_request_buys_few_answers() {
    type Answer = (fn(&mut Solo<'_>, Id), &'static [&'static str]);
    let answers: [Answer; 4] = [
        (|solo, id| solo.accept(id), &["REP", "REP", "REP", "REP", "REJ"]),
        (|solo, id| solo.cm.reject(solo.now, id, RejectReason::CONSUMER, &[]).unwrap(), &["REJ"]),
        (|solo, id| _ = solo.cm.destroy(solo.now, id).unwrap(), &["REJ"]),
        // It never answers.
        (|_, _| {}, &["REJ"]),
    ];
    for (answer, says) in answers {
        World::new().solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            let it = solo.bring(ReqRcvd, false);
            answer(&mut solo, it.id);
            assert_eq!(said_in_all(&mut solo), says);
            let _ = solo.cm.destroy(solo.now, it.id);
            solo.assert_clean(&[listener]);
        });
    }
    // A refused one buys one, whatever for; and so does a DREQ of no connection.
    World::new().solo(|mut solo| {
        let peer = solo.peer();
        let _ = solo.hears(&peer, &peer.req(solo.ip, 9999));
        assert_eq!(said_in_all(&mut solo), ["REJ"]);
        let _ = solo.hears(&peer, &peer.dreq(7, 7));
        assert_eq!(said_in_all(&mut solo), ["DREP"]);
        solo.assert_clean(&[]);
    });
}

#[test]
fn a_peer_that_repeats_its_request_is_answered_even_when_the_rest_is_silence() {
    World::new().set(|config| config.passive_retries = 0).solo(|mut solo| {
        let listener = solo.listen(7471, 0);
        let it = solo.bring(RepSent, false);
        for _ in 0..5 {
            solo.wait(SECOND * 5);
            solo.says(&[]);
            let _ = solo.hears(&it.peer, &it.peer.req(solo.ip, 7471));
            solo.says(&["REP"]);
        }
        let mra = it.peer.mra(it.comm_id, MessageKind::REP, 20);
        let _ = solo.hears(&it.peer, &mra);
        solo.wait(SECOND * 4);
        solo.says(&[]);
        let _ = solo.hears(&it.peer, &it.peer.rtu(it.comm_id));
        solo.tells(&["ESTABLISHED"]);
        solo.assert_clean(&[listener, it.id]);
    });
}

#[test]
fn a_half_open_connection_takes_its_place_until_it_stands_or_is_over() {
    type End = (fn(&mut Solo<'_>, Brought), bool);
    let ends: [End; 9] = [
        (|solo, it| _ = solo.hears(&it.peer, &it.peer.rtu(it.comm_id)), true),
        (|solo, it| solo.cm.notify_established(solo.now, it.id).unwrap(), true),
        (|solo, it| _ = solo.hears(&it.peer, &it.peer.dreq(it.comm_id, it.qpn)), true),
        (
            |solo, it| {
                let rej = it.peer.rej(it.comm_id, MessageKind::REP, RejectReason::CONSUMER);
                let _ = solo.hears(&it.peer, &rej);
            },
            true,
        ),
        (|solo, _| solo.wait(SECOND * 31), true),
        (|solo, it| solo.cm.reject(solo.now, it.id, RejectReason::CONSUMER, &[]).unwrap(), false),
        (|solo, it| _ = solo.hears(&it.peer, &it.peer.timeout_rej()), false),
        (|solo, _| solo.wait(SECOND * 61), false),
        (|solo, it| _ = solo.cm.destroy(solo.now, it.id).unwrap(), false),
    ];
    for (end, accepted) in ends {
        World::new().of(Capacity::of(8)).set(|config| config.half_open = 2).solo(|mut solo| {
            let listener = solo.listen(7471, 0);
            // Connections that stand, and those of our own, do not count.
            let others = [(Established, false), (Established, true), (ReqSent, true)];
            let others = others.map(|(state, active)| solo.bring(state, active).id);
            let one = solo.bring(if accepted { RepSent } else { ReqRcvd }, false);
            solo.now = solo.now + Duration::from_millis(1);
            let two = solo.bring(RepSent, false);
            let peer = solo.peer();
            let req = peer.req(solo.ip, 7471);
            let full = Disposition::Ignored(IgnoreReason::HalfOpen);
            assert_eq!(solo.hears(&peer, &req), full);
            let _ = solo.hears(&two.peer, &two.peer.req(solo.ip, 7471));
            solo.says(&["REP"]);
            end(&mut solo, one);
            assert_eq!(solo.hears(&peer, &req), Disposition::Accepted);
            let told: Vec<_> = std::iter::from_fn(|| solo.cm.poll_event()).collect();
            let new = told.iter().find(|e| matches!(e.kind, EventKind::ConnectRequest { .. }));
            let new = new.expect("a request").id;
            let next = solo.peer();
            if solo.cm.conn_state(two.id) == Ok(RepSent) {
                assert_eq!(solo.hears(&next, &next.req(solo.ip, 7471)), full);
            }
            let _ = solo.cm.destroy(solo.now, one.id);
            solo.assert_clean(&[&others[..], &[listener, two.id, new]].concat());
        });
    }
}

#[test]
fn datagram_requests_count_until_they_are_answered() {
    World::new().set(|config| config.half_open = 1).solo(|mut solo| {
        let listener = solo.listen_in(PortSpace::Udp, 7471, 0);
        let one = solo.bring(SidrReqRcvd, false);
        let peer = solo.peer();
        let req = peer.sidr_req(solo.ip, 7471);
        let full = Disposition::Ignored(IgnoreReason::HalfOpen);
        assert_eq!(solo.hears(&peer, &req), full);
        solo.accept(one.id);
        assert_eq!(solo.hears(&peer, &req), Disposition::Accepted);
        let two = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.says(&["SIDR_REP"]);
        solo.assert_clean(&[listener, one.id, two]);
    });
}

#[test]
fn sources_are_counted_apart_in_groups() {
    let world = World::new().of(Capacity::of(300));
    world.set(|config| config.half_open_per_source = 2).solo(|mut solo| {
        let listener = solo.listen(7471, 300);
        let mut admitted = Vec::new();
        for last in 0..100 {
            solo.peer_ip = IpAddr::from([10, 7, 0, last]);
            for _ in 0..3 {
                let peer = solo.peer();
                admitted.push(solo.hears(&peer, &peer.req(solo.ip, 7471)));
            }
        }
        let ids: Vec<_> = std::iter::from_fn(|| solo.cm.poll_event()).map(|e| e.id).collect();
        assert_eq!(admitted[..3][2], Disposition::Ignored(IgnoreReason::HalfOpen));
        assert_eq!(ids.len() % 2, 0, "two from each group");
        assert!(ids.len() > 64 && ids.len() <= 128, "{}", ids.len());
        assert_eq!(solo.cm.counters().ignored_for(IgnoreReason::HalfOpen), 300 - ids.len() as u32);
        // One group's place is free again, for its own.
        solo.peer_ip = IpAddr::from([10, 7, 0, 0]);
        solo.cm.destroy(solo.now, ids[0]).unwrap();
        for expected in [Disposition::Accepted, Disposition::Ignored(IgnoreReason::HalfOpen)] {
            let peer = solo.peer();
            assert_eq!(solo.hears(&peer, &peer.req(solo.ip, 7471)), expected);
        }
        let new = solo.tells(&["CONNECT_REQUEST"])[0].id;
        solo.assert_clean(&[&ids[1..], &[listener, new]].concat());
    });
}

#[test]
fn answers_to_strangers_are_limited_in_a_second_and_in_a_burst() {
    let world = World::new().of(Capacity { replies: 64, ..Capacity::of(8) });
    world.set(|config| config.answers_per_second = 10).solo(|mut solo| {
        let listener = solo.listen_in(PortSpace::Udp, 7471, 0);
        let ask = |solo: &mut Solo<'_>, times: usize| {
            let peer = solo.peer();
            let (mut lap, req) = ([0; 256], peer.req(solo.ip, 9999));
            Lap::emit(&mut lap, 1).set_local_comm_id(5).set_remote_comm_id(6);
            let sidr = peer.sidr_req(solo.ip, 9999);
            let strange = [req, peer.rep(3), peer.dreq(4, 5), sidr, req];
            for n in 0..times {
                let _ = solo.hears(&peer, &strange[n % strange.len()]);
            }
            flush(solo)
        };
        solo.now = solo.now + SECOND;
        assert_eq!(ask(&mut solo, 11), 10);
        assert_eq!(solo.cm.counters().answers_limited, 1);
        solo.wait(Duration::from_millis(99));
        assert_eq!(ask(&mut solo, 1), 0);
        solo.wait(Duration::from_millis(1));
        assert_eq!(ask(&mut solo, 2), 1);
        solo.wait(SECOND / 2);
        assert_eq!(ask(&mut solo, 20), 5);
        solo.wait(SECOND * 100);
        assert_eq!(ask(&mut solo, 20), 10);
        assert_eq!(solo.cm.counters().answers_limited, 1 + 1 + 1 + 15 + 10);
        // What connections of ours owe is none of these.
        let ids: Vec<_> = (0..3).map(|_| solo.bring(ReqSent, true).id).collect();
        for id in ids {
            solo.cm.destroy(solo.now, id).unwrap();
        }
        solo.says(&["REJ", "REJ", "REJ"]);
        assert_eq!(solo.cm.counters().replies_dropped, 0);
        solo.assert_clean(&[listener]);
    });
}

#[test]
fn the_limit_of_answers_is_a_thousand_unless_there_is_none() {
    for (limit, answers) in [(None, 1000), (Some(0), 1500), (Some(u32::MAX), 1500), (Some(1), 1)] {
        let mut memory = Memory::new(Capacity { replies: 2000, ..Capacity::of(4) });
        let mut config = Config::new(1);
        config.answers_per_second = limit.unwrap_or(config.answers_per_second);
        let ips = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])];
        let mut solo = Solo::new(memory.engine(config).unwrap(), ips, Instant::ZERO);
        let peer = solo.peer();
        for _ in 0..1500 {
            let _ = solo.hears(&peer, &peer.req(solo.ip, 9999));
        }
        assert_eq!(flush(&mut solo), answers, "{limit:?}");
        solo.assert_clean(&[]);
    }
}
