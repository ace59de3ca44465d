//! `throughline-cases FILE...`: runs case files; exit 1 when a check fails, 2 when a file is no case.

use std::path::PathBuf;
use std::process::ExitCode;
use throughline_conformance::{Verdict, run_file};

fn main() -> ExitCode {
    let files: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if files.is_empty() {
        eprintln!("usage: throughline-cases FILE...");
        return ExitCode::from(2);
    }
    let (mut hold, mut fail, mut pass, mut failed, mut not_run, mut unreadable) = (0, 0, 0, 0, 0, 0);
    for file in &files {
        let report = match run_file(file) {
            Ok(report) => report,
            Err(why) => {
                eprintln!("{why}");
                unreadable += 1;
                continue;
            }
        };
        print!("{report}");
        hold += usize::from(report.holds());
        fail += usize::from(report.failures().next().is_some());
        for check in &report.checks {
            match check.verdict {
                Verdict::Pass => pass += 1,
                Verdict::Fail(_) => failed += 1,
                Verdict::NotRun(_) => not_run += 1,
            }
        }
    }
    println!("checks: {pass} pass, {failed} fail, {not_run} not run");
    let open = files.len() - hold - fail - unreadable;
    println!("{hold} of {} cases hold, {fail} fail, {open} not run or in part", files.len());
    match (unreadable, fail) {
        (0, 0) => ExitCode::SUCCESS,
        (0, _) => ExitCode::FAILURE,
        _ => ExitCode::from(2),
    }
}
