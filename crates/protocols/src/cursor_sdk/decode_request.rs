//! Prompts from the wire: the SDK's arguments or the body of the Cloud API.
//!
//! A prompt for an agent that exists goes on from what the runtime remembers, so its history is partial: the agent's handle is
//! a continuation, and what it holds is a missing range.

use super::private::{AGENT, FORM};
use super::{profile, wire};
use crate::codec::DecodedRequest;
use crate::context::DecodeContext;
use crate::keeper::{Keep, Keeper};
use throughline_format::conversation::{Completeness, MissingReason, UnifiedConversationInput, UnifiedMissingRange};
use throughline_format::item::{MessageItem, Role};
use throughline_format::media::{InlineEncoding, InlineSource, UnifiedDataSource, UnifiedMediaMetadata, UrlSource};
use throughline_format::metadata::UnifiedSemanticMetadata;
use throughline_format::part::MediaPart;
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::{
    Count, ErrorCategory, Json, PartBody, UnifiedContentPart, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedRequestV2,
};

/// How a body spells its prompt.
pub(super) mod spelled {
    /// `message`, a text.
    pub(in super::super) const MESSAGE: &str = "message";
    /// `message`, an object with text and images.
    pub(in super::super) const MESSAGE_OBJECT: &str = "message-object";
    /// `prompt`.
    pub(in super::super) const PROMPT: &str = "prompt";
    /// The model is a word and no object.
    pub(in super::super) const MODEL_WORD: &str = "model-word";
}

/// Reads a body.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
    let body: wire::Request = throughline_format::json::decode_slice(body)?;
    let mut keeper = Keeper::new(context, super::profile(), Issuer::ClientAsserted);
    let mut forms = Vec::new();
    let (prompt, base) = prompt(body.message.as_ref(), body.prompt, &mut forms)?;
    let item = item(&mut keeper, prompt, base);
    let root = &context.operation_id;
    let mut rest: Vec<(String, Json)> = body.extra.into_unmapped().collect();
    let model = model(body.model.as_ref(), &mut rest, &mut forms);
    let labels = body
        .metadata
        .as_ref()
        .map(Json::decode::<throughline_format::json::UserMap<String>>);
    let metadata = match labels {
        Some(Ok(labels)) => Some(UnifiedSemanticMetadata {
            labels: Some(labels),
            end_user_ref: None,
        }),
        Some(Err(_)) => {
            rest.extend(body.metadata.map(|raw| ("/metadata".to_owned(), raw)));
            None
        }
        None => None,
    };
    let mut conversation = UnifiedConversationInput::complete(Vec::new());
    if let Some(agent) = &body.agent_id {
        let reference = keeper.handle(
            Keep {
                schema: AGENT,
                resource_type: ResourceType::Session,
                subject: None,
                resource_id: root.resource(2),
                paths: vec!["/agentId".to_owned()],
            },
            agent.clone(),
        );
        conversation.completeness = Completeness::Partial;
        conversation.missing = Some(vec![UnifiedMissingRange {
            after_item_id: None,
            before_item_id: Some(item.id.clone()),
            count: None,
            reason: MissingReason::ProviderHeld,
            resource: Some(reference.clone()),
        }]);
        conversation.continuations = Some(vec![reference]);
    }
    conversation.items = vec![item];
    keeper.fields(None, root.resource(0), "", rest);
    let payload = serde_json::to_vec(&forms).unwrap_or_default();
    keeper.payload(
        Keep {
            schema: FORM,
            resource_type: super::private::other(),
            subject: None,
            resource_id: root.resource(1),
            paths: Vec::new(),
        },
        payload,
    );
    let unified = UnifiedRequestV2 {
        metadata,
        ..context.request(profile(), conversation, model)
    };
    Ok(DecodedRequest {
        unified,
        resources: keeper.resources,
        loss: keeper.loss.finish(),
        // A run is always followed by its stream.
        stream: true,
    })
}

/// The prompt and where it stands.
fn prompt(
    message: Option<&Json>,
    prompt: Option<wire::Prompt>,
    forms: &mut Vec<String>,
) -> Result<(wire::Prompt, &'static str), UnifiedError> {
    let missing = |at: &str| {
        UnifiedError::new(
            ErrorCategory::InvalidRequest,
            "missing-field",
            "expected a text as message or prompt.text",
        )
        .at(at)
    };
    let (prompt, base) = match (message, prompt) {
        (Some(message), _) => {
            if let Ok(text) = message.decode::<String>() {
                forms.push(spelled::MESSAGE.to_owned());
                let prompt = wire::Prompt {
                    text: Some(text),
                    images: None,
                    extra: crate::wire::Extra::default(),
                };
                (prompt, "/message")
            } else {
                forms.push(spelled::MESSAGE_OBJECT.to_owned());
                let prompt: wire::Prompt = message.decode().map_err(|_| {
                    UnifiedError::new(
                        ErrorCategory::InvalidRequest,
                        "wrong-type",
                        "expected a text or an object with text",
                    )
                    .at("/message")
                })?;
                (prompt, "/message")
            }
        }
        (None, Some(prompt)) => {
            forms.push(spelled::PROMPT.to_owned());
            (prompt, "/prompt")
        }
        (None, None) => return Err(missing("/prompt")),
    };
    if prompt.text.is_none() {
        return Err(missing(&format!("{base}/text")));
    }
    Ok((prompt, base))
}

/// The model's ID; its parameters have no word.
fn model(raw: Option<&Json>, rest: &mut Vec<(String, Json)>, forms: &mut Vec<String>) -> Option<String> {
    let raw = raw?;
    if let Ok(word) = raw.decode::<String>() {
        forms.push(spelled::MODEL_WORD.to_owned());
        return Some(word);
    }
    if let Ok(model) = raw.decode::<wire::Model>() {
        rest.extend(
            model
                .extra
                .into_unmapped()
                .map(|(pointer, value)| (format!("/model{pointer}"), value)),
        );
        Some(model.id)
    } else {
        rest.push(("/model".to_owned(), raw.clone()));
        None
    }
}

fn item(keeper: &mut Keeper, prompt: wire::Prompt, base: &str) -> UnifiedItem {
    let context = keeper.context.clone();
    let id = context.item_id(0);
    let mut parts = vec![UnifiedContentPart::text(id.part(0), prompt.text.unwrap_or_default())];
    let mut rest: Vec<(String, Json)> = prompt.extra.into_unmapped().collect();
    for (number, image) in prompt.images.into_iter().flatten().enumerate() {
        let part = id.part(parts.len() as Count);
        let source = match (image.data, image.url) {
            (Some(data), _) => UnifiedDataSource::Inline(InlineSource {
                media_type: image.mime_type.clone().unwrap_or_else(|| "image/*".into()),
                data,
                encoding: InlineEncoding::Base64,
            }),
            (None, Some(url)) => UnifiedDataSource::Url(UrlSource { url, headers_ref: None }),
            (None, None) => {
                rest.push((format!("/images/{number}"), Json::null()));
                continue;
            }
        };
        let size = image.dimension.as_ref();
        let media = UnifiedMediaMetadata {
            media_type: image.mime_type,
            width: size.and_then(|s| s.width),
            height: size.and_then(|s| s.height),
            ..UnifiedMediaMetadata::default()
        };
        let media = (media != UnifiedMediaMetadata::default()).then_some(media);
        parts.push(UnifiedContentPart::new(part, PartBody::Image(MediaPart { source, media })));
        rest.extend(
            image
                .extra
                .into_unmapped()
                .map(|(pointer, value)| (format!("/images/{number}{pointer}"), value)),
        );
    }
    let reference = keeper.fields(Some(&id), id.resource(1), base, rest);
    let provenance = context.provenance(ItemOrigin::Client, profile(), None);
    let body = UnifiedItemBody::Message(MessageItem { parts, placement: None });
    let mut item = context.item(id.clone(), 0, None, Role::User, provenance, body);
    item.provider_data = reference.map(|reference| vec![reference]);
    item
}

/// The handle of the agent that a request goes on with, when the target may have it.
pub(super) fn agent_of(request: &UnifiedRequestV2, private: &dyn crate::context::PrivateState) -> Option<String> {
    let ids = request.conversation.continuations.iter().flatten();
    let mut sessions = ids.filter(|reference| reference.resource_type == ResourceType::Session);
    let handle = |id: &UnifiedId| private.payload(id).and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
    sessions.find_map(|reference| handle(&reference.resource_id))
}
