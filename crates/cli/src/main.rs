//! The `throughline` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(throughline_cli::run(std::env::args_os()))
}
