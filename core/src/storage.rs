//! Where an engine lives: memory brought by the caller, sized once, never grown.
//!
//! [`Storage`] is for firmware: a `static` of fixed capacities, all zero bits when new, so that it
//! lands in `.bss`. [`Parts`] is what the engine really takes: borrowed slices, which a program may
//! cut out of vectors and a C caller out of any zeroed memory.

use crate::conn::{ConnSlot, Reply};
use crate::gids::GidEntry;
use crate::id::IdSlot;
use crate::port::PortRecord;
use crate::slots::{DeadlineEntry, Link};

/// Memory for an engine of fixed size.
///
/// | capacity | counts |
/// |---|---|
/// | `IDS` | identifiers, listeners included |
/// | `CONNS` | connections: one from `resolve_addr` or a REQ until it is destroyed |
/// | `REPLIES` | answers to strangers that wait to be sent |
/// | `PORTS` | port records: two for each port and local address in use |
/// | `GIDS` | local addresses |
/// | `MAP_WORDS` | machine words of each port space's map: [`map_words`](crate::port::map_words) of how many ports "any free port" may choose from |
///
/// ```
/// use nanocm_core::{Cm, Config, Storage, port::map_words};
///
/// let mut storage = Storage::<16, 16, 8, 32, 2, { map_words(1024) }>::new();
/// let mut config = Config::new(0x5eed);
/// config.port_range = (49152, 50175);
/// let cm = Cm::new(storage.parts(), config).unwrap();
/// ```
pub struct Storage<
    const IDS: usize,
    const CONNS: usize,
    const REPLIES: usize,
    const PORTS: usize,
    const GIDS: usize,
    const MAP_WORDS: usize,
> {
    ids: [IdSlot; IDS],
    listeners: [Link; IDS],
    tuples: [Link; IDS],
    conns: [ConnSlot; CONNS],
    deadlines: [DeadlineEntry; CONNS],
    by_peer_id: [Link; CONNS],
    by_peer_qpn: [Link; CONNS],
    by_own_qpn: [Link; CONNS],
    replies: [Reply; REPLIES],
    gids: [GidEntry; GIDS],
    ports: [PortRecord; PORTS],
    port_heads: [Link; PORTS],
    maps: [[usize; MAP_WORDS]; crate::port::SPACES],
}

impl<
    const IDS: usize,
    const CONNS: usize,
    const REPLIES: usize,
    const PORTS: usize,
    const GIDS: usize,
    const MAP_WORDS: usize,
> Storage<IDS, CONNS, REPLIES, PORTS, GIDS, MAP_WORDS>
{
    /// Empty memory: all zero bits. Capacities that cannot work do not compile.
    pub const fn new() -> Self {
        const {
            assert!(IDS > 0 && CONNS > 0 && REPLIES > 0 && PORTS > 1 && GIDS > 0 && MAP_WORDS > 0);
            assert!(CONNS < 1 << 23, "communication IDs need at least one bit of generation");
            assert!(GIDS < 1 << 16);
        }
        Storage {
            ids: [IdSlot::EMPTY; IDS],
            listeners: [Link::NONE; IDS],
            tuples: [Link::NONE; IDS],
            conns: [ConnSlot::EMPTY; CONNS],
            deadlines: [DeadlineEntry::EMPTY; CONNS],
            by_peer_id: [Link::NONE; CONNS],
            by_peer_qpn: [Link::NONE; CONNS],
            by_own_qpn: [Link::NONE; CONNS],
            replies: [Reply::EMPTY; REPLIES],
            gids: [GidEntry::EMPTY; GIDS],
            ports: [PortRecord::EMPTY; PORTS],
            port_heads: [Link::NONE; PORTS],
            maps: [[0; MAP_WORDS]; crate::port::SPACES],
        }
    }

    /// The memory, lent to one engine.
    pub const fn parts(&mut self) -> Parts<'_> {
        Parts {
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
            maps: self.maps.as_flattened_mut(),
        }
    }
}

impl<
    const IDS: usize,
    const CONNS: usize,
    const REPLIES: usize,
    const PORTS: usize,
    const GIDS: usize,
    const MAP_WORDS: usize,
> Default for Storage<IDS, CONNS, REPLIES, PORTS, GIDS, MAP_WORDS>
{
    fn default() -> Self {
        Self::new()
    }
}

/// Borrowed memory for an engine: empty elements (`EMPTY`, all zero bits), at least one in each
/// slice. [`Cm::new`](crate::Cm::new) checks what the comments ask for.
pub struct Parts<'s> {
    /// Identifiers, listeners included.
    pub ids: &'s mut [IdSlot],
    /// Heads of the listeners' index; best one per identifier.
    pub listeners: &'s mut [Link],
    /// Heads of the 4-tuple index; best one per identifier.
    pub tuples: &'s mut [Link],
    /// Connections.
    pub conns: &'s mut [ConnSlot],
    /// One per connection.
    pub deadlines: &'s mut [DeadlineEntry],
    /// Heads of the index by the peer's communication ID; best one per connection.
    pub by_peer_id: &'s mut [Link],
    /// Heads of the index by the peer's queue pair; best one per connection.
    pub by_peer_qpn: &'s mut [Link],
    /// Heads of the index by our queue pair; best one per connection.
    pub by_own_qpn: &'s mut [Link],
    /// Answers to strangers.
    pub replies: &'s mut [Reply],
    /// Local addresses.
    pub gids: &'s mut [GidEntry],
    /// Port records.
    pub ports: &'s mut [PortRecord],
    /// Heads of the port records' two indexes: at least two, best one per record.
    pub port_heads: &'s mut [Link],
    /// Port maps: [`SPACES`](crate::port::SPACES) times [`map_words`](crate::port::map_words) of the
    /// range's length.
    pub maps: &'s mut [usize],
}

impl Parts<'_> {
    /// Whether something has no memory at all.
    pub(crate) fn has_gap(&self) -> bool {
        let lens = [
            self.ids.len(),
            self.listeners.len(),
            self.tuples.len(),
            self.conns.len(),
            self.by_peer_id.len(),
            self.by_peer_qpn.len(),
            self.by_own_qpn.len(),
            self.replies.len(),
            self.gids.len(),
            self.ports.len(),
            self.port_heads.len() / 2,
        ];
        lens.contains(&0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::mem::size_of;

    #[test]
    fn the_ram_bill() {
        println!(
            "id {} conn {} reply {} gid {} port {}",
            size_of::<IdSlot>(),
            size_of::<ConnSlot>(),
            size_of::<Reply>(),
            size_of::<GidEntry>(),
            size_of::<PortRecord>()
        );
        println!(
            "16: {}",
            size_of::<Storage<16, 16, 8, 32, 2, { crate::port::map_words(1024) }>>()
        );
    }
}
