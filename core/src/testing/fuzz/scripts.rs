//! Scripts for `ops` and `pair`: the ways through a connection, so that a fuzzer need not find them.
//!
//! A step is what, who, and two octets that say how (`app.rs`, `ops.rs`, `pair.rs`). Identifiers go by
//! number; a request takes the first that is free.

use super::app::{Action, ELSEWHERE};
use super::corpus::Named;
use super::ops::World;
use super::pair::Link;

type Script = Vec<[u8; 4]>;

const fn act(action: Action, who: u8, a: u8, b: u8) -> [u8; 4] {
    [action as u8, who, a, b]
}

const fn world(what: World, who: u8, a: u8, b: u8) -> [u8; 4] {
    [ELSEWHERE | what as u8, who, a, b]
}

const fn link(what: Link, who: u8, a: u8, b: u8) -> [u8; 4] {
    [ELSEWHERE | what as u8, who, a, b]
}

/// What side B does.
const fn b(step: [u8; 4]) -> [u8; 4] {
    [step[0] | 0x80, step[1], step[2], step[3]]
}

pub(super) const LISTEN: [u8; 4] = act(Action::Next, 0, 0x80, 0);
/// The next 256 octets are a datagram.
pub(super) const RAW: [u8; 4] = world(World::Raw, 0, 0, 0);
/// One for a datagram service.
const LISTEN_UDP: [[u8; 4]; 3] =
    [act(Action::Create, 0, 4, 0), act(Action::Bind, 0, 0, 1), act(Action::Listen, 0, 0, 0)];
/// A new communication ID, an old queue pair.
const REQUEST: [u8; 4] = world(World::Request, 0, 0, 0x48);
/// What the peer should answer to the last thing it heard.
const REPLY: [u8; 4] = world(World::Reply, 0, 0, 0);
const PEERS_DREQ: [u8; 4] = world(World::Reply, 0, 5, 0);

const fn wait(a: u8) -> [u8; 4] {
    world(World::Wait, 0, a, 8)
}

/// The ways into each state; identifier 0 is in it, or 1 where a listener is 0.
fn ways() -> Vec<(&'static str, Script)> {
    let active = |more: &[[u8; 4]]| {
        let route = [act(Action::Create, 0, 0, 0), act(Action::SetRoute, 0, 0, 0)];
        [&route, [act(Action::Connect, 0, 0, 4)].as_slice(), more].concat()
    };
    let passive = |more: &[[u8; 4]]| [[LISTEN, REQUEST].as_slice(), more].concat();
    let ask = |more: &[[u8; 4]]| {
        let route = [act(Action::Create, 0, 4, 0), act(Action::SetRoute, 0, 0, 0)];
        [&route, [act(Action::Connect, 0, 0, 10)].as_slice(), more].concat()
    };
    let serve = |more: &[[u8; 4]]| {
        [&LISTEN_UDP, [world(World::Request, 14, 0, 0)].as_slice(), more].concat()
    };
    let accept = act(Action::Accept, 1, 0, 3);
    let establish = act(Action::Establish, 0, 0, 14);
    vec![
        ("created", vec![act(Action::Create, 0, 0, 0)]),
        ("bound", vec![act(Action::Create, 0, 0, 0), act(Action::Bind, 0, 0, 1)]),
        ("listening", vec![LISTEN]),
        ("addr-query", vec![act(Action::Create, 0, 0, 0), act(Action::ResolveAddr, 0, 0, 0)]),
        (
            "addr-resolved",
            vec![
                act(Action::Create, 0, 0, 0),
                act(Action::ResolveAddr, 0, 0, 0),
                act(Action::Complete, 0, 0, 0),
            ],
        ),
        (
            "route-query",
            vec![
                act(Action::Create, 0, 0, 0),
                act(Action::ResolveAddr, 0, 0, 0x20),
                act(Action::Complete, 0, 0, 0),
                act(Action::ResolveRoute, 0, 0, 0),
            ],
        ),
        ("routed", vec![act(Action::Create, 0, 0, 0), act(Action::SetRoute, 0, 0, 0)]),
        ("req-sent", active(&[])),
        ("rep-rcvd", active(&[REPLY])),
        ("active", active(&[REPLY, establish])),
        ("rejected", active(&[world(World::Reply, 0, 3, 0)])),
        ("unreachable", active(&[wait(9)])),
        ("req-rcvd", passive(&[])),
        ("rej-sent", passive(&[act(Action::Reject, 1, 28, 8)])),
        ("rep-sent", passive(&[accept])),
        ("passive", passive(&[accept, REPLY])),
        ("overdue", passive(&[wait(8)])),
        ("dreq-sent", passive(&[accept, REPLY, act(Action::Disconnect, 1, 0, 5)])),
        ("dreq-rcvd", active(&[REPLY, establish, PEERS_DREQ])),
        ("timewait", passive(&[accept, REPLY, act(Action::Disconnect, 1, 0, 0), REPLY])),
        (
            "timewait-by-peer",
            active(&[REPLY, establish, PEERS_DREQ, act(Action::Disconnect, 0, 0, 0)]),
        ),
        ("sidr-req-sent", ask(&[])),
        ("sidr-resolved", ask(&[REPLY])),
        ("sidr-rejected", ask(&[world(World::Reply, 0, 10, 0x20)])),
        ("sidr-unreachable", ask(&[wait(9)])),
        ("sidr-req-rcvd", serve(&[])),
        ("sidr-rep-sent", serve(&[accept])),
        ("sidr-refused", serve(&[act(Action::Reject, 1, 1, 0)])),
        (
            "destroyed",
            passive(&[accept, REPLY, act(Action::Destroy, 1, 0, 0), act(Action::Destroy, 0, 0, 0)]),
        ),
    ]
}

/// For `ops`: from each state, every call, and everything that a peer can say.
pub(super) fn ops() -> Vec<Named> {
    let mut seeds = Vec::new();
    for (state, way) in ways() {
        for &action in Action::ALL {
            let who = |number: u8| act(action, 0xf0 | number, 0, 0);
            let more = [who(0), who(1), act(action, 1, 0x15, 0x42), REPLY, wait(9)];
            seeds.push(named(&format!("{state}-{action:?}"), MANUAL, &way, &more));
        }
        for kind in 0..16 {
            let more = [0, 0x10, 0x20].map(|of| world(World::Reply, 0, of | kind, 0));
            let wrong = [1, 2, 3, 4, 6, 7, 9, 0x1a].map(|how| world(World::Reply, 1, kind, how));
            let more = [more.as_slice(), &wrong, &[REPLY, wait(9), wait(10)]].concat();
            seeds.push(named(&format!("{state}-hears-{kind}"), MANUAL, &way, &more));
        }
        for how in 0..15 {
            let more = [
                world(World::Request, how, 0, 0),
                world(World::Request, how, 0x80, 0xc1),
                world(World::Request, 0x10 | how, 1, 0xc1),
                world(World::Again, 1, 0, 0),
                wait(9),
            ];
            seeds.push(named(&format!("{state}-asked-{how}"), MANUAL, &way, &more));
        }
        for n in 0..5 {
            let again = world(World::Again, n, 0, 0);
            let elsewhere = world(World::Request, 0x10, 0, 0x48);
            let more = [again, REPLY, again, REQUEST, wait(4), again, elsewhere, wait(9)];
            seeds.push(named(&format!("{state}-again-{n}"), MANUAL, &way, &more));
        }
        let gone = act(Action::Port, 0, 0x2c, 0);
        let changed = [act(Action::Port, 0, 9, 0), act(Action::Port, 0, 9, 1)];
        let more =
            [gone, world(World::Jump, 0, 0, 0), wait(0), act(Action::Next, 0, 0, 0), wait(9)];
        seeds.push(named(&format!("{state}-removed"), MANUAL, &way, &more));
        let more = [changed[0], wait(0), changed[1], wait(0), REPLY, gone, wait(9), REPLY];
        seeds.push(named(&format!("{state}-changed"), MANUAL, &way, &more));
        let fails = act(Action::SendFailed, 0, 0, 0);
        let more = [fails, wait(5), fails, wait(5), fails, world(World::Jump, 1, 6, 0), wait(15)];
        seeds.push(named(&format!("{state}-fails"), MANUAL, &way, &more));
    }
    for settings in [0, 1, 2, 3, 4, 5, 6, 7, 32, 33, 64, 128, 192] {
        let all: Script = ways().into_iter().flat_map(|(_, way)| way).collect();
        seeds.push(named(
            &format!("all-{settings}"),
            [settings, 0x85 + 9 * (settings & 7), 1, 0],
            &all,
            &[],
        ));
    }
    let requests: Script = (0..16).map(|n| world(World::Request, 0x10 * n, n & 3, 0)).collect();
    let more = [wait(4), REPLY, act(Action::Accept, 1, 0, 3), wait(8), REPLY, PEERS_DREQ, wait(9)];
    for settings in [0, 64, 128, 192] {
        let head = [settings, 0x0f, 1, 0];
        let way = [[LISTEN].as_slice(), &requests, &requests].concat();
        seeds.push(named(&format!("flood-{settings}"), head, &way, &more));
    }
    seeds.extend(others());
    seeds.extend(kinds());
    seeds
}

/// For `ops`: what concerns no connection.
fn others() -> Vec<Named> {
    let mut seeds = Vec::new();
    for a in 0..8 {
        let mut script = vec![act(Action::Port, 0, 0, 0), act(Action::Port, 0, 3, 0)];
        for (number, b) in (0..8).enumerate() {
            let number = number as u8;
            script.push(act(Action::Create, number, b, 0));
            script.push(act(Action::Option, number, a, b));
            script.push(act(Action::Bind, number, a, b));
            script.push(act(Action::Reserve, number, a, b | 0x80));
            script.push(act(Action::ResolveAddr, number, a | b << 4, 0x20 | b));
            script.push(act(Action::SetRoute, number, a | b << 4, b));
            script.push(act(Action::Listen, number, b, 0));
            script.push(act(Action::Connect, number, b << 4, b));
            script.push(act(Action::User, number, a, b));
        }
        script.extend((0..8).map(|how| act(Action::Complete, how, how | a << 3, how)));
        script.extend((0..16).map(|how| world(World::Request, how, a, 0)));
        script.extend((0..16).map(|how| act(Action::Port, 0, how, 0)));
        script.extend((0..2).map(|how| world(World::Fault, 0, how, 0)));
        seeds.push(named(&format!("binds-{a}"), MANUAL, &script, &[]));
    }
    seeds
}

/// For `ops`: transports, path MTUs, InfiniBand, queue pairs that are in use elsewhere.
fn kinds() -> Vec<Named> {
    let create = act(Action::Create, 0, 0, 0);
    let connect = |route: u8, how: u8| {
        vec![create, act(Action::SetRoute, 0, 0, route), act(Action::Connect, 0, how, 4)]
    };
    let establish = act(Action::Establish, 0, 0, 14);
    let disconnect = act(Action::Disconnect, 0, 0, 0);
    let mut seeds = Vec::new();
    for (name, route, how) in [
        ("uc", 0, 0x90),
        ("xrc", 0, 0x91),
        ("ece", 0, 0xa0),
        ("ece-too-large", 0, 0xa1),
        ("qkey", 0, 0xb0),
        ("retries", 0, 0x51),
        ("timeout", 0, 0x30),
        ("ib", 7, 0),
        ("ib-no-grh", 0x27, 0),
    ] {
        let more = [REPLY, act(Action::Look, 0, 0, 0), establish, disconnect, REPLY, wait(9)];
        seeds.push(named(&format!("kind-{name}"), MANUAL, &connect(route, how), &more));
    }
    for (name, how, a) in [("uc", 2, 0x40), ("rd", 2, 0x80), ("xrc", 13, 0), ("ib", 9, 0)] {
        let way = [create, act(Action::Option, 0, 4, 0), LISTEN, world(World::Request, how, a, 0)];
        let more = [act(Action::Accept, 1, 0, 3), REPLY, act(Action::Look, 1, 0, 0), PEERS_DREQ];
        seeds.push(named(&format!("asked-for-{name}"), MANUAL, &way, &more));
    }
    let offers = [0x2a, 0x1a, 0x3a].map(|mtu| world(World::Reply, 0, 12, mtu));
    seeds.push(named("offered-mtu", MANUAL, &connect(0x20, 0), &[&offers[..], &[REPLY]].concat()));
    // Two connections whose peer says that they have one queue pair.
    let same = world(World::Reply, 0, 1, 0x15);
    let second = [act(Action::Create, 1, 0, 0), act(Action::SetRoute, 1, 0, 0)];
    let second = [&second, [act(Action::Connect, 1, 0, 4), same].as_slice()].concat();
    let more = [[same, establish].as_slice(), &second, &[wait(9)]].concat();
    seeds.push(named("same-queue-pair", MANUAL, &connect(0, 0), &more));
    let own = [act(Action::Connect, 0, 0x11, 0), act(Action::Connect, 1, 0x11, 0)];
    let more = [&own[..1], &second[..2], &own[1..]].concat();
    seeds.push(named("own-queue-pair", MANUAL, &connect(0, 0)[..2], &more));
    seeds
}

/// The host's answers and polls are steps; the engine is small.
const MANUAL: [u8; 4] = [16, 0x0b, 1, 0];

fn named(name: &str, head: [u8; 4], way: &[[u8; 4]], more: &[[u8; 4]]) -> Named {
    (name.to_string(), [&head, way.as_flattened(), more.as_flattened()].concat())
}

/// For `pair`: a connection's life, with each of its messages lost, repeated, late or altered; both
/// sides connecting at once; either side starting anew.
pub(super) fn pair() -> Vec<Named> {
    let run = link(Link::Run, 0, 1, 0);
    let life = [
        b(LISTEN),
        act(Action::Next, 0, 0, 0),
        act(Action::Next, 0, 0, 0),
        act(Action::Next, 0, 0, 0),
        run,
        run,
        run,
        run,
        act(Action::Disconnect, 0, 0, 0),
        run,
        run,
        run,
        link(Link::Time, 0, 15, 0),
        act(Action::Reset, 0, 0, 0),
        act(Action::Connect, 0, 0, 0),
        link(Link::Run, 0, 20, 0),
    ];
    let head = [0, 3, 1, 0];
    let mut seeds = vec![named("life", head, &life, &[])];
    let faults = [
        ("lost", vec![link(Link::Drop, 0, 0, 0)]),
        ("repeated", vec![link(Link::Repeat, 0, 0, 0)]),
        ("late", vec![link(Link::Time, 0, 10, 0), link(Link::Run, 0, 3, 0)]),
        ("altered", vec![link(Link::Edit, 0, 40, 0x10)]),
        ("renamed", vec![link(Link::Edit, 0, 29, 1)]),
        ("anew-a", vec![link(Link::Restart, 0, 0, 0)]),
        ("anew-b", vec![b(link(Link::Restart, 0, 0, 0)), b(LISTEN)]),
        ("rejected", vec![b(act(Action::Reject, 1, 28, 4)), act(Action::Reject, 0, 28, 4)]),
        ("destroyed-a", vec![act(Action::Destroy, 0, 0, 0)]),
        ("destroyed-b", vec![b(act(Action::Destroy, 1, 0, 0))]),
        ("crossing", vec![b(act(Action::Disconnect, 1, 0, 0)), act(Action::Disconnect, 0, 0, 0)]),
        ("accepted", vec![b(act(Action::Accept, 1, 0, 0)), act(Action::Establish, 0, 0, 0)]),
    ];
    for (name, fault) in faults {
        for at in 4..life.len() {
            let (before, after) = life.split_at(at);
            seeds.push(named(&format!("{name}-{at}"), head, &[before, &fault].concat(), after));
        }
    }
    let asked = [
        b(LISTEN_UDP[0]),
        b(LISTEN_UDP[1]),
        b(LISTEN_UDP[2]),
        act(Action::Create, 0, 4, 0),
        act(Action::SetRoute, 0, 0, 0),
        act(Action::Connect, 0, 0, 0),
        run,
        run,
    ];
    seeds.push(named("asked", head, &asked, &[]));
    seeds.push(named("mtu", [2, 3, 1, 0], &life, &[]));
    seeds.push(named("limits", [4, 3, 1, 0], &life, &[]));
    let both = [LISTEN, b(LISTEN), act(Action::Next, 1, 0, 0), b(act(Action::Next, 1, 0, 0))];
    let next = [act(Action::Next, 1, 0, 0), b(act(Action::Next, 1, 0, 0))];
    let more = [next.as_slice(), &next, &[link(Link::Run, 0, 30, 0)], &next].concat();
    seeds.push(named("both", head, &both, &more));
    seeds
}
