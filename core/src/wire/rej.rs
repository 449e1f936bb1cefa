//! REJ, reject.
//!
//! Read first: IBTA 12, table 108; the reasons are in `reason.rs`.

use core::borrow::BorrowMut;

use super::{Mad, MessageKind, RejectReason};

message! {
    /// REJ, reject (IBTA 12, table 108).
    Rej = REJ {
        0/32     local_comm_id, set_local_comm_id: u32 = "Communication ID of the sender, or 0 if it has none.";
        4/32     remote_comm_id, set_remote_comm_id: u32 = "Communication ID of the receiver; 0 in a timeout reject.";
        8.0/2    message_rejected, set_message_rejected: MessageKind = "Which message is rejected.";
        8.2/6    reserved;
        9.0/7    reject_info_length, set_reject_info_length: u8 = "Octets of additional information, as the sender says.";
        9.7/1    reserved;
        10/16    reason, set_reason: RejectReason = "Why.";
        12/72B   ari, set_ari: octets = "The whole field of additional reject information.";
        84/148B  private_data, set_private_data: private = "Private data.";
    }
    summary { local_comm_id, remote_comm_id, message_rejected, reason }
}

impl<'a> Rej<&'a Mad> {
    /// The additional information: as much of [`ari`](Self::ari) as `reject_info_length` says, 72
    /// octets at most.
    pub fn additional_info(&self) -> &'a [u8] {
        let ari = self.ari();
        ari.get(..usize::from(self.reject_info_length())).unwrap_or(ari)
    }
}

impl<B: BorrowMut<Mad>> Rej<B> {
    /// Sets the additional information and its length; what is longer than 72 octets is cut.
    pub fn set_additional_info(&mut self, info: &[u8]) -> &mut Self {
        let mut ari = [0; 72];
        let length = info.len().min(ari.len());
        for (to, from) in ari.iter_mut().zip(info) {
            *to = *from;
        }
        self.set_ari(&ari).set_reject_info_length(length as u8)
    }
}
