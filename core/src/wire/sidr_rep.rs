//! SIDR_REP, service ID resolution reply.
//!
//! Read first: IBTA 12, table 120.

use core::borrow::{Borrow, BorrowMut};

use super::{Mad, SidrStatus};
use crate::addr::ServiceId;

message! {
    /// SIDR_REP, service ID resolution reply (IBTA 12, table 120).
    SidrRep = SIDR_REP {
        0/32     request_id, set_request_id: u32 = "Number of the request that this answers.";
        4/8      status, set_status: SidrStatus = "Whether there is such a service, or why not.";
        5/8      additional_info_length, set_additional_info_length: u8 = "Octets of additional information; Linux leaves it 0.";
        6/16     ece_vendor_id_high, set_ece_vendor_id_high: u16 = "Bits 23 to 8 of the ECE vendor ID.";
        8/24     qpn, set_qpn: u32 = "Queue pair of the service; 0 unless the status is 0.";
        11/8     ece_vendor_id_low, set_ece_vendor_id_low: u8 = "Bits 7 to 0 of the ECE vendor ID.";
        12/64    service_id, set_service_id: ServiceId = "The service that was asked for.";
        20/32    qkey, set_qkey: u32 = "Q_Key of the service.";
        24/72B   additional_info, set_additional_info: octets = "The whole field of additional information.";
        96/136B  private_data, set_private_data: private = "Private data.";
    }
    summary { request_id, status, service_id, qpn, qkey }
}

impl<'a> SidrRep<&'a Mad> {
    /// The additional information: as much of the field as its length says; where that says nothing,
    /// all of it (Linux leaves it 0).
    pub fn information(&self) -> &'a [u8] {
        let field = self.additional_info();
        match usize::from(self.additional_info_length()) {
            0 if self.status() == SidrStatus::REDIRECT => field,
            length => field.get(..length).unwrap_or(field),
        }
    }
}

impl<B: Borrow<Mad>> SidrRep<B> {
    /// Vendor of the ECE options, or 0; put together from the two places it is spread over.
    pub fn ece_vendor_id(&self) -> u32 {
        u32::from(self.ece_vendor_id_high()) << 8 | u32::from(self.ece_vendor_id_low())
    }
}

impl<B: BorrowMut<Mad>> SidrRep<B> {
    /// Sets [`ece_vendor_id`](Self::ece_vendor_id); bits beyond the 24th are dropped.
    pub fn set_ece_vendor_id(&mut self, value: u32) -> &mut Self {
        self.set_ece_vendor_id_high((value >> 8) as u16).set_ece_vendor_id_low(value as u8)
    }
}
