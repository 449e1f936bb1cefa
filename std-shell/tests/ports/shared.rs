//! One number for a TCP and an RDMA service.

use crate::common::eventually;
use crate::isolated;
use crate::process::{run, start_as};
use crate::world::{assert_free, assert_held, assert_refused, at, cm, id};
use nanocm::host_ports::{HostPorts, PortCause, SharedTcpListener, Space};
use nanocm::{Cause, Cm, Event, EventChannel, EventKind};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A TCP client gets its word, and an answer.
#[track_caller]
fn tcp_works(listener: &TcpListener, address: SocketAddr) {
    let mut client = TcpStream::connect(address).expect("a TCP client");
    let (mut served, _) = listener.accept().expect("it is accepted");
    served.write_all(b"tcp").unwrap();
    drop(served);
    let mut said = String::new();
    client.read_to_string(&mut said).unwrap();
    assert_eq!(said, "tcp");
}

/// An RDMA client's request comes to the listener.
#[track_caller]
fn rdma_works((cm, channel): &(Cm, EventChannel), address: SocketAddr) {
    let connect = format!("connect {address} --from 127.0.0.9 --timeout 5000 --json");
    let client = std::thread::spawn(move || run(&connect));
    let mut request: Option<Event> = None;
    eventually("a request comes", || {
        cm.drive().unwrap();
        request = channel.try_next().unwrap();
        request.as_ref().is_some_and(|event| matches!(event.kind, EventKind::ConnectRequest { .. }))
    });
    drop(request); // rejects it
    cm.drive().unwrap();
    client.join().unwrap().failed("ECONNREFUSED", "rejected");
}

#[test]
fn tcp_first_and_the_listener_is_lent() {
    isolated!();
    let world = cm(8);
    let address = at("127.0.0.1:8445");
    let tcp = TcpListener::bind(address).unwrap();
    // Without it, the number is taken.
    assert!(matches!(id(&world).bind(address).unwrap_err().cause, Cause::Port(_)));
    let rdma = world.0.bind_shared(&world.1, &tcp).unwrap();
    rdma.listen(0).unwrap();
    tcp_works(&tcp, address);
    rdma_works(&world, address);
    drop(rdma);
    tcp_works(&tcp, address);
    // Another time; the number in RDMA's books is free again.
    let again = world.0.bind_shared(&world.1, &tcp).unwrap();
    drop(again);
    drop(tcp);
    assert_refused(address);
}

#[test]
fn tcp_first_and_the_tcp_side_leaves_first() {
    isolated!();
    let world = cm(8);
    // Of its own choice, and of the kernel's, which would give the number away with the listener.
    for asked in ["127.0.0.1:8445", "127.0.0.1:0"] {
        let tcp = TcpListener::bind(asked).unwrap();
        let address = tcp.local_addr().unwrap();
        let tcp = SharedTcpListener::from(tcp);
        let rdma = id(&world);
        assert_eq!(rdma.bind_with(&tcp).unwrap(), address.port());
        rdma.listen(0).unwrap();
        tcp_works(tcp.listener(), address);
        rdma_works(&world, address);
        // One that waits to be accepted is told, too.
        let mut waiting = TcpStream::connect(address).unwrap();
        drop(tcp);
        assert!(waiting.read(&mut [0]).is_err(), "a reset, never a hang");
        assert_refused(address);
        assert_held(address);
        rdma_works(&world, address);
        drop(rdma);
        assert_free_soon(address);
    }
}

#[test]
fn tcp_first_and_the_rdma_side_leaves_first() {
    isolated!();
    let world = cm(8);
    let address = at("127.0.0.1:8445");
    let tcp = SharedTcpListener::from(TcpListener::bind(address).unwrap());
    let rdma = id(&world);
    rdma.bind_with(&tcp).unwrap();
    rdma.listen(0).unwrap();
    drop(rdma);
    tcp_works(tcp.listener(), address);
    drop(tcp);
    assert_refused(address);
}

#[test]
fn rdma_first_and_either_side_leaves_first() {
    isolated!();
    let address = at("127.0.0.1:8445");
    for tcp_leaves_first in [true, false] {
        let world = cm(8);
        let rdma = id(&world);
        rdma.bind(address).unwrap();
        rdma.listen(0).unwrap();
        assert_refused(address);
        let tcp = rdma.host_listener(16).unwrap();
        assert_eq!(tcp.local_addr().unwrap(), address);
        tcp_works(tcp.listener(), address);
        rdma_works(&world, address);
        assert_held(address);
        // There is one already.
        match rdma.host_listener(16).unwrap_err().cause {
            Cause::Port(error) => assert_eq!(error.cause, PortCause::Listening),
            other => panic!("{other}"),
        }
        if tcp_leaves_first {
            drop(tcp);
            assert_refused(address);
            assert_held(address);
            rdma_works(&world, address);
            // It may come back.
            let tcp = rdma.host_listener(16).unwrap();
            tcp_works(tcp.listener(), address);
            drop((tcp, rdma));
        } else {
            drop(rdma);
            tcp_works(tcp.listener(), address);
            assert_held(address);
            drop(tcp);
        }
        assert_eq!(world.0.host_ports().sockets(), 0);
        assert_free_soon(address);
    }
}

/// An identifier on one address exposes no TCP service on the others.
#[test]
fn a_number_on_a_wider_socket_gets_no_tcp_side() {
    isolated!();
    for (wide, narrow) in [
        ("0.0.0.0:8445", "127.0.0.1:8445"),
        ("[::]:8445", "127.0.0.1:8445"),
        ("[::]:8445", "0.0.0.0:8445"),
        ("[::]:8445", "[::1]:8445"),
    ] {
        let ports = HostPorts::default();
        let wider = ports.reserve(Space::Tcp, at(wide)).unwrap();
        let held = ports.reserve(Space::Tcp, at(narrow)).unwrap();
        assert_eq!(ports.sockets(), 1);
        let refused = held.host_listener(16).map(drop).expect_err("it would serve every address");
        assert_eq!(refused.cause, PortCause::Wider { on: Box::new(wider.number()) });
        assert_eq!((refused.errno, refused.cause_name()), (libc::EADDRINUSE, "rdma-id"));
        assert!(refused.to_string().contains(wide), "{refused}");
        assert_refused(at("127.0.0.2:8445"));
        // Who asked for the wider address may, and this one goes on.
        let tcp = wider.host_listener(16).unwrap();
        drop((wider, tcp));
        assert_held(at(narrow));
        assert!(held.host_listener(16).is_err());
        assert_refused(at("127.0.0.1:8445"));
    }
}

#[test]
fn a_tcp_side_that_comes_while_another_leaves_does_listen() {
    isolated!();
    let address = at("127.0.0.1:8445");
    let ports = HostPorts::default();
    let held = ports.reserve(Space::Tcp, address).unwrap();
    for _ in 0..300 {
        let tcp = held.host_listener(1).unwrap();
        let leaves = std::thread::spawn(move || drop(tcp));
        let next = loop {
            if let Ok(next) = held.host_listener(1) {
                break next;
            }
        };
        leaves.join().unwrap();
        TcpStream::connect(address).expect("it listens");
        drop(next);
    }
}

/// As a plain TCP listener, it is inherited; who drops it there ends nothing here, and who drops it
/// here lets no client hang.
#[test]
fn a_forked_child_neither_ends_the_tcp_side_nor_keeps_it() {
    isolated!();
    let world = cm(8);
    let address = at("127.0.0.1:8445");
    for rdma_leaves_first in [false, true] {
        let rdma = id(&world);
        rdma.bind(address).unwrap();
        let tcp = rdma.host_listener(4).unwrap();
        // SAFETY: the child drops and ends.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            drop(tcp);
            // SAFETY: ends at once.
            unsafe { libc::_exit(0) };
        }
        // SAFETY: our own child.
        assert_eq!(unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) }, pid);
        tcp_works(tcp.listener(), address);
        // SAFETY: the child does nothing.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            loop {
                // SAFETY: no memory.
                unsafe { libc::pause() };
            }
        }
        if rdma_leaves_first {
            drop(rdma);
            drop(tcp);
        } else {
            drop((tcp, rdma));
        }
        assert_refused(address);
        // SAFETY: our own child.
        unsafe {
            libc::kill(pid, libc::SIGKILL);
            libc::waitpid(pid, std::ptr::null_mut(), 0);
        }
    }
}

/// Its connections were closed by the service, so remnants are there; they are in the way of plain
/// binds alone.
#[track_caller]
fn assert_free_soon(address: SocketAddr) {
    let bound = crate::world::bind(address, crate::world::REUSE);
    assert!(bound.is_ok(), "{address}: {bound:?}");
}

#[test]
fn without_a_number_of_the_hosts_there_is_no_tcp_side() {
    isolated!();
    let world = cm(8);
    let rdma = id(&world);
    rdma.set_port_policy(nanocm::host_ports::PortPolicy::Independent);
    rdma.bind(at("127.0.0.1:8445")).unwrap();
    assert_eq!(rdma.host_listener(16).unwrap_err().errno(), libc::EINVAL);
    assert_free(at("127.0.0.1:8445"));
}

/// From the command line: the socket is inherited, listening or not.
#[test]
fn the_program_shares_a_descriptor_it_was_started_with() {
    isolated!();
    let tcp = TcpListener::bind("127.0.0.1:8445").unwrap();
    let address = tcp.local_addr().unwrap();
    let fd = tcp.as_raw_fd();
    let with_descriptor = |arguments: &str| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_nanocm"));
        // SAFETY: a system call alone; the descriptor outlives it.
        unsafe {
            program.pre_exec(move || match libc::dup2(fd, 9) {
                9 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        start_as(&mut program, arguments)
    };
    let mut nanocm = with_descriptor("listen 127.0.0.1:8445 --ports shared-fd 9 --json");
    nanocm.event("LISTENING");
    tcp_works(&tcp, address);
    run("connect 127.0.0.1:8445 --json").with(0);
    drop(nanocm);
    tcp_works(&tcp, address);
    run("listen 127.0.0.1:8445 --ports shared-fd 9 --json").failed("EBADF", "shared-fd");
    // No socket; and the refusal is told, though it is where that is written.
    run("listen 127.0.0.1:8445 --ports shared-fd 1 --json").failed("ENOTSOCK", "shared-fd");
    let wrong = with_descriptor("listen 127.0.0.1:8446 --ports shared-fd 9 --json").end();
    wrong.failed("EINVAL", "shared-fd");
    let udp = "listen 127.0.0.1:8445 --ports shared-fd 9 --space udp --json";
    with_descriptor(udp).end().failed("EINVAL", "shared-fd");
    // Its number as a source port.
    let (_peer, _) = crate::process::listen("127.0.0.2:7471");
    let client = with_descriptor("connect 127.0.0.2:7471 --ports shared-fd 9 --json").end().with(0);
    assert_eq!(client.events()[0]["local"], "127.0.0.1:8445");
    tcp_works(&tcp, address);
}
