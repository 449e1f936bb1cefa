"""The core's log: defmt frames that the board writes, a few octets for a line, and defmt-print puts into words."""

import pathlib
import re
import shutil
import subprocess

import board
import plays
from command import output

VERSION = "1.2.0"
INSTALL_LIMIT = 1800  # seconds, to compile it on a busy machine


def printer(folder):
    """defmt-print, compiled into that folder if this machine has none: not optimised, which would take much longer than the
    few lines here take to decode."""
    here = pathlib.Path(folder) / "tools" / "bin" / "defmt-print"
    found = shutil.which("defmt-print") or (str(here) if here.exists() else None)
    if found is None:
        print(f"appliance: installing defmt-print {VERSION} into {here.parent}", flush=True)
        output(["cargo", "install", "--quiet", "--locked", "--debug", "defmt-print", "--version", VERSION,
                "--root", str(here.parents[1])], INSTALL_LIMIT)
    return found or str(here)


def play(test, image, tool):
    with board.Board(image, test.out / "board-log", board.on_tap()) as running:
        test.play(log, running)
    frames = running.frames.read_bytes()
    done = subprocess.run([tool, "-e", str(image)], input=frames, capture_output=True, timeout=60)
    text = done.stdout.decode()
    (running.folder / "log.txt").write_text(text)
    moves = re.findall(r"conn (\d+): (\S+) -> (\S+)", text)
    states = [state for _, _, state in moves]
    problems = [f"the log does not say that a connection became {state}" for state in STATES if state not in states]
    test.note(f"log: {len(moves)} moves of connections in {len(frames)} octets", problems)


STATES = ("REQ_RCVD", "REP_SENT", "ESTABLISHED", "DREQ_RCVD")


def log(stage):
    """One connection, with an image that logs."""
    program = stage.nanocm("connect", plays.THERE, "--from", plays.HERE)
    program.ends(0)


log.MESSAGES = dict.fromkeys(plays.HANDSHAKE, 1)
