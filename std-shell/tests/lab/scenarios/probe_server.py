"""`nanocm probe` holds all its conversations with Linux's CM, ucmatose and udaddy: nothing deviates, and Linux goes on."""

import subprocess

import network
from scenario import PATIENCE, expect, there

PROVIDERS = ("udp",)
FAMILIES = ("v4", "v6")

MESSAGES = {}
ODD = True
PORT = 7174  # udaddy has no other
ROOM = 200  # connections and questions, more than there are

# What it takes, which is 20 s, and that again on a busy machine.
LIMIT = 120


def play(stage, provider, family):
    # Both end when a connection fails, and some conversations are about that.
    for program, space in (("udaddy -C 0", "UDP"), (f"ucmatose -p {PORT}", "TCP")):
        command = f"{program} -b {network.guest_address(family)} -c {ROOM}"
        stage.linux_start("sh", "-c", f"while true; do {command}; done")
        listening = f"rdma resource show cm_id | grep -q 'state LISTEN ps {space} '"
        expect(stage.guest.becomes_true(listening, PATIENCE), f"`{command}` does not listen")

    probe = stage.nanocm("probe", there(family, PORT), "--provider", provider)
    probe.ends(0, LIMIT)
    untested = {event["name"] for event in probe.events("PROBED") if event["verdict"] == "not-tested"}
    expect(all(name.startswith("payload-") for name in untested), f"not tested: {', '.join(sorted(untested))}")

    stage.nanocm("connect", there(family, PORT), "--provider", provider).ends(0)

    if family == "v4":
        write_report(stage, there(family, PORT))


def write_report(stage, address):
    """The same once more, as docs/probe-*.md have it."""
    command = [stage.binary, "probe", address, "--markdown", f"Linux {stage.guest.version()}, Soft-RoCE"]
    with open(stage.folder / "report.md", "w") as report:
        ended = subprocess.run(command, stdout=report, timeout=LIMIT)
    expect(ended.returncode == 0, f"the probe that writes report.md ended with {ended.returncode}")
