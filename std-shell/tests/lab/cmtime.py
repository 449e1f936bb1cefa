"""cmtime as a client. Each rdma-core's wants to be called in its own way; the newer keep step with their server over TCP.

6.1's connects so many times at once, then disconnects. 6.12's does so once, then so many times with queue pairs, then so
many times without: numbers from BASE_QPN on stand for them, and the CM is alone. Between the steps it sends its server
an octet and waits for the same octet. sid's does likewise, but is told where to connect to by a "controller" over TCP.
Its TCP is IPv4 alone.
"""

import itertools
import socket

import network
from nanocm import PATIENCE
from processes import eventually
from scenario import expect

# For the nanocm that it connects to: the host's TCP port of that number is wanted, so it must not be held.
BESIDE_TCP = ("--ports", "independent")

BASE_QPN = 100_000  # far from those that Soft-RoCE counts up from 17

DISCONNECTED = b"\x0e"  # the octet that says: my part in the disconnecting is done

PEER = 136  # octets of what sid's tells of a peer: a struct sockaddr_storage and its role
LISTENS = 1


def rounds(kernel, connections):
    """How many connections it makes, one after the other round."""
    return [connections] if kernel == "6.1" else [1, connections, connections]


def client(stage, nanocm, port, connections, limit=60):
    """Runs it against a nanocm that listens at the host's IPv4 address: (exit status, output)."""
    server = network.host_address("v4")
    command = ["cmtime", "-c", connections, "-p", port]
    if stage.guest.release.kernel == "6.1":
        return stage.linux(*command, "-s", server, limit=limit)
    command += ["-q", BASE_QPN]
    with socket.create_server((server, port)) as listener:
        if stage.guest.release.kernel == "6.12":
            cmtime = stage.linux_start(*command, "-s", server)
        else:
            cmtime = stage.linux_start(*command, "-C", server, "-b", network.guest_address("v4"))
        listener.settimeout(PATIENCE)
        with listener.accept()[0] as tcp:
            tcp.settimeout(limit)
            if stage.guest.release.kernel == "sid":
                introduce(tcp, server, port)
            for done in itertools.accumulate(rounds(stage.guest.release.kernel, connections)):
                keep_step(tcp, nanocm, done, limit)
            tcp.recv(1)  # its end
    return cmtime.status(PATIENCE), cmtime.output()


def introduce(tcp, address, port):
    """As sid's controller that is also its server: takes what it says of itself, and tells of both."""
    client = b""
    while len(client) < PEER:
        piece = tcp.recv(PEER - len(client))
        expect(piece, "cmtime has hung up on its controller")
        client += piece
    sockaddr = socket.AF_INET.to_bytes(2, "little") + port.to_bytes(2, "big") + socket.inet_aton(address)
    tcp.sendall(sockaddr.ljust(PEER - 8, b"\0") + LISTENS.to_bytes(8, "little") + client)


def keep_step(tcp, nanocm, done, limit):
    """One round. A server answers the last octet when all are over, for then the client destroys its identifiers."""
    step = None
    while step != DISCONNECTED:
        step = tcp.recv(1)
        if not step:
            return  # it has failed, and says why
        if step == DISCONNECTED:
            expect(eventually(lambda: over(nanocm) >= done, limit), f"{over(nanocm)} are over for nanocm, not {done}")
        tcp.sendall(step)


def over(nanocm):
    """How many of its connections are over."""
    return sum(len(nanocm.events(name)) for name in ("DISCONNECTED", "REJECTED", "UNREACHABLE"))
