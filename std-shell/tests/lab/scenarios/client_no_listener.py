"""Linux's rping and ucmatose connect to a port beside the one where nanocm listens: rejected with reason 8, and they say so."""

import network
from scenario import expect, here

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

MESSAGES = {"REQ": 2, "REJ": 2}
PORT = 7471


def play(stage, provider, family):
    nanocm = stage.nanocm("listen", here(family, PORT), "--provider", provider, "--counters")
    nanocm.comes_to_say("LISTENING")
    server = network.host_address(family)

    status, text = stage.linux("rping", "-c", "-a", server, "-p", PORT + 1, "-C", 1)
    expect("RDMA_CM_EVENT_REJECTED, error 8" in text, f"rping was not rejected for reason 8: {text.strip()}")
    expect(status == 255, f"rping ended with status {status}")

    status, text = stage.linux("ucmatose", "-s", server, "-p", PORT + 1, "-C", 0)
    expect("RDMA_CM_EVENT_REJECTED, error: 8" in text, f"ucmatose was not rejected for reason 8: {text.strip()}")
    expect(status == 8, f"ucmatose ended with status {status}")

    nanocm.signal("INT")
    nanocm.ends(0)
    nanocm.said(LISTENING=1, COUNTERS=1)
    counters = nanocm.events("COUNTERS")[0]
    expect(counters.get("no_listener") == 2, f"nanocm counts {counters}")
