//! Programs that are killed while connected.

use crate::isolated;
use crate::process::*;
use std::time::Duration;

/// The listener keeps the old connection, and serves the new one.
#[test]
fn a_connecting_side_that_was_killed_connects_again() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471");
    for _ in 0..2 {
        let mut client = start(&format!("connect {local} --hold 60000 --json"));
        client.event("ESTABLISHED");
        listener.event("CONNECT_REQUEST");
        listener.event("ESTABLISHED");
        client.signal("KILL");
        assert_eq!(client.end().code, None);
    }
    run(&format!("connect {local}")).with(0);
    for name in ["CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED"] {
        listener.event(name);
    }
}

/// Who holds a connection to the killed one learns of its end when it asks.
#[test]
fn a_listener_that_was_killed_serves_again() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471");
    let mut client = start(&format!("connect {local} --hold 1500 --json"));
    client.event("ESTABLISHED");
    listener.signal("KILL");
    assert_eq!(listener.end().code, None);
    let (mut listener, _) = listen("127.0.0.2:7471");
    run(&format!("connect {local} --from 127.0.0.5")).with(0);
    for name in ["CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED"] {
        listener.event(name);
    }
    // The new one has never heard of the connection, and says that it may go.
    assert_eq!(client.event("DISCONNECTED")["cause"], "local");
    client.end().with(0);
}

/// The answer to a peer that disconnects may be lost: whoever gave it is there when the peer asks again, a second later.
#[test]
fn a_connecting_side_stays_to_answer_a_disconnect_again() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471");
    let mut client = start(&format!("connect {local} --hold 60000 --json"));
    client.event("ESTABLISHED");
    listener.signal("TERM");
    listener.end().with(0);
    assert_eq!(client.event("DISCONNECTED")["cause"], "peer");
    client.silent_for(Duration::from_millis(1500));
    client.end().with(0);
}
