"""One connection each way between Linux and nanocm, for scenarios that care what it looks like on the wire."""

from network import endpoint
from scenario import PATIENCE, expect

PORT = 7471

CONNECTIONS = 2
MESSAGES = dict.fromkeys(("REQ", "REP", "RTU", "DREQ", "DREP"), CONNECTIONS)


def connect(stage, provider, ours, theirs, links=("", ""), linux_options=(), nanocm_options=()):
    """ucmatose connects to `nanocm listen` at our address, then `nanocm connect` to rping at theirs; Linux disconnects
    the first, nanocm the second. `links` is the "%interface" that goes with addresses here and in the guest, if any.
    """
    here, there = links
    nanocm = stage.nanocm("listen", endpoint(ours + here, PORT), "--provider", provider, "--count", 1)
    nanocm.comes_to_say("LISTENING")
    kind = "ipv6" if ":" in ours else "ip"
    ucmatose = stage.linux_start("ucmatose", "-s", ours + there, "-f", kind, "-p", PORT, "-c", 1, "-C", 0,
                                 *linux_options)
    nanocm.comes_to_say("ESTABLISHED")
    ucmatose.kill()  # since it waits for the server to disconnect; so Linux does it
    nanocm.ends(0)
    nanocm.said(LISTENING=1, CONNECT_REQUEST=1, ESTABLISHED=1, DISCONNECTED=1)
    peer = nanocm.events("ESTABLISHED")[0]["peer"].strip("[")
    expect(peer.startswith(theirs), f"nanocm says that its peer is {peer}, not {theirs}")

    rping = stage.linux_server(PORT, "rping", "-s", "-a", theirs + there, "-p", PORT, "-v", "-C", 1)
    nanocm = stage.nanocm("connect", endpoint(theirs + here, PORT), "--provider", provider, "--hold", 200,
                          *nanocm_options)
    nanocm.ends(0)
    nanocm.said(ESTABLISHED=1, DISCONNECTED=1)
    expect(rping.status(PATIENCE) is not None, "rping did not end after the disconnect")
