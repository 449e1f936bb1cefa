"""Linux connects to nanocm, and nanocm to Linux, in VLAN 7: Linux's end is eth0.7, and the wire shows the tags."""

import contextlib

import both_ways
import vlan
from both_ways import MESSAGES
from guest import IP, NETDEV
from network import nodad
from scenario import PATIENCE, expect

PROVIDERS = ("raw",)  # to nanocm this is an interface like any other
FAMILIES = ("v4", "v6")

INTERFACE = f"{NETDEV}.{vlan.ID}"


def play(stage, provider, family):
    ours, theirs, prefix = vlan.ADDRESSES[family]
    with vlan.access_port(stage.folder), vlan_interface(stage.guest, theirs, prefix):
        # An IPv6 interface needs some time, and ucmatose does not give it that.
        expect(stage.guest.becomes_true(f"ping -c 1 -W 1 {ours}", PATIENCE), f"Linux does not reach {ours}")
        both_ways.connect(stage, provider, ours, theirs)


@contextlib.contextmanager
def vlan_interface(guest, address, prefix):
    """Soft-RoCE needs no link of its own for it: rxe0 gets a GID for each address of a VLAN on eth0."""
    guest.must(IP, "link", "add", "link", NETDEV, "name", INTERFACE, "type", "vlan", "id", str(vlan.ID))
    try:
        guest.must(IP, "address", "add", f"{address}/{prefix}", "dev", INTERFACE, *nodad(address))
        guest.must(IP, "link", "set", INTERFACE, "up")
        yield
    finally:
        guest.must(IP, "link", "delete", INTERFACE)


def wire(trace):
    for message in trace.messages:
        if message.vlan != vlan.ID:
            yield f"frame {message.frame}: {message.name} from {message.src} travels in VLAN {message.vlan}"
