"""Two nanocms connect to Linux 500 times each, while two programs of Linux connect 500 times each to two other nanocms."""

import network
from scenario import PATIENCE, beside, expect, there

PROVIDERS = ("udp",)
FAMILIES = ("v4",)

EACH = 500
# The more, since Linux's servers disconnect too when they have all their connections, and confirm a disconnect twice.
MESSAGES = {**dict.fromkeys(("REQ", "REP", "RTU"), 4 * EACH), **dict.fromkeys(("DREQ", "DREP"), (4 * EACH, 6 * EACH)),
            "MRA": (0, 4 * EACH)}
PORT = 7471

# An emulated guest takes more than a second over so much at once. By then nanocm asks again (REQ, REP, DREQ), and so does
# Linux with its REP, for which nanocm's REQ gives a second; the rest are answers. Linux's REQs are for nanocm to answer
# in time, so none of them may come twice.
REPEATED = ("REQ", "REP", "RTU", "DREQ", "DREP", "MRA")

# Milliseconds that nanocm holds a connection, and so that each copy of a REQ finds it: to one that comes later Linux
# answers as to a new one. (Its CM may also take a DREQ before the RTU that came just before it, for it works on two CPUs.)
HOLD = 4000

LIMIT = 60  # seconds


def play(stage, provider, family):
    servers = [stage.linux_server(port, "ucmatose", "-b", network.guest_address(family), "-p", port, "-c", EACH, "-C", 0)
               for port in (PORT, PORT + 1)]
    listeners = [stage.nanocm("listen", beside(family, PORT, which), "--provider", provider, "--counters")
                 for which in (2, 3)]
    for listener in listeners:
        listener.comes_to_say("LISTENING")

    clients = [stage.linux_start("ucmatose", "-s", network.other_address(family, which), "-p", PORT, "-c", EACH, "-C", 0)
               for which in (2, 3)]
    connectors = [stage.nanocm("connect", there(family, port), "--from", source, "--provider", provider, "--count", EACH,
                               "--parallel", EACH // 2, "--hold", HOLD)
                  for port, source in ((PORT, network.host_address(family)), (PORT + 1, network.second_address(family)))]

    for connector, server in zip(connectors, servers):
        connector.ends(0, LIMIT)
        connector.said(ESTABLISHED=EACH, DISCONNECTED=EACH)
        expect(server.status(PATIENCE) == 0, f"a server of Linux did not end well: {server.output().strip()}")

    # Linux's clients wait for the disconnect, which is what a listener does when it is to end.
    for listener, client in zip(listeners, clients):
        listener.comes_to_say("ESTABLISHED", LIMIT, times=EACH)
        listener.signal("INT")
        listener.ends(0, LIMIT)
        listener.said(LISTENING=1, CONNECT_REQUEST=EACH, ESTABLISHED=EACH, DISCONNECTED=EACH, COUNTERS=1)
        expect(client.status(PATIENCE) == 0, f"a client of Linux did not end well: {client.output().strip()}")


def wire(trace):
    for again in trace.retransmissions:
        if again.name == "REQ" and again.from_linux:
            yield f"frame {again.frame}: nanocm has not answered Linux's REQ in time"
