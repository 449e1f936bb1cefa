"""Processes of this machine that run beside the lab. None outlives it, however it ends."""

import signal
import subprocess
import time

POLL = 0.02  # seconds


def start(command, stdout, stderr, stdin=subprocess.DEVNULL):
    """Starts a program that the kernel kills when the lab dies. `stdout` and `stderr` are files' paths, or PIPE."""
    out = stdout if stdout == subprocess.PIPE else open(stdout, "wb")
    err = out if stderr == stdout else open(stderr, "wb")
    # A session of its own: Ctrl-C is the lab's to handle, in its order.
    process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdin=stdin, stdout=out, stderr=err,
                               start_new_session=True)
    for file in {out, err} - {subprocess.PIPE}:
        file.close()
    return process


def stop(process, politely=signal.SIGTERM, patience=3):
    """Ends a process, by force if it does not heed the signal."""
    if process.poll() is None:
        process.send_signal(politely)
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def eventually(condition, seconds):
    """Whether the condition becomes true within that time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(POLL)
    return True
