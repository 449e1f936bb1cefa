//! The MAD header, attribute IDs, and what makes us refuse a datagram before its message is looked at.
//!
//! Read first: IBTA 13 (management datagrams).

use core::fmt;

use super::Header as H;

/// Octets in a management datagram, always.
pub const MAD_LEN: usize = 256;

/// A management datagram.
pub type Mad = [u8; MAD_LEN];

/// The base version of every MAD.
pub(super) const BASE_VERSION: u8 = 1;
/// The management class of communication management.
pub(super) const CLASS: u8 = 0x07;
/// The version of that class.
pub(super) const CLASS_VERSION: u8 = 2;
/// Send: the method of every CM message, answers included.
pub(super) const METHOD_SEND: u8 = 0x03;

layout! {
    /// The header of a MAD (IBTA 13).
    Header at 0, 24 octets {
        0/8      base_version, set_base_version: u8 = "Version of the MAD header, 1.";
        1/8      class, set_class: u8 = "Management class: 7 is communication management.";
        2/8      class_version, set_class_version: u8 = "Version of the class, 2.";
        3/8      method, set_method: u8 = "Response bit and method: Send is 3.";
        4/16     status, set_status: u16 = "Status; zero in CM messages and ignored there.";
        6/16     class_specific, set_class_specific: u16 = "Class specific; zero in CM messages.";
        8/64     transaction_id, set_transaction_id: u64 = "Transaction ID: answers carry that of the question.";
        16/16    attribute, set_attribute: Attribute = "Which message this is.";
        18/16    reserved;
        20/32    attribute_modifier, set_attribute_modifier: u32 = "Attribute modifier; ECE options in some messages.";
    }
    summary { transaction_id }
}

/// Zero-fills `mad` and writes the header of a CM message.
#[inline(never)]
pub(super) fn begin(mad: &mut Mad, attribute: Attribute, transaction_id: u64) {
    *mad = [0; MAD_LEN];
    H(mad)
        .set_base_version(BASE_VERSION)
        .set_class(CLASS)
        .set_class_version(CLASS_VERSION)
        .set_method(METHOD_SEND)
        .set_transaction_id(transaction_id)
        .set_attribute(attribute);
}

/// An attribute ID: in class 7, which message it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Attribute(pub u16);

macro_rules! attributes {
    ($($value:literal $CONST:ident $name:literal $doc:literal)*) => {
        impl Attribute {
            $(#[doc = $doc] pub const $CONST: Attribute = Attribute($value);)*

            /// The name of a message, as the specification writes it.
            pub const fn name(self) -> Option<&'static str> {
                match self {
                    $(Attribute::$CONST => Some($name),)*
                    _ => None,
                }
            }
        }
    };
}

attributes! {
    0x0001 CLASS_PORT_INFO "ClassPortInfo" "What a class on a port can do."
    0x0010 REQ "REQ" "Request for communication."
    0x0011 MRA "MRA" "Message receipt acknowledged: wait longer."
    0x0012 REJ "REJ" "Reject."
    0x0013 REP "REP" "Reply to a request."
    0x0014 RTU "RTU" "Ready to use."
    0x0015 DREQ "DREQ" "Request for disconnection."
    0x0016 DREP "DREP" "Reply to a disconnection."
    0x0017 SIDR_REQ "SIDR_REQ" "Service ID resolution request."
    0x0018 SIDR_REP "SIDR_REP" "Service ID resolution reply."
    0x0019 LAP "LAP" "Load alternate path."
    0x001A APR "APR" "Alternate path response."
}

code_field!(Attribute(u16));

impl fmt::Debug for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "attribute {:#06x}", self.0),
        }
    }
}

/// Why a datagram is not a CM message. The checks are made in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum MadError {
    /// Not 256 octets, but this many.
    Length(usize),
    /// Another base version than 1.
    BaseVersion(u8),
    /// Another management class than 7.
    Class(u8),
    /// Another version of class 7 than 2.
    ClassVersion(u8),
    /// Another method than Send.
    Method(u8),
    /// No message that we know.
    Attribute(u16),
}

impl fmt::Display for MadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MadError::Length(n) => write!(f, "a MAD has 256 octets, not {n}"),
            MadError::BaseVersion(v) => write!(f, "MAD base version {v}, not 1"),
            MadError::Class(c) => write!(f, "management class {c:#04x}, not 0x07"),
            MadError::ClassVersion(v) => write!(f, "CM class version {v}, not 2"),
            MadError::Method(m) => write!(f, "method {m:#04x}, not Send (0x03)"),
            MadError::Attribute(a) => write!(f, "attribute {a:#06x} is not a CM message"),
        }
    }
}

impl core::error::Error for MadError {}
