//! Items to messages: everything of the assistant between two messages of others is one message, its answers are steps.
//!
//! A result stands in the part of its call and an approval too, wherever they are in the history. What came in on this wire
//! goes back as the same messages, as long as its owner asks.

use super::encode_call::{Called, call_of, result_of};
use super::encode_part::Out;
use super::is_own;
use super::private::{Kept, MessageForm, message_of};
use crate::feature::Feature;
use crate::object::Object;
use crate::pairing::{FreeIds, OpenCalls};
use std::collections::{BTreeMap, BTreeSet};
use throughline_format::item::{ApprovalRequestItem, ApprovalResponseItem, Role, newest_instructions};
use throughline_format::loss::LossSeverity;
use throughline_format::{Json, PartBody, UnifiedId, UnifiedItem, UnifiedItemBody};

/// Items on their way to messages.
pub(super) struct Messages<'a, 'c> {
    pub out: Out<'c>,
    items: &'a [UnifiedItem],
    base: &'static str,
    /// Index of the result by index of the call.
    results: BTreeMap<usize, usize>,
    /// Index of the question by index of the call.
    questions: BTreeMap<usize, usize>,
    /// Index of the answer by index of the question.
    answers: BTreeMap<usize, usize>,
    /// Items that stand in another one's part.
    merged: BTreeSet<usize>,
    /// The ID that a call has on the wire, where it is not its own.
    call_ids: BTreeMap<usize, String>,
    /// The messages so far.
    pub written: Vec<Object>,
}

/// Steps of one message.
#[derive(Default)]
struct Steps {
    parts: Vec<Json>,
    own: Option<UnifiedId>,
    is_in_step: bool,
    /// The client's result of a call of this step stood before.
    after_result: bool,
}

impl<'a, 'c> Messages<'a, 'c> {
    /// Messages of these items; `base` is the pointer of their list.
    pub(super) fn new(out: Out<'c>, items: &'a [UnifiedItem], base: &'static str) -> Self {
        let mut messages = Self {
            out,
            items,
            base,
            results: BTreeMap::new(),
            questions: BTreeMap::new(),
            answers: BTreeMap::new(),
            merged: BTreeSet::new(),
            call_ids: BTreeMap::new(),
            written: Vec::new(),
        };
        messages.plan();
        messages
    }

    pub(super) fn path(&self, index: usize) -> String {
        format!("{}/{index}", self.base)
    }

    fn lose(&mut self, severity: LossSeverity, feature: Feature, index: usize, suffix: &str, reason: &str) {
        let (path, id) = (self.path(index), self.items.get(index).map(|item| item.id.clone()));
        self.out
            .loss
            .add_for(severity, feature, format!("{path}{suffix}"), reason, id.as_ref());
    }

    /// Finds the call of every result and approval.
    fn plan(&mut self) {
        let (mut ids, mut open) = (FreeIds::default(), OpenCalls::default());
        let mut asked: BTreeMap<&str, usize> = BTreeMap::new();
        let spell = |id: &str| crate::call_id::wire(id, 40).into_owned();
        for (index, item) in self.items.iter().enumerate() {
            open.hear(item);
            if let Some(call) = call_of(item)
                && let Some(id) = item.call_id()
            {
                // The reader finds a call by its ID alone.
                let wire_id = ids.take(id, call.call_id.clone(), spell);
                if wire_id != call.call_id {
                    self.call_ids.insert(index, wire_id);
                }
                open.call(id, index);
            } else if let Some(id) = result_of(item) {
                if let Some(call) = open.result(id) {
                    self.results.insert(call, index);
                    self.merged.insert(index);
                }
            } else if let UnifiedItemBody::ApprovalRequest(request) = &item.body {
                if let Some(call) = request.call_id.as_deref().and_then(|id| open.newest(id)) {
                    self.questions.insert(call, index);
                    self.merged.insert(index);
                }
                asked.insert(&request.approval_id, index);
            } else if let UnifiedItemBody::ApprovalResponse(response) = &item.body
                && let Some(question) = asked.remove(response.approval_id.as_str())
            {
                self.answers.insert(question, index);
                self.merged.insert(index);
            }
        }
    }

    /// The whole history.
    pub(super) fn history(&mut self) {
        let instructions = newest_instructions(self.items);
        let covered = crate::compacted::covered(self.items);
        for index in instructions.clone() {
            self.plain(index);
        }
        let mut index = 0;
        while let Some(item) = self.items.get(index) {
            // Older instructions are superseded, and a summary stands for what it covers.
            if item.is_instructions() || covered.contains(&index) {
                index += 1;
                continue;
            }
            if is_plain(item) {
                let count = self.own_message(index).map_or(1, |(form, _)| form.items.max(1));
                let end = (index + count).min(self.items.len());
                let same = self
                    .items
                    .get(index..end)
                    .unwrap_or_default()
                    .iter()
                    .all(|i| is_plain(i) && i.role == item.role);
                let end = if same { end } else { index + 1 };
                self.plain_message(index..end);
                index = end;
            } else {
                let group = self.group(index, &covered);
                index = group.last().map_or(index, |last| last + 1).max(index + 1);
                self.assistant(&group);
            }
        }
    }

    fn own_message(&self, index: usize) -> Option<(MessageForm, Option<Json>)> {
        let item = self.items.get(index)?;
        message_of(self.out.context.private.as_ref(), item.provider_data.iter().flatten())
    }

    /// The items of one message of the assistant.
    fn group(&self, start: usize, covered: &BTreeSet<usize>) -> Vec<usize> {
        if let Some((form, _)) = self.own_message(start)
            && form.items > 0
            && start + form.items <= self.items.len()
        {
            return (start..start + form.items).collect();
        }
        let mut group = Vec::new();
        for index in start..self.items.len() {
            let Some(item) = self.items.get(index) else { break };
            let is_begin = index > start && self.own_message(index).is_some_and(|(form, _)| !form.steering);
            if is_plain(item) || item.is_instructions() || covered.contains(&index) || is_begin {
                break;
            }
            group.push(index);
        }
        group
    }

    /// One message of a user or of the system, from one item.
    fn plain(&mut self, index: usize) {
        self.plain_message(index..index + 1);
    }

    fn plain_message(&mut self, range: std::ops::Range<usize>) {
        let Some(first) = self.items.get(range.start) else { return };
        let role = match (&first.body, first.role) {
            (UnifiedItemBody::Message(_), Some(Role::System)) => "system",
            (UnifiedItemBody::Message(_), Some(Role::Developer)) => {
                self.lose(
                    LossSeverity::Info,
                    Feature::ConversationSystemRole,
                    range.start,
                    "/role",
                    "developer messages are system messages",
                );
                "system"
            }
            _ => "user",
        };
        let mut parts = Vec::new();
        let begin = range.start;
        for index in range {
            parts.extend(self.user_parts(index));
        }
        self.finish(begin, role, parts);
    }

    fn user_parts(&mut self, index: usize) -> Vec<Json> {
        let Some(item) = self.items.get(index) else { return Vec::new() };
        let path = self.path(index);
        if self.out.loss.hides_from_clients(item, &path) {
            return Vec::new();
        }
        self.leftovers(index);
        if let Some(raw) = Kept::of(self.out.context.private.as_ref(), item.provider_data.iter().flatten()).raw {
            return vec![raw];
        }
        let mut parts = Vec::new();
        for (number, part) in item.parts().iter().enumerate() {
            let path = format!("{path}/parts/{number}");
            match &part.body {
                PartBody::Text(text) => parts.extend(self.out.text(part, text, None, &path).iter().map(Object::to_json)),
                _ => parts.extend(self.out.other(part, &path).map(|object| object.to_json())),
            }
        }
        parts
    }

    /// Writes a message around its parts.
    fn finish(&mut self, index: usize, role: &str, parts: Vec<Json>) {
        let Some(item) = self.items.get(index) else { return };
        let (id, metadata) = match self.own_message(index) {
            Some((form, metadata)) => (form.id, metadata),
            None => (Some(item.id.to_string()), None),
        };
        let mut message = Object::default()
            .with_some("id", id.as_ref())
            .with_some("metadata", metadata.as_ref())
            .with("role", role)
            .with("parts", &parts);
        Kept::of_message(self.out.context.private.as_ref(), item).apply(&mut message);
        self.written.push(message);
    }

    /// One message of the assistant.
    fn assistant(&mut self, group: &[usize]) {
        let Some(first) = group.first().copied() else { return };
        let before = self.written.len();
        let parts = self.assistant_parts(group);
        let is_own = self.own_message(first).is_some();
        if parts.is_empty() && !is_own {
            // Markers and what was reported already are no message.
            debug_assert_eq!(before, self.written.len());
            return;
        }
        self.finish(first, "assistant", parts);
    }

    /// The parts of a group of the assistant's items.
    pub(super) fn assistant_parts(&mut self, group: &[usize]) -> Vec<Json> {
        self.out.shown.clear();
        let mut steps = Steps::default();
        let mut skip = 0;
        for (number, index) in group.iter().copied().enumerate() {
            if skip > 0 {
                skip -= 1;
                continue;
            }
            let Some(item) = self.items.get(index) else { continue };
            if is_plain(item) {
                // What the user said in the middle.
                skip = self.steering(&mut steps, group.get(number..).unwrap_or_default());
                continue;
            }
            if self.merged.contains(&index) {
                self.leftovers(index);
                if matches!(
                    item.body,
                    UnifiedItemBody::ApprovalRequest(_) | UnifiedItemBody::ApprovalResponse(_)
                ) {
                    let path = self.path(index);
                    self.out.approval_losses(item, &path);
                } else {
                    steps.after_result |= !is_hosted_result(item);
                }
                continue;
            }
            let parts = self.item(index);
            if !parts.is_empty() || is_empty_own(item) {
                Self::step(&mut steps, item);
                steps.parts.extend(parts);
            }
        }
        steps.parts
    }

    fn step(steps: &mut Steps, item: &UnifiedItem) {
        let begin = || Object::of_type("step-start").to_json();
        if is_own(item.provenance.profile.as_ref()) {
            let id = item.provenance.response_id.clone();
            if id.is_some() && id != steps.own {
                steps.parts.push(begin());
            }
            steps.own = id;
        } else if !steps.is_in_step || std::mem::take(&mut steps.after_result) {
            steps.parts.push(begin());
        }
        steps.is_in_step = true;
        steps.after_result = false;
    }

    fn steering(&mut self, steps: &mut Steps, rest: &[usize]) -> usize {
        let Some(first) = rest.first().copied() else { return 0 };
        let form = self.own_message(first).map(|(form, _)| form).unwrap_or_default();
        let count = form.items.clamp(1, rest.len());
        let mut inner = Vec::new();
        for index in rest.iter().take(count) {
            inner.extend(self.user_parts(*index));
        }
        let mut object = Object::of_type("steering-message")
            .with_some("id", form.id.as_ref())
            .with("parts", &inner);
        if let Some(item) = self.items.get(first) {
            Kept::of_message(self.out.context.private.as_ref(), item).apply(&mut object);
        }
        steps.parts.push(object.to_json());
        count - 1
    }

    /// The parts of one item.
    fn item(&mut self, index: usize) -> Vec<Json> {
        let Some(item) = self.items.get(index) else { return Vec::new() };
        let path = self.path(index);
        if self.out.loss.hides_from_clients(item, &path) {
            return Vec::new();
        }
        self.leftovers(index);
        if let Some(call) = call_of(item) {
            return vec![self.call(index, call).to_json()];
        }
        match &item.body {
            UnifiedItemBody::Message(message) => {
                if let Some(raw) = Kept::of(self.out.context.private.as_ref(), item.provider_data.iter().flatten()).raw {
                    return vec![raw];
                }
                let mut parts = Vec::new();
                for (number, part) in message.parts.iter().enumerate() {
                    let path = format!("{path}/parts/{number}");
                    match &part.body {
                        PartBody::Text(text) => {
                            parts.extend(self.out.text(part, text, Some("done"), &path).iter().map(Object::to_json));
                        }
                        _ => parts.extend(self.out.other(part, &path).map(|object| object.to_json())),
                    }
                }
                parts
            }
            UnifiedItemBody::Reasoning(_) => self.reasoning(item, &path),
            UnifiedItemBody::ToolResult(_)
            | UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_) => self.orphan(index, item),
            UnifiedItemBody::ApprovalRequest(request) => self.question(index, request),
            UnifiedItemBody::ApprovalResponse(_) => {
                self.lose(
                    LossSeverity::Warning,
                    Feature::ToolApproval,
                    index,
                    "",
                    "an answer to an approval that the history does not ask for",
                );
                Vec::new()
            }
            UnifiedItemBody::Artifact(_) => {
                self.lose(
                    LossSeverity::Warning,
                    Feature::PartArtifact,
                    index,
                    "",
                    "the target cannot reach the artifact store",
                );
                Vec::new()
            }
            UnifiedItemBody::Reference(_) => {
                self.lose(
                    LossSeverity::Info,
                    Feature::ConversationItem,
                    index,
                    "",
                    "the target has no references",
                );
                Vec::new()
            }
            UnifiedItemBody::CompactionSummary(_) => {
                self.lose(
                    LossSeverity::Info,
                    Feature::ConversationItem,
                    index,
                    "",
                    "a summary that stands for nothing; the items themselves are told",
                );
                Vec::new()
            }
            UnifiedItemBody::ProviderSwitch(_) | UnifiedItemBody::Interruption(_) | UnifiedItemBody::Error(_) => {
                self.out.loss.marker(path, &item.id);
                Vec::new()
            }
            UnifiedItemBody::ToolCall(_)
            | UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::ComputerAction(_) => Vec::new(),
        }
    }

    fn call(&mut self, index: usize, mut call: Called) -> Object {
        let Some(item) = self.items.get(index) else {
            return Object::default();
        };
        if let Some(other) = self.call_ids.get(&index).cloned() {
            call.call_id = other;
            self.lose(
                LossSeverity::Info,
                Feature::ToolCallId,
                index,
                "/callId",
                "an earlier call has the same ID",
            );
        }
        if let UnifiedItemBody::ToolCall(body) | UnifiedItemBody::ServerToolCall(body) = &item.body {
            let path = self.path(index);
            self.out.loss.joined_name(body, &path);
            for (member, feature, there) in [
                ("serverLabel", Feature::ToolHostedMcp, body.server_label.is_some()),
                ("caller", Feature::ToolAllowedCallers, body.caller.is_some()),
            ] {
                if there {
                    self.lose(
                        LossSeverity::Info,
                        feature,
                        index,
                        &format!("/{member}"),
                        "the target has only a name",
                    );
                }
            }
        } else {
            self.lose(
                LossSeverity::Info,
                Feature::ToolCallHosted,
                index,
                "",
                "as a call of a tool of the target's own form",
            );
        }
        let result = self.results.get(&index).and_then(|at| Some((self.items.get(*at)?, self.path(*at))));
        let question = self.questions.get(&index).copied();
        let approval = question.and_then(|at| Some((self.request(at)?, self.answer(at))));
        let path = self.path(index);
        let result = result.as_ref().map(|(item, path)| (*item, path.as_str()));
        self.out.tool(item, &call, &path, approval, result)
    }

    fn request(&self, index: usize) -> Option<&'a ApprovalRequestItem> {
        match &self.items.get(index)?.body {
            UnifiedItemBody::ApprovalRequest(request) => Some(request),
            _ => None,
        }
    }

    fn answer(&self, question: usize) -> Option<&'a ApprovalResponseItem> {
        match &self.items.get(*self.answers.get(&question)?)?.body {
            UnifiedItemBody::ApprovalResponse(response) => Some(response),
            _ => None,
        }
    }

    /// A question that belongs to no call of the history: a call of its own asks it.
    fn question(&mut self, index: usize, request: &ApprovalRequestItem) -> Vec<Json> {
        let Some(item) = self.items.get(index) else { return Vec::new() };
        let path = self.path(index);
        self.out.approval_losses(item, &path);
        if self.out.major < super::Major::Six {
            return Vec::new();
        }
        self.lose(
            LossSeverity::Info,
            Feature::ToolApproval,
            index,
            "",
            "a call of the same name asks for the approval",
        );
        let answer = self.answer(index);
        let raw = request.raw_arguments.clone().unwrap_or_default();
        let lifecycle = match answer.map(|a| a.decision) {
            None => throughline_format::UnifiedToolLifecycle::ApprovalRequired,
            Some(throughline_format::item::ApprovalDecision::Approved) => throughline_format::UnifiedToolLifecycle::ApprovalApproved,
            Some(throughline_format::item::ApprovalDecision::Denied) => throughline_format::UnifiedToolLifecycle::ApprovalDenied,
        };
        let call = Called {
            call_id: request.call_id.clone().unwrap_or_else(|| request.approval_id.clone()),
            name: request.name.clone().unwrap_or_else(|| request.subject.as_str().to_owned()),
            is_hosted: true,
            is_dynamic: true,
            is_text: false,
            input: Json::of_arguments(&raw),
            raw,
            lifecycle,
        };
        vec![self.out.tool(item, &call, &path, Some((request, answer)), None).to_json()]
    }

    /// A result whose call the history does not have: a call without input stands in for it.
    fn orphan(&mut self, index: usize, item: &'a UnifiedItem) -> Vec<Json> {
        self.lose(
            LossSeverity::Warning,
            Feature::ConversationOrder,
            index,
            "",
            "the result has no call before it; a call without input stands in",
        );
        let name = match &item.body {
            UnifiedItemBody::ToolResult(result) => result.name.clone(),
            UnifiedItemBody::ServerToolResult(result) => result.name.clone(),
            _ => None,
        };
        let path = self.path(index);
        let call = Called {
            call_id: item.call_id().map_or_else(|| item.id.to_string(), str::to_owned),
            name: name.unwrap_or_else(|| "unknown".into()),
            is_hosted: is_hosted_result(item),
            is_dynamic: true,
            is_text: false,
            raw: String::new(),
            input: None,
            lifecycle: throughline_format::UnifiedToolLifecycle::OutputReady,
        };
        vec![self.out.tool(item, &call, &path, None, Some((item, &path))).to_json()]
    }

    fn reasoning(&mut self, item: &UnifiedItem, path: &str) -> Vec<Json> {
        let mut parts = Vec::new();
        for (number, part) in item.parts().iter().enumerate() {
            let path = format!("{path}/parts/{number}");
            let PartBody::Reasoning(reasoning) = &part.body else { continue };
            let kept = self.out.kept(part);
            match (&reasoning.private_state, &kept.metadata) {
                (Some(_), None) => self.out.loss.info(
                    Feature::ReasoningSignature,
                    format!("{path}/privateState"),
                    "private state of reasoning stays with its provider",
                ),
                (Some(_), Some(_)) => {
                    let path = format!("{path}/privateState/issuer");
                    self.out.loss.renamed(path, "the wire does not say who made private state");
                }
                (None, _) => {}
            }
            if reasoning.text.is_empty() && !is_own(item.provenance.profile.as_ref()) {
                self.out.loss.info(
                    Feature::ReasoningRedacted,
                    path,
                    "reasoning without text is nothing that the client could show",
                );
                continue;
            }
            let mut object = Object::of_type("reasoning").with("text", &reasoning.text).with("state", "done");
            kept.apply(&mut object);
            parts.push(object.to_json());
        }
        parts
    }

    /// Members without a word that cannot come back.
    fn leftovers(&mut self, index: usize) {
        let Some(item) = self.items.get(index) else { return };
        let private = self.out.context.private.as_ref();
        let references = item.provider_data.iter().flatten();
        let of_parts = item.parts().iter().flat_map(|part| part.provider_data.iter().flatten());
        let stays = references.chain(of_parts).any(|reference| {
            reference.schema.ends_with("/unmapped@1")
                && (!is_own(Some(&reference.profile)) || private.payload(&reference.resource_id).is_none())
        });
        if stays {
            let reason = "members without a word stay with the protocol and owner that they came from";
            self.lose(LossSeverity::Info, Feature::WireUnmapped, index, "/providerData", reason);
        }
    }
}

/// Whether an item is a message of somebody else than the assistant.
fn is_plain(item: &UnifiedItem) -> bool {
    match &item.body {
        UnifiedItemBody::Message(_) => item.role != Some(Role::Assistant),
        UnifiedItemBody::CompactionSummary(summary) => summary.replaces,
        UnifiedItemBody::Reasoning(_)
        | UnifiedItemBody::ToolCall(_)
        | UnifiedItemBody::ToolResult(_)
        | UnifiedItemBody::ApprovalRequest(_)
        | UnifiedItemBody::ApprovalResponse(_)
        | UnifiedItemBody::ServerToolCall(_)
        | UnifiedItemBody::ServerToolResult(_)
        | UnifiedItemBody::ComputerAction(_)
        | UnifiedItemBody::ComputerActionResult(_)
        | UnifiedItemBody::CodeExecution(_)
        | UnifiedItemBody::CodeExecutionResult(_)
        | UnifiedItemBody::SearchResult(_)
        | UnifiedItemBody::RetrievalResult(_)
        | UnifiedItemBody::Artifact(_)
        | UnifiedItemBody::Reference(_)
        | UnifiedItemBody::ProviderSwitch(_)
        | UnifiedItemBody::Interruption(_)
        | UnifiedItemBody::Error(_) => false,
    }
}

/// An item of this wire that only keeps the place of an empty step.
fn is_empty_own(item: &UnifiedItem) -> bool {
    matches!(&item.body, UnifiedItemBody::Message(message) if message.parts.is_empty()) && is_own(item.provenance.profile.as_ref())
}

/// Whether a result belongs to a tool that the provider executes.
pub(super) fn is_hosted_result(item: &UnifiedItem) -> bool {
    use throughline_format::tool::Execution;
    match &item.body {
        UnifiedItemBody::ToolResult(result) => result.execution == Execution::Provider,
        UnifiedItemBody::ServerToolResult(result) => result.execution == Execution::Provider,
        _ => !matches!(item.body, UnifiedItemBody::ComputerActionResult(_)),
    }
}
