"""`ucmatose -t 104` and `nanocm connect --tos 104`: each packet of both connections, in both directions, carries it."""

import both_ways
import network
from both_ways import MESSAGES

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

TOS = 104


def play(stage, provider, family):
    ours, theirs, _ = network.ADDRESSES[family]
    both_ways.connect(stage, provider, ours, theirs, linux_options=("-t", TOS), nanocm_options=("--tos", TOS))


def wire(trace):
    for message in trace.messages:
        if message.traffic_class != TOS:
            yield f"frame {message.frame}: {message.name} from {message.src} has traffic class {message.traffic_class}"
        if message.name == "REQ" and message.field("traffic_class") != TOS:
            yield f"frame {message.frame}: the REQ asks for traffic class {message.field('traffic_class')}"
