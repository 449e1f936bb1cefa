"""`nanocm resolve` finds the datagram service of Linux's udaddy; on another port it is refused with status 1."""

import network
from scenario import PATIENCE, expect, there

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

MESSAGES = {"SIDR_REQ": 2, "SIDR_REP": 2}
PORT = 7174  # udaddy has no other


def play(stage, provider, family):
    udaddy = stage.linux_server(PORT, "udaddy", "-b", network.guest_address(family), "-c", 1, "-C", 0)

    nobody = stage.nanocm("resolve", there(family, PORT + 1), "--provider", provider)
    nobody.ends(1)
    statuses = [event.get("reason") for event in nobody.events("REJECTED")]
    expect(statuses == [1], f"nanocm was refused with {statuses}, not once with status 1")

    nanocm = stage.nanocm("resolve", there(family, PORT), "--provider", provider)
    nanocm.ends(0)
    nanocm.said(RESOLVED=1)
    resolved = nanocm.events("RESOLVED")[0]
    expect(resolved.get("qkey") == 0x01234567, f"the Q_Key is {resolved.get('qkey')}, not Linux's for RDMA_PS_UDP")
    expect(resolved.get("qpn", 0) > 1, f"the queue pair number is {resolved.get('qpn')}")

    expect(udaddy.status(PATIENCE) == 0, "udaddy did not end well once it had answered")
