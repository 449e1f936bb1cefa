"""Linux's rping is stopped for 45 s: its kernel sends an MRA, and `nanocm connect` waits, unless it has 3 s only."""

import time

import network
from scenario import PATIENCE, expect, there

PROVIDERS = ("udp",)
FAMILIES = ("v4",)

# Three connects: one that waits, one that does not, and one more to the server that kept the second one waiting.
MESSAGES = {"REQ": 3, "MRA": 2, "REP": 2, "RTU": 2, "DREQ": 2, "DREP": 2, "REJ": 1}
REPEATED = ("REQ",)
SLOW, SLOWER = 7174, 7175
STOPPED = 45  # seconds

TIMEOUT = 4  # a REJ's reason
NO_MESSAGE = 2  # what that REJ rejects


def play(stage, provider, family):
    patient_from, hasty_from = network.host_address(family), network.second_address(family)
    slow, slower = (stage.linux_server(port, *rping(family, port)) for port in (SLOW, SLOWER))
    for server in (slow, slower):
        server.signal("STOP")
    start = time.monotonic()

    patient = stage.nanocm("connect", there(family, SLOW), "--from", patient_from, "--provider", provider,
                           "--timeout", 100000, "--hold", 200)
    hasty = stage.nanocm("connect", there(family, SLOWER), "--from", hasty_from, "--provider", provider,
                         "--timeout", 3000)
    hasty.ends(1)
    hasty.said(UNREACHABLE=1, ERROR=1)

    time.sleep(max(0, start + STOPPED - time.monotonic()))
    expect(not patient.objects(), "nanocm has an event while the server is stopped")
    for server in (slow, slower):
        server.signal("CONT")
    patient.ends(0)
    patient.said(ESTABLISHED=1, DISCONNECTED=1)
    expect(slow.status(PATIENCE) is not None, "rping did not end after the disconnect")

    # Its request is gone when it comes to accept it.
    expect(slower.status(PATIENCE) not in (None, 0), "rping accepted a request that was given up")
    again = stage.linux_server(SLOWER, *rping(family, SLOWER))
    nanocm = stage.nanocm("connect", there(family, SLOWER), "--provider", provider)
    nanocm.ends(0)
    expect(again.status(PATIENCE) is not None, "rping did not end after the disconnect")


def rping(family, port):
    return "rping", "-s", "-a", network.guest_address(family), "-p", port, "-C", 1


def wire(trace):
    rejs = [(rej.field("reason"), rej.field("rejected")) for rej in trace.named("REJ")]
    if rejs != [(TIMEOUT, NO_MESSAGE)]:
        yield f"the REJs have (reason, rejected message) {rejs}"
    for rej in trace.named("REJ"):
        waited = rej.time - next(req.time for req in trace.named("REQ") if req.src == rej.src)
        if not 2.5 < waited < 4.5:
            yield f"nanocm gave up after {waited:.1f} s, not 3"
    if not all(mra.from_linux for mra in trace.named("MRA")):
        yield "an MRA is nanocm's"
    waited = trace.named("REP")[0].time - trace.named("REQ")[0].time
    if waited < STOPPED - 1:
        yield f"Linux accepted after {waited:.1f} s already"
