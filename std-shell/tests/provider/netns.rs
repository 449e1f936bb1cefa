//! A network namespace for each test: the test program starts itself again, inside one.

use std::any::type_name;
use std::net::UdpSocket;
use std::process::Command;
use std::time::Duration;

/// Set in a test program that runs in a namespace of its own: "root" or "user", by whom it was made.
const INSIDE: &str = "NANOCM_TEST_INSIDE";

/// Runs the body in a network namespace of its own, whose loopback interface is up and has the addresses
/// fd00::1 and fd00::2 beside its own. Without privileges it is root of a user namespace.
pub(crate) fn isolated<F: FnOnce()>(body: F) {
    if std::env::var(INSIDE).is_ok() {
        ip("link set lo up");
        ip("address add fd00::1/128 dev lo nodad");
        ip("address add fd00::2/128 dev lo nodad");
        for (from, to) in [("fd00::1", "fd00::2"), ("fd00::2", "fd00::1"), ("fd00::1", "::1")] {
            wait_for_route(from, to);
            wait_for_route(to, from);
        }
        return body();
    }
    // A test that hangs is a test that fails.
    let mut command = Command::new("timeout");
    command.args(["60", "unshare"]);
    command.args(["--net", "--user", "--map-root-user"].iter().take(if is_root() { 1 } else { 3 }));
    command.arg(std::env::current_exe().unwrap());
    // "provider::udp::some_test::{{closure}}": the name of the test is in the middle.
    let name = type_name::<F>().split_once("::").unwrap().1;
    let output = test(&mut command, name.trim_end_matches("::{{closure}}"))
        .env(INSIDE, if is_root() { "root" } else { "user" })
        .output()
        .expect("unshare (util-linux) is there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

/// A command that plays a role (an ignored test of this program) in the same namespace.
pub(crate) fn role(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    test(&mut command, name).arg("--ignored");
    command
}

/// Runs `ip` with these arguments.
pub(crate) fn ip(arguments: &str) {
    let status = Command::new("ip").args(arguments.split(' ')).status();
    assert!(status.expect("ip (iproute2) is there").success(), "ip {arguments}");
}

/// The index of an interface: its scope. (/sys may show another namespace.)
pub(crate) fn index_of(interface: &str) -> u32 {
    let output = Command::new("ip").args(["-o", "link", "show", "dev", interface]).output();
    let text = String::from_utf8(output.expect("ip (iproute2) is there").stdout).unwrap();
    text.split(':').next().and_then(|index| index.parse().ok()).expect("the interface is there")
}

/// The kernel announces an IPv6 address first and makes a route to it a little later; what is sent
/// meanwhile is refused, or lost. Waits until something gets through.
pub(crate) fn wait_for_route(from: &str, to: &str) {
    let arrives = || -> std::io::Result<usize> {
        let receiver = UdpSocket::bind((to, 0))?;
        receiver.set_read_timeout(Some(Duration::from_millis(20)))?;
        UdpSocket::bind((from, 0))?.send_to(&[0], receiver.local_addr()?)?;
        receiver.recv(&mut [0])
    };
    for _ in 0..500 {
        if arrives().is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("nothing gets from {from} to {to}");
}

/// Whether the tests were started with all privileges.
pub(crate) fn is_root() -> bool {
    match std::env::var(INSIDE) {
        Ok(maker) => maker == "root",
        Err(_) => std::fs::read_to_string("/proc/self/status").unwrap().contains("\nUid:\t0\t"),
    }
}

fn test<'a>(command: &'a mut Command, name: &str) -> &'a mut Command {
    command.args([name, "--exact", "--nocapture", "--test-threads=1"])
}
