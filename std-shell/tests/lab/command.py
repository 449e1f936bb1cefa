"""Commands of this machine, and the lab's one error."""

import os
import subprocess


class Trouble(Exception):
    """Something is missing or did not happen. The text says what, and what to do where that is known."""


def output(command, limit=120, cwd=None, **environment):
    """What a command prints on stdout. Its failure is a Trouble that holds what it said."""
    shown = " ".join(command)
    try:
        done = subprocess.run(command, cwd=cwd, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit)
    except FileNotFoundError:
        raise Trouble(f"{command[0]}: there is no such program on this machine.") from None
    except PermissionError:
        raise Trouble(f"{command[0]}: this program of this machine may not be run.") from None
    except subprocess.TimeoutExpired:
        raise Trouble(f"`{shown}` took more than {limit} s.") from None
    if done.returncode != 0:
        raise Trouble(f"`{shown}` failed:\n{(done.stdout + done.stderr).strip()}")
    return done.stdout
