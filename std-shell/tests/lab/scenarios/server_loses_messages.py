"""`nanocm connect` to Linux's ucmatose, and of each message in turn the first is lost: established and over within 3 s."""

import time

import faults
import network
from faults import FROM_LINUX, TO_LINUX
from scenario import PATIENCE, expect, there

PROVIDERS = ("raw",)
FAMILIES = ("v4",)

PORT = 7471
SOON = 3  # seconds
HOLD = 10  # seconds: longer than Linux may take

CASES = (
    ("REP", FROM_LINUX, "peer"),  # Linux repeats it, as soon as the REQ says
    ("RTU", TO_LINUX, "peer"),  # Linux repeats the REP, which nanocm answers
    ("DREQ", FROM_LINUX, "peer"),
    ("DREP", TO_LINUX, "peer"),  # Linux repeats the DREQ, which nanocm answers
    ("DREQ", TO_LINUX, "local"),
    ("DREP", FROM_LINUX, "local"),
)
MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), len(CASES))
REPEATED = ("REQ", "REP", "RTU", "DREQ", "DREP")


def play(stage, provider, family):
    for lost, direction, cause in CASES:
        name = f"{'nanocm' if direction == TO_LINUX else 'Linux'}'s {lost} lost"
        with faults.loses(stage.guest, direction, lost):
            play_case(stage, provider, family, name, cause)


def play_case(stage, provider, family, name, cause):
    address = network.guest_address(family)
    # ucmatose disconnects at once; rping waits for data.
    if cause == "peer":
        server = stage.linux_server(PORT, "ucmatose", "-b", address, "-p", PORT, "-c", 1, "-C", 0)
        hold = HOLD * 1000
    else:
        server = stage.linux_server(PORT, "rping", "-s", "-a", address, "-p", PORT, "-v", "-C", 1)
        hold = 0
    start = time.time()
    nanocm = stage.nanocm("connect", there(family, PORT), "--provider", provider, "--hold", hold)
    nanocm.comes_to_say("DISCONNECTED")
    status = server.status(PATIENCE)
    linux_over = time.time()
    expect(status is not None, f"{name}: `{server.shown}` did not end")
    nanocm.ends(0)

    nanocm.said(ESTABLISHED=1, DISCONNECTED=1)
    established, over = (nanocm.events(event)[0] for event in ("ESTABLISHED", "DISCONNECTED"))
    expect(over.get("cause") == cause, f"{name}: the cause of DISCONNECTED is {over.get('cause')}, not {cause}")
    for what, took in (
        ("established", established["time"] - start),
        ("over for nanocm", over["time"] - established["time"]),
        ("over for Linux", linux_over - established["time"]),
    ):
        expect(took < SOON, f"{name}: {what} after {took:.1f} s, not within {SOON} s")
