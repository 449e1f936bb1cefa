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
use core::fmt;

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

impl<
    const IDS: usize,
    const CONNS: usize,
    const REPLIES: usize,
    const PORTS: usize,
    const GIDS: usize,
    const MAP_WORDS: usize,
> fmt::Debug for Storage<IDS, CONNS, REPLIES, PORTS, GIDS, MAP_WORDS>
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Storage").field("ids", &IDS).field("conns", &CONNS).finish_non_exhaustive()
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

impl fmt::Debug for Parts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parts")
            .field("ids", &self.ids.len())
            .field("conns", &self.conns.len())
            .finish_non_exhaustive()
    }
}

impl Parts<'_> {
    /// Forgets what an engine before may have left.
    pub(crate) fn clear(&mut self) {
        self.ids.fill(IdSlot::EMPTY);
        self.listeners.fill(Link::NONE);
        self.tuples.fill(Link::NONE);
        self.conns.fill(ConnSlot::EMPTY);
        self.deadlines.fill(DeadlineEntry::EMPTY);
        self.by_peer_id.fill(Link::NONE);
        self.by_peer_qpn.fill(Link::NONE);
        self.by_own_qpn.fill(Link::NONE);
        self.replies.fill(Reply::EMPTY);
        self.gids.fill(GidEntry::EMPTY);
        self.ports.fill(PortRecord::EMPTY);
        self.port_heads.fill(Link::NONE);
        self.maps.fill(0);
    }

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

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use crate::port::map_words;
    use core::fmt::Write;
    use core::mem::size_of;

    /// What one connection takes: its identifier, its slot, its deadline, and a head in each index
    /// (`by_peer_id`, `by_peer_qpn`, `by_own_qpn`, `listeners`, `tuples`).
    const PER_CONNECTION: usize = size_of::<IdSlot>()
        + size_of::<ConnSlot>()
        + size_of::<DeadlineEntry>()
        + 5 * size_of::<Link>();

    type Firmware = Storage<16, 16, 8, 32, 2, { map_words(1024) }>;
    type Server = Storage<1088, 1024, 64, 2048, 8, { map_words(28_232) }>;
    type Host = Storage<65_792, 65_536, 1024, 65_536, 64, { map_words(28_232) }>;

    #[test]
    fn the_ram_bill() {
        let parts = [
            ("identifier", size_of::<IdSlot>(), 100),
            ("connection", size_of::<ConnSlot>(), 384),
            ("deadline", size_of::<DeadlineEntry>(), 8),
            ("head of an index", size_of::<Link>(), 4),
            ("connection, all told", PER_CONNECTION, 512),
            ("answer to a stranger", size_of::<Reply>(), 88),
            ("port record", size_of::<PortRecord>(), 152),
            ("local address", size_of::<GidEntry>(), 32),
        ];
        let engines = [
            ("firmware", "16 IDs, 16 connections, 1,024 ports", size_of::<Firmware>(), 14_496),
            ("server", "1,088 IDs, 1,024 connections, 28,232 ports", size_of::<Server>(), 870_944),
            ("host", "65,792 IDs, 65,536 connections, 28,232 ports", size_of::<Host>(), 43_912_224),
        ];
        let mut text = String::from(
            "# The RAM bill\n\nMade by `the_ram_bill` in `core/src/storage.rs`, for targets of 64 \
             bits; on one of 32 no figure is larger.\n\n| for each | octets |\n|---|---|\n",
        );
        for (what, size, bill) in parts {
            assert_eq!(size, bill, "{what}");
            let _ = writeln!(text, "| {what} | {size} |");
        }
        text += "\n| `Storage` | what for | octets |\n|---|---|---|\n";
        for (name, what, size, bill) in engines {
            assert_eq!(size, bill, "{name}");
            let _ = writeln!(text, "| {name} | {what} | {size} |");
        }
        text += "\n`Cm` itself, which borrows that, takes less than 1,280.\n";
        assert!(size_of::<crate::Cm<'_>>() < 1280);
        assert!(PER_CONNECTION <= 512 && size_of::<Firmware>() <= 16 << 10);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/ram.md");
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &text).expect("docs/ can be written");
        }
        let there = std::fs::read_to_string(path).unwrap_or_default();
        assert!(there == text, "docs/ram.md is out of date: run with UPDATE=1");
    }
}
