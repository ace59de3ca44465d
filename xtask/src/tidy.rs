//! House rules that no compiler checks.

use crate::{Failure, repo};
use std::collections::BTreeSet;

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
    ("hyper", &["gateway"]),
    ("hyper-util", &["gateway"]),
    ("reqwest", &["providers"]),
    ("clap", &["cli"]),
    ("toml", &["gateway", "cli"]),
    ("tokio", &["store-sqlite", "engine", "providers", "gateway", "cli", "conformance"]),
    ("uuid", &["gateway"]),
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
    ("getrandom", &["store", "gateway"]),
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

/// Crates in which time, files, environment, network and threads are arguments, or absent.
const PURE: &[&str] = &["format", "protocols", "agents"];
/// The modules of `std` that they do without.
const IMPURE_MODULES: &[&str] = &["env", "fs", "net", "process", "thread", "time"];

/// Where the modules of protocols stand.
const PROTOCOLS: &str = "crates/protocols/src/";

/// The modules that are a protocol each: the folders with a capability table.
fn protocols<'f>(paths: impl Iterator<Item = &'f str>) -> BTreeSet<&'f str> {
    paths
        .filter_map(|path| path.strip_prefix(PROTOCOLS)?.strip_suffix("/capabilities.rs"))
        .collect()
}

/// Runs the command.
pub(crate) fn run() -> Result<(), Failure> {
    let files = repo::files()?;
    let modules = protocols(files.iter().map(|(path, _)| path.as_str()));
    let problems: Vec<String> = files.iter().flat_map(|(path, text)| check(path, text, &modules)).collect();
    if modules.is_empty() {
        return Err(format!("tidy: no module below {PROTOCOLS} has a capability table"));
    }
    eprintln!("tidy: {} files", files.len());
    if problems.is_empty() {
        Ok(())
    } else {
        Err(format!("tidy:\n  {}", problems.join("\n  ")))
    }
}

/// Every finding in one file.
fn check(path: &str, text: &str, protocols: &BTreeSet<&str>) -> Vec<String> {
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
        problems.extend(rust(path, text, protocols));
    }
    if let Some(name) = path.strip_prefix("crates/").and_then(|p| p.strip_suffix("/Cargo.toml")) {
        problems.extend(dependencies(name, text).into_iter().map(|p| format!("{path}: {p}")));
    }
    problems
}

fn rust(path: &str, text: &str, protocols: &BTreeSet<&str>) -> Vec<String> {
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
    if let Some((module, _)) = path.strip_prefix(PROTOCOLS).and_then(|rest| rest.split_once('/')) {
        let named = ["crate", "super"].into_iter().flat_map(|begin| names_after(begin, text));
        let others: BTreeSet<&str> = named.filter(|name| *name != module && protocols.contains(name)).collect();
        problems.extend(
            others
                .into_iter()
                .map(|other| format!("{path}: one protocol module imports another ({other})")),
        );
    }
    let pure = PURE.iter().find(|name| path.starts_with(&format!("crates/{name}/src/")));
    if let Some(name) = pure {
        // What follows is a test's.
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
        let impure: BTreeSet<&str> = names_after("std", code)
            .into_iter()
            .filter(|n| IMPURE_MODULES.contains(n))
            .collect();
        problems.extend(
            impure
                .into_iter()
                .map(|module| format!("{path}: {name} does without std::{module} (ARCHITECTURE.md, Invariants)")),
        );
    }
    problems
}

/// The names that follow `begin::` in code, `super::` in between passed over, and each name of a group: `a` and `b` of
/// `crate::{a::X, b}`.
fn names_after<'t>(begin: &str, text: &'t str) -> Vec<&'t str> {
    let mut names = Vec::new();
    // Comments may name whatever they speak of. A string with two slashes hides the rest of its line, which is no import.
    let lines: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut group_depth = None;
    for line in lines {
        let mut rest = line;
        loop {
            if let Some(depth) = group_depth {
                let (found, after, depth) = group(rest, depth);
                names.extend(found);
                group_depth = depth;
                rest = after;
                if depth.is_some() {
                    break;
                }
            }
            let Some(at) = rest.find(&format!("{begin}::")) else { break };
            let (before, after) = rest.split_at(at);
            let is_whole = !before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
            rest = after
                .strip_prefix(begin)
                .and_then(|after| after.strip_prefix("::"))
                .unwrap_or_default();
            while let Some(after) = rest.strip_prefix("super::") {
                rest = after;
            }
            if !is_whole {
                continue;
            }
            if let Some(inner) = rest.strip_prefix('{') {
                group_depth = Some((1, true));
                rest = inner;
            } else {
                names.extend(name_at(rest));
            }
        }
    }
    names
}

/// The depth of braces in a group, and whether the next word begins one of its paths.
type Depth = (usize, bool);

/// Names at the beginning of the paths of a group up to its end or the line's: with the rest of the line, and the depth when it goes on.
fn group(line: &str, (mut depth, mut begins): Depth) -> (Vec<&str>, &str, Option<Depth>) {
    let mut names = Vec::new();
    for (at, c) in line.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                if depth == 0 {
                    return (names, line.split_at(at + 1).1, None);
                }
            }
            ',' if depth == 1 => begins = true,
            c if depth == 1 && begins && !c.is_whitespace() => {
                names.extend(name_at(line.split_at(at).1));
                begins = false;
            }
            _ => {}
        }
    }
    (names, "", Some((depth, begins)))
}

/// The name at the beginning of a text.
fn name_at(text: &str) -> Option<&str> {
    let name = text.split(|c: char| !c.is_alphanumeric() && c != '_').next();
    name.filter(|name| !name.is_empty())
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
        // A table of its own names its dependency, and a target's dependencies are the crate's as well.
        let own = section
            .trim_matches(['[', ']'])
            .split_once("dependencies.")
            .filter(|_| line.starts_with('['));
        let is_dependencies = section == "[dependencies]" || (section.starts_with("[target.") && section.ends_with(".dependencies]"));
        let dependency = match own {
            Some((before, name)) if before.is_empty() || (before.starts_with("target.") && before.ends_with('.')) => name,
            _ if is_dependencies && !line.starts_with(['[', '#']) => line.split(['.', '=', ' ']).next().unwrap_or_default(),
            _ => continue,
        };
        if dependency.is_empty() {
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
        let finds = |path: &str, text: &str| check(path, text, &BTreeSet::new()).len();
        assert_eq!(finds("crates/format/src/lib.rs", "//! What it is.\n"), 0);
        assert_eq!(finds("crates/format/src/lib.rs", "mod a;\n"), 1);
        assert_eq!(finds("docs/a.md", concat!("see /ho", "me/me/x \n")), 2);
        assert_eq!(finds("crates/format/src/a.rs", &"\n".repeat(701)), 1);
        assert_eq!(
            finds("crates/format/src/a.rs", &format!("//! Length: one table.\n{}", "\n".repeat(701))),
            0
        );
        assert_eq!(finds("crates/format/tests/a.rs", &"\n".repeat(701)), 0);
        assert_eq!(
            finds(
                "crates/format/Cargo.toml",
                "[dependencies]\ntokio.workspace = true\nthroughline-store.workspace = true\n"
            ),
            2
        );
        assert_eq!(finds("crates/format/Cargo.toml", "[dev-dependencies]\ntokio.workspace = true\n"), 0);
        for (manifest, expected) in [
            ("[dependencies.tokio]\nworkspace = true\n", 1),
            ("[dev-dependencies.tokio]\nworkspace = true\n", 0),
            ("[target.'cfg(unix)'.dependencies]\ntokio.workspace = true\n", 1),
            ("[target.'cfg(unix)'.dependencies.tokio]\nworkspace = true\n", 1),
            ("[target.'cfg(unix)'.dev-dependencies]\ntokio.workspace = true\n", 0),
        ] {
            assert_eq!(finds("crates/format/Cargo.toml", manifest), expected, "{manifest}");
        }
        assert_eq!(finds("crates/unheard-of/Cargo.toml", ""), 1);
    }

    #[test]
    fn a_protocol_that_imports_another_is_found_however_it_is_written() {
        let paths =
            ["gemini_interactions", "gemini_generate_content", "openai_chat"].map(|name| format!("{PROTOCOLS}{name}/capabilities.rs"));
        let modules = protocols(paths.iter().map(String::as_str).chain(["crates/protocols/src/openai/errors.rs"]));
        assert_eq!(modules.len(), 3);
        for (text, found) in [
            ("use crate::gemini_generate_content::wire;\n", true),
            ("use super::super::gemini_generate_content::wire;\n", true),
            ("use crate::{gemini_generate_content as g, wire};\n", true),
            ("use crate::{\n    item_writer::ItemWriter,\n    openai_chat::wire,\n};\n", true),
            ("use crate::{wire::{A, B}, openai_chat};\n", true),
            ("let x = crate::openai_chat::OpenAiChat;\n", true),
            ("use crate::{a}; use crate::openai_chat::B;\n", true),
            ("use crate::gemini_interactions::wire;\n", false),
            ("use crate::openai::errors;\n", false),
            ("use crate::openai_chat_like::X;\n", false),
            ("use crate::{wire::openai_chat, item_writer::{openai_chat}};\n", false),
            ("/// As [`crate::openai_chat::X`].\n", false),
        ] {
            let problems = check("crates/protocols/src/gemini_interactions/wire.rs", text, &modules);
            assert_eq!(problems.len(), usize::from(found), "{text}: {problems:?}");
            // What stands beside the protocols knows them all.
            assert_eq!(check("crates/protocols/src/registry.rs", text, &modules), Vec::<String>::new());
        }
    }

    #[test]
    fn what_has_no_clock_and_no_files_is_held_to_it() {
        for (path, text, found) in [
            ("crates/format/src/time.rs", "use std::time::SystemTime;\n", true),
            ("crates/agents/src/a.rs", "use std::{collections::BTreeMap, fs};\n", true),
            ("crates/protocols/src/a.rs", "let home = std::env::var(x);\n", true),
            (
                "crates/protocols/src/a.rs",
                "#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n",
                false,
            ),
            ("crates/protocols/src/a.rs", "use std::fmt;\n", false),
            ("crates/protocols/tests/a.rs", "use std::fs;\n", false),
            ("crates/engine/src/a.rs", "use std::time::Duration;\n", false),
        ] {
            let problems = check(path, text, &BTreeSet::new());
            assert_eq!(problems.len(), usize::from(found), "{path}: {text}: {problems:?}");
        }
    }

    #[test]
    fn the_repository_is_tidy_about_itself() {
        assert_eq!(
            check("xtask/src/tidy.rs", include_str!("tidy.rs"), &BTreeSet::new()),
            Vec::<String>::new()
        );
    }
}
