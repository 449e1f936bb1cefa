"""`nanocm listen --reject` turns down Linux's rping, rdma_client and ucmatose, with private data; they report the reason."""

import network
from scenario import expect, here

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

MESSAGES = {"REQ": 3, "REJ": 3}
PORT = 7471
PRIVATE_DATA = bytes(range(148))

REQ_REJECTED, NO_RESOURCES, CONSUMER = 0, 3, 28


def play(stage, provider, family):
    server = network.host_address(family)

    nanocm = rejecting(stage, provider, family, "consumer", 2)
    _, text = stage.linux("rping", "-c", "-a", server, "-p", PORT, "-C", 1)
    expect("RDMA_CM_EVENT_REJECTED, error 28" in text, f"rping was not rejected for reason 28: {text.strip()}")
    _, text = stage.linux("rdma_client", "-s", server, "-p", PORT)
    expect("rdma_connect: Connection refused" in text, f"rdma_client was not rejected: {text.strip()}")
    ends(nanocm, CONSUMER, 2)

    nanocm = rejecting(stage, provider, family, "no-resources", 1)
    status, text = stage.linux("ucmatose", "-s", server, "-p", PORT, "-C", 0)
    expect("RDMA_CM_EVENT_REJECTED, error: 3" in text, f"ucmatose was not rejected for reason 3: {text.strip()}")
    expect(status == NO_RESOURCES, f"ucmatose ended with status {status}")
    ends(nanocm, NO_RESOURCES, 1)


def rejecting(stage, provider, family, reason, count):
    nanocm = stage.nanocm("listen", here(family, PORT), "--provider", provider, "--count", count, "--reject", reason,
                          "--private-data", PRIVATE_DATA.hex())
    nanocm.comes_to_say("LISTENING")
    return nanocm


def ends(nanocm, reason, count):
    nanocm.ends(0)
    nanocm.said(LISTENING=1, CONNECT_REQUEST=count, REJECTED=count)
    said = {event.get("reason") for event in nanocm.events("REJECTED")}
    expect(said == {reason}, f"nanocm says that it rejected for {said}, not for {reason}")


def wire(trace):
    rejections = trace.named("REJ")
    reasons = [rej.field("reason") for rej in rejections]
    if reasons != [CONSUMER, CONSUMER, NO_RESOURCES]:
        yield f"the reasons of the REJs are {reasons}"
    for rej in rejections:
        if rej.field("rejected") != REQ_REJECTED:
            yield f"frame {rej.frame}: the REJ is not of a REQ"
        if rej.private_data != PRIVATE_DATA:
            yield f"frame {rej.frame}: the REJ's private data is {rej.private_data.hex()}"
