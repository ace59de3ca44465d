//! Checks that no case of `conformance/cases` can make true and false alike: the product would have to be wrong, or to read
//! transcripts. Each has evidence of its own here.

use crate::checks::evaluate;
use crate::evidence::Evidence;
use crate::report::Verdict;
use serde_json::{Value, json};
use std::collections::BTreeMap;

fn holds(evidence: &Evidence<'_>, check: &Value) -> bool {
    match evaluate(check, evidence) {
        Verdict::Pass => true,
        Verdict::Fail(_) => false,
        Verdict::NotRun(why) => panic!("{check} was not run: {why}"),
    }
}

#[test]
fn what_the_product_does_again_is_compared() {
    let evidence = |same: bool| Evidence {
        output: Some(json!(1)),
        repeat: Some(Box::new(move || Ok(Some(json!(if same { 1 } else { 2 }))))),
        replay: Some(Box::new(move || Ok((!same).then(|| "it changed".to_owned())))),
        roundtrip: Some(Box::new(move || Ok((!same).then(|| "it changed".to_owned())))),
        chunkings: Some(Box::new(move || {
            let last = if same { "a" } else { "b" };
            Ok(BTreeMap::from([
                ("1".to_owned(), "a".to_owned()),
                ("7".to_owned(), last.to_owned()),
            ]))
        })),
        ..Evidence::default()
    };
    for check in [
        json!({"repeatable": true}),
        json!({"replay": "idempotent"}),
        json!({"roundtrip": "store"}),
        json!({"chunking": "invariant"}),
    ] {
        assert!(holds(&evidence(true), &check), "{check}");
        assert!(!holds(&evidence(false), &check), "{check}");
    }
}

#[test]
fn transcripts_are_compared_by_their_leaves_usage_attribution_and_warnings() {
    let evidence = Evidence {
        canonical: Some(json!({
            "leaves": [["text", "a"], ["tool-call", "look"], ["text", "a"]], "usage_sum": {"output_total": 3, "cache_read": null},
            "attribution": [{"provider": "r", "model": "m"}, {"provider": "r", "model": "m"}], "warnings": 1, "last_call_state": "cancelled",
        })),
        ..Evidence::default()
    };
    for (check, expected) in [
        (
            json!({"canonical": {"leaves": [["text", "*"], ["tool-call", "look"], ["text", "a"]]}}),
            true,
        ),
        (json!({"canonical": {"leaves": [["text", "a"]]}}), false),
        (json!({"canonical": {"usage_sum": {"output_total": 3, "cache_read": null}}}), true),
        (json!({"canonical": {"usage_sum": {"cache_read": 0}}}), false),
        (json!({"canonical": {"attribution": {"provider": "r"}}}), true),
        (json!({"canonical": {"attribution": {"provider": "s"}}}), false),
        (json!({"canonical": {"warnings_at_least": 1}}), true),
        (json!({"canonical": {"warnings_at_least": 2}}), false),
        (json!({"canonical": {"last_call_state": "cancelled"}}), true),
        (json!({"canonical": {"last_call_state": "output-ready"}}), false),
        (json!({"text_count": {"text": "a", "equals": 2}}), true),
        (json!({"text_count": {"text": "a", "equals": 1}}), false),
    ] {
        assert_eq!(holds(&evidence, &check), expected, "{check}");
    }
}

#[test]
fn invariants_tell_legal_output_from_broken_output() {
    let user = |content: Value| json!({"role": "user", "content": content});
    let assistant = |content: Value| json!({"role": "assistant", "content": content});
    let (call, result) = (
        json!({"type": "tool_use", "id": "a"}),
        json!({"type": "tool_result", "tool_use_id": "a"}),
    );
    let messages = |list: &[Value]| json!({"messages": list});
    let chat = |answers: &[&str]| {
        let mut list = vec![json!({"role": "assistant", "tool_calls": [{"id": "a"}, {"id": "b"}]})];
        list.extend(answers.iter().map(|id| json!({"role": "tool", "tool_call_id": id})));
        json!({"messages": list})
    };
    let item = |kind: &str| json!({"type": kind, "call_id": "a"});
    let start = json!({"type": "message_start"});
    let block = |kind: &str, index: u64| json!({"type": format!("content_block_{kind}"), "index": index});
    let end = [
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
        json!({"type": "message_stop"}),
    ];
    let framed = |middle: Vec<Value>| Value::Array([vec![start.clone()], middle, end.to_vec()].concat());
    let line = |uuid: &str, parent: &str| json!({"uuid": uuid, "parentUuid": parent});
    for (name, output, expected) in [
        (
            "anthropic-tool-pairing",
            messages(&[assistant(json!([call])), user(json!([result]))]),
            true,
        ),
        ("anthropic-tool-pairing", messages(&[assistant(json!([call]))]), false),
        (
            "anthropic-tool-pairing",
            messages(&[assistant(json!([call])), user(json!([]))]),
            false,
        ),
        ("anthropic-tool-pairing", messages(&[user(json!([result]))]), false),
        (
            "anthropic-tool-pairing",
            messages(&[assistant(json!([call])), user(json!([{"type": "text"}, result]))]),
            false,
        ),
        (
            "anthropic-tool-pairing",
            messages(&[assistant(json!([call, call])), user(json!([result, result]))]),
            false,
        ),
        (
            "anthropic-role-alternation",
            messages(&[user(json!("x")), assistant(json!("y"))]),
            true,
        ),
        ("anthropic-role-alternation", messages(&[assistant(json!("y"))]), false),
        ("anthropic-role-alternation", messages(&[user(json!("x")), user(json!("y"))]), false),
        ("chat-tool-pairing", chat(&["b", "a"]), true),
        ("chat-tool-pairing", chat(&["a"]), false),
        ("chat-tool-pairing", chat(&["a", "b", "c"]), false),
        (
            "responses-tool-pairing",
            json!({"input": [item("function_call"), item("function_call_output")]}),
            true,
        ),
        (
            "responses-tool-pairing",
            json!([item("function_call_output"), item("function_call")]),
            false,
        ),
        (
            "responses-tool-pairing",
            json!([item("function_call"), item("custom_tool_call_output")]),
            false,
        ),
        (
            "responses-reasoning-follower",
            json!([{"type": "reasoning"}, {"type": "reasoning"}, item("function_call")]),
            true,
        ),
        ("responses-reasoning-follower", json!([{"type": "reasoning"}]), false),
        (
            "responses-reasoning-follower",
            json!([{"type": "reasoning"}, {"type": "message", "role": "user"}]),
            false,
        ),
        (
            "anthropic-block-framing",
            framed(vec![block("start", 0), block("delta", 0), block("stop", 0)]),
            true,
        ),
        ("anthropic-block-framing", framed(vec![block("start", 1), block("stop", 1)]), false),
        ("anthropic-block-framing", framed(vec![block("start", 0)]), false),
        ("anthropic-block-framing", framed(vec![block("delta", 0)]), false),
        ("anthropic-block-framing", json!([start]), false),
        ("anthropic-block-framing", json!([start, {"type": "error"}]), true),
        (
            "anthropic-block-framing",
            json!([start, {"type": "error"}, {"type": "message_stop"}]),
            false,
        ),
    ] {
        let evidence = Evidence {
            output: Some(output.clone()),
            ..Evidence::default()
        };
        assert_eq!(holds(&evidence, &json!({"invariant": name})), expected, "{name} {output}");
    }
    for (second, expected) in [(line("b", "a"), true), (line("b", "x"), false)] {
        let evidence = Evidence {
            output: Some(json!([line("a", ""), {"type": "summary"}, second])),
            ..Evidence::default()
        };
        assert_eq!(holds(&evidence, &json!({"parents": "single-line"})), expected);
    }
}

#[test]
fn citations_and_reasoning_are_seen_through_their_neutral_names() {
    let part = json!({"kind": "text", "text": "blue", "annotations": [{"kind": "citation", "quotedText": "a blue lid",
        "source": {"title": "List", "uri": "https://example.test", "documentIndex": 1}, "queries": ["lid"],
        "spans": [{"of": "source", "start": 2, "end": 9, "unit": "code-point"}]}]});
    let hidden = json!({"kind": "reasoning", "text": "", "state": "redacted"});
    let shown = json!({"kind": "reasoning", "text": "Why", "state": "disclosed"});
    let refusal = json!({"kind": "refusal", "text": "No."});
    let evidence = Evidence {
        unified: Some(json!({"status": {"state": "completed", "finishReason": "refusal"}, "output": [
            {"kind": "reasoning", "parts": [hidden, shown]}, {"kind": "message", "role": "assistant", "parts": [part, refusal]}],
            "error": {"category": "server", "code": "server.x", "providerCode": "boom", "retryable": true}})),
        ..Evidence::default()
    };
    for (fold, expected) in [
        (
            json!({"citations": [{"title": "List", "quote": "a blue lid", "unit": "char", "start": 2, "end": 9, "document_index": 1}]}),
            true,
        ),
        (json!({"citations": [{"unit": "page"}]}), false),
        (json!({"citations": []}), false),
        (json!({"citation_count": 1, "search_queries": ["lid"]}), true),
        (
            json!({"reasoning_text": "Why", "reasoning_texts": ["", "Why"], "redacted_markers": 1}),
            true,
        ),
        (json!({"redacted_markers": 2}), false),
        (json!({"refusal_text": "No.", "finish": "refusal"}), true),
        (json!({"refusal_text": "Yes."}), false),
        (
            json!({"error": {"present": true, "provider_code": "boom", "http_status": null, "retryable": true}}),
            true,
        ),
        (json!({"error": {"provider_code": "bang"}}), false),
    ] {
        assert_eq!(holds(&evidence, &json!({"fold": fold})), expected, "{fold}");
    }
}
