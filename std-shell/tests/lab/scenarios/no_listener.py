"""`nanocm connect` to a port where Linux has no listener is rejected with reason 8, invalid service ID."""

from scenario import expect, there

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

MESSAGES = {"REQ": 1, "REJ": 1}
PORT = 7999


def play(stage, provider, family):
    nanocm = stage.nanocm("connect", there(family, PORT), "--provider", provider)
    nanocm.ends(1)
    reasons = [event.get("reason") for event in nanocm.events("REJECTED")]
    expect(reasons == [8], f"nanocm was rejected for {reasons}, not once for reason 8")
    expect(not nanocm.events("ESTABLISHED"), "nanocm says ESTABLISHED without a peer")
