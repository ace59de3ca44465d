//! What the items of one path are to each other: calls and results, approvals, interruptions, summaries.
//!
//! [`Walk`] goes along a path and can go back, so that the tree of a bundle's branches is walked once.

use crate::compaction::AuditChain;
use crate::item::{CompactionSummaryItem, UnifiedItem, UnifiedItemBody};
use crate::lifecycle::UnifiedToolLifecycle;
use crate::validate::{Check, Rule};
use crate::{Sha256, UnifiedId};
use std::collections::HashMap;

/// A foreign ID and what it names.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Key<'a> {
    Call(&'a str),
    Approval(&'a str),
}

/// How a call or question stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stand {
    Open(&'static str),
    /// Final without a result: denied or cancelled. A result with an error may follow.
    Ended(&'static str),
    Answered,
}

/// What entering an item changed.
pub(super) struct Undo<'a> {
    key: Option<(Key<'a>, Option<Stand>)>,
    id: &'a UnifiedId,
    placed_before: Option<usize>,
}

/// A walk along a path.
pub(super) struct Walk<'a> {
    path: Vec<&'a UnifiedItem>,
    places: HashMap<&'a UnifiedId, usize>,
    stands: HashMap<Key<'a>, Stand>,
    /// Audit hash of each prefix, when there are summaries to check.
    audits: Option<(Vec<AuditChain>, Vec<Option<Sha256>>)>,
    /// Whether no history precedes the path.
    whole: bool,
}

impl<'a> Walk<'a> {
    /// `whole`: nothing precedes the path. `audited`: items stand where the journal has them, so that audit hashes can be checked.
    pub(super) fn new(whole: bool, audited: bool) -> Self {
        let audits = audited.then(|| (vec![AuditChain::default()], Vec::new()));
        Self {
            path: Vec::new(),
            places: HashMap::new(),
            stands: HashMap::new(),
            audits,
            whole,
        }
    }

    /// Whether audit hashes are worth computing for these items.
    pub(super) fn needs_audit(items: &[UnifiedItem]) -> bool {
        let summaries = items.iter().any(|i| matches!(i.body, UnifiedItemBody::CompactionSummary(_)));
        summaries && items.iter().all(|i| !i.conversation_id.is_pending())
    }

    /// The item before the next one.
    pub(super) fn last(&self) -> Option<&'a UnifiedItem> {
        self.path.last().copied()
    }

    /// Goes on to an item, which is the place of `check`.
    pub(super) fn enter(&mut self, check: &mut Check, item: &'a UnifiedItem) -> Undo<'a> {
        let key = self.relate(check, item);
        let undo = Undo {
            key: key.map(|(key, _)| (key, self.stands.get(&key).copied())),
            id: &item.id,
            placed_before: self.places.get(&item.id).copied(),
        };
        if let Some((key, stand)) = key {
            self.stands.insert(key, stand);
        }
        self.places.insert(&item.id, self.path.len());
        self.path.push(item);
        if let Some((chains, hashes)) = &mut self.audits {
            let mut chain = chains.last().cloned().unwrap_or_default();
            hashes.push(chain.push(item).ok().map(|()| chain.hash()));
            chains.push(chain);
        }
        undo
    }

    /// Goes back over the last item.
    pub(super) fn leave(&mut self, undo: Undo<'a>) {
        self.path.pop();
        if let Some((chains, hashes)) = &mut self.audits {
            chains.pop();
            hashes.pop();
        }
        match undo.placed_before {
            Some(at) => self.places.insert(undo.id, at),
            None => self.places.remove(undo.id),
        };
        match undo.key {
            Some((key, Some(stand))) => {
                self.stands.insert(key, stand);
            }
            Some((key, None)) => {
                self.stands.remove(&key);
            }
            None => {}
        }
    }

    /// Checks an item against what came before and tells what it changes.
    fn relate(&self, check: &mut Check, item: &'a UnifiedItem) -> Option<(Key<'a>, Stand)> {
        match &item.body {
            UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => {
                Some(self.open(check, item, &call.call_id, call.lifecycle))
            }
            UnifiedItemBody::ComputerAction(call) => {
                if let Some(id) = &call.approval_id {
                    let asked = !self.whole || self.stands.contains_key(&Key::Approval(id));
                    check.require(
                        asked,
                        "approvalId",
                        Rule::UnknownReference,
                        "no approval was asked for under this ID",
                    );
                }
                Some(self.open(check, item, &call.call_id, call.lifecycle))
            }
            UnifiedItemBody::CodeExecution(call) => Some(self.open(check, item, &call.call_id, call.lifecycle)),
            UnifiedItemBody::ToolResult(result) => Some(self.close(check, item, &result.call_id)),
            UnifiedItemBody::ServerToolResult(result) => Some(self.close(check, item, &result.call_id)),
            UnifiedItemBody::ComputerActionResult(result) => Some(self.close(check, item, &result.call_id)),
            UnifiedItemBody::CodeExecutionResult(result) => Some(self.close(check, item, &result.call_id)),
            UnifiedItemBody::SearchResult(found) | UnifiedItemBody::RetrievalResult(found) => {
                if let Some(id) = &found.call_id {
                    let known = !self.whole || self.stands.contains_key(&Key::Call(id));
                    check.require(known, "callId", Rule::ResultWithoutCall, "no call before it has this ID");
                }
                None
            }
            UnifiedItemBody::ApprovalRequest(request) => {
                if let Some(id) = &request.call_id {
                    let known = !self.whole || self.stands.contains_key(&Key::Call(id));
                    check.require(known, "callId", Rule::UnknownReference, "no call before it has this ID");
                }
                let key = Key::Approval(&request.approval_id);
                check.require(
                    !self.stands.contains_key(&key),
                    "approvalId",
                    Rule::Approval,
                    "this approval was asked for already",
                );
                Some((key, Stand::Open(item.body.kind())))
            }
            UnifiedItemBody::ApprovalResponse(response) => {
                let key = Key::Approval(&response.approval_id);
                match self.stands.get(&key) {
                    Some(Stand::Answered) => check.broken_at("approvalId", Rule::Approval, "this approval was answered already"),
                    None if self.whole => check.broken_at("approvalId", Rule::Approval, "nobody asked for this approval"),
                    Some(Stand::Open(_) | Stand::Ended(_)) | None => {}
                }
                Some((key, Stand::Answered))
            }
            UnifiedItemBody::Interruption(interruption) => {
                check.each("openCallIds", &interruption.open_call_ids, |check, id| {
                    match self.stands.get(&Key::Call(id)) {
                        Some(Stand::Answered) => check.broken(Rule::OpenCalls, "this call has a result"),
                        None if self.whole => check.broken(Rule::OpenCalls, "no call before it has this ID"),
                        Some(Stand::Open(_) | Stand::Ended(_)) | None => {}
                    }
                });
                None
            }
            UnifiedItemBody::CompactionSummary(summary) => {
                check.inside("covers", |check| self.covers(check, summary));
                self.audit(check, summary);
                None
            }
            UnifiedItemBody::Message(_)
            | UnifiedItemBody::Reasoning(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Error(_) => None,
        }
    }

    fn open(&self, check: &mut Check, item: &'a UnifiedItem, call_id: &'a str, lifecycle: UnifiedToolLifecycle) -> (Key<'a>, Stand) {
        let key = Key::Call(call_id);
        if matches!(self.stands.get(&key), Some(Stand::Open(_))) {
            check.broken_at("callId", Rule::CallOpen, "an earlier call with this ID has no result yet");
        }
        let ended = matches!(lifecycle, UnifiedToolLifecycle::ApprovalDenied | UnifiedToolLifecycle::Cancelled);
        (
            key,
            if ended {
                Stand::Ended(item.body.kind())
            } else {
                Stand::Open(item.body.kind())
            },
        )
    }

    fn close(&self, check: &mut Check, item: &'a UnifiedItem, call_id: &'a str) -> (Key<'a>, Stand) {
        let key = Key::Call(call_id);
        match self.stands.get(&key) {
            Some(Stand::Open(kind) | Stand::Ended(kind)) => {
                let fits = result_of(kind).contains(&item.body.kind());
                check.require(fits, "kind", Rule::ResultKind, format_args!("the call is a {kind}"));
            }
            Some(Stand::Answered) => check.broken_at("callId", Rule::SecondResult, "its call has a result already"),
            None if self.whole => check.broken_at("callId", Rule::ResultWithoutCall, "no call before it has this ID"),
            None => {}
        }
        (key, Stand::Answered)
    }

    /// The range of a summary is a prefix of the path before it.
    fn covers(&self, check: &mut Check, summary: &CompactionSummaryItem) {
        let covers = &summary.covers;
        if !self.whole {
            return;
        }
        if let Some(first) = self.path.first() {
            check.require(
                first.id == covers.from_item_id,
                "fromItemId",
                Rule::CompactionRange,
                "a summary begins with the first item of its path",
            );
        } else {
            check.broken(Rule::CompactionRange, "nothing stands before the summary");
            return;
        }
        match self.places.get(&covers.to_item_id) {
            Some(at) => {
                let count = *at as u64 + 1;
                check.require(
                    covers.count == count,
                    "count",
                    Rule::CompactionRange,
                    format_args!("the range has {count} items"),
                );
            }
            None => check.broken_at("toItemId", Rule::CompactionRange, "the last covered item stands before the summary"),
        }
    }

    fn audit(&self, check: &mut Check, summary: &CompactionSummaryItem) {
        let (true, Some((_, hashes))) = (self.whole, &self.audits) else {
            return;
        };
        let right = self
            .places
            .get(&summary.covers.to_item_id)
            .and_then(|at| hashes.get(*at))
            .copied()
            .flatten();
        if let Some(right) = right {
            check.require(
                right == summary.audit_hash,
                "auditHash",
                Rule::AuditHash,
                "the covered items have another hash",
            );
        }
    }

    /// Calls that the client is to execute and approvals that have no answer, of items of the path.
    pub(super) fn is_open(&self, item: &UnifiedItem) -> bool {
        let key = match &item.body {
            UnifiedItemBody::ApprovalRequest(request) => Key::Approval(&request.approval_id),
            _ => match item.call_id() {
                Some(id) => Key::Call(id),
                None => return false,
            },
        };
        matches!(self.stands.get(&key), Some(Stand::Open(_)))
    }
}

/// Kinds of result that a kind of call may have.
fn result_of(call: &str) -> &'static [&'static str] {
    match call {
        "tool-call" => &["tool-result"],
        "server-tool-call" => &["server-tool-result", "search-result", "retrieval-result"],
        "computer-action" => &["computer-action-result"],
        _ => &["code-execution-result"],
    }
}
