//! DREQ, request for disconnection.
//!
//! Read first: IBTA 12, table 112.

message! {
    /// DREQ, request for disconnection (IBTA 12, table 112).
    Dreq = DREQ {
        0/32     local_comm_id, set_local_comm_id: u32 = "Communication ID of the sender.";
        4/32     remote_comm_id, set_remote_comm_id: u32 = "Communication ID of the receiver.";
        8/24     remote_qpn, set_remote_qpn: u32 = "Queue pair (RD: EE context) of the receiver.";
        11/8     reserved;
        12/220B  private_data, set_private_data: private = "Private data.";
    }
    summary { local_comm_id, remote_comm_id, remote_qpn }
}
