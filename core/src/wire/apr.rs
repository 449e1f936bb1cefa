//! APR, alternate path response.
//!
//! Read first: IBTA 12, table 116.

use super::ApStatus;

message! {
    /// APR, alternate path response (IBTA 12, table 116).
    Apr = APR {
        0/32     local_comm_id, set_local_comm_id: u32 = "Communication ID of the sender.";
        4/32     remote_comm_id, set_remote_comm_id: u32 = "Communication ID of the receiver.";
        8/8      additional_info_length, set_additional_info_length: u8 = "Octets of additional information, as the sender says.";
        9/8      ap_status, set_ap_status: ApStatus = "Whether the path was loaded, or why not.";
        10/16    reserved;
        12/72B   additional_info, set_additional_info: octets = "The whole field of additional information.";
        84/148B  private_data, set_private_data: private = "Private data.";
    }
    summary { local_comm_id, remote_comm_id, ap_status }
}
