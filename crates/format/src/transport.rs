//! Serialisable transport metadata (spec, Serializable transport metadata). Runtime context has no type here, since it must not be serialisable.
//!
//! What is not serialisable cannot enter a record. A record has a fixed set of members, and no member is of a type that a
//! caller chooses; the one generic record, an intent, serialises only what serialises:
//!
//! ```
//! fn written<T: serde::Serialize>(record: &T) -> String {
//!     serde_json::to_string(record).unwrap_or_default()
//! }
//! let wish = throughline_format::UnifiedIntent::preferred(1_u64);
//! assert_eq!(written(&wish), r#"{"value":1,"requirement":"preferred"}"#);
//! ```
//!
//! The same with a context instead of a value does not compile:
//!
//! ```compile_fail,E0277
//! fn written<T: serde::Serialize>(record: &T) -> String {
//!     serde_json::to_string(record).unwrap_or_default()
//! }
//! struct ExecutionContext {
//!     credential: String,
//! }
//! let wish = throughline_format::UnifiedIntent::preferred(ExecutionContext { credential: String::new() });
//! assert_eq!(written(&wish), "");
//! ```
//!
//! Nor does a member that transport metadata does not have:
//!
//! ```compile_fail,E0609
//! fn header(transport: &throughline_format::transport::UnifiedTransportMetadata) -> &str {
//!     &transport.authorization
//! }
//! ```

use crate::macros::{record, words};
use crate::profile::UnifiedProtocolProfile;

words! {
    /// Accepted response mode.
    pub enum AcceptMode { Json = "json", Sse = "sse", JsonArray = "json-array", Websocket = "websocket", }
}
record! {
    /// The safe part of a request's transport: no credential, cookie, raw header or secret.
    pub struct UnifiedTransportMetadata {
        /// Inbound wire.
        profile: UnifiedProtocolProfile,
        /// Action word.
        action: String,
        /// HTTP method.
        method: String,
        /// Path with placeholders for everything variable.
        path_template: String,
        /// The client's request ID.
        request_id?: String,
        /// The client's trace ID.
        trace_id?: String,
        /// The client's idempotency key.
        idempotency_key?: String,
        /// Accepted response mode.
        accept: AcceptMode,
        /// Whether a stream is preferred.
        stream: bool,
        /// Content type.
        content_type?: String,
        /// Content encoding.
        content_encoding?: String,
        /// Allowlisted beta names.
        betas?: Vec<String>,
        /// Safe client family.
        client_family?: String,
    }
}
