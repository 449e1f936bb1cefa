"""The application of `nanocm listen` never answers: rejected at its deadline, which Linux learns; MRA if Linux asks again before."""

import network
from scenario import PATIENCE, beside, expect, here

PROVIDERS = ("udp",)
FAMILIES = ("v4",)

MESSAGES = {"REQ": 2, "MRA": (1, 2), "REJ": 2}
REPEATED = ("REQ",)
PORT = 7471

# Milliseconds. 6.1 asks again after 6.1 s, newer kernels after 4.6 s or, on a busy machine, too late for the first; and
# all ask a third time before the second is over, unless they heed the MRA.
SOON, LATE = 5_000, 14_000


def play(stage, provider, family):
    soon = unanswering(stage, here(family, PORT), provider, SOON)
    late = unanswering(stage, beside(family, PORT), provider, LATE)
    rping = stage.linux_start("rping", "-c", "-a", network.host_address(family), "-p", PORT, "-C", 1)
    ucmatose = stage.linux_start("ucmatose", "-s", network.second_address(family), "-p", PORT, "-C", 0)

    ends(soon, SOON, asked_again=(0,) if stage.guest.release.kernel == "6.1" else (0, 1))
    ends(late, LATE, asked_again=(1,))

    # Without the REJ, Linux 6.1 would wait 17 minutes after an MRA.
    expect(rping.status(PATIENCE) == 255, "rping did not end with status 255")
    expect("RDMA_CM_EVENT_REJECTED, error 28" in rping.output(), f"rping was not rejected: {rping.output().strip()}")
    expect(ucmatose.status(PATIENCE) == 28, "ucmatose did not end with the reason 28")
    expect("RDMA_CM_EVENT_REJECTED, error: 28" in ucmatose.output(),
           f"ucmatose was not rejected: {ucmatose.output().strip()}")


def unanswering(stage, endpoint, provider, deadline):
    nanocm = stage.nanocm("listen", endpoint, "--provider", provider, "--count", 1, "--accept-after", 60_000,
                          "--accept-deadline", deadline, "--counters")
    nanocm.comes_to_say("LISTENING")
    return nanocm


def ends(nanocm, deadline, asked_again):
    nanocm.ends(0)
    nanocm.said(LISTENING=1, CONNECT_REQUEST=1, CONNECT_ERROR=1, COUNTERS=1)
    request, error = nanocm.events("CONNECT_REQUEST")[0], nanocm.events("CONNECT_ERROR")[0]
    waited = (error["time"] - request["time"]) * 1000
    expect(deadline - 100 <= waited <= deadline + 1000, f"nanocm rejected after {waited:.0f} ms, not after {deadline}")
    counters = nanocm.events("COUNTERS")[0]
    expect(counters.get("accept_overdue") == 1, f"nanocm counts {counters}")
    expect(counters.get("duplicates", 0) in asked_again, f"nanocm counts {counters}: Linux asked too often or not again")


def wire(trace):
    repeated = {(m.dst, m.local_id) for m in trace.retransmissions}
    patient = {(m.src, m.remote_id) for m in trace.messages if m.name == "MRA"}
    if repeated != patient:
        yield f"the REQs {sorted(repeated)} came again, and MRA answered {sorted(patient)}"
