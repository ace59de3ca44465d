//! Results as responses of the wire, and the blocks that responses and streams share.

use super::encode_block::{is_native, typed};
use super::kept;
use super::out_block::{OutBlock, OutKind};
use super::{encode_hosted, usage};
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::keeper;
use crate::projection::LossCollector;
use crate::raw::{self};
use crate::raw::{json, object, put_all};
use crate::side;
use crate::turn_usage;
use throughline_format::citation::{SourceType, UnifiedTextAnnotation};
use throughline_format::item::ToolCallItem;
use throughline_format::part::{ReasoningPart, ReasoningState};
use throughline_format::resource::{ResourceType, UnmappedEntry};
use throughline_format::status::UnifiedResponseStatus;
use throughline_format::{
    Json, PartBody, ProtocolFamily, UnifiedContentPart, UnifiedFinishReason, UnifiedId, UnifiedItem, UnifiedItemBody,
    UnifiedProviderDataRef, UnifiedResultV2, UnifiedUsage,
};

/// Fields of the whole message that were kept.
#[derive(Default)]
pub(super) struct Root(Vec<UnmappedEntry>);

impl Root {
    /// The fields of a stream's `message_delta`: those of its `delta`, and those beside it.
    pub(super) fn split(self) -> (Vec<UnmappedEntry>, Vec<UnmappedEntry>) {
        self.0
            .into_iter()
            .partition(|entry| entry.pointer.starts_with("/container") || entry.pointer.starts_with("/stop_details/"))
    }
}

/// Makes blocks of items; shared state of response and stream encoders.
pub(super) struct Writer {
    /// Context of the client.
    pub(super) context: EncodeContext,
    /// Losses so far.
    pub(super) loss: LossCollector,
    /// Whether the answer came over this protocol.
    pub(super) native: bool,
    /// Our ID of the response.
    pub(super) response_id: Option<UnifiedId>,
}

impl Writer {
    /// A writer without losses.
    pub(super) fn new(context: EncodeContext) -> Self {
        Self {
            context,
            loss: LossCollector::new(),
            native: false,
            response_id: None,
        }
    }

    /// The provider's message ID for the same owner, else one of ours.
    pub(super) fn message_id(&self) -> String {
        let own = self
            .context
            .private
            .root_payload(kept::MESSAGE_ID)
            .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok());
        own.filter(|_| self.native).unwrap_or_else(|| {
            let id = self.response_id.as_ref().map_or("response", UnifiedId::as_str);
            let plain: String = id
                .chars()
                .map(|c| {
                    if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                        c
                    } else {
                        '_'
                    }
                })
                .collect();
            format!("msg_{plain}")
        })
    }

    /// Usage as it was written, for the same owner, else from the counters and the class of service.
    pub(super) fn usage(&mut self, counters: Option<&UnifiedUsage>, tier: Option<&str>) -> Json {
        let own = self
            .context
            .private
            .root_payload(kept::USAGE)
            .filter(|_| self.native)
            .and_then(|bytes| keeper::to_json(&bytes));
        own.unwrap_or_else(|| {
            let counters = turn_usage::counters(&mut self.loss, counters);
            let counters = counters.as_ref();
            let (usage, unknown) = usage::encode(counters);
            let usage = match tier.map(usage::service_tier) {
                Some(Some(word)) => raw::put(&usage, "/service_tier", &json(word)),
                Some(None) => {
                    self.loss.info(
                        Feature::GenerationServiceTier,
                        "/model/serviceTier",
                        "the wire has no word for this class of service",
                    );
                    usage
                }
                None => usage,
            };
            for (member, is_there) in [
                ("total", counters.is_some_and(|c| c.total.is_some())),
                ("inputTotal", counters.is_some_and(|c| c.input_total.is_some())),
            ] {
                if is_there {
                    self.loss.remark(
                        Feature::ResponseUsage,
                        format!("/usage/{member}"),
                        "the wire says the parts of the sum",
                    );
                }
            }
            for (member, how) in counters.map(usage::unsayable).unwrap_or_default() {
                self.loss.info(Feature::ResponseUsage, format!("/usage/{member}"), how);
            }
            if unknown {
                self.loss.info(
                    Feature::ResponseUsage,
                    "/usage",
                    "the wire demands counters; unknown ones are written as zero",
                );
            }
            usage
        })
    }

    /// Resources of the result's state: the container stands in the message, others have no place.
    fn state(&mut self, result: &UnifiedResultV2) {
        for (n, resource) in result.state.iter().flat_map(|state| &state.resources).enumerate() {
            let path = format!("/state/resources/{n}");
            let own = self.native && self.context.private.payload(&resource.resource_id).is_some();
            if own && resource.resource_type == ResourceType::Container {
                self.loss
                    .remark(Feature::StateResources, path, "said by the container of the message");
            } else {
                self.loss.info(
                    Feature::StateResources,
                    path,
                    "a resource of another owner, of which the wire says nothing",
                );
            }
        }
    }

    /// Keep fields of the whole message.
    pub(super) fn root(&self) -> Root {
        let bytes = self
            .context
            .private
            .root_payload(&side::unmapped_schema(&super::profile()))
            .filter(|_| self.native);
        let mut entries = bytes.map(|bytes| raw::entries(&bytes)).unwrap_or_default();
        let handle = self.context.private.root_payload(kept::CONTAINER).filter(|_| self.native);
        if let Some(handle) = handle.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok()) {
            let id = UnmappedEntry {
                pointer: "/container/id".into(),
                value: json(&handle),
            };
            let at = entries.iter().position(|entry| entry.pointer.starts_with("/container/"));
            entries.insert(at.unwrap_or(entries.len()), id);
        }
        Root(entries)
    }

    fn entries(&self, references: Option<&Vec<UnifiedProviderDataRef>>) -> Vec<UnmappedEntry> {
        keeper::unmapped_of(references, &super::profile(), &self.context)
    }

    /// Blocks of a whole item.
    pub(super) fn item(&mut self, item: &UnifiedItem, path: &str) -> Vec<OutBlock> {
        let references = item.base.provider_data.as_ref();
        if let Some(raw) = kept::json_of(references, kept::BLOCK, &self.context).filter(Json::is_object) {
            self.schema_names(item, path);
            for member in encode_hosted::said_by_type(item) {
                self.loss
                    .remark(Feature::WireSpelling, format!("{path}/{member}"), "said by the type of the block");
            }
            return vec![OutBlock {
                kind: OutKind::Raw(raw),
                entries: Vec::new(),
                drop_empty: false,
            }];
        }
        match &item.body {
            UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_) => {
                let parts = item.parts().iter().enumerate();
                let mut blocks: Vec<_> = parts
                    .filter_map(|(n, part)| self.part(item, part, &format!("{path}/parts/{n}")))
                    .collect();
                for block in &mut blocks {
                    block.last_pieces(&self.context.synthetic);
                }
                blocks
            }
            UnifiedItemBody::ToolCall(call) => vec![self.call(item, call, "tool_use", path)],
            UnifiedItemBody::ServerToolCall(call) if is_native(item.base.provenance.profile.as_ref()) => {
                vec![self.call(
                    item,
                    call,
                    if call.server_label.is_some() {
                        "mcp_tool_use"
                    } else {
                        "server_tool_use"
                    },
                    path,
                )]
            }
            UnifiedItemBody::ComputerAction(action) => match encode_hosted::own_action(item, action) {
                Some(block) => vec![self.whole_call(item, &action.call_id, block, path)],
                None => self.no_form(path),
            },
            UnifiedItemBody::CodeExecution(code) => {
                match encode_hosted::code_block(code).filter(|_| is_native(item.base.provenance.profile.as_ref())) {
                    Some(block) => {
                        self.loss
                            .remark(Feature::WireSpelling, format!("{path}/language"), "said by the name of the tool");
                        vec![self.whole_call(item, &code.call_id, block, path)]
                    }
                    None => self.no_form(path),
                }
            }
            UnifiedItemBody::CompactionSummary(_) => {
                let how = "a summary of the history is told to its owner only";
                self.loss.warning(Feature::ConversationItem, path, how);
                Vec::new()
            }
            UnifiedItemBody::ProviderSwitch(_) | UnifiedItemBody::Interruption(_) | UnifiedItemBody::Error(_) => {
                self.loss.marker(path, &item.id);
                Vec::new()
            }
            UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::ToolResult(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_) => self.no_form(path),
        }
    }

    /// Names of schemas in a result are said by the types of its blocks.
    fn schema_names(&mut self, item: &UnifiedItem, path: &str) {
        for (n, part) in item.parts().iter().enumerate() {
            if matches!(&part.body, PartBody::Json(json) if json.schema_name.is_some()) {
                let path = format!("{path}/output/{n}/schemaName");
                self.loss.remark(Feature::WireSpelling, path, "said by the type of the block");
            }
        }
    }

    /// An item that the wire cannot say.
    fn no_form(&mut self, path: &str) -> Vec<OutBlock> {
        self.loss.warning(
            Feature::ToolCallHosted,
            path,
            "the wire has no form for a hosted tool's work of another owner",
        );
        Vec::new()
    }

    /// A call whose input is whole from the begin.
    fn whole_call(&mut self, item: &UnifiedItem, call_id: &str, block: Json, path: &str) -> OutBlock {
        let wire_id = crate::call_id::wire(call_id, self.context.capabilities.knobs().max_tool_id_length);
        if wire_id != call_id {
            self.loss
                .info(Feature::ToolCallId, path, "the call ID is replaced by one of the target's alphabet");
        }
        let block = raw::put(&block, "/id", &json(&*wire_id));
        let block = put_all(block, &self.entries(item.base.provider_data.as_ref()));
        let input = block.decode::<super::wire::ToolUseBlock>().ok().and_then(|block| block.input);
        OutBlock {
            kind: OutKind::Call {
                head: raw::put(&block, "/input", &object(Vec::new())),
                raw: input.map_or_else(|| "{}".to_owned(), |input| input.as_str().to_owned()),
            },
            entries: Vec::new(),
            drop_empty: false,
        }
    }

    /// The block of one part; it may grow.
    pub(super) fn part(&mut self, item: &UnifiedItem, part: &UnifiedContentPart, path: &str) -> Option<OutBlock> {
        let references = part.base.provider_data.as_ref();
        let native = is_native(item.base.provenance.profile.as_ref());
        let kind = match &part.body {
            PartBody::Text(inner) => {
                if inner.logprobs.is_some() {
                    self.loss.info(Feature::PartLogprobs, path, "the wire has no token probabilities");
                }
                let own = kept::json_of(references, kept::CITATIONS, &self.context).and_then(|list| list.decode::<Vec<Json>>().ok());
                let citations = if let Some(own) = own {
                    if inner.annotations.is_some() {
                        self.loss.remark(
                            Feature::WireSpelling,
                            format!("{path}/annotations"),
                            "units of spans are said by the kind of location",
                        );
                    }
                    own
                } else {
                    let annotations = inner.annotations.iter().flatten().enumerate();
                    annotations
                        .filter_map(|(n, a)| self.citation(a, &format!("{path}/annotations/{n}")))
                        .collect()
                };
                OutKind::Text {
                    text: inner.text.clone(),
                    citations,
                }
            }
            PartBody::Refusal(inner) => {
                self.loss.info(Feature::PartRefusal, path, "sent as text");
                OutKind::Text {
                    text: inner.text.clone(),
                    citations: Vec::new(),
                }
            }
            PartBody::Reasoning(inner) => return self.reasoning(item, inner),
            _ => {
                self.loss.warning(Feature::PartFile, path, "answers of the wire carry text only");
                return None;
            }
        };
        Some(OutBlock {
            kind,
            entries: self.entries(references),
            drop_empty: !native,
        })
    }

    fn reasoning(&mut self, item: &UnifiedItem, part: &ReasoningPart) -> Option<OutBlock> {
        let signature = part.private_state.as_ref().and_then(|state| self.signature(&state.r#ref));
        let entries = self.entries(item.base.provider_data.as_ref());
        if part.state == ReasoningState::Redacted {
            let data = signature?;
            let block = put_all(typed("redacted_thinking", [("data", Some(json(&data)))]), &entries);
            return Some(OutBlock {
                kind: OutKind::Raw(block),
                entries: Vec::new(),
                drop_empty: false,
            });
        }
        Some(OutBlock {
            kind: OutKind::Thinking {
                text: part.text.clone(),
                signature,
            },
            entries,
            drop_empty: false,
        })
    }

    /// The payload of a signature or of redacted data of this family.
    pub(super) fn signature(&self, reference: &UnifiedProviderDataRef) -> Option<String> {
        if reference.profile.family != ProtocolFamily::AnthropicMessages {
            return None;
        }
        self.context
            .private
            .payload(&reference.resource_id)
            .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
    }

    /// Citations as they were written, when the reference is to them.
    pub(super) fn citations(&self, reference: &UnifiedProviderDataRef) -> Option<Vec<Json>> {
        kept::json_of(Some(&vec![reference.clone()]), kept::CITATIONS, &self.context)?
            .decode()
            .ok()
    }

    /// A citation from the record. An index that only the provider can make is replaced by a marked one, which never goes back.
    pub(super) fn citation(&mut self, annotation: &UnifiedTextAnnotation, path: &str) -> Option<Json> {
        if let UnifiedTextAnnotation::Citation(citation) = annotation
            && let (SourceType::Web, Some(url)) = (&citation.source.r#type, &citation.source.uri)
        {
            if citation.spans.is_some() {
                self.loss.info(
                    Feature::CitationSpan,
                    format!("{path}/spans"),
                    "a web citation of the wire stands on its whole text block",
                );
            }
            for member in crate::cited::untold(citation, &["quotedText", "source/title"]) {
                let reason = "the wire says address, title and words of a web page";
                self.loss.info(Feature::Citation, format!("{path}/{member}"), reason);
            }
            return Some(typed(
                "web_search_result_location",
                [
                    ("cited_text", Some(json(citation.quoted_text.as_deref().unwrap_or_default()))),
                    ("url", Some(json(url))),
                    ("title", Some(json(citation.source.title.as_deref().unwrap_or_default()))),
                    ("encrypted_index", Some(json(&self.context.synthetic.seal(url)))),
                ],
            ));
        }
        if !self.native {
            self.loss.warning(
                Feature::Citation,
                path,
                "the wire cites web addresses and documents of its own requests only",
            );
        }
        None
    }

    fn call(&mut self, item: &UnifiedItem, call: &ToolCallItem, kind: &str, path: &str) -> OutBlock {
        let wire_id = crate::call_id::wire(&call.call_id, self.context.capabilities.knobs().max_tool_id_length);
        if wire_id != call.call_id {
            self.loss
                .info(Feature::ToolCallId, path, "the call ID is replaced by one of the target's alphabet");
        }
        let native = is_native(item.base.provenance.profile.as_ref());
        let toolset = call.namespace.as_ref().filter(|_| native);
        let namespace = call.namespace.as_deref().filter(|_| !native);
        let name = crate::tool_name::answered(namespace, &call.name, self.context.capabilities.knobs().max_tool_name_length);
        if name != call.name {
            let reason = "the target has no namespaces; this one stands in front of the name";
            self.loss.warning(Feature::ToolName, path, reason);
        }
        let caller = call.caller.as_ref().map(|caller| {
            if caller.call_id.is_none() {
                typed("direct", [])
            } else {
                typed(super::DEFAULT_CODE_CALLER, [("tool_id", caller.call_id.as_ref().map(json))])
            }
        });
        let head = typed(
            kind,
            [
                ("id", Some(json(&*wire_id))),
                ("name", Some(json(&*name))),
                ("server_name", call.server_label.as_ref().map(json)),
                ("input", Some(object(Vec::new()))),
                ("caller", caller),
                ("toolset_name", toolset.map(json)),
            ],
        );
        OutBlock {
            kind: OutKind::Call {
                head,
                raw: call.raw_arguments.clone(),
            },
            entries: self.entries(item.base.provider_data.as_ref()),
            drop_empty: false,
        }
    }
}

/// The stop word of a status: the provider's own, else the nearest.
pub(super) fn stop_reason(status: &UnifiedResponseStatus, native: bool, loss: &mut LossCollector) -> Json {
    if let Some(word) = &status.original_reason {
        if native {
            return json(word);
        }
        loss.remark(
            Feature::ResponseFinishReason,
            "/status/originalReason",
            "said by the word of this wire",
        );
    }
    let (word, exact) = match status.finish_reason {
        Some(UnifiedFinishReason::Stop) if status.stop_sequence.is_some() => ("stop_sequence", true),
        Some(UnifiedFinishReason::Stop) => ("end_turn", true),
        Some(UnifiedFinishReason::ToolCalls) => ("tool_use", true),
        Some(UnifiedFinishReason::Length) => ("max_tokens", true),
        Some(UnifiedFinishReason::Refusal) => ("refusal", true),
        Some(UnifiedFinishReason::MaxContext) => ("model_context_window_exceeded", true),
        Some(UnifiedFinishReason::Paused) => ("pause_turn", true),
        Some(UnifiedFinishReason::ContentFilter) => ("refusal", false),
        Some(UnifiedFinishReason::MalformedToolCall | UnifiedFinishReason::RequiresAction) => ("tool_use", false),
        Some(UnifiedFinishReason::Incomplete | UnifiedFinishReason::Interrupted) => ("max_tokens", false),
        Some(UnifiedFinishReason::Cancelled | UnifiedFinishReason::Failed | UnifiedFinishReason::Unknown) => {
            let how = "the wire has no such word; none is sent";
            if native {
                loss.remark(Feature::ResponseFinishReason, "/status/finishReason", how);
            } else {
                loss.warning(Feature::ResponseFinishReason, "/status/finishReason", how);
            }
            return Json::null();
        }
        None => return Json::null(),
    };
    if !exact {
        loss.warning(
            Feature::ResponseFinishReason,
            "/status/finishReason",
            "the wire has no such word; the nearest is sent",
        );
    }
    json(word)
}

/// What a refusal is about, in the words of the wire.
const CATEGORIES: [&str; 5] = ["cyber", "bio", "frontier_llm", "reasoning_extraction", "general_harms"];

/// Detail of a refusal; what is said of the safety of another ending has no place.
pub(super) fn stop_details(status: &UnifiedResponseStatus, native: bool, loss: &mut LossCollector) -> Option<Json> {
    let safety = status.safety.as_ref()?;
    let refused = matches!(
        status.finish_reason,
        Some(UnifiedFinishReason::Refusal | UnifiedFinishReason::ContentFilter)
    );
    if !refused && !native {
        loss.info(Feature::ResponseSafety, "/status/safety", "the wire details refusals only");
        return None;
    }
    let category = safety
        .category
        .as_ref()
        .filter(|category| native || CATEGORIES.contains(&category.as_str()));
    if category != safety.category.as_ref() {
        let reason = "the wire has no such category of refusals";
        loss.info(Feature::ResponseSafety, "/status/safety/category", reason);
    }
    Some(typed(
        "refusal",
        [
            ("category", category.map(json)),
            ("explanation", safety.explanation.as_ref().map(json)),
        ],
    ))
}

/// An error body says that the answer failed; what else the result holds has no place in it.
fn told_by_error(loss: &mut LossCollector, result: &UnifiedResultV2) {
    loss.remark(
        Feature::ResponseFinishReason,
        "/status",
        "an error body says that the answer failed",
    );
    loss.remark(Feature::WireSpelling, "/error", "said by the error type of the wire");
    for (feature, path, is_there) in [
        (Feature::RecordBookkeeping, "/model", result.model.model != crate::UNSPECIFIED_MODEL),
        (
            Feature::GenerationServiceTier,
            "/model/serviceTier",
            result.model.service_tier.is_some(),
        ),
        (Feature::ResponseUsage, "/usage", result.usage.is_some()),
        (Feature::ResponseCandidates, "/alternatives", result.alternatives.is_some()),
    ] {
        if is_there {
            loss.info(feature, path, "an error body tells of the error only");
        }
    }
    loss.report_state(result);
    for n in 0..result.output.len() {
        loss.warning(
            Feature::ConversationItem,
            format!("/output/{n}"),
            "an error body tells of the error only",
        );
    }
}

/// Writes a response body; a failed result becomes an error body.
pub(super) fn encode(result: &UnifiedResultV2, context: &EncodeContext) -> Encoded {
    let mut writer = Writer::new(context.clone());
    writer.native = is_native(Some(&result.provenance.profile));
    writer.response_id = Some(result.response_id.clone());
    if result.status.finish_reason == Some(UnifiedFinishReason::Failed)
        && let Some(error) = &result.error
    {
        let own = context
            .private
            .root_payload(kept::ERROR_BODY)
            .and_then(|bytes| keeper::to_json(&bytes));
        told_by_error(&mut writer.loss, result);
        return Encoded {
            body: own.map_or_else(|| super::errors::encode(error).body, |body| body.as_str().to_owned()),
            loss: writer.loss.finish(),
        };
    }
    if result.alternatives.is_some() {
        writer
            .loss
            .warning(Feature::ResponseCandidates, "/alternatives", "the wire has one answer");
    }
    writer.state(result);
    let mut blocks = Vec::new();
    for (n, item) in result.output.iter().enumerate() {
        let made = writer.item(item, &format!("/output/{n}"));
        blocks.extend(
            made.iter()
                .filter(|block| !block.is_void())
                .map(|block| block.whole(&context.synthetic)),
        );
    }
    let mut members = vec![
        ("id".to_owned(), json(&writer.message_id())),
        ("type".into(), json("message")),
        ("role".into(), json("assistant")),
        ("model".into(), json(context.target_model.as_ref().unwrap_or(&result.model.model))),
        ("content".into(), json(&blocks)),
        ("stop_reason".into(), stop_reason(&result.status, writer.native, &mut writer.loss)),
        (
            "stop_sequence".into(),
            result.status.stop_sequence.as_ref().map_or_else(Json::null, json),
        ),
    ];
    members.extend(stop_details(&result.status, writer.native, &mut writer.loss).map(|details| ("stop_details".to_owned(), details)));
    members.push((
        "usage".into(),
        writer.usage(result.usage.as_ref(), result.model.service_tier.as_deref()),
    ));
    writer.loss.untold_error(result);
    let body = put_all(object(members), &writer.root().0);
    Encoded {
        body: body.as_str().to_owned(),
        loss: writer.loss.finish(),
    }
}
