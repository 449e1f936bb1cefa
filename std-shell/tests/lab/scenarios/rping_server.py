"""`nanocm connect` is accepted by Linux's rping, holds the connection for a moment and disconnects."""

import network
from scenario import PATIENCE, expect, there

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), 1)
PORT = 7174


def play(stage, provider, family):
    rping = stage.linux_server(PORT, "rping", "-s", "-a", network.guest_address(family), "-p", PORT, "-v", "-C", 1)

    nanocm = stage.nanocm("connect", there(family, PORT), "--provider", provider, "--hold", 200)
    nanocm.ends(0)
    nanocm.said(ESTABLISHED=1, DISCONNECTED=1)

    # rping waits for data that never comes, so how it ends is its own affair.
    expect(rping.status(PATIENCE) is not None, "rping did not end after the disconnect")
    expect("DISCONNECT EVENT" in rping.output(), "rping saw no DISCONNECT EVENT")
