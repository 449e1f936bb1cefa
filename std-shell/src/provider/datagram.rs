//! One datagram on its way through the kernel: octets, address, control messages. Encoding and decoding
//! without pointers, for `sys.rs` to hand to the kernel.
//!
//! Read first: cmsg(3), ip(7), ipv6(7).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use libc::c_int;

/// How many datagrams go through the kernel at a time.
pub(super) const BATCH: usize = 64;

/// Octets of data a slot takes: a framed MAD with the longest IP header, and some. Whatever is longer is
/// not for us.
pub(super) const DATA: usize = 512;

const NAME: usize = size_of::<libc::sockaddr_in6>();
const CONTROL: usize = 256;
const HEADER: usize = align(size_of::<usize>() + 2 * size_of::<c_int>());

/// A datagram's octets, the address it came from or goes to, and its control messages.
#[derive(Clone)]
#[repr(align(8))]
pub(super) struct Slot {
    control: [u8; CONTROL],
    name: [u8; NAME],
    name_len: usize,
    control_len: usize,
    data_len: usize,
    data: [u8; DATA],
}

impl Slot {
    pub(super) const EMPTY: Slot = Slot {
        control: [0; CONTROL],
        name: [0; NAME],
        name_len: 0,
        control_len: 0,
        data_len: 0,
        data: [0; DATA],
    };

    /// Slots for one batch.
    pub(super) fn batch() -> Box<[Slot]> {
        vec![Slot::EMPTY; BATCH].into_boxed_slice()
    }

    /// Begins a datagram to be sent; returns the room for its first `N` octets, which are all of it.
    pub(super) fn begin<const N: usize>(&mut self, destination: SocketAddr) -> &mut [u8; N] {
        const { assert!(N <= DATA) };
        self.set_name(destination);
        self.control_len = 0;
        self.data_len = N;
        match self.data.first_chunk_mut() {
            Some(room) => room,
            None => unreachable!(),
        }
    }

    /// Makes a datagram that was begun shorter.
    pub(super) fn shorten(&mut self, length: usize) {
        self.data_len = self.data_len.min(length);
    }

    /// Adds a control message whose value is an `int`.
    pub(super) fn push_control(&mut self, level: c_int, kind: c_int, value: c_int) {
        const VALUE: usize = size_of::<c_int>();
        let room = &mut self.control[self.control_len..];
        let (header, rest) = room.split_at_mut(HEADER);
        let (length, level_kind) = header.split_at_mut(size_of::<usize>());
        length.copy_from_slice(&(HEADER + VALUE).to_ne_bytes());
        level_kind[..4].copy_from_slice(&level.to_ne_bytes());
        level_kind[4..8].copy_from_slice(&kind.to_ne_bytes());
        rest[..VALUE].copy_from_slice(&value.to_ne_bytes());
        self.control_len += HEADER + align(VALUE);
    }

    /// The octets received, as far as there was room for them.
    pub(super) fn data(&self) -> &[u8] {
        &self.data[..self.data_len.min(DATA)]
    }

    /// How long the datagram was, if longer than what there was room for.
    pub(super) fn too_long(&self) -> Option<usize> {
        (self.data_len > DATA).then_some(self.data_len)
    }

    /// The address in it: the sender's, or for one out of the error queue where it had been sent.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        parse_name(self.name.get(..self.name_len)?)
    }

    /// The control messages: level, type, value.
    pub(super) fn controls(&self) -> Controls<'_> {
        Controls { rest: &self.control[..self.control_len] }
    }

    /// Room for a datagram to be received, for its address and its control messages.
    pub(super) fn room(&mut self) -> (&mut [u8], &mut [u8], &mut [u8]) {
        (&mut self.data, &mut self.name, &mut self.control)
    }

    /// The datagram to be sent, its address and its control messages.
    pub(super) fn contents(&mut self) -> (&mut [u8], &mut [u8], &mut [u8]) {
        (
            &mut self.data[..self.data_len],
            &mut self.name[..self.name_len],
            &mut self.control[..self.control_len],
        )
    }

    /// How much of the [`room`](Self::room) was used. `data_len` may be more than there was.
    pub(super) fn received(&mut self, data_len: usize, name_len: usize, control_len: usize) {
        self.data_len = data_len;
        self.name_len = name_len.min(NAME);
        self.control_len = control_len.min(CONTROL);
    }

    fn set_name(&mut self, address: SocketAddr) {
        self.name = [0; NAME];
        let family = match address {
            SocketAddr::V4(v4) => {
                self.name[4..8].copy_from_slice(&v4.ip().octets());
                self.name_len = size_of::<libc::sockaddr_in>();
                libc::AF_INET
            }
            SocketAddr::V6(v6) => {
                self.name[8..24].copy_from_slice(&v6.ip().octets());
                self.name[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
                self.name_len = NAME;
                libc::AF_INET6
            }
        };
        self.name[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        self.name[2..4].copy_from_slice(&address.port().to_be_bytes());
    }
}

/// The IP address and port in a `struct sockaddr`.
pub(super) fn parse_name(name: &[u8]) -> Option<SocketAddr> {
    let (family, rest) = name.split_first_chunk::<2>()?;
    let (port, rest) = rest.split_first_chunk::<2>()?;
    let port = u16::from_be_bytes(*port);
    match c_int::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET => {
            let address = Ipv4Addr::from(*rest.first_chunk::<4>()?);
            Some(SocketAddr::V4(SocketAddrV4::new(address, port)))
        }
        libc::AF_INET6 => {
            let (_flow, rest) = rest.split_first_chunk::<4>()?;
            let (address, rest) = rest.split_first_chunk::<16>()?;
            let scope = u32::from_ne_bytes(*rest.first_chunk()?);
            Some(SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::from(*address), port, 0, scope)))
        }
        _ => None,
    }
}

/// Walks control messages as the kernel wrote them.
#[derive(Clone)]
pub(super) struct Controls<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Controls<'a> {
    type Item = (c_int, c_int, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.rest.split_first_chunk()?;
        let (level, rest) = rest.split_first_chunk()?;
        let kind = rest.first_chunk()?;
        let length = usize::from_ne_bytes(*length);
        let value = self.rest.get(HEADER..length)?;
        self.rest = self.rest.get(align(length)..).unwrap_or_default();
        Some((c_int::from_ne_bytes(*level), c_int::from_ne_bytes(*kind), value))
    }
}

/// A value that is one octet or an `int`, as IP's control messages have it.
pub(super) fn small(value: &[u8]) -> Option<u8> {
    match *value {
        [octet] => Some(octet),
        [a, b, c, d] => u8::try_from(c_int::from_ne_bytes([a, b, c, d])).ok(),
        _ => None,
    }
}

/// What the error queue says about a datagram of ours (`struct sock_extended_err`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ExtendedError {
    pub(super) errno: i32,
    pub(super) origin: u8,
    pub(super) kind: u8,
    pub(super) code: u8,
    /// Who says so, if it was a router or host.
    pub(super) reporter: Option<IpAddr>,
}

impl ExtendedError {
    pub(super) fn parse(value: &[u8]) -> Option<ExtendedError> {
        let (error, rest) = value.split_first_chunk::<16>()?;
        let [e0, e1, e2, e3, origin, kind, code, ..] = *error;
        Some(ExtendedError {
            errno: i32::from_ne_bytes([e0, e1, e2, e3]),
            origin,
            kind,
            code,
            reporter: parse_name(rest).map(|address| address.ip()),
        })
    }
}

const fn align(length: usize) -> usize {
    length.next_multiple_of(size_of::<usize>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_goes_in_and_comes_out() {
        for text in ["10.1.2.3:4791", "[fd00::7]:4791", "[fe80::1%5]:65535"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut slot = Slot::EMPTY;
            slot.begin::<4>(address);
            assert_eq!(slot.address(), Some(address));
        }
    }

    #[test]
    fn control_messages_go_in_and_come_out() {
        let mut slot = Slot::EMPTY;
        slot.begin::<4>("127.0.0.1:1".parse().unwrap());
        slot.push_control(libc::IPPROTO_IP, libc::IP_TOS, 0xb8);
        slot.push_control(libc::IPPROTO_IP, libc::IP_TTL, 3);
        let read: Vec<_> = slot.controls().map(|(l, k, v)| (l, k, small(v))).collect();
        assert_eq!(
            read,
            [
                (libc::IPPROTO_IP, libc::IP_TOS, Some(0xb8)),
                (libc::IPPROTO_IP, libc::IP_TTL, Some(3))
            ]
        );
    }

    #[test]
    fn garbage_in_control_messages_and_names_ends_the_walk() {
        let mut slot = Slot::EMPTY;
        for length in 0..=CONTROL {
            for fill in [0x00, 0x01, 0x7f, 0xff] {
                slot.control = [fill; CONTROL];
                slot.received(9, length, length);
                assert!(slot.controls().count() <= CONTROL / HEADER);
                slot.name = [fill; NAME];
                assert_eq!(slot.address(), None);
            }
        }
        assert_eq!(ExtendedError::parse(&[0; 15]), None);
    }
}
