/* Two engines in one process connect, refuse each other, part, and leave nothing behind. Functions
 * that are named after a number play a field report. */
#include "world.h"
#include <pthread.h>
#include <time.h>

/* Through both questions to the host, private data both ways, frames on the wire. */
static void connects_and_parts(int frames)
{
    start_both(frames);
    ncm_cm *a = world.a.cm, *b = world.b.cm;
    ncm_id listener = listen_on(&world.b, 4420), id = 0;
    ncm_addr to = at(&world.b, 4420), addr;

    OK(ncm_create_id(a, NCM_PS_TCP, 42, &id));
    OK(ncm_set_option(a, id, NCM_OPTION_TOS, 104));
    OK(ncm_resolve_addr(a, world.now, id, NULL, &to, SECOND));
    ncm_request request = {.size = sizeof request};
    ncm_completion completion;
    OK(ncm_poll_request(a, &request));
    CHECK(request.kind == NCM_RESOLVE_ADDR && request.id == id);
    CHECK(request.source.family == NCM_FAMILY_NONE);
    CHECK(memcmp(&request.destination, &to, sizeof to) == 0);
    OK(ncm_completion_init(&completion, sizeof completion, &request));
    CHECK(completion.route.path.link == NCM_LINK_NONE);
    completion.route.path = ncm_roce_path(world.a.addr, to);
    OK(ncm_handle_completion(a, world.now, &completion));
    FAILS(NCM_STALE_REQUEST, ncm_handle_completion(a, world.now, &completion));
    CHECK(expect(&world.a, NCM_EVENT_ADDR_RESOLVED).user == 42);

    OK(ncm_resolve_route(a, world.now, id, SECOND));
    OK(ncm_poll_request(a, &request));
    CHECK(request.kind == NCM_RESOLVE_ROUTE);
    OK(ncm_completion_init(&completion, sizeof completion, &request));
    completion.route.mtu = 5;
    OK(ncm_handle_completion(a, world.now, &completion));
    FAILS(NCM_EMPTY, ncm_poll_request(a, &request));
    expect(&world.a, NCM_EVENT_ROUTE_RESOLVED);

    ncm_qp_attrs attrs = {.size = sizeof attrs};
    OK(ncm_get_qp_attrs(a, id, NCM_QP_INIT, &attrs));
    FAILS(NCM_INVALID_STATE, ncm_get_qp_attrs(a, id, NCM_QP_RTR, &attrs));

    ncm_conn_param param = param_of(&world.a);
    param.private_data = (const uint8_t *)"hello from A";
    param.private_data_len = 12;
    param.responder_resources = 4;
    OK(ncm_connect(a, world.now, id, &param));
    uint32_t state = 0, conn_state = 0;
    OK(ncm_get_state(a, id, &state));
    OK(ncm_get_conn_state(a, id, &conn_state));
    CHECK(strcmp(ncm_state_name(state), "CONNECT") == 0);
    CHECK(strcmp(ncm_conn_state_name(conn_state), "REQ_SENT") == 0);

    ncm_event event = expect(&world.b, NCM_EVENT_CONNECT_REQUEST);
    ncm_id passive = event.id;
    uint8_t data[NCM_MAX_ACCEPT_DATA];
    size_t len = 0;
    CHECK(event.listener == listener && event.user == 7 && event.status == NCM_STATUS_NONE);
    CHECK(event.peer.qpn == param.qpn && event.peer.initiator_depth == 4);
    CHECK(event.private_data_len == NCM_MAX_CONNECT_DATA && event.additional_info_len == 0);
    CHECK(memcmp(event.private_data, "hello from A\0\0", 14) == 0);
    OK(ncm_get_private_data(b, passive, data, sizeof data, &len));
    CHECK(len == NCM_MAX_CONNECT_DATA && memcmp(data, event.private_data, len) == 0);
    OK(ncm_get_peer_addr(b, passive, &addr));
    ncm_addr source;
    OK(ncm_get_local_addr(a, id, &source));
    CHECK(source.port >= 32768 && memcmp(&addr, &source, sizeof addr) == 0);
    OK(ncm_get_local_addr(b, passive, &addr));
    CHECK(memcmp(&addr, &to, sizeof addr) == 0);

    ncm_conn_param answer = param_of(&world.b);
    memset(data, 0xab, sizeof data);
    answer.private_data = data;
    answer.private_data_len = sizeof data;
    OK(ncm_accept(b, world.now, passive, &answer));
    event = expect(&world.a, NCM_EVENT_CONNECT_RESPONSE);
    CHECK(event.peer.qpn == answer.qpn && event.private_data_len == sizeof data);
    CHECK(memcmp(event.private_data, data, sizeof data) == 0);
    OK(ncm_get_qp_attrs(a, id, NCM_QP_RTR, &attrs));
    CHECK(attrs.dest_qpn == answer.qpn && attrs.path_mtu == 5 && attrs.path.traffic_class == 104);
    ncm_path path;
    OK(ncm_get_path(a, id, &path));
    CHECK(memcmp(&path, &attrs.path, sizeof path) == 0);
    ncm_peer_param peer = {.size = sizeof peer};
    OK(ncm_get_peer_param(a, id, &peer));
    CHECK(memcmp(&peer, &event.peer, sizeof peer) == 0);

    OK(ncm_establish(a, world.now, id, data, sizeof data));
    expect(&world.a, NCM_EVENT_ESTABLISHED);
    expect(&world.b, NCM_EVENT_ESTABLISHED);
    FAILS(NCM_ALREADY_ESTABLISHED, ncm_notify_established(b, world.now, passive));

    OK(ncm_set_user(b, passive, 8));
    OK(ncm_disconnect(a, world.now, id, NULL, 0));
    event = expect(&world.b, NCM_EVENT_DISCONNECTED);
    CHECK(event.user == 8 && event.status == NCM_STATUS_DISCONNECTED);
    CHECK(event.value == NCM_DISCONNECT_PEER);
    OK(ncm_disconnect(b, world.now, passive, NULL, 0));
    CHECK(expect(&world.a, NCM_EVENT_DISCONNECTED).value == NCM_DISCONNECT_LOCAL);
    expect(&world.a, NCM_EVENT_TIMEWAIT_EXIT);
    expect(&world.b, NCM_EVENT_TIMEWAIT_EXIT);

    /* The same identifier once more. */
    OK(ncm_reset(a, id));
    OK(ncm_connect(a, world.now, id, &param));
    ncm_id second = expect(&world.b, NCM_EVENT_CONNECT_REQUEST).id;
    OK(ncm_reject(b, world.now, second, NCM_REJECT_CONSUMER, (const uint8_t *)"no", 2));
    event = expect(&world.a, NCM_EVENT_REJECTED);
    CHECK(event.status == NCM_STATUS_REJECTED && event.value == NCM_REJECT_CONSUMER);
    CHECK(event.private_data_len == NCM_MAX_REJECT_DATA && !memcmp(event.private_data, "no", 3));
    CHECK(strcmp(ncm_reject_reason_name(event.value), "consumer") == 0);

    ncm_counters counters = {.size = sizeof counters};
    OK(ncm_get_counters(b, &counters));
    CHECK(counters.established == 1 && counters.received == 4 && counters.duplicates == 0);

    destroy(&world.a, id);
    destroy(&world.b, passive);
    destroy(&world.b, listener);
    destroy(&world.b, second);
    finish_both();
}

/* One cause, one errno, in whichever family; the host is asked once for a port. */
static void a2_one_cause_one_errno(void)
{
    start_both(0);
    ncm_cm *b = world.b.cm;
    ncm_id first = 0, other = 0;
    ncm_addr any = ncm_ipv4(0, 0, 0, 0, 6452), own = at(&world.b, 6452);
    ncm_addr any6 = ncm_ipv6(NULL, 0, 6452), foreign = ncm_ipv4(192, 0, 2, 99, 7000);
    OK(ncm_create_id(b, NCM_PS_TCP, 0, &first));
    OK(ncm_bind(b, first, &any, NULL));
    OK(ncm_create_id(b, NCM_PS_TCP, 0, &other));
    FAILS(NCM_PORT_IN_USE, ncm_bind(b, other, &any, NULL));
    FAILS(NCM_PORT_IN_USE, ncm_bind(b, other, &own, NULL));
    FAILS(NCM_PORT_IN_USE, ncm_bind(b, other, &any6, NULL));
    FAILS(NCM_ADDR_NOT_LOCAL, ncm_bind(b, other, &foreign, NULL));
    CHECK(ncm_error_errno(NCM_PORT_IN_USE) == 98 && ncm_error_errno(NCM_ADDR_NOT_LOCAL) == 99);

    /* The host is asked once for a port, and told when its last owner leaves. */
    ncm_port_key key = {.size = sizeof key}, freed = {.size = sizeof freed};
    ncm_addr shared = at(&world.b, 7000);
    OK(ncm_propose_port(b, other, &shared, NULL, &key));
    CHECK(key.space == NCM_PS_TCP && key.held == 0 && key.local.port == 7000);
    OK(ncm_bind_reserved(b, other, &key, NULL));
    OK(ncm_destroy(b, world.now, first, &freed));
    CHECK(freed.space == NCM_PS_TCP && freed.local.port == 6452);
    OK(ncm_destroy(b, world.now, other, &freed));
    CHECK(freed.local.port == 7000 && memcmp(&freed.local, &key.local, sizeof key.local) == 0);
    finish_both();
}

/* Event status is a kind and a value, and no value is negative. */
static void c1_status_is_kind_and_value(void)
{
    start_both(0);
    ncm_cm *a = world.a.cm;
    ncm_addr to = at(&world.b, 4420);
    ncm_request request = {.size = sizeof request};
    ncm_completion failed;
    ncm_id id = 0, listener;
    ncm_event event;

    /* ADDR_ERROR: the host's errno; no answer is ETIMEDOUT. */
    OK(ncm_create_id(a, NCM_PS_TCP, 0, &id));
    OK(ncm_resolve_addr(a, world.now, id, NULL, &to, SECOND));
    OK(ncm_poll_request(a, &request));
    OK(ncm_completion_init(&failed, sizeof failed, &request));
    failed.kind = NCM_FAILED;
    failed.error = 113;
    OK(ncm_handle_completion(a, world.now, &failed));
    event = expect(&world.a, NCM_EVENT_ADDR_ERROR);
    CHECK(event.status == NCM_STATUS_ERRNO && event.value == 113);
    OK(ncm_resolve_addr(a, world.now, id, NULL, &to, SECOND));
    event = expect(&world.a, NCM_EVENT_ADDR_ERROR);
    CHECK(event.status == NCM_STATUS_ERRNO && event.value == 110);

    /* ROUTE_ERROR. */
    OK(ncm_resolve_addr(a, world.now, id, &world.a.addr, &to, SECOND));
    OK(ncm_poll_request(a, &request));
    OK(ncm_completion_init(&failed, sizeof failed, &request));
    OK(ncm_handle_completion(a, world.now, &failed));
    expect(&world.a, NCM_EVENT_ADDR_RESOLVED);
    OK(ncm_resolve_route(a, world.now, id, SECOND));
    OK(ncm_poll_request(a, &request));
    OK(ncm_completion_init(&failed, sizeof failed, &request));
    failed.kind = NCM_FAILED;
    failed.error = 101;
    OK(ncm_handle_completion(a, world.now, &failed));
    event = expect(&world.a, NCM_EVENT_ROUTE_ERROR);
    CHECK(event.status == NCM_STATUS_ERRNO && event.value == 101);
    destroy(&world.a, id);

    /* REJECTED: nobody listens. */
    id = connect_to(4420);
    event = expect(&world.a, NCM_EVENT_REJECTED);
    CHECK(event.status == NCM_STATUS_REJECTED && event.value == 8);
    destroy(&world.a, id);

    /* UNREACHABLE: silence, or the transport cannot send. */
    world.a.heard = 0;
    id = connect_to(4420);
    event = expect(&world.a, NCM_EVENT_UNREACHABLE);
    CHECK(event.status == NCM_STATUS_TIMEOUT && event.value == 0);
    world.a.heard = 1;
    destroy(&world.a, id);
    id = connect_to(4420);
    for (int sent = 0; sent < 2; sent++) {
        ncm_transmit transmit = {.size = sizeof transmit};
        uint8_t mad[NCM_MAD_LEN];
        while (ncm_poll_transmit(a, world.now, mad, &transmit) == NCM_EMPTY) {
            OK(ncm_poll_at(a, &world.now));
            OK(ncm_handle_timeout(a, world.now, 0, NULL));
        }
        OK(ncm_handle_send_failed(a, world.now, transmit.token, 101));
    }
    event = expect(&world.a, NCM_EVENT_UNREACHABLE);
    CHECK(event.status == NCM_STATUS_ERRNO && event.value == 101);
    destroy(&world.a, id);

    /* CONNECT_ERROR: the application does not answer. */
    listener = listen_on(&world.b, 4420);
    id = connect_to(4420);
    ncm_id passive = expect(&world.b, NCM_EVENT_CONNECT_REQUEST).id;
    world.a.heard = 0; /* The peer gives up before, but that gets lost. */
    event = expect(&world.b, NCM_EVENT_CONNECT_ERROR);
    world.a.heard = 1;
    CHECK(event.id == passive && event.status == NCM_STATUS_ERRNO && event.value == 110);
    destroy(&world.b, passive);
    expect(&world.a, NCM_EVENT_UNREACHABLE);
    destroy(&world.a, id);

    /* DISCONNECTED by silence. */
    establish(4420, &id, &passive);
    world.b.heard = 0;
    OK(ncm_disconnect(a, world.now, id, NULL, 0));
    event = expect(&world.a, NCM_EVENT_DISCONNECTED);
    CHECK(event.status == NCM_STATUS_DISCONNECTED && event.value == NCM_DISCONNECT_TIMEOUT);
    world.b.heard = 1;
    destroy(&world.a, id);
    destroy(&world.b, passive);
    destroy(&world.b, listener);
    finish_both();
}

/* Rejecting a peer that has given up is an answer of its own. */
static void c3_the_peer_has_gone_already(void)
{
    start_both(1);
    ncm_id listener = listen_on(&world.b, 4420), id = connect_to(4420);
    ncm_id passive = expect(&world.b, NCM_EVENT_CONNECT_REQUEST).id;
    destroy(&world.a, id); /* REJ 4, timeout. */
    ncm_event event = expect(&world.b, NCM_EVENT_REJECTED);
    CHECK(event.id == passive && event.value == 4);
    CHECK(strcmp(ncm_reject_reason_name(event.value), "timeout") == 0);
    FAILS(NCM_ALREADY_GONE,
          ncm_reject(world.b.cm, world.now, passive, NCM_REJECT_CONSUMER, NULL, 0));
    destroy(&world.b, passive);
    destroy(&world.b, listener);
    finish_both();
}

/* Events are values: good after their identifier is destroyed, which waits for nobody. */
static void d1_events_outlive_their_identifier(void)
{
    start_both(1);
    ncm_id listener = listen_on(&world.b, 4420), id = route_to(4420);
    ncm_conn_param param = param_of(&world.a);
    param.private_data = (const uint8_t *)"remember me";
    param.private_data_len = 11;
    OK(ncm_connect(world.a.cm, world.now, id, &param));
    ncm_event event = expect(&world.b, NCM_EVENT_CONNECT_REQUEST), copy = event;
    uint32_t ids = 0;
    destroy(&world.b, event.id);
    destroy(&world.b, listener);
    OK(ncm_get_in_use(world.b.cm, &ids, NULL));
    CHECK(ids == 0);
    FAILS(NCM_NO_SUCH_ID, ncm_destroy(world.b.cm, world.now, event.id, NULL));
    expect(&world.a, NCM_EVENT_REJECTED);
    expect_nothing(&world.b);
    CHECK(memcmp(&event, &copy, sizeof event) == 0);
    CHECK(event.peer.qpn == param.qpn && memcmp(event.private_data, "remember me", 12) == 0);
    destroy(&world.a, id);
    finish_both();
    memset(&world, 0, sizeof world);
    CHECK(memcmp(event.private_data, "remember me", 12) == 0);
}

/* An engine with identifiers is not finished, and nothing of it is freed. */
static void d4_the_engine_goes_last(void)
{
    start_both(0);
    ncm_id listener = listen_on(&world.b, 4420), id = 0, passive = 0;
    FAILS(NCM_BUSY, ncm_finish(world.b.cm));
    establish(4420, &id, &passive);
    destroy(&world.b, listener);
    FAILS(NCM_BUSY, ncm_finish(world.b.cm));
    FAILS(NCM_BUSY, ncm_finish(world.a.cm));
    /* It still stands. */
    OK(ncm_disconnect(world.a.cm, world.now, id, NULL, 0));
    expect(&world.b, NCM_EVENT_DISCONNECTED);
    destroy(&world.b, passive);
    destroy(&world.a, id);
    finish_both();
    uint32_t ids = 0;
    FAILS(NCM_NOT_AN_ENGINE, ncm_get_in_use(world.b.cm, &ids, NULL));
    FAILS(NCM_NOT_AN_ENGINE, ncm_finish(world.b.cm));
    /* The memory serves another. */
    start(&world.b, 2, 16);
    OK(ncm_finish(world.b.cm));
}

/* A hundred connections to a peer that is gone: the end does not wait for it. */
static void d7_the_end_waits_for_nobody(void)
{
    start_both(0);
    ncm_id ids[100], passive;
    listen_on(&world.b, 4420);
    for (int i = 0; i < 100; i++)
        establish(4420, &ids[i], &passive);
    for (int i = 0; i < 100; i++)
        destroy(&world.a, ids[i]);
    uint32_t conns = 0;
    OK(ncm_get_in_use(world.a.cm, NULL, &conns));
    CHECK(conns == 100); /* They owe a DREQ, which nobody takes. */
    OK(ncm_finish(world.a.cm));
}

/* Another thread, and what it was told. */
struct other {
    ncm_cm *cm;
    ncm_error said;
    unsigned done;
};

/* Again until the other thread is out of the engine. */
static ncm_error insist(struct other *other, ncm_id *id)
{
    const struct timespec moment = {.tv_sec = 0, .tv_nsec = 1000};
    ncm_error said;
    for (;;) {
        said = *id == 0 ? ncm_create_id(other->cm, NCM_PS_TCP, 0, id)
                        : ncm_destroy(other->cm, 0, *id, NULL);
        if (said != NCM_IN_CALL)
            return said;
        nanosleep(&moment, NULL);
    }
}

static void *calls(void *argument)
{
    struct other *other = argument;
    while (other->done < 2000) {
        ncm_id id = 0;
        other->said = insist(other, &id);
        if (other->said == NCM_OK)
            other->said = insist(other, &id);
        if (other->said != NCM_OK)
            break;
        other->done++;
    }
    return NULL;
}

/* check_thread: any other thread is told so. */
static void d7_the_wrong_thread_is_told_so(void)
{
    static struct node node;
    ncm_capacity capacity;
    ncm_config config;
    pthread_t thread;
    OK(ncm_capacity_init(&capacity, sizeof capacity, 2));
    OK(ncm_config_init(&config, sizeof config, 1));
    config.check_thread = 1;
    ncm_error said = ncm_init(node.memory, sizeof node.memory, &capacity, &config, &node.cm);
    if (said == NCM_NOT_SUPPORTED) /* Threads are an operating system's. */
        return;
    OK(said);
    struct other other = {.cm = node.cm};
    CHECK(pthread_create(&thread, NULL, calls, &other) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(other.said == NCM_WRONG_THREAD && other.done == 0);
    OK(ncm_finish(node.cm));
}

/* Without it two threads may take turns. */
static void d7_two_threads_take_turns(void)
{
    world.now = 0;
    start(&world.a, 1, 4);
    struct other others[2] = {{.cm = world.a.cm}, {.cm = world.a.cm}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, calls, &others[i]) == 0);
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(others[i].said == NCM_OK && others[i].done == 2000);
    }
    uint32_t ids = 1;
    OK(ncm_get_in_use(world.a.cm, &ids, NULL));
    CHECK(ids == 0);
    OK(ncm_finish(world.a.cm));
}

static int stop;

static void *looks(void *cm)
{
    uint8_t clean = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        ncm_error said = ncm_is_clean(cm, &clean);
        if (said != NCM_OK && said != NCM_IN_CALL)
            return cm;
    }
    return NULL;
}

/* At the same time one of them is refused. The other is nearly always in the engine, so that this
 * thread finds it there before long. */
static void d7_at_the_same_time_one_is_refused(void)
{
    pthread_t thread;
    void *wrong = NULL;
    uint32_t ids = 0;
    unsigned long tries = 0;
    start(&world.a, 1, 128);
    CHECK(pthread_create(&thread, NULL, looks, world.a.cm) == 0);
    while (ncm_get_in_use(world.a.cm, &ids, NULL) != NCM_IN_CALL && tries < 100000000)
        tries++;
    __atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, &wrong) == 0);
    CHECK(tries < 100000000 && wrong == NULL);
    OK(ncm_get_in_use(world.a.cm, &ids, NULL));
    OK(ncm_finish(world.a.cm));
}

/* A frame that was damaged on its way, or meant for somebody else, moves nothing. */
static void damaged_frames_are_counted(void)
{
    start_both(1);
    ncm_id listener = listen_on(&world.b, 4420), id = connect_to(4420);
    ncm_frame frame = {.size = sizeof frame};
    uint8_t payload[NCM_FRAME_LEN];
    uint32_t became = 0;
    OK(ncm_poll_frame(world.a.cm, world.now, 50000, payload, &frame));
    CHECK(frame.udp_source_port == 50000 && frame.seen == NCM_SEEN_IP && frame.ip_id == 0);
    frame.path = ncm_roce_path(world.b.addr, world.a.addr);
    /* All but the fifth octet, which routers may change. */
    for (size_t octet = 0; octet < sizeof payload; octet += octet == 3 ? 2 : 1) {
        payload[octet] ^= 0x10;
        OK(ncm_handle_frame(world.b.cm, world.now, &frame, payload, sizeof payload, &became));
        CHECK(became == NCM_IGNORED_ICRC || became == NCM_IGNORED_FRAMING);
        payload[octet] ^= 0x10;
    }
    OK(ncm_handle_frame(world.b.cm, world.now, &frame, payload, sizeof payload - 1, &became));
    CHECK(became == NCM_IGNORED_FRAMING);
    OK(ncm_handle_frame(world.b.cm, world.now, &frame, NULL, 0, &became));
    CHECK(became == NCM_IGNORED_FRAMING);
    frame.ip_id = 1;
    OK(ncm_handle_frame(world.b.cm, world.now, &frame, payload, sizeof payload, &became));
    CHECK(became == NCM_IGNORED_ICRC);
    /* Nobody saw the IP header: any identification will do. */
    frame.seen = NCM_SEEN_UDP;
    OK(ncm_handle_frame(world.b.cm, world.now, &frame, payload, sizeof payload, &became));
    CHECK(became == NCM_ACCEPTED);
    payload[279] ^= 1;
    frame.seen = NCM_SEEN_VERIFIED;
    OK(ncm_handle_frame(world.b.cm, world.now, &frame, payload, sizeof payload, &became));
    CHECK(became == NCM_DUPLICATE);
    ncm_counters counters = {.size = sizeof counters};
    OK(ncm_get_counters(world.b.cm, &counters));
    CHECK(counters.ignored[NCM_IGNORED_ICRC] > 200 && counters.ignored[NCM_IGNORED_FRAMING] > 2);
    ncm_id passive = expect(&world.b, NCM_EVENT_CONNECT_REQUEST).id;
    destroy(&world.b, passive);
    destroy(&world.b, listener);
    expect(&world.a, NCM_EVENT_REJECTED);
    destroy(&world.a, id);
    finish_both();
}

/* How a failure reads. */
static void says(const ncm_event *event, struct node *node, const char *expected)
{
    char text[NCM_FAILURE_TEXT_SIZE];
    size_t len = 0;
    OK(ncm_failure_text(node->cm, event, text, sizeof text, &len));
    CHECK(len == strlen(text));
    if (strcmp(text, expected) != 0)
        fprintf(stderr, "%s\n", text);
    CHECK(strcmp(text, expected) == 0);
}

/* An identifier of A towards a datagram service of B. */
static ncm_id ask(ncm_id id, const char *data)
{
    ncm_addr to = at(&world.b, 5555);
    ncm_path path = ncm_roce_path(world.a.addr, world.b.addr);
    ncm_route route;
    if (id == 0) {
        OK(ncm_create_id(world.a.cm, NCM_PS_UDP, 0, &id));
        OK(ncm_route_init(&route, sizeof route, &path));
        OK(ncm_set_route(world.a.cm, world.now, id, &to, &route));
    } else {
        OK(ncm_reset(world.a.cm, id));
    }
    ncm_conn_param param = param_of(&world.a);
    param.private_data = (const uint8_t *)data;
    param.private_data_len = strlen(data);
    OK(ncm_connect(world.a.cm, world.now, id, &param));
    return id;
}

/* A datagram service is asked for, refuses, and answers. */
static void a_datagram_service_answers(int frames)
{
    start_both(frames);
    ncm_cm *b = world.b.cm;
    ncm_id id = ask(0, "who is there?"), listener = 0, request;
    ncm_event event = expect(&world.a, NCM_EVENT_REJECTED);
    CHECK(event.status == NCM_STATUS_SIDR && event.value == 1);
    CHECK(strcmp(ncm_sidr_status_name(event.value), "unsupported-service-id") == 0);

    ncm_addr local = at(&world.b, 5555);
    OK(ncm_create_id(b, NCM_PS_UDP, 0, &listener));
    OK(ncm_bind(b, listener, &local, NULL));
    OK(ncm_listen(b, listener, 0));
    ask(id, "who is there?");
    event = expect(&world.b, NCM_EVENT_CONNECT_REQUEST);
    CHECK(event.listener == listener && event.private_data_len == NCM_MAX_SIDR_REQ_DATA);
    CHECK(memcmp(event.private_data, "who is there?", 14) == 0);
    OK(ncm_reject(b, world.now, event.id, 1, (const uint8_t *)"full", 4));
    destroy(&world.b, event.id);
    event = expect(&world.a, NCM_EVENT_REJECTED);
    CHECK(event.status == NCM_STATUS_SIDR && event.value == 3);
    CHECK(event.private_data_len == NCM_MAX_SIDR_REP_DATA && !memcmp(event.private_data, "full", 5));
    ncm_addr source;
    char expected[160];
    OK(ncm_get_local_addr(world.a.cm, id, &source));
    snprintf(expected, sizeof expected, "10.0.0.1:%u -> 10.0.0.2:5555: %s (SIDR 3)", source.port,
             ncm_sidr_status_text(3));
    says(&event, &world.a, expected);

    ask(id, "who is there?");
    request = expect(&world.b, NCM_EVENT_CONNECT_REQUEST).id;
    ncm_conn_param param = param_of(&world.b);
    param.qkey = 0x1ee7c0de;
    param.private_data = (const uint8_t *)"me";
    param.private_data_len = 2;
    OK(ncm_accept(b, world.now, request, &param));
    event = expect(&world.a, NCM_EVENT_ESTABLISHED);
    CHECK(event.peer.qpn == param.qpn && event.peer.qkey == param.qkey);
    CHECK(event.private_data_len == NCM_MAX_SIDR_REP_DATA && !memcmp(event.private_data, "me", 3));
    ncm_path path;
    OK(ncm_get_path(world.a.cm, id, &path));
    CHECK(path.link == NCM_LINK_ROCE);
    FAILS(NCM_WRONG_PORT_SPACE, ncm_disconnect(world.a.cm, world.now, id, NULL, 0));
    expect_nothing(&world.b);
    ncm_counters counters = {.size = sizeof counters};
    OK(ncm_get_counters(world.a.cm, &counters));
    CHECK(counters.resolved == 1);

    destroy(&world.a, id);
    destroy(&world.b, request);
    destroy(&world.b, listener);
    finish_both();
}

/* The device goes away, and comes back as another. */
static void devices_go_and_addresses_change(void)
{
    start_both(0);
    ncm_id listener = listen_on(&world.b, 4420), id, passive, wildcard = 0;
    ncm_addr any = ncm_ipv4(0, 0, 0, 0, 4421);
    ncm_port_event event = {.size = sizeof event, .kind = NCM_ADDR_CHANGED};
    establish(4420, &id, &passive);
    event.address = world.b.addr;
    OK(ncm_handle_port_event(world.a.cm, world.now, &event));
    CHECK(expect(&world.a, NCM_EVENT_ADDR_CHANGE).id == id);

    OK(ncm_create_id(world.b.cm, NCM_PS_TCP, 0, &wildcard));
    OK(ncm_bind(world.b.cm, wildcard, &any, NULL));
    event.kind = NCM_DEVICE_REMOVED;
    event.ca_guid = 0x0202;
    memset(&event.address, 0xff, sizeof event.address);
    OK(ncm_handle_port_event(world.b.cm, world.now, &event));
    int disconnected = 0, removed = 0;
    while (disconnected + removed < 3) {
        ncm_event told = {.size = sizeof told};
        OK(ncm_handle_timeout(world.b.cm, world.now, 0, NULL));
        OK(ncm_poll_event(world.b.cm, &told));
        CHECK(told.id == listener || told.id == passive);
        if (told.kind == NCM_EVENT_DISCONNECTED) {
            CHECK(told.id == passive && told.value == NCM_DISCONNECT_REMOVED);
            disconnected++;
        } else {
            CHECK(told.kind == NCM_EVENT_DEVICE_REMOVAL && told.status == NCM_STATUS_NONE);
            removed++;
        }
    }
    CHECK(disconnected == 1 && removed == 2);
    expect_nothing(&world.b);
    FAILS(NCM_DEVICE_GONE, ncm_disconnect(world.b.cm, world.now, passive, NULL, 0));
    FAILS(NCM_DEVICE_GONE, ncm_listen(world.b.cm, listener, 0));
    CHECK(ncm_error_errno(NCM_DEVICE_GONE) == 19);
    event.kind = NCM_GID_ADDED;
    event.ca_guid = 0x0303;
    event.address = world.b.addr;
    OK(ncm_handle_port_event(world.b.cm, world.now, &event));
    OK(ncm_listen(world.b.cm, wildcard, 0));

    destroy(&world.a, id);
    destroy(&world.b, passive);
    destroy(&world.b, listener);
    destroy(&world.b, wildcard);
    finish_both();
}

/* Half-open connections have a limit, strangers are not answered without end. */
static void floods_are_limited(void)
{
    static unsigned char memory[64 * 1024] __attribute__((aligned(NCM_MEMORY_ALIGN)));
    start_both(0);
    ncm_capacity capacity;
    ncm_config config;
    ncm_cm *kept = world.b.cm;
    OK(ncm_capacity_init(&capacity, sizeof capacity, 16));
    OK(ncm_config_init(&config, sizeof config, 3));
    config.half_open = 2;
    config.answers_per_second = 5;
    OK(ncm_init(memory, sizeof memory, &capacity, &config, &world.b.cm));
    ncm_port_event port = {.size = sizeof port, .kind = NCM_GID_ADDED, .ca_guid = 1};
    port.address = world.b.addr;
    OK(ncm_handle_port_event(world.b.cm, world.now, &port));

    ncm_id listener = listen_on(&world.b, 4420), asked[20];
    for (int i = 0; i < 3; i++)
        asked[i] = connect_to(4420);
    for (int i = 3; i < 20; i++)
        asked[i] = connect_to(4421); /* Where nobody listens. */
    carry();
    ncm_counters counters = {.size = sizeof counters};
    OK(ncm_get_counters(world.b.cm, &counters));
    CHECK(counters.ignored[NCM_IGNORED_HALF_OPEN] == 1);
    CHECK(counters.no_listener == 17 && counters.answers_limited == 12);
    for (int i = 0; i < 2; i++)
        destroy(&world.b, expect(&world.b, NCM_EVENT_CONNECT_REQUEST).id);
    for (int i = 0; i < 20; i++)
        destroy(&world.a, asked[i]);
    destroy(&world.b, listener);
    finish_both();
    OK(ncm_finish(kept));
}

/* Transports, path MTUs, backlogs: what a listener does not take, and how that reads. */
static void listeners_are_choosy(void)
{
    start_both(1);
    ncm_cm *a = world.a.cm, *b = world.b.cm;
    ncm_id listener = listen_on(&world.b, 4420), id = route_to(4420), request, other;
    ncm_conn_param param = param_of(&world.a);
    param.transport = NCM_TRANSPORT_UC;
    param.ece_vendor_id = 0x15b3;
    param.ece_options = 0x80000001;
    OK(ncm_connect(a, world.now, id, &param));
    ncm_event event = expect(&world.a, NCM_EVENT_REJECTED);
    CHECK(event.status == NCM_STATUS_REJECTED && event.value == 9);
    ncm_addr source;
    char expected[160];
    OK(ncm_get_local_addr(a, id, &source));
    snprintf(expected, sizeof expected, "10.0.0.1:%u -> 10.0.0.2:4420: %s (REJ 9)", source.port,
             ncm_reject_reason_text(9));
    says(&event, &world.a, expected);

    OK(ncm_set_option(b, listener, NCM_OPTION_TRANSPORTS, 1 << NCM_TRANSPORT_UC));
    OK(ncm_reset(a, id));
    OK(ncm_connect(a, world.now, id, &param));
    event = expect(&world.b, NCM_EVENT_CONNECT_REQUEST);
    request = event.id;
    CHECK(event.peer.transport == NCM_TRANSPORT_UC);
    CHECK(event.peer.ece_vendor_id == 0x15b3 && event.peer.ece_options == 0x80000001);

    /* One more than the backlog takes. */
    destroy(&world.b, listener);
    listener = 0;
    ncm_addr local = at(&world.b, 4420);
    OK(ncm_create_id(b, NCM_PS_TCP, 0, &listener));
    OK(ncm_bind(b, listener, &local, NULL));
    OK(ncm_set_option(b, listener, NCM_OPTION_REJECT_WHEN_FULL, 1));
    OK(ncm_listen(b, listener, 1));
    ncm_id first = connect_to(4420);
    ncm_id waiting = expect(&world.b, NCM_EVENT_CONNECT_REQUEST).id;
    other = connect_to(4420);
    event = expect(&world.a, NCM_EVENT_REJECTED);
    CHECK(event.id == other && event.value == 3);

    /* DISCONNECTED is owed while a connection stands. */
    uint8_t owes = 1;
    OK(ncm_owes_disconnected(b, waiting, &owes));
    CHECK(owes == 0);
    ncm_conn_param answer = param_of(&world.b);
    OK(ncm_accept(b, world.now, waiting, &answer));
    expect(&world.a, NCM_EVENT_CONNECT_RESPONSE);
    OK(ncm_establish(a, world.now, first, NULL, 0));
    expect(&world.b, NCM_EVENT_ESTABLISHED);
    OK(ncm_owes_disconnected(b, waiting, &owes));
    CHECK(owes == 1);
    destroy(&world.a, first);
    expect(&world.b, NCM_EVENT_DISCONNECTED);
    OK(ncm_owes_disconnected(b, waiting, &owes));
    CHECK(owes == 0);

    destroy(&world.a, id);
    destroy(&world.a, other);
    destroy(&world.b, request);
    destroy(&world.b, waiting);
    destroy(&world.b, listener);
    finish_both();
}

int main(void)
{
    CHECK(ncm_abi_version() == NCM_ABI_VERSION);
    connects_and_parts(0);
    connects_and_parts(1);
    damaged_frames_are_counted();
    a_datagram_service_answers(0);
    a_datagram_service_answers(1);
    listeners_are_choosy();
    devices_go_and_addresses_change();
    floods_are_limited();
    a2_one_cause_one_errno();
    c1_status_is_kind_and_value();
    c3_the_peer_has_gone_already();
    d1_events_outlive_their_identifier();
    d4_the_engine_goes_last();
    d7_the_end_waits_for_nobody();
    d7_the_wrong_thread_is_told_so();
    d7_two_threads_take_turns();
    d7_at_the_same_time_one_is_refused();
    printf("loopback: nanocm %s, %u checks\n", ncm_version(), checks);
    return 0;
}
