//! Reads request bodies within their bound.

use super::App;
use axum::body::Body;
use axum::http::{HeaderMap, header};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use throughline_format::{ErrorCategory, UnifiedError};
use tokio::time::{Instant, timeout_at};

/// How many times as long as for one piece a whole body may take.
const BODY_IDLES: u32 = 10;

/// Code of the error for a body that does not come.
pub(super) const SLOW: &str = "invalid-request.slow-body";

fn slow() -> UnifiedError {
    let mut error = UnifiedError::new(
        ErrorCategory::InvalidRequest,
        "slow-body",
        "the request body did not come in time; send it again",
    );
    error.retryable = true;
    error
}

impl App {
    /// The whole body. One in `gzip`, `deflate` or `zstd` was opened before ([`super::router`]), so that the limit is one of what was
    /// opened.
    ///
    /// # Errors
    /// `too-large.body`, `invalid-request.encoding` for another coding, `invalid-request.body` when it is cut or does not open,
    /// `invalid-request.slow-body` when it does not come in time.
    pub(super) async fn read_body(&self, headers: &HeaderMap, body: Body) -> Result<Bytes, UnifiedError> {
        let limit = self.limits.request_body;
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        if text(header::CONTENT_ENCODING).is_some_and(|coding| !coding.trim().is_empty() && !coding.eq_ignore_ascii_case("identity")) {
            return Err(UnifiedError::new(
                ErrorCategory::InvalidRequest,
                "encoding",
                "the request body has a content-encoding that is not known here; send it as it is, or in gzip, deflate or zstd",
            ));
        }
        let too_large = || {
            UnifiedError::new(
                ErrorCategory::TooLarge,
                "body",
                format!("the request body is over the limit of {limit} bytes"),
            )
        };
        if text(header::CONTENT_LENGTH)
            .and_then(|length| length.parse::<usize>().ok())
            .is_some_and(|length| length > limit)
        {
            return Err(too_large());
        }
        let (mut chunks, mut read) = (body.into_data_stream(), BytesMut::new());
        // Otherwise one byte a minute would hold the connection, and what was read, for as long as it likes.
        let end = Instant::now() + self.limits.request_idle * BODY_IDLES;
        loop {
            let by = end.min(Instant::now() + self.limits.request_idle);
            let Some(chunk) = timeout_at(by, chunks.next()).await.map_err(|_| slow())? else {
                break;
            };
            let chunk = chunk.map_err(|_| {
                UnifiedError::new(
                    ErrorCategory::InvalidRequest,
                    "body",
                    "the request body was cut, or is not in the content-encoding that it names",
                )
            })?;
            if read.len() + chunk.len() > limit {
                return Err(too_large());
            }
            read.extend_from_slice(&chunk);
        }
        Ok(read.freeze())
    }
}
