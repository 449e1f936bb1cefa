"""Linux's rping accepts `nanocm connect` with private data; nanocm holds the connection a moment and disconnects."""

import network
from scenario import PATIENCE, expect, there

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), 1)
PORT = 7174
PRIVATE_DATA = bytes(range(1, 57))  # all that a REQ takes


def play(stage, provider, family):
    rping = stage.linux_server(PORT, "rping", "-s", "-a", network.guest_address(family), "-p", PORT, "-v", "-C", 1)

    nanocm = stage.nanocm("connect", there(family, PORT), "--provider", provider, "--hold", 200,
                          "--private-data", PRIVATE_DATA.hex())
    nanocm.ends(0)
    nanocm.said(ESTABLISHED=1, DISCONNECTED=1)
    told = nanocm.events("ESTABLISHED")[0].get("private_data")
    expect(told == bytes(196).hex(), f"rping sends no private data, but nanocm was told {told}")

    # rping waits for data that never comes, so how it ends is its own affair.
    expect(rping.status(PATIENCE) is not None, "rping did not end after the disconnect")
    expect("DISCONNECT EVENT" in rping.output(), "rping saw no DISCONNECT EVENT")


def wire(trace):
    for req in trace.named("REQ"):
        if req.private_data != PRIVATE_DATA:
            yield f"the REQ's private data are {req.private_data.hex()}"
