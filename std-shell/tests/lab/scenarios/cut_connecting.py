"""The wire is cut for 10 s while REQs and REPs are under way, of both sides: all are established when it is mended."""

import time

import faults
import network
from scenario import PATIENCE, beside, expect, here, there

PROVIDERS = ("udp",)
FAMILIES = ("v4",)

SECONDS = 10
MENDED = 20  # seconds, to which the intervals between repetitions have grown

MESSAGES = {**dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), 4), "MRA": (0, 4)}
REPEATED = ("REQ", "REP", "RTU", "DREQ", "DREP", "MRA")
PORT = 7471


def play(stage, provider, family):
    guest = network.guest_address(family)
    hasty, slow = (
        stage.linux_server(port, "rping", "-s", "-a", guest, "-p", port, "-v", "-C", 1) for port in (PORT, PORT + 1))
    listens = [
        stage.nanocm("listen", where, "--provider", provider, "--accept-after", after, "--counters")
        for where, after in ((here(family, PORT), 0), (beside(family, PORT, 1), 2000))]
    for nanocm in listens:
        nanocm.comes_to_say("LISTENING")

    # Two have been asked and have not answered yet.
    slow.signal("STOP")
    connects = [connect(stage, provider, family, PORT + 1, 2)]
    clients = [client(stage, network.other_address(family, 1))]
    listens[1].comes_to_say("CONNECT_REQUEST")
    expect(stage.guest.becomes_true(f"rdma resource show cm_id | grep -q 'state CONNECT .*:{PORT + 1} '", PATIENCE),
           "nanocm's REQ has not reached Linux")

    with faults.cut(stage.guest):
        slow.signal("CONT")
        connects.append(connect(stage, provider, family, PORT, 3))
        clients.append(client(stage, network.host_address(family)))
        time.sleep(SECONDS)
        for nanocm in (*connects, *listens):
            expect(not nanocm.events("ESTABLISHED"), f"{nanocm.shown} says ESTABLISHED while the wire is cut")

    for nanocm in connects:
        nanocm.ends(0, MENDED)
        nanocm.said(ESTABLISHED=1, DISCONNECTED=1, COUNTERS=1)
    for nanocm in listens:
        nanocm.comes_to_say("ESTABLISHED", MENDED)
        nanocm.signal("INT")
        nanocm.ends(0)
        nanocm.said(LISTENING=1, CONNECT_REQUEST=1, ESTABLISHED=1, DISCONNECTED=1, COUNTERS=1)
    for ucmatose in clients:
        expect(ucmatose.status(PATIENCE) == 0, f"`{ucmatose.shown}` did not end well")
    for rping in (hasty, slow):
        expect(rping.status(PATIENCE) is not None, f"`{rping.shown}` did not end")


def connect(stage, provider, family, port, which):
    source = network.other_address(family, which)
    return stage.nanocm("connect", there(family, port), "--from", source, "--provider", provider, "--counters")


def client(stage, server):
    return stage.linux_start("ucmatose", "-s", server, "-p", PORT, "-c", 1, "-C", 0)
