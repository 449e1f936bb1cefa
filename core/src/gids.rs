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
    /// A device is gone, and with it all its addresses, those too that were removed one by one
    /// before. Identifiers bound to one of them (specifically) and those whose connection runs over
    /// it are told DEVICE_REMOVAL; those whose connection stands, DISCONNECTED before. The addresses
    /// can be added again, for another device, when all have been looked at.
    DeviceRemoved {
        /// The CA GUID its addresses were added with: a device is its CA GUID.
        ca_guid: u64,
    },
    /// The link layer beneath an IP address has changed: a neighbour's or, after a fail-over, our own.
    /// Identifiers whose connection stands and has this address, on either side, are told
    /// ADDR_CHANGE.
    AddrChanged {
        /// The address, ours or a peer's.
        address: ScopedIp,
    },
}

/// Memory for one local address.
#[derive(Clone, Copy, Debug)]
pub struct GidEntry {
    address: ScopedIp,
    ca_guid: u64,
    used: bool,
    /// Its device is gone: nobody finds it, nobody gets its place, until all who name it are told.
    gone: bool,
    /// Which entry is the n-th in the order of addresses; n is this one's place in the table.
    nth: u16,
}

impl GidEntry {
    /// An unused entry.
    pub const EMPTY: GidEntry = GidEntry {
        address: ScopedIp { gid: Gid::ZERO, scope: 0 },
        ca_guid: 0,
        used: false,
        gone: false,
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

    /// False if there is no room for another address, or if it is one of a device that is gone.
    pub(crate) fn add(&mut self, address: ScopedIp, ca_guid: u64) -> bool {
        self.remove(address);
        let (Err(n), Some(index)) = (self.search(address), self.place_for(address)) else {
            return false;
        };
        let entry = &mut self.entries[usize::from(index)];
        (entry.address, entry.ca_guid) = (address, ca_guid);
        self.insert(n, index);
        true
    }

    /// Makes an entry the n-th in the order.
    fn insert(&mut self, n: usize, index: u16) {
        for later in (n..self.used).rev() {
            self.entries[later + 1].nth = self.entries[later].nth;
        }
        self.entries[n].nth = index;
        self.used += 1;
        self.entries[usize::from(index)].used = true;
    }

    /// The GUID stays until another address takes the entry: connections that began with it go on
    /// with it.
    pub(crate) fn remove(&mut self, address: ScopedIp) {
        let Ok(n) = self.search(address) else { return };
        let entry = &mut self.entries[usize::from(self.entries[n].nth)];
        if entry.gone {
            return;
        }
        entry.used = false;
        self.used -= 1;
        for later in n..self.used {
            self.entries[later].nth = self.entries[later + 1].nth;
        }
    }

    /// A device is gone with its addresses: they are in the order again, for [`is_gone`](Self::is_gone)
    /// alone. False if there are none that were not gone before.
    pub(crate) fn remove_device(&mut self, ca_guid: u64) -> bool {
        let mut any = false;
        for index in 0..self.entries.len() {
            let GidEntry { address, ca_guid: guid, .. } = self.entries[index];
            if guid == ca_guid && address.gid != Gid::ZERO && !self.entries[index].gone {
                self.entries[index].gone = true;
                any = true;
                if let Err(n) = self.search(address) {
                    self.insert(n, index as u16);
                }
            }
        }
        any
    }

    /// Nobody names an address of a device that is gone any more: its place is free.
    pub(crate) fn forget_gone(&mut self) {
        let mut kept = 0;
        for n in 0..self.used {
            let index = self.entries[n].nth;
            let entry = &mut self.entries[usize::from(index)];
            if entry.gone {
                (entry.address, entry.used, entry.gone) = (ScopedIp::default(), false, false);
            } else {
                self.entries[kept].nth = index;
                kept += 1;
            }
        }
        self.used = kept;
    }

    /// Whether an address is one of a device that is gone.
    pub(crate) fn is_gone(&self, address: ScopedIp) -> bool {
        self.search(address).is_ok_and(|n| self.has_gone(self.entries[n].nth))
    }

    /// Whether the device of this entry is gone.
    pub(crate) fn has_gone(&self, index: u16) -> bool {
        self.entries.get(usize::from(index)).is_some_and(|entry| entry.gone)
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
        let index = self.entries[self.search(address).ok()?].nth;
        (!self.has_gone(index)).then_some(index)
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

    /// The CA GUID of an entry; none once its device is gone.
    pub(crate) fn guid(&self, index: u16) -> Option<u64> {
        let entry = self.entries.get(usize::from(index))?;
        (!entry.gone).then_some(entry.ca_guid)
    }
}

#[cfg(feature = "testing")]
impl Gids<'_> {
    pub(crate) fn paint(&self, picture: &mut crate::testing::Picture) {
        for entry in self.entries.iter() {
            picture.put_all([entry.ca_guid, u64::from(entry.used), u64::from(entry.gone)]);
        }
    }

    /// The addresses in use are each found once, in order. A walk that panics.
    pub(crate) fn audit(&self) {
        let used = self.entries.iter().filter(|entry| entry.used).count();
        assert_eq!(used, self.used, "a GID table does not know how many it has");
        let in_order = |n: usize| &self.entries[usize::from(self.entries[n].nth)];
        for n in 0..self.used {
            let ScopedIp { gid, scope } = in_order(n).address;
            assert!(in_order(n).used, "GID {gid:?} is found and is not there");
            let before = n.checked_sub(1).map(|n| in_order(n).address);
            let sorted = before.is_none_or(|before| (before.gid, before.scope) < (gid, scope));
            assert!(sorted, "GID {gid:?} is not where it is looked for");
        }
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
                    gids.remove(address);
                    model.remove(&(last, scope));
                } else {
                    let room = model.len() < 6 || model.contains_key(&(last, scope));
                    assert_eq!(gids.add(address, ca_guid), room);
                    if room {
                        model.insert((last, scope), ca_guid);
                    }
                }
                let index = gids.find(address);
                assert_eq!(index.and_then(|i| gids.guid(i)), model.get(&(last, scope)).copied());
                assert_eq!(gids.used, model.len());
            }
        }
    }
}
