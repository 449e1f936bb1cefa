//! Events, field by field.

use crate::isolated;
use crate::process::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

#[track_caller]
fn has_fields(event: &Value, wanted: &[&str]) {
    let fields: BTreeSet<_> = event.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, wanted.iter().copied().collect(), "{event}");
    assert!(event["id"].is_u64() && event["time"].is_f64(), "{event}");
    let time = event["time"].as_f64().unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
    assert!((now - 300.0..=now + 1.0).contains(&time), "{event}");
}

/// A field of private data: these digits, then zeros, as many octets as the message has.
#[track_caller]
fn has_data(event: &Value, digits: &str, octets: usize) {
    let data = event["private_data"].as_str().unwrap();
    assert_eq!(data, format!("{digits:0<width$}", width = 2 * octets));
}

#[test]
fn a_connection_as_both_sides_tell_it() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:0 --count 1 --private-data AAbb");
    let mut client = start(&format!("connect {local} --private-data 0102ff --json"));

    let request = listener.event("CONNECT_REQUEST");
    has_fields(&request, &["event", "id", "local", "peer", "time", "listener", "private_data"]);
    has_data(&request, "0102ff", 56);
    let established = listener.event("ESTABLISHED");
    has_fields(&established, &["event", "id", "local", "peer", "time", "listener"]);
    let disconnected = listener.event("DISCONNECTED");
    has_fields(&disconnected, &["event", "id", "local", "peer", "time", "listener", "cause"]);
    assert_eq!(disconnected["cause"], "peer");

    let ours = client.event("ESTABLISHED");
    has_fields(&ours, &["event", "id", "local", "peer", "time", "private_data"]);
    has_data(&ours, "aabb", 196);
    let gone = client.event("DISCONNECTED");
    has_fields(&gone, &["event", "id", "local", "peer", "time", "cause"]);
    assert_eq!(gone["cause"], "local");

    for event in [&request, &established, &disconnected] {
        assert_eq!(event["id"], request["id"]);
        assert_eq!(event["local"], local.to_string());
        assert_eq!(event["peer"], ours["local"]);
    }
    for event in [&ours, &gone] {
        assert_eq!(event["id"], ours["id"]);
        assert_eq!(event["peer"], local.to_string());
    }
    let ended = listener.end().with(0);
    let listening = &ended.events()[0];
    has_fields(listening, &["event", "id", "local", "time"]);
    assert_eq!(request["listener"], listening["id"]);
    assert_ne!(request["id"], listening["id"]);
    assert_eq!((ended.lines.len(), ended.stderr.as_str()), (4, ""));
    let ended = client.end().with(0);
    assert_eq!((ended.lines.len(), ended.stderr.as_str()), (2, ""));
}

#[test]
fn identifiers_have_numbers_of_their_own() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471 --count 3");
    let ended = run(&format!("connect {local} --count 3 --json")).with(0);
    let ids =
        |events: Vec<Value>| events.iter().map(|e| e["id"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(ids(ended.events()), [1, 1, 2, 2, 3, 3]);
    assert_eq!(ids(listener.end().with(0).events()), [1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
}

#[test]
fn a_rejection_by_code_and_by_name() {
    isolated!();
    for (argument, reason) in [("consumer", 28), ("28", 28), ("no-resources", 3), ("35", 35)] {
        let (mut listener, local) =
            listen(&format!("127.0.0.2:7471 --count 1 --reject {argument} --private-data c0ffee"));
        let client = run(&format!("connect {local} --json"));
        assert_eq!(client.names(), ["REJECTED", "ERROR"]);
        let rejected = &client.events()[0];
        has_fields(
            rejected,
            &["event", "id", "local", "peer", "time", "reason", "reason_text", "private_data"],
        );
        assert_eq!(rejected["reason"], reason);
        assert!(!rejected["reason_text"].as_str().unwrap().is_empty());
        has_data(rejected, "c0ffee", 148);
        let error = client.failed("ECONNREFUSED", "rejected");
        assert_eq!(error["errno"], 111);
        assert_eq!(error["peer"], local.to_string());
        let text = error["message"].as_str().unwrap();
        assert!(text.contains(&format!("reason {reason}: ")), "{text}");

        listener.event("CONNECT_REQUEST");
        let rejected = listener.event("REJECTED");
        has_fields(
            &rejected,
            &["event", "id", "local", "peer", "time", "listener", "reason", "reason_text"],
        );
        assert_eq!(rejected["reason"], reason);
        assert_eq!(listener.end().with(0).lines.len(), 3);
    }
}

#[test]
fn a_port_without_listener_is_said_in_words() {
    isolated!();
    let (_listener, _) = listen("127.0.0.2:7471");
    let error = run("connect 127.0.0.2:7472 --json").failed("ECONNREFUSED", "rejected");
    let text = error["message"].as_str().unwrap();
    assert!(text.ends_with("nothing listens on that service ID (RDMA tcp port 7472)"), "{text}");
    assert!(error["advice"].as_str().unwrap().contains("listener"));
}

#[test]
fn timewait_is_told_to_who_wants_to_know() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471 --verbose");
    let client = run(&format!("connect {local} --json --verbose")).with(0);
    assert_eq!(client.names(), ["ESTABLISHED", "DISCONNECTED", "TIMEWAIT_EXIT"]);
    let exit = &client.events()[2];
    has_fields(exit, &["event", "id", "local", "peer", "time"]);
    for name in ["CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED"] {
        listener.event(name);
    }
    let exit = listener.event("TIMEWAIT_EXIT");
    has_fields(&exit, &["event", "id", "local", "peer", "time", "listener"]);
}

#[test]
fn without_json_there_are_sentences() {
    isolated!();
    let mut listener = start("listen 127.0.0.2:7471 --count 2");
    assert_eq!(listener.line(), "listening on 127.0.0.2:7471");
    let client = run("connect 127.0.0.2:7471 --from 127.0.0.1:4000").with(0);
    assert_eq!(
        client.lines,
        [
            "127.0.0.1:4000 and 127.0.0.2:7471 are connected",
            "127.0.0.1:4000 and 127.0.0.2:7471 are disconnected (local)",
        ]
    );
    assert_eq!(listener.line(), "127.0.0.1:4000 asks to connect to 127.0.0.2:7471");
    assert_eq!(listener.line(), "127.0.0.2:7471 and 127.0.0.1:4000 are connected");
    assert_eq!(listener.line(), "127.0.0.2:7471 and 127.0.0.1:4000 are disconnected (peer)");
    let ended = run("connect 127.0.0.2:7472 --from 127.0.0.1:4000").with(1);
    assert_eq!(
        ended.stderr,
        "nanocm: connect 127.0.0.1:4000 -> 127.0.0.2:7472: rejected with reason 8: nothing listens \
         on that service ID (RDMA tcp port 7472): start a listener on that port, or connect to the \
         port of one\n"
    );
}
