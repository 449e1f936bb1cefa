//! Equal seeds and inputs give equal outputs; other seeds give other numbers.

use nanocm_core::testing::{Capacity, Faults, Memory, Pair, STARTS, Side::*, comm_id};
use nanocm_core::{Event, EventKind, Instant};
use std::time::Duration;

/// All that both sides said and were told in a busy minute.
type Story = ([Vec<[u8; 256]>; 2], Vec<(usize, Event, Vec<u8>)>);

fn story(seed: u64, start: Instant) -> Story {
    let (mut a, mut b) = (Memory::new(Capacity::of(12)), Memory::new(Capacity::of(12)));
    let mut pair = Pair::new([&mut a, &mut b], seed, start);
    pair.link.faults = Faults {
        loss: 150,
        duplicate: 150,
        reorder: 200,
        corrupt: 20,
        jitter: Duration::from_secs(2),
    };
    pair.listen(7471, 3);
    for _ in 0..6 {
        pair.connect(7471, b"story");
    }
    let mut told = Vec::new();
    let end = start + Duration::from_secs(60);
    while pair.step(end) {
        pair.drain();
        for (at, side) in [A, B].into_iter().enumerate() {
            while let Some(next) = pair.node(side).told.pop_front() {
                let (now, id) = (pair.now, next.event.id);
                match next.event.kind {
                    EventKind::ConnectRequest { .. } => pair.accept(id, b"yes"),
                    EventKind::ConnectResponse { .. } => {
                        let _ = pair.cm(side).establish(now, id, b"go");
                    }
                    EventKind::Established if side == A => {
                        pair.cm(side).disconnect(now, id, b"bye").unwrap();
                    }
                    EventKind::Disconnected(_) => pair.cm(side).disconnect(now, id, &[]).unwrap(),
                    _ => {}
                }
                told.push((at, next.event, next.data));
            }
        }
    }
    ([pair.node(A).sent.clone(), pair.node(B).sent.clone()], told)
}

#[test]
fn equal_seeds_and_inputs_give_equal_outputs() {
    for seed in 0..20 {
        for start in STARTS {
            let first = story(seed, start);
            assert!(first.0[0].len() > 10 && first.1.len() > 10, "a story worth telling");
            assert_eq!(first, story(seed, start), "seed {seed}");
        }
    }
}

#[test]
fn when_time_began_makes_no_difference() {
    for seed in 0..20 {
        let [zero, others @ ..] = STARTS.map(|start| story(seed, start));
        for other in others {
            assert_eq!(zero, other, "seed {seed}");
        }
    }
}

#[test]
fn other_seeds_give_other_numbers() {
    let mut numbers: Vec<_> =
        (0..50).map(|seed| comm_id(&story(seed, Instant::ZERO).0[0][0])).collect();
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), 50);
}
