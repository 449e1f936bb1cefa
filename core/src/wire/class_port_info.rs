//! ClassPortInfo: what the CM of a port can do. It is asked for with method Get, and told with GetResp.
//!
//! Read first: IBTA 13 (ClassPortInfo), IBTA 16 (communication management class).

use super::mad::begin;
use super::{Attribute, Header, Mad};

layout! {
    /// ClassPortInfo (IBTA 13), behind the MAD header.
    ClassPortInfo at 24, 72 octets {
        0/8      base_version, set_base_version: u8 = "The highest MAD base version.";
        1/8      class_version, set_class_version: u8 = "The highest version of the class.";
        2/16     capability_mask, set_capability_mask: u16 = "What the class can do.";
        4.0/27   capability_mask2, set_capability_mask2: u32 = "More of that.";
        7.3/5    response_time, set_response_time: u8 = "Time until an answer comes (code).";
        8/64B    redirection, set_redirection: octets = "Where to ask instead, and where traps go; zero: nowhere.";
    }
    summary { class_version, capability_mask }
}

/// The method that asks for it.
pub(crate) const GET: u8 = 0x01;
/// The method of the answer.
const GET_RESP: u8 = 0x81;

/// RC, UC and SIDR (facts: wire-formats §1.5).
const CAPABILITIES: u16 = 0x0200 | 0x1000 | 0x2000;
/// 1.07 s.
const RESPONSE_TIME: u8 = 18;

/// The transaction ID of a question for it, if that is what 256 octets of the CM class are.
pub(crate) fn asked(datagram: &[u8]) -> Option<u64> {
    let header = Header(<&Mad>::try_from(datagram).ok()?);
    let is_question = header.method() == GET && header.attribute() == Attribute::CLASS_PORT_INFO;
    is_question.then(|| header.transaction_id())
}

/// Our answer.
pub(crate) fn answer(mad: &mut Mad, transaction_id: u64) {
    begin(mad, Attribute::CLASS_PORT_INFO, transaction_id);
    Header(&mut *mad).set_method(GET_RESP);
    ClassPortInfo(mad)
        .set_base_version(1)
        .set_class_version(2)
        .set_capability_mask(CAPABILITIES)
        .set_response_time(RESPONSE_TIME);
}
