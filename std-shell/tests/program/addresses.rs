//! Local addresses: chosen, taken, wild, of version 6.

use crate::common::eventually;
use crate::isolated;
use crate::process::*;
use crate::wire::Wire;
use serde_json::Value;

/// The field of the first event.
fn first(ended: &Ended, field: &str) -> String {
    ended.events()[0][field].as_str().unwrap_or_else(|| panic!("no {field}")).to_owned()
}

#[track_caller]
fn is_held_by(error: &Value, address: &str, holder: &Program) {
    let pid = holder.pid();
    let text = error["message"].as_str().unwrap();
    let end = format!("UDP {address}:4791 is held by nanocm (pid {pid}): one CM per address");
    assert!(text.ends_with(&end), "{text}");
    assert_eq!(
        (error["holder"]["name"].as_str(), error["holder"]["pid"].as_u64()),
        (Some("nanocm"), Some(pid.into()))
    );
    assert!(error["holder"]["uid"].is_u64(), "{error}");
    assert_eq!(error["errno"], 98);
    assert!(error["advice"].is_string(), "{error}");
}

#[test]
fn a_source_address_and_port_are_used() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471");
    let client = run(&format!("connect {local} --from 127.0.0.5 --json")).with(0);
    assert!(first(&client, "local").starts_with("127.0.0.5:"));
    let client = run(&format!("connect {local} --from 127.0.0.5:5555 --json")).with(0);
    assert_eq!(first(&client, "local"), "127.0.0.5:5555");
    for _ in 0..3 {
        listener.line();
    }
    assert_eq!(listener.event("CONNECT_REQUEST")["peer"], "127.0.0.5:5555");
    // The wildcard: whichever address, with this port.
    let client = run(&format!("connect {local} --from 0.0.0.0:5556 --json")).with(0);
    assert_eq!(first(&client, "local"), "127.0.0.1:5556");
}

/// Each connection needs its own 4-tuple.
#[test]
fn a_source_port_serves_one_connection_to_a_peer_at_a_time() {
    isolated!();
    let (_listener, local) = listen("127.0.0.2:7471");
    let from = "--from 127.0.0.5:5555 --json";
    run(&format!("connect {local} {from} --count 3")).with(0);
    let client = run(&format!("connect {local} {from} --count 2 --parallel 2 --hold 200"));
    assert_eq!(client.names(), ["ESTABLISHED", "DISCONNECTED", "ERROR"]);
    let error = client.failed("EADDRINUSE", "tuple");
    assert!(error["advice"].as_str().unwrap().contains("port"));
}

#[test]
fn a_source_that_is_taken_or_foreign_is_refused() {
    isolated!();
    let (listener, local) = listen("127.0.0.2:7471");
    let error =
        run(&format!("connect {local} --from 127.0.0.2 --json")).failed("EADDRINUSE", "held");
    is_held_by(&error, "127.0.0.2", &listener);
    let error = run(&format!("connect {local} --from 192.0.2.1 --json"))
        .failed("EADDRNOTAVAIL", "not-local");
    assert_eq!(error["local"], "192.0.2.1:0");
    run("listen 192.0.2.1:7471 --json").failed("EADDRNOTAVAIL", "not-local");
}

#[test]
fn a_taken_loopback_address_gives_way_to_the_next() {
    isolated!();
    let (_first, local) = listen("127.0.0.1:7471");
    let client = run(&format!("connect {local} --json")).with(0);
    assert!(first(&client, "local").starts_with("127.0.0.2:"));
    let (_second, _) = listen("127.0.0.2:7471");
    let client = run(&format!("connect {local} --json")).with(0);
    assert!(first(&client, "local").starts_with("127.0.0.3:"));
}

/// A program that has all of them leaves none to choose.
#[test]
fn a_host_without_free_loopback_address_is_told_who_has_them() {
    isolated!();
    let _everything = std::net::UdpSocket::bind("0.0.0.0:4791").unwrap();
    let error = run("connect 127.0.0.1:7471 --json").failed("EADDRINUSE", "held");
    assert_eq!(error["holder"]["pid"], std::process::id());
}

#[test]
fn two_listeners_on_one_address_are_one_too_many() {
    isolated!();
    let (listener, _) = listen("127.0.0.1:7471");
    let error = run("listen 127.0.0.1:7472 --json").failed("EADDRINUSE", "held");
    is_held_by(&error, "127.0.0.1", &listener);
    let error = run("listen 0.0.0.0:7472 --json").failed("EADDRINUSE", "held");
    is_held_by(&error, "127.0.0.1", &listener);
}

/// The local addresses of the sockets on UDP port 4791, as the kernel prints them.
fn sockets(table: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}")).unwrap();
    let local = |line: &str| line.split_whitespace().nth(1).unwrap().to_owned();
    let mut all: Vec<_> = text.lines().skip(1).map(local).collect();
    all.retain(|local| local.ends_with(":12B7"));
    all.sort();
    all
}

#[test]
fn the_ipv4_wildcard_is_one_socket_for_each_address() {
    isolated!();
    veth();
    let (_listener, local) = listen("0.0.0.0:7471");
    assert_eq!(local.to_string(), "0.0.0.0:7471");
    assert_eq!(sockets("udp"), ["0100007F:12B7", "0100090A:12B7"]);
    assert_eq!(sockets("udp6"), [""; 0]);
    for address in ["127.0.0.1", "10.9.0.1"] {
        run(&format!("connect {address}:7471 --from 127.0.0.5")).with(0);
    }
}

#[test]
fn a_wildcard_follows_the_addresses() {
    isolated!();
    veth();
    let (mut listener, _) = listen("0.0.0.0:7471");
    sh("ip addr add 10.9.0.7/24 dev left");
    eventually("it has the new address", || sockets("udp").contains(&"0700090A:12B7".to_owned()));
    run("connect 10.9.0.7:7471 --from 127.0.0.5").with(0);
    assert_eq!(listener.event("CONNECT_REQUEST")["local"], "10.9.0.7:7471");
    sh("ip addr del 10.9.0.7/24 dev left");
    eventually("it gives it back", || !sockets("udp").contains(&"0700090A:12B7".to_owned()));
}

/// As for librdmacm and TCP, `::` stands for both families.
#[test]
fn the_ipv6_wildcard_is_for_both_families() {
    isolated!();
    let (mut listener, _) = listen("[::]:7471");
    // A later address, so that the connecting side has one of its own.
    add_loopback("fd00::2");
    eventually("it has the new address", || sockets("udp6").len() == 2);
    run("connect 127.0.0.1:7471 --from 127.0.0.5").with(0);
    assert_eq!(listener.event("CONNECT_REQUEST")["local"], "127.0.0.1:7471");
    assert_eq!(sockets("udp"), ["0100007F:12B7"]);
    let error = run("connect [::1]:7471 --from fd00::2 --json").failed("EADDRINUSE", "held");
    is_held_by(&error, "[fd00::2]", &listener);
}

#[test]
fn ipv6_loopback() {
    isolated!();
    add_loopback("fd00::2");
    for (to, from) in [("::1", "fd00::2"), ("fd00::2", "::1")] {
        let (mut listener, _) = listen(&format!("[{to}]:7471 --count 1"));
        let client = run(&format!("connect [{to}]:7471 --from [{from}] --json")).with(0);
        assert_eq!(first(&client, "peer"), format!("[{to}]:7471"));
        assert!(first(&client, "local").starts_with(&format!("[{from}]:")));
        assert_eq!(listener.event("CONNECT_REQUEST")["local"], format!("[{to}]:7471"));
        listener.end().with(0);
    }
}

#[test]
fn link_local_addresses_both_ways() {
    isolated!();
    veth();
    let neighbour = Neighbour::new();
    let mut listener = neighbour.start("listen [fe80::b%right]:7471 --json --count 1");
    let listening = listener.event("LISTENING");
    let client = run("connect [fe80::b%left]:7471 --json").with(0);
    assert!(first(&client, "local").starts_with("[fe80::a"), "{:?}", client.lines);
    listener.end().with(0);
    assert!(listening["local"].as_str().unwrap().starts_with("[fe80::b"));

    let (listener, _) = listen("[fe80::a%left]:7471 --count 1");
    let client = neighbour.start("connect [fe80::a%right]:7471 --json").end().with(0);
    assert_eq!(client.names(), ["ESTABLISHED", "DISCONNECTED"]);
    listener.end().with(0);

    // The wildcard has them too.
    let (listener, _) = listen("[::]:7471 --count 2");
    neighbour.start("connect [fe80::a%right]:7471 --json").end().with(0);
    neighbour.start("connect 10.9.0.1:7471 --json").end().with(0);
    listener.end().with(0);
}

#[test]
fn a_link_local_address_needs_its_interface() {
    isolated!();
    for arguments in
        ["listen [fe80::1]:7471", "connect [fe80::1]:7471", "connect [::1]:7471 --from fe80::1"]
    {
        let error = run(&format!("{arguments} --json")).failed("EINVAL", "scope-missing");
        assert_eq!(error["advice"], "write it as fe80::1%eth0", "{arguments}");
    }
}

#[test]
fn the_type_of_service_is_on_the_packets() {
    isolated!();
    add_loopback("fd00::2");
    for (to, from) in [("127.0.0.2", "127.0.0.1"), ("[::1]", "[fd00::2]")] {
        let (_listener, _) = listen(&format!("{to}:7471"));
        for tos in [0, 0x68] {
            let wire = Wire::tap();
            run(&format!("connect {to}:7471 --from {from} --tos {tos}")).with(0);
            let classes: Vec<_> = wire.datagrams().iter().map(|d| d.traffic_class).collect();
            assert!(classes.len() >= 10, "five messages, each twice: {classes:?}");
            assert!(classes.iter().all(|class| *class == tos), "{classes:02x?}");
        }
    }
}
