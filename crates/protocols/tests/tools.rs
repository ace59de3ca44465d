//! Tools, their calls and results, through every protocol of the registry: what a definition says, which form it has at a
//! target, what a call and a result keep.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use support::{Everything, corpus, files, fold_stream, result_of};
use throughline_format::tool::Execution::{self, Ccr, Client, Provider};
use throughline_format::tool::Portability::{self, OwnerBound, Portable};
use throughline_format::{EventBody, ProtocolFamily, UnifiedRequestV2, UnifiedToolType};
use throughline_protocols::{Capabilities, Codec, DecodeContext, DecodedRequest, EncodeContext, codec_of, families};

fn codec(family: &ProtocolFamily) -> Arc<dyn Codec> {
    codec_of(family).unwrap()
}

fn decode(family: &ProtocolFamily, body: &Value) -> DecodedRequest {
    codec(family)
        .decode_request(body.to_string().as_bytes(), &DecodeContext::offline())
        .unwrap()
}

/// The projection to a family by another owner: the body, and where it lost something.
fn project(request: &UnifiedRequestV2, family: &ProtocolFamily) -> (Value, Vec<String>) {
    let codec = codec(family);
    let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
    let encoded = codec.encode_request(request, &context).unwrap();
    let paths = encoded.loss.entries.iter().map(|entry| entry.path.clone()).collect();
    (serde_json::from_str(&encoded.body).unwrap(), paths)
}

fn anthropic(tool: &Value) -> Value {
    json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}],
        "tools": [tool, {"name": "other", "input_schema": {"type": "object"}}]})
}

#[test]
fn a_definition_says_every_attribute_and_no_projection_drops_one_in_silence() {
    throughline_format::clause!("TOOL-01");
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false});
    let cases = [
        // member of the wire, its value → member of the record, its value, what a body that says it has
        ("input_schema", schema.clone(), "inputSchema", schema.clone(), "city"),
        ("strict", json!(true), "strict", json!(true), "\"strict\":true"),
        (
            "description",
            json!("Tells the weather."),
            "description",
            json!("Tells the weather."),
            "Tells the weather.",
        ),
        ("defer_loading", json!(true), "deferLoading", json!(true), "\"defer_loading\":true"),
        (
            "allowed_callers",
            json!(["direct", "code_execution_20260120"]),
            "allowedCallers",
            json!(["model", "code"]),
            "allowed_callers",
        ),
        (
            "cache_control",
            json!({"type": "ephemeral", "ttl": "1h"}),
            "cache",
            json!({"breakpoint": true, "ttl": "1h"}),
            "cache_control",
        ),
    ];
    for (member, value, in_record, expected, in_body) in cases {
        let mut tool = json!({"name": "weather", "input_schema": schema});
        tool[member] = value;
        let decoded = decode(&ProtocolFamily::AnthropicMessages, &anthropic(&tool));
        let record = serde_json::to_value(&decoded.unified.tools[0]).unwrap();
        assert_eq!(record[in_record], expected, "{member}");
        assert_eq!(
            (&record["execution"], &record["portability"]),
            (&json!("client"), &json!("portable")),
            "{member}"
        );
        for family in families() {
            let (body, losses) = project(&decoded.unified, family);
            let said = body.to_string().contains(in_body);
            let reported = losses
                .iter()
                .any(|path| path.starts_with(&format!("/tools/0/{in_record}")) || path == "/tools/0");
            assert!(said || reported, "{family} drops {member} in silence: {body}");
        }
    }
}

#[test]
fn captured_definitions_are_kept_whole() {
    throughline_format::clause!("TOOL-01");
    let mut seen = 0;
    for (family, wrapped) in [(ProtocolFamily::AnthropicMessages, false), (ProtocolFamily::OpenAiChat, true)] {
        let Some(folder) = corpus(&format!("wire/{family}/requests")) else {
            return;
        };
        for path in files(&folder, ".json") {
            let body: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let decoded = decode(&family, &body);
            let functions: Vec<_> = decoded
                .unified
                .tools
                .iter()
                .filter(|t| t.kind == UnifiedToolType::Function)
                .collect();
            let wire = body["tools"].as_array().into_iter().flatten();
            let wire = wire.map(|tool| if wrapped { &tool["function"] } else { tool });
            let schema = if wrapped { "parameters" } else { "input_schema" };
            let named: BTreeMap<&str, &Value> = wire.filter_map(|tool| Some((tool["name"].as_str()?, tool))).collect();
            for tool in functions {
                let Some(wire) = tool.name.as_deref().and_then(|name| named.get(name)) else {
                    continue;
                };
                let record = serde_json::to_value(tool).unwrap();
                for (member, of_record) in [
                    ("description", "description"),
                    (schema, "inputSchema"),
                    ("strict", "strict"),
                    ("defer_loading", "deferLoading"),
                ] {
                    assert_eq!(
                        wire.get(member).filter(|v| !v.is_null()),
                        record.get(of_record),
                        "{member} in {}",
                        path.display()
                    );
                }
                assert_eq!(tool.execution, Execution::Client);
                seen += 1;
            }
        }
    }
    assert!(seen > 400, "only {seen} definitions");
}

#[test]
fn every_tool_tells_who_executes_it_and_how_far_it_travels_and_the_projection_heeds_both() {
    throughline_format::clause!("TOOL-03");
    let words = |e: Execution, p: Portability| (serde_json::to_value(e).unwrap(), serde_json::to_value(p).unwrap());
    assert_eq!(
        words(Execution::Client, Portability::Portable),
        (json!("client"), json!("portable"))
    );
    assert_eq!(words(Execution::Ccr, Portability::Equivalent), (json!("ccr"), json!("equivalent")));
    assert_eq!(
        words(Execution::Provider, Portability::OwnerBound),
        (json!("provider"), json!("owner-bound"))
    );

    let base = decode(
        &ProtocolFamily::AnthropicMessages,
        &anthropic(&json!({"name": "look_up", "input_schema": {"type": "object", "properties": {"q": {"type": "string"}}}})),
    )
    .unified;
    for (kind, execution, portability, has_schema, offered) in [
        (UnifiedToolType::Function, Client, Portable, true, true),
        // This gateway runs it: a function for the model, whatever its kind, and never the provider's own tool.
        (UnifiedToolType::Function, Ccr, Portable, true, true),
        (UnifiedToolType::WebSearch, Ccr, Portable, true, true),
        (UnifiedToolType::WebSearch, Ccr, Portable, false, false),
        // Another provider would have to run it.
        (UnifiedToolType::Function, Provider, Portable, true, false),
        (UnifiedToolType::Function, Client, OwnerBound, true, false),
        (UnifiedToolType::WebSearch, Provider, OwnerBound, false, false),
        // The client runs it, so a function does where the target has no such tool.
        (UnifiedToolType::Retrieval, Client, Portable, true, true),
    ] {
        let mut request = base.clone();
        let tool = &mut request.tools[0];
        (tool.kind, tool.execution, tool.portability, tool.provider_data) = (kind, execution, portability, None);
        if !has_schema {
            tool.input_schema = None;
        }
        let case = format!("{:?}", request.tools[0]);
        for family in families() {
            let (body, losses) = project(&request, family);
            let body = body.to_string();
            // A prompt and a chat name no tools: their tools stand at the runtime and at the server.
            let offered = offered && !matches!(family, ProtocolFamily::CursorSdk | ProtocolFamily::VercelUiMessage);
            assert_eq!(body.contains("look_up"), offered, "{family}: {case}: {body}");
            assert!(
                !body.contains("web_search") && !body.contains("google_search"),
                "{family} would run it: {body}"
            );
            assert_eq!(
                losses.iter().any(|path| path == "/tools/0"),
                !offered,
                "{family}: {case}: {losses:?}"
            );
        }
    }
}

/// A stream whose call arrives in these fragments.
fn streamed_call(fragments: &[&str]) -> String {
    let event = |value: Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().unwrap());
    let mut text = event(
        json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "model": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}}),
    );
    text += &event(json!({"type": "content_block_start", "index": 0, "content_block":
        {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {}, "caller": {"type": "direct"}}}));
    for fragment in fragments {
        text += &event(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": fragment}}));
    }
    text += &event(json!({"type": "content_block_stop", "index": 0}));
    text += &event(json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 2}}));
    text + &event(json!({"type": "message_stop"}))
}

#[test]
fn a_call_keeps_its_fields_and_fragments_stay_events() {
    throughline_format::clause!("TOOL-05");
    let codec = codec(&ProtocolFamily::AnthropicMessages);
    let mut folded = Vec::new();
    for fragments in [
        &["{\"city\": \"Par", "is\"}"][..],
        &["{\"ci", "ty\": ", "\"Paris\"}"],
        &["{\"city\": \"Paris\"}"],
    ] {
        let text = streamed_call(fragments);
        let mut decoder = codec.stream_decoder(&DecodeContext::offline());
        let drafts = decoder.push(text.as_bytes()).drafts;
        let kept: Vec<&str> = drafts
            .iter()
            .filter_map(|draft| match &draft.body {
                EventBody::ToolArgumentsDelta(delta) => Some(delta.text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(kept, fragments, "fragments are events of the operation");
        folded.push(serde_json::to_value(&result_of(&fold_stream(codec.as_ref(), text.as_bytes(), 7)).output[0]).unwrap());
    }
    assert!(folded.windows(2).all(|pair| pair[0] == pair[1]), "fragments never change the call");
    let call = &folded[0];
    for (member, value) in [
        ("callId", json!("toolu_1")),
        ("name", json!("weather")),
        ("toolType", json!("function")),
        ("input", json!({"city": "Paris"})),
        ("rawArguments", json!("{\"city\": \"Paris\"}")),
        ("execution", json!("client")),
        ("providerExecuted", json!(false)),
        ("caller", json!({"kind": "model"})),
        ("lifecycle", json!("arguments-ready")),
    ] {
        assert_eq!(call[member], value, "{member}");
    }
    assert!(call.get("fragments").is_none() && call.get("rawFragments").is_none());

    // State that belongs to the call is linked, not shown.
    let signed = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"},
         "extra_content": {"google": {"thought_signature": "c2lnbmF0dXJl"}}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"}]});
    let decoded = decode(&ProtocolFamily::OpenAiChat, &signed);
    let record = serde_json::to_value(&decoded.unified).unwrap();
    assert_eq!(record["conversation"]["items"][1]["privateLinkage"]["scope"], "owner-private");
    assert!(!record.to_string().contains("c2lnbmF0dXJl"));
    let context = EncodeContext {
        private: Arc::new(Everything::of(&decoded.resources)),
        ..EncodeContext::plain(Capabilities::of(codec_of(&ProtocolFamily::OpenAiChat).unwrap().capabilities()))
    };
    let back = codec_of(&ProtocolFamily::OpenAiChat)
        .unwrap()
        .encode_request(&decoded.unified, &context)
        .unwrap();
    assert!(back.body.contains("c2lnbmF0dXJl"), "its owner gets it back: {}", back.body);
}

#[test]
fn a_result_keeps_its_call_its_output_and_its_error() {
    throughline_format::clause!("TOOL-05");
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let body = json!({"model": "m", "max_tokens": 9, "messages": [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}},
            {"type": "tool_use", "id": "b", "name": "f", "input": {}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "see"}, image]},
            {"type": "tool_result", "tool_use_id": "b", "content": "no such city", "is_error": true}]}]});
    let record = serde_json::to_value(decode(&ProtocolFamily::AnthropicMessages, &body).unified).unwrap();
    let items = record["conversation"]["items"].as_array().unwrap();
    let results: Vec<_> = items.iter().filter(|item| item["kind"] == "tool-result").collect();
    for (result, expected) in [
        (
            results[0],
            [
                ("/callId", json!("a")),
                ("/output/0/text", json!("see")),
                ("/output/1/kind", json!("image")),
                ("/isError", Value::Null),
            ],
        ),
        (
            results[1],
            [
                ("/callId", json!("b")),
                ("/output/0/text", json!("no such city")),
                ("/isError", json!(true)),
                ("/output/1", Value::Null),
            ],
        ),
    ] {
        for (pointer, value) in expected {
            assert_eq!(result.pointer(pointer).cloned().unwrap_or_default(), value, "{pointer}");
        }
        assert_eq!(result["execution"], "client");
    }

    // A hosted tool's failure has its code, and the provider is who executed.
    let hosted = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn", "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_fetch", "input": {"url": "https://example.com"}},
        {"type": "web_fetch_tool_result", "tool_use_id": "srvtoolu_1",
         "content": {"type": "web_fetch_tool_result_error", "error_code": "url_not_accessible"}}],
        "usage": {"input_tokens": 1, "output_tokens": 1}});
    let fold = support::fold_response(codec(&ProtocolFamily::AnthropicMessages).as_ref(), hosted.to_string().as_bytes());
    let output = serde_json::to_value(&result_of(&fold).output).unwrap();
    assert_eq!(
        (&output[0]["execution"], &output[0]["providerExecuted"]),
        (&json!("provider"), &json!(true)),
        "{output}"
    );
    assert_eq!(output[1]["callId"], "srvtoolu_1");
    assert_eq!(output[1]["isError"], true, "{output}");
    assert!(
        output[1]["error"]["message"]
            .as_str()
            .is_some_and(|m| m.contains("url_not_accessible"))
            || output[1]["error"]["providerCode"] == "url_not_accessible",
        "{output}"
    );
}

#[test]
fn captured_calls_keep_what_the_wire_said() {
    throughline_format::clause!("TOOL-05");
    let mut seen = 0;
    for family in families() {
        let codec = codec(family);
        let Some(folder) = corpus("wire") else { return };
        for path in files(&folder.join(family.as_str()).join("streams"), ".sse") {
            let bytes = std::fs::read(&path).unwrap();
            let mut joined = BTreeMap::<String, String>::new();
            let mut decoder = codec.stream_decoder(&DecodeContext::offline());
            let mut drafts = decoder.push(&bytes).drafts;
            drafts.extend(decoder.finish().drafts);
            for draft in &drafts {
                if let (EventBody::ToolArgumentsDelta(delta), Some(item)) = (&draft.body, &draft.item_id) {
                    joined.entry(item.as_str().to_owned()).or_default().push_str(&delta.text);
                }
            }
            let result = serde_json::to_value(result_of(&fold_stream(codec.as_ref(), &bytes, 5))).unwrap();
            for call in result["output"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|item| item["kind"] == "tool-call")
            {
                let raw = call["rawArguments"].as_str().unwrap();
                if let Some(joined) = joined.get(call["id"].as_str().unwrap()) {
                    assert_eq!(joined, raw, "{}", path.display());
                }
                // A call that the stream tore apart was never ready: its text is kept, and it has no input.
                if call["lifecycle"] == "cancelled" {
                    assert_eq!(call.get("input"), None, "{}", path.display());
                    continue;
                }
                let parsed = serde_json::from_str::<Value>(raw).ok();
                assert_eq!(call.get("input").cloned(), parsed.filter(Value::is_object), "{}", path.display());
                assert!(!call["callId"].as_str().unwrap().is_empty() && !call["name"].as_str().unwrap().is_empty());
                seen += 1;
            }
        }
    }
    assert!(seen > 30, "only {seen} calls");
}

#[test]
fn an_address_of_a_server_leaves_credentials_behind_and_no_other_owner_sees_them() {
    let at = "https://u:pSECRET@m.example/y?k=qSECRET#f";
    let cases = [
        (
            ProtocolFamily::GeminiInteractions,
            json!({"model": "m", "input": "hi", "tools": [{"type": "mcp_server", "name": "m", "url": at}]}),
        ),
        (
            ProtocolFamily::GeminiGenerateContent,
            json!({"contents": [{"role": "user", "parts": [{"text": "hi"}]}],
                "tools": [{"mcpServers": [{"name": "m", "streamableHttpTransport": {"url": at}}]}]}),
        ),
        (
            ProtocolFamily::OpenAiResponses,
            json!({"model": "m", "input": "hi", "tools": [{"type": "mcp", "server_label": "m", "server_url": at}]}),
        ),
        (
            ProtocolFamily::AnthropicMessages,
            json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}],
                "mcp_servers": [{"type": "url", "name": "m", "url": at}], "tools": [{"type": "mcp_toolset", "mcp_server_name": "m"}]}),
        ),
    ];
    for (from, body) in cases {
        let decoded = decode(&from, &body);
        let [tool] = &decoded.unified.tools[..] else {
            panic!("{from}: {:?}", decoded.unified.tools)
        };
        let told = tool.config.as_ref().and_then(|config| config.server_url.as_deref());
        assert_eq!(told, Some("https://m.example/y"), "{from}");
        assert!(!serde_json::to_string(&decoded.unified).unwrap().contains("SECRET"), "{from}");
        for to in families() {
            let sent = project(&decoded.unified, to).0.to_string();
            assert!(!sent.contains("SECRET"), "{from} to {to}: {sent}");
        }
    }
}

#[test]
fn which_tools_of_a_server_may_be_called_reads_the_same_at_every_target() {
    let server = |allowed: Value| json!({"model": "m", "input": "hi", "tools": [{"type": "mcp", "server_label": "s", "server_url": "https://a.example/mcp", "allowed_tools": allowed, "require_approval": "never"}]});
    let own = |allowed: Value| json!({"model": "m", "input": "hi", "tools": [{"type": "mcp_server", "name": "s", "url": "https://a.example/mcp", "allowed_tools": allowed}]});
    let set = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}],
        "mcp_servers": [{"type": "url", "name": "s", "url": "https://a.example/mcp"}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "s", "default_config": {"enabled": false}, "configs": {"x": {"enabled": true}, "y": {"enabled": true}}}]});
    let sources = [
        (ProtocolFamily::OpenAiResponses, server(json!(["x", "y"]))),
        (ProtocolFamily::OpenAiResponses, server(json!({"tool_names": ["x", "y"]}))),
        (ProtocolFamily::GeminiInteractions, own(json!([{"tools": ["x", "y"]}]))),
        (
            ProtocolFamily::GeminiInteractions,
            own(json!([{"mode": "auto", "tools": ["x"]}, {"tools": ["y"]}])),
        ),
        (ProtocolFamily::AnthropicMessages, set),
    ];
    for (family, body) in sources {
        let request = decode(&family, &body).unified;
        let at = |target: ProtocolFamily, pointer: &str| project(&request, &target).0.pointer(pointer).cloned().unwrap_or_default();
        let target = ProtocolFamily::OpenAiResponses;
        assert_eq!(at(target.clone(), "/tools/0/allowed_tools"), json!(["x", "y"]), "{body}");
        // Without the word, this target would ask somebody each time.
        assert_eq!(at(target, "/tools/0/require_approval"), "never", "{body}");
        let target = ProtocolFamily::GeminiInteractions;
        assert_eq!(at(target, "/tools/0/allowed_tools"), json!([{"tools": ["x", "y"]}]), "{body}");
        for target in [
            ProtocolFamily::OpenAiResponses,
            ProtocolFamily::GeminiInteractions,
            ProtocolFamily::AnthropicMessages,
        ] {
            let (_, losses) = project(&request, &target);
            assert!(
                !losses.contains(&"/tools/0/config".to_owned()),
                "all of it is said at {target}: {body} {losses:?}"
            );
        }
        let configs = json!({"x": {"enabled": true}, "y": {"enabled": true}});
        assert_eq!(at(ProtocolFamily::AnthropicMessages, "/tools/0/configs"), configs, "{body}");
        assert_eq!(
            at(ProtocolFamily::AnthropicMessages, "/tools/0/default_config/enabled"),
            json!(false),
            "{body}"
        );
    }
}

#[test]
fn what_restricts_a_server_is_said_or_told_by_its_strength() {
    use throughline_format::{LossSeverity, UnifiedRequirement};
    let deny = json!({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}],
        "mcp_servers": [{"type": "url", "name": "s", "url": "https://a.example/mcp"}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "s", "configs": {"danger": {"enabled": false}}}]});
    let server = |members: Value| {
        let mut tool = json!({"type": "mcp", "server_label": "s", "server_url": "https://a.example/mcp"});
        tool.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        json!({"model": "m", "input": "hi", "tools": [tool]})
    };
    let read_only = server(json!({"allowed_tools": {"read_only": true}, "require_approval": "never"}));
    let asks = server(json!({"require_approval": "always"}));
    let cases = [
        (
            ProtocolFamily::AnthropicMessages,
            &deny,
            ProtocolFamily::OpenAiResponses,
            "/tools/0/config",
        ),
        (
            ProtocolFamily::AnthropicMessages,
            &deny,
            ProtocolFamily::GeminiInteractions,
            "/tools/0/config",
        ),
        (
            ProtocolFamily::OpenAiResponses,
            &read_only,
            ProtocolFamily::AnthropicMessages,
            "/tools/0/config",
        ),
        (
            ProtocolFamily::OpenAiResponses,
            &read_only,
            ProtocolFamily::GeminiInteractions,
            "/tools/0/config",
        ),
        (
            ProtocolFamily::OpenAiResponses,
            &asks,
            ProtocolFamily::AnthropicMessages,
            "/tools/0/approval",
        ),
        (
            ProtocolFamily::OpenAiResponses,
            &asks,
            ProtocolFamily::GeminiInteractions,
            "/tools/0/approval",
        ),
    ];
    for (source, body, target, path) in cases {
        for (strength, severity) in [
            (UnifiedRequirement::Preferred, LossSeverity::Warning),
            (UnifiedRequirement::Required, LossSeverity::Error),
        ] {
            let mut request = decode(&source, body).unified;
            request.tools[0].requirement = Some(strength);
            let codec = codec(&target);
            let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
            let loss = codec.encode_request(&request, &context).unwrap().loss;
            let found: Vec<_> = loss.entries.iter().filter(|e| e.path == path).map(|e| e.severity).collect();
            assert_eq!(found, [severity], "{source} to {target}: {path} in {:?}", loss.entries);
        }
    }
}

#[test]
fn no_tool_is_chosen_where_none_is_offered() {
    let body = |choice: &str| json!({"model": "m", "messages": [{"role": "user", "content": "hi"}], "tool_choice": choice});
    for choice in ["auto", "none", "required"] {
        let request = decode(&ProtocolFamily::OpenAiChat, &body(choice)).unified;
        for target in [ProtocolFamily::AnthropicMessages, ProtocolFamily::GeminiInteractions] {
            let (made, losses) = project(&request, &target);
            let written = made
                .pointer("/tool_choice")
                .or_else(|| made.pointer("/generation_config/tool_choice"));
            assert_eq!(written, None, "{choice} at {target}: {made}");
            assert!(losses.iter().any(|path| path == "/toolChoice"), "{choice} at {target}: {losses:?}");
        }
    }
}
