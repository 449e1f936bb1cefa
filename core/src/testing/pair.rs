//! Two engines, one clock, one link: the world in which connections are tested.

use super::{Link, Memory, Watch, name};
use crate::addr::{Gid, Path, RocePath, ScopedIp};
use crate::config::Config;
use crate::event::{Event, EventKind};
use crate::gids::PortEvent;
use crate::request::{Outcome, Request, Route};
use crate::time::Instant;
use crate::wire::{Mad, RejectReason};
use crate::{ConnParam, Id, PortSpace};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::VecDeque;

/// Which of the two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// 10.0.0.1, by custom the active one.
    A,
    /// 10.0.0.2, by custom the one that listens.
    B,
}
use Side::{A, B};

/// An event as it was told, with the private data it came with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Told {
    /// The event.
    pub event: Event,
    /// Its private data.
    pub data: Vec<u8>,
    /// Its additional information.
    pub info: Vec<u8>,
}

/// One engine, watched, with its surroundings.
pub struct Node<'s> {
    /// The engine.
    pub cm: Watch<'s>,
    /// Its address.
    pub ip: IpAddr,
    /// Events not taken yet.
    pub told: VecDeque<Told>,
    /// Every message sent, in order.
    pub sent: Vec<Mad>,
    /// Whether questions are answered.
    pub host_answers: bool,
    /// Whether datagrams are taken from the engine.
    pub transmits: bool,
    next_qpn: u32,
}

impl Node<'_> {
    /// A queue pair number nobody had before.
    pub fn qpn(&mut self) -> u32 {
        self.next_qpn += 1;
        self.next_qpn
    }

    /// The names of all messages sent, in order.
    pub fn sent_names(&self) -> Vec<&'static str> {
        self.sent.iter().map(name).collect()
    }
}

/// Two engines.
pub struct Pair<'s> {
    nodes: [Node<'s>; 2],
    /// Between them.
    pub link: Link,
    /// The time.
    pub now: Instant,
}

impl<'s> Pair<'s> {
    /// Two engines of this seed with their addresses, at time `start`.
    pub fn new(memory: [&'s mut Memory; 2], seed: u64, start: Instant) -> Pair<'s> {
        Pair::with_config(memory, seed, start, |_| {})
    }

    /// The same, with settings of one's own.
    pub fn with_config(
        memory: [&'s mut Memory; 2],
        seed: u64,
        start: Instant,
        adjust: impl Fn(&mut Config),
    ) -> Pair<'s> {
        let ips = [1, 2].map(|side| IpAddr::from([10, 0, 0, side]));
        Pair::between(ips, memory, seed, start, adjust)
    }

    /// The same, at addresses of one's own.
    pub fn between(
        ips: [IpAddr; 2],
        memory: [&'s mut Memory; 2],
        seed: u64,
        start: Instant,
        adjust: impl Fn(&mut Config),
    ) -> Pair<'s> {
        let mut side = 0u8;
        let nodes = memory.map(|memory| {
            let ip = ips[usize::from(side)];
            side += 1;
            let mut config = Config::new(seed.wrapping_mul(31) + u64::from(side));
            adjust(&mut config);
            let cm = memory.engine(config).expect("the test's capacities are sound");
            let mut cm = Watch::new(cm);
            let address = ScopedIp { gid: Gid::from_ip(ip), scope: 0 };
            let ca_guid = 0x0200_0000_0000_0000 + u64::from(side);
            assert!(cm.handle_port_event(start, PortEvent::GidAdded { address, ca_guid }));
            Node {
                cm,
                ip,
                told: VecDeque::new(),
                sent: Vec::new(),
                host_answers: true,
                transmits: true,
                next_qpn: 0x10 * u32::from(side),
            }
        });
        Pair { nodes, link: Link::new(seed), now: start }
    }

    /// One of the two.
    pub fn node(&mut self, side: Side) -> &mut Node<'s> {
        &mut self.nodes[side as usize]
    }

    /// Its engine.
    pub fn cm(&mut self, side: Side) -> &mut Watch<'s> {
        &mut self.nodes[side as usize].cm
    }

    /// A listener on side B.
    pub fn listen(&mut self, port: u16, backlog: u32) -> Id {
        self.listen_in(PortSpace::Tcp, port, backlog)
    }

    /// A listener of this port space on side B.
    pub fn listen_in(&mut self, space: PortSpace, port: u16, backlog: u32) -> Id {
        let ip = self.nodes[1].ip;
        let cm = self.cm(B);
        let id = cm.create_id(space, 0).unwrap();
        cm.bind(id, SocketAddr::new(ip, port)).unwrap();
        cm.listen(id, backlog).unwrap();
        id
    }

    /// An identifier on side A with a route to side B.
    pub fn route_to(&mut self, port: u16) -> Id {
        self.route_in(PortSpace::Tcp, port)
    }

    /// An identifier of this port space on side A with a route to side B.
    pub fn route_in(&mut self, space: PortSpace, port: u16) -> Id {
        let (from, to) = (self.nodes[0].ip, self.nodes[1].ip);
        let now = self.now;
        let cm = self.cm(A);
        let id = cm.create_id(space, 0).unwrap();
        let path = Path::Roce(RocePath::new(from.into(), to.into()));
        cm.set_route(now, id, SocketAddr::new(to, port), &Route::new(path)).unwrap();
        id
    }

    /// An identifier on side A that has sent its REQ to side B.
    pub fn connect(&mut self, port: u16, data: &[u8]) -> Id {
        let id = self.route_to(port);
        let (now, qpn) = (self.now, self.node(A).qpn());
        let mut param = ConnParam::new(qpn);
        param.private_data = data;
        self.cm(A).connect(now, id, &param).unwrap();
        id
    }

    /// An identifier on side A that has asked for a datagram service on side B.
    pub fn ask(&mut self, port: u16, data: &[u8]) -> Id {
        let id = self.route_in(PortSpace::Udp, port);
        let now = self.now;
        let mut param = ConnParam::new(0);
        param.private_data = data;
        self.cm(A).connect(now, id, &param).unwrap();
        id
    }

    /// A connection that stands on both sides: its identifiers there.
    pub fn established(&mut self, port: u16) -> (Id, Id) {
        let active = self.connect(port, &[]);
        let passive = self.expect(B, "CONNECT_REQUEST").event.id;
        self.accept(passive, &[]);
        assert_eq!(self.expect(A, "CONNECT_RESPONSE").event.id, active);
        self.establish(active, &[]);
        assert_eq!(self.expect(A, "ESTABLISHED").event.id, active);
        assert_eq!(self.expect(B, "ESTABLISHED").event.id, passive);
        (active, passive)
    }

    /// Accepts a request on side B.
    pub fn accept(&mut self, id: Id, data: &[u8]) {
        let (now, qpn) = (self.now, self.node(B).qpn());
        let mut param = ConnParam::new(qpn);
        param.private_data = data;
        self.cm(B).accept(now, id, &param).unwrap();
    }

    /// Finishes a connection on side A.
    pub fn establish(&mut self, id: Id, data: &[u8]) {
        let now = self.now;
        self.cm(A).establish(now, id, data).unwrap();
    }

    /// Ends a connection.
    pub fn disconnect(&mut self, side: Side, id: Id) {
        let now = self.now;
        self.cm(side).disconnect(now, id, &[]).unwrap();
    }

    /// Rejects a request, or what came of it.
    pub fn reject(&mut self, side: Side, id: Id, reason: RejectReason, data: &[u8]) {
        let now = self.now;
        self.cm(side).reject(now, id, reason, data).unwrap();
    }

    /// Destroys an identifier.
    pub fn destroy(&mut self, side: Side, id: Id) {
        let now = self.now;
        self.cm(side).destroy(now, id).unwrap();
    }

    /// Runs until side `side` is told something, and takes it; it must have this name.
    #[track_caller]
    pub fn expect(&mut self, side: Side, name: &str) -> Told {
        let told = self.run_until_told(side, Duration::from_secs(300));
        let told = told.unwrap_or_else(|| panic!("{side:?} was told nothing, not {name}"));
        assert_eq!(told.event.kind.name(), name, "{told:?}");
        told
    }

    /// Runs until side `side` is told something, for at most so long.
    pub fn run_until_told(&mut self, side: Side, most: Duration) -> Option<Told> {
        let end = self.now + most;
        loop {
            self.drain();
            if let Some(told) = self.node(side).told.pop_front() {
                return Some(told);
            }
            if !self.step(end) {
                return None;
            }
        }
    }

    /// Runs for so long.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while self.step(end) {}
        self.now = end;
        self.drain();
    }

    /// Nothing was told to either side.
    #[track_caller]
    pub fn expect_silence(&mut self) {
        self.drain();
        for side in [A, B] {
            assert_eq!(self.node(side).told.front(), None, "{side:?}");
        }
    }

    /// Does what can be done now, then moves the clock to what comes next. False if nothing comes
    /// before `end`.
    pub fn step(&mut self, end: Instant) -> bool {
        self.drain();
        let wake = self.nodes.iter().filter_map(|node| node.cm.poll_at()).min();
        let next = [wake, self.link.next_arrival()].into_iter().flatten().min();
        let Some(next) = next.filter(|&next| next <= end) else { return false };
        self.now = self.now.max(next);
        while let Some(flight) = self.link.arrive(self.now) {
            self.deliver(flight.to, &flight.mad);
        }
        for node in &mut self.nodes {
            while node.cm.handle_timeout(self.now, 64) {}
        }
        true
    }

    /// Hands a datagram to a side, as if from the other.
    pub fn deliver(&mut self, to: usize, mad: &[u8]) {
        let (local, remote) = (self.nodes[to].ip.into(), self.nodes[1 - to].ip.into());
        let path = Path::Roce(RocePath::new(local, remote));
        let _ = self.nodes[to].cm.handle_datagram(self.now, &path, mad);
    }

    /// Polls both engines until they yield nothing.
    pub fn drain(&mut self) {
        let now = self.now;
        for (side, node) in self.nodes.iter_mut().enumerate() {
            while node.host_answers
                && let Some((request, question)) = node.cm.poll_request()
            {
                let outcome = answer(node.ip, question);
                node.cm.handle_completion(now, request, outcome).unwrap();
            }
            while let Some(event) = node.cm.poll_event() {
                let data = node.cm.private_data(event.id).to_vec();
                let info = node.cm.additional_info(event.id).to_vec();
                node.told.push_back(Told { event, data, info });
            }
            let mut mad = [0; 256];
            while node.transmits && node.cm.poll_transmit(now, &mut mad).is_some() {
                node.sent.push(mad);
                self.link.send(now, 1 - side, &mad);
            }
            if node.transmits
                && let Some(at) = node.cm.poll_at()
            {
                let due = at <= now;
                assert!(!due || !node.cm.handle_timeout(now, usize::MAX), "poll_at is in the past");
            }
        }
    }

    /// Destroys what the test made, lets the goodbyes be said, and sees that nothing is left.
    #[track_caller]
    pub fn assert_clean(mut self, a: &[Id], b: &[Id]) {
        let now = self.now;
        for (side, ids) in [(A, a), (B, b)] {
            for &id in ids {
                self.cm(side).destroy(now, id).expect("the test's own identifier");
            }
        }
        self.run_for(Duration::from_secs(300));
        for side in [A, B] {
            assert!(self.cm(side).is_clean(), "{side:?} has {:?} in use", self.cm(side).in_use());
        }
    }
}

/// What a host on this little network answers.
fn answer(ip: IpAddr, question: Request) -> Outcome {
    match question {
        Request::ResolveAddr { source, destination } => {
            let local = source.map_or(ip.into(), |source| source.gid);
            let path = Path::Roce(RocePath::new(local, destination.ip().into()));
            Outcome::AddrResolved { path }
        }
        Request::ResolveRoute { path } => Outcome::RouteResolved { route: Route::new(path) },
    }
}

impl Told {
    /// What happened.
    pub fn kind(&self) -> EventKind {
        self.event.kind
    }
}
