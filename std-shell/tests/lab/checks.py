"""What every kept capture must show: to the lab's own decoder (packets.py), to tshark and to `nanocm decode`."""

import itertools

import nanocm
import network
import packets
from command import output


def problems(pcap, trace, variant, binary):
    """A sentence for each thing wrong with a scenario's capture, which says of itself what it may have (scenario.py)."""
    if variant.has("ODD", False):
        guests = {network.guest_address(family) for family in network.ADDRESSES}
        if guests & trace.bad_icrc_sources:
            yield "Linux sent a wrong invariant CRC"
        return
    yield from few(f"wrong invariant CRC in frame {frame}" for frame in trace.bad_icrc)
    yield from few(f"frame {frame} is for the GSI, and its payload has not the 256 octets of a MAD" for frame in trace.no_mad)
    if not variant.has("UNREACHABLE", False):
        yield from few(f"frame {frame} is an ICMP that says unreachable" for frame in trace.unreachable)
    miscounted = list(counts(trace.count(), variant.module.MESSAGES))
    yield from miscounted
    if not miscounted:  # so that it may count on its messages
        yield from few(variant.has("wire", lambda trace: ())(trace))
    yield from few(f"frame {m.frame}: {m.name} from {m.src} is a retransmission" for m in trace.retransmissions
                   if m.name not in variant.has("REPEATED", ()))
    incomplete = list(trace.incomplete())
    if len(incomplete) > variant.has("INCOMPLETE", 0):
        yield from few(incomplete)
    seen = {m.frame: m.name for m in trace.messages + trace.retransmissions}
    yield from by_tshark(pcap, seen)
    yield from by_nanocm(pcap, seen, binary)


def counts(seen, expected):
    for name in sorted(seen.keys() | expected.keys()):
        bounds = expected.get(name, 0)
        least, most = bounds if isinstance(bounds, tuple) else (bounds, bounds)
        if not least <= seen.get(name, 0) <= most:
            yield f"on the wire: {seen.get(name, 0)} {name}, not {least if least == most else f'{least} to {most}'}"


def by_tshark(pcap, seen):
    """No malformed packet, and the same CM messages in the same frames."""
    fields = ("frame.number", "infiniband.mad.mgmtclass", "infiniband.mad.attributeid", "_ws.malformed")
    own = "not icmp and not icmpv6"  # which quote what was not received
    shown = (word for field in fields for word in ("-e", field))
    command = ["tshark", "-r", str(pcap), "-Y", own, "-T", "fields", *shown]
    rows = [line.split("\t") for line in output(command).splitlines()]
    yield from few(f"frame {frame} is malformed to tshark: {fault}" for frame, _, _, fault in rows if fault)
    yield from disagreement("tshark", seen, {
        int(frame): packets.message_name(int(attribute, 16))
        for frame, management_class, attribute, _ in rows
        if management_class and int(management_class, 16) == packets.CM_CLASS
    })


def by_nanocm(pcap, seen, binary):
    """`nanocm decode` finds the same CM messages in the same frames, each with a right invariant CRC."""
    decode = nanocm.Program(binary, ["decode", pcap], pcap.with_name("decode"))
    decode.ends(0)
    objects = decode.objects()
    yield from disagreement("nanocm decode", seen, {o.get("frame"): o.get("message") for o in objects})
    yield from few(f"frame {o.get('frame')}: nanocm decode says icrc {o.get('icrc')}" for o in objects
                   if o.get("icrc") != "ok")


def disagreement(who, seen, theirs):
    frames = sorted(frame for frame in seen.keys() | theirs.keys() if seen.get(frame) != theirs.get(frame))
    yield from few(f"frame {frame}: {theirs.get(frame, 'no CM message')} to {who}, {seen.get(frame, 'none')} to the lab"
                   for frame in frames)


def few(sentences):
    """The first of the sentences, and how many more of the kind there are."""
    sentences = iter(sentences)
    yield from itertools.islice(sentences, 3)
    more = sum(1 for _ in sentences)
    if more:
        yield f"(and {more} more of this kind)"
