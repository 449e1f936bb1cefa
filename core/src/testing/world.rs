//! Where a test plays: how large the engines are, how they are set, when time begins.

use super::{Pair, Solo};
use crate::config::Config;
use crate::memory::{Capacity, Memory};
use crate::time::Instant;
use core::net::{IpAddr, Ipv6Addr};

/// When time begins: at zero, and so that deadlines of seconds lie beyond the wrap of 32-bit
/// milliseconds.
pub const STARTS: [Instant; 3] =
    [Instant::ZERO, Instant::from_millis(WRAP - 20_000), Instant::from_millis(WRAP - 500)];

const WRAP: u64 = 1 << 32;

/// The world of a test, which is run once for each of [`STARTS`].
///
/// ```
/// use nanocm_core::testing::World;
///
/// World::new().run(|pair| pair.assert_clean(&[], &[]));
/// ```
#[derive(Clone, Copy)]
pub struct World {
    capacity: Capacity,
    seed: u64,
    adjust: fn(&mut Config),
    ips: [IpAddr; 2],
}

impl World {
    /// Two engines of four connections, with default settings, on IPv4.
    pub fn new() -> World {
        World {
            capacity: Capacity::of(4),
            seed: 1,
            adjust: |_| {},
            ips: [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])],
        }
    }

    /// With engines of this size.
    pub fn of(self, capacity: Capacity) -> World {
        World { capacity, ..self }
    }

    /// With this seed.
    pub fn seed(self, seed: u64) -> World {
        World { seed, ..self }
    }

    /// With settings of its own.
    pub fn set(self, adjust: fn(&mut Config)) -> World {
        World { adjust, ..self }
    }

    /// On IPv6.
    pub fn v6(self) -> World {
        let ip = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0x99, 0, 0, 0, 0, 0, last));
        World { ips: [ip(1), ip(2)], ..self }
    }

    /// Runs a test of two engines.
    pub fn run(self, test: impl Fn(Pair<'_>)) {
        for start in STARTS {
            let (mut a, mut b) = (Memory::new(self.capacity), Memory::new(self.capacity));
            test(Pair::between(self.ips, [&mut a, &mut b], self.seed, start, self.adjust));
        }
    }

    /// Runs a test of one engine, the second of the two, and a peer made by hand.
    pub fn solo(self, test: impl Fn(Solo<'_>)) {
        for start in STARTS {
            let mut memory = Memory::new(self.capacity);
            let mut config = Config::new(self.seed);
            (self.adjust)(&mut config);
            let cm = memory.engine(config).expect("the test's capacities are sound");
            test(Solo::new(cm, self.ips, start));
        }
    }
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}
