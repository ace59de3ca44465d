//! What the HTTP client reports, in the format's words. Texts name the host and the kind of failure, never a header or body.

use reqwest::header::HeaderMap;
use std::error::Error as _;
use throughline_format::{ErrorCategory, Timestamp, UnifiedError};
use throughline_protocols::codec::ErrorHeaders;

/// Request IDs of providers, in the order of preference.
const REQUEST_ID_HEADERS: &[&str] = &["request-id", "x-request-id", "x-generation-id"];

/// The provider's trace ID.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    let id = REQUEST_ID_HEADERS.iter().find_map(|name| text(headers, name))?;
    Some(throughline_format::error::sanitise(id).chars().take(128).collect())
}

/// What the headers of an error answer say.
pub(crate) fn error_headers(headers: &HeaderMap) -> ErrorHeaders {
    ErrorHeaders {
        request_id: request_id(headers),
        retry_after_ms: retry_after_ms(headers),
        should_retry: text(headers, "x-should-retry").and_then(|word| word.parse().ok()),
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name)?.to_str().ok().map(str::trim).filter(|value| !value.is_empty())
}

/// `retry-after-ms`, else `retry-after` in seconds or as a date. A date counts from the answer's own `date`, so no clock is read.
fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    if let Some(ms) = text(headers, "retry-after-ms").and_then(|value| value.parse::<f64>().ok()) {
        return whole_ms(ms);
    }
    let value = text(headers, "retry-after")?;
    if let Ok(seconds) = value.parse::<f64>() {
        return whole_ms(seconds * 1_000.0);
    }
    let until = http_date(value)?;
    let now = http_date(text(headers, "date")?)?;
    u64::try_from(until.millis().saturating_sub(now.millis()).max(0)).ok()
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Bounded just before.
fn whole_ms(ms: f64) -> Option<u64> {
    const A_DAY_MS: f64 = 86_400_000.0;
    ms.is_finite().then(|| ms.clamp(0.0, A_DAY_MS).ceil() as u64)
}

fn http_date(value: &str) -> Option<Timestamp> {
    let time = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(value).ok()?;
    Some(Timestamp::from_millis(time.as_millisecond()))
}

/// An error while sending or waiting for the head of the answer.
pub(crate) fn send_error(host: &str, error: &reqwest::Error) -> UnifiedError {
    if error.is_timeout() {
        // The client's only own time-out is the one for connecting.
        return UnifiedError::new(
            ErrorCategory::Timeout,
            "connect",
            format!("{host} did not accept the connection in time"),
        );
    }
    if error.is_connect() {
        return UnifiedError::new(
            ErrorCategory::Network,
            "connect",
            format!("could not connect to {host}: {}", cause(error)),
        );
    }
    if error.is_builder() {
        let mut error = UnifiedError::new(ErrorCategory::Internal, "request", "the request to the provider could not be built");
        error.retryable = false;
        return error;
    }
    UnifiedError::new(
        ErrorCategory::Network,
        "connection-lost",
        format!("the connection to {host} broke before an answer: {}", cause(error)),
    )
}

/// An error while the body arrives.
pub(crate) fn body_error(host: &str, error: &reqwest::Error) -> UnifiedError {
    UnifiedError::new(
        ErrorCategory::Network,
        "connection-lost",
        format!("the connection to {host} broke in the middle of the answer: {}", cause(error)),
    )
}

/// The kind of the innermost system error; other texts may quote addresses or headers and are not shown.
fn cause(error: &reqwest::Error) -> String {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>()
            && io.raw_os_error().is_some()
        {
            return io.kind().to_string();
        }
        source = inner.source();
    }
    "the other side closed it or refused the handshake".to_owned()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use reqwest::header::{HeaderName, HeaderValue};

    fn headers(list: &[(&str, &str)]) -> HeaderMap {
        list.iter()
            .map(|(n, v)| (HeaderName::from_bytes(n.as_bytes()).unwrap(), HeaderValue::from_str(v).unwrap()))
            .collect()
    }

    #[test]
    fn retry_advice() {
        for (list, expected) in [
            (vec![("retry-after-ms", "1500.2"), ("retry-after", "9")], Some(1_501)),
            (vec![("retry-after", "2")], Some(2_000)),
            (vec![("retry-after", "0.25")], Some(250)),
            (
                vec![
                    ("retry-after", "Mon, 30 Nov 2026 12:00:05 GMT"),
                    ("date", "Mon, 30 Nov 2026 12:00:00 GMT"),
                ],
                Some(5_000),
            ),
            (vec![("retry-after", "Mon, 30 Nov 2026 12:00:05 GMT")], None),
            (vec![("retry-after", "-3")], Some(0)),
            (vec![("retry-after", "soon")], None),
            (vec![], None),
        ] {
            assert_eq!(retry_after_ms(&headers(&list)), expected, "{list:?}");
        }
        let read = error_headers(&headers(&[("x-request-id", "r1"), ("x-should-retry", "false")]));
        assert_eq!((read.request_id.as_deref(), read.should_retry), (Some("r1"), Some(false)));
    }
}
