//! Prints how fast connections come and go over real sockets, against bare ones. Exit code 1 if that
//! is too slow.

use nanocm_benches::{rate, report::Report};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut report = Report::new();
    rate::rate(&mut report);
    if report.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
