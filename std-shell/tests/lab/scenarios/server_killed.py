"""Linux's rping is killed in each phase of a connection of `nanocm connect`, which is told; the next one serves."""

import time

import faults
import network
from scenario import PATIENCE, expect, there

PROVIDERS = ("raw",)
FAMILIES = ("v4",)

# A server that is killed leaves a REJ 28 if it had not answered the REQ or has not seen the RTU, a DREQ if it was
# established, and a DREP if it had not answered a DREQ.
MESSAGES = {"REQ": 5, "REP": 4, "MRA": (0, 1), "REJ": 2, "RTU": 4, "DREQ": 3, "DREP": 3}
REPEATED = ("REQ", "MRA", "REP", "RTU", "DREQ")
PORT = 7471


def play(stage, provider, family):
    # It has the REQ, and does not answer.
    server = listening(stage, family)
    server.signal("STOP")
    nanocm = connect(stage, provider, family)
    asked = f"rdma resource show cm_id | grep -q 'state CONNECT .*:{PORT} '"
    expect(stage.guest.becomes_true(asked, PATIENCE), "nanocm's REQ has not reached Linux")
    server.kill()
    nanocm.ends(1)
    nanocm.said(REJECTED=1, ERROR=1, COUNTERS=1)
    reason = nanocm.events("REJECTED")[0].get("reason")
    expect(reason == 28, f"nanocm says REJECTED for reason {reason}, not 28")

    # It has answered, and gets no RTU.
    server = listening(stage, family)
    with faults.loses_each(stage.guest, faults.TO_LINUX, "RTU"):
        nanocm = connect(stage, provider, family)
        nanocm.comes_to_say("ESTABLISHED")
        server.kill()
        is_over(nanocm, "peer")

    server = listening(stage, family)
    nanocm = connect(stage, provider, family)
    nanocm.comes_to_say("ESTABLISHED")
    time.sleep(0.5)  # the RTU is there
    server.kill()
    is_over(nanocm, "peer")

    # It has the DREQ, and does not answer.
    server = listening(stage, family)
    nanocm = connect(stage, provider, family, hold=1000)
    nanocm.comes_to_say("ESTABLISHED")
    server.signal("STOP")
    time.sleep(1.5)
    server.kill()
    is_over(nanocm, "local")

    server = listening(stage, family)
    is_over(connect(stage, provider, family, hold=0), "local")
    expect(server.status(PATIENCE) is not None, "rping did not end")


def listening(stage, family):
    return stage.linux_server(PORT, "rping", "-s", "-a", network.guest_address(family), "-p", PORT, "-v", "-C", 1)


def connect(stage, provider, family, hold=60000):
    return stage.nanocm("connect", there(family, PORT), "--provider", provider, "--hold", hold, "--counters")


def is_over(nanocm, cause):
    nanocm.ends(0)
    nanocm.said(ESTABLISHED=1, DISCONNECTED=1, COUNTERS=1)
    said = nanocm.events("DISCONNECTED")[0].get("cause")
    expect(said == cause, f"the cause of the DISCONNECTED of {nanocm.shown} is {said}, not {cause}")
