//! [`UnifiedRequestV2`] as a request of the wire.

use super::encode_part::PartEncoder;
use super::{Dialect, encode_settings, encode_tools, encode_turns, kept, versions};
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::raw::{self, json, object, put};
use crate::side;
use throughline_format::item::newest_instructions;
use throughline_format::resource::{ResourceType, UnmappedEntry};
use throughline_format::{Json, PartBody, UnifiedItem, UnifiedItemBody, UnifiedRequestV2};

/// Writes a request body.
pub(super) fn encode(dialect: Dialect, request: &UnifiedRequestV2, context: &EncodeContext) -> Encoded {
    let model = context.target_model.clone().unwrap_or_else(|| request.model.requested.clone());
    let taught;
    let context = if versions::is_reduced(dialect, context.dialect.as_deref()) {
        taught = versions::taught(context);
        &taught
    } else {
        context
    };
    let mut encoder = PartEncoder::new(context, dialect, &model);
    encoder.loss.report_intents_without_store(request, &context.capabilities);
    unsent_resources(&mut encoder, request);
    let reduced;
    let request = if encoder.reduced {
        reduced = versions::reduced(&mut encoder, request);
        &reduced
    } else {
        request
    };
    if dialect != Dialect::Antigravity {
        encoder
            .loss
            .remark(Feature::RecordBookkeeping, "/model/requested", "the URL names the model");
    }
    let speaks_it = request.source.profile.family == encoder.profile.family;
    let native = encoder.is_native(Some(&request.source.profile));
    let root = |schema: &str| {
        let bytes = context.private.root_payload(schema).filter(|_| speaks_it);
        bytes.map(|bytes| raw::entries(&bytes)).unwrap_or_default()
    };
    let mut fields = root(&side::unmapped_schema(&encoder.profile));
    let form = if encoder.reduced { Vec::new() } else { root(kept::BODY) };
    if encoder.reduced {
        versions::only_known(&mut encoder, &mut fields);
    }

    let system = system(&mut encoder, &request.conversation.items);
    let contents = encode_turns::contents(&mut encoder, &request.conversation.items);
    let tools = encode_tools::tools(&mut encoder, request, native);
    let tool_config = encode_tools::config(&mut encoder, request, &tools, native);
    let mut body = vec![("contents".to_owned(), json(&contents))];
    let cached = resource(&encoder, request, &ResourceType::CachedContent);
    if cached.is_some() && !native && (system.is_some() || !tools.list.is_empty()) {
        encoder.loss.warning(
            Feature::StateResources,
            "/state/resources",
            "instructions and tools stand in the cached content and are not sent beside it",
        );
    }
    let alone = cached.is_some() && !native;
    if let Some(system) = system.filter(|_| !alone) {
        body.push(("systemInstruction".into(), system));
    }
    if !tools.list.is_empty() && !alone {
        body.push(("tools".into(), json(&tools.list)));
    }
    body.extend(tool_config.filter(|_| !alone).map(|config| ("toolConfig".to_owned(), config)));
    // The envelope takes none but what its own clients sent.
    if dialect != Dialect::Antigravity || native {
        let safety = encode_settings::safety(&mut encoder, request.generation.safety_settings.as_ref(), native);
        body.extend(safety.map(|s| ("safetySettings".to_owned(), s)));
    }
    let generation = encode_settings::generation(&mut encoder, request, native);
    body.extend(generation.map(|g| ("generationConfig".to_owned(), g)));
    body.extend(cached.map(|name| ("cachedContent".to_owned(), json(&name))));
    if dialect == Dialect::Gemini {
        let tier = encode_settings::tier(&mut encoder, request.generation.service_tier.as_ref(), native);
        body.extend(tier.map(|t| ("serviceTier".to_owned(), t)));
        if request.state.as_ref().is_some_and(|s| s.persist.is_some()) {
            encoder.loss.remark(Feature::WireSpelling, "/state/persist", "said by `store`");
        }
        let persist = request.state.as_ref().and_then(|s| s.persist.as_ref());
        body.extend(persist.map(|p| ("store".to_owned(), json(&p.value))));
    }
    body.extend(labels(&mut encoder, request, native).map(|l| ("labels".to_owned(), l)));
    body.extend(continuation(&encoder, request).map(|token| ("continuationToken".to_owned(), json(&token))));
    if dialect == Dialect::Antigravity {
        let session = resource(&encoder, request, &ResourceType::Session);
        body.extend(session.map(|id| ("sessionId".to_owned(), json(&id))));
    }
    let body = wrap(dialect, object(body), &model, context.project.as_deref(), native);
    let body = with_root(dialect, body, &fields, &form, context);
    Encoded {
        body: body.as_str().to_owned(),
        loss: encoder.loss.finish(),
    }
}

/// The body in its envelope, where the dialect has one.
fn wrap(dialect: Dialect, body: Json, model: &str, project: Option<&str>, native: bool) -> Json {
    if dialect != Dialect::Antigravity {
        return body;
    }
    let mut members = Vec::new();
    members.extend(project.map(|project| ("project".to_owned(), json(project))));
    members.push(("model".to_owned(), json(model)));
    members.push(("request".into(), body));
    if !native {
        members.push(("userAgent".into(), json("antigravity")));
        members.push(("requestType".into(), json("agent")));
    }
    object(members)
}

/// Puts the fields of the whole body back, and its form.
fn with_root(dialect: Dialect, body: Json, fields: &[UnmappedEntry], form: &[UnmappedEntry], context: &EncodeContext) -> Json {
    let prefix = dialect.request_prefix();
    let mut body = body;
    // The account's own project counts, whatever a client named.
    let theirs = |entry: &&UnmappedEntry| !(entry.pointer == "/project" && context.project.is_some());
    for entry in fields.iter().chain(form).filter(theirs) {
        let inner = entry.pointer.strip_prefix(prefix).unwrap_or(&entry.pointer);
        // A refinement of something that was left out must not bring it back.
        let head = inner.split('/').nth(1).unwrap_or_default();
        let deep = inner.matches('/').count() > 1 && inner.len() < entry.pointer.len() + 1;
        let place = if prefix.is_empty() {
            Some(body.clone())
        } else {
            raw::get(&body, "request")
        };
        let there = place.is_some_and(|b| raw::get(&b, head).is_some());
        if deep && matches!(head, "systemInstruction" | "tools") && !there {
            continue;
        }
        let renamed = (inner == "/model").then_some(context.target_model.as_ref()).flatten();
        let value = renamed.map_or_else(|| entry.value.clone(), json);
        body = put(&body, &entry.pointer, &value);
    }
    body
}

/// The newest run of instructions, where the version has a member for them.
fn system(encoder: &mut PartEncoder<'_>, items: &[UnifiedItem]) -> Option<Json> {
    if encoder.reduced {
        return None;
    }
    let newest = newest_instructions(items);
    let mut parts = Vec::new();
    let mut native = false;
    for (index, item) in items.iter().enumerate().take(newest.end).skip(newest.start) {
        let UnifiedItemBody::Message(message) = &item.body else { continue };
        native |= encoder.is_own(item);
        if item.role == Some(throughline_format::item::Role::Developer) {
            encoder.loss.info(
                Feature::ConversationSystemRole,
                format!("/conversation/items/{index}"),
                "the target does not tell developer from system",
            );
        }
        for (n, part) in message.parts.iter().enumerate() {
            let path = format!("/conversation/items/{index}/parts/{n}");
            let place = super::encode_part::Place {
                path: &path,
                item: &item.id,
            };
            let own = encoder.is_own(item);
            if part.as_text().is_some_and(str::is_empty) && !own {
                encoder.lost(
                    throughline_format::LossSeverity::Info,
                    Feature::ConversationMessageEmpty,
                    place,
                    "an empty text is left out",
                );
                continue;
            }
            if !own && !matches!(part.body, PartBody::Text(_) | PartBody::Json(_) | PartBody::Refusal(_)) {
                encoder.lost(
                    throughline_format::LossSeverity::Warning,
                    Feature::PartFile,
                    place,
                    "instructions are text",
                );
                continue;
            }
            parts.extend(encoder.part(part, own, place));
        }
    }
    if parts.is_empty() && !native {
        return None;
    }
    let mut members = Vec::new();
    members.extend(encoder.dialect.system_role().map(|role| ("role".to_owned(), json(role))));
    members.push(("parts".into(), json(&parts)));
    Some(object(members))
}

/// A handle of this kind that the target may see.
fn resource(encoder: &PartEncoder<'_>, request: &UnifiedRequestV2, kind: &ResourceType) -> Option<String> {
    let resources = request.state.as_ref()?.resources.as_ref()?;
    let found = resources.iter().find(|r| r.resource_type == *kind)?;
    encoder.handle(&found.resource_id)
}

/// The token that goes on with a cut answer.
fn continuation(encoder: &PartEncoder<'_>, request: &UnifiedRequestV2) -> Option<String> {
    let list = request.conversation.continuations.as_ref().filter(|_| !encoder.reduced)?;
    let token = list.iter().find(|r| r.resource_type == ResourceType::Response)?;
    encoder.handle(&token.resource_id)
}

/// Resources of the request that the target may not see or has no place for.
fn unsent_resources(encoder: &mut PartEncoder<'_>, request: &UnifiedRequestV2) {
    // Without a place for any the table has said so.
    let state = request.state.iter().filter(|_| !encoder.reduced);
    for (n, resource) in state.flat_map(|s| s.resources.iter().flatten()).enumerate() {
        let placed = match resource.resource_type {
            ResourceType::CachedContent => true,
            ResourceType::Session => encoder.dialect == Dialect::Antigravity,
            _ => false,
        };
        if placed && encoder.handle(&resource.resource_id).is_some() {
            let path = format!("/state/resources/{n}");
            encoder
                .loss
                .remark(Feature::StateResources, path, "sent as the provider's own handle");
        }
        if !placed || encoder.handle(&resource.resource_id).is_none() {
            let path = format!("/state/resources/{n}");
            encoder
                .loss
                .warning(Feature::StateResources, path, "a resource of another owner is not sent");
        }
    }
    if request.conversation.missing.is_some() {
        encoder.loss.held_elsewhere(
            &request.conversation,
            "/conversation/missing",
            "a part of the history that another provider holds",
        );
    }
    let continuations = request.conversation.continuations.iter().flatten().enumerate();
    for (n, resource) in continuations {
        if encoder.reduced || resource.resource_type != ResourceType::Response || encoder.handle(&resource.resource_id).is_none() {
            let path = format!("/conversation/continuations/{n}");
            let reason = "the target cannot go on from another owner's state";
            encoder.loss.held_elsewhere(&request.conversation, path, reason);
        }
    }
}

/// Labels inside the wire's bounds.
fn labels(encoder: &mut PartEncoder<'_>, request: &UnifiedRequestV2, native: bool) -> Option<Json> {
    let labels = request.metadata.as_ref()?.labels.as_ref()?;
    let legal =
        |text: &str| text.chars().count() <= 63 && text.chars().all(|c| c.is_lowercase() || c.is_ascii_digit() || c == '_' || c == '-');
    let mut members = Vec::new();
    for (key, value) in &labels.0 {
        let begins = key.starts_with(char::is_lowercase);
        if native || (legal(key) && legal(value) && begins) {
            members.push((key.clone(), json(value)));
        } else {
            let path = format!("/metadata/labels/{}", throughline_format::json::escape_pointer_token(key));
            encoder
                .loss
                .info(Feature::MetadataLabels, path, "outside of the target's alphabet for labels");
        }
    }
    (!members.is_empty() || native).then(|| object(members))
}
