//! CM messages out of capture files: pcap and pcapng, over Ethernet, raw IP and Linux cooked capture.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use nanocm::capture::Messages;
//!
//! let mut messages = Messages::open(std::fs::File::open("rping.pcap")?)?;
//! for found in &mut messages {
//!     let found = found?;
//!     println!("{} {} -> {}: {:?}", found.frame, found.source, found.destination, found.message());
//! }
//! println!("{} packets looked at", messages.tally().packets);
//! # Ok(())
//! # }
//! ```
//!
//! A file is untrusted input: whatever stands in it, nothing panics, and memory stays within one
//! packet of at most 16 MiB. What can't be decoded is counted in [`Tally`] with its reason.

mod file;
mod messages;
mod packet;
mod time;

#[cfg(test)]
mod tests;

pub use file::CaptureError;
pub use messages::{Found, LeftOut, Messages, Tally};
pub use packet::LinkType;
pub use time::Timestamp;
