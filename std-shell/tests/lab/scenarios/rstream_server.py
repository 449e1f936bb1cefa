"""Linux's rstream rejects `nanocm connect` without the private data of rsockets, and accepts it with them."""

import struct

import network
from scenario import expect, there

PROVIDERS = ("udp",)
FAMILIES = ("v4", "v6")

MESSAGES = {"REQ": 2, "REJ": 1, "REP": 1, "RTU": 1, "DREQ": 1, "DREP": 1}
PORT = 7471

CONSUMER = 28

# Each side of an rsocket tells the other in the REQ and the REP: version, flags, receive credits, 3 reserved octets,
# the size of its I/O map; and two buffers, each with address, key and length.
HEADER = struct.Struct(">BBH3xB QII QII")
OURS = HEADER.pack(1, 2, 384, 0, 0x7F0000001000, 0x1234, 2, 0x7F0000100000, 0x5678, 524288)


def play(stage, provider, family):
    rstream = stage.linux_server(PORT, "rstream", "-b", network.guest_address(family), "-p", PORT)
    peer = there(family, PORT)

    nobody = stage.nanocm("connect", peer, "--provider", provider)
    nobody.ends(1)
    reasons = [event.get("reason") for event in nobody.events("REJECTED")]
    expect(reasons == [CONSUMER], f"nanocm was rejected for {reasons}, not once for reason {CONSUMER}")

    nanocm = stage.nanocm("connect", peer, "--provider", provider, "--private-data", OURS.hex(), "--hold", 60000)
    answer = bytes.fromhex(nanocm.comes_to_say("ESTABLISHED")["private_data"])
    version, _, credits, *_, length = HEADER.unpack(answer[:HEADER.size])
    expect(version == 1 and credits > 0 and length > 0 and not any(answer[HEADER.size:]),
           f"rstream answers with private data that are no rsocket's: {answer.hex()}")

    # It waits for data, and would leave a DREQ open; its end disconnects.
    rstream.signal("TERM")
    nanocm.ends(0)
    nanocm.said(ESTABLISHED=1, DISCONNECTED=1)
