//! State that a request uses or wants: context management, containers with skills, MCP servers, other models, a thread.

use super::kept::{self, Keeper};
use super::wire::Members;
use crate::feature::Feature;
use crate::keeper;
use crate::keeper::Keep;
use crate::raw::below;
use crate::raw::{self};
use throughline_format::conversation::{Completeness, MissingReason, UnifiedMissingRange};
use throughline_format::request::{ContextEdit, ContextEditKind};
use throughline_format::resource::ResourceType;
use throughline_format::tool::{Execution, Portability};
use throughline_format::{
    Json, UnifiedConversationInput, UnifiedId, UnifiedIntent, UnifiedProviderResourceRef, UnifiedToolDefinition, UnifiedToolType,
};

/// Kinds of edits with their dated words and what `keep` counts.
pub(super) const EDITS: &[(&str, ContextEditKind, &str)] = &[
    ("clear_tool_uses_20250919", ContextEditKind::ClearToolUses, "tool_uses"),
    ("clear_thinking_20251015", ContextEditKind::ClearReasoning, "thinking_turns"),
    ("compact_20260112", ContextEditKind::Compact, ""),
];

/// Version of an MCP tool that stands in the list of servers alone: the first date of that interface.
pub(super) const SERVER_ONLY: &str = "20250404";

/// Number of the resources of a request's root, besides the unmapped fields.
const CONTAINER: u64 = 1;
const THREAD: u64 = 2;

/// Fields of the whole body that are kept.
type Fields = Vec<(String, Json)>;

impl Keeper {
    /// A handle of the provider that the whole request refers to.
    fn root_resource(&mut self, schema: &str, kind: ResourceType, number: u64, handle: String, path: &str) -> UnifiedProviderResourceRef {
        let resource_id = self.context.operation_id.resource(number);
        let reference = self.payload(
            Keep {
                schema,
                resource_type: kind.clone(),
                subject: None,
                resource_id,
                paths: vec![path.to_owned()],
            },
            handle.into_bytes(),
        );
        self.resource_ref(reference.resource_id, kind)
    }

    /// A reference to a sealed handle of the payload's owner.
    pub(super) fn resource_ref(&self, resource_id: UnifiedId, resource_type: ResourceType) -> UnifiedProviderResourceRef {
        UnifiedProviderResourceRef {
            resource_id,
            resource_type,
            owner_fingerprint: self.context.owner_fingerprint,
            status: None,
            expires_at: None,
        }
    }

    /// The rules of context management; `now` asks for a summary as the answer.
    pub(super) fn context_management(
        &mut self,
        rules: Option<Json>,
        now: Option<Json>,
        fields: &mut Fields,
    ) -> Option<UnifiedIntent<Vec<ContextEdit>>> {
        let mut edits = Vec::new();
        let head = "/context_management";
        if let Some(raw) = rules {
            let parsed = raw.decode::<Members>().ok().and_then(|mut members| {
                let list: Vec<Members> = members.extra.take("edits")?.decode().ok()?;
                Some((list, members))
            });
            match parsed {
                Some((list, rest)) => {
                    fields.extend(below(head, rest.extra.0));
                    for (n, edit) in list.into_iter().enumerate() {
                        edits.push(context_edit(edit, &format!("{head}/edits/{n}"), fields));
                    }
                    self.loss
                        .remark(Feature::WireSpelling, head, "said by the kinds and figures of the record");
                }
                None => fields.push((head.to_owned(), raw)),
            }
        }
        if let Some(raw) = now {
            fields.push(("/compaction".to_owned(), raw));
            edits.push(ContextEdit {
                kind: ContextEditKind::Compact,
                trigger_tokens: Some(0),
                keep: None,
            });
        }
        (!edits.is_empty()).then(|| UnifiedIntent::preferred(edits))
    }

    /// The container of a request; its skills are tools.
    pub(super) fn container(
        &mut self,
        raw: Json,
        tools: &mut Vec<UnifiedToolDefinition>,
        fields: &mut Fields,
    ) -> Option<UnifiedProviderResourceRef> {
        if let Ok(id) = raw.decode::<String>() {
            return Some(self.root_resource(kept::CONTAINER, ResourceType::Container, CONTAINER, id, "/container"));
        }
        let Ok(mut members) = raw.decode::<Members>() else {
            fields.push(("/container".into(), raw));
            return None;
        };
        let id = members.extra.take("id").and_then(|id| id.decode::<Option<String>>().ok().flatten());
        let skills = members.extra.take("skills").and_then(|list| list.decode::<Vec<Members>>().ok());
        match skills {
            Some(list) => {
                for (n, skill) in list.into_iter().enumerate() {
                    let tool = self.skill(skill, tools.len() as u64, &format!("/container/skills/{n}"));
                    tools.push(tool);
                }
                fields.extend(below("/container", members.extra.0));
            }
            // Without skills the string says the same; what was written comes back.
            None => fields.push(("/container".into(), raw)),
        }
        id.map(|id| self.root_resource(kept::CONTAINER, ResourceType::Container, CONTAINER, id, "/container/id"))
    }

    fn skill(&mut self, mut skill: Members, number: u64, path: &str) -> UnifiedToolDefinition {
        let tool_id = self.context.operation_id.tool(number);
        let mut word = |key: &str| skill.extra.take(key).and_then(|value| value.decode::<String>().ok());
        let (origin, id, version) = (word("type"), word("skill_id"), word("version"));
        let custom = origin.as_deref() == Some("custom");
        let portability = if custom { Portability::OwnerBound } else { Portability::Equivalent };
        let mut tool = UnifiedToolDefinition::new(tool_id.clone(), UnifiedToolType::Skill, Execution::Provider, portability, None);
        tool.namespace = origin;
        tool.version = version;
        match id {
            // The name of a skill of the workspace is a handle.
            Some(id) if custom => {
                let kind = ResourceType::Other("skill".into());
                let path = format!("{path}/skill_id");
                let kept = self.payload(
                    Keep {
                        schema: kept::SKILL,
                        resource_type: kind.clone(),
                        subject: Some(&tool_id),
                        resource_id: tool_id.resource(0),
                        paths: vec![path.clone()],
                    },
                    id.into_bytes(),
                );
                tool.resources = Some(vec![self.resource_ref(kept.resource_id, kind)]);
            }
            id => tool.name = id,
        }
        tool.provider_data = keeper::references([self.unmapped(&tool_id, path, below("", skill.extra.0))]);
        tool
    }

    /// MCP servers: the tools of the same name know where they are, others are tools of their own.
    pub(super) fn mcp_servers(&mut self, raw: Json, tools: &mut Vec<UnifiedToolDefinition>, fields: &mut Fields) {
        let Ok(servers) = raw.decode::<Vec<Members>>() else {
            fields.push(("/mcp_servers".into(), raw));
            return;
        };
        for (n, mut server) in servers.into_iter().enumerate() {
            let path = format!("/mcp_servers/{n}");
            if server
                .extra
                .take("authorization_token")
                .is_some_and(|token| token.as_str() != "null")
            {
                self.loss.warning(
                    Feature::WireUnmapped,
                    format!("{path}/authorization_token"),
                    "a credential is never kept",
                );
            }
            let mut word = |key: &str| server.extra.take(key).and_then(|value| value.decode::<String>().ok());
            let (kind, label, address) = (word("type"), word("name"), word("url"));
            let mut left = Vec::new();
            left.extend(kind.filter(|kind| kind != "url").map(|kind| ("/type".to_owned(), raw::json(&kind))));
            let url = address.map(|address| self.plain_address(address, &path));
            let of_label = |tool: &&mut UnifiedToolDefinition| {
                let labelled = tool.config.as_ref().is_some_and(|config| config.server_label == label);
                tool.kind == UnifiedToolType::Mcp && label.is_some() && labelled
            };
            if let Some(tool) = tools.iter_mut().find(of_label) {
                left.extend(below("", server.extra.0));
                let left = left.into_iter().map(|(pointer, value)| (format!("/mcp_server{pointer}"), value));
                let (tool_id, config) = (tool.tool_id.clone(), tool.config.get_or_insert_default());
                config.server_url = url;
                // Its own number: the toolset's fields have the first.
                let reference = self.fields(Some(&tool_id), tool_id.resource(3), &path, left);
                if let Some(reference) = reference {
                    tool.provider_data.get_or_insert_default().push(reference);
                }
                continue;
            }
            let tool_id = self.context.operation_id.tool(tools.len() as u64);
            let mut tool = UnifiedToolDefinition::new(
                tool_id.clone(),
                UnifiedToolType::Mcp,
                Execution::Provider,
                Portability::Equivalent,
                None,
            );
            tool.version = Some(SERVER_ONLY.to_owned());
            let config = tool.config.get_or_insert_default();
            config.server_label = label;
            config.server_url = url;
            if let Some(mut rules) = server.extra.take("tool_configuration").and_then(|raw| raw.decode::<Members>().ok()) {
                config.allowed_tools = rules.extra.take("allowed_tools").and_then(|list| list.decode().ok());
                left.extend(below("/tool_configuration", rules.extra.0));
            }
            left.extend(below("", server.extra.0));
            tool.provider_data = keeper::references([self.unmapped(&tool_id, &path, left)]);
            tools.push(tool);
        }
    }

    /// An address without what may hold a credential.
    fn plain_address(&mut self, address: String, path: &str) -> String {
        let plain = crate::address::plain(&address);
        if plain != address {
            self.loss.warning(
                Feature::WireUnmapped,
                format!("{path}/url"),
                "user name, password and query may hold a credential and are never kept",
            );
        }
        plain
    }

    /// Models that may answer instead.
    pub(super) fn fallbacks(raw: Json, fields: &mut Fields) -> Option<Vec<String>> {
        let Ok(list) = raw.decode::<Vec<Members>>() else {
            fields.push(("/fallbacks".into(), raw));
            return None;
        };
        let mut models = Vec::new();
        let mut left = Vec::new();
        for (n, mut entry) in list.into_iter().enumerate() {
            let model = entry.extra.take("model").and_then(|model| model.decode::<String>().ok());
            let Some(model) = model else {
                fields.push(("/fallbacks".into(), raw));
                return None;
            };
            models.push(model);
            left.extend(below(&format!("/fallbacks/{n}"), entry.extra.0));
        }
        fields.extend(left);
        Some(models)
    }

    /// A thread whose history the provider holds.
    pub(super) fn thread(&mut self, raw: Json, conversation: &mut UnifiedConversationInput, fields: &mut Fields) {
        let handle = raw.decode::<Members>().ok().and_then(|mut thread| {
            let kind: String = thread.extra.take("type")?.decode().ok()?;
            let handle: String = thread.extra.take("previous_message_id")?.decode().ok()?;
            (kind == "continue").then_some((handle, thread))
        });
        let Some((handle, rest)) = handle else {
            fields.push(("/thread".into(), raw));
            return;
        };
        fields.extend(below("/thread", rest.extra.0));
        let path = "/thread/previous_message_id";
        let held = self.root_resource(kept::THREAD, ResourceType::Session, THREAD, handle, path);
        conversation.completeness = Completeness::ReferenceOnly;
        conversation.missing = Some(vec![UnifiedMissingRange {
            after_item_id: None,
            before_item_id: conversation.items.first().map(|item| item.id.clone()),
            count: None,
            reason: MissingReason::ProviderHeld,
            resource: Some(held.clone()),
        }]);
        conversation.continuations = Some(vec![held]);
    }
}

/// One rule; what the record cannot say goes to the fields.
fn context_edit(mut edit: Members, path: &str, fields: &mut Fields) -> ContextEdit {
    let word = edit
        .extra
        .take("type")
        .and_then(|word| word.decode::<String>().ok())
        .unwrap_or_default();
    let known = EDITS.iter().find(|(known, ..)| *known == word);
    let kind = known.map_or_else(
        || ContextEditKind::Other(format!("anthropic-messages:{word}").into()),
        |(_, kind, _)| kind.clone(),
    );
    let mut figure = |key: &str, unit: &str| {
        let raw = edit.extra.take(key)?;
        let figure = raw.decode::<Figure>().ok().filter(|figure| figure.kind == unit && !unit.is_empty());
        if figure.is_none() {
            edit.extra.0.push((key.to_owned(), raw));
        }
        figure.map(|figure| figure.value)
    };
    let trigger_tokens = figure("trigger", "input_tokens");
    let keep = figure("keep", known.map_or("", |(_, _, unit)| unit));
    fields.extend(below(path, edit.extra.0));
    ContextEdit {
        kind,
        trigger_tokens,
        keep,
    }
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    #[serde(rename = "type")]
    kind: String,
    value: u64,
}
