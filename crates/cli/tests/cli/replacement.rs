//! Unified v2 stands alone: no earlier version of the format, no way back to one.

use crate::support::{CHAT, CHAT_REQUEST, throughline};
use std::path::{Path, PathBuf};

/// What a second version of the format would be called, in any spelling; the words are joined and in lower case.
const EARLIER: &[&str] = &[
    "unifiedv1",
    "unified1",
    "requestv1",
    "resultv1",
    "eventv1",
    "exportv1",
    "v1adapter",
    "v1facade",
    "v1fallback",
    "fromv1",
    "tov1",
    "legacyunified",
    "unifiedlegacy",
    "oldunified",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources and manifests below `folder`.
fn sources(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path
            .extension()
            .is_some_and(|e| e == "rs" || e == "toml" || e == "ts" || e == "json")
        {
            let text = std::fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
}

/// Every name of an earlier version in a text: letters and digits only, so that no spelling of it escapes.
fn earlier_names(text: &str) -> Vec<&'static str> {
    let mut joined = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        joined.extend(word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()));
        joined.push(' ');
    }
    EARLIER.iter().copied().filter(|name| joined.contains(name)).collect()
}

#[test]
fn only_unified_v2_exists() {
    throughline_format::clause!("REP-01");
    let mut found = Vec::new();
    for folder in ["crates", "schema"] {
        sources(&root().join(folder), &mut found);
    }
    found.push((
        root().join("Cargo.lock"),
        std::fs::read_to_string(root().join("Cargo.lock")).unwrap(),
    ));
    assert!(found.len() > 200, "only {} sources were read", found.len());
    for (path, text) in &found {
        if !path.ends_with("replacement.rs") {
            assert_eq!(earlier_names(text), Vec::<&str>::new(), "{}", path.display());
        }
    }
    for spelling in [
        "struct UnifiedRequestV1;",
        "mod unified_v1;",
        "\"unified-v1\"",
        "fn from_v1()",
        "legacy_unified",
    ] {
        assert_eq!(earlier_names(spelling).len(), 1, "{spelling} is not recognised");
    }
}

#[test]
fn one_format_crate_and_no_switch_for_another() {
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let ours: Vec<&str> = lock.lines().filter(|l| l.starts_with("name = \"throughline-format")).collect();
    assert_eq!(ours, ["name = \"throughline-format\""]);
    for command in ["convert", "fold", "validate", "fingerprint", "schema", "serve"] {
        let help = throughline(&[command, "--help"], "");
        assert_eq!(help.exit, 0, "{command}");
        let text = help.stdout.to_ascii_lowercase();
        for word in ["legacy", "compat", "migrate", "--v1", "format-version"] {
            assert!(!text.contains(word), "`throughline {command}` offers {word}");
        }
    }
    let mut request = throughline(&["convert", "--kind", "request", "--from", CHAT, "-"], CHAT_REQUEST).json()["unified"].clone();
    request["schemaVersion"] = "1.0".into();
    let old = throughline(&["validate", "-"], request.to_string());
    assert_eq!(old.exit, 2);
    let report = old.json();
    let violation = &report["violations"][0];
    assert_eq!(violation["path"], "/schemaVersion", "{report}");
    assert!(violation["message"].as_str().unwrap().contains("1.0"), "{report}");
}

/// The crates of this repository that a manifest names as dependencies.
fn own_dependencies(manifest: &str) -> Vec<String> {
    let dependencies = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let dependencies = dependencies.split("\n[").next().unwrap_or_default();
    let lines = dependencies.lines().filter_map(|line| line.strip_prefix("throughline-"));
    lines.map(|line| line.split(['.', ' ', '=']).next().unwrap().to_owned()).collect()
}

#[test]
fn the_server_is_a_shell_around_libraries() {
    throughline_format::clause!("STORE-07");
    let manifest = |name: &str| std::fs::read_to_string(root().join("crates").join(name).join("Cargo.toml")).unwrap();
    // The libraries, directly or through one another, never reach the server.
    let libraries = ["format", "protocols", "store", "store-sqlite", "engine", "providers"];
    for library in libraries {
        let mut reached = std::collections::BTreeSet::new();
        let mut waiting = own_dependencies(&manifest(library));
        while let Some(next) = waiting.pop() {
            if reached.insert(next.clone()) {
                waiting.extend(own_dependencies(&manifest(&next)));
            }
        }
        assert!(
            !reached.contains("gateway") && !reached.contains("cli"),
            "{library} reaches {reached:?}"
        );
    }
    assert!(own_dependencies(&manifest("gateway")).contains(&"store-sqlite".to_owned()));
    // And the server has nothing of theirs: no SQL, no rows, no sealing, no wire types, no projection, no driver of its own.
    let mut sources_of_gateway = Vec::new();
    sources(&root().join("crates/gateway/src"), &mut sources_of_gateway);
    assert!(sources_of_gateway.len() > 10);
    for (path, text) in sources_of_gateway {
        for word in [
            "rusqlite",
            "SELECT ",
            "INSERT INTO",
            "WriteBatch",
            "WriteOp",
            "impl UnifiedStateStore",
            "impl StateWriter",
            ".seal(",
            "impl Codec",
            "encode_request(",
            "decode_response(",
            "impl Upstream ",
            "chacha20poly1305",
        ] {
            assert!(!text.contains(word), "{} has {word}", path.display());
        }
    }
    for outside in ["rusqlite", "chacha20poly1305", "hmac"] {
        assert!(!manifest("gateway").contains(outside), "{outside}");
    }
}
