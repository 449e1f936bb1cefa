/* Every function with every kind of bad argument: each call gives exactly the error it should, and
 * changes nothing, neither in the engine's memory nor where its results would go. */
#include "world.h"
#if defined __has_include
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#endif
#endif
#ifndef VALGRIND_MAKE_MEM_DEFINED
#define VALGRIND_MAKE_MEM_DEFINED(pointer, size) ((void)0)
#endif

/* Where results would go, with room for misaligned ones. */
static union out {
    ncm_event event;
    ncm_transmit transmit;
    ncm_frame frame;
    ncm_request request;
    ncm_completion completion;
    ncm_counters counters;
    ncm_qp_attrs attrs;
    ncm_peer_param peer;
    ncm_port_key key;
    ncm_route route;
    ncm_conn_param param;
    ncm_config config;
    ncm_capacity capacity;
    ncm_path path;
    ncm_addr addr;
    ncm_id id;
    ncm_cm *cm;
    uint64_t word;
    size_t count;
    uint32_t number;
    uint16_t port;
    uint8_t octets[512];
    uint32_t size;
} out;

static unsigned char memory_before[sizeof world.a.memory];
static unsigned char out_before[sizeof out];

/* The engine that is misused: B's, with A connected to it. */
#define CM (world.b.cm)
#define NOW (world.now)

static void before(void)
{
    memcpy(memory_before, world.b.memory, sizeof memory_before);
    /* Some octets between fields were never written. */
    VALGRIND_MAKE_MEM_DEFINED(memory_before, sizeof memory_before);
    memset(&out, 0x5a, sizeof out);
}

static void after(const char *call, int line)
{
    static unsigned char now[sizeof memory_before];
    memcpy(now, world.b.memory, sizeof now);
    VALGRIND_MAKE_MEM_DEFINED(now, sizeof now);
    check(memcmp(memory_before, now, sizeof now) == 0, call, "the engine changed", line);
    check(memcmp(out_before, &out, sizeof out) == 0, call, "a result was written", line);
}

/* What `out.size` says before a call: the size of the structure that is asked for, if it is one. */
static uint32_t room;
#define SIZE room
#define ROOM_FOR(what) (room = (uint32_t)sizeof(what))
#define NO_ROOM() (room = 0x5a5a5a5a)

/* A call that must fail with this code, after some preparation of `out`. */
#define REFUSED_AFTER(prepare, code, call)                                                         \
    do {                                                                                           \
        before();                                                                                  \
        prepare;                                                                                   \
        memcpy(out_before, &out, sizeof out);                                                      \
        FAILS(code, call);                                                                         \
        after(#call, __LINE__);                                                                    \
    } while (0)

#define REFUSED(code, call) REFUSED_AFTER(out.size = SIZE, code, call)

/* The address one octet further on: misaligned. */
#define ODD(pointer) ((void *)((unsigned char *)(pointer) + 1))

/* No engines: `e` in the call. */
static struct node finished, moved;
static _Alignas(NCM_MEMORY_ALIGN) unsigned char nothing[8192];

#define BAD_ENGINES(call)                                                                          \
    do {                                                                                           \
        ncm_cm *e = NULL;                                                                          \
        REFUSED(NCM_NULL_POINTER, call);                                    \
        e = ODD(CM);                                                                               \
        REFUSED(NCM_MISALIGNED, call);                                      \
        e = (ncm_cm *)(void *)nothing;                                                             \
        REFUSED(NCM_NOT_AN_ENGINE, call);                                   \
        e = finished.cm;                                                                           \
        REFUSED(NCM_NOT_AN_ENGINE, call);                                   \
        e = (ncm_cm *)(void *)moved.memory;                                                        \
        REFUSED(NCM_NOT_AN_ENGINE, call);                                   \
    } while (0)

/* Identifiers that are none: `i` in the call. */
static ncm_id destroyed;

#define BAD_IDS(call)                                                                              \
    do {                                                                                           \
        ncm_id bad[] = {0, destroyed, destroyed + (UINT64_C(1) << 32), 0xffffffff, UINT64_MAX};    \
        for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {                                    \
            ncm_id i = bad[n];                                                                     \
            REFUSED(NCM_NO_SUCH_ID, call);                                  \
        }                                                                                          \
    } while (0)

/* Pointers that lead nowhere: `p` in the call. */
#define BAD_POINTERS(type, good, call)                                                             \
    do {                                                                                           \
        type *p = NULL;                                                                            \
        REFUSED(NCM_NULL_POINTER, call);                                    \
        p = ODD(good);                                                                             \
        REFUSED(NCM_MISALIGNED, call);                                      \
    } while (0)

/* Sizes that a structure cannot have: `value.size`, or what a result's room says. */
#define BAD_SIZES(value, call)                                                                     \
    do {                                                                                           \
        uint32_t good = (uint32_t)sizeof(value);                                                   \
        uint32_t bad[] = {0, 3, 4, good - 1, 4097, UINT32_MAX};                                    \
        for (size_t n = 0; n < sizeof bad / sizeof *bad; n++)                                      \
            REFUSED_AFTER((value).size = bad[n], NCM_BAD_SIZE, call);                              \
        (value).size = good;                                                                       \
    } while (0)

/* The same for functions that are told the size: `s` in the call. */
#define BAD_SIZES_TOLD(type, call)                                                                 \
    do {                                                                                           \
        size_t bad[] = {0, 3, 4, sizeof(type) - 1, 4097, SIZE_MAX};                                \
        for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {                                    \
            size_t s = bad[n];                                                                     \
            REFUSED(NCM_BAD_SIZE, call);                                                           \
        }                                                                                          \
    } while (0)

/* A newer program's structure, with something in a field that this library does not know. */
#define NEWER(type, value, call)                                                                   \
    do {                                                                                           \
        struct {                                                                                   \
            type known;                                                                            \
            uint64_t more;                                                                         \
        } newer;                                                                                   \
        memset(&newer, 0, sizeof newer);                                                           \
        newer.known = (value);                                                                     \
        newer.known.size = sizeof newer;                                                           \
        newer.more = UINT64_C(1) << 63;                                                            \
        const type *p = &newer.known;                                                              \
        REFUSED(NCM_UNKNOWN_FIELDS, call);                                  \
    } while (0)

/* A wrong field of a structure. */
#define WRONG(code, value, field, wrong, call)                                                     \
    do {                                                                                           \
        __typeof__(value) kept = (value);                                                          \
        (value).field = (wrong);                                                                   \
        REFUSED(code, call);                                                \
        (value) = kept;                                                                            \
    } while (0)

/* B's identifiers, one for each state that a call may find. */
static ncm_id idle, bound, listener, resolving, routed, answered, request, established, over;

static void prepare(void)
{
    start_both(0);
    ncm_addr local = at(&world.b, 9000), to = at(&world.a, 4421);
    ncm_path path = ncm_roce_path(world.b.addr, world.a.addr);
    ncm_route route;
    ncm_conn_param param;
    OK(ncm_route_init(&route, sizeof route, &path));

    OK(ncm_create_id(CM, NCM_PS_TCP, 0, &idle));
    OK(ncm_create_id(CM, NCM_PS_TCP, 0, &bound));
    OK(ncm_bind(CM, bound, &local, NULL));
    listener = listen_on(&world.b, 4420);
    OK(ncm_create_id(CM, NCM_PS_TCP, 0, &resolving));
    OK(ncm_resolve_addr(CM, NOW, resolving, NULL, &to, SECOND));
    OK(ncm_create_id(CM, NCM_PS_TCP, 0, &routed));
    OK(ncm_set_route(CM, NOW, routed, &to, &route));

    /* A accepts, B does not go on. */
    listen_on(&world.a, 4421);
    OK(ncm_create_id(CM, NCM_PS_TCP, 0, &answered));
    OK(ncm_set_route(CM, NOW, answered, &to, &route));
    param = param_of(&world.b);
    OK(ncm_connect(CM, NOW, answered, &param));
    ncm_id active = expect(&world.a, NCM_EVENT_CONNECT_REQUEST).id;
    param = param_of(&world.a);
    OK(ncm_accept(world.a.cm, NOW, active, &param));
    expect(&world.b, NCM_EVENT_CONNECT_RESPONSE);

    establish(4420, &active, &established);
    establish(4420, &active, &over);
    OK(ncm_disconnect(CM, NOW, over, NULL, 0));
    expect(&world.a, NCM_EVENT_DISCONNECTED);
    connect_to(4420);
    request = expect(&world.b, NCM_EVENT_CONNECT_REQUEST).id;
    OK(ncm_create_id(CM, NCM_PS_TCP, 0, &destroyed));
    destroy(&world.b, destroyed);
    carry();

    start(&finished, 9, 4);
    OK(ncm_finish(finished.cm));
    memcpy(moved.memory, world.b.memory, sizeof moved.memory);
}

/* A call in some of these states, which are not for it: `i` in the call. */
#define NOT_IN(code, call, ...)                                                                    \
    do {                                                                                           \
        const ncm_id states[] = {__VA_ARGS__};                                                     \
        for (size_t n = 0; n < sizeof states / sizeof *states; n++) {                              \
            ncm_id i = states[n];                                                                  \
            REFUSED(code, call);                                                                   \
        }                                                                                          \
    } while (0)

static void sizes_and_defaults(void)
{
    ncm_capacity capacity;
    NO_ROOM();
    BAD_POINTERS(ncm_capacity, &out, ncm_capacity_init(p, sizeof *p, 16));
    BAD_SIZES_TOLD(ncm_capacity, ncm_capacity_init(&out.capacity, s, 16));
    REFUSED(NCM_BAD_CAPACITY, ncm_capacity_init(&out.capacity, sizeof out.capacity, 0));
    REFUSED(NCM_BAD_CAPACITY, ncm_capacity_init(&out.capacity, sizeof out.capacity, 1 << 23));
    REFUSED(NCM_BAD_CAPACITY, ncm_capacity_init(&out.capacity, sizeof out.capacity, UINT32_MAX));
    OK(ncm_capacity_init(&capacity, sizeof capacity, 16));

    BAD_POINTERS(ncm_config, &out, ncm_config_init(p, sizeof *p, 1));
    BAD_SIZES_TOLD(ncm_config, ncm_config_init(&out.config, s, 1));

    BAD_POINTERS(ncm_capacity, &capacity, ncm_memory_size(p, &out.count));
    BAD_POINTERS(size_t, &out, ncm_memory_size(&capacity, p));
    BAD_SIZES(capacity, ncm_memory_size(&capacity, &out.count));
    NEWER(ncm_capacity, capacity, ncm_memory_size(p, &out.count));
    WRONG(NCM_BAD_CAPACITY, capacity, ids, 0, ncm_memory_size(&capacity, &out.count));
    WRONG(NCM_BAD_CAPACITY, capacity, conns, 0, ncm_memory_size(&capacity, &out.count));
    WRONG(NCM_BAD_CAPACITY, capacity, conns, 1 << 23, ncm_memory_size(&capacity, &out.count));
    WRONG(NCM_BAD_CAPACITY, capacity, replies, 0, ncm_memory_size(&capacity, &out.count));
    WRONG(NCM_BAD_CAPACITY, capacity, ports, 1, ncm_memory_size(&capacity, &out.count));
    WRONG(NCM_BAD_CAPACITY, capacity, gids, 0, ncm_memory_size(&capacity, &out.count));
    WRONG(NCM_BAD_CAPACITY, capacity, gids, 1 << 16, ncm_memory_size(&capacity, &out.count));
    WRONG(NCM_BAD_CAPACITY, capacity, map, 0, ncm_memory_size(&capacity, &out.count));
    WRONG(NCM_BAD_CAPACITY, capacity, map, 65537, ncm_memory_size(&capacity, &out.count));
    WRONG(NCM_UNKNOWN_FIELDS, capacity, reserved, 1, ncm_memory_size(&capacity, &out.count));

    ncm_path path = ncm_roce_path(world.a.addr, world.b.addr);
    BAD_POINTERS(ncm_route, &out, ncm_route_init(p, sizeof *p, &path));
    BAD_SIZES_TOLD(ncm_route, ncm_route_init(&out.route, s, &path));
    BAD_POINTERS(ncm_path, &path, ncm_route_init(&out.route, sizeof out.route, p));

    BAD_POINTERS(ncm_conn_param, &out, ncm_conn_param_init(p, sizeof *p, 1));
    BAD_SIZES_TOLD(ncm_conn_param, ncm_conn_param_init(&out.param, s, 1));

    ncm_request asked;
    memset(&asked, 0, sizeof asked);
    asked.size = sizeof asked;
    BAD_POINTERS(ncm_completion, &out, ncm_completion_init(p, sizeof *p, &asked));
    BAD_SIZES_TOLD(ncm_completion, ncm_completion_init(&out.completion, s, &asked));
    BAD_POINTERS(ncm_request, &asked,
                 ncm_completion_init(&out.completion, sizeof out.completion, p));
    BAD_SIZES(asked, ncm_completion_init(&out.completion, sizeof out.completion, &asked));
    NEWER(ncm_request, asked, ncm_completion_init(&out.completion, sizeof out.completion, p));
}

static void the_beginning_and_the_end(void)
{
    static struct node node;
    ncm_capacity capacity;
    ncm_config config;
    size_t size = 0;
    void *memory = node.memory;
    OK(ncm_capacity_init(&capacity, sizeof capacity, 8));
    OK(ncm_config_init(&config, sizeof config, 1));
    OK(ncm_memory_size(&capacity, &size));
    CHECK(size < sizeof node.memory);

    NO_ROOM();
    BAD_POINTERS(void, memory, ncm_init(p, size, &capacity, &config, &out.cm));
    REFUSED(NCM_MISALIGNED, ncm_init(node.memory + 8, size, &capacity, &config, &out.cm));
    REFUSED(NCM_MEMORY_TOO_SMALL, ncm_init(memory, size - 1, &capacity, &config, &out.cm));
    REFUSED(NCM_MEMORY_TOO_SMALL, ncm_init(memory, 0, &capacity, &config, &out.cm));
    BAD_POINTERS(ncm_capacity, &capacity, ncm_init(memory, size, p, &config, &out.cm));
    BAD_SIZES(capacity, ncm_init(memory, size, &capacity, &config, &out.cm));
    NEWER(ncm_capacity, capacity, ncm_init(memory, size, p, &config, &out.cm));
    WRONG(NCM_BAD_CAPACITY, capacity, ids, 0, ncm_init(memory, size, &capacity, &config, &out.cm));
    BAD_POINTERS(ncm_config, &config, ncm_init(memory, size, &capacity, p, &out.cm));
    BAD_SIZES(config, ncm_init(memory, size, &capacity, &config, &out.cm));
    NEWER(ncm_config, config, ncm_init(memory, size, &capacity, p, &out.cm));
    BAD_POINTERS(ncm_cm *, &out, ncm_init(memory, size, &capacity, &config, p));

#define BAD_CONFIG(code, field, value)                                                             \
    WRONG(code, config, field, value, ncm_init(memory, size, &capacity, &config, &out.cm))
    BAD_CONFIG(NCM_INVALID_VALUE, loopback_is_wildcard, 2);
    BAD_CONFIG(NCM_INVALID_VALUE, lenient, 255);
    BAD_CONFIG(NCM_INVALID_VALUE, check_thread, 2);
    BAD_CONFIG(NCM_UNKNOWN_FIELDS, reserved[0], 1);
    BAD_CONFIG(NCM_BAD_PREFIX, comm_id_prefix_bits, 9);
    BAD_CONFIG(NCM_BAD_PREFIX, comm_id_prefix, 1);
    BAD_CONFIG(NCM_BAD_PORT_RANGE, port_low, 0);
    BAD_CONFIG(NCM_BAD_PORT_RANGE, port_high, 1);
    BAD_CONFIG(NCM_BAD_TIMER, remote_cm_response_timeout, 32);
    BAD_CONFIG(NCM_BAD_TIMER, local_cm_response_timeout, 32);
    BAD_CONFIG(NCM_BAD_TIMER, target_ack_delay, 32);
    BAD_CONFIG(NCM_BAD_TIMER, max_cm_retries, 16);
    BAD_CONFIG(NCM_BAD_MTU, max_path_mtu, 0);
    BAD_CONFIG(NCM_BAD_MTU, max_path_mtu, 6);
    BAD_CONFIG(NCM_PORT_MAP_TOO_SMALL, port_low, 1024);
    /* None of these made an engine. */
    REFUSED(NCM_NOT_AN_ENGINE, ncm_finish((ncm_cm *)memory));

    BAD_ENGINES(ncm_finish(e));
    REFUSED(NCM_BUSY, ncm_finish(CM));
    BAD_ENGINES(ncm_get_in_use(e, &out.number, NULL));
    REFUSED(NCM_MISALIGNED, ncm_get_in_use(CM, ODD(&out), NULL));
    REFUSED(NCM_MISALIGNED, ncm_get_in_use(CM, NULL, ODD(&out)));
    BAD_ENGINES(ncm_is_clean(e, out.octets));
    REFUSED(NCM_NULL_POINTER, ncm_is_clean(CM, NULL));
}

/* Everything that takes a path, whose call has `&path`. */
#define BAD_PATHS(path, call)                                                                      \
    do {                                                                                           \
        WRONG(NCM_INVALID_VALUE, path, link, 0, call);                                             \
        WRONG(NCM_INVALID_VALUE, path, link, 3, call);                                             \
        WRONG(NCM_INVALID_VALUE, path, flow_label, 1 << 20, call);                                 \
        WRONG(NCM_UNKNOWN_FIELDS, path, reserved[0], 1, call);                                     \
        WRONG(NCM_FAMILY_MISMATCH, path, remote[0], 0xfe, call);                                   \
    } while (0)

static void what_comes_in(void)
{
    uint8_t mad[NCM_MAD_LEN] = {0}, payload[NCM_FRAME_LEN] = {0};
    uint32_t *became = &out.number;
    ncm_path path = ncm_roce_path(world.b.addr, world.a.addr);
    size_t len = sizeof mad;

    NO_ROOM();
    BAD_ENGINES(ncm_handle_datagram(e, NOW, &path, mad, len, became));
    BAD_POINTERS(ncm_path, &path, ncm_handle_datagram(CM, NOW, p, mad, len, became));
    BAD_PATHS(path, ncm_handle_datagram(CM, NOW, &path, mad, len, became));
    REFUSED(NCM_NULL_POINTER, ncm_handle_datagram(CM, NOW, &path, NULL, len, became));
    REFUSED(NCM_INVALID_VALUE, ncm_handle_datagram(CM, NOW, &path, mad, 65536, became));
    REFUSED(NCM_INVALID_VALUE, ncm_handle_datagram(CM, NOW, &path, mad, SIZE_MAX, became));
    REFUSED(NCM_MISALIGNED, ncm_handle_datagram(CM, NOW, &path, mad, len, ODD(&out)));
    path.link = NCM_LINK_IB;
    WRONG(NCM_INVALID_VALUE, path, grh, 2, ncm_handle_datagram(CM, NOW, &path, mad, len, became));

    ncm_frame frame;
    memset(&frame, 0, sizeof frame);
    frame.size = sizeof frame;
    frame.path = ncm_roce_path(world.b.addr, world.a.addr);
    len = sizeof payload;
    BAD_ENGINES(ncm_handle_frame(e, NOW, &frame, payload, len, became));
    BAD_POINTERS(ncm_frame, &frame, ncm_handle_frame(CM, NOW, p, payload, len, became));
    BAD_SIZES(frame, ncm_handle_frame(CM, NOW, &frame, payload, len, became));
    NEWER(ncm_frame, frame, ncm_handle_frame(CM, NOW, p, payload, len, became));
    BAD_PATHS(frame.path, ncm_handle_frame(CM, NOW, &frame, payload, len, became));
    WRONG(NCM_WRONG_LINK, frame.path, link, NCM_LINK_IB,
          ncm_handle_frame(CM, NOW, &frame, payload, len, became));
    WRONG(NCM_INVALID_VALUE, frame, seen, 3,
          ncm_handle_frame(CM, NOW, &frame, payload, len, became));
    WRONG(NCM_UNKNOWN_FIELDS, frame, reserved, 1,
          ncm_handle_frame(CM, NOW, &frame, payload, len, became));
    REFUSED(NCM_NULL_POINTER, ncm_handle_frame(CM, NOW, &frame, NULL, len, became));
    REFUSED(NCM_INVALID_VALUE, ncm_handle_frame(CM, NOW, &frame, payload, 65536, became));
    REFUSED(NCM_MISALIGNED, ncm_handle_frame(CM, NOW, &frame, payload, len, ODD(&out)));

    BAD_ENGINES(ncm_handle_timeout(e, NOW, 0, out.octets));
    BAD_ENGINES(ncm_handle_send_failed(e, NOW, 1, 101));
    REFUSED(NCM_INVALID_VALUE, ncm_handle_send_failed(CM, NOW, 1, 0));
    REFUSED(NCM_INVALID_VALUE, ncm_handle_send_failed(CM, NOW, 1, 32768));
    REFUSED(NCM_INVALID_VALUE, ncm_handle_send_failed(CM, NOW, 1, (uint32_t)-101));

    ncm_port_event event = {.size = sizeof event, .kind = NCM_GID_ADDED, .ca_guid = 1};
    event.address = ncm_ipv4(10, 0, 0, 77, 0);
    BAD_ENGINES(ncm_handle_port_event(e, NOW, &event));
    BAD_POINTERS(ncm_port_event, &event, ncm_handle_port_event(CM, NOW, p));
    BAD_SIZES(event, ncm_handle_port_event(CM, NOW, &event));
    NEWER(ncm_port_event, event, ncm_handle_port_event(CM, NOW, p));
    WRONG(NCM_INVALID_VALUE, event, kind, 0, ncm_handle_port_event(CM, NOW, &event));
    WRONG(NCM_INVALID_VALUE, event, kind, 5, ncm_handle_port_event(CM, NOW, &event));
    WRONG(NCM_INVALID_VALUE, event, kind, UINT32_MAX, ncm_handle_port_event(CM, NOW, &event));
    WRONG(NCM_INVALID_VALUE, event, address.family, 2, ncm_handle_port_event(CM, NOW, &event));

    ncm_completion completion;
    memset(&completion, 0, sizeof completion);
    completion.size = sizeof completion;
    completion.id = resolving;
    completion.kind = NCM_RESOLVE_ADDR;
    OK(ncm_route_init(&completion.route, sizeof completion.route, &frame.path));
    BAD_ENGINES(ncm_handle_completion(e, NOW, &completion));
    BAD_POINTERS(ncm_completion, &completion, ncm_handle_completion(CM, NOW, p));
    BAD_SIZES(completion, ncm_handle_completion(CM, NOW, &completion));
    NEWER(ncm_completion, completion, ncm_handle_completion(CM, NOW, p));
    BAD_PATHS(completion.route.path, ncm_handle_completion(CM, NOW, &completion));
    WRONG(NCM_INVALID_VALUE, completion, kind, 3, ncm_handle_completion(CM, NOW, &completion));
    WRONG(NCM_INVALID_VALUE, completion, kind, NCM_FAILED,
          ncm_handle_completion(CM, NOW, &completion)); /* Its errno is 0. */
    WRONG(NCM_BAD_SIZE, completion, route.size, 0, ncm_handle_completion(CM, NOW, &completion));
    WRONG(NCM_STALE_REQUEST, completion, sequence, 77,
          ncm_handle_completion(CM, NOW, &completion));
    WRONG(NCM_STALE_REQUEST, completion, sequence, 256 + 1,
          ncm_handle_completion(CM, NOW, &completion));
    WRONG(NCM_STALE_REQUEST, completion, id, destroyed,
          ncm_handle_completion(CM, NOW, &completion));
    WRONG(NCM_STALE_REQUEST, completion, id, routed, ncm_handle_completion(CM, NOW, &completion));
    completion.kind = NCM_RESOLVE_ROUTE;
    completion.sequence = 1;
    REFUSED(NCM_STALE_REQUEST, ncm_handle_completion(CM, NOW, &completion));
    WRONG(NCM_INVALID_VALUE, completion, route.mtu, 0,
          ncm_handle_completion(CM, NOW, &completion));
}

static void what_comes_out(void)
{
    uint8_t *octets = out.octets + 256;
    ROOM_FOR(ncm_transmit);
    BAD_ENGINES(ncm_poll_transmit(e, NOW, octets, &out.transmit));
    REFUSED(NCM_NULL_POINTER, ncm_poll_transmit(CM, NOW, NULL, &out.transmit));
    BAD_POINTERS(ncm_transmit, &out, ncm_poll_transmit(CM, NOW, octets, p));
    BAD_SIZES(out.transmit, ncm_poll_transmit(CM, NOW, octets, &out.transmit));
    REFUSED(NCM_EMPTY, ncm_poll_transmit(CM, NOW, octets, &out.transmit));

    octets = out.octets + 128;
    ROOM_FOR(ncm_frame);
    BAD_ENGINES(ncm_poll_frame(e, NOW, 0, octets, &out.frame));
    REFUSED(NCM_NULL_POINTER, ncm_poll_frame(CM, NOW, 0, NULL, &out.frame));
    BAD_POINTERS(ncm_frame, &out, ncm_poll_frame(CM, NOW, 0, octets, p));
    BAD_SIZES(out.frame, ncm_poll_frame(CM, NOW, 0, octets, &out.frame));
    REFUSED(NCM_EMPTY, ncm_poll_frame(CM, NOW, 0, octets, &out.frame));

    ROOM_FOR(ncm_event);
    BAD_ENGINES(ncm_poll_event(e, &out.event));
    BAD_POINTERS(ncm_event, &out, ncm_poll_event(CM, p));
    BAD_SIZES(out.event, ncm_poll_event(CM, &out.event));
    REFUSED(NCM_EMPTY, ncm_poll_event(CM, &out.event));

    ROOM_FOR(ncm_request);
    BAD_ENGINES(ncm_poll_request(e, &out.request));
    BAD_POINTERS(ncm_request, &out, ncm_poll_request(CM, p));
    BAD_SIZES(out.request, ncm_poll_request(CM, &out.request));

    NO_ROOM();
    BAD_ENGINES(ncm_poll_at(e, &out.word));
    BAD_POINTERS(uint64_t, &out, ncm_poll_at(CM, p));
}

/* Everything that takes an address, whose call has `&addr`. */
#define BAD_ADDRS(addr, call)                                                                      \
    do {                                                                                           \
        uint16_t bad[] = {0, 2, 5, 10, 0xffff};                                                    \
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)                                      \
            WRONG(NCM_INVALID_VALUE, addr, family, bad[k], call);                                  \
    } while (0)

static void identifiers(void)
{
    ncm_addr local = at(&world.b, 9001), taken = at(&world.b, 9000);
    ncm_addr foreign = ncm_ipv4(192, 0, 2, 1, 9001), remote = at(&world.a, 1);
    ncm_addr linklocal = ncm_ipv6((const uint8_t *)"\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 0, 1);

    NO_ROOM();
    BAD_ENGINES(ncm_create_id(e, NCM_PS_TCP, 0, &out.id));
    BAD_POINTERS(ncm_id, &out, ncm_create_id(CM, NCM_PS_TCP, 0, p));
    REFUSED(NCM_INVALID_VALUE, ncm_create_id(CM, 0, 0, &out.id));
    REFUSED(NCM_INVALID_VALUE, ncm_create_id(CM, 0x10106, 0, &out.id));
    REFUSED(NCM_INVALID_VALUE, ncm_create_id(CM, UINT32_MAX, 0, &out.id));

    BAD_ENGINES(ncm_bind(e, idle, &local, &out.port));
    BAD_IDS(ncm_bind(CM, i, &local, &out.port));
    BAD_POINTERS(ncm_addr, &local, ncm_bind(CM, idle, p, &out.port));
    BAD_ADDRS(local, ncm_bind(CM, idle, &local, &out.port));
    REFUSED(NCM_MISALIGNED, ncm_bind(CM, idle, &local, ODD(&out)));
    REFUSED(NCM_PORT_IN_USE, ncm_bind(CM, idle, &taken, &out.port));
    REFUSED(NCM_ADDR_NOT_LOCAL, ncm_bind(CM, idle, &foreign, &out.port));
    REFUSED(NCM_SCOPE_MISSING, ncm_bind(CM, idle, &linklocal, &out.port));
    NOT_IN(NCM_INVALID_STATE, ncm_bind(CM, i, &local, &out.port), bound, listener, resolving,
           routed, answered, request, established, over);

    ROOM_FOR(ncm_port_key);
    BAD_ENGINES(ncm_propose_port(e, idle, &local, &remote, &out.key));
    BAD_IDS(ncm_propose_port(CM, i, &local, NULL, &out.key));
    BAD_POINTERS(ncm_addr, &local, ncm_propose_port(CM, idle, p, NULL, &out.key));
    BAD_ADDRS(local, ncm_propose_port(CM, idle, &local, NULL, &out.key));
    REFUSED(NCM_MISALIGNED, ncm_propose_port(CM, idle, &local, ODD(&remote), &out.key));
    BAD_ADDRS(remote, ncm_propose_port(CM, idle, &local, &remote, &out.key));
    BAD_POINTERS(ncm_port_key, &out, ncm_propose_port(CM, idle, &local, NULL, p));
    BAD_SIZES(out.key, ncm_propose_port(CM, idle, &local, NULL, &out.key));
    REFUSED(NCM_PORT_IN_USE, ncm_propose_port(CM, idle, &taken, NULL, &out.key));
    NOT_IN(NCM_INVALID_STATE, ncm_propose_port(CM, i, &local, NULL, &out.key), bound, listener,
           resolving, routed, answered, request, established, over);

    ncm_port_key key = {.size = sizeof key, .space = NCM_PS_TCP};
    key.local = local;
    NO_ROOM();
    BAD_ENGINES(ncm_bind_reserved(e, idle, &key, NULL));
    BAD_IDS(ncm_bind_reserved(CM, i, &key, NULL));
    BAD_POINTERS(ncm_port_key, &key, ncm_bind_reserved(CM, idle, p, NULL));
    BAD_SIZES(key, ncm_bind_reserved(CM, idle, &key, NULL));
    NEWER(ncm_port_key, key, ncm_bind_reserved(CM, idle, p, NULL));
    BAD_ADDRS(key.local, ncm_bind_reserved(CM, idle, &key, NULL));
    BAD_ADDRS(remote, ncm_bind_reserved(CM, idle, &key, &remote));
    REFUSED(NCM_MISALIGNED, ncm_bind_reserved(CM, idle, &key, ODD(&remote)));
    WRONG(NCM_INVALID_VALUE, key, space, 0, ncm_bind_reserved(CM, idle, &key, NULL));
    WRONG(NCM_INVALID_VALUE, key, held, 2, ncm_bind_reserved(CM, idle, &key, NULL));
    WRONG(NCM_UNKNOWN_FIELDS, key, reserved, 1, ncm_bind_reserved(CM, idle, &key, NULL));
    WRONG(NCM_WRONG_KEY, key, space, NCM_PS_UDP, ncm_bind_reserved(CM, idle, &key, NULL));
    WRONG(NCM_WRONG_KEY, key, local.port, 0, ncm_bind_reserved(CM, idle, &key, NULL));
    WRONG(NCM_PORT_IN_USE, key, local, taken, ncm_bind_reserved(CM, idle, &key, NULL));
    NOT_IN(NCM_INVALID_STATE, ncm_bind_reserved(CM, i, &key, NULL), bound, listener, resolving,
           routed, answered, request, established, over);

    BAD_ENGINES(ncm_listen(e, bound, 0));
    BAD_IDS(ncm_listen(CM, i, 0));
    NOT_IN(NCM_INVALID_STATE, ncm_listen(CM, i, 0), idle, listener, resolving, routed, answered,
           request, established, over);

    BAD_ENGINES(ncm_set_user(e, idle, 1));
    BAD_IDS(ncm_set_user(CM, i, 1));

    BAD_ENGINES(ncm_set_option(e, idle, NCM_OPTION_TOS, 1));
    BAD_IDS(ncm_set_option(CM, i, NCM_OPTION_TOS, 1));
    REFUSED(NCM_INVALID_VALUE, ncm_set_option(CM, idle, 4, 0));
    REFUSED(NCM_INVALID_VALUE, ncm_set_option(CM, idle, 18, 0));
    REFUSED(NCM_INVALID_VALUE, ncm_set_option(CM, idle, UINT32_MAX, 0));
    REFUSED(NCM_INVALID_VALUE, ncm_set_option(CM, idle, NCM_OPTION_TOS, 256));
    REFUSED(NCM_INVALID_VALUE, ncm_set_option(CM, idle, NCM_OPTION_REUSEADDR, 2));
    REFUSED(NCM_INVALID_VALUE, ncm_set_option(CM, idle, NCM_OPTION_AFONLY, UINT32_MAX));
    REFUSED(NCM_INVALID_VALUE, ncm_set_option(CM, idle, NCM_OPTION_ACK_TIMEOUT, 32));
    REFUSED(NCM_INVALID_VALUE, ncm_set_option(CM, idle, NCM_OPTION_TRANSPORTS, 0));
    REFUSED(NCM_INVALID_VALUE, ncm_set_option(CM, idle, NCM_OPTION_TRANSPORTS, 8));
    REFUSED(NCM_INVALID_VALUE, ncm_set_option(CM, idle, NCM_OPTION_REJECT_WHEN_FULL, 2));
    NOT_IN(NCM_INVALID_STATE, ncm_set_option(CM, i, NCM_OPTION_REJECT_WHEN_FULL, 1), resolving,
           routed, answered, request, established, over);
    NOT_IN(NCM_INVALID_STATE, ncm_set_option(CM, i, NCM_OPTION_TOS, 1), listener, answered, request,
           established, over);
    NOT_IN(NCM_INVALID_STATE, ncm_set_option(CM, i, NCM_OPTION_AFONLY, 1), bound, listener,
           resolving, routed, answered, request, established, over);
    REFUSED(NCM_INVALID_STATE, ncm_set_option(CM, listener, NCM_OPTION_REUSEADDR, 1));

    ROOM_FOR(ncm_port_key);
    BAD_ENGINES(ncm_destroy(e, NOW, idle, &out.key));
    BAD_IDS(ncm_destroy(CM, NOW, i, &out.key));
    REFUSED(NCM_MISALIGNED, ncm_destroy(CM, NOW, idle, ODD(&out)));
    BAD_SIZES(out.key, ncm_destroy(CM, NOW, idle, &out.key));
}

static void routes(void)
{
    ncm_addr source = world.b.addr, to = at(&world.a, 4421), nowhere = at(&world.a, 0);
    ncm_addr any = ncm_ipv4(0, 0, 0, 0, 1), v6 = ncm_ipv6((const uint8_t *)"0123456789abcdef", 0, 1);
    ncm_path path = ncm_roce_path(world.b.addr, world.a.addr);
    ncm_route route;
    OK(ncm_route_init(&route, sizeof route, &path));

    NO_ROOM();
    BAD_ENGINES(ncm_resolve_addr(e, NOW, idle, &source, &to, SECOND));
    BAD_IDS(ncm_resolve_addr(CM, NOW, i, &source, &to, SECOND));
    REFUSED(NCM_MISALIGNED, ncm_resolve_addr(CM, NOW, idle, ODD(&source), &to, SECOND));
    BAD_POINTERS(ncm_addr, &to, ncm_resolve_addr(CM, NOW, idle, NULL, p, SECOND));
    BAD_ADDRS(source, ncm_resolve_addr(CM, NOW, idle, &source, &to, SECOND));
    BAD_ADDRS(to, ncm_resolve_addr(CM, NOW, idle, &source, &to, SECOND));
    REFUSED(NCM_ZERO_TIMEOUT, ncm_resolve_addr(CM, NOW, idle, NULL, &to, 0));
    REFUSED(NCM_NOT_A_DESTINATION, ncm_resolve_addr(CM, NOW, idle, NULL, &nowhere, SECOND));
    REFUSED(NCM_NOT_A_DESTINATION, ncm_resolve_addr(CM, NOW, idle, NULL, &any, SECOND));
    REFUSED(NCM_FAMILY_MISMATCH, ncm_resolve_addr(CM, NOW, idle, &source, &v6, SECOND));
    NOT_IN(NCM_INVALID_STATE, ncm_resolve_addr(CM, NOW, i, NULL, &to, SECOND), listener, resolving,
           routed, answered, request, established, over);

    BAD_ENGINES(ncm_resolve_route(e, NOW, idle, SECOND));
    BAD_IDS(ncm_resolve_route(CM, NOW, i, SECOND));
    NOT_IN(NCM_INVALID_STATE, ncm_resolve_route(CM, NOW, i, SECOND), idle, bound, listener,
           resolving, routed, answered, request, established, over);

    BAD_ENGINES(ncm_set_route(e, NOW, idle, &to, &route));
    BAD_IDS(ncm_set_route(CM, NOW, i, &to, &route));
    BAD_POINTERS(ncm_addr, &to, ncm_set_route(CM, NOW, idle, p, &route));
    BAD_ADDRS(to, ncm_set_route(CM, NOW, idle, &to, &route));
    BAD_POINTERS(ncm_route, &route, ncm_set_route(CM, NOW, idle, &to, p));
    BAD_SIZES(route, ncm_set_route(CM, NOW, idle, &to, &route));
    NEWER(ncm_route, route, ncm_set_route(CM, NOW, idle, &to, p));
    BAD_PATHS(route.path, ncm_set_route(CM, NOW, idle, &to, &route));
    WRONG(NCM_INVALID_VALUE, route, mtu, 0, ncm_set_route(CM, NOW, idle, &to, &route));
    WRONG(NCM_INVALID_VALUE, route, mtu, 6, ncm_set_route(CM, NOW, idle, &to, &route));
    WRONG(NCM_INVALID_VALUE, route, packet_lifetime, 32,
          ncm_set_route(CM, NOW, idle, &to, &route));
    WRONG(NCM_UNKNOWN_FIELDS, route, reserved[6], 1, ncm_set_route(CM, NOW, idle, &to, &route));
    WRONG(NCM_ADDR_NOT_LOCAL, route, path.local[15], 99,
          ncm_set_route(CM, NOW, idle, &to, &route));
    NOT_IN(NCM_INVALID_STATE, ncm_set_route(CM, NOW, i, &to, &route), listener, resolving, routed,
           answered, request, established, over);
}

/* Too much private data, of which only the length may be looked at: `data` and `len` in the call. */
#define BAD_DATA(most, call)                                                                       \
    do {                                                                                           \
        static const uint8_t octets[256];                                                          \
        size_t bad[] = {(most) + 1, 257, SIZE_MAX};                                                \
        for (size_t n = 0; n < sizeof bad / sizeof *bad; n++) {                                    \
            const uint8_t *data = octets;                                                          \
            size_t len = bad[n];                                                                   \
            REFUSED(NCM_PRIVATE_DATA_TOO_LONG, call);                                              \
        }                                                                                          \
        const uint8_t *data = NULL;                                                                \
        size_t len = 1;                                                                            \
        REFUSED(NCM_NULL_POINTER, call);                                                           \
    } while (0)

/* Everything that takes connection parameters, whose call has `&param`. */
#define BAD_PARAMS(most, call, call_p)                                                             \
    do {                                                                                           \
        BAD_POINTERS(ncm_conn_param, &param, call_p);                                              \
        BAD_SIZES(param, call);                                                                    \
        NEWER(ncm_conn_param, param, call_p);                                                      \
        BAD_DATA(most, (param.private_data = data, param.private_data_len = len, call));           \
        param.private_data_len = 0;                                                                \
        WRONG(NCM_INVALID_VALUE, param, retry_count, 8, call);                                     \
        WRONG(NCM_INVALID_VALUE, param, rnr_retry_count, 8, call);                                 \
        WRONG(NCM_INVALID_VALUE, param, flow_control, 2, call);                                    \
        WRONG(NCM_INVALID_VALUE, param, srq, 0xff, call);                                          \
        WRONG(NCM_INVALID_VALUE, param, transport, 3, call);                                       \
        WRONG(NCM_UNKNOWN_FIELDS, param, reserved, 1, call);                                       \
        WRONG(NCM_NUMBER_TOO_LARGE, param, qpn, 1 << 24, call);                                    \
        WRONG(NCM_NUMBER_TOO_LARGE, param, ece_vendor_id, UINT32_MAX, call);                       \
        WRONG(NCM_QPN_IN_USE, param, qpn, taken, call);                                            \
    } while (0)

static void connections(void)
{
    ncm_conn_param param = param_of(&world.b);
    uint32_t taken = param.qpn - 1;

    NO_ROOM();
    BAD_ENGINES(ncm_connect(e, NOW, routed, &param));
    BAD_IDS(ncm_connect(CM, NOW, i, &param));
    BAD_PARAMS(NCM_MAX_CONNECT_DATA, ncm_connect(CM, NOW, routed, &param),
               ncm_connect(CM, NOW, routed, p));
    NOT_IN(NCM_INVALID_STATE, ncm_connect(CM, NOW, i, &param), idle, bound, listener, resolving,
           answered, request, established, over);

    BAD_ENGINES(ncm_accept(e, NOW, request, &param));
    BAD_IDS(ncm_accept(CM, NOW, i, &param));
    BAD_PARAMS(NCM_MAX_ACCEPT_DATA, ncm_accept(CM, NOW, request, &param),
               ncm_accept(CM, NOW, request, p));
    NOT_IN(NCM_INVALID_STATE, ncm_accept(CM, NOW, i, &param), idle, bound, listener, resolving,
           routed, answered, established, over);

    BAD_ENGINES(ncm_reject(e, NOW, request, NCM_REJECT_CONSUMER, NULL, 0));
    BAD_IDS(ncm_reject(CM, NOW, i, NCM_REJECT_CONSUMER, NULL, 0));
    BAD_DATA(NCM_MAX_REJECT_DATA, ncm_reject(CM, NOW, request, NCM_REJECT_CONSUMER, data, len));
    REFUSED(NCM_INVALID_VALUE, ncm_reject(CM, NOW, request, 65536, NULL, 0));
    REFUSED(NCM_INVALID_VALUE, ncm_reject(CM, NOW, request, UINT32_MAX, NULL, 0));
    NOT_IN(NCM_INVALID_STATE, ncm_reject(CM, NOW, i, NCM_REJECT_CONSUMER, NULL, 0), idle, bound,
           listener, resolving, routed, established, over);

    BAD_ENGINES(ncm_establish(e, NOW, answered, NULL, 0));
    BAD_IDS(ncm_establish(CM, NOW, i, NULL, 0));
    BAD_DATA(NCM_MAX_ESTABLISH_DATA, ncm_establish(CM, NOW, answered, data, len));
    NOT_IN(NCM_INVALID_STATE, ncm_establish(CM, NOW, i, NULL, 0), idle, bound, listener, resolving,
           routed, request, over);
    REFUSED(NCM_ALREADY_ESTABLISHED, ncm_establish(CM, NOW, established, NULL, 0));

    BAD_ENGINES(ncm_notify_established(e, NOW, established));
    BAD_IDS(ncm_notify_established(CM, NOW, i));
    NOT_IN(NCM_INVALID_STATE, ncm_notify_established(CM, NOW, i), idle, bound, listener, resolving,
           routed, answered, request, over);
    REFUSED(NCM_ALREADY_ESTABLISHED, ncm_notify_established(CM, NOW, established));

    BAD_ENGINES(ncm_disconnect(e, NOW, established, NULL, 0));
    BAD_IDS(ncm_disconnect(CM, NOW, i, NULL, 0));
    BAD_DATA(NCM_MAX_DISCONNECT_DATA, ncm_disconnect(CM, NOW, established, data, len));
    NOT_IN(NCM_INVALID_STATE, ncm_disconnect(CM, NOW, i, NULL, 0), idle, bound, listener, resolving,
           routed, answered, request);

    BAD_ENGINES(ncm_reset(e, over));
    BAD_IDS(ncm_reset(CM, i));
    NOT_IN(NCM_INVALID_STATE, ncm_reset(CM, i), idle, bound, listener, resolving, routed, answered,
           request, established, over);
}

static void getters(void)
{
    NO_ROOM();
    BAD_ENGINES(ncm_get_state(e, idle, &out.number));
    BAD_IDS(ncm_get_state(CM, i, &out.number));
    BAD_POINTERS(uint32_t, &out, ncm_get_state(CM, idle, p));
    BAD_ENGINES(ncm_get_conn_state(e, idle, &out.number));
    BAD_IDS(ncm_get_conn_state(CM, i, &out.number));
    BAD_POINTERS(uint32_t, &out, ncm_get_conn_state(CM, idle, p));
    BAD_ENGINES(ncm_get_local_addr(e, idle, &out.addr));
    BAD_IDS(ncm_get_local_addr(CM, i, &out.addr));
    BAD_POINTERS(ncm_addr, &out, ncm_get_local_addr(CM, idle, p));
    BAD_ENGINES(ncm_get_peer_addr(e, idle, &out.addr));
    BAD_IDS(ncm_get_peer_addr(CM, i, &out.addr));
    BAD_POINTERS(ncm_addr, &out, ncm_get_peer_addr(CM, idle, p));
    BAD_ENGINES(ncm_get_path(e, idle, &out.path));
    BAD_IDS(ncm_get_path(CM, i, &out.path));
    BAD_POINTERS(ncm_path, &out, ncm_get_path(CM, idle, p));

    ROOM_FOR(ncm_peer_param);
    BAD_ENGINES(ncm_get_peer_param(e, idle, &out.peer));
    BAD_IDS(ncm_get_peer_param(CM, i, &out.peer));
    BAD_POINTERS(ncm_peer_param, &out, ncm_get_peer_param(CM, idle, p));
    BAD_SIZES(out.peer, ncm_get_peer_param(CM, idle, &out.peer));

    ROOM_FOR(ncm_qp_attrs);
    BAD_ENGINES(ncm_get_qp_attrs(e, established, NCM_QP_RTS, &out.attrs));
    BAD_IDS(ncm_get_qp_attrs(CM, i, NCM_QP_RTS, &out.attrs));
    BAD_POINTERS(ncm_qp_attrs, &out, ncm_get_qp_attrs(CM, established, NCM_QP_RTS, p));
    BAD_SIZES(out.attrs, ncm_get_qp_attrs(CM, established, NCM_QP_RTS, &out.attrs));
    REFUSED(NCM_INVALID_VALUE, ncm_get_qp_attrs(CM, established, 0, &out.attrs));
    REFUSED(NCM_INVALID_VALUE, ncm_get_qp_attrs(CM, established, 4, &out.attrs));
    NOT_IN(NCM_INVALID_STATE, ncm_get_qp_attrs(CM, i, NCM_QP_RTS, &out.attrs), idle, bound,
           listener, resolving, routed, over);

    NO_ROOM();
    BAD_ENGINES(ncm_owes_disconnected(e, idle, out.octets));
    BAD_IDS(ncm_owes_disconnected(CM, i, out.octets));
    REFUSED(NCM_NULL_POINTER, ncm_owes_disconnected(CM, idle, NULL));

    ncm_event event;
    memset(&event, 0, sizeof event);
    event.size = sizeof event;
    event.id = established;
    event.kind = NCM_EVENT_REJECTED;
    event.status = NCM_STATUS_REJECTED;
    char *text = (char *)out.octets + 64;
    size_t room_for_text = NCM_FAILURE_TEXT_SIZE, *took = &out.count;
#define TEXT(cm, event, text, size, len) ncm_failure_text(cm, event, text, size, len)
    BAD_ENGINES(TEXT(e, &event, text, room_for_text, took));
    BAD_POINTERS(ncm_event, &event, TEXT(CM, p, text, room_for_text, took));
    BAD_SIZES(event, TEXT(CM, &event, text, room_for_text, took));
    NEWER(ncm_event, event, TEXT(CM, p, text, room_for_text, took));
    REFUSED(NCM_NULL_POINTER, TEXT(CM, &event, NULL, room_for_text, took));
    BAD_POINTERS(size_t, &out, TEXT(CM, &event, text, room_for_text, p));
    REFUSED(NCM_BUFFER_TOO_SMALL, TEXT(CM, &event, NULL, 0, took));
    REFUSED(NCM_BUFFER_TOO_SMALL, TEXT(CM, &event, text, 40, took));
    WRONG(NCM_NO_SUCH_ID, event, id, destroyed, TEXT(CM, &event, text, room_for_text, took));
    WRONG(NCM_INVALID_VALUE, event, kind, NCM_EVENT_ESTABLISHED,
          TEXT(CM, &event, text, room_for_text, took));
    WRONG(NCM_INVALID_VALUE, event, kind, UINT32_MAX,
          TEXT(CM, &event, text, room_for_text, took));
    WRONG(NCM_INVALID_VALUE, event, status, NCM_STATUS_ERRNO,
          TEXT(CM, &event, text, room_for_text, took));
    WRONG(NCM_INVALID_VALUE, event, value, 65536, TEXT(CM, &event, text, room_for_text, took));
    event.kind = NCM_EVENT_ADDR_ERROR;
    event.status = NCM_STATUS_ERRNO;
    REFUSED(NCM_INVALID_VALUE, TEXT(CM, &event, text, room_for_text, took)); /* Errno 0. */

    ROOM_FOR(ncm_counters);
    BAD_ENGINES(ncm_get_counters(e, &out.counters));
    BAD_POINTERS(ncm_counters, &out, ncm_get_counters(CM, p));
    BAD_SIZES(out.counters, ncm_get_counters(CM, &out.counters));

    uint8_t *octets = out.octets + 64;
    size_t *len = &out.count;
    NO_ROOM();
    BAD_ENGINES(ncm_get_private_data(e, request, octets, 196, len));
    BAD_IDS(ncm_get_private_data(CM, i, octets, 196, len));
    REFUSED(NCM_NULL_POINTER, ncm_get_private_data(CM, request, NULL, 196, len));
    BAD_POINTERS(size_t, &out, ncm_get_private_data(CM, request, octets, 196, p));
    REFUSED(NCM_BUFFER_TOO_SMALL, ncm_get_private_data(CM, request, octets, 55, len));
    REFUSED(NCM_BUFFER_TOO_SMALL, ncm_get_private_data(CM, request, NULL, 0, len));
    BAD_ENGINES(ncm_get_additional_info(e, request, octets, 72, len));
    BAD_IDS(ncm_get_additional_info(CM, i, octets, 72, len));
    REFUSED(NCM_NULL_POINTER, ncm_get_additional_info(CM, request, NULL, 72, len));
    BAD_POINTERS(size_t, &out, ncm_get_additional_info(CM, request, octets, 72, p));
}

/* Functions that cannot fail have an answer to everything. */
static void names_and_values(void)
{
    const uint32_t numbers[] = {16, 99, 256, 0x7fffffff, 0x80000000, UINT32_MAX};
    for (size_t n = 0; n < sizeof numbers / sizeof *numbers; n++) {
        uint32_t k = numbers[n];
        CHECK(strcmp(ncm_event_name(k), "unknown") == 0);
        CHECK(strcmp(ncm_state_name(k), "unknown") == 0);
        CHECK(strcmp(ncm_conn_state_name(k), "unknown") == 0);
        CHECK(k == 16 || strcmp(ncm_disposition_name(k), "unknown") == 0);
        CHECK(k == 16 || strcmp(ncm_reject_reason_name(k), "unknown") == 0);
        CHECK(strlen(ncm_reject_reason_text(k)) > 5);
        CHECK(strcmp(ncm_sidr_status_name(k), "unknown") == 0);
        CHECK(strlen(ncm_sidr_status_text(k)) > 5);
        CHECK(k == 16 || k == 99 || strcmp(ncm_error_name((int32_t)k), "unknown") == 0);
        CHECK(strlen(ncm_error_text((int32_t)k)) > 5);
        CHECK(ncm_error_errno((int32_t)k) > 0);
    }
    CHECK(ncm_abi_version() == NCM_ABI_VERSION && strlen(ncm_version()) > 0);
    ncm_addr v4 = ncm_ipv4(255, 255, 255, 255, 65535), v6 = ncm_ipv6(NULL, UINT32_MAX, 65535);
    ncm_addr none = {0};
    CHECK(v6.family == NCM_IPV6 && v6.ip[0] == 0 && v6.scope == UINT32_MAX);
    CHECK(ncm_roce_path(v4, v6).link == NCM_LINK_NONE);
    CHECK(ncm_roce_path(none, v4).link == NCM_LINK_NONE);
    CHECK(ncm_roce_path(v4, v4).link == NCM_LINK_ROCE);
}

/* What is full says so, and nothing else. */
static void full_tables(void)
{
    ncm_port_event event = {.size = sizeof event, .kind = NCM_GID_ADDED, .ca_guid = 1};
    for (uint8_t k = 1; k < 64; k++) {
        event.address = ncm_ipv4(10, 1, 0, k, 0);
        OK(ncm_handle_port_event(CM, NOW, &event));
    }
    event.address = ncm_ipv4(10, 1, 0, 64, 0);
    NO_ROOM();
    REFUSED(NCM_FULL, ncm_handle_port_event(CM, NOW, &event));
    ncm_error error;
    ncm_id id = 0;
    while ((error = ncm_create_id(CM, NCM_PS_TCP, 0, &id)) == NCM_OK) {
    }
    FAILS(NCM_FULL, error);
    REFUSED(NCM_FULL, ncm_create_id(CM, NCM_PS_TCP, 0, &out.id));
}

int main(void)
{
    prepare();
    sizes_and_defaults();
    the_beginning_and_the_end();
    what_comes_in();
    what_comes_out();
    identifiers();
    routes();
    connections();
    getters();
    names_and_values();
    full_tables();
    printf("misuse: %u checks\n", checks);
    return 0;
}
