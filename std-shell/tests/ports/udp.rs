//! Numbers of UDP, where it is asked for.

use crate::isolated;
use crate::world::{at, cm};
use nanocm::PortSpace;
use nanocm::host_ports::{HostPortConfig, HostPorts, PortPolicy, Space};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

#[track_caller]
fn assert_held(address: SocketAddr) {
    for (reuse_addr, reuse_port) in [(false, false), (true, false), (false, true), (true, true)] {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, None).unwrap();
        socket.set_reuse_address(reuse_addr).unwrap();
        socket.set_reuse_port(reuse_port).unwrap();
        let bound = socket.bind(&SockAddr::from(address));
        assert_eq!(bound.map_err(|e| e.raw_os_error()), Err(Some(libc::EADDRINUSE)), "{address}");
    }
}

#[test]
fn they_are_not_held_by_default() {
    isolated!();
    let world = cm(4);
    let id = world.0.create_id(&world.1, PortSpace::Udp).unwrap();
    id.bind(at("127.0.0.1:5001")).unwrap();
    UdpSocket::bind("127.0.0.1:5001").unwrap();
    drop(id);
    world.0.host_ports().set_config(HostPortConfig::all(PortPolicy::Host));
    let id = world.0.create_id(&world.1, PortSpace::Udp).unwrap();
    id.bind(at("127.0.0.1:5001")).unwrap();
    assert_held(at("127.0.0.1:5001"));
}

#[test]
fn a_stray_client_is_told_that_nobody_is_there() {
    isolated!();
    let ports = HostPorts::default();
    let _held = ports.reserve(Space::Udp, at("127.0.0.1:5001")).unwrap();
    assert_held(at("127.0.0.1:5001"));
    assert_held(at("0.0.0.0:5001"));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    client.connect("127.0.0.1:5001").unwrap();
    client.send(&[0]).unwrap();
    let error = client.recv(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
}

#[test]
fn a_wildcard_is_held_on_every_address_and_keeps_nothing() {
    isolated!();
    let ports = HostPorts::default();
    let _held = ports.reserve(Space::Udp, at("0.0.0.0:5001")).unwrap();
    for address in ["0.0.0.0:5001", "127.0.0.1:5001", "127.0.0.2:5001"] {
        assert_held(at(address));
    }
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for _ in 0..100 {
        let _ = client.send_to(&[0; 1000], "127.0.0.1:5001");
    }
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    let line = table.lines().find(|line| line.contains(":1389 ")).unwrap();
    assert!(line.contains(":00000000 00:"), "something waits to be read: {line}");
}

/// As in TCP's port space, our own socket makes way.
#[test]
fn a_wildcard_and_an_address_share_a_number_in_either_order() {
    isolated!();
    let ports = HostPorts::default();
    for order in [["127.0.0.1:5001", "0.0.0.0:5001"], ["0.0.0.0:5001", "127.0.0.1:5001"]] {
        let both = order.map(|address| ports.reserve(Space::Udp, at(address)).unwrap());
        for address in ["0.0.0.0:5001", "127.0.0.1:5001", "127.0.0.2:5001"] {
            assert_held(at(address));
        }
        drop(both);
        UdpSocket::bind("0.0.0.0:5001").expect("it is free");
    }
}

#[test]
fn the_other_program_is_named() {
    isolated!();
    let _other = UdpSocket::bind("127.0.0.1:5001").unwrap();
    let error = HostPorts::default().reserve(Space::Udp, at("127.0.0.1:5001")).unwrap_err();
    assert_eq!(error.cause_name(), "listener");
    assert_eq!(error.holder().unwrap().pid, Some(std::process::id()));
}
