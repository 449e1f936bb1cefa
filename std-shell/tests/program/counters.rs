//! `--counters`: the last line, however it ended.

use crate::isolated;
use crate::process::*;
use serde_json::{Value, json};
use std::net::UdpSocket;
use std::time::Duration;

/// The last line of a run.
#[track_caller]
fn counted(ended: &Ended) -> Value {
    let last = ended.events().pop().expect("a line");
    assert_eq!(last["event"], "COUNTERS", "{:?}", ended.lines);
    last
}

#[test]
fn both_sides_of_a_connection_count() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471 --count 1 --counters");
    let client = run(&format!("connect {local} --json --counters")).with(0);
    assert_eq!(client.names(), ["ESTABLISHED", "DISCONNECTED", "COUNTERS"]);
    assert_eq!(
        counted(&client),
        json!({"event": "COUNTERS", "received": 2, "sent": 3, "established": 1})
    );
    let listener = listener.end().with(0);
    assert_eq!(
        counted(&listener),
        json!({"event": "COUNTERS", "received": 3, "sent": 2, "established": 1})
    );
}

#[test]
fn people_get_a_sentence() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471");
    let client = run(&format!("connect {local} --counters")).with(0);
    assert_eq!(client.lines.last().unwrap(), "counted: received 2, sent 3, established 1");
    drop(listener);
}

#[test]
fn a_datagram_service_and_who_asks_for_it_count() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471 --space udp --count 1 --counters");
    let client = run(&format!("resolve {local} --json --counters")).with(0);
    assert_eq!(client.names(), ["RESOLVED", "COUNTERS"]);
    assert_eq!(
        counted(&client),
        json!({"event": "COUNTERS", "received": 1, "sent": 1, "resolved": 1})
    );
    assert_eq!(
        counted(&listener.end().with(0)),
        json!({"event": "COUNTERS", "received": 1, "sent": 1})
    );
}

#[test]
fn failures_are_told_first() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471 --counters");
    let ended = run("connect 127.0.0.2:7472 --json --counters").with(1);
    assert_eq!(ended.names(), ["REJECTED", "ERROR", "COUNTERS"]);
    assert_eq!(counted(&ended), json!({"event": "COUNTERS", "received": 1, "sent": 1}));
    let ended = run("resolve 127.0.0.2:7472 --json --counters").with(1);
    assert_eq!(ended.names(), ["REJECTED", "ERROR", "COUNTERS"]);
    // Nothing was sent.
    let ended = run(&format!("listen {local} --json --counters")).with(1);
    assert_eq!(ended.names(), ["ERROR", "COUNTERS"]);
    assert_eq!(counted(&ended), json!({"event": "COUNTERS"}));
    listener.signal("TERM");
    assert_eq!(
        counted(&listener.end().with(0)),
        json!({"event": "COUNTERS", "received": 2, "sent": 2, "no_listener": 2})
    );
}

#[test]
fn whoever_is_ended_by_a_signal_has_counted_too() {
    isolated!();
    veth();
    for arguments in ["connect 10.9.0.2:7471", "resolve 10.9.0.2:7471"] {
        let client = start(&format!("{arguments} --json --counters"));
        client.silent_for(Duration::from_millis(300));
        client.signal("INT");
        let ended = client.end().with(1);
        assert_eq!(ended.names(), ["ERROR", "COUNTERS"], "{arguments}");
        assert!(counted(&ended)["sent"].as_u64() >= Some(1), "{:?}", ended.lines);
    }
}

#[test]
fn what_was_ignored_is_there_by_reason() {
    isolated!();
    let (listener, local) =
        listen("127.0.0.2:7471 --accept-after 60000 --accept-deadline 200 --counters");
    let stranger = UdpSocket::bind("127.0.0.9:0").unwrap();
    for _ in 0..2 {
        stranger.send_to(&[0; 20], "127.0.0.2:4791").unwrap();
    }
    run(&format!("connect {local}")).with(1);
    listener.signal("TERM");
    assert_eq!(
        counted(&listener.end().with(0)),
        json!({
            "event": "COUNTERS", "received": 3, "sent": 1, "accept_overdue": 1,
            "ignored": {"framing": 2}
        })
    );
}
