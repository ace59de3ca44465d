//! Items as messages of the wire, legal whatever the history holds.

use super::encode_block::{BlockEncoder, Place, is_native, text, typed};
use super::encode_hosted::{self, Hosted};
use super::kept;
use crate::call_arguments;
use crate::feature::Feature;
use crate::raw::json;
use crate::told;
use crate::visible_text::visible_text;
use std::collections::BTreeMap;
use throughline_format::cache::{CacheTtl, UnifiedCacheIntent};
use throughline_format::item::{CallerRef, ReasoningItem, Role, ToolCallItem};
use throughline_format::loss::LossSeverity::{Info, Warning};
use throughline_format::part::ReasoningState;
use throughline_format::resource::Issuer;
use throughline_format::tool::Caller;
use throughline_format::{Json, PartBody, ProtocolFamily, UnifiedContentPart, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedToolType};

/// Who says a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// `user`
    User,
    /// `assistant`
    Assistant,
    /// `system` in the middle of the conversation
    System,
}

/// What a block is, as far as the rules of the wire care.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    /// Call of a client tool.
    Call(String),
    /// Result of one, with its content as blocks.
    Result(String, Vec<Json>),
    /// Thinking, redacted or not.
    Thinking,
    /// Text.
    Text,
    /// Call of a hosted tool, with what is said in its place when it is torn.
    ServerCall(String, String),
    /// Result of a hosted tool, likewise.
    ServerResult(Option<String>, String),
    /// Anything else.
    Other,
}

/// One block with what decides its place.
#[derive(Clone, Debug)]
pub(super) struct Atom {
    /// Who says it.
    pub(super) side: Side,
    /// What it is.
    pub(super) kind: Kind,
    /// The block without a cache mark.
    pub(super) json: Json,
    /// Its cache mark.
    pub(super) mark: Option<Mark>,
    /// Whether it begins a message of its own although its neighbour has the same role.
    pub(super) apart: Option<Json>,
    /// Pointer into the record.
    pub(super) path: String,
    /// Its item.
    pub(super) item: UnifiedId,
}

/// A cache mark with the life that it names, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(pub(super) Option<CacheTtl>);

/// Cache marks of the request by item and part.
pub(super) struct Marks(BTreeMap<(UnifiedId, Option<UnifiedId>), Mark>);

impl Marks {
    /// The marks of an intent.
    pub(super) fn of(cache: Option<&UnifiedCacheIntent>) -> Self {
        let breakpoints = cache.and_then(|c| c.breakpoints.as_ref()).into_iter().flatten();
        Self(breakpoints.map(|b| ((b.item_id.clone(), b.part_id.clone()), Mark(b.ttl))).collect())
    }

    /// The mark of a part.
    pub(super) fn part(&self, item: &UnifiedItem, part: &UnifiedContentPart) -> Option<Mark> {
        self.0.get(&(item.id.clone(), Some(part.base.part_id.clone()))).copied()
    }

    /// The mark of the whole item: its own, or of any part where parts are no blocks.
    pub(super) fn item(&self, item: &UnifiedItem) -> Option<Mark> {
        let own = self.0.get(&(item.id.clone(), None)).copied();
        own.or_else(|| item.base.cache.as_ref().filter(|c| c.breakpoint).map(|c| Mark(c.ttl)))
    }
}

/// Items as blocks in order, with the instructions left to the caller.
pub(super) fn atoms(encoder: &mut BlockEncoder<'_>, items: &[UnifiedItem], marks: &Marks) -> Vec<Atom> {
    let hosted = Hosted::of(encoder, items);
    let covered = crate::compacted::covered(items);
    let mut atoms = Vec::new();
    for (index, item) in items.iter().enumerate() {
        if item.is_instructions() || covered.contains(&index) {
            continue;
        }
        let first = atoms.len();
        let path = format!("/conversation/items/{index}");
        item_atoms(encoder, item, &path, marks, &hosted, &mut atoms);
        if let Some(mark) = marks.item(item) {
            match atoms.get_mut(first..).and_then(<[Atom]>::last_mut) {
                Some(atom) => atom.mark = atom.mark.or(Some(mark)),
                None => encoder
                    .loss
                    .info(Feature::CacheBreakpoints, path.clone(), "the marked item is not sent"),
            }
        }
        if let Some(fields) = kept::json_of(item.base.provider_data.as_ref(), kept::MESSAGE, encoder.context)
            && let Some(atom) = atoms.get_mut(first)
        {
            atom.apart = Some(fields);
        }
    }
    atoms
}

fn item_atoms(encoder: &mut BlockEncoder<'_>, item: &UnifiedItem, path: &str, marks: &Marks, hosted: &Hosted, atoms: &mut Vec<Atom>) {
    if encoder.loss.hides(item, path) {
        return;
    }
    let place = Place { path, item: &item.id };
    let references = item.base.provider_data.as_ref();
    let side = match item.role {
        Some(Role::Assistant) => Side::Assistant,
        Some(Role::System | Role::Developer) => Side::System,
        Some(Role::User | Role::Tool) => Side::User,
        None => match &item.body {
            UnifiedItemBody::Reasoning(_)
            | UnifiedItemBody::ToolCall(_)
            | UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::ServerToolResult(_) => Side::Assistant,
            _ => Side::User,
        },
    };
    let atom = |side, kind, json| Atom {
        side,
        kind,
        json,
        mark: None,
        apart: None,
        path: path.to_owned(),
        item: item.id.clone(),
    };
    if let Some(block) = kept::json_of(references, kept::BLOCK, encoder.context).filter(Json::is_object) {
        let kind = match encode_hosted::result_id(item) {
            Some(id) => Kind::ServerResult(Some(id.to_owned()), encode_hosted::in_words(item)),
            None => Kind::Other,
        };
        said_by_block(encoder, item, path);
        atoms.push(atom(side, kind, block));
        return;
    }
    match &item.body {
        UnifiedItemBody::Message(message) => {
            if item.role == Some(Role::Developer) {
                encoder.lost(
                    Info,
                    Feature::ConversationSystemRole,
                    place,
                    "the target does not tell developer from system",
                );
            }
            for (n, part) in message.parts.iter().enumerate() {
                let path = format!("{path}/parts/{n}");
                let place = Place {
                    path: &path,
                    item: &item.id,
                };
                let blank = part.as_text().is_some_and(|t| t.trim().is_empty());
                let native_blank =
                    side == Side::Assistant && is_native(item.base.provenance.profile.as_ref()) && part.as_text() != Some("");
                if blank && !native_blank {
                    encoder.lost(Info, Feature::ConversationMessageEmpty, place, "a blank text is left out");
                    continue;
                }
                let is_media = matches!(&part.body, PartBody::Image(_) | PartBody::Document(_));
                if side != Side::User && is_media {
                    encoder.lost(
                        Warning,
                        if matches!(part.body, PartBody::Image(_)) {
                            Feature::PartImage
                        } else {
                            Feature::PartDocument
                        },
                        place,
                        "only users may send media",
                    );
                    continue;
                }
                let block = match &part.body {
                    PartBody::GroundingSource(_) if side != Side::User => {
                        encoder.lost(Warning, Feature::GroundingSource, place, "sent as text");
                        let said = visible_text(std::slice::from_ref(part));
                        (!said.is_empty()).then(|| text(&said))
                    }
                    _ => encoder.part(part, place),
                };
                if let Some(json) = block {
                    let kind = if part.as_text().is_some() { Kind::Text } else { Kind::Other };
                    atoms.push(Atom {
                        side,
                        kind,
                        json,
                        mark: marks.part(item, part),
                        apart: None,
                        path,
                        item: item.id.clone(),
                    });
                } else if marks.part(item, part).is_some() {
                    encoder.lost(Info, Feature::CacheBreakpoints, place, "the marked part is not sent");
                }
            }
        }
        UnifiedItemBody::Reasoning(reasoning) => {
            let blocks = thinking(encoder, item, reasoning, path);
            atoms.extend(blocks.into_iter().map(|block| atom(Side::Assistant, Kind::Thinking, block)));
        }
        UnifiedItemBody::ToolCall(call) => {
            let block = call_block(encoder, item, call, "tool_use", place);
            let block = encoder.with_unmapped(block, references, place);
            atoms.push(atom(Side::Assistant, Kind::Call(call.call_id.clone()), block));
        }
        UnifiedItemBody::ToolResult(result) => {
            let (block, inner) = result_block(
                encoder,
                &result.output,
                result.is_error.or(result.error.as_ref().map(|_| true)),
                path,
                &item.id,
            );
            let block = encoder.with_unmapped(block, references, place);
            let mut atom = atom(Side::User, Kind::Result(result.call_id.clone(), inner), block);
            atom.mark = result.output.iter().find_map(|part| marks.part(item, part));
            atoms.push(atom);
        }
        UnifiedItemBody::ServerToolCall(call) => {
            let (kind, block) = encoder.server_call(item, call, place, hosted);
            atoms.push(atom(Side::Assistant, kind, block));
        }
        UnifiedItemBody::CodeExecution(code) => {
            let (kind, block) = encoder.code(item, code, place, hosted);
            atoms.push(atom(Side::Assistant, kind, block));
        }
        UnifiedItemBody::ServerToolResult(_)
        | UnifiedItemBody::CodeExecutionResult(_)
        | UnifiedItemBody::SearchResult(_)
        | UnifiedItemBody::RetrievalResult(_) => {
            let (kind, block) = encoder.told(item, place);
            atoms.push(atom(Side::Assistant, kind, block));
        }
        UnifiedItemBody::ComputerAction(action) => {
            let (kind, block) = encoder.computer(item, action, place);
            atoms.push(atom(Side::Assistant, kind, block));
        }
        UnifiedItemBody::ComputerActionResult(result) => {
            let (side, kind, block) = encoder.computer_result(item, result, place, hosted);
            let mut atom = atom(side, kind, block);
            atom.mark = result.output.iter().find_map(|part| marks.part(item, part));
            atoms.push(atom);
        }
        UnifiedItemBody::CompactionSummary(summary) if !summary.replaces => {
            encoder.lost(Info, Feature::ConversationItem, place, crate::compacted::ALL_IS_SENT);
        }
        UnifiedItemBody::CompactionSummary(summary) => {
            let said = visible_text(&summary.parts);
            if !said.trim().is_empty() {
                atoms.push(atom(Side::User, Kind::Text, text(&said)));
            }
        }
        UnifiedItemBody::ApprovalRequest(_) | UnifiedItemBody::ApprovalResponse(_) => {
            let (kind, block) = encoder.told(item, place);
            let side = if told::teller(item) == Role::User {
                Side::User
            } else {
                Side::Assistant
            };
            atoms.push(atom(side, kind, block));
        }
        UnifiedItemBody::Artifact(_) | UnifiedItemBody::Reference(_) => {
            encoder.lost(Info, Feature::ConversationItem, place, "the target has no form for this item");
        }
        UnifiedItemBody::ProviderSwitch(_) | UnifiedItemBody::Interruption(_) | UnifiedItemBody::Error(_) => {
            encoder.loss.marker(path, &item.id);
        }
    }
}

/// What a block that goes back as it was says by its type.
fn said_by_block(encoder: &mut BlockEncoder<'_>, item: &UnifiedItem, path: &str) {
    for (n, part) in item.parts().iter().enumerate() {
        if matches!(&part.body, PartBody::Json(json) if json.schema_name.is_some()) {
            encoder.remark(&format!("{path}/output/{n}/schemaName"), "said by the type of the block");
        }
    }
    for member in encode_hosted::said_by_type(item) {
        encoder.remark(&format!("{path}/{member}"), "said by the type of the block");
    }
}

/// Thinking blocks with signatures of the owner; others are left out.
fn thinking(encoder: &mut BlockEncoder<'_>, item: &UnifiedItem, reasoning: &ReasoningItem, path: &str) -> Vec<Json> {
    let mut blocks = Vec::new();
    for (n, part) in reasoning.parts.iter().enumerate() {
        let PartBody::Reasoning(inner) = &part.body else { continue };
        let path = format!("{path}/parts/{n}");
        let place = Place {
            path: &path,
            item: &item.id,
        };
        let payload = inner
            .private_state
            .as_ref()
            .filter(|state| state.issuer != Issuer::Synthetic && state.r#ref.profile.family == ProtocolFamily::AnthropicMessages)
            .and_then(|state| encoder.context.private.payload(&state.r#ref.resource_id))
            .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
            .filter(|payload| !payload.is_empty() && !payload.starts_with(crate::synthetic::PREFIX));
        let Some(payload) = payload else {
            let feature = if inner.state == ReasoningState::Redacted {
                Feature::ReasoningRedacted
            } else {
                Feature::ReasoningText
            };
            encoder.lost(
                Warning,
                feature,
                place,
                "reasoning without a signature of the target's owner is left out",
            );
            if inner.private_state.is_some() {
                encoder.lost(
                    Info,
                    Feature::ReasoningSignature,
                    place,
                    "private reasoning state never leaves its owner",
                );
            }
            continue;
        };
        let block = if inner.state == ReasoningState::Redacted {
            typed("redacted_thinking", [("data", Some(json(&payload)))])
        } else {
            typed(
                "thinking",
                [("thinking", Some(json(&inner.text))), ("signature", Some(json(&payload)))],
            )
        };
        blocks.push(encoder.with_unmapped(block, item.base.provider_data.as_ref(), place));
    }
    blocks
}

/// A call block; the ID is set when the history is put together.
pub(super) fn call_block(encoder: &mut BlockEncoder<'_>, item: &UnifiedItem, call: &ToolCallItem, kind: &str, place: Place<'_>) -> Json {
    let is_function = kind == "tool_use";
    // A toolset of the wire is no namespace of functions.
    let toolset = call.namespace.as_ref().filter(|namespace| {
        let is_of_wire = is_native(item.base.provenance.profile.as_ref()) && call.tool_type != UnifiedToolType::Custom;
        is_function && is_of_wire && !encoder.names.has_namespace(namespace)
    });
    let namespace = call.namespace.as_deref().filter(|_| is_function && toolset.is_none());
    let name = if is_function {
        encoder.names.wire(namespace, &call.name).into_owned()
    } else {
        crate::tool_name::wire(None, &call.name, encoder.context.capabilities.knobs().max_tool_name_length).into_owned()
    };
    if name != call.name {
        let reason = "the call has the name that its tool has at the target";
        encoder.lost(Warning, Feature::ToolName, place, reason);
    }
    typed(
        kind,
        [
            ("id", Some(json(&call.call_id))),
            ("name", Some(json(&name))),
            ("server_name", call.server_label.as_ref().map(json)),
            ("input", Some(input_object(encoder, call, place))),
            ("caller", call.caller.as_ref().map(caller)),
            ("toolset_name", toolset.map(json)),
        ],
    )
}

/// The caller as the wire says it.
pub(super) fn caller(caller: &CallerRef) -> Json {
    match caller.kind {
        Caller::Model => typed("direct", []),
        _ => typed(super::DEFAULT_CODE_CALLER, [("tool_id", caller.call_id.as_ref().map(json))]),
    }
}

/// Arguments as the object that the wire demands.
fn input_object(encoder: &mut BlockEncoder<'_>, call: &ToolCallItem, place: Place<'_>) -> Json {
    let (arguments, wrapped) = call_arguments::object_of(call);
    if let Some((feature, reason)) = wrapped {
        encoder.lost(Warning, feature, place, reason);
    }
    arguments
}

/// A result block without its call ID, and its content as blocks.
pub(super) fn result_block(
    encoder: &mut BlockEncoder<'_>,
    output: &[UnifiedContentPart],
    is_error: Option<bool>,
    path: &str,
    item: &UnifiedId,
) -> (Json, Vec<Json>) {
    let mut inner = Vec::new();
    let mut plain = None;
    for (n, part) in output.iter().enumerate() {
        let path = format!("{path}/output/{n}");
        let place = Place { path: &path, item };
        if let PartBody::Text(said) = &part.body
            && output.len() == 1
            && said.annotations.is_none()
            && part.base.provider_data.is_none()
        {
            // One text is sent as a string, which may be empty too.
            plain = Some(json(&said.text));
        }
        if part.as_text().is_some_and(|t| t.trim().is_empty()) {
            if plain.is_none() {
                encoder.lost(Info, Feature::ConversationMessageEmpty, place, "a blank text is left out");
            }
            continue;
        }
        inner.extend(encoder.part(part, place));
    }
    let content = plain.or_else(|| (!inner.is_empty()).then(|| json(&inner)));
    let block = typed(
        "tool_result",
        [
            ("tool_use_id", Some(json(""))),
            ("content", content),
            ("is_error", is_error.map(|e| json(&e))),
        ],
    );
    (block, inner)
}
