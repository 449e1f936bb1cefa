//! Random operations on [`Ports`], compared with a model that walks all owners.

use super::*;
use crate::hash::Rng;
use std::collections::BTreeSet;

/// One owner, as the model sees it.
#[derive(Clone, Copy, Debug)]
struct Owner {
    want: Want,
    port: u16,
}

/// The module's table of rules, owner by owner.
fn check(new: &Want, port: u16, owner: &Owner, loopback: bool) -> Result<(), PortError> {
    let specific = |ip: ScopedIp| {
        let ip = ip.gid.to_ip();
        !(ip.is_unspecified() || loopback && ip.is_loopback())
    };
    let old = &owner.want;
    if numbers(new.space) != numbers(old.space) || port != owner.port {
        return Ok(());
    }
    let both_peers = new.remote.is_some() && old.remote.is_some();
    let compatible = both_peers && new.remote != old.remote
        || new.port != 0 && new.reuse && old.reuse
        || new.port != 0
            && (new.af_only && old.af_only)
            && new.local.gid.is_v4() != old.local.gid.is_v4()
        || specific(new.local) && specific(old.local) && new.local != old.local;
    match compatible {
        true => Ok(()),
        false if both_peers => Err(PortError::TupleInUse),
        false => Err(PortError::InUse),
    }
}

const LOCALS: [&str; 9] = [
    "0.0.0.0",
    "::",
    "127.0.0.1",
    "::1",
    "192.0.2.1",
    "192.0.2.2",
    "fe80::1%2",
    "fe80::1%3",
    "2001:db8::1",
];
const SLOTS: usize = 14;

/// The ports, the model, and dice.
struct Pair {
    world: World,
    owners: [Option<Owner>; SLOTS],
    rng: Rng,
    loopback: bool,
    last: u16,
    records: usize,
    at: String,
}

impl Pair {
    fn new(seed: u32) -> Pair {
        let mut rng = Rng::new(Key::new(seed, 6));
        let loopback = seed.is_multiple_of(2);
        let last = 100 + rng.below(6) as u16;
        let records = if seed.is_multiple_of(3) { 4 } else { SLOTS };
        let config = PortConfig { range: (100, last), loopback_is_wildcard: loopback };
        let world = World::with(config, SLOTS, records, seed);
        Pair { world, owners: [None; SLOTS], rng, loopback, last, records, at: String::new() }
    }

    fn step(&mut self) {
        let index = self.roll(SLOTS);
        let before = self.world.state();
        let action = self.roll(8);
        let refused = match (self.owners[index], action) {
            (None, _) => self.bind(index, action == 0),
            (Some(owner), 0..=3) => {
                self.owners[index] = None;
                let left = self.world.release(index);
                assert_eq!(left, self.key_left(&owner), "{}", self.at);
                false
            }
            (Some(owner), 4..=5) => self.listen(index, owner),
            (Some(owner), _) => self.relocate(index, owner),
        };
        if refused {
            assert_eq!(self.world.state(), before, "{}: a refusal changes nothing", self.at);
        }
        for space in [PortSpace::Tcp, PortSpace::Udp] {
            let held: BTreeSet<_> = (100..=self.last)
                .filter(|&port| self.keys().any(|key| key.space == space && key.port == port))
                .collect();
            assert_eq!(self.world.ports.count(space), held.len(), "{}", self.at);
        }
    }

    fn bind(&mut self, index: usize, reserved: bool) -> bool {
        let want = self.any_want();
        let before = self.world.state();
        let proposal = self.world.ports.propose(&want, &self.world.ids);
        assert_eq!(self.world.state(), before, "{}: a proposal changes nothing", self.at);
        if let (Ok(proposal), true) = (proposal, want.port != 0) {
            let key = key_of(&Owner { want, port: want.port });
            let is_held = self.keys().any(|other| other == key);
            let wanted = if is_held { Proposal::Held(key) } else { Proposal::AskHost(key) };
            assert_eq!(proposal, wanted, "{}", self.at);
        }
        let World { ports, ids } = &mut self.world;
        let bound = match proposal {
            Ok(proposal) if reserved => ports
                .bind_reserved(&want, proposal.key(), ids, index)
                .map(|held| (held, proposal.key().port)),
            Err(refused) if reserved => Err(refused),
            _ => ports.bind(&want, ids, index),
        };
        match bound {
            Ok((held, port)) => {
                self.check_choice(&want, port);
                self.world.write(index, want, held);
                self.owners[index] = Some(Owner { want, port });
                false
            }
            Err(error) => {
                self.check_refusal(&want, error);
                true
            }
        }
    }

    fn check_choice(&self, want: &Want, port: u16) {
        assert_eq!(self.verdict(want, port), Ok(()), "{}: {port} for {want:?}", self.at);
        if want.port != 0 {
            return assert_eq!(want.port, port);
        }
        assert!((100..=self.last).contains(&port));
        let is_free = |port| {
            let owners = self.owners.iter().flatten();
            let wild = Want { local: ip("0.0.0.0"), remote: None, port: 0, ..*want };
            owners.map(|owner| check(&wild, port, owner, self.loopback)).all(|ok| ok.is_ok())
        };
        if want.remote.is_none() && (100..=self.last).any(is_free) {
            assert!(is_free(port), "{}: shared without need", self.at);
        }
    }

    fn check_refusal(&self, want: &Want, error: PortError) {
        match error {
            PortError::TableFull => {
                let mut keys: Vec<_> = self.keys().collect();
                keys.sort_by_key(|key| format!("{key:?}"));
                keys.dedup();
                assert_eq!(keys.len(), self.records, "{}", self.at);
            }
            PortError::Exhausted => {
                assert_eq!(want.port, 0);
                let good = (100..=self.last).find(|&port| self.verdict(want, port).is_ok());
                assert_eq!(good, None, "{}", self.at);
            }
            _ => assert_eq!(self.verdict(want, want.port), Err(error), "{}: {want:?}", self.at),
        }
    }

    fn listen(&mut self, index: usize, owner: Owner) -> bool {
        // As if bound anew, without REUSEADDR.
        let port = owner.port;
        let listener = Want { reuse: false, port, ..owner.want };
        self.owners[index] = None;
        let alone = !owner.want.reuse || self.verdict(&listener, port).is_ok();
        let may = alone && owner.want.remote.is_none();
        let reuse = owner.want.reuse && !may;
        self.owners[index] = Some(Owner { want: Want { reuse, ..owner.want }, port });
        let wanted = if may { Ok(()) } else { Err(PortError::ListenConflict) };
        assert_eq!(self.world.listen(index), wanted, "{}", self.at);
        !may
    }

    fn relocate(&mut self, index: usize, owner: Owner) -> bool {
        let (from, to) = (owner.want.local, ip(LOCALS[self.roll(9)]));
        if from.gid.is_v4() != to.gid.is_v4() {
            return false;
        }
        let wild = from.gid.is_wildcard() || self.loopback && from.gid.is_loopback();
        match self.world.ports.relocate(self.world.ids[index].held, from, to) {
            Ok(left) => {
                assert!(wild || from == to, "{}", self.at);
                self.world.ids[index].local = to;
                self.owners[index] =
                    Some(Owner { want: Want { local: to, ..owner.want }, ..owner });
                assert_eq!(left, self.key_left(&owner), "{}", self.at);
                false
            }
            Err(error) => {
                assert_eq!(error == PortError::InUse, !wild, "{}", self.at);
                assert!(!wild || self.records < SLOTS, "{}", self.at);
                true
            }
        }
    }

    fn any_want(&mut self) -> Want {
        let peer = (ip(["192.0.2.8", "2001:db8::8"][self.roll(2)]), 1);
        Want {
            space: [PortSpace::Tcp, PortSpace::Sdp, PortSpace::Udp][self.roll(3)],
            local: ip(LOCALS[self.roll(9)]),
            // Explicit numbers inside the range and outside.
            port: [0, 0, 100, self.last, 99, 99][self.roll(6)],
            reuse: self.roll(2) == 0,
            af_only: self.roll(2) == 0,
            remote: (self.roll(2) == 0).then_some(peer),
        }
    }

    /// Of all owners' verdicts, the clash that no other peer could cure comes first.
    fn verdict(&self, want: &Want, port: u16) -> Result<(), PortError> {
        let all = self.owners.iter().flatten();
        let verdicts: Vec<_> = all.map(|owner| check(want, port, owner, self.loopback)).collect();
        let first = [Err(PortError::InUse), Err(PortError::TupleInUse)];
        first.into_iter().find(|clash| verdicts.contains(clash)).unwrap_or(Ok(()))
    }

    /// What goes with this owner, which is no longer among the others.
    fn key_left(&self, owner: &Owner) -> Option<PortKey> {
        let key = key_of(owner);
        (!self.keys().any(|other| other == key)).then_some(key)
    }

    fn keys(&self) -> impl Iterator<Item = PortKey> {
        self.owners.iter().flatten().map(key_of)
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.rng.below(sides as u32) as usize
    }
}

fn key_of(owner: &Owner) -> PortKey {
    let space = numbers(owner.want.space);
    PortKey { space, local: owner.want.local, port: owner.port }
}

fn numbers(space: PortSpace) -> PortSpace {
    if space == PortSpace::Sdp { PortSpace::Tcp } else { space }
}

#[test]
fn everything_at_random_agrees_with_a_model_that_walks_owners() {
    for seed in 0..60 {
        let mut pair = Pair::new(seed);
        for step in 0..1_200 {
            pair.at = format!("seed {seed} step {step}");
            pair.step();
        }
        pair.world.release_all_and_assert_clean();
    }
}
