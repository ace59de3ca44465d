//! [`UnifiedRequestV2`] as a request of the wire.

use super::encode_block::{BlockEncoder, Place, is_native, typed};
use super::encode_history::{self, Kind, Mark, Marks};
use super::encode_parameters::{Parameters, ThinkingKind};
use super::encode_turns::{self, MarkSlot, Turn};
use super::kept;
use super::{AnthropicMessages, encode_tools};
use crate::codec::{Codec as _, Encoded};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::history::WireHistory;
use crate::raw::{self};
use crate::raw::{json, object};
use crate::side;
use std::collections::BTreeSet;
use throughline_format::cache::CacheMode;
use throughline_format::item::newest_instructions;
use throughline_format::resource::UnmappedEntry;
use throughline_format::{Json, PartBody, UnifiedItem, UnifiedItemBody, UnifiedRequestV2};

/// Writes a request body.
pub(super) fn encode(request: &UnifiedRequestV2, context: &EncodeContext) -> Encoded {
    let mut encoder = BlockEncoder::new(context, AnthropicMessages.profile(), &request.tools);
    encoder.loss.report_intents_without_store(request, &context.capabilities);
    let root = context
        .private
        .root_payload(&side::unmapped_schema(&encoder.profile))
        .map(|bytes| raw::entries(&bytes))
        .unwrap_or_default();
    let native = is_native(Some(&request.source.profile));
    let model = context.target_model.clone().unwrap_or_else(|| request.model.requested.clone());

    if let Some(persist) = request
        .state
        .as_ref()
        .and_then(|state| state.persist.as_ref())
        .filter(|persist| persist.value)
    {
        encoder.loss.intent(
            persist.requirement,
            Feature::StatePersist,
            "/state/persist",
            "the target stores no answers",
        );
    } else if request.state.as_ref().is_some_and(|state| state.persist.is_some()) {
        encoder.remark("/state/persist", "the target stores no answers");
    }

    let marks = Marks::of(request.cache.as_ref());
    let cache = request.cache.as_ref();
    encoder
        .loss
        .cache_lives(cache, |ttl| if encode_turns::is_long(ttl) { 3_600 } else { 300 });
    let mut system = system(&mut encoder, &request.conversation.items, &marks);
    let atoms = encode_history::atoms(&mut encoder, &request.conversation.items, &marks);
    let mut turns = encode_turns::turns(&mut encoder, atoms);

    let mut tools = encode_tools::tools(&mut encoder, request);
    let mut choice = encode_tools::choice(&mut encoder, request, &tools);
    // Calls are refused without tools, whether none were offered or none of them has a form here.
    if tools.is_empty() && !native {
        tools = encode_tools::historic(&mut encoder, called(&turns));
        if !tools.is_empty() {
            choice = Some(typed("none", []));
        }
    }
    let mut parameters = Parameters {
        encoder: &mut encoder,
        request,
        native,
        prewarms: root.iter().any(|entry| entry.pointer == "/max_tokens"),
        thinking: None,
    };
    let mut members = parameters.write(&turns, choice.as_ref());
    let thinking_on = parameters.thinking == Some(ThinkingKind::Enabled);
    let refused = thinking_on || super::capabilities::refuses_prefill(&model) || !can_prefill(context);
    if thinking_dropped(request, thinking_on) {
        encode_turns::drop_thinking(&mut encoder, &mut turns);
    }
    encode_turns::finish_prefill(&mut encoder, &mut turns, refused);

    encode_turns::agree_on_citations(&mut encoder, &mut turns, has_format(&members));

    // Another protocol's automatic caching needs no mark where the client set its own.
    let marked = request
        .cache
        .as_ref()
        .is_some_and(|c| c.breakpoints.as_ref().is_some_and(|b| !b.is_empty()));
    let automatic = request.cache.as_ref().is_some_and(|c| c.mode == CacheMode::Automatic) && (native || !marked);
    let mut slots = Vec::new();
    for tool in &mut tools {
        slots.push(MarkSlot {
            mark: &mut tool.mark,
            allowed: tool.markable,
            path: format!("{}/cache", tool.path),
        });
    }
    for block in &mut system {
        slots.push(MarkSlot {
            mark: &mut block.mark,
            allowed: true,
            path: block.path.clone(),
        });
    }
    for atom in turns.iter_mut().flat_map(|turn| &mut turn.atoms) {
        slots.push(MarkSlot {
            allowed: atom.kind != Kind::Thinking,
            path: atom.path.clone(),
            mark: &mut atom.mark,
        });
    }
    encode_turns::limit_marks(&mut encoder, slots, automatic);

    if model == crate::UNSPECIFIED_MODEL {
        encoder.remark(
            "/model/requested",
            "the request names no model; the target gets its model from the route",
        );
    }
    cache_mode(&mut encoder, request, automatic);
    let mut body = Vec::new();
    if model != crate::UNSPECIFIED_MODEL || !root.iter().any(|entry| entry.pointer == "/anthropic_version") {
        body.push(("model".to_owned(), json(&model)));
    }
    body.append(&mut members);
    if !tools.is_empty() || (native && root.iter().any(|e| e.pointer == "/tools")) {
        let list: Vec<_> = tools.into_iter().map(|tool| encode_turns::marked(tool.json, tool.mark)).collect();
        body.push(("tools".into(), json(&list)));
    }
    body.append(&mut encoder.state(request, native));
    body.extend(choice.map(|choice| ("tool_choice".to_owned(), choice)));
    if let Some(system) = system_json(system) {
        body.push(("system".into(), system));
    }
    body.push(("messages".into(), encode_turns::to_json(turns)));
    if automatic {
        body.push(("cache_control".into(), encode_turns::control(None)));
    }
    let body = with_root(object(body), &root);
    Encoded {
        body: body.as_str().to_owned(),
        loss: encoder.loss.finish(),
    }
}

/// The messages of the history as blocks, without cache marks.
pub(super) fn history(request: &UnifiedRequestV2, context: &EncodeContext) -> WireHistory {
    let mut encoder = BlockEncoder::new(context, AnthropicMessages.profile(), &request.tools);
    let atoms = encode_history::atoms(&mut encoder, &request.conversation.items, &Marks::of(None));
    let mut turns = encode_turns::turns(&mut encoder, atoms);
    encode_turns::agree_on_citations(&mut encoder, &mut turns, false);
    WireHistory {
        pieces: encode_turns::pieces(turns),
        loss: encoder.loss.finish(),
    }
}

/// Whether the answer has a form of its own.
fn has_format(members: &[(String, Json)]) -> bool {
    let config = members.iter().find(|(key, _)| key == "output_config");
    config.is_some_and(|(_, config)| {
        config
            .decode::<super::wire::OutputConfig>()
            .is_ok_and(|config| config.format.is_some())
    })
}

/// Tells how the mode of the cache intent is said.
fn cache_mode(encoder: &mut BlockEncoder<'_>, request: &UnifiedRequestV2, automatic: bool) {
    let Some(cache) = &request.cache else { return };
    let path = "/cache/mode";
    match cache.mode {
        CacheMode::Automatic if automatic => encoder.remark(path, "said by a mark of the whole body"),
        CacheMode::Automatic => encoder
            .loss
            .info(Feature::CacheMode, path, "the client's own marks stand in place of automatic ones"),
        CacheMode::Explicit => encoder.remark(path, "said by the marks"),
        CacheMode::Disabled => encoder.remark(path, "nothing is cached without a mark"),
    }
}

/// Puts the fields of the whole body back. The older spelling of the answer's form takes the place of the newer.
fn with_root(body: Json, root: &[UnmappedEntry]) -> Json {
    let body = if root.iter().any(|entry| entry.pointer == "/output_format") {
        without_format(&body)
    } else {
        body
    };
    // A refinement of something that was left out must not bring it back.
    let present = |pointer: &str| {
        let refines = [
            "/thinking/",
            "/tool_choice/",
            "/cache_control/",
            "/container/",
            "/context_management/",
            "/fallbacks/",
            "/thread/",
        ]
        .iter()
        .any(|head| pointer.starts_with(head));
        if pointer == "/stream" || refines {
            refines == has(&body, pointer)
        } else {
            true
        }
    };
    let entries: Vec<_> = root.iter().filter(|entry| present(&entry.pointer)).cloned().collect();
    raw::put_all(body, &entries)
}

/// Whether the first member of the pointer is there.
fn has(body: &Json, pointer: &str) -> bool {
    let head = pointer.split('/').nth(1).unwrap_or_default();
    body.decode::<super::wire::Members>()
        .is_ok_and(|m| m.extra.0.iter().any(|(key, _)| key == head))
}

/// The body without `output_config.format`.
fn without_format(body: &Json) -> Json {
    let Ok(mut members) = body.decode::<super::wire::Members>() else {
        return body.clone();
    };
    members.extra.0.retain_mut(|(key, value)| {
        if key != "output_config" {
            return true;
        }
        let Ok(mut config) = value.decode::<super::wire::Members>() else {
            return true;
        };
        config.extra.take("format");
        *value = json(&config);
        !config.extra.is_empty()
    });
    json(&members)
}

/// One block of the instructions.
struct SystemBlock {
    json: Json,
    mark: Option<Mark>,
    path: String,
}

/// The newest contiguous run of instructions.
fn system(encoder: &mut BlockEncoder<'_>, items: &[UnifiedItem], marks: &Marks) -> Vec<SystemBlock> {
    let newest = newest_instructions(items);
    let mut blocks = Vec::new();
    for (index, item) in items.iter().enumerate().take(newest.end).skip(newest.start) {
        let UnifiedItemBody::Message(message) = &item.body else { continue };
        let first = blocks.len();
        if let Some(raw) = kept::json_of(item.base.provider_data.as_ref(), kept::BLOCK, encoder.context) {
            blocks.push(SystemBlock {
                json: raw,
                mark: None,
                path: format!("/conversation/items/{index}"),
            });
        }
        for (n, part) in message.parts.iter().enumerate() {
            let path = format!("/conversation/items/{index}/parts/{n}");
            let place = Place {
                path: &path,
                item: &item.id,
            };
            if part.as_text().is_some_and(|t| t.trim().is_empty()) {
                encoder.lost(
                    throughline_format::LossSeverity::Info,
                    Feature::ConversationMessageEmpty,
                    place,
                    "a blank text is left out",
                );
                continue;
            }
            if !matches!(part.body, PartBody::Text(_) | PartBody::Json(_) | PartBody::Refusal(_)) {
                encoder.lost(
                    throughline_format::LossSeverity::Warning,
                    Feature::PartFile,
                    place,
                    "instructions are text",
                );
                continue;
            }
            if let Some(json) = encoder.part(part, place) {
                blocks.push(SystemBlock {
                    json,
                    mark: marks.part(item, part),
                    path,
                });
            }
        }
        if let Some(block) = blocks.get_mut(first..).and_then(<[SystemBlock]>::last_mut) {
            block.mark = block.mark.or(marks.item(item));
        }
    }
    blocks
}

/// Instructions as a string where one plain text says it all, else as blocks.
fn system_json(blocks: Vec<SystemBlock>) -> Option<Json> {
    if let [only] = blocks.as_slice()
        && only.mark.is_none()
        && let Ok(text) = only.json.decode::<super::wire::TextBlock>()
        && text.extra.0.iter().all(|(key, _)| key == "type")
        && text.citations.is_none()
    {
        return Some(json(&text.text));
    }
    let list: Vec<_> = blocks
        .into_iter()
        .map(|block| encode_turns::marked(block.json, block.mark))
        .collect();
    (!list.is_empty()).then(|| json(&list))
}

/// Names of the client tools that the history calls.
fn called(turns: &[Turn]) -> BTreeSet<String> {
    let calls = turns
        .iter()
        .flat_map(|turn| &turn.atoms)
        .filter(|atom| matches!(atom.kind, Kind::Call(_)));
    calls
        .filter_map(|atom| atom.json.decode::<super::wire::ToolUseBlock>().ok())
        .map(|block| block.name)
        .collect()
}

fn can_prefill(context: &EncodeContext) -> bool {
    !matches!(
        context.capabilities.support(Feature::GenerationPrefill),
        crate::capability::Support::Unsupported(_)
    )
}

/// Whether thinking was asked for and is not sent.
fn thinking_dropped(request: &UnifiedRequestV2, on: bool) -> bool {
    !on && request.generation.reasoning.as_ref().is_some_and(|r| r.budget_tokens.is_some())
}
