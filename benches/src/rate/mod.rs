//! Connect and disconnect over UDP sockets on loopback, in real time: two driverless engines against
//! two bare sockets that exchange five datagrams of the same size, 64 conversations at a time.
//!
//! Both ends run in one thread, engine and floor alike, so that the scheduler has no say and wall time
//! is processor time. The floor is made twice: with a system call for each datagram, as two bare
//! sockets have it, and with as many datagrams per system call as the engine's transport takes.

mod engines;
mod floor;

use crate::report::Report;
use nanocm::{Cause, netns};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use std::io;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Cause>;

/// The engines' rate, as a part of that of two bare sockets.
const RATIO: f64 = 0.7;

/// Conversations at a time.
const IN_FLIGHT: usize = 64;

/// Conversations in a run, and how many runs of each kind take turns.
const ROUNDS: usize = 20_000;
const PAIRS: usize = 7;

/// Measures and reports.
pub fn rate(report: &mut Report) {
    report.section("connect + disconnect over UDP on loopback (20,000 rounds, 64 at a time)");
    if let Err(error) = netns::isolate() {
        report.note(format!("no network namespace ({error}): UDP port 4791 must be free"));
    }
    match measure() {
        Ok(runs) => print(report, &runs),
        Err(error) => report.failed("engines against bare sockets", format!("{error:?}")),
    }
}

/// What a run took.
#[derive(Clone, Copy)]
struct Took {
    wall: Duration,
    cpu: Duration,
}

/// Runs that were made one after the other.
struct Runs {
    plain: Took,
    batched: Took,
    engines: Took,
}

fn measure() -> Result<Vec<Runs>> {
    let mut engines = engines::Engines::new()?;
    time(|| engines.run(ROUNDS))?;
    let mut runs = Vec::new();
    for _ in 0..PAIRS {
        let plain = time(|| Ok(floor::plain(ROUNDS)?))?;
        let batched = time(|| Ok(floor::batched(ROUNDS)?))?;
        let engines = time(|| engines.run(ROUNDS))?;
        runs.push(Runs { plain, batched, engines });
    }
    Ok(runs)
}

fn print(report: &mut Report, runs: &[Runs]) {
    let median = |of: &dyn Fn(&Runs) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let rate = |took: Took| ROUNDS as f64 / took.wall.as_secs_f64();
    let micros = |took: Took| took.cpu.as_secs_f64() * 1e6 / ROUNDS as f64;
    for (what, took) in [
        ("bare sockets", &(|runs: &Runs| runs.plain) as &dyn Fn(&Runs) -> Took),
        ("bare sockets, batched", &|runs| runs.batched),
        ("engines", &|runs| runs.engines),
    ] {
        report.info(&format!("{what}: rounds/s"), median(&|runs| rate(took(runs))) as u64);
        report.info(&format!("{what}: µs of CPU per round"), median(&|runs| micros(took(runs))));
    }
    let ratio = |floor: &dyn Fn(&Runs) -> Took| {
        median(&|runs| floor(runs).wall.as_secs_f64() / runs.engines.wall.as_secs_f64())
    };
    report.info("engines against batched bare sockets", ratio(&|runs| runs.batched));
    report.at_least("engines against bare sockets", ratio(&|runs| runs.plain), RATIO);
}

fn time(run: impl FnOnce() -> Result<()>) -> Result<Took> {
    let (wall, cpu) = (Instant::now(), cpu_time()?);
    run()?;
    Ok(Took { wall: wall.elapsed(), cpu: cpu_time()? - cpu })
}

/// User and system time of this process.
fn cpu_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(io::Error::from)?;
    let micros = (usage.user_time() + usage.system_time()).num_microseconds();
    Ok(Duration::from_micros(micros.unsigned_abs()))
}
