//! Why a REJ was sent.
//!
//! Read first: IBTA 12, table 108 and the reject reasons. The names are part of the program's contract
//! (`--reject NAME`) and don't change.

codes! {
    /// The reason in a REJ (IBTA 12, table 108). Any value is legal.
    RejectReason(u16), else "the peer gave a reason we don't know";
    1 NO_QP "no-qp" "the peer has no queue pair left"
    2 NO_EEC "no-eec" "the peer has no EE context left"
    3 NO_RESOURCES "no-resources" "the peer has no resources left"
    4 TIMEOUT "timeout" "the peer gave up waiting for an answer"
    5 UNSUPPORTED_REQUEST "unsupported-request" "the peer does not support such a request"
    6 INVALID_COMM_ID "invalid-comm-id" "the peer does not know this communication ID"
    7 INVALID_COMM_INSTANCE "invalid-comm-instance" "the peer does not know this connection"
    8 INVALID_SERVICE_ID "invalid-service-id" "nothing listens on that service ID"
    9 INVALID_TRANSPORT_TYPE "invalid-transport-type" "the service does not use this transport type"
    10 STALE "stale" "the peer has an old connection of this queue pair"
    11 NO_RDC "no-rdc" "the RD channel does not exist"
    12 INVALID_PRIMARY_GID "invalid-primary-gid" "the peer's port does not have that GID"
    13 INVALID_PRIMARY_LID "invalid-primary-lid" "the peer's port does not have that LID"
    14 INVALID_PRIMARY_SL "invalid-primary-sl" "the peer refuses the service level"
    15 INVALID_PRIMARY_TRAFFIC_CLASS "invalid-primary-traffic-class" "the peer refuses the traffic class"
    16 INVALID_PRIMARY_HOP_LIMIT "invalid-primary-hop-limit" "the peer refuses the hop limit"
    17 INVALID_PRIMARY_PACKET_RATE "invalid-primary-packet-rate" "the peer refuses the packet rate"
    18 INVALID_ALTERNATE_GID "invalid-alternate-gid" "the peer's alternate port does not have that GID"
    19 INVALID_ALTERNATE_LID "invalid-alternate-lid" "the peer's alternate port does not have that LID"
    20 INVALID_ALTERNATE_SL "invalid-alternate-sl" "the peer refuses the alternate path's service level"
    21 INVALID_ALTERNATE_TRAFFIC_CLASS "invalid-alternate-traffic-class" "the peer refuses the alternate path's traffic class"
    22 INVALID_ALTERNATE_HOP_LIMIT "invalid-alternate-hop-limit" "the peer refuses the alternate path's hop limit"
    23 INVALID_ALTERNATE_PACKET_RATE "invalid-alternate-packet-rate" "the peer refuses the alternate path's packet rate"
    24 PORT_AND_CM_REDIRECT "port-and-cm-redirect" "the peer wants to be asked elsewhere"
    25 PORT_REDIRECT "port-redirect" "the peer wants to be reached at another port"
    26 INVALID_PATH_MTU "invalid-path-mtu" "the peer refuses the path MTU"
    27 INSUFFICIENT_RESPONDER_RESOURCES "insufficient-responder-resources" "the peer needs more responder resources"
    28 CONSUMER "consumer" "the application at the other end said no"
    29 INVALID_RNR_RETRY_COUNT "invalid-rnr-retry-count" "the peer refuses the RNR retry count"
    30 DUPLICATE_LOCAL_COMM_ID "duplicate-local-comm-id" "the communication ID is already in use"
    31 UNSUPPORTED_CLASS_VERSION "unsupported-class-version" "the peer has no such version of the CM protocol"
    32 INVALID_PRIMARY_FLOW_LABEL "invalid-primary-flow-label" "the peer refuses the flow label"
    33 INVALID_ALTERNATE_FLOW_LABEL "invalid-alternate-flow-label" "the peer refuses the alternate path's flow label"
    35 VENDOR_OPTION_NOT_SUPPORTED "vendor-option-not-supported" "the peer does not support the vendor's options"
}
