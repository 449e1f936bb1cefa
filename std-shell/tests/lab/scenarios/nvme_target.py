"""Linux's NVMe target accepts `nanocm connect` with NVMe/RDMA private data; its REJ says what is wrong with others."""

import contextlib
import struct

import network
from scenario import expect, there

PROVIDERS = ("raw",)
FAMILIES = ("v4", "v6")

MESSAGES = {"REQ": 3, "REJ": 2, "REP": 1, "RTU": 1, "DREQ": 1, "DREP": 1}
PORT = 4420

CONSUMER = 28

# NVMe over RDMA, all little-endian. Request: record format, queue, host's receive and send queue sizes, controller,
# reserved. Accept: record format, the controller's receive queue size, reserved. Reject: record format, status.
REQUEST = struct.Struct("<5H22x")
ACCEPT = struct.Struct("<2H28x")
REJECT = struct.Struct("<2H")
INVALID_FORMAT, INVALID_SEND_QUEUE_SIZE = 2, 4

ADMIN = 0  # a queue of at most 32 entries; sent as one less
ENTRIES = 32

CONFIG = "/sys/kernel/config"
ADDRESS_FAMILY = {"v4": "ipv4", "v6": "ipv6"}


def play(stage, provider, family):
    def connect(*request):
        return stage.nanocm("connect", there(family, PORT), "--provider", provider, "--hold", 200,
                            "--private-data", REQUEST.pack(*request).hex())

    with target(stage, family):
        nanocm = connect(0, ADMIN, ENTRIES, ENTRIES - 1, 0)
        nanocm.ends(0)
        nanocm.said(ESTABLISHED=1, DISCONNECTED=1)
        answer = read(ACCEPT, nanocm.events("ESTABLISHED")[0])
        expect(answer == (0, ENTRIES), f"the target accepts with (record format, queue size) {answer}")

        is_rejected(connect(1, ADMIN, ENTRIES, ENTRIES - 1, 0), INVALID_FORMAT)
        is_rejected(connect(0, ADMIN, ENTRIES, ENTRIES, 0), INVALID_SEND_QUEUE_SIZE)


def is_rejected(nanocm, status):
    nanocm.ends(1)
    nanocm.said(REJECTED=1, ERROR=1)
    rejected = nanocm.events("REJECTED")[0]
    expect(rejected["reason"] == CONSUMER, f"the reason is {rejected['reason']}, not {CONSUMER}")
    answer = read(REJECT, rejected)
    expect(answer == (0, status), f"the target rejects with (record format, status) {answer}, not {(0, status)}")


def read(record, event):
    return record.unpack_from(bytes.fromhex(event["private_data"]))


@contextlib.contextmanager
def target(stage, family):
    """A subsystem on one port; a context. It has no namespace: a connect needs none."""
    stage.linux("modprobe", "nvmet_rdma")
    stage.linux("mount", "-t", "configfs", "none", CONFIG)
    try:
        status, text = stage.linux("sh", "-c", " && ".join((
            f"cd {CONFIG}/nvmet", "mkdir subsystems/lab ports/1", "echo 1 >subsystems/lab/attr_allow_any_host",
            "echo rdma >ports/1/addr_trtype", f"echo {ADDRESS_FAMILY[family]} >ports/1/addr_adrfam",
            f"echo {network.guest_address(family)} >ports/1/addr_traddr", f"echo {PORT} >ports/1/addr_trsvcid",
            f"ln -s {CONFIG}/nvmet/subsystems/lab ports/1/subsystems/lab")))
        expect(status == 0, f"Linux makes no NVMe target: {text.strip()}")
        yield
    finally:
        stage.linux("sh", "-c", f"cd {CONFIG}/nvmet; rm ports/1/subsystems/lab; rmdir ports/1 subsystems/lab")
        stage.linux("umount", CONFIG)
        stage.linux("rmmod", "nvmet_rdma")
