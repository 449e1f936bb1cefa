"""Linux's udaddy asks for a datagram service that is not there, has no queue pair, or will not: it reports status 1, 3, 2."""

import network
from scenario import expect, here

PROVIDERS = ("raw", "udp")
FAMILIES = ("v4", "v6")

QUESTIONS = 2
MESSAGES = {"SIDR_REQ": 3 * QUESTIONS, "SIDR_REP": 3 * QUESTIONS}
PORT = 7174  # udaddy has no other
PRIVATE_DATA = bytes(range(136))

NOT_THERE, REJECTED, NO_QP = 1, 2, 3


def play(stage, provider, family):
    nobody = stage.nanocm("listen", here(family, PORT + 1), "--space", "udp", "--provider", provider)
    nobody.comes_to_say("LISTENING")
    is_told(stage, family, NOT_THERE)
    nobody.signal("INT")
    nobody.ends(0)
    nobody.said(LISTENING=1)

    for reason, sidr_status in (("no-qp", NO_QP), ("consumer", REJECTED)):
        nanocm = stage.nanocm("listen", here(family, PORT), "--space", "udp", "--provider", provider, "--count", QUESTIONS,
                              "--reject", reason, "--private-data", PRIVATE_DATA.hex())
        nanocm.comes_to_say("LISTENING")
        is_told(stage, family, sidr_status)
        nanocm.ends(0)
        nanocm.said(LISTENING=1, CONNECT_REQUEST=QUESTIONS, REJECTED=QUESTIONS)
        said = {event.get("reason") for event in nanocm.events("REJECTED")}
        expect(said == {sidr_status}, f"nanocm says that it refused with {said}, not {sidr_status}")


def is_told(stage, family, sidr_status):
    status, text = stage.linux("udaddy", "-s", network.host_address(family), "-c", QUESTIONS, "-C", 0)
    said = f"RDMA_CM_EVENT_UNREACHABLE, error: {sidr_status}"
    expect(said in text, f"udaddy does not say {said}: {text.strip()}")
    expect(status == sidr_status, f"udaddy ended with status {status}, not {sidr_status}")


def wire(trace):
    answers = trace.named("SIDR_REP")
    statuses = [answer.field("status") for answer in answers]
    if statuses != [NOT_THERE] * QUESTIONS + [NO_QP] * QUESTIONS + [REJECTED] * QUESTIONS:
        yield f"the answers' statuses are {statuses}"
    for answer in answers[QUESTIONS:]:
        if answer.private_data != PRIVATE_DATA:
            yield f"frame {answer.frame}: the answer's private data is {answer.private_data.hex()}"
