//! `nanocm resolve`: where the datagrams of a service go.

use super::args::{self, Address};
use super::events::Reporter;
use super::output::{Failure, Outcome};
use super::provider::{self, Provider};
use super::signals::{self, Signals};
use super::source;
use nanocm::core::Counters;
use nanocm::future::Service;
use nanocm::{Cm, ConnParam, Deadline, PortSpace};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
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
    /// Say in the end what was counted, such as datagrams that were ignored
    #[arg(long)]
    counters: bool,
    /// One JSON object a line instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args, counted: &mut Option<Counters>) -> Outcome {
    let peer = provider::ip(args.address)?;
    let mut signals = Signals::take().map_err(signals::failure)?;
    let cm = args.provider.cm(1)?;
    let outcome = resolve(args, &cm, peer, &mut signals);
    *counted = args.counters.then(|| cm.counters());
    outcome
}

/// Until it is told, or a signal comes.
fn resolve(args: &Args, cm: &Cm, peer: SocketAddr, signals: &mut Signals) -> Outcome {
    let source = source::open(cm, args.from, peer)?;
    let deadline = Deadline::after(Duration::from_millis(args.timeout));
    let mut reporter = Reporter::new(args.json, PortSpace::Udp);
    let param = ConnParam::new(0);
    let mut resolving = pin!(Service::resolve_with(cm, Some(source), peer, &param, deadline));
    loop {
        let driven = cm.drive();
        // Nobody needs to be woken: what wakes it makes the connection manager readable.
        match resolving.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(Ok(service)) => return Ok(reporter.resolved(&service)?),
            Poll::Ready(Err(error)) => {
                reporter.not_resolved(&error)?;
                return Err(error.into());
            }
            Poll::Pending => {}
        }
        driven?;
        if signals.arrived() {
            let message = format!("interrupted before {peer} has answered");
            return Err(Failure::new(libc::EINTR, "interrupted", message).into());
        }
        signals.wait(&[cm.as_fd()], None).map_err(signals::failure)?;
    }
}
