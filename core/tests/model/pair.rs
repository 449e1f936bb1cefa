//! Two engines over a bad link: whatever their applications do, whatever becomes of the datagrams.

use crate::explore::{Scenario, World};
use crate::node::Node;
use crate::rules::{Action, Action::*, Op, Op::*, Rules};
use nanocm_core::testing::{Capacity, Memory, Phase, Picture, Side, Side::*, name};
use nanocm_core::{
    ConnState, DisconnectCause, EventKind, Gid, Id, Instant, Path, PortEvent, RocePath, State,
};
use std::fmt::Write;
use std::net::IpAddr;

struct Pair<'m> {
    rules: Rules,
    now: Instant,
    nodes: [Node<'m>; 2],
    faults: u8,
    restarts: [u8; 2],
    removals: [u8; 2],
    lazy: bool,
    /// An application has disconnected.
    hung_up: bool,
    /// For engines that begin anew.
    spare: Vec<&'m mut Memory>,
}

impl Scenario for Rules {
    type Action = Action;

    const DETERMINED: bool = true;

    fn name(&self) -> &str {
        self.name
    }

    fn play<R>(&self, with: impl FnOnce(&mut dyn World<Action = Action>) -> R) -> R {
        let (conns, _) = self.room;
        let capacity = Capacity { ids: 3, conns, replies: 4, ports: 8, gids: 1, map: 16 };
        let engines = 2 + usize::from(self.restarts[0] + self.restarts[1]);
        let mut memory: Vec<_> = (0..engines).map(|_| Memory::new(capacity)).collect();
        let mut memory = memory.iter_mut();
        let mut node = |side| Node::new(self, side, 0, memory.next().expect("one for each"));
        let nodes = [node(A), node(B)];
        let spare = memory.collect();
        let mut pair = Pair {
            rules: *self,
            now: Instant::ZERO,
            nodes,
            faults: self.faults,
            restarts: self.restarts,
            removals: self.removals,
            lazy: self.lazy,
            hung_up: false,
            spare,
        };
        pair.begin();
        with(&mut pair)
    }
}

impl Pair<'_> {
    /// Up to where the scenario begins.
    fn begin(&mut self) {
        self.lazy = false;
        while self.rules.standing && self.nodes[0].connects > 0 {
            self.act(Connect(A));
            self.run(&[Accept, Establish], false);
        }
        self.lazy = self.rules.lazy;
    }

    /// Lets datagrams arrive, applications do what they can of these operations, and time pass, until
    /// nothing is left to happen.
    fn run(&mut self, ops: &[Op], time: bool) {
        for _ in 0..500 {
            let arrives = [A, B].into_iter().find(|&side| self.under_way(side) > 0);
            let action = match arrives {
                Some(side) => Some(Arrive(side, 0)),
                None => self.first_op(ops).or_else(|| self.wake().filter(|_| time).map(|_| Pass)),
            };
            match action {
                Some(action) => self.act(action),
                None => return,
            }
        }
        panic!("this has no end: {}", self.describe());
    }

    /// The first of these operations that an identifier is ready for.
    fn first_op(&self, ops: &[Op]) -> Option<Action> {
        [A, B].into_iter().flat_map(|side| self.ops(side, ops)).next()
    }

    /// All of these operations that a side's identifiers are ready for.
    fn ops(&self, side: Side, ops: &[Op]) -> Vec<Action> {
        let cm = &self.nodes[side as usize].cm;
        let mut legal = Vec::new();
        for (n, (id, _)) in cm.known().enumerate() {
            let ready = ops.iter().filter(|op| op.is_legal(cm, id));
            legal.extend(ready.map(|&op| Do(side, op, n)));
        }
        legal
    }

    fn under_way(&self, side: Side) -> usize {
        self.nodes[side as usize].under_way.len()
    }

    /// When somebody has a deadline.
    fn wake(&self) -> Option<Instant> {
        self.nodes.iter().filter_map(|node| node.cm.poll_at()).min()
    }

    fn arrive(&mut self, side: Side, nth: usize, again: bool) {
        let from = self.nodes[1 - side as usize].ip;
        let node = &mut self.nodes[side as usize];
        let mad = match again {
            true => node.under_way[nth],
            false => node.under_way.remove(nth).expect("it is under way"),
        };
        let path = Path::Roce(RocePath::new(node.ip.into(), from.into()));
        let _ = node.cm.handle_datagram(self.now, &path, &mad);
    }

    /// Hosts do what their engines want, until those want nothing.
    fn drain(&mut self) {
        for side in [A, B] {
            while self.nodes[side as usize].cm.handle_timeout(self.now, 1) {}
            while !self.lazy && (self.tell(side) || self.send(side)) {}
        }
    }

    /// One event; false if there is none.
    fn tell(&mut self, side: Side) -> bool {
        self.nodes[side as usize].cm.poll_event().is_some()
    }

    /// One datagram; false if there is none.
    fn send(&mut self, side: Side) -> bool {
        let mut mad = [0; 256];
        let sent = self.nodes[side as usize].cm.poll_transmit(self.now, &mut mad);
        if sent.is_some() {
            self.nodes[1 - side as usize].under_way.push_back(mad);
        }
        sent.is_some()
    }

    fn picture(&self) -> Picture {
        let mut picture = Picture::default();
        picture.put_all([u64::from(self.faults), u64::from(self.hung_up && self.rules.prompt)]);
        for side in [A, B] {
            let (node, n) = (&self.nodes[side as usize], side as usize);
            let left = [node.connects, self.restarts[n], self.removals[n]];
            picture.put_all(left.map(u64::from));
            node.cm.paint(&mut picture);
            if self.rules.prompt {
                picture.list(node.ids().iter().map(|&id| self.has_failed(node, id).into()));
            }
        }
        for node in &self.nodes {
            picture.put(node.under_way.len() as u64);
            node.under_way.iter().for_each(|mad| picture.datagram(mad));
        }
        // The queue pairs to come, and before a side begins anew those it has used, which come again.
        for (n, node) in self.nodes.iter().enumerate() {
            let [connect, accept] = node.next_queue_pairs();
            let [connected, accepted] = match self.restarts[n] {
                0 => [0, 0],
                _ => [u32::from(self.rules.connects[n] - node.connects), node.accepts],
            };
            picture.put_all([connected, accepted].map(u64::from));
            let connects = connect..=connect + connected;
            connects.chain(accept - accepted..=accept).for_each(|qpn| picture.queue_pair(qpn));
        }
        picture
    }

    /// Two connections that stand and are each other's know each other's numbers. Nobody is stale if
    /// nobody has begun anew.
    fn check_agreement(&self) {
        let standing = self.everybody().filter(|(.., conn)| *conn == ConnState::Established);
        let numbers =
            standing.filter_map(|(side, id, ..)| self.nodes[side as usize].cm.numbers(id));
        let mut all: Vec<_> = numbers.collect();
        if self.rules.ops.contains(&Notify) {
            all.clear(); // who says that data have come when none have stands alone
        }
        for [own, peers] in &all {
            let other = all.iter().find(|[other, _]| other.0 == peers.0);
            let agrees = other.is_none_or(|[other, theirs]| (other, theirs) == (peers, own));
            assert!(agrees, "{own:x?} and {peers:x?} do not agree");
        }
        let stale = self.nodes.iter().any(|node| node.cm.counters().stale > 0);
        assert!(!stale || self.rules.restarts != [0; 2], "stale, though nobody has begun anew");
    }

    /// Nothing has failed, if applications are prompt, and in the end all attempts have succeeded.
    fn check_success(&self, in_the_end: bool) {
        if !self.rules.prompt {
            return;
        }
        for (side, id, phase, conn) in self.everybody() {
            let node = &self.nodes[side as usize];
            let (failed, end) = (self.has_failed(node, id), node.cm.end(id));
            assert!(!failed, "{side:?}: {id:?} has failed: {end:?}");
            assert!(!in_the_end || phase != Phase::Attempt, "{side:?}: {id:?} is still in {conn}");
        }
    }

    /// Whether an attempt or connection has ended, and not because an application disconnected and was
    /// answered, nor as SIDR does.
    fn has_failed(&self, node: &Node<'_>, id: Id) -> bool {
        use DisconnectCause::{Local, Peer};
        node.cm.end(id).is_some_and(|end| match end {
            EventKind::Disconnected(Local | Peer) => !self.hung_up,
            end => end != EventKind::Established,
        })
    }

    /// What an identifier is not ready for is refused, and so is everything with a stale handle.
    fn try_what_is_illegal(&mut self) {
        let now = self.now;
        for node in &mut self.nodes {
            for id in node.ids() {
                for op in Op::ALL {
                    if op == Destroy || op.is_legal(&node.cm, id) {
                        continue;
                    }
                    let late = op == Disconnect && node.cm.state(id) == Ok(State::Disconnect);
                    let done = node.make(now, op, id);
                    assert!(!done || late, "{op:?} is not legal and succeeds: {id:?}");
                }
            }
            for id in node.stale.clone() {
                for op in Op::ALL {
                    assert!(!node.make(now, op, id), "{op:?} of a stale handle: {id:?}");
                }
            }
        }
    }

    /// What is under way to this side comes from a third address, too, which may get an answer.
    fn hear_strangers(&mut self, side: Side) {
        let (now, node) = (self.now, &mut self.nodes[side as usize]);
        let elsewhere = Gid::from_ip(IpAddr::from([10, 0, 0, 3]));
        let path = Path::Roce(RocePath::new(node.ip.into(), elsewhere));
        // Anybody may ask for a datagram service.
        let mads = node.under_way.iter().filter(|mad| name(mad) != "SIDR_REQ");
        for mad in mads {
            let _ = node.cm.handle_datagram(now, &path, mad);
            let mut answer = [0; 256];
            while let Some(transmit) = node.cm.poll_transmit(now, &mut answer) {
                assert_eq!(transmit.path.remote_gid(), elsewhere, "an answer to another");
            }
        }
    }

    /// Every identifier, and where the application and the engine think it is.
    fn everybody(&self) -> impl Iterator<Item = (Side, Id, Phase, ConnState)> {
        [A, B].into_iter().flat_map(|side| {
            let node = &self.nodes[side as usize];
            node.cm.known().map(move |(id, phase)| (side, id, phase, node.conn(id)))
        })
    }
}

impl World for Pair<'_> {
    type Action = Action;

    fn actions(&self) -> Vec<Action> {
        let mut actions = Vec::new();
        for side in [A, B] {
            let (node, n) = (&self.nodes[side as usize], side as usize);
            actions.extend((node.connects > 0).then_some(Connect(side)));
            actions.extend(self.ops(side, self.rules.ops));
            actions.extend((self.restarts[n] > 0).then_some(Restart(side)));
            actions.extend((self.removals[n] > 0).then_some(Remove(side)));
            if self.lazy {
                let (events, datagrams) = node.cm.has_more();
                actions.extend(events.then_some(Tell(side)));
                actions.extend(datagrams.then_some(Send(side)));
            }
            let bad = if self.faults > 0 { node.under_way.len() } else { 0 };
            actions.extend((!node.under_way.is_empty()).then_some(Arrive(side, 0)));
            actions.extend((1..bad).map(|n| Arrive(side, n)));
            actions.extend((0..bad).map(|n| Repeat(side, n)));
            actions.extend((bad > 0).then_some(Lose(side)));
        }
        let quiet = self.nodes.iter().all(|node| node.under_way.is_empty());
        let waits = !self.rules.prompt || self.first_op(&[Accept, Establish]).is_none();
        let may_pass = self.wake().is_some() && waits && (quiet || self.faults > 0);
        actions.extend(may_pass.then_some(Pass));
        actions
    }

    fn act(&mut self, action: Action) {
        let now = self.now;
        match action {
            Connect(side) => {
                let to = self.nodes[1 - side as usize].ip;
                self.nodes[side as usize].connect(now, self.rules.space, to);
            }
            Do(side, Destroy, n) => {
                let node = &mut self.nodes[side as usize];
                let id = node.ids()[n];
                node.destroy(now, id);
            }
            Do(side, op, n) => {
                let node = &mut self.nodes[side as usize];
                let id = node.ids()[n];
                self.hung_up |= op == Disconnect;
                assert!(node.make(now, op, id), "{op:?} is legal and is refused");
            }
            Arrive(side, nth) => {
                self.faults -= u8::from(nth > 0);
                self.arrive(side, nth, false);
            }
            Repeat(side, nth) => {
                self.faults -= 1;
                self.arrive(side, nth, true);
            }
            Lose(side) => {
                self.faults -= 1;
                self.nodes[side as usize].under_way.pop_front();
            }
            Pass => {
                let quiet = self.nodes.iter().all(|node| node.under_way.is_empty());
                self.faults -= u8::from(!quiet);
                self.now = self.wake().expect("somebody has a deadline").max(now);
            }
            Restart(side) => {
                let n = side as usize;
                self.restarts[n] -= 1;
                let memory = self.spare.pop().expect("one for each time");
                let mut node = Node::new(&self.rules, side, self.spare.len() as u64 + 1, memory);
                std::mem::swap(&mut node.under_way, &mut self.nodes[n].under_way);
                self.nodes[n] = node;
            }
            Remove(side) => {
                self.removals[side as usize] -= 1;
                let node = &mut self.nodes[side as usize];
                let event = PortEvent::DeviceRemoved { ca_guid: node.guid };
                assert!(node.cm.handle_port_event(now, event));
            }
            Tell(side) => {
                self.tell(side);
            }
            Send(side) => {
                self.send(side);
            }
        }
        self.drain();
    }

    fn digest(&self) -> u128 {
        self.picture().digest()
    }

    /// Engines, applications and peers agree; what is not legal, and what comes from elsewhere, changes
    /// nothing.
    fn check(&mut self) {
        let before = self.digest();
        assert!(self.wake().is_none_or(|at| at > self.now), "a deadline is due and is not handled");
        for node in &mut self.nodes {
            match node.cm.has_more() {
                (false, _) => node.cm.look(),
                (true, _) => node.cm.audit(),
            }
        }
        self.check_agreement();
        self.check_success(false);
        self.try_what_is_illegal();
        assert_eq!(self.digest(), before, "a refused call has changed something");
        let sides: &[Side] = if self.lazy { &[] } else { &[A, B] };
        for &side in sides {
            self.hear_strangers(side);
            assert_eq!(self.digest(), before, "a datagram from elsewhere has changed something");
        }
    }

    /// If nobody disturbs any more, every attempt ends: without the applications unless it waits for
    /// them, and then with their help. What they destroy leaves nothing behind.
    fn settle(&mut self) {
        self.lazy = false;
        self.drain();
        if self.rules.prompt {
            self.run(&[Accept, Establish], true);
            self.check_success(true);
        }
        self.run(&[], true);
        for (side, id, phase, conn) in self.everybody() {
            let waits = matches!(conn, ConnState::RepRcvd | ConnState::Established);
            let ended = !matches!(phase, Phase::Attempt | Phase::Standing);
            assert!(ended || waits, "{side:?}: {id:?} in {conn} does not end by itself");
        }
        self.run(&[Accept, Establish, Disconnect], true);
        for (side, id, phase, conn) in self.everybody() {
            let ended = !matches!(phase, Phase::Attempt | Phase::Standing);
            assert!(ended, "{side:?}: {id:?} in {conn} does not end");
        }
        for node in &mut self.nodes {
            node.cm.look();
            for id in node.ids() {
                node.destroy(self.now, id);
            }
        }
        self.drain();
        self.run(&[], true);
        for node in &mut self.nodes {
            node.cm.look();
            assert!(node.cm.is_clean(), "{:?} in use in the end", node.cm.in_use());
        }
    }

    fn describe(&self) -> String {
        let mut text = format!("{:>6} ms", self.now.as_nanos() / 1_000_000);
        for (side, id, phase, conn) in self.everybody() {
            if conn != ConnState::Idle || phase != Phase::None {
                let _ = write!(text, "; {side:?} {id:?} {conn} ({phase:?})");
            }
        }
        for (side, node) in [A, B].iter().zip(&self.nodes) {
            let names: Vec<_> = node.under_way.iter().map(name).collect();
            if !names.is_empty() {
                let _ = write!(text, "; to {side:?}: {}", names.join(" "));
            }
        }
        text
    }
}
