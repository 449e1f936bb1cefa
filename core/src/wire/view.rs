//! The lossless view: whatever a MAD holds can be printed, known or not.
//!
//! For people and for `decode`; the engine uses the typed messages. Read first: IBTA 13.

use core::fmt;

use super::bits::get_slowly;
use super::field::{FieldInfo, Kind};
use super::mad::CLASS;
use super::{
    Apr, Attribute, Drep, Dreq, Header, Lap, Mad, Mra, Rej, Rep, Req, Rtu, SidrRep, SidrReq,
};
use crate::addr::Gid;

/// A MAD to look at. It never refuses: nothing is checked but the length, and that by the type.
#[derive(Clone, Copy)]
pub struct View<'a>(&'a Mad);

impl<'a> View<'a> {
    /// A view of any 256 octets.
    #[inline]
    pub const fn new(mad: &'a Mad) -> View<'a> {
        View(mad)
    }

    /// The 256 octets.
    pub const fn mad(&self) -> &'a Mad {
        self.0
    }

    /// Version of the MAD header.
    pub fn base_version(&self) -> u8 {
        self.header().base_version()
    }

    /// Management class.
    pub fn class(&self) -> u8 {
        self.header().class()
    }

    /// Version of the class.
    pub fn class_version(&self) -> u8 {
        self.header().class_version()
    }

    /// Response bit and method.
    pub fn method(&self) -> u8 {
        self.header().method()
    }

    /// Status.
    pub fn status(&self) -> u16 {
        self.header().status()
    }

    /// The class specific field of the header.
    pub fn class_specific(&self) -> u16 {
        self.header().class_specific()
    }

    /// Transaction ID.
    pub fn transaction_id(&self) -> u64 {
        self.header().transaction_id()
    }

    /// Attribute ID.
    pub fn attribute(&self) -> Attribute {
        self.header().attribute()
    }

    /// Attribute modifier.
    pub fn attribute_modifier(&self) -> u32 {
        self.header().attribute_modifier()
    }

    /// Every field, header first, reserved ones included: together they are the 256 octets.
    pub fn fields(&self) -> Fields<'a> {
        Fields { mad: self.0, rest: Header::<()>::FIELDS.iter().chain(self.layout().0.iter()) }
    }

    fn header(&self) -> Header<&'a Mad> {
        Header(self.0)
    }

    /// The table of the message and the names its summary shows.
    fn layout(&self) -> Layout {
        macro_rules! tables {
            ($($Name:ident)*) => {
                match self.attribute() {
                    $($Name::<()>::ATTRIBUTE => ($Name::<()>::FIELDS, $Name::<()>::SUMMARY),)*
                    _ => UNKNOWN,
                }
            };
        }
        if self.class() != CLASS {
            return UNKNOWN;
        }
        tables! { Req Mra Rej Rep Rtu Dreq Drep SidrReq SidrRep Lap Apr }
    }
}

/// One line with the fields that matter: `RTU tid 0x… local_comm_id 0x… remote_comm_id 0x…`.
impl fmt::Display for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.class() == CLASS {
            write!(f, "{}", self.attribute())?;
        } else {
            write!(f, "class {:#04x} attribute {:#06x}", self.class(), self.attribute().0)?;
        }
        write!(f, " tid {:#018x}", self.transaction_id())?;
        let (fields, summary) = self.layout();
        for name in summary {
            if let Some(field) = fields.iter().find(|field| field.name == *name) {
                write!(f, " {name} {}", value(self.0, field))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The fields of a MAD with their names; see [`View::fields`].
#[derive(Clone)]
pub struct Fields<'a> {
    mad: &'a Mad,
    rest: core::iter::Chain<
        core::slice::Iter<'static, FieldInfo>,
        core::slice::Iter<'static, FieldInfo>,
    >,
}

impl fmt::Debug for Fields<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.clone()).finish()
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (&'static str, FieldValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        self.rest.next().map(|field| (field.name, value(self.mad, field)))
    }
}

/// The value of one field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FieldValue<'a> {
    /// Bits that should be zero, and may not be.
    Reserved {
        /// The bits.
        value: u64,
        /// How many.
        width: u32,
    },
    /// A number.
    Number {
        /// Its value.
        value: u64,
        /// Bits.
        width: u32,
    },
    /// A number whose values have names.
    Code {
        /// Its value.
        value: u64,
        /// Bits.
        width: u32,
        /// The name of the value, if it has one.
        name: Option<&'static str>,
    },
    /// A GID.
    Gid(Gid),
    /// Octets.
    Octets(&'a [u8]),
}

/// Numbers of 16 bits and more in hexadecimal with all their digits, smaller ones in decimal; octets as
/// hexadecimal digits.
impl fmt::Display for FieldValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            FieldValue::Reserved { value, width } | FieldValue::Number { value, width } => {
                if width < 16 {
                    write!(f, "{value}")
                } else {
                    write!(f, "{value:#0digits$x}", digits = width.div_ceil(4) as usize + 2)
                }
            }
            FieldValue::Code { value, name: Some(name), .. } => write!(f, "{value} ({name})"),
            FieldValue::Code { value, name: None, .. } => write!(f, "{value}"),
            FieldValue::Gid(gid) => write!(f, "{gid}"),
            FieldValue::Octets(octets) => octets.iter().try_for_each(|o| write!(f, "{o:02x}")),
        }
    }
}

fn value<'a>(mad: &'a Mad, field: &FieldInfo) -> FieldValue<'a> {
    let number = || get_slowly(mad, field.position, field.width);
    let width = field.width as u32;
    match field.kind {
        Kind::Reserved => FieldValue::Reserved { value: number(), width },
        Kind::Number => FieldValue::Number { value: number(), width },
        Kind::Code(name) => FieldValue::Code { value: number(), width, name: name(number()) },
        Kind::Gid => FieldValue::Gid(Gid(octets(mad, field).try_into().unwrap_or_default())),
        Kind::Octets => FieldValue::Octets(octets(mad, field)),
    }
}

fn octets<'a>(mad: &'a Mad, field: &FieldInfo) -> &'a [u8] {
    let at = field.position / 8;
    mad.get(at..at + field.width / 8).unwrap_or_default()
}

type Layout = (&'static [FieldInfo], &'static [&'static str]);

/// What follows the header in a MAD that we don't know.
const UNKNOWN: Layout =
    (&[FieldInfo { name: "data", position: 24 * 8, width: 232 * 8, kind: Kind::Octets }], &[]);
