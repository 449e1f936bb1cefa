"""`nanocm probe --rude` without a listener: kernels after 6.1 take a payload of 260 octets as it is meant, and go on."""

from scenario import expect, there

KERNELS = ("6.12", "sid")  # 6.1 sends nothing more on queue pair 1
PROVIDERS = ("udp",)
FAMILIES = ("v4",)

MESSAGES = {}
ODD = True
PORT = 7999


def play(stage, provider, family):
    probe = stage.nanocm("probe", there(family, PORT), "--provider", provider, "--rude")
    probe.ends(0, 60)
    rude = [event for event in probe.events("PROBED") if event["name"].startswith("payload-")]
    expect(rude and all(event["verdict"] != "not-tested" for event in rude), "there was no rudeness")
