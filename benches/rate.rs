//! Prints how fast connections come and go over real sockets, and ports of the host's, against bare
//! ones. Exit code 1 if that is too slow.

use nanocm_benches::{host_ports, rate, report::Report};
use std::process::ExitCode;

/// Arguments choose parts.
fn main() -> ExitCode {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let is_wanted = |part: &str| wanted.is_empty() || wanted.iter().any(|arg| arg == part);
    let mut report = Report::new();
    if is_wanted("rate") {
        rate::rate(&mut report);
    }
    if is_wanted("host-ports") {
        host_ports::host_ports(&mut report);
    }
    if report.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
