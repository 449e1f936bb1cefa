//! One side of a pair: an engine, its application and host, and what is under way to it.

use crate::rules::{Op, Op::*, PORT, Rules};
use nanocm_core::addr::ScopedIp;
use nanocm_core::testing::{Memory, Side, Watch};
use nanocm_core::wire::Mad;
use nanocm_core::{
    Config, ConnParam, ConnState, Gid, Id, Instant, Path, PortEvent, PortSpace, RocePath, Route,
    State,
};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// One side.
pub(crate) struct Node<'m> {
    pub(crate) cm: Watch<'m>,
    pub(crate) ip: IpAddr,
    pub(crate) guid: u64,
    pub(crate) connects: u8,
    /// How often it has accepted.
    pub(crate) accepts: u32,
    /// Identifiers that are destroyed.
    pub(crate) stale: Vec<Id>,
    /// Datagrams under way to this side.
    pub(crate) under_way: VecDeque<Mad>,
}

impl<'m> Node<'m> {
    /// A new engine that listens. Its n-th one has another seed, and the same numbers otherwise.
    pub(crate) fn new(rules: &Rules, side: Side, nth: u64, memory: &'m mut Memory) -> Node<'m> {
        let last = 1 + side as u8;
        let (ip, guid) = (IpAddr::from([10, 0, 0, last]), u64::from(last));
        let mut config = Config::new(guid + 0x10 * nth);
        config.port_range = (40_000, 40_015);
        config.answers_per_second = 0;
        config.timers.first_retry = beats(1);
        config.timers.put_off = Duration::ZERO;
        config.timers.sidr_first_retry = beats(1);
        config.timers.deadline = beats(4);
        config.timers.accept_deadline = beats(2) - Duration::from_micros(600); // also a code of MRA's
        config.timers.max_wait = beats(14);
        let mut cm = Watch::new(memory.engine(config).expect("sound capacities"));
        cm.look_away();
        let address = ScopedIp::new(Gid::from_ip(ip), 0);
        let event = PortEvent::GidAdded { address, ca_guid: guid };
        assert!(cm.handle_port_event(Instant::ZERO, event));
        let listener = cm.create_id(rules.space, 0).expect("an empty table");
        cm.bind(listener, SocketAddr::new(ip, PORT)).expect("a free port");
        cm.listen(listener, rules.room.1).expect("it is bound");
        let (stale, under_way) = (Vec::new(), VecDeque::new());
        let connects = rules.connects[side as usize];
        Node { cm, ip, guid, connects, accepts: 0, stale, under_way }
    }

    /// Connects to the other side, if there is room, each time from a port and queue pair of its own;
    /// with an identifier that is ready to begin anew, if there is one.
    pub(crate) fn connect(&mut self, now: Instant, space: PortSpace, to: IpAddr) {
        let n = u16::from(self.connects);
        let mut param = ConnParam::new(self.next_queue_pairs()[0]);
        param.retries = Some(1);
        self.connects -= 1;
        let begins_anew = |id: &Id| self.cm.state(*id) == Ok(State::RouteResolved);
        if let Some(id) = self.ids().into_iter().find(begins_anew) {
            return self.cm.connect(now, id, &param).expect("it has a route");
        }
        let Ok(id) = self.cm.create_id(space, 0) else { return };
        let mut route = Route::new(Path::Roce(RocePath::new(self.ip.into(), to.into())));
        route.packet_lifetime = 17; // timewait lasts a beat
        let bound = self.cm.bind(id, SocketAddr::new(self.ip, 5000 + n)).is_ok();
        let to = SocketAddr::new(to, PORT);
        let routed = bound && self.cm.set_route(now, id, to, &route).is_ok();
        if !routed || self.cm.connect(now, id, &param).is_err() {
            self.destroy(now, id);
        }
    }

    /// With which queue pairs it will connect and accept: others each time, and the same again when it
    /// begins anew.
    pub(crate) fn next_queue_pairs(&self) -> [u32; 2] {
        let ours = 0x1000 * self.guid as u32;
        [ours + 0x10 + u32::from(self.connects), ours + 0x100 + self.accepts]
    }

    /// False if it is refused.
    pub(crate) fn make(&mut self, now: Instant, op: Op, id: Id) -> bool {
        let [_, qpn] = self.next_queue_pairs();
        let done = op.make(&mut self.cm, now, id, qpn);
        self.accepts += u32::from(done && op == Accept);
        done
    }

    pub(crate) fn destroy(&mut self, now: Instant, id: Id) {
        self.cm.destroy(now, id).expect("one of ours");
        self.stale.push(id);
    }

    pub(crate) fn ids(&self) -> Vec<Id> {
        self.cm.known().map(|(id, _)| id).collect()
    }

    pub(crate) fn conn(&self, id: Id) -> ConnState {
        self.cm.conn_state(id).unwrap_or_default()
    }
}

/// Time goes by beats, so that deadlines coincide and there are few moments to tell apart: 1074 ms,
/// which is what code 18 (4.096 µs · 2¹⁸) is in whole milliseconds.
const fn beats(n: u64) -> Duration {
    Duration::from_millis(1074 * n)
}
