//! Default strengths: what every decoder gives is what docs/losses.md says.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use serde_json::{Value, json};
use throughline_format::json::decode_slice;
use throughline_format::{ProtocolFamily, UnifiedRequestV2, UnifiedRequirement};
use throughline_protocols::projection::intents;
use throughline_protocols::strength::{default_strength, set_strength};
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext, Feature, codec_of, families};

/// What a decoder still says otherwise; a row that is no longer so fails.
const OTHERWISE: &[(ProtocolFamily, Feature)] = &[(ProtocolFamily::OpenAiChat, Feature::OutputVerbosity)];

fn wish(value: Value) -> Value {
    json!({"value": value, "requirement": "preferred"})
}

/// A request with nearly everything that one can ask for.
fn everything() -> UnifiedRequestV2 {
    let time = "2026-01-31T12:00:00.000Z";
    let record = json!({
        "schemaVersion": "2.0", "requestId": "op", "conversation": {"completeness": "complete", "items": [{
            "id": "op.i0", "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": time, "role": "user",
            "visibility": "model", "status": "completed", "provenance": {"origin": "client", "attribution": {}},
            "kind": "message", "parts": [{"kind": "text", "partId": "op.i0.p0", "text": "hi"}]}]},
        "model": {"requested": "m"},
        "generation": {
            "maxOutputTokens": wish(json!(9)), "temperature": wish(json!(0.5)), "topP": wish(json!(0.5)), "topK": wish(json!(5)),
            "stopSequences": wish(json!(["x"])), "candidateCount": wish(json!(2)), "seed": wish(json!(7)),
            "presencePenalty": wish(json!(0.5)), "frequencyPenalty": wish(json!(0.5)), "parallelTools": wish(json!("one-at-a-time")),
            "reasoning": {"effort": wish(json!("high")), "mode": wish(json!("on"))}},
        "tools": [{"toolId": "op.t0", "kind": "function", "execution": "client", "portability": "portable", "name": "f",
            "inputSchema": {"type": "object"}}],
        "toolChoice": {"kind": "required", "requirement": "preferred"},
        "output": {"format": wish(json!({"kind": "json-schema", "schema": {"type": "object"}, "name": "n"})), "verbosity": wish(json!("low"))},
        "state": {"persist": wish(json!(false))},
        "cache": {"mode": "automatic", "affinityKey": "k"},
        "metadata": {"labels": {"a": "b"}, "endUserRef": "u"},
        "source": {"profile": {"family": "openai-chat"}, "origin": "client", "receivedAt": time}});
    decode_slice(record.to_string().as_bytes()).unwrap_or_else(|e| panic!("{e:?}"))
}

#[test]
fn every_decoder_gives_the_strength_of_the_table() {
    let (mut wrong, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
    for family in families() {
        let codec = codec_of(family).unwrap();
        let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
        let body = codec.encode_request(&everything(), &context).unwrap().body;
        let again = codec.decode_request(body.as_bytes(), &DecodeContext::offline()).unwrap().unified;
        for (feature, _, found) in intents(&again) {
            seen.insert(feature);
            let expected = default_strength(feature).expect("an intent has a strength").requirement;
            if found != expected {
                wrong.push((family.clone(), feature));
            }
        }
    }
    assert_eq!(wrong, OTHERWISE, "what decoders say otherwise than the table");
    assert!(seen.len() > 15, "the request asks for too little: {seen:?}");
}

#[test]
fn what_can_be_set_is_set_and_nothing_else() {
    let mut tried = 0;
    for (feature, path, _) in intents(&everything()) {
        let mut request = everything();
        let hit = set_strength(&mut request, feature, UnifiedRequirement::Required);
        assert_eq!(hit, default_strength(feature).unwrap().can_be_set, "{path}");
        let now = intents(&request).into_iter().find(|(f, ..)| *f == feature).unwrap().2;
        assert_eq!(now == UnifiedRequirement::Required, hit, "{path}");
        tried += 1;
    }
    assert!(tried > 18, "{tried}");
    for (feature, ..) in Feature::ALL
        .iter()
        .filter(|(f, ..)| default_strength(*f).is_none_or(|d| !d.can_be_set))
    {
        assert!(
            !set_strength(&mut everything(), *feature, UnifiedRequirement::Required),
            "{}",
            feature.as_str()
        );
    }
}
