"""cmtime connects while a third host sprays nanocm with malformed packets, and with forgeries of what cmtime sends."""

import cmtime
import forge
import network
from scenario import expect, here

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4",)

CONNECTIONS = 100
MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), (CONNECTIONS, 2 * CONNECTIONS + 1))  # by kernel
# On a busy machine the spray fills nanocm's socket, so that packets of Linux are lost, and leaves the guest little time: it
# may answer a REP when nanocm has sent another, and that one with an MRA.
MESSAGES["MRA"] = (0, CONNECTIONS)
REPEATED = MESSAGES
PORT = 7471

# For what nanocm must count each kind of forgery; what else it counts is the sum of several.
IGNORED = {
    "wrong-icrc": "icrc", "wrong-base-version": "base-version", "wrong-class": "class",
    "wrong-class-version": "class-version", "wrong-method": "method", "wrong-attribute": "attribute",
    "guests-ids": "wrong-path",
}
COUNTED = {"framing", "unknown-connection", "unsupported", *IGNORED.values()}
REFUSED = ("no_listener", "bad_ip_cm_header", "bad_primary_path", "bad_transport", "stale_spoofed", "answers_limited")


def play(stage, provider, family):
    rounds = sum(cmtime.rounds(stage.guest.release.kernel, CONNECTIONS))
    nanocm = stage.nanocm("listen", here(family, PORT), *cmtime.BESIDE_TCP, "--provider", provider, "--count", rounds, "--counters")
    nanocm.comes_to_say("LISTENING")
    with forge.spraying(stage.folder, network.host_address(family), PORT) as tally:
        status, text = cmtime.client(stage, nanocm, PORT, CONNECTIONS)
        nanocm.ends(0)
    expect(status == 0, f"cmtime ended with status {status}")
    expect("event:" not in text, "cmtime had an event other than a good connect's")

    nanocm.said(LISTENING=1, CONNECT_REQUEST=rounds, ESTABLISHED=rounds, DISCONNECTED=rounds, COUNTERS=1)
    counters = nanocm.events("COUNTERS")[0]
    ignored = counters.get("ignored", {})
    expect(ignored.keys() == COUNTED, f"nanocm ignored packets for {sorted(ignored)}, not for {sorted(COUNTED)}")
    for kind, reason in IGNORED.items():
        expect(ignored[reason] <= tally.get(kind, 0),
               f"nanocm ignored {ignored[reason]} packets for {reason}, and {tally.get(kind, 0)} were forged")
    for name in REFUSED:
        expect(counters.get(name, 0) > 0, f"nanocm has counted no {name}")
