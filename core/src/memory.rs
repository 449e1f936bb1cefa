//! An engine's memory as vectors, for programs that choose sizes at run time. Feature `alloc`; the
//! engine itself never allocates.

use crate::conn::{ConnSlot, Reply};
use crate::gids::GidEntry;
use crate::id::IdSlot;
use crate::port::{PortRecord, SPACES, map_words};
use crate::slots::{DeadlineEntry, Link};
use crate::{Cm, Config, Parts, SetupError};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// How much of everything.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Identifiers.
    pub ids: usize,
    /// Connections.
    pub conns: usize,
    /// Answers to strangers.
    pub replies: usize,
    /// Port records.
    pub ports: usize,
    /// Local addresses.
    pub gids: usize,
    /// Numbers in each port map.
    pub map: usize,
}

impl Capacity {
    /// Room for `n` connections, with a listener or two, and the default port range.
    pub const fn of(n: usize) -> Capacity {
        Capacity { ids: n + 4, conns: n, replies: 16, ports: 2 * n + 8, gids: 64, map: 28_232 }
    }
}

/// The vectors.
pub struct Memory {
    ids: Vec<IdSlot>,
    listeners: Vec<Link>,
    tuples: Vec<Link>,
    conns: Vec<ConnSlot>,
    deadlines: Vec<DeadlineEntry>,
    by_peer_id: Vec<Link>,
    by_peer_qpn: Vec<Link>,
    by_own_qpn: Vec<Link>,
    replies: Vec<Reply>,
    gids: Vec<GidEntry>,
    ports: Vec<PortRecord>,
    port_heads: Vec<Link>,
    maps: Vec<usize>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("ids", &self.ids.len())
            .field("conns", &self.conns.len())
            .finish_non_exhaustive()
    }
}

impl Memory {
    /// Empty memory of that size.
    pub fn new(capacity: Capacity) -> Memory {
        let Capacity { ids, conns, replies, ports, gids, map } = capacity;
        Memory {
            ids: vec![IdSlot::EMPTY; ids],
            listeners: vec![Link::NONE; ids],
            tuples: vec![Link::NONE; ids],
            conns: vec![ConnSlot::EMPTY; conns],
            deadlines: vec![DeadlineEntry::EMPTY; conns],
            by_peer_id: vec![Link::NONE; conns],
            by_peer_qpn: vec![Link::NONE; conns],
            by_own_qpn: vec![Link::NONE; conns],
            replies: vec![Reply::EMPTY; replies],
            gids: vec![GidEntry::EMPTY; gids],
            ports: vec![PortRecord::EMPTY; ports],
            port_heads: vec![Link::NONE; ports],
            maps: vec![0; SPACES * map_words(map)],
        }
    }

    /// An engine in this memory.
    ///
    /// # Errors
    /// As [`Cm::new`].
    pub fn engine(&mut self, config: Config) -> Result<Cm<'_>, SetupError> {
        let parts = Parts {
            ids: &mut self.ids,
            listeners: &mut self.listeners,
            tuples: &mut self.tuples,
            conns: &mut self.conns,
            deadlines: &mut self.deadlines,
            by_peer_id: &mut self.by_peer_id,
            by_peer_qpn: &mut self.by_peer_qpn,
            by_own_qpn: &mut self.by_own_qpn,
            replies: &mut self.replies,
            gids: &mut self.gids,
            ports: &mut self.ports,
            port_heads: &mut self.port_heads,
            maps: &mut self.maps,
        };
        Cm::new(parts, config)
    }
}
