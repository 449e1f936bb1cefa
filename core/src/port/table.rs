//! [`PortRecord`] and [`Records`]: how many owners of each kind a number has, and an address of it.
//!
//! A slab of records, each with room for one number and for one address. The two halves are handed
//! out separately and found through keyed chains. An owner needs at most one of each, so with as many
//! records as owners there is always one left.

use super::rules::{ADDRESS_KINDS, KINDS, Kind};
use super::types::NumberSpace;
use crate::addr::{Gid, ScopedIp};
use crate::hash::Key;
use crate::slots::{Chained, Chains, Link};

/// Memory for one number of a port space and for one (number, address); all zero at first.
#[derive(Clone, Copy, Debug)]
pub struct PortRecord {
    number: Number,
    address: Address,
}

impl PortRecord {
    /// One that is not in use.
    pub const EMPTY: PortRecord = PortRecord {
        number: Number { name: 0, present: 0, owners: [0; KINDS], next: Link::NONE },
        address: Address {
            name: 0,
            local: ScopedIp { gid: Gid::ZERO, scope: 0 },
            owners: [0; ADDRESS_KINDS],
            next: Link::NONE,
        },
    };
}

impl Default for PortRecord {
    fn default() -> Self {
        PortRecord::EMPTY
    }
}

#[derive(Clone, Copy, Debug)]
struct Number {
    /// Space and number.
    name: u32,
    /// A bit for each kind that has an owner.
    present: u32,
    /// 32 bits each: there are never more owners than slots.
    owners: [u32; KINDS],
    /// In its chain, or among the free ones.
    next: Link,
}

#[derive(Clone, Copy, Debug)]
struct Address {
    /// As the number's, and [`RESERVED`].
    name: u32,
    local: ScopedIp,
    owners: [u32; ADDRESS_KINDS],
    next: Link,
}

/// In the name of an address: whoever runs the engine holds it for us.
const RESERVED: u32 = 1 << 31;

const NUMBER: u8 = 0;
const ADDRESS: u8 = 1;

impl Chained<NUMBER> for PortRecord {
    fn chain(&self) -> Link {
        self.number.next
    }
    fn set_chain(&mut self, next: Link) {
        self.number.next = next;
    }
}

impl Chained<ADDRESS> for PortRecord {
    fn chain(&self) -> Link {
        self.address.next
    }
    fn set_chain(&mut self, next: Link) {
        self.address.next = next;
    }
}

/// A number of a port space, its hash, and where the records of it and of an address of it are, if
/// there are any.
#[derive(Clone, Copy)]
pub(super) struct Place {
    name: u32,
    hash: u32,
    number: Link,
    address: Link,
}

/// What an [owner leaving](Records::remove) left behind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Remains {
    pub(super) of_number: bool,
    pub(super) of_address: bool,
}

/// All records.
#[derive(Debug)]
pub(super) struct Records<'s> {
    records: &'s mut [PortRecord],
    numbers: Chains<'s, NUMBER>,
    addresses: Chains<'s, ADDRESS>,
    free_numbers: Free<NUMBER>,
    free_addresses: Free<ADDRESS>,
    secret: Key,
}

impl<'s> Records<'s> {
    /// Over empty records; half of the heads for either kind. `None` with fewer than two heads.
    pub(super) fn new(
        records: &'s mut [PortRecord],
        heads: &'s mut [Link],
        secret: Key,
    ) -> Option<Self> {
        let (numbers, addresses) = heads.split_at_mut(heads.len() / 2);
        Some(Records {
            records,
            numbers: Chains::new(numbers)?,
            addresses: Chains::new(addresses)?,
            free_numbers: Free::default(),
            free_addresses: Free::default(),
            secret,
        })
    }

    /// Looks a number and an address of it up.
    pub(super) fn find(&self, space: NumberSpace, port: u16, local: &ScopedIp) -> Place {
        let mut place = self.find_number(space, port);
        self.find_address(&mut place, local);
        place
    }

    /// Looks a number up, for a start.
    pub(super) fn find_number(&self, space: NumberSpace, port: u16) -> Place {
        let name = (space as u32) << 16 | port as u32;
        // Numbers and addresses are the host's own: a mix under a secret spreads them well enough.
        let [first, last] = self.secret.words();
        let hash = mix(mix(first, name), last);
        let number = self.numbers.find(self.records, hash, |record| record.number.name == name);
        Place { name, hash, number: number.into(), address: Link::NONE }
    }

    /// Looks an address of a number up, too.
    pub(super) fn find_address(&self, place: &mut Place, local: &ScopedIp) {
        // Without a number there is no address either.
        if place.is_taken() {
            let name = place.name;
            let wanted = |record: &PortRecord| {
                record.address.name & !RESERVED == name && record.address.local == *local
            };
            let hash = place.hash_with(local);
            place.address = self.addresses.find(self.records, hash, wanted).into();
        }
    }

    /// Which kinds of owners the number has. `but` is left out if it is the only one of its kind.
    pub(super) fn on_number(&self, place: &Place, but: Option<Kind>) -> u32 {
        let Some(i) = place.number.get() else { return 0 };
        let Number { present, owners, .. } = &self.records[i].number;
        match but {
            Some(kind) if owners[kind.index()] == 1 => present & !(1 << kind.index()),
            _ => *present,
        }
    }

    /// Which kinds of owners the address has; likewise.
    pub(super) fn on_address(&self, place: &Place, but: Option<Kind>) -> u32 {
        let Some(i) = place.address.get() else { return 0 };
        let mut present = 0;
        for (kind, &owners) in self.records[i].address.owners.iter().enumerate() {
            let itself = but.is_some_and(|but| but.on_address() == kind) as u32;
            present |= ((owners > itself) as u32) << kind;
        }
        present
    }

    /// Whether an owner can be added here.
    pub(super) fn has_room(&self, place: &Place) -> bool {
        let len = self.records.len();
        (place.is_taken() || self.free_numbers.any(len))
            && (place.is_shared() || self.free_addresses.any(len))
    }

    /// Adds an owner, for whom the address was reserved or was not. False, and nothing changed, if a record
    /// is missing.
    pub(super) fn add(
        &mut self,
        place: &Place,
        local: &ScopedIp,
        kind: Kind,
        reserved: bool,
    ) -> bool {
        if !self.has_room(place) {
            return false;
        }
        let number = match place.number.get() {
            Some(number) => number,
            None => {
                let Some(i) = self.free_numbers.claim(self.records) else { return false };
                self.records[i].number.name = place.name;
                self.numbers.insert(self.records, place.hash, i);
                i
            }
        };
        let address = match place.address.get() {
            Some(address) => address,
            None => {
                let Some(i) = self.free_addresses.claim(self.records) else { return false };
                let address = &mut self.records[i].address;
                (address.name, address.local) = (place.name, *local);
                self.addresses.insert(self.records, place.hash_with(local), i);
                i
            }
        };
        self.records[number].number.add(kind);
        self.records[address].address.add(kind);
        self.records[address].address.name |= (reserved as u32) << RESERVED.trailing_zeros();
        true
    }

    /// Takes an owner of this kind away. `None`, and nothing changed, if there is no such one.
    pub(super) fn remove(
        &mut self,
        place: &Place,
        local: &ScopedIp,
        kind: Kind,
    ) -> Option<Remains> {
        let (number, address) = (place.number.get()?, place.address.get()?);
        if self.records[number].number.present & 1 << kind.index() == 0
            || self.records[address].address.owners[kind.on_address()] == 0
        {
            return None;
        }
        let left = &mut self.records[address].address;
        left.owners[kind.on_address()] -= 1;
        let of_address = left.owners != [0; ADDRESS_KINDS];
        if !of_address {
            self.addresses.remove(self.records, place.hash_with(local), address);
            self.free_addresses.release(self.records, address);
        }
        let left = &mut self.records[number].number;
        left.remove(kind);
        let of_number = left.present != 0;
        if !of_number {
            self.numbers.remove(self.records, place.hash, number);
            self.free_numbers.release(self.records, number);
        }
        Some(Remains { of_number, of_address })
    }

    /// One owner becomes another kind, on the same address.
    pub(super) fn change(&mut self, place: &Place, from: Kind, to: Kind) {
        let (Some(number), Some(address)) = (place.number.get(), place.address.get()) else {
            return;
        };
        self.records[number].number.remove(from);
        self.records[number].number.add(to);
        self.records[address].address.owners[from.on_address()] -= 1;
        self.records[address].address.add(to);
    }

    /// Whether an owner of the address had it reserved, since it was last without owners.
    pub(super) fn is_reserved(&self, place: &Place) -> bool {
        place.address.get().is_some_and(|i| self.records[i].address.name & RESERVED != 0)
    }

    /// Whether the address has one owner.
    pub(super) fn is_last(&self, place: &Place) -> bool {
        place.address.get().is_some_and(|i| self.records[i].address.owners.iter().sum::<u32>() == 1)
    }

    /// Whether nothing is recorded: a walk, for tests.
    pub(super) fn is_clean(&self) -> bool {
        self.free_numbers.live == 0
            && self.free_addresses.live == 0
            && self.numbers.is_empty()
            && self.addresses.is_empty()
            && self.records.iter().all(|record| {
                record.number.present == 0
                    && record.number.owners == [0; KINDS]
                    && record.address.owners == [0; ADDRESS_KINDS]
            })
    }
}

#[cfg(feature = "testing")]
impl Records<'_> {
    /// Every owner is counted once on its number and once on its address, and nobody else is. A walk
    /// that panics.
    pub(super) fn audit(&self, owners: &[(NumberSpace, u16, ScopedIp, Kind)]) {
        use std::collections::BTreeMap;
        let mut numbers: BTreeMap<u32, [u32; KINDS]> = BTreeMap::new();
        let mut addresses: BTreeMap<_, [u32; ADDRESS_KINDS]> = BTreeMap::new();
        for &(space, port, local, kind) in owners {
            let name = (space as u32) << 16 | u32::from(port);
            numbers.entry(name).or_default()[kind.index()] += 1;
            addresses.entry((name, local.gid, local.scope)).or_default()[kind.on_address()] += 1;
        }
        let place = |name: u32, local: &ScopedIp| {
            let space = NumberSpace::ALL[(name >> 16) as usize];
            self.find(space, name as u16, local)
        };
        let (mut used_numbers, mut used_addresses) = (Vec::new(), Vec::new());
        for (i, PortRecord { number, address }) in self.records.iter().enumerate() {
            if number.present != 0 || number.owners != [0; KINDS] {
                let present = (0..KINDS).filter(|&kind| number.owners[kind] > 0);
                let present = present.fold(0, |kinds, kind| kinds | 1 << kind);
                assert_eq!(number.present, present, "port record {i} does not know its kinds");
                let owners = numbers.remove(&number.name);
                assert_eq!(owners, Some(number.owners), "owners of port record {i}");
                used_numbers.push(i);
            }
            if address.owners != [0; ADDRESS_KINDS] {
                let name = address.name & !RESERVED;
                let owners = addresses.remove(&(name, address.local.gid, address.local.scope));
                assert_eq!(owners, Some(address.owners), "owners of an address, port record {i}");
                used_addresses.push(i);
            }
        }
        assert!(numbers.is_empty() && addresses.is_empty(), "an owner is in no port record");
        self.numbers.audit(self.records, "the index of port numbers", |i| {
            let number = &self.records[*used_numbers.iter().find(|&&used| used == i)?].number;
            Some(place(number.name, &ScopedIp::default()).hash)
        });
        self.addresses.audit(self.records, "the index of addresses of port numbers", |i| {
            let address = &self.records[*used_addresses.iter().find(|&&used| used == i)?].address;
            Some(place(address.name & !RESERVED, &address.local).hash_with(&address.local))
        });
        self.free_numbers.audit(self.records, used_numbers);
        self.free_addresses.audit(self.records, used_addresses);
    }
}

impl Place {
    /// Whether the number has an owner.
    pub(super) const fn is_taken(&self) -> bool {
        !self.number.is_none()
    }

    /// Whether it has one on the address that was asked for.
    pub(super) const fn is_shared(&self) -> bool {
        !self.address.is_none()
    }

    fn hash_with(&self, local: &ScopedIp) -> u32 {
        let words = local.gid.0.as_chunks::<4>().0;
        words
            .iter()
            .fold(self.hash ^ local.scope, |hash, word| mix(hash, u32::from_le_bytes(*word)))
    }
}

impl Number {
    fn add(&mut self, kind: Kind) {
        self.owners[kind.index()] += 1;
        self.present |= 1 << kind.index();
    }

    fn remove(&mut self, kind: Kind) {
        let owners = &mut self.owners[kind.index()];
        *owners -= 1;
        if *owners == 0 {
            self.present &= !(1 << kind.index());
        }
    }
}

impl Address {
    fn add(&mut self, kind: Kind) {
        self.owners[kind.on_address()] += 1;
    }
}

const fn mix(hash: u32, word: u32) -> u32 {
    let product = (hash ^ word).wrapping_mul(0x9e37_79b1);
    product ^ product >> 15
}

/// The unused halves of one kind: those given back, linked, then those never used.
#[derive(Debug, Default)]
struct Free<const KIND: u8> {
    last: Link,
    fresh: u32,
    live: u32,
}

impl<const KIND: u8> Free<KIND> {
    fn any(&self, len: usize) -> bool {
        (self.live as usize) < len
    }

    fn claim<T: Chained<KIND>>(&mut self, records: &mut [T]) -> Option<usize> {
        let index = match self.last.get() {
            Some(index) => {
                self.last = records[index].chain();
                index
            }
            None if (self.fresh as usize) < records.len() => {
                self.fresh += 1;
                self.fresh as usize - 1
            }
            None => return None,
        };
        self.live += 1;
        Some(index)
    }

    fn release<T: Chained<KIND>>(&mut self, records: &mut [T], index: usize) {
        records[index].set_chain(self.last);
        self.last = Link::to(index);
        self.live -= 1;
    }
}

#[cfg(feature = "testing")]
impl<const KIND: u8> Free<KIND> {
    /// Each half is used, or free once, or was never used.
    fn audit<T: Chained<KIND>>(&self, records: &[T], used: Vec<usize>) {
        assert_eq!(used.len(), self.live as usize, "port records in use");
        let (mut free, mut at) = (Vec::new(), self.last);
        while let Some(index) = at.get() {
            let fresh = index >= self.fresh as usize;
            assert!(!fresh && !used.contains(&index), "port record {index} is free and is not");
            assert!(!free.contains(&index), "port record {index} is free twice");
            free.push(index);
            at = records[index].chain();
        }
        assert_eq!(free.len() + used.len(), self.fresh as usize, "a port record is lost");
    }
}
