//! What a connection costs: both engines together, in instructions.

use crate::report::Report;
use crate::world::{Memories, Meter, World};

/// Before and after the five messages: reported beside them.
const AROUND: [&str; 3] = ["create_id", "set_route", "destroy"];

/// Connect and disconnect, between engines that hold nothing else.
pub fn handshake(report: &mut Report) {
    report.section("handshake (instructions, both engines together)");
    for full in [false, true] {
        let mut memories = Memories::new(64);
        let mut world = World::new(&mut memories);
        world.with_private_data(full);
        let mut meter = Meter::on();
        let ids = world.connect(&mut meter);
        world.disconnect(&mut meter, ids);
        world.destroy(&mut meter, ids);
        for (name, steps) in &meter.calls {
            println!("{name} {steps}");
        }
        report.at_most("connect + disconnect, five messages", meter.total_without(&AROUND), 12_000);
        report.info("around it", meter.total_of(&AROUND));
    }
}
