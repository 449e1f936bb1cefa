//! Applications, hosts and peers that do anything at any time: no panic, no broken invariant (the
//! engine checks its own in debug builds), and nothing left in the end.

use nanocm_core::addr::ScopedIp;
use nanocm_core::testing::{Capacity, Peer, Solo, World, comm_id, name};
use nanocm_core::wire::{Mad, MessageKind, Rej, RejectReason, Rep, Req};
use nanocm_core::{
    ConnParam, EventKind, Id, IdOption, Outcome, PortEvent, PortSpace, QpState, Request, RequestId,
    Route, SendToken,
};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A small generator of the test's own.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }
}

/// Whatever came of it.
fn done<T>(_: T) {}

/// What the peers know of a connection.
#[derive(Clone, Copy)]
struct Known {
    comm_id: u32,
    qpn: u32,
    peer: Peer,
}

struct Chaos<'s> {
    solo: Solo<'s>,
    dice: Dice,
    ids: Vec<Id>,
    requests: Vec<(RequestId, Request)>,
    known: Vec<Known>,
    tokens: Vec<SendToken>,
    /// What the peers have heard and not answered.
    due: Vec<(Known, &'static str)>,
    /// Few, so that their numbers meet again.
    peers: Vec<Peer>,
}

impl Chaos<'_> {
    fn step(&mut self) {
        match self.dice.below(16) {
            0 | 1 => self.operate(),
            2..=5 => self.go_on(),
            6 | 7 => self.send(),
            8 | 9 => self.reply(),
            10..=13 => self.poll(),
            14 => self.answer(),
            _ => {
                let time = self.dice.pick(&[0, 1, 40, 700, 3_000, 40_000]);
                self.solo.now = self.solo.now + Duration::from_millis(time);
                let budget = self.dice.below(4);
                let _ = self.solo.cm.handle_timeout(self.solo.now, budget);
            }
        }
    }

    fn addr(&mut self) -> SocketAddr {
        let ip: IpAddr = self
            .dice
            .pick(&["10.0.0.2", "10.0.0.3", "0.0.0.0", "::", "fd00::2", "10.0.0.77"])
            .parse()
            .unwrap();
        let port = self.dice.pick(&[0, 0, 7471, 7472, 40_001]);
        SocketAddr::new(ip, port)
    }

    fn destination(&mut self) -> SocketAddr {
        let peer = self.dice.pick(&self.peers);
        SocketAddr::new(peer.ip, self.dice.pick(&[7471, 7472]))
    }

    fn route(&mut self) -> Route {
        let mut peer = self.dice.pick(&self.peers);
        if self.dice.below(8) == 0 {
            peer.ip = self.addr().ip();
        }
        Route::new(self.solo.path(&peer))
    }

    fn operate(&mut self) {
        let id = match self.ids.len() {
            0 => Id::from_raw(3),
            n => self.ids[self.dice.below(n)],
        };
        let (now, data) = (self.solo.now, [0x5a; 230]);
        let data = &data[..self.dice.pick(&[0, 5, 56, 148, 196, 220, 224, 230])];
        let mut param = ConnParam::new(self.dice.below(6) as u32);
        param.private_data = data;
        param.timeout = self.dice.pick(&[None, None, Some(Duration::from_secs(2))]);
        param.retries = self.dice.pick(&[None, None, Some(1)]);
        let (local, to, route) = (self.addr(), self.destination(), self.route());
        let remote = self.dice.pick(&[None, Some(to)]);
        let time = self.dice.pick(&[Duration::ZERO, Duration::from_secs(1)]);
        let cm = &mut self.solo.cm;
        match self.dice.below(24) {
            0..=2 => {
                let space = self.dice.pick(&PortSpace::ALL);
                let space = self.dice.pick(&[PortSpace::Tcp, space]);
                self.ids.extend(cm.create_id(space, 7));
            }
            3 => done(cm.bind(id, local)),
            4 => {
                if let Ok(proposal) = cm.propose_port(id, local, remote) {
                    let _ = cm.bind_reserved(id, proposal.key(), remote);
                }
            }
            5 | 6 => done(cm.listen(id, self.dice.below(3) as u32)),
            7 => {
                let source = self.dice.pick(&[None, Some(local)]);
                let _ = cm.resolve_addr(now, id, source, to, time);
            }
            8 => done(cm.resolve_route(now, id, time)),
            9 | 10 => done(cm.set_route(now, id, to, &route)),
            11..=13 => done(cm.connect(now, id, &param)),
            14 | 15 => done(cm.accept(now, id, &param)),
            16 => done(cm.reject(now, id, RejectReason::CONSUMER, data)),
            17 => done(cm.establish(now, id, data)),
            18 => done(cm.notify_established(now, id)),
            19 => done(cm.disconnect(now, id, data)),
            20 => done(cm.reset(id)),
            21 => {
                let option = self.dice.pick(&[
                    IdOption::Tos(9),
                    IdOption::ReuseAddr(true),
                    IdOption::ReuseAddr(false),
                    IdOption::AfOnly(true),
                    IdOption::AckTimeout(12),
                    IdOption::RejectWhenFull(true),
                ]);
                let _ = cm.set_option(id, option);
                let _ = cm.qp_attrs(id, QpState::ReadyToSend);
            }
            22 => {
                let devices =
                    [("10.0.0.3:0", 3), ("10.0.0.2:0", Solo::CA_GUID), ("[fd00::2]:0", 2)];
                let (address, ca_guid) = self.dice.pick(&devices);
                let address = ScopedIp::of(address.parse().unwrap());
                let event = match self.dice.below(8) {
                    0..=4 => PortEvent::GidAdded { address, ca_guid },
                    5 => PortEvent::GidRemoved { address },
                    6 => PortEvent::DeviceRemoved { ca_guid },
                    _ => PortEvent::AddrChanged { address: ScopedIp::of(to) },
                };
                let _ = cm.handle_port_event(now, event);
            }
            _ => done(cm.destroy(now, id)),
        }
    }

    /// What an application would do next with one of its identifiers.
    fn go_on(&mut self) {
        use nanocm_core::{ConnState::*, State};
        if self.ids.len() < 4 {
            self.ids.extend(self.solo.cm.create_id(PortSpace::Tcp, 7));
        }
        let at = self.dice.below(self.ids.len().max(1));
        let Some(&id) = self.ids.get(at) else { return };
        let (now, to, route) = (self.solo.now, self.destination(), self.route());
        let listens = self.dice.below(3) == 0;
        let cm = &mut self.solo.cm;
        let Ok((state, conn)) = cm.state(id).and_then(|s| Ok((s, cm.conn_state(id)?))) else {
            self.ids.swap_remove(at);
            return;
        };
        let mut param = ConnParam::new(0x40 + self.dice.below(200) as u32);
        param.private_data = &[0x33; 56];
        match (state, conn) {
            (State::Idle, _) if listens => {
                let port = self.dice.pick(&[7471, 7472]);
                done(cm.bind(id, SocketAddr::new(self.solo.ip, port)));
                done(cm.listen(id, 3));
            }
            (State::Idle | State::AddrBound, _) if self.dice.below(2) == 0 => {
                let source = self.dice.pick(&[None, Some(SocketAddr::new(self.solo.ip, 0))]);
                done(cm.resolve_addr(now, id, source, to, Duration::from_secs(3)));
            }
            (State::Idle | State::AddrBound, _) => done(cm.set_route(now, id, to, &route)),
            (State::AddrResolved, _) => done(cm.resolve_route(now, id, Duration::from_secs(1))),
            (State::RouteResolved, _) => done(cm.connect(now, id, &param)),
            (_, ReqRcvd) => done(cm.accept(now, id, &param)),
            (_, RepRcvd) => done(cm.establish(now, id, &[0x44; 224])),
            (_, Established | DreqRcvd) => done(cm.disconnect(now, id, &[0x55; 220])),
            (State::Connect | State::Disconnect, Idle) => {
                done(cm.reset(id).or_else(|_| cm.destroy(now, id).map(drop)));
            }
            (State::Listen, _) if self.dice.below(8) > 0 => {}
            _ if self.dice.below(4) == 0 => done(cm.destroy(now, id)),
            _ => {}
        }
    }

    /// What a peer would answer to what it has heard.
    fn reply(&mut self) {
        let at = self.dice.below(self.due.len().max(1));
        let Some(&(known, to)) = self.due.get(at) else { return };
        if self.dice.below(3) > 0 {
            self.due.swap_remove(at);
        }
        let mad = match to {
            "REQ" => {
                let mut rep = known.peer.rep(known.comm_id);
                let (comm_id, qpn) = (self.dice.below(1000) as u32, self.dice.below(90) as u32);
                Rep(&mut rep).set_local_comm_id(comm_id).set_local_qpn(qpn);
                self.learn(&rep, known);
                rep
            }
            "REP" => known.peer.rtu(known.comm_id),
            "DREQ" => known.peer.drep(known.comm_id),
            _ => known.peer.dreq(known.comm_id, known.qpn),
        };
        let _ = self.solo.hears(&known.peer, &mad);
    }

    /// A message that makes sense to somebody, perhaps with an octet of nonsense.
    fn send(&mut self) {
        let peer = self.dice.pick(&self.peers);
        let nobody = Known { comm_id: 0, qpn: 0, peer };
        let known = match self.known.len() {
            0 => nobody,
            n => self.known[n - 1 - self.dice.below(n.min(8))],
        };
        let mut from = if self.dice.below(6) == 0 { peer } else { known.peer };
        let of = self.dice.pick(&[MessageKind::REQ, MessageKind::REP, MessageKind::OTHER]);
        let mut mad = match self.dice.below(12) {
            0..=2 => {
                from = peer;
                let port = self.dice.pick(&[7471, 7472]);
                let mut req = peer.req(self.solo.ip, port);
                Req(&mut req)
                    .set_local_comm_id(self.dice.below(5) as u32)
                    .set_local_qpn(self.dice.below(4) as u32);
                req
            }
            3 | 4 => {
                let mut rep = from.rep(known.comm_id);
                Rep(&mut rep)
                    .set_local_qpn(self.dice.below(4) as u32)
                    .set_local_comm_id(self.dice.below(9) as u32);
                rep
            }
            5 | 6 => from.rtu(known.comm_id),
            7 => from.mra(known.comm_id, of, self.dice.below(32) as u8),
            8 => {
                let mut rej = from.rej(known.comm_id, of, RejectReason::CONSUMER);
                Rej(&mut rej).set_private_data(&[0x77; 148]).unwrap();
                rej
            }
            9 => from.timeout_rej(),
            10 => from.dreq(known.comm_id, known.qpn),
            _ => from.drep(known.comm_id),
        };
        // What the peer is called in a REP must be known to what follows.
        if name(&mad) == "REP" {
            self.learn(&mad, known);
        }
        if self.dice.below(10) == 0 {
            let at = self.dice.below(256);
            mad[at] = self.dice.below(256) as u8;
        }
        let _ = self.solo.hears(&from, &mad);
    }

    /// Takes the peer's number from a REP that it sent.
    fn learn(&mut self, rep: &Mad, known: Known) {
        let peer = Peer { comm_id: comm_id(rep), ..known.peer };
        self.known.push(Known { peer, ..known });
    }

    fn poll(&mut self) {
        let mut mad = [0; 256];
        for _ in 0..self.dice.below(5) {
            let Some(sent) = self.solo.cm.poll_transmit(self.solo.now, &mut mad) else { break };
            self.tokens.push(sent.token);
            let ip = sent.path.remote_gid().to_ip();
            let peer = self.peers.iter().find(|peer| peer.ip == ip).copied();
            let Some(peer) = peer else { continue };
            let heard = match name(&mad) {
                "REQ" => (Req(&mad).local_qpn(), peer.comm_id),
                "REP" => (Rep(&mad).local_qpn(), Rep(&mad).remote_comm_id()),
                _ => (0, Rep(&mad).remote_comm_id()),
            };
            let comm_id = comm_id(&mad);
            let qpn = self.known.iter().rev().find(|known| known.comm_id == comm_id);
            let qpn = qpn.map_or(heard.0, |known| known.qpn.max(heard.0));
            let known = Known { comm_id, qpn, peer: Peer { comm_id: heard.1, ..peer } };
            if matches!(name(&mad), "REQ" | "REP") {
                self.known.push(known);
            }
            self.due.push((known, name(&mad)));
        }
        for _ in 0..self.dice.below(5) {
            let Some(event) = self.solo.cm.poll_event() else { break };
            if let EventKind::ConnectRequest { .. } = event.kind {
                self.ids.push(event.id);
            }
            assert!(self.solo.cm.state(event.id).is_ok(), "{event:?} of nobody");
            let _ = self.solo.cm.private_data(event.id);
        }
        for _ in 0..self.dice.below(3) {
            self.requests.extend(self.solo.cm.poll_request());
        }
    }

    /// The host answers something, or its transport fails.
    fn answer(&mut self) {
        let (now, route) = (self.solo.now, self.route());
        if let Some(&(request, question)) = self.requests.last() {
            let good = match question {
                Request::ResolveAddr { destination, .. } => {
                    let peer = Peer { ip: destination.ip(), ..self.peers[0] };
                    Outcome::AddrResolved { path: self.solo.path(&peer) }
                }
                Request::ResolveRoute { path } => {
                    Outcome::RouteResolved { route: Route::new(path) }
                }
                _ => Outcome::Failed(38),
            };
            let bad = self.dice.pick(&[
                Outcome::AddrResolved { path: route.path },
                Outcome::RouteResolved { route },
                Outcome::Failed(113),
            ]);
            let outcome = self.dice.pick(&[good, good, bad]);
            let _ = self.solo.cm.handle_completion(now, request, outcome);
            if self.dice.below(2) == 0 {
                self.requests.pop();
            }
        }
        if self.dice.below(4) == 0
            && let Some(&token) = self.tokens.last()
        {
            self.solo.cm.handle_send_failed(now, token, self.dice.pick(&[105, 111]));
        }
    }

    fn end(mut self) {
        // Requests that nobody has fetched are let go with their listeners, or when told.
        for _ in 0..2 {
            while let Some(event) = self.solo.cm.poll_event() {
                self.ids.push(event.id);
            }
            for id in self.ids.drain(..) {
                let _ = self.solo.cm.destroy(self.solo.now, id);
            }
        }
        self.solo.assert_clean(&[]);
    }
}

#[test]
fn whatever_everybody_does_nothing_breaks_and_nothing_stays() {
    for seed in 0..150 {
        let capacity = Capacity { ids: 9, conns: 5, replies: 3, ports: 6, gids: 3, map: 8 };
        let world = World::new().of(capacity).seed(seed).set(|config| {
            config.port_range = (40_000, 40_007);
            config.timers.accept_deadline = Duration::from_secs(10);
        });
        world.solo(|mut solo| {
            let address = ScopedIp::of("[fd00::2]:0".parse().unwrap());
            let event = PortEvent::GidAdded { address, ca_guid: 2 };
            assert!(solo.cm.handle_port_event(solo.now, event));
            let peers = (0..3u8)
                .map(|n| Peer { ip: [10, 0, 0, n / 2 + 1 + 9 * (n / 2)].into(), ..solo.peer() })
                .collect();
            let mut chaos = Chaos {
                solo,
                dice: Dice(seed),
                ids: Vec::new(),
                requests: Vec::new(),
                known: Vec::new(),
                tokens: Vec::new(),
                due: Vec::new(),
                peers,
            };
            for _ in 0..800 {
                chaos.step();
            }
            chaos.end();
        });
    }
}
