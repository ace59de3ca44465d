//! Checks and generators of this repository: `cargo run -p xtask -- COMMAND`.
//!
//! Where to start reading: [`clauses`], [`tidy`], [`docs`], [`schema`], [`corpus`]; [`repo`] finds files.

mod clauses;
mod corpus;
mod docs;
mod fuzz;
mod projected;
mod repo;
mod schema;
mod speed;
mod tidy;

use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- COMMAND

  clauses [--prune]   which test shows which clause; fails on a clause that is neither shown nor listed as open
                      (--prune: take clauses that are shown now off the list)
  tidy                house rules
  docs [--check]      write the generated pages of docs/ (--check: fail when one is stale)
  schema [--check]    write the JSON Schema bundle and the TypeScript declarations (--check: fail when one is stale)
  case FILE...        run case files: each check passes, fails, or was not run
  corpus [--raise]    acceptance scripts against the release binary, or the one that THROUGHLINE_BIN names, held to
                      conformance/corpus-floor.tsv
                      (--raise: write better figures to the floor)
  fuzz [SECONDS]      every fuzz target for this long (30)
  import-speed [MB]   sessions of so many megabytes (100) imported by the same binary, against serde_json that merely parses them
                      (needs `cargo run --release`)
  full [SECONDS]      everything but rustdoc and end-to-end tests: tidy, docs, clauses, tests, 200 kills of the store, lints,
                      release build, corpus, real coding agents (every pair of runtimes), and every fuzz target for this long (30)";

/// How long a fuzz target runs.
fn seconds(rest: &[&str]) -> Result<u64, Failure> {
    rest.first().map_or(Ok(fuzz::SECONDS), |text| {
        text.parse().map_err(|_| format!("{text}: a number of seconds was expected"))
    })
}

/// How large a folder of sessions is.
fn megabytes(rest: &[&str]) -> Result<usize, Failure> {
    rest.first().map_or(Ok(speed::MEGABYTES), |text| {
        text.parse().map_err(|_| format!("{text}: a number of megabytes was expected"))
    })
}

/// Runs case files with the runner of `crates/conformance`, a program of its own so that the other commands need no store.
fn case(files: &[&str]) -> Result<(), Failure> {
    let here = std::env::current_dir().map_err(|e| format!("there is no current directory: {e}"))?;
    let files: Vec<String> = files.iter().map(|f| here.join(f).to_string_lossy().into_owned()).collect();
    let mut arguments = vec!["run", "--quiet", "--locked", "-p", "throughline-conformance", "--"];
    arguments.extend(files.iter().map(String::as_str));
    repo::execute("cargo", &arguments)
}

/// Why a command failed, for a person to read.
type Failure = String;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["clauses"] => clauses::run(false),
        ["clauses", "--prune"] => clauses::run(true),
        ["tidy"] => tidy::run(),
        ["docs"] => docs::run(false),
        ["docs", "--check"] => docs::run(true),
        ["schema"] => schema::run(false),
        ["schema", "--check"] => schema::run(true),
        ["case", files @ ..] if !files.is_empty() => case(files),
        ["corpus"] => corpus::run(false),
        ["corpus", "--raise"] => corpus::run(true),
        ["fuzz", rest @ ..] if rest.len() < 2 => seconds(rest).and_then(fuzz::run),
        ["import-speed", rest @ ..] if rest.len() < 2 => megabytes(rest).and_then(speed::run),
        ["full", rest @ ..] if rest.len() < 2 => seconds(rest).and_then(corpus::full),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {failure}");
            ExitCode::FAILURE
        }
    }
}
