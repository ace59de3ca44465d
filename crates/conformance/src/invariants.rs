//! The named invariants of projected output. Each gives what is wrong, or nothing.

use crate::query::word;
use serde_json::Value;

/// A rule.
pub(crate) type Rule = fn(&Value) -> Option<String>;

/// The rule of a name.
pub(crate) fn named(name: &str) -> Option<Rule> {
    match name {
        "anthropic-tool-pairing" => Some(anthropic_tool_pairing),
        "anthropic-role-alternation" => Some(anthropic_role_alternation),
        "responses-tool-pairing" => Some(responses_tool_pairing),
        "responses-reasoning-follower" => Some(responses_reasoning_follower),
        "chat-tool-pairing" => Some(chat_tool_pairing),
        "anthropic-block-framing" => Some(anthropic_block_framing),
        _ => None,
    }
}

/// Calls and what answers them.
const ANSWERS: [(&str, &str); 6] = [
    ("function_call", "function_call_output"),
    ("custom_tool_call", "custom_tool_call_output"),
    ("shell_call", "shell_call_output"),
    ("apply_patch_call", "apply_patch_call_output"),
    ("computer_call", "computer_call_output"),
    ("local_shell_call", "local_shell_call_output"),
];

fn answer_of(kind: &str) -> Option<&'static str> {
    ANSWERS.iter().find(|(call, _)| *call == kind).map(|(_, answer)| *answer)
}

/// A message with its blocks.
struct Message<'a> {
    role: &'a str,
    id: &'a str,
    blocks: Vec<&'a Value>,
}

/// The messages of a request; of transcript lines the messages, lines of one message ID joined.
fn messages(output: &Value) -> Vec<Message<'_>> {
    let of = |message| Message {
        role: word(message, "role"),
        id: word(message, "id"),
        blocks: message.get("content").and_then(Value::as_array).into_iter().flatten().collect(),
    };
    match output {
        Value::Array(lines) => {
            let mut joined: Vec<Message<'_>> = Vec::new();
            for message in lines.iter().filter_map(|l| l.get("message")).filter(|m| m.is_object()) {
                let next = of(message);
                match joined.last_mut() {
                    Some(last) if !next.id.is_empty() && last.id == next.id => last.blocks.extend(next.blocks),
                    _ => joined.push(next),
                }
            }
            joined
        }
        request => request
            .get("messages")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .map(of)
            .collect(),
    }
}

fn ids<'a>(blocks: &[&'a Value], kind: &str, key: &str) -> Vec<&'a str> {
    let mut found: Vec<&str> = blocks.iter().filter(|b| word(b, "type") == kind).map(|b| word(b, key)).collect();
    found.sort_unstable();
    found
}

fn anthropic_tool_pairing(output: &Value) -> Option<String> {
    let messages = messages(output);
    let mut used: Vec<&str> = Vec::new();
    let mut expected: Vec<&str> = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let results = ids(&message.blocks, "tool_result", "tool_use_id");
        if message.role == "user" && results != expected {
            return Some(format!("message {index} answers {results:?}, expected {expected:?}"));
        }
        if message.role != "user" && !(results.is_empty() && expected.is_empty()) {
            return Some(format!("message {index} stands where {expected:?} are to be answered"));
        }
        if message.blocks.iter().take(results.len()).any(|b| word(b, "type") != "tool_result") {
            return Some(format!("message {index}: results do not stand in front"));
        }
        expected = ids(&message.blocks, "tool_use", "id");
        if let Some(twice) = expected
            .iter()
            .enumerate()
            .find(|(i, id)| used.contains(id) || expected.iter().take(*i).any(|e| e == *id))
        {
            return Some(format!("call ID {} is used twice", twice.1));
        }
        used.extend(&expected);
    }
    (!expected.is_empty()).then(|| format!("the calls {expected:?} of the last message have no results"))
}

fn anthropic_role_alternation(output: &Value) -> Option<String> {
    let roles: Vec<&str> = messages(output).iter().map(|m| m.role).collect();
    if roles.first() != Some(&"user") {
        return Some(format!("the first role is {:?}", roles.first()));
    }
    let same = roles.windows(2).position(|pair| matches!(pair, [a, b] if a == b))?;
    Some(format!("messages {same} and {} have one role", same + 1))
}

/// The items of a request, or the list of native items.
fn items(output: &Value) -> Vec<&Value> {
    let list = if output.is_array() { Some(output) } else { output.get("input") };
    list.and_then(Value::as_array).into_iter().flatten().collect()
}

fn responses_tool_pairing(output: &Value) -> Option<String> {
    let items = items(output);
    for (index, item) in items.iter().enumerate() {
        let (kind, call_id) = (word(item, "type"), word(item, "call_id"));
        if let Some(answer) = answer_of(kind) {
            let is_answer = |x: &&Value| word(x, "type") == answer && word(x, "call_id") == call_id;
            let (before, after) = items.split_at(index);
            let found = after.iter().filter(|x| is_answer(x)).count();
            if found != 1 || before.iter().any(is_answer) {
                return Some(format!("call {call_id} has {found} outputs after it"));
            }
        } else if ANSWERS.iter().any(|(_, answer)| *answer == kind)
            && !items
                .iter()
                .take(index)
                .any(|x| answer_of(word(x, "type")) == Some(kind) && word(x, "call_id") == call_id)
        {
            return Some(format!("output {call_id} has no call before it"));
        }
    }
    None
}

fn responses_reasoning_follower(output: &Value) -> Option<String> {
    let items = items(output);
    for (index, _) in items.iter().enumerate().filter(|(_, i)| word(i, "type") == "reasoning") {
        let follower = items.iter().skip(index + 1).find(|x| word(x, "type") != "reasoning");
        let follows = follower.is_some_and(|x| {
            let kind = word(x, "type");
            answer_of(kind).is_some() || (matches!(kind, "" | "message") && word(x, "role") == "assistant")
        });
        if !follows {
            return Some(format!("reasoning item {index} is not followed by what it was made for"));
        }
    }
    None
}

fn chat_tool_pairing(output: &Value) -> Option<String> {
    let empty = Vec::new();
    let messages = output.get("messages").and_then(Value::as_array).unwrap_or(&empty);
    let calls = |message: &Value| -> Vec<String> {
        let list = message.get("tool_calls").and_then(Value::as_array);
        let mut ids: Vec<String> = list.into_iter().flatten().map(|c| word(c, "id").to_owned()).collect();
        ids.sort();
        ids
    };
    for (index, message) in messages.iter().enumerate() {
        let expected = calls(message);
        if !expected.is_empty() {
            let following = messages.iter().skip(index + 1).take_while(|m| word(m, "role") == "tool");
            let mut answers: Vec<String> = following.map(|m| word(m, "tool_call_id").to_owned()).collect();
            answers.sort();
            if answers != expected {
                return Some(format!("message {index} calls {expected:?} and is followed by answers {answers:?}"));
            }
        }
        if word(message, "role") == "tool" {
            let caller = messages.iter().take(index).rev().find(|m| word(m, "role") != "tool");
            let known = caller.map(calls).unwrap_or_default();
            if !known.iter().any(|id| id == word(message, "tool_call_id")) {
                return Some(format!("message {index} answers no call"));
            }
        }
    }
    None
}

fn anthropic_block_framing(output: &Value) -> Option<String> {
    let events: Vec<&Value> = output
        .as_array()
        .into_iter()
        .flatten()
        .filter(|e| word(e, "type") != "ping")
        .collect();
    let kinds: Vec<&str> = events.iter().map(|e| word(e, "type")).collect();
    if kinds.first() != Some(&"message_start") || kinds.iter().filter(|k| **k == "message_start").count() != 1 {
        return Some("message_start is not the first and only one".to_owned());
    }
    if kinds.contains(&"error") {
        return (kinds.last() != Some(&"error")).then(|| "something follows the error event".to_owned());
    }
    let (mut open, mut next) = (None, 0);
    for event in &events {
        let index = event.get("index").and_then(Value::as_u64);
        match word(event, "type") {
            "content_block_start" => {
                if open.is_some() || index != Some(next) {
                    return Some(format!("block {index:?} starts at the wrong place"));
                }
                open = index;
                next += 1;
            }
            "content_block_delta" if index != open || open.is_none() => {
                return Some(format!("a delta names block {index:?}, open is {open:?}"));
            }
            "content_block_stop" => {
                if index != open || open.is_none() {
                    return Some(format!("block {index:?} is stopped, open is {open:?}"));
                }
                open = None;
            }
            _ => {}
        }
    }
    if open.is_some() {
        return Some(format!("block {open:?} is never stopped"));
    }
    let ends_well = matches!(events.as_slice(), [.., delta, _] if delta.pointer("/delta/stop_reason").is_some_and(|r| !r.is_null()));
    let in_order = matches!(kinds.as_slice(), [.., "message_delta", "message_stop"]);
    (!ends_well || !in_order).then(|| "the stream does not end with message_delta (stop reason) and message_stop".to_owned())
}
