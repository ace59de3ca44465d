//! Stored answers from the wire: the messages of a chat, of which the last one is the answer.

use super::answer::Answer;
use super::wire;
use crate::codec::Decoded;
use crate::context::DecodeContext;
use crate::raw::json;
use throughline_format::{ErrorCategory, Json, UnifiedError};

/// Reads the messages after a turn, or the answer's message alone.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<Decoded, UnifiedError> {
    let mut answer = Answer::new(context.clone());
    if body.trim_ascii_start().first() == Some(&b'[') {
        let mut messages: Vec<wire::Message> = throughline_format::json::decode_slice(body)?;
        let last = messages
            .pop()
            .ok_or_else(|| UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", "expected at least one message").at(""))?;
        let path = format!("/{}", messages.len());
        // What stands before the answer is no part of it.
        let mut before: Vec<(String, Json)> = messages
            .iter()
            .enumerate()
            .map(|(index, message)| (format!("/{index}"), json(message)))
            .collect();
        if last.role == "assistant" {
            answer.message(&path, last);
        } else {
            answer.has_no_message();
            before.push((path, json(&last)));
        }
        answer.keep_root(before);
    } else {
        let message: wire::Message = throughline_format::json::decode_slice(body)?;
        if message.role != "assistant" {
            return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", "expected assistant").at("/role"));
        }
        answer.stands_alone();
        answer.message("", message);
    }
    answer.end(None);
    Ok(answer.take())
}
