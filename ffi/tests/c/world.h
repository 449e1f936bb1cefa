/* Two engines in static memory, one clock, and a wire between them. */
#ifndef WORLD_H
#define WORLD_H

#include "nanocm.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static unsigned checks;

/* A condition that must hold, in every build. */
#define CHECK(condition) check((condition) != 0, #condition, __FILE__, __LINE__)
#define OK(call) check_code((call), NCM_OK, #call, __FILE__, __LINE__)
#define FAILS(code, call) check_code((call), (code), #call, __FILE__, __LINE__)

static inline void check(int holds, const char *what, const char *file, int line)
{
    checks++;
    if (!holds) {
        fprintf(stderr, "%s:%d: %s\n", file, line, what);
        exit(1);
    }
}

static inline void check_code(ncm_error got, ncm_error expected, const char *call, const char *file,
                              int line)
{
    checks++;
    if (got != expected) {
        fprintf(stderr, "%s:%d: %s: %s, not %s\n", file, line, call, ncm_error_name(got),
                ncm_error_name(expected));
        exit(1);
    }
}

struct node {
    _Alignas(NCM_MEMORY_ALIGN) unsigned char memory[128 * 1024];
    ncm_cm *cm;
    ncm_addr addr;
    uint32_t qpn;
    /* Whether what it says reaches the other. */
    int heard;
};

static struct world {
    struct node a, b;
    uint64_t now;
    /* Whether whole frames are carried, or MADs. */
    int frames;
} world;

/* An engine at an address. */
static inline void start(struct node *node, uint8_t last, uint32_t conns)
{
    ncm_capacity capacity;
    ncm_config config;
    size_t size = 0;
    OK(ncm_capacity_init(&capacity, sizeof capacity, conns));
    capacity.map = 1024;
    OK(ncm_config_init(&config, sizeof config, 0x5eed + last));
    config.port_high = (uint16_t)(config.port_low + 1023);
    OK(ncm_memory_size(&capacity, &size));
    CHECK(size > 0 && size <= sizeof node->memory);
    OK(ncm_init(node->memory, size, &capacity, &config, &node->cm));

    ncm_port_event port = {.size = sizeof port, .kind = NCM_GID_ADDED, .ca_guid = 0x0200 + last};
    node->addr = ncm_ipv4(10, 0, 0, last, 0);
    port.address = node->addr;
    OK(ncm_handle_port_event(node->cm, world.now, &port));
    node->heard = 1;
}

/* A and B, fresh. */
static inline void start_both(int frames)
{
    world.now = SECOND;
    world.frames = frames;
    start(&world.a, 1, 128);
    start(&world.b, 2, 128);
}

static inline ncm_addr at(struct node *node, uint16_t port)
{
    ncm_addr addr = node->addr;
    addr.port = port;
    return addr;
}

/* Carries one datagram, if there is one. */
static inline int carry_one(struct node *from, struct node *to)
{
    uint32_t became = 0;
    if (world.frames) {
        ncm_frame frame = {.size = sizeof frame};
        uint8_t payload[NCM_FRAME_LEN];
        ncm_error error = ncm_poll_frame(from->cm, world.now, 0, payload, &frame);
        if (error == NCM_EMPTY)
            return 0;
        OK(error);
        if (from->heard) {
            frame.path = ncm_roce_path(to->addr, from->addr);
            OK(ncm_handle_frame(to->cm, world.now, &frame, payload, sizeof payload, &became));
        }
    } else {
        ncm_transmit transmit = {.size = sizeof transmit};
        uint8_t mad[NCM_MAD_LEN];
        ncm_error error = ncm_poll_transmit(from->cm, world.now, mad, &transmit);
        if (error == NCM_EMPTY)
            return 0;
        OK(error);
        if (from->heard) {
            ncm_path back = ncm_roce_path(to->addr, from->addr);
            OK(ncm_handle_datagram(to->cm, world.now, &back, mad, sizeof mad, &became));
        }
    }
    CHECK(became != NCM_IGNORED_ICRC && became != NCM_IGNORED_FRAMING);
    return 1;
}

/* Carries all there is. */
static inline void carry(void)
{
    int more;
    do {
        more = carry_one(&world.a, &world.b);
        more |= carry_one(&world.b, &world.a);
    } while (more);
}

/* Moves the clock to what comes next; no if nothing does. */
static inline int step(void)
{
    uint64_t a = 0, b = 0;
    uint8_t more = 0;
    carry();
    OK(ncm_poll_at(world.a.cm, &a));
    OK(ncm_poll_at(world.b.cm, &b));
    uint64_t next = a < b ? a : b;
    if (next == NCM_NEVER)
        return 0;
    if (next > world.now)
        world.now = next;
    OK(ncm_handle_timeout(world.a.cm, world.now, 0, &more));
    CHECK(more == 0);
    OK(ncm_handle_timeout(world.b.cm, world.now, 0, NULL));
    return 1;
}

/* The next event of a node, which must be of this kind, waiting for it if need be. */
static inline ncm_event expect(struct node *node, uint32_t kind)
{
    ncm_event event;
    ncm_error error;
    do {
        carry();
        memset(&event, 0xff, sizeof event);
        event.size = sizeof event;
        error = ncm_poll_event(node->cm, &event);
    } while (error == NCM_EMPTY && step());
    OK(error);
    if (event.kind != kind)
        fprintf(stderr, "%s, not %s\n", ncm_event_name(event.kind), ncm_event_name(kind));
    CHECK(event.kind == kind);
    CHECK((int32_t)event.value >= 0);
    return event;
}

static inline void expect_nothing(struct node *node)
{
    ncm_event event = {.size = sizeof event};
    FAILS(NCM_EMPTY, ncm_poll_event(node->cm, &event));
}

static inline ncm_id listen_on(struct node *node, uint16_t port)
{
    ncm_addr local = at(node, port);
    ncm_id id = 0;
    OK(ncm_create_id(node->cm, NCM_PS_TCP, 7, &id));
    OK(ncm_bind(node->cm, id, &local, NULL));
    OK(ncm_listen(node->cm, id, 0));
    return id;
}

/* An identifier of A with a route to a port of B. */
static inline ncm_id route_to(uint16_t port)
{
    ncm_addr to = at(&world.b, port);
    ncm_path path = ncm_roce_path(world.a.addr, world.b.addr);
    ncm_route route;
    ncm_id id = 0;
    OK(ncm_create_id(world.a.cm, NCM_PS_TCP, 1, &id));
    OK(ncm_route_init(&route, sizeof route, &path));
    OK(ncm_set_route(world.a.cm, world.now, id, &to, &route));
    return id;
}

static inline ncm_conn_param param_of(struct node *node)
{
    ncm_conn_param param;
    OK(ncm_conn_param_init(&param, sizeof param, ++node->qpn));
    return param;
}

/* An identifier of A that has sent its REQ. */
static inline ncm_id connect_to(uint16_t port)
{
    ncm_id id = route_to(port);
    ncm_conn_param param = param_of(&world.a);
    OK(ncm_connect(world.a.cm, world.now, id, &param));
    return id;
}

/* A connection from A to a listener of B: both identifiers. */
static inline void establish(uint16_t port, ncm_id *active, ncm_id *passive)
{
    *active = connect_to(port);
    *passive = expect(&world.b, NCM_EVENT_CONNECT_REQUEST).id;
    ncm_conn_param param = param_of(&world.b);
    OK(ncm_accept(world.b.cm, world.now, *passive, &param));
    expect(&world.a, NCM_EVENT_CONNECT_RESPONSE);
    OK(ncm_establish(world.a.cm, world.now, *active, NULL, 0));
    expect(&world.a, NCM_EVENT_ESTABLISHED);
    expect(&world.b, NCM_EVENT_ESTABLISHED);
}

static inline void destroy(struct node *node, ncm_id id)
{
    OK(ncm_destroy(node->cm, world.now, id, NULL));
}

/* Everything has been destroyed: lets the goodbyes be said and sees that nothing is left. */
static inline void finish_both(void)
{
    uint8_t clean = 0;
    while (step()) {
    }
    OK(ncm_is_clean(world.a.cm, &clean));
    CHECK(clean == 1);
    OK(ncm_is_clean(world.b.cm, &clean));
    CHECK(clean == 1);
    OK(ncm_finish(world.a.cm));
    OK(ncm_finish(world.b.cm));
}

#endif
