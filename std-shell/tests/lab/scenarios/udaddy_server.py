"""`nanocm resolve` finds the service of Linux's udaddy, and is refused: no listener, another family, udaddy killed."""

import network
from scenario import PATIENCE, expect, there

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

MESSAGES = {"SIDR_REQ": 4, "SIDR_REP": 4}
PORT = 7174  # udaddy has no other
UNSUPPORTED, REJECTED = 1, 2


def play(stage, provider, family):
    udaddy = stage.linux_server(PORT, *udaddy_at(family))
    is_refused(stage.nanocm("resolve", there(family, PORT + 1), "--provider", provider), UNSUPPORTED)

    nanocm = stage.nanocm("resolve", there(family, PORT), "--provider", provider)
    nanocm.ends(0)
    nanocm.said(RESOLVED=1)
    resolved = nanocm.events("RESOLVED")[0]
    expect(resolved.get("qkey") == 0x01234567, f"the Q_Key is {resolved.get('qkey')}, not Linux's for RDMA_PS_UDP")
    expect(resolved.get("qpn", 0) > 1, f"the queue pair number is {resolved.get('qpn')}")
    expect(udaddy.status(PATIENCE) == 0, "udaddy did not end well once it had answered")

    udaddy = stage.linux_server(PORT, *udaddy_at({"v4": "v6", "v6": "v4"}[family]))
    is_refused(stage.nanocm("resolve", there(family, PORT), "--provider", provider), REJECTED)
    udaddy.kill()

    # One that dies with a request in its hands.
    udaddy = stage.linux_server(PORT, *udaddy_at(family))
    udaddy.signal("STOP")
    nanocm = stage.nanocm("resolve", there(family, PORT), "--provider", provider)
    pending = f"rdma resource show cm_id | grep -q 'state CONNECT .*dst-addr {network.host_address(family)}'"
    expect(stage.guest.becomes_true(pending, PATIENCE), "nanocm's request did not reach udaddy")
    udaddy.kill()
    is_refused(nanocm, REJECTED)


def udaddy_at(family):
    return "udaddy", "-b", network.guest_address(family), "-c", 1, "-C", 0


def is_refused(nanocm, status):
    nanocm.ends(1)
    statuses = [event.get("reason") for event in nanocm.events("REJECTED")]
    expect(statuses == [status], f"nanocm was refused with {statuses}, not once with status {status}")
