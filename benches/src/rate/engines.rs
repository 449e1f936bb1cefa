//! Two driverless engines over the `udp` provider: one connects and disconnects, the other accepts.

use super::{IN_FLIGHT, Result};
use nanocm::provider::Udp;
use nanocm::{
    Backend, Capacity, Config, ConnParam, Engine, EventKind, PortSpace, Told, random_seed,
};
use nanocm_core::Id;
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// Room for all that is in timewait: half a second's worth.
const CONNS: usize = 25_000;
/// As many connections as A has numbers towards B, and as take turns.
const IDS: usize = CONNS - 100;
const PORT: u16 = 7471;
/// If nothing moves for so long, something is broken.
const STUCK: Duration = Duration::from_secs(10);

/// The two, connected by the kernel's loopback.
pub(super) struct Engines {
    a: End,
    b: End,
    /// Identifiers of A with a route, ready to connect.
    idle: VecDeque<Id>,
}

/// An engine and what it told.
struct End {
    engine: Engine<Udp>,
    told: Vec<Told>,
    qpn: u32,
}

impl Engines {
    /// Both engines, a listener, identifiers with routes. Nothing of it is timed.
    pub(super) fn new() -> Result<Engines> {
        let (ip_a, ip_b) = (Ipv4Addr::new(127, 0, 0, 1), Ipv4Addr::new(127, 0, 0, 2));
        let (mut a, mut b) = (End::new(ip_a.into())?, End::new(ip_b.into())?);
        let to = SocketAddr::new(ip_b.into(), PORT);
        let listener = b.engine.create_id(PortSpace::Tcp, 0)?;
        b.engine.bind(listener, to)?;
        b.engine.listen(listener, 0)?;

        let from = SocketAddr::new(ip_a.into(), 0);
        let mut idle = VecDeque::with_capacity(IDS);
        for _ in 0..IDS {
            let id = a.engine.create_id(PortSpace::Tcp, 0)?;
            a.engine.resolve_addr(id, Some(from), to, STUCK)?;
        }
        while idle.len() < IDS {
            a.turn()?;
            for told in a.told.split_off(0) {
                match told.event.kind {
                    EventKind::AddrResolved => a.engine.resolve_route(told.event.id, STUCK)?,
                    EventKind::RouteResolved => idle.push_back(told.event.id),
                    other => return unexpected(other),
                }
            }
        }
        Ok(Engines { a, b, idle })
    }

    /// So many connections come and go.
    pub(super) fn run(&mut self, rounds: usize) -> Result<()> {
        let (mut begun, mut ended) = (0, 0);
        let mut moved = Instant::now();
        while ended < rounds {
            while begun < rounds
                && begun - ended < IN_FLIGHT
                && let Some(id) = self.idle.pop_front()
            {
                let param = ConnParam::new(self.a.next_qpn());
                self.a.engine.connect(id, &param)?;
                begun += 1;
            }
            self.a.turn()?;
            let before = ended;
            for told in self.a.told.split_off(0) {
                let id = told.event.id;
                match told.event.kind {
                    EventKind::ConnectResponse { .. } => self.a.engine.establish(id, &[])?,
                    EventKind::Established => self.a.engine.disconnect(id, &[])?,
                    EventKind::Disconnected(_) => ended += 1,
                    EventKind::TimewaitExit => {
                        self.a.engine.reset(id)?;
                        self.idle.push_back(id);
                    }
                    other => return unexpected(other),
                }
            }
            self.serve()?;
            if ended > before {
                moved = Instant::now();
            } else if moved.elapsed() > STUCK {
                return Err(io::Error::other(format!("stuck after {ended} rounds")).into());
            }
        }
        Ok(())
    }

    /// B's part: accepts whoever asks, ends what the peer ends.
    fn serve(&mut self) -> Result<()> {
        let b = &mut self.b;
        b.turn()?;
        for told in b.told.split_off(0) {
            let id = told.event.id;
            match told.event.kind {
                EventKind::ConnectRequest { .. } => {
                    let param = ConnParam::new(b.next_qpn());
                    b.engine.accept(id, &param)?;
                }
                EventKind::Established => {}
                EventKind::Disconnected(_) => b.engine.disconnect(id, &[])?,
                EventKind::TimewaitExit => b.engine.destroy(id)?,
                other => return unexpected(other),
            }
        }
        Ok(())
    }
}

impl End {
    fn new(ip: IpAddr) -> Result<End> {
        let config = Config::new(random_seed().map_err(|error| error.cause)?);
        let transport = Udp::new((0, 0))?;
        let mut engine = Engine::new(transport, config, Capacity::of(CONNS))?;
        engine.open(ip, 0)?;
        Ok(End { engine, told: Vec::new(), qpn: 0 })
    }

    fn turn(&mut self) -> Result<()> {
        match self.engine.turn(&mut |told| self.told.push(told)).fault {
            Some(fault) => Err(fault.into()),
            None => Ok(()),
        }
    }

    /// A queue pair that is not in use: there are more numbers than connections.
    fn next_qpn(&mut self) -> u32 {
        self.qpn = self.qpn % 0xff_ffff + 1;
        self.qpn
    }
}

fn unexpected<T>(event: EventKind) -> Result<T> {
    Err(io::Error::other(format!("an event nobody expects: {event:?}")).into())
}
