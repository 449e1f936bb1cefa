//! What each public call costs in an engine with 16, 1,024 and 65,536 connections: the typical count
//! and the worst, compared with the table in `docs/calls.md`.
//!
//! Typical is the median beside connections with as many hosts, no deadline pending. The worst is that
//! of those and of a second engine, whose connections are with one host and wait, each for an earlier
//! deadline than the one before. `worst` looks further for the worst; here it is to be seen when a
//! change makes a call dearer.

mod flood;
mod rest;
mod table;

use crate::forge::Peers;
use crate::report::Report;
use crate::worst::{
    BATCH, Job, Kinds, Order, Setting, Timers, active, datagrams, passive, run_all,
};
use table::{Counts, Table};

const CAPACITIES: [u32; 3] = [16, 1_024, 65_536];

/// A REQ in a flood may cost so many times a typical one.
const FLOOD: f64 = 4.0;

/// Measures every call and compares; with `UPDATE` set writes the table anew.
pub fn calls(report: &mut Report) {
    report.section("each public call, typical and worst, at three capacities (docs/calls.md)");
    // The long ones first.
    let mut jobs: Vec<Job> = Vec::new();
    for capacity in CAPACITIES.into_iter().rev() {
        for (peers, timers) in [(Peers::Many, Timers::None), (Peers::OneHost, Timers::Descending)] {
            let (open, rounds) = (capacity - BATCH, &[Order::Random]);
            let setting = Setting { peers, timers, open, room: capacity, rounds };
            jobs.push(Box::new(move |kinds| run(kinds, setting)));
        }
    }
    let mut counted = run_all(&jobs);
    let mut measured = Table::default();
    for (column, capacity) in CAPACITIES.into_iter().enumerate() {
        let (Some(hard), Some(usual)) = (counted.pop(), counted.pop()) else { break };
        for (kind, spread) in &usual.0 {
            let worst = hard.0.get(kind).map_or(0, |other| other.worst()).max(spread.worst());
            measured.set(kind, column, Counts { typical: spread.typical(), worst });
        }
        let typical = usual.0[passive::NEW].typical();
        for (kind, spread) in usual.0.iter().filter(|(kind, _)| kind.starts_with(flood::PREFIX)) {
            let ratio = spread.worst() as f64 / typical as f64;
            report.at_most(&format!("{kind}, at {capacity}: against a typical one"), ratio, FLOOD);
        }
    }
    measured.compare(report);
}

fn run(kinds: &mut Kinds, setting: Setting) {
    passive::run(kinds, setting);
    active::run(kinds, setting);
    datagrams::run(kinds, setting);
    rest::run(kinds, setting);
    flood::run(kinds, setting);
}
