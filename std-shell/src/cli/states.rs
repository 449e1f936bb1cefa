//! `nanocm states`: the states of both machines and the transitions between them. (in work)

use super::output::{Failure, Outcome, errno};

/// Print the states of identifiers and connections, and the legal transitions
#[derive(clap::Args)]
pub(crate) struct Args {
    /// As a graph in the DOT language
    #[arg(long)]
    dot: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let form = if args.dot { "graph" } else { "table" };
    let message = format!("the {form} of states is not part of this build");
    Err(Failure::new(errno::EOPNOTSUPP, "not-built", message).into())
}
