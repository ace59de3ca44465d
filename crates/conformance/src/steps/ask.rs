//! Questions to a store or a subscriber after a step.

use super::dispatch::whole_millis;
use super::live::LAST_OUTPUT_TOKENS;
use super::world::World;
use super::{Halt, files};
use crate::compare;
use crate::journal::Backend;
use crate::query::{equal, word};
use crate::report::Verdict;
use serde_json::{Value, json};
use throughline_format::{ErrorCategory, EventBody, OperationState, Timestamp, UnifiedEventV2, UnifiedId, UnifiedItemBody};
use throughline_store::{EventRange, MAX_PAGE, StoreError};

fn wrong(error: impl std::fmt::Display) -> Halt {
    Halt::Wrong(error.to_string())
}

/// The verdict on a check after a step; `None` where this store has nothing of the kind.
pub(crate) async fn verdict(world: &mut World, step: &str, check: &Value) -> Option<Verdict> {
    match answer(world, step, check).await {
        Ok(None) => Some(Verdict::Pass),
        Ok(Some(why)) | Err(Halt::Wrong(why)) => Some(Verdict::Fail(why)),
        Err(Halt::Unknown(why)) => Some(Verdict::NotRun(why)),
        Err(Halt::NotHere) => None,
    }
}

/// What is wrong, or nothing.
async fn answer(world: &mut World, step: &str, check: &Value) -> Result<Option<String>, Halt> {
    let ask = word(check, "ask");
    let value = match ask {
        "subscriber_received" => return received(world, check).await,
        "sequences" => return sequences(world, check).await,
        "all_or_none" => return all_or_none(world, check).await,
        "event_sequences_prefix" => return event_prefix(world, check).await,
        "last_error" => return Ok(last_error(world, check)),
        "last_updated_at" => {
            let (conversation, _) = world.conversation(check)?;
            let found = world.home.store.conversation(&conversation).await.map_err(wrong)?;
            let wanted = check
                .get("equals")
                .and_then(Value::as_str)
                .map(whole_millis)
                .and_then(|t| Timestamp::parse(&t).ok());
            let found = found.map(|c| c.last_updated_at);
            return Ok((found.is_none() || found != wanted).then(|| format!("last updated at {found:?}, expected {wanted:?}")));
        }
        "op_result" => Value::from(world.result_word(step)),
        "conversation_exists" => {
            let (conversation, _) = world.conversation(check)?;
            Value::from(world.home.store.conversation(&conversation).await.map_err(wrong)?.is_some())
        }
        "item_count" => {
            let (_, branch) = world.conversation(check)?;
            Value::from(world.items(&branch).await.map_err(wrong)?.len())
        }
        "operation_status" => {
            let id = world.operation(check)?.id.clone();
            Value::from(status(world, &id).await?)
        }
        "subscriber_state" => Value::from(subscriber_state(world, check).await?),
        "event_count" => {
            let id = world.operation(check)?.id.clone();
            Value::from(world.home.store.last_sequence(&id).await.map_err(wrong)?)
        }
        "terminal_events" => {
            let id = world.operation(check)?.id.clone();
            let events = events(world, &id).await?;
            Value::from(events.iter().filter(|e| e.body.is_terminal()).count())
        }
        "artifact_exists" => artifact_exists(world, check).await?,
        "rows_for_conversation" => Value::from(rows(world, check).await?),
        "dangling_references" => Value::from(dangling(world).await?),
        "file_contains" => {
            let folder = files::folder(world)?;
            Value::from(files::holds(&folder, word(check, "needle").as_bytes()).map_err(wrong)?)
        }
        other => return Err(Halt::Unknown(format!("no store is asked for {other:?}"))),
    };
    Ok(compare::problem(Some(&value), check).map(|p| format!("{ask} {p}")))
}

/// The neutral word for the state of an operation.
async fn status(world: &World, id: &UnifiedId) -> Result<String, Halt> {
    let operation = world.engine.operation(&World::principal(), id).await.map_err(wrong)?;
    let interrupted = operation.error.as_ref().is_some_and(|e| e.category == ErrorCategory::Interrupted);
    Ok(match operation.state {
        OperationState::Failed if interrupted => "interrupted".to_owned(),
        state => state.as_str().replace('-', "_"),
    })
}

async fn events(world: &World, id: &UnifiedId) -> Result<Vec<UnifiedEventV2>, Halt> {
    let mut found: Vec<UnifiedEventV2> = Vec::new();
    loop {
        let range = EventRange {
            after: found.len() as u64,
            through: u64::MAX,
            max_events: MAX_PAGE,
            max_bytes: usize::MAX,
        };
        let page = world.home.store.events_after(id, range).await.map_err(wrong)?;
        if page.is_empty() {
            return Ok(found);
        }
        for event in page {
            if event.sequence != found.len() as u64 + 1 {
                return Err(Halt::Wrong(format!("event {} follows event {}", event.sequence, found.len())));
            }
            found.push(throughline_format::json::decode_slice(&event.bytes).map_err(wrong)?);
        }
    }
}

/// Numbers that begin at `from` and end at `to`, each one more than the one before.
fn contiguous(found: &[u64], from: u64, to: u64) -> Option<String> {
    let expected = to.saturating_sub(from) + 1;
    if let Some(pair) = found.windows(2).find(|pair| !matches!(pair, [a, b] if *b == a + 1)) {
        return Some(format!("{pair:?} stand side by side"));
    }
    let ends = (found.first().copied(), found.last().copied()) == (Some(from), Some(to));
    (!ends || found.len() as u64 != expected).then(|| format!("{:?} to {:?}, expected {from} to {to}", found.first(), found.last()))
}

async fn received(world: &World, check: &Value) -> Result<Option<String>, Halt> {
    let name = word(check, "subscriber");
    let subscriber = world
        .subscribers
        .get(name)
        .ok_or_else(|| Halt::Unknown(format!("there is no subscriber {name:?}")))?;
    if word(check, "is") != "contiguous" {
        return Err(Halt::Unknown(format!("{check} is no question about what was received")));
    }
    let running = world
        .operations
        .get(&subscriber.operation)
        .ok_or_else(|| Halt::Unknown("the operation is not known".to_owned()))?;
    let last = world.home.store.last_sequence(&running.id).await.map_err(wrong)?;
    let from = match check.get("from").and_then(Value::as_u64).unwrap_or(1) {
        0 | 1 => 1,
        number => world.sequence_of(&subscriber.operation, number)?,
    };
    let to = match check.get("to").and_then(Value::as_u64) {
        Some(number) => world.sequence_of(&subscriber.operation, number)?,
        None => last,
    };
    subscriber
        .wait_for(|s| s.closed || s.sequences.last().is_some_and(|l| *l >= to))
        .await;
    Ok(subscriber.with(|seen| seen.error.clone().or_else(|| contiguous(&seen.sequences, from, to))))
}

async fn subscriber_state(world: &World, check: &Value) -> Result<&'static str, Halt> {
    let name = word(check, "subscriber");
    let subscriber = world
        .subscribers
        .get(name)
        .ok_or_else(|| Halt::Unknown(format!("there is no subscriber {name:?}")))?;
    let running = world
        .operations
        .get(&subscriber.operation)
        .ok_or_else(|| Halt::Unknown("the operation is not known".to_owned()))?;
    let operation = world.engine.operation(&World::principal(), &running.id).await.map_err(wrong)?;
    if operation.state.is_terminal() && subscriber.is_attached() {
        subscriber.wait_for(|s| s.closed).await;
    }
    Ok(match (subscriber.with(|s| s.closed), subscriber.is_attached()) {
        (true, _) => "closed",
        (false, true) => "open",
        (false, false) => "detached",
    })
}

async fn sequences(world: &World, check: &Value) -> Result<Option<String>, Halt> {
    let (_, branch) = world.conversation(check)?;
    let found: Vec<u64> = world.items(&branch).await.map_err(wrong)?.iter().map(|i| i.sequence).collect();
    if word(check, "is") != "contiguous" {
        return Err(Halt::Unknown(format!("{check} is no question about sequences")));
    }
    let number = |key: &str| check.get(key).and_then(Value::as_u64);
    // Contiguity counts; an implementation may begin at 0.
    let first = found.first().copied().unwrap_or(0);
    let from = number("from").unwrap_or(1);
    let to = number("to").unwrap_or(found.len() as u64);
    Ok(contiguous(&found, first, to + first - from.min(first.max(from))))
}

/// Whether everything of the end of an operation is there, or nothing.
async fn all_or_none(world: &World, check: &Value) -> Result<Option<String>, Halt> {
    let Some(running) = world.operations.values().next() else {
        return Err(Halt::Unknown("there is no operation".to_owned()));
    };
    let store = &world.home.store;
    let operation = world.engine.operation(&World::principal(), &running.id).await.map_err(wrong)?;
    // Recovery ends an operation as failed; that is an end of its own and not the one that was cut.
    let completed = operation.state == OperationState::Completed;
    let ended = events(world, &running.id)
        .await?
        .iter()
        .any(|e| matches!(e.body, EventBody::OperationCompleted(_)));
    let result = store.result(&running.id).await.map_err(wrong)?;
    let answered = world.items(&operation.source_branch_id).await.map_err(wrong)?.into_iter().any(|i| {
        let own = i.provenance.operation_id.as_ref() == Some(&running.id);
        own && i.role == Some(throughline_format::item::Role::Assistant)
            && i.status == throughline_format::item::ItemStatus::Completed
            && matches!(i.body, UnifiedItemBody::Message(_))
    });
    // The figure of the end; a protocol may report another one when the answer begins.
    let output = result.as_ref().and_then(|r| r.usage.as_ref()?.output_total).map(|c| c.value);
    let used = output.is_some_and(|v| (v - f64::from(LAST_OUTPUT_TOKENS)).abs() < 0.5);
    let head = store
        .branch(&operation.source_branch_id)
        .await
        .map_err(wrong)?
        .and_then(|b| b.head_item_id);
    let checkpoints = store
        .checkpoints(&operation.conversation_id, Some(&operation.source_branch_id))
        .await
        .map_err(wrong)?;
    let goes_on = checkpoints.iter().any(|c| Some(&c.journal_head_item_id) == head.as_ref());
    let (mut found, mut unknown) = (Vec::new(), None);
    for name in check
        .get("of")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        match name {
            "terminal_event" => found.push((name, ended)),
            "journal_items" => found.push((name, answered)),
            "usage" => found.push((name, used)),
            "operation_status_completed" | "status" => found.push((name, completed)),
            "result" => found.push((name, completed && result.is_some())),
            "checkpoint" => found.push((name, goes_on)),
            other => unknown = Some(format!("an operation has no {other:?}")),
        }
    }
    if found
        .iter()
        .any(|(_, there)| *there != found.first().is_some_and(|(_, first)| *first))
    {
        return Ok(Some(format!("only in part: {found:?}")));
    }
    unknown.map_or(Ok(None), |why| Err(Halt::Unknown(why)))
}

/// The text deltas of an operation, as numbers from 1, begin with these, and the log has no hole.
async fn event_prefix(world: &World, check: &Value) -> Result<Option<String>, Halt> {
    let id = world.operation(check)?.id.clone();
    let events = events(world, &id).await?;
    let deltas = events.iter().filter(|e| matches!(e.body, EventBody::TextDelta(_))).count() as u64;
    let wanted = check.get("equals").and_then(Value::as_array).cloned().unwrap_or_default();
    let numbered = wanted.iter().zip(1u64..).all(|(w, n)| w.as_u64() == Some(n));
    Ok((!numbered || deltas < wanted.len() as u64).then(|| format!("{deltas} text deltas are there, expected {wanted:?}")))
}

fn last_error(world: &World, check: &Value) -> Option<String> {
    let Some(error) = &world.last_error else {
        return Some("there was no error".to_owned());
    };
    let found = json!({
        "category": error.category.as_str(), "code": error.code, "http_status": error.http_status, "provider_code": error.provider_code,
        "provider_request_id": error.provider_request_id, "retryable": error.retryable, "message": error.message,
    });
    let wrong = |(name, wanted): (&String, &Value)| match found.get(name) {
        Some(have) if equal(have, wanted) => None,
        have => Some(format!("the {name} of the error is {have:?}, expected {wanted}")),
    };
    check.get("has").and_then(Value::as_object).into_iter().flatten().find_map(wrong)
}

async fn artifact_exists(world: &World, check: &Value) -> Result<Value, Halt> {
    let name = word(check, "artifact");
    let id: UnifiedId = crate::journal::record(&json!(format!("art_{name}")))?;
    let row = world
        .home
        .store
        .artifact(&id)
        .await
        .map_err(wrong)?
        .is_some_and(|a| a.references > 0);
    Ok(Value::from(row))
}

/// Rows of a conversation that is gone; of one that is there, its items.
async fn rows(world: &World, check: &Value) -> Result<u64, Halt> {
    let (conversation, branch) = world.conversation(check)?;
    let store = &world.home.store;
    // An unknown branch is an error of the read, and here the right answer.
    let items = match world.items(&branch).await {
        Ok(items) => items.len() as u64,
        Err(StoreError::NotFound { .. }) => 0,
        Err(error) => return Err(wrong(error)),
    };
    let filter = throughline_store::OperationFilter {
        conversation_id: Some(conversation.clone()),
        ..Default::default()
    };
    let operations = match store.operations(filter).await {
        Ok(operations) => operations.len() as u64,
        Err(StoreError::NotFound { .. }) => 0,
        Err(error) => return Err(wrong(error)),
    };
    let mut rows = items + operations;
    if world.backend == Backend::Sqlite {
        let folder = files::folder(world)?;
        rows += files::conversation_rows(&folder, conversation.as_str()).map_err(wrong)?;
        rows += files::orphaned_rows(&folder).map_err(wrong)?;
    }
    Ok(rows)
}

/// Checkpoints whose head is no item, and everything that the store's own check finds.
async fn dangling(world: &World) -> Result<u64, Halt> {
    let store = &world.home.store;
    let report = store.check().await.map_err(wrong)?;
    let mut found = report.foreign_keys + report.problems.len() as u64 + u64::from(!report.is_ok() && report.problems.is_empty());
    for (conversation, _) in world.conversations.values() {
        for checkpoint in store.checkpoints(conversation, None).await.map_err(wrong)? {
            found += u64::from(store.item(&checkpoint.journal_head_item_id).await.map_err(wrong)?.is_none());
        }
    }
    Ok(found)
}
