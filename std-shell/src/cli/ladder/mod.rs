//! Conversations as message ladders: both end points as columns, each message an arrow between them.
//!
//! `conversation.rs` sorts messages into conversations; `draw.rs` draws row by row, which is what a
//! program needs that shows messages as they travel; this file draws whole conversations.

mod conversation;
mod draw;
mod outcome;
#[cfg(test)]
mod tests;

use std::time::Duration;

use nanocm_core::wire::icrc::Integrity;

pub(crate) use conversation::Conversations;
use conversation::{Conversation, End, Kind, Step};
pub(crate) use draw::seconds;
use draw::{Ladder, Row};

use super::summary::{Time, summary};

/// Nanoseconds of silence that are marked.
const SILENCE: i64 = 1_000_000_000;

/// A conversation with its title and how it ended. `number` counts conversations from 1.
pub(crate) fn draw(number: usize, conversation: &Conversation) -> String {
    let (left, right) = (&conversation.left, &conversation.right);
    let ladder = Ladder::new(left.ip.to_string(), right.ip.to_string());
    let mut rows = vec![
        draw::title(&title(number, conversation)),
        ladder.head(),
        ladder.below_head(&id(conversation.kind, left), &id(conversation.kind, right)),
        ladder.lines(),
    ];
    for (index, step) in conversation.steps.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|index| conversation.steps.get(index));
        rows.extend(gap(conversation, before, step).map(|text| ladder.gap(&text)));
        rows.push(ladder.message(&row(conversation, step)));
    }
    rows.push(ladder.lines());
    rows.push(ladder.note(&outcome::outcome(conversation)));
    rows.join("\n")
}

fn title(number: usize, conversation: &Conversation) -> String {
    let kind = match conversation.kind {
        Kind::Connection => "Connection",
        Kind::Lookup => "Lookup",
    };
    match conversation.service {
        Some(service) => format!("{kind} {number}: {service}"),
        None => format!("{kind} {number}: the request was not captured"),
    }
}

fn id(kind: Kind, end: &End) -> String {
    match (kind, end.id) {
        (Kind::Connection, Some(id)) => format!("ID {id:08x}"),
        (Kind::Lookup, Some(id)) => format!("request {id:08x}"),
        (_, None) => String::new(),
    }
}

/// What is missing before a message: messages, or time.
fn gap(conversation: &Conversation, before: Option<&Step>, step: &Step) -> Option<String> {
    let silence = before.and_then(|before| since(before, step)).filter(|time| *time >= SILENCE);
    match (step.missing, silence) {
        _ if before.is_none() && !conversation.begins_whole() => {
            Some("beginning not captured".into())
        }
        (Some(missing), _) => Some(format!("{missing} not captured")),
        (None, Some(silence)) => Some(time(silence)),
        (None, None) => None,
    }
}

fn row(conversation: &Conversation, step: &Step) -> Row {
    let message = step.found.message();
    let copy = step.repeats.and_then(|index| conversation.steps.get(index));
    let mut marks = Vec::new();
    if let Some(first) = copy {
        let later = since(first, step).map(|t| format!(", +{}", time(t))).unwrap_or_default();
        marks.push(format!("retransmission{later}"));
    }
    match step.found.integrity {
        Integrity::Ok => {}
        Integrity::Bad => marks.push("wrong ICRC".into()),
        Integrity::Unchecked => marks.push("ICRC not checked".into()),
    }
    Row {
        frame: Some(step.found.frame),
        nanoseconds: conversation.steps.first().and_then(|first| since(first, step)),
        direction: step.direction,
        attribute: message.attribute(),
        texts: if copy.is_some() { Vec::new() } else { summary(&message) },
        marks,
    }
}

/// Nanoseconds from one step to another.
fn since(earlier: &Step, later: &Step) -> Option<i64> {
    Some(later.found.time?.nanoseconds_since(&earlier.found.time?))
}

fn time(nanoseconds: i64) -> String {
    Time(Duration::from_nanos(nanoseconds.try_into().unwrap_or(0))).to_string()
}
