"""The wire is cut for 10 s while DREQs of nanocm and of Linux are under way: both connections end when it is mended."""

import time

import faults
import network
from faults import FROM_LINUX
from scenario import PATIENCE, expect, there

PROVIDERS = ("raw",)
FAMILIES = ("v4",)

SECONDS = 10
MENDED = 20  # seconds, to which the intervals between repetitions have grown

MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), 2)
REPEATED = ("DREQ", "DREP")
PORT = 7471


def play(stage, provider, family):
    guest = network.guest_address(family)
    # ucmatose disconnects at once, rping waits for data.
    ucmatose = stage.linux_server(PORT, "ucmatose", "-b", guest, "-p", PORT, "-c", 1, "-C", 0)
    rping = stage.linux_server(PORT + 1, "rping", "-s", "-a", guest, "-p", PORT + 1, "-v", "-C", 1)

    with faults.loses_each(stage.guest, FROM_LINUX, "DREQ"):
        waits = connect(stage, provider, family, PORT, 1, 60)
        waits.comes_to_say("ESTABLISHED")
        ends = connect(stage, provider, family, PORT + 1, 2, 4)
        ends.comes_to_say("ESTABLISHED")
        with faults.cut(stage.guest):
            expect(not ends.events("DISCONNECTED"), "the wire was cut too late")
            time.sleep(SECONDS)
            for nanocm in (waits, ends):
                expect(not nanocm.events("DISCONNECTED"), f"{nanocm.shown} says DISCONNECTED while the wire is cut")
            expect("disconnected" not in ucmatose.output(), "ucmatose is disconnected while the wire is cut")

    for nanocm, cause in ((waits, "peer"), (ends, "local")):
        nanocm.ends(0, MENDED)
        nanocm.said(ESTABLISHED=1, DISCONNECTED=1, COUNTERS=1)
        said = nanocm.events("DISCONNECTED")[0].get("cause")
        expect(said == cause, f"the cause of the DISCONNECTED of {nanocm.shown} is {said}, not {cause}")
    status = ucmatose.status(PATIENCE)
    expect(status == 0 and "return status 0" in ucmatose.output(), f"ucmatose ended with status {status}")
    expect(rping.status(PATIENCE) is not None and "DISCONNECT EVENT" in rping.output(), "rping saw no DISCONNECT EVENT")


def connect(stage, provider, family, port, which, seconds):
    source = network.other_address(family, which)
    return stage.nanocm("connect", there(family, port), "--from", source, "--provider", provider, "--hold", seconds * 1000,
                        "--counters")
