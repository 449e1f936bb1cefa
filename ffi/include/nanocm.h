/*
 * nanocm: an RDMA connection manager. Made of ffi/src by cbindgen; do not edit.
 *
 * Memory. The engine lives in memory that the program brings: ncm_memory_size, ncm_init, ncm_finish.
 * Nothing is allocated, and no function but ncm_init keeps a pointer it was given.
 *
 * Errors. Functions return an ncm_error. One that fails has changed nothing; results are written only
 * with NCM_OK. Pointers are checked for NULL and alignment, numbers for their range.
 *
 * Structures begin with their `size`: set it to sizeof before each call that takes one, also where it
 * is for the result; the _init functions do. Later versions add fields at the end; a program that does
 * not know them keeps working. Fields called `reserved` are zero. Flags are 0 or 1.
 *
 * Time is an argument: `now` is nanoseconds since any zero, and does not go back.
 *
 * How to drive it: after any ncm_handle_* or operation drain every ncm_poll_* until one full pass says
 * NCM_EMPTY to all; then sleep until ncm_poll_at, and call ncm_handle_timeout.
 *
 * Threads: one call at a time; see ncm_cm. ffi/README.md has more, and an example; also what a program
 * without an operating system defines (ncm_panic).
 */

#ifndef NANOCM_H
#define NANOCM_H

#include <stddef.h>
#include <stdint.h>

// Counts incompatible changes of this file.
#define NCM_ABI_VERSION 1

// What an engine's memory must be aligned to, in octets. What malloc returns is.
#define NCM_MEMORY_ALIGN 16

// Nanoseconds since any zero the program likes; of a deadline that there is none: never.
#define NCM_NEVER UINT64_MAX

// Private data of ncm_connect (REQ), in octets.
#define NCM_MAX_CONNECT_DATA 56

// Private data of ncm_accept (REP).
#define NCM_MAX_ACCEPT_DATA 196

// Private data of ncm_reject (REJ).
#define NCM_MAX_REJECT_DATA 148

// Private data of ncm_connect for a datagram service (SIDR_REQ).
#define NCM_MAX_SIDR_REQ_DATA 180

// Private data of ncm_accept and ncm_reject for a datagram service (SIDR_REP).
#define NCM_MAX_SIDR_REP_DATA 136

// Private data of ncm_establish (RTU).
#define NCM_MAX_ESTABLISH_DATA 224

// Private data of ncm_disconnect: of a DREQ; a DREP takes four octets more.
#define NCM_MAX_DISCONNECT_DATA 220

// `ncm_conn_param.retries`: of a REQ as many as the time allows, of a REP `ncm_config.passive_retries`.
#define NCM_RETRIES_DEFAULT 255

// The reason that applications give with ncm_reject: "consumer".
#define NCM_REJECT_CONSUMER 28

// Octets of a management datagram (MAD).
#define NCM_MAD_LEN 256

// Octets of the UDP payload around a MAD.
#define NCM_FRAME_LEN 280

// The UDP port of RoCEv2.
#define NCM_UDP_PORT 4791

// No failure takes more octets in words, the NUL included.
#define NCM_FAILURE_TEXT_SIZE 256

// What came of a call. A call that failed has changed nothing and has written nothing. These numbers
// never change.
typedef enum ncm_error_code {
    // Done.
    NCM_OK = 0,
    // Nothing more to hand out. No failure: a poll function's last answer.
    NCM_EMPTY = 1,
    // A pointer that must not be NULL is.
    NCM_NULL_POINTER = 10,
    // A pointer is not aligned for what it points to.
    NCM_MISALIGNED = 11,
    // The `size` in front of a structure cannot be: set it to sizeof before the call.
    NCM_BAD_SIZE = 12,
    // A field that this version does not know, or a reserved one, is not zero.
    NCM_UNKNOWN_FIELDS = 13,
    // A number that is none of its enumeration, or out of its range.
    NCM_INVALID_VALUE = 14,
    // The pointer leads to no engine: never initialised, finished, or copied elsewhere.
    NCM_NOT_AN_ENGINE = 15,
    // Another call is in this engine: of another thread, or interrupted by this one.
    NCM_IN_CALL = 16,
    // `check_thread` is set, and this is not the thread that called ncm_init.
    NCM_WRONG_THREAD = 17,
    // The result does not fit into the buffer.
    NCM_BUFFER_TOO_SMALL = 18,
    // nanocm found a bug in itself. The engine cannot be used any more; its memory can.
    NCM_PANICKED = 19,
    // This build of the library cannot do it.
    NCM_NOT_SUPPORTED = 20,
    // The memory has less than ncm_memory_size octets.
    NCM_MEMORY_TOO_SMALL = 30,
    // A capacity is zero or too large.
    NCM_BAD_CAPACITY = 31,
    // Communication IDs have no room for so many connections beside this prefix.
    NCM_TOO_MANY_CONNECTIONS = 32,
    // The prefix of communication IDs has more than eight bits, or its value more than that.
    NCM_BAD_PREFIX = 33,
    // The port range is empty or begins at 0.
    NCM_BAD_PORT_RANGE = 34,
    // A timeout code above 31, or more than 15 retries.
    NCM_BAD_TIMER = 35,
    // The port range has more numbers than the port maps.
    NCM_PORT_MAP_TOO_SMALL = 36,
    // The engine has identifiers that are not destroyed.
    NCM_BUSY = 37,
    // `max_path_mtu` is no code of a path MTU.
    NCM_BAD_MTU = 38,
    // The handle is stale: its identifier was destroyed.
    NCM_NO_SUCH_ID = 50,
    // Not legal in the identifier's state, or at this point of its connection.
    NCM_INVALID_STATE = 51,
    // Every slot of the table in question is in use.
    NCM_FULL = 52,
    // The address is not one of the engine's.
    NCM_ADDR_NOT_LOCAL = 53,
    // A link-local address needs its interface (scope).
    NCM_SCOPE_MISSING = 54,
    // Another identifier owns the port on this or an overlapping address.
    NCM_PORT_IN_USE = 55,
    // Another identifier owns the port towards the same peer.
    NCM_TUPLE_IN_USE = 56,
    // No number of the range is free.
    NCM_PORTS_EXHAUSTED = 57,
    // The reserved port is not one of the identifier's port space.
    NCM_WRONG_KEY = 58,
    // Bound with REUSEADDR, and another identifier overlaps: only a sole owner can listen.
    NCM_LISTEN_CONFLICT = 59,
    // Source and destination are of different address families.
    NCM_FAMILY_MISMATCH = 60,
    // The destination is a wildcard, or has no port.
    NCM_NOT_A_DESTINATION = 61,
    // The identifier belongs to another destination.
    NCM_OTHER_DESTINATION = 62,
    // The identifier is bound to another address than the route leaves from.
    NCM_OTHER_SOURCE = 63,
    // Source and destination are link-local, on different interfaces.
    NCM_SCOPE_MISMATCH = 64,
    // The timeout is zero.
    NCM_ZERO_TIMEOUT = 65,
    // Identifiers of this port space resolve datagram services: there is no connection.
    NCM_WRONG_PORT_SPACE = 66,
    // More private data than the message takes: NCM_MAX_*.
    NCM_PRIVATE_DATA_TOO_LONG = 67,
    // The queue pair is in another live connection.
    NCM_QPN_IN_USE = 68,
    // The peer has given up this connection, or the answer comes too late; see the event.
    NCM_ALREADY_GONE = 69,
    // The connection is established already.
    NCM_ALREADY_ESTABLISHED = 70,
    // The request is not open any more: answered, timed out, or its identifier destroyed.
    NCM_STALE_REQUEST = 71,
    // The datagram does not travel over RoCE, so it has no frame.
    NCM_WRONG_LINK = 72,
    // A number has more bits than its field: queue pair numbers and ECE vendor IDs 24.
    NCM_NUMBER_TOO_LARGE = 73,
    // The identifier's device is gone (DEVICE_REMOVAL): only ncm_destroy is left.
    NCM_DEVICE_GONE = 74,
    // An error that has no code of its own here.
    NCM_OTHER_ERROR = 99,
} ncm_error_code;

// Address families: `ncm_addr.family`.
typedef enum ncm_family {
    // No address.
    NCM_FAMILY_NONE = 0,
    // IPv4: the first four octets of `ip`.
    NCM_IPV4 = 4,
    // IPv6, or a GID.
    NCM_IPV6 = 6,
} ncm_family;

// What kind of link a path is on: `ncm_path.link`.
typedef enum ncm_link {
    // No path.
    NCM_LINK_NONE = 0,
    // RoCEv2: UDP port 4791 between two IP addresses.
    NCM_LINK_ROCE = 1,
    // InfiniBand, by LID.
    NCM_LINK_IB = 2,
} ncm_link;

// Port spaces (enum rdma_port_space): which service IDs an identifier's port numbers stand for.
typedef enum ncm_port_space {
    // Sockets direct protocol; its numbers are TCP's.
    NCM_PS_SDP = 1,
    // IP over InfiniBand: datagrams.
    NCM_PS_IPOIB = 2,
    // Reliable connections.
    NCM_PS_TCP = 262,
    // Datagrams.
    NCM_PS_UDP = 273,
    // Any InfiniBand transport.
    NCM_PS_IB = 319,
} ncm_port_space;

// The states a queue pair is to be moved to, with the numbers of enum ibv_qp_state.
typedef enum ncm_qp_state {
    // Initialised: receives may be posted.
    NCM_QP_INIT = 1,
    // Ready to receive.
    NCM_QP_RTR = 2,
    // Ready to send.
    NCM_QP_RTS = 3,
} ncm_qp_state;

// The transport of a connection's queue pair. Datagrams have no connection, but SIDR.
typedef enum ncm_transport {
    // Reliable connection.
    NCM_TRANSPORT_RC = 0,
    // Unreliable connection.
    NCM_TRANSPORT_UC = 1,
    // Extended reliable connection: who connects is the initiator, who accepts the target.
    NCM_TRANSPORT_XRC = 2,
} ncm_transport;

// What happened (enum rdma_cm_event_type, with its numbers).
typedef enum ncm_event_kind {
    // The destination's path is known, the source is bound.
    NCM_EVENT_ADDR_RESOLVED = 0,
    // It could not be found; the identifier is as before ncm_resolve_addr.
    NCM_EVENT_ADDR_ERROR = 1,
    // The route is known: ncm_connect is legal.
    NCM_EVENT_ROUTE_RESOLVED = 2,
    // It could not be found; the identifier's address is still resolved.
    NCM_EVENT_ROUTE_ERROR = 3,
    // A peer asks to connect, or for a datagram service. The identifier is new, and the receiver's to
    // answer and destroy. Private data: 56 octets, or 180.
    NCM_EVENT_CONNECT_REQUEST = 4,
    // The peer accepted: make the queue pair ready, then ncm_establish. Private data: 196 octets.
    NCM_EVENT_CONNECT_RESPONSE = 5,
    // This side could not go on: the application did not answer a request in time (ETIMEDOUT). Ends
    // the attempt.
    NCM_EVENT_CONNECT_ERROR = 6,
    // The peer did not answer. Ends the attempt.
    NCM_EVENT_UNREACHABLE = 7,
    // The peer, or its connection manager, refused. Private data: 148 octets, of a datagram service
    // 136. Ends the attempt.
    NCM_EVENT_REJECTED = 8,
    // The connection stands. Or the datagram service has answered: `peer` has its queue pair and
    // Q_Key, ncm_get_path the way. Private data then: 136 octets.
    NCM_EVENT_ESTABLISHED = 9,
    // The connection is over.
    NCM_EVENT_DISCONNECTED = 10,
    // The device is gone, and with it all that the identifier had there; only ncm_destroy is left to
    // do. Ends an attempt; a connection that stood has been told DISCONNECTED before.
    NCM_EVENT_DEVICE_REMOVAL = 11,
    // The link layer beneath the connection's own or its peer's address has changed. The connection
    // goes on; address handles want to be made anew.
    NCM_EVENT_ADDR_CHANGE = 14,
    // The queue pair number may be used again.
    NCM_EVENT_TIMEWAIT_EXIT = 15,
    // Something that this interface has no name for.
    NCM_EVENT_OTHER = 255,
} ncm_event_kind;

// What the `value` of an event is.
typedef enum ncm_status {
    // Nothing: all is well.
    NCM_STATUS_NONE = 0,
    // Nothing: there was no answer in time.
    NCM_STATUS_TIMEOUT = 1,
    // An errno of the host, positive: the lookup's, or the transport's that could not send.
    NCM_STATUS_ERRNO = 2,
    // The reason in the peer's REJ: ncm_reject_reason_name and _text.
    NCM_STATUS_REJECTED = 3,
    // How the connection ended: ncm_disconnect_cause.
    NCM_STATUS_DISCONNECTED = 4,
    // The status of a datagram service's SIDR_REP: ncm_sidr_status_name and _text.
    NCM_STATUS_SIDR = 5,
} ncm_status;

// How a connection ended.
typedef enum ncm_disconnect_cause {
    // In a way that this interface has no name for.
    NCM_DISCONNECT_OTHER = 0,
    // We asked, the peer agreed.
    NCM_DISCONNECT_LOCAL = 1,
    // The peer asked, or tore it down.
    NCM_DISCONNECT_PEER = 2,
    // We asked and the peer did not answer.
    NCM_DISCONNECT_TIMEOUT = 3,
    // The device went away.
    NCM_DISCONNECT_REMOVED = 4,
} ncm_disconnect_cause;

// What is known of the IP packet around a frame that came in, and of its ICRC, which covers both.
typedef enum ncm_seen {
    // It came through a UDP socket, which does not show the IP header: the IPv4 identification is
    // solved for, which lets one damaged frame in 65,536 pass. IPv6 is checked fully.
    NCM_SEEN_UDP = 0,
    // `ip_id` and `ip_flags` are those of the packet.
    NCM_SEEN_IP = 1,
    // The ICRC has been verified (by hardware, say): it is not checked again.
    NCM_SEEN_VERIFIED = 2,
} ncm_seen;

// Questions to the host, and its answers: `kind` of ncm_request and ncm_completion.
typedef enum ncm_request_kind {
    // It could not be done (an answer only): `error`.
    NCM_FAILED = 0,
    // Find the path to `destination`: which local address, which link.
    NCM_RESOLVE_ADDR = 1,
    // Find what the path carries: P_Key, MTU, rate, lifetime.
    NCM_RESOLVE_ROUTE = 2,
} ncm_request_kind;

// What can happen to the local ports: `kind` of ncm_port_event.
typedef enum ncm_port_event_kind {
    // A local address (GID) can be used. Known ones are updated.
    NCM_GID_ADDED = 1,
    // A local address is gone. Connections over it are left to their timers.
    NCM_GID_REMOVED = 2,
    // A device is gone, and with it all its addresses, those too that were removed one by one
    // before. Identifiers bound to one of them and those whose connection runs over it are told
    // DEVICE_REMOVAL; those whose connection stands, DISCONNECTED before. The addresses can be added
    // again, for another device, when all have been told.
    NCM_DEVICE_REMOVED = 3,
    // The link layer beneath an IP address has changed: a neighbour's or, after a fail-over, our own.
    // Identifiers whose connection stands and has this address, on either side, are told ADDR_CHANGE.
    NCM_ADDR_CHANGED = 4,
} ncm_port_event_kind;

// What became of a datagram: its index in `ncm_counters.ignored`, from 2 on.
typedef enum ncm_disposition {
    // It moved a connection, or was answered.
    NCM_ACCEPTED = 0,
    // It repeats what was known; the answer, if one is due, goes out again.
    NCM_DUPLICATE = 1,
    // Ignored, for a reason that this interface has no name for.
    NCM_IGNORED = 2,
    // Ignored: not 256 octets.
    NCM_IGNORED_LENGTH = 3,
    // Ignored: MAD base version not 1.
    NCM_IGNORED_BASE_VERSION = 4,
    // Ignored: management class not 7.
    NCM_IGNORED_CLASS = 5,
    // Ignored: class version not 2.
    NCM_IGNORED_CLASS_VERSION = 6,
    // Ignored: method not Send.
    NCM_IGNORED_METHOD = 7,
    // Ignored: an attribute that is no CM message.
    NCM_IGNORED_ATTRIBUTE = 8,
    // Ignored: RoCE framing (BTH, DETH or length).
    NCM_IGNORED_FRAMING = 9,
    // Ignored: the ICRC does not match.
    NCM_IGNORED_ICRC = 10,
    // Ignored: no connection has these communication IDs.
    NCM_IGNORED_UNKNOWN_CONNECTION = 11,
    // Ignored: the connection is known, but the message came from elsewhere.
    NCM_IGNORED_WRONG_PATH = 12,
    // Ignored: the connection is in no state for this message.
    NCM_IGNORED_NOT_FOR_STATE = 13,
    // Ignored: a DREQ that names another queue pair.
    NCM_IGNORED_WRONG_QPN = 14,
    // Ignored: the listener's backlog is full; the peer will repeat its REQ.
    NCM_IGNORED_BACKLOG_FULL = 15,
    // Ignored: a message of alternate paths, which there are none of.
    NCM_IGNORED_UNSUPPORTED = 16,
    // Ignored: as many connections are half open as may be, in all or from this source; the peer will
    // repeat its request.
    NCM_IGNORED_HALF_OPEN = 17,
} ncm_disposition;

// Options of an identifier (rdma_set_option). The first four have librdmacm's numbers.
typedef enum ncm_option {
    // Type of service of the connection's packets, 0 to 255; 0 is not the same as unset, where the
    // route says it. Until ncm_connect; connections that are accepted have their peer's.
    NCM_OPTION_TOS = 0,
    // 1: share a port with others that say so too. Not while listening; 0 only while idle.
    NCM_OPTION_REUSEADDR = 1,
    // 1: an IPv6 wildcard is for IPv6 alone. Only while idle: it decides at ncm_bind with whom the
    // port can be shared.
    NCM_OPTION_AFONLY = 2,
    // Local ACK timeout code, 0 (none) to 31. Goes into the queue pair's attributes at once, and into
    // the REQ of routes resolved afterwards.
    NCM_OPTION_ACK_TIMEOUT = 3,
    // The transports that a listener takes, 1 << ncm_transport each: 1 (RC alone, the default) to 7. A
    // REQ with another gets REJ 9.
    NCM_OPTION_TRANSPORTS = 16,
    // 1: a listener answers a request beyond its backlog with REJ 3 (SIDR status 3), not with
    // silence. Silence lets the peer repeat its request until there is room; a rejection lets it go
    // elsewhere at once. Only while idle, bound or listening.
    NCM_OPTION_REJECT_WHEN_FULL = 17,
} ncm_option;

// What an identifier is doing: librdmacm's states.
typedef enum ncm_state {
    // Fresh: no address, no port.
    NCM_STATE_IDLE = 0,
    // Address and port held.
    NCM_STATE_ADDR_BOUND = 1,
    // The host is looking for the destination.
    NCM_STATE_ADDR_QUERY = 2,
    // Path and source known.
    NCM_STATE_ADDR_RESOLVED = 3,
    // The host is looking for the route.
    NCM_STATE_ROUTE_QUERY = 4,
    // Ready to connect.
    NCM_STATE_ROUTE_RESOLVED = 5,
    // From REQ sent or received until the connection is over, rejected and unreachable included.
    NCM_STATE_CONNECT = 6,
    // DREQ or DREP seen.
    NCM_STATE_DISCONNECT = 7,
    // Listening; there is no way back.
    NCM_STATE_LISTEN = 8,
    // The device is gone; only ncm_destroy is useful.
    NCM_STATE_DEVICE_REMOVAL = 9,
} ncm_state;

// Where a connection stands: the CM's states.
typedef enum ncm_conn_state {
    // None, or none any more.
    NCM_CONN_IDLE = 0,
    // REQ sent, waiting for REP, REJ or MRA.
    NCM_CONN_REQ_SENT = 1,
    // REQ received, waiting for the application's answer.
    NCM_CONN_REQ_RCVD = 2,
    // REP received, waiting for ncm_establish.
    NCM_CONN_REP_RCVD = 3,
    // REP sent, waiting for RTU.
    NCM_CONN_REP_SENT = 4,
    // It stands.
    NCM_CONN_ESTABLISHED = 5,
    // DREQ sent, waiting for DREP.
    NCM_CONN_DREQ_SENT = 6,
    // DREQ received, waiting for ncm_disconnect.
    NCM_CONN_DREQ_RCVD = 7,
    // Over; stray packets of the queue pair may still be under way.
    NCM_CONN_TIMEWAIT = 8,
    // We rejected it; a repeated REQ gets the same answer again.
    NCM_CONN_REJ_SENT = 9,
    // SIDR_REQ sent, waiting for SIDR_REP.
    NCM_CONN_SIDR_REQ_SENT = 10,
    // SIDR_REP received: the service's queue pair is known.
    NCM_CONN_SIDR_RESOLVED = 11,
    // SIDR_REQ received, waiting for the application's answer.
    NCM_CONN_SIDR_REQ_RCVD = 12,
    // SIDR_REP sent; a repeated SIDR_REQ gets the same answer again.
    NCM_CONN_SIDR_REP_SENT = 13,
} ncm_conn_state;

// An engine: a connection manager with all its tables, in memory that the program brings.
//
// One thread at a time may be in a call; which one does not matter, unless `ncm_config.check_thread`
// says so. A call while another runs is refused with NCM_IN_CALL, from an interrupt or signal handler
// too: such a handler leaves what came in for later.
typedef struct ncm_cm ncm_cm;

// What came of a call: one of ncm_error_code.
typedef int32_t ncm_error;

// How much of everything an engine has room for. Fill it in with ncm_capacity_init.
typedef struct ncm_capacity {
    // sizeof(ncm_capacity).
    uint32_t size;
    // Identifiers, listeners included.
    uint32_t ids;
    // Connections: one from ncm_resolve_addr or a REQ until it is destroyed. Less than 2^23.
    uint32_t conns;
    // Answers to strangers that wait to be sent.
    uint32_t replies;
    // Port records: two for each port and local address in use.
    uint32_t ports;
    // Local addresses. Less than 65,536.
    uint32_t gids;
    // Numbers in each port map: how many ports "any free port" may choose from.
    uint32_t map;
    // Zero.
    uint32_t reserved;
} ncm_capacity;

// Settings of an engine. Start from ncm_config_init and change what you must. Durations are in
// nanoseconds.
typedef struct ncm_config {
    // sizeof(ncm_config).
    uint32_t size;
    // Default backlog of a listener, for ncm_listen with backlog 0. Default 1024.
    uint32_t default_backlog;
    // Source of every unguessable number: communication IDs, PSNs, port choice. It must never repeat
    // over reboots: take it from a random generator, or hash a device secret with a boot counter.
    // With the same seed after a power cut the first REQ carries the same communication ID as before,
    // and a Linux peer that never saw the old connection end drops it as a duplicate, silently, for
    // ever.
    uint64_t seed;
    // Before the first retransmission of a REQ, REP or DREQ; doubled for each further one. Default
    // 1 s.
    uint64_t first_retry;
    // While peers take long to answer, retransmissions are put off: those that come due until so long
    // after a message was first sent. Default 3 s; 0: never.
    uint64_t put_off;
    // In all, from ncm_connect to UNREACHABLE, unless ncm_conn_param says otherwise; also from
    // ncm_accept to UNREACHABLE, and from ncm_disconnect to a DISCONNECTED by timeout. Default 30 s.
    uint64_t deadline;
    // A peer's MRA extends the deadline up to this far from the start, 109 minutes at most. Default
    // 120 s.
    uint64_t max_wait;
    // Before the first retransmission of a SIDR_REQ; doubled for each further one. Default 4.096 s:
    // who answers at once takes a repeated one for another (Linux).
    uint64_t sidr_first_retry;
    // For the application to accept or reject a request. Then it is rejected. Default 60 s.
    uint64_t accept_deadline;
    // How many connections may be half open: requests that wait for the application's answer, or for
    // the peer's RTU. One more is dropped, for its peer to repeat it. Default 0: as many as there is
    // room for.
    uint32_t half_open;
    // How many answers a second go to strangers (REJ, DREP, SIDR_REP, APR that no connection owes), and
    // how many at once after a pause. More are dropped. Default 1000; 0: no limit.
    uint32_t answers_per_second;
    // As half_open, for each remote address. Addresses are counted in 64 groups, by a keyed hash; those
    // that fall into one share its limit. Default 0: none.
    uint16_t half_open_per_source;
    // Port numbers for "any free port", both ends included. Default 32768 to 60999.
    uint16_t port_low;
    // See `port_low`.
    uint16_t port_high;
    // Fixed top bits of every communication ID, so that several programs can share a QP1: their
    // value. Default 0.
    uint8_t comm_id_prefix;
    // How many bits these are, at most 8. Default 0.
    uint8_t comm_id_prefix_bits;
    // 1: loopback addresses overlap with every other address, as on InfiniBand devices. Default 0.
    uint8_t loopback_is_wildcard;
    // 1: accept a REQ whose primary path names another GID than the packet came from, as Linux
    // does. Default 0: a third party must not be made the target of our answers.
    uint8_t lenient;
    // Remote CM Response Timeout of our REQs: how long the peer may take for its answer (code: 4.096
    // us times 2^n). Default 20.
    uint8_t remote_cm_response_timeout;
    // Local CM Response Timeout of our REQs: after which a Linux peer repeats a lost REP (code).
    // Default 18.
    uint8_t local_cm_response_timeout;
    // Max CM Retries of our REQs. Default 15.
    uint8_t max_cm_retries;
    // Target ACK Delay of our REPs (code). Default 15.
    uint8_t target_ack_delay;
    // The largest path MTU that our queue pairs take (code: 1 for 256 to 5 for 4096 octets). A REQ with
    // a larger one, or one that is no path MTU, gets REJ 26, which names ours. Default 5.
    uint8_t max_path_mtu;
    // How often a REP is repeated, unless `ncm_conn_param.retries` says so; at most 254. Who forges a
    // REQ in somebody's name must not buy him many. Default 3.
    uint8_t passive_retries;
    // 1: only the thread that calls ncm_init may use the engine; from others every call is
    // NCM_WRONG_THREAD. Not in builds without an operating system. Default 0: any thread may, one at
    // a time.
    uint8_t check_thread;
    // Zero.
    uint8_t reserved[7];
} ncm_config;

// An IP address, or a GID, and a port. Make one with ncm_ipv4 or ncm_ipv6. This structure never
// changes.
typedef struct ncm_addr {
    // One of ncm_family.
    uint16_t family;
    // The port, in the machine's own order of octets; 0 for none, or for any.
    uint16_t port;
    // IPv6 scope (interface index), which link-local addresses need; else 0.
    uint32_t scope;
    // The address, first octet first.
    uint8_t ip[16];
} ncm_addr;

// How a datagram travels, seen from here: `local` is this side, `remote` the peer, whichever way it
// goes. Make one for RoCE with ncm_roce_path. This structure never changes.
typedef struct ncm_path {
    // One of ncm_link.
    uint32_t link;
    // RoCE: IPv6 scope (interface index) of link-local addresses, else 0.
    uint32_t scope;
    // Our GID. That of an IPv4 address is its IPv6 form ::ffff:a.b.c.d.
    uint8_t local[16];
    // The peer's GID.
    uint8_t remote[16];
    // Flow label, 20 bits; 0 for the default.
    uint32_t flow_label;
    // IB: the peer's LID.
    uint16_t lid;
    // IB: index into the port's P_Key table.
    uint16_t pkey_index;
    // IB: which of our ports, as the transport numbers them.
    uint8_t port;
    // IB: service level, at most 15.
    uint8_t sl;
    // IP TOS, or traffic class.
    uint8_t traffic_class;
    // IP TTL, or hop limit; 0 for the default.
    uint8_t hop_limit;
    // IB: 1 if datagrams carry a global route header, else 0.
    uint8_t grh;
    // Zero.
    uint8_t reserved[11];
} ncm_path;

// An identifier (rdma_cm_id). Copy it freely: once the identifier is destroyed every copy is stale,
// and stays so. Never 0.
typedef uint64_t ncm_id;

// A number on a local address: what one host socket would hold, however many identifiers own it.
typedef struct ncm_port_key {
    // sizeof(ncm_port_key).
    uint32_t size;
    // The port space whose numbers these are (ncm_port_space): TCP for SDP. 0: there is none.
    uint32_t space;
    // The local address and the number.
    struct ncm_addr local;
    // From ncm_propose_port: 1 if identifiers own it already, so that whatever holds it can be
    // shared; 0 if nobody does. Else 0.
    uint32_t held;
    // Zero.
    uint32_t reserved;
} ncm_port_key;

// What ncm_connect and ncm_accept are told (struct rdma_conn_param). Start from
// ncm_conn_param_init.
typedef struct ncm_conn_param {
    // sizeof(ncm_conn_param).
    uint32_t size;
    // Our queue pair number, 24 bits. No live connection may use it. Who asks for a datagram service
    // needs none.
    uint32_t qpn;
    // A hard end for this attempt, in nanoseconds, which no MRA extends. Default 0: the engine's
    // `deadline`, which one does.
    uint64_t timeout;
    // Retransmissions after the first REQ or REP, at most 254. Without an answer to the last of a REQ
    // the attempt ends; after that of a REP there is silence until the time is up, unless the peer
    // repeats its REQ. Default NCM_RETRIES_DEFAULT.
    uint8_t retries;
    // RDMA reads and atomics we can serve. Default 1.
    uint8_t responder_resources;
    // RDMA reads and atomics we want outstanding. Default 1.
    uint8_t initiator_depth;
    // How often the peer shall retry, at most 7. Default 7.
    uint8_t retry_count;
    // How often to retry when the receiver is not ready, at most 7 (for ever). Default 7.
    uint8_t rnr_retry_count;
    // 1: we do end-to-end flow control. Default 0.
    uint8_t flow_control;
    // 1: the queue pair uses a shared receive queue. Default 0.
    uint8_t srq;
    // Of a connection: the queue pair's transport (ncm_transport). Who accepts has that of the
    // request. Default NCM_TRANSPORT_RC.
    uint8_t transport;
    // Of a datagram service: the Q_Key that its queue pair expects. Default 0x01234567, as
    // RDMA_PS_UDP.
    uint32_t qkey;
    // Enhanced connection establishment: our queue pair's vendor, 24 bits. Default 0: none.
    uint32_t ece_vendor_id;
    // The vendor's options. Default 0.
    uint32_t ece_options;
    // Zero.
    uint32_t reserved;
    // For the peer's application. It receives the whole field of the message, filled up with zeros:
    // a length, if it matters, is part of the data. Default NULL.
    const uint8_t *private_data;
    // How many octets: at most NCM_MAX_CONNECT_DATA or NCM_MAX_ACCEPT_DATA, for datagram services
    // NCM_MAX_SIDR_REQ_DATA or NCM_MAX_SIDR_REP_DATA. Default 0.
    size_t private_data_len;
} ncm_conn_param;

// A resolved path: everything a REQ says about it (struct ibv_sa_path_rec, as far as needed). Start
// from ncm_route_init.
typedef struct ncm_route {
    // sizeof(ncm_route).
    uint32_t size;
    // P_Key. Default 0xFFFF.
    uint16_t pkey;
    // Path MTU code: 1 for 256 to 5 for 4096 octets. Default 3.
    uint8_t mtu;
    // Packet rate code, at most 63; 0 for the port's. Default 0.
    uint8_t rate;
    // Packet lifetime code (4.096 us times 2^n), at most 31. Default 16, as Linux on RoCE.
    uint8_t packet_lifetime;
    // Zero.
    uint8_t reserved[7];
    // How datagrams travel.
    struct ncm_path path;
} ncm_route;

// Something happened to a local port.
typedef struct ncm_port_event {
    // sizeof(ncm_port_event).
    uint32_t size;
    // What happened (ncm_port_event_kind).
    uint32_t kind;
    // DEVICE_REMOVED: the CA GUID its addresses were added with: a device is its CA GUID. GID_ADDED:
    // the CA GUID to speak with from there. Peers tell connections of one queue pair
    // number apart by it: it must be stable over restarts, and differ between programs that run at
    // the same time.
    uint64_t ca_guid;
    // The address; of ADDR_CHANGED ours or a peer's; of DEVICE_REMOVED not looked at. Its port does
    // not matter.
    struct ncm_addr address;
} ncm_port_event;

// The host's answer to an ncm_request. Start from ncm_completion_init, which makes the answer that
// suffices on RoCE; only where the question names no source the host must find the path.
typedef struct ncm_completion {
    // sizeof(ncm_completion).
    uint32_t size;
    // What was done: the question's `kind`, or NCM_FAILED.
    uint32_t kind;
    // The question's `id`.
    ncm_id id;
    // The question's `sequence`.
    uint32_t sequence;
    // NCM_FAILED: why, as an errno from 1 to 32,767.
    uint32_t error;
    // RESOLVE_ADDR: its path; the local GID must be one the engine knows. RESOLVE_ROUTE: all of it.
    struct ncm_route route;
} ncm_completion;

// A question to the host. Answer it with ncm_handle_completion, now or later.
typedef struct ncm_request {
    // sizeof(ncm_request).
    uint32_t size;
    // What is asked (ncm_request_kind).
    uint32_t kind;
    // The identifier that asks.
    ncm_id id;
    // Which of its questions this is: goes into the answer.
    uint32_t sequence;
    // Zero.
    uint32_t reserved;
    // RESOLVE_ADDR: the source asked for; its family is NCM_FAMILY_NONE if there is none. The port
    // does not matter.
    struct ncm_addr source;
    // RESOLVE_ADDR: where to.
    struct ncm_addr destination;
    // RESOLVE_ROUTE: the path found before.
    struct ncm_path path;
} ncm_request;

// A datagram to be sent.
typedef struct ncm_transmit {
    // sizeof(ncm_transmit).
    uint32_t size;
    // Zero.
    uint32_t reserved;
    // Its name, for ncm_handle_send_failed.
    uint64_t token;
    // Which way.
    struct ncm_path path;
} ncm_transmit;

// What the peer's REQ or REP offers, turned round to our point of view: its initiator depth is our
// responder resources. Of a SIDR_REP the queue pair number, Q_Key and ECE count; a SIDR_REQ says
// nothing of its sender's queue pair.
typedef struct ncm_peer_param {
    // sizeof(ncm_peer_param).
    uint32_t size;
    // The peer's queue pair number; 0 until it is known.
    uint32_t qpn;
    // The first PSN the peer will send.
    uint32_t starting_psn;
    // RDMA reads and atomics the peer wants outstanding towards us.
    uint8_t responder_resources;
    // RDMA reads and atomics the peer can serve.
    uint8_t initiator_depth;
    // Retries the peer asks us to make (REQ only).
    uint8_t retry_count;
    // Receiver-not-ready retries; 7: for ever.
    uint8_t rnr_retry_count;
    // 1 if the peer does end-to-end flow control.
    uint8_t flow_control;
    // 1 if the peer uses a shared receive queue.
    uint8_t srq;
    // The transport asked for (ncm_transport).
    uint8_t transport;
    // Zero.
    uint8_t reserved[13];
    // Of a datagram service: the Q_Key that its queue pair expects.
    uint32_t qkey;
    // What the peer's vendor says (ECE): which it is; 0 for none.
    uint32_t ece_vendor_id;
    // The vendor's options.
    uint32_t ece_options;
} ncm_peer_param;

// Something happened to an identifier. A value: it needs no release and stays good whatever becomes
// of the identifier.
typedef struct ncm_event {
    // sizeof(ncm_event).
    uint32_t size;
    // What happened (ncm_event_kind).
    uint32_t kind;
    // The identifier it happened to.
    ncm_id id;
    // The identifier's cookie (ncm_create_id, ncm_set_user); a new identifier has its listener's.
    uint64_t user;
    // CONNECT_REQUEST: whom the peer asked. Else 0.
    ncm_id listener;
    // What `value` is (ncm_status).
    uint32_t status;
    // An errno, a reason, a cause; never negative.
    uint32_t value;
    // How many octets of private data there are: the whole field of the message, as received.
    uint32_t private_data_len;
    // REJECTED: how many octets of additional information there are.
    uint32_t additional_info_len;
    // The peer's private data, zeros behind.
    uint8_t private_data[196];
    // REJECTED: the peer's additional information, zeros behind.
    uint8_t additional_info[72];
    // CONNECT_REQUEST, CONNECT_RESPONSE, and ESTABLISHED of a datagram service: what the peer offers.
    // This structure grows with it.
    struct ncm_peer_param peer;
} ncm_event;

// How a frame (the UDP payload of a RoCEv2 packet) travels.
typedef struct ncm_frame {
    // sizeof(ncm_frame).
    uint32_t size;
    // Incoming: what is known of the packet (ncm_seen). Outgoing: NCM_SEEN_IP.
    uint32_t seen;
    // Outgoing: its name, for ncm_handle_send_failed. Incoming: not looked at.
    uint64_t token;
    // The UDP source port. The destination port is 4791.
    uint16_t udp_source_port;
    // IPv4 identification. Outgoing: 0, and the ICRC is right for no other.
    uint16_t ip_id;
    // IPv4 flags and fragment offset. Outgoing: 0x4000, don't fragment.
    uint16_t ip_flags;
    // Zero.
    uint16_t reserved;
    // Which way, over RoCE.
    struct ncm_path path;
} ncm_frame;

// What the verbs need to move a queue pair (struct ibv_qp_attr).
typedef struct ncm_qp_attrs {
    // sizeof(ncm_qp_attrs).
    uint32_t size;
    // The state asked for (ncm_qp_state).
    uint32_t state;
    // The peer's queue pair number.
    uint32_t dest_qpn;
    // The first PSN to expect.
    uint32_t rq_psn;
    // The first PSN to send.
    uint32_t sq_psn;
    // P_Key of the path.
    uint16_t pkey;
    // 1 if the peer may read from and do atomics on our memory.
    uint8_t remote_read;
    // Path MTU code: 1 for 256 to 5 for 4096 octets.
    uint8_t path_mtu;
    // Static rate code of the path; 0 for the port's.
    uint8_t rate;
    // Reads and atomics to serve.
    uint8_t max_dest_rd_atomic;
    // Reads and atomics outstanding.
    uint8_t max_rd_atomic;
    // Local ACK timeout code.
    uint8_t timeout;
    // Retries.
    uint8_t retry_count;
    // Receiver-not-ready retries.
    uint8_t rnr_retry;
    // Zero.
    uint8_t reserved[2];
    // The Q_Key of a datagram queue pair; 0 for a connection's.
    uint32_t qkey;
    // The path: address handle attributes.
    struct ncm_path path;
} ncm_qp_attrs;

// What an engine has counted since it was made. Numbers wrap.
typedef struct ncm_counters {
    // sizeof(ncm_counters).
    uint32_t size;
    // Datagrams handed in.
    uint32_t received;
    // Datagrams that changed nothing, by what became of them (ncm_disposition).
    uint32_t ignored[32];
    // Messages that repeated a known one.
    uint32_t duplicates;
    // Datagrams handed out.
    uint32_t sent;
    // Of those, repeats of a REQ, REP, RTU, DREQ or REJ.
    uint32_t retransmitted;
    // Datagrams that the transport could not send.
    uint32_t send_failed;
    // Requests refused because nothing listens (REJ 8).
    uint32_t no_listener;
    // Requests refused for their IP CM header or a foreign destination (REJ 28).
    uint32_t bad_ip_cm_header;
    // Requests refused for their primary path (REJ 12).
    uint32_t bad_primary_path;
    // Requests refused for their transport type (REJ 9), or to the wrong kind of port space (SIDR
    // status 2).
    uint32_t bad_transport;
    // Requests refused because every slot was in use (REJ 3).
    uint32_t no_resources;
    // Connections torn down because their peer came back with the same queue pair (REJ 10).
    uint32_t stale;
    // Requests that named somebody else's queue pair (REJ 10), whose connection was left alone.
    uint32_t stale_spoofed;
    // Answers dropped because there was no room for them, or a device went away.
    uint32_t replies_dropped;
    // Last words of destroyed connections dropped to make room for new ones.
    uint32_t farewells_dropped;
    // Requests rejected because the application did not answer in time.
    uint32_t accept_overdue;
    // Connections that reached ESTABLISHED.
    uint32_t established;
    // Requests refused for their path MTU (REJ 26).
    uint32_t bad_path_mtu;
    // Requests refused because the backlog was full, by a listener with
    // NCM_OPTION_REJECT_WHEN_FULL (REJ 3).
    uint32_t backlog_full;
    // Datagram services that answered.
    uint32_t resolved;
    // Answers to strangers not given because there were too many in a second.
    uint32_t answers_limited;
} ncm_counters;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The name of an error code, such as "NCM_PORT_IN_USE"; "unknown" if there is no such code. Static.
const char *ncm_error_name(int32_t code);

// What an error code means, in words, without capital and full stop. Static.
const char *ncm_error_text(int32_t code);

// The errno that a user of librdmacm would expect for an error code, positive, with Linux's
// numbers: one for each cause. 0 for NCM_OK, EINVAL (22) if there is no such code.
int32_t ncm_error_errno(int32_t code);

// The version of the interface this library was built with. A program that was compiled with another
// NCM_ABI_VERSION must not call anything else.
uint32_t ncm_abi_version(void);

// The library's version as text, for people. Static.
const char *ncm_version(void);

// Fills in capacities for `conns` connections, with a few listeners and the default port range.
// `size` is sizeof(ncm_capacity).
ncm_error ncm_capacity_init(struct ncm_capacity *capacity, size_t size, uint32_t conns);

// Fills in the default settings, with a seed that has no default: it must never repeat over reboots
// (see `ncm_config.seed`). `size` is sizeof(ncm_config).
ncm_error ncm_config_init(struct ncm_config *config, size_t size, uint64_t seed);

// How many octets an engine of these capacities needs: `*size`. It may be another number in another
// version of the library.
ncm_error ncm_memory_size(const struct ncm_capacity *capacity, size_t *size);

// Makes an engine in `memory`, which has at least ncm_memory_size octets, aligned to
// NCM_MEMORY_ALIGN, and is the engine's until ncm_finish. What was there before is overwritten.
// `*cm` is the engine; it must not be copied or moved. If it fails the memory may have been written to
// all the same.
ncm_error ncm_init(void *memory,
                   size_t size,
                   const struct ncm_capacity *capacity,
                   const struct ncm_config *config,
                   struct ncm_cm **cm);

// Ends an engine: its memory is the program's again, and no pointer to it is an engine any more. It
// never waits for a peer: last words that ncm_poll_transmit has not handed out are not said. While
// identifiers are alive it is NCM_BUSY, and nothing has happened.
ncm_error ncm_finish(struct ncm_cm *cm);

// How many identifiers and connection slots are in use; either pointer may be NULL. Connections of
// destroyed identifiers that are still saying goodbye count.
ncm_error ncm_get_in_use(const struct ncm_cm *cm, uint32_t *ids, uint32_t *conns);

// The IPv4 address a.b.c.d with a port.
struct ncm_addr ncm_ipv4(uint8_t a, uint8_t b, uint8_t c, uint8_t d, uint16_t port);

// An IPv6 address of 16 octets with a scope (interface index; 0 for none) and a port. For NULL the
// wildcard.
struct ncm_addr ncm_ipv6(const uint8_t *ip, uint32_t scope, uint16_t port);

// The path over RoCEv2 between two addresses, whose ports do not matter, all else default. If they
// are no addresses, or of two families, its link is NCM_LINK_NONE, and no function takes it.
struct ncm_path ncm_roce_path(struct ncm_addr local, struct ncm_addr remote);

// Makes an identifier without an address (rdma_create_id), of one of ncm_port_space. `user` comes
// back with each of its events.
ncm_error ncm_create_id(struct ncm_cm *cm, uint32_t space, uint64_t user, ncm_id *id);

// Binds an idle identifier (rdma_bind_addr): to a local address or the wildcard, to a port or (0) any
// free one: `*port`, which may be NULL. The number is one of RDMA's own; a host that wants it held in
// its TCP port space too goes by ncm_propose_port.
ncm_error ncm_bind(struct ncm_cm *cm,
                   ncm_id id,
                   const struct ncm_addr *local,
                   uint16_t *port);

// What a bind would need of the host: whether a port it holds already serves, or which one it should
// reserve. All RDMA rules have been applied, nothing is owned yet. Reserve the port, then
// ncm_bind_reserved. With `remote`, which may be NULL, for an active identifier whose port needs to be
// free towards that peer alone.
ncm_error ncm_propose_port(struct ncm_cm *cm,
                           ncm_id id,
                           const struct ncm_addr *local,
                           const struct ncm_addr *remote,
                           struct ncm_port_key *key);

// Binds to a proposed port that the host has reserved. If it fails the reservation is the caller's to
// release: another bind may have come between.
ncm_error ncm_bind_reserved(struct ncm_cm *cm,
                            ncm_id id,
                            const struct ncm_port_key *key,
                            const struct ncm_addr *remote);

// Lets a bound identifier listen (rdma_listen) for at most `backlog` requests that are neither
// accepted nor rejected; 0 for the engine's default. One more is dropped silently, for the peer to
// repeat it, or rejected (NCM_OPTION_REJECT_WHEN_FULL).
ncm_error ncm_listen(struct ncm_cm *cm, ncm_id id, uint32_t backlog);

// Gives an identifier another cookie, for its further events: it moves to whoever that stands for.
ncm_error ncm_set_user(struct ncm_cm *cm, ncm_id id, uint64_t user);

// Sets an option (ncm_option) of an identifier.
ncm_error ncm_set_option(struct ncm_cm *cm, ncm_id id, uint32_t option, uint32_t value);

// Destroys an identifier in whichever state (rdma_destroy_id). It never blocks. The handle is stale
// from now on, its events are forgotten, its port is free; events handed out before stay good. The
// peer is told what it needs to know. `*released`, which may be NULL, is the port whose last owner
// left, for hosts that reserve ports; its `space` is 0 if there is none.
ncm_error ncm_destroy(struct ncm_cm *cm, uint64_t now, ncm_id id, struct ncm_port_key *released);

// Fills in librdmacm's defaults, for our queue pair's number. `size` is sizeof(ncm_conn_param).
ncm_error ncm_conn_param_init(struct ncm_conn_param *param, size_t size, uint32_t qpn);

// Sends a REQ (rdma_connect), again until it is answered. Then CONNECT_RESPONSE, REJECTED or
// UNREACHABLE. From a datagram port space a SIDR_REQ, then ESTABLISHED, REJECTED or UNREACHABLE.
ncm_error ncm_connect(struct ncm_cm *cm,
                      uint64_t now,
                      ncm_id id,
                      const struct ncm_conn_param *param);

// Accepts a request (rdma_accept): sends a REP, again until its RTU comes. Then ESTABLISHED,
// REJECTED, UNREACHABLE or DISCONNECTED. Of a datagram port space: sends a SIDR_REP, again for each
// repetition of the request while the identifier lives. Then nothing: no connection.
ncm_error ncm_accept(struct ncm_cm *cm,
                     uint64_t now,
                     ncm_id id,
                     const struct ncm_conn_param *param);

// Rejects a request (rdma_reject), or on either side a connection that does not stand yet, for a
// reason of 16 bits. SIDR has fewer: reason 1 (no-qp) is status 3, any other 2. Destroy the identifier when you like: the REJ goes out all the same. At most
// NCM_MAX_REJECT_DATA octets; `data` may be NULL for none.
ncm_error ncm_reject(struct ncm_cm *cm,
                     uint64_t now,
                     ncm_id id,
                     uint32_t reason,
                     const uint8_t *data,
                     size_t len);

// The queue pair is ready: sends the RTU that CONNECT_RESPONSE waits for (rdma_establish).
// ESTABLISHED follows. The data (at most NCM_MAX_ESTABLISH_DATA octets; NULL for none) travel, but no
// peer's connection manager delivers them.
ncm_error ncm_establish(struct ncm_cm *cm,
                        uint64_t now,
                        ncm_id id,
                        const uint8_t *data,
                        size_t len);

// Data have come over the connection before its RTU (rdma_notify, IBV_EVENT_COMM_EST): it stands.
// ESTABLISHED follows.
ncm_error ncm_notify_established(struct ncm_cm *cm, uint64_t now, ncm_id id);

// Ends a connection (rdma_disconnect): sends a DREQ, again until it is answered, then DISCONNECTED;
// or, after the peer's DISCONNECTED, the DREP it waits for. TIMEWAIT_EXIT comes when the queue pair may
// be used again. The data (at most NCM_MAX_DISCONNECT_DATA octets; NULL for none) travel, but no peer's
// connection manager delivers them.
ncm_error ncm_disconnect(struct ncm_cm *cm,
                         uint64_t now,
                         ncm_id id,
                         const uint8_t *data,
                         size_t len);

// Makes an active identifier whose attempt or connection is over ready to connect again, with its
// address, port and route. Legal after REJECTED and UNREACHABLE; where a REP was seen, after
// TIMEWAIT_EXIT, when the queue pair is free.
ncm_error ncm_reset(struct ncm_cm *cm, ncm_id id);

// Finds the path to `destination` (rdma_resolve_addr): asks the host, then ADDR_RESOLVED or
// ADDR_ERROR. An idle identifier is bound on the way: to `source` (port 0: any port that is free
// towards this destination) now or, if `source` is NULL, to whichever address the path leaves from. A
// bound one ignores `source`. `timeout` is in nanoseconds, and not 0.
ncm_error ncm_resolve_addr(struct ncm_cm *cm,
                           uint64_t now,
                           ncm_id id,
                           const struct ncm_addr *source,
                           const struct ncm_addr *destination,
                           uint64_t timeout);

// Finds what the path carries (rdma_resolve_route): asks the host, then ROUTE_RESOLVED or
// ROUTE_ERROR. `timeout` is in nanoseconds, and not 0.
ncm_error ncm_resolve_route(struct ncm_cm *cm, uint64_t now, ncm_id id, uint64_t timeout);

// Fills in a route with Linux's defaults for RoCE. `size` is sizeof(ncm_route). The path is looked at
// when the route is used.
ncm_error ncm_route_init(struct ncm_route *route,
                         size_t size,
                         const struct ncm_path *path);

// Takes a route that the caller knows (a static neighbour table, a cache): no question, no event,
// ncm_connect is legal at once. Legal where ncm_resolve_addr or ncm_resolve_route is; an identifier
// whose address is resolved stays with that destination.
ncm_error ncm_set_route(struct ncm_cm *cm,
                        uint64_t now,
                        ncm_id id,
                        const struct ncm_addr *destination,
                        const struct ncm_route *route);

// A datagram (MAD) came from the peer at `path->remote`. Whatever it holds, it cannot do more than
// move the connection it belongs to: what came of it is no error but its ncm_disposition, and a
// counter. `disposition` may be NULL. The program has verified the ICRC; ncm_handle_frame does.
ncm_error ncm_handle_datagram(struct ncm_cm *cm,
                              uint64_t now,
                              const struct ncm_path *path,
                              const uint8_t *datagram,
                              size_t len,
                              uint32_t *disposition);

// Time has passed: handles at most `budget` expired deadlines (0: as many as there are). What concerns
// many identifiers (a device that is gone, a changed address) is told them beside that, 16 of them for
// each unit of the budget. `*more`, which may be NULL, is 1 if more are due: call again when convenient. After a clock jump hand in
// what the wire holds first.
ncm_error ncm_handle_timeout(struct ncm_cm *cm,
                             uint64_t now,
                             uint32_t budget,
                             uint8_t *more);

// The transport could not send the datagram of this token, and why: an errno from 1 to 32,767, its
// own, or that of an ICMP error later on. A token that names nothing is counted, and that is all.
ncm_error ncm_handle_send_failed(struct ncm_cm *cm, uint64_t now, uint64_t token, uint32_t error);

// Something happened to a local port. NCM_FULL: try again later; there is no room for another address,
// or its place is still that of a device that is gone, or too many addresses have changed at once and
// nobody has been told yet.
ncm_error ncm_handle_port_event(struct ncm_cm *cm,
                                uint64_t now,
                                const struct ncm_port_event *event);

// The host's answer to a question. NCM_STALE_REQUEST: nobody waits for it any more.
ncm_error ncm_handle_completion(struct ncm_cm *cm,
                                uint64_t now,
                                const struct ncm_completion *completion);

// Prepares the answer to a question: see ncm_completion. `size` is sizeof(ncm_completion).
ncm_error ncm_completion_init(struct ncm_completion *completion,
                              size_t size,
                              const struct ncm_request *request);

// Writes the next datagram into `mad`, which has room for NCM_MAD_LEN octets, and says where it goes.
// It counts as sent. NCM_EMPTY: there is none. Poll again after every ncm_handle_* and operation.
ncm_error ncm_poll_transmit(struct ncm_cm *cm,
                            uint64_t now,
                            uint8_t *mad,
                            struct ncm_transmit *transmit);

// What the application is to be told next. NCM_EMPTY: nothing. Poll again after every ncm_handle_* and
// operation.
ncm_error ncm_poll_event(struct ncm_cm *cm,
                         struct ncm_event *event);

// The next question to the host. NCM_EMPTY: there is none. Poll again after ncm_resolve_addr and
// ncm_resolve_route.
ncm_error ncm_poll_request(struct ncm_cm *cm, struct ncm_request *request);

// When to call ncm_handle_timeout if nothing happens before; NCM_NEVER: not at all. Exact once every
// poll function has said NCM_EMPTY; being late delays what is due.
ncm_error ncm_poll_at(const struct ncm_cm *cm,
                      uint64_t *at);

// The UDP payload of a RoCEv2 packet came, from `frame->path.remote`. The ICRC is checked; then as
// ncm_handle_datagram. `disposition` may be NULL.
ncm_error ncm_handle_frame(struct ncm_cm *cm,
                           uint64_t now,
                           const struct ncm_frame *frame,
                           const uint8_t *payload,
                           size_t len,
                           uint32_t *disposition);

// Writes the next datagram as a frame into `payload`, which has room for NCM_FRAME_LEN octets, and
// says where it goes. `udp_source_port` is the port it will be sent from, which the ICRC covers; 0 for
// one that is chosen after the path's flow label. Otherwise as ncm_poll_transmit. NCM_WRONG_LINK: the
// next datagram did not travel over RoCE; the engine has been told that it could not be sent.
ncm_error ncm_poll_frame(struct ncm_cm *cm,
                         uint64_t now,
                         uint16_t udp_source_port,
                         uint8_t *payload,
                         struct ncm_frame *frame);

// What an identifier is doing: `*state`, one of ncm_state.
ncm_error ncm_get_state(const struct ncm_cm *cm, ncm_id id, uint32_t *state);

// Where an identifier's connection stands: `*state`, one of ncm_conn_state.
ncm_error ncm_get_conn_state(const struct ncm_cm *cm, ncm_id id, uint32_t *state);

// Its own address and port, as far as known, else the wildcard and 0.
ncm_error ncm_get_local_addr(const struct ncm_cm *cm, ncm_id id, struct ncm_addr *addr);

// The peer's address and port, as far as known, else the wildcard and 0.
ncm_error ncm_get_peer_addr(const struct ncm_cm *cm, ncm_id id, struct ncm_addr *addr);

// What the peer offers, once a REQ or REP has come.
ncm_error ncm_get_peer_param(const struct ncm_cm *cm, ncm_id id, struct ncm_peer_param *param);

// The path of its connection, once resolved or requested; its link is NCM_LINK_NONE before.
ncm_error ncm_get_path(const struct ncm_cm *cm, ncm_id id, struct ncm_path *path);

// What the verbs need to move the connection's queue pair to `state`, one of ncm_qp_state
// (rdma_init_qp_attr). NCM_INVALID_STATE before the connection knows it: INIT from ROUTE_RESOLVED on.
ncm_error ncm_get_qp_attrs(const struct ncm_cm *cm,
                           ncm_id id,
                           uint32_t state,
                           struct ncm_qp_attrs *attrs);

// The peer's private data, as its event brought them: that of a CONNECT_REQUEST until it is
// answered, of a CONNECT_RESPONSE until ncm_establish, of a REJECTED and of a datagram
// service until ncm_reset; else none.
// `*len` octets go into `data`, which has room for `size`.
ncm_error ncm_get_private_data(const struct ncm_cm *cm,
                               ncm_id id,
                               uint8_t *data,
                               size_t size,
                               size_t *len);

// The additional information of a REJECTED, until ncm_reset; else none. As ncm_get_private_data.
ncm_error ncm_get_additional_info(const struct ncm_cm *cm,
                                  ncm_id id,
                                  uint8_t *data,
                                  size_t size,
                                  size_t *len);

// Whether a DISCONNECTED is still to come: `*owes` is 1 from the ESTABLISHED that ncm_poll_event gave
// until the DISCONNECTED it gives, or until ncm_reset; else 0. Who wants to end in order disconnects
// and waits as long as it is 1.
ncm_error ncm_owes_disconnected(const struct ncm_cm *cm,
                                ncm_id id,
                                uint8_t *owes);

// What has been counted.
ncm_error ncm_get_counters(const struct ncm_cm *cm, struct ncm_counters *counters);

// Whether nothing is left of anything: `*clean` is 1 if there is no identifier, connection, port,
// deadline, event or answer, else 0. Walks the tables: for tests.
ncm_error ncm_is_clean(const struct ncm_cm *cm, uint8_t *clean);

// What there is to say of an ADDR_ERROR, ROUTE_ERROR, UNREACHABLE, REJECTED or CONNECT_ERROR, whose
// identifier is not destroyed yet, in one line:
//
// 192.0.2.1:40000 -> 192.0.2.2:4420: no listener for RDMA tcp port 4420 (REJ 8)
//
// The arrow leads from who asked to who was asked. `text` has room for `size` octets;
// NCM_FAILURE_TEXT_SIZE will do. `*len`, which is not NULL, is how many it took, without the NUL.
// NCM_INVALID_VALUE for other events.
ncm_error ncm_failure_text(const struct ncm_cm *cm,
                           const struct ncm_event *event,
                           char *text,
                           size_t size,
                           size_t *len);

// The name of an event's kind, such as "CONNECT_REQUEST".
const char *ncm_event_name(uint32_t kind);

// The name of an identifier's state, such as "ROUTE_RESOLVED".
const char *ncm_state_name(uint32_t state);

// The name of a connection's state, such as "REQ_SENT".
const char *ncm_conn_state_name(uint32_t state);

// The name of an ncm_disposition: "accepted", "duplicate", or why a datagram was ignored, such as
// "unknown-connection".
const char *ncm_disposition_name(uint32_t disposition);

// The name of a reject reason, such as "invalid-service-id".
const char *ncm_reject_reason_name(uint32_t reason);

// What a reject reason means: a part of a sentence, without capital and full stop.
const char *ncm_reject_reason_text(uint32_t reason);

// The name of a SIDR status, such as "unsupported-service-id".
const char *ncm_sidr_status_name(uint32_t status);

// What a SIDR status means: a part of a sentence, without capital and full stop.
const char *ncm_sidr_status_text(uint32_t status);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* NANOCM_H */
