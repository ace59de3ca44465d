//! Requests of the wire as [`UnifiedRequestV2`].

use super::decode_block::Whole;
use super::decode_call::CallKind;
use super::decode_hosted;
use super::kept::{self, Keeper};
use super::wire::{Block, CacheControl, Format, Message, OutputConfig, Request, Thinking, ToolChoice};
use super::{AnthropicMessages, decode_tools};
use crate::codec::{Codec as _, DecodedRequest};
use crate::context::DecodeContext;
use crate::feature::Feature;
use crate::keeper::Keep;
use crate::raw::below;
use crate::raw::{self};
use crate::wire::TextOr;
use throughline_format::cache::{CacheBreakpoint, CacheMode, CacheTtl, UnifiedCacheIntent};
use throughline_format::intent::{
    JsonSchemaFormat, OutputFormat, ParallelTools, PrefillIntent, ReasoningEffort, ReasoningIntent, ReasoningMode, ReasoningSummary,
    ServiceTier,
};
use throughline_format::item::{ItemStatus, MessageItem, Placement, Role};
use throughline_format::metadata::UnifiedSemanticMetadata;
use throughline_format::request::UnifiedStateInput;
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::tool::ToolChoiceKind;
use throughline_format::{
    ErrorCategory, Json, UnifiedContentPart, UnifiedConversationInput, UnifiedError, UnifiedGenerationIntent, UnifiedId, UnifiedIntent,
    UnifiedItem, UnifiedItemBody, UnifiedModelIntent, UnifiedOutputIntent, UnifiedProviderDataRef, UnifiedRequestV2, UnifiedToolChoice,
    UnifiedToolType,
};

/// Reads a request body.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
    let request: Request = throughline_format::json::decode_slice(body)?;
    let decoder = Decoder {
        keeper: Keeper::new(context, AnthropicMessages.profile(), Issuer::ClientAsserted),
        items: Vec::new(),
        marks: Vec::new(),
    };
    decoder.request(request)
}

struct Decoder {
    keeper: Keeper,
    items: Vec<UnifiedItem>,
    marks: Vec<CacheBreakpoint>,
}

/// A run of text and media that becomes one message item.
struct Run {
    item_id: UnifiedId,
    parts: Vec<UnifiedContentPart>,
}

impl Decoder {
    fn request(mut self, mut request: Request) -> Result<DecodedRequest, UnifiedError> {
        let mut own = |key: &str| request.extra.take(key).filter(|value| value.as_str() != "null");
        let (rules, now) = (own("context_management"), own("compaction"));
        let (container, servers) = (own("container"), own("mcp_servers"));
        let (fallbacks, thread) = (own("fallbacks"), own("thread"));
        if own("fallback_credit_token").is_some() {
            self.keeper
                .loss
                .warning(Feature::WireUnmapped, "/fallback_credit_token", "a credential is never kept");
        }
        let mut fields: Vec<_> = request.extra.into_unmapped().collect();
        // A request that only fills the cache has no limit that another wire could take.
        let prewarms = request.max_tokens == Some(0);
        if prewarms {
            fields.push(("/max_tokens".into(), raw::json(&0)));
        }
        if request.stream == Some(false) {
            // Said, and the default all the same: kept so that the body comes back as it was.
            fields.push(("/stream".into(), raw::json(&false)));
        }
        self.system(request.system);
        let mut previous = None;
        for (index, message) in request.messages.into_iter().enumerate() {
            let role = role(&message.role, index)?;
            self.message(message, role, previous == Some(role), &format!("/messages/{index}"));
            previous = Some(role);
        }
        let mut generation = UnifiedGenerationIntent {
            max_output_tokens: request.max_tokens.filter(|_| !prewarms).map(UnifiedIntent::preferred),
            temperature: request.temperature.map(UnifiedIntent::preferred),
            top_p: request.top_p.map(UnifiedIntent::preferred),
            top_k: request.top_k.map(UnifiedIntent::preferred),
            stop_sequences: request.stop_sequences.map(UnifiedIntent::preferred),
            service_tier: request.service_tier.map(|tier| {
                UnifiedIntent::preferred(match tier.as_str() {
                    "auto" => ServiceTier::Auto,
                    "standard_only" => ServiceTier::Standard,
                    other => ServiceTier::Other(other.into()),
                })
            }),
            prefill: self.prefill().map(UnifiedIntent::preferred),
            ..UnifiedGenerationIntent::default()
        };
        let output = Self::output(&mut generation, request.output_config, request.output_format, &mut fields);
        if let Some(thinking) = request.thinking {
            self.thinking(&mut generation, thinking, &mut fields);
        }
        let tool_choice = request
            .tool_choice
            .map(|choice| self.tool_choice(&mut generation, choice, &mut fields));
        let mut tools = decode_tools::tools(&mut self.keeper, request.tools.unwrap_or_default())?;
        if let Some(servers) = servers {
            self.keeper.mcp_servers(servers, &mut tools, &mut fields);
        }
        let container = container.and_then(|container| self.keeper.container(container, &mut tools, &mut fields));
        let state = UnifiedStateInput {
            context_management: self.keeper.context_management(rules, now, &mut fields),
            resources: container.map(|container| vec![container]),
            ..UnifiedStateInput::default()
        };
        let fallbacks = fallbacks.and_then(|fallbacks| Keeper::fallbacks(fallbacks, &mut fields));
        let metadata = request.metadata.map(|metadata| {
            fields.extend(below("/metadata", metadata.extra.0));
            UnifiedSemanticMetadata {
                labels: None,
                end_user_ref: metadata.user_id,
            }
        });
        let cache = self.cache(request.cache_control, tools.iter().any(|t| t.cache.is_some()), &mut fields);
        let context = self.keeper.context.clone();
        let mut conversation = UnifiedConversationInput::complete(std::mem::take(&mut self.items));
        if let Some(thread) = thread {
            self.keeper.thread(thread, &mut conversation, &mut fields);
        }
        let root = context.operation_id.resource(0);
        self.keeper.fields(None, root, "", fields);
        // Bedrock and Vertex have the model in the URL.
        let request_of = context.request(self.keeper.profile.clone(), conversation, request.model);
        Ok(DecodedRequest {
            unified: UnifiedRequestV2 {
                model: UnifiedModelIntent {
                    fallbacks,
                    ..request_of.model
                },
                generation,
                tools,
                tool_choice,
                cache,
                state: (state != UnifiedStateInput::default()).then_some(state),
                output,
                metadata: metadata.filter(|m| *m != UnifiedSemanticMetadata::default()),
                ..request_of
            },
            resources: self.keeper.resources,
            loss: self.keeper.loss.finish(),
            stream: request.stream.unwrap_or(false),
        })
    }

    fn next_id(&self) -> UnifiedId {
        self.keeper.context.item_id(self.items.len() as u64)
    }

    fn push(&mut self, role: Role, body: UnifiedItemBody, provider_data: Option<Vec<UnifiedProviderDataRef>>) {
        self.keeper.push_item(&mut self.items, role, body, provider_data);
    }

    fn mark(&mut self, item_id: UnifiedId, part_id: Option<UnifiedId>, control: Option<CacheControl>, path: &str) {
        let Some(control) = control else { return };
        let loss = &mut self.keeper.loss;
        loss.only_word(format!("{path}/cache_control/type"), control.kind.as_deref(), "ephemeral");
        let ttl = ttl(&control);
        if (control.ttl.is_some() && ttl.is_none()) || !control.extra.is_empty() {
            self.keeper.loss.warning(
                Feature::CacheBreakpoints,
                format!("{path}/cache_control"),
                "only the lives 5m and 1h are known",
            );
        }
        self.marks.push(CacheBreakpoint { item_id, part_id, ttl });
    }

    fn system(&mut self, system: Option<TextOr<Block>>) {
        let blocks = match system {
            None => return,
            Some(TextOr::Text(text)) => vec![(text_block(text), "/system".to_owned())],
            Some(TextOr::List(blocks)) => blocks
                .into_iter()
                .enumerate()
                .map(|(n, block)| (block, format!("/system/{n}")))
                .collect(),
        };
        for (block, path) in blocks {
            let item_id = self.next_id();
            let (mut parts, mut data) = (Vec::new(), None);
            match block {
                Block::Text(mut text) => {
                    self.mark(item_id.clone(), None, text.cache_control.take(), &path);
                    parts.push(self.keeper.text(&item_id.part(0), text, &path));
                }
                other => data = self.keeper.raw(&item_id, &raw::json(&other), &path).provider_data,
            }
            self.push(
                Role::System,
                UnifiedItemBody::Message(MessageItem {
                    parts,
                    placement: Some(Placement::Instructions),
                }),
                data,
            );
        }
    }

    fn message(&mut self, message: Message, role: Role, apart: bool, path: &str) {
        let first = self.items.len();
        let blocks = match message.content {
            None => Vec::new(),
            Some(TextOr::Text(text)) => vec![(text_block(text), format!("{path}/content"))],
            Some(TextOr::List(blocks)) => blocks
                .into_iter()
                .enumerate()
                .map(|(n, block)| (block, format!("{path}/content/{n}")))
                .collect(),
        };
        let mut run: Option<Run> = None;
        for (block, path) in blocks {
            self.block(role, block, &path, &mut run);
        }
        self.flush(role, run);
        let fields: Vec<_> = message.extra.0.into_iter().filter(|(_, value)| value.as_str() != "null").collect();
        if apart || !fields.is_empty() {
            for (key, _) in &fields {
                self.keeper.loss.info(
                    Feature::WireUnmapped,
                    format!("{path}/{key}"),
                    "no Unified word; kept for the same owner",
                );
            }
            if self.items.len() == first {
                self.push(role, Self::message_body(role, Vec::new()), None);
            }
            let payload = raw::object(fields).as_str().as_bytes().to_vec();
            if let Some(item) = self.items.get_mut(first) {
                let id = item.id.clone();
                let reference = self.keeper.payload(
                    Keep {
                        schema: kept::MESSAGE,
                        resource_type: ResourceType::Other("message".into()),
                        subject: Some(&id),
                        resource_id: id.resource(3),
                        paths: vec![path.to_owned()],
                    },
                    payload,
                );
                item.base.provider_data.get_or_insert_default().push(reference);
            }
        }
    }

    fn message_body(role: Role, parts: Vec<UnifiedContentPart>) -> UnifiedItemBody {
        UnifiedItemBody::Message(MessageItem {
            parts,
            placement: (role == Role::System).then_some(Placement::Inline),
        })
    }

    fn flush(&mut self, role: Role, run: Option<Run>) {
        if let Some(run) = run {
            let body = Self::message_body(role, run.parts);
            self.push(role, body, None);
        }
    }

    fn block(&mut self, role: Role, mut block: Block, path: &str, run: &mut Option<Run>) {
        let control = match &mut block {
            Block::Text(b) => b.cache_control.take(),
            Block::Image(b) => b.cache_control.take(),
            Block::Document(b) => b.cache_control.take(),
            Block::SearchResult(b) => b.cache_control.take(),
            Block::ToolUse(b) | Block::ServerToolUse(b) | Block::McpToolUse(b) => b.cache_control.take(),
            Block::ToolResult(b) => b.cache_control.take(),
            Block::Thinking(_) | Block::RedactedThinking(_) | Block::Unknown(_) => None,
        };
        let item_id = run.as_ref().map_or_else(|| self.next_id(), |run| run.item_id.clone());
        let part_id = item_id.part(run.as_ref().map_or(0, |run| run.parts.len() as u64));
        let block = match self.keeper.part(&part_id, block, path) {
            Ok(part) => {
                self.mark(item_id.clone(), Some(part_id), control, path);
                run.get_or_insert_with(|| Run {
                    item_id,
                    parts: Vec::new(),
                })
                .parts
                .push(part);
                return;
            }
            Err(block) => block,
        };
        self.flush(role, run.take());
        let item_id = self.next_id();
        self.mark(item_id.clone(), None, control, path);
        let (role, Whole { mut body, provider_data }) = match block {
            Block::Thinking(b) => (role, self.keeper.thinking(&item_id, b, path)),
            Block::RedactedThinking(b) => (role, self.keeper.redacted(&item_id, b, path)),
            Block::ToolUse(b) => (role, self.keeper.call(&item_id, b, CallKind::Client, path)),
            Block::ServerToolUse(b) => (role, self.keeper.call(&item_id, b, CallKind::Server, path)),
            Block::McpToolUse(b) => (role, self.keeper.call(&item_id, b, CallKind::Mcp, path)),
            Block::ToolResult(mut b) => {
                self.inner_marks(&item_id, &mut b.content, path);
                (Role::Tool, self.keeper.tool_result(&item_id, b, path))
            }
            other => (role, self.keeper.raw(&item_id, &raw::json(&other), path)),
        };
        decode_hosted::reach(&mut body, &self.items);
        if let (Role::System, UnifiedItemBody::Message(message)) = (role, &mut body) {
            message.placement = Some(Placement::Inline);
        }
        self.push(role, body, provider_data);
    }

    /// Marks inside a result belong on the result.
    fn inner_marks(&mut self, item_id: &UnifiedId, content: &mut Option<TextOr<Block>>, path: &str) {
        let Some(TextOr::List(blocks)) = content else { return };
        for (n, block) in blocks.iter_mut().enumerate() {
            let control = match block {
                Block::Text(b) => b.cache_control.take(),
                Block::Image(b) => b.cache_control.take(),
                Block::Document(b) => b.cache_control.take(),
                Block::SearchResult(b) => b.cache_control.take(),
                _ => None,
            };
            if control.is_some() {
                self.keeper.loss.info(
                    Feature::CacheBreakpoints,
                    format!("{path}/content/{n}/cache_control"),
                    "a mark inside a result counts for the result",
                );
                self.mark(
                    item_id.clone(),
                    Some(item_id.part(n as u64)),
                    control,
                    &format!("{path}/content/{n}"),
                );
            }
        }
    }

    /// The last assistant text of a request is the beginning of the answer.
    fn prefill(&mut self) -> Option<PrefillIntent> {
        let last = self.items.last_mut()?;
        let is_text = matches!(&last.body, UnifiedItemBody::Message(m) if !m.parts.is_empty());
        if last.role != Some(Role::Assistant)
            || !is_text
            || last
                .provider_data
                .as_ref()
                .is_some_and(|d| d.iter().any(|r| r.schema == kept::BLOCK))
        {
            return None;
        }
        last.base.status = ItemStatus::InProgress;
        Some(PrefillIntent { item_id: last.id.clone() })
    }

    fn output(
        generation: &mut UnifiedGenerationIntent,
        config: Option<OutputConfig>,
        older: Option<Format>,
        fields: &mut Vec<(String, Json)>,
    ) -> Option<UnifiedOutputIntent> {
        let mut format = None;
        if let Some(config) = config {
            fields.extend(below("/output_config", config.extra.0));
            if let Some(effort) = config.effort {
                generation.reasoning.get_or_insert_default().effort = Some(UnifiedIntent::preferred(ReasoningEffort::from_word(&effort)));
            }
            format = config.format.map(|f| (f, "/output_config/format"));
        }
        if let Some(older) = older {
            fields.push(("/output_format".into(), raw::json(&older)));
            format = format.or(Some((older, "/output_format")));
        }
        let (format, path) = format?;
        match (format.kind.as_str(), format.schema) {
            ("json_schema", Some(schema)) => {
                if path == "/output_config/format" {
                    fields.extend(below(path, format.extra.0));
                }
                let value = OutputFormat::JsonSchema(JsonSchemaFormat {
                    schema,
                    name: None,
                    description: None,
                    strict: Some(true),
                });
                Some(UnifiedOutputIntent {
                    format: Some(UnifiedIntent::preferred(value)),
                    ..UnifiedOutputIntent::default()
                })
            }
            (kind, schema) => {
                let mut members = vec![("type".to_owned(), raw::json(kind))];
                members.extend(schema.map(|s| ("schema".to_owned(), s)));
                members.extend(format.extra.0);
                fields.push((path.to_owned(), raw::object(members)));
                None
            }
        }
    }

    fn thinking(&mut self, generation: &mut UnifiedGenerationIntent, thinking: Thinking, fields: &mut Vec<(String, Json)>) {
        let intent: &mut ReasoningIntent = generation.reasoning.get_or_insert_default();
        let mode = match thinking.kind.as_str() {
            // `adaptive` leaves the amount to the model; a budget tells `enabled` apart.
            "enabled" | "adaptive" => ReasoningMode::On,
            "disabled" => ReasoningMode::Off,
            other => ReasoningMode::Other(format!("anthropic-messages:{other}").into()),
        };
        intent.mode = Some(UnifiedIntent::preferred(mode));
        intent.budget_tokens = thinking.budget_tokens.map(UnifiedIntent::preferred);
        match thinking.display.as_deref() {
            None => {}
            Some(word @ ("summarized" | "omitted")) => {
                let summary = if word == "omitted" {
                    ReasoningSummary::None
                } else {
                    ReasoningSummary::Auto
                };
                intent.summary = Some(UnifiedIntent::preferred(summary));
                self.keeper.loss.info(
                    Feature::WireSpelling,
                    "/thinking/display",
                    "said by the word of the reasoning summary",
                );
            }
            Some(other) => fields.push(("/thinking/display".into(), raw::json(other))),
        }
        fields.extend(below("/thinking", thinking.extra.0));
    }

    fn tool_choice(
        &mut self,
        generation: &mut UnifiedGenerationIntent,
        choice: ToolChoice,
        fields: &mut Vec<(String, Json)>,
    ) -> UnifiedToolChoice {
        if let Some(disable) = choice.disable_parallel_tool_use {
            let policy = if disable { ParallelTools::OneAtATime } else { ParallelTools::Allow };
            generation.parallel_tools = Some(UnifiedIntent::preferred(policy));
            self.keeper.loss.info(
                Feature::WireSpelling,
                "/tool_choice/disable_parallel_tool_use",
                "said by the word of the parallel policy",
            );
        }
        fields.extend(below("/tool_choice", choice.extra.0));
        match (choice.kind.as_str(), choice.name) {
            ("any", _) => UnifiedToolChoice::simple(ToolChoiceKind::Required),
            ("none", _) => UnifiedToolChoice::simple(ToolChoiceKind::None),
            ("tool", Some(name)) => UnifiedToolChoice::named(UnifiedToolType::Function, name),
            ("auto", _) => UnifiedToolChoice::simple(ToolChoiceKind::Auto),
            (other, _) => {
                fields.push(("/tool_choice/type".into(), raw::json(other)));
                UnifiedToolChoice::simple(ToolChoiceKind::Auto)
            }
        }
    }

    fn cache(
        &mut self,
        automatic: Option<CacheControl>,
        tools_marked: bool,
        fields: &mut Vec<(String, Json)>,
    ) -> Option<UnifiedCacheIntent> {
        let breakpoints = (!self.marks.is_empty()).then(|| std::mem::take(&mut self.marks));
        let mode = match &automatic {
            Some(_) => CacheMode::Automatic,
            None if breakpoints.is_some() || tools_marked => CacheMode::Explicit,
            None => return None,
        };
        if let Some(control) = automatic {
            let loss = &mut self.keeper.loss;
            loss.only_word("/cache_control/type", control.kind.as_deref(), "ephemeral");
            fields.extend(control.ttl.map(|ttl| ("/cache_control/ttl".to_owned(), raw::json(&ttl))));
            fields.extend(below("/cache_control", control.extra.0));
        }
        Some(UnifiedCacheIntent {
            mode,
            affinity_key: None,
            breakpoints,
            retention: None,
        })
    }
}

fn text_block(text: String) -> Block {
    Block::Text(super::wire::TextBlock {
        text,
        citations: None,
        cache_control: None,
        extra: crate::wire::Extra::default(),
    })
}

fn role(word: &str, index: usize) -> Result<Role, UnifiedError> {
    match word {
        "user" => Ok(Role::User),
        "assistant" => Ok(Role::Assistant),
        "system" => Ok(Role::System),
        _ => Err(
            UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", "expected user, assistant or system")
                .at(format!("/messages/{index}/role")),
        ),
    }
}

/// The life that a cache mark names, when it is a known one.
pub(super) fn ttl(control: &CacheControl) -> Option<CacheTtl> {
    match control.ttl.as_deref() {
        Some("5m") => Some(CacheTtl::FiveMinutes),
        Some("1h") => Some(CacheTtl::OneHour),
        _ => None,
    }
}
