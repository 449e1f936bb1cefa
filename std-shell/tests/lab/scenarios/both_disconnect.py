"""Linux's ucmatose and `nanocm connect` disconnect at once, so that their DREQs cross on a slow wire."""

import faults
import network
from scenario import PATIENCE, expect, there

PROVIDERS = ("udp",)
FAMILIES = ("v4",)

# Linux answers if its application comes to it before nanocm's answer is there; nanocm, its work done, may have ended.
MESSAGES = {"REQ": 1, "REP": 1, "RTU": 1, "DREQ": 2, "DREP": (1, 2)}
UNREACHABLE = True
REPEATED = ("REQ", "REP", "RTU")  # there and back takes most of the second after which they are
PORT = 7471  # ucmatose has no other

# ucmatose disconnects when the RTU is there, so both DREQs leave at the same time, and each is 300 ms on its way.
DELAY = 300


def play(stage, provider, family):
    ucmatose = stage.linux_server(PORT, "ucmatose", "-b", network.guest_address(family), "-c", 1, "-C", 0)
    late = ("delay", f"{DELAY}ms")
    with faults.netem(stage.guest, faults.TO_LINUX, *late), faults.netem(stage.guest, faults.FROM_LINUX, *late):
        nanocm = stage.nanocm("connect", there(family, PORT), "--provider", provider, "--hold", DELAY)
        nanocm.ends(0)
        nanocm.said(ESTABLISHED=1, DISCONNECTED=1)
        status = ucmatose.status(PATIENCE)
        expect(status == 0 and "return status 0" in ucmatose.output(), f"ucmatose ended with status {status}")


def wire(trace):
    """On nanocm's side of the delay: its DREQ, then Linux's, then its DREP."""
    first, second = trace.named("DREQ")
    answers = [drep for drep in trace.named("DREP") if not drep.from_linux]
    if first.from_linux or not second.from_linux:
        yield "nanocm's DREQ does not come before Linux's"
    elif second.time - first.time > 2 * DELAY / 1000:
        yield "Linux had nanocm's DREQ when it sent its own"
    if len(answers) != 1 or answers[0].frame < second.frame:
        yield f"nanocm sent {len(answers)} DREPs, not one after Linux's DREQ"
