//! The `throughline` program.

use std::process::ExitCode;

/// Records are made of many small texts, and the threads that make them run at once.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    ExitCode::from(throughline_cli::run(std::env::args_os()))
}
