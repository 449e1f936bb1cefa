//! REQ, request for communication.
//!
//! Read first: IBTA 12, table 106. "Local" is the sender's side, "remote" the receiver's.

use crate::addr::{Gid, ServiceId};

message! {
    /// REQ, request for communication (IBTA 12, table 106).
    Req = REQ {
        0/32     local_comm_id, set_local_comm_id: u32 = "Communication ID of the sender.";
        4/8      reserved;
        5/24     ece_vendor_id, set_ece_vendor_id: u32 = "Vendor of the ECE options, or 0.";
        8/64     service_id, set_service_id: ServiceId = "The service that is asked for.";
        16/64    local_ca_guid, set_local_ca_guid: u64 = "GUID of the sender's channel adapter.";
        24/32    reserved;
        28/32    local_qkey, set_local_qkey: u32 = "Q_Key (RD only).";
        32/24    local_qpn, set_local_qpn: u32 = "Queue pair of the sender.";
        35/8     responder_resources, set_responder_resources: u8 = "RDMA reads and atomics that the sender can serve.";
        36/24    local_eecn, set_local_eecn: u32 = "EE context of the sender (RD only).";
        39/8     initiator_depth, set_initiator_depth: u8 = "RDMA reads and atomics that the sender wants outstanding.";
        40/24    remote_eecn, set_remote_eecn: u32 = "EE context of the receiver (RD only).";
        43.0/5   remote_cm_response_timeout, set_remote_cm_response_timeout: u8 = "Time the receiver has to answer (code).";
        43.5/2   transport_service_type, set_transport_service_type: u8 = "0 RC, 1 UC, 2 RD, 3 see the extended type.";
        43.7/1   end_to_end_flow_control, set_end_to_end_flow_control: bool = "Whether the sender does end-to-end flow control.";
        44/24    starting_psn, set_starting_psn: u32 = "First PSN that the sender's queue pair will send.";
        47.0/5   local_cm_response_timeout, set_local_cm_response_timeout: u8 = "Time the sender needs to answer a REP (code).";
        47.5/3   retry_count, set_retry_count: u8 = "Retries of the sender's queue pair.";
        48/16    partition_key, set_partition_key: u16 = "P_Key of the connection.";
        50.0/4   path_mtu, set_path_mtu: u8 = "Path MTU (code): 1 is 256, 2 512, 3 1024, 4 2048, 5 4096 octets.";
        50.4/1   rdc_exists, set_rdc_exists: bool = "Whether an RD channel exists.";
        50.5/3   rnr_retry_count, set_rnr_retry_count: u8 = "RNR retries of the sender's queue pair; 7 is without end.";
        51.0/4   max_cm_retries, set_max_cm_retries: u8 = "How often the receiver shall repeat a REP or DREQ.";
        51.4/1   srq, set_srq: bool = "Whether the sender's queue pair has a shared receive queue.";
        51.5/3   extended_transport_type, set_extended_transport_type: u8 = "With transport service type 3: 1 is XRC.";
        52/16    primary_local_lid, set_primary_local_lid: u16 = "LID of the sender's port.";
        54/16    primary_remote_lid, set_primary_remote_lid: u16 = "LID of the receiver's port.";
        56/128   primary_local_gid, set_primary_local_gid: Gid = "GID of the sender's port.";
        72/128   primary_remote_gid, set_primary_remote_gid: Gid = "GID of the receiver's port.";
        88/20    primary_flow_label, set_primary_flow_label: u32 = "Flow label of the path.";
        90.4/6   reserved;
        91.2/6   primary_packet_rate, set_primary_packet_rate: u8 = "Static rate of the path (code).";
        92/8     primary_traffic_class, set_primary_traffic_class: u8 = "Traffic class (TOS) of the path.";
        93/8     primary_hop_limit, set_primary_hop_limit: u8 = "Hop limit (TTL) of the path.";
        94.0/4   primary_sl, set_primary_sl: u8 = "Service level of the path.";
        94.4/1   primary_subnet_local, set_primary_subnet_local: bool = "Whether the path stays in the subnet.";
        94.5/3   reserved;
        95.0/5   primary_local_ack_timeout, set_primary_local_ack_timeout: u8 = "ACK timeout of the sender's queue pair (code).";
        95.5/3   reserved;
        96/16    alternate_local_lid, set_alternate_local_lid: u16 = "LID of the sender's port on the alternate path.";
        98/16    alternate_remote_lid, set_alternate_remote_lid: u16 = "LID of the receiver's port on the alternate path.";
        100/128  alternate_local_gid, set_alternate_local_gid: Gid = "GID of the sender's port on the alternate path.";
        116/128  alternate_remote_gid, set_alternate_remote_gid: Gid = "GID of the receiver's port on the alternate path.";
        132/20   alternate_flow_label, set_alternate_flow_label: u32 = "Flow label of the alternate path.";
        134.4/6  reserved;
        135.2/6  alternate_packet_rate, set_alternate_packet_rate: u8 = "Static rate of the alternate path (code).";
        136/8    alternate_traffic_class, set_alternate_traffic_class: u8 = "Traffic class of the alternate path.";
        137/8    alternate_hop_limit, set_alternate_hop_limit: u8 = "Hop limit of the alternate path.";
        138.0/4  alternate_sl, set_alternate_sl: u8 = "Service level of the alternate path.";
        138.4/1  alternate_subnet_local, set_alternate_subnet_local: bool = "Whether the alternate path stays in the subnet.";
        138.5/3  reserved;
        139.0/5  alternate_local_ack_timeout, set_alternate_local_ack_timeout: u8 = "ACK timeout on the alternate path (code).";
        139.5/1  sap_supported, set_sap_supported: bool = "Whether the sender understands SAP.";
        139.6/2  reserved;
        140/92B  private_data, set_private_data: private = "Private data; for IP CM services the first 36 octets are its header.";
    }
    summary { local_comm_id, service_id, local_qpn, starting_psn, primary_local_gid, primary_remote_gid }
}
