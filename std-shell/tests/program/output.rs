//! Output that nobody reads, or cannot be written.

use crate::isolated;
use crate::process::*;
use std::process::{Command, Stdio};

/// `nanocm … | head -1`: no failure, and nothing to complain about.
#[test]
fn a_reader_that_has_enough_is_no_failure() {
    isolated!();
    let capture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/captures/rping-v4.pcap");
    for arguments in [
        "demo",
        "demo --json",
        "states",
        "states --dot",
        &format!("decode {capture}"),
        &format!("decode --json {capture}"),
        &format!("decode --ladder {capture}"),
    ] {
        let mut program = Command::new(env!("CARGO_BIN_EXE_nanocm"));
        program.args(arguments.split(' ')).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().unwrap();
        drop(child.stdout.take());
        let ended = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{arguments}: {} {stderr}", ended.status);
        if !arguments.starts_with("decode") {
            assert_eq!(stderr, "", "{arguments}");
        }
    }
}

#[test]
fn a_listener_that_nobody_hears_ends_and_tells_its_peers() {
    isolated!();
    let mut listener = start("listen 127.0.0.2:7471");
    listener.line();
    let mut client = start("connect 127.0.0.2:7471 --hold 20000 --json");
    client.event("ESTABLISHED");
    listener.close_output();
    // Something to say.
    let _ = run("connect 127.0.0.2:7471 --from 127.0.0.5 --timeout 5000");
    listener.end().with(0);
    let gone = client.event("DISCONNECTED");
    assert_eq!(gone["cause"], "peer");
    client.end().with(0);
}

/// It has not made the connections it was to make, so it does not say that it is done.
#[test]
fn a_connecting_side_that_nobody_hears_ends_its_connections() {
    isolated!();
    let (mut listener, local) = listen("127.0.0.2:7471");
    let mut client = start(&format!("connect {local} --count 50 --hold 200 --json"));
    client.event("ESTABLISHED");
    client.close_output();
    assert_eq!(client.end().with(1).stderr, "");
    for name in ["CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED"] {
        assert_eq!(listener.event(name)["id"], 2);
    }
}

#[test]
fn a_full_disk_is_a_failure() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_nanocm"));
    let ended = program.arg("states").stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(stderr, "nanocm: the output can't be written: No space left on device\n");
}
