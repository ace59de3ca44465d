//! The opening of an operation: everything that is committed before anything is sent.

use crate::checkpoints::Head;
use crate::claims::Claims;
use crate::engine::Engine;
use crate::lineage::find::Found;
use crate::lineage::{LINEAGE_VERSION, calls};
use crate::ports::{IdKind, Target};
use crate::private;
use crate::scribe::{Scribe, Seat, Written};
use crate::switch::Answerer;
use crate::turn::Prepared;
use crate::{summaries, terminal};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use throughline_format::conversation::LeasePurpose;
use throughline_format::event::{OperationChanged, OperationCreated};
use throughline_format::item::{RevisionChange, Role, SwitchReason, UnifiedItemBody};
use throughline_format::operation::{Cancellation, CleanupLease};
use throughline_format::{
    EventBody, EventDraft, Fold, OperationState, SchemaVersion, UnifiedBranch, UnifiedContentPart, UnifiedConversation, UnifiedError,
    UnifiedId, UnifiedItem, UnifiedItemRevision, UnifiedLease, UnifiedOperation,
};
use throughline_protocols::DecodedRequest;
use throughline_store::{LineageRow, SessionKeyRow, WriteBatch, WriteOp};

/// How long the lease of a running operation keeps its conversation.
const LEASE_MILLIS: i64 = 24 * 3_600_000;

/// Everything that the opening commit writes.
pub(crate) struct Opening {
    pub(crate) conversation_id: UnifiedId,
    pub(crate) branch_id: UnifiedId,
    new_conversation: Option<UnifiedConversation>,
    new_branch: Option<UnifiedBranch>,
    expected_head: Option<UnifiedId>,
    head_sequence: u64,
    /// What a summary in the answer covers, when the request asks for compaction.
    covered: Option<Arc<[UnifiedItem]>>,
    /// The request's items as the journal keeps them.
    pub(crate) new_items: Vec<UnifiedItem>,
    /// The same as this request's own projection may use them: with references to payloads that are only lent.
    pub(crate) sent_items: Vec<UnifiedItem>,
    pub(crate) operation: UnifiedOperation,
    /// Who answers for the branch once this is committed: the target when the input tells of a switch to it.
    pub(crate) answerer: Option<Answerer>,
}

impl Opening {
    pub(crate) fn new(
        engine: &Engine,
        prepared: &Prepared,
        found: &Found,
        target: &Target,
        claims: &Claims,
        last: Option<Answerer>,
    ) -> Self {
        let now = prepared.now;
        let conversation_id = found
            .home
            .as_ref()
            .map_or_else(|| engine.ids.next(IdKind::Conversation), |(c, _)| c.conversation_id.clone());
        let shared = found.path.last();
        let branch_id = match &found.home {
            Some((_, branch)) if !found.place.forks => branch.branch_id.clone(),
            _ => engine.ids.next(IdKind::Branch),
        };
        let new_branch = (found.home.is_none() || found.place.forks).then(|| UnifiedBranch {
            branch_id: branch_id.clone(),
            conversation_id: conversation_id.clone(),
            parent_branch_id: shared.and(found.home.as_ref()).map(|(_, b)| b.branch_id.clone()),
            fork_item_id: shared.map(|i| i.id.clone()),
            head_item_id: shared.map(|i| i.id.clone()),
            head_sequence: shared.map_or(0, |i| i.sequence),
            created_at: now,
        });
        let new_conversation = found.home.is_none().then(|| UnifiedConversation {
            conversation_id: conversation_id.clone(),
            default_branch_id: branch_id.clone(),
            created_at: now,
            last_updated_at: now,
            principal_ref: prepared.principal_ref.clone(),
            title: None,
            metadata: None,
        });
        let asked = prepared.decoded.unified.conversation.items.len() as u64;
        let switch = last.as_ref().and_then(|last| {
            let id = prepared.operation_id.item(asked);
            last.switch(target, &prepared.operation_id, id, SwitchReason::Client, now)
        });
        let answerer = if switch.is_some() { Some(Answerer::of(target)) } else { last };
        let sent_items = new_items(prepared, found, switch, claims, &conversation_id, &branch_id);
        let mut new_items = sent_items.clone();
        for item in &mut new_items {
            private::retain_references(item, &mut |reference| !claims.unknown.contains(&reference.resource_id));
        }
        let covered = summaries::may_come(&prepared.decoded.unified).then(|| found.appended_path().chain(&new_items).cloned().collect());
        let operation = UnifiedOperation {
            schema_version: SchemaVersion,
            operation_id: prepared.operation_id.clone(),
            conversation_id: conversation_id.clone(),
            state: if prepared.waits {
                OperationState::Queued
            } else {
                OperationState::Running
            },
            owner: Some(target.owner.clone()),
            principal_ref: prepared.principal_ref.clone(),
            source_branch_id: branch_id.clone(),
            source_head_item_id: shared.map(|i| i.id.clone()),
            input_item_ids: new_items.iter().map(|i| i.id.clone()).collect(),
            provider_job: None,
            polling: None,
            webhook: None,
            cancellation: Cancellation::BestEffort,
            cancel_requested_at: None,
            idempotency_key_hash: prepared.key.as_ref().map(|key| key.hash),
            request_fingerprint: prepared.fingerprint,
            result_id: None,
            error: None,
            portability: None,
            source_profile: Some(prepared.turn.codec.profile()),
            decode_loss: Some(crate::turn::bounded(prepared.decoded.loss.clone())),
            loss: None,
            created_at: now,
            started_at: (!prepared.waits).then_some(now),
            updated_at: now,
            ended_at: None,
            deadline: Some(prepared.deadline),
            cleanup_lease: Some(CleanupLease {
                lease_id: engine.ids.next(IdKind::Lease),
                expires_at: now.plus_millis(LEASE_MILLIS),
            }),
            last_sequence: 0,
        };
        Self {
            conversation_id,
            branch_id,
            new_conversation,
            new_branch,
            expected_head: shared.map(|i| i.id.clone()),
            head_sequence: shared.map_or(0, |i| i.sequence),
            covered,
            new_items,
            sent_items,
            operation,
            answerer,
        }
    }

    /// Where the branch stood before this turn's own input, when the input goes on there: a new branch has no such place.
    pub(crate) fn head(&self) -> Option<Head> {
        let item_id = self.expected_head.clone().filter(|_| self.new_branch.is_none())?;
        Some(Head {
            branch_id: self.branch_id.clone(),
            item_id,
        })
    }

    /// The scribe of the operation, at the place of its answer, and `operation.created` and its first state as it wrote them.
    pub(crate) fn first_events(
        &self,
        engine: &Engine,
        prepared: &Prepared,
        target: &Target,
    ) -> Result<(Scribe, Vec<Written>), UnifiedError> {
        let decoded = &prepared.decoded;
        let created = EventBody::OperationCreated(OperationCreated {
            source_branch_id: self.branch_id.clone(),
            source_head_item_id: self.operation.source_head_item_id.clone(),
            target: target.codec.profile(),
            requested_model: Some(decoded.unified.model.requested.clone()),
            background: prepared.turn.options.background.then_some(true),
        });
        let state = match self.operation.state {
            OperationState::Queued => EventBody::OperationQueued(OperationChanged::default()),
            _ => EventBody::OperationRunning(OperationChanged::default()),
        };
        let id = self.operation.operation_id.clone();
        let mut scribe = Scribe::new(id.clone(), Fold::new(id), self.seat(decoded), engine.limits);
        let events = scribe.write(vec![EventDraft::new(created), EventDraft::new(state)], self.operation.created_at)?;
        Ok((scribe, events))
    }

    pub(crate) fn batch(
        &self,
        engine: &Engine,
        prepared: &Prepared,
        found: &Found,
        claims: &Claims,
        events: &[Written],
        keep: Option<WriteOp>,
    ) -> Result<WriteBatch, UnifiedError> {
        let now = prepared.now;
        let mut batch = WriteBatch::new(now, self.conversation_id.clone());
        batch.ops.extend(self.new_conversation.clone().map(WriteOp::CreateConversation));
        batch.ops.extend(self.new_branch.clone().map(WriteOp::CreateBranch));
        batch.push(WriteOp::AppendItems {
            branch_id: self.branch_id.clone(),
            expected_head: self.expected_head.clone(),
            items: self.new_items.clone(),
        });
        batch.push(WriteOp::PutOperation(self.operation.clone()));
        for rewrite in &found.revisions {
            let Some(number) = rewrite.number else { continue };
            batch.push(WriteOp::AddRevision(UnifiedItemRevision {
                revision_id: engine.ids.next(IdKind::Revision),
                item_id: rewrite.item_id.clone(),
                number,
                created_at: now,
                change: RevisionChange {
                    parts: Some(rewrite.parts.clone()),
                    ..RevisionChange::default()
                },
                reason: "client.rewrite".into(),
                operation_id: Some(self.operation.operation_id.clone()),
            }));
        }
        if let Some(lease) = &self.operation.cleanup_lease {
            batch.push(WriteOp::AcquireLease(UnifiedLease {
                lease_id: lease.lease_id.clone(),
                holder: self.operation.operation_id.to_string(),
                purpose: LeasePurpose::Operation,
                conversation_id: self.conversation_id.clone(),
                expires_at: lease.expires_at,
            }));
        }
        batch.push(terminal::append(&self.operation.operation_id, events));
        batch.ops.extend(keep);
        for (side, owner) in &claims.stored {
            batch.push(WriteOp::PutResource(Box::new(private::seal(
                &engine.vault,
                side,
                &self.conversation_id,
                owner,
                now,
            )?)));
        }
        let items = &prepared.decoded.unified.conversation.items;
        let rows: Vec<LineageRow> = found
            .user_links
            .iter()
            .filter_map(|(item, link)| items.get(*item).map(|i| (i, link)))
            .map(|(item, link)| LineageRow {
                principal_ref: prepared.principal_ref.clone(),
                link: link.hash,
                lineage_version: LINEAGE_VERSION,
                conversation_id: self.conversation_id.clone(),
                branch_id: self.branch_id.clone(),
                item_id: item.id.clone(),
                ordinal: link.ordinal,
                evidence: false,
                created_at: now,
            })
            .collect();
        if !rows.is_empty() {
            batch.push(WriteOp::PutLineage(rows));
        }
        if let Some(keys) = &found.session {
            let row = |key_hash| SessionKeyRow {
                principal_ref: prepared.principal_ref.clone(),
                key_hash,
                conversation_id: self.conversation_id.clone(),
                branch_id: self.branch_id.clone(),
                operation_id: self.operation.operation_id.clone(),
                created_at: now,
            };
            let hashes = std::iter::once(keys.session).chain(keys.question);
            batch.push(WriteOp::PutSessionKeys(hashes.map(row).collect()));
        }
        Ok(batch)
    }

    fn seat(&self, decoded: &DecodedRequest) -> Seat {
        Seat {
            conversation_id: self.conversation_id.clone(),
            branch_id: self.branch_id.clone(),
            // The switch item, when there is one, took the ordinal after the request's items.
            first_item: decoded.unified.conversation.items.len() as u64 + 1,
            next_sequence: self.head_sequence + self.new_items.len() as u64 + 1,
            covered: self.covered.clone(),
            last_item: self.new_items.last().map(|i| i.id.clone()).or_else(|| self.expected_head.clone()),
        }
    }
}

/// The items that the request adds, at their place.
fn new_items(
    prepared: &Prepared,
    found: &Found,
    switch: Option<UnifiedItem>,
    claims: &Claims,
    conversation_id: &UnifiedId,
    branch_id: &UnifiedId,
) -> Vec<UnifiedItem> {
    let asked = &prepared.decoded.unified.conversation.items;
    let new_calls = |i: &&UnifiedItem| calls::is_call(i);
    let added: HashSet<&str> = found
        .place
        .new_items
        .iter()
        .filter_map(|i| asked.get(*i))
        .filter(new_calls)
        .filter_map(UnifiedItem::call_id)
        .collect();
    let mut items = Vec::from_iter(switch);
    let calls = StoredCalls::of(prepared, found);
    let mut in_front = in_front_of_summary(asked, found);
    for index in &found.place.new_items {
        let Some(mut item) = asked.get(*index).cloned() else { continue };
        if found.place.summary.is_some_and(|summary| *index < summary) && !in_front.is_empty() {
            continue;
        }
        if found.place.summary == Some(*index) {
            if let UnifiedItemBody::Message(message) = &mut item.body {
                message.parts.splice(..0, in_front.drain(..));
            }
            let path: Vec<UnifiedItem> = found.appended_path().cloned().collect();
            summaries::stand_in(&mut item, &path);
        }
        private::retain_references(&mut item, &mut |reference| {
            if let Some(stored) = claims.renamed.get(&reference.resource_id) {
                reference.resource_id = stored.clone();
            }
            true
        });
        let result_of = match &mut item.body {
            UnifiedItemBody::ToolResult(result) => Some(&mut result.call_id),
            UnifiedItemBody::ComputerActionResult(result) => Some(&mut result.call_id),
            _ => None,
        };
        if let Some(call_id) = result_of.filter(|id| !added.contains(id.as_str())) {
            *call_id = calls.original(found, call_id);
        }
        items.push(item);
    }
    let (mut sequence, mut parent) = (found.path.last().map_or(0, |i| i.sequence), found.path.last().map(|i| i.id.clone()));
    let mut seated: Vec<UnifiedItem> = Vec::with_capacity(items.len());
    for mut item in items {
        sequence += 1;
        item.base.conversation_id = conversation_id.clone();
        item.base.branch_id = branch_id.clone();
        item.base.sequence = sequence;
        item.base.parent_id = parent.replace(item.base.id.clone());
        summaries::cover(&mut item, || found.appended_path().chain(&seated).cloned().collect());
        seated.push(item);
    }
    seated
}

/// What the user wrote in front of the client's own summary. It belongs to the summary, which is the first item after what it stands
/// for; nothing is taken when there is more than messages of the user.
fn in_front_of_summary(asked: &[UnifiedItem], found: &Found) -> Vec<UnifiedContentPart> {
    let Some(summary) = found.place.summary else { return Vec::new() };
    let before = found.place.new_items.iter().filter(|at| **at < summary);
    let items: Vec<&UnifiedItem> = before.filter_map(|at| asked.get(*at)).collect();
    let is_users = |item: &&UnifiedItem| item.role == Some(Role::User) && matches!(item.body, UnifiedItemBody::Message(_));
    if !items.iter().all(is_users) {
        return Vec::new();
    }
    items.into_iter().flat_map(|item| item.parts().to_vec()).collect()
}

/// The calls of the shared history by their own ID and by what the client's wire makes of it. The newest call counts: some
/// providers use an ID again.
struct StoredCalls<'a> {
    own: HashSet<&'a str>,
    by_wire: HashMap<String, &'a str>,
}

impl<'a> StoredCalls<'a> {
    fn of(prepared: &Prepared, found: &'a Found) -> Self {
        let ids = || found.path.iter().filter(|i| calls::is_call(i)).filter_map(UnifiedItem::call_id);
        let codec = prepared.turn.codec.as_ref();
        Self {
            own: ids().collect(),
            by_wire: ids().map(|id| (codec.wire_call_id(id).into_owned(), id)).collect(),
        }
    }

    /// The journal's ID of the call that a result names: by the call's place in the shared history, else by the ID itself,
    /// else by what the client's wire makes of a stored one.
    fn original(&self, found: &Found, asked: &str) -> String {
        let stored = || match self.own.get(asked) {
            Some(own) => Some(*own),
            None => self.by_wire.get(asked).copied(),
        };
        found.calls.known(asked).or_else(stored).unwrap_or(asked).to_owned()
    }
}
