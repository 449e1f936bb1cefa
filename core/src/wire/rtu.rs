//! RTU, ready to use: the third message of a connection.
//!
//! Read first: IBTA 12, table 111.

message! {
    /// RTU, ready to use (IBTA 12, table 111).
    Rtu = RTU {
        0/32     local_comm_id, set_local_comm_id: u32 = "Communication ID of the sender.";
        4/32     remote_comm_id, set_remote_comm_id: u32 = "Communication ID of the receiver.";
        8/224B   private_data, set_private_data: private = "Private data.";
    }
    summary { local_comm_id, remote_comm_id }
}
