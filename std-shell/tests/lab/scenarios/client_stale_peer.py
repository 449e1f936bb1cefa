"""Linux loses its RDMA device while the wire is cut and comes back with the same queue pair number: rejected as stale, once."""

import faults
import network
from guest import NETDEV, RDMA_DEVICE
from scenario import PATIENCE, expect, here

PROVIDERS = ("raw",)
FAMILIES = ("v4",)

# nanocm's DREQ is for the first connection; Linux, which has forgotten it, answers.
MESSAGES = {"REQ": 3, "REP": 2, "RTU": 2, "REJ": 1, "DREQ": 2, "DREP": 2}
PORT = 7471


def play(stage, provider, family):
    nanocm = stage.nanocm("listen", here(family, PORT), "--provider", provider, "--counters")
    nanocm.comes_to_say("LISTENING")
    renew_device(stage)
    first = client(stage, family)
    nanocm.comes_to_say("ESTABLISHED")
    with faults.cut(stage.guest):
        first.kill()
        renew_device(stage)
    expect(not nanocm.events("DISCONNECTED"), "nanocm was told of the end")

    second = client(stage, family)
    expect(second.status(PATIENCE) is not None, "the client that comes back does not end")
    expect("event: RDMA_CM_EVENT_REJECTED, error: 10" in second.output(), "Linux says nothing of a REJ 10")
    expect(nanocm.comes_to_say("DISCONNECTED").get("cause") == "peer", "the DISCONNECTED is not the peer's")
    third = client(stage, family)
    nanocm.comes_to_say("ESTABLISHED", times=2)
    nanocm.signal("INT")
    nanocm.ends(0)
    nanocm.said(LISTENING=1, CONNECT_REQUEST=2, ESTABLISHED=2, DISCONNECTED=2, COUNTERS=1)
    expect(nanocm.events("COUNTERS")[0].get("stale") == 1, "nanocm does not count one stale connection")
    expect(third.status(PATIENCE) == 0, "the last client did not end well")


def renew_device(stage):
    """Its queue pairs are numbered from the beginning again."""
    stage.guest.must("rdma", "link", "delete", RDMA_DEVICE)
    stage.guest.must("rdma", "link", "add", RDMA_DEVICE, "type", "rxe", "netdev", NETDEV)


def client(stage, family):
    return stage.linux_start("ucmatose", "-s", network.host_address(family), "-p", PORT, "-c", 1, "-C", 0)
