//! What holding a number of the host's costs, against bare sockets: one that is given, and any.

use crate::report::Report;
use nanocm::host_ports::{HostPorts, Reservation, Space};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The rate of reserve + release, as a part of that of socket + bind + close.
const RATIO: f64 = 0.8;

/// Numbers in a run, and how many runs of each kind take turns.
const ROUNDS: u32 = 5_000;
const PAIRS: usize = 15;

/// Measures and reports, in a network namespace of its own, if there can be one.
pub fn host_ports(report: &mut Report) {
    report.section("a number of the host's TCP ports");
    if let Err(error) = nanocm::netns::isolate() {
        report.note(format!("no network namespace ({error}): TCP port 5001 must be free"));
    }
    let ports = HostPorts::default();
    let explicit = SocketAddr::from(([127, 0, 0, 1], 5001));
    let bare = || drop(socket(explicit));
    let reserve = || drop(ports.reserve(Space::Tcp, explicit).expect("it is free"));
    let (bare, ours) = compare(ROUNDS, bare, reserve);
    report.info("socket + bind + close: µs", bare.micros);
    report.info("reserve + release: µs", ours.micros);
    report.at_least("reserve + release against bare sockets", ours.ratio, RATIO);
    if let Err(error) = any(report, &ports) {
        report.failed("any number", error);
    }
}

/// At several occupancies, beside the same numbers.
fn any(report: &mut Report, ports: &HostPorts) -> Result<(), String> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).map_err(|e| e.to_string())?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).map_err(|e| e.to_string())?;
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    let share = share()?;
    let mut held: Vec<Reservation> = Vec::new();
    for percent in [1, 50, 99] {
        while held.len() < share * percent / 100 {
            held.push(ports.reserve(Space::Tcp, local).map_err(|e| e.to_string())?);
        }
        let bare = || drop(socket(local));
        let reserve = || drop(ports.reserve(Space::Tcp, local).expect("one is left"));
        let (bare, ours) = compare(ROUNDS / 10, bare, reserve);
        report.info(&format!("{percent} % of the share held: the host's bind(0), µs"), bare.micros);
        report.info(&format!("{percent} % of the share held: any number, µs"), ours.micros);
        report.info(&format!("{percent} % of the share held: against bind(0)"), ours.ratio);
    }
    Ok(())
}

/// How many numbers may be held: half of the host's range.
fn share() -> Result<usize, String> {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let range = range.map_err(|e| e.to_string())?;
    let ends: Vec<usize> = range.split_whitespace().filter_map(|end| end.parse().ok()).collect();
    let [low, high] = ends[..] else { return Err(range) };
    Ok((high - low).div_ceil(2))
}

/// A socket that is bound, and no more: std's listens, so it is made by hand.
fn socket(address: SocketAddr) -> impl Sized {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, socket};
    use std::os::fd::AsRawFd;
    let flags = SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Inet, SockType::Stream, flags, None).expect("a socket");
    bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).expect("it is free");
    socket
}

struct Cost {
    micros: f64,
    /// The rate, as a part of the bare one.
    ratio: f64,
}

/// Both in turn; the medians of their times, and of the ratios within each pair.
fn compare(rounds: u32, mut bare: impl FnMut(), mut ours: impl FnMut()) -> (Cost, Cost) {
    let time = |run: &mut dyn FnMut()| {
        let began = Instant::now();
        (0..rounds).for_each(|_| run());
        began.elapsed()
    };
    time(&mut ours);
    let pairs: Vec<(Duration, Duration)> =
        (0..PAIRS).map(|_| (time(&mut bare), time(&mut ours))).collect();
    let median = |of: &dyn Fn(&(Duration, Duration)) -> f64| {
        let mut all: Vec<f64> = pairs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(rounds);
    let ratio = median(&|(bare, ours)| bare.as_secs_f64() / ours.as_secs_f64());
    let bare = Cost { micros: median(&|(bare, _)| micros(*bare)), ratio: 1.0 };
    (bare, Cost { micros: median(&|(_, ours)| micros(*ours)), ratio })
}
