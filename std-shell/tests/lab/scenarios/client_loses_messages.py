"""Linux connects to `nanocm listen`, and of each message in turn the first is lost: over within 3 s, or when Linux asks again."""

import time

import cmtime
import faults
import network
from faults import FROM_LINUX, TO_LINUX
from scenario import PATIENCE, expect, here

PROVIDERS = ("raw",)
FAMILIES = ("v4",)

PORT = 7471
SOON = 3  # seconds

# As active side Linux repeats its DREQ when it would repeat its REQ: after 6.1 s (6.1), 4.6 s (later). It alone knows.
LINUXS_TURN = 10

# cmtime connects once, or three times; of its connections the first is the one that counts.
CONNECTIONS = (4 + 2 * 1, 4 + 2 * 3)
MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), CONNECTIONS)
REPEATED = ("REP", "RTU", "DREQ", "DREP")


def play(stage, provider, family):
    for lost, direction, connect, limit in (
        ("REP", TO_LINUX, nanocm_disconnects, SOON),  # nanocm repeats it
        ("RTU", FROM_LINUX, nanocm_disconnects, SOON),  # nanocm repeats the REP, which Linux answers
        ("DREQ", TO_LINUX, nanocm_disconnects, SOON),
        ("DREP", FROM_LINUX, nanocm_disconnects, SOON),  # nanocm repeats the DREQ
        ("DREQ", FROM_LINUX, linux_disconnects, LINUXS_TURN),
        ("DREP", TO_LINUX, linux_disconnects, SOON),  # but Linux must repeat the DREQ to know
    ):
        name = f"{'nanocm' if direction == TO_LINUX else 'Linux'}'s {lost} lost"
        with faults.loses(stage.guest, direction, lost):
            # Without --count: it is still there for what Linux repeats.
            nanocm = stage.nanocm("listen", here(family, PORT), *cmtime.BESIDE_TCP, "--provider", provider)
            nanocm.comes_to_say("LISTENING")
            connect(stage, nanocm, family, name, limit)


def nanocm_disconnects(stage, nanocm, family, name, limit):
    ucmatose = stage.linux_start("ucmatose", "-s", network.host_address(family), "-p", PORT, "-c", 1, "-C", 0)
    nanocm.comes_to_say("ESTABLISHED")
    asked = time.time()
    nanocm.signal("INT")
    nanocm.ends(0)
    status = ucmatose.status(PATIENCE)
    expect(status == 0 and "return status 0" in ucmatose.output(), f"{name}: ucmatose ended with status {status}")
    check(nanocm, name, 1, "local", asked, limit)


def linux_disconnects(stage, nanocm, family, name, limit):
    status, text = cmtime.client(stage, nanocm, PORT, 1)
    expect(status == 0 and "event:" not in text, f"{name}: cmtime ended with status {status}")
    nanocm.signal("INT")
    nanocm.ends(0)
    # cmtime disconnects at once.
    asked = nanocm.events("ESTABLISHED")[0]["time"]
    check(nanocm, name, sum(cmtime.rounds(stage.guest.release.kernel, 1)), "peer", asked, limit)


def check(nanocm, name, connections, cause, asked, limit):
    nanocm.said(LISTENING=1, CONNECT_REQUEST=connections, ESTABLISHED=connections, DISCONNECTED=connections)
    requested, established, over = (
        nanocm.events(event)[0] for event in ("CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED"))
    took = established["time"] - requested["time"]
    expect(took < SOON, f"{name}: established after {took:.1f} s, not within {SOON} s")
    took = over["time"] - asked
    expect(took < limit, f"{name}: over after {took:.1f} s, not within {limit} s")
    expect(over.get("cause") == cause, f"{name}: the cause of DISCONNECTED is {over.get('cause')}, not {cause}")
