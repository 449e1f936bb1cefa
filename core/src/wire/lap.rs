//! LAP, load alternate path.
//!
//! Read first: IBTA 12, table 115. The fields after the GIDs stand in another order than in REQ.

use crate::addr::Gid;

message! {
    /// LAP, load alternate path (IBTA 12, table 115).
    Lap = LAP {
        0/32     local_comm_id, set_local_comm_id: u32 = "Communication ID of the sender.";
        4/32     remote_comm_id, set_remote_comm_id: u32 = "Communication ID of the receiver.";
        8/32     reserved;
        12/24    remote_qpn, set_remote_qpn: u32 = "Queue pair (RD: EE context) of the receiver.";
        15.0/5   remote_cm_response_timeout, set_remote_cm_response_timeout: u8 = "Time the receiver has to answer (code).";
        15.5/3   reserved;
        16/32    reserved;
        20/16    alternate_local_lid, set_alternate_local_lid: u16 = "LID of the sender's port.";
        22/16    alternate_remote_lid, set_alternate_remote_lid: u16 = "LID of the receiver's port.";
        24/128   alternate_local_gid, set_alternate_local_gid: Gid = "GID of the sender's port.";
        40/128   alternate_remote_gid, set_alternate_remote_gid: Gid = "GID of the receiver's port.";
        56/20    alternate_flow_label, set_alternate_flow_label: u32 = "Flow label of the path.";
        58.4/4   reserved;
        59/8     alternate_traffic_class, set_alternate_traffic_class: u8 = "Traffic class of the path.";
        60/8     alternate_hop_limit, set_alternate_hop_limit: u8 = "Hop limit of the path.";
        61.0/2   reserved;
        61.2/6   alternate_packet_rate, set_alternate_packet_rate: u8 = "Static rate of the path (code).";
        62.0/4   alternate_sl, set_alternate_sl: u8 = "Service level of the path.";
        62.4/1   alternate_subnet_local, set_alternate_subnet_local: bool = "Whether the path stays in the subnet.";
        62.5/3   reserved;
        63.0/5   alternate_local_ack_timeout, set_alternate_local_ack_timeout: u8 = "ACK timeout on the path (code).";
        63.5/3   reserved;
        64/168B  private_data, set_private_data: private = "Private data.";
    }
    summary { local_comm_id, remote_comm_id, remote_qpn, alternate_local_gid, alternate_remote_gid }
}
