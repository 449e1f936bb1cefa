"""Two nanocms connect to Linux 500 times each, while two programs of Linux connect 500 times each to two other nanocms."""

import network
from scenario import PATIENCE, beside, expect, there

PROVIDERS = ("udp",)
FAMILIES = ("v4",)

EACH = 500
MESSAGES = {**dict.fromkeys(("REQ", "REP", "RTU", "DREQ"), 4 * EACH), "DREP": (4 * EACH, 5 * EACH), "MRA": (0, 4 * EACH),
            "REJ": (0, 2 * EACH)}
PORT = 7471

# An emulated guest takes seconds over so much at once. By then nanocm asks again (REQ, REP, DREQ), and so does Linux with
# its REP, for which nanocm's REQ gives a second; the rest are answers.
REPEATED = ("REQ", "REP", "RTU", "DREQ", "DREP", "MRA")

# Nobody disconnects before all are connected: a copy of a REQ that Linux comes to read after the end of its connection is
# a new request to it, and must not be accepted.
LIMIT = 120  # seconds, for what takes ten on an idle machine


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
                               "--parallel", EACH, "--timeout", LIMIT * 1000, "--hold", LIMIT * 1000)
                  for port, source in ((PORT, network.host_address(family)), (PORT + 1, network.second_address(family)))]

    # Linux's servers disconnect when they have all their connections.
    for connector, server in zip(connectors, servers):
        connector.ends(0, LIMIT)
        connector.said(ESTABLISHED=EACH, DISCONNECTED=EACH)
        expect(server.status(PATIENCE) is not None, "a server of Linux did not end")
        expect("cmatose: disconnecting" in server.output(), f"it has not all connections: {server.output().strip()}")

    # Linux's clients wait for it, and it is what a listener does when it is to end.
    for listener, client in zip(listeners, clients):
        listener.comes_to_say("ESTABLISHED", LIMIT, times=EACH)
        listener.signal("INT")
        listener.ends(0, LIMIT)
        listener.said(LISTENING=1, CONNECT_REQUEST=EACH, ESTABLISHED=EACH, DISCONNECTED=EACH, COUNTERS=1)
        expect(client.status(PATIENCE) == 0, f"a client of Linux did not end well: {client.output().strip()}")


def wire(trace):
    """Linux may not have read an answer when it repeats its REQ, but it must be there; and it may reject late copies."""
    answered = {(rep.src, rep.remote_id): rep.frame for rep in reversed(trace.named("REP"))}
    for again in trace.retransmissions:
        if again.name == "REQ" and again.from_linux and again.frame < answered[again.dst, again.local_id]:
            yield f"frame {again.frame}: nanocm has not answered Linux's REQ in time"
    over = {(dreq.dst, dreq.remote_id): dreq.frame for dreq in reversed(trace.named("DREQ"))}
    for rej in trace.named("REJ"):
        if not rej.from_linux or rej.frame < over.get((rej.dst, rej.remote_id), rej.frame + 1):
            yield f"frame {rej.frame}: a REJ for reason {rej.field('reason')}, not of a late copy"
