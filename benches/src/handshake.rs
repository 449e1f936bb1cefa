//! What a connection costs: both engines together, in instructions.

use crate::count::count;
use crate::report::Report;
use crate::world::{A, B, Memories, Meter, World};
use nanocm_core::wire::icrc::{Integrity, Ip, crc32, verify};
use nanocm_core::wire::roce::{PAYLOAD_LEN, QP1_SOURCE_PORT, frame, unframe};
use nanocm_core::wire::{Mad, View};

const HANDSHAKE: u64 = 12_000;
const FRAMING: u64 = 9_000;

/// Before and after the five messages: reported beside them.
const AROUND: [&str; 3] = ["create_id", "set_route", "destroy"];
const RESOLVING: [&str; 4] = ["resolve_addr", "poll_request", "handle_completion", "resolve_route"];
const TIMEWAIT: [&str; 1] = ["handle_timeout"];

/// Connect and disconnect, between engines that hold nothing else; the frames around it.
pub fn handshake(report: &mut Report) {
    report.section("connect + disconnect (instructions, both engines together)");
    for full in [false, true] {
        let mut memories = Memories::new(64);
        let mut world = World::new(&mut memories);
        world.with_private_data(full);
        let mut meter = Meter::on();
        let ids = world.connect(&mut meter);
        world.disconnect(&mut meter, ids);
        let five = meter.total_without(&AROUND);
        world.end_timewait(&mut meter);
        world.destroy(&mut meter, ids);
        assert_eq!(world.sent.len(), 5);
        let framing: u64 = world.sent.iter().map(framing).sum();
        if full {
            report.info("the same, messages full of private data", five);
            report.info("frames and ICRCs, both ways, full of data", framing);
            continue;
        }
        report.at_most("five messages, operations, events, empty polls", five, HANDSHAKE);
        report.at_most("frames and ICRCs of the five, both ways", framing, FRAMING);
        report.info("beside it: create_id, set_route, destroy", meter.total_of(&AROUND));
        report.info("beside it: two timewaits that end", meter.total_of(&TIMEWAIT));
    }
    let mut memories = Memories::new(64);
    let mut world = World::new(&mut memories);
    let mut meter = Meter::on();
    world.resolve(&mut meter);
    report.info("instead of set_route: two questions to the host", meter.total_of(&RESOLVING));
}

/// Every call of a connection by itself.
pub fn each(report: &mut Report) {
    report.section("each call of a connection (instructions)");
    let mut memories = Memories::new(64);
    let mut world = World::new(&mut memories);
    let mut meter = Meter::on();
    let ids = world.connect(&mut meter);
    world.disconnect(&mut meter, ids);
    world.end_timewait(&mut meter);
    world.destroy(&mut meter, ids);
    for (name, steps) in meter.calls {
        report.info(name, steps);
    }
}

/// A message is wrapped by its sender, unwrapped and checked by its receiver.
fn framing(mad: &Mad) -> u64 {
    let ip = Ip::new(A.into(), B.into());
    let mut payload = [0; PAYLOAD_LEN];
    let (_, wrap) = count(|| frame(&ip, QP1_SOURCE_PORT, 0, mad, crc32, &mut payload));
    let (gsi, unwrap) = count(|| unframe(&payload));
    let (integrity, check) = count(|| verify(&ip, QP1_SOURCE_PORT, &payload, crc32));
    let gsi = gsi.expect("our own frame");
    assert_eq!(View::new(gsi.mad).attribute(), View::new(mad).attribute());
    assert_eq!(integrity, Integrity::Ok);
    wrap + unwrap + check
}
