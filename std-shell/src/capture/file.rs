//! Packets out of a capture file, one at a time.
//!
//! Owns the file format: pcap and pcapng (through `pcap-parser`), which packet has which link type and
//! time stamp, and every way in which a file can be none, end too early or be damaged.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{
    Block, EnhancedPacketBlock, InterfaceDescriptionBlock, LegacyPcapBlock, LegacyPcapReader,
    PcapBlockOwned, PcapError, PcapHeader, PcapNGReader, SimplePacketBlock,
};

use super::{LinkType, Timestamp};

/// Octets read at once; also what a file can make us hold without asking for more.
const BUFFER: usize = 64 * 1024;
/// The longest packet or block that we read: 64 times what capture programs write at most.
const MAX_BUFFER: usize = 16 * 1024 * 1024;

/// The first four octets of a pcapng file, in either byte order.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Those of a pcap file: micro- and nanoseconds in both byte orders, and Kuznetzov's variant.
const PCAP: [[u8; 4]; 5] = [
    [0xd4, 0xc3, 0xb2, 0xa1],
    [0xa1, 0xb2, 0xc3, 0xd4],
    [0x4d, 0x3c, 0xb2, 0xa1],
    [0xa1, 0xb2, 0x3c, 0x4d],
    [0x34, 0xcd, 0xb2, 0xa1],
];

/// A packet as the file has it.
pub(super) struct Packet<'a> {
    /// Counted from 1 over all packets of the file.
    pub(super) number: u64,
    pub(super) time: Option<Timestamp>,
    pub(super) link: LinkType,
    pub(super) octets: &'a [u8],
}

/// The packets of a file.
pub(super) struct Packets<'r> {
    reader: Box<dyn PcapReaderIterator + Send + 'r>,
    context: Context,
}

impl<'r> Packets<'r> {
    pub(super) fn open(source: impl Read + Send + 'r) -> Result<Packets<'r>, CaptureError> {
        let mut source = BufReader::with_capacity(BUFFER, source);
        let magic: Option<[u8; 4]> = match source.fill_buf()? {
            [] => return Err(CaptureError::Empty),
            head => head.first_chunk().copied(),
        };
        let reader: Box<dyn PcapReaderIterator + Send + 'r> = match magic {
            Some(PCAPNG) => Box::new(PcapNGReader::new(BUFFER, source).map_err(header_error)?),
            Some(magic) if PCAP.contains(&magic) => {
                Box::new(LegacyPcapReader::new(BUFFER, source).map_err(header_error)?)
            }
            _ => return Err(CaptureError::NotACapture),
        };
        Ok(Packets { reader, context: Context::default() })
    }

    /// Packets seen so far.
    pub(super) fn count(&self) -> u64 {
        self.context.packets
    }

    /// Shows the next packet to `look`; `None` at the end of the file.
    pub(super) fn next<T>(
        &mut self,
        mut look: impl FnMut(Packet<'_>) -> T,
    ) -> Result<Option<T>, CaptureError> {
        loop {
            match self.reader.next() {
                Ok((length, block)) => {
                    let seen = self.context.packet(block)?.map(&mut look);
                    self.reader.consume(length);
                    if seen.is_some() {
                        return Ok(seen);
                    }
                }
                Err(PcapError::Incomplete(_)) => self.refill()?,
                Err(PcapError::BufferTooSmall) => self.grow()?,
                Err(PcapError::Eof) => return self.context.check_links().map(|()| None),
                Err(PcapError::UnexpectedEof) => {
                    return Err(CaptureError::CutShort { packet: self.count() + 1 });
                }
                Err(PcapError::ReadError) => return Err(read_error()),
                Err(_) => return Err(self.context.damaged()),
            }
        }
    }

    fn refill(&mut self) -> Result<(), CaptureError> {
        self.reader.refill().map_err(|_| read_error())
    }

    /// Makes room for a packet that is longer than all before it.
    fn grow(&mut self) -> Result<(), CaptureError> {
        let size = (self.reader.data().len() * 2).max(BUFFER * 2);
        if size > MAX_BUFFER {
            return Err(self.context.damaged());
        }
        self.reader.grow(size);
        self.refill()
    }
}

/// What the blocks before a packet say about it.
#[derive(Default)]
struct Context {
    packets: u64,
    /// Those of this section; a pcap file has one.
    interfaces: Vec<Interface>,
    big_endian: bool,
    /// Whether any interface so far has a link type that we read.
    any_readable: bool,
}

impl Context {
    /// Takes note of a block, and makes a packet of it if it is one.
    fn packet<'a>(
        &mut self,
        block: PcapBlockOwned<'a>,
    ) -> Result<Option<Packet<'a>>, CaptureError> {
        match block {
            PcapBlockOwned::LegacyHeader(header) => self.add(Interface::of_pcap(&header)),
            PcapBlockOwned::Legacy(block) => return self.pcap_packet(&block).map(Some),
            PcapBlockOwned::NG(Block::SectionHeader(header)) => {
                self.big_endian = header.big_endian();
                self.interfaces.clear();
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(block)) => {
                self.add(Interface::of_pcapng(&block, self.big_endian));
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(block)) => {
                return self.enhanced_packet(&block).map(Some);
            }
            PcapBlockOwned::NG(Block::SimplePacket(block)) => {
                return self.simple_packet(&block).map(Some);
            }
            PcapBlockOwned::NG(_) => {}
        }
        Ok(None)
    }

    fn add(&mut self, interface: Interface) {
        self.any_readable |= interface.link.is_readable();
        self.interfaces.push(interface);
    }

    fn pcap_packet<'a>(&mut self, block: &LegacyPcapBlock<'a>) -> Result<Packet<'a>, CaptureError> {
        let interface = self.begin_packet(0)?;
        Ok(Packet {
            number: self.packets,
            time: interface.pcap_time(block.ts_sec, block.ts_usec),
            link: interface.link,
            octets: block.data,
        })
    }

    fn enhanced_packet<'a>(
        &mut self,
        block: &EnhancedPacketBlock<'a>,
    ) -> Result<Packet<'a>, CaptureError> {
        let interface = self.begin_packet(block.if_id)?;
        let ticks = u64::from(block.ts_high) << 32 | u64::from(block.ts_low);
        Ok(Packet {
            number: self.packets,
            time: interface.time(ticks),
            link: interface.link,
            octets: clip(block.data, block.caplen),
        })
    }

    /// A simple packet has no time stamp, and no length of its own if it was cut.
    fn simple_packet<'a>(
        &mut self,
        block: &SimplePacketBlock<'a>,
    ) -> Result<Packet<'a>, CaptureError> {
        let interface = self.begin_packet(0)?;
        Ok(Packet {
            number: self.packets,
            time: None,
            link: interface.link,
            octets: clip(block.data, block.origlen.min(interface.snap_length)),
        })
    }

    /// Counts a packet and finds its interface.
    fn begin_packet(&mut self, interface: u32) -> Result<Interface, CaptureError> {
        let interface = self.interfaces.get(interface as usize).copied();
        let interface = interface.ok_or_else(|| self.damaged())?;
        self.check_links()?;
        self.packets += 1;
        Ok(interface)
    }

    /// Fails if nothing in the file can be read.
    fn check_links(&self) -> Result<(), CaptureError> {
        match self.interfaces.first() {
            Some(interface) if !self.any_readable => Err(CaptureError::Link(interface.link)),
            _ => Ok(()),
        }
    }

    fn damaged(&self) -> CaptureError {
        CaptureError::Damaged { after: self.packets }
    }
}

/// What a packet needs to know of the interface it was captured on.
#[derive(Clone, Copy)]
struct Interface {
    link: LinkType,
    /// Octets kept of a packet at most.
    snap_length: u32,
    /// Of time stamps; as pcapng codes it.
    resolution: u8,
    /// Seconds to add to time stamps.
    offset: i64,
}

impl Interface {
    fn of_pcap(header: &PcapHeader) -> Interface {
        Interface {
            // The upper half says whether frames end with an FCS, and how long it is.
            link: LinkType::from_number(header.network.0 as u32 & 0xffff),
            snap_length: u32::MAX,
            resolution: if header.is_nanosecond_precision() { 9 } else { 6 },
            offset: 0,
        }
    }

    fn of_pcapng(block: &InterfaceDescriptionBlock<'_>, big_endian: bool) -> Interface {
        Interface {
            link: LinkType::from_number(block.linktype.0 as u32),
            snap_length: if block.snaplen == 0 { u32::MAX } else { block.snaplen },
            resolution: block.if_tsresol,
            // pcap-parser reads this option as little-endian in every file.
            offset: if big_endian { block.if_tsoffset.swap_bytes() } else { block.if_tsoffset },
        }
    }

    fn pcap_time(&self, seconds: u32, fraction: u32) -> Option<Timestamp> {
        let per_second = 10_u64.pow(self.resolution.into());
        self.time(u64::from(seconds) * per_second + u64::from(fraction))
    }

    fn time(&self, ticks: u64) -> Option<Timestamp> {
        Timestamp::new(ticks, self.resolution, self.offset)
    }
}

fn clip(octets: &[u8], length: u32) -> &[u8] {
    octets.get(..length as usize).unwrap_or(octets)
}

/// Why a file gave no further packets.
#[derive(Debug)]
#[non_exhaustive]
pub enum CaptureError {
    /// The system could not read it.
    Read(io::Error),
    /// It has no octets.
    Empty,
    /// It is neither pcap nor pcapng.
    NotACapture,
    /// Its packets have a link type that is not read here.
    Link(LinkType),
    /// It ends in the middle of its header.
    HeaderCutShort,
    /// It ends in the middle of this packet (counted from 1). All before it were whole.
    CutShort {
        /// The packet that is not whole.
        packet: u64,
    },
    /// What follows this packet makes no sense.
    Damaged {
        /// The last good packet; 0 for none.
        after: u64,
    },
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaptureError::Read(error) => write!(f, "can't be read: {error}"),
            CaptureError::Empty => f.write_str("is empty, so it is no capture file"),
            CaptureError::NotACapture => {
                f.write_str("is no capture file: it is neither pcap nor pcapng")
            }
            CaptureError::Link(link) => write!(
                f,
                "was captured on {link}; only Ethernet, raw IP and Linux cooked captures can be decoded"
            ),
            CaptureError::HeaderCutShort => f.write_str("ends in the middle of its file header"),
            CaptureError::CutShort { packet } => {
                write!(f, "ends in the middle of packet {packet}: it was cut short")
            }
            CaptureError::Damaged { after: 0 } => {
                f.write_str("is damaged: what follows its header is no packet")
            }
            CaptureError::Damaged { after } => {
                write!(f, "is damaged: what follows packet {after} is no packet")
            }
        }
    }
}

impl std::error::Error for CaptureError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            CaptureError::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> CaptureError {
        CaptureError::Read(error)
    }
}

/// `pcap-parser` keeps no more of an I/O error than that there was one.
fn read_error() -> CaptureError {
    CaptureError::Read(io::Error::other("reading failed"))
}

fn header_error(error: PcapError<&[u8]>) -> CaptureError {
    match error {
        PcapError::Incomplete(_) => CaptureError::HeaderCutShort,
        PcapError::ReadError => read_error(),
        _ => CaptureError::NotACapture,
    }
}
