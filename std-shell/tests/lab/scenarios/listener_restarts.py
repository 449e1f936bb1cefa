"""`nanocm listen` is killed while Linux's ucmatose is connected and starts again: it answers the DREQ of a connection it never had."""

import network
from scenario import PATIENCE, expect, here

PROVIDERS = ("udp",)
FAMILIES = ("v4",)

MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), 2)
PORT = 7471


def play(stage, provider, family):
    first = start(stage, provider, family)
    old = client(stage, family)
    first.comes_to_say("ESTABLISHED")
    first.signal("KILL")
    first.ends(-9)

    second = start(stage, provider, family)
    new = client(stage, family)
    second.comes_to_say("ESTABLISHED")
    # So Linux disconnects, some time after the kill; then it has the other connection alone.
    old.kill()
    expect(stage.guest.becomes_true("[ $(rdma resource show cm_id | wc -l) = 1 ]", PATIENCE), "Linux does not disconnect")
    second.signal("INT")
    second.ends(0)
    second.said(LISTENING=1, CONNECT_REQUEST=1, ESTABLISHED=1, DISCONNECTED=1, COUNTERS=1)
    ignored = second.events("COUNTERS")[0].get("ignored")
    expect(ignored == {"unknown-connection": 1}, f"nanocm ignored {ignored}, not one message of an unknown connection")
    expect(new.status(PATIENCE) == 0, "the client of the second nanocm did not end well")


def start(stage, provider, family):
    nanocm = stage.nanocm("listen", here(family, PORT), "--provider", provider, "--counters")
    nanocm.comes_to_say("LISTENING")
    return nanocm


def client(stage, family):
    return stage.linux_start("ucmatose", "-s", network.host_address(family), "-p", PORT, "-c", 1, "-C", 0)
