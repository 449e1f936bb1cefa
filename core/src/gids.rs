//! The local ports: which GIDs are ours, and with which CA GUID each speaks.

use crate::addr::{Gid, ScopedIp};
use core::cmp::Ordering;

/// Something happened to a port of ours: for `Cm::handle_port_event`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PortEvent {
    /// A local address (GID) can be used. Known ones are updated.
    GidAdded {
        /// The address.
        address: ScopedIp,
        /// The CA GUID to speak with from there. Peers tell connections of one queue pair number
        /// apart by it: it must be stable over restarts, and differ between programs that run at the
        /// same time.
        ca_guid: u64,
    },
    /// A local address is gone. Connections over it are left to their timers.
    GidRemoved {
        /// The address.
        address: ScopedIp,
    },
}

/// Memory for one local address.
#[derive(Clone, Copy, Debug)]
pub struct GidEntry {
    address: ScopedIp,
    ca_guid: u64,
    used: bool,
    /// Which entry is the n-th in the order of addresses; n is this one's place in the table.
    nth: u16,
}

impl GidEntry {
    /// An unused entry.
    pub const EMPTY: GidEntry = GidEntry {
        address: ScopedIp { gid: Gid::ZERO, scope: 0 },
        ca_guid: 0,
        used: false,
        nth: 0,
    };
}

/// The table of local addresses. An entry stays where it is, for connections that name it; those in
/// use are found by bisection.
#[derive(Debug)]
pub(crate) struct Gids<'s> {
    entries: &'s mut [GidEntry],
    /// How many are in use.
    used: usize,
}

impl<'s> Gids<'s> {
    pub(crate) fn new(entries: &'s mut [GidEntry]) -> Gids<'s> {
        Gids { entries, used: 0 }
    }

    /// False if there is no room for another address.
    pub(crate) fn apply(&mut self, event: PortEvent) -> bool {
        match event {
            PortEvent::GidAdded { address, ca_guid } => {
                let address = ScopedIp::new(address.gid, address.scope);
                self.remove(address);
                let Some(index) = self.place_for(address) else { return false };
                self.add(index, address, ca_guid);
            }
            // The GUID stays until another address takes the entry: connections that began with it go
            // on with it.
            PortEvent::GidRemoved { address } => {
                self.remove(ScopedIp::new(address.gid, address.scope));
            }
        }
        true
    }

    fn add(&mut self, index: u16, address: ScopedIp, ca_guid: u64) {
        let Err(n) = self.search(address) else { return };
        for later in (n..self.used).rev() {
            self.entries[later + 1].nth = self.entries[later].nth;
        }
        self.entries[n].nth = index;
        self.used += 1;
        let entry = &mut self.entries[usize::from(index)];
        (entry.address, entry.ca_guid, entry.used) = (address, ca_guid, true);
    }

    fn remove(&mut self, address: ScopedIp) {
        let Ok(n) = self.search(address) else { return };
        self.entries[usize::from(self.entries[n].nth)].used = false;
        self.used -= 1;
        for later in n..self.used {
            self.entries[later].nth = self.entries[later + 1].nth;
        }
    }

    /// Where an address belongs: the entry it has or had, else one never used, else any that is free.
    fn place_for(&self, address: ScopedIp) -> Option<u16> {
        let first = |wanted: &dyn Fn(&GidEntry) -> bool| self.entries.iter().position(wanted);
        let place = first(&|entry| entry.address == address)
            .or_else(|| first(&|entry| entry.address.gid == Gid::ZERO))
            .or_else(|| first(&|entry| !entry.used))?;
        u16::try_from(place).ok()
    }

    /// The entry of an address.
    pub(crate) fn find(&self, address: ScopedIp) -> Option<u16> {
        self.search(address).ok().map(|n| self.entries[n].nth)
    }

    /// Which in the order of addresses this one is, or would be.
    fn search(&self, address: ScopedIp) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.used);
        while low < high {
            let middle = (low + high) / 2;
            let found = self.entries[usize::from(self.entries[middle].nth)].address;
            match found.gid.cmp(&address.gid).then(found.scope.cmp(&address.scope)) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    /// A GID at which we can be reached, for a REJ 12: where the packet came, else any.
    pub(crate) fn hint(&self, arrived: ScopedIp) -> Gid {
        let any = self.entries.first().filter(|_| self.used > 0).map(|entry| entry.nth);
        let index = self.find(arrived).or(any);
        index.map_or(Gid::ZERO, |index| self.entries[usize::from(index)].address.gid)
    }

    /// The CA GUID of an entry.
    pub(crate) fn guid(&self, index: u16) -> u64 {
        self.entries.get(usize::from(index)).map_or(0, |entry| entry.ca_guid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{Key, Rng};
    use std::collections::BTreeMap;

    #[test]
    fn addresses_are_found_as_a_map_finds_them() {
        for seed in 0..20 {
            let mut rng = Rng::new(Key::new(seed, 5));
            let mut memory = [GidEntry::EMPTY; 6];
            let mut gids = Gids::new(&mut memory);
            let mut model: BTreeMap<(u8, u32), u64> = BTreeMap::new();
            for ca_guid in 1..2_000 {
                // More addresses than entries, some of them link-local with a scope.
                let (last, scope) = (rng.below(8) as u8, rng.below(2));
                let mut octets = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
                octets[0] = if scope == 0 { 0x20 } else { 0xfe };
                let address = ScopedIp { gid: Gid(octets), scope };
                if rng.below(2) == 0 {
                    assert!(gids.apply(PortEvent::GidRemoved { address }));
                    model.remove(&(last, scope));
                } else {
                    let room = model.len() < 6 || model.contains_key(&(last, scope));
                    assert_eq!(gids.apply(PortEvent::GidAdded { address, ca_guid }), room);
                    if room {
                        model.insert((last, scope), ca_guid);
                    }
                }
                let index = gids.find(address);
                assert_eq!(index.map(|i| gids.guid(i)), model.get(&(last, scope)).copied());
                assert_eq!(gids.used, model.len());
            }
        }
    }
}
