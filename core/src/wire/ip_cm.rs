//! The IP CM header: the IP addresses and the source port that a REQ or SIDR_REQ of an IP service
//! carries in the first 36 octets of its private data.
//!
//! Read first: Annex A11 (service IDs and this header). An IPv4 address stands in the last four of
//! sixteen octets and is zero padded, not `::ffff:`-mapped as in a GID.

use core::borrow::BorrowMut;
use core::fmt;
use core::net::IpAddr;

use super::bits::{octets, octets_mut, part, part_mut};
use super::field::set_prefix;
use super::{Mad, PrivateDataTooLong, Req, SidrReq};
use crate::addr::Gid;

/// Octets of the header.
pub const LEN: usize = 36;

/// Who asks whom. The destination port is in the service ID.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpCmHeader {
    /// Source port of the active side; 0 is legal.
    pub source_port: u16,
    /// Address of the active side; IPv4 in mapped form.
    pub source: Gid,
    /// Address of the passive side; likewise.
    pub destination: Gid,
}

impl IpCmHeader {
    /// Reads the header at the beginning of private data.
    #[inline]
    pub fn parse<const N: usize>(private_data: &[u8; N]) -> Result<IpCmHeader, IpCmError> {
        IpCmView::new(private_data).to_header()
    }

    /// Writes the header: version 0.0, IP version 4 if both addresses are IPv4, else 6.
    pub fn emit(&self) -> [u8; LEN] {
        let mut header = [0; LEN];
        self.write(&mut header);
        header
    }

    fn write(&self, header: &mut [u8; LEN]) {
        *part_mut::<2, 2, LEN>(header) = self.source_port.to_be_bytes();
        *part_mut::<4, 16, LEN>(header) = self.source.0;
        *part_mut::<20, 16, LEN>(header) = self.destination.0;
        if self.source.is_v4() && self.destination.is_v4() {
            header[..2].copy_from_slice(&[0, 4 << 4]);
            *part_mut::<14, 2, LEN>(header) = [0; 2];
            *part_mut::<30, 2, LEN>(header) = [0; 2];
        } else {
            header[..2].copy_from_slice(&[0, 6 << 4]);
        }
    }
}

/// Why the private data does not begin with a header that we read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IpCmError {
    /// Another version than 0.0: major version in the upper, minor in the lower four bits.
    Version(u8),
    /// Neither 4 nor 6.
    IpVersion(u8),
}

impl fmt::Display for IpCmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IpCmError::Version(v) => {
                write!(f, "IP CM header version {}.{}, not 0.0", v >> 4, v & 15)
            }
            IpCmError::IpVersion(v) => write!(f, "IP version {v} in the IP CM header"),
        }
    }
}

impl core::error::Error for IpCmError {}

/// The header as it stands, right or wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpCmView<'a>(&'a [u8; LEN]);

impl<'a> IpCmView<'a> {
    /// A view of the beginning of private data.
    #[inline(always)]
    pub fn new<const N: usize>(private_data: &'a [u8; N]) -> IpCmView<'a> {
        const { assert!(N >= LEN, "the message has no room for an IP CM header") };
        IpCmView(part::<0, LEN, N>(private_data))
    }

    /// Major version in the upper, minor version in the lower four bits; 0 is ours.
    #[inline(always)]
    pub fn version(&self) -> u8 {
        self.0[0]
    }

    /// The IP version: 4 or 6, if all is well.
    #[inline(always)]
    pub fn ip_version(&self) -> u8 {
        self.0[1] >> 4
    }

    /// Port of the active side.
    #[inline(always)]
    pub fn source_port(&self) -> u16 {
        u16::from_be_bytes([self.0[2], self.0[3]])
    }

    /// Address of the active side; IPv4 if the IP version is 4.
    pub fn source(&self) -> IpAddr {
        self.address(part::<4, 16, LEN>(self.0))
    }

    /// Address of the passive side; IPv4 if the IP version is 4.
    pub fn destination(&self) -> IpAddr {
        self.address(part::<20, 16, LEN>(self.0))
    }

    /// The header, if its versions are right.
    pub fn to_header(&self) -> Result<IpCmHeader, IpCmError> {
        if self.version() != 0 {
            return Err(IpCmError::Version(self.version()));
        }
        if !matches!(self.ip_version(), 4 | 6) {
            return Err(IpCmError::IpVersion(self.ip_version()));
        }
        Ok(IpCmHeader {
            source_port: self.source_port(),
            source: self.gid(part::<4, 16, LEN>(self.0)),
            destination: self.gid(part::<20, 16, LEN>(self.0)),
        })
    }

    fn address(&self, octets: &[u8; 16]) -> IpAddr {
        match self.ip_version() {
            4 => self.gid(octets).to_ip(),
            _ => IpAddr::from(*octets),
        }
    }

    /// What stands before the four octets of an IPv4 address counts for nothing.
    #[inline]
    fn gid(&self, octets: &[u8; 16]) -> Gid {
        let mut gid = Gid(*octets);
        if self.ip_version() == 4 {
            *part_mut::<0, 12, 16>(&mut gid.0) = *part::<0, 12, 16>(&Gid::V4_WILDCARD.0);
        }
        gid
    }
}

/// The two messages whose private data begins with the header. `$at` is where it begins in the MAD.
macro_rules! carries_ip_cm_header {
    ($Name:ident at $at:literal) => {
        impl<B> $Name<B> {
            /// Octets of private data that an IP service leaves to the application.
            pub const CONSUMER_DATA: usize = Self::PRIVATE_DATA - LEN;
        }

        impl<'a> $Name<&'a Mad> {
            /// The IP CM header, as it stands.
            #[inline(always)]
            pub fn ip_cm_view(&self) -> IpCmView<'a> {
                IpCmView(octets::<$at, LEN>(self.0))
            }

            /// The IP CM header, if there is one that we read.
            #[inline]
            pub fn ip_cm(&self) -> Result<IpCmHeader, IpCmError> {
                self.ip_cm_view().to_header()
            }

            /// The private data behind the IP CM header.
            #[inline(always)]
            pub fn consumer_data(&self) -> &'a [u8; $Name::<()>::CONSUMER_DATA] {
                octets::<{ $at + LEN }, { $Name::<()>::CONSUMER_DATA }>(self.0)
            }
        }

        impl<B: BorrowMut<Mad>> $Name<B> {
            /// Sets the IP CM header.
            #[inline]
            pub fn set_ip_cm(&mut self, header: &IpCmHeader) -> &mut Self {
                header.write(octets_mut::<$at, LEN>(self.0.borrow_mut()));
                self
            }

            /// Sets the private data behind the IP CM header, zero-filled behind `data`. Nothing is
            /// changed if `data` is too long.
            #[inline]
            pub fn set_consumer_data(&mut self, data: &[u8]) -> Result<(), PrivateDataTooLong> {
                set_prefix::<{ $at + LEN }, { $Name::<()>::CONSUMER_DATA }>(
                    self.0.borrow_mut(),
                    data,
                )
            }
        }
    };
}

carries_ip_cm_header!(Req at 164);
carries_ip_cm_header!(SidrReq at 40);
