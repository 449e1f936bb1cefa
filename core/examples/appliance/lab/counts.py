"""How many instructions the board takes from a REQ that comes to the REP that leaves.

QEMU's `-icount` gives every instruction the same time, so the board's own clock counts them: exactly, less the one tick
that its reading takes. The span begins before the frame is read out of the interface's FIFO and ends when the last word of
the answer has been written into the other.
"""

import statistics

import board
import plays
from scenario import expect

SHIFT = 7
NANOSECONDS = 1 << SHIFT  # of each instruction; the clock's tick is 80
CONNECTS = 1000
LIMIT = 16_000  # instructions


def count(test, image):
    with board.Board(image, test.out / "board-counts", board.on_tap(), "-icount", f"shift={SHIFT}") as running:
        test.play(request_to_reply, running)


def request_to_reply(stage):
    """1,000 connects one after the other, each span read; then as many eight at once."""
    spans = []
    for _ in range(CONNECTS):
        program = stage.nanocm("connect", plays.THERE, "--from", plays.HERE)
        program.ends(0)
        report = stage.board.report()
        spans.append(report["rep_last_ns"] // NANOSECONDS)
    expect(report["rep_spans"] == CONNECTS, f"the board has seen {report['rep_spans']} REQs, not {CONNECTS}")
    stage.note(f"REQ to REP over {CONNECTS} connects: {statistics.median(spans):,.0f} instructions as a rule, "
               f"{min(spans):,} to {max(spans):,}")
    program = stage.nanocm("connect", plays.THERE, "--from", plays.HERE, "--count", CONNECTS, "--parallel", 8)
    program.ends(0, limit=60)
    worst = stage.board.report()["rep_worst_ns"] // NANOSECONDS
    stage.note(f"eight at once: {worst:,} at worst")
    expect(worst <= LIMIT, f"more than {LIMIT:,} instructions")


request_to_reply.MESSAGES = dict.fromkeys(plays.HANDSHAKE, 2 * CONNECTS)
request_to_reply.REPEATED = plays.HANDSHAKE
