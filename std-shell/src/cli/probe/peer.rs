//! The peer: one socket, and who is told what comes through it.
//!
//! Conversations go on side by side. A datagram belongs to the one whose communication ID (or SIDR
//! request ID) it speaks to; or, that being wrong, to the one whose transaction ID it has.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nanocm::core::{Gid, ScopedIp};
use nanocm::provider::Frames;
use nanocm_core::wire::icrc::{Integrity, Ip, icrc, verify_unseen_id};
use nanocm_core::wire::roce::{PAYLOAD_LEN, UDP_PORT, frame};
use nanocm_core::wire::{Attribute, Header, Mad};

use super::super::signals::Signals;
use super::verdict::told;

/// Where the MAD begins in the UDP payload, behind BTH and DETH.
pub(super) const MAD_AT: usize = 20;

/// A datagram from the peer.
#[derive(Clone)]
pub(super) struct Heard {
    pub(super) payload: Vec<u8>,
    pub(super) integrity: Integrity,
}

impl Heard {
    /// The MAD, if it is where it belongs and whole.
    pub(super) fn mad(&self) -> Option<&Mad> {
        self.payload.get(MAD_AT..)?.first_chunk()
    }
}

/// Datagrams that nobody waits for: how many, and the first few.
#[derive(Clone, Default)]
pub(super) struct Strays {
    pub(super) count: usize,
    pub(super) first: Vec<String>,
}

impl Strays {
    fn add(&mut self, what: String) {
        self.count += 1;
        if self.first.len() < 5 {
            self.first.push(what);
        }
    }
}

/// Whom a datagram speaks to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Name {
    /// Our communication ID, or our number of a SIDR request.
    Id(u32),
    /// The upper half of a transaction ID of ours.
    Tid(u32),
}

/// The CM at the other end.
pub(super) struct Peer {
    frames: Frames,
    local: SocketAddr,
    remote: SocketAddr,
    /// Our channel adapter's, new in each run.
    pub(super) ca_guid: u64,
    pub(super) mtu_code: u8,
    names: Mutex<HashMap<Name, SyncSender<Heard>>>,
    strays: Mutex<Strays>,
    /// What the network said last of what we sent.
    trouble: Mutex<Option<i32>>,
    random: Mutex<u64>,
    next_qpn: AtomicU32,
    over: AtomicBool,
    interrupted: AtomicBool,
}

impl Peer {
    pub(super) fn new(frames: Frames, local: SocketAddr, remote: SocketAddr, seed: u64) -> Peer {
        let peer = Peer {
            frames,
            local,
            remote,
            ca_guid: 0,
            mtu_code: Frames::source_for(remote).map_or(3, |source| source.path_mtu_code()),
            names: Mutex::default(),
            strays: Mutex::default(),
            trouble: Mutex::default(),
            random: Mutex::new(seed),
            next_qpn: AtomicU32::new(seed as u32),
            over: AtomicBool::new(false),
            interrupted: AtomicBool::new(false),
        };
        // Locally administered, and one device's.
        let ca_guid = peer.random() & !(3 << 56) | 2 << 56;
        Peer { ca_guid, ..peer }
    }

    pub(super) fn local_gid(&self) -> Gid {
        Gid::from_ip(self.local.ip())
    }

    pub(super) fn remote_gid(&self) -> Gid {
        Gid::from_ip(self.remote.ip())
    }

    /// The RDMA port to talk to; 0: none.
    pub(super) fn port(&self) -> u16 {
        self.remote.port()
    }

    /// SplitMix64.
    pub(super) fn random(&self) -> u64 {
        let mut state = lock(&self.random);
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A queue pair number that this run has not used.
    pub(super) fn new_qpn(&self) -> u32 {
        self.next_qpn.fetch_add(1, Relaxed) % 0xff_fe00 + 0x100
    }

    /// From now on datagrams that speak to this name go there.
    pub(super) fn listen_for(&self, name: Name, tell: &SyncSender<Heard>) {
        lock(&self.names).insert(name, tell.clone());
    }

    /// A right frame around a MAD.
    pub(super) fn frame(&self, mad: &Mad) -> Vec<u8> {
        let mut payload = [0; PAYLOAD_LEN];
        frame(&self.ip(), UDP_PORT, 0, mad, nanocm::crc::crc32, &mut payload);
        payload.to_vec()
    }

    /// Puts the right ICRC behind what it covers.
    pub(super) fn seal(&self, covered: &mut Vec<u8>) {
        let crc = icrc(&self.ip(), UDP_PORT, covered, nanocm::crc::crc32);
        covered.extend(crc.to_le_bytes());
    }

    fn ip(&self) -> Ip {
        Ip::new(self.local_gid(), self.remote_gid())
    }

    /// Sends a UDP payload. What the network makes of it is [`trouble`](Self::trouble).
    pub(super) fn send(&self, payload: &[u8]) {
        // An error may be that of an earlier datagram: once more.
        if self.frames.send(self.remote, payload).is_err()
            && let Err(error) = self.frames.send(self.remote, payload)
        {
            self.note(&error);
        }
    }

    /// What the network said last, as an errno.
    pub(super) fn trouble(&self) -> Option<i32> {
        *lock(&self.trouble)
    }

    /// Datagrams that belonged to no conversation, or to one that was over.
    pub(super) fn strays(&self) -> Strays {
        lock(&self.strays).clone()
    }

    /// Hands over what comes in and notices signals, until told to [`end`](Self::end).
    pub(super) fn receive(&self, mut signals: Signals) {
        while !self.over.load(Relaxed) {
            let until = Instant::now() + Duration::from_millis(20);
            let _ = signals.wait(&[self.frames.as_fd()], Some(until));
            if signals.arrived() {
                self.interrupted.store(true, Relaxed);
            }
            while self
                .frames
                .recv(|sender, payload| self.hand_over(sender, payload))
                .unwrap_or_else(|error| {
                    self.note(&error);
                    false
                })
            {}
        }
    }

    pub(super) fn end(&self) {
        self.over.store(true, Relaxed);
    }

    /// Whether a signal has come: no conversation goes on then.
    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed)
    }

    fn note(&self, error: &std::io::Error) {
        *lock(&self.trouble) = error.raw_os_error();
    }

    fn hand_over(&self, sender: SocketAddr, payload: &[u8]) {
        if ScopedIp::of(sender).gid != self.remote_gid() {
            return;
        }
        let (remote, local) = (self.remote_gid(), self.local_gid());
        let crc = nanocm::crc::crc32;
        let integrity = verify_unseen_id(remote, local, sender.port(), payload, crc);
        let heard = Heard { payload: payload.to_vec(), integrity };
        let (names, mad) = (lock(&self.names), heard.mad());
        let told_of = mad.and_then(|mad| {
            let tid = (Header(mad).transaction_id() >> 32) as u32;
            names.get(&Name::Id(our_id(mad))).or_else(|| names.get(&Name::Tid(tid)))
        });
        let stray = match (told_of.map(|tell| tell.try_send(heard.clone())), mad) {
            // Who has so much to hear already will say so.
            (Some(Ok(()) | Err(TrySendError::Full(_))), _) => return,
            (Some(Err(TrySendError::Disconnected(_))), Some(mad)) => format!("late: {}", told(mad)),
            (_, Some(mad)) => told(mad),
            (_, None) => format!("a UDP payload of {} octets", payload.len()),
        };
        lock(&self.strays).add(stray);
    }
}

/// Where our communication ID stands: behind the sender's own, but in SIDR, which has one number.
fn our_id(mad: &Mad) -> u32 {
    let at = if Header(mad).attribute() == Attribute::SIDR_REP { 24 } else { 28 };
    u32::from_be_bytes([mad[at], mad[at + 1], mad[at + 2], mad[at + 3]])
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long is waited for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Until nothing is taken for silence.
    pub(super) silence: Duration,
    /// Until an answer is missed, the question having been repeated meanwhile.
    pub(super) answer: Duration,
}

impl Patience {
    /// For a peer whose answers take so long.
    pub(super) fn of(round_trip: Duration) -> Patience {
        let (shortest, longest) = (Duration::from_millis(300), Duration::from_secs(2));
        let silence = (8 * round_trip).clamp(shortest, longest);
        Patience { silence, answer: Duration::from_secs(3).max(4 * silence) }
    }

    pub(super) fn silence_from_now(&self) -> Instant {
        Instant::now() + self.silence
    }
}
