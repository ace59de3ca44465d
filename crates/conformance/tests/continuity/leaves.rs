//! The leaves of a history: what somebody said, called or got back, and whether a provider is told of it.

use serde_json::Value;
use throughline_format::{PartBody, UnifiedContentPart, UnifiedItem, UnifiedItemBody, UnifiedLossReport};

/// Words without white space, so that borders of lines and parts do not count.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

fn texts(parts: &[UnifiedContentPart]) -> Vec<String> {
    let text = |part: &UnifiedContentPart| match &part.body {
        PartBody::Reasoning(reasoning) => Some(reasoning.text.clone()),
        _ => part.as_text().map(str::to_owned),
    };
    parts
        .iter()
        .filter_map(text)
        .map(|text| plain(&text))
        .filter(|text| !text.is_empty())
        .collect()
}

/// What is observable of an item.
pub fn leaves(item: &UnifiedItem) -> Vec<String> {
    match &item.body {
        UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => vec![plain(&call.name)],
        UnifiedItemBody::ToolResult(result) => texts(&result.output),
        UnifiedItemBody::ServerToolResult(result) => texts(&result.output),
        _ => texts(item.parts()),
    }
}

/// Every string of a body, in order, and of bodies inside of them.
fn strings(value: &Value, found: &mut String) {
    match value {
        Value::String(text) => match serde_json::from_str::<Value>(text) {
            Ok(inner @ (Value::Object(_) | Value::Array(_))) => {
                found.push_str(&plain(text));
                strings(&inner, found);
            }
            _ => found.push_str(&plain(text)),
        },
        Value::Array(list) => list.iter().for_each(|inner| strings(inner, found)),
        Value::Object(members) => members.values().for_each(|inner| strings(inner, found)),
        _ => {}
    }
}

/// Items of a history that a provider is not told of. A message is never excused; of anything else a loss may be reported.
pub fn silently_lost(history: &[UnifiedItem], body: &Value, loss: &UnifiedLossReport) -> Vec<String> {
    let mut told = String::new();
    strings(body, &mut told);
    let mut lost = Vec::new();
    for (index, item) in history.iter().enumerate() {
        let path = format!("/conversation/items/{index}");
        let is_named = loss.entries.iter().any(|entry| {
            let below = entry.path == path || entry.path.starts_with(&format!("{path}/"));
            below || entry.source_item_id.as_ref() == Some(&item.id)
        });
        let missing: Vec<String> = leaves(item).into_iter().filter(|leaf| !told.contains(leaf.as_str())).collect();
        let is_message = matches!(item.body, UnifiedItemBody::Message(_));
        if !missing.is_empty() && (is_message || !is_named) {
            lost.push(format!("{} ({}): {missing:?}", item.id, item.body.kind()));
        }
    }
    lost
}
