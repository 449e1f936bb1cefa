"""Linux's ucmatose and `nanocm connect` disconnect at once: Linux's DREQ is still under way when nanocm sends its own."""

import faults
import network
from scenario import PATIENCE, expect, there

PROVIDERS = ("udp",)
FAMILIES = ("v4",)

MESSAGES = {"REQ": 1, "MRA": (0, 1), "REP": 1, "RTU": 1, "DREQ": 2, "DREP": (1, 2)}
REPEATED = ("REQ", "REP", "RTU", "DREQ")
UNREACHABLE = True  # if Linux's DREP still comes when nanocm, its work done, has ended
PORT = 7471  # ucmatose has no other

# What Linux sends comes late, what nanocm sends does not. ucmatose disconnects when the RTU is there, nanocm so much
# later that it does for certain, and so much before Linux's DREQ comes.
DELAY = 3000  # ms
HOLD = DELAY // 2


def play(stage, provider, family):
    ucmatose = stage.linux_server(PORT, "ucmatose", "-b", network.guest_address(family), "-c", 1, "-C", 0)
    with faults.netem(stage.guest, faults.FROM_LINUX, "delay", f"{DELAY}ms"):
        nanocm = stage.nanocm("connect", there(family, PORT), "--provider", provider, "--hold", HOLD)
        nanocm.ends(0)
        nanocm.said(ESTABLISHED=1, DISCONNECTED=1)
        status = ucmatose.status(PATIENCE)
        expect(status == 0 and "return status 0" in ucmatose.output(), f"ucmatose ended with status {status}")


def wire(trace):
    ours = next(dreq for dreq in trace.named("DREQ") if not dreq.from_linux)
    theirs = next(dreq for dreq in trace.named("DREQ") if dreq.from_linux)
    if not ours.time < theirs.time < ours.time + DELAY / 1000:
        yield f"the DREQs do not cross: Linux's comes {theirs.time - ours.time:.1f} s after nanocm's"
    if [drep.frame > theirs.frame for drep in trace.named("DREP") if not drep.from_linux] != [True]:
        yield "nanocm does not answer Linux's DREQ with one DREP"
