"""Faults of the wire, made by `tc` in the guest, as contexts: inside them packets are lost, late, doubled or shuffled.

    with faults.netem(guest, TO_LINUX, "loss", "20%"), faults.netem(guest, FROM_LINUX, "delay", "200ms"): ...
    with faults.loses(guest, FROM_LINUX, "REP"): ...    the first REP; leaving checks that it was lost
    with faults.cut(guest): ...                         nothing passes, either way
    with faults.loses_each(guest, FROM_LINUX, "DREQ"): ...    no DREQ passes; leaving checks that one was lost

The capture is made on the host's side of the wire: it holds what Linux sent that was not lost, and all that nanocm sent.
"""

import contextlib
import itertools
import re

import network
import packets
from command import Trouble, output
from guest import NETDEV

TO_LINUX, FROM_LINUX = "ingress", "egress"

TC = "/usr/sbin/tc"  # by its path, since busybox's shell prefers a `tc` of its own
IP = "/usr/bin/ip"
MIRROR = "ifb0"  # the device through which packets for Linux take a detour, since only what leaves a device can be held up

# Each filter has a number, by which it is taken away.
NUMBERS = itertools.count(1)

# What a filter does with a packet that gets lost. After a `drop` on its way out Soft-RoCE would know, and send it again.
LOSE = "trap"

# From the beginning of an IPv4 header without options: where UDP has its destination port, and a MAD its attribute.
UDP_PORT_AT = 20 + 2
UDP_PORT_AT_V6 = 40 + 2
ATTRIBUTE_AT = 20 + 8 + 12 + 8 + 16
PACKET = 14 + 20 + 8 + 12 + 8 + 256 + 4  # octets of a CM message's frame


@contextlib.contextmanager
def netem(guest, direction, *what):
    """What netem is told, such as ("loss", "20%", "delay", "200ms"), for one direction: RoCE's packets for Linux, all of Linux's."""
    if direction == FROM_LINUX:
        guest.must(TC, "qdisc", "add", "dev", NETDEV, "root", "netem", *what)
        try:
            yield
        finally:
            guest.must(TC, "qdisc", "del", "dev", NETDEV, "root")
        return
    guest.run(IP, "link", "add", MIRROR, "type", "ifb")  # which fails when it is there already
    guest.must(IP, "link", "set", MIRROR, "up")
    guest.must(TC, "qdisc", "add", "dev", MIRROR, "root", "netem", *what)
    detour = ("action", "mirred", "egress", "redirect", "dev", MIRROR)
    try:
        with (filtered(guest, direction, "ip", *matching(UDP_PORT_AT, packets.ROCE_PORT), *detour),
              filtered(guest, direction, "ipv6", *matching(UDP_PORT_AT_V6, packets.ROCE_PORT), *detour)):
            yield
    finally:
        guest.must(TC, "qdisc", "del", "dev", MIRROR, "root")


@contextlib.contextmanager
def loses(guest, direction, message, times=1):
    """The first so many packets (IPv4) with that CM message in that direction."""
    # A policer reversed: what is within its burst is lost, what exceeds it passes. It forgets ten octets a second.
    police = ("police", "rate", "80bit", "burst", str(times * PACKET + PACKET // 2), "conform-exceed", f"ok/{LOSE}")
    with filtered(guest, direction, "ip", *carrying(message), "action", *police) as counted:
        yield
        packets_seen, passed = counted()
        if packets_seen - passed != times:
            raise Trouble(f"Of {message} {packets_seen - passed} were lost, not {times}.")


@contextlib.contextmanager
def loses_each(guest, direction, message):
    """Each packet (IPv4) with that CM message in that direction."""
    with filtered(guest, direction, "ip", *carrying(message), "action", LOSE) as counted:
        yield
        if counted()[0] == 0:
            raise Trouble(f"No {message} was lost.")


@contextlib.contextmanager
def cut(guest):
    """The whole wire. This side goes on to send: its system does not find out, by ARP, that nobody is there."""
    with contextlib.ExitStack() as stack:
        neighbour = ["dev", network.TAP, "to", network.guest_address("v4")]
        output(["ip", "neighbour", "change", *neighbour, "nud", "permanent"])
        stack.callback(output, ["ip", "neighbour", "change", *neighbour, "nud", "reachable"])
        for direction in (TO_LINUX, FROM_LINUX):
            stack.enter_context(filtered(guest, direction, "all", "matchall", "action", LOSE))
        yield


def carrying(message):
    """What picks the packets (IPv4) with that CM message."""
    attribute = next(code for code, name in packets.MESSAGES.items() if name == message)
    return *matching(UDP_PORT_AT, packets.ROCE_PORT), *matching(ATTRIBUTE_AT, attribute)[1:]


def matching(at, value):
    """What picks the packets with this number of two octets there."""
    return "u32", "match", "u16", str(value), "0xffff", "at", str(at)


@contextlib.contextmanager
def filtered(guest, direction, protocol, *what):
    """A filter on what comes in or goes out; a function that says how many packets it had, and how many went over its limit."""
    number = str(next(NUMBERS))
    where = ("dev", NETDEV, direction, "protocol", protocol, "pref", number)
    guest.run(TC, "qdisc", "add", "dev", NETDEV, "clsact")  # which fails when it is there already
    guest.must(TC, "filter", "add", *where, *what)

    def counted():
        _, shown = guest.run(TC, "-s", "filter", "show", *where)
        found = re.search(r"(\d+) pkts? \(dropped \d+, overlimits (\d+)", shown)
        if found is None:
            raise Trouble(f"tc does not say how many packets a filter had: {shown.strip()}")
        return int(found[1]), int(found[2])

    try:
        yield counted
    finally:
        guest.must(TC, "filter", "del", *where)
