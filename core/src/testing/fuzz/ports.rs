//! Operations on [`Ports`], compared with a model that walks all owners.

use super::Input;
use crate::addr::{PortSpace, ScopedIp};
use crate::hash::Key;
use crate::port::{
    Held, PortConfig, PortError, PortKey, PortParts, PortRecord, Ports, Proposal, SPACES, TUPLE,
    Tuple, TupleOwner, Want, map_words,
};
use crate::slots::{Chained, Link};
use std::collections::BTreeSet;

/// Binds, proposals, listeners, moves, sharing and releases: each result is what the module's table of rules
/// says of every owner, one by one; a refusal changes nothing; nothing is left in the end.
pub fn ports(octets: &[u8]) {
    let mut input = Input::new(octets);
    let seed = u32::from_le_bytes(input.octets());
    let loopback = input.flag();
    let last = FIRST + input.below(6) as u16;
    let records = input.pick(&[SLOTS, 4]);
    let mut maps = vec![0; SPACES * map_words(usize::from(last - FIRST) + 1)];
    let parts = PortParts {
        maps: &mut maps,
        records: &mut vec![PortRecord::EMPTY; records],
        record_heads: &mut vec![Link::NONE; 2 * records.next_power_of_two()],
        tuple_heads: &mut [Link::NONE; SLOTS.next_power_of_two()],
    };
    let config = PortConfig { range: (FIRST, last), loopback_is_wildcard: loopback };
    let ports = Ports::new(parts, config, Key::new(seed, 5)).expect("sound capacities");
    let ids = vec![Id::default(); SLOTS];
    let mut pair = Pair { ports, ids, owners: [None; SLOTS], input, loopback, last, records };
    while !pair.input.is_empty() {
        pair.step();
    }
    pair.release_all_and_assert_clean();
}

/// What owns a number in [`Ports`].
#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct Id {
    space: Option<PortSpace>,
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
            space: self.space.expect("an owner has a port space"),
            local: self.local,
            local_port: self.held.port(),
            remote: self.remote,
            remote_port: self.remote_port,
        }
    }
}

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
    if new.space.numbers() != old.space.numbers() || port != owner.port {
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
    "0.0.0.0:0",
    "[::]:0",
    "127.0.0.1:0",
    "[::1]:0",
    "192.0.2.1:0",
    "192.0.2.2:0",
    "[fe80::1%2]:0",
    "[fe80::1%3]:0",
    "[2001:db8::1]:0",
];
const SLOTS: usize = 14;
const FIRST: u16 = 100;

/// The ports, the model, and what to do.
struct Pair<'s, 'i> {
    ports: Ports<'s>,
    ids: Vec<Id>,
    owners: [Option<Owner>; SLOTS],
    input: Input<'i>,
    loopback: bool,
    last: u16,
    records: usize,
}

impl Pair<'_, '_> {
    fn step(&mut self) {
        let index = self.input.below(SLOTS);
        let octet = self.input.octet();
        let action = octet & 7;
        // Looking at all there is takes long.
        let before = (octet >= 0xc0).then(|| self.state());
        let refused = match (self.owners[index], action) {
            (None, _) => self.bind(index, action == 0, before.as_ref()),
            (Some(owner), 0..=3) => {
                self.owners[index] = None;
                let left = self.release(index);
                assert_eq!(left, self.key_left(&owner));
                false
            }
            (Some(owner), 4) => self.listen(index, owner),
            (Some(owner), _) => self.share(index, owner),
        };
        self.ports.audit(&self.ids, |id| id.held.is_some().then_some((id.held, id.local)));
        if let (true, Some(before)) = (refused, &before) {
            assert_eq!(self.state(), *before, "a refusal changes nothing");
        }
        let owned: BTreeSet<_> = self.keys().map(|key| (key.space as u16, key.port)).collect();
        for space in PortSpace::ALL {
            let numbers = space.numbers() as u16;
            let inside = owned.range((numbers, FIRST)..=(numbers, self.last)).count();
            assert_eq!(self.ports.count(space), inside);
            for port in FIRST - 1..=self.last + 1 {
                let is_owned = owned.contains(&(numbers, port));
                assert_eq!(self.ports.is_owned(space, port), is_owned, "{space:?} {port}");
            }
        }
    }

    /// Whether it was refused.
    fn bind(&mut self, index: usize, reserved: bool, before: Option<&String>) -> bool {
        let want = self.any_want();
        let proposal = self.ports.propose(&want, &self.ids);
        if let Some(before) = before {
            assert_eq!(self.state(), *before, "a proposal changes nothing");
        }
        if let (Ok(proposal), true) = (proposal, want.port != 0) {
            let key = key_of(&Owner { want, port: want.port });
            let is_held = self.keys().any(|other| other == key);
            let wanted = if is_held { Proposal::Held(key) } else { Proposal::AskHost(key) };
            assert_eq!(proposal, wanted);
        }
        let bound = match proposal {
            Ok(proposal) if reserved => {
                let port = if want.port == 0 { self.input.pick(&[0, 0, 7, 1]) } else { 0 };
                // Sometimes the host chose another number.
                let key = PortKey { port: proposal.key().port + port, ..proposal.key() };
                let bound = self.ports.bind_reserved(&want, key, &mut self.ids, index);
                if let Err(PortError::InUse | PortError::TupleInUse) = bound {
                    assert_eq!(bound.map(drop), self.verdict(&want, key.port));
                    return true;
                }
                bound.map(|held| (held, key.port))
            }
            Err(refused) if reserved => Err(refused),
            _ => self.ports.bind(&want, &mut self.ids, index),
        };
        match bound {
            Ok((held, port)) => {
                assert_eq!(held.port(), port);
                self.check_choice(&want, port, reserved);
                self.write(index, want, held);
                self.owners[index] = Some(Owner { want, port });
                false
            }
            Err(error) => {
                self.check_refusal(&want, error);
                true
            }
        }
    }

    fn check_choice(&self, want: &Want, port: u16, reserved: bool) {
        assert_eq!(self.verdict(want, port), Ok(()), "{port} for {want:?}");
        if want.port != 0 {
            return assert_eq!(want.port, port);
        }
        if reserved {
            return;
        }
        assert!((FIRST..=self.last).contains(&port));
        let is_free = |port| {
            let owners = self.owners.iter().flatten();
            let wild = Want { local: ip("0.0.0.0:0"), remote: None, port: 0, ..*want };
            owners.map(|owner| check(&wild, port, owner, self.loopback)).all(|ok| ok.is_ok())
        };
        if want.remote.is_none() && (FIRST..=self.last).any(is_free) {
            assert!(is_free(port), "shared without need");
        }
    }

    fn check_refusal(&self, want: &Want, error: PortError) {
        assert!(error.errno() > 0 && !error.to_string().is_empty());
        match error {
            PortError::TableFull => {
                let mut keys: Vec<_> = self.keys().collect();
                keys.sort_by_key(|key| format!("{key:?}"));
                keys.dedup();
                assert_eq!(keys.len(), self.records);
            }
            PortError::Exhausted => {
                assert_eq!(want.port, 0);
                let good = (FIRST..=self.last).find(|&port| self.verdict(want, port).is_ok());
                assert_eq!(good, None);
            }
            _ => assert_eq!(self.verdict(want, want.port), Err(error), "{want:?}"),
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
        let id = &mut self.ids[index];
        assert_eq!(self.ports.listen(&mut id.held, id.local), wanted);
        !may
    }

    fn share(&mut self, index: usize, mut owner: Owner) -> bool {
        owner.want.reuse = true;
        self.owners[index] = Some(owner);
        let id = &mut self.ids[index];
        self.ports.share(&mut id.held, id.local);
        assert!(id.held.reuse());
        false
    }

    fn any_want(&mut self) -> Want {
        let peer = (ip(self.input.pick(&["192.0.2.8:0", "[2001:db8::8]:0"])), 1);
        Want {
            space: self.input.pick(&PortSpace::ALL),
            local: ip(self.input.pick(&LOCALS)),
            // Explicit numbers inside the range and outside.
            port: self.input.pick(&[0, 0, FIRST, self.last, FIRST - 1, FIRST - 1]),
            reuse: self.input.flag(),
            af_only: self.input.flag(),
            remote: self.input.flag().then_some(peer),
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

    fn write(&mut self, index: usize, want: Want, held: Held) {
        let (remote, remote_port) = want.remote.unwrap_or_default();
        let (local, chain) = (want.local, self.ids[index].chain);
        self.ids[index] = Id { space: Some(want.space), local, remote, remote_port, held, chain };
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

fn key_of(owner: &Owner) -> PortKey {
    let space = owner.want.space.numbers();
    PortKey { space, local: owner.want.local, port: owner.port }
}

fn ip(text: &str) -> ScopedIp {
    ScopedIp::of(text.parse().expect("a socket address"))
}
