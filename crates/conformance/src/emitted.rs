//! Emitted stream events of any protocol: the text and the arguments that a client would join.

use crate::query::word;
use serde_json::Value;
use std::collections::BTreeMap;

/// A piece of what a stream says.
enum Piece<'a> {
    Text(&'a str),
    /// Fragment of the arguments of the tool with this name.
    Arguments(String, String),
    /// The whole answer's text was given as a chunk's own.
    Nothing,
}

/// All emitted text joined.
pub(crate) fn text(output: &Value) -> String {
    pieces(output)
        .into_iter()
        .filter_map(|p| match p {
            Piece::Text(text) => Some(text),
            Piece::Arguments(..) | Piece::Nothing => None,
        })
        .collect()
}

/// The joined argument fragments by tool name.
pub(crate) fn arguments(output: &Value) -> BTreeMap<String, String> {
    let mut joined = BTreeMap::new();
    for piece in pieces(output) {
        if let Piece::Arguments(name, fragment) = piece {
            joined.entry(name).or_insert_with(String::new).push_str(&fragment);
        }
    }
    joined
}

fn elements<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

fn pieces(output: &Value) -> Vec<Piece<'_>> {
    let mut names: BTreeMap<(&str, Option<u64>), String> = BTreeMap::new();
    let mut found = Vec::new();
    for event in output.as_array().into_iter().flatten() {
        let number = |key: &str| event.get(key).and_then(Value::as_u64);
        let named = |names: &BTreeMap<(&str, Option<u64>), String>, scope, index| names.get(&(scope, index)).cloned().unwrap_or_default();
        let delta = event.get("delta").unwrap_or(&Value::Null);
        found.push(match word(event, "type") {
            "content_block_start" => {
                let block = event.get("content_block").unwrap_or(&Value::Null);
                names.insert(("block", number("index")), word(block, "name").to_owned());
                match word(block, "type") {
                    "tool_use" => Piece::Arguments(word(block, "name").to_owned(), String::new()),
                    _ => Piece::Text(word(block, "text")),
                }
            }
            "content_block_delta" => match word(delta, "type") {
                "text_delta" => Piece::Text(word(delta, "text")),
                "input_json_delta" => Piece::Arguments(named(&names, "block", number("index")), word(delta, "partial_json").to_owned()),
                _ => Piece::Nothing,
            },
            "response.output_text.delta" => Piece::Text(delta.as_str().unwrap_or_default()),
            "response.output_item.added" => {
                let item = event.get("item").unwrap_or(&Value::Null);
                names.insert(("item", number("output_index")), word(item, "name").to_owned());
                match word(item, "type") {
                    "function_call" => Piece::Arguments(word(item, "name").to_owned(), String::new()),
                    _ => Piece::Nothing,
                }
            }
            "response.function_call_arguments.delta" => {
                let name = named(&names, "item", number("output_index"));
                Piece::Arguments(name, delta.as_str().unwrap_or_default().to_owned())
            }
            _ => Piece::Nothing,
        });
        for choice in elements(event, "choices") {
            let delta = choice.get("delta").unwrap_or(&Value::Null);
            found.push(Piece::Text(word(delta, "content")));
            for call in elements(delta, "tool_calls") {
                let key = ("chat", call.get("index").and_then(Value::as_u64));
                let function = call.get("function").unwrap_or(&Value::Null);
                if !word(function, "name").is_empty() {
                    names.insert(key, word(function, "name").to_owned());
                }
                found.push(Piece::Arguments(
                    named(&names, key.0, key.1),
                    word(function, "arguments").to_owned(),
                ));
            }
        }
        for candidate in elements(event, "candidates") {
            for part in elements(candidate.get("content").unwrap_or(&Value::Null), "parts") {
                if part.get("thought").and_then(Value::as_bool) != Some(true) {
                    found.push(Piece::Text(word(part, "text")));
                }
                if let Some(call) = part.get("functionCall") {
                    let arguments = call.get("args").map_or_else(|| "{}".to_owned(), ToString::to_string);
                    found.push(Piece::Arguments(word(call, "name").to_owned(), arguments));
                }
            }
        }
    }
    found
}
