//! The portability decision: every completeness, every family.

use crate::support::parse;
use serde_json::{Value, json};
use throughline_format::conversation::PortabilityVerdict as V;
use throughline_format::loss::LossSeverity;
use throughline_format::portability::{FEATURE, continues_from, decide, loss};
use throughline_format::{ProtocolFamily, UnifiedConversationInput, UnifiedProtocolProfile};

const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn history(completeness: &str, more: Value) -> UnifiedConversationInput {
    let mut record = json!({"completeness": completeness, "items": []});
    record.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    parse(&record)
}

fn held(resource_type: &str) -> Value {
    json!([{"resourceId": "r1", "resourceType": resource_type, "ownerFingerprint": HASH}])
}

fn families() -> Vec<ProtocolFamily> {
    let known = ProtocolFamily::WORDS.iter().map(|word| ProtocolFamily::from_word(word));
    known.chain([ProtocolFamily::from_word("acme:chat")]).collect()
}

fn codes(conversation: &UnifiedConversationInput, family: &ProtocolFamily) -> (V, Vec<String>) {
    let target = UnifiedProtocolProfile {
        version: Some("v1".to_owned()),
        ..UnifiedProtocolProfile::of(family.clone())
    };
    let decision = decide(conversation, &target);
    assert_eq!(decision.target, target);
    assert!(!decision.reasons.is_empty(), "every decision says why");
    assert!(
        decision
            .reasons
            .iter()
            .all(|r| !r.message.is_empty() && !r.message.contains("acme"))
    );
    (decision.decision, decision.reasons.into_iter().map(|r| r.code).collect())
}

#[test]
fn complete_history_goes_everywhere() {
    throughline_format::clause!("CONV-01");
    for family in families() {
        for more in [json!({}), json!({"continuations": held("response")})] {
            assert_eq!(
                codes(&history("complete", more), &family),
                (V::Portable, vec!["history.complete".to_owned()]),
                "{family}"
            );
        }
    }
}

#[test]
fn partial_history_goes_everywhere_with_a_loss() {
    throughline_format::clause!("CONV-01");
    let cases = [
        ("not-sent", "missing.not-sent"),
        ("truncated-by-source", "missing.truncated-by-source"),
        ("expired", "missing.expired"),
        ("provider-held", "missing.provider-held"),
        ("acme:x", "missing.other"),
    ];
    for family in families() {
        for (reason, code) in cases {
            let partial = history("partial", json!({"missing": [{"reason": reason, "count": 3, "afterItemId": "i1"}]}));
            assert_eq!(
                codes(&partial, &family),
                (V::PortableWithLoss, vec![code.to_owned()]),
                "{family} {reason}"
            );
        }
        assert_eq!(codes(&history("partial", json!({})), &family).1, ["history.partial"]);
    }
    let many: Vec<Value> = (0..70).map(|_| json!({"reason": "expired"})).collect();
    let (_, reasons) = codes(&history("partial", json!({"missing": many})), &ProtocolFamily::OpenAiChat);
    assert_eq!((reasons.len(), reasons.last().map(String::as_str)), (65, Some("missing.more")));
}

#[test]
fn results_whose_call_is_missing_are_named() {
    let result = |id: &str, call: &str| {
        json!({"id": id, "conversationId": "pending", "branchId": "pending", "sequence": 1, "createdAt": "2026-01-31T12:00:00.000Z", "visibility": "model",
        "status": "completed", "provenance": {"origin": "client", "attribution": {}}, "kind": "tool-result", "callId": call, "output": [], "execution": "client"})
    };
    let mut call = result("i2", "k");
    call.as_object_mut().unwrap().retain(|key, _| key != "output");
    for (member, value) in [
        ("kind", json!("tool-call")),
        ("name", json!("f")),
        ("toolType", json!("function")),
        ("rawArguments", json!("{}")),
        ("lifecycle", json!("arguments-ready")),
        ("providerExecuted", json!(false)),
    ] {
        call[member] = value;
    }
    let torn = history(
        "partial",
        json!({"missing": [{"reason": "not-sent"}], "items": [result("i1", "x"), call, result("i3", "k")]}),
    );
    let decision = decide(&torn, &UnifiedProtocolProfile::of(ProtocolFamily::AnthropicMessages));
    let named: Vec<_> = decision
        .reasons
        .iter()
        .filter_map(|r| Some((r.code.as_str(), r.item_id.as_ref()?.as_str())))
        .collect();
    assert_eq!(named, [("pairing.result-without-call", "i1")]);
}

#[test]
fn a_reference_continues_only_where_its_kind_of_state_does() {
    throughline_format::clause!("CONV-01");
    for (resource_type, able) in [
        ("response", "openai-responses"),
        ("conversation", "openai-responses"),
        ("interaction", "gemini-interactions"),
        ("session", "cursor-sdk"),
        ("acme:thread", ""),
    ] {
        for family in families() {
            let (verdict, codes) = codes(&history("reference-only", json!({"continuations": held(resource_type)})), &family);
            let expected = if family.as_str() == able {
                "target.owner"
            } else if continues_from(&family).is_empty() {
                "target.stateless"
            } else {
                "target.other-state"
            };
            assert_eq!(
                (verdict, codes),
                (V::OwnerOnly, vec!["history.reference-only".to_owned(), expected.to_owned()]),
                "{resource_type} {family}"
            );
        }
    }
    let with_both = history(
        "partial",
        json!({"missing": [{"reason": "provider-held"}], "continuations": held("response")}),
    );
    assert_eq!(
        codes(&with_both, &ProtocolFamily::OpenAiResponses).1,
        ["missing.provider-held", "target.owner"]
    );
}

#[test]
fn only_the_owner_that_continues_loses_nothing() {
    let target = UnifiedProtocolProfile::of(ProtocolFamily::OpenAiResponses);
    let entry = |completeness: &str, privately| {
        loss(
            &decide(&history(completeness, json!({"continuations": held("response")})), &target),
            privately,
        )
    };
    assert_eq!(entry("complete", false), None);
    assert_eq!(entry("partial", true), None);
    assert_eq!(entry("reference-only", true), None);
    let partial = entry("partial", false).unwrap();
    assert_eq!(
        (partial.feature.as_str(), partial.severity, partial.path.as_str()),
        (FEATURE, LossSeverity::Warning, "/conversation")
    );
    let foreign = entry("reference-only", false).unwrap();
    assert_eq!(foreign.severity, LossSeverity::Error);
    assert!(foreign.reason.contains("target.owner"));
}
