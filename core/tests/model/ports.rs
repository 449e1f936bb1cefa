//! Identifiers of one engine that share ports, beside a model that asks each owner.
//!
//! Read first: the rules in `core/src/port/mod.rs`; DESIGN §5.

use crate::explore::{Scenario, World};
use nanocm_core::addr::ScopedIp;
use nanocm_core::error::{BindError, ListenError, ResolveError};
use nanocm_core::port::{PortKey, Proposal};
use nanocm_core::testing::{Capacity, Memory, Peer, Watch, digest};
use nanocm_core::wire::{Rej, RejectReason};
use nanocm_core::{
    Config, EventKind, Gid, Id, IdOption, Instant, Outcome, Path, PortEvent, PortSpace, RequestId,
    RocePath, Route, State,
};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

/// How many identifiers, what they can be bound to, and where they can connect to. Port 0 is any of
/// [`RANGE`].
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) name: &'static str,
    pub(crate) ids: usize,
    pub(crate) locals: &'static [&'static str],
    pub(crate) peers: &'static [&'static str],
}

/// The numbers for "any port". Explicit ones may be among them.
const RANGE: (u16, u16) = (7000, 7001);
/// The engine's addresses; routes leave by the first of their family.
const OWN: [&str; 3] = ["10.0.0.1", "10.0.0.2", "fd00::1"];

/// What can happen to the n-th identifier.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// It gets REUSEADDR, AFONLY.
    Reuse(usize),
    AfOnly(usize),
    /// It is bound; towards a peer, too.
    Bind(usize, SocketAddr, Option<SocketAddr>),
    Listen(usize),
    /// It gets a route.
    Route(usize, SocketAddr),
    /// The host is asked for the way to a peer, from a port of its own.
    Resolve(usize, SocketAddr, SocketAddr),
    /// The host knows the way, or does not.
    Answer(usize, bool),
    /// It is destroyed, and another takes its place.
    Destroy(usize),
}
use Action::*;

/// What the model knows of an identifier.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
struct Owner {
    state: State,
    reuse: bool,
    af_only: bool,
    held: Option<Held>,
    /// Bound by `set_route` or `resolve_addr`.
    on_the_way: bool,
    to: Option<SocketAddr>,
}

/// What it owns, or wants to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Held {
    local: SocketAddr,
    peer: Option<SocketAddr>,
    reuse: bool,
    af_only: bool,
}

impl Held {
    /// Whether an owner is no hindrance: the table of rules, row by row.
    fn suits(&self, explicit: bool, other: &Held) -> bool {
        let specific = |held: &Held| !held.local.ip().is_unspecified();
        let both_peers = self.peer.is_some() && other.peer.is_some();
        let other_family = self.local.is_ipv4() != other.local.is_ipv4();
        self.local.port() != other.local.port()
            || both_peers && self.peer != other.peer
            || explicit && self.reuse && other.reuse
            || explicit && self.af_only && other.af_only && other_family
            || specific(self) && specific(other) && self.local.ip() != other.local.ip()
    }
}

struct Ports<'m> {
    rules: &'m Rules,
    cm: Watch<'m>,
    ids: Vec<(Id, Owner, Option<RequestId>)>,
}

impl Scenario for Rules {
    type Action = Action;

    /// Which port "any" is, is left to chance.
    const DETERMINED: bool = false;

    fn name(&self) -> &str {
        self.name
    }

    fn play<R>(&self, with: impl FnOnce(&mut dyn World<Action = Action>) -> R) -> R {
        let room = self.ids + OWN.len();
        let mut memory = Memory::new(Capacity {
            ids: room,
            conns: room,
            replies: 4,
            ports: room,
            gids: 4,
            map: 2,
        });
        let mut config = Config::new(1);
        config.port_range = RANGE;
        let mut cm = Watch::new(memory.engine(config).expect("sound capacities"));
        cm.look_away();
        for ip in OWN {
            let address = ScopedIp::new(Gid::from_ip(ip.parse().expect("an address")), 0);
            assert!(cm.handle_port_event(NOW, PortEvent::GidAdded { address, ca_guid: 1 }));
        }
        let mut ports = Ports { rules: self, cm, ids: Vec::new() };
        for _ in 0..self.ids {
            let id = ports.create();
            ports.ids.push((id, Owner::default(), None));
        }
        with(&mut ports)
    }
}

const NOW: Instant = Instant::ZERO;

fn addr(text: &str) -> SocketAddr {
    text.parse().expect("an address and a port")
}

/// The path to a peer, from an address of ours.
fn path(from: IpAddr, to: SocketAddr) -> Path {
    Path::Roce(RocePath::new(from.into(), to.ip().into()))
}

/// Where routes to a peer leave.
fn way_out(to: SocketAddr) -> IpAddr {
    let own = OWN.iter().map(|ip| ip.parse::<IpAddr>().expect("an address"));
    own.into_iter().find(|ip| ip.is_ipv4() == to.is_ipv4()).expect("both families")
}

impl Ports<'_> {
    fn create(&mut self) -> Id {
        self.cm.create_id(PortSpace::Tcp, 0).expect("there is room")
    }

    fn others(&self, n: usize) -> impl Iterator<Item = Held> {
        let others = self.ids.iter().enumerate().filter(move |(m, _)| *m != n);
        others.filter_map(|(_, (_, owner, _))| owner.held)
    }

    /// What the rules say to this, for the n-th identifier.
    fn verdict(&self, n: usize, want: &Held, explicit: bool) -> Result<(), BindError> {
        let hindering = || self.others(n).filter(|other| !want.suits(explicit, other));
        // A clash that another peer would not cure comes first.
        let plain = hindering().any(|other| want.peer.is_none() || other.peer.is_none());
        match (plain, hindering().next()) {
            (true, _) => Err(BindError::PortInUse),
            (false, Some(_)) => Err(BindError::TupleInUse),
            (false, None) => Ok(()),
        }
    }

    /// Compares what became of a bind with what the rules say. The port is the engine's choice where
    /// any would do.
    fn compare(&self, n: usize, mut want: Held, port: Result<u16, BindError>) -> Option<Held> {
        if want.local.port() != 0 {
            let wanted = self.verdict(n, &want, true).map(|()| want.local.port());
            assert_eq!(port, wanted, "{want:?}");
            return port.is_ok().then_some(want);
        }
        let numbers = RANGE.0..=RANGE.1;
        let at = |port| Held { local: SocketAddr::new(want.local.ip(), port), ..want };
        let mut free = numbers.clone().filter(|&port| self.verdict(n, &at(port), false).is_ok());
        let owned = |port: u16| self.others(n).any(|other| other.local.port() == port);
        match port {
            Ok(port) => {
                assert!(numbers.contains(&port), "{port} is out of range");
                assert_eq!(self.verdict(n, &at(port), false), Ok(()), "{port} for {want:?}");
                let shared = want.peer.is_none() && owned(port);
                assert!(!shared || numbers.clone().all(owned), "{port} is shared without need");
                want.local.set_port(port);
                Some(want)
            }
            Err(error) => {
                assert_eq!(error, BindError::PortsExhausted);
                assert_eq!(free.next(), None, "a port would do for {want:?}");
                None
            }
        }
    }

    fn want(&self, n: usize, local: SocketAddr, peer: Option<SocketAddr>) -> Held {
        let Owner { reuse, af_only, .. } = self.ids[n].1;
        Held { local, peer, reuse, af_only: af_only || local.is_ipv4() }
    }

    /// Binds through the host's hands, if it is towards a peer.
    fn bind(&mut self, n: usize, local: SocketAddr, peer: Option<SocketAddr>) {
        let id = self.ids[n].0;
        let want = self.want(n, local, peer);
        let port = match peer {
            None => self.cm.bind(id, local),
            Some(_) => self.cm.propose_port(id, local, peer).map(|proposal| {
                let key = proposal.key();
                let shared = self.others(n).any(|other| key_of(&other) == key);
                assert_eq!(shared, matches!(proposal, Proposal::Held(_)), "{proposal:?}");
                self.cm.bind_reserved(id, key, peer).expect("it was proposed");
                key.port
            }),
        };
        if let Some(held) = self.compare(n, want, port) {
            let owner = &mut self.ids[n].1;
            (owner.state, owner.held) = (State::AddrBound, Some(held));
        }
    }

    fn listen(&mut self, n: usize) {
        let (id, owner, _) = self.ids[n];
        let held = owner.held.expect("it is bound");
        // A listener is as if bound anew, without REUSEADDR.
        let alone = Held { reuse: false, ..held };
        let may = held.peer.is_none() && (!held.reuse || self.verdict(n, &alone, true).is_ok());
        let wanted = if may { Ok(()) } else { Err(ListenError::ListenConflict) };
        assert_eq!(self.cm.listen(id, 1), wanted, "{held:?}");
        if may {
            let owner = &mut self.ids[n].1;
            (owner.state, owner.held) = (State::Listen, Some(alone));
        }
    }

    /// Why the destination cannot be this one, if it cannot: it is bound, or has one.
    fn objection(&self, n: usize, to: SocketAddr) -> Option<ResolveError> {
        let Owner { state, held, to: has, .. } = self.ids[n].1;
        let held = held?;
        let chosen = held.peer.or(has.filter(|_| state == State::AddrResolved));
        if held.local.is_ipv4() != to.is_ipv4() {
            Some(ResolveError::FamilyMismatch)
        } else {
            chosen.filter(|has| *has != to).map(|_| ResolveError::OtherDestination)
        }
    }

    /// A route, or a question for one: whether it binds on the way, and to what.
    fn go(&mut self, n: usize, from: SocketAddr, to: SocketAddr, state: State) {
        let (id, owner, _) = self.ids[n];
        let (wanted, want) = (self.objection(n, to), self.want(n, from, Some(to)));
        let done = match state {
            State::RouteResolved => {
                self.cm.set_route(NOW, id, to, &Route::new(path(from.ip(), to)))
            }
            _ => self.cm.resolve_addr(NOW, id, Some(from), to, Duration::from_secs(1)),
        };
        let held = match (owner.held, done) {
            (Some(held), done) => {
                let other = state == State::RouteResolved
                    && !held.local.ip().is_unspecified()
                    && held.local.ip() != from.ip();
                let wanted = other.then_some(ResolveError::OtherSource).or(wanted);
                assert_eq!(done.err(), wanted, "to {to}");
                done.is_ok().then_some(held)
            }
            (None, Ok(())) => {
                let port = self.cm.local_addr(id).map(|local| local.port());
                self.compare(n, want, port.map_err(|_| BindError::NoSuchId))
            }
            (None, Err(ResolveError::Bind { error })) => self.compare(n, want, Err(error)),
            (None, Err(other)) => panic!("{other:?}"),
        };
        if let Some(held) = held {
            let on_the_way = owner.on_the_way || owner.held.is_none();
            self.ids[n].1 = Owner { state, on_the_way, held: Some(held), to: Some(to), ..owner };
            self.ids[n].2 = self.cm.poll_request().map(|(request, _)| request);
        }
    }

    fn answer(&mut self, n: usize, found: bool) {
        let (_, owner, request) = self.ids[n];
        let (held, to) = (owner.held.expect("a port"), owner.to.expect("a destination"));
        let bound = Some(held.local.ip()).filter(|ip| !ip.is_unspecified());
        let outcome = match found {
            true => Outcome::AddrResolved { path: path(bound.unwrap_or(way_out(to)), to) },
            false => Outcome::Failed(113),
        };
        let request = request.expect("it was asked");
        self.cm.handle_completion(NOW, request, outcome).expect("it waits for that");
        let owner = &mut self.ids[n].1;
        *owner = match found {
            true => Owner { state: State::AddrResolved, ..*owner },
            false if owner.on_the_way => {
                let (reuse, af_only) = (owner.reuse, owner.af_only);
                Owner { reuse, af_only, ..Owner::default() }
            }
            false => Owner { state: State::AddrBound, to: None, ..*owner },
        };
        while self.cm.poll_event().is_some() {}
    }

    fn destroy(&mut self, n: usize) {
        let (id, owner, _) = self.ids[n];
        let last = |held: &Held| !self.others(n).any(|other| key_of(&other) == key_of(held));
        let key = owner.held.filter(last).map(|held| key_of(&held));
        assert_eq!(self.cm.destroy(NOW, id), Ok(key), "what goes with {owner:?}");
        self.ids[n] = (self.create(), Owner::default(), None);
    }

    /// Who answers for an address: who listens there, or at the wildcard of its family, or of both.
    fn listener(&self, ip: IpAddr) -> Option<Id> {
        let at = |local: &str, v4: bool| {
            let listens = |held: &Held| held.local == addr(local) && !(v4 && held.af_only);
            let mut ids = self.ids.iter().filter(|(_, owner, _)| owner.state == State::Listen);
            ids.find(|(_, owner, _)| owner.held.as_ref().is_some_and(listens)).map(|(id, ..)| *id)
        };
        let own = SocketAddr::new(ip, RANGE.0).to_string();
        let wildcard = if ip.is_ipv4() { "0.0.0.0:7000" } else { "[::]:7000" };
        at(&own, false).or_else(|| at(wildcard, false)).or_else(|| at("[::]:7000", ip.is_ipv4()))
    }

    /// Asks for a connection there, and says who was asked.
    fn ask(&mut self, ip: IpAddr, n: u32) -> Option<Id> {
        let from = if ip.is_ipv4() { IpAddr::from([10, 0, 0, 9]) } else { PEER_V6 };
        let peer = Peer { ip: from, comm_id: n, guid: u64::from(n), qpn: n, tid: u64::from(n) };
        let arrived = Path::Roce(RocePath::new(ip.into(), from.into()));
        let _ = self.cm.handle_datagram(NOW, &arrived, &peer.req(ip, RANGE.0));
        let request = self.cm.poll_event().map(|event| (event.id, event.kind));
        let mut mad = [0; 256];
        let rej = self.cm.poll_transmit(NOW, &mut mad).map(|_| Rej(&mad).reason());
        match request {
            Some((id, EventKind::ConnectRequest { listener, .. })) => {
                self.cm.destroy(NOW, id).expect("it is new");
                assert!(self.cm.poll_transmit(NOW, &mut mad).is_some(), "it is rejected");
                Some(listener)
            }
            _ => {
                assert_eq!(rej, Some(RejectReason::INVALID_SERVICE_ID));
                None
            }
        }
    }
}

const PEER_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9));

/// What the host would reserve for it.
fn key_of(held: &Held) -> PortKey {
    PortKey { space: PortSpace::Tcp, local: ScopedIp::of(held.local), port: held.local.port() }
}

impl World for Ports<'_> {
    type Action = Action;

    fn actions(&self) -> Vec<Action> {
        let locals: Vec<_> = self.rules.locals.iter().map(|local| addr(local)).collect();
        let peers: Vec<_> = self.rules.peers.iter().map(|peer| addr(peer)).collect();
        let both: Vec<_> =
            locals.iter().flat_map(|&l| peers.iter().map(move |&p| (l, p))).collect();
        let both: Vec<_> = both.into_iter().filter(|(l, p)| l.is_ipv4() == p.is_ipv4()).collect();
        let v6 = locals.iter().any(SocketAddr::is_ipv6);
        let mut actions = Vec::new();
        for (n, (_, owner, _)) in self.ids.iter().enumerate() {
            match owner.state {
                State::Idle => {
                    actions.extend((!owner.reuse).then_some(Reuse(n)));
                    actions.extend((v6 && !owner.af_only).then_some(AfOnly(n)));
                    actions.extend(locals.iter().map(|&local| Bind(n, local, None)));
                    actions.extend(both.iter().map(|&(l, p)| Bind(n, l, Some(p))));
                    actions.extend(peers.iter().map(|&peer| Route(n, peer)));
                    // The wildcard without a port is not bound before the way is known.
                    let bound = |(l, _): &&_| !SocketAddr::ip(l).is_unspecified() || l.port() != 0;
                    actions.extend(both.iter().filter(bound).map(|&(l, p)| Resolve(n, l, p)));
                }
                State::AddrBound => {
                    actions.push(Listen(n));
                    actions.extend(peers.iter().map(|&peer| Route(n, peer)));
                    actions.extend(peers.iter().map(|&peer| Resolve(n, locals[0], peer)));
                }
                State::AddrQuery => actions.extend([Answer(n, true), Answer(n, false)]),
                State::AddrResolved => actions.extend(peers.iter().map(|&peer| Route(n, peer))),
                _ => {}
            }
            actions.extend((*owner != Owner::default()).then_some(Destroy(n)));
        }
        actions
    }

    fn act(&mut self, action: Action) {
        match action {
            Reuse(n) => {
                let set = self.cm.set_option(self.ids[n].0, IdOption::ReuseAddr(true));
                self.ids[n].1.reuse = set.is_ok();
            }
            AfOnly(n) => {
                let set = self.cm.set_option(self.ids[n].0, IdOption::AfOnly(true));
                self.ids[n].1.af_only = set.is_ok();
            }
            Bind(n, local, peer) => self.bind(n, local, peer),
            Listen(n) => self.listen(n),
            Route(n, to) => {
                self.go(n, SocketAddr::new(way_out(to), 0), to, State::RouteResolved);
            }
            Resolve(n, from, to) => self.go(n, from, to, State::AddrQuery),
            Answer(n, found) => self.answer(n, found),
            Destroy(n) => self.destroy(n),
        }
    }

    /// The identifiers are of a kind: which is which does not count.
    fn digest(&self) -> u128 {
        let mut owners: Vec<_> = self.ids.iter().map(|(_, owner, _)| *owner).collect();
        owners.sort();
        digest(&owners)
    }

    fn check(&mut self) {
        assert!(self.cm.poll_event().is_none(), "an event that nobody asked for");
        self.cm.look();
        for (id, owner, _) in &self.ids {
            assert_eq!(self.cm.state(*id), Ok(owner.state), "{owner:?}");
            let (local, peer) = (self.cm.local_addr(*id), self.cm.peer_addr(*id));
            let port = owner.held.map_or(0, |held| held.local.port());
            assert_eq!(local.map(|local| local.port()), Ok(port), "{owner:?}");
            if let Some(held) = owner.held.filter(|held| !held.local.ip().is_unspecified()) {
                assert_eq!(local, Ok(held.local), "{owner:?}");
            }
            let to = owner.to.or(owner.held.and_then(|held| held.peer));
            let known = peer.ok().filter(|peer| peer.port() != 0);
            assert_eq!(known, to, "{owner:?}");
        }
    }

    /// Requests reach whom they should; destroyed, all is free.
    fn settle(&mut self) {
        for (n, ip) in (1..).zip(OWN) {
            let ip = ip.parse().expect("an address");
            let listener = self.listener(ip);
            assert_eq!(self.ask(ip, n), listener, "who listens at {ip}");
        }
        for n in 0..self.ids.len() {
            self.destroy(n);
        }
        for (id, ..) in std::mem::take(&mut self.ids) {
            self.cm.destroy(NOW, id).expect("it is new");
        }
        let mut mad = [0; 256];
        while self.cm.poll_transmit(NOW, &mut mad).is_some() {}
        assert!(self.cm.poll_event().is_none());
        self.cm.look();
        assert!(self.cm.is_clean(), "{:?} in use in the end", self.cm.in_use());
    }

    fn describe(&self) -> String {
        let owners = self.ids.iter().map(|(_, owner, _)| {
            let to = owner.to.map_or(String::new(), |to| format!(" to {to}"));
            let held = owner.held.map_or(String::new(), |held| {
                let peer = held.peer.map_or(String::new(), |peer| format!(" for {peer}"));
                format!(" {}{peer}{}", held.local, if held.reuse { " reuse" } else { "" })
            });
            format!("{}{held}{to}", owner.state)
        });
        owners.collect::<Vec<_>>().join("; ")
    }
}
