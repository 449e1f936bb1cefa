//! What a connection costs when there are many: instructions at 512 and at 65,536 open, and 100,000
//! in one process.

use crate::report::Report;
use crate::world::{Memories, Meter, World};
use nanocm_core::conn::ConnSlot;
use nanocm_core::id::IdSlot;
use nanocm_core::slots::{DeadlineEntry, Link};
use std::time::Instant;

const FEW: usize = 512;
const MANY: usize = 65_536;
const MOST: usize = 100_000;

/// Connections that are counted at each size.
const SAMPLE: usize = 24;

/// Instructions of a whole connection, from `create_id` to `destroy`, beside so many others.
pub fn instructions(report: &mut Report) {
    report.section("scaling (instructions per connection, create_id to destroy, both engines)");
    let mut memories = Memories::new(MANY + SAMPLE);
    let mut world = World::new(&mut memories);
    let mut per_connection = Vec::new();
    let mut open = 0;
    for size in [FEW, MANY] {
        while open < size {
            world.connect(&mut Meter::off());
            open += 1;
        }
        let mut meter = Meter::on();
        for _ in 0..SAMPLE {
            let ids = world.connect(&mut meter);
            world.disconnect(&mut meter, ids);
            world.destroy(&mut meter, ids);
        }
        let mean = meter.total_without(&[]) / SAMPLE as u64;
        report.info(&format!("beside {size} others"), mean);
        per_connection.push(mean as f64);
    }
    report.at_most("65,536 against 512 open", per_connection[1] / per_connection[0], 1.1);
}

/// Opens 100,000 connections in this process, 200,000 ends, and closes them.
pub fn many(report: &mut Report) {
    report.section("100,000 connections open at once, both ends in this process");
    let before = resident();
    let mut memories = Memories::new(MOST);
    let mut world = World::new(&mut memories);
    let start = Instant::now();
    let ids: Vec<_> = (0..MOST).map(|_| world.connect(&mut Meter::off())).collect();
    let opened = start.elapsed();
    let resident = resident().saturating_sub(before);
    report.at_least("open", world.a.in_use().1.min(world.b.in_use().1), MOST);
    report.info("octets of slots per end (IdSlot, ConnSlot, links)", slot_octets());
    report.info("octets resident per end (with port records, maps)", resident / (2 * MOST));
    report.info("µs to open one (time: reported only)", opened.as_secs_f64() * 1e6 / MOST as f64);
    for &ids in &ids {
        world.disconnect(&mut Meter::off(), ids);
        world.destroy(&mut Meter::off(), ids);
    }
    report.at_most("left when all are closed", world.a.in_use().1.max(world.b.in_use().1), 0);
}

/// What one end of a connection takes all told: its slots, a head in each of five indexes, its
/// deadline.
pub(crate) fn slot_octets() -> usize {
    size_of::<IdSlot>() + size_of::<ConnSlot>() + 5 * size_of::<Link>() + size_of::<DeadlineEntry>()
}

/// Octets of memory this process has.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4096
}
