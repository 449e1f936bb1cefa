"""nanocm is killed while connected to Linux's rping and comes back with the same queue pair: rejected as stale, once."""

import network
from scenario import expect, there

PROVIDERS = ("raw",)
FAMILIES = ("v4",)

# Linux's DREQ is for the first connection; the new nanocm answers it.
MESSAGES = {"REQ": 3, "REP": 2, "RTU": 2, "REJ": 1, "DREQ": 2, "DREP": 2}
PORT = 7471
QPN = 0x1234


def play(stage, provider, family):
    stage.linux_server(PORT, "rping", "-s", "-P", "-a", network.guest_address(family), "-p", PORT, "-v", "-C", 1)
    connect = ("connect", there(family, PORT), "--provider", provider, "--qpn", QPN, "--counters")
    first = stage.nanocm(*connect, "--hold", 60000)
    first.comes_to_say("ESTABLISHED")
    first.signal("KILL")
    first.ends(-9)

    second = stage.nanocm(*connect)
    second.ends(1)
    second.said(REJECTED=1, ERROR=1, COUNTERS=1)
    reason = second.events("REJECTED")[0].get("reason")
    expect(reason == 10, f"nanocm is rejected for {reason}, not 10")

    third = stage.nanocm(*connect)
    third.ends(0)
    third.said(ESTABLISHED=1, DISCONNECTED=1, COUNTERS=1)
