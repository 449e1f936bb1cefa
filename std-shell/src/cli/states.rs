//! `nanocm states`: the states of both machines and the transitions between them, from the tables
//! that the engine obeys.

use super::output::{Outcome, print_line};
use nanocm::core::{conn, id};
use std::fmt::Display;

/// Print the states of identifiers and connections, and the legal transitions
#[derive(clap::Args)]
pub(crate) struct Args {
    /// As two graphs in the DOT language
    #[arg(long)]
    dot: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.dot {
        graph("identifier", id::TRANSITIONS)?;
        return graph("connection", conn::TRANSITIONS);
    }
    table("Identifier (what librdmacm's user sees)", id::TRANSITIONS)?;
    print_line("")?;
    table("Connection (the CM protocol)", conn::TRANSITIONS)
}

fn table<S: Display>(title: &str, transitions: &[(S, S, &str)]) -> Outcome {
    print_line(title)?;
    for (from, to, why) in transitions {
        print_line(&format!("  {:<14} -> {:<14}  {why}", from.to_string(), to.to_string()))?;
    }
    Ok(())
}

fn graph<S: Display>(name: &str, transitions: &[(S, S, &str)]) -> Outcome {
    print_line(&format!("digraph {name} {{"))?;
    for (from, to, why) in transitions {
        print_line(&format!("  \"{from}\" -> \"{to}\" [label=\"{why}\"];"))?;
    }
    Ok(print_line("}")?)
}
