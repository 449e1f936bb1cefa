"""Linux's udaddy finds the datagram service of `nanocm listen --space udp`, four times at once."""

import network
from scenario import expect, here

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

QUESTIONS = 4
MESSAGES = {"SIDR_REQ": QUESTIONS, "SIDR_REP": QUESTIONS}
PORT = 7174  # udaddy has no other


def play(stage, provider, family):
    nanocm = stage.nanocm("listen", here(family, PORT), "--space", "udp", "--provider", provider, "--count", QUESTIONS)
    nanocm.comes_to_say("LISTENING")

    address = network.host_address(family)
    status, _ = stage.linux("udaddy", "-s", address, "-c", QUESTIONS, "-C", 0, limit=40)
    expect(status == 0, f"udaddy ended with status {status}")

    nanocm.ends(0)
    nanocm.said(LISTENING=1, CONNECT_REQUEST=QUESTIONS, ANSWERED=QUESTIONS)
