//! Loss reports of every codec: what an entry says, and what a report means as a whole.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use support::samples::{codecs, item, items, parts, request, result};
use throughline_format::json::{decode_slice, is_pointer};
use throughline_format::loss::{LossDisposition, UnifiedLossEntry};
use throughline_format::shape::ShapedRecord;
use throughline_format::{LossSeverity, ProtocolFamily, UnifiedLossReport, UnifiedRequestV2};
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext, Feature};

fn entry(severity: LossSeverity) -> UnifiedLossEntry {
    UnifiedLossEntry {
        path: "/a".to_owned(),
        feature: "part.text".to_owned(),
        severity,
        reason: "why".to_owned(),
        source_item_id: None,
        target_capability: None,
    }
}

#[test]
fn a_report_is_as_bad_as_its_worst_entry() {
    throughline_format::clause!("LOSS-01");
    use LossSeverity as S;
    for (severities, disposition) in [
        (&[][..], "lossless"),
        (&[S::Info], "degraded"),
        (&[S::Warning, S::Info], "degraded"),
        (&[S::Info, S::Error, S::Warning], "unsupported"),
    ] {
        let mut report = UnifiedLossReport::default();
        for severity in severities {
            report.push(entry(*severity));
        }
        assert_eq!(report.disposition.as_str(), disposition, "{severities:?}");
        assert_eq!(report.entries.len(), severities.len());
        // Reports that come together are as bad as the worse of them, and a remark changes nothing.
        let mut joined = UnifiedLossReport::default();
        joined.extend(report.clone());
        joined.note(entry(S::Info));
        assert_eq!(
            (joined.disposition, joined.entries.len()),
            (report.disposition, severities.len() + 1)
        );
        assert_eq!(joined.is_unsupported(), disposition == "unsupported");
    }
    let members: Vec<_> = UnifiedLossEntry::RECORD.members.iter().map(|m| (m.name, m.is_optional)).collect();
    let expected = [
        ("path", false),
        ("feature", false),
        ("severity", false),
        ("reason", false),
        ("sourceItemId", true),
        ("targetCapability", true),
    ];
    assert_eq!(members, expected);
    let members: Vec<_> = UnifiedLossReport::RECORD.members.iter().map(|m| (m.name, m.is_optional)).collect();
    assert_eq!(members, [("disposition", false), ("entries", false)]);
    let whole = json!({"disposition": "degraded", "entries": [{"path": "/a", "feature": "part.text", "severity": "warning", "reason": "why",
        "sourceItemId": "op.i1", "targetCapability": "part.text"}]});
    let report: UnifiedLossReport = decode_slice(whole.to_string().as_bytes()).unwrap();
    assert_eq!(serde_json::to_value(&report).unwrap(), whole);
}

/// Everything wrong with a report about a record.
fn mistakes(report: &UnifiedLossReport, record: &Value) -> Vec<String> {
    let mut wrong = Vec::new();
    let worst = report.entries.iter().map(|entry| entry.severity).max();
    // A remark loses nothing: then entries of the least severity alone stand in a lossless report.
    let fits = match report.disposition {
        LossDisposition::Lossless => worst.is_none_or(|worst| worst == LossSeverity::Info),
        LossDisposition::Degraded => worst.is_some_and(|worst| worst < LossSeverity::Error),
        LossDisposition::Unsupported => worst == Some(LossSeverity::Error),
    };
    if !fits {
        wrong.push(format!("{} with {worst:?}", report.disposition));
    }
    for entry in &report.entries {
        let known = Feature::from_word(&entry.feature).is_some();
        let key = entry.target_capability.as_ref().is_none_or(|key| Feature::from_word(key).is_some());
        if !known || !key || entry.reason.trim().is_empty() || !(entry.path.is_empty() || is_pointer(&entry.path)) {
            wrong.push(format!("{entry:?}"));
        }
        let of_item = entry
            .path
            .strip_prefix("/conversation/items/")
            .and_then(|rest| rest.split('/').next());
        if let (Some(number), Some(source)) = (of_item, &entry.source_item_id) {
            let there = record.pointer(&format!("/conversation/items/{number}/id"));
            if there.and_then(Value::as_str) != Some(source.as_str()) {
                wrong.push(format!("{entry:?} names another item than {there:?}"));
            }
        }
    }
    wrong
}

/// Requests with one of everything, alone and together.
fn requests(source: &ProtocolFamily) -> Vec<UnifiedRequestV2> {
    let mut all: Vec<Value> = Vec::new();
    let mut found = Vec::new();
    for (number, (role, body)) in items().into_iter().enumerate() {
        found.push(request(source, &[item(source, 0, role, &body)], &[]));
        all.push(item(source, number, role, &body));
    }
    for role in ["user", "assistant"] {
        for part in parts() {
            found.push(request(
                source,
                &[item(source, 0, role, &json!({"kind": "message", "parts": [part]}))],
                &[],
            ));
        }
    }
    found.push(request(source, &all, &[]));
    found
}

#[test]
fn every_report_of_every_codec_says_what_where_how_bad_and_why() {
    throughline_format::clause!("LOSS-01");
    let (mut wrong, mut dispositions, mut with_item) = (Vec::new(), BTreeSet::new(), 0);
    for (family, codec) in codecs() {
        let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
        for source in [family.clone(), ProtocolFamily::from_word("elsewhere:wire")] {
            let mut reports = Vec::new();
            for request in requests(&source) {
                let encoded = codec.encode_request(&request, &context).unwrap();
                // What was written is read again, with a report of its own about the body.
                let decoded = codec.decode_request(encoded.body.as_bytes(), &DecodeContext::offline()).unwrap();
                reports.push((decoded.loss, serde_json::from_str(&encoded.body).unwrap()));
                reports.push((encoded.loss, serde_json::to_value(&request).unwrap()));
            }
            let result = result(&source);
            let loss = codec.encode_response(&result, &context).unwrap().loss;
            reports.push((loss, serde_json::to_value(&result).unwrap()));
            for (report, record) in reports {
                wrong.extend(
                    mistakes(&report, &record)
                        .into_iter()
                        .map(|mistake| format!("{family} of {source}: {mistake}")),
                );
                dispositions.insert(report.disposition.as_str());
                with_item += report.entries.iter().filter(|entry| entry.source_item_id.is_some()).count();
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(dispositions.len() > 1 && with_item > 50, "{dispositions:?} {with_item}");
}
