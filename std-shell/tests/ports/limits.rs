//! Where there are no more: of numbers, of descriptors.

use crate::isolated;
use crate::world::{assert_held, at, cm, id};
use nanocm::host_ports::{HostPortConfig, HostPorts, PortCause, Space};
use nanocm::{Cause, Id, PortSpace};
use std::net::{TcpListener, TcpStream};

fn set_range(range: &str) {
    std::fs::write("/proc/sys/net/ipv4/ip_local_port_range", range).unwrap();
}

#[test]
fn at_the_share_limit_the_host_still_connects_from_everywhere() {
    isolated!();
    let server = TcpListener::bind("127.0.0.1:443").unwrap();
    let server_v6 = TcpListener::bind("[::1]:443").unwrap();
    set_range("40000 40099");
    let world = cm(100);
    let ids: Vec<Id> = (0..50)
        .map(|_| {
            let id = id(&world);
            let port = id.bind(at("127.0.0.1:0")).unwrap();
            assert_eq!(port % 2, 1, "{port}");
            assert_held(at(&format!("127.0.0.1:{port}")));
            id
        })
        .collect();
    let one_more = id(&world).bind(at("127.0.0.1:0")).unwrap_err();
    let Cause::Port(error) = &one_more.cause else { panic!("{one_more}") };
    assert_eq!(error.cause, PortCause::HostShare { limit: 50, range: (40_000, 40_099) });
    assert_eq!(one_more.errno(), libc::EAGAIN);
    let words = one_more.to_string();
    assert!(words.contains("exhausted") && words.contains("50 of 40000 to 40099"), "{words}");
    assert!(one_more.advice().unwrap().contains("--ports independent"), "the switch is named");
    // Nor does an explicit number of the range go beyond it; outside it there is no limit.
    let explicit = id(&world).bind(at("127.0.0.1:40002")).unwrap_err();
    assert!(matches!(explicit.cause, Cause::Port(_)), "{explicit}");
    id(&world).bind(at("127.0.0.1:5001")).unwrap();
    for from in ["127.0.0.1:0", "127.0.0.9:0", "0.0.0.0:0"] {
        let client =
            socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        // As a program that cares for its address and not for its port.
        if from != "0.0.0.0:0" {
            client.bind(&at(from).into()).unwrap();
        }
        client.connect(&server.local_addr().unwrap().into()).unwrap();
        server.accept().unwrap();
    }
    TcpStream::connect("127.0.0.1:443").expect("unbound");
    TcpStream::connect("[::1]:443").expect("over IPv6");
    drop((ids, server_v6));
}

/// On the command line: the word, the limit and the switch are in the refusal itself.
#[test]
fn the_refusal_at_the_share_limit_says_what_it_is() {
    isolated!();
    set_range("40000 40003");
    let ended =
        crate::process::run("ports reserve 127.0.0.1:0 127.0.0.1:0 127.0.0.1:0 --hold 1 --json");
    let told = ended.events();
    assert_eq!((&told[0]["event"], &told[0]["cause"]), (&"REFUSED".into(), &"host-share".into()));
    let message = told[0]["message"].as_str().unwrap();
    for part in ["exhausted", "2 of 40000 to 40003", "host_share"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(told[0]["advice"].as_str().unwrap().contains("--ports independent"));
    ended.failed("EAGAIN", "host-share");
}

#[test]
fn the_share_can_be_set() {
    isolated!();
    set_range("40000 40099");
    let ports = HostPorts::default();
    let mut config = HostPortConfig::default();
    config.host_share = Some(3);
    ports.set_config(config);
    let three: Vec<_> =
        (0..3).map(|_| ports.reserve(Space::Tcp, at("127.0.0.1:0")).unwrap()).collect();
    let fourth = ports.reserve(Space::Tcp, at("127.0.0.1:0")).unwrap_err();
    assert!(matches!(fourth.cause, PortCause::HostShare { limit: 3, .. }));
    drop(three);
    config.host_share = Some(100);
    ports.set_config(config);
    let all: Vec<_> =
        (0..100).map(|_| ports.reserve(Space::Tcp, at("127.0.0.1:0")).unwrap()).collect();
    assert_eq!(all.len(), 100);
}

/// No outgoing connection can have them anyway.
#[test]
fn numbers_that_are_kept_out_of_the_range_do_not_count() {
    isolated!();
    set_range("40000 40099");
    std::fs::write("/proc/sys/net/ipv4/ip_local_reserved_ports", "40010-40019").unwrap();
    let ports = HostPorts::default();
    let mut config = HostPortConfig::default();
    config.host_share = Some(2);
    ports.set_config(config);
    let reserve =
        |port: u16| ports.reserve(Space::Tcp, std::net::SocketAddr::from(([127, 0, 0, 1], port)));
    let kept_out: Vec<_> = (40_010..=40_019).map(|port| reserve(port).unwrap()).collect();
    let two = [reserve(0).unwrap(), reserve(0).unwrap()];
    for port in [0, 40_050] {
        let third = reserve(port).unwrap_err();
        assert!(matches!(third.cause, PortCause::HostShare { limit: 2, .. }), "{third}");
    }
    drop((kept_out, two));
}

/// Reports A8.
#[test]
fn a_range_of_ones_own_is_used_up_and_a_freed_number_is_free_at_once() {
    isolated!();
    let mut config = nanocm::Config::new(1);
    config.port_range = (10_000, 10_002);
    let transport = nanocm::provider::Udp::new((0, 0)).unwrap();
    let capacity = nanocm::Capacity::of(8);
    let cm = nanocm::Cm::over(transport, config, capacity, nanocm::Drive::Caller).unwrap();
    let channel = cm.channel().unwrap();
    let world = (cm, channel);
    let any = at("127.0.0.1:0");
    let mut ids: Vec<Id> = (0..3).map(|_| id(&world)).collect();
    let mut ports: Vec<u16> = ids.iter().map(|id| id.bind(any).unwrap()).collect();
    ports.sort_unstable();
    assert_eq!(ports, [10_000, 10_001, 10_002]);
    let fourth = id(&world);
    let error = fourth.bind(any).unwrap_err();
    let Cause::Port(port) = &error.cause else { panic!("{error}") };
    assert_eq!((port.cause_name(), error.errno()), ("exhausted", libc::EAGAIN));
    let freed = ids.pop().and_then(|id| id.local_addr()).unwrap();
    assert_eq!(fourth.bind(any).unwrap(), freed.port());
    assert_held(freed);
}

#[test]
fn numbers_that_others_have_are_passed_over() {
    isolated!();
    set_range("40000 40019");
    let other: Vec<_> = [40_001, 40_003, 40_005, 40_007, 40_009, 40_011, 40_013, 40_015, 40_017]
        .into_iter()
        .map(|port| TcpListener::bind(("127.0.0.1", port)).unwrap())
        .collect();
    std::fs::write("/proc/sys/net/ipv4/ip_local_reserved_ports", "40019").unwrap();
    let ports = HostPorts::default();
    // All that is left is even: the host gives it.
    let held = ports.reserve(Space::Tcp, at("127.0.0.1:0")).unwrap();
    assert_eq!(held.number().port % 2, 0);
    drop(other);
    let next = ports.reserve(Space::Tcp, at("127.0.0.1:0")).unwrap();
    assert_eq!(next.number().port % 2, 1);
}

#[test]
fn the_host_may_choose() {
    isolated!();
    let ports = HostPorts::default();
    let mut config = HostPortConfig::default();
    config.ephemeral = nanocm::host_ports::Ephemeral::Host;
    ports.set_config(config);
    for (space, address) in [(Space::Tcp, "127.0.0.1:0"), (Space::Udp, "[::1]:0")] {
        let held = ports.reserve(space, at(address)).unwrap();
        assert_ne!(held.number().port, 0);
    }
}

#[test]
fn out_of_descriptors_nothing_is_half_held() {
    isolated!();
    let world = cm(256);
    let warm = id(&world);
    warm.bind(at("127.0.0.1:0")).unwrap();
    limit_descriptors(64);
    let mut ids = vec![warm];
    let error = loop {
        let id = id(&world);
        match id.bind(at("127.0.0.1:0")) {
            Ok(_) => ids.push(id),
            Err(error) => break error,
        }
    };
    assert_eq!(error.errno(), libc::EMFILE, "{error}");
    let Cause::Port(port) = &error.cause else { panic!("{error}") };
    assert_eq!(port.cause_name(), "descriptors");
    assert!(error.advice().unwrap().contains("RLIMIT_NOFILE"));
    assert!(ids.len() > 16 && ids.len() < 64, "{}", ids.len());
    assert_eq!(world.0.ports_in_use(PortSpace::Tcp), ids.len(), "bits in the map");
    assert_eq!(world.0.host_ports().sockets(), ids.len(), "sockets held");
    ids.pop();
    let id = id(&world);
    id.bind(at("127.0.0.1:0")).expect("one is free again");
}

fn limit_descriptors(limit: u64) {
    let limit = libc::rlimit { rlim_cur: limit, rlim_max: 4096 };
    // SAFETY: the limits live through the call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

/// Accepted identifiers hold no port.
#[test]
fn a_connection_outlives_its_listener_without_the_port() {
    isolated!();
    let (mut client, server) = connected();
    crate::world::assert_free(at("127.0.0.1:5001"));
    assert_eq!(server.conn_state(), nanocm::ConnState::Established);
    client.signal("INT");
    client.event("DISCONNECTED");
}

fn connected() -> (crate::process::Program, Id) {
    let (cm, channel) = cm(8);
    let listener = cm.create_id(&channel, PortSpace::Tcp).unwrap();
    listener.bind(at("127.0.0.1:5001")).unwrap();
    listener.listen(0).unwrap();
    let mut client =
        crate::process::start("connect 127.0.0.1:5001 --from 127.0.0.9 --hold 60000 --json");
    let mut request = None;
    crate::common::eventually("a request", || {
        cm.drive().unwrap();
        request = channel.try_next().unwrap().and_then(|mut event| event.take_request());
        request.is_some()
    });
    let server = request.unwrap();
    server.accept(&nanocm::ConnParam::new(77)).unwrap();
    crate::common::eventually("established", || {
        cm.drive().unwrap();
        server.conn_state() == nanocm::ConnState::Established
    });
    client.event("ESTABLISHED");
    assert_held(at("127.0.0.1:5001"));
    drop(listener);
    // The connection manager goes on by itself.
    std::thread::spawn(move || {
        loop {
            let _ = cm.drive();
            let _ = channel.try_next();
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    });
    (client, server)
}
