//! What may happen in the worlds that are explored. Each is finished in a minute or two.

use crate::explore::{Report, explore};
use crate::ports;
use crate::rules::{Op, Op::*, Rules};
use nanocm_core::PortSpace;

/// Everything an application can do with a connection, but claim that data have come over it.
const CALLS: &[Op] = &[Accept, Reject, Establish, Disconnect, Reset, Destroy];

const PAIRS: &[Rules] = &[
    Rules { name: "one connection", ..Rules::BASE },
    Rules { name: "one connection, two faults", faults: 2, ops: CALLS, ..Rules::BASE },
    Rules {
        name: "crossing connects, a fault costs none",
        prompt: true,
        connects: [1, 1],
        faults: 1,
        ops: &[Accept, Establish, Disconnect],
        ..Rules::BASE
    },
    Rules {
        name: "SIDR, a fault costs nothing",
        prompt: true,
        space: PortSpace::Udp,
        connects: [1, 1],
        faults: 1,
        ops: &[Accept],
        ..Rules::BASE
    },
    Rules { name: "a connection's end, five faults", standing: true, faults: 5, ..Rules::BASE },
    Rules {
        name: "crossing connects",
        connects: [1, 1],
        ops: &[Accept, Reject, Establish, Disconnect],
        ..Rules::BASE
    },
    Rules {
        name: "crossing connects, destroyed",
        connects: [1, 1],
        ops: &[Accept, Destroy],
        ..Rules::BASE
    },
    Rules {
        name: "crossing connects, a fault",
        connects: [1, 1],
        faults: 1,
        ops: &[Accept, Establish, Disconnect],
        ..Rules::BASE
    },
    Rules {
        name: "one after the other",
        connects: [2, 0],
        ops: &[Accept, Reject, Establish, Disconnect, Reset],
        ..Rules::BASE
    },
    Rules { name: "two connects, one slot", connects: [2, 0], room: (1, 2), ..Rules::BASE },
    Rules {
        name: "two connects, one place",
        connects: [2, 0],
        room: (2, 1),
        ops: &[Accept, Reject, Establish],
        ..Rules::BASE
    },
    Rules {
        name: "A begins anew, a fault",
        restarts: [1, 0],
        faults: 1,
        ops: &[Accept, Establish, Disconnect, Destroy],
        ..Rules::BASE
    },
    Rules {
        name: "B begins anew, a fault",
        restarts: [0, 1],
        faults: 1,
        ops: CALLS,
        ..Rules::BASE
    },
    Rules { name: "slow hosts", lazy: true, ops: CALLS, ..Rules::BASE },
    Rules { name: "A's device goes", removals: [1, 0], ..Rules::BASE },
    Rules {
        name: "B's device goes, a fault",
        removals: [0, 1],
        faults: 1,
        ops: CALLS,
        ..Rules::BASE
    },
    Rules {
        name: "a datagram service, four faults",
        space: PortSpace::Udp,
        faults: 4,
        ..Rules::BASE
    },
];

const PORTS: &[ports::Rules] = &[
    ports::Rules {
        name: "three IDs share ports, with peers",
        ids: 3,
        locals: &["0.0.0.0:7000", "10.0.0.1:7000", "10.0.0.2:7000", "10.0.0.1:0"],
        peers: &["10.0.0.8:1", "10.0.0.9:1"],
    },
    ports::Rules {
        name: "three IDs share ports, two families",
        ids: 3,
        locals: &["0.0.0.0:7000", "[::]:7000", "10.0.0.1:7000", "[fd00::1]:7000", "[::]:0"],
        peers: &["[fd00::8]:1"],
    },
];

/// A scenario's name, and how to visit at least so many of its states.
pub(crate) type Task = (&'static str, Box<dyn Fn(usize) -> Report + Sync>);

/// All scenarios.
pub(crate) fn all() -> Vec<Task> {
    let pairs = PAIRS
        .iter()
        .map(|rules| -> Task { (rules.name, Box::new(|enough| explore(rules, enough))) });
    let ports = PORTS
        .iter()
        .map(|rules| -> Task { (rules.name, Box::new(|enough| explore(rules, enough))) });
    pairs.chain(ports).collect()
}
