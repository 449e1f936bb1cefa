//! MRA, message receipt acknowledged: "your message is here, the answer takes longer".
//!
//! Read first: IBTA 12, table 107.

use super::MessageKind;

message! {
    /// MRA, message receipt acknowledged (IBTA 12, table 107).
    Mra = MRA {
        0/32     local_comm_id, set_local_comm_id: u32 = "Communication ID of the sender.";
        4/32     remote_comm_id, set_remote_comm_id: u32 = "Communication ID of the receiver.";
        8.0/2    message_mraed, set_message_mraed: MessageKind = "Which message is acknowledged.";
        8.2/6    reserved;
        9.0/5    service_timeout, set_service_timeout: u8 = "How long the answer will take (code).";
        9.5/3    reserved;
        10/222B  private_data, set_private_data: private = "Private data.";
    }
    summary { local_comm_id, remote_comm_id, message_mraed, service_timeout }
}
