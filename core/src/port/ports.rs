//! [`Ports`]: the four operations on port numbers.
//!
//! Each bind first *chooses* (reads records, moves nothing but where the next search begins) and then
//! *commits*; so a refusal leaves all as it was, and the host can be asked in between.

use super::bitmap::{Bitmap, map_words};
use super::rules::{Clash, Kind, on_any_address};
use super::table::{Place, PortRecord, Records, Remains};
use super::types::{Held, NumberSpace, PortError, PortKey, Proposal, TUPLE, TupleOwner, Want};
use crate::addr::{PortSpace, ScopedIp};
use crate::hash::{Key, Rng};
use crate::slots::{Chains, Link};

/// How many sets of numbers there are, and so how many maps.
pub const SPACES: usize = NumberSpace::ALL.len();

/// How many numbers are tried in a row where sharing decides, and then how many that are spread over
/// the range, before it counts as exhausted. One costs about 150 instructions, and a refusal may not
/// cost more than four binds. If a peer has half of a range that is held in full, 99.6 % of the
/// searches succeed; the next one looks elsewhere.
const TRIES: u32 = 8;

/// The memory of [`Ports`]; all zero at first.
#[derive(Debug)]
pub struct PortParts<'s> {
    /// At least [`SPACES`] times [`map_words`] of the range's length.
    pub maps: &'s mut [usize],
    /// One per owner is always enough; fewer may be.
    pub records: &'s mut [PortRecord],
    /// At least two; best twice the records.
    pub record_heads: &'s mut [Link],
    /// At least one; best one per owner with a peer.
    pub tuple_heads: &'s mut [Link],
}

/// The settings of [`Ports`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// The numbers for "any port", both ends included. Explicit numbers may lie outside.
    pub range: (u16, u16),
    /// Whether loopback addresses overlap with all others, as the wildcard does.
    pub loopback_is_wildcard: bool,
}

/// Who owns which number of which port space.
///
/// ```
/// use nanocm_core::addr::{PortSpace, ScopedIp};
/// use nanocm_core::port::*;
/// use nanocm_core::slots::{Chained, Key, Link};
///
/// #[derive(Clone, Copy, Default)]
/// struct Id { local: ScopedIp, remote: ScopedIp, remote_port: u16, held: Held, chain: Link }
/// impl Chained<TUPLE> for Id {
///     fn chain(&self) -> Link { self.chain }
///     fn set_chain(&mut self, next: Link) { self.chain = next }
/// }
/// impl TupleOwner for Id {
///     fn tuple(&self) -> Tuple {
///         Tuple {
///             space: PortSpace::Tcp,
///             local: self.local,
///             local_port: self.held.port(),
///             remote: self.remote,
///             remote_port: self.remote_port,
///         }
///     }
///     fn held(&self) -> Held { self.held }
/// }
///
/// let parts = PortParts {
///     maps: &mut [0; SPACES * map_words(3)],
///     records: &mut [PortRecord::EMPTY; 2],
///     record_heads: &mut [Link::NONE; 4],
///     tuple_heads: &mut [Link::NONE; 2],
/// };
/// let config = PortConfig { range: (10_000, 10_002), loopback_is_wildcard: false };
/// let mut ports = Ports::new(parts, config, Key::new(0x5eed, 0x0fac)).unwrap();
///
/// let mut ids = [Id::default(); 2];
/// let local = ScopedIp::of("192.0.2.1:0".parse().unwrap());
/// let want = Want {
///     space: PortSpace::Tcp, local, port: 4420, reuse: false, af_only: true, remote: None,
/// };
/// let (held, port) = ports.bind(&want, &mut ids, 0)?;
/// (ids[0].held, ids[0].local) = (held, local);
/// assert_eq!(port, 4420);
/// assert_eq!(ports.bind(&want, &mut ids, 1), Err(PortError::InUse));
///
/// let held = std::mem::take(&mut ids[0].held);
/// let key = ports.release(held, local, &mut ids, 0);
/// assert_eq!(key, Some(PortKey { space: PortSpace::Tcp, local, port: 4420 }));
/// assert!(ports.is_clean());
/// # Ok::<(), PortError>(())
/// ```
#[derive(Debug)]
pub struct Ports<'s> {
    maps: [Bitmap<'s>; SPACES],
    records: Records<'s>,
    tuples: Chains<'s, TUPLE>,
    config: PortConfig,
    /// Hashes peers: where a search for a number towards one begins.
    peer_key: Key,
    /// How far the searches have come since (RFC 6056 §3.3.4), by a few bits of the peer's hash.
    rotors: [u16; 16],
    rng: Rng,
}

/// A bind in work: what is wanted, and what follows from that alone.
struct Ask<'w> {
    want: &'w Want,
    space: NumberSpace,
    specific: bool,
    clash: Clash,
    /// The hash of the peer; 0 without one.
    peer: u32,
}

/// A number that may be had, and the records of it.
#[derive(Clone, Copy)]
struct Choice {
    port: u16,
    place: Place,
}

impl<'s> Ports<'s> {
    /// Nothing owned. `None` if the range is empty or holds 0, if its maps don't fit, or if a number
    /// of heads is not as [`PortParts`] wants it.
    pub fn new(parts: PortParts<'s>, config: PortConfig, key: Key) -> Option<Self> {
        let (low, high) = config.range;
        if low == 0 || high < low {
            return None;
        }
        let len = (high - low) as usize + 1;
        let mut rest = parts.maps;
        let mut map = || {
            let (words, others) =
                core::mem::take(&mut rest).split_at_mut_checked(map_words(len))?;
            rest = others;
            Bitmap::new(words, low, len)
        };
        Some(Ports {
            maps: [map()?, map()?, map()?, map()?],
            records: Records::new(parts.records, parts.record_heads, key.derive(1))?,
            tuples: Chains::new(parts.tuple_heads)?,
            config,
            peer_key: key.derive(2),
            rotors: [0; 16],
            rng: Rng::new(key.derive(3)),
        })
    }

    /// Makes `owners[owner]` own a number, and says which.
    ///
    /// On success write it, with the ends given in `want`, into the owner before the next call; the
    /// owner's [`tuple`](TupleOwner::tuple) must say the same until the release. The owner must not
    /// own one already.
    ///
    /// # Errors
    ///
    /// [`InUse`](PortError::InUse) and [`TupleInUse`](PortError::TupleInUse) for explicit numbers,
    /// [`Exhausted`](PortError::Exhausted) for any, [`TableFull`](PortError::TableFull). Nothing has
    /// changed then, except where the next search for any port begins.
    pub fn bind<O: TupleOwner>(
        &mut self,
        want: &Want,
        owners: &mut [O],
        owner: usize,
    ) -> Result<(Held, u16), PortError> {
        let ask = self.ask(want);
        let choice = self.choose(&ask, owners)?;
        let held = self.commit(&ask, choice, owners, owner, false)?;
        Ok((held, choice.port))
    }

    /// Finds a number as [`bind`](Self::bind) would and applies every rule, but owns nothing: reserve
    /// it elsewhere, then call [`bind_reserved`](Self::bind_reserved).
    ///
    /// # Errors
    ///
    /// As `bind`.
    pub fn propose<O: TupleOwner>(
        &mut self,
        want: &Want,
        owners: &[O],
    ) -> Result<Proposal, PortError> {
        let ask = self.ask(want);
        let choice = self.choose(&ask, owners)?;
        let key = PortKey { space: ask.space.name(), local: want.local, port: choice.port };
        Ok(if choice.place.is_shared() { Proposal::Held(key) } else { Proposal::AskHost(key) })
    }

    /// [`bind`](Self::bind) to the number of a proposal, or to one that the host chose. The rules are
    /// applied again: others may have come in between.
    ///
    /// # Errors
    ///
    /// [`InUse`](PortError::InUse), [`TupleInUse`](PortError::TupleInUse),
    /// [`TableFull`](PortError::TableFull); nothing has changed then. Propose again.
    pub fn bind_reserved<O: TupleOwner>(
        &mut self,
        want: &Want,
        key: PortKey,
        owners: &mut [O],
        owner: usize,
    ) -> Result<Held, PortError> {
        debug_assert!(want.port == 0 || want.port == key.port);
        debug_assert!(want.local == key.local);
        if key.port == 0 {
            return Err(PortError::InUse); // it is no number, and says "owns nothing" in Held
        }
        let ask = self.ask(want);
        let choice = self.examine(&ask, key.port, owners)?;
        let choice = self.complete(&ask, choice)?;
        self.commit(&ask, choice, owners, owner, true)
    }

    /// Whether the release of this owner would return the key of a number that is reserved.
    pub fn is_last_of_reserved(&self, held: Held, local: ScopedIp) -> bool {
        let place = self.records.find(held.space(), held.port(), &local);
        held.is_some() && self.records.is_reserved(&place) && self.records.is_last(&place)
    }

    /// Makes the owner of a number a listener, which nobody can share with: REUSEADDR is off for good.
    ///
    /// # Errors
    ///
    /// [`ListenConflict`](PortError::ListenConflict) if it is on and another owner overlaps, or if the
    /// owner has a peer; nothing has changed then.
    pub fn listen(&mut self, held: &mut Held, local: ScopedIp) -> Result<(), PortError> {
        debug_assert!(held.is_some());
        if held.has_peer() {
            return Err(PortError::ListenConflict);
        }
        if !held.reuse() {
            return Ok(());
        }
        let specific = self.is_specific(&local);
        let kind = Kind::of(*held, &local, specific);
        let clash = Clash::of_listener(*held, &local, specific);
        let place = self.records.find(held.space(), held.port(), &local);
        if self.records.on_number(&place, Some(kind)) & clash.on_number != 0
            || self.records.on_address(&place, Some(kind)) & clash.on_address != 0
        {
            return Err(PortError::ListenConflict);
        }
        held.set_reuse(false);
        self.records.change(&place, kind, Kind::of(*held, &local, specific));
        Ok(())
    }

    /// Turns REUSEADDR on for an owner: who comes later and has it too may share the number. Not for a
    /// listener.
    pub fn share(&mut self, held: &mut Held, local: ScopedIp) {
        if !held.is_some() || held.reuse() {
            return;
        }
        let specific = self.is_specific(&local);
        let kind = Kind::of(*held, &local, specific);
        let place = self.records.find(held.space(), held.port(), &local);
        held.set_reuse(true);
        self.records.change(&place, kind, Kind::of(*held, &local, specific));
    }

    /// Makes `owners[owner]` own nothing. `held` and `local` are what it has had since `bind`; take
    /// `held` out of the owner, so that it is given back once.
    ///
    /// Says which key's last owner left, if so: what held it for all can go. The number is free at
    /// once.
    pub fn release<O: TupleOwner>(
        &mut self,
        held: Held,
        local: ScopedIp,
        owners: &mut [O],
        owner: usize,
    ) -> Option<PortKey> {
        if !held.is_some() {
            return None;
        }
        if held.has_peer() {
            let removed = self.tuples.remove(owners, held.chain(), owner);
            debug_assert!(removed, "owner {owner} never got {held:?}");
        }
        self.leave(held, &local)?.key(held, local)
    }

    /// Whether a number has an owner, on whatever address.
    pub fn is_owned(&self, space: PortSpace, port: u16) -> bool {
        self.records.find_number(NumberSpace::of(space), port).is_taken()
    }

    /// How many numbers of the range have owners.
    pub const fn count(&self, space: PortSpace) -> usize {
        self.maps[NumberSpace::of(space) as usize].count()
    }

    /// What these ports were set up with.
    pub const fn config(&self) -> PortConfig {
        self.config
    }

    /// Whether nothing is owned: a walk over all memory, for tests.
    pub fn is_clean(&self) -> bool {
        self.maps.iter().all(|map| map.count() == 0)
            && self.records.is_clean()
            && self.tuples.is_empty()
    }

    /// All that a refusal must leave as it was.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn state(&self) -> String {
        format!("{:?}{:?}{:?}", self.maps, self.records, self.tuples)
    }

    fn ask<'w>(&self, want: &'w Want) -> Ask<'w> {
        let space = NumberSpace::of(want.space);
        let specific = self.is_specific(&want.local);
        let peer = match &want.remote {
            Some((remote, port)) => self.hash_peer(space, remote, *port),
            None => 0,
        };
        Ask { want, space, specific, clash: Clash::of(want, specific), peer }
    }

    fn choose<O: TupleOwner>(&mut self, ask: &Ask, owners: &[O]) -> Result<Choice, PortError> {
        let choice = match (ask.want.port, &ask.want.remote) {
            (0, None) => self.choose_free(ask, owners)?,
            (0, Some(_)) => self.choose_towards(ask, owners)?,
            (port, _) => self.examine(ask, port, owners)?,
        };
        self.complete(ask, choice)
    }

    /// Looks up where the choice is to be recorded.
    fn complete(&self, ask: &Ask, mut choice: Choice) -> Result<Choice, PortError> {
        self.records.find_address(&mut choice.place, &ask.want.local);
        if self.records.has_room(&choice.place) { Ok(choice) } else { Err(PortError::TableFull) }
    }

    /// Any number that nobody has; when there is none, one that rule 3 allows.
    fn choose_free<O: TupleOwner>(&mut self, ask: &Ask, owners: &[O]) -> Result<Choice, PortError> {
        let len = self.range_len();
        let offset = self.rng.below(len);
        if let Some(choice) = self.unowned(ask.space, offset) {
            return Ok(choice);
        }
        if !ask.specific {
            return Err(PortError::Exhausted);
        }
        self.try_some(ask, owners, offset, spread(len)).0
    }

    /// Any number that nobody has with this peer, beginning where the last search for one ended; then
    /// one that nobody has at all; then, with luck, one between those that others have with the peer.
    fn choose_towards<O: TupleOwner>(
        &mut self,
        ask: &Ask,
        owners: &[O],
    ) -> Result<Choice, PortError> {
        let len = self.range_len();
        let rotor = (ask.peer >> 28) as usize;
        let start = ((u64::from(ask.peer << 4) * u64::from(len)) >> 32) as u32;
        let turned = u32::from(self.rotors[rotor]);
        let (choice, tries) = self.try_some(ask, owners, (start + turned) % len, 1);
        let turned = (turned + tries) % len;
        self.rotors[rotor] = turned as u16;
        if choice.is_ok() {
            return choice;
        }
        let mut offset = (start + turned) % len;
        if let Some(choice) = self.unowned(ask.space, offset) {
            return Ok(choice);
        }
        if spread(len) > 1 {
            offset = self.rng.below(len);
        }
        self.try_some(ask, owners, offset, spread(len)).0
    }

    /// The next number that nobody has.
    fn unowned(&self, space: NumberSpace, offset: u32) -> Option<Choice> {
        let port = self.maps[space as usize].find_free(offset as usize)?;
        Some(Choice { port, place: self.records.find_number(space, port) })
    }

    /// Tries numbers from this offset on, this far apart. Says how many it tried, too.
    fn try_some<O: TupleOwner>(
        &self,
        ask: &Ask,
        owners: &[O],
        mut offset: u32,
        step: u32,
    ) -> (Result<Choice, PortError>, u32) {
        let len = self.range_len();
        for tries in 1..=TRIES.min(len) {
            let choice = self.examine(ask, self.number(offset), owners);
            if choice.is_ok() {
                return (choice, tries);
            }
            offset = if offset + step < len { offset + step } else { offset + step - len };
        }
        (Err(PortError::Exhausted), TRIES.min(len))
    }

    /// Applies the rules to one number.
    #[inline]
    fn examine<O: TupleOwner>(
        &self,
        ask: &Ask,
        port: u16,
        owners: &[O],
    ) -> Result<Choice, PortError> {
        let mut place = self.records.find_number(ask.space, port);
        if place.is_taken() {
            let present = self.records.on_number(&place, None);
            if present & ask.clash.on_number != 0 {
                return Err(PortError::InUse);
            }
            // The address is looked up if one could clash, or for the record (`choose`).
            if on_any_address(present) & ask.clash.on_address != 0 {
                self.records.find_address(&mut place, &ask.want.local);
                if self.records.on_address(&place, None) & ask.clash.on_address != 0 {
                    return Err(PortError::InUse);
                }
            }
            if ask.want.remote.is_some() && self.is_tuple_taken(ask, port, owners) {
                return Err(PortError::TupleInUse);
            }
        }
        Ok(Choice { port, place })
    }

    /// Whether an owner that no other rule excuses has the number with the same peer. The chain is as
    /// long as there are local addresses with this number and peer.
    fn is_tuple_taken<O: TupleOwner>(&self, ask: &Ask, port: u16, owners: &[O]) -> bool {
        let want = ask.want;
        let new = Held::new(want, port, ask.peer);
        let clashes = |owner: &O| {
            let held = owner.held();
            if (held.port(), held.peer(), held.space()) != (port, ask.peer, ask.space) {
                return false;
            }
            let tuple = owner.tuple();
            let same = Some((tuple.remote, tuple.remote_port)) == want.remote;
            let excused = want.port != 0
                && (want.reuse && held.reuse()
                    || want.af_only
                        && held.af_only()
                        && want.local.gid.is_v4() != tuple.local.gid.is_v4());
            let apart = ask.specific && tuple.local != want.local && self.is_specific(&tuple.local);
            same && !excused && !apart
        };
        self.tuples.find(owners, new.chain(), clashes).is_some()
    }

    fn commit<O: TupleOwner>(
        &mut self,
        ask: &Ask,
        choice: Choice,
        owners: &mut [O],
        owner: usize,
        reserved: bool,
    ) -> Result<Held, PortError> {
        let held = Held::new(ask.want, choice.port, ask.peer);
        let local = &ask.want.local;
        let kind = Kind::of(held, local, ask.specific);
        if !self.records.add(&choice.place, local, kind, reserved) {
            return Err(PortError::TableFull);
        }
        self.maps[ask.space as usize].set(choice.port);
        if held.has_peer() {
            self.tuples.insert(owners, held.chain(), owner);
        }
        Ok(held)
    }

    /// Takes an owner out of the records, and a number without owners out of the map.
    fn leave(&mut self, held: Held, local: &ScopedIp) -> Option<Remains> {
        let (space, port) = (held.space(), held.port());
        let place = self.records.find(space, port, local);
        let kind = Kind::of(held, local, self.is_specific(local));
        let remains = self.records.remove(&place, local, kind);
        debug_assert!(remains.is_some(), "no such owner: {held:?} on {local:?}");
        if remains.is_some_and(|remains| !remains.of_number) {
            self.maps[space as usize].clear(port);
        }
        remains
    }

    fn is_specific(&self, ip: &ScopedIp) -> bool {
        !(ip.gid.is_wildcard() || self.config.loopback_is_wildcard && ip.gid.is_loopback())
    }

    fn range_len(&self) -> u32 {
        u32::from(self.config.range.1 - self.config.range.0) + 1
    }

    fn number(&self, offset: u32) -> u16 {
        self.config.range.0 + offset as u16
    }

    fn hash_peer(&self, space: NumberSpace, remote: &ScopedIp, port: u16) -> u32 {
        let [a, b, c, d] = remote.gid.0.as_chunks::<4>().0 else { return 0 };
        self.peer_key.hash(&[
            (space as u32) << 16 | u32::from(port),
            u32::from_le_bytes(*a),
            u32::from_le_bytes(*b),
            u32::from_le_bytes(*c),
            u32::from_le_bytes(*d),
            remote.scope,
        ])
    }
}

#[cfg(feature = "testing")]
impl Ports<'_> {
    /// Maps, records and 4-tuple index say what the owners hold and on which address, as `owns` knows
    /// it. A walk that panics.
    pub(crate) fn audit<O: TupleOwner>(
        &self,
        owners: &[O],
        owns: impl Fn(&O) -> Option<(Held, ScopedIp)>,
    ) {
        self.tuples.audit(owners, "the index of 4-tuples", |index| {
            let (held, _) = owns(&owners[index])?;
            held.has_peer().then(|| held.chain())
        });
        let holdings = owners.iter().filter_map(owns).map(|(held, local)| {
            let kind = Kind::of(held, &local, self.is_specific(&local));
            (held.space(), held.port(), local, kind)
        });
        let holdings: Vec<_> = holdings.collect();
        for (space, map) in NumberSpace::ALL.into_iter().zip(&self.maps) {
            let numbers = holdings.iter().filter(|holding| holding.0 == space);
            map.audit(numbers.map(|holding| holding.1).collect());
        }
        self.records.audit(&holdings);
    }
}

impl Remains {
    /// What can go with the last owner.
    fn key(self, held: Held, local: ScopedIp) -> Option<PortKey> {
        let key = PortKey { space: held.space().name(), local, port: held.port() };
        (!self.of_address).then_some(key)
    }
}

/// How far apart to try numbers that are spread over a range; one short enough is tried in full.
const fn spread(len: u32) -> u32 {
    if len > 2 * TRIES { len / TRIES } else { 1 }
}
