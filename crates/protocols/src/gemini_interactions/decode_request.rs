//! Create requests of the wire as [`UnifiedRequestV2`].

use super::decode_step::{Whole, lone, step};
use super::kept::{self, BODY, FORM, form};
use super::profile;
use super::wire::{Create, GenerationConfig, Tool};
use crate::codec::DecodedRequest;
use crate::context::DecodeContext;
use crate::feature::Feature;
use crate::keeper::{Keep, Keeper, references};
use crate::raw::{self, below, json, object};
use throughline_format::conversation::{Completeness, MissingReason, UnifiedMissingRange};
use throughline_format::intent::{
    JsonSchemaFormat, Nothing, OutputFormat, ReasoningEffort, ReasoningSummary, SafetySetting, Seed, ServiceTier,
};
use throughline_format::item::{MessageItem, Placement, Role};
use throughline_format::metadata::UnifiedSemanticMetadata;
use throughline_format::request::{BackgroundIntent, UnifiedStateInput};
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::tool::{AllowedMode, Execution, Portability, ToolChoiceKind, UnifiedHostedToolConfig, UnifiedToolSelector};
use throughline_format::{
    Json, UnifiedContentPart, UnifiedConversationInput, UnifiedError, UnifiedGenerationIntent, UnifiedIntent, UnifiedItem, UnifiedItemBody,
    UnifiedOutputIntent, UnifiedProviderDataRef, UnifiedProviderResourceRef, UnifiedRequestV2, UnifiedRequirement, UnifiedToolChoice,
    UnifiedToolDefinition, UnifiedToolType,
};

/// Reads a request body.
pub(super) fn decode(body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
    let create: Create = throughline_format::json::decode_slice(body)?;
    let decoder = Decoder {
        keeper: Keeper::new(context, profile(), Issuer::ClientAsserted),
        items: Vec::new(),
        form: Vec::new(),
    };
    Ok(decoder.request(create))
}

struct Decoder {
    keeper: Keeper,
    items: Vec<UnifiedItem>,
    /// Form of the body.
    form: Vec<(String, Json)>,
}

impl Decoder {
    fn request(mut self, create: Create) -> DecodedRequest {
        let mut fields = below("", create.extra.0);
        let context = self.keeper.context.clone();
        if let Some(text) = create.system_instruction {
            let part = UnifiedContentPart::text(self.next_id().part(0), text);
            let body = UnifiedItemBody::Message(MessageItem {
                parts: vec![part],
                placement: Some(Placement::Instructions),
            });
            self.push(Role::System, body, None);
        }
        let first = self.items.len();
        self.input(create.input);
        let mut generation = UnifiedGenerationIntent {
            service_tier: create.service_tier.as_deref().map(tier).map(UnifiedIntent::preferred),
            ..UnifiedGenerationIntent::default()
        };
        let mut tool_choice = None;
        if let Some(config) = create.generation_config {
            tool_choice = self.generation(&mut generation, config, &mut fields);
        }
        if let Some(list) = create.safety_settings {
            let whole = list.iter().all(|s| s.kind.is_some() && s.threshold.is_some() && s.extra.is_empty());
            if !whole || list.is_empty() {
                fields.push(("/safety_settings".into(), json(&list)));
            }
            let known: Vec<_> = list
                .into_iter()
                .filter_map(|s| {
                    Some(SafetySetting {
                        category: s.kind?,
                        threshold: s.threshold?,
                        method: s.method,
                    })
                })
                .collect();
            generation.safety_settings = (!known.is_empty()).then(|| UnifiedIntent::preferred(known));
        }
        let output = create.response_format.and_then(|format| self.format(&format));
        let tools = self.tools(create.tools.unwrap_or_default());
        let mut state = UnifiedStateInput::default();
        if let Some(store) = create.store {
            self.keeper
                .loss
                .info(Feature::WireSpelling, "/store", "said by the word of what may be kept");
            // Whoever names it makes a statement about privacy.
            state.persist = Some(UnifiedIntent::new(store, UnifiedRequirement::Required));
        }
        match create.background {
            Some(true) => {
                self.keeper
                    .loss
                    .info(Feature::WireSpelling, "/background", "said by the intent of background execution");
                state.background = Some(UnifiedIntent::preferred(BackgroundIntent::default()));
            }
            Some(false) => self.form.push(("background".into(), json(&false))),
            None => {}
        }
        if create.stream == Some(false) {
            self.form.push(("stream".into(), json(&false)));
        }
        let previous = create
            .previous_interaction_id
            .map(|id| self.handle(kept::INTERACTION, ResourceType::Interaction, 5, "/previous_interaction_id", id));
        let token = create
            .continuation_token
            .map(|token| self.handle(kept::CONTINUATION, ResourceType::Response, 6, "/continuation_token", token));
        if create.agent.is_some() {
            self.form.push(("agent".into(), json(&true)));
        }
        self.keeper.fields(None, context.operation_id.resource(0), "", fields);
        let form_members = std::mem::take(&mut self.form);
        form(&mut self.keeper, BODY, None, context.operation_id.resource(2), "", form_members);
        let before = self.items.get(first).map(|item| item.id.clone());
        let mut conversation = UnifiedConversationInput::complete(self.items);
        if let Some(previous) = &previous {
            conversation.completeness = Completeness::ReferenceOnly;
            conversation.missing = Some(vec![UnifiedMissingRange {
                after_item_id: None,
                before_item_id: before,
                count: None,
                reason: MissingReason::ProviderHeld,
                resource: Some(previous.clone()),
            }]);
        }
        let continuations: Vec<_> = previous.into_iter().chain(token).collect();
        conversation.continuations = (!continuations.is_empty()).then_some(continuations);
        let model = create.model.or(create.agent);
        DecodedRequest {
            unified: UnifiedRequestV2 {
                generation,
                tools,
                tool_choice,
                state: (state != UnifiedStateInput::default()).then_some(state),
                output,
                metadata: create.labels.map(|labels| UnifiedSemanticMetadata {
                    labels: Some(labels.into_iter().collect()),
                    end_user_ref: None,
                }),
                ..context.request(self.keeper.profile.clone(), conversation, model)
            },
            resources: self.keeper.resources,
            loss: self.keeper.loss.finish(),
            stream: create.stream.unwrap_or(false),
        }
    }

    fn handle(
        &mut self,
        schema: &'static str,
        resource_type: ResourceType,
        number: u64,
        path: &str,
        value: String,
    ) -> UnifiedProviderResourceRef {
        let kept = Keep {
            schema,
            resource_type,
            subject: None,
            resource_id: self.keeper.context.operation_id.resource(number),
            paths: vec![path.to_owned()],
        };
        self.keeper.handle(kept, value)
    }

    fn next_id(&self) -> throughline_format::UnifiedId {
        self.keeper.context.item_id(self.items.len() as u64)
    }

    fn push(&mut self, role: Role, body: UnifiedItemBody, provider_data: Option<Vec<UnifiedProviderDataRef>>) {
        self.keeper.push_item(&mut self.items, role, body, provider_data);
    }

    /// The input in any of its four forms.
    fn input(&mut self, input: Option<Json>) {
        let Some(input) = input else { return };
        let list: Vec<Json> = input.decode().unwrap_or_default();
        let is_step = |value: &Json| {
            let kind = raw::get(value, "type").and_then(|k| k.decode::<String>().ok());
            let content = matches!(kind.as_deref(), Some("text" | "image" | "audio" | "video" | "document"));
            !content && value.is_object()
        };
        if input.as_str().starts_with('[') && list.iter().all(is_step) {
            for (n, given) in list.iter().enumerate() {
                self.step(given, &format!("/input/{n}"));
            }
            return;
        }
        if !input.as_str().starts_with('[') && is_step(&input) {
            self.form.push(("input".into(), json("step")));
            self.step(&input, "/input");
            return;
        }
        // A text or contents: one turn of the user.
        let contents = if input.as_str().starts_with('[') {
            self.form.push(("input".into(), json("contents")));
            list
        } else {
            let word = if input.is_object() { "content" } else { "text" };
            self.form.push(("input".into(), json(word)));
            lone(&input).iter().map(json).collect()
        };
        let turn = object(vec![("type".into(), json("user_input")), ("content".into(), json(&contents))]);
        let item_id = self.next_id();
        let mut made = step(&mut self.keeper, &item_id, &turn, "");
        for resource in &mut self.keeper.resources {
            for path in &mut resource.wire_paths {
                if let Some(rest) = path.strip_prefix("/content/") {
                    *path = format!("/input/{rest}");
                }
            }
        }
        made.role = Role::User;
        self.push(made.role, made.body, made.provider_data);
    }

    fn step(&mut self, given: &Json, path: &str) {
        let item_id = self.next_id();
        let Whole { body, provider_data, role } = step(&mut self.keeper, &item_id, given, path);
        self.push(role, body, provider_data);
    }

    fn generation(
        &mut self,
        generation: &mut UnifiedGenerationIntent,
        config: GenerationConfig,
        fields: &mut Vec<(String, Json)>,
    ) -> Option<UnifiedToolChoice> {
        let path = "/generation_config";
        if json(&config).as_str() == "{}" {
            self.form.push(("generation_config".into(), json(&config)));
        }
        fields.extend(below(path, config.extra.0));
        generation.max_output_tokens = config.max_output_tokens.map(UnifiedIntent::preferred);
        generation.seed = config.seed.map(Seed::from_i64).map(UnifiedIntent::preferred);
        generation.stop_sequences = config.stop_sequences.map(UnifiedIntent::preferred);
        generation.temperature = config.temperature.map(UnifiedIntent::preferred);
        generation.top_p = config.top_p.map(UnifiedIntent::preferred);
        if let Some(level) = config.thinking_level {
            let effort = ReasoningEffort::from_word(&level);
            generation.reasoning.get_or_insert_default().effort = Some(UnifiedIntent::preferred(effort));
        }
        match config.thinking_summaries.as_deref() {
            None => {}
            Some("auto") => generation.reasoning.get_or_insert_default().summary = Some(UnifiedIntent::preferred(ReasoningSummary::Auto)),
            Some("none") => generation.reasoning.get_or_insert_default().summary = Some(UnifiedIntent::preferred(ReasoningSummary::None)),
            Some(other) => fields.push((format!("{path}/thinking_summaries"), json(other))),
        }
        let choice = config.tool_choice?;
        let known = tool_choice(&choice);
        if known.is_none() {
            fields.push((format!("{path}/tool_choice"), choice));
        } else {
            self.keeper.loss.info(
                Feature::WireSpelling,
                format!("{path}/tool_choice"),
                "said by the kind of the tool choice",
            );
        }
        known
    }

    /// The form of the answer; the member is kept as it was written.
    fn format(&mut self, given: &Json) -> Option<UnifiedOutputIntent> {
        self.form.push(("response_format".into(), given.clone()));
        let list: Vec<Json> = given.decode().unwrap_or_else(|_| vec![given.clone()]);
        let [only] = list.as_slice() else { return None };
        let word = |key: &str| raw::get(only, key).and_then(|v| v.decode::<String>().ok());
        let format = match (word("type").as_deref(), word("mime_type").as_deref(), raw::get(only, "schema")) {
            (Some("text"), _, Some(schema)) => OutputFormat::JsonSchema(JsonSchemaFormat {
                schema,
                name: None,
                description: None,
                strict: None,
            }),
            (Some("text"), Some("application/json"), None) | (Some("json_object"), _, None) => OutputFormat::JsonObject(Nothing {}),
            (Some("text"), None | Some("text/plain"), None) => OutputFormat::Text(Nothing {}),
            _ => return None,
        };
        Some(UnifiedOutputIntent {
            format: Some(UnifiedIntent::preferred(format)),
            ..UnifiedOutputIntent::default()
        })
    }

    fn tools(&mut self, list: Vec<Json>) -> Vec<UnifiedToolDefinition> {
        let mut found = Vec::new();
        for (n, given) in list.into_iter().enumerate() {
            let tool_id = self.keeper.context.operation_id.tool(n as u64);
            let path = format!("/tools/{n}");
            let wire = given.decode::<Tool>().ok();
            let kind = wire.as_ref().and_then(|t| t.kind.clone()).unwrap_or_default();
            if let Some(wire) = wire.filter(|t| t.kind.as_deref() == Some("function") && t.name.is_some()) {
                let mut tool = UnifiedToolDefinition::function(tool_id.clone(), wire.name.unwrap_or_default());
                tool.description = wire.description;
                tool.input_schema = wire.parameters;
                tool.defer_loading = wire.defer_loading;
                tool.provider_data = references([self.keeper.unmapped(&tool_id, &path, wire.extra.into_unmapped())]);
                found.push(tool);
                continue;
            }
            let given = self.without_credentials(given, &path);
            let kind = super::decode_step::hosted_type(&kind);
            let owner_bound = matches!(
                kind,
                UnifiedToolType::FileSearch | UnifiedToolType::Retrieval | UnifiedToolType::ToolSearch | UnifiedToolType::Other(_)
            );
            let portability = if owner_bound {
                Portability::OwnerBound
            } else {
                Portability::Equivalent
            };
            let execution = if kind == UnifiedToolType::ComputerUse {
                Execution::Client
            } else {
                Execution::Provider
            };
            let mut tool = UnifiedToolDefinition::new(tool_id.clone(), kind, execution, portability, None);
            tool.config = config_of(&given);
            let members = vec![("tool".to_owned(), given)];
            let reference = form(&mut self.keeper, FORM, Some(&tool_id), tool_id.resource(2), "", members);
            if let Some(resource) = self.keeper.resources.last_mut().filter(|_| reference.is_some()) {
                resource.wire_paths = vec![path];
            }
            tool.provider_data = references([reference]);
            found.push(tool);
        }
        found
    }

    /// Takes credentials out of what is kept: they are never stored.
    fn without_credentials(&mut self, given: Json, path: &str) -> Json {
        if raw::get(&given, "headers").is_none() {
            return given;
        }
        let at = format!("{path}/headers");
        self.keeper.loss.warning(Feature::ToolHostedMcp, at, "a credential is never kept");
        raw::put(&given, "/headers", &Json::null())
    }
}

/// What the record says of a hosted tool's options.
fn config_of(given: &Json) -> Option<UnifiedHostedToolConfig> {
    let text = |key: &str| raw::get(given, key).and_then(|v| v.decode::<String>().ok());
    let list = |key: &str| raw::get(given, key).and_then(|v| v.decode::<Vec<String>>().ok());
    let kind = text("type").unwrap_or_default();
    let mut config = UnifiedHostedToolConfig::default();
    match kind.as_str() {
        "google_search" => config.search_types = list("search_types"),
        "google_maps" => {
            config.widget = raw::get(given, "enable_widget").and_then(|v| v.decode().ok());
            config.latitude = raw::get(given, "latitude").and_then(|v| v.decode().ok());
            config.longitude = raw::get(given, "longitude").and_then(|v| v.decode().ok());
        }
        "file_search" => {
            config.filter = raw::get(given, "metadata_filter");
            config.max_results = raw::get(given, "top_k").and_then(|v| v.decode().ok());
        }
        "computer_use" => {
            config.environment = text("environment");
            config.excluded_actions = list("excluded_predefined_functions");
            config.injection_check = raw::get(given, "enable_prompt_injection_detection").and_then(|v| v.decode().ok());
            config.disabled_safety_policies = list("disabled_safety_policies");
        }
        "mcp_server" => {
            config.server_label = text("name");
            config.server_url = text("url").map(|url| crate::address::plain(&url));
            config.allowed_tools = list("allowed_tools").or_else(|| allowed_tools(&raw::get(given, "allowed_tools")?));
        }
        _ => {}
    }
    (config != UnifiedHostedToolConfig::default()).then_some(config)
}

/// The names of a server's tools that may be called; none when a list does not name them.
fn allowed_tools(given: &Json) -> Option<Vec<String>> {
    let lists: Vec<Json> = given.decode().ok()?;
    let mut names = Vec::new();
    for list in &lists {
        let mode = raw::get(list, "mode").and_then(|mode| mode.decode::<String>().ok());
        if mode.as_deref() != Some("none") {
            names.extend(raw::get(list, "tools")?.decode::<Vec<String>>().ok()?);
        }
    }
    Some(names)
}

/// A tool choice that the record can say.
fn tool_choice(choice: &Json) -> Option<UnifiedToolChoice> {
    if let Ok(word) = choice.decode::<String>() {
        return Some(match word.as_str() {
            "auto" => UnifiedToolChoice::simple(ToolChoiceKind::Auto),
            "any" => UnifiedToolChoice::simple(ToolChoiceKind::Required),
            "none" => UnifiedToolChoice::simple(ToolChoiceKind::None),
            "validated" => UnifiedToolChoice {
                validated: Some(true),
                ..UnifiedToolChoice::simple(ToolChoiceKind::Auto)
            },
            _ => return None,
        });
    }
    let allowed = raw::get(choice, "allowed_tools")?;
    if raw::members(choice).len() > 1 {
        return None;
    }
    let names: Vec<String> = raw::get(&allowed, "tools")?.decode().ok()?;
    let mode: Option<String> = raw::get(&allowed, "mode").and_then(|m| m.decode().ok());
    let mode = match mode.as_deref() {
        Some("any") => AllowedMode::Required,
        Some("auto") => AllowedMode::Auto,
        _ => return None,
    };
    let select = |name: String| UnifiedToolSelector {
        tool_type: UnifiedToolType::Function,
        name: Some(name),
        server_label: None,
    };
    Some(UnifiedToolChoice {
        mode: Some(mode),
        tools: Some(names.into_iter().map(select).collect()),
        ..UnifiedToolChoice::simple(ToolChoiceKind::Allowed)
    })
}

/// The class of service behind a word.
fn tier(word: &str) -> ServiceTier {
    match word {
        "standard" => ServiceTier::Standard,
        "flex" => ServiceTier::Flex,
        "priority" => ServiceTier::Priority,
        other => ServiceTier::Other(format!("gemini-interactions:{other}").into()),
    }
}
