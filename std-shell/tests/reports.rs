//! Field reports (facts: reports.md) as far as they are the shell's to show: each a test named after its
//! number. The engine's part, and an index, is in `core/tests/reports`.

#[allow(dead_code)] // the program's tests use all of it
mod common;
#[allow(dead_code)]
#[path = "program/process.rs"]
mod process;
#[path = "program/wire.rs"]
mod wire;

use common::eventually;
use nanocm::core::wire::{Mad, Req};
use nanocm::provider::MemNet;
use nanocm::{Capacity, Cm, Config, ConnParam, Deadline, Drive, IdOption, PortSpace, State};
use process::*;
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};
use wire::Wire;

/// Two managers on one network, with 10.0.0.1 and 10.0.0.2.
fn pair(drive: Drive) -> [Cm; 2] {
    let net = MemNet::new(1);
    [1, 2].map(|last| {
        let endpoint = net.endpoint(&[IpAddr::from([10, 0, 0, last])]).unwrap();
        Cm::over(endpoint, Config::new(last.into()), Capacity::of(8), drive).unwrap()
    })
}

fn soon() -> Deadline {
    Deadline::after_secs(20)
}

#[test]
fn h4_accepting_has_a_deadline_and_can_be_done_again() {
    const SHORT: Duration = Duration::from_millis(10);
    for drive in [Drive::Thread, Drive::Caller] {
        let [client, server] = pair(drive);
        let address = SocketAddr::from(([10, 0, 0, 2], 4420));
        let listener = server.listen(address, 0).unwrap();
        let channel = server.channel().unwrap();
        // Never before its time; and in time unless the machine is busy, which it is not always.
        let mut shortest = Duration::MAX;
        for _ in 0..20 {
            let start = Instant::now();
            assert!(listener.request(Deadline::after(SHORT)).unwrap().is_none());
            let taken = start.elapsed();
            assert!(taken >= SHORT, "{taken:?}");
            shortest = shortest.min(taken);
            assert!(channel.next(Deadline::after(SHORT)).unwrap().is_none());
            assert!(start.elapsed() >= 2 * SHORT);
        }
        assert!(shortest < 5 * SHORT, "{shortest:?}");
        // It is as good as new.
        thread::scope(|scope| {
            scope.spawn(|| client.connect(address, soon()).unwrap().disconnect(soon()).unwrap());
            let request = listener.request(soon()).unwrap().expect("a request");
            let connection = request.accept(&ConnParam::new(2), soon()).unwrap();
            connection.wait_disconnected(soon()).unwrap().expect("an end");
        });
    }
}

/// A GID that is an IPv4 address in its mapped form is that address; any other takes an InfiniBand
/// provider, or as an IPv6 address its zone. Nothing hangs.
#[test]
fn i6_a_gid_on_roce_is_an_ip_address_or_refused() {
    let [client, server] = pair(Drive::Thread);
    let listener = server.listen("[::ffff:10.0.0.2]:4420".parse().unwrap(), 0).unwrap();
    assert_eq!(listener.local_addr(), Some(SocketAddr::from(([10, 0, 0, 2], 4420))));
    thread::scope(|scope| {
        scope.spawn(|| {
            let request = listener.request(soon()).unwrap().expect("a request");
            drop(request.accept(&ConnParam::new(2), soon()));
        });
        drop(client.connect("[::ffff:10.0.0.2]:4420".parse().unwrap(), soon()).unwrap());
    });

    isolated!();
    let (listener, _) = listen("[::ffff:127.0.0.2]:7471 --count 2");
    for peer in ["[::ffff:127.0.0.2]:7471", "127.0.0.2:7471"] {
        run(&format!("connect {peer} --json")).with(0);
    }
    listener.end().with(0);
    for gid in ["::ffff:127.0.0.2", "fe80::5054:ff:fe12:3456"] {
        for arguments in [
            format!("connect gid:[{gid}]:7471"),
            format!("listen gid:[{gid}]:7471"),
            format!("resolve gid:[{gid}]:7471"),
        ] {
            let error = run(&format!("{arguments} --json")).failed("EOPNOTSUPP", "provider");
            assert!(error["message"].as_str().unwrap().contains("InfiniBand"), "{error}");
        }
    }
    let eui = "fe80::5054:ff:fe12:3456";
    run(&format!("connect [{eui}]:7471 --json")).failed("EINVAL", "scope-missing");
    veth();
    let client = run(&format!("connect [{eui}%left]:7471 --timeout 700 --json"));
    assert_eq!(client.names(), ["UNREACHABLE", "ERROR"], "{:?}", client.lines);
}

/// Network interfaces `eth0` and `eth1`, both with fe80::1; what is at the other ends, `p0` and `p1`, is in
/// a namespace of its own.
struct Links(Child);

impl Links {
    fn new() -> Links {
        let mut shell = Command::new("unshare");
        shell.args(["-n", "sh", "-c", "echo ready; exec sleep 1000"]).stdout(Stdio::piped());
        let mut child = shell.spawn().expect("unshare");
        let mut ready = [0; 5];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut ready).unwrap();
        let links = Links(child);
        for i in 0..2 {
            let pid = links.0.id();
            sh(&format!(
                "ip link add eth{i} type veth peer name p{i}
                 ip link set p{i} netns {pid}
                 ip addr add fe80::1/64 dev eth{i} nodad
                 ip link set eth{i} up
                 nsenter -t {pid} -n ip addr add fe80::a{i}/64 dev p{i} nodad
                 nsenter -t {pid} -n ip link set p{i} up"
            ));
        }
        eventually("they have routes", || {
            sh("ip -6 route show table local").matches("local fe80::1 ").count() == 2
        });
        links
    }

    /// Runs `nanocm` over there.
    fn run(&self, arguments: &str) -> Ended {
        let mut command = Command::new("nsenter");
        let pid = self.0.id().to_string();
        command.args(["-t", &pid, "-n", env!("CARGO_BIN_EXE_nanocm")]);
        start_as(&mut command, arguments).end()
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What becomes of an address.
enum Is {
    /// It is understood, and not this host's.
    Foreign,
    /// It is understood, and used.
    Used(&'static str),
    /// It lacks its zone.
    Ambiguous,
    /// It cannot be understood.
    Nonsense(&'static str),
}
use Is::{Ambiguous, Foreign, Nonsense, Used};

#[test]
fn i7_addresses_are_understood_with_brackets_zones_and_ports() {
    isolated!();
    let _links = Links::new();
    let link = sh("ip -o link show eth1");
    let by_number = format!("[fe80::1%{}]:9000", link.split(':').next().unwrap());
    let table = [
        ("[2001:db8::1]:9000", Foreign),
        ("192.0.2.1:5555", Foreign),
        ("127.0.0.1:5555", Used("127.0.0.1:5555")),
        ("[::1]:9000", Used("[::1]:9000")),
        ("[fe80::1%eth0]:9000", Used("[fe80::1%")),
        (&by_number, Used("[fe80::1%")),
        ("[fe80::1]:9000", Ambiguous),
        ("0.0.0.0:9000", Used("0.0.0.0:9000")),
        ("[::]:9000", Used("[::]:9000")),
        ("fe80::1%eth0", Nonsense("the port is missing")),
        ("::", Nonsense("the port is missing")),
        ("[::]", Nonsense("the port is missing")),
        ("::1:9000", Nonsense("the port is missing")),
        ("[fe80::1%eth9]:9000", Nonsense("no network interface")),
        ("[2001:db8::1%eth0]:9000", Nonsense("not link-local")),
        ("[::1:9000", Nonsense("brackets")),
        ("host:9000", Nonsense("names are not looked up")),
        ("", Nonsense("no IP address")),
    ];
    for (address, is) in table {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nanocm"));
        command.args(["listen", "--json", address]);
        let mut listener = start_as(&mut command, "");
        match is {
            Foreign => _ = listener.end().failed("EADDRNOTAVAIL", "not-local"),
            Ambiguous => _ = listener.end().failed("EINVAL", "scope-missing"),
            Nonsense(part) => {
                let ended = listener.end().with(2);
                assert!(ended.stderr.contains(part), "{address}: {}", ended.stderr);
            }
            Used(local) => {
                let listening = listener.event("LISTENING");
                let told = listening["local"].as_str().unwrap();
                assert!(told.starts_with(local) && !told.contains("%0"), "{address}: {told}");
                listener.signal("TERM");
                listener.end().with(0);
            }
        }
    }
    // Sources need no port, and so no brackets.
    for from in ["fe80::1%eth0", "[fe80::1%eth0]", "::", "[::]:0"] {
        let error = run(&format!("connect [fe80::a0%eth0]:1 --from {from} --timeout 50 --json"));
        assert_eq!(error.names(), ["UNREACHABLE", "ERROR"], "{from}: {:?}", error.lines);
    }
}

#[test]
fn i7_the_zone_selects_the_device() {
    isolated!();
    let links = Links::new();
    let (mut first, _) = listen("[fe80::1%eth0]:9000");
    let (mut second, _) = listen("[fe80::1%eth1]:9000 --count 1");
    for (zone, listener) in [("p1", &mut second), ("p0", &mut first)] {
        links.run(&format!("connect [fe80::1%{zone}]:9000")).with(0);
        let request = listener.event("CONNECT_REQUEST");
        let peer = request["peer"].as_str().unwrap();
        assert!(peer.starts_with(&format!("[fe80::a{}%", &zone[1..])), "{peer}");
    }
    second.end().with(0);
    first.signal("TERM");
    first.end().with(0);
    // The wildcard takes any device.
    let (wild, _) = listen("[::]:9000 --count 2");
    for zone in ["p0", "p1"] {
        links.run(&format!("connect [fe80::1%{zone}]:9000")).with(0);
    }
    wild.end().with(0);
}

/// In the REQ, on its packet, and on those that answer it.
#[test]
fn j1_the_type_of_service_is_in_the_req_and_on_every_packet() {
    const REQ: u16 = 0x10;
    isolated!();
    let (_listener, local) = listen("127.0.0.2:7471");
    for (option, tos) in [("--tos 104", 104), ("--tos 255", 255), ("--tos 0", 0), ("", 0)] {
        let wire = Wire::tap();
        run(&format!("connect {local} {option}")).with(0);
        let seen = wire.datagrams();
        assert!(seen.len() >= 10, "five messages, each twice");
        for datagram in &seen {
            assert_eq!(datagram.traffic_class, tos, "{option}");
        }
        let req = seen.iter().find(|datagram| datagram.attribute == REQ).expect("a REQ");
        let mad: &Mad = req.payload[20..].first_chunk().expect("a MAD");
        assert_eq!(Req(mad).primary_traffic_class(), tos, "{option}");
    }
}

#[test]
fn j1_the_type_of_service_is_set_before_connect() {
    let [client, server] = pair(Drive::Thread);
    let _listener = server.listen(SocketAddr::from(([10, 0, 0, 2], 4420)), 0).unwrap();
    let channel = client.channel().unwrap();
    let id = client.create_id(&channel, PortSpace::Tcp).unwrap();
    id.set_option(IdOption::Tos(104)).unwrap();
    let second = Duration::from_secs(1);
    id.resolve_addr(None, SocketAddr::from(([10, 0, 0, 2], 4420)), second).unwrap();
    id.resolve_route(second).unwrap();
    id.connect(&ConnParam::new(1)).unwrap();
    let error = id.set_option(IdOption::Tos(0)).unwrap_err();
    assert_eq!((error.errno(), id.state()), (libc::EINVAL, State::Connect), "{error}");
    assert!(format!("{:?}", id.path()).contains("traffic_class: 104"));
}
