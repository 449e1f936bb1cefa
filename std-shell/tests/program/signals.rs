//! SIGINT and SIGTERM.

use crate::isolated;
use crate::process::*;
use std::time::Duration;

#[test]
fn a_listener_disconnects_all_and_ends_well() {
    isolated!();
    for signal in ["INT", "TERM"] {
        let (mut listener, local) = listen("127.0.0.2:7471");
        let arguments = format!("connect {local} --count 3 --parallel 3 --hold 60000 --json");
        let mut client = start(&arguments);
        for _ in 0..3 {
            client.event("ESTABLISHED");
        }
        for _ in 0..6 {
            listener.line();
        }
        listener.signal(signal);
        for _ in 0..3 {
            assert_eq!(client.event("DISCONNECTED")["cause"], "peer");
        }
        client.end().with(0);
        for _ in 0..3 {
            assert_eq!(listener.event("DISCONNECTED")["cause"], "local");
        }
        assert_eq!(listener.end().with(0).stderr, "");
    }
}

#[test]
fn an_idle_listener_ends_at_once() {
    isolated!();
    for signal in ["INT", "TERM"] {
        let (listener, _) = listen("127.0.0.2:7471");
        listener.silent_for(Duration::from_millis(50));
        listener.signal(signal);
        listener.end().with(0);
    }
}

/// Peers that are gone are not waited for long.
#[test]
fn a_listener_whose_peers_are_gone_ends_in_a_moment() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471");
    let mut client = start(&format!("connect {local} --hold 60000 --json"));
    client.event("ESTABLISHED");
    client.signal("KILL");
    drop(client);
    listener.event("CONNECT_REQUEST");
    listener.signal("TERM");
    listener.end().with(0);
}

#[test]
fn a_connecting_side_ends_what_stands_and_says_that_it_was_interrupted() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471");
    let arguments = format!("connect {local} --count 10 --parallel 2 --hold 60000 --json");
    let mut client = start(&arguments);
    for _ in 0..2 {
        client.event("ESTABLISHED");
    }
    for _ in 0..4 {
        listener.line();
    }
    client.signal("INT");
    let ended = client.end();
    assert_eq!(ended.names()[2..], ["DISCONNECTED", "DISCONNECTED", "ERROR"]);
    let error = ended.failed("EINTR", "interrupted");
    assert_eq!(error["message"], "interrupted after 2 of 10 connections");
    for _ in 0..2 {
        assert_eq!(listener.event("DISCONNECTED")["cause"], "peer");
    }
}

#[test]
fn an_attempt_without_answer_is_given_up_at_once() {
    isolated!();
    veth();
    let client = start("connect 10.9.0.2:7471 --json");
    client.silent_for(Duration::from_millis(200));
    client.signal("TERM");
    client.end().failed("EINTR", "interrupted");
}
