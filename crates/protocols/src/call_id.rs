//! Call IDs on a wire: foreign IDs that a target refuses get a deterministic replacement.
//!
//! Nothing is ever cut: two long IDs with one prefix would collide. The replacement is a function of the ID alone, so the
//! way back needs no table: whoever knows the calls of a branch maps each of them and compares.

use std::borrow::Cow;
use throughline_format::Sha256;

/// Whether `call_id` consists of `[A-Za-z0-9_-]` and is at most `max_length` long.
pub fn is_legal(call_id: &str, max_length: usize) -> bool {
    (1..=max_length).contains(&call_id.len()) && call_id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// The ID itself when it is legal, else `call_` and 32 letters and digits of its digest; of the digest alone what fits, where
/// that is too long.
pub fn wire(call_id: &str, max_length: usize) -> Cow<'_, str> {
    if is_legal(call_id, max_length) {
        return Cow::Borrowed(call_id);
    }
    let text = digest(call_id);
    Cow::Owned(if max_length < 37 {
        text.get(..max_length.max(1)).unwrap_or(&text).to_owned()
    } else {
        format!("call_{}", text.get(..32).unwrap_or(&text))
    })
}

/// The ID itself when it has exactly `length` letters and digits, else as many of its digest.
pub fn wire_exact(call_id: &str, length: usize) -> Cow<'_, str> {
    if call_id.len() == length && call_id.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return Cow::Borrowed(call_id);
    }
    let text = digest(call_id);
    Cow::Owned(text.get(..length).unwrap_or(&text).to_owned())
}

/// 52 letters and digits.
fn digest(call_id: &str) -> String {
    let digest = Sha256::of_all([b"throughline-call-id@1\n".as_slice(), call_id.as_bytes()]);
    data_encoding::BASE32_NOPAD.encode(digest.as_bytes()).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn legal_ids_pass_and_others_never_collide_by_prefix() {
        assert_eq!(wire("toolu_1", 64), "toolu_1");
        let long = "x".repeat(80);
        let longer = format!("{long}y");
        assert_ne!(wire(&long, 64), wire(&longer, 64));
        assert_eq!(wire("functions.run:0", 64), wire("functions.run:0", 40));
        assert!(is_legal(&wire("functions.run:0", 64), 40));
        for max in [1, 9, 36, 37, 38] {
            assert!(is_legal(&wire("functions.run:0", max), max), "{max}");
        }
        assert_eq!(wire_exact("a1B2c3D4e", 9), "a1B2c3D4e");
        assert_eq!(wire_exact("a_b", 9).len(), 9);
        assert_ne!(wire_exact("a_b", 9), wire_exact("a-b", 9));
    }
}
