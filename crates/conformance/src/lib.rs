//! Runs case files: a small input, a protocol or two, and what must be true of the answer.
//!
//! What it does: reads a case file, runs its input in this process through the public APIs of format, protocols, store and
//! engine, and evaluates every check. A check passes, fails, or was not run, with the reason; a check that cannot be run never
//! passes. What it never does: treating one protocol otherwise than the others (a case that names none and is about
//! checkpoints is played by OpenAI Responses, which has them), or starting a program.
//!
//! Where to start reading: [`run`] for what happens to a file, `checks` for the checks, `wire`, `session` and `steps` for the
//! kinds of input, `fold_view` for the neutral names of a fold.

#![forbid(unsafe_code)]

mod agents;
mod case;
mod checks;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod checks_tests;
mod compare;
mod emitted;
mod evidence;
mod fold_check;
mod fold_view;
mod invariants;
mod journal;
mod pieces;
mod query;
mod report;
mod session;
mod steps;
mod wire;

pub use case::{Case, Kind};
pub use checks::names as check_names;
pub use report::{CaseReport, CheckReport, Verdict};

use evidence::Evidence;
use std::path::Path;

/// Reads and runs one case file.
///
/// # Errors
/// When the file cannot be read or is no case.
pub fn run_file(path: &Path) -> Result<CaseReport, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    Case::parse(&text)
        .map(|case| run(&case))
        .map_err(|e| format!("{}: {e}", path.display()))
}

/// Runs a case. A panic of the product fails the case and nothing else.
pub fn run(case: &Case) -> CaseReport {
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run_unfenced(case)));
    outcome.unwrap_or_else(|_| CaseReport::of_every_check(case, &Verdict::Fail("the product panicked".to_owned())))
}

fn run_unfenced(case: &Case) -> CaseReport {
    let evidence = match case.kind {
        Kind::Request | Kind::Response | Kind::Stream => wire::evidence(case),
        Kind::Session if case.input.get("files").is_some() => agents::evidence(case),
        Kind::Session => session::evidence(case),
        Kind::Store | Kind::Resume => return steps::run(case),
    };
    match evidence {
        Ok(Evidence { overtime: Some(why), .. }) => CaseReport::of_every_check(case, &Verdict::Fail(why)),
        Ok(evidence) => judge(case, &evidence),
        Err(reason) => CaseReport::of_every_check(case, &Verdict::NotRun(reason)),
    }
}

fn judge(case: &Case, evidence: &Evidence<'_>) -> CaseReport {
    let checks = case.checks().map(|(say, check)| CheckReport {
        say: say.to_owned(),
        verdict: checks::evaluate(check, evidence),
    });
    CaseReport {
        id: case.id.clone(),
        checks: checks.collect(),
    }
}
