"""Linux connects 200 times at once with cmtime; `nanocm listen` accepts each and answers each disconnect."""

import network
from scenario import expect, here

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

CONNECTIONS = 200
MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), CONNECTIONS)
PORT = 7471


def play(stage, provider, family):
    nanocm = stage.nanocm("listen", here(family, PORT), "--provider", provider, "--count", CONNECTIONS)
    nanocm.comes_to_say("LISTENING")

    status, text = stage.linux("cmtime", "-s", network.host_address(family), "-p", PORT, "-c", CONNECTIONS, limit=40)
    expect(status == 0, f"cmtime ended with status {status}")
    # Its status is 0 even if each connect was rejected; then it prints the event.
    expect("event:" not in text, "cmtime had an event other than a good connect's")

    nanocm.ends(0)
    nanocm.said(LISTENING=1, CONNECT_REQUEST=CONNECTIONS, ESTABLISHED=CONNECTIONS, DISCONNECTED=CONNECTIONS)
    expect(all(event.get("cause") == "peer" for event in nanocm.events("DISCONNECTED")),
           "not each DISCONNECTED is the peer's")
