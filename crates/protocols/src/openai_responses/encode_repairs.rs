//! What keeps an input legal: outputs without calls, calls without outputs, items of others, reasoning without its follower, IDs.

use super::decode_item::{CallKind, call_kind};
use super::encode_history::HistoryEncoder;
use super::encode_item::is_own;
use super::kept;
use super::wire::Node;
use crate::call_arguments::NO_RESULT;
use crate::feature::Feature;
use crate::told::{reported, teller, told};
use std::collections::BTreeSet;
use throughline_format::item::Role;
use throughline_format::loss::LossSeverity;
use throughline_format::tool::Execution;
use throughline_format::{UnifiedItem, UnifiedItemBody};

impl HistoryEncoder<'_> {
    /// A result without a call becomes text.
    pub(super) fn orphan(&mut self, index: usize, item: &UnifiedItem) {
        let is_of_provider = match &item.body {
            UnifiedItemBody::ToolResult(result) => result.execution == Execution::Provider,
            body => matches!(body, UnifiedItemBody::CodeExecutionResult(_)),
        };
        if is_of_provider {
            let reason = "a result of the provider without its call is said by the assistant";
            self.lose(LossSeverity::Warning, Feature::ConversationInterruption, index, "", reason);
            if let Some(said) = told(item) {
                self.said_by_assistant(index, &said);
            }
            return;
        }
        let reason = "a result without its call is said in a user message";
        self.lose(LossSeverity::Warning, Feature::ConversationInterruption, index, "", reason);
        let mut parts = vec![Node::typed(
            "input_text",
            [("text", Some(Node::text("[Result of a tool call that is not in the history:]")))],
        )];
        parts.extend(
            self.writer
                .parts(item.parts(), super::encode_part::Side::Input, is_own(item), "output"),
        );
        self.notes(index);
        let node = Node::typed(
            "message",
            [("role", Some(Node::text("user"))), ("content", Some(Node::List(parts)))],
        );
        self.push(node, index);
    }

    /// A call that nobody answered gets a note in place of its output.
    pub(super) fn unanswered(&mut self, index: usize, item: &UnifiedItem) {
        let Some((_, kind)) = call_kind(&item.body) else { return };
        let call_id = Some(Node::text(self.call_ids.get(&index).map_or("", String::as_str)));
        let note = Node::text(NO_RESULT);
        let node = match kind {
            CallKind::Function => Node::typed("function_call_output", [("call_id", call_id), ("output", Some(note))]),
            CallKind::Custom => Node::typed("custom_tool_call_output", [("call_id", call_id), ("output", Some(note))]),
            CallKind::ApplyPatch => Node::typed(
                "apply_patch_call_output",
                [("call_id", call_id), ("status", Some(Node::text("failed"))), ("output", Some(note))],
            ),
            CallKind::LocalShell => Node::typed("local_shell_call_output", [("id", call_id), ("output", Some(note))]),
            CallKind::Shell => {
                let outcome = Node::typed("timeout", []);
                let chunk = Node::object([("stdout", Some(Node::text(""))), ("stderr", Some(note)), ("outcome", Some(outcome))]);
                Node::typed(
                    "shell_call_output",
                    [("call_id", call_id), ("output", Some(Node::List(vec![chunk])))],
                )
            }
            // The provider runs a program; whether there is an output is its business.
            CallKind::Program => return,
            CallKind::ToolSearch => Node::typed(
                "tool_search_output",
                [
                    ("call_id", call_id),
                    ("execution", Some(Node::text("client"))),
                    ("status", Some(Node::text("completed"))),
                    ("tools", Some(Node::List(Vec::new()))),
                ],
            ),
            CallKind::Computer => {
                // There is no screen to show, so the call cannot stand.
                self.entries.pop();
                let reason = "the call has no result; it is left out";
                self.lose(LossSeverity::Warning, Feature::ConversationInterruption, index, "", reason);
                return;
            }
        };
        let reason = "the call has no result; the target gets a note in its place";
        self.lose(LossSeverity::Warning, Feature::ConversationInterruption, index, "", reason);
        self.push(node, index);
    }

    /// What has no form of its own at the target.
    pub(super) fn foreign(&mut self, index: usize, item: &UnifiedItem) {
        use UnifiedItemBody as B;
        let (severity, feature, reason) = match &item.body {
            B::ProviderSwitch(_) | B::Interruption(_) | B::Error(_) => {
                self.loss.marker(format!("/conversation/items/{index}"), &item.id);
                return;
            }
            B::CompactionSummary(summary) if summary.replaces => {
                let node = self.writer.parts(&summary.parts, super::encode_part::Side::Input, false, "parts");
                self.notes(index);
                self.push(
                    Node::typed("message", [("role", Some(Node::text("user"))), ("content", Some(Node::List(node)))]),
                    index,
                );
                return;
            }
            B::ServerToolCall(_)
            | B::ServerToolResult(_)
            | B::SearchResult(_)
            | B::RetrievalResult(_)
            | B::CodeExecution(_)
            | B::CodeExecutionResult(_)
            | B::ComputerAction(_)
            | B::ComputerActionResult(_)
            | B::ApprovalRequest(_)
            | B::ApprovalResponse(_) => {
                let (feature, reason) = reported(item);
                (LossSeverity::Warning, feature, reason)
            }
            B::Artifact(_) => (LossSeverity::Warning, Feature::PartArtifact, "the target has no artifacts"),
            B::CompactionSummary(summary) if summary.covers.count == 0 => (
                LossSeverity::Warning,
                Feature::ConversationPortability,
                "a summary that only its provider can read; what it stands for is not here",
            ),
            B::CompactionSummary(_) => (
                LossSeverity::Info,
                Feature::ConversationItem,
                "a summary of another owner; the full items are sent",
            ),
            B::Message(_) | B::Reasoning(_) | B::ToolCall(_) | B::ToolResult(_) | B::Reference(_) => (
                LossSeverity::Warning,
                Feature::ConversationItem,
                "a reference that only its owner can follow",
            ),
        };
        self.lose(severity, feature, index, "", reason);
        let Some(said) = told(item) else { return };
        if teller(item) == Role::User {
            let part = Node::typed("input_text", [("text", Some(Node::text(&said)))]);
            let members = [("role", Some(Node::text("user"))), ("content", Some(Node::List(vec![part])))];
            self.push(Node::typed("message", members), index);
        } else {
            self.said_by_assistant(index, &said);
        }
    }

    /// A text that the assistant says.
    fn said_by_assistant(&mut self, index: usize, said: &str) {
        let part = Node::typed("output_text", [("text", Some(Node::text(said)))]);
        let members = [("role", Some(Node::text("assistant"))), ("content", Some(Node::List(vec![part])))];
        self.said(index, &Node::typed("message", members));
    }

    /// Reasoning stands directly before what it was made with, both with their IDs or both without.
    pub(super) fn pair_reasoning(&mut self) {
        let is_follower = |node: &Node| match node.kind().as_str() {
            "" | "message" => node.str("role").as_deref() == Some("assistant"),
            "compaction_trigger" | "configuration_update" | "additional_tools" | "mcp_approval_response" => false,
            kind => !kind.ends_with("_output"),
        };
        let mut at = self.entries.len();
        while at > 0 {
            at -= 1;
            if self.entries.get(at).is_none_or(|entry| entry.node.kind() != "reasoning") {
                continue;
            }
            let next = self.entries.get(at + 1).map(|entry| &entry.node);
            // What never had an ID is paired by nobody.
            let index = self.entries.get(at).map_or(0, |entry| entry.index);
            let had_id = self.items.get(index).is_some_and(|item| {
                let mut references = item.provider_data.iter().flatten();
                references.any(|reference| reference.schema == kept::ITEM_ID)
            });
            if had_id && !next.is_some_and(is_follower) {
                let removed = self.entries.remove(at);
                let reason = "the target refuses reasoning without the item that it was made with";
                self.lose(LossSeverity::Warning, Feature::ReasoningText, removed.index, "", reason);
                continue;
            }
            let wants_id = next.is_some_and(|next| matches!(next.kind().as_str(), "" | "message" | "function_call" | "custom_tool_call"));
            let lacks_id = wants_id && next.is_some_and(|next| !next.has("id"));
            if let Some(entry) = self.entries.get_mut(at).filter(|_| lacks_id) {
                entry.node.take("id");
            }
        }
        self.unpaired_ids();
    }

    /// What was made with reasoning that is not sent goes without its ID.
    pub(super) fn unpaired_ids(&mut self) {
        let sent: BTreeSet<usize> = self.entries.iter().map(|entry| entry.index).collect();
        let is_dropped = |index: usize| {
            let is_reasoning = self
                .items
                .get(index)
                .is_some_and(|item| matches!(item.body, UnifiedItemBody::Reasoning(_)));
            is_reasoning && !sent.contains(&index)
        };
        let mut bare = BTreeSet::new();
        let mut is_bare = false;
        for (index, item) in self.items.iter().enumerate() {
            is_bare = match &item.body {
                UnifiedItemBody::Reasoning(_) => is_dropped(index),
                UnifiedItemBody::Message(_) if item.role != Some(Role::Assistant) => false,
                UnifiedItemBody::ToolResult(_) | UnifiedItemBody::ComputerActionResult(_) => false,
                _ => is_bare,
            };
            if is_bare {
                bare.insert(index);
            }
        }
        for entry in &mut self.entries {
            let kind = entry.node.kind();
            if bare.contains(&entry.index) && matches!(kind.as_str(), "message" | "function_call" | "custom_tool_call") {
                entry.node.take("id");
            }
        }
    }

    /// IDs of the provider stand once, and with the prefix of their type.
    pub(super) fn unique_ids(&mut self) {
        let mut taken = BTreeSet::new();
        for entry in &mut self.entries {
            let Some(id) = entry.node.str("id") else { continue };
            let prefix = match entry.node.kind().as_str() {
                "message" => "msg_",
                "reasoning" => "rs_",
                "function_call" => "fc_",
                "custom_tool_call" => "ctc_",
                _ => "",
            };
            let is_value = matches!(
                entry.node.kind().as_str(),
                "item_reference" | "mcp_approval_request" | "local_shell_call_output"
            );
            if !is_value && (!id.starts_with(prefix) || !taken.insert(id)) {
                entry.node.take("id");
            }
        }
    }
}
