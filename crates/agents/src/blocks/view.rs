//! Items to blocks.

use super::embeds;
use super::{Actor, Embed, Kind, SnaBlock};
use crate::fields::member;
use std::collections::BTreeMap;
use throughline_format::item::{Placement, Role, Visibility};
use throughline_format::media::{InlineEncoding, UnifiedDataSource, encode_base64};
use throughline_format::part::{MediaPart, ReasoningForm, ReasoningState};
use throughline_format::{Json, PartBody, Sha256, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedItemBody};
use throughline_protocols::raw;

/// The blocks of items, in order.
pub fn blocks_of(items: &[UnifiedItem]) -> Vec<SnaBlock> {
    items.iter().flat_map(item_blocks).collect()
}

type Meta = Vec<(String, Json)>;

fn item_blocks(item: &UnifiedItem) -> Vec<SnaBlock> {
    let mut meta: Meta = Vec::new();
    if item.visibility != Visibility::Model {
        meta.push(member("visibility", &item.visibility));
    }
    match &item.body {
        UnifiedItemBody::Message(message) => {
            let actor = match item.role {
                Some(Role::User) => Actor::User,
                Some(Role::Assistant) => Actor::Assistant,
                role => {
                    meta.extend(role.map(|role| member("role", &role)));
                    Actor::System
                }
            };
            if message.placement == Some(Placement::Instructions) {
                meta.push(member("placement", &message.placement));
            }
            parts(item, actor, Kind::Text, &message.parts, &meta)
        }
        UnifiedItemBody::Reasoning(reasoning) => parts(item, Actor::Assistant, Kind::Thinking, &reasoning.parts, &meta),
        UnifiedItemBody::ToolCall(call) => {
            meta.extend([member("callId", &call.call_id), member("rawArguments", &call.raw_arguments)]);
            // What a call of the usual kind does not have.
            let usual = call.namespace.is_none() && call.server_label.is_none() && call.caller.is_none() && call.private_linkage.is_none();
            meta.push(member("kind", &call.tool_type));
            if !usual || call.provider_executed {
                meta.push(member("item", item));
            }
            vec![block(item, None, Actor::Assistant, Kind::ToolUse, call.name.clone(), None, meta)]
        }
        UnifiedItemBody::ToolResult(result) => {
            meta.push(member("callId", &result.call_id));
            meta.extend(result.name.as_ref().map(|name| member("name", name)));
            meta.extend(result.is_error.map(|is_error| member("isError", &is_error)));
            if result.error.is_some() {
                meta.push(member("item", item));
            }
            parts(item, Actor::System, Kind::ToolResult, &result.output, &meta)
        }
        UnifiedItemBody::Error(error) => {
            meta.push(member("error", &error.error));
            vec![block(
                item,
                None,
                Actor::System,
                Kind::Error,
                embeds::escape(&error.error.message),
                None,
                meta,
            )]
        }
        UnifiedItemBody::ServerToolCall(call) => whole(item, Actor::Assistant, Kind::ToolUse, &call.name, meta),
        UnifiedItemBody::CodeExecution(_) => whole(item, Actor::Assistant, Kind::ToolUse, "code-execution", meta),
        UnifiedItemBody::ComputerAction(_) => whole(item, Actor::Assistant, Kind::ToolUse, "computer", meta),
        UnifiedItemBody::ServerToolResult(_)
        | UnifiedItemBody::CodeExecutionResult(_)
        | UnifiedItemBody::ComputerActionResult(_)
        | UnifiedItemBody::SearchResult(_)
        | UnifiedItemBody::RetrievalResult(_) => whole(item, Actor::System, Kind::ToolResult, &words(item), meta),
        UnifiedItemBody::CompactionSummary(_) => whole(item, Actor::System, Kind::Status, &words(item), meta),
        UnifiedItemBody::ApprovalRequest(_)
        | UnifiedItemBody::ApprovalResponse(_)
        | UnifiedItemBody::Artifact(_)
        | UnifiedItemBody::Reference(_)
        | UnifiedItemBody::ProviderSwitch(_)
        | UnifiedItemBody::Interruption(_) => whole(item, Actor::System, Kind::Status, "", meta),
    }
}

/// The texts of an item's parts.
fn words(item: &UnifiedItem) -> String {
    let texts: Vec<&str> = item.parts().iter().filter_map(UnifiedContentPart::as_text).collect();
    texts.join("\n")
}

/// An item that the view only names: it stands in `meta` as a whole.
fn whole(item: &UnifiedItem, actor: Actor, kind: Kind, content: &str, mut meta: Meta) -> Vec<SnaBlock> {
    meta.push(member("item", item));
    vec![block(item, None, actor, kind, embeds::escape(content), None, meta)]
}

/// One block a part; an item without parts has one block all the same.
fn parts(item: &UnifiedItem, actor: Actor, kind: Kind, parts: &[UnifiedContentPart], meta: &Meta) -> Vec<SnaBlock> {
    if parts.is_empty() {
        let meta = meta.iter().cloned().chain([member("parts", &0)]).collect();
        return vec![block(item, None, actor, kind, String::new(), None, meta)];
    }
    parts.iter().map(|part| part_block(item, actor, kind, part, meta.clone())).collect()
}

fn part_block(item: &UnifiedItem, actor: Actor, kind: Kind, part: &UnifiedContentPart, mut meta: Meta) -> SnaBlock {
    let id = &part.base.part_id;
    let mut held = None;
    let content = match &part.body {
        PartBody::Text(text) => {
            let plain = text.language.is_none() && text.style.is_none() && text.annotations.is_none() && text.logprobs.is_none();
            if !plain {
                meta.push(member("part", part));
            }
            embeds::escape(&text.text)
        }
        PartBody::Reasoning(reasoning) => {
            if reasoning.state != ReasoningState::Disclosed {
                meta.push(member("state", &reasoning.state));
            }
            if reasoning.form != ReasoningForm::Full {
                meta.push(member("form", &reasoning.form));
            }
            if let Some(private) = &reasoning.private_state {
                meta.extend([member("resourceId", &private.r#ref.resource_id), member("privateState", private)]);
            }
            embeds::escape(&reasoning.text)
        }
        PartBody::Refusal(refusal) => {
            let category = refusal.category.as_ref().map_or_else(|| raw::json(&true), raw::json);
            meta.push(("refusal".to_owned(), category));
            embeds::escape(&refusal.text)
        }
        PartBody::Image(medium)
        | PartBody::Audio(medium)
        | PartBody::Video(medium)
        | PartBody::Document(medium)
        | PartBody::File(medium)
        | PartBody::Binary(medium) => {
            let embed = embed(medium);
            let name = embed.name.clone().unwrap_or_default();
            // What an embed does not say: the kind, details of the medium.
            meta.push(member("part", &without_data(part)));
            held = Some(BTreeMap::from([(id.as_str().to_owned(), embed)]));
            embeds::reference(&name, id.as_str())
        }
        PartBody::Json(json) => {
            meta.push(member("part", part));
            embeds::escape(json.value.as_str())
        }
        PartBody::Citation(_) | PartBody::GroundingSource(_) | PartBody::ArtifactReference(_) => {
            meta.push(member("part", part));
            String::new()
        }
    };
    block(item, Some(id), actor, kind, content, held, meta)
}

fn embed(medium: &MediaPart) -> Embed {
    let told = medium.media.as_ref();
    let mut embed = Embed {
        mime_type: told.and_then(|media| media.media_type.clone()).unwrap_or_default(),
        artifact_id: None,
        sha256: told.and_then(|media| media.sha256),
        name: told.and_then(|media| media.name.clone().or_else(|| media.title.clone())),
        data: None,
        url: None,
    };
    match &medium.source {
        UnifiedDataSource::Inline(inline) => {
            embed.mime_type.clone_from(&inline.media_type);
            embed.sha256 = inline.bytes().map(|bytes| Sha256::of(&bytes)).or(embed.sha256);
            embed.data = Some(match inline.encoding {
                InlineEncoding::Utf8 => encode_base64(inline.data.as_bytes()),
                InlineEncoding::Bytes | InlineEncoding::Base64 => inline.data.clone(),
            });
        }
        UnifiedDataSource::Url(url) => embed.url = Some(url.url.clone()),
        UnifiedDataSource::Artifact(artifact) => {
            embed.artifact_id = Some(artifact.artifact_id.clone());
            embed.sha256 = Some(artifact.sha256);
        }
        UnifiedDataSource::ProviderResource(_) => {}
    }
    embed
}

/// A part of a medium whose bytes stand in the embed.
fn without_data(part: &UnifiedContentPart) -> UnifiedContentPart {
    let mut part = part.clone();
    if let PartBody::Image(m) | PartBody::Audio(m) | PartBody::Video(m) | PartBody::Document(m) | PartBody::File(m) | PartBody::Binary(m) =
        &mut part.body
        && let UnifiedDataSource::Inline(inline) = &mut m.source
    {
        inline.data = String::new();
    }
    part
}

fn block(
    item: &UnifiedItem,
    part: Option<&UnifiedId>,
    actor: Actor,
    kind: Kind,
    content: String,
    embeds: Option<BTreeMap<String, Embed>>,
    meta: Meta,
) -> SnaBlock {
    let attribution = &item.provenance.attribution;
    SnaBlock {
        id: part.unwrap_or(&item.id).as_str().to_owned(),
        actor,
        kind,
        content,
        embeds,
        meta: (!meta.is_empty()).then(|| raw::object(meta)),
        provider: attribution.provider.clone(),
        model_provider: attribution.model_provider.clone(),
        model: attribution.model.clone(),
        item_id: item.id.clone(),
        part_id: part.cloned(),
        created_at: item.created_at,
    }
}
