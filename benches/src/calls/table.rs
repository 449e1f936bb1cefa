//! The table in `docs/calls.md`: written with `UPDATE` set, else compared.

use super::CAPACITIES;
use crate::report::{Report, Shown as _};
use std::collections::BTreeMap;
use std::process::Command;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/calls.md");

/// By how much a count may grow, rounded up to whole instructions.
const SLACK: f64 = 1.02;

/// Instructions of a kind of call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) typical: u64,
    pub(super) worst: u64,
}

/// Counts by kind of call and capacity.
#[derive(Default)]
pub(super) struct Table(BTreeMap<String, [Option<Counts>; CAPACITIES.len()]>);

impl Table {
    pub(super) fn set(&mut self, kind: &str, column: usize, counts: Counts) {
        self.0.entry(kind.to_owned()).or_default()[column] = Some(counts);
    }

    /// Compares with the table that is committed, or writes it anew.
    pub(super) fn compare(&self, report: &mut Report) {
        report.info("kinds of call", self.0.len());
        if std::env::var_os("UPDATE").is_some() {
            match std::fs::write(PATH, self.text()) {
                Ok(()) => report.note("docs/calls.md is written"),
                Err(why) => report.failed("docs/calls.md", why),
            }
            return;
        }
        let text = std::fs::read_to_string(PATH).unwrap_or_default();
        let committed = Table::parse(&text);
        let (mut grown, mut shrunk) = (Vec::new(), 0);
        for (kind, row) in &self.0 {
            let Some(old) = committed.0.get(kind) else {
                grown.push(format!("{kind}: not in the table"));
                continue;
            };
            for ((new, old), capacity) in row.iter().zip(old).zip(CAPACITIES) {
                let (Some(new), Some(old)) = (new, old) else { continue };
                for (what, new, old) in
                    [("typical", new.typical, old.typical), ("worst", new.worst, old.worst)]
                {
                    let most = (old as f64 * SLACK).ceil() as u64;
                    let least = (old as f64 / SLACK).floor() as u64;
                    let by = 100.0 * (new as f64 / old as f64 - 1.0);
                    if new > most {
                        let room = u64::from(capacity).shown();
                        grown.push(format!("{kind}, {what} at {room}: {old} → {new} ({by:+.1} %)"));
                    }
                    shrunk += u32::from(new < least);
                }
            }
        }
        for gone in committed.0.keys().filter(|kind| !self.0.contains_key(*kind)) {
            grown.push(format!("{gone}: in the table, but no longer measured"));
        }
        for line in &grown {
            report.note(line);
        }
        if shrunk > 0 {
            report.note(format!("{shrunk} counts have shrunk by more than 2 %"));
        }
        let what = "counts that have grown by more than 2 %";
        let (compiler, theirs) = (compiler(), made_with(&text));
        if theirs.is_some_and(|theirs| theirs != compiler) {
            report.info(what, grown.len());
            report.note(format!("shown only: the table is of {}", theirs.unwrap_or_default()));
            report.note(format!("and this is {compiler}"));
        } else {
            report.at_most(what, grown.len(), 0);
        }
        if !grown.is_empty() || shrunk > 0 {
            report.note("UPDATE=1 benches/run calls writes the table anew; say why in the commit");
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "# What each call costs\n\n\
             Instructions, typical … worst, on x86-64, of an engine with 16, 1,024 and 65,536\n\
             connections open, less four. `benches/README.md` says how they are counted, and what\n\
             fails if one grows. Written by `UPDATE=1 benches/run calls`.\n\n\
             Compiler: {}\n\n| call |",
            compiler()
        );
        for capacity in CAPACITIES {
            text += &format!(" {} |", u64::from(capacity).shown());
        }
        text += "\n|---|";
        text += &"---|".repeat(CAPACITIES.len());
        for (kind, row) in &self.0 {
            text += &format!("\n| {kind} |");
            for counts in row {
                match counts {
                    Some(Counts { typical, worst }) => text += &format!(" {typical} … {worst} |"),
                    None => text += " |",
                }
            }
        }
        text + "\n"
    }

    fn parse(text: &str) -> Table {
        let mut table = Table::default();
        for line in text.lines() {
            let mut cells = line.trim_matches('|').split('|').map(str::trim);
            let Some(kind) = cells.next() else { continue };
            for (column, cell) in cells.enumerate().take(CAPACITIES.len()) {
                let numbers = cell.split_once(" … ");
                let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
                if let Some((typical, worst)) = numbers {
                    table.set(kind, column, Counts { typical, worst });
                }
            }
        }
        table
    }
}

/// The compiler that builds this, as it names itself.
fn compiler() -> String {
    let version = Command::new("rustc").arg("--version").output();
    version.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned()).unwrap_or_default()
}

fn made_with(text: &str) -> Option<&str> {
    text.lines().find_map(|line| line.strip_prefix("Compiler: "))
}
