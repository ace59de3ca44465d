//! The command line of Throughline.
//!
//! What it does: reads arguments, files and pipes, calls the crates below, prints JSON, sets the exit code. What it never
//! does: write wire JSON by hand, touch the store's database but through its crate, print a private payload, or panic on input. The one
//! SQL in it reads the database of OpenCode.
//!
//! Where to start reading: [`args`] (the grammar), then one module of [`commands`]. [`conversion`] is the heart of `convert`.

#![forbid(unsafe_code)]

pub mod args;
pub mod commands;
pub mod conversion;
pub mod data;
pub mod error;
pub mod input;
pub mod output;
pub mod private_state;
pub mod protocol;
pub mod report;

use args::{Arguments, Command};
use clap::Parser;
use error::{CliError, EXIT_BAD_INPUT, EXIT_OTHER};
use std::ffi::OsString;

/// Runs the program with its arguments and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => return usage(&error),
    };
    let done = match &arguments.command {
        Command::Convert(arguments) => commands::convert::run(arguments),
        Command::Fold(arguments) => commands::fold::run(arguments),
        Command::Fingerprint(arguments) => commands::fingerprint::run(arguments),
        Command::Validate(arguments) => commands::validate::run(arguments),
        Command::Schema(arguments) => commands::schema::run(arguments),
        Command::Session(arguments) => commands::session::run(arguments),
        Command::Conversation(arguments) => commands::conversation::run(arguments),
        Command::Db(arguments) => commands::db::run(arguments),
        Command::Key(arguments) => commands::key::run(arguments),
        Command::Serve(arguments) => commands::serve::run(arguments),
    };
    done.unwrap_or_else(|error| {
        output::report(&error);
        error.exit()
    })
}

/// Help and version are answers; everything else is an error in this program's own form.
fn usage(error: &clap::Error) -> u8 {
    if !error.use_stderr() {
        return if output::print_bytes(error.to_string().as_bytes()).is_ok() {
            0
        } else {
            EXIT_OTHER
        };
    }
    let text = error.to_string();
    // clap's first paragraph says what is wrong; the rest is advice on usage.
    let paragraph: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
    let mut message = paragraph.join(" ").trim_start_matches("error: ").to_owned();
    if error.kind() == clap::error::ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        "a command is missing; see throughline --help".clone_into(&mut message);
    }
    output::report(&CliError::usage(message));
    EXIT_BAD_INPUT
}
