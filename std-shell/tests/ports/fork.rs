//! Processes that end without a word, and children that keep all descriptors.

use crate::isolated;
use crate::process::run;
use crate::world::{assert_free, assert_held, at, cm, id};
use nanocm::host_ports::{HostPorts, Space, registered};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

/// A child that never execs, until this is dropped.
struct Child(libc::pid_t);

impl Child {
    fn new() -> Child {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        // SAFETY: the child writes one octet and sleeps; it allocates nothing.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let _ = theirs.write_all(&[1]);
            loop {
                // SAFETY: no memory.
                unsafe { libc::pause() };
            }
        }
        assert!(pid > 0);
        ours.read_exact(&mut [0]).unwrap();
        Child(pid)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: our own child.
        unsafe {
            libc::kill(self.0, libc::SIGKILL);
            while libc::waitpid(self.0, std::ptr::null_mut(), 0) < 0 {
                assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EINTR));
            }
        }
    }
}

#[test]
fn a_forked_child_that_never_execs_holds_no_port() {
    isolated!();
    let world = cm(8);
    let id = id(&world);
    id.bind(at("127.0.0.1:5001")).unwrap();
    let child = Child::new();
    assert_held(at("127.0.0.1:5001"));
    drop(id);
    assert_free(at("127.0.0.1:5001"));
    drop(child);
}

#[test]
fn nor_does_one_that_is_forked_while_other_threads_reserve() {
    isolated!();
    let ports = HostPorts::default();
    let busy = ports.clone();
    let end = Instant::now() + Duration::from_millis(500);
    let thread = std::thread::spawn(move || {
        while Instant::now() < end {
            drop(busy.reserve(Space::Tcp, at("127.0.0.1:5001")).unwrap());
        }
    });
    let mut children = Vec::new();
    while Instant::now() < end {
        children.push(Child::new());
        std::thread::sleep(Duration::from_millis(10));
    }
    thread.join().unwrap();
    assert!(children.len() > 3);
    assert_free(at("127.0.0.1:5001"));
}

#[test]
fn nor_does_one_that_execs() {
    isolated!();
    let ports = HostPorts::default();
    let held = ports.reserve(Space::Tcp, at("127.0.0.1:5001")).unwrap();
    let mut child = Command::new("sleep").arg("100").spawn().unwrap();
    drop(held);
    assert_free(at("127.0.0.1:5001"));
    child.kill().unwrap();
    child.wait().unwrap();
}

/// What is dropped there closes nothing of the child's own.
#[test]
fn a_child_may_drop_what_it_has_inherited() {
    isolated!();
    let ports = HostPorts::default();
    let held = ports.reserve(Space::Tcp, at("127.0.0.1:5001")).unwrap();
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    // SAFETY: this test is the process's only thread beside the harness's; it allocates little.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // It gets the number of the descriptor that was closed.
        let own = std::fs::File::open("/dev/null").unwrap();
        drop(held);
        let well = own.metadata().is_ok() && ports.sockets() == 0;
        let _ = theirs.write_all(&[u8::from(well)]);
        // SAFETY: ends at once, without the parent's handlers.
        unsafe { libc::_exit(0) };
    }
    let mut well = [0];
    ours.read_exact(&mut well).unwrap();
    assert_eq!(well, [1]);
    assert_held(at("127.0.0.1:5001"));
    drop(held);
    assert_free(at("127.0.0.1:5001"));
    // SAFETY: our own child.
    unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
}

/// Runs in a forked child what says yes or no.
fn in_child(run: impl FnOnce() -> bool) -> bool {
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    // SAFETY: the child has what its closure needs; glibc's allocator is usable after a fork.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let _ = theirs.write_all(&[u8::from(run())]);
        // SAFETY: ends at once, without the parent's handlers.
        unsafe { libc::_exit(0) };
    }
    let child = Child(pid);
    ours.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut said = [0];
    ours.read_exact(&mut said).expect("the child does not hang");
    drop(child);
    said == [1]
}

#[test]
fn a_child_does_not_count_on_what_its_parent_holds() {
    isolated!();
    let ports = HostPorts::default();
    let held = ports.reserve(Space::Tcp, at("127.0.0.1:5001")).unwrap();
    assert!(in_child(|| ports.reserve(Space::Tcp, at("127.0.0.1:5001")).is_err()));
    drop(held);
    // Nor does the list that the child begins lose a line to what it has inherited.
    let held = ports.reserve(Space::Tcp, at("127.0.0.1:5001")).unwrap();
    assert!(in_child(|| {
        let own = ports.reserve(Space::Tcp, at("127.0.0.1:5002")).unwrap();
        drop(held);
        let pid = std::process::id();
        let listed = registered().into_iter().filter(|one| one.holder.pid == Some(pid)).count();
        drop(own);
        listed == 1
    }));
}

#[test]
fn a_child_of_a_process_with_threads_may_drop_what_it_has_inherited() {
    isolated!();
    let ports = HostPorts::default();
    let busy = ports.clone();
    let end = Instant::now() + Duration::from_secs(1);
    let thread = std::thread::spawn(move || {
        while Instant::now() < end {
            drop(busy.reserve(Space::Tcp, at("127.0.0.1:5001")).unwrap());
        }
    });
    while Instant::now() < end {
        let held = ports.reserve(Space::Tcp, at("127.0.0.1:5002")).unwrap();
        assert!(in_child(move || {
            drop(held);
            true
        }));
    }
    thread.join().unwrap();
}

#[test]
fn signals_do_not_let_fork_return_before_the_child_has_closed_its_copies() {
    isolated!();
    extern "C" fn ignore(_: libc::c_int) {}
    let ports = HostPorts::default();
    let all = (6000..6800).map(|port| ports.reserve(Space::Tcp, ([127, 0, 0, 1], port).into()));
    let mut all: Vec<_> = all.collect::<Result<_, _>>().unwrap();
    let every = libc::timeval { tv_sec: 0, tv_usec: 100 };
    let timer = libc::itimerval { it_interval: every, it_value: every };
    // SAFETY: a handler that does nothing.
    unsafe {
        libc::signal(libc::SIGALRM, ignore as *const () as libc::sighandler_t);
        libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut());
    }
    for held in all.drain(..100) {
        let address = held.number().address();
        // SAFETY: the child does nothing.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            loop {
                // SAFETY: no memory.
                unsafe { libc::pause() };
            }
        }
        let child = Child(pid);
        drop(held);
        assert_free(address);
        drop(child);
    }
}

#[test]
fn a_killed_process_leaves_nothing_reserved() {
    isolated!();
    let all: Vec<u16> = (6000..7000).collect();
    let addresses: String = all.iter().map(|port| format!(" 127.0.0.1:{port}")).collect();
    let raised = "ulimit -n 4096 && exec \"$0\" \"$@\"";
    let mut shell = Command::new("sh");
    shell.args(["-c", raised, env!("CARGO_BIN_EXE_nanocm")]);
    let mut program =
        crate::process::start_as(&mut shell, &format!("ports reserve --json{addresses}"));
    for _ in &all {
        program.event("RESERVED");
    }
    assert_held(at("127.0.0.1:6999"));
    program.signal("KILL");
    program.end();
    for &port in &all {
        assert_free(at(&format!("127.0.0.1:{port}")));
    }
    // Nor does the list say so.
    assert!(run("ports list").with(0).lines.is_empty());
}
