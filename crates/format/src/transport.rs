//! Serialisable transport metadata (spec, Serializable transport metadata). Runtime context has no type here, since it must not be serialisable.

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
