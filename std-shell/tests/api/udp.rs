//! Over real sockets, in a network namespace.

use crate::isolated;
use crate::world::*;
use nanocm::provider::Udp;
use nanocm::{
    Capacity, Cause, Cm, Config, ConnParam, Deadline, DisconnectCause, Drive, Unreachable,
};
use std::net::SocketAddr;
use std::thread;

fn udp(drive: Drive) -> Cm {
    let config = Config::new(nanocm::random_seed().unwrap());
    Cm::over(Udp::new((0, 0)).unwrap(), config, Capacity::of(256), drive).unwrap()
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn meet_and_part(client: &Cm, from: &str, server: &Cm, listen: &str, to: &str) {
    let listener = server.listen(address(listen), 0).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let connection = accept(request(&listener));
            assert_eq!(connection.peer().ip(), address(from).ip());
            let cause = connection.wait_disconnected(soon()).unwrap();
            assert_eq!(cause, Some(DisconnectCause::Peer));
        });
        let param = ConnParam::new(0x4000);
        let connection =
            client.connect_with(Some(address(from)), address(to), &param, soon()).unwrap();
        assert_eq!(connection.peer(), address(to));
        assert_eq!(connection.disconnect(soon()).unwrap(), DisconnectCause::Local);
    });
}

#[test]
fn two_managers_of_one_process_meet() {
    isolated!();
    for drive in DRIVES {
        let (client, server) = (udp(drive), udp(drive));
        meet_and_part(&client, "127.0.0.1:0", &server, "127.0.0.2:4420", "127.0.0.2:4420");
    }
}

/// `::` is for IPv4 too, as for librdmacm and TCP.
#[test]
fn the_ipv6_wildcard_takes_both_families() {
    isolated!();
    let (client, server) = (udp(Drive::Thread), udp(Drive::Thread));
    meet_and_part(&client, "127.0.0.5:0", &server, "[::]:4420", "127.0.0.1:4420");
    // A manager may well connect to itself.
    meet_and_part(&server, "[::1]:0", &server, "[::]:4420", "[::1]:4420");
}

#[test]
fn the_ipv6_wildcard_leaves_ipv4_alone_if_told_to() {
    isolated!();
    let cm = udp(Drive::Thread);
    let channel = cm.channel().unwrap();
    let id = cm.create_id(&channel, nanocm::PortSpace::Tcp).unwrap();
    id.set_option(nanocm::IdOption::AfOnly(true)).unwrap();
    id.bind(address("[::]:4420")).unwrap();
    id.listen(0).unwrap();
    let other = udp(Drive::Thread);
    other.open(address("127.0.0.1:0")).expect("nobody has it");
    let error = other.open(address("[::1]:0")).unwrap_err();
    assert_eq!(error.errno(), libc::EADDRINUSE);
}

#[test]
fn nothing_on_the_port_is_told_before_the_deadline() {
    isolated!();
    let client = udp(Drive::Thread);
    let error = client.connect(address("127.0.0.7:4420"), Deadline::NEVER).unwrap_err();
    let refused = Unreachable::SendFailed(libc::ECONNREFUSED);
    assert!(matches!(error.cause, Cause::Unreachable(why) if why == refused), "{error}");
}

#[test]
fn eight_threads_connect_over_one_socket() {
    isolated!();
    let (client, server) = (udp(Drive::Thread), udp(Drive::Thread));
    client.open(address("127.0.0.1:0")).unwrap();
    let listener = server.listen(address("127.0.0.2:4420"), 0).unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            let client = client.clone();
            scope.spawn(move || {
                for _ in 0..25 {
                    let connection = client.connect(address("127.0.0.2:4420"), soon()).unwrap();
                    connection.disconnect(soon()).unwrap();
                }
            });
        }
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let param = ConnParam::new(server.next_qpn());
                    let connection = request(&listener).accept(&param, soon()).unwrap();
                    connection.wait_disconnected(soon()).unwrap().expect("an end");
                }
            });
        }
    });
    assert_eq!(server.counters().established, 200);
}
