//! What the store crates must not know, read from their sources.

use std::fs;
use std::path::{Path, PathBuf};

use throughline_format::clause;

fn sources(directory: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            found.push((path, text));
        }
    }
    assert!(!found.is_empty());
    found
}

fn assert_absent(directory: &str, words: &[&str]) {
    for (path, text) in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)) {
        for word in words {
            assert!(!text.contains(word), "{} has the word {word}", path.display());
        }
    }
}

#[test]
fn the_traits_know_no_database() {
    clause!("STORE-01");
    assert_absent("src", &["rusqlite", "sqlite", "Sqlite", "SQLite"]);
}

#[test]
fn nothing_is_looked_up_and_no_clock_is_read() {
    let words = [
        "env::var",
        "env::home_dir",
        "current_dir",
        "HOME",
        "XDG_",
        "SystemTime",
        "::now()",
        "OffsetDateTime",
    ];
    assert_absent("src", &words);
    assert_absent("../store-sqlite/src", &words);
}
