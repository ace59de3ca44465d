//! Names of functions on the wire: a letter or underscore first, then letters, digits, `_`, `.`, `:`, `-`.

use std::borrow::Cow;

/// Longest name, by the published proto.
pub(super) const MAX_NAME: usize = 64;

/// The name as the wire may carry it: itself when it is legal, else a replacement that ends in its digest.
pub(super) fn wire_name<'a>(namespace: Option<&str>, name: &'a str) -> Cow<'a, str> {
    if namespace.is_none() && is_legal(name, MAX_NAME) {
        return Cow::Borrowed(name);
    }
    let replaced = crate::tool_name::wire(namespace, name, MAX_NAME);
    if is_legal(&replaced, MAX_NAME) {
        return replaced;
    }
    // Only the first character can be wrong now; the blank forces a digest, so that no two names meet.
    let full = namespace.map_or_else(|| format!("_ {name}"), |space| format!("_ {space}__{name}"));
    Cow::Owned(crate::tool_name::wire(None, &full, MAX_NAME).into_owned())
}

fn is_legal(name: &str, max_length: usize) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.len() <= max_length && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.:-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal_and_stay_apart() {
        for (name, expected) in [
            ("read_file", Some("read_file")),
            ("fs.read:all-1", Some("fs.read:all-1")),
            ("1st", None),
            ("-x", None),
            ("mit leer", None),
            ("", None),
            (&"a".repeat(64), Some(&*"a".repeat(64))),
            (&"a".repeat(65), None),
            (&"a".repeat(128), None),
        ] {
            let wire = wire_name(None, name);
            assert!(is_legal(&wire, MAX_NAME), "{name}: {wire}");
            if let Some(expected) = expected {
                assert_eq!(wire, expected);
            } else {
                assert_ne!(wire, name);
            }
        }
        assert_ne!(wire_name(None, "1st"), wire_name(None, "2st"));
        assert_eq!(wire_name(Some("fs"), "read"), "fs__read");
    }
}
