//! Ten thousand listeners on one address by port 0: what that costs them, and the host's own
//! clients.

use crate::isolated;
use crate::world::{assert_held, at, cm, id};
use nanocm::Id;
use std::collections::HashSet;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

const N: usize = 10_000;
const BATCH: usize = 100;

#[test]
fn ten_thousand_listeners_cost_as_much_at_the_end_as_at_the_beginning() {
    isolated!();
    raise_descriptors();
    let world = cm(N);
    let before = quickest_connects();
    let stop = Arc::new(AtomicBool::new(false));
    let clients = {
        let stop = stop.clone();
        thread::spawn(move || {
            let server = TcpListener::bind("127.0.0.1:443").unwrap();
            let mut connected = 0;
            while !stop.load(SeqCst) || connected < 100 {
                TcpStream::connect("127.0.0.1:443").expect("an outgoing connection");
                server.accept().unwrap();
                connected += 1;
                thread::sleep(Duration::from_millis(1));
            }
            connected
        })
    };
    let (mut ids, mut times): (Vec<Id>, Vec<Duration>) = (Vec::new(), Vec::new());
    for _ in 0..N / BATCH {
        let began = Instant::now();
        for _ in 0..BATCH {
            let id = id(&world);
            id.bind(at("127.0.0.1:0")).unwrap();
            id.listen(0).unwrap();
            ids.push(id);
        }
        times.push(began.elapsed());
    }
    stop.store(true, SeqCst);
    assert!(clients.join().expect("no connection failed") >= 100);
    let mut after = quickest_connects();
    for _ in 0..20 {
        // The machine does other things, too.
        if 2 * after > 3 * before {
            thread::sleep(Duration::from_millis(200));
            after = after.min(quickest_connects());
        }
    }
    let ports: HashSet<u16> = ids.iter().map(|id| id.local_addr().unwrap().port()).collect();
    assert_eq!(ports.len(), N, "all distinct");
    for port in ports {
        assert_held(at(&format!("127.0.0.1:{port}")));
    }
    let quickest = |times: &[Duration]| *times.iter().min().unwrap();
    let (first, last) = (quickest(&times[..20]), quickest(&times[times.len() - 20..]));
    println!("a bind: {:?} at first, {:?} in the end", first / BATCH as u32, last / BATCH as u32);
    println!("an outgoing connection: {before:?} before, {after:?} after");
    assert!(last <= 3 * first, "{times:?}");
    assert!(2 * after <= 3 * before, "{before:?} {after:?}");
}

/// The quickest of some batches of outgoing connections.
fn quickest_connects() -> Duration {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = server.local_addr().unwrap();
    let batch = |_| {
        let began = Instant::now();
        for _ in 0..20 {
            TcpStream::connect(to).expect("an outgoing connection");
            server.accept().unwrap();
        }
        began.elapsed()
    };
    (0..50).map(batch).min().unwrap()
}

fn raise_descriptors() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limits live through the calls.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    assert!(limit.rlim_cur as usize > N + 1000, "the hard limit of descriptors is too low");
}
