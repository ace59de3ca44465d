//! Requests to the wire: the transport's body. It carries messages and nothing that a model would be told besides.

use super::answer::ALONE;
use super::encode_message::Messages;
use super::encode_part::Out;
use super::private::{Form, UNMAPPED};
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::object::Object;
use throughline_format::UnifiedRequestV2;
use throughline_format::intent::UnifiedRequirement;

/// Writes a request body.
pub(super) fn encode(request: &UnifiedRequestV2, context: &EncodeContext) -> Encoded {
    let mut out = Out::new(context);
    out.loss.report_intents(request, &context.capabilities);
    tools(request, &mut out);
    settings(request, &mut out);
    let mut messages = Messages::new(out, &request.conversation.items, "/conversation/items");
    messages.history();
    if messages.written.is_empty() {
        messages.out.loss.warning(
            Feature::ConversationMessageEmpty,
            "/conversation/items",
            "nothing of the history can be said; an empty message stands in",
        );
        let empty = Object::of_type("text").with("text", "");
        messages.written.push(
            Object::default()
                .with("id", request.request_id.as_str())
                .with("role", "user")
                .with("parts", &[empty]),
        );
    }
    let chat = request.conversation.conversation_id.as_ref().unwrap_or(&request.request_id);
    let mut body = Object::default()
        .with("id", chat.as_str())
        .with("messages", &messages.written)
        .with("trigger", "submit-message");
    let model = context.target_model.as_ref().unwrap_or(&request.model.requested);
    if model == crate::UNSPECIFIED_MODEL {
        messages.out.loss.renamed("/model/requested", "nobody named a model");
    } else {
        // No member of the transport: applications put it beside the messages, and this gateway reads it there.
        body = body.with("model", model);
    }
    let form = Form::of_root(context.private.as_ref());
    if form.absent.iter().any(|mark| mark == ALONE) {
        return Encoded {
            body: crate::raw::json(&messages.written).as_str().to_owned(),
            loss: messages.out.loss.finish(),
        };
    }
    form.apply(&mut body);
    for entry in crate::keeper::unmapped_in(context.private.root_payload(UNMAPPED)) {
        body.put(&entry.pointer, entry.value);
    }
    Encoded {
        body: body.to_json().as_str().to_owned(),
        loss: messages.out.loss.finish(),
    }
}

/// Tools stand where the application's server defines them, never in the body.
fn tools(request: &UnifiedRequestV2, out: &mut Out<'_>) {
    for (index, tool) in request.tools.iter().enumerate() {
        let feature = Feature::of_tool(&tool.kind);
        out.loss.intent(
            tool.requirement.unwrap_or(UnifiedRequirement::Preferred),
            feature,
            format!("/tools/{index}"),
            "the body carries messages only; tools stand in the application",
        );
    }
}

/// What a request says besides its intents and its items.
fn settings(request: &UnifiedRequestV2, out: &mut Out<'_>) {
    for (path, feature, there) in [
        (
            "/model/modelProvider",
            Feature::ConversationItem,
            request.model.model_provider.is_some(),
        ),
        (
            "/state/resources",
            Feature::StateResources,
            request.state.as_ref().is_some_and(|state| state.resources.is_some()),
        ),
    ] {
        if there {
            out.loss.warning(feature, path, "the body carries messages only");
        }
    }
    if let Some(output) = &request.output
        && output.format.is_some()
    {
        // A plain text format is no intent of the table.
        out.loss
            .info(Feature::OutputSchema, "/output/format", "the body carries messages only");
    }
}
