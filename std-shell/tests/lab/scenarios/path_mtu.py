"""Linux and nanocm ask for the path MTU that the interfaces allow: 1024 with one of 1500 octets, 4096 with 9000."""

import contextlib

import both_ways
import network
from command import output
from guest import IP, NETDEV
from scenario import expect

PROVIDERS = ("raw",)  # it is not the provider's
FAMILIES = ("v4", "v6")

# The interfaces' MTU, the REQs' code for the path's. Soft-RoCE follows its interface, without a new link.
CODES = {1500: 3, 9000: 5}

MESSAGES = {name: number * len(CODES) for name, number in both_ways.MESSAGES.items()}


def play(stage, provider, family):
    ours, theirs, _ = network.ADDRESSES[family]
    for mtu in CODES:
        with interfaces(stage.guest, mtu):
            # Octets of data in a packet that may not be cut: MTU less the largest headers.
            status, _ = stage.linux("ping", "-c", 1, "-W", 5, "-s", mtu - 48, ours)
            expect(status == 0, f"packets of {mtu} octets do not arrive")
            both_ways.connect(stage, provider, ours, theirs)


@contextlib.contextmanager
def interfaces(guest, mtu):
    """Both ends of the wire have that MTU."""
    set_mtu(guest, mtu)
    try:
        yield
    finally:
        set_mtu(guest, 1500)


def set_mtu(guest, mtu):
    output(["ip", "link", "set", network.TAP, "mtu", str(mtu)])
    guest.must(IP, "link", "set", NETDEV, "mtu", str(mtu))


def wire(trace):
    said = [message.field("path_mtu") for message in trace.messages if message.name == "REQ"]
    if said != [code for code in CODES.values() for _ in range(both_ways.CONNECTIONS)]:
        yield f"the REQs' codes for the path MTU are {said}"
