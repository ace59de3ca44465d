//! Tool names on a wire: a name that a target refuses gets a deterministic replacement that ends in its digest.
//!
//! Nothing is ever cut blindly: two long names with one beginning would collide. Whoever knows the tools of a request maps
//! each of them and compares, so the way back needs no table.

use std::borrow::Cow;
use throughline_format::{Sha256, UnifiedToolDefinition};

/// The name itself when it has only `[A-Za-z0-9_-]` and at most `max_length` characters, else its replacement.
///
/// A namespace is written in front, so that tools of two servers stay apart.
pub fn wire<'a>(namespace: Option<&str>, name: &'a str, max_length: usize) -> Cow<'a, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let is_legal = |text: &str| (1..=max_length).contains(&text.len()) && text.chars().all(is_plain);
    let full = match namespace {
        None if is_legal(name) => return Cow::Borrowed(name),
        None => name.to_owned(),
        Some(namespace) => format!("{namespace}__{name}"),
    };
    if is_legal(&full) {
        return Cow::Owned(full);
    }
    let digest = Sha256::of_all([b"throughline-tool-name@1\n".as_slice(), full.as_bytes()]);
    let tail = data_encoding::BASE32_NOPAD.encode(digest.as_bytes()).to_ascii_lowercase();
    // A name that is shorter than the digest's mark is the digest alone.
    let Some(room) = max_length.checked_sub(9) else {
        return Cow::Owned(tail.get(..max_length.max(1)).unwrap_or(&tail).to_owned());
    };
    let head: String = full.chars().map(|c| if is_plain(c) { c } else { '_' }).take(room).collect();
    Cow::Owned(format!("{head}_{}", tail.get(..8).unwrap_or(&tail)))
}

/// The namespace of the tool that a choice names; a choice knows the name alone.
pub(crate) fn namespace_of<'a>(tools: &'a [UnifiedToolDefinition], name: &str) -> Option<&'a str> {
    let named = tools.iter().find(|tool| tool.name.as_deref() == Some(name))?;
    named.namespace.as_deref()
}

/// The name of a call in an answer: the one that the client gave the tool, whatever the alphabet of its wire.
///
/// On a wire without namespaces one is written in front, as [`wire`] does.
pub fn answered<'a>(namespace: Option<&str>, name: &'a str, max_length: usize) -> Cow<'a, str> {
    match namespace {
        None => Cow::Borrowed(name),
        Some(_) => wire(namespace, name, max_length),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_names_pass_and_others_stay_apart() {
        assert_eq!(wire(None, "read_file", 64), "read_file");
        assert_eq!(wire(Some("fs"), "read", 64), "fs__read");
        let long = "mcp__server__".repeat(8);
        let (a, b) = (format!("{long}a"), format!("{long}b"));
        assert_ne!(wire(None, &a, 64), wire(None, &b, 64));
        assert_ne!(wire(None, "files.read", 64), wire(None, "files_read", 64));
        assert_eq!(answered(None, "files.read", 64), "files.read");
        assert_eq!(answered(Some("fs"), "read", 64), "fs__read");
        for max in [1, 8, 9, 10, 64] {
            assert!(wire(None, &a, max).len() <= max, "{max}");
        }
    }
}
