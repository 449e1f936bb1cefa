//! CM messages out of the packets of a file, and a count of everything else.

use std::fmt;
use std::io::Read;
use std::net::IpAddr;

use nanocm_core::wire::icrc::{Integrity, verify};
use nanocm_core::wire::roce::{FrameFault, unframe};
use nanocm_core::wire::{Mad, MadError, Message};

use super::file::{Packet, Packets};
use super::packet::{Datagram, NoDatagram, datagram};
use super::{CaptureError, Timestamp};
use crate::crc::crc32;

/// A CM message with the packet it came in.
#[derive(Clone, Debug)]
pub struct Found {
    /// The packet's number in the file, from 1.
    pub frame: u64,
    /// When it was captured. pcapng's simple packets don't say.
    pub time: Option<Timestamp>,
    /// Source address of the packet.
    pub source: IpAddr,
    /// Destination address of the packet.
    pub destination: IpAddr,
    /// Whether its ICRC is right.
    pub integrity: Integrity,
    /// Checked to be a CM message before it gets here.
    mad: Mad,
}

impl Found {
    /// A message with what is known of its packet; or why the MAD is no CM message.
    pub fn new(
        frame: u64,
        time: Option<Timestamp>,
        [source, destination]: [IpAddr; 2],
        integrity: Integrity,
        mad: Mad,
    ) -> Result<Found, MadError> {
        Message::parse(&mad)?;
        Ok(Found { frame, time, source, destination, integrity, mad })
    }

    /// The message.
    pub fn message(&self) -> Message<'_> {
        match Message::parse(&self.mad) {
            Ok(message) => message,
            Err(_) => unreachable!("only CM messages are found"),
        }
    }
}

/// The CM messages of a capture file, in the file's order; at the end or after the first error there
/// are no more.
pub struct Messages<'r> {
    packets: Packets<'r>,
    tally: Tally,
    ended: bool,
}

impl<'r> Messages<'r> {
    /// Reads the beginning of a file and sees whether it is a capture.
    pub fn open(source: impl Read + Send + 'r) -> Result<Messages<'r>, CaptureError> {
        Ok(Messages { packets: Packets::open(source)?, tally: Tally::default(), ended: false })
    }

    /// What was in the file so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl fmt::Debug for Messages<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Messages")
            .field("tally", &self.tally)
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Iterator for Messages<'_> {
    type Item = Result<Found, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let looked_at = self.packets.next(|packet| look(&packet));
            self.tally.packets = self.packets.count();
            match looked_at {
                Ok(Some(Ok(found))) => {
                    self.tally.count(&found);
                    return Some(Ok(found));
                }
                Ok(Some(Err(other))) => self.tally.count_other(other),
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}

/// What a packet is that is no CM message.
enum Other {
    /// Not to UDP port 4791.
    NotRoce,
    /// Of a link type that is not read here.
    Link,
    /// RoCEv2, but not for queue pair 1.
    Data,
    /// A fragment of a UDP datagram.
    Fragment,
    /// A datagram for queue pair 1 whose MAD was not captured whole.
    Cut,
    /// A faulty datagram for queue pair 1.
    Frame(u64, FrameFault),
    /// A MAD of another management class.
    Class,
    /// A MAD of class CM, but no message that we know.
    Mad(u64, MadError),
}

fn look(packet: &Packet<'_>) -> Result<Found, Other> {
    if !packet.link.is_readable() {
        return Err(Other::Link);
    }
    let datagram = datagram(packet.link, packet.octets).map_err(|reason| match reason {
        NoDatagram::Other => Other::NotRoce,
        NoDatagram::Fragment => Other::Fragment,
    })?;
    let mad = mad(&datagram, packet.number)?;
    let addresses = [datagram.source, datagram.destination];
    Found::new(packet.number, packet.time, addresses, integrity(&datagram), mad).map_err(|error| {
        match error {
            MadError::Class(_) => Other::Class,
            error => Other::Mad(packet.number, error),
        }
    })
}

/// Octets of ICRC behind a MAD: what may be missing without harm to the message.
const ICRC: usize = 4;

fn mad(datagram: &Datagram<'_>, packet: u64) -> Result<Mad, Other> {
    let missing = datagram.length - datagram.payload.len();
    let mut completed = Vec::new();
    let payload = if missing == 0 {
        datagram.payload
    } else {
        completed.extend_from_slice(datagram.payload);
        completed.resize(datagram.length, 0);
        &completed
    };
    match unframe(payload) {
        Err(FrameFault::Opcode(_) | FrameFault::DestinationQpn(_)) => Err(Other::Data),
        _ if missing > ICRC => Err(Other::Cut),
        Ok(gsi) => Ok(*gsi.mad),
        Err(fault) => Err(Other::Frame(packet, fault)),
    }
}

fn integrity(datagram: &Datagram<'_>) -> Integrity {
    match &datagram.ip {
        Some(ip) if datagram.payload.len() == datagram.length => {
            verify(ip, datagram.source_port, datagram.payload, crc32)
        }
        _ => Integrity::Unchecked,
    }
}

/// What was in a file: CM messages, other traffic, and what had to be left out.
#[derive(Clone, Default, Debug)]
#[non_exhaustive]
pub struct Tally {
    /// Packets in all.
    pub packets: u64,
    /// CM messages.
    pub messages: u64,
    /// CM messages whose ICRC is wrong.
    pub bad_icrc: u64,
    /// Packets to other destinations than UDP port 4791.
    pub not_roce: u64,
    /// RoCEv2 packets to other queue pairs than 1: the connections' own traffic.
    pub data: u64,
    /// Packets of interfaces whose link type is not read here.
    pub unreadable_link: u64,
    /// Fragments of UDP datagrams; they are not put together.
    pub fragments: u64,
    /// Datagrams to queue pair 1 of which not the whole MAD was captured.
    pub cut: u64,
    /// Faulty datagrams to queue pair 1.
    pub faulty: LeftOut<FrameFault>,
    /// MADs of other management classes than CM.
    pub other_classes: u64,
    /// MADs of class CM that are no message that we know.
    pub unknown_mads: LeftOut<MadError>,
}

impl Tally {
    fn count(&mut self, found: &Found) {
        self.messages += 1;
        self.bad_icrc += u64::from(found.integrity == Integrity::Bad);
    }

    fn count_other(&mut self, other: Other) {
        match other {
            Other::NotRoce => self.not_roce += 1,
            Other::Link => self.unreadable_link += 1,
            Other::Data => self.data += 1,
            Other::Fragment => self.fragments += 1,
            Other::Cut => self.cut += 1,
            Other::Frame(packet, fault) => self.faulty.count(packet, fault),
            Other::Class => self.other_classes += 1,
            Other::Mad(packet, error) => self.unknown_mads.count(packet, error),
        }
    }
}

/// A count, with the first case and its reason as an example.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LeftOut<E> {
    /// How many.
    pub count: u64,
    /// The number of the first packet, and why it was left out.
    pub first: Option<(u64, E)>,
}

impl<E> Default for LeftOut<E> {
    fn default() -> LeftOut<E> {
        LeftOut { count: 0, first: None }
    }
}

impl<E> LeftOut<E> {
    fn count(&mut self, packet: u64, reason: E) {
        self.count += 1;
        self.first.get_or_insert((packet, reason));
    }
}
