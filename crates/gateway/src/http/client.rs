//! What a client tells about itself, reduced to what is safe to keep and to pass on.

use axum::http::HeaderMap;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId};
use throughline_protocols::Feature;

/// Begins of user agents and the word that is kept. Everything else is no word at all: a user agent may hold anything.
const FAMILIES: &[(&str, &str)] = &[
    ("claude-cli/", "claude-code"),
    ("codex_cli_rs/", "codex"),
    ("codex_exec/", "codex"),
    ("codex-tui/", "codex"),
    ("opencode/", "opencode"),
    ("GeminiCLI", "gemini-cli"),
    ("OpenAI/Python", "openai-python"),
    ("AsyncOpenAI/Python", "openai-python"),
    ("OpenAI/JS", "openai-node"),
    ("Anthropic/Python", "anthropic-python"),
    ("AsyncAnthropic/Python", "anthropic-python"),
    ("Anthropic/JS", "anthropic-node"),
    ("google-genai-sdk/", "google-genai"),
    ("ai-sdk/", "vercel-ai-sdk"),
    ("curl/", "curl"),
];

/// The family of a client by its user agent.
pub fn client_family(user_agent: &str) -> Option<&'static str> {
    FAMILIES
        .iter()
        .find(|(begin, _)| user_agent.starts_with(begin))
        .map(|(_, family)| *family)
}

/// Headers that are credentials or ours and so never reach a driver.
const KEPT_BACK: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "x-goog-api-key",
    "api-key",
    "cookie",
];

/// Client headers for the drivers, which forward those of their own lists.
pub(super) fn client_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let pass = |name: &str| !KEPT_BACK.contains(&name) && !name.starts_with("throughline-");
    headers
        .iter()
        .filter(|(name, _)| pass(name.as_str()))
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

/// The word for the client of a request.
pub(super) fn family_of(headers: &HeaderMap) -> Option<String> {
    headers.get("user-agent")?.to_str().ok().and_then(client_family).map(str::to_owned)
}

/// An ID in a header.
pub(super) fn id_header(headers: &HeaderMap, name: &'static str) -> Result<Option<UnifiedId>, UnifiedError> {
    let Some(value) = headers.get(name) else { return Ok(None) };
    let id = value.to_str().ok().and_then(|text| UnifiedId::parse(text.trim()).ok());
    id.map(Some).ok_or_else(|| {
        UnifiedError::new(
            ErrorCategory::InvalidRequest,
            "invalid-value",
            format!("the header {name} is no ID"),
        )
    })
}

/// The client's name for a request, in `Idempotency-Key`.
pub(super) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, UnifiedError> {
    let Some(value) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    value.to_str().map(|key| Some(key.trim().to_owned())).map_err(|_| {
        UnifiedError::new(
            ErrorCategory::InvalidRequest,
            "invalid-value",
            "the header idempotency-key has characters other than visible ASCII",
        )
    })
}

/// Features that `throughline-require` names.
pub(super) fn required_features(headers: &HeaderMap) -> Result<Vec<Feature>, UnifiedError> {
    let mut features = Vec::new();
    for value in &headers.get_all("throughline-require") {
        let words = value
            .to_str()
            .unwrap_or("?")
            .split(',')
            .map(str::trim)
            .filter(|word| !word.is_empty());
        for word in words {
            let feature = Feature::from_word(word).ok_or_else(|| {
                UnifiedError::new(
                    ErrorCategory::InvalidRequest,
                    "invalid-value",
                    "the header throughline-require names an unknown feature; docs/losses.md lists them",
                )
            })?;
            features.push(feature);
        }
    }
    Ok(features)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn families_come_from_the_list_only() {
        for (agent, family) in [
            ("claude-cli/2.1.332 (external, sdk-cli)", Some("claude-code")),
            ("AsyncOpenAI/Python 2.1.0", Some("openai-python")),
            ("opencode/1.18.33 ai-sdk/provider-utils/1 runtime/bun/1", Some("opencode")),
            ("Mozilla/5.0 secret@example.com", None),
            ("", None),
        ] {
            assert_eq!(client_family(agent), family, "{agent}");
        }
    }

    #[test]
    fn credentials_stay_here() {
        let mut headers = HeaderMap::new();
        for name in ["authorization", "x-api-key", "cookie", "throughline-branch", "anthropic-beta"] {
            headers.insert(name, HeaderValue::from_static("x"));
        }
        assert_eq!(client_headers(&headers), vec![("anthropic-beta".to_owned(), "x".to_owned())]);
    }

    #[test]
    fn required_words() {
        let mut headers = HeaderMap::new();
        headers.insert(
            "throughline-require",
            HeaderValue::from_static("output.schema, tool.hosted.web_search"),
        );
        assert_eq!(
            required_features(&headers).unwrap(),
            vec![Feature::OutputSchema, Feature::ToolHostedWebSearch]
        );
        headers.insert("throughline-require", HeaderValue::from_static("nonsense"));
        assert_eq!(required_features(&headers).unwrap_err().code, "invalid-request.invalid-value");
    }
}
