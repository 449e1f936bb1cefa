"""A switch in user space, for hosts whose kernel has no 802.1Q: it gives the host an access port of the guest's VLAN 7.

Its trunk is the tap to the guest (network.TAP), its access port another tap, on which the VLAN's frames travel without
their tags. Started as a program it is the switch; `access_port` starts it so.
"""

import contextlib
import os
import select
import socket
import struct
import sys

import network
import processes
from command import Trouble, output

ID = 7
PORT = "tap7"

# family -> the host's address in the VLAN, the guest's address, prefix length
ADDRESSES = {"v4": ("10.99.7.1", "10.99.7.2", 24), "v6": ("fd00:99:7::1", "fd00:99:7::2", 64)}

TAG = struct.pack("!HH", 0x8100, ID)
ADDRESSES_END = 12  # of a frame; a tag follows, if there is one
FRAME = 65536

# From linux/if_packet.h.
SOL_PACKET, PACKET_AUXDATA, TP_STATUS_VLAN_VALID = 263, 8, 0x10
AUXDATA = struct.Struct("IIIHHHH")  # status, length, captured, two offsets, VLAN tag, VLAN protocol


@contextlib.contextmanager
def access_port(folder):
    """The host has an interface in the VLAN, with an address of each family, while this lasts."""
    switch = processes.start([sys.executable, __file__], stdout=folder / "switch.log", stderr=folder / "switch.log")
    try:
        if not network.wait_for(PORT):
            raise Trouble(f"The switch makes no {PORT}: {(folder / 'switch.log').read_text().strip()}")
        network.allow_ipv6(PORT)
        for host, _, prefix in ADDRESSES.values():
            output(["ip", "address", "add", f"{host}/{prefix}", "dev", PORT, *network.nodad(host)])
        output(["ip", "link", "set", PORT, "up"])
        yield
    finally:
        processes.stop(switch)  # the tap goes with it


def main():
    trunk, port = network.open_wire(), network.open_tap(PORT)
    trunk.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    while True:
        readable, _, _ = select.select([trunk, port], [], [])
        if trunk in readable and (frame := from_trunk(trunk)):
            with contextlib.suppress(OSError):  # which a port has that is down
                os.write(port, frame)
        if port in readable:
            frame = os.read(port, FRAME)
            trunk.send(frame[:ADDRESSES_END] + TAG + frame[ADDRESSES_END:])


def from_trunk(trunk):
    """The next frame without its tag, or None for one that is not the VLAN's, or not from the guest."""
    frame, ancillary, _, (_, _, packet_type, *_) = trunk.recvmsg(FRAME, socket.CMSG_SPACE(AUXDATA.size))
    if packet_type == socket.PACKET_OUTGOING:
        return None
    for _, _, data in ancillary:
        status, *_, tag, _ = AUXDATA.unpack(data)
        if status & TP_STATUS_VLAN_VALID:  # the kernel has taken the tag off
            return frame if tag & 0x0FFF == ID else None
    return None


if __name__ == "__main__":
    main()
