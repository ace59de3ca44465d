//! Requests from the wire: the transport's body, or the messages alone.

use super::answer::ALONE;
use super::decode_parts::PartDecoder;
use super::private::Form;
use super::{profile, wire};
use crate::codec::DecodedRequest;
use crate::context::DecodeContext;
use crate::wire::Extra;
use throughline_format::item::{Placement, Role};
use throughline_format::{ErrorCategory, UnifiedError, conversation::UnifiedConversationInput};

/// Reads a request body.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
    let is_list = body.trim_ascii_start().first() == Some(&b'[');
    // What the transport says about itself is kept and is no loss: it asks for nothing.
    let mut form = Form::default();
    let (messages, model, extra, base) = if is_list {
        (throughline_format::json::decode_slice(body)?, None, Extra::default(), "")
    } else {
        let body: wire::Body = throughline_format::json::decode_slice(body)?;
        for (key, value) in [("id", body.id), ("trigger", body.trigger), ("messageId", body.message_id)] {
            match value {
                Some(value) => form.member(key, &value),
                None => form.absent.push(key.to_owned()),
            }
        }
        (body.messages, body.model, body.extra, "/messages")
    };
    let messages: Vec<wire::Message> = messages;
    if messages.is_empty() {
        return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", "expected at least one message").at("/messages"));
    }
    let mut decoder = PartDecoder::new(context.clone(), None);
    let mut leading = true;
    for (index, message) in messages.into_iter().enumerate() {
        let path = format!("{base}/{index}");
        let role = role(&message, &path)?;
        leading &= role == Role::System;
        let placement = (role == Role::System).then_some(if leading { Placement::Instructions } else { Placement::Inline });
        decoder.message(&path, message, role, placement);
    }
    let root = context.operation_id.resource(0);
    decoder.keeper.fields(None, root, "", extra.into_unmapped());
    if is_list {
        form.absent.push(ALONE.to_owned());
    }
    decoder.keeper.root_form(context.operation_id.resource(1), &form);
    let unified = context.request(profile(), UnifiedConversationInput::complete(decoder.items), model);
    Ok(DecodedRequest {
        unified,
        resources: decoder.keeper.resources,
        loss: decoder.keeper.loss.finish(),
        // The transport reads nothing else.
        stream: true,
    })
}

fn role(message: &wire::Message, path: &str) -> Result<Role, UnifiedError> {
    match message.role.as_str() {
        "system" => Ok(Role::System),
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        _ => {
            let expected = "expected system, user or assistant";
            Err(UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", expected).at(format!("{path}/role")))
        }
    }
}
