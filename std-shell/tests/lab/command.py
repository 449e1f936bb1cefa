"""Commands of this machine, and the lab's one error."""

import os
import subprocess


class Trouble(Exception):
    """Something is missing or did not happen. The text says what, and what to do where that is known."""


def output(command, timeout=900, cwd=None, **environment):
    """What a command prints. Its failure is a Trouble that holds what it said."""
    shown = " ".join(command)
    try:
        done = subprocess.run(command, cwd=cwd, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
    except FileNotFoundError:
        raise Trouble(f"{command[0]}: there is no such program on this machine.") from None
    except subprocess.TimeoutExpired:
        raise Trouble(f"`{shown}` took more than {timeout} s.") from None
    if done.returncode != 0:
        raise Trouble(f"`{shown}` failed:\n{done.stdout.strip()}")
    return done.stdout
