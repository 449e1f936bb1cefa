//! `nanocm ports reserve`: hold numbers, all of them or none.

use super::super::args::{self, Address};
use super::super::output::Outcome;
use super::super::signals::{self, Signals};
use super::{HostSpace, ip, object, print, refuse};
use nanocm::host_ports::HostPorts;
use std::time::{Duration, Instant};

/// Hold port numbers in the host's port space, all of them or none, until a signal comes
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which: 1.2.3.4:PORT, [v6]:PORT; port 0 for any
    #[arg(value_name = "ADDR:PORT", required = true, value_parser = args::address)]
    addresses: Vec<Address>,
    /// In which port space: tcp, udp, or sdp, whose numbers are TCP's
    #[arg(long, value_name = "tcp|udp|sdp", default_value = "tcp", hide_possible_values = true)]
    space: HostSpace,
    /// Hold them for so many milliseconds
    #[arg(long, value_name = "MS")]
    hold: Option<u64>,
    /// One JSON object a line instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut signals = Signals::take().map_err(signals::failure)?;
    let mut numbers = Vec::new();
    for address in &args.addresses {
        numbers.push((args.space.of_host(), ip(*address)?));
    }
    let reserved = HostPorts::default()
        .reserve_all(&numbers)
        .map_err(|error| refuse(args.json, args.space, &error))?;
    for one in &reserved {
        let number = one.number();
        let words = format!("{} {} is reserved", args.space.name(), number.address());
        print(args.json, &object("RESERVED", args.space.name(), &number), &words)?;
    }
    let until = args.hold.map(|hold| Instant::now() + Duration::from_millis(hold));
    while !signals.arrived() && until.is_none_or(|until| Instant::now() < until) {
        signals.wait(&[], until).map_err(signals::failure)?;
    }
    Ok(())
}
