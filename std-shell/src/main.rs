//! The `nanocm` program. What it promises to scripts is in `docs/cli.md`.

mod cli;

fn main() -> std::process::ExitCode {
    cli::run()
}
