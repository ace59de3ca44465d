//! What the native API's lists and bodies share: `?limit=`, `?after=`, `{data, hasMore, next?}`, strict JSON.

use super::App;
use super::view::View;
use axum::body::Body;
use axum::http::HeaderMap;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId};

/// Entries of a page when none are asked for, and at most.
const PAGE: (usize, usize) = (50, 200);

/// Bytes after which a page ends, however few entries it has.
const PAGE_BYTES: usize = 16 * 1024 * 1024;

/// The number of entries that `?limit=` asks for.
pub(super) fn limit(text: Option<&str>) -> Result<usize, UnifiedError> {
    let Some(text) = text else { return Ok(PAGE.0) };
    let number = text.parse::<usize>().ok().filter(|number| (1..=PAGE.1).contains(number));
    number.ok_or_else(|| invalid(format!("expected a number from 1 to {} in ?limit=", PAGE.1)))
}

/// The ID in a parameter of the address. What is no ID names nothing.
pub(super) fn id(text: &str, what: &str) -> Result<UnifiedId, UnifiedError> {
    UnifiedId::parse(text).map_err(|_| absent(what))
}

/// The error for what is not there, or not the caller's.
pub(super) fn absent(what: &str) -> UnifiedError {
    UnifiedError::new(ErrorCategory::NotFound, "resource", format!("there is no such {what}"))
}

/// The error for a parameter that means nothing.
pub(super) fn invalid(message: impl Into<String>) -> UnifiedError {
    UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", message)
}

/// A page of a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    data: &'a [View],
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'a UnifiedId>,
}

/// A page on its way: entries with their IDs, until it is full.
#[derive(Default)]
pub(super) struct Page {
    data: Vec<View>,
    last: Option<UnifiedId>,
    bytes: usize,
    cut: bool,
}

impl Page {
    /// Adds an entry; false when the page is full, and the entry is for the next one.
    pub(super) fn push(&mut self, id: &UnifiedId, view: View) -> bool {
        let bytes = view.len();
        if self.bytes + bytes > PAGE_BYTES && !self.data.is_empty() {
            self.cut = true;
            return false;
        }
        self.bytes += bytes;
        self.data.push(view);
        self.last = Some(id.clone());
        true
    }

    /// The page as JSON; `has_more` says what the list behind it knows.
    pub(super) fn to_json(&self, has_more: bool) -> String {
        let has_more = has_more || self.cut;
        let list = List {
            data: &self.data,
            has_more,
            next: self.last.as_ref().filter(|_| has_more),
        };
        serde_json::to_string(&list).unwrap_or_default()
    }
}

impl App {
    /// A JSON body, strictly: unknown members, duplicate keys and null are errors with their place.
    pub(super) async fn read_json<T: DeserializeOwned>(&self, headers: &HeaderMap, body: Body) -> Result<T, UnifiedError> {
        parsed(&self.read_body(headers, body).await?)
    }
}

/// The same for bytes that were read; nothing at all is an empty object.
pub(super) fn parsed<T: DeserializeOwned>(body: &Bytes) -> Result<T, UnifiedError> {
    let body = if body.is_empty() { b"{}".as_slice() } else { body };
    throughline_format::json::decode_slice(body).map_err(UnifiedError::from)
}
