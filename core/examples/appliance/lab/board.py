"""The board in QEMU: its processor, its cable, its control port."""

import collections
import itertools
import pathlib
import re
import socket
import subprocess
import time

import network
import processes
from command import Trouble

ADDRESS = "10.99.0.9"
MAC = "52:54:00:00:00:04"
PORT = 7471  # both services'
CONTROL_PORT = 7470
# Where commands come from: another port for each, so that no late answer is taken for that to the next; none that tshark
# knows a protocol for.
OWN_PORTS = itertools.cycle(range(52_000, 53_000))
RAM = 64 * 1024
# What a command that has been obeyed answers when it comes again: there is a call (EISCONN), there is none (ENOENT).
DONE = {"connect": "error 106\n", "disconnect": "error 2\n"}

BOOT_LIMIT = 30  # seconds; far less than one on an idle machine
PATIENCE = 5


def on_tap():
    """The cable straight to the host."""
    return f"tap,id=cable,ifname={network.TAP},script=no,downscript=no"


class Board:
    """A context: entering boots an image, leaving makes it quit, which it must do in order."""

    def __init__(self, image, folder, cable, *options):
        self.image, self.folder, self.cable, self.options = image, folder, cable, options
        self.console, self.frames = folder / "board.log", folder / "board.defmt"
        self.monitor = folder / "monitor"
        self.ended = False

    def __enter__(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.monitor.unlink(missing_ok=True)
        command = [
            "qemu-system-arm", "-M", "lm3s6965evb", "-display", "none", "-serial", "none",
            "-monitor", f"unix:{self.monitor},server=on,wait=off",
            "-semihosting-config", "enable=on,target=native", "-kernel", str(self.image),
            "-nic", f"{self.cable},model=stellaris,mac={MAC}", *self.options,
        ]
        self.process = processes.start(command, stdout=self.frames, stderr=self.console)
        if not processes.eventually(lambda: "ready\n" in self.console.read_text(), BOOT_LIMIT):
            processes.stop(self.process)
            raise Trouble(f"The board does not start: {self.console.read_text().strip()}")
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and not self.ended:
                self.quit()
        finally:
            processes.stop(self.process)

    def ask(self, *words, patience=PATIENCE):
        """Sends the control port a command; the answer."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
            control.bind((network.host_address("v4"), next(OWN_PORTS)))
            control.connect((ADDRESS, CONTROL_PORT))
            control.settimeout(0.5)
            end = time.monotonic() + patience
            for number in itertools.count():
                if time.monotonic() > end:
                    break
                self.repeated = number > 0
                control.send(" ".join(map(str, words)).encode())
                try:
                    return control.recv(2048).decode()
                except (socket.timeout, ConnectionRefusedError):
                    pass
        raise Trouble(f"The board does not answer `{words[0]}`: {self.last_words()}")

    def tell(self, *words):
        """A command that must be obeyed. Sent again because its "ok" was lost, it finds that it has been."""
        answer = self.ask(*words)
        done = self.repeated and answer == DONE.get(words[0])
        if answer != "ok\n" and not done:
            raise Trouble(f"The board answers `{' '.join(map(str, words))}` with `{answer.strip()}`")

    def report(self):
        """Counters and memory, by name; what is 0 is not there. `call` is a word and a number."""
        return parse(self.ask("report"))

    def becomes(self, patience=20, **expected):
        """Waits until the report has these values."""
        def is_so():
            report = self.report()
            return all(report.get(name, 0) == value for name, value in expected.items())
        if not processes.eventually(is_so, patience):
            report = self.report()
            raise Trouble(f"The board says {({name: report.get(name, 0) for name in expected})}, not {expected}")

    def mark(self):
        """From here on `gains` counts."""
        self.before = self.report()

    def gained(self):
        """By how much each number has grown since `mark`; 0 for what is not there."""
        return collections.Counter({name: number - self.before.get(name, 0)
                                    for name, number in self.report().items() if name != "call"})

    def gains(self, patience=20, **expected):
        """Waits until the numbers have grown so much since `mark`."""
        def have():
            gained = self.gained()
            return all(gained.get(name, 0) == value for name, value in expected.items())
        if not processes.eventually(have, patience):
            gained = self.gained()
            raise Trouble(f"The board has counted {({name: gained.get(name, 0) for name in expected})}, not {expected}")

    def plug(self, plugged):
        """Pulls the cable, or plugs it in."""
        with socket.socket(socket.AF_UNIX) as monitor:
            monitor.connect(str(self.monitor))
            monitor.sendall(f"set_link cable {'on' if plugged else 'off'}\n".encode())
            heard = b""
            while heard.count(b"(qemu)") < 2:
                heard += monitor.recv(4096)

    def quit(self):
        """Ends the program; its last report, which it must give on its console too, and exit code 0."""
        self.ended = True
        report = self.last = parse(self.ask("quit"))
        try:
            status = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Trouble("The board does not quit.") from None
        if status != 0:
            raise Trouble(f"The board ended with exit code {status}: {self.last_words()}")
        if f"statics {report['statics']}\n" not in self.console.read_text():
            raise Trouble(f"The board's last report is not in {self.console}")
        return report

    def last_words(self):
        status = self.process.poll()
        said = self.console.read_text().strip().splitlines()[-2:]
        return f"{'it runs' if status is None else f'it ended with exit code {status}'}; {' / '.join(said)}"


def parse(text):
    """A report as a dictionary."""
    values = {}
    for line in text.splitlines():
        name, *rest = line.split()
        values[name] = int(rest[0]) if re.fullmatch(r"\d+", rest[0]) else tuple(rest)
    return values


def memory(report):
    """Octets of RAM in all: what is given away at the start, and the stack where it was deepest."""
    return report["statics"] + report["stack"]


def image(folder, name):
    """One that `make firmware` has built."""
    path = pathlib.Path(folder) / name
    if not path.exists():
        raise Trouble(f"There is no {path}: please run `make firmware`.")
    return path
