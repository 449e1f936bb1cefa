"""What is played with the board and the `nanocm` program at the two ends of a cable."""

import os
import socket
import struct
import time

import board
import network
from scenario import expect

HERE = network.host_address("v4")
THERE = network.endpoint(board.ADDRESS, board.PORT)
HANDSHAKE = ("REQ", "REP", "RTU", "DREQ", "DREP")


def ping(stage):
    """ICMP echo requests of 56 and 1400 octets are answered."""
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as icmp:
        icmp.settimeout(5)
        for number, size in enumerate((56, 1400)):
            data = os.urandom(size)
            icmp.sendto(echo(8, number, data), (board.ADDRESS, 0))
            answer = icmp.recv(2048)[20:]
            expect(answer == echo(0, number, data), f"an echo of {size} octets is not the one that was sent")


def echo(kind, number, data):
    head = struct.pack("!BBHHH", kind, 0, 0, 7, number)
    return head[:2] + checksum(head + data) + head[4:] + data


def checksum(octets):
    """The Internet checksum."""
    octets += b"\0" * (len(octets) % 2)
    total = sum(struct.unpack(f"!{len(octets) // 2}H", octets))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return struct.pack("!H", total ^ 0xFFFF)


ping.MESSAGES = {}


def connect(stage):
    """`nanocm connect` 100 times one after the other, then 100 times eight at once."""
    for parallel in (1, 8):
        program = stage.nanocm("connect", THERE, "--from", HERE, "--count", 100, "--parallel", parallel)
        program.ends(0)
        program.said(ESTABLISHED=100, DISCONNECTED=100)
    stage.board.gains(accepted=200, ended=200, connections=0)


connect.MESSAGES = dict.fromkeys(HANDSHAKE, 200)


def resolve(stage):
    """The datagram service is found; one that is not there is refused with status 1."""
    program = stage.nanocm("resolve", THERE, "--from", HERE)
    program.ends(0)
    expect(program.events("RESOLVED")[0]["qkey"] == 0x01500A11, "the Q_Key is not the board's")
    program = stage.nanocm("resolve", network.endpoint(board.ADDRESS, 7000), "--from", HERE)
    program.ends(1)
    expect(program.events("REJECTED")[0]["reason"] == 1, "the reason is not SIDR status 1")


resolve.MESSAGES = {"SIDR_REQ": 2, "SIDR_REP": 2}


def refuse(stage):
    """Refused: where nothing listens (8), while the service is closed (28), and the ninth of nine (3)."""
    refused(stage, network.endpoint(board.ADDRESS, 7000), 8)
    stage.board.tell("refuse", 28)
    event = refused(stage, THERE, 28)
    expect(bytes.fromhex(event["private_data"]).startswith(b"closed\0"), "the board does not say `closed`")
    stage.board.tell("refuse", 0)

    program = stage.nanocm("connect", THERE, "--from", HERE, "--count", 9, "--parallel", 9, "--hold", 500)
    program.ends(1)
    program.said(ESTABLISHED=8, DISCONNECTED=8, REJECTED=1, ERROR=1)
    expect(program.events("REJECTED")[0]["reason"] == 3, "the ninth is not refused with reason 3")
    stage.board.gains(refused=1, no_listener=1, no_resources=1, accepted=8)


def refused(stage, whom, reason):
    program = stage.nanocm("connect", whom, "--from", HERE)
    program.ends(1)
    event = program.events("REJECTED")[0]
    expect(event["reason"] == reason, f"refused with reason {event['reason']}, not {reason}")
    return event


refuse.MESSAGES = {"REQ": 11, "REJ": 3, **dict.fromkeys(HANDSHAKE[1:], 8)}


def call(stage):
    """The board calls: `nanocm listen` accepts, then the board hangs up; a port without listener; nobody."""
    listener = stage.nanocm("listen", network.endpoint(HERE, 4420), "--count", 1)
    listener.comes_to_say("LISTENING")
    stage.board.tell("connect", HERE, 4420)
    stage.board.becomes(call=("ESTABLISHED", "0"))
    stage.board.tell("disconnect")
    listener.ends(0)
    listener.said(LISTENING=1, CONNECT_REQUEST=1, ESTABLISHED=1, DISCONNECTED=1)
    stage.board.becomes(call=("DISCONNECTED", "0"), connections=0)

    listener = stage.nanocm("listen", network.endpoint(HERE, 4420))
    listener.comes_to_say("LISTENING")
    stage.board.tell("connect", HERE, 4421)
    stage.board.becomes(call=("REJECTED", "8"))
    # It asks every half second for three seconds, if its clock and its alarm are right. Nobody disturbs it meanwhile: a
    # question to the control port would wake it.
    asked = stage.board.gained()["arp_asked"]
    stage.board.tell("connect", "10.99.0.77", 4420)
    time.sleep(2.75)
    asked = stage.board.gained()["arp_asked"] - asked
    expect(asked in (4, 5, 6), f"{asked} ARP questions in 2.75 s, not 6")
    expect(stage.board.report()["call"] == ("CALLING", "0"), "the board gives up before its three seconds are over")
    stage.board.becomes(call=("ADDR_ERROR", "110"))
    expect(stage.board.ask("connect", "10.98.0.1", 4420) == "ok\n", "a call to another network is not tried")
    stage.board.becomes(call=("ADDR_ERROR", "101"))
    listener.signal("TERM")
    listener.ends(0)


call.MESSAGES = {"REQ": 2, "REJ": 1, **dict.fromkeys(HANDSHAKE[1:], 1)}


def cancel(stage):
    """The board hangs up before its call has been answered: while it looks for a neighbour, and while `nanocm listen` thinks,
    which hears of it. The next call works."""
    stage.board.tell("connect", "10.99.0.77", 4420)
    stage.board.becomes(call=("CALLING", "0"))
    cancelled(stage)

    listener = stage.nanocm("listen", network.endpoint(HERE, 4420), "--accept-after", 3000)
    listener.comes_to_say("LISTENING")
    stage.board.tell("connect", HERE, 4420)
    listener.comes_to_say("CONNECT_REQUEST")
    cancelled(stage)
    listener.comes_to_say("REJECTED")
    listener.signal("TERM")
    listener.ends(0)

    listener = stage.nanocm("listen", network.endpoint(HERE, 4420), "--count", 1)
    listener.comes_to_say("LISTENING")
    stage.board.tell("connect", HERE, 4420)
    stage.board.becomes(call=("ESTABLISHED", "0"))
    stage.board.tell("disconnect")
    listener.ends(0)
    stage.board.becomes(call=("DISCONNECTED", "0"), connections=0)


def cancelled(stage):
    stage.board.tell("disconnect")
    stage.board.becomes(call=("CANCELLED", "0"), ids=2, connections=0)


cancel.MESSAGES = {"REQ": 2, "REJ": 1, "MRA": (0, 1), **dict.fromkeys(HANDSHAKE[1:], 1)}


def pull(stage):
    """The cable is pulled in mid-handshake, for two seconds: once the board has asked, once it has been asked, once it
    has been told to end. Each goes on where it was."""
    listener = stage.nanocm("listen", network.endpoint(HERE, 4420), "--count", 1, "--accept-after", 500)
    listener.comes_to_say("LISTENING")
    stage.board.tell("connect", HERE, 4420)
    listener.comes_to_say("CONNECT_REQUEST")
    without_cable(stage)
    stage.board.becomes(call=("ESTABLISHED", "0"))
    stage.board.tell("disconnect")
    listener.ends(0)

    stage.board.plug(False)
    program = stage.nanocm("connect", THERE, "--from", HERE, "--hold", 300)
    time.sleep(1.5)
    stage.board.plug(True)
    program.comes_to_say("ESTABLISHED")
    without_cable(stage)
    program.ends(0)
    program.said(ESTABLISHED=1, DISCONNECTED=1)
    stage.board.gains(connections=0, established=2)


def without_cable(stage):
    stage.board.plug(False)
    time.sleep(2)
    stage.board.plug(True)


pull.MESSAGES = {"MRA": (0, 2), **dict.fromkeys(HANDSHAKE, 2)}
pull.REPEATED = HANDSHAKE

ALL = (ping, connect, resolve, refuse, call, cancel, pull)
