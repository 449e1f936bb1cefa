"""Linux's rdma_server waits for data alone: it disconnects by ending, and leaves nanocm's DREQ open until it ends."""

from scenario import PATIENCE, expect, there

PROVIDERS = ("raw",)
FAMILIES = ("v4",)

MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), 2)
REPEATED = ("DREQ",)
PORT = 7471


def play(stage, provider, family):
    server = stage.linux_server(PORT, "rdma_server", "-p", PORT)
    nanocm = stage.nanocm("connect", there(family, PORT), "--provider", provider, "--hold", 60000)
    nanocm.comes_to_say("ESTABLISHED")
    server.signal("TERM")
    ended(nanocm, "peer")

    server = stage.linux_server(PORT, "rdma_server", "-p", PORT)
    nanocm = stage.nanocm("connect", there(family, PORT), "--provider", provider)
    nanocm.comes_to_say("ESTABLISHED")
    # The kernel has the DREQ, but no DREP before the application asks for one or ends.
    arrived = stage.guest.becomes_true("rdma resource show cm_id | grep -q 'state DISCONNECT '", PATIENCE)
    expect(arrived and not nanocm.events("DISCONNECTED"), "Linux answered the DREQ itself")
    server.signal("TERM")
    ended(nanocm, "local")


def ended(nanocm, cause):
    nanocm.ends(0)
    nanocm.said(ESTABLISHED=1, DISCONNECTED=1)
    said = nanocm.events("DISCONNECTED")[0].get("cause")
    expect(said == cause, f"the cause of nanocm's DISCONNECTED is {said}, not {cause}")


def wire(trace):
    if [dreq.from_linux for dreq in trace.named("DREQ")][:2] != [True, False]:
        yield "the first DREQ is not Linux's, or the second not nanocm's"
