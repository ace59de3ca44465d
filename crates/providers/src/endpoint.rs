//! [`Endpoint`]: the base address of a provider and its fingerprint.

use reqwest::Url;
use throughline_format::{ErrorCategory, Sha256, UnifiedError};

/// Scheme, host, port and base path of a provider. It never holds a credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint(Url);

impl Endpoint {
    /// Reads a base address.
    ///
    /// # Errors
    /// `invalid-request.invalid-value` when it is no http or https address, or has user, query or fragment.
    pub fn parse(text: &str) -> Result<Self, UnifiedError> {
        let invalid = |why: &str| UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", why.to_owned());
        let mut url = Url::parse(text).map_err(|_| invalid("expected an address such as https://host/path"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
            return Err(invalid("expected an address that begins with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(invalid(
                "an address must not hold a user or password; name a variable with api_key_env",
            ));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(invalid("an address must have neither query nor fragment"));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self(url))
    }

    /// The same address without this last segment, when it ends with it. Users write bases with and without `/v1`.
    #[must_use]
    pub fn without_suffix(mut self, suffix: &str) -> Self {
        if let Some(path) = self.0.path().strip_suffix(suffix).map(str::to_owned) {
            self.0.set_path(&path);
        }
        self
    }

    /// The address of a path below the base.
    pub fn join(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(&format!("{}{path}", self.0.path().trim_end_matches('/')));
        url
    }

    /// The address of a path below the base whose IDs are escaped already.
    ///
    /// # Errors
    /// `internal.request` when it is no path.
    pub fn join_encoded(&self, path: &str) -> Result<Url, UnifiedError> {
        let base = self.0.path().trim_end_matches('/');
        self.0
            .join(&format!("{base}{path}"))
            .map_err(|_| UnifiedError::new(ErrorCategory::Internal, "request", "the address of a request could not be built"))
    }

    /// Host, and port when it is written, for messages.
    pub fn host(&self) -> String {
        let host = self.0.host_str().unwrap_or_default();
        self.0.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// 32 hex digits of SHA-256 over scheme, host, port and base path (open-types.md, section 6).
    pub fn fingerprint(&self) -> String {
        let port = self.0.port_or_known_default().unwrap_or_default().to_string();
        let path = self.0.path().trim_end_matches('/');
        let text = [self.0.scheme(), self.0.host_str().unwrap_or_default(), &port, path].join("\n");
        Sha256::of(text.as_bytes()).to_hex().chars().take(32).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn one_place_one_fingerprint() {
        let same = [
            "https://api.example.com/v1",
            "https://api.example.com:443/v1/",
            "HTTPS://API.example.com/v1//",
        ];
        let first = Endpoint::parse(same[0]).unwrap().fingerprint();
        assert_eq!(first.len(), 32);
        for text in same {
            assert_eq!(Endpoint::parse(text).unwrap().fingerprint(), first, "{text}");
        }
        for text in [
            "http://api.example.com/v1",
            "https://api.example.com",
            "https://api.example.com:8443/v1",
            "https://example.com/v1",
        ] {
            assert_ne!(Endpoint::parse(text).unwrap().fingerprint(), first, "{text}");
        }
    }

    #[test]
    fn paths_join() {
        for (base, joined) in [
            ("http://127.0.0.1:9", "http://127.0.0.1:9/v1/messages"),
            ("http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1/messages"),
            ("http://127.0.0.1:9/anthropic", "http://127.0.0.1:9/anthropic/v1/messages"),
        ] {
            assert_eq!(
                Endpoint::parse(base).unwrap().without_suffix("/v1").join("/v1/messages").as_str(),
                joined
            );
        }
    }

    #[test]
    fn addresses_with_secrets_are_refused() {
        for text in ["ftp://x", "x", "https://user:pw@x", "https://x/?key=1", "https://x/#a"] {
            assert_eq!(Endpoint::parse(text).unwrap_err().code, "invalid-request.invalid-value", "{text}");
        }
    }
}
