"""Linux connects 1000 times at once with cmtime, newer kernels again without QPs; `nanocm listen` accepts, and answers each disconnect."""

import cmtime
from scenario import expect, here

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4",)

CONNECTIONS = 1000
MESSAGES = {**dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), (CONNECTIONS, 2 * CONNECTIONS + 1)),  # by kernel
            "MRA": (0, CONNECTIONS)}
PORT = 7471

# None, as a rule. cmtime takes up to a second over an answer; on a busy machine longer, and then nanocm sends its REP again,
# of which Linux says that it has it (MRA).
REPEATED = ("REP", "MRA", "RTU")


def play(stage, provider, family):
    all_rounds = sum(cmtime.rounds(stage, CONNECTIONS))
    nanocm = stage.nanocm("listen", here(family, PORT), "--provider", provider, "--count", all_rounds, "--counters")
    nanocm.comes_to_say("LISTENING")

    status, text = cmtime.client(stage, nanocm, PORT, CONNECTIONS)
    expect(status == 0, f"cmtime ended with status {status}")
    # The status of 6.1's is 0 even if each connect was rejected; then it prints the event.
    expect("event:" not in text, "cmtime had an event other than a good connect's")

    nanocm.ends(0)
    nanocm.said(LISTENING=1, CONNECT_REQUEST=all_rounds, ESTABLISHED=all_rounds, DISCONNECTED=all_rounds, COUNTERS=1)
    expect(all(event.get("cause") == "peer" for event in nanocm.events("DISCONNECTED")),
           "not each DISCONNECTED is the peer's")
    counters = nanocm.events("COUNTERS")[0]
    expect(counters.get("established") == all_rounds, f"nanocm counts {counters}")


def wire(trace):
    """A REP comes again only while it has not been answered."""
    answered = {rtu.remote_id: rtu.frame for rtu in reversed(trace.named("RTU"))}
    repeated = {rep.local_id for rep in trace.retransmissions if rep.name == "REP"}
    for again in trace.retransmissions:
        if again.name == "REP" and answered.get(again.local_id, again.frame) < again.frame:
            yield f"frame {again.frame}: a REP comes again that was answered in frame {answered[again.local_id]}"
        if again.name != "REP" and again.remote_id not in repeated:
            yield f"frame {again.frame}: {again.name} comes again, though no REP did"
