//! The main loop, and all memory: a `static` that is all zero bits.
//!
//! The loop is the contract on the core's front page, to the letter: after any `handle_*` or operation every `poll_*` is
//! drained until a full pass yields nothing; then it sleeps until `poll_at`.

use crate::board::Board;
use crate::control;
use crate::host::{Host, HostMemory, Port, Slots};
use crate::neighbours::Neighbours;
use crate::roce::{Frames, Taken, Wire};
use crate::service::Service;
use crate::text::Text;
use core::mem::size_of;
use core::net::{IpAddr, Ipv4Addr};
use nanocm_core::port::map_words;
use nanocm_core::wire::{MAD_LEN, Mad};
use nanocm_core::{Cm, Config, Instant, Path, PortEvent, ScopedIp, Storage};
use smoltcp::wire::{EthernetAddress, Ipv4Cidr};

/// How many connections: 8, or as the environment said when this was built.
const CONNECTIONS: usize = match option_env!("APPLIANCE_CONNECTIONS") {
    Some(digits) => parse(digits.as_bytes()),
    None => 8,
};
/// Two of them listen.
const IDS: usize = CONNECTIONS + 2;
/// Where "any free port" is looked for.
const PORT_RANGE: (u16, u16) = (49_152, 49_407);

/// Answers to strangers in a second: who sends in another's name must not make us send much.
const ANSWERS: u32 = 100;

/// Identifiers, connections, answers to strangers, port records, addresses, words of a port map.
type Engine = Storage<IDS, CONNECTIONS, 8, 8, 1, { map_words(256) }>;

/// Frames handled before timers have their turn.
const BURST: usize = 32;
/// Expired deadlines handled before frames have theirs.
const TIMEOUTS: usize = 4;
/// The longest frame, without its FCS.
const FRAME: usize = 1514;

/// All of the appliance's memory.
pub struct Memory {
    engine: Engine,
    host: HostMemory,
    received: [u8; FRAME],
    sent: [u8; FRAME],
}

impl Memory {
    /// All zero bits.
    pub const fn new() -> Memory {
        Memory {
            engine: Engine::new(),
            host: HostMemory::new(),
            received: [0; FRAME],
            sent: [0; FRAME],
        }
    }
}

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

/// What differs from one appliance to another.
pub struct Settings {
    /// Our address.
    pub address: Ipv4Addr,
    /// How many bits of it name the network.
    pub prefix: u8,
    /// Our Ethernet address.
    pub mac: [u8; 6],
    /// A secret number that never repeats, over resets too.
    pub seed: u64,
    /// Where queue pair numbers start: elsewhere after each reset, since peers take an old one for an old connection. Not
    /// made of the seed, for peers see it.
    pub first_qpn: u32,
}

/// RAM for the engine.
pub(crate) const ENGINE_OCTETS: usize = size_of::<Engine>() + size_of::<Cm<'_>>();

/// How long from a REQ that came to the REP that answers it, in nanoseconds by the board's clock.
#[derive(Default)]
pub(crate) struct Spans {
    pub(crate) count: u32,
    pub(crate) last: u32,
    pub(crate) worst: u32,
}

impl Spans {
    fn note(&mut self, span: u32) {
        self.count = self.count.wrapping_add(1);
        self.last = span;
        self.worst = self.worst.max(span);
    }
}

/// The engine, and what is around it.
pub(crate) struct App<'a, 'm> {
    pub(crate) cm: &'a mut Cm<'m>,
    pub(crate) service: Service,
    pub(crate) wire: Wire,
    pub(crate) spans: Spans,
    pub(crate) quit: bool,
}

/// Runs until the control port says `quit`. False if the settings make no sense.
pub fn run<B: Board>(board: &mut B, memory: &mut Memory, settings: &Settings) -> bool {
    let Memory { engine, host, received, sent } = memory;
    let us = (settings.address, EthernetAddress(settings.mac));
    if us.0.is_unspecified()
        || us.0.is_multicast()
        || us.0.is_broadcast()
        || !us.1.is_unicast()
        || settings.prefix > 32
    {
        return false;
    }
    let mut config = Config::new(settings.seed);
    config.port_range = PORT_RANGE;
    config.answers_per_second = ANSWERS;
    let mut made = Cm::new(engine.parts(), config);
    // By reference: an engine that moves is on the stack twice.
    let Ok(cm) = &mut made else { return false };
    let address = ScopedIp { gid: IpAddr::V4(settings.address).into(), scope: 0 };
    let event = PortEvent::GidAdded { address, ca_guid: eui_64(settings.mac) };
    if !cm.handle_port_event(board.now(), event) {
        return false;
    }
    let service = Service::start(cm, us.0, settings.prefix, settings.first_qpn);
    let Some(service) = service else { return false };
    let network = Ipv4Cidr::new(settings.address, settings.prefix);
    let wire =
        Wire { us, neighbours: Neighbours::new(network), frames: Frames::default(), reps: 0 };
    let mut app = App { cm, service, wire, spans: Spans::default(), quit: false };
    let mut slots = Slots::new();
    let mut host = Host::new(host, &mut slots, network, us.1, Port::idle(board, sent));
    app.drain(board.now(), board);

    while !app.quit {
        // What has come in.
        let mut frames = 0;
        while frames < BURST {
            let came = board.now();
            let Some(length) = board.receive(received) else { break };
            frames += 1;
            let reps = app.wire.reps;
            let frame = received.get(..length).unwrap_or_default();
            match app.wire.take(app.cm, came, frame) {
                Taken::Done => {}
                taken => {
                    if let Taken::Neighbour(who) = taken {
                        app.service.found(app.cm, came, who);
                    }
                    let port = Port { board, frame: Some(frame), out: sent };
                    host.take(came, port, |command, answer, board| {
                        control::obey(&mut app, board, came, command, answer)
                    });
                }
            }
            app.drain(came, board);
            if app.wire.reps != reps {
                app.spans.note(board.now().saturating_since(came).as_nanos() as u32);
            }
        }
        // What is due.
        let now = board.now();
        let more =
            app.cm.poll_at().is_some_and(|at| at <= now) && app.cm.handle_timeout(now, TIMEOUTS);
        app.drain(now, board);
        host.send(now, Port::idle(board, sent));
        // Nothing to do.
        if frames < BURST && !more {
            let until = [app.cm.poll_at(), app.service.poll_at(), host.poll_at(now)];
            board.sleep(until.into_iter().flatten().min());
        }
    }
    say_goodbye(&app, board, sent);
    true
}

impl App<'_, '_> {
    /// Everything that the engine has to say, until it has nothing more to say.
    fn drain<B: Board>(&mut self, now: Instant, board: &mut B) {
        let mut mad: Mad = [0; MAD_LEN];
        loop {
            let mut quiet = true;
            while let Some(event) = self.cm.poll_event() {
                self.service.on_event(self.cm, now, event);
                quiet = false;
            }
            while let Some((id, request)) = self.cm.poll_request() {
                self.service.on_request(self.cm, now, id, request);
                quiet = false;
            }
            if let Some(whose) = self.service.due(now) {
                self.wire.ask(board, whose);
                quiet = false;
            }
            while let Some(transmit) = self.cm.poll_transmit(now, &mut mad) {
                if let Path::Roce(path) = &transmit.path {
                    self.wire.send(board, path, &mad);
                }
                quiet = false;
            }
            if quiet {
                return;
            }
        }
    }
}

/// A CA GUID: stable over resets, and nobody else's.
fn eui_64([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// The report, line by line, for whoever debugs the board.
fn say_goodbye<B: Board>(app: &App<'_, '_>, board: &mut B, buffer: &mut [u8]) {
    let mut text = Text::new(buffer);
    control::report(app, board, &mut text);
    let length = text.length();
    let report = buffer.get(..length).and_then(|report| core::str::from_utf8(report).ok());
    for line in report.unwrap_or_default().lines() {
        board.print(line);
    }
}

/// A decimal number, when the appliance is built.
const fn parse(digits: &[u8]) -> usize {
    let (mut number, mut i) = (0, 0);
    while i < digits.len() {
        assert!(digits[i].is_ascii_digit(), "APPLIANCE_CONNECTIONS is not a number");
        number = number * 10 + (digits[i] - b'0') as usize;
        i += 1;
    }
    number
}
