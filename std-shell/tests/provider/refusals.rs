//! One connection manager per address, and words for everything that is in the way.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use nanocm::provider::{MadTransport, OpenCause, Raw, Udp};
use socket2::{Domain, Socket, Type};

use crate::netns::{isolated, role};
use crate::rig::{Endpoint, KINDS, ip, outgoing, path};

#[test]
fn a_second_program_is_told_who_the_first_is() {
    isolated(|| {
        // It comes before 127.0.0.1 where all addresses are opened.
        crate::netns::ip("address add 10.9.0.1/32 dev lo");
        for first in KINDS {
            let mut holder = role("refusals::holds_an_address_until_its_input_ends")
                .env("KIND", first)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(holder.stdout.take().unwrap()).lines();
            assert!(lines.any(|line| line.unwrap().contains("open")));
            let name = std::fs::read_to_string("/proc/self/comm").unwrap();
            for second in KINDS {
                for (address, text) in [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]")] {
                    let mut endpoint = Endpoint::new(second);
                    let error = endpoint.transport.open(ip(address), 0).unwrap_err();
                    let pid = holder.id();
                    assert_eq!(
                        error.to_string(),
                        format!(
                            "UDP {text}:4791 is held by {} (pid {pid}): one CM per address",
                            name.trim()
                        )
                    );
                    assert_eq!((error.errno, error.cause_name()), (libc::EADDRINUSE, "held"));
                    let found = error.holder().unwrap();
                    assert_eq!((found.pid, found.uid), (Some(pid), Some(0)));
                    // Nothing is left behind, other addresses are free, and all goes on.
                    endpoint.transport.open(ip("127.0.0.2"), 0).unwrap();
                    endpoint.send(&[outgoing(path("127.0.0.2", "127.0.0.1"), 1)]);
                    assert_eq!(endpoint.failures, []);
                    // All or nothing.
                    let error = endpoint.transport.open(ip("0.0.0.0"), 0).unwrap_err();
                    assert_eq!(error.address.gid.to_ip(), ip("127.0.0.1"));
                    Endpoint::open("udp", "10.9.0.1");
                }
            }
            drop(holder.stdin.take());
            assert!(holder.wait().unwrap().success());
            Endpoint::open(first, "127.0.0.1");
        }
    });
}

#[test]
#[ignore = "a role in other tests"]
fn holds_an_address_until_its_input_ends() {
    let mut endpoint = Endpoint::open(&std::env::var("KIND").unwrap(), "127.0.0.1");
    endpoint.transport.open(ip("::1"), 0).unwrap();
    println!("open");
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_wildcard_socket_is_named_too() {
    isolated(|| {
        for wildcard in ["0.0.0.0", "::"] {
            let _other = UdpSocket::bind((ip(wildcard), 4791)).unwrap();
            let error = Udp::new((0, 0)).unwrap().open(ip("127.0.0.1"), 0).unwrap_err();
            assert_eq!(error.holder().unwrap().pid, Some(std::process::id()), "{wildcard}");
        }
    });
}

#[test]
fn nobody_shares_an_open_address() {
    isolated(|| {
        for kind in KINDS {
            for address in ["127.0.0.1", "::1"] {
                let _endpoint = Endpoint::open(kind, address);
                for (reuse_address, reuse_port) in [(true, false), (false, true), (true, true)] {
                    for wildcard in [false, true] {
                        let domain = Domain::for_address((ip(address), 0).into());
                        let socket = Socket::new(domain, Type::DGRAM, None).unwrap();
                        socket.set_reuse_address(reuse_address).unwrap();
                        socket.set_reuse_port(reuse_port).unwrap();
                        let any = if domain == Domain::IPV4 { "0.0.0.0" } else { "::" };
                        let address = if wildcard { any } else { address };
                        let name = std::net::SocketAddr::new(ip(address), 4791);
                        let error = socket.bind(&name.into()).unwrap_err();
                        assert_eq!(error.raw_os_error(), Some(libc::EADDRINUSE));
                    }
                }
            }
        }
    });
}

#[test]
fn foreign_addresses_and_families_without_addresses_are_refused_in_words() {
    isolated(|| {
        for kind in KINDS {
            let mut endpoint = Endpoint::new(kind);
            for address in ["192.0.2.1", "2001:db8::1"] {
                let error = endpoint.transport.open(ip(address), 0).unwrap_err();
                assert_eq!(error.errno, libc::EADDRNOTAVAIL);
                assert_eq!(error.to_string(), format!("{address} is not an address of this host"));
            }
        }
        crate::netns::ip("-6 address flush dev lo");
        let error = Udp::new((0, 0)).unwrap().open(ip("::"), 0).unwrap_err();
        assert_eq!(error.to_string(), "this host has no IPv6 address");
    });
}

#[test]
fn raw_without_the_capability_says_what_to_do() {
    isolated(|| {
        // A program started in a user namespace without a mapping has no capabilities.
        let output = unprivileged("refusals::has_no_capability").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
#[ignore = "a role in other tests"]
fn has_no_capability() {
    let error = Raw::new((0, 0)).unwrap().open(ip("127.0.0.1"), 0).unwrap_err();
    assert_eq!((error.errno, &error.cause), (libc::EPERM, &OpenCause::NoCapability));
    assert_eq!(error.to_string(), "raw sockets on 127.0.0.1 need the capability CAP_NET_RAW");
    assert!(error.advice().unwrap().contains("setcap cap_net_raw+ep"));
    // `udp` needs no privilege at all.
    Udp::new((0, 0)).unwrap().open(ip("127.0.0.1"), 0).unwrap();
}

#[test]
fn a_socket_of_the_service_manager_is_adopted() {
    isolated(|| {
        for kind in KINDS {
            for (index, address) in ["127.0.0.1", "::1"].into_iter().enumerate() {
                let socket =
                    Socket::new(Domain::for_address((ip(address), 0).into()), Type::DGRAM, None);
                let socket = socket.unwrap();
                // As systemd does.
                socket.set_reuse_address(true).unwrap();
                let name = std::net::SocketAddr::new(ip(address), 4791);
                socket.bind(&name.into()).unwrap();
                let _manager = socket.try_clone().unwrap();

                let output = activated("refusals::adopts_a_socket", socket.into())
                    .env("KIND", kind)
                    .env("ADDRESS", address)
                    .output()
                    .unwrap();
                let text = String::from_utf8_lossy(&output.stdout);
                let errors = String::from_utf8_lossy(&output.stderr);
                assert!(text.contains("1 passed"), "{index} {text}{errors}");
            }
        }
    });
}

#[test]
#[ignore = "a role in other tests"]
fn adopts_a_socket() {
    let (kind, address) = (std::env::var("KIND").unwrap(), std::env::var("ADDRESS").unwrap());
    // It is not for another address.
    Endpoint::open(&kind, "127.0.0.2");
    let mut endpoint = Endpoint::open(&kind, &address);
    endpoint.send(&[outgoing(path(&address, &address), 8)]);
    endpoint.until(|endpoint| endpoint.mads.len() == 1);
    // It is handed out once, and nobody gets in beside it.
    let error = Udp::new((0, 0)).unwrap().open(ip(&address), 0).unwrap_err();
    assert_eq!(error.errno, libc::EADDRINUSE);
    let domain = Domain::for_address((ip(&address), 0).into());
    let intruder = Socket::new(domain, Type::DGRAM, None).unwrap();
    intruder.set_reuse_address(true).unwrap();
    assert!(intruder.bind(&std::net::SocketAddr::new(ip(&address), 4791).into()).is_err());
}

/// The service manager's copy of the socket lives on, and would be polled for ever.
#[test]
fn a_closed_socket_is_not_polled_even_if_the_service_manager_has_it_too() {
    isolated(|| {
        crate::netns::ip("address add 10.9.0.1/32 dev lo");
        let socket = UdpSocket::bind("10.9.0.1:4791").unwrap();
        let output =
            activated("refusals::loses_an_adopted_socket", socket.into()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
    });
}

#[test]
#[ignore = "a role in other tests"]
fn loses_an_adopted_socket() {
    let mut endpoint = Endpoint::new("udp");
    endpoint.transport.open(ip("0.0.0.0"), 0).unwrap();
    endpoint.transport.ports(&mut |_| {}).unwrap();
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&[0], "10.9.0.1:4791").unwrap();
    assert!(endpoint.is_readable());
    crate::netns::ip("address del 10.9.0.1/32 dev lo");
    endpoint.transport.ports(&mut |_| {}).unwrap();
    assert!(!endpoint.is_readable());
}

/// A command that plays a role with a socket passed to it.
fn activated(name: &str, socket: OwnedFd) -> Command {
    let me = role(name);
    let script = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(me.get_program()).args(me.get_args());
    command.stdin(Stdio::from(socket));
    command
}

/// A command in a user namespace without any mapping, in the same network namespace.
fn unprivileged(name: &str) -> Command {
    let me = role(name);
    let mut command = Command::new("unshare");
    command.arg("--user").arg(me.get_program()).args(me.get_args());
    command
}

/// Nobody answers with ICMP for an address that `raw` has open.
#[test]
fn the_sink_beside_a_raw_socket_keeps_the_kernel_quiet() {
    isolated(|| {
        for (a, b) in crate::rig::PAIRS {
            let mut raw = Endpoint::open("raw", b);
            let mut udp = Endpoint::open("udp", a);
            for number in 0..300 {
                assert_eq!(udp.send(&[outgoing(path(a, b), number)]), 1);
            }
            raw.until(|raw| raw.mads.len() == 300);
            udp.drain();
            assert_eq!(udp.failures, []);
            // Nor does the sink collect what it does not hear.
            let tables = ["/proc/net/udp", "/proc/net/udp6"].map(std::fs::read_to_string);
            let lines = tables.iter().flatten().flat_map(|table| table.lines());
            let queues: Vec<_> = lines
                .filter(|line| line.contains(":12B7 "))
                .map(|line| line.split_ascii_whitespace().nth(4).unwrap())
                .collect();
            assert_eq!(queues, ["00000000:00000000"; 2]);
        }
    });
}
