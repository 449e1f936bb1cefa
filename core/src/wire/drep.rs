//! DREP, reply to a request for disconnection.
//!
//! Read first: IBTA 12, table 113.

message! {
    /// DREP, reply to a request for disconnection (IBTA 12, table 113).
    Drep = DREP {
        0/32     local_comm_id, set_local_comm_id: u32 = "Communication ID of the sender.";
        4/32     remote_comm_id, set_remote_comm_id: u32 = "Communication ID of the receiver.";
        8/224B   private_data, set_private_data: private = "Private data.";
    }
    summary { local_comm_id, remote_comm_id }
}
