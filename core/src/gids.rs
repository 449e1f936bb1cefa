//! The local ports: which GIDs are ours, and with which CA GUID each speaks.

use crate::addr::{Gid, ScopedIp};

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
}

impl GidEntry {
    /// An unused entry.
    pub const EMPTY: GidEntry =
        GidEntry { address: ScopedIp { gid: Gid::ZERO, scope: 0 }, ca_guid: 0, used: false };
}

/// The table of local addresses. Lookups walk it: its size is a constant of the host, not of how
/// busy it is.
#[derive(Debug)]
pub(crate) struct Gids<'s> {
    entries: &'s mut [GidEntry],
}

impl<'s> Gids<'s> {
    pub(crate) fn new(entries: &'s mut [GidEntry]) -> Gids<'s> {
        Gids { entries }
    }

    /// False if there is no room for another address.
    pub(crate) fn apply(&mut self, event: PortEvent) -> bool {
        match event {
            PortEvent::GidAdded { address, ca_guid } => {
                let address = ScopedIp::new(address.gid, address.scope);
                let place = self.place_for(address);
                if let Some(index) = place {
                    self.entries[index] = GidEntry { address, ca_guid, used: true };
                }
                place.is_some()
            }
            PortEvent::GidRemoved { address } => {
                // The GUID stays: connections that began with it go on with it.
                if let Some(index) = self.find(ScopedIp::new(address.gid, address.scope)) {
                    self.entries[usize::from(index)].used = false;
                }
                true
            }
        }
    }

    /// Where an address belongs: the entry it has or had, else one never used, else any that is free.
    fn place_for(&self, address: ScopedIp) -> Option<usize> {
        let first = |wanted: &dyn Fn(&GidEntry) -> bool| self.entries.iter().position(wanted);
        first(&|entry| entry.address == address)
            .or_else(|| first(&|entry| entry.address.gid == Gid::ZERO))
            .or_else(|| first(&|entry| !entry.used))
    }

    /// The entry of an address.
    pub(crate) fn find(&self, address: ScopedIp) -> Option<u16> {
        self.position(|entry| entry.address == address)
    }

    /// A GID at which we can be reached, for a REJ 12: where the packet came, else any.
    pub(crate) fn hint(&self, arrived: ScopedIp) -> Gid {
        let index = self.find(arrived).or_else(|| self.position(|_| true));
        index.map_or(Gid::ZERO, |index| self.entries[usize::from(index)].address.gid)
    }

    /// The CA GUID of an entry.
    pub(crate) fn guid(&self, index: u16) -> u64 {
        self.entries.get(usize::from(index)).map_or(0, |entry| entry.ca_guid)
    }

    fn position(&self, wanted: impl Fn(&GidEntry) -> bool) -> Option<u16> {
        let index = self.entries.iter().position(|entry| entry.used && wanted(entry))?;
        u16::try_from(index).ok()
    }
}
