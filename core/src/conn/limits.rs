//! How much private data an application may put into each message, in octets: constants, to size
//! arrays with. What is shorter is filled with zeros; receivers get the whole field.

use crate::wire::{Drep, Dreq, Rej, Rep, Req, Rtu, SidrRep, SidrReq};

/// In a REQ, behind the IP CM header.
pub const REQ: usize = Req::<()>::CONSUMER_DATA;
/// In a REQ for a service that is none of the IP CM service, and so has no such header. This engine's
/// services all have one.
pub const REQ_AF_IB: usize = Req::<()>::PRIVATE_DATA;
/// In a REP.
pub const REP: usize = Rep::<()>::PRIVATE_DATA;
/// In a REJ.
pub const REJ: usize = Rej::<()>::PRIVATE_DATA;
/// In an RTU.
pub const RTU: usize = Rtu::<()>::PRIVATE_DATA;
/// In a DREQ.
pub const DREQ: usize = Dreq::<()>::PRIVATE_DATA;
/// In a DREP.
pub const DREP: usize = Drep::<()>::PRIVATE_DATA;
/// In a SIDR_REQ, behind the IP CM header.
pub const SIDR_REQ: usize = SidrReq::<()>::CONSUMER_DATA;
/// In a SIDR_REP.
pub const SIDR_REP: usize = SidrRep::<()>::PRIVATE_DATA;
