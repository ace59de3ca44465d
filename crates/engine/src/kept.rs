//! Requests that outlive the process: of operations that wait for a slot, or for somebody's decision.
//!
//! Nothing of them is on its way at a provider, so a stop of the process takes nothing from them. The request is sealed with
//! the commit by which the operation begins to wait; the next start reads it as it was read the first time, with the same IDs,
//! and goes on: what was queued is queued again, and what waits for a decision keeps waiting for it.

use crate::admission::Admission;
use crate::checkpoints::Handles;
use crate::engine::Engine;
use crate::jobs::client_codec;
use crate::ports::Router;
use crate::principal::Principal;
use crate::private::{self, ClientState};
use crate::producer::{Asker, CloseOnDrop, Producer};
use crate::projector::Projector;
use crate::summaries;
use crate::switch::Answerer;
use crate::terminal::Ending;
use crate::tool_names::ToolNames;
use crate::turn::{Prepared, TurnOptions, TurnRequest};
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_format::resource::{Issuer, ProviderDataScope, ResourceType};
use throughline_format::{
    ErrorCategory, OperationState, Timestamp, UnifiedError, UnifiedFinishReason, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedOperation,
    UnifiedResponseStatus,
};
use throughline_protocols::{Feature, SideResource};
use throughline_store::{WriteOp, export};

/// Schema of what is sealed.
const SCHEMA: &str = "throughline/request@1";

fn resource_id(operation_id: &UnifiedId) -> UnifiedId {
    UnifiedId::parse(&format!("{operation_id}.request")).unwrap_or_else(|_| operation_id.resource(0))
}

/// What keeps the request of an operation; `None` when it is too long.
pub(crate) fn keep(
    engine: &Engine,
    prepared: &Prepared,
    conversation_id: &UnifiedId,
    is_delta: bool,
) -> Result<Option<WriteOp>, UnifiedError> {
    let turn = &prepared.turn;
    if turn.body.len() > engine.limits.kept_request_bytes {
        return Ok(None);
    }
    let head = json!({
        "principal": turn.principal.id(),
        "client": turn.codec.profile().family.as_str(),
        "model": turn.model,
        "stream": turn.stream,
        "require": turn.require.iter().map(|feature| feature.as_str()).collect::<Vec<_>>(),
        "runtime": turn.client_family,
        "headers": turn.client_headers,
        "transport": turn.transport,
        "background": turn.options.background,
        "waitsForApprovals": turn.options.waits_for_approvals,
        "requestId": prepared.request_id.as_str(),
        "receivedAt": prepared.received_at.millis(),
        "isDelta": is_delta,
    });
    let mut payload = head.to_string().into_bytes();
    payload.push(b'\n');
    payload.extend_from_slice(&turn.body);
    let profile = turn.codec.profile();
    let owner = private::client_owner(profile.family.clone());
    let side = SideResource {
        resource_id: resource_id(&prepared.operation_id),
        profile,
        schema: SCHEMA.to_owned(),
        scope: ProviderDataScope::OwnerPrivate,
        issuer: Issuer::ClientAsserted,
        resource_type: ResourceType::Other("request".into()),
        payload,
        wire_paths: Vec::new(),
        subject: Some(prepared.operation_id.clone()),
    };
    let sealed = private::seal(&engine.vault, &side, conversation_id, &owner, engine.clock.now())?;
    Ok(Some(WriteOp::PutResource(Box::new(sealed))))
}

/// The path before an answer, when a summary may come that covers it.
pub(crate) type Covered = Option<Arc<[UnifiedItem]>>;

/// A request as it was kept.
struct Kept {
    turn: TurnRequest,
    request_id: UnifiedId,
    received_at: Timestamp,
    is_delta: bool,
}

impl Kept {
    fn read(payload: &[u8]) -> Option<Self> {
        let end = payload.iter().position(|byte| *byte == b'\n')?;
        let (head, body) = (payload.get(..end)?, payload.get(end + 1..)?);
        let head: Value = serde_json::from_slice(head).ok()?;
        let text = |key: &str| head.get(key).and_then(Value::as_str);
        let is = |key: &str| head.get(key).and_then(Value::as_bool);
        // A feature that this build does not know may be one that the request must not do without.
        let require = head
            .get("require")?
            .as_array()?
            .iter()
            .map(|word| Feature::from_word(word.as_str()?));
        Some(Self {
            turn: TurnRequest {
                principal: Principal::new(text("principal")?),
                codec: client_codec(text("client")?)?,
                body: Bytes::copy_from_slice(body),
                model: text("model").map(str::to_owned),
                stream: is("stream"),
                conversation: None,
                branch: None,
                require: require.collect::<Option<_>>()?,
                client_family: text("runtime").map(str::to_owned),
                // Where it belongs was settled when it came.
                session: None,
                client_headers: serde_json::from_value(head.get("headers")?.clone()).ok()?,
                transport: serde_json::from_str(&head.get("transport")?.to_string()).ok()?,
                options: TurnOptions {
                    background: is("background")?,
                    waits_for_approvals: is("waitsForApprovals")?,
                    ..TurnOptions::default()
                },
            },
            request_id: UnifiedId::parse(text("requestId")?).ok()?,
            received_at: Timestamp::from_millis(head.get("receivedAt")?.as_i64()?),
            is_delta: is("isDelta")?,
        })
    }
}

impl Engine {
    /// Goes on with an operation that waits; false when it does not, or its request was not kept.
    pub(crate) async fn wait_on(self: &Arc<Self>, operation: &UnifiedOperation, router: &dyn Router) -> Result<bool, UnifiedError> {
        if !matches!(operation.state, OperationState::Queued | OperationState::RequiresAction) {
            return Ok(false);
        }
        let Some((projector, covered)) = self.restored(operation).await? else {
            return Ok(false);
        };
        let (prepared, history) = (Arc::clone(&projector.prepared), &projector.history);
        let targets = router.route(&prepared.turn.codec.profile().family, &prepared.decoded.unified.model.requested)?;
        let (Some(target), Some(link)) = (targets.first(), self.link_before(operation).await?) else {
            return Ok(false);
        };
        let told_of_switch =
            |item: &UnifiedItem| matches!(item.body, UnifiedItemBody::ProviderSwitch(_)) && operation.input_item_ids.contains(&item.id);
        let answerer = if history.iter().any(told_of_switch) {
            Some(Answerer::of(target))
        } else {
            Answerer::last(self, history).await?
        };
        let Ok(admission) = Admission::ask(self, true) else {
            return Ok(false);
        };
        let first_item = prepared.decoded.unified.conversation.items.len() as u64 + 1;
        let (mut scribe, journal, live) = self.reopened(operation, first_item).await?;
        scribe.seat.covered = covered;
        // Before anybody can find the operation.
        live.questions.restore(scribe.fold.items());
        let closing = CloseOnDrop::open(self, &live, &operation.operation_id);
        let holds = operation.state == OperationState::RequiresAction;
        let producer = Producer {
            engine: Arc::clone(self),
            operation: operation.clone(),
            asker: Asker {
                codec: Arc::clone(&prepared.turn.codec),
                request_id: prepared.request_id.clone(),
                runtime: prepared.turn.client_family.clone(),
                keeps: false,
                received_at: prepared.received_at,
            },
            encode: self.client_context(&prepared, Arc::new(ClientState(Arc::clone(&live)))),
            projector: Some(projector),
            live,
            targets,
            resumes: None,
            job: None,
            catch_up: None,
            first: None,
            // Whoever has to answer next is the client: what an answer says when it leaves calls to it.
            held: holds.then(|| Ending::Completed {
                status: UnifiedResponseStatus::finished(UnifiedFinishReason::ToolCalls, None),
            }),
            kept: true,
            link,
            issued_states: Vec::new(),
            tool_names: ToolNames::default(),
            handles: Handles::default(),
            refused: Vec::new(),
            answerer,
            switch: None,
            rounds: rounds(&operation.operation_id, scribe.fold.items()),
            begun_after: 0,
            usage: scribe.fold.usage().cloned(),
            scribe,
            journal,
        };
        tokio::spawn(producer.run(closing, admission));
        Ok(true)
    }

    /// What an operation's kept request is projected from, and the path that a summary in its answer covers; `None` when it was not
    /// kept.
    pub(crate) async fn restored(&self, operation: &UnifiedOperation) -> Result<Option<(Projector, Covered)>, UnifiedError> {
        let Some(kept) = self.kept(operation).await? else {
            return Ok(None);
        };
        let is_delta = kept.is_delta;
        let decoded = self.decode(&kept.turn, &operation.operation_id, &kept.request_id, kept.received_at)?;
        let prepared = Arc::new(Prepared {
            key: None,
            fingerprint: operation.request_fingerprint,
            deadline: operation.deadline.unwrap_or(kept.received_at),
            waits: operation.state == OperationState::Queued,
            appends: false,
            turn: kept.turn,
            principal_ref: operation.principal_ref.clone(),
            decoded,
            operation_id: operation.operation_id.clone(),
            request_id: kept.request_id,
            received_at: kept.received_at,
            now: self.clock.now(),
        });
        let mut history = self.path_before(operation).await?;
        // What a summary in the answer covers is the path as it was appended.
        let covered = summaries::may_come(&prepared.decoded.unified).then(|| history.clone().into());
        export::bring_up_to_date(self.store.as_ref(), &operation.source_branch_id, &mut history)
            .await
            .map_err(|e| e.to_unified())?;
        let projector = Projector {
            prepared,
            shared: history.len().saturating_sub(operation.input_item_ids.len()),
            history,
            is_delta,
            rewritten: false,
            conversation_id: operation.conversation_id.clone(),
            // What it may have gone on by is as old as the stop; the history says the same.
            head: None,
            answered: 0,
        };
        Ok(Some((projector, covered)))
    }

    async fn kept(&self, operation: &UnifiedOperation) -> Result<Option<Kept>, UnifiedError> {
        let id = resource_id(&operation.operation_id);
        let Some((_, plain)) = self.open_own(operation, &id, SCHEMA).await? else {
            return Ok(None);
        };
        let unread = || UnifiedError::new(ErrorCategory::Internal, "request", "a kept request cannot be read");
        let kept = Kept::read(&plain).ok_or_else(unread)?;
        if kept.turn.principal.reference(&self.vault)? != operation.principal_ref {
            return Err(unread());
        }
        Ok(Some(kept))
    }

    /// The path up to the end of an operation's input.
    async fn path_before(&self, operation: &UnifiedOperation) -> Result<Vec<UnifiedItem>, UnifiedError> {
        let mut path = self.branch_path(&operation.source_branch_id).await?;
        let last = operation.input_item_ids.last().or(operation.source_head_item_id.as_ref());
        let end = last
            .and_then(|last| path.iter().rposition(|item| item.id == *last))
            .map_or(0, |at| at + 1);
        path.truncate(end);
        Ok(path)
    }
}

/// How many later answers an operation has had: their items are named after them.
fn rounds(operation_id: &UnifiedId, items: &[UnifiedItem]) -> usize {
    let prefix = format!("{operation_id}.a");
    let later = items
        .iter()
        .filter_map(|item| item.id.as_str().strip_prefix(&prefix)?.split('.').next()?.parse().ok());
    later.max().unwrap_or_default()
}
