"""Faults of the wire, made by `tc` in the guest, as contexts: inside them packets are lost, late, doubled or shuffled.

    with faults.netem(guest, TO_LINUX, "loss", "20%"), faults.netem(guest, FROM_LINUX, "delay", "200ms"): ...
    with faults.loses(guest, FROM_LINUX, "REP"): ...    the first REP; leaving checks that it was lost
    with faults.cut(guest): ...                         nothing passes, either way

The capture is made on the host's side of the wire: it holds what Linux sent that was not lost, and all that nanocm sent.
"""

import contextlib
import re

import packets
from command import Trouble
from guest import NETDEV

TO_LINUX, FROM_LINUX = "ingress", "egress"

TC = "/usr/sbin/tc"  # by its path, since busybox's shell prefers a `tc` of its own
IP = "/usr/bin/ip"
MIRROR = "ifb0"  # the device through which packets for Linux take a detour, since only what leaves a device can be held up

# What a filter does with a packet that gets lost. After a `drop` on its way out Soft-RoCE would know, and send it again.
LOSE = "trap"

# From the beginning of an IPv4 header without options: where UDP has its destination port, and a MAD its attribute.
UDP_PORT_AT = 20 + 2
ATTRIBUTE_AT = 20 + 8 + 12 + 8 + 16
PACKET = 14 + 20 + 8 + 12 + 8 + 256 + 4  # octets of a CM message's frame


@contextlib.contextmanager
def netem(guest, direction, *what):
    """What netem is told, such as ("loss", "20%", "delay", "200ms"), for one direction."""
    if direction == FROM_LINUX:
        guest.must(TC, "qdisc", "add", "dev", NETDEV, "root", "netem", *what)
    else:
        guest.run(IP, "link", "add", MIRROR, "type", "ifb")  # which fails when it is there already
        guest.must(IP, "link", "set", MIRROR, "up")
        guest.must(TC, "qdisc", "add", "dev", MIRROR, "root", "netem", *what)
        guest.must(TC, "qdisc", "add", "dev", NETDEV, "clsact")
        guest.must(TC, "filter", "add", "dev", NETDEV, "ingress", "matchall",
                   "action", "mirred", "egress", "redirect", "dev", MIRROR)
    try:
        yield
    finally:
        if direction == FROM_LINUX:
            guest.must(TC, "qdisc", "del", "dev", NETDEV, "root")
        else:
            guest.must(TC, "qdisc", "del", "dev", NETDEV, "clsact")
            guest.must(TC, "qdisc", "del", "dev", MIRROR, "root")


@contextlib.contextmanager
def loses(guest, direction, message, times=1):
    """The first so many packets (IPv4) with that CM message in that direction."""
    attribute = next(code for code, name in packets.MESSAGES.items() if name == message)
    guest.must(TC, "qdisc", "add", "dev", NETDEV, "clsact")
    try:
        # A policer reversed: what is within its burst is lost, what exceeds it passes. It forgets ten octets a second.
        guest.must(TC, "filter", "add", "dev", NETDEV, direction, "protocol", "ip", "u32",
                   "match", "u16", str(packets.ROCE_PORT), "0xffff", "at", str(UDP_PORT_AT),
                   "match", "u16", str(attribute), "0xffff", "at", str(ATTRIBUTE_AT),
                   "action", "police", "rate", "80bit", "burst", str(times * PACKET + PACKET // 2),
                   "conform-exceed", f"ok/{LOSE}")
        yield
        _, shown = guest.run(TC, "-s", "filter", "show", "dev", NETDEV, direction)
        counted = re.search(r"(\d+) pkts? \(dropped 0, overlimits (\d+)", shown)
        lost = int(counted[1]) - int(counted[2]) if counted else 0
        if lost != times:
            raise Trouble(f"Of {message} {lost} were lost, not {times}.")
    finally:
        guest.must(TC, "qdisc", "del", "dev", NETDEV, "clsact")


@contextlib.contextmanager
def cut(guest):
    """The whole wire, ARP and all."""
    guest.must(TC, "qdisc", "add", "dev", NETDEV, "clsact")
    try:
        for direction in (TO_LINUX, FROM_LINUX):
            guest.must(TC, "filter", "add", "dev", NETDEV, direction, "matchall", "action", LOSE)
        yield
    finally:
        guest.must(TC, "qdisc", "del", "dev", NETDEV, "clsact")
