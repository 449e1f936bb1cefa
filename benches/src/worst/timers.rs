//! Deadlines: as many as there are connections, all at once, or each earlier than the one before.

use super::*;

/// Counts every so many calls of the whole lot.
const EVERY: u32 = CONNS / 64;

pub(super) fn run(kinds: &mut Kinds) {
    for timers in [Timers::Equal, Timers::Descending] {
        let mut memory = memory(CONNS);
        let mut bench = Bench::new(&mut memory);
        for _ in 0..CONNS {
            let mut conns = bench.routed(Peers::Many, 1);
            bench.connect(&mut conns, timers.timeout(bench.next));
            if timers == Timers::Descending {
                bench.wait_for_answers(&mut conns);
            }
        }
        // The equal ones repeat their REQ now, the others give up.
        let pass = match timers {
            Timers::Equal => Duration::from_millis(1_001),
            _ => Duration::from_secs(501),
        };
        bench.now = bench.now + pass;
        let mut kinds = Some(&mut *kinds);
        for number in 0..CONNS {
            bench.swap_if(number % EVERY == 0, &mut kinds);
            let _ = bench.call("handle_timeout(budget 1)", |cm, now| cm.handle_timeout(now, 1));
            if timers == Timers::Equal {
                bench.transmit();
            } else {
                bench.event("UNREACHABLE");
            }
            bench.swap_if(number % EVERY == 0, &mut kinds);
        }
    }
}
