//! Same-protocol pass-through: the client's own bytes go upstream, with only the model name replaced in place.
//!
//! The body was scanned before (no duplicate keys), so the span of a member is unambiguous.

use bytes::Bytes;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The body with the value of the top-level member `model` replaced; the same bytes when it is that already. Where the URL names
/// the model, a body need not: what it says there is replaced all the same.
///
/// `None` when the body is no object, or has no `model` where it must.
pub(crate) fn with_model(body: &Bytes, model: &str, in_url: bool) -> Option<Bytes> {
    let members: BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_slice(body).ok()?;
    let Some(raw) = members.get("model") else {
        return in_url.then(|| body.clone());
    };
    let raw = raw.get();
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
        let spliced = with_model(&body, "gpt-5.4-mini", false).unwrap();
        assert_eq!(
            spliced,
            &b"{ \"x\": {\"model\":\"inner\"}, \"model\" : \"gpt-5.4-mini\", \"n\":1.0 }"[..]
        );
        assert_eq!(with_model(&body, "fast", true).unwrap(), body);
        let bare = Bytes::from_static(b"{\"contents\":[]}");
        assert_eq!(with_model(&bare, "m", true).unwrap(), bare);
        assert!(with_model(&bare, "m", false).is_none());
        assert!(with_model(&Bytes::from_static(b"[]"), "m", true).is_none());
    }
}
