//! `--counters`: what the engine has counted, as the last line of a run.

use super::output::{Object, Outcome, Stop, exit, print_line, print_object};
use nanocm::core::{Counters, IgnoreReason};
use std::io;
use std::process::ExitCode;

/// Tells how a run ended, then what it has counted, if it was to tell.
pub(crate) fn exit_counted(json: bool, outcome: Outcome, counted: Option<Counters>) -> ExitCode {
    let unread = matches!(outcome, Err(Stop::Unread));
    let code = exit(json, outcome);
    match counted.filter(|_| !unread).map(|counters| print(json, &counters)) {
        // It cannot be written, or not be read any more: after a failure that is not the news.
        Some(Err(error)) if code == ExitCode::SUCCESS => exit(json, Err(error.into())),
        _ => code,
    }
}

fn print(json: bool, counters: &Counters) -> io::Result<()> {
    if json { print_object(&object(counters)) } else { print_line(&sentence(counters)) }
}

fn object(counters: &Counters) -> Object {
    let mut object = Object::new();
    object.insert("event".into(), "COUNTERS".into());
    for (name, count) in counted(counters) {
        object.insert(name.into(), count.into());
    }
    let ignored: Object =
        ignored(counters).map(|(reason, count)| (reason.into(), count.into())).collect();
    if !ignored.is_empty() {
        object.insert("ignored".into(), ignored.into());
    }
    object
}

fn sentence(counters: &Counters) -> String {
    let counted = counted(counters).map(|(name, count)| format!("{name} {count}"));
    let ignored = ignored(counters).map(|(reason, count)| format!("ignored for {reason} {count}"));
    let all: Vec<_> = counted.chain(ignored).collect();
    if all.is_empty() {
        return "counted: nothing".into();
    }
    format!("counted: {}", all.join(", ").replace('_', " "))
}

/// Those that are not 0, but what was ignored.
fn counted(counters: &Counters) -> impl Iterator<Item = (&'static str, u32)> {
    COUNTERS.iter().map(|(name, get)| (*name, get(counters))).filter(|(_, count)| *count != 0)
}

/// Datagrams that changed nothing, by reason.
fn ignored(counters: &Counters) -> impl Iterator<Item = (&'static str, u32)> {
    let reasons = IgnoreReason::ALL.iter();
    let counted = reasons.map(|reason| (reason.name(), counters.ignored_for(*reason)));
    counted.filter(|(_, count)| *count != 0)
}

/// A counter's name, and how to read it.
type Counter = (&'static str, fn(&Counters) -> u32);

macro_rules! counters {
    ($($name:ident)*) => { &[$((stringify!($name), |counters| counters.$name),)*] };
}

/// As `nanocm_core::Counters` has them.
const COUNTERS: &[Counter] = counters! {
    received duplicates sent retransmitted send_failed no_listener bad_ip_cm_header bad_primary_path
    bad_path_mtu bad_transport no_resources backlog_full stale stale_spoofed replies_dropped
    answers_limited farewells_dropped accept_overdue established resolved
};

#[cfg(test)]
mod tests {
    use super::*;

    fn some() -> Counters {
        let mut counters = Counters::default();
        counters.received = 5;
        counters.accept_overdue = 1;
        counters.ignored[IgnoreReason::Icrc as usize] = 2;
        counters
    }

    #[test]
    fn none_is_left_out() {
        let all = format!("{:?}", Counters::default());
        let inside = all.trim_start_matches("Counters { ").trim_end_matches(" }");
        let names = inside.split(", ").filter_map(|field| field.split_once(": ")).map(|f| f.0);
        let names: Vec<_> = names.filter(|name| *name != "ignored").collect();
        assert_eq!(names, COUNTERS.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }

    #[test]
    fn those_that_are_not_0_are_said() {
        let text = serde_json::to_string(&object(&some())).unwrap();
        assert_eq!(
            text,
            r#"{"event":"COUNTERS","received":5,"accept_overdue":1,"ignored":{"icrc":2}}"#
        );
        assert_eq!(sentence(&some()), "counted: received 5, accept overdue 1, ignored for icrc 2");
        let none = Counters::default();
        assert_eq!(serde_json::to_string(&object(&none)).unwrap(), r#"{"event":"COUNTERS"}"#);
        assert_eq!(sentence(&none), "counted: nothing");
    }
}
