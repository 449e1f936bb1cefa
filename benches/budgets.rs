//! Prints every budget with what was measured; exit code 1 if one is over. Arguments choose parts.

use nanocm_benches::report::Report;
use nanocm_benches::{calls, count, handshake, memory, ports, scale, stack, worst};
use std::process::ExitCode;

type Part = (&'static str, fn(&mut Report));

/// Parts by name, in the order of their appearance.
const PARTS: &[Part] = &[
    ("handshake", handshake::handshake),
    ("bitmap", ports::bitmap),
    ("bind", ports::binding),
    ("scale", scale::instructions),
    ("many", scale::many),
    ("ram", memory::ram),
    ("flash", memory::flash),
    ("stack", stack::stack),
    ("calls", calls::calls),
    ("worst", worst::worst),
    (ON_REQUEST, handshake::each),
];

/// Too much to read every time.
const ON_REQUEST: &str = "each";

fn main() -> ExitCode {
    if let Err(error) = count::on_a_plain_processor() {
        eprintln!("cannot start over with a plain processor: {error}");
    }
    // Cargo says --bench.
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if let Some(unknown) = wanted.iter().find(|arg| PARTS.iter().all(|(name, _)| name != arg)) {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        eprintln!("no part is called {unknown}; there are: {}", names.join(" "));
        return ExitCode::from(2);
    }
    let mut report = Report::new();
    for (name, part) in PARTS {
        if wanted.is_empty() && *name != ON_REQUEST || wanted.iter().any(|arg| arg == name) {
            part(&mut report);
        }
    }
    if report.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
