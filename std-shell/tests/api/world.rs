//! Two connection managers on an in-process network.

use crate::common::eventually;
use crate::slow::Slow;
use nanocm::provider::{LinkFaults, MadTransport, Mem, MemNet};
use nanocm::{
    Capacity, Cm, Config, ConnParam, Connection, Deadline, Drive, Engine, Event, EventChannel,
    EventKind, Id, InUse, Listener, PortSpace, Request,
};
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::Duration;

pub(crate) const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
pub(crate) const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
/// An address that exists and answers nothing.
pub(crate) const SILENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));
pub(crate) const PORT: u16 = 4420;

/// Who tests; both ways must work alike.
pub(crate) const DRIVES: [Drive; 2] = [Drive::Thread, Drive::Caller];

/// One driven by threads, one that is not.
pub(crate) fn worlds() -> [World; 2] {
    DRIVES.map(World::new)
}

pub(crate) struct World {
    pub(crate) net: MemNet,
    pub(crate) client: Cm,
    pub(crate) server: Cm,
    pub(crate) drive: Drive,
    /// Holds its address, and never reads.
    _silent: Mem,
}

impl World {
    pub(crate) fn new(drive: Drive) -> World {
        World::with(drive, |_| {})
    }

    /// With another configuration than [`quick`].
    pub(crate) fn with(drive: Drive, adjust: impl Fn(&mut Config)) -> World {
        World::of(drive, |endpoint, mut config| {
            adjust(&mut config);
            Cm::over(endpoint, config, Capacity::of(1024), drive).unwrap()
        })
    }

    /// Driverless, with backends that take their time.
    pub(crate) fn slow() -> World {
        World::of(Drive::Caller, |endpoint, config| {
            let engine = Engine::new(endpoint, config, Capacity::of(16)).unwrap();
            Cm::with_backend(Box::new(Slow::new(engine)), Drive::Caller).unwrap()
        })
    }

    pub(crate) fn of(drive: Drive, cm: impl Fn(Mem, Config) -> Cm) -> World {
        let net = MemNet::new(7);
        let client = cm(net.endpoint(&[CLIENT]).unwrap(), quick(1));
        let server = cm(net.endpoint(&[SERVER]).unwrap(), quick(2));
        let mut silent = net.endpoint(&[SILENT]).unwrap();
        silent.open(SILENT, 0).unwrap();
        World { net, client, server, drive, _silent: silent }
    }

    /// Loses all messages from now on.
    pub(crate) fn cut(&self) {
        self.net.set_faults(LinkFaults { loss: 1000, ..LinkFaults::default() });
    }

    /// Loses none from now on.
    pub(crate) fn mend(&self) {
        self.net.set_faults(LinkFaults::default());
    }

    pub(crate) fn listen(&self) -> Listener {
        self.server.listen(at(SERVER), 0).unwrap()
    }

    pub(crate) fn connect(&self) -> Connection {
        self.client.connect(at(SERVER), soon()).unwrap()
    }

    /// A connection, from both ends.
    pub(crate) fn meet(&self) -> (Connection, Connection) {
        let listener = self.listen();
        thread::scope(|scope| {
            let server = scope.spawn(|| accept(request(&listener)));
            (self.connect(), server.join().unwrap())
        })
    }

    /// An identifier of the client that asks the server to connect.
    pub(crate) fn ask(&self, channel: &EventChannel) -> Id {
        let id = routed(&self.client, channel, at(SERVER));
        id.connect(&ConnParam::new(self.client.next_qpn())).unwrap();
        id
    }

    /// Nothing is left on either side, within a moment.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        for cm in [&self.client, &self.server] {
            eventually("nothing is in use", || {
                self.drive();
                cm.in_use() == InUse::default()
            });
        }
    }

    /// For who drives themselves; harmless otherwise.
    pub(crate) fn drive(&self) {
        self.client.drive().unwrap();
        self.server.drive().unwrap();
    }
}

/// Retransmissions after 50 ms.
pub(crate) fn quick(seed: u64) -> Config {
    let mut config = Config::new(seed);
    config.timers.first_retry = Duration::from_millis(50);
    config
}

pub(crate) fn at(ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, PORT)
}

/// Long enough on a slow machine.
pub(crate) fn soon() -> Deadline {
    Deadline::after_secs(20)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// The next request, which must come.
#[track_caller]
pub(crate) fn request(listener: &Listener) -> Request {
    listener.request(soon()).unwrap().expect("a request")
}

#[track_caller]
pub(crate) fn accept(request: Request) -> Connection {
    request.accept(&ConnParam::new(0x5000), soon()).unwrap()
}

/// The next event, which must come.
#[track_caller]
pub(crate) fn next(channel: &EventChannel) -> Event {
    channel.next(soon()).unwrap().expect("an event")
}

/// The next event, which must be this one.
#[track_caller]
pub(crate) fn expect(channel: &EventChannel, name: &str) -> Event {
    let event = next(channel);
    assert_eq!(event.kind.name(), name, "{event:?}");
    event
}

/// A new identifier with a route to a peer.
#[track_caller]
pub(crate) fn routed(cm: &Cm, channel: &EventChannel, peer: SocketAddr) -> Id {
    let id = cm.create_id(channel, PortSpace::Tcp).unwrap();
    id.resolve_addr(None, peer, Duration::from_secs(10)).unwrap();
    assert_eq!(expect(channel, "ADDR_RESOLVED").id, id.handle());
    id.resolve_route(Duration::from_secs(10)).unwrap();
    assert_eq!(expect(channel, "ROUTE_RESOLVED").id, id.handle());
    id
}

/// A request as an event, taken apart.
#[track_caller]
pub(crate) fn expect_request(channel: &EventChannel) -> Id {
    let event = expect(channel, "CONNECT_REQUEST");
    assert!(matches!(event.kind, EventKind::ConnectRequest { .. }));
    event.request.expect("a new identifier")
}
