"""What a capture holds, read by nobody else's code: RoCEv2 packets, their invariant CRCs, CM messages, exchanges.

Independent of nanocm on purpose. tshark 4.0 shows the invariant CRC but does not verify it; this does.
Read first: IBTA chapter 12 (CM messages), Annex A17 (RoCEv2).
"""

import collections
import ipaddress
import struct
import zlib
from typing import NamedTuple, Optional

import network
from command import Trouble

ICMP, UDP, ICMPV6 = 1, 17, 58
ROCE_PORT = 4791
UD_SEND_ONLY = 0x64
GSI = 1  # its queue pair number
CM_CLASS = 0x07

MESSAGES = {0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP",
            0x17: "SIDR_REQ", 0x18: "SIDR_REP", 0x19: "LAP", 0x1A: "APR"}

# In the MAD. A REQ's is behind the IP CM header of 36 octets.
PRIVATE_DATA_AT = {"REQ": 24 + 140 + 36, "REJ": 24 + 84, "REP": 24 + 36, "RTU": 24 + 8, "DREQ": 24 + 12, "DREP": 24 + 8,
                   "SIDR_REP": 24 + 96}

# Those that scenarios ask for: first bit and width, behind the MAD's header of 24 octets.
FIELDS = {
    "REQ": {"responder_resources": (35 * 8, 8), "initiator_depth": (39 * 8, 8), "remote_cm_response_timeout": (43 * 8, 5),
            "flow_control": (43 * 8 + 7, 1), "local_cm_response_timeout": (47 * 8, 5), "pkey": (48 * 8, 16),
            "path_mtu": (50 * 8, 4), "max_cm_retries": (51 * 8, 4), "traffic_class": (92 * 8, 8),
            "local_ack_timeout": (95 * 8, 5)},
    "MRA": {"service_timeout": (9 * 8, 5)},
    "REJ": {"rejected": (8 * 8, 2), "reason": (10 * 8, 16)},
    "SIDR_REP": {"status": (4 * 8, 8)},
}


def message_name(attribute):
    return MESSAGES.get(attribute, f"0x{attribute:04x}")


class Message(NamedTuple):
    """One CM message as it travelled."""
    frame: int  # from 1
    src: str
    dst: str
    attribute: int
    mad: bytes
    time: float  # seconds since the epoch
    traffic_class: int  # of the IP header
    vlan: Optional[int]  # of the frame's tag, if it has one

    @property
    def name(self):
        return message_name(self.attribute)

    @property
    def from_linux(self):
        return self.src in map(network.guest_address, network.ADDRESSES)

    @property
    def local_id(self):
        return self.mad[24:28]

    @property
    def remote_id(self):
        return self.mad[28:32]

    def field(self, name):
        at, width = FIELDS[self.name][name]
        return int.from_bytes(self.mad[24:], "big") >> (232 * 8 - at - width) & (1 << width) - 1

    @property
    def private_data(self):
        """The whole field, but in a REQ only what is the application's."""
        return self.mad[PRIVATE_DATA_AT[self.name]:]


class Trace:
    """A capture's CM messages, and the frames with faults that no capture of the lab may have."""

    def __init__(self, kernel):
        self.kernel = kernel  # Linux's, as in `--kernel`
        self.messages, self.retransmissions, self.sent = [], [], set()
        self.bad_icrc, self.unreachable, self.no_mad = [], [], []
        self.bad_icrc_sources = set()
        self.conversations = collections.defaultdict(set)  # (requester, responder, requester's ID) -> messages' names

    def read(self, path):
        for frame, (time, packet) in enumerate(frames(path), 1):
            vlan, packet = untagged(packet)
            ip = ip_packet(packet)
            if ip is not None and ip.is_unreachable():
                self.unreachable.append(frame)
            if ip is not None and ip.is_roce():
                self.take(frame, time, vlan, ip)

    def take(self, frame, time, vlan, ip):
        if not ip.icrc_is_right():
            self.bad_icrc.append(frame)
            self.bad_icrc_sources.add(ip.src)
        if ip.is_gsi() and not ip.has_mad():
            self.no_mad.append(frame)
        mad = ip.cm_mad()
        if mad is None:
            return
        message = Message(frame, ip.src, ip.dst, int.from_bytes(mad[16:18], "big"), mad, time, ip.traffic_class(), vlan)
        again = (ip.src, ip.dst, mad) in self.sent
        self.sent.add((ip.src, ip.dst, mad))
        (self.retransmissions if again else self.messages).append(message)
        self.conversations[ip.src, ip.dst, message.local_id].add(message.name)
        self.conversations[ip.dst, ip.src, message.remote_id].add(message.name)

    def count(self):
        """How often each message was sent, retransmissions not counted."""
        return collections.Counter(m.name for m in self.messages)

    def named(self, name):
        """The messages of that name with their retransmissions, in the order of the wire."""
        return sorted(m for m in self.messages + self.retransmissions if m.name == name)

    def incomplete(self):
        """A sentence for each connection that neither was rejected nor went all the way to its DREP."""
        for req in self.messages:
            if req.name == "REQ":
                names = self.conversations[req.src, req.dst, req.local_id]
                lacks = [name for name in ("REP", "RTU", "DREQ", "DREP") if name not in names]
                if lacks and "REJ" not in names:
                    yield f"frame {req.frame}: the REQ from {req.src} has no {', no '.join(lacks)}"


class IpPacket:
    """An IPv4 or IPv6 packet with its header apart."""

    def __init__(self, header, payload, protocol, src, dst):
        self.header, self.payload, self.protocol = header, payload, protocol
        self.src, self.dst = str(ipaddress.ip_address(src)), str(ipaddress.ip_address(dst))

    def is_unreachable(self):
        return (self.protocol, self.payload[:1]) in ((ICMP, b"\x03"), (ICMPV6, b"\x01"))

    def is_roce(self):
        return self.protocol == UDP and int.from_bytes(self.payload[2:4], "big") == ROCE_PORT

    def traffic_class(self):
        return self.header[1] if self.header[0] >> 4 == 4 else int.from_bytes(self.header[:2], "big") >> 4 & 0xFF

    def is_gsi(self):
        """Whether this RoCE packet is for the GSI: by the BTH, behind 8 octets of UDP."""
        bth = self.payload[8:20]
        return bth[:1] == bytes([UD_SEND_ONLY]) and int.from_bytes(bth[5:8], "big") == GSI

    def has_mad(self):
        """Whether it is as long as one with a MAD: UDP 8, BTH 12, DETH 8, MAD 256, ICRC 4."""
        return len(self.payload) == 8 + 12 + 8 + 256 + 4

    def cm_mad(self):
        """The CM MAD in this RoCE packet, or None."""
        mad = self.payload[28:-4]
        return mad if self.is_gsi() and self.has_mad() and mad[1] == CM_CLASS else None

    def icrc_is_right(self):
        """Whether this RoCE packet ends in its invariant CRC: that of all but what a router may change."""
        if len(self.payload) < 8 + 12 + 4:
            return False
        header, rest = bytearray(self.header), bytearray(self.payload[:-4])
        if len(header) == 40:
            header[0:4] = bytes([header[0] | 0x0F, 0xFF, 0xFF, 0xFF])  # traffic class, flow label
            header[7] = 0xFF  # hop limit
        else:
            header[1] = header[8] = 0xFF  # type of service, time to live
            header[10:12] = b"\xff\xff"  # checksum
        rest[6:8] = b"\xff\xff"  # UDP checksum
        rest[12] = 0xFF  # BTH: FECN, BECN, reserved
        return zlib.crc32(b"\xff" * 8 + header + rest).to_bytes(4, "little") == self.payload[-4:]


def untagged(frame):
    """The VLAN of an Ethernet frame, or None, and the frame without its tag."""
    if frame[12:14] == b"\x81\x00":
        return int.from_bytes(frame[14:16], "big") & 0x0FFF, frame[:12] + frame[16:]
    return None, frame


def ip_packet(frame):
    """The whole IP packet in an Ethernet frame, without padding; None for anything else."""
    ethertype, ip = frame[12:14], frame[14:]
    if ethertype == b"\x08\x00" and len(ip) >= 20:
        size, end = (ip[0] & 15) * 4, int.from_bytes(ip[2:4], "big")
        return IpPacket(ip[:size], ip[size:end], ip[9], ip[12:16], ip[16:20])
    if ethertype == b"\x86\xdd" and len(ip) >= 40:
        end = 40 + int.from_bytes(ip[4:6], "big")
        return IpPacket(ip[:40], ip[40:end], ip[6], ip[8:24], ip[24:40])
    return None


def frames(path):
    """(time, frame) for each of a classic little-endian pcap of Ethernet, as tcpdump writes it here."""
    data = path.read_bytes()
    if data[:4] != b"\xd4\xc3\xb2\xa1" or data[20:24] != b"\x01\x00\x00\x00":
        raise Trouble(f"{path} is no little-endian pcap of Ethernet frames.")
    at = 24
    while at < len(data):
        seconds, microseconds, size, original = struct.unpack_from("<4I", data, at)
        frame = data[at + 16:at + 16 + size]
        if not size == original == len(frame):
            raise Trouble(f"{path} is cut short at byte {at}.")
        yield seconds + microseconds / 1e6, frame
        at += 16 + size
