//! How a conversation ended, as far as the capture tells, in a sentence.

use nanocm_core::wire::{Attribute, Message, SidrStatus};

use super::conversation::{Conversation, Kind, Step};
use super::{since, time};

pub(super) fn outcome(conversation: &Conversation) -> String {
    match conversation.kind {
        Kind::Connection => connection(conversation),
        Kind::Lookup => lookup(conversation),
    }
}

/// A REJ is the last word, whatever crossed it on the way.
fn connection(conversation: &Conversation) -> String {
    let last = |attribute| last(conversation, attribute);
    if let Some(step) = last(Attribute::REJ) {
        return rejected(step);
    }
    if let Some(step) = last(Attribute::DREQ) {
        let answered = match last(Attribute::DREP) {
            Some(_) => "",
            None => ", which was not answered",
        };
        return format!("{}ended by {}{answered}", established(conversation), step.found.source);
    }
    if last(Attribute::DREP).is_some() {
        return "ended".into();
    }
    if last(Attribute::RTU).is_some() {
        return format!("{}still open", established(conversation));
    }
    let unanswered = [Attribute::REP, Attribute::REQ].into_iter().find(|a| last(*a).is_some());
    match unanswered {
        Some(attribute) => format!("the {attribute} was not answered"),
        None => "nothing more was captured".into(),
    }
}

fn rejected(step: &Step) -> String {
    let who = step.found.source;
    match step.found.message() {
        Message::Rej(rej) => format!("rejected by {who}: {}", rej.reason().text()),
        _ => format!("rejected by {who}"),
    }
}

/// The beginning of a sentence; nothing if the connection was made before the capture began.
fn established(conversation: &Conversation) -> String {
    let first = conversation.steps.first().filter(|_| conversation.begins_whole());
    let took = first.zip(last(conversation, Attribute::RTU)).and_then(|(a, b)| since(a, b));
    took.map(|took| format!("established after {}, ", time(took))).unwrap_or_default()
}

fn lookup(conversation: &Conversation) -> String {
    let Some(step) = last(conversation, Attribute::SIDR_REP) else {
        return "the SIDR_REQ was not answered".into();
    };
    match step.found.message() {
        Message::SidrRep(rep) if rep.status() != SidrStatus::VALID => {
            format!("refused by {}: {}", step.found.source, rep.status().text())
        }
        _ => format!("answered by {}", step.found.source),
    }
}

fn last(conversation: &Conversation, attribute: Attribute) -> Option<&Step> {
    let is_it = |step: &&Step| step.found.message().attribute() == attribute;
    conversation.steps.iter().rev().find(is_it)
}
