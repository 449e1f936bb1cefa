"""The host's end of the wire: a network namespace of the lab's own, a tap in it, and the capture on the tap."""

import ctypes
import fcntl
import os
import pathlib
import signal
import socket
import struct
import time

import processes
from command import Trouble, output

TAP = "tap0"

# family -> the host's address, the guest's address, prefix length
ADDRESSES = {"v4": ("10.99.0.1", "10.99.0.2", 24), "v6": ("fd00:99::1", "fd00:99::2", 64)}

# More of the host's: one address has one CM.
MORE = {"v4": ("10.99.0.3", "10.99.0.4", "10.99.0.5"), "v6": ("fd00:99::3", "fd00:99::4", "fd00:99::5")}

CLONE_NEWNET = 0x40000000

# From linux/if_tun.h and linux/if_ether.h.
TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000
ETH_P_ALL = 0x0003


def host_address(family):
    return ADDRESSES[family][0]


def second_address(family):
    return other_address(family, 1)


def other_address(family, which):
    """The first, second or third of its other addresses."""
    return MORE[family][which - 1]


def guest_address(family):
    return ADDRESSES[family][1]


def endpoint(address, port):
    """ADDR:PORT as nanocm takes and prints it."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def must_be_possible():
    """Says what this machine or user lacks, before anything is fetched for them."""
    if os.geteuid() != 0:
        raise Trouble("The lab needs a network namespace of its own: please run it as root.")
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except OSError as error:
        raise Trouble(f"/dev/net/tun cannot be opened ({error.strerror}): the wire to the guest is a tap and needs it "
                      "(`modprobe tun`; in a container, `--device /dev/net/tun`).") from None


def enter_namespace():
    """Moves this process, and so all it starts from now on, to a new network namespace, which dies with the last."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        raise Trouble(f"No network namespace of the lab's own ({reason}): please run the lab as root, with CAP_SYS_ADMIN.")


def raise_tap():
    """Makes the tap with all its addresses usable at once: no duplicate address detection to wait for."""
    output(["ip", "link", "set", "lo", "up"])
    output(["ip", "tuntap", "add", TAP, "mode", "tap"])
    output(["ip", "link", "set", TAP, "address", "52:54:00:00:00:01"])
    allow_ipv6(TAP)
    for family, (host, _, prefix) in ADDRESSES.items():
        output(["ip", "address", "add", f"{host}/{prefix}", "dev", TAP, *nodad(host)])
        # Deprecated: nobody takes them who is not told to.
        for more in MORE[family]:
            output(["ip", "address", "add", f"{more}/{prefix}", "dev", TAP, "preferred_lft", "0", *nodad(more)])
    output(["ip", "link", "set", TAP, "up"])


def allow_ipv6(interface):
    switch = pathlib.Path(f"/proc/sys/net/ipv6/conf/{interface}/disable_ipv6")
    if not switch.exists():
        raise Trouble("This machine's kernel runs without IPv6, and half of the scenarios need it.")
    if switch.read_text().strip() != "0":
        switch.write_text("0")


def open_tap(name):
    """Another tap, which lives as long as the descriptor: what is written to it arrives at the host, and what the host
    sends can be read from it."""
    tap = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def open_wire():
    """A socket with every frame on the tap to the guest."""
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    wire.bind((TAP, ETH_P_ALL))
    return wire


def wait_for(interface, seconds=10):
    """Whether the interface comes to be there within that time."""
    return processes.eventually(lambda: interface in (name for _, name in socket.if_nameindex()), seconds)


def nodad(address):
    """For `ip address add`."""
    return ["nodad"] if ":" in address else []


class Capture:
    """tcpdump on the tap, into a file; of all frames, or of those that match tcpdump's `only`. A context."""

    def __init__(self, pcap, *only):
        self.pcap, self.log, self.only = pcap, pcap.with_suffix(".tcpdump"), only

    def __enter__(self):
        # Immediate: a packet is in the file when the scenario that saw it ends. Room for 2048 packets of any size.
        command = ["tcpdump", "-i", TAP, "-w", str(self.pcap), "-n", "-U", "--immediate-mode", "-B", "32768",
                   "-s", "16384", "-Z", "root", *self.only]
        self.process = processes.start(command, stdout=self.log, stderr=self.log)
        if not processes.eventually(lambda: "listening on" in self.log.read_text(), 10):
            self.__exit__()
            raise Trouble(f"tcpdump does not capture on {TAP}: {self.log.read_text().strip()}")
        return self

    def __exit__(self, *_):
        time.sleep(0.3)  # what the last exchange still sends
        processes.stop(self.process, signal.SIGINT)

    def check(self):
        """After the capture: it must be whole."""
        said = self.log.read_text()
        if "\n0 packets dropped by kernel" not in said:
            raise Trouble(f"tcpdump did not capture everything: {said.strip()}")
