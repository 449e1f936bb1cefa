//! [`HostPorts`]: the numbers that this connection manager holds in the host's port spaces. One
//! socket for each number and address, counted, whoever shares it.

use super::ephemeral::{Choices, Facts};
use super::fork::{self, Unforked};
use super::policy::{Ephemeral, HostPortConfig};
use super::registry::Line;
use super::shared::SharedSocket;
use super::why::{self, PortCause, PortError};
use super::{Number, Space, socket};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Holds numbers of the host's port spaces. Clones are the same one.
///
/// ```no_run
/// use nanocm::host_ports::{HostPorts, Space};
///
/// let ports = HostPorts::default();
/// // Both, or neither.
/// let both = [(Space::Tcp, "10.0.0.1:445".parse()?), (Space::Tcp, "10.0.0.1:5445".parse()?)];
/// match ports.reserve_all(&both) {
///     Ok(reserved) => println!("{} numbers are ours", reserved.len()),
///     // "TCP 10.0.0.1:445 is held by smbd (pid 123), which listens there"
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Default)]
pub struct HostPorts(Arc<Mutex<Table>>);

/// A number that is held until this is dropped, and as long as any other reservation of it lives.
#[must_use = "dropping a reservation releases it"]
pub struct Reservation {
    ports: HostPorts,
    number: Number,
    /// The number of the socket it counts on: the wildcard's, perhaps.
    on: Number,
    /// Held for one peer only; others may share it.
    shareable: bool,
    /// In a forked child nothing is held by it.
    generation: u32,
}

#[derive(Default)]
struct Table {
    /// The process whose sockets these are, see [`fork::generation`].
    generation: u32,
    config: HostPortConfig,
    /// The sockets by number: one, or a few on different addresses.
    held: BTreeMap<(Space, u16), Vec<Entry>>,
    choices: [Choices; 2],
    facts: Facts,
    /// How far the searches among shareable numbers have come.
    rotor: u16,
}

/// A socket.
struct Entry {
    number: Number,
    keeper: Keeper,
    count: u32,
    /// How many of them share it with other peers' owners.
    shareable: u32,
    _line: Line,
}

/// What holds a number.
enum Keeper {
    /// A socket of our own.
    Own(Unforked),
    /// A socket that TCP and RDMA have in common.
    Shared(Arc<SharedSocket>),
    /// A socket that is lent to us, and outlives the reservation.
    Lent,
}

impl HostPorts {
    /// With settings of one's own.
    pub fn new(config: HostPortConfig) -> HostPorts {
        let ports = HostPorts::default();
        ports.set_config(config);
        ports
    }

    /// Other settings, for what is reserved from now on.
    pub fn set_config(&self, config: HostPortConfig) {
        self.table().config = config;
    }

    /// The settings.
    pub fn config(&self) -> HostPortConfig {
        self.table().config
    }

    /// Reserves a number on a local address or a wildcard (IPv6: for IPv4, too).
    ///
    /// # Errors
    /// [`PortError`]; nothing has changed.
    pub fn reserve(&self, space: Space, address: SocketAddr) -> Result<Reservation, PortError> {
        match address.port() {
            0 => self.reserve_any(space, address),
            _ => self.reserve_number(Number::new(space, address, false), false),
        }
    }

    /// Reserves all of these, or none.
    ///
    /// # Errors
    /// [`PortError`] of the first that cannot be had; nothing has changed.
    pub fn reserve_all(
        &self,
        numbers: &[(Space, SocketAddr)],
    ) -> Result<Vec<Reservation>, PortError> {
        // What was reserved before one is refused is dropped with the iterator.
        numbers.iter().map(|&(space, address)| self.reserve(space, address)).collect()
    }

    /// What is held, and by how many.
    pub fn held(&self) -> Vec<(Number, u32)> {
        let table = self.table();
        let all = table.held.values().flatten();
        all.map(|entry| (entry.number, entry.count)).collect()
    }

    /// How many sockets hold numbers.
    pub fn sockets(&self) -> usize {
        self.table().held.values().map(Vec::len).sum()
    }

    fn reserve_any(&self, space: Space, address: SocketAddr) -> Result<Reservation, PortError> {
        let mut number = Number::new(space, address, false);
        let mut search = Search::new();
        loop {
            number.port = self.candidate(&number, &mut search)?;
            match self.reserve_candidate(number, false, &mut search)? {
                Some(reservation) => return Ok(reservation),
                None => continue,
            }
        }
    }

    /// The next number to try for "any port". It is not held, unless the host has just given it.
    pub(crate) fn candidate(&self, number: &Number, search: &mut Search) -> Result<u16, PortError> {
        let mut table = self.table();
        let wanted = table.config.range;
        table.facts.refresh(wanted);
        let Table { config, choices, facts, .. } = &mut *table;
        let choices = &mut choices[number.space as usize];
        let limit = facts.share(config.host_share);
        if facts.is_hosts() && usize::from(limit) <= choices.held_within(facts) {
            let cause = PortCause::HostShare { limit, range: facts.range };
            return Err(PortError::new(number, libc::EAGAIN, cause));
        }
        let range = facts.to_choose_from();
        if search.tries < TRIES && config.ephemeral == Ephemeral::Bitmap {
            search.tries += 1;
            let odd_only = config.host_share.is_none();
            let next = choices.next(facts, search.random(), odd_only);
            drop(table);
            return next.ok_or_else(|| search.exhausted(number, range));
        }
        if search.host_tries >= HOST_TRIES || wanted.is_some() {
            drop(table);
            return Err(search.exhausted(number, range));
        }
        // The host knows best; it takes its time.
        search.host_tries += 1;
        drop(table);
        let any = Number { port: 0, ..*number };
        let (held, port) = socket::reserve_any(&any).map_err(|error| why::refused(&any, &error))?;
        search.given = Some((held, port));
        Ok(port)
    }

    /// Reserves a candidate; `None` if the host refuses this one, and others may do.
    pub(crate) fn reserve_candidate(
        &self,
        number: Number,
        shareable: bool,
        search: &mut Search,
    ) -> Result<Option<Reservation>, PortError> {
        let given = search.given.take().filter(|(_, port)| *port == number.port);
        let mut table = self.table();
        let done = match given {
            Some((held, _)) => Ok(table.insert(number, Keeper::Own(held), shareable)),
            None => table.hold(&number, shareable),
        };
        drop(table);
        match done {
            Ok(on) => Ok(Some(self.reservation(number, on, shareable))),
            Err(Refused::Host(error)) if is_of_this_number(&error) => {
                if error.raw_os_error() == Some(libc::EADDRINUSE) {
                    search.taken = true;
                } else {
                    search.denied = Some((number, error));
                }
                Ok(None)
            }
            Err(refused) => Err(refused.explain(&number)),
        }
    }

    /// Reserves an explicit number.
    pub(crate) fn reserve_number(
        &self,
        number: Number,
        shareable: bool,
    ) -> Result<Reservation, PortError> {
        let held = self.table().hold(&number, shareable);
        // Who is in the way is looked up without the lock.
        let on = held.map_err(|refused| refused.explain(&number))?;
        Ok(self.reservation(number, on, shareable))
    }

    /// Takes note of a number that another socket holds.
    pub(crate) fn adopt(
        &self,
        number: Number,
        socket: Option<&Arc<SharedSocket>>,
    ) -> Result<Reservation, PortError> {
        let mut table = self.table();
        let entries = table.held.get_mut(&(number.space, number.port));
        let same = entries.and_then(|entries| entries.iter_mut().find(|e| e.number == number));
        if let Some(entry) = same {
            match (&entry.keeper, socket) {
                (Keeper::Shared(ours), Some(theirs)) if Arc::ptr_eq(ours, theirs) => {}
                (Keeper::Lent, None) => {}
                _ => return Err(PortError::new(&number, libc::EADDRINUSE, PortCause::RdmaId)),
            }
            entry.count += 1;
        } else {
            let keeper = socket.map_or(Keeper::Lent, |socket| Keeper::Shared(socket.clone()));
            table.insert(number, keeper, false);
        }
        drop(table);
        Ok(self.reservation(number, number, false))
    }

    /// Numbers that are held on this address for single peers, so that others can share them: a
    /// few, other ones each time.
    pub(crate) fn shareable(&self, number: &Number) -> Vec<u16> {
        const MOST: usize = 8;
        let mut table = self.table();
        let (space, from) = (number.space, table.rotor);
        let later = table.held.range((space, from)..=(space, u16::MAX));
        let earlier = table.held.range((space, 0)..(space, from));
        let suits =
            |entry: &Entry| entry.number.local == number.local && entry.shareable == entry.count;
        // Not a walk over all that is held, if few of them suit.
        let looked_at = later.chain(earlier).take(8 * MOST);
        let found = looked_at.filter(|(_, entries)| entries.iter().any(suits));
        let found: Vec<u16> = found.map(|((_, port), _)| *port).take(MOST).collect();
        table.rotor = found.last().map_or(0, |port| port.wrapping_add(1));
        found
    }

    fn reservation(&self, number: Number, on: Number, shareable: bool) -> Reservation {
        let generation = fork::generation();
        Reservation { ports: self.clone(), number, on, shareable, generation }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // Nothing in here panics between two changes.
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let generation = fork::generation();
        if table.generation != generation {
            // A forked child, which holds nothing.
            let config = table.config;
            *table = Table { generation, config, ..Table::default() };
        }
        table
    }
}

/// So many numbers are tried that look free, and then so many of the host's own choice.
const TRIES: u32 = 128;
const HOST_TRIES: u32 = 16;

/// The state of a search for any number.
pub(crate) struct Search {
    tries: u32,
    host_tries: u32,
    /// A number that the host has given, and the socket that holds it.
    given: Option<(Unforked, u16)>,
    /// The host has refused numbers because others have them.
    taken: bool,
    /// And one because it may not be had.
    denied: Option<(Number, io::Error)>,
}

impl Search {
    pub(crate) fn new() -> Search {
        Search { tries: 0, host_tries: 0, given: None, taken: false, denied: None }
    }

    /// The number is not wanted after all.
    pub(crate) fn discard(&mut self) {
        self.given = None;
    }

    /// None is left to try.
    fn exhausted(&self, number: &Number, range: (u16, u16)) -> PortError {
        match &self.denied {
            // Not for want of numbers.
            Some((denied, error)) if !self.taken => why::refused(denied, error),
            _ => PortError::new(number, libc::EAGAIN, PortCause::Exhausted { range }),
        }
    }

    /// Where to look next: near the last place a few times, then somewhere else.
    fn random(&self) -> Option<()> {
        (self.tries % 16 == 1).then_some(())
    }
}

/// Why a number is not held.
enum Refused {
    Host(io::Error),
    Share { limit: u16, range: (u16, u16) },
}

impl Refused {
    /// Looks up who is in the way.
    fn explain(self, number: &Number) -> PortError {
        match self {
            Refused::Host(error) => why::refused(number, &error),
            Refused::Share { limit, range } => {
                PortError::new(number, libc::EAGAIN, PortCause::HostShare { limit, range })
            }
        }
    }
}

/// Whether another number may do.
fn is_of_this_number(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EADDRINUSE | libc::EACCES | libc::EPERM))
}

impl Table {
    /// Counts one more on what is held, or opens a socket; which number it is.
    fn hold(&mut self, number: &Number, shareable: bool) -> Result<Number, Refused> {
        let key = (number.space, number.port);
        let entries = self.held.get_mut(&key).map_or(&mut [][..], Vec::as_mut_slice);
        if let Some(entry) = entries.iter_mut().find(|entry| entry.number.covers(number)) {
            entry.count += 1;
            entry.shareable += u32::from(shareable);
            return Ok(entry.number);
        }
        if entries.is_empty() {
            self.facts.refresh(self.config.range);
            let choices = &self.choices[number.space as usize];
            let limit = self.facts.share(self.config.host_share);
            if self.facts.is_ephemeral(number.port)
                && choices.held_within(&self.facts) >= limit.into()
            {
                return Err(Refused::Share { limit, range: self.facts.range });
            }
        }
        let entries = self.held.get(&key).map_or(&[][..], Vec::as_slice);
        let beside = entries.iter().filter(|entry| entry.number.overlaps(number));
        let beside: Vec<BorrowedFd<'_>> = beside.filter_map(|entry| entry.keeper.fd()).collect();
        let held = socket::reserve(number, &beside).map_err(Refused::Host)?;
        Ok(self.insert(*number, Keeper::Own(held), shareable))
    }

    fn insert(&mut self, number: Number, keeper: Keeper, shareable: bool) -> Number {
        let line = Line::write(&number);
        let shareable = u32::from(shareable);
        let entry = Entry { number, keeper, count: 1, shareable, _line: line };
        self.held.entry((number.space, number.port)).or_default().push(entry);
        self.choices[number.space as usize].set(&self.facts, number.port, true);
        number
    }

    fn release(&mut self, on: &Number, shareable: bool) {
        let key = (on.space, on.port);
        let Some(entries) = self.held.get_mut(&key) else { return };
        let Some(i) = entries.iter().position(|entry| entry.number == *on) else { return };
        entries[i].count -= 1;
        entries[i].shareable -= u32::from(shareable);
        if entries[i].count > 0 {
            return;
        }
        entries.swap_remove(i);
        if entries.is_empty() {
            self.held.remove(&key);
            self.choices[on.space as usize].set(&self.facts, on.port, false);
        }
    }
}

impl Keeper {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Keeper::Own(socket) => socket.get(),
            Keeper::Shared(_) | Keeper::Lent => None,
        }
    }
}

impl Reservation {
    /// What is held: the number and address asked for.
    pub fn number(&self) -> Number {
        self.number
    }

    /// Lets the socket that holds the number listen for TCP connections: nobody can come between.
    ///
    /// # Errors
    /// [`PortCause::Listening`] if it does already; [`PortCause::Wider`] if the socket is that of a
    /// wider address, where nobody asked for a TCP service; of the host.
    pub fn host_listener(&self, backlog: u32) -> Result<super::SharedTcpListener, PortError> {
        let refused = |error: io::Error| why::refused(&self.number, &error);
        let already = || PortError::new(&self.number, libc::EADDRINUSE, PortCause::Listening);
        if self.number.space != Space::Tcp {
            return Err(refused(io::Error::from_raw_os_error(libc::EOPNOTSUPP)));
        }
        if self.on != self.number {
            let cause = PortCause::Wider { on: Box::new(self.on) };
            return Err(PortError::new(&self.number, libc::EADDRINUSE, cause));
        }
        let mut table = self.ports.table();
        let entries = table.held.get_mut(&(self.on.space, self.on.port));
        let entry = entries.and_then(|entries| entries.iter_mut().find(|e| e.number == self.on));
        let Some(entry) = entry else { return Err(already()) };
        let socket = match &entry.keeper {
            Keeper::Lent => return Err(already()),
            Keeper::Shared(socket) => socket.clone(),
            Keeper::Own(_) => {
                let Keeper::Own(held) = std::mem::replace(&mut entry.keeper, Keeper::Lent) else {
                    return Err(already());
                };
                let Some(fd) = held.release() else { return Err(already()) };
                let socket = Arc::new(SharedSocket::of_reservation(fd));
                entry.keeper = Keeper::Shared(socket.clone());
                socket
            }
        };
        // Who is in the way is looked up without the lock.
        drop(table);
        match socket.listen(backlog) {
            Ok(Some(listener)) => Ok(listener),
            Ok(None) => Err(already()),
            Err(error) => Err(refused(error)),
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.generation == fork::generation() {
            self.ports.table().release(&self.on, self.shareable);
        }
    }
}

impl fmt::Debug for HostPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostPorts").field("sockets", &self.sockets()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.number.space.name(), self.number.address())
    }
}
