//! Random links and random applications: whatever is lost, repeated, overtaken or damaged, each
//! identifier hears a story that makes sense, and nothing is left in the end.

use nanocm_core::testing::{Capacity, Faults, Pair, Side, Side::*, World};
use nanocm_core::wire::RejectReason;
use nanocm_core::{EventKind, Id};
use std::collections::BTreeMap;
use std::time::Duration;

/// What an identifier has heard so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Heard {
    Nothing,
    Request,
    Response,
    Established,
    /// The attempt failed, or the connection is over.
    End,
    TimewaitExit,
    Destroyed,
}

/// A small generator of the test's own.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }

    fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// Two engines, and two applications that do now this and now that.
struct Storm<'s> {
    pair: Pair<'s>,
    dice: Dice,
    heard: BTreeMap<(usize, Id), Heard>,
}

impl Storm<'_> {
    fn hear(&mut self, side: Side, id: Id, kind: EventKind) {
        use EventKind::*;
        let heard = self.heard.entry((side as usize, id)).or_insert(Heard::Nothing);
        let next = match (*heard, kind) {
            (Heard::Nothing, ConnectRequest { .. }) if side == B => Heard::Request,
            (Heard::Nothing, ConnectResponse { .. }) if side == A => Heard::Response,
            (Heard::Response | Heard::Request, Established) => Heard::Established,
            (Heard::Nothing, Rejected(_) | Unreachable(_)) if side == A => Heard::End,
            (Heard::Response, Rejected(_)) => Heard::End,
            (Heard::Request, Rejected(_) | Unreachable(_) | ConnectError(_)) => Heard::End,
            // The RTU was lost, and then the peer disconnected.
            (Heard::Request, Disconnected(_)) => Heard::End,
            (Heard::Established, Disconnected(_)) => Heard::End,
            (Heard::End, TimewaitExit) => Heard::TimewaitExit,
            // A REJ of ours has no event; the timewait after it has.
            (Heard::Request | Heard::Response, TimewaitExit) => Heard::TimewaitExit,
            (heard, kind) => panic!("{side:?} {id:?}: {kind:?} after {heard:?}"),
        };
        *heard = next;
        self.react(side, id, kind);
    }

    fn react(&mut self, side: Side, id: Id, kind: EventKind) {
        let (now, luck) = (self.pair.now, self.dice.below(100));
        let cm = self.pair.cm(side);
        match kind {
            EventKind::ConnectRequest { .. } if luck < 70 => self.pair.accept(id, &[7; 196]),
            EventKind::ConnectRequest { .. } if luck < 85 => {
                cm.reject(now, id, RejectReason::CONSUMER, &[8; 148]).unwrap();
            }
            EventKind::ConnectResponse { .. } if luck < 80 => {
                // It may be over by now: then the end is still to be heard of.
                let _ = cm.establish(now, id, &[9; 224]);
            }
            EventKind::ConnectResponse { .. } if luck < 90 => {
                let _ = cm.reject(now, id, RejectReason::CONSUMER, &[]);
            }
            EventKind::Established if luck < 30 => cm.disconnect(now, id, &[5; 220]).unwrap(),
            EventKind::Disconnected(_) => cm.disconnect(now, id, &[6; 224]).unwrap(),
            _ => {}
        }
    }

    /// Now and then an identifier is destroyed, or a connection ended by whoever likes to.
    fn meddle(&mut self, percent: u64) {
        let ids: Vec<_> = self.heard.iter().map(|(key, heard)| (*key, *heard)).collect();
        for ((side, id), heard) in ids {
            let side = [A, B][side];
            let now = self.pair.now;
            if heard == Heard::Destroyed {
                continue;
            }
            if heard == Heard::Established && self.dice.is(percent) {
                let _ = self.pair.cm(side).disconnect(now, id, &[]);
            }
            if self.dice.is(percent / 10) {
                self.destroy(side, id);
            }
        }
    }

    fn destroy(&mut self, side: Side, id: Id) {
        self.pair.drain();
        self.hear_all();
        let now = self.pair.now;
        self.pair.cm(side).destroy(now, id).unwrap();
        self.heard.insert((side as usize, id), Heard::Destroyed);
    }

    fn hear_all(&mut self) {
        for side in [A, B] {
            while let Some(told) = self.pair.node(side).told.pop_front() {
                self.hear(side, told.event.id, told.event.kind);
            }
        }
        for (&(side, id), &heard) in &self.heard {
            let owed = self.pair.cm([A, B][side]).owes_disconnected(id);
            let live = heard != Heard::Destroyed;
            assert_eq!(owed.ok(), live.then_some(heard == Heard::Established), "{id:?}");
        }
    }

    fn run_for(&mut self, time: Duration, meddling: u64) {
        let end = self.pair.now + time;
        while self.pair.step(end) {
            self.pair.drain();
            self.hear_all();
            if meddling > 0 && self.dice.is(5) {
                self.meddle(meddling);
            }
        }
        self.pair.now = end;
    }
}

fn storm(seed: u64, faults: Faults) {
    World::new().seed(seed).of(Capacity::of(12)).run(|pair| {
        let mut storm = Storm { pair, dice: Dice(seed), heard: BTreeMap::new() };
        storm.pair.link.faults = faults;
        let listener = storm.pair.listen(7471, 3);
        for _ in 0..4 {
            for _ in 0..2 {
                let id = storm.pair.connect(7471, &[1; 56]);
                storm.heard.insert((A as usize, id), Heard::Nothing);
            }
            storm.run_for(Duration::from_secs(4), 20);
        }
        storm.run_for(Duration::from_secs(70), 20);
        // Every connection that stands is ended now.
        let standing: Vec<_> = storm.heard.iter().map(|(key, heard)| (*key, *heard)).collect();
        for ((side, id), heard) in standing {
            if heard == Heard::Established {
                let now = storm.pair.now;
                let _ = storm.pair.cm([A, B][side]).disconnect(now, id, &[]);
            }
        }
        storm.run_for(Duration::from_secs(200), 0);
        let mut left = [vec![], vec![listener]];
        for (&(side, id), &heard) in &storm.heard {
            if heard == Heard::Destroyed {
                continue;
            }
            left[side].push(id);
            let rejected = matches!(heard, Heard::Request | Heard::Response);
            let over = matches!(heard, Heard::End | Heard::TimewaitExit);
            assert!(over || rejected, "seed {seed}: side {side} {id:?} heard {heard:?} last");
        }
        storm.pair.assert_clean(&left[0], &left[1]);
    });
}

#[test]
fn a_stormy_link_leads_every_attempt_to_one_end() {
    let faults = Faults {
        loss: 200,
        duplicate: 300,
        reorder: 300,
        jitter: Duration::from_secs(3),
        ..Faults::default()
    };
    for seed in 0..200 {
        storm(seed, faults);
    }
}

#[test]
fn damage_past_the_icrc_harms_nobody_else() {
    let faults = Faults {
        loss: 100,
        duplicate: 200,
        reorder: 200,
        corrupt: 200,
        jitter: Duration::from_secs(1),
    };
    for seed in 1000..1100 {
        storm(seed, faults);
    }
}
