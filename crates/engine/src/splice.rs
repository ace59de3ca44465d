//! Same-protocol pass-through: the client's own bytes go upstream, with only the model name replaced in place.
//!
//! The body was scanned before (no duplicate keys), so the span of a member is unambiguous.

use bytes::Bytes;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The body with the value of the top-level member `model` replaced; the same bytes when it is that already.
///
/// `None` when the body is no object with a `model`.
pub(crate) fn with_model(body: &Bytes, model: &str) -> Option<Bytes> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(body).ok()?;
    let raw = members.get("model")?.get();
    let wanted = serde_json::to_string(model).ok()?;
    if raw == wanted {
        return Some(body.clone());
    }
    let start = (raw.as_ptr() as usize).checked_sub(body.as_ptr() as usize)?;
    let end = start.checked_add(raw.len())?;
    let mut spliced = Vec::with_capacity(body.len() + wanted.len());
    spliced.extend_from_slice(body.get(..start)?);
    spliced.extend_from_slice(wanted.as_bytes());
    spliced.extend_from_slice(body.get(end..)?);
    Some(spliced.into())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_the_model_changes() {
        let body = Bytes::from_static(b"{ \"x\": {\"model\":\"inner\"}, \"model\" : \"fast\", \"n\":1.0 }");
        let spliced = with_model(&body, "gpt-5.4-mini").unwrap();
        assert_eq!(
            spliced,
            &b"{ \"x\": {\"model\":\"inner\"}, \"model\" : \"gpt-5.4-mini\", \"n\":1.0 }"[..]
        );
        assert_eq!(with_model(&body, "fast").unwrap(), body);
        assert!(with_model(&Bytes::from_static(b"[]"), "m").is_none());
    }
}
