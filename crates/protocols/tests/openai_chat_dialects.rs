//! Every dialect of Chat Completions: what it carries, spells in another way and refuses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod openai_chat_support;

use openai_chat_support::*;
use serde_json::{Value, json};
use throughline_format::ProtocolFamily;
use throughline_format::UnifiedRequestV2;
use throughline_format::json::decode_slice;
use throughline_protocols::openai_chat::OpenAiChat;
use throughline_protocols::{Codec, DecodeContext, EncodeContext};

/// A request of another protocol with more members of its record.
fn request(more: &Value) -> UnifiedRequestV2 {
    let mut record =
        serde_json::to_value(decode_request(&json!({"model": "m", "messages": [{"role": "user", "content": "q"}]})).unified).unwrap();
    record["source"]["profile"]["family"] = json!("gemini-generate-content");
    record["conversation"]["items"][0]["provenance"]["profile"]["family"] = json!("gemini-generate-content");
    for (key, value) in more.as_object().unwrap() {
        record[key] = value.clone();
    }
    decode_slice(record.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e:?} in {record}"))
}

fn context(dialect: &str) -> EncodeContext {
    EncodeContext {
        dialect: Some(dialect.to_owned()),
        ..encode_context(None)
    }
}

fn intent(value: &Value) -> Value {
    json!({"value": value, "requirement": "preferred"})
}

/// A dialect's body has these values (`null`: no such member), and its report names these features.
fn check_request(dialect: &str, request: &UnifiedRequestV2, stream: bool, expected: &[(&str, Value)], features: &[&str]) {
    let (body, losses) = encode_request(
        request,
        &EncodeContext {
            stream,
            ..context(dialect)
        },
    );
    for (pointer, value) in expected {
        let found = body.pointer(pointer).cloned().unwrap_or(Value::Null);
        assert_eq!(without_nulls(&found), without_nulls(value), "{dialect} {pointer} in {body}");
    }
    for feature in features {
        assert!(losses.iter().any(|(_, f)| f == feature), "{dialect}: {feature} in {losses:?}");
    }
}

fn check_generation(dialect: &str, generation: &Value, expected: &[(&str, Value)], features: &[&str]) {
    check_request(dialect, &request(&json!({"generation": generation})), false, expected, features);
}

/// A history of a Chat client with private members of its dialect, as its own provider gets it.
fn check_messages(dialect: &str, messages: &Value, expected: &[(&str, Value)], features: &[&str]) {
    let mut decode = DecodeContext::offline();
    decode.dialect = Some(dialect.to_owned());
    let body = json!({"model": "m", "messages": messages});
    let decoded = OpenAiChat.decode_request(body.to_string().as_bytes(), &decode).unwrap();
    let own = EncodeContext {
        dialect: Some(dialect.to_owned()),
        ..encode_context(Some(&decoded.resources))
    };
    let (again, losses) = encode_request(&decoded.unified, &own);
    for (pointer, value) in expected {
        let found = again.pointer(pointer).cloned().unwrap_or(Value::Null);
        assert_eq!(without_nulls(&found), without_nulls(value), "{dialect} {pointer} in {again}");
    }
    for feature in features {
        assert!(losses.iter().any(|(_, f)| f == feature), "{dialect}: {feature} in {losses:?}");
    }
}

const ALL: &[&str] = &[
    "openai",
    "azure",
    "deepseek",
    "openrouter",
    "groq",
    "mistral",
    "xai",
    "qwen",
    "kimi",
    "glm",
    "minimax",
    "vllm",
    "llama-cpp",
    "ollama",
];

#[test]
fn the_token_limit_has_the_name_that_the_dialect_knows() {
    let limit = json!({"maxOutputTokens": intent(&json!(9))});
    for dialect in ALL {
        let is_new = ["openai", "azure", "openrouter", "groq", "xai"].contains(dialect);
        let (here, there) = if is_new {
            ("/max_completion_tokens", "/max_tokens")
        } else {
            ("/max_tokens", "/max_completion_tokens")
        };
        check_generation(dialect, &limit, &[(here, json!(9)), (there, Value::Null)], &[]);
    }
}

/// Dialect, generation intents, members of the body and features of the report.
type Case<'a> = (&'a str, Value, &'a [(&'a str, Value)], &'a [&'a str]);

#[test]
fn reasoning_is_switched_by_the_members_of_the_dialect() {
    let mode = |word: &str| json!({"reasoning": {"mode": intent(&json!(word))}});
    let effort = |word: &str| json!({"reasoning": {"effort": intent(&json!(word))}});
    let budget = json!({"reasoning": {"budgetTokens": intent(&json!(2000))}});
    let cases: &[Case] = &[
        ("openai", effort("xhigh"), &[("/reasoning_effort", json!("xhigh"))], &[]),
        (
            "openai",
            mode("off"),
            &[("/reasoning_effort", Value::Null)],
            &["generation.reasoning.mode"],
        ),
        (
            "azure",
            budget.clone(),
            &[("/reasoning_effort", json!("low"))],
            &["generation.reasoning.budget"],
        ),
        ("deepseek", mode("off"), &[("/thinking", json!({"type": "disabled"}))], &[]),
        ("deepseek", mode("on"), &[("/thinking", json!({"type": "enabled"}))], &[]),
        (
            "deepseek",
            effort("medium"),
            &[("/reasoning_effort", json!("high")), ("/thinking/type", json!("enabled"))],
            &["generation.reasoning.effort"],
        ),
        (
            "openrouter",
            effort("high"),
            &[("/reasoning", json!({"effort": "high"})), ("/reasoning_effort", Value::Null)],
            &[],
        ),
        ("openrouter", budget.clone(), &[("/reasoning", json!({"max_tokens": 2000}))], &[]),
        ("openrouter", mode("off"), &[("/reasoning", json!({"enabled": false}))], &[]),
        (
            "openrouter",
            json!({"reasoning": {"mode": intent(&json!("on")), "summary": intent(&json!("none"))}}),
            &[("/reasoning", json!({"enabled": true, "exclude": true}))],
            &[],
        ),
        ("groq", mode("off"), &[("/reasoning_effort", json!("none"))], &[]),
        (
            "groq",
            effort("max"),
            &[("/reasoning_effort", json!("high"))],
            &["generation.reasoning.effort"],
        ),
        (
            "mistral",
            effort("high"),
            &[("/reasoning_effort", Value::Null)],
            &["generation.reasoning.effort"],
        ),
        (
            "xai",
            effort("medium"),
            &[("/reasoning_effort", json!("high"))],
            &["generation.reasoning.effort"],
        ),
        ("qwen", mode("off"), &[("/enable_thinking", json!(false))], &[]),
        (
            "qwen",
            budget.clone(),
            &[("/enable_thinking", json!(true)), ("/thinking_budget", json!(2000))],
            &[],
        ),
        (
            "qwen",
            effort("low"),
            &[("/enable_thinking", json!(true)), ("/reasoning_effort", Value::Null)],
            &["generation.reasoning.effort"],
        ),
        ("kimi", mode("off"), &[("/thinking", json!({"type": "disabled"}))], &[]),
        (
            "kimi",
            effort("low"),
            &[("/thinking/type", json!("enabled")), ("/reasoning_effort", Value::Null)],
            &["generation.reasoning.effort"],
        ),
        ("glm", mode("on"), &[("/thinking", json!({"type": "enabled"}))], &[]),
        ("minimax", mode("on"), &[("/thinking", json!({"type": "adaptive"}))], &[]),
        ("minimax", mode("off"), &[("/thinking", json!({"type": "disabled"}))], &[]),
        (
            "vllm",
            mode("off"),
            &[("/chat_template_kwargs", json!({"enable_thinking": false}))],
            &[],
        ),
        (
            "llama-cpp",
            mode("on"),
            &[("/chat_template_kwargs", json!({"enable_thinking": true}))],
            &[],
        ),
        ("ollama", mode("off"), &[("/reasoning_effort", json!("none"))], &[]),
        (
            "ollama",
            effort("minimal"),
            &[("/reasoning_effort", json!("low"))],
            &["generation.reasoning.effort"],
        ),
    ];
    for (dialect, generation, expected, features) in cases {
        check_generation(dialect, generation, expected, features);
    }
}

#[test]
fn samplers_go_where_the_dialect_has_them() {
    let samplers = json!({"topK": intent(&json!(4)), "minP": intent(&json!(0.1)), "repetitionPenalty": intent(&json!(1.1)), "seed": intent(&json!(5))});
    let none = &["generation.top_k", "generation.min_p", "generation.repetition_penalty"][..];
    check_generation("openai", &samplers, &[("/top_k", Value::Null), ("/seed", json!(5))], none);
    check_generation(
        "openrouter",
        &samplers,
        &[
            ("/top_k", json!(4)),
            ("/min_p", json!(0.1)),
            ("/repetition_penalty", json!(1.1)),
            ("/seed", json!(5)),
        ],
        &[],
    );
    check_generation(
        "vllm",
        &samplers,
        &[("/top_k", json!(4)), ("/min_p", json!(0.1)), ("/repetition_penalty", json!(1.1))],
        &[],
    );
    check_generation(
        "llama-cpp",
        &samplers,
        &[("/repeat_penalty", json!(1.1)), ("/repetition_penalty", Value::Null)],
        &[],
    );
    check_generation(
        "qwen",
        &samplers,
        &[("/top_k", json!(4)), ("/min_p", Value::Null)],
        &["generation.min_p"],
    );
    check_generation("mistral", &samplers, &[("/random_seed", json!(5)), ("/seed", Value::Null)], none);
    for dialect in ["deepseek", "kimi", "glm"] {
        check_generation(dialect, &samplers, &[("/seed", Value::Null)], &["generation.seed"]);
    }
}

#[test]
fn what_a_dialect_refuses_is_left_out_and_named() {
    let everything = json!({"candidateCount": intent(&json!(2)), "frequencyPenalty": intent(&json!(0.5)), "presencePenalty": intent(&json!(0.5)), "logitBias": intent(&json!({"1": 2})),
        "logprobs": intent(&json!({"enabled": true})), "stopSequences": intent(&json!(["a", "b"])), "prediction": intent(&json!({"parts": []})), "serviceTier": intent(&json!("flex")),
        "outputModalities": intent(&json!(["text"]))});
    let cases: &[(&str, &[(&str, &str)])] = &[
        (
            "deepseek",
            &[
                ("n", "generation.candidate_count"),
                ("prediction", "generation.prediction"),
                ("service_tier", "generation.service_tier"),
                ("modalities", "generation.output_modalities"),
            ],
        ),
        (
            "groq",
            &[
                ("n", "generation.candidate_count"),
                ("logprobs", "generation.logprobs"),
                ("logit_bias", "generation.logit_bias"),
            ],
        ),
        (
            "mistral",
            &[
                ("logprobs", "generation.logprobs"),
                ("logit_bias", "generation.logit_bias"),
                ("service_tier", "generation.service_tier"),
            ],
        ),
        (
            "xai",
            &[
                ("stop", "generation.stop_sequences"),
                ("presence_penalty", "generation.presence_penalty"),
                ("frequency_penalty", "generation.frequency_penalty"),
            ],
        ),
        (
            "glm",
            &[
                ("n", "generation.candidate_count"),
                ("presence_penalty", "generation.presence_penalty"),
                ("logprobs", "generation.logprobs"),
            ],
        ),
        (
            "ollama",
            &[("n", "generation.candidate_count"), ("logit_bias", "generation.logit_bias")],
        ),
        (
            "kimi",
            &[("logprobs", "generation.logprobs"), ("prediction", "generation.prediction")],
        ),
        ("minimax", &[("logit_bias", "generation.logit_bias")]),
        ("vllm", &[("service_tier", "generation.service_tier")]),
        ("llama-cpp", &[("prediction", "generation.prediction")]),
        ("qwen", &[("frequency_penalty", "generation.frequency_penalty")]),
    ];
    for (dialect, refused) in cases {
        for (member, feature) in *refused {
            check_generation(dialect, &everything, &[(&format!("/{member}"), Value::Null)], &[feature]);
        }
    }
    check_generation("glm", &everything, &[("/stop", json!(["a"]))], &["generation.stop_sequences"]);
    for (dialect, most) in [("openai", 2.0), ("mistral", 1.5), ("kimi", 1.0), ("glm", 1.0), ("minimax", 1.0)] {
        check_generation(
            dialect,
            &json!({"temperature": intent(&json!(2.0))}),
            &[("/temperature", json!(most))],
            &[],
        );
    }
    for (word, theirs) in [
        ("standard", json!("on_demand")),
        ("flex", json!("flex")),
        ("auto", json!("auto")),
        ("priority", Value::Null),
    ] {
        check_generation(
            "groq",
            &json!({"serviceTier": intent(&json!(word))}),
            &[("/service_tier", theirs)],
            &[],
        );
    }
}

#[test]
fn what_a_route_says_stands_over_its_dialect() {
    let wanted = request(
        &json!({"generation": {"candidateCount": intent(&json!(2)), "stopSequences": intent(&json!(["a", "b"])), "seed": intent(&json!(1))}}),
    );
    let mut context = context("glm");
    for (key, value) in [
        ("generation.candidate_count", json!(true)),
        ("max_stop_sequences", json!(2)),
        ("generation.seed", json!(false)),
    ] {
        context.capabilities.set(key, &value).unwrap();
    }
    let (body, _) = encode_request(&wanted, &context);
    assert_eq!((&body["n"], &body["stop"], body.get("seed")), (&json!(2), &json!(["a", "b"]), None));
}

#[test]
fn forms_of_the_answer_are_what_the_dialect_has() {
    let schema = json!({"output": {"format": intent(&json!({"kind": "json-schema", "schema": {"type": "object"}, "strict": false}))}});
    let object = json!({"output": {"format": intent(&json!({"kind": "json-object"}))}});
    let grammar = |syntax: &str| json!({"output": {"format": intent(&json!({"kind": "grammar", "syntax": syntax, "definition": "a"}))}});
    for dialect in ["openai", "groq", "mistral", "xai", "qwen", "vllm", "ollama"] {
        check_request(
            dialect,
            &request(&schema),
            false,
            &[("/response_format/type", json!("json_schema"))],
            &[],
        );
    }
    for dialect in ["deepseek", "glm"] {
        let expected = [
            ("/response_format", json!({"type": "json_object"})),
            ("/messages/0/role", json!("system")),
        ];
        check_request(dialect, &request(&schema), false, &expected, &["output.schema"]);
        let (body, _) = encode_request(&request(&schema), &context(dialect));
        assert!(body["messages"][0]["content"].as_str().unwrap().ends_with(r#"{"type":"object"}"#));
    }
    check_request(
        "minimax",
        &request(&schema),
        false,
        &[("/response_format", Value::Null)],
        &["output.schema"],
    );
    check_request(
        "minimax",
        &request(&object),
        false,
        &[("/response_format", Value::Null)],
        &["output.json_object"],
    );
    check_request(
        "vllm",
        &request(&grammar("regex")),
        false,
        &[("/structured_outputs", json!({"regex": "a"}))],
        &[],
    );
    check_request(
        "vllm",
        &request(&grammar("lark")),
        false,
        &[("/structured_outputs", json!({"grammar": "a"}))],
        &[],
    );
    check_request("llama-cpp", &request(&grammar("lark")), false, &[("/grammar", json!("a"))], &[]);
    check_request(
        "llama-cpp",
        &request(&grammar("regex")),
        false,
        &[("/grammar", Value::Null)],
        &["output.grammar"],
    );
    check_request("openai", &request(&grammar("lark")), false, &[], &["output.grammar"]);
    for dialect in [
        "deepseek",
        "groq",
        "mistral",
        "xai",
        "qwen",
        "kimi",
        "glm",
        "minimax",
        "vllm",
        "llama-cpp",
        "ollama",
    ] {
        let verbose = json!({"output": {"verbosity": intent(&json!("low"))}});
        check_request(
            dialect,
            &request(&verbose),
            false,
            &[("/verbosity", Value::Null)],
            &["output.verbosity"],
        );
    }
}

#[test]
fn tools_take_the_form_that_the_dialect_has() {
    let tool = |more: &Value| {
        let mut tool = json!({"toolId": "t", "kind": "function", "execution": "client", "portability": "portable", "name": "f"});
        tool.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        tool
    };
    let function =
        tool(&json!({"inputSchema": {"type": "object", "properties": {}, "required": [], "additionalProperties": false}, "strict": true}));
    let custom = tool(&json!({"kind": "custom", "grammar": {"syntax": "lark", "definition": "start: x"}}));
    let search = tool(
        &json!({"kind": "web-search", "execution": "provider", "portability": "equivalent", "config": {"userLocation": {"country": "DE"}, "maxUses": 2}}),
    );
    let choice = |kind: &str| json!({"kind": kind, "requirement": "preferred"});
    for dialect in ALL {
        let is_strict = !["qwen", "glm", "minimax", "llama-cpp", "ollama"].contains(dialect);
        let features: &[&str] = if is_strict { &[] } else { &["tool.strict"] };
        let strict = if is_strict { json!(true) } else { Value::Null };
        check_request(
            dialect,
            &request(&json!({"tools": [function]})),
            false,
            &[("/tools/0/function/strict", strict)],
            features,
        );
        let has_custom = ["openai", "azure", "openrouter"].contains(dialect);
        let features: &[&str] = if has_custom { &[] } else { &["tool.custom"] };
        let kind = if has_custom { "custom" } else { "function" };
        check_request(
            dialect,
            &request(&json!({"tools": [custom]})),
            false,
            &[("/tools/0/type", json!(kind))],
            features,
        );
    }
    for (dialect, word) in [
        ("openai", json!("required")),
        ("mistral", json!("any")),
        ("qwen", Value::Null),
        ("kimi", Value::Null),
        ("glm", Value::Null),
        ("minimax", Value::Null),
        ("ollama", Value::Null),
        ("llama-cpp", json!("required")),
    ] {
        check_request(
            dialect,
            &request(&json!({"tools": [function], "toolChoice": choice("required")})),
            false,
            &[("/tool_choice", word.clone())],
            &[],
        );
        let features: &[&str] = if word.is_null() { &["tool.choice"] } else { &[] };
        check_request(
            dialect,
            &request(&json!({"tools": [function], "toolChoice": choice("required")})),
            false,
            &[],
            features,
        );
    }
    for dialect in ["qwen", "kimi", "glm"] {
        check_request(
            dialect,
            &request(&json!({"tools": [function], "toolChoice": choice("auto")})),
            false,
            &[("/tool_choice", json!("auto"))],
            &[],
        );
    }
    let searches: &[(&str, &str, Value)] = &[
        ("openrouter", "/plugins", json!([{"id": "web"}])),
        (
            "xai",
            "/search_parameters",
            json!({"mode": "auto", "sources": [{"type": "web", "country": "DE"}]}),
        ),
        (
            "kimi",
            "/tools/0",
            json!({"type": "builtin_function", "function": {"name": "$web_search"}}),
        ),
        ("glm", "/tools/0", json!({"type": "web_search", "web_search": {"enable": true}})),
        ("groq", "/tools", Value::Null),
        ("openai", "/web_search_options", Value::Null),
    ];
    for (dialect, pointer, expected) in searches {
        check_request(
            dialect,
            &request(&json!({"tools": [search]})),
            false,
            &[(pointer, expected.clone())],
            &["tool.hosted.web_search"],
        );
    }
    let mut model = context("openai");
    model.capabilities.set("tool.hosted.web_search", &json!(true)).unwrap();
    let (body, _) = encode_request(&request(&json!({"tools": [search]})), &model);
    assert_eq!(body["web_search_options"]["user_location"]["approximate"], json!({"country": "DE"}));
    check_request(
        "glm",
        &request(&json!({"tools": [function]})),
        true,
        &[("/tool_stream", json!(true)), ("/stream_options", Value::Null)],
        &[],
    );
    check_request("mistral", &request(&json!({})), true, &[("/stream_options", Value::Null)], &[]);
    check_request(
        "groq",
        &request(&json!({})),
        true,
        &[("/stream_options/include_usage", json!(true)), ("/tool_stream", Value::Null)],
        &[],
    );
}

#[test]
fn state_and_labels_go_only_where_they_mean_something() {
    let state = |on: bool| json!({"state": {"persist": {"value": on, "requirement": "required"}}});
    for dialect in ALL {
        let stores = ["openai", "azure"].contains(dialect);
        let (body, losses) = encode_request(&request(&state(true)), &context(dialect));
        assert_eq!(body.get("store").is_some(), stores, "{dialect}");
        assert_eq!(
            losses.contains(&("error".into(), "state.persist".into())),
            !stores,
            "{dialect}: {losses:?}"
        );
        let (_, losses) = encode_request(&request(&state(false)), &context(dialect));
        assert!(
            losses.iter().all(|(severity, _)| severity != "error"),
            "{dialect}: nothing to forbid, {losses:?}"
        );
    }
    let labels = json!({"metadata": {"labels": {"a": "b"}, "endUserRef": "u"}});
    check_request(
        "mistral",
        &request(&labels),
        false,
        &[("/metadata", Value::Null), ("/user", Value::Null)],
        &["metadata.labels", "metadata.end_user"],
    );
    check_request(
        "xai",
        &request(&labels),
        false,
        &[("/metadata", Value::Null), ("/user", json!("u"))],
        &["metadata.labels"],
    );
    let fallbacks = json!({"model": {"requested": "m", "fallbacks": ["x"]}});
    check_request("openrouter", &request(&fallbacks), false, &[("/models", json!(["x"]))], &[]);
    check_request(
        "groq",
        &request(&fallbacks),
        false,
        &[("/models", Value::Null)],
        &["model.fallbacks"],
    );
}

#[test]
fn cache_marks_stand_where_the_dialect_reads_them() {
    let base = serde_json::to_value(request(&json!({}))).unwrap();
    let item = base["conversation"]["items"][0]["id"].clone();
    let part = base["conversation"]["items"][0]["parts"][0]["partId"].clone();
    let marked = |mark: Value| request(&json!({"cache": {"mode": "explicit", "breakpoints": [mark]}}));
    let on_part = marked(json!({"itemId": item, "partId": part, "ttl": "1h"}));
    let on_item = marked(json!({"itemId": item}));
    for dialect in ["openrouter", "qwen"] {
        check_request(
            dialect,
            &on_part,
            false,
            &[("/messages/0/content/0/cache_control", json!({"type": "ephemeral", "ttl": "1h"}))],
            &[],
        );
        check_request(
            dialect,
            &on_item,
            false,
            &[("/messages/0/content/0/cache_control", json!({"type": "ephemeral"}))],
            &[],
        );
    }
    check_request(
        "openai",
        &on_item,
        false,
        &[("/messages/0/content", json!("q"))],
        &["cache.breakpoints"],
    );
    let mut newest = context("openai");
    newest.capabilities.set("cache.breakpoints", &json!(true)).unwrap();
    let (body, _) = encode_request(&on_part, &newest);
    assert_eq!(
        body["messages"][0]["content"][0]["prompt_cache_breakpoint"],
        json!({"mode": "explicit", "ttl": "12h"})
    );
    newest.capabilities.set("max_cache_breakpoints", &json!(0)).unwrap();
    assert!(
        encode_request(&on_part, &newest).1.iter().any(|(_, f)| f == "cache.breakpoints"),
        "a bound of none is kept"
    );
}

#[test]
fn histories_keep_the_rules_of_the_dialect() {
    let used = json!([{"role": "developer", "content": "d"}, {"role": "user", "content": "q"},
        {"role": "assistant", "reasoning_content": "t", "tool_calls": [call("functions.f:0", "f", "{}")]}, {"role": "tool", "tool_call_id": "functions.f:0", "content": "r"},
        {"role": "user", "content": "and?"}, {"role": "assistant", "reasoning_content": "u", "content": "a"}]);
    for dialect in [
        "deepseek",
        "mistral",
        "qwen",
        "kimi",
        "glm",
        "minimax",
        "vllm",
        "llama-cpp",
        "ollama",
    ] {
        check_messages(
            dialect,
            &used,
            &[("/messages/0/role", json!("system"))],
            &["conversation.system.role"],
        );
    }
    for dialect in ["openai", "azure", "groq", "openrouter", "xai"] {
        check_messages(dialect, &used, &[("/messages/0/role", json!("developer"))], &[]);
    }
    check_messages(
        "deepseek",
        &used,
        &[
            ("/messages/2/reasoning_content", json!("t")),
            ("/messages/5/reasoning_content", Value::Null),
        ],
        &["reasoning.text"],
    );
    check_messages(
        "kimi",
        &used,
        &[
            ("/messages/2/tool_calls/0/id", json!("functions.f:0")),
            ("/messages/5/reasoning_content", json!("u")),
        ],
        &[],
    );
    check_messages(
        "mistral",
        &used,
        &[("/messages/4/role", json!("assistant")), ("/messages/5/role", json!("user"))],
        &["conversation.order"],
    );
    check_messages(
        "mistral",
        &json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": [{"type": "thinking", "thinking": [{"type": "text", "text": "t"}]}, {"type": "text", "text": "a"}]}]),
        &[("/messages/1/content/0/type", json!("thinking"))],
        &[],
    );
    let tagged = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "<think>t</think>\n\na"}]);
    check_messages("minimax", &tagged, &[("/messages/1/content", json!("<think>t</think>\n\na"))], &[]);
    check_messages(
        "groq",
        &json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "reasoning": "t"}]),
        &[("/messages/1/reasoning", json!("t"))],
        &[],
    );
    for (dialect, member) in [("deepseek", "prefix"), ("mistral", "prefix"), ("kimi", "partial")] {
        let begun = json!([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", member: true}]);
        check_messages(dialect, &begun, &[(&format!("/messages/1/{member}"), json!(true))], &[]);
        let mut prefilled = decode_request(&json!({"model": "m", "messages": begun})).unified;
        prefilled.conversation.items.iter_mut().for_each(|i| i.provider_data = None);
        check_request(dialect, &prefilled, false, &[(&format!("/messages/1/{member}"), json!(true))], &[]);
    }
}

#[test]
fn call_ids_are_what_the_dialect_takes() {
    let long = "x".repeat(60);
    let mut foreign = decode_request(&json!({"model": "m", "messages": [{"role": "user", "content": "q"},
        {"role": "assistant", "tool_calls": [call("a.b:0", "f", "{}"), call("a.b:1", "f", "{}"), call(&long, "f", "{}"), call("abcDEF123", "f", "{}")]}]})).unified;
    foreign.conversation.items.iter_mut().for_each(|i| i.provider_data = None);
    let ids = |context: &EncodeContext| -> Vec<String> {
        let (body, _) = encode_request(&foreign, context);
        assert_eq!(
            body["messages"][2]["tool_call_id"], body["messages"][1]["tool_calls"][0]["id"],
            "the result follows its call"
        );
        body["messages"][1]["tool_calls"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let mistral = ids(&context("mistral"));
    assert!(
        mistral
            .iter()
            .all(|id| id.len() == 9 && id.bytes().all(|b| b.is_ascii_alphanumeric())),
        "{mistral:?}"
    );
    assert_eq!(mistral[3], "abcDEF123");
    assert_ne!(mistral[0], mistral[1]);
    assert_eq!(ids(&context("kimi"))[..2], ["a.b:0", "a.b:1"]);
    for max in [9, 20, 37, 64] {
        let mut bounded = context("openai");
        bounded.capabilities.set("max_tool_id_length", &json!(max)).unwrap();
        let bounded = ids(&bounded);
        assert!(bounded.iter().all(|id| id.len() <= max), "{max}: {bounded:?}");
        assert_eq!(bounded.iter().collect::<std::collections::BTreeSet<_>>().len(), 4);
    }
}

#[test]
fn media_go_where_the_dialect_reads_them() {
    let content = |part: &Value| {
        let items = json!([{"id": "op.i0", "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": "2026-01-31T12:00:00.000Z", "role": "user", "visibility": "model",
            "status": "completed", "provenance": {"origin": "client", "attribution": {}}, "kind": "message", "parts": [{"partId": "op.i0.p0", "kind": "text", "text": "see"}, part]}]);
        request(&json!({"conversation": {"completeness": "complete", "items": items}}))
    };
    let video = content(&json!({"partId": "op.i0.p1", "kind": "video", "source": {"kind": "url", "url": "https://e.org/v.mp4"}}));
    let document = content(&json!({"partId": "op.i0.p1", "kind": "document", "source": {"kind": "url", "url": "https://e.org/d.pdf"}}));
    let image = content(&json!({"partId": "op.i0.p1", "kind": "image", "source": {"kind": "url", "url": "https://e.org/i.png"}}));
    for dialect in ["openrouter", "qwen", "kimi", "glm", "vllm"] {
        check_request(
            dialect,
            &video,
            false,
            &[("/messages/0/content/1/video_url/url", json!("https://e.org/v.mp4"))],
            &[],
        );
    }
    for dialect in ["openai", "groq", "mistral"] {
        check_request(dialect, &video, false, &[("/messages/0/content", json!("see"))], &["part.video"]);
    }
    check_request(
        "mistral",
        &document,
        false,
        &[(
            "/messages/0/content/1",
            json!({"type": "document_url", "document_url": "https://e.org/d.pdf"}),
        )],
        &[],
    );
    check_request(
        "openrouter",
        &document,
        false,
        &[(
            "/messages/0/content/1",
            json!({"type": "file", "file": {"file_data": "https://e.org/d.pdf"}}),
        )],
        &[],
    );
    check_request(
        "glm",
        &document,
        false,
        &[(
            "/messages/0/content/1",
            json!({"type": "file_url", "file_url": {"url": "https://e.org/d.pdf"}}),
        )],
        &[],
    );
    check_request(
        "openai",
        &document,
        false,
        &[("/messages/0/content", json!("see"))],
        &["part.document"],
    );
    check_request("deepseek", &image, false, &[("/messages/0/content", json!("see"))], &["part.image"]);
}

#[test]
fn the_dialect_of_an_answer_tells_what_its_payload_cannot() {
    let body = answer(&json!({"role": "assistant", "content": "<think>t</think>a"}), "stop");
    let read = |dialect: Option<&str>, reasoning_tags: bool| {
        let mut decode = DecodeContext::offline();
        decode.dialect = dialect.map(str::to_owned);
        decode.reasoning_tags = reasoning_tags;
        let mut fold = throughline_protocols::offline::OfflineFold::new();
        fold.push(OpenAiChat.decode_response(body.to_string().as_bytes(), &decode).unwrap())
            .unwrap();
        fold.fold
            .result()
            .output
            .iter()
            .map(|i| (i.body.kind(), i.parts()[0].as_text().unwrap().to_owned()))
            .collect::<Vec<_>>()
    };
    let apart = [("reasoning", "t".to_owned()), ("message", "a".to_owned())];
    assert_eq!(read(None, false), [("message", "<think>t</think>a".to_owned())]);
    assert_eq!(read(Some("minimax"), false), apart);
    // A route may know it of its server, whatever the dialect.
    assert_eq!(read(None, true), apart);
    assert_eq!(read(Some("vllm"), true), apart);
    // A client of the dialect gets reasoning where it looks for it.
    let mut result = fold_response(&answer(
        &json!({"role": "assistant", "content": "a", "reasoning_content": "t"}),
        "stop",
    ))
    .fold
    .result();
    result.provenance.profile.family = ProtocolFamily::AnthropicMessages;
    for (dialect, pointer, expected) in [
        ("openai", "/reasoning_content", json!("t")),
        ("groq", "/reasoning", json!("t")),
        ("openrouter", "/reasoning", json!("t")),
        ("mistral", "/content/0/thinking/0/text", json!("t")),
        ("minimax", "/content", json!("<think>t</think>a")),
    ] {
        let encoded = OpenAiChat.encode_response(&result, &context(dialect)).unwrap();
        let body: Value = serde_json::from_str(&encoded.body).unwrap();
        assert_eq!(
            body.pointer(&format!("/choices/0/message{pointer}")),
            Some(&expected),
            "{dialect}: {body}"
        );
    }
}

#[test]
fn an_unknown_dialect_is_plain_openai() {
    let wanted = request(&json!({"generation": {"maxOutputTokens": intent(&json!(9)), "topK": intent(&json!(4))}}));
    let (plain, _) = encode_request(&wanted, &encode_context(None));
    assert_eq!(encode_request(&wanted, &context("klingon")).0, plain);
}
