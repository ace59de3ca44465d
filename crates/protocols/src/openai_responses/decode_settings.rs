//! What stands beside the input: generation, output, state, cache, metadata. What has no word is found by writing it back.

use super::kept::{self, Form, Keeper};
use super::wire::Node;
use super::{decode_tools, encode_settings};
use crate::keeper::Keep;
use std::collections::BTreeMap;
use throughline_format::cache::{CacheMode, UnifiedCacheIntent};
use throughline_format::conversation::Completeness;
use throughline_format::intent::{
    GrammarFormat, GrammarSyntax, Include, JsonSchemaFormat, LogprobsIntent, Nothing, OutputFormat, ParallelTools, ReasoningEffort,
    ReasoningIntent, ReasoningSummary, ServiceTier, Verbosity,
};
use throughline_format::json::UserMap;
use throughline_format::metadata::UnifiedSemanticMetadata;
use throughline_format::request::{BackgroundIntent, ContextEdit, ContextEditKind, UnifiedStateInput};
use throughline_format::resource::ResourceType;
use throughline_format::{Count, UnifiedGenerationIntent, UnifiedIntent, UnifiedOutputIntent, UnifiedRequestV2, UnifiedRequirement};

/// Members that the items, the tools or the transport stand for.
pub(super) const ELSEWHERE: &[&str] = &["input", "instructions", "model", "stream", "tools"];

/// Members that the record says in other words.
const SPELLED: &[&str] = &["background", "include", "parallel_tool_calls", "store", "truncation"];

/// Numbers of the root's own resources.
const PREVIOUS: Count = 4;
const CONVERSATION: Count = 5;
const PROMPT: Count = 6;

/// Words of `include`.
pub(super) const INCLUDES: &[(&str, Include)] = &[
    ("file_search_call.results", Include::FileSearchResults),
    ("web_search_call.results", Include::SearchResults),
    ("web_search_call.action.sources", Include::SearchSources),
    ("message.input_image.image_url", Include::InputImageUrls),
    ("computer_call_output.output.image_url", Include::ComputerScreenshots),
    ("code_interpreter_call.outputs", Include::CodeOutputs),
    ("reasoning.encrypted_content", Include::ReasoningPrivateState),
    ("message.output_text.logprobs", Include::OutputLogprobs),
];

#[allow(clippy::unnecessary_wraps)] // what members of the record are made of
fn preferred<T>(value: T) -> Option<UnifiedIntent<T>> {
    Some(UnifiedIntent::preferred(value))
}

fn optional<T>(value: T) -> UnifiedIntent<T> {
    UnifiedIntent::new(value, UnifiedRequirement::Optional)
}

/// Completes the request; `is_text` tells that the input was one string.
pub(super) fn settings(keeper: &mut Keeper, root: &Node, mut request: UnifiedRequestV2, is_text: bool) -> UnifiedRequestV2 {
    request.generation = generation(root);
    request.output = output(root);
    request.tools = decode_tools::tools(keeper, root.list("tools"), "/tools");
    request.tool_choice = root.get("tool_choice").and_then(decode_tools::choice);
    request.metadata = metadata(root);
    request.cache = cache(keeper, root);
    request.state = state(keeper, root);
    continuations(keeper, root, &mut request);
    let just = kept::Just(&keeper.resources);
    let written = encode_settings::plain(&request, &AsRoot(just));
    let mut rest = root.clone();
    for key in ELSEWHERE {
        rest.take(key);
    }
    let spelled = SPELLED.iter().filter_map(|key| Some((format!("/{key}"), rest.get(key)?.to_json())));
    let form = Form {
        text: is_text,
        spelled: spelled.collect(),
        ..Form::default()
    };
    let mut difference = rest.difference(&written);
    // What is empty or switched off is said by saying nothing.
    for (key, is_void) in [
        (
            "input",
            root.get("input")
                .is_some_and(|input| input.as_list().is_some_and(<[Node]>::is_empty)),
        ),
        (
            "tools",
            root.get("tools")
                .is_some_and(|tools| tools.as_list().is_some_and(<[Node]>::is_empty)),
        ),
        ("stream", root.value("stream") == Some(false)),
    ] {
        if let Some(value) = root.get(key).filter(|_| is_void) {
            difference.set.push((format!("/{key}"), value.to_json()));
        }
    }
    keeper.difference(None, kept::number::UNMAPPED, "", difference, form, |_| true);
    request
}

/// Resources that were just made, the root's by schema too.
struct AsRoot<'a>(kept::Just<'a>);

impl crate::PrivateState for AsRoot<'_> {
    fn payload(&self, resource_id: &throughline_format::UnifiedId) -> Option<bytes::Bytes> {
        self.0.payload(resource_id)
    }

    fn root_payload(&self, schema: &str) -> Option<bytes::Bytes> {
        let found = self.0.0.iter().rev().find(|r| r.subject.is_none() && r.schema == schema)?;
        Some(bytes::Bytes::from(found.payload.clone()))
    }
}

fn generation(root: &Node) -> UnifiedGenerationIntent {
    let mut g = UnifiedGenerationIntent {
        max_output_tokens: root.value("max_output_tokens").and_then(preferred),
        temperature: root.value("temperature").and_then(preferred),
        top_p: root.value("top_p").and_then(preferred),
        max_tool_calls: root.value("max_tool_calls").and_then(preferred),
        ..UnifiedGenerationIntent::default()
    };
    if let Some(top) = root.value::<Count>("top_logprobs") {
        g.logprobs = preferred(LogprobsIntent {
            enabled: true,
            top: Some(top),
        });
    }
    if let Some(parallel) = root.value::<bool>("parallel_tool_calls") {
        g.parallel_tools = preferred(if parallel {
            ParallelTools::Allow
        } else {
            ParallelTools::OneAtATime
        });
    }
    if let Some(tier) = root.str("service_tier") {
        g.service_tier = preferred(match tier.as_str() {
            "default" => ServiceTier::Standard,
            other => ServiceTier::from_word(other),
        });
    }
    if let Some(reasoning) = root.get("reasoning") {
        let summary = reasoning.str("summary").or_else(|| reasoning.str("generate_summary"));
        let intent = ReasoningIntent {
            effort: reasoning
                .str("effort")
                .and_then(|word| preferred(ReasoningEffort::from_word(&word))),
            summary: summary.as_deref().and_then(ReasoningSummary::from_word).and_then(preferred),
            ..ReasoningIntent::default()
        };
        g.reasoning = (intent != ReasoningIntent::default()).then_some(intent);
    }
    g
}

fn output(root: &Node) -> Option<UnifiedOutputIntent> {
    let text = root.get("text");
    let mut output = UnifiedOutputIntent {
        format: text.and_then(|text| text.get("format")).and_then(format).and_then(preferred),
        verbosity: text
            .and_then(|text| text.str("verbosity"))
            .map(|word| optional(Verbosity::from_word(&word))),
        includes: None,
    };
    if root.get("include").is_some() {
        let word = |node: &Node| {
            let word = node.as_text()?;
            INCLUDES
                .iter()
                .find(|(known, _)| *known == word)
                .map(|(_, include)| include.clone())
        };
        output.includes = Some(optional(root.list("include").iter().filter_map(word).collect()));
    }
    (output != UnifiedOutputIntent::default()).then_some(output)
}

fn format(format: &Node) -> Option<OutputFormat> {
    Some(match format.kind().as_str() {
        "text" => OutputFormat::Text(Nothing {}),
        "json_object" => OutputFormat::JsonObject(Nothing {}),
        "json_schema" => OutputFormat::JsonSchema(JsonSchemaFormat {
            schema: format.get("schema")?.to_json(),
            name: format.str("name"),
            description: format.str("description"),
            strict: format.value("strict"),
        }),
        "grammar" => OutputFormat::Grammar(GrammarFormat {
            syntax: GrammarSyntax::from_word(&format.str("syntax").unwrap_or_else(|| "lark".into())),
            definition: format.str("definition").or_else(|| format.str("grammar"))?,
        }),
        _ => return None,
    })
}

fn metadata(root: &Node) -> Option<UnifiedSemanticMetadata> {
    let metadata = UnifiedSemanticMetadata {
        labels: root.value::<BTreeMap<String, String>>("metadata").map(UserMap),
        end_user_ref: root.str("user"),
    };
    (metadata.labels.is_some() || metadata.end_user_ref.is_some()).then_some(metadata)
}

fn cache(keeper: &Keeper, root: &Node) -> Option<UnifiedCacheIntent> {
    let options = root.get("prompt_cache_options");
    let mode = match options.and_then(|options| options.str("mode")).as_deref() {
        Some("explicit") => Some(CacheMode::Explicit),
        Some("implicit") => Some(CacheMode::Automatic),
        _ => None,
    };
    let affinity_key = root.str("prompt_cache_key");
    let breakpoints = keeper.own.clone();
    if mode.is_none() && affinity_key.is_none() && breakpoints.is_empty() {
        return None;
    }
    Some(UnifiedCacheIntent {
        mode: mode.unwrap_or(CacheMode::Automatic),
        affinity_key,
        breakpoints: (!breakpoints.is_empty()).then_some(breakpoints),
        retention: None,
    })
}

fn state(keeper: &mut Keeper, root: &Node) -> Option<UnifiedStateInput> {
    let mut state = UnifiedStateInput {
        // Not to store is a statement on privacy: whoever makes it depends on it. To store is the wire's default.
        persist: root.value("store").map(|store| {
            let requirement = if store {
                UnifiedRequirement::Preferred
            } else {
                UnifiedRequirement::Required
            };
            UnifiedIntent::new(store, requirement)
        }),
        ..UnifiedStateInput::default()
    };
    if root.value("background") == Some(true) {
        let window = root.at(&["background_options", "completion_window"]).and_then(Node::as_text);
        state.background = preferred(BackgroundIntent {
            completion_window: window,
            webhook_ref: None,
        });
    }
    let mut edits = Vec::new();
    for edit in root.list("context_management").iter().filter(|edit| edit.kind() == "compaction") {
        edits.push(ContextEdit {
            kind: ContextEditKind::Compact,
            trigger_tokens: edit.value("compact_threshold"),
            keep: None,
        });
    }
    if root.str("truncation").as_deref() == Some("auto") {
        edits.push(ContextEdit {
            kind: ContextEditKind::Truncate,
            trigger_tokens: None,
            keep: None,
        });
    }
    if !edits.is_empty() {
        state.context_management = preferred(edits);
    }
    if let Some(prompt) = root.get("prompt") {
        let kind = ResourceType::Other("prompt".into());
        let resource = keeper.context.operation_id.resource(PROMPT);
        keeper.payload(
            Keep {
                schema: kept::PROMPT,
                resource_type: kind.clone(),
                subject: None,
                resource_id: resource.clone(),
                paths: vec!["/prompt".into()],
            },
            prompt.to_text(),
        );
        state.resources = Some(vec![keeper.reference(resource, kind)]);
    }
    (state != UnifiedStateInput::default()).then_some(state)
}

fn continuations(keeper: &mut Keeper, root: &Node, request: &mut UnifiedRequestV2) {
    let mut found = Vec::new();
    if let Some(id) = root.str("previous_response_id") {
        let resource = keeper.context.operation_id.resource(PREVIOUS);
        let path = "/previous_response_id".to_owned();
        keeper.payload(
            Keep {
                schema: kept::PREVIOUS,
                resource_type: ResourceType::Response,
                subject: None,
                resource_id: resource.clone(),
                paths: vec![path],
            },
            id,
        );
        found.push(keeper.reference(resource, ResourceType::Response));
    }
    if let Some(conversation) = root.get("conversation") {
        let resource = keeper.context.operation_id.resource(CONVERSATION);
        let path = "/conversation".to_owned();
        keeper.payload(
            Keep {
                schema: kept::CONVERSATION,
                resource_type: ResourceType::Conversation,
                subject: None,
                resource_id: resource.clone(),
                paths: vec![path],
            },
            conversation.to_text(),
        );
        // Whether it is an ID or an object around one is for the owner; the members of the object stand in the payload.
        if let Some(last) = keeper.resources.last_mut().filter(|_| conversation.is_object()) {
            last.wire_paths.push("/conversation/id".into());
        }
        found.push(keeper.reference(resource, ResourceType::Conversation));
    }
    if !found.is_empty() {
        request.conversation.completeness = Completeness::ReferenceOnly;
        request.conversation.continuations = Some(found);
    }
}
