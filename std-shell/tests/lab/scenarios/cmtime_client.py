"""Linux connects 1000 times at once with cmtime, newer kernels again without QPs; `nanocm listen` accepts, and answers each disconnect."""

import cmtime
from scenario import expect, here

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4",)

CONNECTIONS = 1000
MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), (CONNECTIONS, 2 * CONNECTIONS + 1))  # see wire()
PORT = 7471

# Linux has room for 512 messages that it has not looked at. A busy guest drops some of a thousand, and counts them; those
# alone may come again.
REPEATED = ("REQ", "REP", "DREQ", "DREP")


def play(stage, provider, family):
    all_rounds = sum(cmtime.rounds(stage.guest.release.kernel, CONNECTIONS))
    nanocm = stage.nanocm("listen", here(family, PORT), *cmtime.BESIDE_TCP, "--provider", provider, "--count", all_rounds, "--counters")
    nanocm.comes_to_say("LISTENING")

    dropped = stage.guest.dropped()
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
    dropped = stage.guest.dropped() - dropped
    again = counters.get("retransmitted", 0) + counters.get("duplicates", 0)
    expect(again <= 2 * dropped, f"{again} messages came again, though Linux has dropped {dropped} alone")


def wire(trace):
    each = sum(cmtime.rounds(trace.kernel, CONNECTIONS))
    for name, count in trace.count().items():
        if count != each:
            yield f"on the wire: {count} {name}, not {each}"
