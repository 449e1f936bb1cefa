#!/usr/bin/env python3
"""Makes golden/*.jsonl: what an independent decoder sees in the captures.

Needs tshark (4.0). One line for each CM message:
  "decode"  the object that `nanocm decode --json` shall print
  "header", "fields"  every field but the reserved ones, by the names of nanocm-core's tables

REQ, REP, RTU, REJ, DREQ and DREP are tshark's. Where tshark 4.0 is wrong (flow label and packet rate of a
REQ) or has no dissector (MRA, SIDR_REQ, SIDR_REP) the octets are taken apart here, by the tables of
IBTA 12. The ICRC is checked here with zlib. No code of nanocm takes part.
"""

import ipaddress
import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent

NAMES = {
    0x10: "REQ", 0x11: "MRA", 0x12: "REJ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP",
    0x17: "SIDR_REQ", 0x18: "SIDR_REP",
}

HEADER = {
    "base_version": "mad.baseversion", "class": "mad.mgmtclass", "class_version": "mad.classversion",
    "method": "mad.method", "status": "mad.status", "class_specific": "mad.classspecific",
    "transaction_id": "mad.transactionid", "attribute": "mad.attributeid",
    "attribute_modifier": "mad.attributemodifier",
}

# nanocm-core's name of a field: tshark's name behind "infiniband.".
TSHARK = {
    "REQ": {
        "local_comm_id": "cm.req", "local_ca_guid": "cm.req.localcaguid",
        "local_qkey": "cm.req.localqkey", "local_qpn": "cm.req.localqpn",
        "responder_resources": "cm.req.responderres", "local_eecn": "cm.req.localeecn",
        "initiator_depth": "cm.req.initdepth", "remote_eecn": "cm.req.remoteeecn",
        "remote_cm_response_timeout": "cm.req.remoteresptout",
        "transport_service_type": "cm.req.transpsvctype",
        "end_to_end_flow_control": "cm.req.e2eflowctrl", "starting_psn": "cm.req.startpsn",
        "local_cm_response_timeout": "cm.req.localresptout", "retry_count": "cm.req.retrcount",
        "partition_key": "cm.req.pkey", "path_mtu": "cm.req.pppmtu", "rdc_exists": "cm.req.rdcexist",
        "rnr_retry_count": "cm.req.rnrretrcount", "max_cm_retries": "cm.req.maxcmretr",
        "srq": "cm.req.srq", "extended_transport_type": "cm.req.ext_transport",
        "primary_local_lid": "cm.req.prim_locallid", "primary_remote_lid": "cm.req.prim_remotelid",
        "primary_traffic_class": "cm.req.prim_tfcclass", "primary_hop_limit": "cm.req.prim_hoplim",
        "primary_sl": "cm.req.prim_sl", "primary_subnet_local": "cm.req.prim_subnetlocal",
        "primary_local_ack_timeout": "cm.req.prim_localacktout",
        "alternate_local_lid": "cm.req.alt_locallid", "alternate_remote_lid": "cm.req.alt_remotelid",
        "alternate_traffic_class": "cm.req.alt_tfcclass", "alternate_hop_limit": "cm.req.alt_hoplim",
        "alternate_sl": "cm.req.alt_sl", "alternate_subnet_local": "cm.req.alt_subnetlocal",
        "alternate_local_ack_timeout": "cm.req.alt_localacktout",
    },
    "REP": {
        "local_comm_id": "cm.rep", "remote_comm_id": "cm.rep.remotecommid",
        "local_qkey": "cm.rep.localqkey", "local_qpn": "cm.rep.localqpn",
        "local_eecn": "cm.rep.localeecn", "starting_psn": "cm.rep.startpsn",
        "responder_resources": "cm.rep.respres", "initiator_depth": "cm.rep.initdepth",
        "target_ack_delay": "cm.rep.tgtackdelay", "failover_accepted": "cm.rep.failoveracc",
        "end_to_end_flow_control": "cm.rep.e2eflowctrl", "rnr_retry_count": "cm.rep.rnrretrcount",
        "srq": "cm.rep.srq", "local_ca_guid": "cm.rep.localcaguid",
    },
    "RTU": {"local_comm_id": "cm.rtu.localcommid", "remote_comm_id": "cm.rtu.remotecommid"},
    "REJ": {
        "local_comm_id": "cm.rej.localcommid", "remote_comm_id": "cm.rej.remotecommid",
        "message_rejected": "cm.rej.msgrej", "reject_info_length": "cm.rej.rejinfolen",
        "reason": "cm.rej.reason",
    },
    "DREQ": {
        "local_comm_id": "cm.dreq.localcommid", "remote_comm_id": "cm.dreq.remotecommid",
        "remote_qpn": "cm.req.remoteqpneecn",
    },
    "DREP": {"local_comm_id": "cm.drsp.localcommid", "remote_comm_id": "cm.drsp.remotecommid"},
}

# Octets as hexadecimal digits.
TSHARK_OCTETS = {
    "REP": {"private_data": "cm.rep.private"},
    "RTU": {"private_data": "cm.rtu.private"},
    "REJ": {"ari": "cm.rej.ari", "private_data": "cm.rej.private"},
    "DREQ": {"private_data": "cm.dreq.private"},
    "DREP": {"private_data": "cm.drsp.private"},
}

REQ_EXTRA = [
    "cm.req.serviceid", "cm.req.serviceid.prefix", "cm.req.serviceid.protocol",
    "cm.req.serviceid.dport", "cm.req.prim_localgid", "cm.req.prim_localgid_ipv4",
    "cm.req.prim_remotegid", "cm.req.prim_remotegid_ipv4", "cm.req.alt_localgid",
    "cm.req.alt_remotegid", "cm.req.ip_cm.majv", "cm.req.ip_cm.minv", "cm.req.ip_cm.ipv",
    "cm.req.ip_cm.sport", "cm.req.ip_cm.sip4", "cm.req.ip_cm.dip4", "cm.req.ip_cm.sip6",
    "cm.req.ip_cm.dip6", "cm.req.ip_cm.private",
]

# Taken from the octets: name -> (bit from the start of the MAD, bits).
RAW_HEADER = {
    "base_version": (0, 8), "class": (8, 8), "class_version": (16, 8), "method": (24, 8),
    "status": (32, 16), "class_specific": (48, 16), "transaction_id": (64, 64),
    "attribute": (128, 16), "attribute_modifier": (160, 32),
}


def at(octet, bit, width):
    return ((24 + octet) * 8 + bit, width)


RAW = {
    "REQ": {
        "ece_vendor_id": at(5, 0, 24),
        "primary_flow_label": at(88, 0, 20), "primary_packet_rate": at(91, 2, 6),
        "alternate_flow_label": at(132, 0, 20), "alternate_packet_rate": at(135, 2, 6),
        "sap_supported": at(139, 5, 1),
    },
    "REP": {
        "ece_vendor_id_high": at(15, 0, 8), "ece_vendor_id_middle": at(19, 0, 8),
        "ece_vendor_id_low": at(23, 0, 8),
    },
    "MRA": {
        "local_comm_id": at(0, 0, 32), "remote_comm_id": at(4, 0, 32), "message_mraed": at(8, 0, 2),
        "service_timeout": at(9, 0, 5),
    },
    "SIDR_REQ": {
        "request_id": at(0, 0, 32), "partition_key": at(4, 0, 16), "service_id": at(8, 0, 64),
    },
    "SIDR_REP": {
        "request_id": at(0, 0, 32), "status": at(4, 0, 8), "additional_info_length": at(5, 0, 8),
        "ece_vendor_id_high": at(6, 0, 16), "qpn": at(8, 0, 24), "ece_vendor_id_low": at(11, 0, 8),
        "service_id": at(12, 0, 64), "qkey": at(20, 0, 32),
    },
}

RAW_OCTETS = {
    "REQ": {"private_data": (140, 92)},
    "MRA": {"private_data": (10, 222)},
    "SIDR_REQ": {"private_data": (16, 216)},
    "SIDR_REP": {"additional_info": (24, 72), "private_data": (96, 136)},
}


def packets(path):
    """(number, time, octets) of a little-endian pcap file that counts microseconds."""
    data = path.read_bytes()
    assert data[:4] == bytes.fromhex("d4c3b2a1"), path
    position, number = 24, 0
    while position < len(data):
        seconds, micros, length, _ = struct.unpack_from("<IIII", data, position)
        number += 1
        yield number, f"{seconds}.{micros:06}", data[position + 16:position + 16 + length]
        position += 16 + length


def cm_mad(frame):
    """(source, destination, MAD, whether the ICRC is right) if there is a CM message in the frame."""
    kind, ip = frame[12:14], frame[14:]
    if kind == b"\x08\x00" and ip[9] == 17:
        head, source, destination = ip[:20], ip[12:16], ip[16:20]
    elif kind == b"\x86\xdd" and ip[6] == 17:
        head, source, destination = ip[:40], ip[8:24], ip[24:40]
    else:
        return None
    udp = ip[len(head):]
    length = int.from_bytes(udp[4:6], "big")
    if udp[2:4] != b"\x12\xb7" or length != 288 or udp[8] != 0x64 or udp[29] != 7:
        return None
    masked = bytearray(b"\xff" * 8 + head + udp[:length - 4])
    variable = (1, 8, 10, 11) if len(head) == 20 else (1, 2, 3, 7)
    for offset in variable:
        masked[8 + offset] = 0xFF
    if len(head) == 40:
        masked[8] |= 0x0F
    for offset in (6, 7, 8 + 4):
        masked[8 + len(head) + offset] = 0xFF
    good = zlib.crc32(masked).to_bytes(4, "little") == udp[length - 4:length]
    addresses = [str(ipaddress.ip_address(bytes(a))) for a in (source, destination)]
    return *addresses, udp[28:28 + 256], good


def tshark(path, fields):
    """What tshark says of each CM message: packet number -> tshark's name -> text."""
    command = ["tshark", "-r", str(path), "-Y", "infiniband.mad.mgmtclass == 7", "-T", "fields",
               "-E", "separator=|", "-e", "frame.number", "-e", "frame.time_epoch"]
    for field in fields:
        command += ["-e", f"infiniband.{field}"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    rows = (line.split("|") for line in lines)
    return {int(row[0]): dict(zip(["time", *fields], row[1:])) for row in rows}


def bits(mad, position, width):
    whole = int.from_bytes(mad, "big")
    return whole >> (len(mad) * 8 - position - width) & (1 << width) - 1


def gid(text):
    address = ipaddress.ip_address(text)
    if address.version == 4:
        return f"::ffff:{address}"
    return str(address)


def req_extra(said, fields):
    """The fields of a REQ that tshark shows in parts. Returns the IP CM header."""
    service = said["cm.req.serviceid"]
    if not service:
        parts = [said[f"cm.req.serviceid.{part}"] for part in ("prefix", "protocol", "dport")]
        service = "0x" + "".join(part.removeprefix("0x") for part in parts)
    fields["service_id"] = int(service, 0)
    for side in ("local", "remote"):
        name = f"cm.req.prim_{side}gid"
        fields[f"primary_{side}_gid"] = gid(said[name] or said[name + "_ipv4"])
        octets = bytes.fromhex(said[f"cm.req.alt_{side}gid"].replace(":", ""))
        fields[f"alternate_{side}_gid"] = gid(octets)
    if not said["cm.req.ip_cm.ipv"]:
        return None
    number = lambda name: int(said[f"cm.req.ip_cm.{name}"], 0)
    return {
        "version": number("majv") << 4 | number("minv"), "ip_version": number("ipv"),
        "src_port": number("sport"),
        "src": said["cm.req.ip_cm.sip4"] or said["cm.req.ip_cm.sip6"],
        "dst": said["cm.req.ip_cm.dip4"] or said["cm.req.ip_cm.dip6"],
    }


def raw_ip_cm(data):
    version = data[1] >> 4
    octets = 4 if version == 4 else 16
    address = lambda end: str(ipaddress.ip_address(bytes(data[end - octets:end])))
    return {
        "version": data[0], "ip_version": version, "src_port": int.from_bytes(data[2:4], "big"),
        "src": address(20), "dst": address(36),
    }


def message_fields(name, mad, said):
    """Every field of a message, and its IP CM header."""
    fields, ip_cm = {}, None
    header = {core: int(said[theirs], 0) for core, theirs in HEADER.items()}
    raw_header = {core: bits(mad, *place) for core, place in RAW_HEADER.items()}
    assert header == raw_header, (name, header, raw_header)
    for core, theirs in TSHARK.get(name, {}).items():
        fields[core] = int(said[theirs], 0)
    for core, theirs in TSHARK_OCTETS.get(name, {}).items():
        fields[core] = said[theirs].replace(":", "")
    for core, place in RAW.get(name, {}).items():
        fields[core] = bits(mad, *place)
    for core, (start, length) in RAW_OCTETS.get(name, {}).items():
        fields[core] = mad[24 + start:24 + start + length].hex()
    if name == "REQ":
        ip_cm = req_extra(said, fields)
        if ip_cm:
            assert fields["private_data"][72:] == said["cm.req.ip_cm.private"].replace(":", "")
    if name == "SIDR_REQ":
        ip_cm = raw_ip_cm(bytes.fromhex(fields["private_data"]))
    return header, fields, ip_cm


# The program's names: nanocm-core's name and how the value is written.
plain = lambda value: value
hex32 = lambda value: f"0x{value:08x}"
hex64 = lambda value: f"0x{value:016x}"

DECODE = {
    "REQ": {
        "local_comm_id": ("local_comm_id", hex32), "service_id": ("service_id", hex64),
        "ca_guid": ("local_ca_guid", hex64), "qpn": ("local_qpn", plain),
        "qkey": ("local_qkey", plain), "psn": ("starting_psn", plain),
        "pkey": ("partition_key", plain), "path_mtu": ("path_mtu", lambda code: 128 << code),
        "transport": ("transport_service_type", plain), "retry_count": ("retry_count", plain),
        "rnr_retry_count": ("rnr_retry_count", plain), "resp_res": ("responder_resources", plain),
        "init_depth": ("initiator_depth", plain),
        "remote_cm_response_timeout": ("remote_cm_response_timeout", plain),
        "local_cm_response_timeout": ("local_cm_response_timeout", plain),
        "max_cm_retries": ("max_cm_retries", plain),
    },
    "REP": {
        "local_comm_id": ("local_comm_id", hex32), "remote_comm_id": ("remote_comm_id", hex32),
        "ca_guid": ("local_ca_guid", hex64), "qpn": ("local_qpn", plain),
        "qkey": ("local_qkey", plain), "psn": ("starting_psn", plain),
        "rnr_retry_count": ("rnr_retry_count", plain), "resp_res": ("responder_resources", plain),
        "init_depth": ("initiator_depth", plain),
    },
    "RTU": {
        "local_comm_id": ("local_comm_id", hex32), "remote_comm_id": ("remote_comm_id", hex32),
    },
    "MRA": {
        "local_comm_id": ("local_comm_id", hex32), "remote_comm_id": ("remote_comm_id", hex32),
        "service_timeout": ("service_timeout", plain), "message_mraed": ("message_mraed", plain),
    },
    "REJ": {
        "local_comm_id": ("local_comm_id", hex32), "remote_comm_id": ("remote_comm_id", hex32),
        "reason": ("reason", plain), "rejected_message": ("message_rejected", plain),
    },
    "DREQ": {
        "local_comm_id": ("local_comm_id", hex32), "remote_comm_id": ("remote_comm_id", hex32),
        "qpn": ("remote_qpn", plain),
    },
    "DREP": {
        "local_comm_id": ("local_comm_id", hex32), "remote_comm_id": ("remote_comm_id", hex32),
    },
    "SIDR_REQ": {
        "request_id": ("request_id", hex32), "service_id": ("service_id", hex64),
        "pkey": ("partition_key", plain),
    },
    "SIDR_REP": {
        "request_id": ("request_id", hex32), "service_id": ("service_id", hex64),
        "qpn": ("qpn", plain), "qkey": ("qkey", plain), "status": ("status", plain),
    },
}


def decode_object(common, name, header, fields, ip_cm):
    shown = dict(common, message=name, attr=header["attribute"], tid=hex64(header["transaction_id"]))
    for theirs, (core, form) in DECODE[name].items():
        shown[theirs] = form(fields[core])
    if name == "REJ" and fields["reject_info_length"]:
        shown["ari"] = fields["ari"][:2 * fields["reject_info_length"]]
    shown["private_data"] = fields["private_data"][72 if ip_cm else 0:]
    if ip_cm:
        shown["ip_cm"] = ip_cm
    return shown


def golden(path):
    wanted = sorted({*HEADER.values(), *REQ_EXTRA}
                    | {f for table in (TSHARK, TSHARK_OCTETS) for m in table.values() for f in m.values()})
    said = tshark(path, wanted)
    for number, time, frame in packets(path):
        found = cm_mad(frame)
        assert (found is not None) == (number in said), (path, number)
        if found is None:
            continue
        source, destination, mad, good = found
        assert said[number]["time"].rstrip("0") == time.rstrip("0"), (path, number)
        name = NAMES[bits(mad, *RAW_HEADER["attribute"])]
        header, fields, ip_cm = message_fields(name, mad, said[number])
        common = {"frame": number, "time": time, "src": source, "dst": destination,
                  "icrc": "ok" if good else "bad"}
        decode = decode_object(common, name, header, fields, ip_cm)
        # SIDR_REP has a status of its own beside the header's.
        line = {"decode": decode, "header": header, "fields": fields}
        # The time is a number with all its digits, which Python's floats would drop.
        yield json.dumps(line, separators=(",", ":")).replace(f'"time":"{time}"', f'"time":{time}')


def main():
    (HERE / "golden").mkdir(exist_ok=True)
    for path in sorted(HERE.glob("*.pcap")):
        lines = list(golden(path))
        text = "".join(line + "\n" for line in lines)
        (HERE / "golden" / f"{path.stem}.jsonl").write_text(text)
        print(f"{path.name}: {len(lines)} messages", file=sys.stderr)


if __name__ == "__main__":
    main()
