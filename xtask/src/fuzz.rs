//! The fuzz targets of `fuzz/`, each for a while. They need a nightly compiler and `cargo-fuzz`, which is installed when missing.

use crate::{Failure, repo};
use std::path::PathBuf;
use std::process::Command;

/// Seconds per target when nobody says another number.
pub(crate) const SECONDS: u64 = 30;
/// Most seconds for one input, most bytes of one, and most memory.
const LIMITS: [&str; 3] = ["-timeout=20", "-max_len=16384", "-rss_limit_mb=2048"];

/// Runs every target for this many seconds; a finding is a failure, and its input stays in `fuzz/artifacts`.
pub(crate) fn run(seconds: u64) -> Result<(), Failure> {
    if !succeeds(&["+nightly", "--version"]) {
        return missing("a nightly toolchain (`rustup toolchain install nightly`)");
    }
    if !succeeds(&["fuzz", "--version"]) {
        repo::execute("cargo", &["install", "cargo-fuzz", "--locked"])?;
    }
    let failed: Vec<String> = targets()?.into_iter().filter(|target| one(target, seconds).is_err()).collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(format!("fuzz: findings in {}; see fuzz/artifacts", failed.join(", ")))
    }
}

/// Names of the targets.
fn targets() -> Result<Vec<String>, Failure> {
    let folder = repo::root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).map_err(|e| format!("cannot read {}: {e}", folder.display()))?;
    let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut names: Vec<String> = files.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

fn one(target: &str, seconds: u64) -> Result<(), Failure> {
    // Built apart from everything else: its flags would build all of it anew each time.
    let built: PathBuf = repo::target().join("fuzz");
    let found = built.join("corpus").join(target);
    std::fs::create_dir_all(&found).map_err(|e| format!("cannot make {}: {e}", found.display()))?;
    let mut command = Command::new("cargo");
    // Nothing here is unsafe, so an address sanitizer would find nothing and cost half the inputs.
    command.args(["+nightly", "fuzz", "run", "--sanitizer", "none", target]).arg(&found);
    command.arg(repo::root().join("fuzz/seeds").join(target));
    command
        .arg("--")
        .arg(format!("-max_total_time={seconds}"))
        .args(LIMITS)
        .arg("-print_final_stats=1");
    eprintln!("> fuzz {target} for {seconds} s");
    let status = command
        .env("CARGO_TARGET_DIR", &built)
        .current_dir(repo::root().join("fuzz"))
        .status()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{target}: {status}"))
    }
}

fn succeeds(arguments: &[&str]) -> bool {
    Command::new("cargo")
        .args(arguments)
        .output()
        .is_ok_and(|output| output.status.success())
}

fn missing(what: &str) -> Result<(), Failure> {
    if std::env::var("CI").as_deref() == Ok("true") {
        return Err(format!("fuzz: {what} is missing; with CI=true it must be there"));
    }
    eprintln!("skipped: fuzz needs {what}");
    Ok(())
}
