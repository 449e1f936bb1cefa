//! A flood of REQs whose sender chooses GUIDs, communication IDs and queue pairs: into a table that is
//! half full of them, and into a full one.

use super::*;
use crate::world::B;
use crate::worst::{Bench, PORT, memory};

pub(super) const PREFIX: &str = "flood of REQs";
const HALF_FULL: &str = "flood of REQs, half full";
const FULL: &str = "flood of REQs, full";

/// How many are counted.
const SAMPLE: u32 = 16;

pub(super) fn run(kinds: &mut Kinds, setting: Setting) {
    let mut other = Some(kinds);
    // One host that says all there is to say, and many that all say the same.
    for peers in [Peers::OneHost, Peers::Alike] {
        let mut memory = memory(setting.room);
        let mut bench = Bench::new(&mut memory);
        bench.listen_and_open(Setting { open: 0, ..setting });
        for number in 0..setting.room + SAMPLE {
            let half = setting.room / 2;
            let kind = if number < setting.room { HALF_FULL } else { FULL };
            let counted = number >= setting.room || (half..half + SAMPLE).contains(&number);
            let peer = peers.peer(number);
            bench.swap_if(counted, &mut other);
            bench.receive(kind, &peer, &peer.req(B, PORT));
            bench.swap_if(counted, &mut other);
        }
        // Nobody took the answers, and the ring has room for few.
        assert_eq!(bench.cm.in_use().1, setting.room as usize);
        assert_eq!(bench.cm.counters().no_resources, SAMPLE);
    }
}
