//! A real daemon on a contested port: iperf.

use crate::common::eventually;
use crate::isolated;
use crate::process::{Program, listen, run, start, start_as};
use crate::world::{assert_held, at};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

fn server() -> Program {
    let iperf = start_as(&mut Command::new("iperf"), "-s -p 5001");
    eventually("iperf listens", || has_listener(5001));
    iperf
}

fn client(options: &str) -> Output {
    let mut iperf = Command::new("timeout");
    iperf.args(["20", "iperf", "-c", "127.0.0.1", "-p", "5001"]);
    iperf.args(options.split_whitespace()).output().expect("iperf (Debian: iperf)")
}

fn is_served(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stdout).contains("bits/sec")
}

fn has_listener(port: u16) -> bool {
    sockets(port, "0A")
}

/// Whether /proc/net/tcp has one with this local port in this state.
fn sockets(port: u16, state: &str) -> bool {
    ["tcp", "tcp6"].iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/net/{table}")).unwrap_or_default();
        let local = format!(":{port:04X}");
        text.lines().skip(1).any(|line| {
            let words: Vec<_> = line.split_whitespace().collect();
            words[1].ends_with(&local) && words[3] == state
        })
    })
}

#[test]
fn a_daemon_keeps_its_port_and_its_clients() {
    isolated!();
    let iperf = server();
    for address in ["127.0.0.1:5001", "0.0.0.0:5001", "[::]:5001"] {
        let error = run(&format!("listen {address} --json")).failed("EADDRINUSE", "listener");
        assert_eq!(error["holder"]["name"], "iperf", "{error}");
        assert_eq!(error["holder"]["pid"], iperf.pid(), "{error}");
        assert!(error["message"].as_str().unwrap().contains("iperf (pid "), "{error}");
    }
    assert!(is_served(&client("-t 1")), "iperf serves as before");
    // Another address of the host's is another number.
    drop(iperf);
    let one = start_as(&mut Command::new("iperf"), "-s -p 5001 -B 127.0.0.2");
    eventually("iperf listens", || has_listener(5001));
    let (_nanocm, _) = listen("127.0.0.1:5001");
    drop(one);
}

#[test]
fn a_daemon_cannot_take_the_port_of_an_rdma_listener() {
    isolated!();
    let (mut nanocm, _) = listen("127.0.0.1:5001");
    let iperf = Command::new("timeout").args(["10", "iperf", "-s", "-p", "5001"]).output().unwrap();
    let told = String::from_utf8_lossy(&iperf.stderr) + String::from_utf8_lossy(&iperf.stdout);
    assert!(told.contains("bind failed: Address already in use"), "{told}");
    let began = Instant::now();
    let refused = client("-t 1");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Connection refused"), "{refused:?}");
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    run("connect 127.0.0.1:5001 --json").with(0);
    for event in ["CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED"] {
        nanocm.event(event);
    }
}

#[test]
fn the_remnants_of_a_daemon_are_in_nobodys_way() {
    isolated!();
    let iperf = server();
    assert!(is_served(&client("-t 1 -R")));
    drop(iperf);
    assert!(sockets(5001, "06"), "no TIME_WAIT is left on the port: the test tests nothing");
    let (nanocm, _) = listen("127.0.0.1:5001");
    assert_held(at("127.0.0.1:5001"));
    assert_held(at("0.0.0.0:5001"));
    drop(nanocm);
    // The wildcard likewise.
    let (_nanocm, _) = listen("0.0.0.0:5001");
    assert_held(at("127.0.0.1:5001"));
}

#[test]
fn a_daemon_can_be_asked_after() {
    isolated!();
    let iperf = server();
    let checked = run("ports check 127.0.0.1:5001 --json").with(1);
    let told = checked.events();
    assert_eq!(told[0]["event"], "REFUSED");
    assert_eq!(told[0]["addr"], "127.0.0.1:5001");
    assert_eq!((&told[0]["error"], &told[0]["cause"]), (&"EADDRINUSE".into(), &"listener".into()));
    assert_eq!(told[0]["holder"]["pid"], iperf.pid());
    assert!(told[0]["advice"].is_string());
    drop(iperf);
    let free = start("ports check 127.0.0.1:5002 --json").end().with(0).events();
    assert_eq!(free[0]["event"], "FREE");
}
