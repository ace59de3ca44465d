//! Bodies for Anthropic from whatever a history holds: legal, growing at the end only, every repair told.

use super::*;
use std::collections::BTreeSet;

/// The messages of a body, the losses by path.
fn messages(members: &Value, context: &EncodeContext) -> (Vec<Value>, BTreeSet<String>) {
    let (body, losses) = encode(&decode(&request(members)), context);
    let list = body["messages"].as_array().unwrap().clone();
    (list, losses.into_iter().map(|(path, _)| path).collect())
}

/// A history of that provider that another owner gets becomes these messages, with entries at these places.
fn check(history: Value, expected: Value, told: &[&str]) {
    let (list, losses) = messages(&json!({"messages": history}), &stranger());
    assert_eq!(json!(list), expected, "{losses:?}");
    for path in told {
        assert!(losses.iter().any(|l| l.starts_with(path)), "{path} is not told: {losses:?}");
    }
}

fn user(text: &str) -> Value {
    json!({"role": "user", "content": [{"type": "text", "text": text}]})
}

fn said(text: &str) -> Value {
    json!({"role": "assistant", "content": [{"type": "text", "text": text}]})
}

#[test]
fn torn_histories() {
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}});
    let result = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"});
    let stand_in = json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": "The call was interrupted; there is no result.", "is_error": true});
    let with = |role: &str, blocks: Value| json!({"role": role, "content": blocks});
    check(
        json!([user("a"), with("assistant", json!([call])), user("b")]),
        json!([
            user("a"),
            with("assistant", json!([call])),
            with("user", json!([stand_in, {"type": "text", "text": "b"}]))
        ]),
        &["/conversation/items/1"],
    );
    let orphan =
        json!([{"type": "text", "text": "a"}, {"type": "text", "text": "Result of an earlier tool call:"}, {"type": "text", "text": "r"}]);
    check(
        json!([with("user", json!([{"type": "text", "text": "a"}, result]))]),
        json!([with("user", orphan)]),
        &["/conversation/items/1"],
    );
    check(
        json!([said("a"), user("b")]),
        json!([user("Continue."), said("a"), user("b")]),
        &["/conversation/items"],
    );
    let late = json!([
        user("a"),
        with("assistant", json!([call])),
        with("user", json!([{"type": "text", "text": "b"}, result]))
    ]);
    check(
        late,
        json!([
            user("a"),
            with("assistant", json!([call])),
            with("user", json!([result, {"type": "text", "text": "b"}]))
        ]),
        &[],
    );
    let picture = json!({"type": "image", "source": {"type": "url", "url": "https://a.example/p.png"}});
    let failed = |content: Value| json!({"type": "tool_result", "tool_use_id": "toolu_1", "content": content, "is_error": true});
    let said_it = json!([{"type": "text", "text": "failed"}]);
    let shown = json!([{"type": "text", "text": "failed"}, picture]);
    check(
        json!([
            user("a"),
            with("assistant", json!([call])),
            with("user", json!([failed(shown), {"type": "text", "text": "b"}]))
        ]),
        json!([
            user("a"),
            with("assistant", json!([call])),
            with("user", json!([failed(said_it), picture, {"type": "text", "text": "b"}]))
        ]),
        &["/conversation/items/2"],
    );
    let hosted = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}});
    check(
        json!([user("a"), with("assistant", json!([hosted])), user("b")]),
        json!([user("a"), said("[Call of the tool web_search: {\"query\":\"q\"}]"), user("b")]),
        &["/conversation/items/1"],
    );
    let code = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "1"}});
    check(
        json!([user("a"), with("assistant", json!([code])), user("b")]),
        json!([user("a"), said("[Executed (python):\n1]"), user("b")]),
        &["/conversation/items/1"],
    );
    // A turn that goes on keeps the call that waits.
    check(
        json!([user("a"), with("assistant", json!([hosted]))]),
        json!([user("a"), with("assistant", json!([hosted]))]),
        &[],
    );
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "x"}]});
    let words = json!([
        user("a"),
        with(
            "assistant",
            json!([{"type": "text", "text": "[Call of the tool web_search: {\"query\":\"q\"}]"}, {"type": "text", "text": "[Found:\nq\nA\nhttps://a.example]"}])
        ),
        user("b")
    ]);
    check(
        json!([user("a"), with("assistant", json!([hosted, found])), user("b")]),
        words,
        &["/conversation/items/1", "/conversation/items/2"],
    );
    let addition = json!({"type": "tool_addition", "tool": {"type": "tool_reference", "tool_name": "f"}});
    let body = request(&json!({"messages": [with("system", json!([addition])), user("b")]}));
    let decoded = decode(&body);
    let (own, losses) = encode(&decoded, &owner(&decoded.resources));
    assert_eq!(own["messages"], json!([user("b")]), "{losses:?}");
}

#[test]
fn citations_into_all_documents_or_none() {
    let document = |on: bool| json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}, "citations": {"enabled": on}});
    let plain = json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}});
    let said_of = |blocks: Value| json!([{"role": "user", "content": blocks}]);
    check(
        said_of(json!([document(true), document(false), plain])),
        said_of(json!([document(true), document(true), document(true)])),
        &["/conversation/items/0/parts/1", "/conversation/items/0/parts/2"],
    );
    check(
        said_of(json!([document(false), plain])),
        said_of(json!([document(false), plain])),
        &[],
    );
    let schema = json!({"type": "object", "properties": {}, "additionalProperties": false});
    let format =
        json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}, "messages": said_of(json!([document(true)]))});
    let (list, losses) = messages(&format, &stranger());
    assert_eq!(list[0]["content"], json!([document(false)]));
    assert!(losses.contains("/conversation/items/0/parts/0"), "{losses:?}");
}

#[test]
fn a_result_alone_is_told_in_words_to_its_owner_too() {
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "x"}]});
    let decoded = decode(&request(
        &json!({"messages": [user("a"), {"role": "assistant", "content": [found]}, user("b")]}),
    ));
    let (own, losses) = encode(&decoded, &owner(&decoded.resources));
    assert_eq!(
        own["messages"],
        json!([user("a"), said("[Found:\nA\nhttps://a.example]"), user("b")])
    );
    assert!(losses.contains(&("/conversation/items/1".into(), "warning".into())), "{losses:?}");
}

#[test]
fn foreign_ids_are_mapped_one_to_one() {
    let ids = ["functions.x:0", "functions_x_0", "call|fc", "call_fc", "é", "e"];
    let calls: Vec<_> = ids
        .iter()
        .map(|id| json!({"type": "tool_use", "id": id, "name": "f", "input": {}}))
        .collect();
    let results: Vec<_> = ids
        .iter()
        .map(|id| json!({"type": "tool_result", "tool_use_id": id, "content": *id}))
        .collect();
    let history = json!([user("a"), {"role": "assistant", "content": calls}, {"role": "user", "content": results}]);
    let (list, losses) = messages(&json!({"messages": history}), &stranger());
    let mut seen = BTreeSet::new();
    for (n, id) in ids.iter().enumerate() {
        let wire = list[1]["content"][n]["id"].as_str().unwrap();
        assert!(
            wire.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-') && wire.len() <= 64,
            "{wire}"
        );
        assert!(seen.insert(wire.to_owned()), "{wire} stands for two");
        let result = &list[2]["content"][n];
        assert_eq!(
            (result["tool_use_id"].as_str(), result["content"].as_str()),
            (Some(wire), Some(*id))
        );
        assert_eq!(
            losses.contains(&format!("/conversation/items/{}", n + 1)),
            wire != *id,
            "{id}: {losses:?}"
        );
    }
    assert_eq!(messages(&json!({"messages": history}), &stranger()).0, list, "twice the same");
}

#[test]
fn an_answer_is_never_begun_where_thinking_is_on() {
    let thinking = json!({"thinking": {"type": "enabled", "budget_tokens": 2000}, "messages": [user("a"), said("b")]});
    let decoded = decode(&request(&thinking));
    let (body, losses) = encode(&decoded, &owner(&decoded.resources));
    assert_eq!(body["messages"], json!([user("a"), said("b"), user("Continue.")]));
    assert!(
        losses.contains(&("/conversation/items/1/parts/0".into(), "warning".into())),
        "{losses:?}"
    );
}

/// A long history with everything that could move a block.
fn long_history() -> Vec<Value> {
    let mut list = Vec::new();
    for turn in 0..12 {
        let text = |what: &str| json!({"type": "text", "text": format!("{what} {turn}")});
        let id = format!("toolu.{turn}");
        let hosted = format!("srvtoolu_{turn}");
        let image = json!({"type": "image", "source": {"type": "url", "url": "https://a.example/i.png"}});
        list.push(json!({"role": "user", "content": [text("ask"), image]}));
        list.push(json!({"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "server_tool_use", "id": hosted, "name": "web_search", "input": {"query": "q"}},
            {"type": "web_search_tool_result", "tool_use_id": hosted, "content": [{"type": "web_search_result", "url": "https://a.example", "title": "A", "encrypted_content": "x"}]},
            text("look"),
            {"type": "tool_use", "id": id, "name": "f", "input": {"n": turn}}
        ]}));
        list.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "r"}, text("and")]}));
        list.push(json!({"role": "assistant", "content": [text("answer")]}));
        if turn % 3 == 0 {
            list.push(json!({"role": "user", "content": [text("more")]}));
            list.push(json!({"role": "system", "content": [text("be brief")]}));
            list.push(json!({"role": "assistant", "content": [text("yes")]}));
        }
    }
    list
}

/// All blocks with the role that says them.
fn blocks(list: &[Value]) -> Vec<(String, Value)> {
    let of = |message: &Value| {
        let role = message["role"].as_str().unwrap().to_owned();
        message["content"]
            .as_array()
            .unwrap()
            .iter()
            .map(move |block| (role.clone(), block.clone()))
            .collect::<Vec<_>>()
    };
    list.iter().flat_map(of).collect()
}

#[test]
fn every_prefix_of_a_long_history_only_grows() {
    let history = long_history();
    let whole = decode(&request(&json!({"messages": history})));
    for own in [true, false] {
        let context = if own { owner(&whole.resources) } else { stranger() };
        let mut before: Vec<(String, Value)> = Vec::new();
        for end in 1..=history.len() {
            let user_is_next = history.get(end).is_none_or(|next| next["role"] == "assistant");
            if !user_is_next {
                continue;
            }
            let (list, _) = messages(&json!({"messages": history[..end]}), &context);
            let now = blocks(&list);
            assert!(now.len() > before.len(), "nothing is added at message {end}");
            assert_eq!(now[..before.len()], before[..], "an earlier block moved at message {end}");
            before = now;
        }
        assert!(before.len() > 80, "{}", before.len());
    }
}
