//! Reasoning through every protocol: what was disclosed is history, what is private is referenced and never shown, and what this
//! gateway made up is nobody's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use support::samples::codecs;
use support::{Everything, corpus, files};
use throughline_format::part::ReasoningPrivateState;
use throughline_format::resource::Issuer;
use throughline_format::shape::{Shape, Shaped, ShapedRecord};
use throughline_format::{ProtocolFamily, ProviderDataScope, UnifiedItem, UnifiedResultV2};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::synthetic::PREFIX;
use throughline_protocols::{Capabilities, Codec, DecodeContext, EncodeContext, SideResource, SyntheticSealer, codec_of, families};

fn codec(family: &str) -> Arc<dyn Codec> {
    codec_of(&ProtocolFamily::from_word(family)).unwrap()
}

/// The result of an answer with the private payloads that go with it.
fn read(codec: &dyn Codec, body: &Value) -> (UnifiedResultV2, Vec<SideResource>) {
    let mut decoded = codec
        .decode_response(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap();
    let resources = std::mem::take(&mut decoded.resources);
    let mut fold = OfflineFold::new();
    fold.push(decoded).unwrap();
    (fold.fold.result(), resources)
}

/// Every reasoning part of a record: its text and its state.
fn reasoning(record: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![record];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                if members.get("kind") == Some(&json!("reasoning")) && members.contains_key("partId") {
                    let word = |name: &str| members.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
                    found.push((word("text"), word("state")));
                }
                open.extend(members.values().rev());
            }
            Value::Array(elements) => open.extend(elements.iter().rev()),
            _ => {}
        }
    }
    found
}

type Answer = (&'static str, Value, Vec<(&'static str, &'static str)>, Vec<&'static str>);

/// Answers with reasoning, disclosed and redacted, and private state: the family, the answer, what it discloses, what stays private.
fn answers() -> Vec<Answer> {
    let gemini = json!([{"content": {"role": "model", "parts": [{"text": "I think.", "thought": true},
        {"text": "So.", "thoughtSignature": "c2lnbmF0dXJlLW9uZQ=="}]}, "finishReason": "STOP"}]);
    let gemini_says = (vec![("I think.", "disclosed")], vec!["c2lnbmF0dXJlLW9uZQ=="]);
    vec![
        (
            "anthropic-messages",
            json!({"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "content": [
                {"type": "thinking", "thinking": "I think.", "signature": "c2lnbmF0dXJlLW9uZQ=="},
                {"type": "redacted_thinking", "data": "cmVkYWN0ZWQtZGF0YQ=="}, {"type": "text", "text": "So."}]}),
            vec![("I think.", "disclosed"), ("", "redacted")],
            vec!["c2lnbmF0dXJlLW9uZQ==", "cmVkYWN0ZWQtZGF0YQ=="],
        ),
        (
            "openai-chat",
            json!({"id": "c", "model": "m", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "So.",
                "reasoning": "I think.", "reasoning_details": [{"type": "reasoning.text", "text": "I think.", "signature": "c2lnbmF0dXJlLW9uZQ=="},
                {"type": "reasoning.encrypted", "data": "ZW5jcnlwdGVkLW9uZQ=="}]}}]}),
            vec![("I think.", "disclosed")],
            vec!["c2lnbmF0dXJlLW9uZQ==", "ZW5jcnlwdGVkLW9uZQ=="],
        ),
        (
            "openai-responses",
            json!({"id": "resp_1", "object": "response", "model": "m", "status": "completed", "output": [
                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I think."}], "encrypted_content": "ZW5jcnlwdGVkLW9uZQ=="},
                {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
                 "content": [{"type": "output_text", "text": "So.", "annotations": []}]}]}),
            vec![("I think.", "disclosed")],
            vec!["ZW5jcnlwdGVkLW9uZQ=="],
        ),
        (
            "gemini-generate-content",
            json!({"candidates": gemini}),
            gemini_says.0.clone(),
            gemini_says.1.clone(),
        ),
        (
            "vertex-gemini",
            json!({"candidates": gemini}),
            gemini_says.0.clone(),
            gemini_says.1.clone(),
        ),
        (
            "antigravity",
            json!({"response": {"candidates": gemini}}),
            gemini_says.0,
            gemini_says.1,
        ),
        (
            "gemini-interactions",
            json!({"id": "v1", "object": "interaction", "model": "m", "status": "completed", "steps": [
                {"type": "thought", "summary": [{"type": "text", "text": "I think."}], "signature": "c2lnbmF0dXJlLW9uZQ=="},
                {"type": "model_output", "content": [{"type": "text", "text": "So."}]}]}),
            vec![("I think.", "disclosed")],
            vec!["c2lnbmF0dXJlLW9uZQ=="],
        ),
        (
            "cursor-sdk",
            json!({"id": "run-of-somebody-1", "agentId": "agent-of-somebody-1", "status": "finished", "result": "So."}),
            Vec::new(),
            vec!["agent-of-somebody-1"],
        ),
        (
            "vercel-uimessage",
            json!({"id": "u", "role": "assistant", "parts": [{"type": "reasoning", "text": "I think.", "state": "done",
                "providerMetadata": {"anthropic": {"signature": "c2lnbmF0dXJlLW9uZQ=="}}}, {"type": "text", "text": "So."}]}),
            vec![("I think.", "disclosed")],
            vec!["c2lnbmF0dXJlLW9uZQ=="],
        ),
    ]
}

#[test]
fn disclosed_reasoning_and_its_redaction_are_history_and_private_state_is_only_referenced() {
    throughline_format::clause!("REAS-01");
    throughline_format::clause!("REAS-02");
    for (family, body, disclosed, private) in answers() {
        let codec = codec(family);
        let (result, resources) = read(codec.as_ref(), &body);
        let record = serde_json::to_value(&result).unwrap();
        let found = reasoning(&record["output"]);
        for (text, state) in disclosed {
            let there = found
                .iter()
                .any(|(t, s)| t == text && (s == state || !text.is_empty() && s != "redacted"));
            assert!(there, "{family}: {text} {state} in {found:?}");
        }
        for secret in private {
            assert!(!record.to_string().contains(secret), "{family} shows {secret}: {record}");
            let holder = resources.iter().find(|r| String::from_utf8_lossy(&r.payload).contains(secret));
            let holder = holder.unwrap_or_else(|| panic!("{family} loses {secret}"));
            assert_eq!(
                (holder.scope, holder.issuer),
                (ProviderDataScope::OwnerPrivate, Issuer::Provider),
                "{family}: {}",
                holder.schema
            );
            let referenced = record.to_string().contains(&format!("\"{}\"", holder.resource_id)) || holder.subject.is_none();
            assert!(referenced, "{family}: nothing refers to {}", holder.schema);
            // The owner gets it back; nobody else does.
            let context = EncodeContext {
                private: Arc::new(Everything::of(&resources)),
                ..EncodeContext::plain(Capabilities::of(codec.capabilities()))
            };
            assert!(
                codec.encode_response(&result, &context).unwrap().body.contains(secret),
                "{family}: {secret}"
            );
            for other in families() {
                let other = codec_of(other).unwrap();
                let stranger = EncodeContext::plain(Capabilities::of(other.capabilities()));
                assert!(
                    !other.encode_response(&result, &stranger).unwrap().body.contains(secret),
                    "{family}: {secret}"
                );
            }
        }
    }
}

/// Members whose value is private state of a provider, wherever they stand.
const PRIVATE: &[&str] = &[
    "signature",
    "thoughtSignature",
    "thought_signature",
    "encrypted_content",
    "encrypted_index",
    "encrypted_stdout",
    "encrypted_text",
];
/// Members whose value is somebody's content, whatever it is called in there.
const CONTENT: &[&str] = &["input", "arguments", "args", "parameters", "schema", "input_schema"];

/// Private values of a body, and the reasoning that it discloses.
fn of_wire(body: &Value) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut private, mut disclosed) = (BTreeSet::new(), BTreeSet::new());
    let mut open = vec![body];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(members) => {
                let kind = members.get("type").and_then(Value::as_str).unwrap_or_default();
                let is_thought = members.get("thought") == Some(&json!(true));
                for (name, member) in members {
                    // The history of a request is not content, though its name is `input`.
                    if CONTENT.contains(&name.as_str()) && !(name == "input" && member.is_array()) {
                        continue;
                    }
                    let text = member.as_str().filter(|text| text.len() >= 16);
                    let is_private =
                        PRIVATE.contains(&name.as_str()) || name == "data" && matches!(kind, "redacted_thinking" | "reasoning.encrypted");
                    match text {
                        Some(text) if is_private => drop(private.insert(text.to_owned())),
                        Some(text)
                            if name == "thinking" && kind == "thinking" || name == "text" && (is_thought || kind == "summary_text") =>
                        {
                            disclosed.insert(text.to_owned());
                        }
                        _ => open.push(member),
                    }
                }
            }
            Value::Array(elements) => open.extend(elements),
            _ => {}
        }
    }
    (private, disclosed)
}

#[test]
fn captured_private_state_is_in_no_record_and_captured_reasoning_in_every_one() {
    throughline_format::clause!("REAS-01");
    throughline_format::clause!("REAS-02");
    let (mut secrets, mut thoughts) = (0, 0);
    for (family, codec) in codecs() {
        for folder in ["requests", "responses"] {
            let Some(path) = corpus("wire").map(|root| root.join(family.as_str()).join(folder)) else {
                return;
            };
            for file in files(&path, ".json") {
                let bytes = std::fs::read(&file).unwrap();
                let Ok(body) = serde_json::from_slice::<Value>(&bytes) else {
                    continue;
                };
                let (record, resources) = if folder == "requests" {
                    let Ok(decoded) = codec.decode_request(&bytes, &DecodeContext::offline()) else {
                        continue;
                    };
                    (serde_json::to_value(&decoded.unified).unwrap(), decoded.resources)
                } else {
                    let Ok(mut decoded) = codec.decode_response(&bytes, &DecodeContext::offline()) else {
                        continue;
                    };
                    let resources = std::mem::take(&mut decoded.resources);
                    let mut fold = OfflineFold::new();
                    fold.push(decoded).unwrap();
                    let events = serde_json::to_value(&fold.events).unwrap();
                    (json!([events, fold.fold.result()]), resources)
                };
                let text = record.to_string();
                let (private, disclosed) = of_wire(&body);
                for secret in private {
                    assert!(!text.contains(&secret), "{} shows {secret:.40}", file.display());
                    let kept = resources.iter().any(|r| {
                        let payload = String::from_utf8_lossy(&r.payload);
                        payload.contains(&secret) || payload.contains(json!(secret).to_string().trim_matches('"'))
                    });
                    assert!(kept, "{} loses {secret:.40}", file.display());
                    secrets += 1;
                }
                let found = reasoning(&record);
                for thought in disclosed {
                    let there = found
                        .iter()
                        .any(|(text, _)| text.contains(thought.trim()) || thought.contains(text.as_str()) && !text.is_empty());
                    assert!(there, "{} loses the thought {thought:.60}", file.display());
                    thoughts += 1;
                }
            }
        }
    }
    assert!(secrets > 300 && thoughts > 100, "{secrets} {thoughts}");
}

/// Names of all members of a type and of everything in it.
fn names(shape: Shape, seen: &mut BTreeSet<&'static str>, found: &mut BTreeSet<&'static str>) {
    let inside: Vec<Shape> = match shape {
        Shape::Record(record) => {
            if !seen.insert(record.name) {
                return;
            }
            found.extend(record.members.iter().map(|member| member.name));
            record.members.iter().map(|member| (member.shape)()).collect()
        }
        Shape::Union(union) => {
            if !seen.insert(union.name) {
                return;
            }
            union.variants.iter().map(|variant| Shape::Record(variant.record)).collect()
        }
        Shape::Either(_) | Shape::Words(_) | Shape::Scalar(_) => Vec::new(),
        Shape::List(inner) | Shape::Map(inner) => vec![inner()],
    };
    for shape in inside {
        names(shape, seen, found);
    }
}

#[test]
fn no_type_of_an_item_has_a_member_for_private_state() {
    throughline_format::clause!("REAS-02");
    let (mut seen, mut found) = (BTreeSet::new(), BTreeSet::new());
    names(UnifiedItem::shape(), &mut seen, &mut found);
    assert!(
        seen.contains("ReasoningPart") && found.contains("privateState") && found.contains("privateLinkage"),
        "{seen:?}"
    );
    for name in found {
        let lower = name.to_ascii_lowercase();
        let is_private = ["signature", "encrypt", "cipher", "secret", "payload", "opaque"]
            .iter()
            .any(|word| lower.contains(word));
        assert!(!is_private, "an item has a member {name}");
    }
    // What stands in their place says where it is and who made it, and nothing of what it is.
    let members: Vec<_> = ReasoningPrivateState::RECORD.members.iter().map(|member| member.name).collect();
    assert_eq!(members, ["ref", "issuer"]);
}

/// A request of each wire that presents a signature at each place that it has for one.
fn presenting(signature: &str) -> Vec<(&'static str, Value)> {
    let ask = json!({"role": "user", "content": "hi"});
    let claude = |block: Value| json!({"model": "m", "max_tokens": 9, "messages": [ask, {"role": "assistant", "content": [block, {"type": "text", "text": "So."}]}, ask]});
    let gemini = |part: Value| {
        json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}, {"role": "model", "parts": [part]},
            {"role": "user", "parts": [{"text": "on"}]}]})
    };
    let call = json!({"functionCall": {"name": "f", "args": {}}, "thoughtSignature": signature});
    let chat = |message: Value| json!({"model": "m", "messages": [ask, message, ask]});
    let responses = |item: Value| {
        json!({"model": "m", "input": [{"type": "message", "role": "user", "content": "hi"}, item,
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
        {"type": "message", "role": "user", "content": "on"}]})
    };
    let ui = |metadata: Value| {
        json!({"id": "c", "messages": [{"id": "a", "role": "user", "parts": [{"type": "text", "text": "hi"}]},
            {"id": "b", "role": "assistant", "parts": [{"type": "reasoning", "text": "I think.", "providerMetadata": metadata}, {"type": "text", "text": "So."}]},
            {"id": "d", "role": "user", "parts": [{"type": "text", "text": "on"}]}]})
    };
    vec![
        (
            "anthropic-messages",
            claude(json!({"type": "thinking", "thinking": "I think.", "signature": signature})),
        ),
        (
            "anthropic-messages",
            claude(json!({"type": "redacted_thinking", "data": signature})),
        ),
        (
            "gemini-generate-content",
            gemini(json!({"text": "I think.", "thought": true, "thoughtSignature": signature})),
        ),
        (
            "gemini-generate-content",
            gemini(json!({"text": "So.", "thoughtSignature": signature})),
        ),
        ("gemini-generate-content", gemini(call.clone())),
        ("vertex-gemini", gemini(call.clone())),
        ("antigravity", json!({"model": "m", "project": "p", "request": gemini(call)})),
        (
            "gemini-interactions",
            json!({"model": "m", "input": [{"type": "user_input", "content": [{"type": "text", "text": "hi"}]},
                {"type": "thought", "summary": [{"type": "text", "text": "I think."}], "signature": signature},
                {"type": "model_output", "content": [{"type": "text", "text": "So."}]},
                {"type": "user_input", "content": [{"type": "text", "text": "on"}]}]}),
        ),
        (
            "openai-chat",
            chat(
                json!({"role": "assistant", "content": "So.", "reasoning_details": [{"type": "reasoning.text", "text": "I think.", "signature": signature}]}),
            ),
        ),
        (
            "openai-chat",
            chat(json!({"role": "assistant", "content": "So.", "reasoning_details": [{"type": "reasoning.encrypted", "data": signature}]})),
        ),
        (
            "openai-chat",
            json!({"model": "m", "messages": [ask, {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
                "function": {"name": "f", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": signature}}}]},
                {"role": "tool", "tool_call_id": "c1", "content": "done"}]}),
        ),
        (
            "openai-responses",
            responses(json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": signature})),
        ),
        (
            "openai-responses",
            responses(json!({"type": "compaction", "id": "cmp_1", "encrypted_content": signature})),
        ),
        ("vercel-uimessage", ui(json!({"anthropic": {"signature": signature}}))),
        ("vercel-uimessage", ui(json!({"anthropic": {"redactedData": signature}}))),
        ("vercel-uimessage", ui(json!({"google": {"thoughtSignature": signature}}))),
        (
            "vercel-uimessage",
            ui(json!({"openai": {"itemId": "rs_1", "reasoningEncryptedContent": signature}})),
        ),
    ]
}

#[test]
fn a_synthetic_signature_is_marked_and_goes_to_no_provider_however_it_comes_back() {
    throughline_format::clause!("REAS-03");
    let sealer = SyntheticSealer::offline();
    let made = sealer.seal("I think.");
    let altered = format!("{}x", &made[..made.len() - 1]);
    assert!(sealer.verify("I think.", &made) && !sealer.verify("I think.", &altered) && !sealer.verify("I thought.", &made));
    let mut wrong = Vec::new();
    for signature in [&made, &altered, &format!("{PREFIX}bare")] {
        for (family, body) in presenting(signature) {
            let decoded = codec(family)
                .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
                .unwrap();
            let record = serde_json::to_string(&decoded.unified).unwrap();
            assert!(!record.contains(PREFIX), "{family} shows it: {record}");
            let holders: Vec<_> = decoded
                .resources
                .iter()
                .filter(|r| String::from_utf8_lossy(&r.payload).contains(PREFIX))
                .collect();
            wrong.extend(
                holders
                    .iter()
                    .filter(|r| r.issuer != Issuer::Synthetic)
                    .map(|r| format!("{family}: {body}: {} is {:?}", r.schema, r.issuer)),
            );
            // Even who could see everything sends it to nobody.
            for target in families() {
                let target_codec = codec_of(target).unwrap();
                let context = EncodeContext {
                    private: Arc::new(Everything::of(&decoded.resources)),
                    ..EncodeContext::plain(Capabilities::of(target_codec.capabilities()))
                };
                let sent = target_codec.encode_request(&decoded.unified, &context).unwrap().body;
                if sent.contains(PREFIX) {
                    wrong.push(format!("{family} to {target}: {sent}"));
                }
            }
        }
        // A provider that answers with one has not made it.
        let mut answer = answers()[0].1.clone();
        answer["content"][0]["signature"] = json!(signature);
        let (_, resources) = read(codec("anthropic-messages").as_ref(), &answer);
        wrong.extend(
            resources
                .iter()
                .filter(|r| r.payload.starts_with(PREFIX.as_bytes()) && r.issuer != Issuer::Synthetic)
                .map(|r| format!("answer: {}", r.schema)),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn state_that_a_client_presents_is_neither_the_providers_nor_synthetic() {
    throughline_format::clause!("REAS-03");
    for (family, body) in presenting("c2lnbmF0dXJlLW9mLXNvbWVib2R5") {
        let decoded = codec(family)
            .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap();
        let holders: Vec<_> = decoded
            .resources
            .iter()
            .filter(|r| String::from_utf8_lossy(&r.payload).contains("c2lnbmF0dXJlLW9mLXNvbWVib2R5"))
            .collect();
        assert!(!holders.is_empty(), "{family} loses it: {body}");
        for holder in holders {
            assert_eq!(holder.issuer, Issuer::ClientAsserted, "{family}: {}: {body}", holder.schema);
        }
        // Nobody vouches for it, so a target that sees no private state gets none of it.
        for target in families() {
            let target = codec_of(target).unwrap();
            let context = EncodeContext::plain(Capabilities::of(target.capabilities()));
            let sent = target.encode_request(&decoded.unified, &context).unwrap().body;
            assert!(!sent.contains("c2lnbmF0dXJlLW9mLXNvbWVib2R5"), "{family}: {sent}");
        }
    }
}

#[test]
fn a_client_that_needs_a_signature_is_shown_one_that_says_what_it_is() {
    throughline_format::clause!("REAS-03");
    let (result, _) = read(codec("openai-chat").as_ref(), &answers()[1].1);
    for family in families() {
        let codec = codec_of(family).unwrap();
        let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
        let body: Value = serde_json::from_str(&codec.encode_response(&result, &context).unwrap().body).unwrap();
        let (shown, _) = of_wire(&body);
        let is_needed = family.as_str() == "anthropic-messages";
        assert_eq!(!shown.is_empty(), is_needed, "{family}: {body}");
        assert!(shown.iter().all(|signature| signature.starts_with(PREFIX)), "{family}: {shown:?}");
    }
}
