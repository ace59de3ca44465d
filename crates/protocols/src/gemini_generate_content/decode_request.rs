//! Requests of the wire as [`UnifiedRequestV2`].

use super::decode_part::{Kind, NamedCalls, Whole, kind, message_part, reasoning_part, whole};
use super::decode_settings::{self, Settings};
use super::kept::{self, CONTENT};
use super::spelling::Spelling;
use super::wire::{Content, Part, Request};
use super::{Dialect, decode_tools};
use crate::codec::DecodedRequest;
use crate::context::DecodeContext;
use crate::feature::Feature;
use crate::keeper::{Keep, Keeper};
use crate::raw::{self, json, object};
use throughline_format::item::{MessageItem, Placement, ReasoningItem, Role};
use throughline_format::metadata::UnifiedSemanticMetadata;
use throughline_format::request::UnifiedStateInput;
use throughline_format::resource::{Issuer, ResourceType, UnmappedEntry, UnmappedPayload};
use throughline_format::{
    ErrorCategory, Json, UnifiedContentPart, UnifiedConversationInput, UnifiedError, UnifiedId, UnifiedIntent, UnifiedItem,
    UnifiedItemBody, UnifiedProviderDataRef, UnifiedRequestV2, UnifiedRequirement,
};

/// Reads a request body.
pub(super) fn decode(dialect: Dialect, body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
    throughline_format::json::decode_slice::<Json>(body)?;
    let text = std::str::from_utf8(body).unwrap_or_default();
    let (text, spelling) = Spelling::of(text);
    let mut envelope = Vec::new();
    let inner = if dialect == Dialect::Antigravity {
        let Some(inner) = raw::get(
            &Json::from_text(text.clone().into_owned()).unwrap_or_else(|_| Json::null()),
            "request",
        ) else {
            return Err(UnifiedError::new(ErrorCategory::InvalidRequest, "missing-field", "request is required").at("/request"));
        };
        let outer = Json::from_text(text.into_owned()).unwrap_or_else(|_| Json::null());
        envelope = raw::members(&outer).into_iter().filter(|(key, _)| key != "request").collect();
        inner.as_str().to_owned()
    } else {
        text.into_owned()
    };
    let prefix = dialect.request_prefix();
    let (inner, lone) = with_lists(inner, prefix);
    let request: Request = throughline_format::json::decode_str(&inner).map_err(|e| {
        let mut error = UnifiedError::from(e);
        error.field_path = error.field_path.map(|at| spelling.original(&format!("{prefix}{at}")));
        error
    })?;
    let decoder = Decoder {
        keeper: Keeper::new(context, dialect.profile(), Issuer::ClientAsserted),
        items: Vec::new(),
        calls: NamedCalls::default(),
        dialect,
        form: lone,
    };
    let mut decoded = decoder.request(request, envelope)?;
    for resource in &mut decoded.resources {
        resource.wire_paths.iter_mut().for_each(|path| *path = spelling.original(path));
    }
    decoded
        .loss
        .entries
        .iter_mut()
        .for_each(|entry| entry.path = spelling.original(&entry.path));
    Ok(decoded)
}

/// Members that hold a list; some clients write a lone element without its brackets.
fn with_lists(body: String, prefix: &str) -> (String, Vec<(String, Json)>) {
    let Ok(mut json) = Json::from_text(body.clone()) else {
        return (body, Vec::new());
    };
    let mut lone = Vec::new();
    for key in ["contents", "tools"] {
        if let Some(value) = raw::get(&json, key).filter(Json::is_object) {
            json = raw::put(&json, &format!("/{key}"), &raw::json(std::slice::from_ref(&value)));
            // A tool of the provider may hold credentials: it is not kept a second time.
            if key == "contents" || raw::members(&value).iter().all(|(k, _)| k == "functionDeclarations") {
                lone.push((format!("{prefix}/{key}"), value));
            }
        }
    }
    (json.as_str().to_owned(), lone)
}

struct Decoder {
    keeper: Keeper,
    items: Vec<UnifiedItem>,
    calls: NamedCalls,
    dialect: Dialect,
    /// Form of the body: members to put, or to take away where null.
    form: Vec<(String, Json)>,
}

/// A run of text and media, or of thinking, that becomes one item.
struct Run {
    item_id: UnifiedId,
    thinking: bool,
    parts: Vec<UnifiedContentPart>,
}

impl Decoder {
    fn request(mut self, request: Request, envelope: Vec<(String, Json)>) -> Result<DecodedRequest, UnifiedError> {
        let prefix = self.dialect.request_prefix();
        let mut fields: Vec<(String, Json)> = raw::below(prefix, request.extra.0);
        let mut model = request.model.clone();
        if let Some(named) = &request.model {
            self.form.push((format!("{prefix}/model"), json(named)));
        }
        for (key, value) in envelope {
            match (key.as_str(), value.decode::<String>()) {
                ("model", Ok(name)) => model = Some(name),
                _ => fields.extend(raw::below("", vec![(key, value)])),
            }
        }
        self.system(request.system_instruction, &mut fields);
        if request.contents.is_none() {
            self.form.push((format!("{prefix}/contents"), Json::null()));
        }
        let mut previous = None;
        for (index, content) in request.contents.unwrap_or_default().into_iter().enumerate() {
            let path = format!("{prefix}/contents/{index}");
            let role = role(content.role.as_deref(), &path)?;
            self.content(content, role, previous == Some(role), &path);
            previous = Some(role);
        }
        let mut settings = Settings::default();
        let mut tools = decode_tools::tools(&mut self.keeper, request.tools.unwrap_or_default(), prefix);
        if let Some(config) = request.generation_config {
            decode_settings::generation(&mut self.keeper, &mut settings, config, prefix, &mut fields, &mut self.form);
        }
        let tool_choice = request.tool_config.and_then(|config| {
            let path = format!("{prefix}/toolConfig");
            decode_tools::config(
                &mut self.keeper,
                &mut settings,
                config,
                &mut tools,
                &path,
                &mut fields,
                &mut self.form,
            )
        });
        settings.generation.safety_settings =
            decode_settings::safety(request.safety_settings, prefix, &mut fields).map(UnifiedIntent::preferred);
        settings.generation.service_tier = request
            .service_tier
            .map(|word| UnifiedIntent::preferred(decode_settings::tier(&word)));
        let mut state = UnifiedStateInput::default();
        if let Some(store) = request.store {
            // Forbidding to keep a request is a statement about privacy.
            let strength = if store {
                UnifiedRequirement::Preferred
            } else {
                UnifiedRequirement::Required
            };
            state.persist = Some(UnifiedIntent::new(store, strength));
        }
        let root = self.keeper.context.operation_id.clone();
        let mut handle = |schema, resource_type, number, path: &str, value: String| {
            let kept = Keep {
                schema,
                resource_type,
                subject: None,
                resource_id: root.resource(number),
                paths: vec![format!("{prefix}{path}")],
            };
            self.keeper.handle(kept, value)
        };
        let cached = request
            .cached_content
            .map(|name| handle(kept::CACHE, ResourceType::CachedContent, 4, "/cachedContent", name));
        let session = request
            .session_id
            .map(|id| handle(kept::SESSION, ResourceType::Session, 5, "/sessionId", id));
        let continuation = request
            .continuation_token
            .map(|token| handle(kept::CONTINUATION, ResourceType::Response, 6, "/continuationToken", token));
        let resources: Vec<_> = cached.into_iter().chain(session).collect();
        state.resources = (!resources.is_empty()).then_some(resources);
        let metadata = request.labels.map(|labels| UnifiedSemanticMetadata {
            labels: Some(labels.into_iter().collect()),
            end_user_ref: None,
        });
        let context = self.keeper.context.clone();
        self.keeper.fields(None, context.operation_id.resource(0), "", fields);
        self.keep_form();
        let mut conversation = UnifiedConversationInput::complete(self.items);
        conversation.continuations = continuation.map(|token| vec![token]);
        let model = model.map(|name| name.strip_prefix("models/").unwrap_or(&name).to_owned());
        Ok(DecodedRequest {
            unified: UnifiedRequestV2 {
                generation: settings.generation,
                tools,
                tool_choice,
                state: (state != UnifiedStateInput::default()).then_some(state),
                output: settings.output,
                metadata,
                ..context.request(self.keeper.profile.clone(), conversation, model)
            },
            resources: self.keeper.resources,
            loss: self.keeper.loss.finish(),
            // The URL says whether it is one.
            stream: false,
        })
    }

    /// Keeps the form of the body as a whole.
    fn keep_form(&mut self) {
        if self.form.is_empty() {
            return;
        }
        let form = std::mem::take(&mut self.form);
        let paths = form.iter().filter(|(_, v)| v.as_str() != "null").map(|(p, _)| p.clone()).collect();
        let entries = form.into_iter().map(|(pointer, value)| UnmappedEntry { pointer, value }).collect();
        let kept = Keep {
            schema: kept::BODY,
            resource_type: ResourceType::Other("form".into()),
            subject: None,
            resource_id: self.keeper.context.operation_id.resource(2),
            paths,
        };
        self.keeper
            .payload(kept, serde_json::to_vec(&UnmappedPayload { entries }).unwrap_or_default());
    }

    fn next_id(&self) -> UnifiedId {
        self.keeper.context.item_id(self.items.len() as u64)
    }

    fn push(&mut self, role: Role, body: UnifiedItemBody, provider_data: Option<Vec<UnifiedProviderDataRef>>) {
        self.keeper.push_item(&mut self.items, role, body, provider_data);
    }

    fn system(&mut self, system: Option<Content>, fields: &mut Vec<(String, Json)>) {
        let Some(system) = system else { return };
        let path = format!("{}/systemInstruction", self.dialect.request_prefix());
        let written = system.role.as_deref();
        let usual = self.dialect.system_role();
        if written != usual {
            let role = written.map_or_else(Json::null, json);
            self.form.push((format!("{path}/role"), role));
        }
        fields.extend(raw::below(&path, system.extra.0));
        let item_id = self.next_id();
        let parts = system.parts.unwrap_or_default().into_iter().enumerate();
        let parts: Vec<_> = parts
            .map(|(n, part)| message_part(&mut self.keeper, &item_id.part(n as u64), part, &format!("{path}/parts/{n}"), false))
            .collect();
        let body = UnifiedItemBody::Message(MessageItem {
            parts,
            placement: Some(Placement::Instructions),
        });
        self.push(Role::System, body, None);
    }

    fn content(&mut self, content: Content, role: Role, apart: bool, path: &str) {
        let first = self.items.len();
        let mut run: Option<Run> = None;
        let parts_told = content.parts.is_some();
        for (n, part) in content.parts.unwrap_or_default().into_iter().enumerate() {
            self.part(role, part, &format!("{path}/parts/{n}"), &mut run);
        }
        self.flush(role, run);
        let usual = if role == Role::Assistant { "model" } else { "user" };
        let mut border = Vec::new();
        if content.role.as_deref() != Some(usual) {
            border.push(("/role".to_owned(), content.role.as_deref().map_or_else(Json::null, json)));
        }
        let extra: Vec<_> = content.extra.into_unmapped().filter(|(_, v)| v.as_str() != "null").collect();
        for (pointer, _) in &extra {
            let at = format!("{path}{pointer}");
            self.keeper
                .loss
                .info(Feature::WireUnmapped, at, "no Unified word; kept for the same owner");
        }
        border.extend(extra);
        if self.items.len() == first {
            // A turn without parts: all of it was thinking that nobody kept.
            if !parts_told {
                border.push(("/parts".into(), Json::null()));
            }
            let body = UnifiedItemBody::Message(MessageItem {
                parts: Vec::new(),
                placement: None,
            });
            self.push(role, body, None);
        }
        if apart || !border.is_empty() {
            self.border(first, apart, border, path);
        }
    }

    /// Keeps the border of a content on the first item that it became.
    fn border(&mut self, first: usize, apart: bool, members: Vec<(String, Json)>, path: &str) {
        let Some(id) = self.items.get(first).map(|item| item.id.clone()) else {
            return;
        };
        let list: Vec<Json> = members
            .iter()
            .map(|(pointer, value)| object(vec![("pointer".into(), json(pointer)), ("value".into(), value.clone())]))
            .collect();
        let payload = object(vec![("apart".into(), json(&apart)), ("members".into(), json(&list))]);
        let kept = Keep {
            schema: CONTENT,
            resource_type: ResourceType::Other("form".into()),
            subject: Some(&id),
            resource_id: id.resource(3),
            paths: members.iter().map(|(pointer, _)| format!("{path}{pointer}")).collect(),
        };
        let reference = self.keeper.payload(kept, payload.as_str().as_bytes().to_vec());
        if let Some(item) = self.items.get_mut(first) {
            item.base.provider_data.get_or_insert_default().push(reference);
        }
    }

    fn flush(&mut self, role: Role, run: Option<Run>) {
        let Some(run) = run else { return };
        if run.thinking {
            self.push(
                Role::Assistant,
                UnifiedItemBody::Reasoning(ReasoningItem { parts: run.parts }),
                None,
            );
        } else {
            let body = UnifiedItemBody::Message(MessageItem {
                parts: run.parts,
                placement: None,
            });
            self.push(role, body, None);
        }
    }

    fn part(&mut self, role: Role, part: Part, path: &str, run: &mut Option<Run>) {
        let thinking = match kind(&part) {
            Kind::Text | Kind::Media | Kind::Unknown => false,
            Kind::Thought | Kind::Carrier => true,
            Kind::Call | Kind::Response | Kind::Code | Kind::CodeResult | Kind::HostedCall | Kind::HostedResult => {
                self.flush(role, run.take());
                let item_id = self.next_id();
                let model = role == Role::Assistant;
                let Whole { body, provider_data, role } = whole(&mut self.keeper, &item_id, part, path, model, &mut self.calls);
                self.push(role, body, provider_data);
                return;
            }
        };
        if run.as_ref().is_some_and(|run| run.thinking != thinking) {
            self.flush(role, run.take());
        }
        let item_id = self.next_id();
        let run = run.get_or_insert_with(|| Run {
            item_id,
            thinking,
            parts: Vec::new(),
        });
        let part_id = run.item_id.part(run.parts.len() as u64);
        run.parts.push(if thinking {
            reasoning_part(&mut self.keeper, &part_id, part, path, false)
        } else {
            message_part(&mut self.keeper, &part_id, part, path, false)
        });
    }
}

/// Who says a content; results of functions once had a role of their own.
fn role(word: Option<&str>, path: &str) -> Result<Role, UnifiedError> {
    match word {
        None | Some("" | "user" | "function" | "tool") => Ok(Role::User),
        Some("model" | "assistant") => Ok(Role::Assistant),
        Some(_) => {
            Err(UnifiedError::new(ErrorCategory::InvalidRequest, "invalid-value", "expected user or model").at(format!("{path}/role")))
        }
    }
}
