"""Scenarios: how they are found, and the stage on which one plays.

A scenario is a file in scenarios/ with

    a docstring       what happens, in a sentence
    PROVIDERS         nanocm's, as in `--provider`: one variant of the scenario for each,
    FAMILIES          and for each of these address families
    MESSAGES          how often each CM message must be on the wire, retransmissions not counted: a number, or the
                      least and the most; none other
    play(stage, provider, family)
                      what Linux runs, what nanocm runs, and what must be seen on both sides

and, where it differs from a clean wire between healthy programs,

    KERNELS           those that have what it needs; all without it
    REPEATED          the messages that may be retransmitted
    INCOMPLETE        how many connections may lack a message of their end
    UNREACHABLE       True if ICMP may say that nobody has UDP port 4791
    ODD               True if nanocm sends wrong frames on purpose: of the capture no more is checked than Linux's CRCs
    wire(trace)       sentences about what else is wrong with the capture (packets.Trace), if MESSAGES are right
"""

import importlib
import itertools
import pathlib
import sys
from typing import NamedTuple

import network
from command import Trouble
from nanocm import PATIENCE, Program

FOLDER = pathlib.Path(__file__).parent / "scenarios"


class Variant(NamedTuple):
    name: str  # "cmtime-client-raw-v4"
    module: object
    provider: str
    family: str

    def play(self, stage):
        self.module.play(stage, self.provider, self.family)

    def is_for(self, kernel):
        return kernel in self.has("KERNELS", [kernel])

    def has(self, name, otherwise):
        """What the scenario says of itself, where it need not."""
        return getattr(self.module, name, otherwise)


def variants():
    """All of them, in the order of their names."""
    sys.path.append(str(FOLDER))
    for path in sorted(FOLDER.glob("*.py")):
        module = importlib.import_module(path.stem)
        for provider, family in itertools.product(module.PROVIDERS, module.FAMILIES):
            yield Variant(f"{path.stem.replace('_', '-')}-{provider}-{family}", module, provider, family)


def chosen(names):
    """The variants of that name or whose name begins so; all of them for no name."""
    found = list(variants())
    for name in names:
        if not any(matches(variant, name) for variant in found):
            raise Trouble(f"There is no scenario {name}; --list shows them.")
    return [variant for variant in found if not names or any(matches(variant, name) for name in names)]


def matches(variant, name):
    name = name.replace("_", "-")  # as the file is called
    return variant.name == name or variant.name.startswith(f"{name}-")


class Stage:
    """What a scenario plays with: the guest's programs and nanocm. A context; leaving ends what still runs."""

    def __init__(self, guest, binary, folder):
        self.guest, self.binary, self.folder = guest, binary, folder
        self.started, self.programs = [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for program in self.programs:
            program.kill()
        for command, background in self.started:
            background.kill()
            self.log(command, background.output())

    def linux(self, *command, limit=60):
        """Runs a program in the guest to its end; (exit status, output)."""
        command = [str(word) for word in command]
        status, text = self.guest.run(*command, limit=limit)
        self.log(command, f"{text.rstrip()}\nexit status {status}")
        return status, text

    def linux_start(self, *command):
        """Starts a program in the guest and leaves it running."""
        command = [str(word) for word in command]
        background = self.guest.start(*command)
        self.started.append((command, background))
        return background

    def linux_server(self, port, *command):
        """Starts a program in the guest that listens on an RDMA port, and waits until it does."""
        server = self.linux_start(*command)
        listening = f"rdma resource show cm_id | grep -q 'state LISTEN .*:{port} '"
        expect(self.guest.becomes_true(listening, PATIENCE), f"`{server.shown}` does not listen on port {port}")
        return server

    def nanocm(self, verb, *arguments):
        """Starts nanocm on the host's side."""
        stem = self.folder / f"nanocm-{len(self.programs) + 1}-{verb}"
        program = Program(self.binary, [verb, *arguments], stem)
        self.programs.append(program)
        return program

    def log(self, command, text):
        with open(self.folder / "linux.log", "a") as log:
            log.write(f"$ {' '.join(command)}\n{text.rstrip()}\n\n")


def expect(condition, sentence):
    """What a scenario demands; the sentence says what was seen instead."""
    if not condition:
        raise Trouble(sentence)


def here(family, port):
    """ADDR:PORT on nanocm's side."""
    return network.endpoint(network.host_address(family), port)


def beside(family, port, which=1):
    """ADDR:PORT on nanocm's side again, but at another address (of three), for a second nanocm."""
    return network.endpoint(network.other_address(family, which), port)


def there(family, port):
    """ADDR:PORT on Linux's side."""
    return network.endpoint(network.guest_address(family), port)
