//! Small valid records.

use bytes::Bytes;
use serde_json::{Value, json};
use throughline_format::operation::SealedBytes;
use throughline_format::resource::{Issuer, ResourceStatus, ResourceType};
use throughline_format::{
    OperationState, Sha256, Timestamp, UnifiedArtifact, UnifiedBranch, UnifiedConversation, UnifiedId, UnifiedItem, UnifiedItemRevision,
    UnifiedLease, UnifiedOperation, UnifiedProviderCheckpoint, UnifiedResourceOwner, UnifiedResultV2,
};

use super::World;
use crate::batch::WriteOp;
use crate::records::SealedResource;
use crate::{HashPurpose, SealContext, owner_fingerprint};

/// The principal of most conversations here.
pub const PRINCIPAL: &str = "principal-a";
/// The time at which worlds begin.
pub const START: Timestamp = Timestamp::EPOCH;
/// A day in milliseconds.
pub const DAY: i64 = 24 * 60 * 60 * 1_000;

/// An ID.
pub fn id(text: &str) -> UnifiedId {
    UnifiedId::parse(text).unwrap()
}

fn decode<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap_or_else(|error| panic!("{error} in {value}"))
}

/// A conversation.
pub fn conversation(conversation_id: &UnifiedId, branch_id: &UnifiedId, principal: &str) -> UnifiedConversation {
    decode(&json!({
        "conversationId": conversation_id, "defaultBranchId": branch_id, "createdAt": START, "lastUpdatedAt": START, "principalRef": principal, "title": "a title",
        "metadata": {"labels": {"b": "2", "a": "1"}},
    }))
}

/// A root branch.
pub fn root(conversation_id: &UnifiedId, branch_id: &UnifiedId) -> UnifiedBranch {
    decode(&json!({"branchId": branch_id, "conversationId": conversation_id, "headSequence": 0, "createdAt": START}))
}

/// A fork of a branch at an item.
pub fn fork(world: &World, branch_id: &str, parent: &UnifiedId, item: &str) -> UnifiedBranch {
    let mut branch = root(&world.conversation_id, &id(branch_id));
    branch.parent_branch_id = Some(parent.clone());
    branch.fork_item_id = Some(id(item));
    branch
}

/// A conversation and its default branch.
pub fn opening(conversation_id: &UnifiedId, branch_id: &UnifiedId, principal: &str) -> Vec<WriteOp> {
    vec![
        WriteOp::CreateConversation(conversation(conversation_id, branch_id, principal)),
        WriteOp::CreateBranch(root(conversation_id, branch_id)),
    ]
}

/// An item from the members of its kind, its place pending.
pub fn item(item_id: &str, members: &Value) -> UnifiedItem {
    let mut whole = json!({
        "id": item_id, "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": START, "visibility": "model", "status": "completed",
        "provenance": {"origin": "client", "attribution": {"modelProvider": "anthropic"}},
    });
    whole.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    decode(&whole)
}

/// A user message of one text part.
pub fn message(item_id: &str, text: &str) -> UnifiedItem {
    item(
        item_id,
        &json!({"kind": "message", "role": "user", "parts": [{"kind": "text", "partId": format!("{item_id}.p0"), "text": text}]}),
    )
}

/// One item of every kind; the first two are messages, and the summary covers them.
pub fn every_kind() -> Vec<UnifiedItem> {
    let text = |item: &str| json!([{"kind": "text", "partId": format!("{item}.p0"), "text": "x \u{0}\u{1F600} \"quoted\""}, {"kind": "json", "partId": format!("{item}.p1"), "value": {"b": 1.0, "a": [1, 2]}}]);
    let call = |item: &str, kind: &str| {
        json!({"kind": kind, "callId": "call|1:a", "name": "bash", "toolType": "function", "input": {"cmd": "ls", "n": 1.0}, "rawArguments": "{ \"cmd\": \"ls\", \"n\": 1.0 }",
            "lifecycle": "arguments-ready", "execution": "client", "providerExecuted": false,
            "privateLinkage": {"profile": {"family": "anthropic-messages"}, "scope": "owner-private", "schema": "s@1", "resourceId": format!("{item}.r0")}})
    };
    let error = json!({"category": "server", "code": "server.overload", "message": "no", "retryable": true});
    let kinds = [
        json!({"kind": "message", "role": "user", "parts": text("k0")}),
        json!({"kind": "message", "role": "system", "placement": "inline", "parts": []}),
        json!({"kind": "reasoning", "role": "assistant", "parts": [{"kind": "reasoning", "partId": "k2.p0", "text": "", "form": "full", "state": "redacted"}]}),
        call("k3", "tool-call"),
        json!({"kind": "tool-result", "callId": "call|1:a", "output": text("k4"), "isError": false, "execution": "client"}),
        json!({"kind": "approval-request", "approvalId": "a1", "subject": "tool-call"}),
        json!({"kind": "approval-response", "approvalId": "a1", "decision": "approved"}),
        call("k7", "server-tool-call"),
        json!({"kind": "server-tool-result", "callId": "call|1:a", "toolType": "web-search", "output": [], "execution": "provider"}),
        json!({"kind": "computer-action", "callId": "c2", "actions": [{"action": "click", "x": 1}], "lifecycle": "executing", "execution": "client"}),
        json!({"kind": "computer-action-result", "callId": "c2", "output": []}),
        json!({"kind": "code-execution", "callId": "c3", "code": "1+1", "lifecycle": "executing", "execution": "provider"}),
        json!({"kind": "code-execution-result", "callId": "c3", "outcome": "ok", "exitCode": 0, "stdout": "2\n", "output": []}),
        json!({"kind": "search-result", "queries": ["q"], "parts": []}),
        json!({"kind": "retrieval-result", "queries": [], "parts": []}),
        json!({"kind": "artifact", "artifactId": "art_1", "sha256": Sha256::of(b"a"), "media": {"name": "a.png"}}),
        json!({"kind": "reference", "target": {"kind": "item", "itemId": "k0"}}),
        json!({"kind": "compaction-summary", "parts": [], "covers": {"fromItemId": "k0", "toItemId": "k1", "count": 2}, "auditHash": Sha256::of(b"b"), "replaces": true, "author": "engine"}),
        json!({"kind": "provider-switch", "to": {"modelProvider": "google"}, "toProfile": {"family": "gemini-generate-content"}, "reason": "route"}),
        json!({"kind": "interruption", "cause": "connection-lost", "operationId": "op_1", "openCallIds": ["call|1:a"]}),
        json!({"kind": "error", "error": error}),
    ];
    kinds
        .iter()
        .enumerate()
        .map(|(number, members)| item(&format!("k{number}"), members))
        .collect()
}

/// A revision.
pub fn revision(revision_id: &str, item_id: &str, number: u64, change: &Value) -> UnifiedItemRevision {
    decode(&json!({"revisionId": revision_id, "itemId": item_id, "number": number, "createdAt": START, "change": change, "reason": "test"}))
}

/// A running operation on the default branch.
pub fn operation(operation_id: &str, world: &World) -> UnifiedOperation {
    decode(&json!({
        "schemaVersion": "2.0", "operationId": operation_id, "conversationId": world.conversation_id, "state": "running", "principalRef": PRINCIPAL,
        "sourceBranchId": world.branch_id, "inputItemIds": [], "cancellation": "supported", "requestFingerprint": Sha256::of(operation_id.as_bytes()),
        "createdAt": START, "updatedAt": START, "lastSequence": 0,
    }))
}

/// The operation in another state.
pub fn in_state(operation: &UnifiedOperation, state: OperationState) -> UnifiedOperation {
    UnifiedOperation {
        state,
        ..operation.clone()
    }
}

/// Bytes of events; a store does not read them.
pub fn events(words: &[&str]) -> Vec<Bytes> {
    words.iter().map(|word| Bytes::from(format!("{{\"kind\":\"{word}\"}}"))).collect()
}

/// An append of events.
pub fn append_events(operation_id: &UnifiedId, first_sequence: u64, words: &[&str]) -> WriteOp {
    WriteOp::AppendEvents {
        operation_id: operation_id.clone(),
        first_sequence,
        events: events(words),
    }
}

/// A result without output.
pub fn result(operation_id: &UnifiedId) -> Box<UnifiedResultV2> {
    Box::new(decode(&json!({
        "schemaVersion": "2.0", "responseId": format!("res_{operation_id}"), "operationId": operation_id, "model": {"model": "m"},
        "status": {"state": "completed", "finishReason": "stop"}, "output": [],
        "usage": {"inputTotal": {"value": 12, "scope": "request", "source": "reported"}, "cacheRead": {"value": 0, "scope": "request", "source": "reported"}},
        "provenance": {"profile": {"family": "openai-chat"}, "attribution": {}},
    })))
}

/// An owner scope of an account.
pub fn owner(account: &str) -> UnifiedResourceOwner {
    decode(&json!({
        "profile": {"family": "anthropic-messages"}, "provider": "anthropic", "credentialFingerprint": format!("v1:{account}"), "endpointFingerprint": "00ff", "modelFamily": "claude",
    }))
}

/// A sealed private resource of an account.
pub fn resource(world: &World, resource_id: &str, account: &str, payload: &[u8]) -> SealedResource {
    let owner = owner(account);
    let fingerprint = owner_fingerprint(&owner).unwrap();
    let context = SealContext::resource(id(resource_id), world.conversation_id.clone(), fingerprint);
    SealedResource {
        resource_id: id(resource_id),
        conversation_id: world.conversation_id.clone(),
        resource_type: ResourceType::Reasoning,
        schema: "anthropic-messages/signature@1".to_owned(),
        issuer: Issuer::Provider,
        owner,
        owner_fingerprint: fingerprint,
        subject: Some(id("i1")),
        payload_hash: world.vault.keyed_hash(HashPurpose::PrivatePayload, payload).unwrap(),
        prefix_hash: Some(Sha256::of(b"prefix")),
        sealed: world.vault.seal(&context, payload).unwrap(),
        status: ResourceStatus::Active,
        created_at: START,
        expires_at: Some(START.plus_millis(DAY)),
    }
}

/// A checkpoint at an item of the default branch.
pub fn checkpoint(world: &World, checkpoint_id: &str, head: &str, payload: &[u8]) -> UnifiedProviderCheckpoint {
    let owner = owner("a");
    let fingerprint = owner_fingerprint(&owner).unwrap();
    let context = SealContext::checkpoint(
        id(checkpoint_id),
        world.conversation_id.clone(),
        world.branch_id.clone(),
        id(head),
        fingerprint,
    );
    UnifiedProviderCheckpoint {
        checkpoint_id: id(checkpoint_id),
        conversation_id: world.conversation_id.clone(),
        branch_id: world.branch_id.clone(),
        journal_head_item_id: id(head),
        owner,
        resource_type: ResourceType::Response,
        encrypted_payload: SealedBytes(world.vault.seal(&context, payload).unwrap().as_bytes().to_vec()),
        status: ResourceStatus::Active,
        created_at: START,
        expires_at: Some(START.plus_millis(DAY)),
    }
}

/// Metadata of an artifact.
pub fn artifact(artifact_id: &str, bytes: &[u8]) -> UnifiedArtifact {
    decode(
        &json!({"artifactId": artifact_id, "sha256": Sha256::of(bytes), "size": bytes.len(), "mediaType": "image/png", "sealed": false, "createdAt": START}),
    )
}

/// A lease until a time.
pub fn lease(world: &World, lease_id: &str, expires_at: Timestamp) -> UnifiedLease {
    decode(
        &json!({"leaseId": lease_id, "holder": "test", "purpose": "operation", "conversationId": world.conversation_id, "expiresAt": expires_at}),
    )
}
