//! One local address in use: batches of GSI datagrams through its socket, and what comes back.
//!
//! A [`Link`] is what `udp` and `raw` differ in: which sockets there are, and which headers they show.
//! Read first: field tests, R1 to R7; ip(7) on `IP_RECVERR`.

use std::io;
use std::os::fd::BorrowedFd;

use nanocm_core::wire::icrc::{Integrity, Ip, verify, verify_unseen_id};
use nanocm_core::wire::roce::{FrameFault, PAYLOAD_LEN, unframe};
use nanocm_core::wire::{MAD_LEN, Mad};
use nanocm_core::{Gid, Path, RocePath, ScopedIp, SendToken};

use crate::crc::crc32;

use super::datagram::{ExtendedError, Slot, small};
use super::error::OpenError;
use super::sys;
use super::transport::{FailureCause, Fault, Outgoing, Received, SendFailure, TransportCounters};

/// The sockets of one local address.
pub(super) trait Link: Send + Sized {
    /// Opens them, if the host allows it.
    fn open(address: ScopedIp) -> Result<Self, OpenError>;

    /// The socket that datagrams go through.
    fn socket(&self) -> BorrowedFd<'_>;

    /// Writes a datagram around `mad` into the slot.
    fn write(&self, slot: &mut Slot, path: &RocePath, psn: u32, mad: &Mad);

    /// How many octets of headers the kernel shows in front of a received UDP payload.
    fn headers(&self) -> usize;

    /// Takes a received datagram out of what the kernel adds to it.
    fn read<'a>(&self, slot: &'a Slot) -> Arrival<'a>;

    /// The UDP payload (as much as is there) of a datagram of ours that came back with an error. `None`
    /// if it was not ours.
    fn returned<'a>(&self, slot: &'a Slot) -> Option<&'a [u8]>;
}

/// A datagram as a link received it.
pub(super) struct Arrival<'a> {
    remote: Gid,
    /// The IPv6 scope of the sender, if link-local.
    scope: u32,
    pub(super) traffic_class: u8,
    pub(super) hop_limit: u8,
    payload: Result<Payload<'a>, Fault>,
}

/// A UDP payload, and what must be known to check an ICRC at its end.
pub(super) struct Payload<'a> {
    pub(super) octets: &'a [u8],
    pub(super) source_port: u16,
    /// The IP header, unless the kernel keeps it to itself.
    pub(super) ip: Option<Ip>,
}

impl<'a> Arrival<'a> {
    /// A payload, with sender, traffic class and hop limit as the kernel tells them.
    pub(super) fn of(slot: &Slot, payload: Result<Payload<'a>, Fault>) -> Arrival<'a> {
        let remote = slot.address().map(ScopedIp::of).unwrap_or_default();
        let (mut traffic_class, mut hop_limit) = (0, 0);
        for (level, kind, value) in slot.controls() {
            match (level, kind) {
                (libc::IPPROTO_IP, libc::IP_TOS) | (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => {
                    traffic_class = small(value).unwrap_or(0);
                }
                (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                    hop_limit = small(value).unwrap_or(0);
                }
                _ => {}
            }
        }
        Arrival { remote: remote.gid, scope: remote.scope, traffic_class, hop_limit, payload }
    }

    /// The MAD, if all is well.
    fn unwrap(self, local: Gid) -> Result<(&'a Mad, Integrity), Fault> {
        let Payload { octets, source_port, ip } = self.payload?;
        let gsi = unframe(octets)?;
        let integrity = match ip {
            Some(ip) => verify(&ip, source_port, octets, crc32),
            None => verify_unseen_id(self.remote, local, source_port, octets, crc32),
        };
        match integrity {
            Integrity::Bad => Err(Fault::Icrc),
            _ => Ok((gsi.mad, integrity)),
        }
    }
}

/// What a path asks for beside the default.
pub(super) fn mark(slot: &mut Slot, path: &RocePath) {
    let (level, class, hops) = if path.remote.is_v4() {
        (libc::IPPROTO_IP, libc::IP_TOS, libc::IP_TTL)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, libc::IPV6_HOPLIMIT)
    };
    if path.traffic_class != 0 {
        slot.push_control(level, class, path.traffic_class.into());
    }
    if !matches!(path.hop_limit, 0 | HOP_LIMIT) {
        slot.push_control(level, hops, path.hop_limit.into());
    }
}

pub(super) const HOP_LIMIT: u8 = 64;

/// A link with its counts.
pub(super) struct Opened<L> {
    link: L,
    address: ScopedIp,
    /// Opened by name, not by a wildcard: it outlives the address, which may come back.
    pub(super) named: bool,
    psn: u32,
    overflow: u32,
}

impl<L: Link> Opened<L> {
    pub(super) fn open(address: ScopedIp, named: bool) -> Result<Opened<L>, OpenError> {
        Ok(Opened { link: L::open(address)?, address, named, psn: 0, overflow: 0 })
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.link.socket()
    }

    /// Hands over what is there, at most as much as there are slots; returns how many.
    pub(super) fn recv(
        &mut self,
        slots: &mut [Slot],
        counters: &mut TransportCounters,
        f: &mut dyn FnMut(Received<'_>),
    ) -> io::Result<usize> {
        // Whatever is there to be told, it is told within a few looks.
        for _ in 0..4 {
            let error = match sys::receive(self.link.socket(), slots, 0) {
                Ok(count) => {
                    slots[..count].iter().for_each(|slot| f(self.unwrap(slot, counters)));
                    return Ok(count);
                }
                Err(error) if is_about_the_socket(&error) => return Err(error),
                Err(error) => error,
            };
            // Nothing there, or the errno of an ICMP message, which waits in the error queue.
            let mut report = |failure: SendFailure<'_>| f(Received::SendFailed(failure));
            let count = self.failures(slots, counters, &mut report)?;
            if count > 0 || error.kind() == io::ErrorKind::WouldBlock {
                return Ok(count);
            }
            // The queue had no room for the message; the errno is off the socket by now.
        }
        Ok(0)
    }

    fn unwrap<'a>(&mut self, slot: &'a Slot, counters: &mut TransportCounters) -> Received<'a> {
        for (level, kind, value) in slot.controls() {
            if (level, kind) == (libc::SOL_SOCKET, libc::SO_RXQ_OVFL)
                && let Some(octets) = value.first_chunk()
            {
                let overflow = u32::from_ne_bytes(*octets);
                counters.rx_overflow += u64::from(overflow.wrapping_sub(self.overflow));
                self.overflow = overflow;
            }
        }
        let mut arrival = self.link.read(slot);
        if let Some(length) = slot.too_long() {
            // Whatever it is, where the MAD should be there is too much.
            let frame = self.link.headers() + PAYLOAD_LEN - MAD_LEN;
            let fault = FrameFault::MadLength(length.saturating_sub(frame));
            arrival.payload = Err(fault.into());
        }
        let mut path = RocePath::new(self.address.gid, arrival.remote);
        path.scope = if arrival.scope == 0 { self.address.scope } else { arrival.scope };
        path.traffic_class = arrival.traffic_class;
        path.hop_limit = arrival.hop_limit;
        let path = Path::Roce(path);
        match arrival.unwrap(self.address.gid) {
            Ok((mad, integrity)) => {
                counters.received += 1;
                Received::Mad { path, mad, integrity }
            }
            Err(fault) => {
                match fault {
                    Fault::Icrc => counters.bad_icrc += 1,
                    _ => counters.frame_faults += 1,
                }
                Received::Fault { path, fault }
            }
        }
    }

    /// Sends a run of datagrams, at most a batch; returns how many are done with, and whether the host
    /// takes no more. `spare` is room for what the error queue holds.
    pub(super) fn send(
        &mut self,
        run: &[Outgoing],
        slots: &mut [Slot],
        spare: &mut [Slot],
        counters: &mut TransportCounters,
        failed: &mut dyn FnMut(SendFailure<'_>),
    ) -> io::Result<(usize, bool)> {
        for (slot, outgoing) in slots.iter_mut().zip(run) {
            if let Path::Roce(path) = &outgoing.path {
                self.psn = (self.psn + 1) & 0xff_ffff;
                self.link.write(slot, path, self.psn, &outgoing.mad);
            }
        }
        let mut done = 0;
        // An ICMP message about an earlier datagram makes the next system call fail, whatever that was
        // to do. So an error counts only if it stays when the error queue is empty.
        let mut tries = 0;
        while done < run.len() {
            let error = match sys::send(self.link.socket(), &mut slots[done..run.len()]) {
                Ok(count) => {
                    counters.sent += count as u64;
                    done += count;
                    tries = 0;
                    continue;
                }
                Err(error) if is_about_the_socket(&error) && done == 0 => return Err(error),
                Err(error) if is_about_the_socket(&error) => return Ok((done, true)),
                Err(error) => error,
            };
            match error.raw_os_error() {
                Some(libc::EAGAIN | libc::ENOBUFS) => return Ok((done, true)),
                Some(libc::EINTR) => continue,
                errno => {
                    let complaints = self.failures(spare, counters, failed)?;
                    tries += 1;
                    if tries == 1 || complaints > 0 && tries < 16 {
                        continue;
                    }
                    counters.send_errors += 1;
                    failed(refused(&run[done], errno.unwrap_or(libc::EIO)));
                    done += 1;
                    tries = 0;
                }
            }
        }
        Ok((done, false))
    }

    /// Reports what the error queue holds, at most as many as there are slots; returns how many
    /// entries there were.
    fn failures(
        &mut self,
        slots: &mut [Slot],
        counters: &mut TransportCounters,
        f: &mut dyn FnMut(SendFailure<'_>),
    ) -> io::Result<usize> {
        let count = match sys::receive(self.link.socket(), slots, libc::MSG_ERRQUEUE) {
            Ok(count) => count,
            Err(error) if is_about_the_socket(&error) => return Err(error),
            Err(_) => 0,
        };
        for slot in &slots[..count] {
            if let Some(failure) = self.failure(slot) {
                counters.undelivered += 1;
                f(failure);
            }
        }
        Ok(count)
    }

    /// What an entry of the error queue says. `None` if it is not about a datagram of ours, or was
    /// known when it was sent.
    fn failure<'a>(&self, slot: &'a Slot) -> Option<SendFailure<'a>> {
        let error = slot.controls().find_map(|(level, kind, value)| match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                ExtendedError::parse(value)
            }
            _ => None,
        })?;
        if !matches!(error.origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6) {
            return None;
        }
        let remote = ScopedIp::of(slot.address()?);
        let payload = self.link.returned(slot)?;
        let mut path = RocePath::new(self.address.gid, remote.gid);
        path.scope = if remote.scope == 0 { self.address.scope } else { remote.scope };
        // BTH and DETH, the MAD, the ICRC; all of it or as much as the router gave back.
        let mad = payload.get(20..).unwrap_or_default();
        let mad = &mad[..mad.len().min(MAD_LEN)];
        Some(SendFailure {
            path: Path::Roce(path),
            token: token_of(mad),
            mad,
            errno: error.errno,
            cause: FailureCause::Icmp {
                kind: error.kind,
                code: error.code,
                reporter: error.reporter,
            },
        })
    }
}

/// The token, if what is there of a MAD reaches as far as the communication ID.
fn token_of(mad: &[u8]) -> Option<SendToken> {
    const LOCAL_COMM_ID_END: usize = 28;
    let mut whole = [0; MAD_LEN];
    whole[..mad.len()].copy_from_slice(mad);
    (mad.len() >= LOCAL_COMM_ID_END).then(|| SendToken::of(&whole))
}

pub(super) fn refused(outgoing: &Outgoing, errno: i32) -> SendFailure<'_> {
    SendFailure {
        path: outgoing.path,
        token: Some(outgoing.token),
        mad: &outgoing.mad,
        errno,
        cause: FailureCause::Host,
    }
}

/// Errors that no later call will get over.
fn is_about_the_socket(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADF | libc::ENOTSOCK | libc::EFAULT | libc::ENOSYS))
}
