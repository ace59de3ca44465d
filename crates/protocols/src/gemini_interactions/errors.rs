//! Errors of the wire: `google.rpc` bodies whose code is a word and no number.

use crate::codec::WireError;
use crate::google::status;
use crate::raw::{self, json};
use throughline_format::{Json, UnifiedError};

/// Error body.
pub(super) fn encode(error: &UnifiedError) -> WireError {
    let wire = status::encode(error);
    let body = Json::from_text(wire.body.clone()).unwrap_or_else(|_| Json::null());
    let word: Option<String> = raw::get(&body, "error").and_then(|inner| raw::get(&inner, "status")?.decode().ok());
    let body = word.map(|word| raw::put(&body, "/error/code", &json(&word.to_ascii_lowercase())));
    WireError {
        status: wire.status,
        body: body.map_or(wire.body, |body| body.as_str().to_owned()),
    }
}

/// The member `error` of an event.
pub(super) fn event(error: &UnifiedError) -> Json {
    let body = Json::from_text(encode(error).body).ok();
    body.and_then(|body| raw::get(&body, "error"))
        .unwrap_or_else(|| raw::object(Vec::new()))
}
