//! House rules that no compiler checks.

use crate::{Failure, repo};

/// Longest source file outside tests. A longer one says why in a header line that begins with [`LENGTH_REASON`].
const MAX_LINES: usize = 700;
const LENGTH_REASON: &str = "//! Length:";

/// Words that mean unfinished work. Spelled in pieces, so that this file does not find itself.
const UNFINISHED: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X:"),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[", "ignore"),
];
/// Paths that exist on one machine only.
const MACHINE_PATHS: [&str; 4] = [
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("/Us", "ers/"),
];

/// Which outside crates only these of ours may depend on (ARCHITECTURE.md, Invariants).
const WALLS: &[(&str, &[&str])] = &[
    // The case runner holds locks and counts rows as an outside tool would; the command line reads another program's database.
    ("rusqlite", &["store-sqlite", "conformance", "cli"]),
    ("axum", &["gateway"]),
    ("tower-http", &["gateway"]),
    ("reqwest", &["providers", "gateway"]),
    ("clap", &["cli"]),
    ("toml", &["gateway", "cli"]),
    ("tokio", &["store-sqlite", "engine", "providers", "gateway", "cli", "conformance"]),
    ("uuid", &["engine", "gateway"]),
    // No `serde` in what runs a turn: nothing of the execution context can become a record.
    (
        "serde",
        &[
            "format",
            "protocols",
            "agents",
            "store",
            "store-sqlite",
            "gateway",
            "cli",
            "conformance",
        ],
    ),
    ("getrandom", &["store", "engine", "gateway", "cli"]),
];
/// Which of our crates a crate may depend on. A crate that is not listed here is a finding.
const LAYERS: &[(&str, &[&str])] = &[
    ("format", &[]),
    ("protocols", &["format"]),
    ("agents", &["format", "protocols"]),
    ("store", &["format"]),
    ("store-sqlite", &["format", "store"]),
    ("engine", &["format", "protocols", "store"]),
    ("providers", &["format", "protocols", "store", "engine"]),
    ("gateway", &["format", "protocols", "store", "store-sqlite", "engine", "providers"]),
    ("conformance", &["format", "protocols", "agents", "store", "store-sqlite", "engine"]),
    (
        "cli",
        &[
            "format",
            "protocols",
            "agents",
            "store",
            "store-sqlite",
            "engine",
            "providers",
            "gateway",
        ],
    ),
];

/// Runs the command.
pub(crate) fn run() -> Result<(), Failure> {
    let files = repo::files()?;
    let problems: Vec<String> = files.iter().flat_map(|(path, text)| check(path, text)).collect();
    eprintln!("tidy: {} files", files.len());
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("tidy:\n  {}", problems.join("\n  ")))
    }
}

/// Every finding in one file.
fn check(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let is_data = path.starts_with("conformance/")
        || path.starts_with("fuzz/seeds/")
        || path.contains("/fixtures/")
        || path.contains("/snapshots/")
        || path == "Cargo.lock"
        || path == "LICENSE";
    if !is_data {
        for (number, line) in text.lines().enumerate() {
            let place = format!("{path}:{}", number + 1);
            problems.extend(
                MACHINE_PATHS
                    .iter()
                    .filter(|p| line.contains(*p))
                    .map(|p| format!("{place}: a machine's path ({p})")),
            );
            problems.extend(
                UNFINISHED
                    .iter()
                    .filter(|w| line.contains(*w))
                    .map(|w| format!("{place}: unfinished work ({w})")),
            );
            if line.ends_with([' ', '\t']) {
                problems.push(format!("{place}: white space at the end of the line"));
            }
        }
        if !text.is_empty() && !text.ends_with('\n') {
            problems.push(format!("{path}: no line end at the end of the file"));
        }
    }
    if repo::is_rust(path) {
        problems.extend(rust(path, text));
    }
    if let Some(name) = path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml")) {
        problems.extend(dependencies(name, text).into_iter().map(|p| format!("{path}: {p}")));
    }
    problems
}

fn rust(path: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let lines = text.lines().count();
    let is_test = path.contains("/tests/") || path.contains("/benches/") || path.ends_with("/tests.rs");
    if lines > MAX_LINES && !is_test && !text.lines().take(40).any(|l| l.starts_with(LENGTH_REASON)) {
        problems.push(format!(
            "{path}: {lines} lines; split it, or say why in a header line `{LENGTH_REASON} …`"
        ));
    }
    if (path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs")) && !text.starts_with("//!") {
        problems.push(format!("{path}: it does not begin with what it is (`//!`)"));
    }
    if let Some(module) = path
        .strip_prefix("crates/protocols/src/")
        .and_then(|p| p.split_once('/'))
        .map(|(module, _)| module)
    {
        for other in [
            "anthropic_messages",
            "openai_chat",
            "openai_responses",
            "gemini",
            "interactions",
            "cursor",
            "vercel",
        ] {
            if !module.starts_with(other) && text.contains(&format!("crate::{other}")) {
                problems.push(format!("{path}: one protocol module imports another ({other})"));
            }
        }
    }
    problems
}

/// Findings in a crate's dependencies; those of tests are free.
fn dependencies(name: &str, manifest: &str) -> Vec<String> {
    let Some((_, allowed)) = LAYERS.iter().find(|(layer, _)| *layer == name) else {
        return vec!["the crate has no place in the layers of xtask tidy".to_owned()];
    };
    let mut problems = Vec::new();
    let mut section = "";
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        }
        let dependency = line.split(['.', '=', ' ']).next().unwrap_or_default();
        if section != "[dependencies]" || line.starts_with(['[', '#']) || dependency.is_empty() {
            continue;
        }
        if let Some(layer) = dependency.strip_prefix("throughline-")
            && !allowed.contains(&layer)
        {
            problems.push(format!("{name} must not know {layer}"));
        }
        if let Some((_, users)) = WALLS.iter().find(|(wall, _)| *wall == dependency)
            && !users.contains(&name)
        {
            problems.push(format!("{name} must not use {dependency}"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_found_and_clean_files_pass() {
        assert_eq!(check("crates/format/src/lib.rs", "//! What it is.\n"), Vec::<String>::new());
        let finds = |path: &str, text: &str| check(path, text).len();
        assert_eq!(finds("crates/format/src/lib.rs", "mod a;\n"), 1);
        assert_eq!(finds("docs/a.md", concat!("see /ho", "me/me/x \n")), 2);
        assert_eq!(finds("crates/format/src/a.rs", &"\n".repeat(701)), 1);
        assert_eq!(
            finds("crates/format/src/a.rs", &format!("//! Length: one table.\n{}", "\n".repeat(701))),
            0
        );
        assert_eq!(finds("crates/format/tests/a.rs", &"\n".repeat(701)), 0);
        assert_eq!(
            finds("crates/protocols/src/openai_chat/mod.rs", "use crate::anthropic_messages::X;\n"),
            1
        );
        assert_eq!(
            finds(
                "crates/format/Cargo.toml",
                "[dependencies]\ntokio.workspace = true\nthroughline-store.workspace = true\n"
            ),
            2
        );
        assert_eq!(finds("crates/format/Cargo.toml", "[dev-dependencies]\ntokio.workspace = true\n"), 0);
        assert_eq!(finds("crates/unheard-of/Cargo.toml", ""), 1);
    }

    #[test]
    fn the_repository_is_tidy_about_itself() {
        assert_eq!(check("xtask/src/tidy.rs", include_str!("tidy.rs")), Vec::<String>::new());
    }
}
