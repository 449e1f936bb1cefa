//! `nanocm resolve`: where the datagrams of a service go.

use super::args::{self, Address};
use super::events::Reporter;
use super::output::Outcome;
use super::provider::{self, Provider};
use super::source;
use nanocm::{ConnParam, Deadline, PortSpace};
use std::time::Duration;

/// Find a datagram service: its queue pair and Q_Key (SIDR)
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Whom to ask: 1.2.3.4:PORT, [v6]:PORT, [fe80::1%eth0]:PORT
    #[arg(value_name = "ADDR:PORT", value_parser = args::peer)]
    address: Address,
    /// From which local address
    #[arg(long, value_name = "ADDR", value_parser = args::source)]
    from: Option<Address>,
    /// How CM messages travel: udp, raw, umad:CA/PORT, kernel
    #[arg(long, value_name = "P", default_value = "udp")]
    provider: Provider,
    /// Milliseconds until it is given up
    #[arg(long, value_name = "MS", default_value_t = 30_000, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// One JSON object a line instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let peer = provider::ip(args.address)?;
    let cm = args.provider.cm(1)?;
    let source = source::open(&cm, args.from, peer)?;
    let deadline = Deadline::after(Duration::from_millis(args.timeout));
    let mut reporter = Reporter::new(args.json, PortSpace::Udp);
    match cm.resolve_with(Some(source), peer, &ConnParam::new(0), deadline) {
        Ok(service) => Ok(reporter.resolved(&service)?),
        Err(error) => {
            reporter.not_resolved(&error)?;
            Err(error.into())
        }
    }
}
