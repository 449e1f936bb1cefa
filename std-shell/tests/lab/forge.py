"""A forger: sprays a CM with GSI packets that are wrong in every way it knows, as fast as it can.

It is a third host, on a wire of its own to nanocm's (FORGERS), so that no packet of its is in the capture of the guest's
wire, and it needs neither a guest nor an address of this host's. But it listens on the guest's wire, and forges with the
numbers of connections that stand there. Started as a program it forges until SIGTERM, then says what it sent.
Read first: IBTA chapter 12; Annex A17 (RoCEv2). packets.py is the other direction.
"""

import collections
import contextlib
import ipaddress
import json
import os
import random
import signal
import struct
import sys
import time
import zlib

import network
import packets
import processes
from command import Trouble, output

TAP = "tap8"
OURS, FORGERS, PREFIX = "10.99.8.1", "10.99.8.2", 24
OUR_MAC, FORGERS_MAC = "52:54:00:00:00:81", "52:54:00:00:00:82"

SEED = 20

# Class, version, method and so on of a good CM message; BTH and DETH of a good GSI packet.
GOOD_MAD = {"base": 1, "class": packets.CM_CLASS, "version": 2, "method": 3}
GOOD_FRAME = {"opcode": packets.UD_SEND_ONLY, "flags": 0, "pkey": 0xFFFF, "qpn": packets.GSI, "qkey": 0x80010000}

ATTRIBUTES = {name: code for code, name in packets.MESSAGES.items()}

POOL = 4000  # frames made beforehand
SERVICE = 0x0000000001060000  # the service ID of port 0 in RDMA_PS_TCP


@contextlib.contextmanager
def spraying(folder, target, port):
    """Forges as long as this lasts. What it gives becomes the tally then: a count for each kind of fault."""
    out, err = folder / "forge.json", folder / "forge.log"
    program = processes.start([sys.executable, __file__, target, str(port)], stdout=out, stderr=err)
    tally = {}
    try:
        if not network.wait_for(TAP):
            raise Trouble(f"The forger makes no {TAP}: {err.read_text().strip()}")
        output(["ip", "address", "add", f"{OURS}/{PREFIX}", "dev", TAP])
        output(["ip", "link", "set", TAP, "address", OUR_MAC, "up"])
        output(["ip", "neighbor", "replace", FORGERS, "lladdr", FORGERS_MAC, "dev", TAP, "nud", "permanent"])
        yield tally
    finally:
        processes.stop(program)
        with contextlib.suppress(ValueError):
            tally.update(json.loads(out.read_text()))


def main(target, port):
    forger = Forger(random.Random(SEED), target, int(port))
    signal.signal(signal.SIGTERM, lambda *_: forger.end())
    tap, wire = network.open_tap(TAP), network.open_wire()
    for descriptor in (tap, wire.fileno()):
        os.set_blocking(descriptor, False)
    forger.spray(tap, wire)
    print(json.dumps(dict(forger.tally, answers=forger.answers, seconds=forger.seconds)))


class Forger:
    def __init__(self, random_numbers, target, port):
        self.random, self.source, self.target = random_numbers, packed(FORGERS), packed(target)
        self.service = SERVICE + port
        self.tally, self.answers, self.running = collections.Counter(), 0, True
        self.known = collections.deque(maxlen=100)  # MADs from the guest's wire
        makers = [getattr(self, name) for name in dir(self) if name.startswith("with_")]
        self.pool = [(maker.__name__[5:].replace("_", "-"), self.frame(maker()))
                     for maker in makers for _ in range(POOL // len(makers))]
        self.random.shuffle(self.pool)

    def end(self):
        self.running = False

    def spray(self, tap, wire):
        start = time.monotonic()
        while self.running:
            for kind, frame in self.pool:
                if not self.running:
                    break
                self.send(tap, kind, frame)
                if self.random.random() < 0.05:
                    self.look(tap, wire)
                    for kind, frame in self.of_known():
                        self.send(tap, kind, frame)
        self.seconds = time.monotonic() - start

    def send(self, tap, kind, frame):
        try:
            os.write(tap, frame)
            self.tally[kind] += 1
        except OSError:  # the tap is not up yet, or has no room
            time.sleep(0.001)

    def look(self, tap, wire):
        """Takes the answers, so that there is room for more, and what there is to learn."""
        with contextlib.suppress(BlockingIOError, OSError):
            while os.read(tap, 65536):
                self.answers += 1
        with contextlib.suppress(BlockingIOError):
            while True:
                ip = packets.ip_packet(wire.recv(65536))
                if ip is not None and ip.is_roce() and ip.cm_mad() is not None:
                    self.known.append(ip.cm_mad())

    # What is wrong, and nothing else is.

    def with_wrong_icrc(self):
        good = self.packet(self.cm("REQ"))
        at = self.random.randrange(len(good) - 4, len(good))
        return good[:at] + bytes([good[at] ^ 1 << self.random.randrange(8)]) + good[at + 1:]

    def with_wrong_opcode(self):
        return self.packet(self.cm("REQ"), opcode=self.other_than(packets.UD_SEND_ONLY, packets.UD_SEND_ONLY | 1))

    def with_wrong_version(self):
        return self.packet(self.cm("REQ"), flags=self.random.randrange(1, 16))

    def with_padding(self):
        return self.packet(self.cm("REQ"), flags=self.random.randrange(1, 4) << 4)

    def with_wrong_pkey(self):
        return self.packet(self.cm("REQ"), pkey=self.random.choice((0x8001, 0x0001, 0x0000, 0x8000, 0xFFFE)))

    def with_wrong_qkey(self):
        return self.packet(self.cm("REQ"), qkey=self.random.getrandbits(31))

    def with_wrong_qpn(self):
        return self.packet(self.cm("REQ"), qpn=self.random.choice((0, 2, 17, 0xFFFFFF)))

    def with_short_mad(self):
        return self.packet(self.cm("REQ")[:self.random.randrange(256)])

    def with_long_mad(self):
        return self.packet(self.cm("REQ") + self.random.randbytes(self.random.randrange(1, 1000)))

    def with_too_little(self):
        return self.packet(self.cm("REQ"))[:self.random.randrange(24)]

    def with_noise(self):
        return self.random.randbytes(self.random.randrange(500))

    def with_wrong_base_version(self):
        return self.packet(self.cm("REQ", base=self.other_than(1)))

    def with_wrong_class(self):
        return self.packet(self.cm("REQ", **{"class": self.other_than(packets.CM_CLASS)}))

    def with_wrong_class_version(self):
        return self.packet(self.cm("REQ", version=self.other_than(2)))

    def with_wrong_method(self):
        return self.packet(self.cm("REQ", method=self.other_than(3)))

    def with_wrong_attribute(self):
        return self.packet(self.cm(self.random.choice((0x0000, 0x0001, 0x000F, 0x001B, 0x001C, 0x0110, 0xFF10))))

    def with_unknown_ids(self):
        return self.packet(self.cm(self.random.choice(("MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "LAP", "SIDR_REP"))))

    def with_unsupported_message(self):
        return self.packet(self.cm("APR"))

    def with_foreign_service(self):
        return self.packet(self.cm(self.random.choice(("REQ", "SIDR_REQ"))))

    def with_random_request(self):
        mad = bytearray(self.cm("REQ"))
        mad[24 + 8:24 + 16] = self.service.to_bytes(8, "big")
        return self.packet(mad)

    def with_foreign_header(self):
        """A REQ right up to the IP CM header, which is random."""
        return self.packet(self.to_us(self.cm("REQ")))

    def of_known(self):
        """Frames for a message just seen on the guest's wire: what could end its connection, if it came from a side of it."""
        if not self.known:
            return
        mad = self.random.choice(self.known)
        if mad[16:18] == ATTRIBUTES["REQ"].to_bytes(2, "big"):
            yield "guests-path", self.frame(self.packet(mad))
            yield "guests-header", self.frame(self.packet(self.to_us(mad)))
            return
        name = self.random.choice(("MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "LAP"))
        forged = bytearray(self.cm(name))
        forged[24:32] = mad[24:32] if self.random.random() < 0.5 else mad[28:32] + mad[24:28]
        yield "guests-ids", self.frame(self.packet(forged))

    # What a packet is made of.

    def other_than(self, *right):
        return self.random.choice([value for value in range(256) if value not in right])

    def cm(self, message, **header):
        """A CM message with a random transaction and payload."""
        header = {**GOOD_MAD, **header}
        attribute = ATTRIBUTES.get(message, message)
        return struct.pack("!4B4x8sH6x", header["base"], header["class"], header["version"], header["method"],
                           self.random.randbytes(8), attribute) + self.random.randbytes(232)

    def to_us(self, req):
        """A REQ to the listener, for a reliable connection on a path between forger and target, with an MTU of 1024."""
        req = bytearray(req)
        req[24 + 8:24 + 16] = self.service.to_bytes(8, "big")
        req[24 + 43] &= 0xF9
        req[24 + 50] = 0x30
        req[24 + 56:24 + 88] = mapped(self.source) + mapped(self.target)
        return req

    def packet(self, mad, **frame):
        """A UDP payload: BTH, DETH, MAD, and the invariant CRC that goes with them."""
        frame = {**GOOD_FRAME, **frame}
        body = struct.pack("!BBHIIII", frame["opcode"], frame["flags"], frame["pkey"], frame["qpn"],
                           self.random.getrandbits(24), frame["qkey"], packets.GSI) + mad
        ip = self.headers(len(body) + 4)
        masked = bytearray(ip + body)
        for at in (1, 8, 10, 11, 26, 27, 28 + 4):
            masked[at] = 0xFF
        return body + zlib.crc32(b"\xff" * 8 + masked).to_bytes(4, "little")

    def frame(self, udp_payload):
        macs = bytes.fromhex((OUR_MAC + FORGERS_MAC).replace(":", ""))
        return macs + b"\x08\x00" + self.headers(len(udp_payload)) + udp_payload

    def headers(self, size):
        """IPv4 and UDP."""
        ip = struct.pack("!BBHIBBH4s4s", 0x45, 0, 28 + size, 0x4000, 64, packets.UDP, 0, self.source, self.target)
        total = sum(struct.unpack("!10H", ip))
        total = (total & 0xFFFF) + (total >> 16)
        checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        return ip[:10] + checksum.to_bytes(2, "big") + ip[12:] + struct.pack("!4H", 55410, packets.ROCE_PORT, 8 + size, 0)


def packed(address):
    return ipaddress.ip_address(address).packed


def mapped(address):
    """An IPv4 address as a GID."""
    return bytes(10) + b"\xff\xff" + address


if __name__ == "__main__":
    main(*sys.argv[1:])
