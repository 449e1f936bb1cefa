//! Addresses come and go, and wildcards follow.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use nanocm::provider::Received;
use nanocm_core::PortEvent;

use crate::netns::{ip as ip_command, isolated};
use crate::rig::{Endpoint, KINDS, ip, outgoing, path};

#[derive(Debug, PartialEq)]
enum News {
    Added(IpAddr),
    Removed(IpAddr),
}
use News::{Added, Removed};

fn news(endpoint: &mut Endpoint) -> Vec<News> {
    let mut news = Vec::new();
    endpoint
        .transport
        .ports(&mut |event| match event {
            PortEvent::GidAdded { address, ca_guid } => {
                assert_eq!(ca_guid >> 56 & 3, 2, "locally administered");
                news.push(Added(address.gid.to_ip()));
            }
            PortEvent::GidRemoved { address } => news.push(Removed(address.gid.to_ip())),
            _ => unreachable!(),
        })
        .unwrap();
    news
}

/// As many news as are expected; the kernel takes its time with some.
fn next_news(endpoint: &mut Endpoint, count: usize) -> Vec<News> {
    let mut all = news(endpoint);
    for _ in 0..200 {
        if all.len() >= count {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
        all.extend(news(endpoint));
    }
    all
}

#[test]
fn open_addresses_are_told_and_how_they_change() {
    isolated(|| {
        let mut endpoint = Endpoint::new("udp");
        ip_command("address add 10.9.0.1/32 dev lo");
        assert_eq!(news(&mut endpoint), [], "what is not open is nobody's business");
        endpoint.transport.open(ip("fd00::1"), 0).unwrap();
        assert_eq!(news(&mut endpoint), [Added(ip("fd00::1"))]);
        ip_command("address del fd00::1/128 dev lo");
        assert_eq!(next_news(&mut endpoint, 1), [Removed(ip("fd00::1"))]);
        ip_command("address add fd00::1/128 dev lo nodad");
        assert_eq!(next_news(&mut endpoint, 1), [Added(ip("fd00::1"))]);
        endpoint.transport.open(ip("0.0.0.0"), 0).unwrap();
        assert_eq!(news(&mut endpoint), [Added(ip("10.9.0.1")), Added(ip("127.0.0.1"))]);
        ip_command("address del 10.9.0.1/32 dev lo");
        ip_command("address add 10.9.0.2/32 dev lo");
        let changes = [Removed(ip("10.9.0.1")), Added(ip("10.9.0.2"))];
        assert_eq!(next_news(&mut endpoint, 2), changes);
    });
}

#[test]
fn an_opened_address_is_told_even_if_no_interface_has_it() {
    isolated(|| {
        let mut endpoint = Endpoint::new("udp");
        news(&mut endpoint);
        endpoint.transport.open(ip("127.0.0.2"), 0).unwrap();
        endpoint.transport.open(ip("127.0.0.1"), 0).unwrap();
        endpoint.transport.open(ip("127.0.0.2"), 0).unwrap();
        assert_eq!(news(&mut endpoint), [Added(ip("127.0.0.2")), Added(ip("127.0.0.1"))]);
    });
}

#[test]
fn an_address_is_not_told_before_it_can_be_used() {
    isolated(|| {
        ip_command("link add d0 type veth peer name d1");
        ip_command("link set d0 up");
        ip_command("link set d1 up");
        let mut endpoint = Endpoint::new("udp");
        endpoint.transport.open(ip("::"), 0).unwrap();
        news(&mut endpoint);
        // Duplicate address detection takes a second or two.
        ip_command("address add fd09::9/64 dev d0");
        let mut all = Vec::new();
        let end = Instant::now() + Duration::from_secs(10);
        while !all.contains(&Added(ip("fd09::9"))) {
            assert!(Instant::now() < end, "{all:?}");
            std::thread::sleep(Duration::from_millis(20));
            all.extend(news(&mut endpoint));
        }
        // It is open at once. (The route to it takes the kernel a little longer.)
        crate::netns::wait_for_route("fd09::9", "fd09::9");
        endpoint.send(&[outgoing(path("fd09::9", "fd09::9"), 1)]);
        endpoint.until(|endpoint| endpoint.mads.len() == 1);
    });
}

#[test]
fn a_wildcard_opens_each_address_and_follows() {
    isolated(|| {
        for kind in KINDS {
            let mut endpoint = Endpoint::new(kind);
            endpoint.transport.open(ip("0.0.0.0"), 0).unwrap();
            let mut sender = Endpoint::open("udp", "127.0.0.9");
            let mut count = 0;
            let mut reaches = |endpoint: &mut Endpoint, address: &str| {
                sender.send(&[outgoing(path("127.0.0.9", address), 1)]);
                count += 1;
                endpoint.until(|endpoint| endpoint.mads.len() == count);
                assert_eq!(endpoint.mads[count - 1].0.local.to_ip(), ip(address));
            };
            reaches(&mut endpoint, "127.0.0.1");
            ip_command("address add 10.9.0.1/32 dev lo");
            assert!(endpoint.is_readable());
            news(&mut endpoint);
            reaches(&mut endpoint, "10.9.0.1");
            reaches(&mut endpoint, "127.0.0.1");
            // The other family was not asked for, and the wildcard itself is nobody's.
            Endpoint::open(kind, "::1");
            Endpoint::open(kind, "127.0.0.3");
            // An address that goes gives its port back, and may return.
            ip_command("address del 10.9.0.1/32 dev lo");
            news(&mut endpoint);
            ip_command("address add 10.9.0.1/32 dev lo");
            Endpoint::open("udp", "10.9.0.1");
            news(&mut endpoint);
            reaches(&mut endpoint, "10.9.0.1");
            ip_command("address del 10.9.0.1/32 dev lo");
        }
    });
}

#[test]
fn an_address_opened_by_name_outlives_its_absence() {
    isolated(|| {
        ip_command("address add 10.9.0.1/32 dev lo");
        let mut endpoint = Endpoint::open("udp", "10.9.0.1");
        news(&mut endpoint);
        ip_command("address del 10.9.0.1/32 dev lo");
        assert_eq!(news(&mut endpoint), [Removed(ip("10.9.0.1"))]);
        ip_command("address add 10.9.0.1/32 dev lo");
        assert_eq!(news(&mut endpoint), [Added(ip("10.9.0.1"))]);
        endpoint.send(&[outgoing(path("10.9.0.1", "10.9.0.1"), 1)]);
        endpoint.until(|endpoint| endpoint.mads.len() == 1);
    });
}

#[test]
fn many_addresses_are_served_fairly() {
    isolated(|| {
        for i in 1..=40 {
            ip_command(&format!("address add 10.9.0.{i}/32 dev lo"));
        }
        let mut endpoint = Endpoint::new("udp");
        endpoint.transport.open(ip("0.0.0.0"), 0).unwrap();
        let mut sender = Endpoint::open("udp", "127.0.0.9");
        for round in 0..50 {
            let batch: Vec<_> = (1..=40)
                .map(|i| outgoing(path("127.0.0.9", &format!("10.9.0.{i}")), round))
                .collect();
            assert_eq!(sender.send(&batch), 40);
        }
        // A batch is bounded, and everybody has a part in it.
        let mut heard = std::collections::HashSet::new();
        for _ in 0..12 {
            let mut note = |received: Received<'_>| match received {
                Received::Mad { path, .. } => {
                    heard.insert(path.local_gid());
                }
                other => panic!("{other:?}"),
            };
            let count = endpoint.transport.recv(&mut note).unwrap();
            assert!((1..=64).contains(&count), "{count}");
        }
        assert_eq!(heard.len(), 40);
        endpoint.drain();
        assert_eq!(endpoint.transport.counters().received, 2000);
    });
}

#[test]
fn a_mapped_wildcard_is_a_wildcard() {
    isolated(|| {
        let mut endpoint = Endpoint::new("udp");
        endpoint.transport.open(ip("::ffff:0.0.0.0"), 0).unwrap();
        assert_eq!(news(&mut endpoint), [Added(ip("127.0.0.1"))]);
    });
}
