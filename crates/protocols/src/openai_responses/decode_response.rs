//! Unstreamed responses: the events that a stream of them would give.

use super::answer::Answer;
use super::decode_request::wrong;
use super::wire::Node;
use crate::codec::Decoded;
use crate::context::DecodeContext;
use throughline_format::UnifiedError;

/// Reads a response body, or an error body in its place.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError> {
    let root = Node::read(body)?;
    if !root.is_object() {
        return Err(wrong("wrong-type", "expected an object", ""));
    }
    let mut answer = Answer::new(context.clone());
    let is_response = root.has("output") || root.has("status") || root.str("object").as_deref() == Some("response");
    if !is_response && ["error", "code", "message", "detail"].iter().any(|key| root.has(key)) {
        answer.error_body(&root);
        return Ok(answer.take());
    }
    answer.begin(&root);
    for (index, node) in root.list("output").iter().enumerate() {
        if !node.is_object() {
            return Err(wrong("wrong-type", "expected an object", &format!("/output/{index}")));
        }
        answer.done(index as u64, node);
    }
    answer.terminal(&root);
    Ok(answer.take())
}
