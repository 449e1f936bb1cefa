//! What cannot be sent or delivered is reported, once and about the right datagram.

use std::io::Read;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};

use nanocm::provider::FailureCause;
use nanocm_core::SendToken;
use socket2::{Domain, Protocol, Socket, Type};

use crate::capture::Capture;
use crate::netns::{ip as ip_command, isolated};
use crate::rig::{Endpoint, KINDS, PAIRS, ip, mad, outgoing, path};

#[test]
fn nothing_answers_is_reported_at_once_with_the_mad() {
    isolated(|| {
        for kind in KINDS {
            let (a, b) = ("127.0.0.1", "127.0.0.2");
            let mut sender = Endpoint::open(kind, a);
            assert_eq!(sender.send(&[outgoing(path(a, b), 77)]), 1);
            sender.until(|sender| !sender.failures.is_empty());
            let failure = &sender.failures[0];
            assert_eq!(failure.token, Some(SendToken::of(&mad(77))), "{kind} {a}");
            assert_eq!(failure.mad, mad(77));
            assert_eq!((failure.remote, failure.errno), (ip(b), libc::ECONNREFUSED));
            assert_eq!(failure.sentence, format!("nothing answers UDP 4791 at {b}"));
            assert!(
                matches!(failure.cause, FailureCause::Icmp { reporter, .. } if reporter == Some(ip(b)))
            );
            assert_eq!(sender.transport.counters().undelivered, 1);
            assert!(!sender.is_readable());
        }
    });
}

/// Linux does not answer an IPv6 datagram without UDP checksum to a closed port: others may.
#[test]
fn icmp_messages_give_back_as_much_of_the_mad_as_they_hold() {
    isolated(|| {
        for kind in KINDS {
            for (a, b) in PAIRS {
                let mut sender = Endpoint::open(kind, a);
                let mut capture = Capture::start();
                let _sink = Endpoint::open("udp", b);
                sender.send(&[outgoing(path(a, b), 77)]);
                let packet = capture.next();
                let headers = packet.len() - 280;
                let mut expected = 0;
                for length in (headers..packet.len()).step_by(7).chain([packet.len()]) {
                    icmp::port_unreachable(b, a, &packet[..length]);
                    expected += 1;
                    sender.until(|sender| sender.failures.len() == expected);
                    let failure = sender.failures.last().unwrap();
                    let there = (length - headers).saturating_sub(20).min(256);
                    assert_eq!(failure.mad, mad(77)[..there]);
                    let token = (there >= 28).then(|| SendToken::of(&mad(77)));
                    assert_eq!(failure.token, token, "{kind} {a} {length}");
                    assert_eq!(failure.sentence, format!("nothing answers UDP 4791 at {b}"));
                }
                // Other people's datagrams, and what is not even one.
                let mut foreign = packet.clone();
                foreign[headers - 6] ^= 1;
                icmp::port_unreachable(b, a, &foreign);
                for length in 0..headers {
                    icmp::port_unreachable(b, a, &packet[..length]);
                }
                sender.drain();
                assert_eq!(sender.failures.len(), expected, "{kind} {a}");
                assert!(!sender.is_readable());
            }
        }
    });
}

/// The kernel hands the error of one datagram to the system call that sends or receives the next.
#[test]
fn an_error_about_one_datagram_does_not_hit_another() {
    isolated(|| {
        for kind in KINDS {
            for (a, b, nobody) in
                [("127.0.0.1", "127.0.0.2", "127.0.0.3"), ("fd00::1", "fd00::2", "::1")]
            {
                let mut sender = Endpoint::open(kind, a);
                let mut receiver = Endpoint::open("udp", b);
                for number in 0..200 {
                    let lost = outgoing(path(a, nobody), 1000 + number);
                    let fine = outgoing(path(a, b), number);
                    // In one system call, and in calls of their own.
                    assert_eq!(sender.send(&[lost, fine, lost]), 3);
                    assert_eq!(sender.send(&[fine]), 1);
                }
                receiver.until(|receiver| receiver.mads.len() == 400);
                sender.drain();
                assert!(sender.failures.iter().all(|failure| failure.remote == ip(nobody)));
                assert!(
                    sender.failures.iter().all(|failure| failure.mad[24..28] >= [0, 0, 3, 232][..])
                );
                assert_eq!(sender.transport.counters().send_errors, 0);
                assert_eq!(sender.transport.counters().sent, 800);
                assert!(!sender.is_readable());
            }
        }
    });
}

#[test]
fn what_the_host_refuses_is_reported_by_token() {
    isolated(|| {
        for kind in KINDS {
            let mut sender = Endpoint::open(kind, "127.0.0.1");
            sender.transport.open(ip("fd00::1"), 0).unwrap();
            for (local, remote, errno) in [
                ("127.0.0.2", "127.0.0.1", libc::EADDRNOTAVAIL),
                ("127.0.0.1", "fd00::2", libc::EAFNOSUPPORT),
                ("fd00::1", "2001:db8::1", libc::ENETUNREACH),
            ] {
                sender.failures.clear();
                let batch = [
                    outgoing(path("127.0.0.1", "127.0.0.1"), 1),
                    outgoing(path(local, remote), 5),
                    outgoing(path("127.0.0.1", "127.0.0.1"), 2),
                ];
                assert_eq!(sender.send(&batch), 3);
                assert_eq!(sender.failures.len(), 1, "{kind} {remote}");
                let failure = &sender.failures[0];
                assert_eq!((failure.token, failure.errno), (Some(batch[1].token), errno));
                assert_eq!(failure.cause, FailureCause::Host);
                sender.mads.clear();
                sender.until(|sender| sender.mads.len() == 2);
            }
            assert_eq!(sender.transport.counters().send_errors, 3);
        }
    });
}

/// A raw socket is told of every UDP datagram of the host that comes back.
#[test]
fn other_programs_errors_are_not_ours() {
    isolated(|| {
        for kind in KINDS {
            for (a, b) in PAIRS {
                let mut endpoint = Endpoint::open(kind, a);
                let other = UdpSocket::bind((ip(a), 0)).unwrap();
                other.send_to(&[0; 280], (ip(b), 53)).unwrap();
                endpoint.drain();
                assert_eq!(endpoint.failures, []);
                assert!(!endpoint.is_readable());
                assert_eq!(endpoint.transport.counters().undelivered, 0);
                assert_eq!(endpoint.send(&[outgoing(path(a, a), 1)]), 1);
                endpoint.until(|endpoint| endpoint.mads.len() == 1);
            }
        }
    });
}

/// Over a wire between two hosts: routers and neighbours answer, not the loopback interface.
#[test]
fn errors_come_back_from_other_hosts() {
    isolated(|| {
        let other = Host::on_a_wire();
        ip_command(&format!("link add v0 type veth peer name v1 netns {}", other.0.id()));
        ip_command("address add 10.9.0.1/24 dev v0");
        ip_command("address add fd09::1/64 dev v0 nodad");
        ip_command("link set v0 up");
        other.ip("address add 10.9.0.2/24 dev v1");
        other.ip("link set v1 up");
        for kind in KINDS {
            let mut v4 = Endpoint::open(kind, "10.9.0.1");
            v4.send(&[outgoing(path("10.9.0.1", "10.9.0.2"), 3)]);
            v4.until(|v4| !v4.failures.is_empty());
            assert_eq!(v4.failures[0].sentence, "nothing answers UDP 4791 at 10.9.0.2");
            assert_eq!(v4.failures[0].token, Some(SendToken::of(&mad(3))));
            // Nobody has these addresses: the host itself says so when it has asked in vain.
            v4.failures.clear();
            let mut v6 = Endpoint::open(kind, "fd09::1");
            v4.send(&[outgoing(path("10.9.0.1", "10.9.0.77"), 4)]);
            v6.send(&[outgoing(path("fd09::1", "fd09::77"), 5)]);
            for (endpoint, number) in [(&mut v4, 4), (&mut v6, 5)] {
                endpoint.until(|endpoint| !endpoint.failures.is_empty());
                assert_eq!(endpoint.failures[0].errno, libc::EHOSTUNREACH, "{kind}");
                assert_eq!(endpoint.failures[0].token, Some(SendToken::of(&mad(number))));
            }
        }
    });
}

/// A network namespace with a process in it that keeps it.
struct Host(Child);

impl Host {
    fn on_a_wire() -> Host {
        let mut child = Command::new("unshare")
            .args(["--net", "sh", "-c", "echo; exec sleep 1000"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut output = child.stdout.take().unwrap();
        let host = Host(child);
        output.read_exact(&mut [0]).unwrap();
        host
    }

    fn ip(&self, arguments: &str) {
        let status = Command::new("nsenter")
            .args(["--target", &self.0.id().to_string(), "--net", "ip"])
            .args(arguments.split(' '))
            .status();
        assert!(status.unwrap().success(), "ip {arguments}");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// ICMP messages by hand.
mod icmp {
    use super::{Domain, Protocol, Socket, SocketAddr, Type, ip};

    pub(super) fn port_unreachable(from: &str, to: &str, about: &[u8]) {
        let v4 = ip(from).is_ipv4();
        let (domain, protocol, kind) = if v4 {
            (Domain::IPV4, Protocol::ICMPV4, [3, 3])
        } else {
            // The kernel computes this one's checksum.
            (Domain::IPV6, Protocol::ICMPV6, [1, 4])
        };
        let mut message = [&kind[..], &[0; 6], about].concat();
        if v4 {
            let checksum = checksum(&message);
            message[2..4].copy_from_slice(&checksum.to_be_bytes());
        }
        let socket = Socket::new(domain, Type::RAW, Some(protocol)).unwrap();
        socket.bind(&SocketAddr::new(ip(from), 0).into()).unwrap();
        socket.send_to(&message, &SocketAddr::new(ip(to), 0).into()).unwrap();
    }

    fn checksum(octets: &[u8]) -> u16 {
        let word = |pair: &[u8]| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        let mut sum: u32 = octets.chunks(2).map(word).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !sum as u16
    }
}

/// A UDP socket on port 4791 that sends identification 0 and DF.
pub(crate) fn plain_sender(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind((ip(address), 4791)).unwrap();
    if ip(address).is_ipv4() {
        let value: libc::c_int = libc::IP_PMTUDISC_DO;
        // SAFETY: the value is an int, and outlives the call.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_IP,
                libc::IP_MTU_DISCOVER,
                (&raw const value).cast(),
                size_of_val(&value) as libc::socklen_t,
            )
        };
        assert_eq!(result, 0);
    }
    socket
}
