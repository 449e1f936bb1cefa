//! Two engines that talk to each other, call by call, so that each call can be counted.

use crate::count::count;
use nanocm_core::wire::Mad;
use nanocm_core::{
    Capacity, Cm, Config, ConnParam, Event, EventKind, Gid, Id, Instant, Memory, Outcome, Path,
    PortEvent, PortSpace, RocePath, Route, ScopedIp, Transmit,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The active side's address.
pub(crate) const A: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// The passive side's address.
pub(crate) const B: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

/// The ports that B listens on. Several, because A has only 28,232 numbers towards each.
const PORTS: [u16; 5] = [7471, 7472, 7473, 7474, 7475];

/// Whether calls are counted or just made.
pub(crate) struct Meter {
    on: bool,
    /// Calls and their counts, in order.
    pub(crate) calls: Vec<(&'static str, u64)>,
}

impl Meter {
    /// Counts.
    pub(crate) fn on() -> Meter {
        Meter { on: true, calls: Vec::new() }
    }

    /// Makes the calls at full speed.
    pub(crate) fn off() -> Meter {
        Meter { on: false, calls: Vec::new() }
    }

    /// Makes a call.
    pub(crate) fn call<R>(&mut self, name: &'static str, call: impl FnOnce() -> R) -> R {
        if !self.on {
            return call();
        }
        let (result, steps) = count(call);
        self.calls.push((name, steps));
        result
    }

    /// All calls together, but for those with one of these names.
    pub(crate) fn total_without(&self, names: &[&str]) -> u64 {
        self.calls.iter().filter(|(name, _)| !names.contains(name)).map(|(_, steps)| steps).sum()
    }

    /// All calls with one of these names.
    pub(crate) fn total_of(&self, names: &[&str]) -> u64 {
        self.calls.iter().filter(|(name, _)| names.contains(name)).map(|(_, steps)| steps).sum()
    }
}

/// Memory for the two.
pub(crate) struct Memories([Memory; 2]);

impl Memories {
    /// For so many connections.
    pub(crate) fn new(conns: usize) -> Memories {
        let capacity = Capacity { ids: conns + PORTS.len(), ..Capacity::of(conns) };
        Memories([Memory::new(capacity), Memory::new(capacity)])
    }
}

/// The two engines.
pub(crate) struct World<'m> {
    /// 10.0.0.1, which connects.
    pub(crate) a: Cm<'m>,
    /// 10.0.0.2, which listens.
    pub(crate) b: Cm<'m>,
    /// The time, which stands still unless moved.
    pub(crate) now: Instant,
    /// Every message that travelled.
    pub(crate) sent: Vec<Mad>,
    keep_sent: bool,
    serial: u32,
    private_data: bool,
}

impl<'m> World<'m> {
    /// Engines with an address each, and listeners.
    pub(crate) fn new(memories: &'m mut Memories) -> World<'m> {
        let [a, b] = &mut memories.0;
        let now = Instant::from_millis(1000);
        let (a, mut b) = (engine(a, A, now, |_| {}), engine(b, B, now, |_| {}));
        for port in PORTS {
            let id = b.create_id(PortSpace::Tcp, 0).expect("room for a listener");
            b.bind(id, SocketAddr::new(B, port)).expect("a free port");
            b.listen(id, u32::MAX).expect("a bound identifier");
        }
        World { a, b, now, sent: Vec::new(), keep_sent: false, serial: 0, private_data: false }
    }

    /// Fills every message with as much private data as it takes, and keeps what is sent.
    pub(crate) fn with_private_data(&mut self, full: bool) -> &mut Self {
        self.private_data = full;
        self.keep_sent = true;
        self.sent.clear();
        self
    }

    /// Opens a connection: its identifiers.
    pub(crate) fn connect(&mut self, meter: &mut Meter) -> (Id, Id) {
        self.serial += 1;
        let (serial, now) = (self.serial, self.now);
        let to = SocketAddr::new(B, PORTS[serial as usize % PORTS.len()]);
        let route = Route::new(Path::Roce(RocePath::new(A.into(), B.into())));

        let active = meter.call("create_id", || self.a.create_id(PortSpace::Tcp, 0)).unwrap();
        meter.call("set_route", || self.a.set_route(now, active, to, &route)).unwrap();
        let mut param = ConnParam::new(serial & 0xff_ffff);
        param.private_data = self.data(56);
        meter.call("connect", || self.a.connect(now, active, &param)).unwrap();
        self.drain_a(meter);
        let passive = match self.drain_b(meter) {
            Some((id, EventKind::ConnectRequest { .. })) => id,
            other => panic!("B should have a request, not {other:?}"),
        };
        param.private_data = self.data(196);
        meter.call("accept", || self.b.accept(now, passive, &param)).unwrap();
        self.drain_b(meter);
        let told = self.drain_a(meter);
        assert!(matches!(told, Some((id, EventKind::ConnectResponse { .. })) if id == active));
        let data = self.data(224);
        meter.call("establish", || self.a.establish(now, active, data)).unwrap();
        assert_eq!(self.drain_a(meter), Some((active, EventKind::Established)));
        assert_eq!(self.drain_b(meter), Some((passive, EventKind::Established)));
        (active, passive)
    }

    /// Ends a connection, begun by the active side, up to timewait.
    pub(crate) fn disconnect(&mut self, meter: &mut Meter, (active, passive): (Id, Id)) {
        let (now, data) = (self.now, self.data(220));
        meter.call("disconnect", || self.a.disconnect(now, active, data)).unwrap();
        self.drain_a(meter);
        let told = self.drain_b(meter);
        assert!(matches!(told, Some((id, EventKind::Disconnected(_))) if id == passive));
        let data = self.data(224);
        meter.call("disconnect", || self.b.disconnect(now, passive, data)).unwrap();
        self.drain_b(meter);
        let told = self.drain_a(meter);
        assert!(matches!(told, Some((id, EventKind::Disconnected(_))) if id == active));
    }

    /// Time passes until the queue pairs of an ended connection can be used again.
    pub(crate) fn end_timewait(&mut self, meter: &mut Meter) {
        self.now = self.now + Duration::from_secs(10);
        let now = self.now;
        for cm in [&mut self.a, &mut self.b] {
            let more = meter.call("handle_timeout", || cm.handle_timeout(now, 1));
            assert!(!more);
            let event = meter.call("poll_event", || cm.poll_event());
            assert!(matches!(event, Some(Event { kind: EventKind::TimewaitExit, .. })));
        }
    }

    /// Gives an identifier of A a route, asked of the host.
    pub(crate) fn resolve(&mut self, meter: &mut Meter) {
        const ASK: Duration = Duration::from_secs(1);
        let (now, to) = (self.now, SocketAddr::new(B, PORTS[0]));
        let path = Path::Roce(RocePath::new(A.into(), B.into()));
        let id = self.a.create_id(PortSpace::Tcp, 0).unwrap();
        meter.call("resolve_addr", || self.a.resolve_addr(now, id, None, to, ASK)).unwrap();
        self.answer(meter, Outcome::AddrResolved { path });
        meter.call("resolve_route", || self.a.resolve_route(now, id, ASK)).unwrap();
        self.answer(meter, Outcome::RouteResolved { route: Route::new(path) });
    }

    fn answer(&mut self, meter: &mut Meter, outcome: Outcome) {
        let now = self.now;
        let (request, _) = meter.call("poll_request", || self.a.poll_request()).unwrap();
        meter
            .call("handle_completion", || self.a.handle_completion(now, request, outcome))
            .unwrap();
        while self.a.poll_event().is_some() {}
    }

    /// Destroys both identifiers.
    pub(crate) fn destroy(&mut self, meter: &mut Meter, (active, passive): (Id, Id)) {
        let now = self.now;
        let _ = meter.call("destroy", || self.a.destroy(now, active)).unwrap();
        let _ = meter.call("destroy", || self.b.destroy(now, passive)).unwrap();
    }

    /// Polls A until nothing comes, hands B what it sends; the last event.
    fn drain_a(&mut self, meter: &mut Meter) -> Option<(Id, EventKind)> {
        let keep = self.keep_sent.then_some(&mut self.sent);
        drain(meter, &mut self.a, &mut self.b, self.now, keep)
    }

    /// The same the other way.
    fn drain_b(&mut self, meter: &mut Meter) -> Option<(Id, EventKind)> {
        let keep = self.keep_sent.then_some(&mut self.sent);
        drain(meter, &mut self.b, &mut self.a, self.now, keep)
    }

    fn data(&self, len: usize) -> &'static [u8] {
        if self.private_data { &DATA[..len] } else { &[] }
    }
}

static DATA: [u8; 256] = {
    let mut data = [0; 256];
    let mut i = 0;
    while i < data.len() {
        data[i] = i as u8 | 1;
        i += 1;
    }
    data
};

/// An engine with one address and room for whatever `memory` is for.
pub(crate) fn engine(
    memory: &mut Memory,
    ip: IpAddr,
    now: Instant,
    adjust: impl Fn(&mut Config),
) -> Cm<'_> {
    let mut config = Config::new(0x5eed);
    adjust(&mut config);
    let mut cm = memory.engine(config).expect("capacities that work");
    let address = ScopedIp { gid: Gid::from_ip(ip), scope: 0 };
    let ca_guid = ca_guid(ip);
    assert!(cm.handle_port_event(now, PortEvent::GidAdded { address, ca_guid }));
    cm
}

/// The CA GUID that an engine at this address speaks with.
pub(crate) fn ca_guid(ip: IpAddr) -> u64 {
    0x0200_0000_0000_0000 | u64::from(Gid::from_ip(ip).0[15])
}

/// What a driver does after each `handle_*` and operation: polls until nothing comes.
fn drain(
    meter: &mut Meter,
    from: &mut Cm<'_>,
    to: &mut Cm<'_>,
    now: Instant,
    mut keep: Option<&mut Vec<Mad>>,
) -> Option<(Id, EventKind)> {
    let mut last = None;
    while let Some(event) = meter.call("poll_event", || from.poll_event()) {
        last = Some((event.id, event.kind));
    }
    let mut mad = [0; 256];
    while let Some(Transmit { path, .. }) =
        meter.call("poll_transmit", || from.poll_transmit(now, &mut mad))
    {
        let Path::Roce(path) = path else { panic!("paths here are RoCE's") };
        let path = Path::Roce(RocePath::new(path.remote, path.local));
        if let Some(keep) = &mut keep {
            keep.push(mad);
        }
        let _ = meter.call("handle_datagram", || to.handle_datagram(now, &path, &mad));
    }
    last
}
