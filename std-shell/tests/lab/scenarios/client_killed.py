"""Linux's ucmatose is killed in each phase of its connection to `nanocm listen`, which is told; the next one connects."""

import time

import network
from scenario import PATIENCE, beside, expect, here

PROVIDERS = ("raw",)
FAMILIES = ("v4",)

# A client that is killed leaves a REJ 4 if it had no REP, a REJ 28 if it had not answered it, a DREQ if it was
# established, and a DREP if it had not answered a DREQ.
MESSAGES = {"REQ": 6, "REP": 5, "MRA": (0, 1), "REJ": 2, "RTU": 4, "DREQ": 4, "DREP": 4}
REPEATED = ("REP", "MRA", "DREQ")
PORT = 7471
THOUGHT = 3  # seconds


def play(stage, provider, family):
    # One never answers, one thinks first, one answers at once.
    wheres = (here(family, PORT), beside(family, PORT, 1), beside(family, PORT, 2))
    never, slow, prompt = (
        stage.nanocm("listen", where, "--provider", provider, "--accept-after", seconds * 1000, "--counters")
        for where, seconds in zip(wheres, (60, THOUGHT, 0)))
    for nanocm in (never, slow, prompt):
        nanocm.comes_to_say("LISTENING")
    to_never, to_slow, to_prompt = (network.host_address(family), network.other_address(family, 1),
                                    network.other_address(family, 2))

    # It will not answer the REP.
    unanswering = client(stage, to_slow)
    slow.comes_to_say("CONNECT_REQUEST")
    unanswering.signal("STOP")
    thinks_until = time.monotonic() + THOUGHT

    asking = client(stage, to_never)
    never.comes_to_say("CONNECT_REQUEST")
    asking.kill()
    rejected(never, 4)
    never.signal("INT")
    never.ends(0)
    never.said(LISTENING=1, CONNECT_REQUEST=1, REJECTED=1, COUNTERS=1)

    connected = client(stage, to_prompt)
    prompt.comes_to_say("ESTABLISHED")
    connected.kill()
    expect(prompt.comes_to_say("DISCONNECTED").get("cause") == "peer", "the DISCONNECTED is not the killed client's")

    time.sleep(max(0, thinks_until + 1.5 - time.monotonic()))  # until the REP is there, and once more
    unanswering.kill()
    rejected(slow, 28)
    clients = [client(stage, to_slow)]
    slow.comes_to_say("ESTABLISHED")
    slow.signal("INT")
    slow.ends(0)
    slow.said(LISTENING=1, CONNECT_REQUEST=2, REJECTED=1, ESTABLISHED=1, DISCONNECTED=1, COUNTERS=1)

    # It will not answer the DREQ.
    unanswering = client(stage, to_prompt)
    prompt.comes_to_say("ESTABLISHED", times=2)
    unanswering.signal("STOP")
    clients.append(client(stage, to_prompt))
    prompt.comes_to_say("ESTABLISHED", times=3)
    prompt.signal("INT")
    prompt.comes_to_say("DISCONNECTED", times=2)
    unanswering.kill()
    prompt.ends(0)
    prompt.said(LISTENING=1, CONNECT_REQUEST=3, ESTABLISHED=3, DISCONNECTED=3, COUNTERS=1)
    for ucmatose in clients:
        expect(ucmatose.status(PATIENCE) == 0, f"`{ucmatose.shown}` did not end well")


def client(stage, server):
    return stage.linux_start("ucmatose", "-s", server, "-p", PORT, "-c", 1, "-C", 0)


def rejected(nanocm, expected):
    reason = nanocm.comes_to_say("REJECTED").get("reason")
    expect(reason == expected, f"{nanocm.shown} says REJECTED for reason {reason}, not {expected}")
