//! State that a request uses or wants, as members of the body.

use super::decode_state::{EDITS, SERVER_ONLY};
use super::encode_block::{BlockEncoder, typed};
use crate::feature::Feature;
use crate::keeper;
use crate::raw::{self};
use crate::raw::{json, object};
use throughline_format::intent::UnifiedRequirement;
use throughline_format::loss::LossSeverity;
use throughline_format::request::{ContextEdit, ContextEditKind};
use throughline_format::resource::{ResourceType, UnmappedEntry};
use throughline_format::{Json, UnifiedRequestV2, UnifiedToolDefinition, UnifiedToolType};

/// Pointer under which fields of an MCP server are kept with its toolset.
const SERVER_FIELDS: &str = "/mcp_server/";

impl BlockEncoder<'_> {
    /// Members of the state: container, servers, rules, other models, the thread.
    pub(super) fn state(&mut self, request: &UnifiedRequestV2, native: bool) -> Vec<(String, Json)> {
        let mut members = Vec::new();
        let mut add = |key: &str, value: Option<Json>| members.extend(value.map(|value| (key.to_owned(), value)));
        add("container", self.container(request));
        add("mcp_servers", self.mcp_servers(request));
        let (rules, now) = self.context_management(request);
        add("context_management", rules);
        add("compaction", now);
        add("fallbacks", self.fallbacks(request, native));
        add("thread", self.thread(request));
        members
    }

    /// The text payload of a handle that the target may see.
    fn handle(&self, resource_id: &throughline_format::UnifiedId) -> Option<String> {
        let bytes = self.context.private.payload(resource_id)?;
        String::from_utf8(bytes.to_vec()).ok()
    }

    fn container(&mut self, request: &UnifiedRequestV2) -> Option<Json> {
        let mut id = None;
        let resources = request.state.as_ref().and_then(|state| state.resources.as_ref());
        for (n, resource) in resources.into_iter().flatten().enumerate() {
            let own = (resource.resource_type == ResourceType::Container).then(|| self.handle(&resource.resource_id));
            match own.flatten() {
                Some(handle) if id.is_none() => {
                    self.remark(&format!("/state/resources/{n}"), "the container of the request");
                    id = Some(handle);
                }
                _ => self.loss.warning(
                    Feature::StateResources,
                    format!("/state/resources/{n}"),
                    "the resource is held by another owner",
                ),
            }
        }
        let skills: Vec<Json> = request
            .tools
            .iter()
            .enumerate()
            .filter(|(_, tool)| tool.kind == UnifiedToolType::Skill)
            .filter_map(|(n, tool)| self.skill(tool, n))
            .collect();
        if skills.is_empty() {
            return id.map(|id| json(&id));
        }
        let mut members = Vec::new();
        members.extend(id.map(|id| ("id".to_owned(), json(&id))));
        members.push(("skills".into(), json(&skills)));
        Some(object(members))
    }

    fn skill(&mut self, tool: &UnifiedToolDefinition, n: usize) -> Option<Json> {
        let origin = tool.namespace.as_deref().filter(|word| matches!(*word, "anthropic" | "custom"));
        let held = tool.resources.iter().flatten().next();
        let id = match held {
            Some(held) => self.handle(&held.resource_id),
            None => tool.name.clone(),
        };
        let (Some(origin), Some(id)) = (origin, id) else {
            let requirement = tool.requirement.unwrap_or(UnifiedRequirement::Preferred);
            self.loss.add(
                LossSeverity::of_requirement(requirement),
                Feature::ToolHosted,
                format!("/tools/{n}"),
                "the target has no such skill",
            );
            return None;
        };
        let mut members = vec![("type".to_owned(), json(origin)), ("skill_id".into(), json(&id))];
        members.extend(tool.version.as_ref().map(|version| ("version".to_owned(), json(version))));
        let entries = keeper::unmapped_of(tool.provider_data.as_ref(), &self.profile, self.context);
        Some(raw::put_all(object(members), &entries))
    }

    fn mcp_servers(&mut self, request: &UnifiedRequestV2) -> Option<Json> {
        let mut servers = Vec::new();
        for (n, tool) in request.tools.iter().enumerate() {
            let config = tool.config.as_ref().filter(|_| tool.kind == UnifiedToolType::Mcp);
            let Some((config, label, url)) = config.and_then(|c| Some((c, c.server_label.as_ref()?, c.server_url.as_ref()?))) else {
                continue;
            };
            if config.credential_ref.is_some() {
                self.loss.warning(
                    Feature::ToolHostedMcp,
                    format!("/tools/{n}/config/credentialRef"),
                    "a credential is no part of the body; the execution context has to add it",
                );
            }
            let alone = tool.version.as_deref() == Some(SERVER_ONLY);
            let rules = config.allowed_tools.as_ref().filter(|_| alone);
            let server = typed(
                "url",
                [
                    ("name", Some(json(label))),
                    ("url", Some(json(url))),
                    (
                        "tool_configuration",
                        rules.map(|allowed| object(vec![("allowed_tools".into(), json(allowed))])),
                    ),
                ],
            );
            let entries: Vec<_> = all_unmapped(self, tool)
                .into_iter()
                .filter_map(|entry| match entry.pointer.strip_prefix(SERVER_FIELDS) {
                    Some(rest) => Some(UnmappedEntry {
                        pointer: format!("/{rest}"),
                        value: entry.value,
                    }),
                    None => alone.then_some(entry),
                })
                .collect();
            servers.push(raw::put_all(server, &entries));
        }
        (!servers.is_empty()).then(|| json(&servers))
    }

    /// The rules, and the wish for a summary at once.
    fn context_management(&mut self, request: &UnifiedRequestV2) -> (Option<Json>, Option<Json>) {
        let wanted = request.state.as_ref().and_then(|state| state.context_management.as_ref());
        let Some(wanted) = wanted else { return (None, None) };
        let (mut edits, mut now) = (Vec::new(), None);
        for (n, edit) in wanted.value.iter().enumerate() {
            let path = format!("/state/contextManagement/value/{n}");
            if edit.kind == ContextEditKind::Compact && edit.trigger_tokens == Some(0) {
                self.remark(&path, "said by asking for a summary as the answer");
                now = Some(typed("summarize", []));
                continue;
            }
            if let Some(made) = context_edit(edit) {
                self.remark(&format!("{path}/kind"), "said by the dated word of the wire");
                edits.push(made);
            } else {
                let reason = "the target has no such rule";
                self.loss.intent(wanted.requirement, Feature::StateContextManagement, path, reason);
            }
        }
        let rules = (!edits.is_empty() || wanted.value.is_empty()).then(|| object(vec![("edits".into(), json(&edits))]));
        (rules, now)
    }

    fn fallbacks(&mut self, request: &UnifiedRequestV2, native: bool) -> Option<Json> {
        let models = request.model.fallbacks.as_ref()?;
        if !native {
            let reason = "names of other models are those of the client's own provider";
            self.loss.info(Feature::ModelFallbacks, "/model/fallbacks", reason);
            return None;
        }
        let list: Vec<_> = models.iter().map(|model| object(vec![("model".into(), json(model))])).collect();
        Some(json(&list))
    }

    fn thread(&mut self, request: &UnifiedRequestV2) -> Option<Json> {
        let conversation = &request.conversation;
        let mut thread = None;
        for (n, held) in conversation.continuations.iter().flatten().enumerate() {
            let own = (held.resource_type == ResourceType::Session).then(|| self.handle(&held.resource_id));
            if let Some(handle) = own.flatten().filter(|_| thread.is_none()) {
                thread = Some(typed("continue", [("previous_message_id", Some(json(&handle)))]));
                continue;
            }
            let path = format!("/conversation/continuations/{n}");
            self.loss.held_elsewhere(conversation, path, "the history is held by another owner");
        }
        if thread.is_none() && conversation.missing.is_some() {
            let reason = "a part of the history that a provider holds";
            self.loss.held_elsewhere(conversation, "/conversation/missing", reason);
        }
        thread
    }
}

/// Everything that is kept of a tool: fields of the toolset and of its server are two resources.
pub(super) fn all_unmapped(encoder: &BlockEncoder<'_>, tool: &UnifiedToolDefinition) -> Vec<UnmappedEntry> {
    let schema = crate::side::unmapped_schema(&encoder.profile);
    let references = tool.provider_data.iter().flatten().filter(|reference| reference.schema == schema);
    references
        .filter_map(|reference| encoder.context.private.payload(&reference.resource_id))
        .flat_map(|bytes| raw::entries(&bytes))
        .collect()
}

/// Whether a kept field of an MCP tool belongs to its server.
pub(super) fn is_of_server(entry: &UnmappedEntry) -> bool {
    entry.pointer.starts_with(SERVER_FIELDS)
}

/// One rule as the wire says it.
fn context_edit(edit: &ContextEdit) -> Option<Json> {
    let known = EDITS.iter().find(|(_, kind, _)| *kind == edit.kind);
    let word = match (&edit.kind, known) {
        (ContextEditKind::Other(word), _) => word.strip_prefix("anthropic-messages:")?,
        (_, known) => known?.0,
    };
    let unit = known.map_or("", |(_, _, unit)| unit);
    if edit.keep.is_some() && unit.is_empty() {
        return None;
    }
    let figure = |unit: &str, value: u64| typed(unit, [("value", Some(json(&value)))]);
    Some(typed(
        word,
        [
            ("trigger", edit.trigger_tokens.map(|value| figure("input_tokens", value))),
            ("keep", edit.keep.map(|value| figure(unit, value))),
        ],
    ))
}
