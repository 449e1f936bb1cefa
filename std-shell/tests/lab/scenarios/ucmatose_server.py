"""Linux's ucmatose accepts `nanocm connect` and disconnects at once; nanocm answers the DREQ."""

import network
from scenario import PATIENCE, expect, there

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), 1)
PORT = 7471  # ucmatose has no other


def play(stage, provider, family):
    ucmatose = stage.linux_server(PORT, "ucmatose", "-b", network.guest_address(family), "-c", 1, "-C", 0)

    nanocm = stage.nanocm("connect", there(family, PORT), "--provider", provider, "--hold", 60000)
    nanocm.ends(0)
    nanocm.said(ESTABLISHED=1, DISCONNECTED=1)
    cause = nanocm.events("DISCONNECTED")[0].get("cause")
    expect(cause == "peer", f"the cause of nanocm's DISCONNECTED is {cause}, not peer")

    status = ucmatose.status(PATIENCE)
    expect(status == 0 and "return status 0" in ucmatose.output(), f"ucmatose ended with status {status}")


def wire(trace):
    if not all(dreq.from_linux for dreq in trace.named("DREQ")):
        yield "a DREQ is nanocm's"
