//! Leaves: the texts, calls and results of a session, and which of them have gone without a word.

use std::collections::BTreeMap;
use throughline_agents::{Source, Transcript, Written};
use throughline_format::{PartBody, UnifiedItem, UnifiedItemBody};

/// A text without white space, so that joined and split texts agree.
fn bare(text: &str) -> String {
    text.chars().filter(|c| !c.is_whitespace()).collect()
}

/// The leaves of an item, each as `kind: text`.
pub(crate) fn of(item: &UnifiedItem) -> Vec<String> {
    let texts = |kind: &str| {
        let text = item.parts().iter().map(|part| match &part.body {
            PartBody::Image(_) => "[image]".to_owned(),
            PartBody::Json(json) => bare(json.value.as_str()),
            _ => part.as_text().map(bare).unwrap_or_default(),
        });
        text.filter(|text| !text.is_empty())
            .map(|text| format!("{kind}: {text}"))
            .collect::<Vec<_>>()
    };
    match &item.body {
        UnifiedItemBody::Message(_) | UnifiedItemBody::CompactionSummary(_) => texts("text"),
        UnifiedItemBody::Reasoning(_) => texts("reasoning"),
        UnifiedItemBody::ToolCall(call) => {
            // Parsed, since an escape may be written in two ways.
            let input = serde_json::from_str(&call.raw_arguments).map_or_else(
                |_| call.raw_arguments.clone(),
                |v: serde_json::Value| match v {
                    serde_json::Value::String(text) => text,
                    other => other.to_string(),
                },
            );
            vec![format!("call: {}{}", bare(&call.name), bare(&input))]
        }
        UnifiedItemBody::ToolResult(_) => texts("result"),
        _ => Vec::new(),
    }
}

/// Texts of a source, wherever its runtime keeps them, that no transcript has and no entry names.
pub(crate) fn missing(source: &Source, transcripts: &[Transcript]) -> Vec<String> {
    let mut have: Vec<String> = transcripts.iter().flat_map(|t| &t.items).flat_map(of).collect();
    have.extend(transcripts.iter().flat_map(|t| &t.items).filter_map(|item| match &item.body {
        UnifiedItemBody::Error(error) => Some(format!("text: {}", bare(&error.error.message))),
        _ => None,
    }));
    let have = have.join("\n");
    let entries = transcripts
        .iter()
        .flat_map(|t| &t.loss.entries)
        .map(|entry| entry.path.split('/').nth(1).unwrap_or_default());
    let told: Vec<String> = entries.map(str::to_owned).collect();
    let text = String::from_utf8_lossy(&source.files[0].bytes).into_owned();
    let mut lost = Vec::new();
    let bare_text = text.trim_start_matches('\u{feff}');
    let whole: Option<serde_json::Value> = serde_json::from_str(bare_text).ok();
    let list = whole
        .as_ref()
        .and_then(|whole| whole.get("messages").or_else(|| whole.get("loglines"))?.as_array());
    let numbered = |(n, value): (usize, serde_json::Value)| ((n + 1).to_string(), value);
    let records: Vec<(String, serde_json::Value)> = if let Some(list) = list {
        list.iter().cloned().enumerate().map(numbered).collect()
    } else if let Some(whole) = &whole {
        whole
            .as_object()
            .into_iter()
            .flatten()
            .map(|(_, value)| (String::new(), value.clone()))
            .collect()
    } else {
        let lines = bare_text.split('\n').enumerate();
        lines
            .filter_map(|(n, line)| Some(numbered((n, serde_json::from_str(line).ok()?))))
            .collect()
    };
    for (number, record) in records {
        if told.contains(&number) {
            continue;
        }
        for text in said(&record) {
            if !have.contains(&bare(&text)) {
                lost.push(format!("{number}: {}", text.chars().take(80).collect::<String>()));
            }
        }
    }
    lost
}

/// What a record says to the model or for it, by the members that hold it in any of the four runtimes.
fn said(record: &serde_json::Value) -> Vec<String> {
    let mut found = Vec::new();
    let content = |value: Option<&serde_json::Value>, found: &mut Vec<String>| match value {
        Some(serde_json::Value::String(text)) => found.push(text.clone()),
        Some(serde_json::Value::Array(list)) => {
            for part in list {
                for key in ["text", "thinking", "name"] {
                    found.extend(part.get(key).and_then(|t| t.as_str()).map(str::to_owned));
                }
                if let Some(inner) = part.get("content") {
                    match inner {
                        serde_json::Value::String(text) => found.push(text.clone()),
                        serde_json::Value::Array(list) => {
                            found.extend(list.iter().filter_map(|p| Some(p.get("text")?.as_str()?.to_owned())));
                        }
                        _ => {}
                    }
                }
            }
        }
        _ => {}
    };
    if let Some(message) = record.get("message") {
        content(message.get("content"), &mut found);
    }
    let payload = record.get("payload").unwrap_or(record);
    if matches!(
        record.get("type").and_then(|t| t.as_str()),
        Some("response_item" | "message" | "gemini" | "user")
    ) && record.get("message").is_none()
    {
        content(payload.get("content"), &mut found);
        for key in ["name", "output", "input"] {
            found.extend(payload.get(key).and_then(|t| t.as_str()).map(str::to_owned));
        }
        for call in payload.get("toolCalls").and_then(|c| c.as_array()).into_iter().flatten() {
            found.extend(call.get("name").and_then(|t| t.as_str()).map(str::to_owned));
        }
    }
    for part in record
        .get("parts")
        .and_then(|p| p.as_array())
        .into_iter()
        .flatten()
        .chain(Some(record))
    {
        if matches!(part.get("type").and_then(|t| t.as_str()), Some("text" | "reasoning" | "tool")) && part.get("messageID").is_some() {
            for pointer in ["/text", "/tool", "/state/output", "/state/error"] {
                found.extend(part.pointer(pointer).and_then(|t| t.as_str()).map(str::to_owned));
            }
        }
    }
    found.retain(|text| !bare(text).is_empty());
    found
}

/// Leaves of a transcript that the written session does not have when it is read again, and that no entry names.
pub(crate) fn lost_between(from: &Transcript, written: &Written, to: &[Transcript]) -> Vec<String> {
    let entries = |at: usize| {
        let head = format!("/conversation/items/{at}");
        written
            .loss
            .entries
            .iter()
            .any(|entry| entry.path == head || entry.path.starts_with(&format!("{head}/")))
    };
    let mut have: BTreeMap<String, usize> = BTreeMap::new();
    let all: Vec<String> = to.iter().flat_map(|t| &t.items).flat_map(of).collect();
    for leaf in &all {
        *have.entry(leaf.clone()).or_default() += 1;
    }
    let text = all.join("\n");
    let mut lost = Vec::new();
    for (at, item) in from.items.iter().enumerate() {
        for leaf in of(item) {
            match have.get_mut(&leaf) {
                Some(count) if *count > 0 => *count -= 1,
                // Joined with its neighbours.
                _ if leaf.split_once(": ").is_some_and(|(_, words)| text.contains(words)) => {}
                _ if entries(at) => {}
                _ => lost.push(format!("item {at}: {}", leaf.chars().take(80).collect::<String>())),
            }
        }
    }
    lost
}
