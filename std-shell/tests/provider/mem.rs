//! The network inside the process.

use nanocm::provider::{FailureCause, LinkFaults, Mem, MemNet, OpenCause};
use nanocm_core::PortEvent;

use crate::rig::{Endpoint, ip, mad, outgoing, path};

fn pair(net: &MemNet) -> (Endpoint, Endpoint) {
    let mut ends = ["10.0.0.1", "10.0.0.2"].map(|address| {
        let mem: Mem = net.endpoint(&[ip(address), ip("fd00::1")]).unwrap();
        Endpoint::with(Box::new(mem))
    });
    ends[0].transport.open(ip("10.0.0.1"), 0).unwrap();
    ends[1].transport.open(ip("0.0.0.0"), 0).unwrap();
    ends.into()
}

#[test]
fn a_lossless_link_delivers_everything_in_order() {
    let (mut a, mut b) = pair(&MemNet::new(1));
    assert!(!b.is_readable());
    for number in 0..1000 {
        assert_eq!(a.send(&[outgoing(path("10.0.0.1", "10.0.0.2"), number)]), 1);
    }
    assert!(b.is_readable());
    b.drain();
    assert!(!b.is_readable());
    assert_eq!(b.mads.len(), 1000);
    for (number, (came, octets, _)) in b.mads.iter().enumerate() {
        assert_eq!(*came, path("10.0.0.2", "10.0.0.1"));
        assert_eq!(*octets, mad(number as u32));
    }
    b.send(&[outgoing(path("10.0.0.2", "10.0.0.1"), 5)]);
    a.until(|a| a.mads.len() == 1);
}

#[test]
fn faults_happen_as_often_as_asked_and_again_for_the_same_seed() {
    let run = |seed, faults| {
        let net = MemNet::new(seed);
        net.set_faults(faults);
        let (mut a, mut b) = pair(&net);
        for number in 0..10_000 {
            a.send(&[outgoing(path("10.0.0.1", "10.0.0.2"), number)]);
        }
        b.drain();
        b.mads
            .iter()
            .map(|(_, mad, _)| u32::from_be_bytes([0, mad[25], mad[26], mad[27]]))
            .collect::<Vec<_>>()
    };
    let lossy = LinkFaults { loss: 200, ..LinkFaults::default() };
    let lost = run(1, lossy);
    assert!((7_800..8_200).contains(&lost.len()), "{}", lost.len());
    assert!(lost.is_sorted());
    assert_eq!(lost, run(1, lossy));
    assert_ne!(lost, run(2, lossy));
    let twice = run(1, LinkFaults { duplicate: 100, ..LinkFaults::default() });
    assert!((10_800..11_200).contains(&twice.len()), "{}", twice.len());
    let shuffled = run(1, LinkFaults { reorder: 100, ..LinkFaults::default() });
    let steps_back = shuffled.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert!((800..1_200).contains(&steps_back), "{steps_back}");
    assert_eq!(run(1, LinkFaults { loss: 1000, ..LinkFaults::default() }), []);
}

#[test]
fn an_address_has_one_holder_and_is_free_when_it_goes() {
    let net = MemNet::new(1);
    let (mut a, b) = pair(&net);
    a.transport.open(ip("fd00::1"), 0).unwrap();
    let mut c = Endpoint::with(Box::new(net.endpoint(&[ip("fd00::1")]).unwrap()));
    let error = c.transport.open(ip("::"), 0).unwrap_err();
    assert_eq!(error.errno, libc::EADDRINUSE);
    assert_eq!(error.holder().unwrap().pid, Some(std::process::id()));
    assert_eq!(c.transport.open(ip("10.0.0.1"), 0).unwrap_err().cause, OpenCause::NotLocal);
    assert_eq!(c.transport.open(ip("0.0.0.0"), 0).unwrap_err().cause, OpenCause::NoAddress);
    drop(a);
    c.transport.open(ip("fd00::1"), 0).unwrap();
    drop((b, c));
}

#[test]
fn what_cannot_be_delivered_is_reported() {
    let net = MemNet::new(1);
    let (mut a, b) = pair(&net);
    drop(b);
    let lost = outgoing(path("10.0.0.1", "10.0.0.2"), 4);
    let foreign = outgoing(path("10.0.0.9", "10.0.0.1"), 5);
    assert_eq!(a.send(&[lost, foreign]), 2);
    assert_eq!(a.failures[0].sentence, "nothing answers UDP 4791 at 10.0.0.2");
    assert_eq!((a.failures[0].token, a.failures[0].errno), (Some(lost.token), libc::ECONNREFUSED));
    assert_eq!(
        (a.failures[1].errno, a.failures[1].cause),
        (libc::EADDRNOTAVAIL, FailureCause::Host)
    );
}

#[test]
fn a_full_inbox_counts_what_it_loses() {
    let (mut a, mut b) = pair(&MemNet::new(1));
    for number in 0..20_000 {
        a.send(&[outgoing(path("10.0.0.1", "10.0.0.2"), number)]);
    }
    b.drain();
    let lost = b.transport.counters().rx_overflow;
    assert!(lost > 0);
    assert_eq!(b.mads.len() as u64 + lost, 20_000);
}

#[test]
fn addresses_are_told_once_and_routes_begin_at_them() {
    let (mut a, _b) = pair(&MemNet::new(1));
    let mut told = Vec::new();
    for _ in 0..2 {
        let mut tell = |event| match event {
            PortEvent::GidAdded { address, .. } => told.push(address.gid.to_ip()),
            _ => unreachable!(),
        };
        a.transport.ports(&mut tell).unwrap();
    }
    assert_eq!(told, [ip("10.0.0.1"), ip("fd00::1")]);
    let source = a.transport.source_for(None, "[fd00::7]:1".parse().unwrap()).unwrap();
    assert_eq!((source.address.gid.to_ip(), source.path_mtu_code()), (ip("fd00::1"), 5));
    let foreign = nanocm_core::ScopedIp::of("10.0.0.2:1".parse().unwrap());
    assert!(a.transport.source_for(Some(foreign), "10.0.0.3:1".parse().unwrap()).is_err());
}
