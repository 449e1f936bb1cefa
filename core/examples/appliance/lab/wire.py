"""One play after the other on the wire: each with its capture, which is kept and checked; what came of it."""

import shutil
import time

import board
import checks
import network
import packets
from command import Trouble
from scenario import Stage

# Octets that the engine may take, and that must be left of all RAM. Below the stack lies `.bss`: a stack that has overflowed
# is not seen as more than there was, only as all that there was.
ENGINE, SPARE = 8 * 1024, 1024


class Expected:
    """A play as checks.py wants to hear of it: what its capture may hold."""

    def __init__(self, play):
        self.play, self.module, self.MESSAGES = play, self, play.MESSAGES

    def has(self, name, otherwise):
        return getattr(self.play, name, otherwise)


class Test:
    """What has passed and what has not."""

    def __init__(self, nanocm, out, kernel):
        self.nanocm, self.out, self.kernel = nanocm, out, kernel
        self.passed = self.failed = 0

    def play_all(self, plays, running, guest=None):
        for play in plays:
            self.play(play, running, guest)

    def play(self, play, running, guest=None):
        """Plays it while tcpdump records the wire, then checks the capture."""
        folder = self.out / play.__name__.replace("_", "-")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        capture, trace, problems = network.Capture(folder / "wire.pcap", *getattr(play, "FILTER", ())), packets.Trace(self.kernel), []
        notes = []
        start = time.monotonic()
        try:
            with capture, Stage(guest, self.nanocm, folder) as stage:
                stage.board, stage.note = running, notes.append
                running.mark()
                play(stage)
            capture.check()
            trace.read(capture.pcap)
            if play.MESSAGES is None:
                problems += from_board(capture.pcap)
            else:
                problems += checks.problems(capture.pcap, trace, Expected(play), self.nanocm)
            if guest:
                guest.check()
        except Trouble as trouble:
            problems.append(str(trouble))
        self.note(f"{play.__name__.replace('_', '-'):16} {time.monotonic() - start:5.1f} s  "
                  f"{len(trace.messages):5} CM messages, {len(trace.retransmissions)} again", problems, notes)

    def note(self, what, problems, notes=()):
        print(f"{'FAIL' if problems else 'pass'}  {what}", flush=True)
        for problem in [*notes, *problems]:
            print(f"        {problem}", flush=True)
        self.failed += bool(problems)
        self.passed += not problems

    def check_memory(self, report, engine=ENGINE):
        """The budgets of RAM, as the board itself has measured."""
        used = board.memory(report)
        problems = []
        if engine is not None and report["engine"] > engine:
            problems.append(f"the engine takes {report['engine']} octets, more than {engine}")
        if used + SPARE > board.RAM:
            problems.append(f"{used} octets in use: of {board.RAM}, less than {SPARE} are left")
        self.note(f"RAM: {used} octets of {board.RAM}; of them {report['engine']} for the engine, at most "
                  f"{report['stack']} of stack", problems)

    def result(self):
        print(f"appliance: {self.passed} of {self.passed + self.failed} passed; captures are in {self.out}")
        return 0 if self.failed == 0 < self.passed else 1


def from_board(pcap):
    """Of a wire with noise on it: what the board itself sent must be right, CRC by CRC."""
    sent = 0
    for frame, (_, octets) in enumerate(packets.frames(pcap), 1):
        ip = packets.ip_packet(octets)
        if ip is not None and ip.src == board.ADDRESS and ip.is_roce():
            sent += 1
            if not ip.icrc_is_right():
                yield f"wrong invariant CRC in frame {frame}, which the board sent"
    if not sent:
        yield "the board has sent no CM message"
