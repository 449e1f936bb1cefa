//! Many connections, a few at a time; holding them.

use crate::isolated;
use crate::process::*;
use std::collections::HashSet;

#[test]
fn five_hundred_connections_sixty_four_at_a_time() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471 --count 500");
    let client = run(&format!("connect {local} --count 500 --parallel 64 --json")).with(0);
    let (mut open, mut most, mut ids) = (0, 0, HashSet::new());
    for event in client.events() {
        match event["event"].as_str().unwrap() {
            "ESTABLISHED" => {
                assert!(ids.insert(event["id"].as_u64().unwrap()), "twice: {event}");
                open += 1;
            }
            "DISCONNECTED" => open -= 1,
            _ => panic!("{event}"),
        }
        most = most.max(open);
    }
    assert_eq!((open, ids.len()), (0, 500));
    assert!((2..=64).contains(&most), "{most} at a time");
    let names = listener.end().with(0).names();
    let count = |wanted: &str| names.iter().filter(|name| *name == wanted).count();
    assert_eq!(count("CONNECT_REQUEST"), 500);
    assert_eq!(count("DISCONNECTED"), 500);
}

#[test]
fn one_at_a_time_unless_told_otherwise() {
    isolated!();
    let (_listener, local) = listen("127.0.0.2:7471");
    let client = run(&format!("connect {local} --count 3 --json")).with(0);
    assert_eq!(client.names(), ["ESTABLISHED", "DISCONNECTED"].repeat(3));
}

#[test]
fn a_connection_is_held_as_long_as_asked() {
    isolated!();
    let (_listener, local) = listen("127.0.0.2:7471");
    let client = run(&format!("connect {local} --hold 300 --json")).with(0);
    let times: Vec<_> = client.events().iter().map(|e| e["time"].as_f64().unwrap()).collect();
    assert!((0.3..5.0).contains(&(times[1] - times[0])), "{times:?}");
}

#[test]
fn who_counts_to_two_serves_two() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471 --count 2");
    run(&format!("connect {local}")).with(0);
    run(&format!("connect {local}")).with(0);
    let ended = listener.end().with(0);
    assert_eq!(ended.lines.len(), 7);
}

/// One error object for all that failed.
#[test]
fn failures_are_counted() {
    isolated!();
    let (_listener, local) = listen("127.0.0.2:7471 --reject consumer");
    let client = run(&format!("connect {local} --count 5 --parallel 2 --json"));
    assert_eq!(client.names()[..5], ["REJECTED"; 5]);
    assert_eq!(client.lines.len(), 6);
    let error = client.failed("ECONNREFUSED", "rejected");
    let text = error["message"].as_str().unwrap();
    assert!(text.starts_with("5 of 5 connections failed; the first: connect 127.0.0.1:"), "{text}");
}

/// More at a time than the listener has room for: the others are told, and it goes on.
#[test]
fn a_crowd_of_rejected_ones_leaves_the_listener_working() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471 --reject no-resources --count 6000");
    let client = run(&format!("connect {local} --count 6000 --parallel 200 --json")).with(1);
    let reasons: HashSet<_> =
        client.events().iter().filter_map(|event| event["reason"].as_u64()).collect();
    assert_eq!(reasons, [3].into());
    listener.end().with(0);
}
