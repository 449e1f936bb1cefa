//! A simulated link: datagrams in flight between two engines, lost, repeated, delayed and altered
//! by a seeded generator, or by script.

use crate::hash::{Key, Rng};
use crate::time::Instant;
use crate::wire::{Attribute, Mad, View};
use core::time::Duration;
use std::collections::BTreeMap;

/// What happens to datagrams, each in parts of 1000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// Lost.
    pub loss: u32,
    /// Delivered twice.
    pub duplicate: u32,
    /// Delayed by up to `jitter`, so that others overtake.
    pub reorder: u32,
    /// One bit flipped (as if past the ICRC).
    pub corrupt: u32,
    /// The longest extra delay.
    pub jitter: Duration,
}

/// A datagram under way to the side with this number (0 or 1).
#[derive(Clone, Debug)]
pub struct Flight {
    /// When it arrives.
    pub at: Instant,
    /// To which side.
    pub to: usize,
    /// What it is.
    pub mad: Mad,
}

/// The link.
pub struct Link {
    rng: Rng,
    /// Every datagram takes this long. 50 µs.
    pub latency: Duration,
    /// What goes wrong by chance.
    pub faults: Faults,
    /// What goes wrong by script: (message, towards which side, how many more to lose).
    drops: Vec<(Attribute, usize, u32)>,
    /// By arrival, then by departure.
    flights: BTreeMap<(Instant, u64), Flight>,
    order: u64,
    /// Datagrams lost so far.
    pub lost: u32,
}

impl Link {
    /// A perfect link.
    pub fn new(seed: u64) -> Link {
        Link {
            rng: Rng::new(Key::new(seed as u32, (seed >> 32) as u32)),
            latency: Duration::from_micros(50),
            faults: Faults::default(),
            drops: Vec::new(),
            flights: BTreeMap::new(),
            order: 0,
            lost: 0,
        }
    }

    /// Loses the next `count` messages of this kind that go towards side `to`.
    pub fn drop_next(&mut self, message: Attribute, to: usize, count: u32) {
        self.drops.push((message, to, count));
    }

    /// Takes a datagram.
    pub fn send(&mut self, now: Instant, to: usize, mad: &Mad) {
        if self.is_scripted_loss(to, mad) || self.chance(self.faults.loss) {
            self.lost += 1;
            return;
        }
        let copies = 1 + u32::from(self.chance(self.faults.duplicate));
        for _ in 0..copies {
            let mut mad = *mad;
            if self.chance(self.faults.corrupt) {
                let bit = self.rng.below(256 * 8) as usize;
                mad[bit / 8] ^= 1 << (bit % 8);
            }
            let mut delay = self.latency;
            if self.chance(self.faults.reorder) {
                let most = self.faults.jitter.as_micros() as u32;
                delay += Duration::from_micros(u64::from(self.rng.below(most.max(1))));
            }
            self.order += 1;
            let at = now + delay;
            self.flights.insert((at, self.order), Flight { at, to, mad });
        }
    }

    /// When the next datagram arrives.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.flights.first_key_value().map(|(&(at, _), _)| at)
    }

    /// The next datagram that has arrived.
    pub fn arrive(&mut self, now: Instant) -> Option<Flight> {
        let first = self.flights.first_entry().filter(|first| first.key().0 <= now)?;
        Some(first.remove())
    }

    fn is_scripted_loss(&mut self, to: usize, mad: &Mad) -> bool {
        let message = View::new(mad).attribute();
        let scripted = self.drops.iter_mut().find(|(m, t, n)| (*m, *t) == (message, to) && *n > 0);
        scripted.map(|(_, _, count)| *count -= 1).is_some()
    }

    fn chance(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.below(1000) < per_mille
    }
}
