//! Which headers of a client go on to a provider: a short list per kind, what the configuration adds, and a list of
//! those that never go.

use crate::kind::ProviderKind;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

/// Headers that never go on, whatever the configuration says: credentials, cookies, identity of the client's account,
/// framing of the connection, and our own.
const NEVER: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "cookie",
    "set-cookie",
    "www-authenticate",
    "openai-organization",
    "openai-project",
    "anthropic-workspace-id",
    "x-goog-user-project",
    "chatgpt-account-id",
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "te",
    "trailer",
    "upgrade",
    "expect",
    "accept",
    "accept-encoding",
    "user-agent",
    "origin",
    "referer",
    "forwarded",
    "via",
    "x-real-ip",
    "anthropic-version",
];

/// Begins of names that never go on.
const NEVER_PREFIXES: &[&str] = &["throughline-", "x-forwarded-", "proxy-", "sec-", "cf-", "x-amz-"];

/// Beta names of the Messages API that go on without being configured. The list of the fact sheet, less those of other
/// resources and of account administration.
const ANTHROPIC_BETAS: &[&str] = &[
    "advisor-tool-2026-03-01",
    "cache-diagnosis-2026-04-07",
    "code-execution-2025-05-22",
    "compact-2026-01-12",
    "compact-2026-09-04",
    "computer-use-2024-10-22",
    "computer-use-2025-01-24",
    "computer-use-2025-11-24",
    "context-1m-2025-08-07",
    "context-management-2025-06-27",
    "dev-full-thinking-2025-05-14",
    "extended-cache-ttl-2025-04-11",
    "fallback-credit-2026-06-01",
    "fallback-credit-2026-07-01",
    "fast-mode-2026-02-01",
    "files-api-2025-04-14",
    "inline-tools-2026-09-15",
    "interleaved-thinking-2025-05-14",
    "mcp-client-2025-04-04",
    "mcp-client-2025-11-20",
    "mcp-client-2026-09-15",
    "mcp-tunnels-2026-06-22",
    "message-threads-2026-08-12",
    "mid-conversation-output-config-2026-07-01",
    "mid-conversation-system-clear-at-2026-08-21",
    "mid-conversation-tool-changes-2026-07-01",
    "model-context-window-exceeded-2025-08-26",
    "output-128k-2025-02-19",
    "output-300k-2026-03-24",
    "pdfs-2024-09-25",
    "prompt-caching-2024-07-31",
    "server-side-fallback-2026-06-01",
    "server-side-fallback-2026-07-01",
    "skills-2025-10-02",
    "structured-outputs-2025-11-13",
    "task-budgets-2026-03-13",
    "thinking-binding-controls-2026-08-01",
    "thinking-display-updates-2026-08-18",
    "thinking-token-count-2026-05-13",
    "token-counting-2024-11-01",
    "token-efficient-tools-2025-02-19",
    // Sent by coding agents, in no type list of the SDK.
    "advanced-tool-use-2025-11-20",
    "claude-code-20250219",
    "effort-2025-11-24",
    "fine-grained-tool-streaming-2025-05-14",
    "mid-conversation-system-2026-04-07",
    "prompt-caching-scope-2026-01-05",
];

const BETA: &str = "anthropic-beta";

/// Whether a header may be named in `forward_headers`.
pub fn may_be_forwarded(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    HeaderName::from_bytes(name.as_bytes()).is_ok()
        && !NEVER.contains(&name.as_str())
        && !NEVER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Decides which client headers go on.
#[derive(Clone, Debug)]
pub struct HeaderFilter {
    kind: ProviderKind,
    forwarded: Vec<HeaderName>,
}

impl HeaderFilter {
    /// A filter with the kind's own list and what the configuration adds. Names that must never go on are dropped.
    pub fn new(kind: ProviderKind, forward_headers: &[String]) -> Self {
        let forwarded = forward_headers
            .iter()
            .filter(|name| may_be_forwarded(name))
            .filter_map(|name| HeaderName::from_bytes(name.as_bytes()).ok())
            .collect();
        Self { kind, forwarded }
    }

    /// Adds the client headers that go on.
    pub fn apply(&self, client: &[(String, String)], out: &mut HeaderMap) {
        for (name, value) in client {
            let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else {
                continue;
            };
            if self.forwarded.contains(&name) {
                if let Ok(value) = HeaderValue::from_str(value) {
                    out.append(name, value);
                }
            } else if self.kind == ProviderKind::Anthropic && name.as_str() == BETA {
                let known: Vec<&str> = value
                    .split(',')
                    .map(str::trim)
                    .filter(|beta| ANTHROPIC_BETAS.contains(beta))
                    .collect();
                if let (false, Ok(value)) = (known.is_empty(), HeaderValue::from_str(&known.join(","))) {
                    out.append(name, value);
                }
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn check(kind: ProviderKind, forward: &[&str], expected: &[(&str, &str)]) {
        let client: Vec<(String, String)> = [
            ("Authorization", "Bearer mine"),
            ("x-api-key", "mine"),
            ("Cookie", "a=b"),
            ("throughline-conversation", "conv_1"),
            ("Anthropic-Beta", "interleaved-thinking-2025-05-14, oauth-2025-04-20"),
            ("X-Trace", "7"),
            ("User-Agent", "x/1"),
            ("X-Forwarded-For", "10.0.0.1"),
        ]
        .iter()
        .map(|(n, v)| ((*n).to_owned(), (*v).to_owned()))
        .collect();
        let forward: Vec<String> = forward.iter().map(|s| (*s).to_owned()).collect();
        let mut out = HeaderMap::new();
        HeaderFilter::new(kind, &forward).apply(&client, &mut out);
        let got: Vec<(&str, &str)> = out.iter().map(|(n, v)| (n.as_str(), v.to_str().unwrap())).collect();
        assert_eq!(got, expected);
    }

    #[test]
    fn only_what_is_allowed_goes_on() {
        check(
            ProviderKind::Anthropic,
            &[],
            &[("anthropic-beta", "interleaved-thinking-2025-05-14")],
        );
        check(
            ProviderKind::Anthropic,
            &["Anthropic-Beta"],
            &[("anthropic-beta", "interleaved-thinking-2025-05-14, oauth-2025-04-20")],
        );
        check(ProviderKind::OpenAiCompatible, &[], &[]);
        check(
            ProviderKind::OpenAiCompatible,
            &["x-trace", "authorization", "cookie", "x-forwarded-for", "throughline-conversation"],
            &[("x-trace", "7")],
        );
    }
}
