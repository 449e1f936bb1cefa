"""Linux connects to nanocm, and nanocm to Linux, at the link-local addresses of the wire's two ends."""

import re

import both_ways
import network
import processes
from both_ways import MESSAGES
from command import output
from guest import IP, NETDEV
from scenario import PATIENCE, expect

PROVIDERS = ("raw", "udp")
FAMILIES = ("v6",)


def play(stage, provider, family):
    ours = link_local(network.TAP, lambda *command: output(["ip", *command]))
    theirs = link_local(NETDEV, lambda *command: stage.guest.run(IP, *command)[1])
    both_ways.connect(stage, provider, ours, theirs, links=(f"%{network.TAP}", f"%{NETDEV}"))


def link_local(interface, ip):
    """An interface's own, once it is known to be nobody else's."""
    shown = ("-6", "-oneline", "address", "show", "dev", interface, "scope", "link", "-tentative")
    processes.eventually(lambda: "fe80:" in ip(*shown), PATIENCE)
    found = re.search(r"inet6 (fe80:\S+)/", ip(*shown))
    expect(found, f"{interface} has no link-local address")
    return found.group(1)


def wire(trace):
    for message in trace.messages:
        if not message.src.startswith("fe80:") or not message.dst.startswith("fe80:"):
            yield f"frame {message.frame}: {message.name} travels from {message.src} to {message.dst}"
