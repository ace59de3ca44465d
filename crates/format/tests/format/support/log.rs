//! Legal random event logs.

use super::parse;
use super::parts::{TIME, data_ref, item_base, source, with};
use proptest::prelude::*;
use serde_json::{Value, json};
use throughline_format::event::{EventBody, EventDraft};
use throughline_format::fold::{Fold, FoldError};
use throughline_format::{Timestamp, UnifiedEventV2, UnifiedId};

pub(crate) fn id(text: &str) -> UnifiedId {
    UnifiedId::parse(text).unwrap()
}

pub(crate) fn operation() -> UnifiedId {
    id("op")
}

/// A draft from the members of an event besides operation, ID, sequence and time.
pub(crate) fn draft(members: &Value) -> EventDraft {
    let base = json!({"schemaVersion": "2.0", "operationId": "op", "eventId": "op.e1", "sequence": 1, "timestamp": TIME});
    let event: UnifiedEventV2 = parse(&with(&base, members));
    EventDraft {
        item_id: event.base.item_id,
        part_id: event.base.part_id,
        call_id: event.base.call_id,
        candidate: event.base.candidate,
        body: event.body,
    }
}

/// Gives drafts dense sequences from 1.
pub(crate) fn stamp(drafts: Vec<EventDraft>) -> Vec<UnifiedEventV2> {
    drafts.into_iter().zip(1..).map(|(d, sequence)| d.stamp(&operation(), sequence, Timestamp::from_millis(1_000))).collect()
}

pub(crate) fn fold_of(events: &[UnifiedEventV2]) -> Result<Fold, FoldError> {
    let mut fold = Fold::new(operation());
    events.iter().try_for_each(|event| fold.push(event))?;
    Ok(fold)
}

/// Everything that can be seen of a fold, and what it keeps besides.
pub(crate) fn seen(fold: &Fold) -> String {
    format!("{fold:?}")
}

/// One item of a random answer.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    /// Parts of a message: texts with their logprob counts, whether each gets a citation.
    Message(Vec<(String, Option<usize>, bool)>),
    Refusal(String),
    /// Text and whether it is signed.
    Reasoning(String, bool),
    /// Raw arguments and how far the call goes.
    Call(String, usize),
    /// An image in pieces.
    Image(Vec<Vec<u8>>),
    /// Text output of a hosted tool with a part after it.
    Output(String, bool),
    /// Sources that were found.
    Found(usize),
    /// An item that comes whole.
    Whole,
}

/// Texts with characters of one to four bytes.
pub(crate) fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(prop_oneof![Just('a'), Just('ß'), Just('語'), Just('𝄞'), Just('"'), Just('\n'), any::<char>()], 0..12)
        .prop_map(|chars| chars.into_iter().collect())
}

pub(crate) fn plan() -> impl Strategy<Value = Plan> {
    prop_oneof![
        proptest::collection::vec((text(), proptest::option::of(0..3usize), any::<bool>()), 0..3).prop_map(Plan::Message),
        text().prop_map(Plan::Refusal),
        (text(), any::<bool>()).prop_map(|(t, signed)| Plan::Reasoning(t, signed)),
        (text(), 0..6usize).prop_map(|(t, steps)| Plan::Call(t, steps)),
        proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..7), 1..4).prop_map(Plan::Image),
        (text(), any::<bool>()).prop_map(|(t, part)| Plan::Output(t, part)),
        (0..3usize).prop_map(Plan::Found),
        Just(Plan::Whole),
    ]
}

fn open_item(item_id: &str, body: &Value) -> Value {
    with(&with(&item_base(item_id), &json!({"status": "in-progress"})), body)
}

fn about(item_id: &str, kind: &str, body: &Value) -> Value {
    with(&json!({"kind": kind, "itemId": item_id}), body)
}

fn part_started(item_id: &str, part: &Value) -> Value {
    with(&about(item_id, "item.delta", &json!({"delta": {"kind": "part-started", "part": part}})), &json!({"partId": part["partId"]}))
}

/// The events of one planned item.
fn item_events(item_id: &str, plan: &Plan, finished: bool) -> Vec<Value> {
    let part_id = format!("{item_id}.p0");
    let started = |body: &Value| about(item_id, "item.started", &json!({"item": open_item(item_id, body)}));
    let of_part = |part: &str, kind: &str, body: &Value| with(&about(item_id, kind, body), &json!({"partId": part}));
    let mut out = Vec::new();
    match plan {
        Plan::Message(parts) => {
            out.push(started(&json!({"kind": "message", "parts": []})));
            for (i, (text, logprobs, cited)) in parts.iter().enumerate() {
                let part_id = format!("{item_id}.p{i}");
                out.push(part_started(item_id, &json!({"partId": part_id, "kind": "text", "text": ""})));
                let mut delta = json!({"text": text});
                if let Some(count) = logprobs {
                    delta["logprobs"] = (0..*count).map(|n| json!({"token": n.to_string(), "logprob": -0.5})).collect();
                }
                out.push(of_part(&part_id, "text.delta", &delta));
                if *cited {
                    let annotation = json!({"kind": "citation", "source": source(), "confidence": 0.5});
                    out.push(of_part(&part_id, "citation.ready", &json!({"annotation": annotation})));
                }
                out.push(of_part(&part_id, "item.delta", &json!({"delta": {"kind": "part-completed"}})));
            }
        }
        Plan::Refusal(text) => {
            out.push(started(&json!({"kind": "message", "parts": []})));
            out.push(part_started(item_id, &json!({"partId": part_id, "kind": "refusal", "text": ""})));
            out.push(of_part(&part_id, "text.delta", &json!({"text": text})));
        }
        Plan::Reasoning(text, signed) => {
            out.push(started(&json!({"kind": "reasoning", "parts": []})));
            out.push(part_started(item_id, &json!({"partId": part_id, "kind": "reasoning", "text": "", "form": "full", "state": "disclosed"})));
            out.push(of_part(&part_id, "reasoning.delta", &json!({"text": text})));
            if *signed {
                out.push(of_part(&part_id, "signature.ready", &json!({"providerData": data_ref(), "issuer": "provider"})));
            }
        }
        Plan::Call(arguments, steps) => {
            let body = json!({"kind": "tool-call", "callId": "c1", "name": "run", "toolType": "function", "rawArguments": "", "lifecycle": "arguments-streaming",
                "execution": "client", "providerExecuted": false});
            out.push(started(&body));
            out.push(with(&about(item_id, "tool-arguments.delta", &json!({"text": arguments})), &json!({"callId": "c1"})));
            let path = ["arguments-ready", "approval-required", "approval-approved", "executing", "output-ready"];
            // A call that is finished has its arguments.
            let steps = (*steps).max(usize::from(finished));
            if steps > 0 {
                out.push(about(item_id, "tool-arguments.ready", &json!({"rawArguments": arguments})));
            }
            for step in path.windows(2).take(steps.saturating_sub(1)) {
                out.push(about(item_id, "tool.lifecycle", &json!({"from": step[0], "to": step[1], "execution": "ccr"})));
            }
        }
        Plan::Image(pieces) => {
            out.push(started(&json!({"kind": "message", "parts": []})));
            let data = json!({"kind": "inline", "mediaType": "image/png", "data": "", "encoding": "base64"});
            out.push(part_started(item_id, &json!({"partId": part_id, "kind": "image", "source": data})));
            for piece in pieces {
                let delta = json!({"delta": {"kind": "media", "base64": throughline_format::media::encode_base64(piece)}});
                out.push(of_part(&part_id, "item.delta", &delta));
            }
        }
        Plan::Output(text, part) => {
            out.push(started(&json!({"kind": "server-tool-result", "callId": "c1", "toolType": "shell", "output": [], "execution": "provider"})));
            out.push(of_part(&part_id, "item.delta", &json!({"delta": {"kind": "output", "text": text}})));
            if *part {
                let part = json!({"partId": format!("{item_id}.p1"), "kind": "json", "value": {"a": 1.0}});
                out.push(about(item_id, "item.delta", &json!({"delta": {"kind": "output", "part": part}})));
            }
        }
        Plan::Found(count) => {
            out.push(started(&json!({"kind": "search-result", "queries": [], "parts": []})));
            for i in 0..*count {
                let part = json!({"partId": format!("{item_id}.p{i}"), "kind": "grounding-source", "source": source()});
                out.push(about(item_id, "source.ready", &json!({"part": part})));
            }
        }
        Plan::Whole => {
            let item = with(&item_base(item_id), &json!({"kind": "message", "parts": [{"partId": part_id, "kind": "text", "text": "whole"}]}));
            return vec![about(item_id, "item.completed", &json!({"status": "completed", "item": item}))];
        }
    }
    if finished {
        out.push(about(item_id, "item.completed", &json!({"status": "completed"})));
    }
    out
}

/// Merges the event lists in a given order, each list kept in its own.
fn interleave(mut lists: Vec<Vec<Value>>, order: &[usize]) -> Vec<Value> {
    for list in &mut lists {
        list.reverse();
    }
    let mut out = Vec::new();
    let mut picks = order.iter().cycle();
    while lists.iter().any(|l| !l.is_empty()) {
        let live: Vec<usize> = (0..lists.len()).filter(|i| !lists[*i].is_empty()).collect();
        let pick = live[picks.next().unwrap_or(&0) % live.len()];
        out.extend(lists[pick].pop());
    }
    out
}

/// A legal log: an operation, its response, items of two candidates in any interleaving, and an end or a torn one.
pub(crate) fn logs() -> impl Strategy<Value = Vec<UnifiedEventV2>> {
    let items = proptest::collection::vec((plan(), 0..2u64, any::<bool>()), 0..5);
    let order = proptest::collection::vec(0..8usize, 1..40);
    (items, order, any::<bool>(), 0..4usize).prop_map(|(items, order, extras, ending)| {
        let torn = ending != 0;
        let lists: Vec<Vec<Value>> = items
            .iter()
            .enumerate()
            .map(|(i, (plan, candidate, finished))| {
                let mut list = item_events(&format!("op.i{i}"), plan, *finished || !torn);
                if *candidate > 0 {
                    for event in &mut list {
                        event["candidate"] = json!(candidate);
                    }
                }
                list
            })
            .collect();
        let mut out = vec![
            json!({"kind": "operation.created", "sourceBranchId": "b1", "target": {"family": "openai-chat"}}),
            json!({"kind": "operation.running"}),
            json!({"kind": "response.started", "responseId": "rs1", "model": {"model": "m"}, "profile": {"family": "openai-chat"}}),
        ];
        let (middle, rest) = {
            let mut all = interleave(lists, &order);
            let rest = all.split_off(all.len() / 2);
            (all, rest)
        };
        out.extend(middle);
        if extras {
            let counter = json!({"value": 7.0, "scope": "request", "source": "reported"});
            out.extend([
                json!({"kind": "usage.update", "usage": {"outputTotal": counter}}),
                json!({"kind": "warning", "code": "c", "message": "m"}),
                json!({"kind": "loss.update", "entries": super::records::losses()}),
                json!({"kind": "checkpoint.ready", "checkpointId": "cp1", "resourceType": "response"}),
                json!({"kind": "checkpoint.invalidated", "checkpointId": "cp0", "resourceType": "response", "reason": "r"}),
                json!({"kind": "response.metadata", "serviceTier": "flex", "providerRequestId": "req_1"}),
            ]);
        }
        out.extend(rest);
        let error = json!({"category": "interrupted", "code": "interrupted.stream", "message": "m", "retryable": true});
        let (last, status) = match ending {
            0 => (json!({"kind": "operation.completed", "status": {"state": "completed", "finishReason": "stop"}}), json!({"state": "completed", "finishReason": "stop"})),
            1 => (json!({"kind": "operation.failed", "error": error}), json!({"state": "incomplete", "finishReason": "interrupted"})),
            2 => (json!({"kind": "operation.cancelled"}), json!({"state": "cancelled", "finishReason": "cancelled"})),
            _ => (json!({"kind": "operation.expired"}), json!({"state": "incomplete", "finishReason": "incomplete"})),
        };
        out.push(last);
        out.push(json!({"kind": "stream.completed", "status": status, "itemIds": []}));
        stamp(out.iter().map(draft).collect())
    })
}

/// Cuts one delta of a log in two at a character, where there is a delta that can be cut.
pub(crate) fn cut(events: &[UnifiedEventV2], pick: usize, at: usize) -> Vec<UnifiedEventV2> {
    let drafts: Vec<EventDraft> = events.iter().map(undraft).collect();
    let deltas: Vec<usize> = (0..drafts.len()).filter(|i| delta_text(&drafts[*i].body).is_some()).collect();
    let Some(target) = deltas.get(pick % deltas.len().max(1)) else { return events.to_vec() };
    let mut out = Vec::new();
    for (i, draft) in drafts.into_iter().enumerate() {
        if i != *target {
            out.push(draft);
            continue;
        }
        let text = delta_text(&draft.body).unwrap().to_owned();
        let borders: Vec<usize> = text.char_indices().map(|(b, _)| b).chain([text.len()]).collect();
        let (head, tail) = text.split_at(borders[at % borders.len()]);
        let (mut first, mut second) = (draft.clone(), draft);
        set_text(&mut first.body, head, true);
        set_text(&mut second.body, tail, false);
        out.extend([first, second]);
    }
    stamp(out)
}

/// Joins neighbouring deltas wherever drafts join.
pub(crate) fn joined(events: &[UnifiedEventV2]) -> Vec<UnifiedEventV2> {
    let mut out: Vec<EventDraft> = Vec::new();
    for draft in events.iter().map(undraft) {
        let kept = match out.last_mut() {
            Some(last) => last.join(draft).err(),
            None => Some(draft),
        };
        out.extend(kept);
    }
    stamp(out)
}

fn undraft(event: &UnifiedEventV2) -> EventDraft {
    EventDraft {
        item_id: event.base.item_id.clone(),
        part_id: event.base.part_id.clone(),
        call_id: event.base.call_id.clone(),
        candidate: event.base.candidate,
        body: event.body.clone(),
    }
}

fn delta_text(body: &EventBody) -> Option<&str> {
    match body {
        EventBody::TextDelta(delta) | EventBody::ReasoningDelta(delta) => Some(&delta.text),
        EventBody::ToolArgumentsDelta(delta) => Some(&delta.text),
        _ => None,
    }
}

/// The first piece keeps the log probabilities.
fn set_text(body: &mut EventBody, text: &str, first: bool) {
    match body {
        EventBody::TextDelta(delta) | EventBody::ReasoningDelta(delta) => {
            text.clone_into(&mut delta.text);
            if !first {
                delta.logprobs = None;
            }
        }
        EventBody::ToolArgumentsDelta(delta) => text.clone_into(&mut delta.text),
        _ => {}
    }
}
