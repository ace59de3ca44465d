//! A Unified result (or any record with items) through the neutral names of the case format.

use crate::query::{compact, word};
use serde_json::{Map, Value, json};

/// A record as its JSON.
pub(crate) struct FoldView<'a> {
    record: &'a Value,
    items: Vec<&'a Value>,
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// Readable text of one part.
fn text_of(part: &Value) -> String {
    match (part.get("text"), part.get("value"), word(part, "kind")) {
        (Some(text), ..) => text.as_str().unwrap_or_default().to_owned(),
        (None, Some(value), "json") => value.as_str().map_or_else(|| compact(value), str::to_owned),
        _ => String::new(),
    }
}

fn joined(item: &Value, key: &str) -> String {
    list(item, key).map(text_of).collect()
}

fn counter(value: Option<&Value>) -> Value {
    value.and_then(|c| c.get("value")).cloned().unwrap_or(Value::Null)
}

impl<'a> FoldView<'a> {
    /// Items of a result, of a request's history, or of a plain list `{items}`.
    pub(crate) fn new(record: &'a Value) -> Self {
        let items = ["/output", "/items", "/conversation/items"]
            .iter()
            .find_map(|p| record.pointer(p)?.as_array());
        Self {
            record,
            items: items.into_iter().flatten().collect(),
        }
    }

    /// The value of a neutral key; `None` for a key that nobody knows.
    pub(crate) fn value(&self, key: &str) -> Option<Value> {
        let texts = |kind: &str| -> Vec<Value> {
            let of_kind = self.leaves().into_iter().filter(|l| l.get(0).and_then(Value::as_str) == Some(kind));
            of_kind.filter_map(|mut l| l.get_mut(1).map(Value::take)).collect()
        };
        let join = |texts: Vec<Value>| Value::String(texts.iter().filter_map(Value::as_str).collect());
        Some(match key {
            "finish" => self.finish(),
            "provider_finish" => self.record.pointer("/status/originalReason").cloned().unwrap_or(Value::Null),
            "output_text" => Value::String(self.output_text()),
            "reasoning_text" => join(texts("reasoning")),
            "reasoning_texts" => Value::Array(texts("reasoning")),
            "refusal_text" => join(texts("refusal")),
            "leaves" => Value::Array(self.leaves()),
            "leaf_kinds" => Value::Array(self.leaves().iter().filter_map(|l| l.get(0).cloned()).collect()),
            "tool_calls" => Value::Array(self.tool_calls()),
            "tool_call_count" => self.tool_calls().len().into(),
            "unique_call_ids" => {
                let ids: Vec<String> = self.tool_calls().iter().map(|c| word(c, "call_id").to_owned()).collect();
                let different: std::collections::BTreeSet<&String> = ids.iter().collect();
                Value::Bool(different.len() == ids.len())
            }
            "usage" => self.usage(),
            "citations" => Value::Array(self.citations()),
            "citation_count" => self.citations().len().into(),
            "error" => self.error(),
            "message_count" => self.messages().count().into(),
            "item_status_of_message" => self.messages().last().and_then(|m| m.get("status")).cloned().unwrap_or(Value::Null),
            "redacted_markers" => self.redacted().into(),
            "search_queries" => self.search_queries(),
            _ => return None,
        })
    }

    fn messages(&self) -> impl Iterator<Item = &'a Value> {
        let all = self.items.iter().copied();
        all.filter(|i| word(i, "kind") == "message" && word(i, "role") == "assistant")
    }

    fn finish(&self) -> Value {
        let status = self.record.get("status").unwrap_or(&Value::Null);
        let reason = status.get("finishReason").or_else(|| status.get("state"));
        reason.and_then(Value::as_str).map_or(Value::Null, |w| w.replace('-', "_").into())
    }

    fn output_text(&self) -> String {
        let parts = self.messages().flat_map(|m| list(m, "parts"));
        parts.filter(|p| word(p, "kind") == "text").map(text_of).collect()
    }

    /// Items and parts flattened in order to `[kind, text]`.
    pub(crate) fn leaves(&self) -> Vec<Value> {
        let mut found = Vec::new();
        for item in &self.items {
            match word(item, "kind") {
                "message" => found.extend(list(item, "parts").map(|p| json!([word(p, "kind"), text_of(p)]))),
                "reasoning" if list(item, "parts").next().is_none() => found.push(json!(["reasoning", ""])),
                "reasoning" => found.extend(list(item, "parts").map(|p| json!(["reasoning", text_of(p)]))),
                kind @ ("tool-call" | "server-tool-call") => found.push(json!([kind, word(item, "name")])),
                kind if item.get("output").is_some() => found.push(json!([kind, joined(item, "output")])),
                kind => found.push(json!([kind, joined(item, "parts")])),
            }
        }
        found
    }

    fn tool_calls(&self) -> Vec<Value> {
        let calls = self.items.iter().filter(|i| word(i, "kind") == "tool-call");
        calls
            .map(|call| {
                json!({
                    "call_id": word(call, "callId"), "name": word(call, "name"), "arguments": call.get("input"),
                    "arguments_raw": word(call, "rawArguments"), "state": word(call, "lifecycle"),
                })
            })
            .collect()
    }

    fn usage(&self) -> Value {
        let usage = self.record.get("usage").unwrap_or(&Value::Null);
        let names = [
            ("input_total", "inputTotal"),
            ("input_uncached", "inputUncached"),
            ("cache_read", "cacheRead"),
            ("cache_write", "cacheWrite"),
            ("output_total", "outputTotal"),
            ("reasoning", "reasoning"),
            ("tool_prompt", "toolPrompt"),
            ("total", "total"),
        ];
        let mut found: Map<String, Value> = names
            .iter()
            .map(|(name, field)| ((*name).to_owned(), counter(usage.get(*field))))
            .collect();
        let calls = usage.get("serverToolCalls").and_then(Value::as_object);
        let calls = calls.map(|map| map.values().filter_map(|c| c.get("value")?.as_f64()).sum::<f64>());
        found.insert("server_tool_calls".to_owned(), json!(calls));
        // A sum may be derived where all of its parts are known.
        let number = |key: &str| found.get(key).and_then(Value::as_f64);
        let derived = match (
            number("input_total"),
            number("input_uncached"),
            number("cache_read"),
            number("cache_write"),
        ) {
            (Some(total), None, Some(read), write) => Some(("input_uncached", total - read - write.unwrap_or(0.0))),
            (None, Some(uncached), Some(read), Some(write)) => Some(("input_total", uncached + read + write)),
            _ => None,
        };
        if let Some((key, value)) = derived {
            found.insert(key.to_owned(), json!(value));
        }
        Value::Object(found)
    }

    fn citations(&self) -> Vec<Value> {
        let parts = self.items.iter().flat_map(|i| list(i, "parts"));
        let each = |part: &'a Value| list(part, "annotations").chain(std::iter::once(part));
        parts
            .flat_map(each)
            .filter(|c| word(c, "kind") == "citation")
            .map(citation)
            .collect()
    }

    fn error(&self) -> Value {
        let in_items = || self.items.iter().find(|i| word(i, "kind") == "error").and_then(|i| i.get("error"));
        self.record.get("error").or_else(in_items).map_or_else(
            || json!({"present": false}),
            |e| {
                json!({
                    "present": true, "provider_code": e.get("providerCode"), "http_status": e.get("httpStatus"),
                    "retryable": e.get("retryable"), "provider_request_id": e.get("providerRequestId"), "category": e.get("category"),
                })
            },
        )
    }

    fn redacted(&self) -> usize {
        let parts = self.items.iter().flat_map(|i| list(i, "parts"));
        parts
            .filter(|p| word(p, "kind") == "reasoning" && word(p, "state") == "redacted")
            .count()
    }

    fn search_queries(&self) -> Value {
        let mut found: Vec<Value> = Vec::new();
        let parts = self.items.iter().flat_map(|i| list(i, "parts"));
        let annotations = parts.flat_map(|p| list(p, "annotations"));
        for holder in self.items.iter().copied().chain(annotations) {
            for query in list(holder, "queries") {
                if !found.contains(query) {
                    found.push(query.clone());
                }
            }
        }
        Value::Array(found)
    }
}

/// One citation; cases call the cited words `quote` or `quoted`.
fn citation(citation: &Value) -> Value {
    let source = citation.get("source").unwrap_or(&Value::Null);
    let span = list(citation, "spans").next().unwrap_or(&Value::Null);
    let unit = match word(span, "unit") {
        "code-point" | "character" => Value::from("char"),
        "" => Value::Null,
        other => Value::from(other),
    };
    json!({
        "uri": source.get("uri"), "title": source.get("title"), "document_index": source.get("documentIndex"),
        "quote": citation.get("quotedText"), "quoted": citation.get("quotedText"), "confidence": citation.get("confidence"),
        "unit": unit, "start": span.get("start"), "end": span.get("end"),
    })
}
