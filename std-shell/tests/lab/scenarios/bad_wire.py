"""100 connections by nanocm and 100 by Linux over a wire that loses, doubles, shuffles and delays: each ends, and is accounted for."""

import collections

import cmtime
import faults
import network
from scenario import expect, here, there

PROVIDERS = ("udp",)
FAMILIES = ("v4",)

NETEM = ("delay", "200ms", "reorder", "25%", "loss", "20%", "duplicate", "10%")
CONNECTIONS = 100
PATIENCE = 150  # seconds; it takes a third as a rule

MESSAGES = {**dict.fromkeys(("REQ", "REP", "DREQ", "DREP"), (2 * CONNECTIONS, 2 * CONNECTIONS + 1)),
            "RTU": (1.5 * CONNECTIONS, 2 * CONNECTIONS + 1), "MRA": (0, 2 * CONNECTIONS), "REJ": (0, 20)}
REPEATED = ("REQ", "REP", "RTU", "MRA", "DREQ", "DREP", "REJ")
INCOMPLETE = CONNECTIONS // 4  # which lack an RTU
UNREACHABLE = True  # of a nanocm that has ended
PORT = 7471

COUNTED = {}  # nanocm's address -> its counters


def play(stage, provider, family):
    guest, listens_at, connects_from = (network.guest_address(family), network.host_address(family),
                                        network.other_address(family, 1))
    # cmtime connects so many times in each round but the first; ucmatose disconnects when it has so many.
    in_round = CONNECTIONS // len(cmtime.rounds(stage.guest.release.kernel, 1)[1:] or [1])
    by_linux = sum(cmtime.rounds(stage.guest.release.kernel, in_round))
    ucmatose = stage.linux_server(PORT, "ucmatose", "-b", guest, "-p", PORT, "-c", CONNECTIONS, "-C", 0)
    listener = stage.nanocm("listen", here(family, PORT), *cmtime.BESIDE_TCP, "--provider", provider, "--counters")
    listener.comes_to_say("LISTENING")
    with faults.netem(stage.guest, faults.TO_LINUX, *NETEM), faults.netem(stage.guest, faults.FROM_LINUX, *NETEM):
        client = stage.nanocm("connect", there(family, PORT), "--from", connects_from, "--provider", provider, "--count",
                              CONNECTIONS, "--parallel", CONNECTIONS, "--timeout", PATIENCE * 1000, "--hold",
                              PATIENCE * 1000, "--counters")
        status, text = cmtime.client(stage, listener, PORT, in_round, limit=PATIENCE)
        client.ends(0, PATIENCE)
        expect(ucmatose.status(PATIENCE) == 0, "ucmatose did not end well")
    listener.signal("INT")
    listener.ends(0)

    client.said(ESTABLISHED=CONNECTIONS, DISCONNECTED=CONNECTIONS, COUNTERS=1)
    requests, over, given_up = (
        len(listener.events(event)) for event in ("CONNECT_REQUEST", "DISCONNECTED", "UNREACHABLE"))
    expect(requests == over + given_up == by_linux,
           f"of {requests} requests {over} were disconnected, {given_up} given up; cmtime connects {by_linux} times")
    # A client whose RTUs are all lost is there for itself alone, for as long as nanocm's deadline allows.
    expect(status == 0 and text.count("event:") <= given_up, f"cmtime ended with status {status}")
    for nanocm, address in ((listener, listens_at), (client, connects_from)):
        COUNTED[address] = nanocm.events("COUNTERS")[0]
        said, counted = len(nanocm.events("ESTABLISHED")), COUNTED[address]["established"]
        expect(said == counted, f"{nanocm.shown} says ESTABLISHED {said} times and counts {counted}")


def wire(trace):
    """Nothing is lost on nanocm's side, so its counters and the capture are the same."""
    if len(trace.retransmissions) < CONNECTIONS:
        yield f"the wire was not bad: {len(trace.retransmissions)} messages came again"
    for address, counters in COUNTED.items():
        counters = collections.Counter(counters)  # what it does not name is 0
        sent, sent_again = (
            [m.name for m in messages if m.src == address] for messages in (trace.messages, trace.retransmissions))
        received, received_again = (
            [m.name for m in messages if m.dst == address] for messages in (trace.messages, trace.retransmissions))
        # What came after its last word, it may not have seen.
        last = max(m.frame for m in trace.messages + trace.retransmissions if m.src == address)
        too_late = sum(m.dst == address and m.frame > last for m in trace.messages + trace.retransmissions)
        everything = len(received + received_again)
        yield from between(address, "received", counters["received"], everything - too_late, everything)
        yield from between(address, "sent", counters["sent"], len(sent + sent_again), len(sent + sent_again))
        # Some DREPs are answers to an unknown connection's DREQ.
        most = len(sent_again)
        yield from between(address, "retransmitted", counters["retransmitted"], most - sent_again.count("DREP"), most)
        # What is there again changes nothing, but that an MRA may; what comes late for the first time may not either.
        in_vain = counters["duplicates"] + sum(counters.get("ignored", {}).values())
        least = len(received_again) - received_again.count("MRA") - too_late
        late = received.count("MRA") + received.count("RTU")
        yield from between(address, "duplicates and ignored", in_vain, least, len(received_again) + late)


def between(address, name, counted, least, most):
    if not least <= counted <= most:
        yield f"{address} counts {name}: {counted}; on the wire are {least if least == most else f'{least} to {most}'}"
