//! Each thing that can be in the way, with its own cause.

use crate::isolated;
use crate::process::{Ended, run, start_as};
use crate::world::{Options, at, bind, cm, id, leave_remnants};
use nanocm::Cause;
use nanocm::host_ports::{HostPorts, PortError, Space};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;

fn refusal(address: &str) -> PortError {
    HostPorts::default().reserve(Space::Tcp, at(address)).expect_err("it is taken")
}

#[test]
fn the_source_port_of_an_outgoing_connection() {
    isolated!();
    // Within the ephemeral range, and outside it.
    for port in [40_000, 5_001] {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = bind(at(&format!("127.0.0.1:{port}")), Options::default()).unwrap();
        client.connect(&server.local_addr().unwrap().into()).unwrap();
        let refused = refusal(&format!("127.0.0.1:{port}"));
        assert_eq!((refused.cause_name(), refused.errno), ("source-port", libc::EADDRINUSE));
        assert_eq!(refused.found().unwrap().remote, Some(server.local_addr().unwrap()));
        assert_eq!(refused.holder().unwrap().pid, Some(std::process::id()));
        assert!(refused.advice().unwrap().contains("ip_local_reserved_ports"));
        drop((client, server.accept().unwrap()));
    }
}

/// What an autobound connection leaves: the kernel gave it the number, and it has ended.
#[test]
fn the_source_port_of_a_connection_that_has_just_ended() {
    isolated!();
    let server = TcpListener::bind("127.0.0.1:443").unwrap();
    let client = TcpStream::connect("127.0.0.1:443").unwrap();
    let local = client.local_addr().unwrap();
    let (accepted, _) = server.accept().unwrap();
    drop(client);
    drop((accepted, server));
    let refused = refusal(&local.to_string());
    assert_eq!(refused.cause_name(), "source-port", "{refused}");
}

#[test]
fn what_a_service_without_reuseaddr_leaves() {
    isolated!();
    leave_remnants(at("127.0.0.1:5001"), Options::default());
    let refused = refusal("127.0.0.1:5001");
    assert_eq!((refused.cause_name(), refused.errno), ("remnants", libc::EADDRINUSE), "{refused}");
    assert!(refused.advice().unwrap().contains("at most 60 s"));
    assert!(refused.holder().is_none(), "TIME_WAIT has no process");
    // Its connections that still stand are another matter.
    let listener = bind(at("127.0.0.1:5002"), Options::default()).unwrap();
    listener.listen(1).unwrap();
    let listener = TcpListener::from(listener);
    let _client = TcpStream::connect("127.0.0.1:5002").unwrap();
    let _accepted = listener.accept().unwrap();
    drop(listener);
    let refused = refusal("127.0.0.1:5002");
    assert_eq!(refused.cause_name(), "remnants", "{refused}");
    assert_eq!(refused.holder().unwrap().pid, Some(std::process::id()));
    assert!(refused.advice().unwrap().contains("connections have ended"));
}

/// A service on an ephemeral number, and a client from another one: nobody can tell which is which,
/// so the advice is for both.
#[test]
fn a_connection_that_either_side_may_have_made() {
    isolated!();
    leave_remnants(at("127.0.0.1:40001"), Options::default());
    let refused = refusal("127.0.0.1:40001");
    assert!(!refused.found().unwrap().is_certain, "{refused}");
    let advice = refused.advice().unwrap();
    assert!(advice.contains("SO_REUSEADDR") && advice.contains("ip_local_reserved_ports"));
}

/// As an NFS client connects: from a number below 1024 that needs privileges.
#[test]
fn a_connection_from_a_privileged_number_is_a_services() {
    isolated!();
    let listener = bind(at("127.0.0.1:2049"), Options::default()).unwrap();
    listener.listen(1).unwrap();
    let client = bind(at("127.0.0.1:700"), Options::default()).unwrap();
    client.connect(&at("127.0.0.1:2049").into()).unwrap();
    let accepted = listener.accept().unwrap();
    drop(listener);
    let told = ["127.0.0.1:2049", "127.0.0.1:700"].map(refusal);
    assert_eq!(told.map(|refused| refused.cause_name()), ["remnants", "source-port"]);
    drop((client, accepted));
}

#[test]
fn a_security_policy() {
    isolated!();
    let told = run_with("ports check 127.0.0.1:5001 --json", forbid_bind);
    let error = told.failed("EACCES", "policy");
    assert!(error["advice"].as_str().unwrap().contains("SELinux"), "{error}");
    let any = run_with("ports reserve 127.0.0.1:0 --json", forbid_bind);
    any.failed("EACCES", "policy");
}

#[test]
fn a_privileged_port() {
    isolated!();
    let told = run_with("ports check 127.0.0.1:445 --json", drop_bind_capability);
    let error = told.failed("EACCES", "privileged");
    assert!(error["advice"].as_str().unwrap().contains("ip_unprivileged_port_start"), "{error}");
    let told = run_with("listen 127.0.0.1:445 --json", drop_bind_capability);
    told.failed("EACCES", "privileged");
    // Nor is a range exhausted of which none may be had.
    let range = refusal_of_a_privileged_range();
    assert_eq!((range.cause_name(), range.errno), ("privileged", libc::EACCES), "{range}");
    // The bound is the namespace's.
    std::fs::write("/proc/sys/net/ipv4/ip_unprivileged_port_start", "400").unwrap();
    run_with("ports check 127.0.0.1:445 --json", drop_bind_capability).with(0);
}

#[test]
fn an_address_of_another_host() {
    isolated!();
    run("ports check 192.0.2.9:5001 --json").failed("EADDRNOTAVAIL", "not-local");
    run("listen 192.0.2.9:5001 --json").failed("EADDRNOTAVAIL", "not-local");
    run("ports check gid:[fe80::1]:5001 --json").failed("EOPNOTSUPP", "provider");
}

#[test]
fn a_reservation_of_another_program() {
    isolated!();
    let _other = bind(at("127.0.0.1:5001"), Options::default()).unwrap();
    let refused = refusal("127.0.0.1:5001");
    assert_eq!(
        (refused.cause_name(), refused.errno),
        ("reservation", libc::EADDRINUSE),
        "{refused}"
    );
    // Linux tells since 6.8 who it is.
    if let Some(holder) = refused.holder() {
        assert_eq!(holder.pid, Some(std::process::id()));
    }
}

/// A listener for IPv6 alone is in nobody's way who wants an IPv4 address.
#[test]
fn a_reservation_beside_an_ipv6_listener() {
    isolated!();
    let six = bind(at("[::]:5001"), Options { v6_only: true, ..Options::default() }).unwrap();
    six.listen(1).unwrap();
    for (listens, cause) in [(false, "reservation"), (true, "listener")] {
        let other = bind(at("127.0.0.1:5001"), Options::default()).unwrap();
        if listens {
            other.listen(1).unwrap();
        }
        let refused = refusal("127.0.0.1:5001");
        // Before Linux 6.8 only a listener is seen.
        if listens || sees_reservations() {
            assert_eq!(refused.cause_name(), cause, "{refused}");
            assert_eq!(refused.found().unwrap().local, at("127.0.0.1:5001"), "{refused}");
        }
    }
}

/// A socket that listens and that no process has: as the kernel's own look, and one that is on its
/// way from one process to another.
#[test]
fn a_listener_inside_the_kernel() {
    isolated!();
    let program = std::env::temp_dir().join(format!("nanocm-test-{}.py", std::process::id()));
    let text = "import socket, time
server = socket.create_server(('127.0.0.1', 5001))
ours, theirs = socket.socketpair()
socket.send_fds(ours, [b'.'], [server.fileno()])
server.close()
print('ready', flush=True)
time.sleep(100)
";
    std::fs::write(&program, text).unwrap();
    let mut python = start_as(&mut Command::new("python3"), program.to_str().unwrap());
    assert_eq!(python.line(), "ready");
    let refused = refusal("127.0.0.1:5001");
    // Who sees all processes knows that none has it.
    let sees_all = std::fs::read_dir("/proc/1/fd").is_ok();
    assert_eq!(refused.cause_name(), if sees_all { "kernel" } else { "listener" }, "{refused}");
    assert!(refused.holder().is_none_or(|holder| holder.pid.is_none()));
    std::fs::remove_file(&program).unwrap();
}

#[test]
fn another_rdma_identifier() {
    isolated!();
    let world = cm(4);
    let (one, two) = (id(&world), id(&world));
    one.bind(at("127.0.0.1:5001")).unwrap();
    let refused = two.bind(at("0.0.0.0:5001")).expect_err("it is taken");
    assert!(matches!(refused.cause, Cause::Bind(_)), "{refused}");
    assert_eq!(refused.errno(), libc::EADDRINUSE);
}

#[test]
fn a_refused_bind_leaves_everything_as_it_was() {
    isolated!();
    let world = cm(4);
    let one = id(&world);
    let other = TcpListener::bind("127.0.0.1:40001").unwrap();
    let refused = one.bind(at("127.0.0.1:40001")).expect_err("it is taken");
    assert!(matches!(refused.cause, Cause::Port(_)), "{refused}");
    assert_eq!(world.0.host_ports().sockets(), 0);
    assert_eq!(world.0.ports_in_use(nanocm::PortSpace::Tcp), 0);
    assert_eq!(one.state(), nanocm::State::Idle);
    drop(other);
    assert_eq!(one.bind(at("127.0.0.1:40001")).unwrap(), 40_001);
}

/// In a thread without CAP_NET_BIND_SERVICE.
fn refusal_of_a_privileged_range() -> PortError {
    let without = || {
        // SAFETY: of this thread alone.
        unsafe {
            assert_eq!(libc::prctl(libc::PR_SET_SECUREBITS, 0), 0);
            assert_eq!(libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534), 0);
        }
        let mut config = nanocm::host_ports::HostPortConfig::default();
        config.range = Some((600, 700));
        let ports = HostPorts::new(config);
        ports.reserve(Space::Tcp, at("127.0.0.1:0")).expect_err("it is privileged")
    };
    std::thread::spawn(without).join().unwrap()
}

/// Whether this Linux tells who has a socket that is bound and does not listen.
fn sees_reservations() -> bool {
    let _other = bind(at("127.0.0.1:5999"), Options::default()).unwrap();
    refusal("127.0.0.1:5999").holder().is_some()
}

/// Runs the program with what the closure does to it before.
fn run_with(arguments: &str, before: fn() -> std::io::Result<()>) -> Ended {
    let mut program = Command::new(env!("CARGO_BIN_EXE_nanocm"));
    // SAFETY: system calls alone.
    unsafe { program.pre_exec(before) };
    start_as(&mut program, arguments).end()
}

/// Without CAP_NET_BIND_SERVICE, even as root.
fn drop_bind_capability() -> std::io::Result<()> {
    const CAP_NET_BIND_SERVICE: libc::c_ulong = 10;
    // SAFETY: numbers alone.
    check(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, CAP_NET_BIND_SERVICE, 0, 0, 0) })
}

/// As SELinux and Landlock refuse it: EACCES from bind(2), but for Unix and netlink sockets nothing
/// is bound here.
fn forbid_bind() -> std::io::Result<()> {
    const LOAD: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS
    const IF_EQUAL: u16 = 0x15; // BPF_JMP | BPF_JEQ | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EACCES as u32;
    let mut program = [
        libc::sock_filter { code: LOAD, jt: 0, jf: 0, k: 0 },
        libc::sock_filter { code: IF_EQUAL, jt: 0, jf: 1, k: libc::SYS_bind as u32 },
        libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: refuse },
        libc::sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ];
    let filter = libc::sock_fprog { len: 4, filter: program.as_mut_ptr() };
    // SAFETY: the filter and its program live through the calls.
    unsafe {
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        check(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const filter))
    }
}

fn check(result: libc::c_int) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
