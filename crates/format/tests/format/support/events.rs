//! A sample of every kind of event with every optional member set.

use super::parts::{TIME, annotations, attribution, data_ref, error, items, logprob, parts, profile, resource_ref, with};
use super::records::{losses, model, status, usage};
use serde_json::{Value, json};

/// One event of each kind, and one of each kind of item delta.
pub(crate) fn events() -> Vec<Value> {
    let text = json!({"text": "a", "logprobs": [logprob()]});
    let changed = json!({"reason": "r"});
    let bodies = [
        (
            "operation.created",
            json!({"sourceBranchId": "b1", "sourceHeadItemId": "i1", "target": profile(), "background": false, "requestedModel": "m"}),
        ),
        ("operation.queued", changed.clone()),
        ("operation.running", changed.clone()),
        ("operation.requires-action", changed.clone()),
        ("operation.completed", json!({"status": status()})),
        ("operation.failed", json!({"error": error()})),
        ("operation.cancelled", changed.clone()),
        ("operation.expired", changed),
        (
            "response.started",
            json!({"responseId": "rs1", "model": model(), "profile": profile(), "attribution": attribution()}),
        ),
        (
            "response.metadata",
            json!({"model": model(), "serviceTier": "flex", "resources": [resource_ref()], "providerRequestId": "req_1", "status": status()}),
        ),
        ("item.started", json!({"item": items()[2]})),
        ("item.completed", json!({"status": "completed", "item": items()[0]})),
        ("item.failed", json!({"error": error()})),
        ("item.delta", json!({"delta": {"kind": "part-started", "part": parts()[0]}})),
        ("item.delta", json!({"delta": {"kind": "part-completed"}})),
        ("item.delta", json!({"delta": {"kind": "media", "base64": "AAEC"}})),
        ("item.delta", json!({"delta": {"kind": "output", "text": "", "part": parts()[9]}})),
        (
            "item.delta",
            json!({"delta": {"kind": "field", "pointer": "/providerData/-", "value": {"opaque": 1}}}),
        ),
        ("text.delta", text.clone()),
        ("reasoning.delta", text),
        ("signature.ready", json!({"providerData": data_ref(), "issuer": "synthetic"})),
        ("tool-arguments.delta", json!({"text": "{"})),
        (
            "tool-arguments.ready",
            json!({"rawArguments": "{\"opaque\":1}", "input": {"opaque": 1}}),
        ),
        (
            "tool.lifecycle",
            json!({"from": "executing", "to": "output-ready", "execution": "provider"}),
        ),
        ("citation.ready", json!({"annotation": annotations()[0]})),
        ("source.ready", json!({"part": parts()[11]})),
        ("artifact.ready", json!({"part": parts()[12]})),
        ("usage.update", json!({"usage": usage()})),
        ("checkpoint.ready", json!({"checkpointId": "cp1", "resourceType": "response"})),
        (
            "checkpoint.invalidated",
            json!({"checkpointId": "cp1", "resourceType": "response", "reason": "r"}),
        ),
        ("warning", json!({"code": "c", "message": "m"})),
        ("loss.update", json!({"entries": losses()})),
        ("error", json!({"error": error()})),
        ("heartbeat", json!({})),
        ("stream.completed", json!({"status": status(), "itemIds": ["op.i0"]})),
    ];
    bodies
        .iter()
        .zip(1..)
        .map(|((kind, body), sequence)| {
            let base = json!({"schemaVersion": "2.0", "kind": kind, "operationId": "op", "eventId": format!("op.e{sequence}"), "sequence": sequence, "timestamp": TIME,
                "itemId": "op.i0", "partId": "op.i0.p0", "callId": "c1", "candidate": 0});
            with(&base, body)
        })
        .collect()
}
