//! [`Builder`]: puts a transcript together while a file is read.

use crate::ids;
use crate::lines::Line;
use crate::losses;
use crate::native;
use crate::transcript::{NativeRecord, ResponseUsage, SessionFacts, Transcript, Warning};
use std::collections::{HashMap, HashSet};
use throughline_format::item::{
    CompactionSummaryItem, CoveredRange, ItemStatus, MessageItem, Role, SummaryAuthor, UnifiedItemBase, Visibility,
};
use throughline_format::provenance::ItemOrigin;
use throughline_format::{
    Count, LossSeverity, ProtocolFamily, Sha256, Timestamp, UnifiedAttribution, UnifiedContentPart, UnifiedId, UnifiedItem,
    UnifiedItemBody, UnifiedItemProvenance, UnifiedProtocolProfile, UnifiedUsage, compaction,
};
use throughline_protocols::{DecodeContext, Feature, SideResource};

/// Most warnings of one transcript that are told one by one.
const MAX_WARNINGS: usize = 64;

/// What a record says about the items that it becomes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stamp {
    /// When; absent = when the item before was.
    pub(crate) at: Option<Timestamp>,
    /// Vendor of the model.
    pub(crate) vendor: Option<String>,
    /// The model.
    pub(crate) model: Option<String>,
    /// Whether the runtime put it in, and the user did not say it.
    pub(crate) injected: bool,
}

/// A transcript in the making.
pub(crate) struct Builder {
    pub(crate) transcript: Transcript,
    /// Position of each item by its ID.
    places: HashMap<UnifiedId, usize>,
    /// Calls, by their IDs, that have a result.
    answered: HashSet<String>,
    /// Number of covered items by the position of the summary.
    summaries: Vec<(usize, usize)>,
    last_time: Timestamp,
    /// Warnings beyond the bound.
    more_warnings: usize,
    /// What the contexts of all records have in common.
    offline: DecodeContext,
}

impl Builder {
    pub(crate) fn new(runtime: &str, session: SessionFacts) -> Self {
        Self {
            transcript: Transcript::of_items(runtime, session, Vec::new()),
            places: HashMap::new(),
            answered: HashSet::new(),
            summaries: Vec::new(),
            last_time: Timestamp::EPOCH,
            more_warnings: 0,
            offline: DecodeContext::offline(),
        }
    }

    /// The ID that items of a record are numbered under.
    pub(crate) fn operation(&self, key: &str) -> UnifiedId {
        ids::of_record(&self.transcript.runtime, &self.transcript.session.id, key)
    }

    /// The context for a codec that reads a record.
    pub(crate) fn context(&self, key: &str) -> DecodeContext {
        let operation = self.operation(key);
        DecodeContext {
            request_id: operation.clone(),
            operation_id: operation,
            ..self.offline.clone()
        }
    }

    /// Keeps a record as it was written; gives its number.
    pub(crate) fn record(&mut self, kind: &str, text: impl Into<String>) -> usize {
        self.transcript.records.push(NativeRecord {
            kind: kind.to_owned(),
            text: text.into(),
            items: Vec::new(),
            digest: None,
        });
        self.transcript.records.len() - 1
    }

    /// Appends items that a record became.
    pub(crate) fn items(&mut self, record: Option<usize>, items: Vec<UnifiedItem>, stamp: &Stamp) {
        for item in items {
            self.item(record, item, stamp);
        }
    }

    /// A call has one result: another one, or one of a call that nobody named, stands alone under an ID of its own.
    fn one_result(&mut self, item: &mut UnifiedItem) {
        let is_result = matches!(
            item.body,
            UnifiedItemBody::ToolResult(_)
                | UnifiedItemBody::ServerToolResult(_)
                | UnifiedItemBody::ComputerActionResult(_)
                | UnifiedItemBody::CodeExecutionResult(_)
                | UnifiedItemBody::SearchResult(_)
                | UnifiedItemBody::RetrievalResult(_)
        );
        let item_id = item.base.id.clone();
        let Some(call_id) = call_id_mut(&mut item.body) else { return };
        if !is_result {
            self.answered.remove(call_id);
        } else if !self.answered.insert(call_id.clone()) {
            *call_id = format!("call_{}", ids::uuid(&["result", call_id, item_id.as_str()]).replace('-', ""));
            let reason = "its call has a result already; this one stands alone";
            let entry = losses::entry(LossSeverity::Info, Feature::ToolCallId, "", reason, Some(&item_id));
            self.transcript.loss.push(entry);
        }
    }

    /// Appends one item.
    pub(crate) fn item(&mut self, record: Option<usize>, mut item: UnifiedItem, stamp: &Stamp) {
        // The same record read twice stands once.
        if self.places.contains_key(&item.id) {
            return;
        }
        self.last_time = stamp.at.unwrap_or(self.last_time);
        let base = &mut item.base;
        base.created_at = self.last_time;
        if base.status == ItemStatus::InProgress {
            base.status = ItemStatus::Completed;
        }
        if stamp.injected {
            base.visibility = Visibility::Internal;
        }
        if let UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) = &mut item.body
            && call.name.is_empty()
        {
            UNNAMED.clone_into(&mut call.name);
            let reason = "a call that names no tool";
            let entry = losses::entry(LossSeverity::Info, Feature::ToolName, "", reason, Some(&item.base.id));
            self.transcript.loss.push(entry);
        }
        if let Some(call_id) = call_id_mut(&mut item.body).filter(|id| !is_call_id(id)) {
            *call_id = format!("call_{}", ids::uuid(&["call", call_id]).replace('-', ""));
            let reason = "the call ID is no printable text of at most 512 bytes; one derived from it stands in its place";
            let entry = losses::entry(LossSeverity::Info, Feature::ToolCallId, "", reason, Some(&item.base.id));
            self.transcript.loss.push(entry);
        }
        self.one_result(&mut item);
        let base = &mut item.base;
        base.provenance.origin = ItemOrigin::Import;
        base.provenance.operation_id = None;
        base.provenance.request_id = None;
        base.provenance.attribution = UnifiedAttribution {
            provider: Some(self.transcript.runtime.clone()),
            model_provider: stamp.vendor.clone(),
            model: stamp.model.clone(),
        };
        let record = record.and_then(|record| self.transcript.records.get_mut(record));
        if let Some(record) = record {
            record.items.push(item.id.clone());
        }
        self.places.insert(item.id.clone(), self.transcript.items.len());
        self.transcript.items.push(item);
    }

    /// An item that no codec makes.
    pub(crate) fn plain(&self, id: UnifiedId, role: Option<Role>, body: UnifiedItemBody) -> UnifiedItem {
        let provenance = UnifiedItemProvenance {
            profile: Some(profile(&self.transcript.runtime)),
            ..UnifiedItemProvenance::of(ItemOrigin::Import)
        };
        UnifiedItem {
            base: UnifiedItemBase::unplaced(id, role, self.last_time, provenance),
            body,
        }
    }

    /// A message of one text.
    pub(crate) fn message(&self, id: UnifiedId, role: Role, text: impl Into<String>) -> UnifiedItem {
        let parts = vec![UnifiedContentPart::text(id.part(0), text)];
        self.plain(id, Some(role), UnifiedItemBody::Message(MessageItem { parts, placement: None }))
    }

    /// Appends a summary that stands for the first `covered` items. With nothing to cover it is a message of the user.
    pub(crate) fn summary(&mut self, record: Option<usize>, id: UnifiedId, parts: Vec<UnifiedContentPart>, covered: usize, stamp: &Stamp) {
        let covered = covered.min(self.transcript.items.len());
        let range = self
            .transcript
            .items
            .first()
            .zip(covered.checked_sub(1).and_then(|last| self.transcript.items.get(last)));
        let body = match range {
            None => UnifiedItemBody::Message(MessageItem { parts, placement: None }),
            Some((first, last)) => {
                self.summaries.push((self.transcript.items.len(), covered));
                UnifiedItemBody::CompactionSummary(CompactionSummaryItem {
                    parts,
                    covers: CoveredRange {
                        from_item_id: first.id.clone(),
                        to_item_id: last.id.clone(),
                        count: covered as Count,
                    },
                    audit_hash: Sha256::of(b""),
                    replaces: true,
                    author: SummaryAuthor::Client,
                })
            }
        };
        let item = self.plain(id, Some(Role::User), body);
        self.item(record, item, stamp);
    }

    /// Position of an item.
    pub(crate) fn place_of(&self, id: &UnifiedId) -> Option<usize> {
        self.places.get(id).copied()
    }

    /// Takes the last items from `first` on away again; their records stay without items.
    pub(crate) fn take_back(&mut self, first: usize, reason: &str) {
        let gone: Vec<UnifiedItem> = self.transcript.items.drain(first.min(self.transcript.items.len())..).collect();
        let ids: HashSet<&UnifiedId> = gone.iter().map(|item| &item.id).collect();
        for record in &mut self.transcript.records {
            record.items.retain(|id| !ids.contains(id));
        }
        self.summaries.retain(|(at, _)| *at < first);
        self.transcript.usage.retain(|usage| !ids.contains(&usage.item_id));
        for item in &gone {
            self.places.remove(&item.id);
            let entry = losses::entry(LossSeverity::Info, Feature::ConversationItem, "", reason, Some(&item.id));
            self.transcript.loss.push(entry);
        }
    }

    /// Says what the last item's answer used.
    pub(crate) fn usage(&mut self, usage: UnifiedUsage) {
        if let Some(last) = self.transcript.items.last() {
            let item_id = last.id.clone();
            self.transcript.usage.push(ResponseUsage { item_id, usage });
        }
    }

    /// Keeps payloads that items refer to.
    pub(crate) fn resources(&mut self, resources: Vec<SideResource>) {
        self.transcript.resources.extend(resources);
    }

    /// Tells of damage; beyond a bound it is only counted.
    pub(crate) fn warn(&mut self, code: &'static str, message: impl Into<String>, place: impl Into<String>) {
        if self.transcript.warnings.len() >= MAX_WARNINGS {
            self.more_warnings += 1;
            return;
        }
        self.transcript.warnings.push(Warning {
            code,
            message: message.into(),
            place: place.into(),
        });
    }

    /// Tells of a line that is no JSON object.
    pub(crate) fn damaged(&mut self, line: &Line<'_>, file: &str) {
        let place = format!("{file}:{}", line.number);
        if line.open {
            self.warn("transcript.torn-line", "the last line is cut; it is left out", place);
        } else {
            self.warn("transcript.damaged-line", "the line is no JSON object; it is left out", place);
        }
    }

    /// Tells what the items do not say.
    pub(crate) fn lose(&mut self, severity: LossSeverity, feature: Feature, path: impl Into<String>, reason: &str) {
        self.transcript.loss.push(losses::entry(severity, feature, path, reason, None));
    }

    /// The transcript, with every item at its place.
    pub(crate) fn finish(mut self) -> Transcript {
        if self.more_warnings > 0 {
            self.transcript.warnings.push(Warning {
                code: "transcript.more-warnings",
                message: format!("{} more warnings are not shown", self.more_warnings),
                place: String::new(),
            });
        }
        let pending = UnifiedId::pending();
        place(&mut self.transcript.items, &pending, &pending);
        name_results(&mut self.transcript.items);
        let items = &self.transcript.items;
        for record in self.transcript.records.iter_mut().filter(|record| !record.items.is_empty()) {
            let own = record
                .items
                .iter()
                .filter_map(|id| self.places.get(id))
                .filter_map(|place| items.get(*place));
            record.digest = Some(native::digest(own));
        }
        self.transcript
    }
}

/// Name of a call that has none.
const UNNAMED: &str = "unnamed";
/// Longest call ID of the journal, in bytes.
const MAX_CALL_ID: usize = 512;

/// Whether the journal takes a call ID.
fn is_call_id(id: &str) -> bool {
    (1..=MAX_CALL_ID).contains(&id.len()) && !id.chars().any(char::is_control)
}

fn call_id_mut(body: &mut UnifiedItemBody) -> Option<&mut String> {
    match body {
        UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => Some(&mut call.call_id),
        UnifiedItemBody::ToolResult(result) => Some(&mut result.call_id),
        UnifiedItemBody::ServerToolResult(result) => Some(&mut result.call_id),
        UnifiedItemBody::ComputerAction(call) => Some(&mut call.call_id),
        UnifiedItemBody::ComputerActionResult(result) => Some(&mut result.call_id),
        UnifiedItemBody::CodeExecution(call) => Some(&mut call.call_id),
        UnifiedItemBody::CodeExecutionResult(result) => Some(&mut result.call_id),
        UnifiedItemBody::SearchResult(found) | UnifiedItemBody::RetrievalResult(found) => found.call_id.as_mut(),
        UnifiedItemBody::Message(_)
        | UnifiedItemBody::Reasoning(_)
        | UnifiedItemBody::ApprovalRequest(_)
        | UnifiedItemBody::ApprovalResponse(_)
        | UnifiedItemBody::Artifact(_)
        | UnifiedItemBody::Reference(_)
        | UnifiedItemBody::CompactionSummary(_)
        | UnifiedItemBody::ProviderSwitch(_)
        | UnifiedItemBody::Interruption(_)
        | UnifiedItemBody::Error(_) => None,
    }
}

/// The profile of what a runtime says in its own way.
pub(crate) fn profile(runtime: &str) -> UnifiedProtocolProfile {
    UnifiedProtocolProfile::of(ProtocolFamily::from_word(runtime))
}

/// Gives items their place on one path of a branch, in order. What a summary covers is hashed anew, since the place is part of it.
pub(crate) fn place(items: &mut [UnifiedItem], conversation: &UnifiedId, branch: &UnifiedId) {
    place_after(&[], items, conversation, branch);
}

/// Gives items their place behind others that stand on their path already. What a summary covers is hashed anew, since the place of
/// an item is part of its fingerprint.
pub fn place_after(before: &[UnifiedItem], items: &mut [UnifiedItem], conversation: &UnifiedId, branch: &UnifiedId) {
    let mut parent = before.last().map(|item| item.id.clone());
    let first = before.last().map_or(1, |item| item.sequence + 1);
    for (item, sequence) in items.iter_mut().zip(first..) {
        item.base.conversation_id = conversation.clone();
        item.base.branch_id = branch.clone();
        item.base.sequence = sequence;
        item.base.parent_id = parent.replace(item.base.id.clone());
    }
    // In order, so that a summary within the range of a later one is final when that one is hashed.
    for at in 0..items.len() {
        let (earlier, rest) = items.split_at_mut(at);
        let Some(UnifiedItemBody::CompactionSummary(summary)) = rest.first_mut().map(|item| &mut item.body) else {
            continue;
        };
        let count = usize::try_from(summary.covers.count).unwrap_or(usize::MAX);
        if let Ok(hash) = compaction::audit_hash(before.iter().chain(earlier.iter()).take(count)) {
            summary.audit_hash = hash;
        }
    }
}

/// Results that do not tell their tool get the name from their call.
fn name_results(items: &mut [UnifiedItem]) {
    let mut names: HashMap<String, String> = HashMap::new();
    for item in items {
        match &mut item.body {
            UnifiedItemBody::ToolCall(call) => {
                names.insert(call.call_id.clone(), call.name.clone());
            }
            UnifiedItemBody::ToolResult(result) if result.name.is_none() => {
                result.name = names.get(&result.call_id).cloned();
            }
            _ => {}
        }
    }
}
