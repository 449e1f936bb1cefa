//! `nanocm ports`.

use crate::isolated;
use crate::process::{run, start, start_as};
use crate::world::{assert_free, assert_held, at};
use nanocm::host_ports::registered;
use std::net::TcpListener;
use std::process::Command;

#[test]
fn a_request_of_two_whose_second_is_taken_holds_nothing() {
    isolated!();
    let other = TcpListener::bind("127.0.0.1:5002").unwrap();
    let ended = run("ports reserve 127.0.0.1:5001 127.0.0.1:5002 --hold 1 --json");
    assert_eq!(ended.names(), ["REFUSED", "ERROR"]);
    let told = ended.events();
    assert_eq!(told[0]["addr"], "127.0.0.1:5002");
    assert_eq!(told[0]["holder"]["pid"], std::process::id());
    assert!(told[0]["message"].as_str().unwrap().contains("which listens on 127.0.0.1:5002"));
    assert_eq!(told[0]["message"], told[1]["message"]);
    ended.failed("EADDRINUSE", "listener");
    assert_free(at("127.0.0.1:5001"));
    // In this process, where it can be seen that nothing is held at once.
    let ports = nanocm::host_ports::HostPorts::default();
    let two =
        [5001, 5002].map(|port| (nanocm::host_ports::Space::Tcp, ([127, 0, 0, 1], port).into()));
    ports.reserve_all(&two).expect_err("the second is taken");
    assert_eq!(ports.sockets(), 0);
    drop(other);
    assert_eq!(ports.reserve_all(&two).unwrap().len(), 2);
}

#[test]
fn what_is_reserved_is_listed_while_it_is() {
    isolated!();
    let mut holder =
        start("ports reserve 127.0.0.1:5001 [::1]:5002 127.0.0.1:0 --json --space sdp");
    let told = [(); 3].map(|()| holder.event("RESERVED"));
    assert_eq!(told[0]["space"], "sdp");
    let any: std::net::SocketAddr = told[2]["addr"].as_str().unwrap().parse().unwrap();
    assert_held(any);
    let listed = run("ports list --json").with(0).events();
    assert_eq!(listed.len(), 3);
    assert_eq!(listed[0]["addr"], "127.0.0.1:5001");
    assert_eq!(listed[1]["addr"], "[::1]:5002");
    assert!(listed.iter().all(|one| one["event"] == "HELD" && one["space"] == "tcp"));
    assert!(listed.iter().all(|one| one["holder"]["pid"] == holder.pid()));
    // "Bind fails, and ss shows nothing."
    let checked = run("ports check 0.0.0.0:5001 --json");
    let error = checked.failed("EADDRINUSE", "reservation");
    assert_eq!(error["holder"]["pid"], holder.pid());
    holder.signal("INT");
    holder.end().with(0);
    assert!(run("ports list --json").lines.is_empty());
    assert_free(at("127.0.0.1:5001"));
}

/// Root's, whatever a login has set; only root can play somebody else.
#[test]
fn what_root_reserves_is_listed_for_everybody() {
    isolated!();
    let is_root = std::fs::read_to_string("/proc/self/uid_map");
    if !is_root.is_ok_and(|map| map.contains("4294967295")) {
        return;
    }
    let own = std::env::temp_dir().join(format!("nanocm-test-{}", std::process::id()));
    std::fs::create_dir(&own).unwrap();
    let mut program = Command::new(env!("CARGO_BIN_EXE_nanocm"));
    program.env("XDG_RUNTIME_DIR", &own);
    let mut holder = start_as(&mut program, "ports reserve 127.0.0.1:5001 --json");
    holder.event("RESERVED");
    std::fs::remove_dir(&own).expect("nothing is in it");
    let listed = std::thread::spawn(|| {
        // SAFETY: of this thread alone.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) }, 0);
        registered()
    });
    let listed = listed.join().unwrap();
    assert!(listed.iter().any(|one| one.holder.pid == Some(holder.pid())), "{listed:?}");
}

#[test]
fn a_reservation_ends_after_its_time() {
    isolated!();
    run("ports reserve 127.0.0.1:5001 --hold 10").with(0);
    assert_free(at("127.0.0.1:5001"));
    run("ports reserve").with(2);
    run("ports reserve 127.0.0.1").with(2);
    run("ports check 127.0.0.1:0").with(2);
    run("listen 127.0.0.1:1 --ports nonsense").with(2);
}

#[test]
fn independent_and_host_are_what_they_say() {
    isolated!();
    let (_one, _) = crate::process::listen("127.0.0.1:5001 --ports independent");
    assert_free(at("127.0.0.1:5001"));
    let (_two, _) = crate::process::listen("127.0.0.2:5001 --ports host");
    assert_held(at("127.0.0.2:5001"));
}

#[test]
fn a_link_local_address_has_its_interface() {
    isolated!();
    crate::process::sh("ip addr add fe80::1/64 dev lo nodad");
    let mut holder = start("ports reserve [fe80::1%lo]:5001 --json");
    assert_eq!(holder.event("RESERVED")["addr"], "[fe80::1%1]:5001");
    assert_held("[fe80::1%1]:5001".parse().unwrap());
    assert_eq!(run("ports list --json").events()[0]["addr"], "[fe80::1%1]:5001");
    run("ports check [fe80::1%lo]:5001 --json").failed("EADDRINUSE", "reservation");
    run("ports check [fe80::2%lo]:5001 --json").failed("EADDRNOTAVAIL", "not-local");
}
