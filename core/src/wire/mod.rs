//! Pure codecs: octets to fields and back, and nothing else.
//!
//! | to do this | use |
//! |---|---|
//! | print whatever a MAD holds | [`View`] |
//! | act on a CM message | [`Message::parse`], then the getters of [`Req`], [`Rep`] … |
//! | write a CM message | `Req::emit` (and so on), then its `set_` methods |
//! | read and write the addresses in a REQ's private data | [`ip_cm`] |
//! | put a MAD into a RoCEv2 UDP payload and take it out again | [`roce`] |
//! | build or check the ICRC | [`icrc`] |
//! | build whole IP packets and take them apart | [`packet`] |
//!
//! A MAD is [`Mad`], 256 octets: its length is checked once, at the border, and every field is a
//! load at a constant offset from then on. Each message is a table (one file each) that the macro
//! in `field.rs` turns into getters, setters, the list that [`View`] prints, and a compile-time
//! check that the fields follow each other without gap or overlap.
//!
//! ```
//! use nanocm_core::wire::{MAD_LEN, Message, Rej, RejectReason};
//!
//! let mut mad = [0; MAD_LEN];
//! Rej::emit(&mut mad, 7).set_remote_comm_id(0x1234).set_reason(RejectReason::INVALID_SERVICE_ID);
//!
//! let Ok(Message::Rej(rej)) = Message::parse(&mad) else { unreachable!() };
//! assert_eq!(rej.transaction_id(), 7);
//! assert_eq!(rej.reason().text(), "nothing listens on that service ID");
//! println!("{}", rej.view()); // REJ tid 0x0000000000000007 local_comm_id …
//! ```
//!
//! Codes that we don't know are values, not errors. Reserved bits, the header's Status and the
//! attribute modifier are never a reason to refuse a message.

#[macro_use]
mod field;
#[macro_use]
mod codes;

mod apr;
mod bits;
mod check;
pub(crate) mod class_port_info;
mod crc;
mod drep;
mod dreq;
mod ece;
pub mod icrc;
pub mod ip_cm;
mod ip_id;
mod lap;
mod mad;
mod message;
mod mra;
pub mod packet;
mod reason;
mod rej;
mod rep;
mod req;
pub mod roce;
mod rtu;
mod sidr_rep;
mod sidr_req;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod tables;
mod view;

#[cfg(test)]
mod tests;

pub use apr::Apr;
pub use class_port_info::ClassPortInfo;
pub use codes::{ApStatus, MessageKind, SidrStatus};
pub use drep::Drep;
pub use dreq::Dreq;
pub use ece::Ece;
pub use field::PrivateDataTooLong;
pub use ip_cm::{IpCmError, IpCmHeader, IpCmView};
pub use lap::Lap;
pub use mad::{Attribute, Header, MAD_LEN, Mad, MadError};
pub use message::Message;
pub use mra::Mra;
pub use reason::RejectReason;
pub use rej::Rej;
pub use rep::Rep;
pub use req::Req;
pub use rtu::Rtu;
pub use sidr_rep::SidrRep;
pub use sidr_req::SidrReq;
pub use view::{FieldValue, Fields, View};
