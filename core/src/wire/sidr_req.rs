//! SIDR_REQ, service ID resolution request: which queue pair serves these datagrams?
//!
//! Read first: IBTA 12, table 119.

use crate::addr::ServiceId;

message! {
    /// SIDR_REQ, service ID resolution request (IBTA 12, table 119).
    SidrReq = SIDR_REQ {
        0/32     request_id, set_request_id: u32 = "The sender's number for this request.";
        4/16     partition_key, set_partition_key: u16 = "P_Key of the datagrams.";
        6/16     reserved;
        8/64     service_id, set_service_id: ServiceId = "The service that is asked for.";
        16/216B  private_data, set_private_data: private = "Private data; for IP CM services the first 36 octets are its header.";
    }
    summary { request_id, service_id }
}
