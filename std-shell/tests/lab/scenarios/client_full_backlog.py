"""`nanocm listen --backlog 1` has one request to think about when Linux's ucmatose asks too: silence, until it asks again."""

import network
from scenario import PATIENCE, expect, here

PROVIDERS = ("raw",)
FAMILIES = ("v4",)

MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), 2)
REPEATED = ("REQ",)
PORT = 7471

THOUGHT = 2500  # milliseconds: over before Linux sends its REQ again, after 4.6 s (6.1: 6.1 s)


def play(stage, provider, family):
    nanocm = stage.nanocm("listen", here(family, PORT), "--provider", provider, "--backlog", 1, "--accept-after", THOUGHT,
                          "--counters")
    nanocm.comes_to_say("LISTENING")
    server = network.host_address(family)
    rping = stage.linux_start("rping", "-c", "-a", server, "-p", PORT, "-C", 1)
    nanocm.comes_to_say("CONNECT_REQUEST")
    ucmatose = stage.linux_start("ucmatose", "-s", server, "-p", PORT, "-C", 0)
    nanocm.comes_to_say("ESTABLISHED", times=2)

    nanocm.signal("INT")
    nanocm.ends(0)
    nanocm.said(LISTENING=1, CONNECT_REQUEST=2, ESTABLISHED=2, DISCONNECTED=2, COUNTERS=1)
    ignored = nanocm.events("COUNTERS")[0].get("ignored", {})
    expect(ignored.get("backlog-full") == 1, f"nanocm ignored {ignored}, not one request for the backlog")

    expect(ucmatose.status(PATIENCE) == 0, f"ucmatose did not end well: {ucmatose.output().strip()}")
    # rping waits for an answer to its data, so how it ends is its own affair.
    expect(rping.status(PATIENCE) is not None, "rping did not end after the disconnect")
    expect("client DISCONNECT EVENT" in rping.output(), "rping saw no DISCONNECT EVENT")


def wire(trace):
    repeated = [m.frame for m in trace.retransmissions]
    if len(repeated) != 1:
        yield f"Linux sent a REQ again in the frames {repeated}, not once"
