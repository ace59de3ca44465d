//! [`HostPolicy`]: on a gateway without keys, who may be behind a request. A web page must not reach it through the
//! user's browser, neither directly (Origin) nor by a name that points to this machine (Host).

use axum::http::HeaderMap;
use throughline_format::{ErrorCategory, UnifiedError};

/// Which hosts and origins are taken.
#[derive(Clone, Debug)]
pub struct HostPolicy {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl HostPolicy {
    /// A policy with these hosts (names without port) and origins besides the gateway's own.
    pub fn new(hosts: &[String], origins: &[String]) -> Self {
        Self {
            hosts: hosts.iter().map(|h| h.to_ascii_lowercase()).collect(),
            origins: origins.iter().map(|o| o.to_ascii_lowercase()).collect(),
        }
    }

    /// Checks the headers of a request.
    ///
    /// # Errors
    /// `invalid-request.host`, `permission.origin`.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), UnifiedError> {
        let mut hosts = headers.get_all("host").iter();
        let host = hosts
            .next()
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_ascii_lowercase();
        if hosts.next().is_some() || !self.hosts.iter().any(|allowed| allowed == name_of(&host)) {
            return Err(UnifiedError::new(
                ErrorCategory::InvalidRequest,
                "host",
                "this gateway answers only under the names in server.allowed_hosts",
            ));
        }
        for origin in &headers.get_all("origin") {
            let origin = origin.to_str().unwrap_or_default().to_ascii_lowercase();
            let own = origin
                .strip_prefix("http://")
                .or_else(|| origin.strip_prefix("https://"))
                .is_some_and(|rest| rest == host);
            if !own && !self.origins.contains(&origin) {
                return Err(UnifiedError::new(
                    ErrorCategory::Permission,
                    "origin",
                    "web pages may use this gateway only from the origins in server.allowed_origins",
                ));
            }
        }
        Ok(())
    }
}

/// A host without its port; an IPv6 address without its brackets.
fn name_of(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or_default();
    }
    host.split(':').next().unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    fn check(host: &str, origin: Option<&str>) -> Option<String> {
        let policy = HostPolicy::new(
            &["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()],
            &["https://app.example.com".to_owned()],
        );
        let mut headers = HeaderMap::new();
        if !host.is_empty() {
            headers.insert("host", HeaderValue::from_str(host).unwrap());
        }
        if let Some(origin) = origin {
            headers.insert("origin", HeaderValue::from_str(origin).unwrap());
        }
        policy.check(&headers).err().map(|error| error.code)
    }

    #[test]
    fn table() {
        for (host, origin, refused) in [
            ("127.0.0.1:8484", None, None),
            ("LOCALHOST", None, None),
            ("[::1]:8484", None, None),
            ("127.0.0.1:8484", Some("http://127.0.0.1:8484"), None),
            ("127.0.0.1:8484", Some("https://app.example.com"), None),
            ("127.0.0.1:8484", Some("http://localhost:3000"), Some("permission.origin")),
            ("127.0.0.1:8484", Some("null"), Some("permission.origin")),
            ("evil.example.com", None, Some("invalid-request.host")),
            (
                "evil.example.com:8484",
                Some("http://evil.example.com:8484"),
                Some("invalid-request.host"),
            ),
            ("localhost.evil.example.com", None, Some("invalid-request.host")),
            ("", None, Some("invalid-request.host")),
        ] {
            assert_eq!(check(host, origin).as_deref(), refused, "{host} {origin:?}");
        }
    }
}
