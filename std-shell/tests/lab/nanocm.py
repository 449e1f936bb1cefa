"""nanocm as the lab runs it: always with --json, its objects read back from the file that is kept."""

import collections
import json
import signal

import processes
from command import Trouble

PATIENCE = 20  # seconds, for what takes far less


class Program:
    """A running nanocm. Its objects are in `stem`.jsonl, what it says to people in `stem`.log."""

    def __init__(self, binary, arguments, stem):
        arguments = [*map(str, arguments), "--json"]
        self.shown = f"`nanocm {' '.join(arguments)}`"
        self.out, self.err = stem.with_suffix(".jsonl"), stem.with_suffix(".log")
        self.process = processes.start([binary, *arguments], stdout=self.out, stderr=self.err)

    def objects(self):
        """What it has printed so far, whole lines only."""
        lines = self.out.read_text().rpartition("\n")[0].splitlines()
        try:
            return [json.loads(line) for line in lines]
        except ValueError:
            raise Trouble(f"{self.shown} prints what is not JSON; see {self.out}") from None

    def events(self, name):
        return [event for event in self.objects() if event.get("event") == name]

    def comes_to_say(self, name, limit=PATIENCE, times=1):
        """Waits for so many events of that name, and returns the first."""
        processes.eventually(lambda: len(self.events(name)) >= times or self.process.poll() is not None, limit)
        said = self.events(name)
        if len(said) < times:
            raise Trouble(f"{self.shown} says {name} {len(said)} times, not {times}: {self.last_words()}")
        return said[0]

    def ends(self, status, limit=PATIENCE):
        """Waits for its end, which must be with that exit status."""
        processes.eventually(lambda: self.process.poll() is not None, limit)
        ended = self.process.poll()
        if ended is None:
            raise Trouble(f"{self.shown} still runs after {limit} s: {self.last_words()}")
        if ended != status:
            raise Trouble(f"{self.shown} has exit status {ended}, not {status}: {self.last_words()}")

    def said(self, **expected):
        """Its events were these, by name and number, and no others."""
        counted = collections.Counter(event.get("event") for event in self.objects())
        if counted != collections.Counter(expected):
            raise Trouble(f"{self.shown} says {dict(counted)}, not {expected}")

    def last_words(self):
        said = (self.out.read_text() + self.err.read_text()).strip().splitlines()
        return " / ".join(said[-2:]) or "it is silent"

    def signal(self, name):
        """Sends it a signal, such as "STOP"."""
        self.process.send_signal(signal.Signals[f"SIG{name}"])

    def kill(self):
        processes.stop(self.process)
