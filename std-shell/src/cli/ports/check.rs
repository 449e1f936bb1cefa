//! `nanocm ports check`: whether a number could be had, and if not, why.

use super::super::args::{self, Address};
use super::super::output::Outcome;
use super::{HostSpace, ip, object, print, refuse};
use nanocm::host_ports::HostPorts;

/// Say whether a port number is free on this host, or who or what has it
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Which: 1.2.3.4:PORT, [v6]:PORT
    #[arg(value_name = "ADDR:PORT", value_parser = args::peer)]
    address: Address,
    /// In which port space: tcp, udp, or sdp, whose numbers are TCP's
    #[arg(long, value_name = "tcp|udp|sdp", default_value = "tcp", hide_possible_values = true)]
    space: HostSpace,
    /// One JSON object a line instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    // There is no better way to know than to try.
    let tried = HostPorts::default().reserve(args.space.of_host(), ip(args.address)?);
    let number = tried.map_err(|error| refuse(args.json, args.space, &error))?.number();
    let words = format!("{} {} is free", args.space.name(), number.address());
    print(args.json, &object("FREE", args.space.name(), &number), &words)
}
