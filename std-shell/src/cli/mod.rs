//! The command line: one file per subcommand.
//!
//! | file | what it owns |
//! |---|---|
//! | `args.rs` | values that subcommands take: addresses, private data, reject reasons, queue pair numbers |
//! | `output.rs` | what a subcommand prints and how it ends: JSON lines, sentences, exit codes |
//! | `summary.rs` | the fields of a message that matter, as short texts |
//! | `ladder/` | conversations drawn as message ladders |
//! | `record.rs` | a message as a JSON object |
//! | `events.rs` | an event as a JSON object or a sentence |
//! | `failure.rs` | the library's errors as the program reports them |
//! | `counters.rs` | `--counters` |
//! | `provider.rs` | `--provider` |
//! | `policy.rs` | `--ports` |
//! | `source.rs` | `--from` |
//! | `probe/` | conversations that test a peer's CM |
//! | `signals.rs` | SIGINT and SIGTERM as something to poll |
//! | `unanswered.rs` | the requests to `listen` that wait for their answer |
//! | `decode.rs`, `states.rs`, `ports/`, … | a subcommand each |
//!
//! A further subcommand is one more file with `Args` and `run`, and a line in [`Command`] and in
//! [`execute`].

mod args;
mod connect;
mod counters;
mod decode;
mod demo;
mod events;
mod failure;
mod ladder;
mod listen;
mod output;
mod policy;
mod ports;
mod probe;
mod provider;
mod record;
mod resolve;
mod signals;
mod source;
mod states;
mod summary;
mod unanswered;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An RDMA connection manager: it speaks InfiniBand's CM protocol over RoCEv2 to any Linux host,
/// without RDMA hardware, drivers or privileges.
#[derive(Parser)]
#[command(name = "nanocm", version, after_help = EXAMPLES)]
#[command(arg_required_else_help = true, max_term_width = 100)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Demo(demo::Args),
    Listen(listen::Args),
    Connect(connect::Args),
    Resolve(resolve::Args),
    Probe(probe::Args),
    /// Hold port numbers in the host's port space, or see who does
    #[command(subcommand)]
    Ports(ports::Command),
    Decode(decode::Args),
    States(states::Args),
}

const EXAMPLES: &str = "\
Examples:
  nanocm demo                         two endpoints meet, with real packets
  nanocm listen 10.0.0.1:7471         accept whoever connects (Linux's rping, cmtime, ...)
  nanocm connect 10.0.0.2:7471        connect, disconnect, say what happened
  nanocm resolve 10.0.0.2:7174        find a datagram service (Linux's udaddy, ...)
  nanocm probe 10.0.0.2:7471          is that peer's CM right?
  nanocm ports check 10.0.0.1:5001    who has TCP port 5001
  nanocm decode rping.pcap            one line per CM message
  nanocm decode --ladder rping.pcap   each conversation drawn as a ladder
  nanocm decode --json rping.pcap     one JSON object per CM message

Exit status: 0 done, 1 the operation failed (probe: something deviates), 2 an argument cannot be understood.";

/// Runs the program with the arguments of the process.
pub(crate) fn run() -> ExitCode {
    match Program::try_parse_from(policy::join(std::env::args_os())) {
        Ok(program) => execute(&program.command),
        Err(error) => {
            if error.use_stderr() && std::env::args_os().any(|arg| arg == "--json") {
                output::report_usage(&error);
            }
            // Help goes to stdout and ends with 0, a mistake to stderr and ends with 2.
            error.exit()
        }
    }
}

fn execute(command: &Command) -> ExitCode {
    match command {
        Command::Demo(args) => output::exit(args.json, demo::run(args)),
        Command::Listen(args) => {
            let mut counted = None;
            let outcome = listen::run(args, &mut counted);
            counters::exit_counted(args.json, outcome, counted)
        }
        Command::Connect(args) => {
            let mut counted = None;
            match connect::run(args, &mut counted) {
                // It has not made all its connections.
                Err(output::Stop::Unread) => ExitCode::FAILURE,
                outcome => counters::exit_counted(args.json, outcome, counted),
            }
        }
        Command::Resolve(args) => {
            let mut counted = None;
            let outcome = resolve::run(args, &mut counted);
            counters::exit_counted(args.json, outcome, counted)
        }
        // What deviates has been told, and is no failure of ours.
        Command::Probe(args) => match probe::run(args) {
            Ok(false) => ExitCode::FAILURE,
            // It has not told all.
            Err(output::Stop::Unread) => ExitCode::FAILURE,
            outcome => output::exit(args.json, outcome.map(drop)),
        },
        Command::Ports(command) => output::exit(command.json(), ports::run(command)),
        Command::Decode(args) => output::exit(args.json, decode::run(args)),
        Command::States(args) => output::exit(false, states::run(args)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Program::command().debug_assert();
    }
}
