//! The way back of tool names: a provider calls a tool by the name that its wire could carry, the journal and the client know
//! the name that the client gave it.

use crate::ports::Target;
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::tool::Execution;
use throughline_format::{EventBody, EventDraft, UnifiedItem, UnifiedItemBody, UnifiedToolDefinition};

/// Names and namespaces of the request's tools by what the target's wire calls them; only those that differ.
#[derive(Debug, Default)]
pub(crate) struct ToolNames {
    renamed: BTreeMap<String, (Option<String>, String)>,
    /// Tools of this process, by namespace and name.
    executed: BTreeSet<(Option<String>, String)>,
}

impl ToolNames {
    /// The names of a request at a target. When the client's own bytes were passed on, every name is its own.
    pub(crate) fn of(tools: &[UnifiedToolDefinition], target: &Target) -> Self {
        let wire_names = target.codec.wire_tool_names(tools, &target.capabilities);
        let renamed = |(tool, wire): (&UnifiedToolDefinition, String)| {
            let name = tool.name.clone()?;
            (wire != name).then(|| (wire, (tool.namespace.clone(), name)))
        };
        let mut names: BTreeMap<_, _> = tools.iter().zip(wire_names).filter_map(renamed).collect();
        // A tool that really has the name that another one was given keeps it.
        for own in tools
            .iter()
            .filter(|tool| tool.namespace.is_none())
            .filter_map(|tool| tool.name.as_deref())
        {
            names.remove(own);
        }
        let executed = tools.iter().filter(|tool| tool.execution == Execution::Ccr);
        Self {
            renamed: names,
            executed: executed
                .filter_map(|tool| Some((tool.namespace.clone(), tool.name.clone()?)))
                .collect(),
        }
    }

    /// The names as one JSON value, for whoever goes on with the answer after a restart. What this process executes is not
    /// among them: it has no request to go on from then.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        let rows = self
            .renamed
            .iter()
            .map(|(wire, (namespace, name))| serde_json::json!([wire, namespace, name]));
        rows.collect()
    }

    /// The names that [`Self::to_json`] wrote.
    pub(crate) fn from_json(value: &serde_json::Value) -> Self {
        let text = |row: &serde_json::Value, at: usize| row.get(at).and_then(serde_json::Value::as_str).map(str::to_owned);
        let rows = value.as_array().into_iter().flatten();
        Self {
            renamed: rows
                .filter_map(|row| Some((text(row, 0)?, (text(row, 1), text(row, 2)?))))
                .collect(),
            ..Self::default()
        }
    }

    /// Gives the calls of an answer the names of the client, and says which of them this process executes.
    pub(crate) fn restore(&self, drafts: &mut [EventDraft]) {
        if self.renamed.is_empty() && self.executed.is_empty() {
            return;
        }
        for draft in drafts {
            match &mut draft.body {
                EventBody::ItemStarted(started) => self.rename(&mut started.item),
                EventBody::ItemCompleted(done) => {
                    if let Some(item) = &mut done.item {
                        self.rename(item);
                    }
                }
                _ => {}
            }
        }
    }

    fn rename(&self, item: &mut UnifiedItem) {
        let UnifiedItemBody::ToolCall(call) = &mut item.body else { return };
        if let Some((namespace, name)) = self.renamed.get(&call.name) {
            call.namespace.clone_from(namespace);
            call.name.clone_from(name);
        }
        if self.executed.contains(&(call.namespace.clone(), call.name.clone())) {
            call.execution = Execution::Ccr;
        }
    }
}
