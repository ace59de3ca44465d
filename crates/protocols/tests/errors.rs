//! Errors of providers, through every protocol: what they are, where they come from, and that nothing in them is a credential.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::samples::codecs;
use support::{corpus, files, fold_stream, result_of};
use throughline_format::json::decode_slice;
use throughline_format::{ErrorCategory, ProtocolFamily, UnifiedError, secrets};
use throughline_protocols::codec::ErrorHeaders;
use throughline_protocols::{Codec, codec_of};

const CATEGORIES: &[ErrorCategory] = &[
    ErrorCategory::InvalidRequest,
    ErrorCategory::MaxContext,
    ErrorCategory::TooLarge,
    ErrorCategory::Auth,
    ErrorCategory::Permission,
    ErrorCategory::NotFound,
    ErrorCategory::Conflict,
    ErrorCategory::RateLimit,
    ErrorCategory::Quota,
    ErrorCategory::Overloaded,
    ErrorCategory::Server,
    ErrorCategory::Timeout,
    ErrorCategory::Network,
    ErrorCategory::ContentFilter,
    ErrorCategory::Checkpoint,
    ErrorCategory::Unsupported,
    ErrorCategory::Interrupted,
    ErrorCategory::Cancelled,
    ErrorCategory::Limit,
    ErrorCategory::Storage,
    ErrorCategory::Internal,
];

fn decode(codec: &dyn Codec, status: u16, body: &Value) -> UnifiedError {
    codec.decode_error(status, &ErrorHeaders::default(), body.to_string().as_bytes())
}

/// An error body of a wire with a code and a message.
fn body(family: &str, code: &str, message: &str) -> Value {
    match family {
        "anthropic-messages" => json!({"type": "error", "error": {"type": code, "message": message}, "request_id": "req_1"}),
        "openai-chat" | "openai-responses" => json!({"error": {"message": message, "type": "x", "code": code, "param": null}}),
        "cursor-sdk" => json!({"error": {"code": code, "message": message}}),
        "vercel-uimessage" => json!({"type": "error", "errorText": message}),
        _ => json!({"error": {"code": 400, "status": code, "message": message}}),
    }
}

/// Status and code of a wire, the category that they are, and whether to ask again.
fn rows(family: &str) -> Vec<(u16, &'static str, &'static str, bool)> {
    match family {
        "anthropic-messages" => vec![
            (400, "invalid_request_error", "invalid-request", false),
            (401, "authentication_error", "auth", false),
            (402, "billing_error", "quota", false),
            (403, "permission_error", "permission", false),
            (404, "not_found_error", "not-found", false),
            (409, "conflict_error", "conflict", true),
            (413, "request_too_large", "too-large", false),
            (429, "rate_limit_error", "rate-limit", true),
            (500, "api_error", "server", true),
            (504, "timeout_error", "timeout", true),
            (529, "overloaded_error", "overloaded", true),
            (418, "later_error", "invalid-request", false),
        ],
        "openai-chat" | "openai-responses" => vec![
            (400, "later_code", "invalid-request", false),
            (400, "context_length_exceeded", "max-context", false),
            (400, "content_filter", "content-filter", false),
            (400, "previous_response_not_found", "checkpoint", false),
            (401, "invalid_api_key", "auth", false),
            (403, "later_code", "permission", false),
            (404, "model_not_found", "not-found", false),
            (408, "later_code", "timeout", true),
            (409, "later_code", "conflict", false),
            (413, "later_code", "too-large", false),
            (429, "rate_limit_exceeded", "rate-limit", true),
            (429, "insufficient_quota", "quota", false),
            (500, "later_code", "server", true),
            (503, "later_code", "overloaded", true),
        ],
        "gemini-generate-content" | "vertex-gemini" | "antigravity" | "gemini-interactions" => vec![
            (400, "INVALID_ARGUMENT", "invalid-request", false),
            (401, "UNAUTHENTICATED", "auth", false),
            (403, "PERMISSION_DENIED", "permission", false),
            (404, "NOT_FOUND", "not-found", false),
            (409, "ABORTED", "conflict", true),
            (429, "RESOURCE_EXHAUSTED", "rate-limit", true),
            (499, "CANCELLED", "cancelled", true),
            (500, "INTERNAL", "server", true),
            (501, "UNIMPLEMENTED", "unsupported", false),
            (503, "UNAVAILABLE", "overloaded", true),
            (504, "DEADLINE_EXCEEDED", "timeout", true),
        ],
        "cursor-sdk" => vec![
            (400, "validation_error", "invalid-request", false),
            (401, "unauthorized", "auth", false),
            (403, "role_forbidden", "permission", false),
            (404, "agent_not_found", "not-found", false),
            (409, "agent_busy", "conflict", true),
            (410, "stream_expired", "checkpoint", false),
            (429, "rate_limit_exceeded", "rate-limit", true),
            (429, "usage_limit_exceeded", "quota", false),
            (499, "client_cancelled", "cancelled", false),
            (500, "internal_error", "server", true),
        ],
        "vercel-uimessage" => vec![
            (400, "", "invalid-request", false),
            (401, "", "auth", false),
            (403, "", "permission", false),
            (404, "", "not-found", false),
            (409, "", "conflict", false),
            (413, "", "too-large", false),
            (429, "", "rate-limit", true),
            (500, "", "server", true),
            (503, "", "overloaded", true),
            (504, "", "timeout", true),
        ],
        other => panic!("no errors of {other}"),
    }
}

#[test]
fn every_error_of_every_wire_has_its_category_and_says_whether_to_ask_again() {
    throughline_format::clause!("ERR-01");
    let mut seen = BTreeSet::new();
    for (family, codec) in codecs() {
        for (status, code, category, retryable) in rows(family.as_str()) {
            let error = decode(codec.as_ref(), status, &body(family.as_str(), code, "It went wrong."));
            let case = format!("{family}: {status} {code}: {error:?}");
            assert_eq!((error.category.as_str(), error.retryable), (category, retryable), "{case}");
            assert!(error.code.starts_with(&format!("{category}.")), "{case}");
            assert_eq!(error.message, "It went wrong.", "{case}");
            assert_eq!(error.http_status, Some(u64::from(status)), "{case}");
            // The words of the provider stay beside ours.
            let words = [error.provider_code.as_deref(), error.grpc_status.as_deref()];
            assert!(code.is_empty() || words.contains(&Some(code)), "{case}");
            seen.insert(error.category.as_str());
        }
        // What the headers tell stands over the body's silence.
        let headers = ErrorHeaders {
            request_id: Some("req_9".to_owned()),
            retry_after_ms: Some(1_500),
            should_retry: Some(true),
        };
        let error = codec.decode_error(400, &headers, body(family.as_str(), "x", "m").to_string().as_bytes());
        let told = (error.provider_request_id.as_deref(), error.retry_after_ms, error.retryable);
        assert_eq!(told, (Some("req_9"), Some(1_500), true), "{family}");
        // A body that is none of the wire is an error by its status, and not quoted.
        let error = codec.decode_error(503, &ErrorHeaders::default(), b"<html>down</html>");
        assert_eq!(error.http_status, Some(503), "{family}");
        assert!(!error.message.contains("html") && error.retryable, "{family}: {error:?}");
    }
    // What only this side knows is no category of a wire.
    let ours = ["network", "interrupted", "limit", "storage", "internal"];
    let never: Vec<_> = CATEGORIES
        .iter()
        .filter(|category| !seen.contains(category.as_str()) && !ours.contains(&category.as_str()))
        .collect();
    assert!(never.is_empty(), "no wire is tried with {never:?}");
}

#[test]
fn places_delays_and_ids_of_bodies_are_read() {
    throughline_format::clause!("ERR-01");
    let google = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "Slow down.", "details": [
        {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"},
        {"@type": "type.googleapis.com/google.rpc.RequestInfo", "requestId": "trace_1"},
        {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{"field": "contents[0].parts"}]}]}});
    let anthropic = body("anthropic-messages", "invalid_request_error", "m");
    let openai = json!({"error": {"message": "m", "code": "c", "param": "/input/0"}});
    for (family, body, member, value) in [
        ("gemini-generate-content", &google, "retryAfterMs", json!(3_500)),
        ("gemini-generate-content", &google, "grpcStatus", json!("RESOURCE_EXHAUSTED")),
        ("gemini-generate-content", &google, "providerRequestId", json!("trace_1")),
        ("gemini-generate-content", &google, "fieldPath", json!("/contents/0/parts")),
        ("anthropic-messages", &anthropic, "providerRequestId", json!("req_1")),
        ("openai-responses", &openai, "fieldPath", json!("/input/0")),
    ] {
        let codec = codec_of(&ProtocolFamily::from_word(family)).unwrap();
        let error = serde_json::to_value(decode(codec.as_ref(), 429, body)).unwrap();
        assert_eq!(error[member], value, "{family}: {error}");
    }
    // The members that this side fills are of the record and come back from it.
    let whole = json!({"category": "server", "code": "server.provider", "message": "m", "httpStatus": 500, "grpcStatus": "INTERNAL",
        "providerCode": "c", "retryable": true, "retryAfterMs": 5, "fieldPath": "/a", "operationId": "op", "itemId": "op.i1",
        "providerRequestId": "req_1", "diagnosticRef": "diag_1"});
    let error: UnifiedError = decode_slice(whole.to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::to_value(&error).unwrap(), whole);
}

#[test]
fn every_category_is_told_to_every_client_with_a_status_of_failure() {
    throughline_format::clause!("ERR-01");
    for (family, codec) in codecs() {
        for category in CATEGORIES {
            let error = UnifiedError::new(*category, "detail", "It went wrong.");
            let wire = codec.encode_error(&error);
            let case = format!("{family}: {category}: {wire:?}");
            assert!((400..600).contains(&wire.status) && wire.body.contains("It went wrong."), "{case}");
            // Read again it is a failure of the same side: the client's own, or one that asking again may mend.
            let again = codec.decode_error(wire.status, &ErrorHeaders::default(), wire.body.as_bytes());
            assert_eq!(again.message, "It went wrong.", "{case}");
            let is_clients = |error: &UnifiedError| matches!(error.http_status, Some(400..=499) | None) && !error.category.is_retryable();
            if matches!(
                category,
                ErrorCategory::InvalidRequest | ErrorCategory::Auth | ErrorCategory::Permission | ErrorCategory::NotFound
            ) {
                assert_eq!((again.category, is_clients(&again)), (*category, true), "{case}");
            }
            if matches!(
                category,
                ErrorCategory::RateLimit | ErrorCategory::Overloaded | ErrorCategory::Timeout | ErrorCategory::Server
            ) {
                // Cursor has one word for all that fails on the other side.
                let is_told = again.category == *category || family.as_str() == "cursor-sdk" && again.category == ErrorCategory::Server;
                assert!(is_told && again.retryable, "{case}");
            }
        }
    }
}

/// Texts that hold a credential, each with the credential itself.
fn leaks() -> Vec<(String, String)> {
    let random = "k9Qz7Lw2Xv5Rt8Yb3Nm6Hc1Jd4Gf0PsAeUi";
    let token = format!("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.{random}{random}");
    vec![
        (
            format!("Incorrect API key provided: sk-proj-{random}. See the page."),
            format!("sk-proj-{random}"),
        ),
        (format!("key AIzaSy{random} is not valid"), format!("AIzaSy{random}")),
        (format!("the header Authorization: Bearer {random} was refused"), random.to_owned()),
        (format!("x-api-key: {random}"), random.to_owned()),
        (format!("Cookie: session={random}; theme=dark"), random.to_owned()),
        (format!("token {token} has expired"), token),
        (
            format!("cannot reach https://user:{random}@host.example/path now"),
            random.to_owned(),
        ),
    ]
}

#[test]
fn no_error_holds_a_credential_or_text_beyond_its_bounds() {
    throughline_format::clause!("ERR-01");
    for (text, credential) in leaks() {
        assert!(secrets::find(&text).is_some(), "the sample is none: {text}");
        let clean = secrets::redact(&text);
        assert!(!clean.contains(&credential) && secrets::find(&clean).is_none(), "{clean}");
        for (family, codec) in codecs() {
            let headers = ErrorHeaders {
                request_id: Some(text.clone()),
                ..ErrorHeaders::default()
            };
            for hostile in [
                body(family.as_str(), "x", &text),
                body(family.as_str(), &text, "m"),
                json!({"error": text}),
                json!({"message": text}),
            ] {
                let error = codec.decode_error(400, &headers, hostile.to_string().as_bytes());
                let record = serde_json::to_string(&error).unwrap();
                assert!(!record.contains(&credential), "{family}: {hostile}: {record}");
                let shown = codec.encode_error(&error).body;
                assert!(!shown.contains(&credential), "{family}: {hostile}: {shown}");
            }
        }
    }
    let long = format!("a\u{7}b\n{}", "long ".repeat(5_000));
    for (family, codec) in codecs() {
        let error = decode(codec.as_ref(), 400, &body(family.as_str(), &long, &long));
        assert!(
            error.message.chars().count() <= 1_024 && !error.message.contains(char::is_control),
            "{family}"
        );
        let words = [&error.provider_code, &error.grpc_status, &error.provider_request_id];
        assert!(
            words.into_iter().flatten().all(|word| word.chars().count() <= 128),
            "{family}: {error:?}"
        );
    }
}

/// An error in the middle of a stream, as each wire says it.
fn broken_stream(family: &str, message: &str) -> String {
    let event = |name: &str, data: Value| format!("event: {name}\ndata: {data}\n\n");
    match family {
        "anthropic-messages" => event(
            "error",
            json!({"type": "error", "error": {"type": "overloaded_error", "message": message}}),
        ),
        "openai-chat" => format!("data: {}\n\n", json!({"error": {"message": message, "code": 503}})),
        "openai-responses" => event(
            "error",
            json!({"type": "error", "code": "server_error", "message": message, "param": null}),
        ),
        "gemini-interactions" => event("error", json!({"event_type": "error", "error": {"code": 503, "message": message}})),
        "cursor-sdk" => event("error", json!({"code": "upstream_error", "message": message})),
        "vercel-uimessage" => format!("data: {}\n\ndata: [DONE]\n\n", json!({"type": "error", "errorText": message})),
        _ => format!(
            "data: {}\n\n",
            json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": message}})
        ),
    }
}

#[test]
fn an_error_in_a_stream_fails_the_operation_without_its_credentials() {
    throughline_format::clause!("ERR-01");
    for (family, codec) in codecs() {
        for (text, credential) in leaks() {
            let fold = fold_stream(codec.as_ref(), broken_stream(family.as_str(), &text).as_bytes(), 32);
            let result = result_of(&fold);
            let error = result.error.as_ref().unwrap_or_else(|| panic!("{family} has no error"));
            assert!(error.code.starts_with(error.category.as_str()), "{family}: {error:?}");
            let events = serde_json::to_string(&fold.events).unwrap();
            assert!(!events.contains(&credential), "{family}: {events}");
        }
    }
}

#[test]
fn captured_errors_are_read_whole() {
    throughline_format::clause!("ERR-01");
    let mut seen = 0;
    for (family, codec) in codecs() {
        let Some(folder) = corpus(&format!("wire/{family}/responses")) else {
            return;
        };
        for file in files(&folder, ".json") {
            let bytes = std::fs::read(&file).unwrap();
            let Ok(body) = serde_json::from_slice::<Value>(&bytes) else {
                continue;
            };
            let Some(told) = body.get("error").filter(|error| !error.is_null()) else {
                continue;
            };
            let meta = std::fs::read(file.with_extension("meta.json")).unwrap_or_default();
            let meta: Value = serde_json::from_slice(&meta).unwrap_or_default();
            let Some(status) = meta["status"].as_u64().and_then(|s| u16::try_from(s).ok()).filter(|s| *s >= 400) else {
                continue;
            };
            let error = codec.decode_error(status, &ErrorHeaders::default(), &bytes);
            let case = format!("{}: {error:?}", file.display());
            assert_eq!(error.http_status, Some(u64::from(status)), "{case}");
            if let Some(message) = told["message"].as_str() {
                let begin: String = message.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect();
                assert!(error.message.starts_with(&begin), "{case}");
            }
            let expected = match status {
                401 => Some(ErrorCategory::Auth),
                403 => Some(ErrorCategory::Permission),
                404 => Some(ErrorCategory::NotFound),
                _ => None,
            };
            assert!(expected.is_none_or(|category| error.category == category), "{case}");
            assert!(status != 400 || !error.retryable, "{case}");
            seen += 1;
        }
    }
    assert!(seen > 25, "only {seen} errors");
}
