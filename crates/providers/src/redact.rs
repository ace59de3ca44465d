//! Redaction at the border: whatever a provider sends, this gateway's own credential does not come in with it.
//!
//! Some providers quote the key in errors, also inside a stream whose status is 200. Looking for it in one field of one error
//! misses the rest, so the bytes themselves are looked through before anybody decodes them.

use bytes::{Bytes, BytesMut};
use secrecy::{ExposeSecret as _, SecretSlice};

/// Replaces a secret in a byte stream by as many asterisks, wherever the transport cuts it and however JSON spells it.
pub(crate) struct Redactor {
    /// The secret as it is, and as strings of JSON may escape it.
    spellings: Vec<SecretSlice<u8>>,
    /// The end of the last piece, when it may be the beginning of the secret.
    held: BytesMut,
}

impl Redactor {
    /// A redactor at the begin of a stream.
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self {
            spellings: spellings(secret).into_iter().map(SecretSlice::from).collect(),
            held: BytesMut::new(),
        }
    }

    /// Takes the next piece and gives what is certain; at most the beginning of a secret is held back.
    pub(crate) fn push(&mut self, chunk: Bytes) -> Bytes {
        let is_clean = |spelling: &SecretSlice<u8>| {
            let secret = spelling.expose_secret();
            find(&chunk, secret).is_none() && partial(&chunk, secret) == 0
        };
        if self.held.is_empty() && self.spellings.iter().all(is_clean) {
            return chunk;
        }
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(&chunk);
        let mut held = 0;
        for spelling in &self.spellings {
            let secret = spelling.expose_secret();
            while let Some(at) = find(&bytes, secret) {
                if let Some(found) = bytes.get_mut(at..at + secret.len()) {
                    found.fill(b'*');
                }
            }
            held = held.max(partial(&bytes, secret));
        }
        let keep = bytes.len() - held;
        self.held = bytes.split_off(keep);
        bytes.freeze()
    }

    /// What was held back, at the end of the stream.
    pub(crate) fn finish(&mut self) -> Bytes {
        std::mem::take(&mut self.held).freeze()
    }

    /// One whole body.
    pub(crate) fn whole(secret: &[u8], body: Bytes) -> Bytes {
        let mut redactor = Self::new(secret);
        let mut clean = BytesMut::from(redactor.push(body));
        clean.extend_from_slice(&redactor.finish());
        clean.freeze()
    }
}

/// How a secret may stand in JSON: as it is, with its slashes escaped, and with everything but letters and digits as `\u00xx`.
fn spellings(secret: &[u8]) -> Vec<Vec<u8>> {
    let escaped = |escape: &dyn Fn(u8) -> Option<String>| -> Vec<u8> {
        let one = |byte: &u8| escape(*byte).map_or_else(|| vec![*byte], String::into_bytes);
        secret.iter().flat_map(one).collect()
    };
    let must = |byte: u8| matches!(byte, b'"' | b'\\').then(|| format!("\\{}", char::from(byte)));
    let mut all = vec![
        secret.to_vec(),
        escaped(&must),
        escaped(&|byte| must(byte).or_else(|| (byte == b'/').then(|| "\\/".to_owned()))),
        escaped(&|byte| (!byte.is_ascii_alphanumeric()).then(|| format!("\\u{byte:04x}"))),
        escaped(&|byte| (!byte.is_ascii_alphanumeric()).then(|| format!("\\u{byte:04X}"))),
        // The usual escapes of `+`, `=`, `<`, `>` and `&` for a page, without those of the rest.
        escaped(&|byte| must(byte).or_else(|| matches!(byte, b'+' | b'=' | b'<' | b'>' | b'&').then(|| format!("\\u{byte:04x}")))),
        escaped(&|byte| must(byte).or_else(|| matches!(byte, b'+' | b'=' | b'<' | b'>' | b'&').then(|| format!("\\u{byte:04X}")))),
    ];
    all.sort_unstable();
    all.dedup();
    all
}

/// Where the secret stands.
fn find(bytes: &[u8], secret: &[u8]) -> Option<usize> {
    let (first, _) = secret.split_first()?;
    let mut from = 0;
    while let Some(step) = bytes.get(from..)?.iter().position(|b| b == first) {
        let at = from + step;
        if bytes.get(at..)?.starts_with(secret) {
            return Some(at);
        }
        from = at + 1;
    }
    None
}

/// Length of the longest end of `bytes` that is a beginning of the secret, but not all of it.
fn partial(bytes: &[u8], secret: &[u8]) -> usize {
    let longest = secret.len().saturating_sub(1).min(bytes.len());
    (1..=longest)
        .rev()
        .find(|length| bytes.get(bytes.len() - length..).is_some_and(|end| secret.starts_with(end)))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_escape_of_json_hides_the_secret() {
        let secret = br#"sk/a+b="c"#;
        for text in [
            r#"sk/a+b="c"#,
            r#"sk/a+b=\"c"#,
            r#"sk\/a+b=\"c"#,
            r"sk\u002fa\u002bb\u003d\u0022c",
            r"sk\u002Fa\u002Bb\u003D\u0022c",
            r#"sk/a\u002bb\u003d\"c"#,
        ] {
            let body = format!("key {text} is wrong");
            for piece in 1..=body.len() {
                let mut redactor = Redactor::new(secret);
                let mut clean = Vec::new();
                for chunk in body.as_bytes().chunks(piece) {
                    clean.extend_from_slice(&redactor.push(Bytes::copy_from_slice(chunk)));
                }
                clean.extend_from_slice(&redactor.finish());
                let expected = format!("key {} is wrong", "*".repeat(text.len()));
                assert_eq!(String::from_utf8_lossy(&clean), expected, "in pieces of {piece}");
            }
        }
    }

    #[test]
    fn no_cut_hides_the_secret_and_everything_else_passes() {
        let secret = b"sk-sk-secret";
        for text in [
            "a sk-sk-secret b sk-sk-sk-secret c",
            "sk-sk-secretsk-sk-secret",
            "sk-sk-secre",
            "nothing of the kind, but sk- here",
            "",
        ] {
            let expected = text.replace("sk-sk-secret", "************");
            for piece in 1..=text.len().max(1) {
                let mut redactor = Redactor::new(secret);
                let mut clean = Vec::new();
                for chunk in text.as_bytes().chunks(piece) {
                    clean.extend_from_slice(&redactor.push(Bytes::copy_from_slice(chunk)));
                }
                clean.extend_from_slice(&redactor.finish());
                assert_eq!(String::from_utf8_lossy(&clean), expected, "{text:?} in pieces of {piece}");
            }
        }
    }
}
