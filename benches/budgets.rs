//! Prints every budget with what was measured. Exit code 1 if one is over.

use nanocm_benches::report::Report;
use nanocm_benches::{count, handshake, ports, worst};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(error) = count::on_a_plain_processor() {
        eprintln!("cannot start over with a plain processor: {error}");
    }
    let mut report = Report::new();
    handshake::handshake(&mut report);
    ports::bitmap(&mut report);
    ports::binding(&mut report);
    ports::exhausted(&mut report);
    worst::worst(&mut report);
    if report.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
