//! Two engines and their applications over a link that loses, repeats, reorders and alters messages;
//! one side may start anew.

use super::Input;
use super::addresses::{v4, v6};
use super::app::{Action, App, ELSEWHERE, Step, numbered};
use crate::addr::{Path, RocePath};
use crate::testing::{Capacity, Memory, STARTS};
use crate::wire::Mad;
use crate::{Config, ConnState, Instant};
use core::time::Duration;

numbered! {
    /// What the link and the clock can do.
    Link { Deliver Drop Repeat Edit Time Run Restart }
}

/// How often a side may start anew.
const RESTARTS: usize = 2;
/// Most datagrams under way; the oldest is lost then.
const MOST: usize = 32;

/// Whatever both applications and the link between them do: both engines keep what they promise
/// after every call; once the link is whole every attempt ends, and, if it always was, both sides agree
/// on what stands; then every connection ends; and nothing is left when all is destroyed.
pub fn pair(octets: &[u8]) {
    let mut input = Input::new(octets);
    let (settings, size) = (input.octet(), input.octet());
    let capacity = Capacity {
        ids: 8,
        conns: 1 + usize::from(size & 3),
        replies: 1 + usize::from(size >> 2 & 3),
        ports: 12,
        gids: 4,
        map: 8,
    };
    let seed = input.octet();
    let start = STARTS[input.below(STARTS.len())];
    let mut memories: [_; 2 + RESTARTS] = core::array::from_fn(|_| Memory::new(capacity));
    let mut engines = memories.iter_mut().enumerate().map(|(n, memory)| {
        let mut config = Config::new(u64::from(seed) << 8 | n as u64);
        config.port_range = (40_000, 40_007);
        config.timers.accept_deadline = Duration::from_secs(10);
        config.lenient = settings & 1 != 0;
        if settings & 4 != 0 {
            (config.half_open, config.half_open_per_source) = (2, 1);
            (config.answers_per_second, config.passive_retries) = (2, 0);
        }
        config.max_path_mtu = if settings & 2 != 0 && n & 1 == 1 { 2 } else { 5 };
        memory.engine(config).expect("sound capacities")
    });
    let mut app = |side: usize, now| {
        let (here, there) = ([1, 2][side], [[2, 1], [1, 2]][side]);
        engines.next().map(|cm| App::new(cm, now, here, there))
    };
    let apps = [0, 1].map(|side| app(side, start).expect("two engines and more"));
    let mut pair = Pair { apps, now: start, flights: Vec::new(), whole: true };
    while !input.is_empty() {
        let [what, who, a, b] = input.octets();
        let step = Step { what: what & 0x7f, who, a, b };
        let side = usize::from(what >> 7);
        if pair.step(side, step) == Some(Link::Restart)
            && let Some(app) = app(side, pair.now)
        {
            pair.apps[side] = app;
        }
        pair.send();
    }
    pair.heal();
}

struct Pair<'s> {
    apps: [App<'s>; 2],
    now: Instant,
    /// Under way.
    flights: Vec<(Path, Mad)>,
    /// Nothing was lost, altered, made up or late so far, only out of order or repeated. Who gives up
    /// while its messages are under way may leave the other side alone with a connection, as it does
    /// with Linux: nobody answers an RTU.
    whole: bool,
}

impl Pair<'_> {
    /// What the link did, if it did something.
    fn step(&mut self, side: usize, step: Step) -> Option<Link> {
        let Step { who, a, b, .. } = step;
        if step.what & ELSEWHERE == 0 {
            let action = Action::of(step.what);
            self.whole &= !matches!(action, Action::Notify | Action::Port | Action::SendFailed);
            self.apps[side].act(self.now, action, step);
            return None;
        }
        let link = Link::of(step.what);
        let flight = usize::from(who) % self.flights.len().max(1);
        match link {
            Link::Time => {
                self.wait(Duration::from_millis(1 << (a & 15) | u64::from(b)));
                self.whole = false;
            }
            Link::Run => self.run(usize::from(a)),
            Link::Restart => self.whole = false,
            _ if self.flights.is_empty() => {}
            Link::Deliver => self.deliver(flight),
            Link::Drop => self.lose(flight),
            Link::Repeat => {
                let copy = self.flights[flight];
                self.deliver(flight);
                self.flights.push(copy);
            }
            Link::Edit => {
                self.flights[flight].1[usize::from(a)] ^= b;
                self.whole = false;
            }
        }
        Some(link)
    }

    /// What both engines have to say is under way, what they have to tell is told.
    fn send(&mut self) {
        for side in 0..2 {
            self.apps[side].answer_all(self.now);
            self.apps[side].fetch_events(usize::MAX);
            while let Some(sent) = self.apps[side].fetch_datagram(self.now) {
                if self.flights.len() == MOST {
                    self.lose(0);
                }
                self.flights.push(sent);
            }
        }
    }

    /// A datagram arrives where it was sent to, if somebody is there.
    fn deliver(&mut self, flight: usize) {
        let (Path::Roce(path), mad) = self.flights[flight] else { return self.lose(flight) };
        let is_there = |app: &App<'_>| [v4(app.here), v6(app.here)].contains(&path.remote.to_ip());
        let Some(to) = self.apps.iter().position(is_there) else { return self.lose(flight) };
        self.flights.remove(flight);
        let back = Path::Roce(RocePath::new(path.remote, path.local));
        let _ = self.apps[to].cm.handle_datagram(self.now, &back, &mad);
    }

    fn lose(&mut self, flight: usize) {
        self.flights.remove(flight);
        self.whole = false;
    }

    /// Time passes, deadline by deadline; what is sent is under way.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.next_deadline().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.expire();
            self.send();
        }
        self.now = end;
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.apps.iter().filter_map(|app| app.cm.poll_at()).min()
    }

    fn expire(&mut self) {
        for app in &mut self.apps {
            while app.cm.handle_timeout(self.now, 16) {}
        }
    }

    /// So many datagrams arrive in order, and both applications do what is next with whatever waits.
    fn run(&mut self, most: usize) {
        for _ in 0..most {
            self.settle();
            if self.flights.is_empty() {
                return;
            }
            self.deliver(0);
            self.send();
        }
    }

    fn settle(&mut self) {
        for app in &mut self.apps {
            for id in app.live() {
                let _ = app.settle(self.now, id);
            }
        }
        self.send();
    }

    /// The link is whole for as long as anything can take.
    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.send();
            self.run(usize::MAX);
            let Some(at) = self.next_deadline().filter(|&at| at <= end) else { break };
            self.now = self.now.max(at);
            self.expire();
        }
        self.now = end;
    }

    /// Nothing is lost any more: all attempts end, then all connections, then everything.
    fn heal(mut self) {
        self.run_for(Duration::from_secs(600));
        self.assert_all(|state| {
            use ConnState::*;
            matches!(state, Idle | Established | RejSent | SidrResolved | SidrRepSent)
        });
        if self.whole && self.apps.iter().all(|app| app.cm.counters().farewells_dropped == 0) {
            self.assert_agreed();
        }
        for app in &mut self.apps {
            for id in app.live() {
                let _ = app.cm.disconnect(self.now, id, &[]);
            }
        }
        self.run_for(Duration::from_secs(600));
        self.assert_all(|state| state != ConnState::Established);
        for app in &mut self.apps {
            app.destroy_all(self.now);
        }
        self.run_for(Duration::from_secs(600));
        for app in &self.apps {
            assert!(app.cm.is_clean(), "something is left: {:?}", app.cm.in_use());
        }
    }

    /// What stands for one side stands for the other.
    fn assert_agreed(&self) {
        let mut ends = Vec::new();
        for app in &self.apps {
            for id in app.live() {
                if app.cm.conn_state(id) == Ok(ConnState::Established) {
                    let (ours, theirs) = (app.cm.local_addr(id), app.cm.peer_addr(id));
                    ends.push((ours.expect("it lives"), theirs.expect("it lives")));
                }
            }
        }
        let mut others: Vec<_> = ends.iter().map(|&(ours, theirs)| (theirs, ours)).collect();
        ends.sort();
        others.sort();
        assert_eq!(ends, others, "what stands on one side alone");
    }

    fn assert_all(&self, is_over: fn(ConnState) -> bool) {
        for app in &self.apps {
            for id in app.live() {
                let state = app.cm.conn_state(id).expect("it lives");
                assert!(is_over(state), "{id:?} of {} stays in {state}", app.here);
            }
        }
    }
}
