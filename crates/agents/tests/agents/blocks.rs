//! The flat block view: blocks of a journal, a journal of blocks, and the way back.

use crate::support::{read, said, write, write_form};
use proptest::prelude::*;
use serde_json::{Value, json};
use throughline_agents::Transcript;
use throughline_agents::blocks::embeds::{Piece, escape, reference, split};
use throughline_agents::blocks::{SnaBlock, blocks_of};
use throughline_protocols::anthropic_messages::AnthropicMessages;
use throughline_protocols::{Codec as _, DecodeContext};

fn blocks(transcript: &Transcript) -> Vec<Value> {
    serde_json::from_str(&write("sna-blocks", transcript).files[0].content).unwrap()
}

/// Reads blocks and drops what was kept of them, so that only the journal speaks.
fn journal(blocks: &[Value]) -> Transcript {
    let mut transcript = read("sna-blocks", "s.blocks.json", json!(blocks).to_string());
    transcript.records.clear();
    transcript
}

fn sna_row() -> impl Strategy<Value = Value> {
    // Texts that try the grammar of references.
    let text = prop_oneof![
        "[a-z !\\[\\]()\\\\]{0,12}",
        Just("![x](embed://e1)".to_owned()),
        Just("a !\\[x](embed://e1) b".to_owned()),
        Just("before ![pic](embed://e1) after ![none](embed://e2)".to_owned()),
    ];
    let kind = prop_oneof![
        Just(("user", "text", json!({}))),
        Just(("assistant", "text", json!({}))),
        Just(("assistant", "thinking", json!({"signature": "U0lH"}))),
        Just(("assistant", "thinking", Value::Null)),
        Just(("assistant", "tool_use", json!({"id": "t1", "input": {"a": 1.50}, "name": "x"}))),
        Just(("system", "tool_result", json!({"toolUseId": "t1", "isError": false}))),
        Just(("system", "status", json!({"usage": {"inputTokens": 3}, "durationMs": 5}))),
        Just(("system", "error", Value::Null)),
    ];
    let told = prop_oneof![Just(Value::Null), Just(json!("claude-code")), Just(json!("codex"))];
    (text, kind, told).prop_map(|(text, (actor, kind, meta), provider)| {
        let content = if kind == "tool_use" { "Bash".to_owned() } else { text };
        json!({
            "actor": actor, "kind": kind, "content": content, "meta": meta, "provider": provider, "modelProvider": null, "model": "m",
            "embeds": {"e1": {"mime_type": "image/png", "path": "e1.png"}}, "created_at": "2026-03-01T10:00:00.000Z", "unknown": [1],
        })
    })
}

proptest! {
    #[test]
    fn text_and_references_never_run_into_one_another(texts in proptest::collection::vec("[a !\\[\\]()\\\\:/embed]{0,24}", 1..4), name in "[a-z]{0,4}") {
        throughline_format::clause!("SNA-02");
        let content: String = texts.iter().map(|text| escape(text) + &reference(&name, "id.p0")).collect();
        let mut expected = Vec::new();
        for text in &texts {
            if !text.is_empty() {
                expected.push(Piece::Text(text.clone()));
            }
            expected.push(Piece::Reference { name: name.clone(), id: "id.p0".to_owned() });
        }
        prop_assert_eq!(split(&content), expected);
    }

    #[test]
    fn blocks_of_another_writer_come_back_as_they_were(rows in proptest::collection::vec(sna_row(), 1..12)) {
        throughline_format::clause!("SNA-01");
        let rows: Vec<Value> = rows.into_iter().enumerate().map(|(n, mut row)| { row["id"] = json!(n); row }).collect();
        let transcript = read("sna-blocks", "s.json", json!(rows).to_string());
        // Blocks to journal to blocks.
        prop_assert_eq!(blocks(&transcript), rows);
        // What the journal alone says of them is a view that stays the same.
        let view = blocks_of(&transcript.items);
        let alone = journal(&serde_json::to_value(&view).unwrap().as_array().unwrap().clone());
        prop_assert_eq!(blocks_of(&alone.items), view);
    }
}

/// A session of every kind of item.
fn session() -> Transcript {
    let line = |n: u32, role: &str, model: &str, content: Value| {
        let parent = if n == 0 { Value::Null } else { json!(format!("l{}", n - 1)) };
        json!({"type": role, "uuid": format!("l{n}"), "parentUuid": parent, "timestamp": format!("2026-03-01T10:00:{n:02}.000Z"), "message": {"role": role, "content": content, "id": format!("m{n}"), "model": model}}).to_string() + "\n"
    };
    let picture = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let text = [
        line(0, "user", "", json!([{"type": "text", "text": "see ![x](embed://y)"}, picture])),
        line(
            1,
            "assistant",
            "claude-a",
            json!([{"type": "thinking", "thinking": "hm", "signature": "PRIVATE"}]),
        ),
        line(
            2,
            "assistant",
            "claude-a",
            json!([{"type": "redacted_thinking", "data": "PRIVATE"}]),
        ),
        line(
            3,
            "assistant",
            "claude-a",
            json!([{"type": "tool_use", "id": "t1", "name": "Read", "input": {"a": 1.50}}]),
        ),
        line(
            4,
            "user",
            "",
            json!([{"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "one"}, picture], "is_error": true}]),
        ),
        line(
            5,
            "assistant",
            "claude-a",
            json!([{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q"}}]),
        ),
        line(6, "assistant", "claude-b", json!([{"type": "text", "text": "done"}])),
    ];
    read("claude-code", "s.jsonl", text.concat())
}

#[test]
fn a_journal_of_its_blocks_gives_the_same_blocks() {
    throughline_format::clause!("SNA-01");
    let transcript = session();
    let view = blocks(&transcript);
    let again = journal(&view);
    assert_eq!(blocks(&again), view);
    assert_eq!(said(&again.items), said(&transcript.items));
    let kinds: Vec<String> = view
        .iter()
        .map(|block| format!("{}/{}", block["actor"].as_str().unwrap(), block["kind"].as_str().unwrap()))
        .collect();
    let expected = [
        "user/text",
        "user/text",
        "assistant/thinking",
        "assistant/thinking",
        "assistant/tool_use",
        "system/tool_result",
        "system/tool_result",
        "assistant/tool_use",
        "assistant/text",
    ];
    assert_eq!(kinds, expected);
    assert!(!json!(view).to_string().contains("PRIVATE"), "no signature stands in a block");
    // Native shapes are made on demand, of the journal: of the blocks alone as of the session itself.
    for target in ["claude-code", "codex", "gemini-cli"] {
        let spoken = |transcript: &Transcript| {
            let written = write(target, transcript);
            said(&read(target, "rollout-2026-03-01T10-00-00-x.jsonl", &written.files[0].content).items)
        };
        let mut plain = transcript.clone();
        (plain.records, plain.resources) = (Vec::new(), Vec::new());
        assert_eq!(spoken(&again), spoken(&plain), "{target}");
    }
}

#[test]
fn media_are_embeds_and_text_that_looks_so_is_escaped() {
    throughline_format::clause!("SNA-02");
    let view = blocks(&session());
    assert_eq!(view[0]["content"], "see !\\[x](embed://y)");
    assert!(view[0].get("embeds").is_none());
    let id = view[1]["partId"].as_str().unwrap();
    assert_eq!(view[1]["content"], format!("![](embed://{id})"));
    let embed = &view[1]["embeds"][id];
    assert_eq!(
        (embed["mimeType"].as_str(), embed["data"].as_str()),
        (Some("image/png"), Some("iVBORw0KGgo="))
    );
    assert_eq!(embed["sha256"].as_str().unwrap().len(), 64);
}

#[test]
fn every_block_tells_runtime_vendor_and_model_or_null() {
    throughline_format::clause!("SNA-06");
    let told = |transcript: &Transcript| -> Vec<[Value; 3]> {
        blocks(transcript)
            .iter()
            .map(|block| ["provider", "modelProvider", "model"].map(|key| block.get(key).cloned().expect("the member is there")))
            .collect()
    };
    // A change of the model in mid-thread shows in the rows from there on, and not before.
    let claude = |model: &str| [json!("claude-code"), json!("anthropic"), json!(model)];
    let rows = told(&session());
    assert_eq!(rows[..8].iter().collect::<Vec<_>>(), vec![&claude("claude-a"); 8]);
    assert_eq!(rows[8], claude("claude-b"));
    let nobody = |runtime: &str| [json!(runtime), Value::Null, Value::Null];
    let item = |text: &str| {
        json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}}).to_string() + "\n"
    };
    let context =
        json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "turn_context", "payload": {"model": "gpt-x"}}).to_string() + "\n";
    let head = |provider: &str| {
        json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "session_meta", "payload": {"id": "s", "model_provider": provider}})
            .to_string()
            + "\n"
    };
    let codex = |provider: &str| told(&read("codex", "r.jsonl", head(provider) + &item("one") + &context + &item("two")));
    assert_eq!(
        codex("mine"),
        [nobody("codex"), [json!("codex"), Value::Null, json!("gpt-x")]],
        "a name of the user's own is no vendor"
    );
    assert_eq!(codex("openai")[1], [json!("codex"), json!("openai"), json!("gpt-x")]);
    let opencode = |provider: &str| {
        let message = json!({"info": {"id": "msg_1", "role": "user", "model": {"providerID": provider, "modelID": "m"}}, "parts": [{"type": "text", "text": "hi"}]});
        told(&read(
            "opencode",
            "s.json",
            json!({"info": {"id": "ses_1"}, "messages": [message]}).to_string(),
        ))
    };
    assert_eq!(opencode("anthropic"), [[json!("opencode"), json!("anthropic"), json!("m")]]);
    assert_eq!(opencode("openrouter"), [[json!("opencode"), Value::Null, json!("m")]]);
    let gemini = json!({"sessionId": "s", "messages": [{"id": "1", "type": "user", "content": "hi"}, {"id": "2", "type": "gemini", "content": "yo", "model": "gemini-x"}, {"id": "3", "type": "user", "content": "bye"}]});
    let google = [json!("gemini-cli"), json!("google"), json!("gemini-x")];
    assert_eq!(
        told(&read("gemini-cli", "s.json", gemini.to_string())),
        [google.clone(), google, nobody("gemini-cli")]
    );
    // What a client of the API asserts tells neither runtime nor vendor.
    let body = br#"{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}"#;
    let items = AnthropicMessages
        .decode_request(body, &DecodeContext::offline())
        .unwrap()
        .unified
        .conversation
        .items;
    let client: Vec<SnaBlock> = blocks_of(&items);
    assert_eq!(
        (&client[0].provider, &client[0].model_provider, &client[0].model),
        (&None, &None, &None)
    );
}

#[test]
fn rows_and_statements_hold_the_same_blocks() {
    let transcript = session();
    let rows = write_form("sna-blocks", &transcript, "rows");
    let again = read("sna-blocks", "s.rows.jsonl", &rows.files[0].content);
    assert_eq!(said(&again.items), said(&transcript.items));
    let mut plain = again.clone();
    plain.records.clear();
    assert_eq!(blocks(&plain), blocks(&transcript));
    let sql = &write_form("sna-blocks", &transcript, "sql").files[0].content;
    assert_eq!(sql.matches("INSERT INTO chat_messages").count(), blocks(&transcript).len());
    assert!(sql.starts_with("PRAGMA") && sql.ends_with("COMMIT;\n"));
}

#[test]
fn old_rows_with_a_role_alone_are_read() {
    let rows = json!([
        {"id": 1, "role": "user", "content": "hi", "created_at": "2026-03-01T10:00:00Z"},
        {"id": 2, "role": "thinking", "content": "hm"},
        {"id": 3, "role": "tool", "content": "Bash", "meta": "{\"id\":\"t1\",\"input\":{}}"},
        {"id": 4, "role": "tool_result", "content": "ok", "meta": {"toolUseId": "t1", "isError": true}},
        {"id": 5, "role": "error", "content": "it failed"},
        {"id": 6, "role": "assistant", "content": "done"},
    ]);
    let transcript = read("sna-blocks", "s.json", rows.to_string());
    assert_eq!(
        said(&transcript.items),
        ["user: hi", "thinking: hm", "call: Bash", "failed: ok", "error", "assistant: done"]
    );
}
