//! Redaction at the border: whatever a provider sends, this gateway's own credential does not come in with it.
//!
//! Some providers quote the key in errors, also inside a stream whose status is 200. Looking for it in one field of one error
//! misses the rest, so the bytes themselves are looked through before anybody decodes them.

use bytes::{Bytes, BytesMut};
use secrecy::{ExposeSecret as _, SecretSlice};

/// Replaces a secret in a byte stream by as many asterisks, wherever the transport cuts it.
pub(crate) struct Redactor {
    secret: SecretSlice<u8>,
    /// The end of the last piece, when it may be the beginning of the secret.
    held: BytesMut,
}

impl Redactor {
    /// A redactor at the begin of a stream.
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self {
            secret: SecretSlice::from(secret.to_vec()),
            held: BytesMut::new(),
        }
    }

    /// Takes the next piece and gives what is certain; at most the beginning of a secret is held back.
    pub(crate) fn push(&mut self, chunk: Bytes) -> Bytes {
        let secret = self.secret.expose_secret();
        if self.held.is_empty() && find(&chunk, secret).is_none() && partial(&chunk, secret) == 0 {
            return chunk;
        }
        let mut bytes = std::mem::take(&mut self.held);
        bytes.extend_from_slice(&chunk);
        while let Some(at) = find(&bytes, secret) {
            if let Some(found) = bytes.get_mut(at..at + secret.len()) {
                found.fill(b'*');
            }
        }
        let keep = bytes.len() - partial(&bytes, secret);
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
