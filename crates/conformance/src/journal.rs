//! Records that a case needs and that no client sent, and a store to put them into.

use serde_json::{Value, json};
use std::future::Future;
use std::sync::Arc;
use throughline_format::compaction::{Reader, history_for};
use throughline_format::json::decode::decode_value;
use throughline_format::{Timestamp, UnifiedConversationInput, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedRequestV2};
use throughline_protocols::offline::OfflineFold;
use throughline_store::{
    EventRange, ItemPage, KeyRing, MAX_PAGE, MemorySettings, MemoryStore, OsRandom, StoreError, UnifiedStateStore, Vault, WriteBatch,
    WriteOp,
};
use throughline_store_sqlite::{SqliteConfig, SqliteStore};

/// Where things are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    /// In memory.
    Memory,
    /// SQLite.
    Sqlite,
}

/// Both of them.
pub(crate) const BACKENDS: [Backend; 2] = [Backend::Memory, Backend::Sqlite];

/// A store that goes away with this value.
pub(crate) struct Home {
    pub(crate) store: Arc<dyn UnifiedStateStore>,
    pub(crate) directory: Option<tempfile::TempDir>,
}

/// The same keys in every run: nothing here outlives it.
pub(crate) const RING: &[u8] =
    br#"{"current":1,"keys":[{"version":1,"createdAt":"2026-01-01T00:00:00.000Z","key":"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="}]}"#;

/// A vault with the keys of the runner.
pub(crate) fn vault() -> Result<Arc<Vault>, String> {
    let ring = KeyRing::from_json(RING).map_err(|e| e.to_string())?;
    Vault::new(ring, Arc::new(OsRandom)).map(Arc::new).map_err(|e| e.to_string())
}

impl Home {
    /// An empty store with the usual retention time.
    pub(crate) fn new(backend: Backend) -> Result<Self, String> {
        Self::with_retention(backend, 7)
    }

    /// An empty store.
    pub(crate) fn with_retention(backend: Backend, retention_days: u32) -> Result<Self, String> {
        if backend == Backend::Memory {
            let settings = MemorySettings {
                retention_days,
                ..MemorySettings::default()
            };
            return Ok(Self {
                store: Arc::new(MemoryStore::new(settings)),
                directory: None,
            });
        }
        Self::opened(tempfile::tempdir().map_err(|e| e.to_string())?, retention_days)
    }

    /// The database in a folder.
    pub(crate) fn opened(directory: tempfile::TempDir, retention_days: u32) -> Result<Self, String> {
        Self::try_open(directory, retention_days).map_err(|(_, e)| e.to_string())
    }

    /// The database in a folder, or the folder and why it cannot be opened.
    pub(crate) fn try_open(directory: tempfile::TempDir, retention_days: u32) -> Result<Self, (tempfile::TempDir, StoreError)> {
        let mut config = SqliteConfig::new(directory.path().join("case.db"), directory.path().join("artifacts"));
        config.retention_days = retention_days;
        let opened = vault()
            .map_err(StoreError::internal)
            .and_then(|vault| SqliteStore::open(config, &vault, &OsRandom, Timestamp::EPOCH));
        match opened {
            Ok(store) => Ok(Self {
                store: Arc::new(store),
                directory: Some(directory),
            }),
            Err(error) => Err((directory, error)),
        }
    }
}

/// Runs a future to its end on a runtime of its own.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.map_err(|e| e.to_string())?.block_on(future))
}

/// A record from its JSON.
pub(crate) fn record<T: serde::de::DeserializeOwned>(value: &Value) -> Result<T, String> {
    decode_value(value).map_err(|e| format!("the runner built a wrong record: {e}"))
}

/// An item of the journal from the members of its kind.
pub(crate) fn item(id: &UnifiedId, members: &Value) -> Result<UnifiedItem, String> {
    let mut whole = json!({
        "id": id, "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": Timestamp::EPOCH, "visibility": "model",
        "status": "completed", "provenance": {"origin": "client", "attribution": {}},
    });
    if let (Some(whole), Some(members)) = (whole.as_object_mut(), members.as_object()) {
        whole.extend(members.clone());
    }
    record(&whole)
}

/// A user message of one text.
pub(crate) fn user_message(operation: &UnifiedId, text: &str) -> Result<UnifiedItem, String> {
    // Far beyond the ordinals of an answer of the same operation.
    let id = operation.item(1_000_000);
    item(
        &id,
        &json!({"kind": "message", "role": "user", "parts": [{"kind": "text", "partId": id.part(0), "text": text}]}),
    )
}

/// The result of a client's tool. Content that is no text is a JSON part.
pub(crate) fn tool_result(
    id: &UnifiedId,
    call_id: &str,
    name: Option<&str>,
    content: &Value,
    is_error: Option<bool>,
) -> Result<UnifiedItem, String> {
    let part = match content {
        Value::String(text) => json!({"kind": "text", "partId": id.part(0), "text": text}),
        other => json!({"kind": "json", "partId": id.part(0), "value": other}),
    };
    let mut members = json!({"kind": "tool-result", "role": "tool", "callId": call_id, "output": [part], "execution": "client"});
    if let Some(members) = members.as_object_mut() {
        members.extend(name.map(|n| ("name".to_owned(), n.into())));
        members.extend(is_error.map(|e| ("isError".to_owned(), e.into())));
    }
    item(id, &members)
}

/// Calls of client tools without a result, in order: ID and name.
pub(crate) fn open_calls(items: &[UnifiedItem]) -> Vec<(String, String)> {
    let answered: Vec<&str> = items
        .iter()
        .filter(|i| matches!(i.body, UnifiedItemBody::ToolResult(_)))
        .filter_map(UnifiedItem::call_id)
        .collect();
    let calls = items.iter().filter_map(|i| match &i.body {
        UnifiedItemBody::ToolCall(call) => Some((call.call_id.clone(), call.name.clone())),
        _ => None,
    });
    calls.filter(|(id, _)| !answered.contains(&id.as_str())).collect()
}

/// Adds the result `ok` for each open call.
pub(crate) fn answer_open_calls(items: &mut Vec<UnifiedItem>) -> Result<(), String> {
    let operation = UnifiedId::offline_operation();
    for (ordinal, (call_id, name)) in (2_000_000..).zip(open_calls(items)) {
        items.push(tool_result(&operation.item(ordinal), &call_id, Some(&name), &"ok".into(), None)?);
    }
    Ok(())
}

/// A request with this history. `tools` have name, description and input_schema.
pub(crate) fn request(path: Vec<UnifiedItem>, model: &str, tools: &[Value]) -> Result<UnifiedRequestV2, String> {
    let operation = UnifiedId::offline_operation();
    let tool = |(ordinal, tool): (u64, &Value)| {
        let mut defined = json!({
            "toolId": operation.tool(ordinal), "kind": "function", "execution": "client", "portability": "portable",
            "name": tool.get("name"), "inputSchema": tool.get("input_schema"),
        });
        if let (Some(defined), Some(description)) = (defined.as_object_mut(), tool.get("description")) {
            defined.insert("description".to_owned(), description.clone());
        }
        defined
    };
    let tools: Vec<Value> = (0..).zip(tools).map(tool).collect();
    let mut request: UnifiedRequestV2 = record(&json!({
        "schemaVersion": "2.0", "requestId": operation, "conversation": {"completeness": "complete", "items": []},
        "model": {"requested": model}, "generation": {}, "tools": tools,
        "source": {"profile": {"family": "unified"}, "origin": "engine", "receivedAt": Timestamp::EPOCH},
    }))?;
    let history = history_for(&path, Reader::AnyTarget).items.into_iter().cloned().collect();
    request.conversation = UnifiedConversationInput::complete(history);
    Ok(request)
}

/// The conversation of a case, its branch, and one running operation, as the batch that stores them.
fn opening(operation: &UnifiedId) -> Result<(UnifiedId, UnifiedId, WriteBatch), String> {
    let (conversation, branch): (UnifiedId, UnifiedId) = (record(&json!("conv_case"))?, record(&json!("br_case"))?);
    let now = Timestamp::EPOCH;
    let batch = WriteBatch::new(now, conversation.clone())
        .with(WriteOp::CreateConversation(record(&conversation_record(
            &conversation,
            &branch,
            "runner",
            now,
        ))?))
        .with(WriteOp::CreateBranch(record(
            &json!({"branchId": branch, "conversationId": conversation, "headSequence": 0, "createdAt": now}),
        )?))
        .with(WriteOp::PutOperation(record(&operation_record(
            operation,
            &conversation,
            &branch,
            "runner",
            now,
        ))?));
    Ok((conversation, branch, batch))
}

/// A new conversation.
pub(crate) fn conversation_record(conversation: &UnifiedId, branch: &UnifiedId, principal: &str, now: Timestamp) -> Value {
    json!({"conversationId": conversation, "defaultBranchId": branch, "createdAt": now, "lastUpdatedAt": now, "principalRef": principal})
}

/// A new running operation.
pub(crate) fn operation_record(
    operation: &UnifiedId,
    conversation: &UnifiedId,
    branch: &UnifiedId,
    principal: &str,
    now: Timestamp,
) -> Value {
    json!({
        "schemaVersion": "2.0", "operationId": operation, "conversationId": conversation, "state": "running", "principalRef": principal,
        "sourceBranchId": branch, "inputItemIds": [], "cancellation": "supported",
        "requestFingerprint": throughline_format::Sha256::of(operation.as_str().as_bytes()),
        "createdAt": now, "updatedAt": now, "lastSequence": 0,
    })
}

fn events_op(fold: &OfflineFold, operation: &UnifiedId) -> Result<WriteOp, String> {
    // A heartbeat repeats the last sequence and is never stored.
    let stored = fold
        .events
        .iter()
        .filter(|e| !matches!(e.body, throughline_format::EventBody::Heartbeat(_)));
    let events: Result<Vec<bytes::Bytes>, _> = stored.map(|e| serde_json::to_vec(e).map(bytes::Bytes::from)).collect();
    Ok(WriteOp::AppendEvents {
        operation_id: operation.clone(),
        first_sequence: 1,
        events: events.map_err(|e| e.to_string())?,
    })
}

/// Stores the events of a fold twice and folds what is stored: what changed, if anything.
pub(crate) fn replayed(fold: &OfflineFold) -> Result<Option<String>, String> {
    let operation = UnifiedId::offline_operation();
    for backend in BACKENDS {
        let home = Home::new(backend)?;
        let (conversation, _, batch) = opening(&operation)?;
        let append = || Ok::<_, String>(WriteBatch::new(Timestamp::EPOCH, conversation.clone()).with(events_op(fold, &operation)?));
        let outcome = wait(async {
            home.store.commit(batch).await.map_err(|e| e.to_string())?;
            home.store.commit(append()?).await.map_err(|e| e.to_string())?;
            let once = home.store.last_sequence(&operation).await.map_err(|e| e.to_string())?;
            if let Err(refused) = home.store.commit(append()?).await {
                return Ok(Some(format!("the second append is refused: {refused}")));
            }
            let twice = home.store.last_sequence(&operation).await.map_err(|e| e.to_string())?;
            if once != twice {
                return Ok(Some(format!("{once} events became {twice}")));
            }
            let range = EventRange {
                after: 0,
                through: u64::MAX,
                max_events: MAX_PAGE,
                max_bytes: usize::MAX,
            };
            let mut again = throughline_format::Fold::new(operation.clone());
            for event in home.store.events_after(&operation, range).await.map_err(|e| e.to_string())? {
                let event = throughline_format::json::decode_slice(&event.bytes).map_err(|e| e.to_string())?;
                again.push(&event).map_err(|e| e.to_string())?;
            }
            let same = again.result() == fold.fold.result();
            Ok::<_, String>((!same).then(|| "the replayed events fold to another result".to_owned()))
        })??;
        if let Some(change) = outcome {
            return Ok(Some(format!("{backend:?}: {change}")));
        }
    }
    Ok(None)
}

/// Stores items and result of a fold and loads them: what changed, if anything.
pub(crate) fn stored_and_loaded(fold: &OfflineFold) -> Result<Option<String>, String> {
    let operation = UnifiedId::offline_operation();
    let result = fold.fold.result();
    for backend in BACKENDS {
        let home = Home::new(backend)?;
        let (conversation, branch, batch) = opening(&operation)?;
        let items = WriteOp::AppendItems {
            branch_id: branch.clone(),
            expected_head: None,
            items: result.output.clone(),
        };
        let kept = WriteOp::PutResult {
            operation_id: operation.clone(),
            result: Box::new(result.clone()),
        };
        let (loaded, path) = wait(async {
            let fault = |e: throughline_store::StoreError| e.to_string();
            home.store.commit(batch).await.map_err(fault)?;
            let batch = WriteBatch::new(Timestamp::EPOCH, conversation.clone())
                .with(events_op(fold, &operation)?)
                .with(items)
                .with(kept);
            home.store.commit(batch).await.map_err(fault)?;
            let loaded = home.store.result(&operation).await.map_err(fault)?;
            Ok::<_, String>((loaded, home.store.branch_items(&branch, ItemPage::default()).await.map_err(fault)?))
        })??;
        if loaded.as_ref() != Some(&result) {
            return Ok(Some(format!("{backend:?}: another result was loaded")));
        }
        // Where an item stands is the store's to say; everything else is as it was.
        let placed = result.output.iter().zip(&path).map(|(item, at)| {
            let mut item = item.clone();
            item.base.conversation_id = at.conversation_id.clone();
            item.base.branch_id = at.branch_id.clone();
            item.base.sequence = at.sequence;
            item.base.parent_id.clone_from(&at.parent_id);
            item
        });
        if path.len() != result.output.len() || !placed.eq(path.iter().cloned()) {
            return Ok(Some(format!("{backend:?}: other items were loaded")));
        }
    }
    Ok(None)
}
