//! The model: every state that small worlds can get into, what must hold in each, and how each ends.
//!
//! `make model` explores all scenarios, then plants faults in the engine, each of which must be caught.
//! Not part of `cargo test`: it takes minutes. `make model SCENARIO=text` explores those with that in
//! their name, `make model SCENARIO=faults` plants faults alone.
//!
//! | file | what it owns |
//! |---|---|
//! | `explore.rs` | breadth first, by replay |
//! | `pair.rs`, `node.rs`, `rules.rs` | two engines over a bad link; each of them; what may happen to them |
//! | `ports.rs` | identifiers that share ports, beside a model of the rules |
//! | `scenarios.rs` | what may happen, and how often |
//! | `faults.rs`, `plant.rs` | the faults, and how they are planted |
//!
//! What must hold in every state is [`Watch`](nanocm_core::testing::Watch)'s.

mod explore;
mod faults;
mod node;
mod pair;
mod plant;
mod ports;
mod rules;
mod scenarios;

use explore::Report;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

fn main() -> ExitCode {
    // A panic is a finding, told with the way to it.
    std::panic::set_hook(Box::new(|_| {}));
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let well = match wanted.as_str() {
        "hunt" => hunt(),
        "faults" => plant::all(),
        "" => explore_all("") && plant::all(),
        text => explore_all(text),
    };
    if well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Explores the scenarios with this in their name, in full.
fn explore_all(wanted: &str) -> bool {
    println!("{:<38} {:>9} {:>11} {:>5} {:>8}", "scenario", "states", "steps", "depth", "seconds");
    let mut scenarios = scenarios::all();
    scenarios.retain(|(name, _)| name.contains(wanted));
    let show = |report: &Report| {
        let Report { name, states, transitions, depth, seconds, failure } = report;
        println!("{name:<38} {states:>9} {transitions:>11} {depth:>5} {seconds:>8.1}");
        if let Some(failure) = failure {
            println!("{failure}");
        }
    };
    let reports = in_parallel(&scenarios, |(_, explore)| explore(usize::MAX), show);
    let sum = |count: fn(&Report) -> usize| reports.iter().map(count).sum::<usize>();
    println!("{:<38} {:>9} {:>11}", "all", sum(|r| r.states), sum(|r| r.transitions));
    reports.iter().all(|report| report.failure.is_none())
}

/// Looks for a failure, near the beginning of every scenario first. True if there is none.
fn hunt() -> bool {
    for enough in [3_000, 30_000, 300_000] {
        for (_, explore) in scenarios::all() {
            if let Some(failure) = explore(enough).failure {
                println!("{failure}");
                return false;
            }
        }
    }
    true
}

/// Does something with each of many, as many at a time as there are processors; shows what came of
/// each, in order.
fn in_parallel<T: Sync, R: Send>(
    all: &[T],
    work: impl Fn(&T) -> R + Sync,
    show: impl Fn(&R) + Sync,
) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new((0, Vec::new())));
    done.lock().expect("nobody panics").1.resize_with(all.len(), || None);
    let worker = || {
        while let n = next.fetch_add(1, Ordering::Relaxed)
            && let Some(one) = all.get(n)
        {
            let result = work(one);
            let (shown, results) = &mut *done.lock().expect("nobody panics");
            results[n] = Some(result);
            while let Some(Some(result)) = results.get(*shown) {
                show(result);
                *shown += 1;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..processors() {
            scope.spawn(worker);
        }
    });
    let (_, results) = done.into_inner().expect("nobody panics");
    results.into_iter().flatten().collect()
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}
