"""What is played with the board and a Linux guest on one wire: the kernel's own CM at the other end.

The wire is a hub in the guest's QEMU: the host's tap, the guest, and a socket that the board's QEMU plugs into. So the
capture on the tap has everything.
"""

import re

import board
import network
import plays
from guest import Guest
from scenario import expect

SOCKET = "127.0.0.1:4444"  # in the lab's own namespace
GUEST = network.guest_address("v4")
PORT = 7174  # rping's on the guest

# What cmtime prints of an event that is not the one they want.
EVENT = re.compile(r"event: \S+, error: (-?\d+)")


class GuestOnHub(Guest):
    """The lab's guest, on a hub instead of the tap itself."""

    def command(self, initramfs):
        command = super().command(initramfs)
        at = next(i for i, word in enumerate(command) if word.startswith("tap,id=wire,"))
        hub = [command[at].replace("id=wire", "id=tap"), "hubport,id=port0,hubid=0,netdev=tap",
               f"socket,id=board,listen={SOCKET}", "hubport,id=port1,hubid=0,netdev=board", "hubport,id=wire,hubid=0"]
        command[at - 1:at + 1] = [word for netdev in hub for word in ("-netdev", netdev)]
        return command


def play(test, release, root, small, large):
    """Boots the guest, and each image in turn."""
    cable = f"socket,id=cable,connect={SOCKET}"
    folder = test.out / f"guest-{release.kernel}"
    folder.mkdir(parents=True, exist_ok=True)
    with GuestOnHub(release, root, folder) as guest:
        print(f"appliance: Linux {guest.version()} is up", flush=True)
        has_cmtime = release.kernel == "6.1"
        with board.Board(small, test.out / "board-8", cable) as running:
            test.play_all((eight, too_many) if has_cmtime else (), running, guest)
            test.play_all((refused, calls_linux), running, guest)
        test.check_memory(running.last)
        if not has_cmtime:
            return
        with board.Board(large, test.out / "board-100", cable) as running:
            test.play_all((hundred,), running, guest)
        test.check_memory(running.last, engine=None)


def connect(stage, count):
    """Linux's cmtime connects so many times at once, and disconnects when the last has been answered; the errors it saw.
    That of rdma-core 44: newer ones keep step with their server over TCP, which the board has not.
    """
    _, text = stage.linux("cmtime", "-s", board.ADDRESS, "-p", board.PORT, "-c", count)
    return [int(error) for error in EVENT.findall(text)]


def eight(stage):
    """`cmtime -c 8` ten times."""
    for _ in range(10):
        errors = connect(stage, 8)
        expect(not errors, f"Linux has seen the errors {errors}")
    stage.board.gains(accepted=80, established=80, ended=80, connections=0)


eight.MESSAGES = {"MRA": (0, 80), **dict.fromkeys(plays.HANDSHAKE, 80)}


def too_many(stage):
    """`cmtime -c 100`: eight are accepted, 92 refused with reason 3."""
    errors = connect(stage, 100)
    expect(errors == [3] * 92, f"Linux has seen the errors {errors}")
    stage.board.gains(accepted=8, no_resources=92, connections=0)


too_many.MESSAGES = {"REQ": 100, "REJ": 92, "MRA": (0, 8), **dict.fromkeys(plays.HANDSHAKE[1:], 8)}


def hundred(stage):
    """`cmtime -c 100` against the image for 100 connections, three times: all of them open in 64 KiB."""
    for _ in range(3):
        errors = connect(stage, 100)
        expect(not errors, f"Linux has seen the errors {errors}")
    stage.board.gains(accepted=300, established=300, ended=300, connections=0)


hundred.MESSAGES = {"MRA": (0, 300), **dict.fromkeys(plays.HANDSHAKE, 300)}
eight.REPEATED = too_many.REPEATED = hundred.REPEATED = plays.HANDSHAKE


def refused(stage):
    """Linux's rping while the service is closed: reason 28; its ucmatose where nothing listens: reason 8."""
    stage.board.tell("refuse", 28)
    _, text = stage.linux("rping", "-c", "-a", board.ADDRESS, "-p", board.PORT, "-C", 1)
    expect("RDMA_CM_EVENT_REJECTED, error 28" in text, f"rping says: {text.strip()}")
    stage.board.tell("refuse", 0)
    _, text = stage.linux("ucmatose", "-s", board.ADDRESS, "-p", board.PORT + 1, "-C", 0)
    expect("RDMA_CM_EVENT_REJECTED, error: 8" in text, f"ucmatose says: {text.strip()}")
    stage.board.gains(refused=1, no_listener=1)


refused.MESSAGES = {"REQ": 2, "REJ": 2}


def calls_linux(stage):
    """The board connects to Linux's `rping -s` and hangs up."""
    server = stage.linux_server(PORT, "rping", "-s", "-C", 1, "-a", GUEST, "-p", PORT)
    stage.board.tell("connect", GUEST, PORT)
    stage.board.becomes(call=("ESTABLISHED", "0"))
    stage.board.tell("disconnect")
    expect(server.status(20) == 0, f"rping -s does not end well: {server.output().strip()}")
    expect("DISCONNECT EVENT" in server.output(), f"rping -s says: {server.output().strip()}")
    stage.board.gains(established=1, connections=0)


calls_linux.MESSAGES = dict.fromkeys(plays.HANDSHAKE, 1)
