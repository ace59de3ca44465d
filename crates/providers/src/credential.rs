//! [`Credential`]: a provider key that does not print and is wiped when dropped.

use reqwest::header::HeaderValue;
use secrecy::{ExposeSecret as _, SecretString};
use throughline_format::{ErrorCategory, UnifiedError};

/// Shortest credential that is looked for in error texts; shorter ones would hit ordinary words.
const MIN_REDACTED_CHARS: usize = 8;

/// A provider key.
#[derive(Clone)]
pub struct Credential(SecretString);

impl Credential {
    /// Takes a key as read from a variable or file; surrounding white space is not part of it.
    ///
    /// # Errors
    /// `auth.credential` when nothing is left, or a header cannot carry it. The text never shows the key.
    pub fn new(text: &str) -> Result<Self, UnifiedError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(UnifiedError::new(ErrorCategory::Auth, "credential", "the credential is empty"));
        }
        if HeaderValue::from_str(text).is_err() {
            return Err(UnifiedError::new(
                ErrorCategory::Auth,
                "credential",
                "the credential has characters that no header can carry",
            ));
        }
        Ok(Self(SecretString::from(text.to_owned())))
    }

    /// The bytes, for the fingerprint and for looking for them.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.expose_secret().as_bytes()
    }

    /// The bytes to look for in what a provider sends; a short credential would hit ordinary words.
    pub(crate) fn redactable(&self) -> Option<&[u8]> {
        Some(self.bytes()).filter(|bytes| bytes.len() >= MIN_REDACTED_CHARS)
    }

    /// The value of a header with this prefix; it is marked as sensitive, so that no layer logs it.
    pub(crate) fn header(&self, prefix: &str) -> Result<HeaderValue, UnifiedError> {
        let mut value = HeaderValue::from_str(&format!("{prefix}{}", self.0.expose_secret())).map_err(|_| {
            UnifiedError::new(
                ErrorCategory::Auth,
                "credential",
                "the credential has characters that no header can carry",
            )
        })?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// The text without this credential: some providers quote keys in their errors.
    pub(crate) fn redact(&self, text: &str) -> String {
        let secret = self.0.expose_secret();
        if secret.len() < MIN_REDACTED_CHARS {
            text.to_owned()
        } else {
            text.replace(secret, "[credential]")
        }
    }
}

impl std::fmt::Debug for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Credential(..)")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nothing_prints_the_key() {
        let credential = Credential::new(" sk-secret-123456\n").unwrap();
        let header = credential.header("Bearer ").unwrap();
        assert_eq!(header.to_str().unwrap(), "Bearer sk-secret-123456");
        assert!(!format!("{credential:?} {header:?}").contains("secret-"));
        assert_eq!(credential.redact("key sk-secret-123456 is wrong"), "key [credential] is wrong");
        for bad in ["", " \n", "a\nb"] {
            assert_eq!(Credential::new(bad).unwrap_err().code, "auth.credential");
        }
    }
}
