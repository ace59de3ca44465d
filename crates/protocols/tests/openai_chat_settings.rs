//! Every member of a Chat Completions request beside its messages: where it goes in the record, and how it comes back.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod openai_chat_support;

use openai_chat_support::*;
use serde_json::{Value, json};
use throughline_protocols::openai_chat::OpenAiChat;
use throughline_protocols::{Codec, DecodeContext};

fn with(members: &Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "JSON?"}]});
    body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    body
}

/// Members of a body become the value at a pointer of the record, and come back to their owner as they were.
///
/// Without an expected value the members have no word: they are kept beside the record and named by the decode loss.
fn check(members: &Value, pointer: &str, expected: &Value) {
    let body = with(members);
    let decoded = decode_request(&body);
    let record = serde_json::to_value(&decoded.unified).unwrap();
    if expected.is_null() {
        let named = decoded.loss.entries.iter().any(|e| e.path == pointer);
        assert!(named, "{pointer} of {members} is named in {:?}", decoded.loss.entries);
        let kept = decoded
            .resources
            .iter()
            .any(|r| r.schema == "openai-chat/unmapped@1" && r.wire_paths.iter().any(|p| p == pointer));
        assert!(kept, "{pointer} is kept beside the record");
    } else {
        assert_eq!(record.pointer(pointer), Some(expected), "{members}");
    }
    let mut context = encode_context(Some(&decoded.resources));
    context.stream = decoded.stream;
    let (again, _) = encode_request(&decoded.unified, &context);
    assert_eq!(without_nulls(&again), without_nulls(&body), "comes back to its owner");
}

/// What another owner on the same protocol gets, or the feature that its loss report names.
fn check_elsewhere(members: &Value, expected: Result<Value, &str>) {
    let decoded = decode_request(&with(members));
    let mut context = encode_context(None);
    context.stream = decoded.stream;
    let (body, losses) = encode_request(&decoded.unified, &context);
    match expected {
        Ok(expected) => {
            for (key, value) in expected.as_object().unwrap() {
                assert_eq!(without_nulls(&body[key]), without_nulls(value), "{key} of {members}");
            }
        }
        Err(feature) => {
            assert!(losses.iter().any(|(_, f)| f == feature), "{feature} in {losses:?} for {members}");
        }
    }
}

#[test]
fn generation_members_have_their_words() {
    let intent = |value: Value| json!({"value": value, "requirement": "preferred"});
    check(
        &json!({"max_completion_tokens": 5}),
        "/generation/maxOutputTokens",
        &intent(json!(5)),
    );
    check(&json!({"max_tokens": 5}), "/generation/maxOutputTokens", &intent(json!(5)));
    check(&json!({"temperature": 0.5}), "/generation/temperature", &intent(json!(0.5)));
    check(&json!({"top_p": 0.25}), "/generation/topP", &intent(json!(0.25)));
    check(&json!({"n": 3}), "/generation/candidateCount", &intent(json!(3)));
    check(&json!({"stop": "x"}), "/generation/stopSequences", &intent(json!(["x"])));
    check(
        &json!({"stop": ["x", "y"]}),
        "/generation/stopSequences",
        &intent(json!(["x", "y"])),
    );
    check(&json!({"seed": 7}), "/generation/seed", &intent(json!(7)));
    check(
        &json!({"seed": 9_007_199_254_740_993_i64}),
        "/generation/seed/value",
        &json!("9007199254740993"),
    );
    check(
        &json!({"frequency_penalty": -1.5}),
        "/generation/frequencyPenalty",
        &intent(json!(-1.5)),
    );
    check(
        &json!({"presence_penalty": 1.5}),
        "/generation/presencePenalty",
        &intent(json!(1.5)),
    );
    check(
        &json!({"logit_bias": {"7": -100}}),
        "/generation/logitBias/value",
        &json!({"7": -100.0}),
    );
    check(
        &json!({"logprobs": true, "top_logprobs": 2}),
        "/generation/logprobs/value",
        &json!({"enabled": true, "top": 2}),
    );
    check(
        &json!({"reasoning_effort": "xhigh"}),
        "/generation/reasoning/effort",
        &intent(json!("xhigh")),
    );
    check(&json!({"verbosity": "low"}), "/output/verbosity", &intent(json!("low")));
    check(
        &json!({"modalities": ["text", "audio"]}),
        "/generation/outputModalities/value",
        &json!(["text", "audio"]),
    );
    check(
        &json!({"audio": {"format": "wav", "voice": "alloy"}}),
        "/generation/media/speech/value",
        &json!({"voices": [{"voice": "alloy"}], "format": "wav"}),
    );
    check(
        &json!({"audio": {"format": "wav", "voice": {"id": "v"}}}),
        "/generation/media/speech/value/voices",
        &json!([]),
    );
    check(
        &json!({"prediction": {"type": "content", "content": "abc"}}),
        "/generation/prediction/value/parts/0/text",
        &json!("abc"),
    );
    check(
        &json!({"prediction": {"type": "content", "content": [{"type": "text", "text": "abc"}]}}),
        "/generation/prediction/value/parts/0/text",
        &json!("abc"),
    );
    for (word, ours) in [
        ("auto", "auto"),
        ("default", "standard"),
        ("flex", "flex"),
        ("scale", "scale"),
        ("priority", "priority"),
        ("fast", "fast"),
    ] {
        check(&json!({"service_tier": word}), "/generation/serviceTier/value", &json!(ours));
    }
}

#[test]
fn output_state_cache_and_metadata_have_their_words() {
    let schema = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    let format = json!({"type": "json_schema", "json_schema": {"name": "n", "description": "d", "schema": schema, "strict": true}});
    check(
        &json!({"response_format": {"type": "text"}}),
        "/output/format/value",
        &json!({"kind": "text"}),
    );
    check(
        &json!({"response_format": {"type": "json_object"}}),
        "/output/format/value",
        &json!({"kind": "json-object"}),
    );
    check(
        &json!({"response_format": format}),
        "/output/format/value",
        &json!({"kind": "json-schema", "schema": schema, "name": "n", "description": "d", "strict": true}),
    );
    check(
        &json!({"response_format": {"type": "novel", "x": 1}}),
        "/response_format",
        &Value::Null,
    );
    check(
        &json!({"store": true}),
        "/state/persist",
        &json!({"value": true, "requirement": "required"}),
    );
    check(&json!({"metadata": {"k": "v"}}), "/metadata/labels", &json!({"k": "v"}));
    check(&json!({"metadata": {"k": 1}}), "/metadata", &Value::Null);
    check(&json!({"user": "u"}), "/metadata/endUserRef", &json!("u"));
    check(&json!({"prompt_cache_key": "k"}), "/cache/affinityKey", &json!("k"));
    check(
        &json!({"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}),
        "/cache/mode",
        &json!("explicit"),
    );
    check(
        &json!({"prompt_cache_options": {"mode": "implicit"}}),
        "/cache/mode",
        &json!("automatic"),
    );
    check(
        &json!({"stream": true, "stream_options": {"include_usage": true, "include_obfuscation": false}}),
        "/output/includes/value",
        &json!(["stream-usage"]),
    );
    check(
        &json!({"moderation": {"model": "mod", "policy": {"input": {"mode": "block"}, "output": {"mode": "score"}}}}),
        "/generation/safetySettings/value",
        &json!([{"category": "input", "threshold": "block", "method": "mod"}, {"category": "output", "threshold": "score", "method": "mod"}]),
    );
}

#[test]
fn members_without_a_word_are_kept_for_their_owner_and_named() {
    for (members, pointer) in [
        (json!({"safety_identifier": "s"}), "/safety_identifier"),
        (json!({"prompt_cache_retention": "24h"}), "/prompt_cache_retention"),
        (
            json!({"prompt_cache_options": {"mode": "explicit", "ttl": "30m"}}),
            "/prompt_cache_options/ttl",
        ),
        (
            json!({"stream": true, "stream_options": {"include_obfuscation": true}}),
            "/stream_options/include_obfuscation",
        ),
        (
            json!({"data_sources": [{"type": "azure_search", "parameters": {"key": "secret"}}]}),
            "/data_sources",
        ),
        (json!({"safe_prompt": true}), "/safe_prompt"),
        (json!({"deferred": true}), "/deferred"),
        (json!({"search_parameters": {"mode": "on"}}), "/search_parameters"),
        (json!({"provider": {"order": ["a"]}}), "/provider"),
        (json!({"plugins": [{"id": "web"}]}), "/plugins"),
        (json!({"tool_stream": true}), "/tool_stream"),
        (json!({"a/b~c": 1}), "/a~1b~0c"),
    ] {
        check(&members, pointer, &Value::Null);
        let (body, losses) = encode_request(&decode_request(&with(&members)).unified, &encode_context(None));
        let key = pointer.split('/').nth(1).unwrap();
        assert!(body.get(key).is_none(), "{key} stays with its owner: {body} {losses:?}");
    }
}

#[test]
fn what_a_prediction_says_besides_is_kept_for_its_owner() {
    let members = json!({"prediction": {"type": "content", "content": "x", "more": 1}});
    check(&members, "/prediction/more", &Value::Null);
}

#[test]
fn tools_and_choices_have_their_words() {
    let function = json!({"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "b": 1, "a": 2}, "strict": false}});
    let grammar = json!({"type": "custom", "custom": {"name": "c", "description": "d", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}}});
    let text = json!({"type": "custom", "custom": {"name": "c", "format": {"type": "text"}}});
    check(&json!({"tools": [function]}), "/tools/0/strict", &json!(false));
    check(&json!({"tools": [function]}), "/tools/0/execution", &json!("client"));
    check(
        &json!({"tools": [{"type": "function", "function": {"name": "f"}}]}),
        "/tools/0/kind",
        &json!("function"),
    );
    check(
        &json!({"tools": [grammar]}),
        "/tools/0/grammar",
        &json!({"syntax": "regex", "definition": "a+"}),
    );
    check(&json!({"tools": [text]}), "/tools/0/grammar", &json!({"syntax": "text"}));
    check(&json!({"tools": [text]}), "/tools/0/kind", &json!("custom"));
    for (word, kind) in [("none", "none"), ("auto", "auto"), ("required", "required"), ("any", "required")] {
        check(&json!({"tools": [function], "tool_choice": word}), "/toolChoice/kind", &json!(kind));
    }
    check(
        &json!({"tools": [function], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
        "/toolChoice/tool/name",
        &json!("f"),
    );
    check(
        &json!({"tools": [text], "tool_choice": {"type": "custom", "custom": {"name": "c"}}}),
        "/toolChoice/tool/toolType",
        &json!("custom"),
    );
    let allowed =
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "function", "function": {"name": "f"}}]}});
    check(
        &json!({"tools": [function], "tool_choice": allowed}),
        "/toolChoice/mode",
        &json!("required"),
    );
    check(
        &json!({"tools": [function], "parallel_tool_calls": false}),
        "/generation/parallelTools/value",
        &json!("one-at-a-time"),
    );
    check(
        &json!({"tools": [function], "parallel_tool_calls": true}),
        "/generation/parallelTools/value",
        &json!("allow"),
    );
    check(
        &json!({"functions": [{"name": "f", "parameters": {"type": "object"}}], "function_call": "auto"}),
        "/toolChoice/kind",
        &json!("auto"),
    );
    check(
        &json!({"functions": [{"name": "f"}], "function_call": {"name": "f"}}),
        "/toolChoice/tool/name",
        &json!("f"),
    );
    let search = json!({"search_context_size": "high", "user_location": {"type": "approximate", "approximate": {"city": "B", "country": "DE", "region": "R", "timezone": "T"}}});
    check(
        &json!({"web_search_options": search}),
        "/tools/0/config",
        &json!({"contextSize": "high", "userLocation": {"city": "B", "country": "DE", "region": "R", "timezone": "T"}}),
    );
    check(
        &json!({"tools": [{"type": "openrouter:web_search", "parameters": {"x": 1}}]}),
        "/tools/0/portability",
        &json!("owner-bound"),
    );
}

#[test]
fn members_of_dialects_have_words_too() {
    check(&json!({"top_k": 4}), "/generation/topK/value", &json!(4.0));
    check(&json!({"min_p": 0.1}), "/generation/minP/value", &json!(0.1));
    check(
        &json!({"repetition_penalty": 1.1}),
        "/generation/repetitionPenalty/value",
        &json!(1.1),
    );
    check(&json!({"repeat_penalty": 1.1}), "/generation/repetitionPenalty/value", &json!(1.1));
    check(&json!({"random_seed": 5}), "/generation/seed/value", &json!(5));
    check(&json!({"models": ["a", "b"]}), "/model/fallbacks", &json!(["a", "b"]));
    check(
        &json!({"reasoning": {"effort": "low", "exclude": true}}),
        "/generation/reasoning/summary/value",
        &json!("none"),
    );
    check(
        &json!({"reasoning": {"max_tokens": 50}}),
        "/generation/reasoning/budgetTokens/value",
        &json!(50),
    );
    check(
        &json!({"reasoning": {"enabled": false}}),
        "/generation/reasoning/mode/value",
        &json!("off"),
    );
    check(
        &json!({"thinking": {"type": "enabled"}}),
        "/generation/reasoning/mode/value",
        &json!("on"),
    );
    check(
        &json!({"thinking": {"type": "adaptive"}}),
        "/generation/reasoning/mode/value",
        &json!("auto"),
    );
    check(
        &json!({"enable_thinking": true, "thinking_budget": 9}),
        "/generation/reasoning/budgetTokens/value",
        &json!(9),
    );
    check(
        &json!({"chat_template_kwargs": {"enable_thinking": false}}),
        "/generation/reasoning/mode/value",
        &json!("off"),
    );
    check(
        &json!({"structured_outputs": {"regex": "a+"}}),
        "/output/format/value",
        &json!({"kind": "grammar", "syntax": "regex", "definition": "a+"}),
    );
    check(&json!({"guided_regex": "a+"}), "/output/format/value/syntax", &json!("regex"));
    check(
        &json!({"guided_grammar": "root ::= x"}),
        "/output/format/value/definition",
        &json!("root ::= x"),
    );
    check(&json!({"grammar": "root ::= x"}), "/output/format/value/kind", &json!("grammar"));
    check(
        &json!({"guided_json": {"type": "object"}}),
        "/output/format/value/schema",
        &json!({"type": "object"}),
    );
}

#[test]
fn another_owner_gets_what_openai_knows_and_a_report_of_the_rest() {
    check_elsewhere(&json!({"max_tokens": 5}), Ok(json!({"max_completion_tokens": 5})));
    check_elsewhere(&json!({"stop": "x"}), Ok(json!({"stop": ["x"]})));
    check_elsewhere(&json!({"random_seed": 5}), Ok(json!({"seed": 5})));
    check_elsewhere(&json!({"reasoning": {"effort": "low"}}), Ok(json!({"reasoning_effort": "low"})));
    check_elsewhere(
        &json!({"guided_json": {"type": "object"}}),
        Ok(json!({"response_format": {"type": "json_schema", "json_schema": {"name": "response", "schema": {"type": "object"}}}})),
    );
    check_elsewhere(&json!({"top_k": 4}), Err("generation.top_k"));
    check_elsewhere(&json!({"min_p": 0.1}), Err("generation.min_p"));
    check_elsewhere(&json!({"repetition_penalty": 1.1}), Err("generation.repetition_penalty"));
    check_elsewhere(&json!({"models": ["a"]}), Err("model.fallbacks"));
    check_elsewhere(&json!({"thinking": {"type": "disabled"}}), Err("generation.reasoning.mode"));
    check_elsewhere(&json!({"structured_outputs": {"regex": "a+"}}), Err("output.grammar"));
    check_elsewhere(
        &json!({"moderation": {"policy": {"input": {"mode": "block"}}}}),
        Err("generation.safety_settings"),
    );
    check_elsewhere(&json!({"tools": [{"type": "mystery", "mystery": {"x": 1}}]}), Err("tool.hosted"));
}

#[test]
fn a_body_without_a_model_takes_it_from_its_path() {
    let body = json!({"messages": [{"role": "user", "content": "x"}]});
    let decoded = decode_request(&body);
    assert_eq!(decoded.unified.model.requested, "unspecified");
    let (own, losses) = encode_request(&decoded.unified, &encode_context(Some(&decoded.resources)));
    assert_eq!(own, body);
    assert!(losses.contains(&("info".into(), "record.bookkeeping".into())));
    let mut context = encode_context(Some(&decoded.resources));
    context.target_model = Some("t".into());
    assert_eq!(encode_request(&decoded.unified, &context).0["model"], "t");
    let mut context = DecodeContext::offline();
    context.requested_model = Some("of-the-path".into());
    let decoded = OpenAiChat.decode_request(body.to_string().as_bytes(), &context).unwrap();
    assert_eq!(decoded.unified.model.requested, "of-the-path");
}

#[test]
fn what_a_tool_choice_says_besides_comes_back_while_it_means_the_same() {
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]);
    let function = json!({"type": "function", "function": {"name": "f"}});
    for choice in [
        json!("any"),
        json!({"type": "function", "function": {"name": "f", "more": 1}}),
        json!({"type": "function", "function": {"name": "f"}, "more": 1}),
        json!({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [function], "more": 1}}),
    ] {
        let members = json!({"tools": tools, "tool_choice": choice});
        check(&members, "/tool_choice", &Value::Null);
        let mut decoded = decode_request(&with(&members));
        decoded.unified.tool_choice.as_mut().unwrap().kind = throughline_format::tool::ToolChoiceKind::Auto;
        let (body, _) = encode_request(&decoded.unified, &encode_context(Some(&decoded.resources)));
        assert_eq!(
            body["tool_choice"], "auto",
            "a choice that was changed is not what was written: {choice}"
        );
    }
}

#[test]
fn an_answer_is_asked_for_only_in_what_the_dialect_answers_in() {
    let members = json!({"modalities": ["text", "image"]});
    for (dialect, expected) in [(None, json!(["text"])), (Some("openrouter"), json!(["text", "image"]))] {
        let decoded = decode_request(&with(&members));
        let mut context = encode_context(None);
        context.dialect = dialect.map(str::to_owned);
        let (body, losses) = encode_request(&decoded.unified, &context);
        assert_eq!(body["modalities"], expected, "{dialect:?}");
        let told = losses.iter().any(|(_, feature)| feature == "generation.output_modalities");
        assert_eq!(told, dialect.is_none(), "{losses:?}");
    }
}
