//! REP, reply to a request for communication.
//!
//! Read first: IBTA 12, table 110.

use core::borrow::{Borrow, BorrowMut};

use super::Mad;

message! {
    /// REP, reply to a request for communication (IBTA 12, table 110).
    Rep = REP {
        0/32     local_comm_id, set_local_comm_id: u32 = "Communication ID of the sender.";
        4/32     remote_comm_id, set_remote_comm_id: u32 = "Communication ID of the receiver.";
        8/32     local_qkey, set_local_qkey: u32 = "Q_Key (RD only).";
        12/24    local_qpn, set_local_qpn: u32 = "Queue pair of the sender.";
        15/8     ece_vendor_id_high, set_ece_vendor_id_high: u8 = "Bits 23 to 16 of the ECE vendor ID.";
        16/24    local_eecn, set_local_eecn: u32 = "EE context of the sender; for XRC the target's queue pair.";
        19/8     ece_vendor_id_middle, set_ece_vendor_id_middle: u8 = "Bits 15 to 8 of the ECE vendor ID.";
        20/24    starting_psn, set_starting_psn: u32 = "First PSN that the sender's queue pair will send.";
        23/8     ece_vendor_id_low, set_ece_vendor_id_low: u8 = "Bits 7 to 0 of the ECE vendor ID.";
        24/8     responder_resources, set_responder_resources: u8 = "RDMA reads and atomics that the sender serves.";
        25/8     initiator_depth, set_initiator_depth: u8 = "RDMA reads and atomics that the sender will have outstanding.";
        26.0/5   target_ack_delay, set_target_ack_delay: u8 = "Longest time until the sender acknowledges a packet (code).";
        26.5/2   failover_accepted, set_failover_accepted: u8 = "Alternate path: 0 accepted, 1 not supported, 2 rejected.";
        26.7/1   end_to_end_flow_control, set_end_to_end_flow_control: bool = "Whether the sender does end-to-end flow control.";
        27.0/3   rnr_retry_count, set_rnr_retry_count: u8 = "RNR retries of the sender's queue pair; 7 is without end.";
        27.3/1   srq, set_srq: bool = "Whether the sender's queue pair has a shared receive queue.";
        27.4/4   reserved;
        28/64    local_ca_guid, set_local_ca_guid: u64 = "GUID of the sender's channel adapter.";
        36/196B  private_data, set_private_data: private = "Private data.";
    }
    summary { local_comm_id, remote_comm_id, local_qpn, starting_psn }
}

impl<B: Borrow<Mad>> Rep<B> {
    /// Vendor of the ECE options, or 0; put together from the three octets it is spread over.
    pub fn ece_vendor_id(&self) -> u32 {
        u32::from_be_bytes([
            0,
            self.ece_vendor_id_high(),
            self.ece_vendor_id_middle(),
            self.ece_vendor_id_low(),
        ])
    }
}

impl<B: BorrowMut<Mad>> Rep<B> {
    /// Sets [`ece_vendor_id`](Self::ece_vendor_id); bits beyond the 24th are dropped.
    pub fn set_ece_vendor_id(&mut self, value: u32) -> &mut Self {
        let [_, high, middle, low] = value.to_be_bytes();
        self.set_ece_vendor_id_high(high)
            .set_ece_vendor_id_middle(middle)
            .set_ece_vendor_id_low(low)
    }
}
