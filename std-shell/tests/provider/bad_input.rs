//! Whatever comes from the wire is counted, and harms nothing.

use std::net::UdpSocket;

use nanocm::provider::Fault;
use nanocm_core::wire::icrc::{Ip, crc32};
use nanocm_core::wire::roce::{FrameFault, frame};

use crate::netns::isolated;
use crate::rig::{Endpoint, KINDS, PAIRS, ip, mad, outgoing, path};

#[test]
fn datagrams_of_every_length_are_counted_faults() {
    isolated(|| {
        for kind in KINDS {
            for (a, b) in PAIRS {
                let mut receiver = Endpoint::open(kind, b);
                let sender = UdpSocket::bind((ip(a), 0)).unwrap();
                let mut seed = 1_u32;
                let mut octets = Vec::new();
                for length in 0..=4096 {
                    octets.resize_with(length, || {
                        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        (seed >> 24) as u8
                    });
                    if length % 2 == 0 && length >= 20 {
                        // Headers as they should be, so that the length is what is wrong.
                        octets[..20].copy_from_slice(&framed(a, b)[..20]);
                    }
                    sender.send_to(&octets, (ip(b), 4791)).unwrap();
                    if length % 256 == 0 {
                        receiver.drain();
                    }
                }
                receiver.until(|receiver| receiver.faults.len() == 4097);
                let counters = receiver.transport.counters();
                assert_eq!((counters.received, counters.rx_overflow), (0, 0));
                assert_eq!(counters.frame_faults + counters.bad_icrc, 4097);
                // 280 is the right length, with a random MAD and ICRC.
                assert_eq!(receiver.faults[280].1, Fault::Icrc);
                assert_eq!(receiver.faults[4096].1, FrameFault::MadLength(4072).into());
                assert_eq!(receiver.faults[282].1, FrameFault::MadLength(258).into());
                assert!(receiver.faults.iter().all(|(path, _)| path.remote.to_ip() == ip(a)));
            }
        }
    });
}

#[test]
fn a_wrong_icrc_is_dropped_and_counted() {
    isolated(|| {
        for kind in KINDS {
            for (a, b) in PAIRS {
                let mut receiver = Endpoint::open(kind, b);
                let mut sender = Endpoint::open("udp", a);
                let intact = framed(a, b);
                let bits = [0, 7 * 8, 50 * 8 + 3, 150 * 8, 279 * 8 + 7].map(|bit| bit + 8 * 20);
                let bits = bits.map(|bit| bit.min(280 * 8 - 1));
                drop(sender);
                let plain = crate::errors::plain_sender(a);
                for bit in bits {
                    let mut damaged = intact;
                    damaged[bit / 8] ^= 1 << (bit % 8);
                    plain.send_to(&damaged, (ip(b), 4791)).unwrap();
                }
                plain.send_to(&intact, (ip(b), 4791)).unwrap();
                receiver.until(|receiver| receiver.mads.len() == 1);
                assert_eq!(receiver.faults.len(), bits.len());
                assert!(receiver.faults.iter().all(|(_, fault)| *fault == Fault::Icrc));
                assert_eq!(receiver.transport.counters().bad_icrc, bits.len() as u64);
                // The socket is none the worse for it.
                drop(plain);
                sender = Endpoint::open("udp", a);
                sender.send(&[outgoing(path(a, b), 1)]);
                receiver.until(|receiver| receiver.mads.len() == 2);
            }
        }
    });
}

#[test]
fn datagrams_for_others_are_not_even_faults() {
    isolated(|| {
        for kind in KINDS {
            for (a, b) in PAIRS {
                let mut receiver = Endpoint::open(kind, b);
                let sender = UdpSocket::bind((ip(a), 0)).unwrap();
                // Another port, another address.
                sender.send_to(&framed(a, b), (ip(b), 4790)).unwrap();
                sender.send_to(&framed(a, b), (ip(a), 4791)).unwrap();
                sender.send_to(&[], (ip(b), 4791)).unwrap();
                receiver.until(|receiver| !receiver.faults.is_empty());
                receiver.drain();
                assert_eq!(receiver.faults.len(), 1);
                assert_eq!(receiver.faults[0].1, FrameFault::TooShort(0).into());
            }
        }
    });
}

/// A frame as `udp` sends it.
fn framed(a: &str, b: &str) -> [u8; 280] {
    let mut octets = [0; 280];
    let there = path(a, b);
    frame(&Ip::new(there.local, there.remote), 4791, 0, &mad(1), crc32, &mut octets);
    octets
}
