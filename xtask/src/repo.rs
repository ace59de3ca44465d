//! Files of the repository and of the shared folder beside it.

use crate::Failure;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The folder that cargo builds into: `$CARGO_TARGET_DIR`, else `target`.
pub(crate) fn target() -> PathBuf {
    root().join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// The folder with specification, corpus and acceptance scripts: `$THROUGHLINE_SHARED`, else beside the repository.
pub(crate) fn shared() -> PathBuf {
    root().join(std::env::var_os("THROUGHLINE_SHARED").unwrap_or_else(|| "../shared".into()))
}

/// Whether a path is one of a Rust source.
pub(crate) fn is_rust(path: &str) -> bool {
    Path::new(path).extension().is_some_and(|extension| extension == "rs")
}

/// Whether something of the shared folder is there: without it a check is skipped, but with CI=true that is a failure.
pub(crate) fn is_there(path: &Path) -> Result<bool, Failure> {
    if path.exists() {
        return Ok(true);
    }
    if std::env::var("CI").as_deref() == Ok("true") {
        return Err(format!("{} is missing; with CI=true it must be there", path.display()));
    }
    eprintln!("skipped: {} is missing", path.display());
    Ok(false)
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path).map_err(|e| format!("cannot read {}: {e}", path.display()))
}

/// Writes a text file.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|e| format!("cannot make {}: {e}", folder.display()))?;
    }
    std::fs::write(path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// Text files of the repository that git knows or would add, as (path relative to the root, content), sorted.
pub(crate) fn files() -> Result<Vec<(String, String)>, Failure> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root())
        .output()
        .map_err(|e| format!("cannot run git: {e}"))?;
    if !output.status.success() {
        return Err(format!("git ls-files failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let mut names: Vec<String> = String::from_utf8_lossy(&output.stdout)
        .split('\0')
        .filter(|n| !n.is_empty())
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    // A file that is deleted but still in the index, or that is no text, has nothing to check.
    Ok(names
        .into_iter()
        .filter_map(|name| Some((name.clone(), std::fs::read_to_string(root().join(&name)).ok()?)))
        .collect())
}

/// Rows of a tab-separated file without its header line; comments begin with `#`.
pub(crate) fn table(path: &Path) -> Result<Vec<Vec<String>>, Failure> {
    let text = read(path)?;
    let rows = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty())
        .skip(1);
    Ok(rows.map(|line| line.split('\t').map(str::to_owned).collect()).collect())
}

/// Runs a program in the repository's root with its output shown.
pub(crate) fn execute(program: &str, arguments: &[&str]) -> Result<(), Failure> {
    eprintln!("> {program} {}", arguments.join(" "));
    let status = Command::new(program)
        .args(arguments)
        .current_dir(root())
        .status()
        .map_err(|e| format!("cannot run {program}: {e}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{program} {} failed ({status})", arguments.join(" ")))
    }
}
