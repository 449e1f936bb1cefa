//! What port numbers cost: the bitmap by itself, then an identifier's number under the sharing rules.

use crate::count::count;
use crate::report::Report;
use crate::rng::Rng;
use crate::spread::Spread;
use nanocm_core::port::{
    Bitmap, Held, PortConfig, PortError, PortParts, PortRecord, Ports, SPACES, TUPLE, Tuple,
    TupleOwner, Want, map_words,
};
use nanocm_core::slots::{Chained, Key, Link};
use nanocm_core::{PortSpace, ScopedIp};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

const BITMAP: u64 = 150;
const BIND: u64 = 1_200;

/// The usual range, and all there is.
const RANGES: [(u16, u16); 2] = [(32_768, 60_999), (1, 65_535)];

/// Allocate-any and release, and the refusal.
pub fn bitmap(report: &mut Report) {
    report.section("port bitmap, allocate any + release (instructions, worst of each row)");
    for (low, high) in RANGES {
        let len = usize::from(high - low) + 1;
        for occupancy in Occupancy::ALL {
            let mut memory = vec![0; map_words(len)];
            let mut map = Bitmap::new(&mut memory, low, len).expect("memory for the range");
            let mut rng = Rng::new(7);
            for offset in occupancy.held(len, &mut rng) {
                map.set(low + offset as u16);
            }
            let worst = starts(len, &mut rng).map(|from| {
                let (port, take) = count(|| map.allocate(from));
                let Some(port) = port else { return take };
                let (freed, give) = count(|| map.clear(port));
                assert!(freed);
                take + give
            });
            let what = format!("{low}–{high}, {}", occupancy.name());
            report.at_most(&what, worst.max().unwrap_or(0), BITMAP);
        }
    }
}

/// Where searches begin: both ends, word borders, anywhere.
fn starts(len: usize, rng: &mut Rng) -> impl Iterator<Item = usize> {
    [0, 1, 63, 64, len / 2, len - 65, len - 64, len - 1]
        .into_iter()
        .chain((0..24).map(move |_| rng.below(len)))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Occupancy {
    Empty,
    Half,
    HalfInOnePiece,
    Most,
    MostInOnePiece,
    OneFree,
    LastFree,
    Full,
}

impl Occupancy {
    const ALL: [Occupancy; 8] = [
        Occupancy::Empty,
        Occupancy::Half,
        Occupancy::HalfInOnePiece,
        Occupancy::Most,
        Occupancy::MostInOnePiece,
        Occupancy::OneFree,
        Occupancy::LastFree,
        Occupancy::Full,
    ];

    fn name(self) -> &'static str {
        match self {
            Occupancy::Empty => "empty",
            Occupancy::Half => "50 % held, at random",
            Occupancy::HalfInOnePiece => "50 % held, in one piece",
            Occupancy::Most => "99 % held, at random",
            Occupancy::MostInOnePiece => "99 % held, in one piece",
            Occupancy::OneFree => "one free, in the middle",
            Occupancy::LastFree => "one free, the last",
            Occupancy::Full => "100 % held: the refusal",
        }
    }

    /// The offsets held.
    fn held(self, len: usize, rng: &mut Rng) -> Vec<usize> {
        let mut all: Vec<usize> = (0..len).collect();
        match self {
            Occupancy::Half | Occupancy::Most => rng.shuffle(&mut all),
            Occupancy::OneFree => {
                all.remove(len / 2);
            }
            _ => {}
        }
        all.truncate(match self {
            Occupancy::Empty => 0,
            Occupancy::Half | Occupancy::HalfInOnePiece => len / 2,
            Occupancy::Most | Occupancy::MostInOnePiece => len * 99 / 100,
            Occupancy::OneFree | Occupancy::LastFree => len - 1,
            Occupancy::Full => len,
        });
        all
    }
}

/// Bind and release of an identifier under the sharing rules.
pub fn binding(report: &mut Report) {
    report.section("bind + release under the sharing rules (instructions, worst of each row)");
    let any = want(1, 0);
    for (what, held) in [
        ("any free port, empty", 0),
        ("any free port, 50 % held", RANGE / 2),
        ("any free port, 99 % held", RANGE * 99 / 100),
        ("any free port, one free", RANGE - 1),
    ] {
        let mut world = PortWorld::new();
        for port in 0..held {
            world.bind(&want(1, LOW + port as u16)).expect("a free number");
        }
        report.at_most(what, world.worst(|_| any), BIND);
    }

    let mut world = PortWorld::new();
    for port in 0..RANGE {
        world.bind(&want(1, LOW + port as u16)).expect("a free number");
    }
    report.at_most("any free port, all held by another address", world.worst(|_| want(2, 0)), BIND);

    let mut world = PortWorld::new();
    for i in 0..2_000 {
        world.bind(&Want { reuse: true, ..want(i, 4420) }).expect("REUSEADDR on both sides");
    }
    let reused = |i: u32| Want { reuse: true, ..want(i % 4_000, 4420) };
    report.at_most("one port with 2,000 owners (REUSEADDR)", world.worst(reused), BIND);

    let mut world = PortWorld::new();
    for i in 0..2_000 {
        world.bind(&want(i, 4420)).expect("another address");
    }
    report.at_most("one port on 2,000 addresses", world.worst(|i| want(5_000 + i, 4420)), BIND);

    for (what, held) in [
        ("towards a peer, empty", 0),
        ("towards a peer, 50 % of its ports taken", RANGE / 2),
        ("towards a peer, all ports taken by other peers", 4 * RANGE),
    ] {
        let mut world = PortWorld::new();
        for i in 0..held {
            let peer = if held == 4 * RANGE { 10 + i % 8 } else { 1 };
            world.bind(&towards(peer as u32)).expect("a number free towards the peer");
        }
        report.at_most(what, world.worst(|_| towards(1)), BIND);
    }
    exhausted(report);
}

/// The refusal of a port towards a peer with whom every number is taken: so many tries, no more.
fn exhausted(report: &mut Report) {
    let mut world = PortWorld::new();
    let mut refused = 0;
    while refused < 200 {
        refused = if world.bind(&towards(1)).is_ok() { 0 } else { refused + 1 };
    }
    let owner = world.owner();
    let (result, steps) =
        count(|| world.ports.bind(&towards(1), &mut world.ids, owner).map(|_| ()));
    assert_eq!(result, Err(PortError::Exhausted));
    report.info("refusal: every number taken towards one peer", steps);
}

const LOW: u16 = 32_768;
const RANGE: usize = 28_232;
const OWNERS: usize = 4 * RANGE + 100;

/// A want for a port on 10.1.x.y.
fn want(host: u32, port: u16) -> Want {
    let local = ScopedIp::of(SocketAddr::new(address(0x0a01_0000 + host), 0));
    Want { space: PortSpace::Tcp, local, port, reuse: false, af_only: true, remote: None }
}

/// A want for any port towards port 4420 of 10.2.x.y.
fn towards(peer: u32) -> Want {
    let remote = ScopedIp::of(SocketAddr::new(address(0x0a02_0000 + peer), 0));
    Want { remote: Some((remote, 4420)), ..want(1, 0) }
}

fn address(bits: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(bits))
}

/// Ports and their owners.
struct PortWorld {
    ports: Ports<'static>,
    ids: Vec<Owner>,
    used: usize,
}

impl PortWorld {
    /// Nothing owned. The memory is never given back: there are a dozen of these in a run.
    fn new() -> PortWorld {
        let parts = PortParts {
            maps: vec![0; SPACES * map_words(RANGE)].leak(),
            records: vec![PortRecord::EMPTY; OWNERS].leak(),
            record_heads: vec![Link::NONE; 2 * OWNERS].leak(),
            tuple_heads: vec![Link::NONE; OWNERS].leak(),
        };
        let config =
            PortConfig { range: (LOW, LOW + (RANGE - 1) as u16), loopback_is_wildcard: false };
        let ports = Ports::new(parts, config, Key::new(0x5eed, 0x0fac)).expect("sound parts");
        PortWorld { ports, ids: vec![Owner::default(); OWNERS], used: 0 }
    }

    fn owner(&self) -> usize {
        self.used
    }

    /// Makes one more identifier own a number.
    fn bind(&mut self, want: &Want) -> Result<(), PortError> {
        let (held, _) = self.ports.bind(want, &mut self.ids, self.used)?;
        self.ids[self.used].take(want, held);
        self.used += 1;
        Ok(())
    }

    /// The worst of binding and releasing 32 times.
    fn worst(&mut self, want: impl Fn(u32) -> Want) -> u64 {
        let mut spread = Spread::default();
        for i in 0..32 {
            let (want, owner) = (want(i * 61), self.used);
            let (bound, take) = count(|| self.ports.bind(&want, &mut self.ids, owner));
            let (held, _) = bound.expect("a number that may be had");
            self.ids[owner].take(&want, held);
            let held = std::mem::take(&mut self.ids[owner].held);
            let (_, give) =
                count(|| self.ports.release(held, want.local, &mut self.ids, owner).is_some());
            spread.add(take + give);
        }
        spread.worst()
    }
}

#[derive(Clone, Copy, Default)]
struct Owner {
    local: ScopedIp,
    remote: ScopedIp,
    remote_port: u16,
    held: Held,
    chain: Link,
}

impl Owner {
    fn take(&mut self, want: &Want, held: Held) {
        (self.held, self.local) = (held, want.local);
        (self.remote, self.remote_port) = want.remote.unwrap_or_default();
    }
}

impl Chained<TUPLE> for Owner {
    fn chain(&self) -> Link {
        self.chain
    }

    fn set_chain(&mut self, next: Link) {
        self.chain = next;
    }
}

impl TupleOwner for Owner {
    fn tuple(&self) -> Tuple {
        Tuple {
            space: PortSpace::Tcp,
            local: self.local,
            local_port: self.held.port(),
            remote: self.remote,
            remote_port: self.remote_port,
        }
    }

    fn held(&self) -> Held {
        self.held
    }
}
