//! The control port's commands, one a datagram, and what is answered:
//!
//! | command | |
//! |---|---|
//! | `report` | counters that are not 0, and memory |
//! | `connect ADDRESS PORT` | the button: calls a peer |
//! | `disconnect` | ends that call, or cancels it |
//! | `refuse REASON` | from now on refuses who asks, with this reason; `refuse 0` ends that |
//! | `quit` | the report, once more; the program ends |

use crate::board::Board;
use crate::run::{App, ENGINE_OCTETS};
use crate::text::Text;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::str::SplitAsciiWhitespace;
use nanocm_core::error::errno;
use nanocm_core::wire::RejectReason;
use nanocm_core::{IgnoreReason, Instant};

/// Does what a command says and writes the answer; its length.
pub(crate) fn obey<B: Board>(
    app: &mut App<'_, '_>,
    board: &mut B,
    now: Instant,
    command: &[u8],
    answer: &mut [u8],
) -> usize {
    let mut text = Text::new(answer);
    let mut words = core::str::from_utf8(command).unwrap_or_default().split_ascii_whitespace();
    let done = match words.next() {
        Some("report") => {
            report(app, board, &mut text);
            return text.length();
        }
        Some("quit") => {
            app.quit = true;
            report(app, board, &mut text);
            return text.length();
        }
        Some("connect") => match address(&mut words) {
            Some(whom) => app.service.call(app.cm, now, whom),
            None => Err(errno::EINVAL),
        },
        Some("disconnect") => app.service.hang_up(app.cm, now),
        Some("refuse") => match number(&mut words) {
            Some(reason) => {
                app.service.closed = (reason != 0).then_some(RejectReason(reason));
                Ok(())
            }
            None => Err(errno::EINVAL),
        },
        _ => Err(errno::EINVAL),
    };
    match done {
        Ok(()) => text.put("ok\n"),
        Err(errno) => text.line("error", errno.unsigned_abs()),
    };
    text.length()
}

/// Everything there is to say.
pub(crate) fn report<B: Board>(app: &App<'_, '_>, board: &B, text: &mut Text<'_>) {
    let (service, frames, cm, spans) =
        (&app.service, &app.wire.frames, app.cm.counters(), &app.spans);
    text.put("call ")
        .put(service.call_state.name)
        .put(" ")
        .number(service.call_state.code)
        .put("\n");
    let (used, size) = board.stack();
    let (ids, connections) = app.cm.in_use();
    let (lost, damaged) = board.lost();
    let numbers = [
        ("statics", board.statics() as u32),
        ("stack", used as u32),
        ("stack_size", size as u32),
        ("engine", ENGINE_OCTETS as u32),
        ("ids", ids as u32),
        ("connections", connections as u32),
        ("accepted", service.accepted),
        ("refused", service.refused),
        ("resolved_here", service.resolved),
        ("ended", service.ended),
        ("frames", frames.received),
        ("frames_sent", frames.sent),
        ("frames_lost", lost),
        ("frames_damaged", damaged),
        ("for_others", frames.for_others),
        ("from_nobody", frames.from_nobody),
        ("broadcast", frames.broadcast),
        ("unusable", frames.unusable),
        ("roce", frames.roce),
        ("no_neighbour", frames.no_neighbour),
        ("arp_asked", frames.asked),
        ("received", cm.received),
        ("duplicates", cm.duplicates),
        ("sent", cm.sent),
        ("retransmitted", cm.retransmitted),
        ("no_listener", cm.no_listener),
        ("bad_ip_cm_header", cm.bad_ip_cm_header),
        ("bad_primary_path", cm.bad_primary_path),
        ("bad_path_mtu", cm.bad_path_mtu),
        ("bad_transport", cm.bad_transport),
        ("no_resources", cm.no_resources),
        ("stale", cm.stale),
        ("stale_spoofed", cm.stale_spoofed),
        ("replies_dropped", cm.replies_dropped),
        ("answers_limited", cm.answers_limited),
        ("farewells_dropped", cm.farewells_dropped),
        ("established", cm.established),
        ("resolved", cm.resolved),
        ("rep_spans", spans.count),
        ("rep_last_ns", spans.last),
        ("rep_worst_ns", spans.worst),
    ];
    for (name, number) in numbers {
        if number != 0 {
            text.line(name, number);
        }
    }
    for reason in IgnoreReason::ALL {
        match cm.ignored_for(*reason) {
            0 => {}
            count => {
                text.put("ignored_").line(reason.name(), count);
            }
        }
    }
}

fn number(words: &mut SplitAsciiWhitespace<'_>) -> Option<u16> {
    words.next()?.parse().ok()
}

fn address(words: &mut SplitAsciiWhitespace<'_>) -> Option<SocketAddr> {
    let ip: Ipv4Addr = words.next()?.parse().ok()?;
    Some(SocketAddr::new(IpAddr::V4(ip), number(words)?))
}
