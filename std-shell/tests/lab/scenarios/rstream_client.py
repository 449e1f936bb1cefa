"""Linux's rstream connects: `nanocm listen` accepts, and shows what rsockets say of themselves behind the IP CM header."""

import struct

import network
from scenario import PATIENCE, expect, here

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), 1)
PORT = 7471

# What an rsocket says: version, flags, credits, reserved, size of its map, then address, key and length of where the
# peer may tell of its buffers, and of its own receive buffer. It takes twice what it is asked for, and offers half.
RSOCKET = struct.Struct(">BBH3sB QII QII")
VERSION, FLAGS, CREDITS, ENTRIES = 1, 0x02, 384, 2  # the flag: it has a map; not set: it is big-endian
BUFFER = 1 << 18


def play(stage, provider, family):
    nanocm = stage.nanocm("listen", here(family, PORT), "--provider", provider, "--count", 1)
    nanocm.comes_to_say("LISTENING")

    # An empty answer is version 0, which rsockets don't speak: it hangs up. How it ends is its own affair.
    rstream = stage.linux_start("rstream", "-s", network.host_address(family), "-p", PORT, "-B", BUFFER, "-C", 1, "-I", 1)
    expect(rstream.status(PATIENCE) is not None, "rstream did not end")

    nanocm.ends(0)
    nanocm.said(LISTENING=1, CONNECT_REQUEST=1, ESTABLISHED=1, DISCONNECTED=1)
    shown = bytes.fromhex(nanocm.events("CONNECT_REQUEST")[0]["private_data"])
    said, tail = shown[:RSOCKET.size], shown[RSOCKET.size:]
    version, flags, credits, reserved, map_size, list_at, _, entries, buffer_at, _, size = RSOCKET.unpack(said)
    expect((version, flags, credits, reserved, map_size) == (VERSION, FLAGS, CREDITS, bytes(3), 0),
           f"rstream's private data begins with {said[:8].hex()}")
    expect(list_at and buffer_at and (entries, size) == (ENTRIES, BUFFER),
           f"rstream offers {entries} entries at {list_at:#x} and {size} octets at {buffer_at:#x}")
    expect(not any(tail), f"behind rstream's private data there is {tail.hex()}")


def wire(trace):
    """As rsockets ask for it: no reads, no atomics, end-to-end flow control."""
    asked = {name: trace.named("REQ")[0].field(name) for name in ("responder_resources", "initiator_depth", "flow_control")}
    if asked != {"responder_resources": 0, "initiator_depth": 0, "flow_control": 1}:
        yield f"the REQ asks for {asked}"
