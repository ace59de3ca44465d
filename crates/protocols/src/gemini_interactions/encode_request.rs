//! [`UnifiedRequestV2`] as a create request of the wire.

use super::encode_step::{Place, StepEncoder, typed, user_text, wire_name};
use super::encode_tools;
use super::kept;
use super::pairs::Pairs;
use crate::call_arguments::NO_RESULT;
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::keeper::to_json;
use crate::raw::{self, json, number, object, put, put_all};
use crate::side;
use crate::tool_name::namespace_of;
use std::collections::BTreeSet;
use throughline_format::intent::{
    OutputFormat, ParallelTools, ReasoningEffort, ReasoningIntent, ReasoningMode, ReasoningSummary, ServiceTier,
};
use throughline_format::item::newest_instructions;
use throughline_format::loss::LossSeverity::{Info, Warning};
use throughline_format::resource::ResourceType;
use throughline_format::tool::{AllowedMode, ToolChoiceKind};
use throughline_format::{Json, UnifiedItem, UnifiedItemBody, UnifiedRequestV2};

/// What stands where the wire demands input and the history has none.
const PLACEHOLDER: &str = "Continue.";

/// Writes a request body.
pub(super) fn encode(request: &UnifiedRequestV2, context: &EncodeContext) -> Encoded {
    let mut encoder = StepEncoder::new(context);
    encoder.loss.report_intents(request, &context.capabilities);
    let native = encoder.is_native(Some(&request.source.profile));
    let root = |schema: &str| context.private.root_payload(schema).filter(|_| native);
    let fields = root(&side::unmapped_schema(&encoder.profile))
        .map(|b| raw::entries(&b))
        .unwrap_or_default();
    let form = root(kept::BODY).as_ref().and_then(to_json).unwrap_or_else(|| object(Vec::new()));
    let model = context.target_model.clone().unwrap_or_else(|| request.model.requested.clone());
    let mut body = Vec::new();
    let agent = raw::get(&form, "agent").is_some();
    body.push(((if agent { "agent" } else { "model" }).to_owned(), json(&model)));
    body.extend(system(&mut encoder, &request.conversation.items).map(|s| ("system_instruction".to_owned(), json(&s))));
    let continuation = |kind: ResourceType| {
        let list = request.conversation.continuations.iter().flatten();
        let found = list.into_iter().find(|r| r.resource_type == kind)?;
        let handle = context.private.payload(&found.resource_id)?;
        String::from_utf8(handle.to_vec()).ok()
    };
    let previous = continuation(ResourceType::Interaction);
    let token = continuation(ResourceType::Response);
    for (n, resource) in request.conversation.continuations.iter().flatten().enumerate() {
        let path = format!("/conversation/continuations/{n}");
        let known = matches!(resource.resource_type, ResourceType::Interaction | ResourceType::Response);
        if known && context.private.payload(&resource.resource_id).is_some() {
            encoder
                .loss
                .remark(Feature::RecordBookkeeping, path, "sent as the provider's own handle");
        } else {
            let reason = "the target cannot go on from another owner's state";
            encoder.loss.held_elsewhere(&request.conversation, path, reason);
        }
    }
    if request.conversation.missing.is_some() && previous.is_none() {
        encoder.loss.held_elsewhere(
            &request.conversation,
            "/conversation/missing",
            "a part of the history that another provider holds",
        );
    } else if request.conversation.missing.is_some() {
        let reason = "what the provider holds is named by its handle";
        encoder.loss.remark(Feature::RecordBookkeeping, "/conversation/missing", reason);
    }
    let steps = steps(&mut encoder, &request.conversation.items, previous.is_some());
    let goes_on = previous.is_some() || token.is_some();
    if steps.is_empty() && !goes_on {
        let reason = "the target demands input; a placeholder stands there";
        encoder
            .loss
            .warning(Feature::ConversationMessageBoundary, "/conversation/items", reason);
    }
    body.extend(input(steps, &form, goes_on).map(|i| ("input".to_owned(), i)));
    let persist = request.state.as_ref().and_then(|s| s.persist.as_ref());
    // A stored parent goes only with a stored child.
    let stored = persist.is_none_or(|p| p.value);
    if let Some(previous) = previous {
        if stored {
            body.push(("previous_interaction_id".into(), json(&previous)));
        } else {
            let reason = "an interaction that is not kept cannot go on from another one";
            encoder
                .loss
                .held_elsewhere(&request.conversation, "/conversation/continuations", reason);
        }
    }
    body.extend(token.map(|t| ("continuation_token".to_owned(), json(&t))));
    let tools = encode_tools::tools(&mut encoder, request, native);
    if !tools.is_empty() {
        let list: Vec<_> = tools.iter().map(|(json, _)| json.clone()).collect();
        body.push(("tools".into(), json(&list)));
    }
    let names: BTreeSet<String> = tools.into_iter().filter_map(|(_, name)| name).collect();
    body.extend(generation(&mut encoder, request, native, &names).map(|g| ("generation_config".to_owned(), g)));
    body.extend(format(&mut encoder, request, &form).map(|f| ("response_format".to_owned(), f)));
    if context.stream {
        body.push(("stream".into(), json(&true)));
    }
    if let Some(background) = request.state.as_ref().and_then(|s| s.background.as_ref()) {
        if stored {
            encoder
                .loss
                .remark(Feature::WireSpelling, "/state/background", "said by the flag of the wire");
            encoder.loss.webhook(background);
            if background.value.completion_window.is_some() {
                let (path, reason) = ("/state/background/value/completionWindow", "the target takes no time to be done by");
                encoder.loss.intent(background.requirement, Feature::StateBackground, path, reason);
            }
            body.push(("background".into(), json(&true)));
        } else {
            let reason = "what is not kept cannot run in the background";
            encoder
                .loss
                .intent(background.requirement, Feature::StateBackground, "/state/background", reason);
        }
    }
    if let Some(persist) = persist {
        encoder.loss.remark(Feature::WireSpelling, "/state/persist", "said by `store`");
        body.push(("store".into(), json(&persist.value)));
    }
    body.extend(tier(&mut encoder, request, native).map(|t| ("service_tier".to_owned(), t)));
    body.extend(safety(&mut encoder, request, native).map(|s| ("safety_settings".to_owned(), s)));
    body.extend(labels(&mut encoder, request, native).map(|l| ("labels".to_owned(), l)));
    let mut body = put_all(object(body), &fields);
    for key in ["stream", "background", "generation_config"] {
        if let Some(value) = raw::get(&form, key).filter(|_| raw::get(&body, key).is_none()) {
            body = put(&body, &format!("/{key}"), &value);
        }
    }
    Encoded {
        body: body.as_str().to_owned(),
        loss: encoder.loss.finish(),
    }
}

/// The newest run of instructions as one text.
fn system(encoder: &mut StepEncoder<'_>, items: &[UnifiedItem]) -> Option<String> {
    let newest = newest_instructions(items);
    let mut texts = Vec::new();
    for (index, item) in items.iter().enumerate().take(newest.end).skip(newest.start) {
        if item.role == Some(throughline_format::item::Role::Developer) {
            let path = format!("/conversation/items/{index}");
            encoder.loss.info(
                Feature::ConversationSystemRole,
                path,
                "the target does not tell developer from system",
            );
        }
        for (n, part) in item.parts().iter().enumerate() {
            let path = format!("/conversation/items/{index}/parts/{n}");
            match &part.body {
                throughline_format::PartBody::Json(inner) => texts.push(inner.value.as_str().to_owned()),
                _ => match part.as_text() {
                    Some(text) => texts.push(text.to_owned()),
                    None => encoder.loss.warning(Feature::PartFile, path, "instructions are text"),
                },
            }
        }
    }
    if texts.len() > 1 {
        encoder.loss.info(
            Feature::ConversationMessageBoundary,
            "/conversation/items",
            "instructions are one text; several are joined",
        );
    }
    (!texts.is_empty()).then(|| texts.join("\n\n"))
}

/// The history as steps: every call answered behind it, every result with its call.
fn steps(encoder: &mut StepEncoder<'_>, items: &[UnifiedItem], goes_on: bool) -> Vec<Json> {
    let mut made: Vec<(Option<Json>, usize)> = Vec::new();
    let Pairs {
        answered,
        unanswered,
        renamed,
        called,
    } = Pairs::of(items);
    let covered = crate::compacted::covered(items);
    let is_sent = |(index, item): &(usize, &UnifiedItem)| !item.is_instructions() && !covered.contains(index);
    for (index, item) in items.iter().enumerate().filter(is_sent) {
        let path = format!("/conversation/items/{index}");
        let place = Place {
            path: &path,
            item: &item.id,
        };
        let new_id = renamed.get(&index);
        let is_result = matches!(item.body, UnifiedItemBody::ToolResult(_));
        // A call that the provider holds is answered without standing here.
        if is_result && !answered.contains(&index) && !goes_on {
            encoder.lost(
                Warning,
                Feature::ConversationOrder,
                place,
                "a result without its call is told as text",
            );
            let step = encoder.item(item, &path);
            let said = step
                .and_then(|s| raw::get(&s, "result"))
                .map(|r| r.decode().unwrap_or_else(|_| r.as_str().to_owned()));
            let said: String = said.unwrap_or_default();
            made.push((Some(user_text(&format!("Result of an earlier tool call: {said}"))), index));
            continue;
        }
        let mut step = encoder.item(item, &path);
        if let (Some(id), Some(given)) = (new_id, &step) {
            encoder.lost(Info, Feature::ToolCallId, place, "another call of the request has this ID");
            step = Some(put(given, if is_result { "/call_id" } else { "/id" }, &json(id)));
        }
        if let (Some(name), Some(given)) = (called.get(&index), &step)
            && raw::get(given, "name").is_some()
        {
            step = Some(put(given, "/name", &json(name)));
        }
        made.push((step, index));
        if unanswered.contains(&index) {
            encoder.lost(
                Warning,
                Feature::ConversationInterruption,
                place,
                "the call has no result; a stand-in says so",
            );
            let given = made.last().and_then(|(s, _)| s.clone()).unwrap_or_else(Json::null);
            let stand_in = typed(
                "function_result",
                vec![
                    ("call_id", raw::get(&given, "id")),
                    ("name", raw::get(&given, "name")),
                    ("result", Some(json(NO_RESULT))),
                    ("is_error", Some(json(&true))),
                ],
            );
            made.push((Some(stand_in), index));
        }
    }
    made.into_iter().filter_map(|(step, _)| step).collect()
}

/// The input in the form that the client used, else as steps.
fn input(steps: Vec<Json>, form: &Json, goes_on: bool) -> Option<Json> {
    if steps.is_empty() {
        return (!goes_on).then(|| json(PLACEHOLDER));
    }
    let word = raw::get(form, "input").and_then(|w| w.decode::<String>().ok());
    if let ([only], Some(word)) = (steps.as_slice(), word) {
        let contents: Vec<Json> = raw::get(only, "content").and_then(|c| c.decode().ok()).unwrap_or_default();
        match (word.as_str(), contents.as_slice()) {
            ("step", _) => return Some(only.clone()),
            ("contents", list) => return Some(json(list)),
            ("content", [content]) => return Some(content.clone()),
            ("text", [content]) => {
                if let Some(text) = raw::get(content, "text") {
                    return Some(text);
                }
            }
            _ => {}
        }
    }
    Some(json(&steps))
}

fn generation(encoder: &mut StepEncoder<'_>, request: &UnifiedRequestV2, native: bool, names: &BTreeSet<String>) -> Option<Json> {
    let g = &request.generation;
    let mut members = Vec::new();
    members.extend(
        g.max_output_tokens
            .as_ref()
            .map(|i| ("max_output_tokens".to_owned(), json(&i.value))),
    );
    if let Some(intent) = &g.seed {
        match intent.value.to_i64() {
            Some(seed) if native || i32::try_from(seed).is_ok() => members.push(("seed".into(), json(&seed))),
            _ => encoder.loss.intent(
                intent.requirement,
                Feature::GenerationSeed,
                "/generation/seed",
                "the target's seeds have 32 bits",
            ),
        }
    }
    members.extend(g.stop_sequences.as_ref().map(|i| ("stop_sequences".to_owned(), json(&i.value))));
    for (key, intent, feature, path) in [
        (
            "temperature",
            &g.temperature,
            Feature::GenerationTemperature,
            "/generation/temperature",
        ),
        ("top_p", &g.top_p, Feature::GenerationTopP, "/generation/topP"),
    ] {
        let Some(intent) = intent else { continue };
        if native {
            members.push((key.to_owned(), number(intent.value)));
        } else {
            let reason = "deprecated at the target, which chooses by itself";
            encoder.loss.intent(intent.requirement, feature, path, reason);
        }
    }
    if let Some(reasoning) = &g.reasoning {
        members.extend(thinking(encoder, reasoning, native));
    }
    members.extend(choice(encoder, request, native, names).map(|c| ("tool_choice".to_owned(), c)));
    if let Some(policy) = g.parallel_tools.as_ref().filter(|p| p.value == ParallelTools::OneAtATime) {
        encoder.loss.intent(
            policy.requirement,
            Feature::GenerationParallelTools,
            "/generation/parallelTools",
            "the target cannot be kept from calling several tools at once",
        );
    }
    (!members.is_empty()).then(|| object(members))
}

fn thinking(encoder: &mut StepEncoder<'_>, intent: &ReasoningIntent, native: bool) -> Vec<(String, Json)> {
    let mut members = Vec::new();
    let off = matches!(intent.mode.as_ref().map(|m| &m.value), Some(ReasoningMode::Off));
    if let Some(mode) = &intent.mode {
        let reason = if off {
            "the model cannot be kept from thinking; the least level is sent"
        } else {
            "what the model does by itself"
        };
        let feature = Feature::GenerationReasoningMode;
        if matches!(mode.value, ReasoningMode::Other(_)) {
            let reason = "the target has no such mode";
            encoder.loss.intent(mode.requirement, feature, "/generation/reasoning/mode", reason);
        } else if off {
            encoder.loss.intent(mode.requirement, feature, "/generation/reasoning/mode", reason);
            members.push(("thinking_level".to_owned(), json("minimal")));
        } else {
            encoder.loss.info(feature, "/generation/reasoning/mode", reason);
        }
    }
    if let Some(effort) = intent.effort.as_ref().filter(|_| off) {
        let reason = "thinking is to be off, which the least level says";
        let path = "/generation/reasoning/effort";
        encoder
            .loss
            .intent(effort.requirement, Feature::GenerationReasoningEffort, path, reason);
    }
    if let Some(effort) = intent.effort.as_ref().filter(|_| !off) {
        let (word, exact) = match &effort.value {
            ReasoningEffort::None => (Some("minimal"), false),
            ReasoningEffort::Max => (Some("xhigh"), false),
            ReasoningEffort::Other(word) if native => (Some(&**word), true),
            ReasoningEffort::Other(_) => (None, false),
            known => (Some(known.as_str()), true),
        };
        if !exact {
            let reason = "the target has no such level; the nearest is sent";
            let path = "/generation/reasoning/effort";
            encoder
                .loss
                .intent(effort.requirement, Feature::GenerationReasoningEffort, path, reason);
        }
        members.extend(word.map(|w| ("thinking_level".to_owned(), json(w))));
    }
    if let Some(summary) = &intent.summary {
        let word = if summary.value == ReasoningSummary::None { "none" } else { "auto" };
        if !matches!(summary.value, ReasoningSummary::None | ReasoningSummary::Auto) {
            let reason = "the target has one form of summary";
            let path = "/generation/reasoning/summary";
            encoder
                .loss
                .otherwise(summary.requirement, Feature::GenerationReasoningSummary, path, reason);
        }
        members.push(("thinking_summaries".into(), json(word)));
    }
    members
}

fn choice(encoder: &mut StepEncoder<'_>, request: &UnifiedRequestV2, native: bool, names: &BTreeSet<String>) -> Option<Json> {
    let choice = request.tool_choice.as_ref()?;
    if choice.validated.is_some() {
        encoder
            .loss
            .remark(Feature::WireSpelling, "/toolChoice/validated", "said by the word of the wire");
    }
    let mut lost = |reason: &str| {
        encoder.loss.intent(choice.requirement, Feature::ToolChoice, "/toolChoice", reason);
        None
    };
    let known = |name: &str| Some(wire_name(namespace_of(&request.tools, name), name)).filter(|n| native || names.contains(n));
    let allowed = |mode: &str, list: Vec<String>| {
        let inner = object(vec![("mode".into(), json(mode)), ("tools".into(), json(&list))]);
        object(vec![("allowed_tools".into(), inner)])
    };
    if request.tools.is_empty() && !native {
        if matches!(choice.kind, ToolChoiceKind::Auto | ToolChoiceKind::None) {
            encoder.loss.info(Feature::ToolChoice, "/toolChoice", "there are no tools");
            return None;
        }
        return lost("there are no tools to call");
    }
    match choice.kind {
        ToolChoiceKind::Auto if choice.validated == Some(true) => Some(json("validated")),
        ToolChoiceKind::Auto => Some(json("auto")),
        ToolChoiceKind::None => Some(json("none")),
        ToolChoiceKind::Required => Some(json("any")),
        ToolChoiceKind::Named => match choice.tool.as_ref().and_then(|t| t.name.as_deref()).and_then(known) {
            Some(name) => Some(allowed("any", vec![name])),
            None => lost("the tool is not offered"),
        },
        ToolChoiceKind::Allowed => {
            let all = choice.tools.iter().flatten().filter_map(|t| t.name.as_deref());
            let list: Vec<String> = all.filter_map(known).collect();
            if list.is_empty() {
                return lost("none of the tools is offered");
            }
            let mode = if choice.mode == Some(AllowedMode::Required) {
                "any"
            } else {
                "auto"
            };
            Some(allowed(mode, list))
        }
    }
}

/// The form of the answer: as it was written, else from the intent.
fn format(encoder: &mut StepEncoder<'_>, request: &UnifiedRequestV2, form: &Json) -> Option<Json> {
    if let Some(own) = raw::get(form, "response_format") {
        return Some(own);
    }
    let intent = request.output.as_ref()?.format.as_ref()?;
    let json_text = |schema: Option<Json>| typed("text", vec![("mime_type", Some(json("application/json"))), ("schema", schema)]);
    match &intent.value {
        OutputFormat::Text(_) => None,
        OutputFormat::JsonObject(_) => Some(json_text(None)),
        OutputFormat::JsonSchema(wanted) => {
            if wanted.name.is_some() || wanted.description.is_some() {
                let reason = "the target names no schemas";
                encoder.loss.info(Feature::OutputSchemaName, "/output/format/value", reason);
            }
            if let Some(strict) = wanted.strict {
                let (path, reason) = ("/output/format/value/strict", "schemas are not fully enforced");
                if strict {
                    encoder.loss.otherwise(intent.requirement, Feature::OutputSchema, path, reason);
                } else {
                    encoder.loss.info(Feature::OutputSchema, path, reason);
                }
            }
            Some(json_text(Some(wanted.schema.clone())))
        }
        // Reported by the table.
        OutputFormat::Grammar(_) | OutputFormat::Media(_) => None,
    }
}

fn tier(encoder: &mut StepEncoder<'_>, request: &UnifiedRequestV2, native: bool) -> Option<Json> {
    let intent = request.generation.service_tier.as_ref()?;
    match &intent.value {
        ServiceTier::Standard | ServiceTier::Flex | ServiceTier::Priority => Some(json(intent.value.as_str())),
        ServiceTier::Other(word) if native => Some(json(word.strip_prefix("gemini-interactions:").unwrap_or(word))),
        ServiceTier::Auto | ServiceTier::Other(_) => {
            let reason = "the target has no such class";
            encoder.loss.intent(
                intent.requirement,
                Feature::GenerationServiceTier,
                "/generation/serviceTier",
                reason,
            );
            None
        }
    }
}

fn safety(encoder: &mut StepEncoder<'_>, request: &UnifiedRequestV2, native: bool) -> Option<Json> {
    let intent = request.generation.safety_settings.as_ref()?;
    if !native {
        let reason = "the target has other categories and thresholds";
        let path = "/generation/safetySettings";
        encoder
            .loss
            .intent(intent.requirement, Feature::GenerationSafetySettings, path, reason);
        return None;
    }
    let all = intent.value.iter().map(|s| {
        let method = s.method.as_ref().map(json);
        typed(&s.category, vec![("threshold", Some(json(&s.threshold))), ("method", method)])
    });
    Some(json(&all.collect::<Vec<_>>()))
}

fn labels(encoder: &mut StepEncoder<'_>, request: &UnifiedRequestV2, native: bool) -> Option<Json> {
    let labels = request.metadata.as_ref()?.labels.as_ref()?;
    let legal = |text: &str| {
        let plain = |c: char| c.is_lowercase() || c.is_ascii_digit() || c == '_' || c == '-';
        text.chars().count() <= 63 && text.chars().all(plain)
    };
    let mut members = Vec::new();
    for (key, value) in &labels.0 {
        if native || (legal(key) && legal(value)) {
            members.push((key.clone(), json(value)));
        } else {
            let path = format!("/metadata/labels/{}", throughline_format::json::escape_pointer_token(key));
            let reason = "outside of the target's alphabet for labels";
            encoder.loss.info(Feature::MetadataLabels, path, reason);
        }
    }
    (!members.is_empty() || native).then(|| object(members))
}
