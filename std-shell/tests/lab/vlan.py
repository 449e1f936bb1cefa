"""A switch in user space, for hosts whose kernel has no 802.1Q: it gives the host an access port of the guest's VLAN 7.

Its trunk is the tap to the guest (network.TAP), its access port another tap, on which the VLAN's frames travel without
their tags. Started as a program it is the switch; `access_port` starts it so.
"""

import contextlib
import fcntl
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

# From linux/if_tun.h, linux/if_ether.h and linux/if_packet.h.
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
ETH_P_ALL = 0x0003
SOL_PACKET, PACKET_AUXDATA, TP_STATUS_VLAN_VALID = 263, 8, 0x10
AUXDATA = struct.Struct("IIIHHHH")  # status, length, captured, two offsets, VLAN tag, VLAN protocol


@contextlib.contextmanager
def access_port(folder):
    """The host has an interface in the VLAN, with an address of each family, while this lasts."""
    switch = processes.start([sys.executable, __file__], stdout=folder / "switch.log", stderr=folder / "switch.log")
    try:
        if not processes.eventually(lambda: PORT in (name for _, name in socket.if_nameindex()), 10):
            raise Trouble(f"The switch makes no {PORT}: {(folder / 'switch.log').read_text().strip()}")
        network.allow_ipv6(PORT)
        for host, _, prefix in ADDRESSES.values():
            output(["ip", "address", "add", f"{host}/{prefix}", "dev", PORT, *network.nodad(host)])
        output(["ip", "link", "set", PORT, "up"])
        yield
    finally:
        processes.stop(switch)  # the tap goes with it


def main():
    trunk = open_trunk()
    port = open_port()
    while True:
        readable, _, _ = select.select([trunk, port], [], [])
        if trunk in readable and (frame := from_trunk(trunk)):
            with contextlib.suppress(OSError):  # which a port has that is down
                os.write(port, frame)
        if port in readable:
            frame = os.read(port, FRAME)
            trunk.send(frame[:ADDRESSES_END] + TAG + frame[ADDRESSES_END:])


def open_trunk():
    trunk = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    trunk.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    trunk.bind((network.TAP, ETH_P_ALL))
    return trunk


def open_port():
    port = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(port, TUNSETIFF, struct.pack("16sH22x", PORT.encode(), IFF_TAP | IFF_NO_PI))
    return port


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
