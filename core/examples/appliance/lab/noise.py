"""A bad wire: garbage as fast as this machine can send it, while `nanocm` connects. The board keeps serving, and its
counters say what came."""

import itertools
import pathlib
import random
import re
import socket
import struct
import threading
import time
import zlib

import board
import network
import plays
from scenario import expect

HOST_MAC = bytes.fromhex("520000000099")
BOARD_MAC = bytes.fromhex(board.MAC.replace(":", ""))
BROADCAST, GROUP = b"\xff" * 6, bytes.fromhex("01005e000001")
IPV4, ARP = b"\x08\x00", b"\x08\x06"
CONNECTIONS = 500
FLOOD = 3  # seconds
LEAST = 20_000  # frames of a flood, however slow the machine


class Noise:
    """Frames of one kind after another, from a thread, until it is left: as fast as they can be sent, or (gently) as
    fast as the board takes them, so that others' frames have a chance."""

    def __init__(self, frames, gently):
        self.frames, self.gently, self.sent, self.over = frames, gently, 0, threading.Event()
        self.thread = threading.Thread(target=self.send, daemon=True)

    def __enter__(self):
        self.start, self.dropped = time.monotonic(), self.drops()
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.seconds, self.dropped = time.monotonic() - self.start, self.drops() - self.dropped

    def drops(self):
        """Frames that the tap's queue, which QEMU reads, had no room for."""
        line = re.search(rf"{network.TAP}:(.*)", pathlib.Path("/proc/net/dev").read_text())
        return int(line.group(1).split()[11])

    def send(self):
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind((network.TAP, 0))
            dropped = self.drops()
            for number, frame in enumerate(itertools.cycle(self.frames)):
                if self.over.is_set():
                    return
                wire.send(frame)
                self.sent += 1
                if self.gently and number % 16 == 0 and self.drops() > dropped:
                    time.sleep(0.05)
                    dropped = self.drops()

    def __str__(self):
        return (f"{self.sent / self.seconds:,.0f} frames/s for {self.seconds:.1f} s, of which the tap took "
                f"{(self.sent - self.dropped) / self.seconds:,.0f}")


def ethernet(kind, payload, to=BOARD_MAC):
    return (to + HOST_MAC + kind + payload).ljust(60, b"\0")


def ipv4(payload, source="10.99.0.66", protocol=17, to=board.ADDRESS, flags=0x4000, options=b""):
    length = 20 + len(options)
    head = struct.pack("!BBHHHBBH4s4s", 0x40 + length // 4, 0, length + len(payload), 0, flags, 64, protocol, 0,
                       socket.inet_aton(source), socket.inet_aton(to)) + options
    return head[:10] + plays.checksum(head) + head[12:] + payload


def udp(payload, port=4791, length=None, source=4791):
    return struct.pack("!HHHH", source, port, 8 + len(payload) if length is None else length, 0) + payload


def gsi(mad, source="10.99.0.66", opcode=0x64, qpn=1, icrc=True):
    """An IPv4 packet around a MAD, with the right invariant CRC or a wrong one."""
    bth = struct.pack("!BBHII", opcode, 0, 0xFFFF, qpn, 0x80000000)
    body = bth + struct.pack("!II", 0x80010000, 1) + mad
    packet = bytearray(ipv4(udp(body + b"\0" * 4), source))
    covered = bytearray(packet[:-4])
    covered[1] = covered[8] = 0xFF
    covered[10:12] = covered[26:28] = b"\xff\xff"
    covered[32] = 0xFF
    packet[-4:] = (zlib.crc32(b"\xff" * 8 + covered) ^ (0 if icrc else 1)).to_bytes(4, "little")
    return bytes(packet)


def mad(dice, attribute, manager=7):
    """A CM message of random fields."""
    return struct.pack("!BBBBHHQHHI", 1, manager, 2, 3, 0, 0, dice.getrandbits(64), attribute, 0, 0) + dice.randbytes(232)


def unusable(stage):
    """What is to port 4791, but with IP options, in fragments or with a wrong length, is counted, and answered by nobody: ICMP
    would say that the port is not there. Of another port it does. A REQ is answered as ever."""
    datagram = udp(bytes(280))
    packets = [ipv4(datagram, plays.HERE, options=b"\x01" * 4), ipv4(datagram, plays.HERE, flags=0x2000),
               ipv4(datagram, plays.HERE, flags=0x0001), ipv4(datagram, plays.HERE, options=b"\x01" * 8, flags=0x2000),
               ipv4(udp(bytes(280), length=7), plays.HERE), ipv4(udp(bytes(280), length=400), plays.HERE)]
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(network.ETH_P_ALL)) as wire:
        wire.bind((network.TAP, 0))
        for packet in packets:
            wire.send(ethernet(IPV4, packet))
        wire.send(ethernet(IPV4, ipv4(udp(bytes(280), port=4790), plays.HERE, options=b"\x01" * 4)))
        wire.send(ethernet(IPV4, gsi(mad(random.Random(9), 0x10), plays.HERE)))
        stage.board.gains(unusable=len(packets), roce=1, no_listener=1)
        said = [frame for frame in waiting(wire) if frame[6:12] == BOARD_MAC and frame[12:14] == IPV4 and frame[23] == ICMP]
    expect(len(said) == 1, f"{len(said)} ICMP messages, not 1")


ICMP = 1


def impostors(stage):
    """REQs from addresses that no host has are not answered, nor one in a frame to everybody or to a group, nor what comes from a
    control port; a REQ in the host's name from
    another MAC address draws neither the answer nor the board's next call there."""
    dice = random.Random(8)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(network.ETH_P_ALL)) as wire:
        wire.bind((network.TAP, 0))
        for source in NOBODY:
            wire.send(ethernet(IPV4, gsi(mad(dice, 0x10), source)))
        for to in (BROADCAST, GROUP):
            wire.send(ethernet(IPV4, gsi(mad(dice, 0x10), plays.HERE), to))
        wire.send(ethernet(IPV4, ipv4(udp(b"report", board.CONTROL_PORT, source=board.CONTROL_PORT), plays.HERE)))
        wire.send(ethernet(IPV4, gsi(mad(dice, 0x10), plays.HERE)))
        stage.board.gains(from_nobody=len(NOBODY), broadcast=1, for_others=1, no_listener=1)
        answers = [frame for frame in waiting(wire) if frame[6:12] == BOARD_MAC and frame[12:14] == IPV4]
    answers = [frame for frame in answers if frame[36:38] in (ROCE, CONTROL)]
    expect(len(answers) == 1, f"{len(answers)} answers, not 1")
    expect(answers[0][:6] != HOST_MAC, "the answer goes to the impostor")

    listener = stage.nanocm("listen", network.endpoint(plays.HERE, 4420), "--count", 1)
    listener.comes_to_say("LISTENING")
    stage.board.tell("connect", plays.HERE, 4420)
    stage.board.becomes(call=("ESTABLISHED", "0"))
    stage.board.tell("disconnect")
    listener.ends(0)
    stage.board.becomes(connections=0)


NOBODY = ("0.0.0.0", "255.255.255.255", "10.99.0.255", "224.0.0.1", "127.0.0.1", board.ADDRESS)
ROCE, CONTROL = struct.pack("!H", 4791), struct.pack("!H", board.CONTROL_PORT)


def waiting(wire):
    """The frames that have come."""
    wire.setblocking(False)
    try:
        while True:
            yield wire.recv(2048)
    except BlockingIOError:
        pass


def garbage(stage):
    """Random frames, packets cut short, fragments, wrong protocols and ports, wrong CRCs, messages of random fields."""
    dice = random.Random(5)
    frames = [ethernet(dice.randbytes(2), dice.randbytes(dice.randrange(46, 1500))) for _ in range(20)]
    frames += [ethernet(IPV4, dice.randbytes(dice.randrange(1, 1500))) for _ in range(20)]
    frames += [ethernet(IPV4, ipv4(udp(dice.randbytes(dice.randrange(0, 1472))))) for _ in range(20)]
    frames += [ethernet(IPV4, ipv4(udp(dice.randbytes(280), length=dice.randrange(0, 400)))) for _ in range(10)]
    frames += [ethernet(IPV4, ipv4(dice.randbytes(300), protocol=dice.randrange(256))) for _ in range(10)]
    frames += [ethernet(IPV4, ipv4(udp(dice.randbytes(280)), flags=0x2000 + n)) for n in range(10)]
    frames += [ethernet(IPV4, ipv4(udp(dice.randbytes(280)), to="10.99.0.78")) for _ in range(10)]
    frames += [ethernet(IPV4, gsi(mad(dice, 0x10 + n), icrc=False)) for n in range(11)]
    frames += [ethernet(IPV4, gsi(mad(dice, 0x10 + n), opcode=4)) for n in range(11)]
    frames += [ethernet(IPV4, gsi(mad(dice, 0x10 + n), qpn=2)) for n in range(11)]
    frames += [ethernet(IPV4, gsi(mad(dice, 0x10 + n), f"10.99.0.{100 + n}")) for n in range(11)]
    frames += [ethernet(IPV4, gsi(mad(dice, 0x10, manager=3))), ethernet(IPV4, gsi(mad(dice, 0x99)))]
    report = under(stage, frames)
    for name in ("ignored_framing", "ignored_icrc", "ignored_class", "ignored_attribute", "ignored_unknown-connection",
                 "for_others"):
        expect(report.get(name, 0) > 0, f"the board has not counted {name}")


def arp_storm(stage):
    """ARP questions and answers from everywhere, to everybody and to the board, as fast as they go."""
    dice = random.Random(6)
    frames = [ethernet(ARP, arp(dice, operation, target), to)
              for _ in range(100) for operation in (1, 2)
              for target, to in ((board.ADDRESS, BROADCAST), ("10.99.0.8", BROADCAST), (board.ADDRESS, BOARD_MAC))]
    under(stage, frames)


def arp(dice, operation, target):
    source = socket.inet_aton(f"10.99.0.{dice.randrange(80, 250)}")
    return struct.pack("!HHBBH6s4s6s4s", 1, 0x0800, 6, 4, operation, b"\x52" + dice.randbytes(5), source, b"\0" * 6,
                       socket.inet_aton(target))


def strangers(stage):
    """REQs with the right CRC from addresses that nobody has: each is answered to nobody, and blocks nobody."""
    dice = random.Random(7)
    frames = [ethernet(IPV4, gsi(mad(dice, 0x10), f"10.99.0.{n}")) for n in range(100, 250)]
    under(stage, frames)


def under(stage, frames):
    """These frames at full speed, then gently while `nanocm` connects; by how much the board's numbers have grown."""
    with Noise(frames, gently=False) as flood:
        time.sleep(FLOOD)
    stage.note(f"flood: {flood}")
    stage.board.becomes(patience=60, connections=0)
    with Noise(frames, gently=True) as noise:
        program = stage.nanocm("connect", plays.THERE, "--from", plays.HERE, "--count", CONNECTIONS)
        program.ends(0, limit=120)
    program.said(ESTABLISHED=CONNECTIONS, DISCONNECTED=CONNECTIONS)
    stage.board.becomes(patience=60, connections=0)
    gained = stage.board.gained()
    ignored = sum(count for name, count in gained.items() if name.startswith("ignored_"))
    stage.note(f"{CONNECTIONS} connections meanwhile: {noise}")
    stage.note(f"the board: {gained['frames']:,} frames, {gained.get('roce', 0):,} to the engine, of which {ignored:,} "
               f"ignored, {gained['answers_limited']:,} not answered for their number")
    expect(gained["frames"] > LEAST, f"no noise: {gained['frames']} frames have come")
    expect(gained.get("roce", 0) == gained["received"], "not every RoCE frame is the engine's")
    expect(gained["accepted"] >= CONNECTIONS, "the board counts fewer connections than there were")
    return gained


for play in (unusable, impostors, garbage, arp_storm, strangers):
    play.MESSAGES, play.FILTER = None, ("ether", "src", board.MAC, "and", "udp", "port", "4791")

ALL = (unusable, impostors, garbage, arp_storm, strangers)
