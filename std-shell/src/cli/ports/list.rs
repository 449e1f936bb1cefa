//! `nanocm ports list`: what nanocm's programs hold on this host.

use super::super::output::Outcome;
use super::{object, print, put_holder};
use nanocm::host_ports::{namespace, registered};

/// List the port numbers that programs with nanocm hold here, which other tools may not show
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One JSON object a line instead of sentences
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let here = namespace();
    let mut all = registered();
    all.retain(|one| one.namespace == here);
    all.sort_by_key(|one| (one.number.space, one.number.port, one.number.address()));
    for one in &all {
        let space = one.number.space.name();
        let mut object = object("HELD", space, &one.number);
        put_holder(&mut object, &one.holder);
        let words = format!("{space} {} is held by {}", one.number.address(), one.holder);
        print(args.json, &object, &words)?;
    }
    Ok(())
}
