//! Whatever another program tries, a held number is held, and a SYN to it is refused.

use crate::isolated;
use crate::process::listen;
use crate::world::{Options, REUSE, assert_held, assert_refused, at, bind, leave_remnants};
use nanocm::host_ports::{HostPorts, Space};
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn no_option_and_no_wider_address_lets_another_program_in() {
    isolated!();
    let (_nanocm, _) = listen("127.0.0.1:5001");
    for address in ["127.0.0.1:5001", "0.0.0.0:5001", "[::]:5001", "[::ffff:127.0.0.1]:5001"] {
        assert_held(at(address));
    }
    assert_refused(at("127.0.0.1:5001"));
    // What does not overlap is free.
    bind(at("127.0.0.2:5001"), Options::default()).unwrap();
    bind(at("[::]:5001"), Options { v6_only: true, ..Options::default() }).unwrap();
}

/// One socket is enough for both families.
#[test]
fn a_dual_stack_wildcard_holds_ipv4_too() {
    isolated!();
    let ports = HostPorts::default();
    let held = ports.reserve(Space::Tcp, at("[::]:5001")).unwrap();
    for address in ["127.0.0.1:5001", "0.0.0.0:5001", "[::]:5001", "[::1]:5001"] {
        assert_held(at(address));
    }
    // Which our own may share.
    let more = ports.reserve(Space::Tcp, at("127.0.0.1:5001")).unwrap();
    assert_eq!(ports.sockets(), 1);
    drop(held);
    assert_held(at("127.0.0.1:5001"));
    drop(more);
    assert_eq!(ports.sockets(), 0);
    crate::world::assert_free(at("[::]:5001"));
}

#[test]
fn a_holder_amid_remnants_is_as_strong_as_any() {
    isolated!();
    leave_remnants(at("127.0.0.1:5001"), REUSE);
    let ports = HostPorts::default();
    let _held = ports.reserve(Space::Tcp, at("127.0.0.1:5001")).unwrap();
    for address in ["127.0.0.1:5001", "0.0.0.0:5001", "[::]:5001"] {
        assert_held(at(address));
    }
    assert_refused(at("127.0.0.1:5001"));
}

/// Only root can play somebody else.
#[test]
fn another_user_is_refused_as_well() {
    isolated!();
    let (_nanocm, _) = listen("127.0.0.1:5001");
    let program = "import socket, sys
for name in ('SO_REUSEADDR', 'SO_REUSEPORT'):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, getattr(socket, name), 1)
    try:
        s.bind(('127.0.0.1', 5001))
        sys.exit('bound with ' + name)
    except OSError as error:
        assert error.errno == 98, error
";
    let mut python = Command::new("python3");
    python.args(["-c", program]);
    if std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| map.contains("4294967295")) {
        python.uid(65_534);
    }
    let output = python.output().expect("python3");
    assert!(output.status.success(), "{output:?}");
}
