//! The rules row by row, and the scenarios of facts/reports A. Everything at random, against a model:
//! `testing/fuzz/ports.rs`.

use super::*;
use crate::addr::{PortSpace, ScopedIp};
use crate::hash::Key;
use crate::slots::{Chained, Link};

#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Id {
    local: ScopedIp,
    remote: ScopedIp,
    remote_port: u16,
    held: Held,
    chain: Link,
}

impl Chained<TUPLE> for Id {
    fn chain(&self) -> Link {
        self.chain
    }
    fn set_chain(&mut self, next: Link) {
        self.chain = next;
    }
}

impl TupleOwner for Id {
    fn held(&self) -> Held {
        self.held
    }
    fn tuple(&self) -> Tuple {
        Tuple {
            space: PortSpace::Tcp,
            local: self.local,
            local_port: self.held.port(),
            remote: self.remote,
            remote_port: self.remote_port,
        }
    }
}

/// A [`Ports`] with its memory and IDs.
struct World {
    ports: Ports<'static>,
    ids: Vec<Id>,
}

impl World {
    fn new(range: (u16, u16), ids: usize) -> World {
        World::with(PortConfig { range, loopback_is_wildcard: false }, ids, ids, 1)
    }

    fn with(config: PortConfig, ids: usize, records: usize, seed: u32) -> World {
        let len = (config.range.1 - config.range.0) as usize + 1;
        let parts = PortParts {
            maps: vec![0; SPACES * map_words(len)].leak(),
            records: vec![PortRecord::EMPTY; records].leak(),
            record_heads: vec![Link::NONE; 2 * records.next_power_of_two()].leak(),
            tuple_heads: vec![Link::NONE; ids.next_power_of_two()].leak(),
        };
        let ports = Ports::new(parts, config, Key::new(seed, 5)).unwrap();
        World { ports, ids: vec![Id::default(); ids] }
    }

    /// Binds a fresh ID; its index and number.
    fn bind(&mut self, want: Want) -> Result<(usize, u16), PortError> {
        let index = self.ids.iter().position(|id| !id.held.is_some()).expect("a fresh ID");
        self.bind_id(index, want)
    }

    fn bind_id(&mut self, index: usize, want: Want) -> Result<(usize, u16), PortError> {
        let (held, port) = self.ports.bind(&want, &mut self.ids, index)?;
        self.write(index, want, held);
        Ok((index, port))
    }

    fn write(&mut self, index: usize, want: Want, held: Held) {
        let (remote, remote_port) = want.remote.unwrap_or_default();
        let chain = self.ids[index].chain;
        self.ids[index] = Id { local: want.local, remote, remote_port, held, chain };
    }

    fn listen(&mut self, index: usize) -> Result<(), PortError> {
        let id = &mut self.ids[index];
        self.ports.listen(&mut id.held, id.local)
    }

    fn release(&mut self, index: usize) -> Option<PortKey> {
        let held = core::mem::take(&mut self.ids[index].held);
        self.ports.release(held, self.ids[index].local, &mut self.ids, index)
    }

    fn release_all_and_assert_clean(mut self) {
        for index in 0..self.ids.len() {
            self.release(index);
        }
        assert!(self.ports.is_clean());
        assert!(self.ids.iter().all(|id| id.chain == Link::NONE));
    }

    /// All state but where the next search begins.
    fn state(&self) -> String {
        self.ports.state() + &format!("{:?}", self.ids)
    }
}

fn ip(text: &str) -> ScopedIp {
    let text = if text.contains(':') { format!("[{text}]:0") } else { format!("{text}:0") };
    ScopedIp::of(text.parse().unwrap())
}

fn want(local: &str, port: u16) -> Want {
    let local = ip(local);
    Want {
        space: PortSpace::Tcp,
        local,
        port,
        reuse: false,
        af_only: local.gid.is_v4(),
        remote: None,
    }
}

fn reuse(want: Want) -> Want {
    Want { reuse: true, ..want }
}

fn to(remote: &str, port: u16, want: Want) -> Want {
    Want { remote: Some((ip(remote), port)), ..want }
}

fn in_space(space: PortSpace, want: Want) -> Want {
    Want { space, ..want }
}

fn af_only(want: Want) -> Want {
    Want { af_only: true, ..want }
}

fn dual(want: Want) -> Want {
    Want { af_only: false, ..want }
}

const PORT: u16 = 4420;

#[test]
fn every_row_of_the_rules_for_explicit_numbers() {
    use PortError::*;
    let a = || want("192.0.2.1", PORT);
    let b = || want("192.0.2.2", PORT);
    let wild = || want("0.0.0.0", PORT);
    let wild6 = || want("::", PORT);
    let a6 = || want("2001:db8::1", PORT);
    let rows = [
        ("4: same address", a(), a(), Err(InUse)),
        ("3: other specific address", a(), b(), Ok(())),
        ("3: other family", a(), a6(), Ok(())),
        ("3: wildcard after specific", a(), wild(), Err(InUse)),
        ("3: specific after wildcard", wild(), a(), Err(InUse)),
        ("3: two wildcards", wild(), wild(), Err(InUse)),
        ("3: dual-stack wildcard and IPv4", wild6(), a(), Err(InUse)),
        ("3: IPv4 wildcard and dual-stack wildcard", wild(), wild6(), Err(InUse)),
        ("3: loopback is an ordinary address", a(), want("127.0.0.1", PORT), Ok(())),
        ("2: both AF-only, families differ", wild(), af_only(wild6()), Ok(())),
        ("2: in the other order", af_only(wild6()), wild(), Ok(())),
        ("2: and against a specific address", af_only(wild6()), a(), Ok(())),
        ("2: the new one is not AF-only", af_only(wild6()), dual(wild()), Err(InUse)),
        ("2: the old one is not AF-only", dual(wild()), af_only(wild6()), Err(InUse)),
        ("2: one family", wild(), dual(a()), Err(InUse)),
        ("1: both with REUSEADDR", reuse(a()), reuse(a()), Ok(())),
        ("1: on overlapping addresses", reuse(wild()), reuse(a()), Ok(())),
        ("1: only the old one", reuse(a()), a(), Err(InUse)),
        ("1: only the new one", a(), reuse(a()), Err(InUse)),
        ("1: only one, overlapping", reuse(wild()), a(), Err(InUse)),
        ("T: other peer", to("192.0.2.9", 1, a()), to("192.0.2.8", 1, a()), Ok(())),
        ("T: other port of the peer", to("192.0.2.9", 1, a()), to("192.0.2.9", 2, a()), Ok(())),
        ("T: same peer", to("192.0.2.9", 1, a()), to("192.0.2.9", 1, a()), Err(TupleInUse)),
        ("T: same peer from elsewhere", to("192.0.2.9", 1, a()), to("192.0.2.9", 1, b()), Ok(())),
        (
            "T: from a wildcard",
            to("192.0.2.9", 1, wild()),
            to("192.0.2.9", 1, b()),
            Err(TupleInUse),
        ),
        ("T: wildcard, other peer", to("192.0.2.9", 1, wild()), to("192.0.2.9", 2, b()), Ok(())),
        ("T: only the new one has a peer", a(), to("192.0.2.9", 1, a()), Err(InUse)),
        ("T: only the old one has a peer", to("192.0.2.9", 1, a()), a(), Err(InUse)),
        ("T and 1", reuse(to("192.0.2.9", 1, a())), reuse(to("192.0.2.9", 1, a())), Ok(())),
        ("another number", a(), want("192.0.2.1", PORT + 1), Ok(())),
        ("another space", a(), in_space(PortSpace::Udp, a()), Ok(())),
        ("yet another", a(), in_space(PortSpace::Ib, a()), Ok(())),
        ("SDP has TCP's numbers", a(), in_space(PortSpace::Sdp, a()), Err(InUse)),
        ("TCP has SDP's numbers", in_space(PortSpace::Sdp, a()), a(), Err(InUse)),
        ("link-local, one interface", want("fe80::1%2", 9), want("fe80::1%2", 9), Err(InUse)),
        ("link-local, two interfaces", want("fe80::1%2", 9), want("fe80::1%3", 9), Ok(())),
    ];
    for (name, first, second, wanted) in rows {
        // Explicit numbers mean the same inside the range and outside.
        for range in [(4000, 5000), (6000, 6001)] {
            let mut world = World::new(range, 2);
            world.bind(first).unwrap();
            let before = world.state();
            let proposed = world.ports.propose(&second, &world.ids).map(|_| ());
            assert_eq!(proposed, wanted, "{name}");
            assert_eq!(world.state(), before, "{name}: a proposal changes nothing");
            assert_eq!(world.bind(second).map(|_| ()), wanted, "{name}");
            if wanted.is_err() {
                assert_eq!(world.state(), before, "{name}: a refusal changes nothing");
            }
            world.release_all_and_assert_clean();
        }
    }
}

#[test]
fn loopback_overlaps_with_all_where_it_is_configured_so() {
    let config = PortConfig { range: (6000, 6001), loopback_is_wildcard: true };
    for (first, second, clash) in [
        ("127.0.0.1", "192.0.2.1", true),
        ("192.0.2.1", "127.0.0.1", true),
        ("127.0.0.1", "127.0.0.2", true),
        ("::1", "192.0.2.1", true),
        ("2001:db8::1", "192.0.2.1", false),
    ] {
        let mut world = World::with(config, 2, 2, 1);
        world.bind(dual(want(first, PORT))).unwrap();
        let second = world.bind(dual(want(second, PORT)));
        assert_eq!(second, if clash { Err(PortError::InUse) } else { Ok((1, PORT)) }, "{first}");
        world.release_all_and_assert_clean();
    }
}

/// facts/reports A6.
#[test]
fn a_reuse_bound_id_can_listen_only_as_sole_owner_and_then_for_good() {
    let mut world = World::new((6000, 6001), 4);
    let a = reuse(want("192.0.2.1", 7000));
    let (first, _) = world.bind(a).unwrap();
    let (second, _) = world.bind(reuse(want("0.0.0.0", 7000))).unwrap();
    let before = world.state();
    assert_eq!(world.listen(first), Err(PortError::ListenConflict));
    assert_eq!(world.listen(second), Err(PortError::ListenConflict));
    assert_eq!(world.state(), before);
    world.release(second);
    assert_eq!(world.listen(first), Ok(()));
    assert!(!world.ids[first].held.reuse());
    assert_eq!(world.bind(a), Err(PortError::InUse));
    assert_eq!(world.listen(first), Ok(()), "again");
    world.release_all_and_assert_clean();
}

/// It counts for who comes later, until there is a listener.
#[test]
fn reuse_may_be_said_after_the_bind() {
    for local in ["192.0.2.1", "0.0.0.0", "::"] {
        for peer in [None, Some((ip("192.0.2.9"), 1))] {
            let mut world = World::new((6000, 6001), 4);
            let first = Want { remote: peer, ..want(local, 7000) };
            let (id, _) = world.bind(first).unwrap();
            assert!(world.bind(reuse(first)).is_err());
            for _ in 0..2 {
                let Id { held, local, .. } = &mut world.ids[id];
                world.ports.share(held, *local);
            }
            assert!(world.bind(first).is_err());
            let (other, _) = world.bind(reuse(first)).unwrap();
            assert_eq!(world.listen(id), Err(PortError::ListenConflict));
            world.release(other);
            let alone = if peer.is_some() { Err(PortError::ListenConflict) } else { Ok(()) };
            assert_eq!(world.listen(id), alone);
            assert_eq!(world.bind(reuse(first)).is_err(), peer.is_none());
            world.release_all_and_assert_clean();
        }
    }
    // Who owns nothing shares nothing.
    let mut world = World::new((6000, 6001), 1);
    world.ports.share(&mut Held::NONE.clone(), ip("0.0.0.0"));
    world.release_all_and_assert_clean();
}

#[test]
fn listeners_on_other_addresses_and_families_do_not_conflict() {
    let mut world = World::new((6000, 6001), 4);
    let mut ids = vec![];
    for local in ["192.0.2.1", "192.0.2.2", "2001:db8::1"] {
        ids.push(world.bind(reuse(want(local, 7000))).unwrap().0);
    }
    for id in ids {
        assert_eq!(world.listen(id), Ok(()));
    }
    let mut families = World::new((6000, 6001), 2);
    let (v4, _) = families.bind(reuse(want("0.0.0.0", 7000))).unwrap();
    let (v6, _) = families.bind(reuse(af_only(want("::", 7000)))).unwrap();
    assert_eq!((families.listen(v4), families.listen(v6)), (Ok(()), Ok(())));
    world.release_all_and_assert_clean();
    families.release_all_and_assert_clean();
}

#[test]
fn an_id_with_a_peer_cannot_listen() {
    let mut world = World::new((6000, 6001), 1);
    world.bind(to("192.0.2.9", 1, reuse(want("192.0.2.1", 7000)))).unwrap();
    assert_eq!(world.listen(0), Err(PortError::ListenConflict));
    world.release_all_and_assert_clean();
}

/// facts/reports A3 and A5: one key, whose last owner in either order gives it back.
#[test]
fn an_explicit_source_port_is_shared_by_peers() {
    for order in [[0, 1], [1, 0]] {
        let mut world = World::new((6000, 6001), 3);
        let source = want("192.0.2.1", 5000);
        world.bind(to("192.0.2.2", PORT, source)).unwrap();
        world.bind(to("192.0.2.3", PORT, source)).unwrap();
        assert_eq!(world.bind(to("192.0.2.2", PORT, source)), Err(PortError::TupleInUse));
        assert_eq!(world.release(order[0]), None);
        let key = PortKey { space: PortSpace::Tcp, local: source.local, port: 5000 };
        assert_eq!(world.release(order[1]), Some(key));
        world.release_all_and_assert_clean();
    }
}

/// facts/reports A7.
#[test]
fn two_thousand_peers_share_one_privileged_port() {
    let config = PortConfig { range: (1, 1023), loopback_is_wildcard: false };
    let mut world = World::with(config, 2_001, 1, 1);
    for i in 0..2_000 {
        let peer = format!("10.0.{}.{}", i / 250, i % 250 + 1);
        world.bind_id(i, to(&peer, 988, want("192.0.2.1", 1023))).unwrap();
    }
    assert_eq!(world.ports.count(PortSpace::Tcp), 1);
    let again = to("10.0.7.250", 988, want("192.0.2.1", 1023));
    assert_eq!(world.bind_id(2_000, again), Err(PortError::TupleInUse));
    world.release_all_and_assert_clean();
}

/// facts/reports A8.
#[test]
fn a_freed_number_is_free_at_once_in_a_tiny_range() {
    let mut world = World::new((10_000, 10_002), 4);
    let mut got: Vec<u16> = (0..3).map(|_| world.bind(want("0.0.0.0", 0)).unwrap().1).collect();
    got.sort();
    assert_eq!(got, [10_000, 10_001, 10_002]);
    assert_eq!(world.bind(want("0.0.0.0", 0)), Err(PortError::Exhausted));
    for _ in 0..10 {
        let port = world.ids[1].held.port();
        assert!(world.release(1).is_some());
        assert_eq!(world.bind(want("0.0.0.0", 0)), Ok((1, port)));
    }
    world.release_all_and_assert_clean();
}

#[test]
fn a_range_of_one_number_works() {
    let mut world = World::new((7, 7), 5);
    assert_eq!(world.bind(want("192.0.2.1", 0)), Ok((0, 7)));
    assert_eq!(world.bind(want("0.0.0.0", 0)), Err(PortError::Exhausted));
    assert_eq!(world.bind(want("192.0.2.1", 0)), Err(PortError::Exhausted));
    // Rule 3, now that there is no number left.
    assert_eq!(world.bind(want("192.0.2.2", 0)), Ok((1, 7)));
    assert_eq!(world.bind(to("192.0.2.9", 1, want("192.0.2.2", 0))), Err(PortError::Exhausted));
    assert_eq!(world.bind(to("192.0.2.9", 1, want("192.0.2.3", 0))), Ok((2, 7)));
    assert_eq!(world.bind(to("192.0.2.9", 2, want("192.0.2.3", 0))), Ok((3, 7)));
    assert_eq!(world.bind(to("192.0.2.9", 2, want("192.0.2.3", 0))), Err(PortError::Exhausted));
    // The other spaces have numbers of their own.
    assert_eq!(world.bind(in_space(PortSpace::Udp, want("0.0.0.0", 0))), Ok((4, 7)));
    world.release_all_and_assert_clean();
}

#[test]
fn the_whole_default_range_can_be_had_and_no_more() {
    const N: usize = 28_232;
    let mut world = World::new((32_768, 60_999), N + 2);
    let mut seen = vec![false; 1 << 16];
    for i in 0..N {
        let (_, port) = world.bind_id(i, want("192.0.2.1", 0)).unwrap();
        assert!((32_768..=60_999).contains(&port));
        assert!(!std::mem::replace(&mut seen[port as usize], true), "{port} twice");
    }
    assert_eq!(world.ports.count(PortSpace::Tcp), N);
    let before = world.ports.state();
    assert_eq!(world.bind_id(N, want("0.0.0.0", 0)), Err(PortError::Exhausted));
    assert_eq!(world.bind_id(N, want("192.0.2.1", 0)), Err(PortError::Exhausted));
    assert_eq!(world.bind_id(N, to("192.0.2.9", 1, want("0.0.0.0", 0))), Err(PortError::Exhausted));
    assert!(world.ports.state() == before);
    assert!(world.bind_id(N, want("192.0.2.2", 0)).is_ok(), "rule 3");
    let port = world.ids[77].held.port();
    world.release(77);
    assert_eq!(world.bind_id(N + 1, want("0.0.0.0", 0)), Ok((N + 1, port)));
    world.release_all_and_assert_clean();
}

#[test]
fn four_destinations_have_the_whole_range_each() {
    const N: usize = 28_232;
    let mut world = World::new((32_768, 60_999), 4 * N + 1);
    let mut seen = vec![0u8; 1 << 16];
    let destinations = ["10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::9"];
    for i in 0..4 * N {
        let n = i % 4;
        let local = if n == 3 { "2001:db8::1" } else { "10.0.0.9" };
        let (_, port) = world.bind_id(i, to(destinations[n], PORT, want(local, 0))).unwrap();
        assert_eq!(seen[port as usize] & 1 << n, 0, "{port} twice");
        seen[port as usize] |= 1 << n;
    }
    assert!(seen[32_768..=60_999].iter().all(|&all| all == 0xf));
    let more = to(destinations[0], PORT, want("10.0.0.9", 0));
    assert_eq!(world.bind_id(4 * N, more), Err(PortError::Exhausted));
    let other = to(destinations[0], PORT + 1, want("10.0.0.9", 0));
    assert!(world.bind_id(4 * N, other).is_ok());
    world.release_all_and_assert_clean();
}

#[test]
fn a_full_record_table_is_an_answer() {
    let config = PortConfig { range: (6000, 6099), loopback_is_wildcard: false };
    let mut world = World::with(config, 4, 2, 1);
    world.bind(want("192.0.2.1", 0)).unwrap();
    world.bind(want("192.0.2.1", 7000)).unwrap();
    let before = world.state();
    for refused in [
        want("192.0.2.1", 0),
        want("192.0.2.1", 7001),
        want("192.0.2.2", 7000),
        to("192.0.2.9", 1, want("192.0.2.1", 0)),
    ] {
        assert_eq!(world.ports.propose(&refused, &world.ids), Err(PortError::TableFull));
        assert_eq!(world.bind(refused), Err(PortError::TableFull));
        assert_eq!(world.state(), before);
    }
    world.release(0);
    world.bind(want("192.0.2.2", 7000)).expect("an address record, and no number record");
    world.release_all_and_assert_clean();
}

#[test]
fn a_proposal_says_whether_the_number_is_held_on_that_address() {
    let mut world = World::new((6000, 6099), 4);
    let propose = |world: &mut World, want| world.ports.propose(&want, &world.ids).unwrap();
    let source = in_space(PortSpace::Sdp, want("192.0.2.1", 7000));
    let key = PortKey { space: PortSpace::Tcp, local: source.local, port: 7000 };
    let first = to("192.0.2.8", 1, source);
    assert_eq!(propose(&mut world, first), Proposal::AskHost(key));
    let held = world.ports.bind_reserved(&first, key, &mut world.ids, 0).unwrap();
    world.write(0, first, held);
    let second = to("192.0.2.9", 1, source);
    assert_eq!(propose(&mut world, second), Proposal::Held(key));
    let elsewhere = to("192.0.2.9", 1, want("192.0.2.2", 7000));
    assert!(matches!(propose(&mut world, elsewhere), Proposal::AskHost(_)));
    world.release_all_and_assert_clean();
}

#[test]
fn a_reserved_bind_is_checked_again() {
    let mut world = World::new((6000, 6099), 4);
    let any = want("192.0.2.1", 0);
    let key = world.ports.propose(&any, &world.ids).unwrap().key();
    world.bind(want("0.0.0.0", key.port)).unwrap();
    let before = world.state();
    let refused = world.ports.bind_reserved(&any, key, &mut world.ids, 1);
    assert_eq!(refused, Err(PortError::InUse));
    assert_eq!(world.state(), before);
    let none = PortKey { port: 0, ..key };
    let refused = world.ports.bind_reserved(&any, none, &mut world.ids, 1);
    assert_eq!(refused, Err(PortError::InUse));
    // A number of the host's choice may lie outside the range.
    let key = PortKey { port: 50_000, ..key };
    let held = world.ports.bind_reserved(&any, key, &mut world.ids, 1).unwrap();
    world.write(1, any, held);
    assert_eq!(world.bind(want("192.0.2.1", 50_000)), Err(PortError::InUse));
    world.release_all_and_assert_clean();
}

#[test]
fn equal_seeds_choose_equal_numbers() {
    let run = |seed| {
        let config = PortConfig { range: (6000, 6999), loopback_is_wildcard: false };
        let mut world = World::with(config, 40, 40, seed);
        (0..40)
            .map(|i| match i % 2 {
                0 => world.bind(want("192.0.2.1", 0)).unwrap().1,
                _ => world.bind(to("192.0.2.9", i, want("192.0.2.1", 0))).unwrap().1,
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn unusable_parts_are_refused() {
    let config = PortConfig { range: (6000, 6099), loopback_is_wildcard: false };
    let build = |config: PortConfig, words, record_heads, tuple_heads| {
        let parts = PortParts {
            maps: &mut vec![0; words],
            records: &mut [],
            record_heads: &mut vec![Link::NONE; record_heads],
            tuple_heads: &mut vec![Link::NONE; tuple_heads],
        };
        Ports::new(parts, config, Key::new(1, 2)).is_some()
    };
    let words = SPACES * map_words(100);
    assert!(build(config, words, 2, 1));
    assert!(!build(config, words - 1, 2, 1));
    assert!(!build(config, words, 1, 1));
    assert!(build(config, words, 7, 3));
    assert!(!build(config, words, 2, 0));
    assert!(!build(PortConfig { range: (0, 10), ..config }, words, 2, 1));
    assert!(!build(PortConfig { range: (10, 9), ..config }, words, 2, 1));
}

#[test]
fn what_an_id_remembers_is_eight_octets() {
    assert_eq!(size_of::<Held>(), 8);
    assert_eq!(Held::default(), Held::NONE);
    assert!(size_of::<PortRecord>() <= 152);
}
