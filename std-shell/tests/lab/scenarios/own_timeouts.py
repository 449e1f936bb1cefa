"""Each kernel has its own timeouts, and repeats its REQ when it likes; in both roles the application sees the same."""

import time

import network
from scenario import PATIENCE, expect, here, there

PROVIDERS = ("udp",)
FAMILIES = ("v4",)

MESSAGES = dict.fromkeys(("REQ", "MRA", "REP", "RTU", "DREQ", "DREP"), 2)  # one in each role
REPEATED = ("REQ",)
PORT, LINUX_PORT = 7471, 7174

# What a kernel's REQ says, the seconds after which it is sent again, and what is the same with all of them.
LOCAL_ACK_TIMEOUT = {"6.1": 19, "6.12": 17, "sid": 17}
REPEATED_AFTER = {"6.1": 6.1, "6.12": 4.6, "sid": 4.6}
MRA_SERVICE_TIMEOUT = 24
SAME = {"remote_cm_response_timeout": 20, "local_cm_response_timeout": 20, "max_cm_retries": 15, "pkey": 0xFFFF}

THINKS = 7  # seconds: longer than each kernel waits for the answer
STOPPED = 3


def play(stage, provider, family):
    listener = stage.nanocm("listen", here(family, PORT), "--provider", provider, "--accept-after", THINKS * 1000)
    listener.comes_to_say("LISTENING")
    client = stage.linux_start("ucmatose", "-s", network.host_address(family), "-c", 1, "-C", 0)

    server = stage.linux_server(LINUX_PORT, "rping", "-s", "-a", network.guest_address(family), "-p", LINUX_PORT,
                                "-C", 1)
    server.signal("STOP")
    connect = stage.nanocm("connect", there(family, LINUX_PORT), "--from", network.second_address(family),
                           "--provider", provider, "--hold", 200)
    time.sleep(STOPPED)
    server.signal("CONT")

    connect.ends(0)
    connect.said(ESTABLISHED=1, DISCONNECTED=1)
    expect(server.status(PATIENCE) is not None, "rping did not end after the disconnect")
    listener.comes_to_say("ESTABLISHED")
    listener.signal("TERM")  # ucmatose waits to be disconnected
    listener.ends(0)
    listener.said(LISTENING=1, CONNECT_REQUEST=1, ESTABLISHED=1, DISCONNECTED=1)
    expect(client.status(PATIENCE) == 0, "ucmatose did not end well")


def wire(trace):
    first, second, *_ = [req for req in trace.named("REQ") if req.from_linux]
    for name, value in {**SAME, "local_ack_timeout": LOCAL_ACK_TIMEOUT[trace.kernel]}.items():
        if first.field(name) != value:
            yield f"Linux's REQ has {name} {first.field(name)}, not {value}"
    after, expected = second.time - first.time, REPEATED_AFTER[trace.kernel]
    if not expected - 0.5 < after < expected + 1:
        yield f"Linux sends its REQ again after {after:.1f} s, not {expected}"
    mras = {mra.from_linux: mra for mra in trace.named("MRA")}
    if len(mras) != 2:
        yield "the MRAs are not one from each side"
    elif mras[True].field("service_timeout") != MRA_SERVICE_TIMEOUT:
        yield f"Linux's MRA has service timeout {mras[True].field('service_timeout')}, not {MRA_SERVICE_TIMEOUT}"
