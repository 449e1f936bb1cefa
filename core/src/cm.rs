//! [`Cm`]: the engine. Construction, what goes in (`handle_*`), what comes out (`poll_*`). Dispatch
//! only: the protocol is in `conn/`, the identifiers and their operations are in `id/`.

use crate::addr::{Path, PortSpace};
use crate::config::Config;
use crate::conn::{ConnParts, ConnState, Conns, Reply};
use crate::error::OpError;
use crate::event::{Event, PeerParam};
use crate::gids::{Gids, PortEvent};
use crate::handle::{Id, SendToken};
use crate::hash::Key;
use crate::id::{Ids, State, Sweep};
use crate::port::{PortConfig, PortParts, Ports};
use crate::stats::{Counters, Disposition, IgnoreReason, bump};
use crate::storage::Parts;
use crate::time::Instant;
use crate::wire::roce::FrameFault;
use crate::wire::{Mad, MadError, Message, class_port_info};
use core::fmt;
use core::net::SocketAddr;

/// A connection manager. The crate's front page has the contract: four kinds of method, and how to
/// drive them. Its `Debug` shows every slot, but no secret.
#[derive(Debug)]
pub struct Cm<'s> {
    pub(crate) ids: Ids<'s>,
    pub(crate) conns: Conns<'s>,
    pub(crate) gids: Gids<'s>,
    pub(crate) sweep: Sweep,
}

/// A datagram to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Transmit {
    /// Which way.
    pub path: Path,
    /// Its name, for `handle_send_failed`.
    pub token: SendToken,
}

/// Why an engine cannot be made of these parts and this configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SetupError {
    /// Communication IDs have no room for a generation beside this many connections and this prefix.
    TooManyConnections,
    /// The prefix has more than eight bits, or its value more bits than that.
    BadPrefix,
    /// The port range is empty or begins at 0.
    BadPortRange,
    /// A timeout code above 31, or more than 15 CM retries: their fields do not hold more.
    BadTimer,
    /// `max_path_mtu` is no code of a path MTU.
    BadMtu,
    /// A table without a single slot.
    NoStorage,
    /// Fewer deadline entries than connections.
    TooFewDeadlines,
    /// The port range has more numbers than the map.
    PortMapTooSmall,
}

impl fmt::Display for SetupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SetupError::TooManyConnections => {
                "too many connections for this comm_id_prefix: IDs would leave no generation bits"
            }
            SetupError::BadPrefix => "comm_id_prefix: at most 8 bits, and the value must fit them",
            SetupError::TooFewDeadlines => "there must be a deadline entry for each connection",
            SetupError::BadTimer => "timeout codes have 5 bits (0 to 31), CM retries 4 (0 to 15)",
            SetupError::BadMtu => "max_path_mtu: 1 (256 octets) to 5 (4096)",
            SetupError::NoStorage => "every table needs at least one slot",
            SetupError::PortMapTooSmall => "port_range: more numbers than the port map has bits",
            SetupError::BadPortRange => "port_range: low must be at least 1 and not above high",
        })
    }
}

impl core::error::Error for SetupError {}

/// Construction.
impl<'s> Cm<'s> {
    /// An engine in this memory.
    ///
    /// # Errors
    /// [`SetupError`].
    #[inline(never)] // in its caller it would take its stack for good
    pub fn new(mut parts: Parts<'s>, config: Config) -> Result<Cm<'s>, SetupError> {
        let (value, bits) = config.comm_id_prefix;
        if bits > 8 || u32::from(value) >> bits != 0 {
            return Err(SetupError::BadPrefix);
        }
        let (low, high) = config.port_range;
        if low == 0 || low > high {
            return Err(SetupError::BadPortRange);
        }
        if config.remote_cm_response_timeout > 31
            || config.local_cm_response_timeout > 31
            || config.target_ack_delay > 31
            || config.max_cm_retries > 15
        {
            return Err(SetupError::BadTimer);
        }
        if !matches!(config.max_path_mtu, 1..=5) {
            return Err(SetupError::BadMtu);
        }
        if parts.has_gap() {
            return Err(SetupError::NoStorage);
        }
        if parts.deadlines.len() < parts.conns.len() {
            return Err(SetupError::TooFewDeadlines);
        }
        parts.clear();
        let key = Key::new(config.seed as u32, (config.seed >> 32) as u32);
        let ports = Ports::new(
            PortParts {
                maps: parts.maps,
                records: parts.ports,
                record_heads: parts.port_heads,
                tuple_heads: parts.tuples,
            },
            PortConfig {
                range: config.port_range,
                loopback_is_wildcard: config.loopback_is_wildcard,
            },
            key.derive(10),
        )
        .ok_or(SetupError::PortMapTooSmall)?;
        let conn_parts = ConnParts {
            slots: parts.conns,
            deadlines: parts.deadlines,
            by_peer_id: parts.by_peer_id,
            by_peer_qpn: parts.by_peer_qpn,
            by_own_qpn: parts.by_own_qpn,
            replies: parts.replies,
        };
        Ok(Cm {
            ids: Ids::new(parts.ids, parts.listeners, ports, key.derive(11))
                .ok_or(SetupError::NoStorage)?,
            conns: Conns::new(conn_parts, &config, key.derive(12))
                .ok_or(SetupError::TooManyConnections)?,
            gids: Gids::new(parts.gids),
            sweep: Sweep::default(),
        })
    }
}

/// What goes in.
impl Cm<'_> {
    /// A datagram came from the peer at `path.remote`. Whatever it holds, it cannot do more than move
    /// the connection it belongs to. The host verifies the ICRC before.
    #[inline(never)] // in its caller it would take its stack for good
    pub fn handle_datagram(&mut self, now: Instant, path: &Path, datagram: &[u8]) -> Disposition {
        self.conns.advance(now);
        bump(&mut self.conns.counters.received);
        let message = match Message::parse(datagram) {
            Ok(message) => message,
            Err(MadError::Method(class_port_info::GET)) => return self.on_get(path, datagram),
            Err(error) => return self.conns.counters.ignore(error.into()),
        };
        let verdict = match message {
            Message::Req(req) => self.on_req(path, &req),
            Message::Mra(mra) => self.conns.on_mra(path, &mra),
            Message::Rej(rej) => self.conns.on_rej(path, &rej),
            Message::Rep(rep) => self.conns.on_rep(path, &rep),
            Message::Rtu(rtu) => self.conns.on_rtu(path, &rtu),
            Message::Dreq(dreq) => self.conns.on_dreq(path, &dreq),
            Message::Drep(drep) => self.conns.on_drep(path, &drep),
            Message::SidrReq(req) => self.on_sidr_req(path, &req),
            Message::SidrRep(rep) => self.conns.on_sidr_rep(path, &rep),
            Message::Lap(lap) => self.conns.on_lap(path, &lap),
            Message::Apr(_) => self.conns.counters.ignore(IgnoreReason::Unsupported).into(),
        };
        if let Some((id, outcome)) = verdict.outcome {
            self.settle(id, outcome);
        }
        verdict.disposition
    }

    /// What is got of the CM class is what this CM can do, and nothing else.
    #[cold]
    fn on_get(&mut self, path: &Path, datagram: &[u8]) -> Disposition {
        match class_port_info::asked(datagram) {
            Some(tid) => {
                self.conns.reply(Reply::class_port_info(path, tid));
                Disposition::Accepted
            }
            None => self.conns.counters.ignore(IgnoreReason::Method),
        }
    }

    /// A frame that the host could not unwrap, for the same ledger.
    pub fn handle_frame_fault(&mut self, fault: FrameFault) -> Disposition {
        bump(&mut self.conns.counters.received);
        self.conns.counters.ignore(fault.into())
    }

    /// A frame whose ICRC does not match, for the same ledger.
    pub fn handle_bad_icrc(&mut self) -> Disposition {
        bump(&mut self.conns.counters.received);
        self.conns.counters.ignore(IgnoreReason::Icrc)
    }

    /// Time has passed: handles at most `budget` expired deadlines. Returns whether more are due, in
    /// which case call again when convenient. After a clock jump hand in what the wire holds first.
    ///
    /// What concerns many identifiers (a device that is gone, a changed address) is told them beside
    /// that, 16 of the table's slots for each unit of the budget.
    #[must_use]
    #[inline(never)] // likewise
    pub fn handle_timeout(&mut self, now: Instant, budget: usize) -> bool {
        self.conns.advance(now);
        for _ in 0..budget {
            let visit = self.sweep.visit;
            if let Some(visit) = visit {
                visit(self);
            }
            match self.conns.next_expired() {
                None if visit.is_none() => return false,
                None | Some(None) => {}
                Some(Some((id, outcome))) => self.settle(id, outcome),
            }
        }
        self.sweep.visit.is_some() || self.conns.is_due()
    }

    /// The transport could not send a datagram (errno): its own answer, or an ICMP error later on.
    pub fn handle_send_failed(&mut self, now: Instant, token: SendToken, errno: i32) {
        self.conns.advance(now);
        let (comm_id, message) = token.parts();
        if let Some((id, outcome)) = self.conns.on_send_failed(comm_id, message, errno) {
            self.settle(id, outcome);
        }
    }

    /// Something happened to a port. False: try again later. The GID table has no room for a new
    /// address, or its place is still that of a device that is gone; or more than two addresses
    /// have changed, and not everybody has been told of them yet.
    #[must_use]
    pub fn handle_port_event(&mut self, now: Instant, event: PortEvent) -> bool {
        self.conns.advance(now);
        self.take_port_event(event)
    }
}

/// What comes out. Poll each until it yields nothing.
impl Cm<'_> {
    /// Encodes the next datagram into `mad`, and says where it goes. It counts as sent. Poll again
    /// after every `handle_*` and operation.
    #[must_use]
    pub fn poll_transmit(&mut self, now: Instant, mad: &mut Mad) -> Option<Transmit> {
        self.conns.advance(now);
        if self.ids.is_silent() && self.conns.is_silent() {
            return None;
        }
        self.transmit(mad)
    }

    /// Apart from [`poll_transmit`](Cm::poll_transmit), which mostly finds nothing to do.
    #[inline(never)]
    fn transmit(&mut self, mad: &mut Mad) -> Option<Transmit> {
        if let Some(id) = self.ids.next_orphan() {
            self.let_go(id);
        }
        let (ids, gids, hush) = (&self.ids, &self.gids, self.sweep.is_removal());
        let (path, token) =
            self.conns.emit_next(mad, hush, |id| ids.endpoints(id), |index| gids.guid(index))?;
        Some(Transmit { path, token })
    }

    /// What the application is to be told next. Poll again after every `handle_*` and operation.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.ids.is_silent() { None } else { self.tell() }
    }

    /// Apart from [`poll_event`](Cm::poll_event), likewise.
    #[inline(never)]
    fn tell(&mut self) -> Option<Event> {
        while let Some(id) = self.ids.next_orphan() {
            self.let_go(id);
        }
        self.ids.next_event(&self.conns)
    }

    /// When to call [`handle_timeout`](Cm::handle_timeout) if nothing happens before; `None`: not at
    /// all. Exact once every `poll_*` has yielded nothing; being late delays what is due.
    #[must_use]
    pub fn poll_at(&self) -> Option<Instant> {
        match self.sweep.visit {
            Some(_) => Some(self.conns.seen()),
            None => self.conns.poll_at(),
        }
    }
}

/// Getters.
impl Cm<'_> {
    /// An identifier's state.
    ///
    /// # Errors
    /// [`OpError::NoSuchId`], as for all getters.
    pub fn state(&self, id: Id) -> Result<State, OpError> {
        Ok(self.ids.state(self.live(id)?))
    }

    /// Where its connection stands.
    ///
    /// # Errors
    /// [`OpError::NoSuchId`].
    pub fn conn_state(&self, id: Id) -> Result<ConnState, OpError> {
        let conn = self.ids.conn(self.live(id)?);
        Ok(conn.map_or(ConnState::Idle, |conn| self.conns.state(conn)))
    }

    /// Its own address and port, as far as known (else the wildcard and 0).
    ///
    /// # Errors
    /// [`OpError::NoSuchId`].
    pub fn local_addr(&self, id: Id) -> Result<SocketAddr, OpError> {
        let ends = self.ids.endpoints(self.live(id)?);
        Ok(ends.local.with_port(ends.local_port))
    }

    /// The peer's address and port, as far as known (else the wildcard and 0).
    ///
    /// # Errors
    /// [`OpError::NoSuchId`].
    pub fn peer_addr(&self, id: Id) -> Result<SocketAddr, OpError> {
        let ends = self.ids.endpoints(self.live(id)?);
        Ok(ends.remote.with_port(ends.remote_port))
    }

    /// The peer's private data: that of a CONNECT_REQUEST until it is answered, of a CONNECT_RESPONSE
    /// until `establish`, of a REJECTED until `reset`. The whole field as received. Else nothing.
    pub fn private_data(&self, id: Id) -> &[u8] {
        match self.live(id).ok().and_then(|index| self.ids.conn(index)) {
            Some(conn) => self.conns.private_data(conn),
            None => &[],
        }
    }

    /// The additional information of a REJECTED, until `reset`.
    pub fn additional_info(&self, id: Id) -> &[u8] {
        match self.live(id).ok().and_then(|index| self.ids.conn(index)) {
            Some(conn) => self.conns.additional_info(conn),
            None => &[],
        }
    }

    /// What the peer offers, once a REQ or REP has come.
    ///
    /// # Errors
    /// [`OpError::NoSuchId`].
    pub fn peer_param(&self, id: Id) -> Result<PeerParam, OpError> {
        let conn = self.ids.conn(self.live(id)?);
        Ok(conn.map(|conn| self.conns.peer_param(conn)).unwrap_or_default())
    }

    /// The path of its connection, once resolved or requested.
    ///
    /// # Errors
    /// [`OpError::NoSuchId`].
    pub fn path(&self, id: Id) -> Result<Option<Path>, OpError> {
        let conn = self.ids.conn(self.live(id)?);
        Ok(conn.map(|conn| self.conns.path(conn)))
    }

    /// Whether a DISCONNECTED is still to come: true from the ESTABLISHED that `poll_event` gave until
    /// the DISCONNECTED it gives, or until `reset`. Who wants to end in order disconnects and waits
    /// as long as this is true.
    ///
    /// # Errors
    /// [`OpError::NoSuchId`].
    pub fn owes_disconnected(&self, id: Id) -> Result<bool, OpError> {
        Ok(self.ids.owes_disconnected(self.live(id)?))
    }

    /// What has been counted.
    pub fn counters(&self) -> &Counters {
        &self.conns.counters
    }

    /// How many identifiers and how many connection slots are in use. Connections of destroyed
    /// identifiers that are still saying goodbye count.
    pub fn in_use(&self) -> (usize, usize) {
        (self.ids.len(), self.conns.len())
    }

    /// How many port numbers of the range for "any free port" have owners, in the numbers of this port
    /// space.
    pub fn ports_in_use(&self, space: PortSpace) -> usize {
        self.ids.ports.count(space)
    }

    /// Whether an identifier owns this number, on whatever address: for hosts that choose numbers
    /// themselves.
    pub fn is_port_in_use(&self, space: PortSpace, port: u16) -> bool {
        self.ids.ports.is_owned(space, port)
    }

    /// Whether nothing is left of anything: no identifier, connection, port, deadline, event or
    /// answer. Walks the tables: for tests.
    pub fn is_clean(&self) -> bool {
        self.ids.is_clean() && self.conns.is_clean() && self.sweep.visit.is_none()
    }

    fn live(&self, id: Id) -> Result<usize, OpError> {
        self.ids.find(id).ok_or(OpError::NoSuchId)
    }
}
