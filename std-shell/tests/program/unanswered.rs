//! Nothing answers: how long it takes, and what is said.

use crate::isolated;
use crate::process::*;
use crate::wire::Wire;
use std::time::{Duration, Instant};

const REQ: u16 = 0x10;

#[test]
fn a_timeout_is_a_hard_end() {
    isolated!();
    veth();
    let start = Instant::now();
    let client = run("connect 10.9.0.2:7471 --timeout 700 --json");
    let taken = start.elapsed();
    // Not before, and soon after; a slow machine starts processes slowly.
    assert!(taken >= Duration::from_millis(700), "{taken:?}");
    assert!(taken < Duration::from_millis(4000), "{taken:?}");
    assert_eq!(client.names(), ["UNREACHABLE", "ERROR"]);
    let unreachable = &client.events()[0];
    assert_eq!(unreachable["peer"], "10.9.0.2:7471");
    let error = client.failed("ETIMEDOUT", "timeout");
    assert_eq!(error["errno"], 110);
    assert!(error["message"].as_str().unwrap().ends_with("-> 10.9.0.2:7471: no answer"));
    assert!(error["advice"].as_str().unwrap().contains("UDP 4791"));
}

#[test]
fn a_network_that_says_so_ends_it_early() {
    isolated!();
    let start = Instant::now();
    let error = run("connect 127.0.0.9:7471 --json").failed("ETIMEDOUT", "send-failed");
    assert!(start.elapsed() < Duration::from_secs(20));
    let text = error["message"].as_str().unwrap();
    assert!(text.ends_with("127.0.0.9:7471: nothing answers UDP 4791 at that address"), "{text}");
}

#[test]
fn retransmissions_are_as_many_as_asked() {
    isolated!();
    veth();
    for retries in [0, 1] {
        let wire = Wire::tap();
        let client = run(&format!("connect 10.9.0.2:7471 --retries {retries} --json"));
        client.failed("ETIMEDOUT", "timeout");
        let requests = wire.datagrams().iter().filter(|d| d.attribute == REQ).count();
        assert_eq!(requests, 2 * (1 + retries), "each is seen as it leaves and as it arrives");
    }
}

#[test]
fn no_route_is_said_at_once() {
    isolated!();
    let error = run("connect 192.0.2.1:7471 --json").failed("ENETUNREACH", "host");
    assert_eq!(error["message"], "find the way 192.0.2.1:7471: Network is unreachable");
}

#[test]
fn a_listener_that_comes_late_is_found_by_a_retransmission() {
    isolated!();
    // Holds the port, so that the network does not say that nothing answers.
    let holder = std::net::UdpSocket::bind("127.0.0.2:4791").unwrap();
    let client = start("connect 127.0.0.2:7471 --from 127.0.0.1 --json");
    client.silent_for(Duration::from_millis(300));
    drop(holder);
    let (_listener, _) = listen("127.0.0.2:7471");
    assert_eq!(client.end().with(0).names(), ["ESTABLISHED", "DISCONNECTED"]);
}
