//! The two laws: the journal decides what a record says, and a target gets what it may see.

use crate::support::{joined, lines, read, said, write};
use serde_json::{Value, json};
use throughline_agents::archive::{archive, restore};
use throughline_agents::{Transcript, runtimes};
use throughline_format::item::{Role, UnifiedItem};
use throughline_format::{PartBody, UnifiedContentPart, UnifiedId, UnifiedItemBody};
use throughline_protocols::families;

/// A session with private state of its runtime, by runtime.
fn sessions() -> Vec<(&'static str, Transcript)> {
    let claude = |n: u32, role: &str, content: Value| {
        let parent = if n == 0 { Value::Null } else { json!(format!("l{}", n - 1)) };
        json!({"type": role, "uuid": format!("l{n}"), "parentUuid": parent, "timestamp": format!("2026-03-01T10:00:{n:02}.000Z"), "message": {"role": role, "content": content, "id": format!("m{}", n / 3), "model": "claude-x"}}).to_string() + "\n"
    };
    let claude = [
        claude(0, "user", json!("go")),
        claude(
            1,
            "assistant",
            json!([{"type": "thinking", "thinking": "hm", "signature": "PRIVATE"}]),
        ),
        claude(
            2,
            "assistant",
            json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}]),
        ),
        json!({"type": "file-history-snapshot", "snapshot": {}}).to_string() + "\n",
        claude(3, "user", json!([{"type": "tool_result", "tool_use_id": "t1", "content": "ok"}])),
        claude(4, "assistant", json!([{"type": "text", "text": "done"}])),
    ];
    let item =
        |payload: Value| json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "response_item", "payload": payload}).to_string() + "\n";
    let codex = [
        json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "session_meta", "payload": {"id": "s1"}}).to_string() + "\n",
        item(json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]})),
        item(json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "PRIVATE"})),
        item(json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]})),
    ];
    let opencode = json!({"info": {"id": "ses_1", "slug": "a", "version": "1"}, "messages": [
        {"info": {"id": "msg_1", "role": "user"}, "parts": [{"type": "text", "text": "go"}]},
        {"info": {"id": "msg_2", "role": "assistant"}, "parts": [{"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "PRIVATE"}}}, {"type": "text", "text": "done"}]},
    ]});
    vec![
        ("claude-code", read("claude-code", "s.jsonl", claude.concat())),
        ("codex", read("codex", "rollout-2026-03-01T10-00-00-s1.jsonl", codex.concat())),
        ("opencode", read("opencode", "s.json", opencode.to_string())),
    ]
}

/// What somebody said later, elsewhere.
fn later(transcript: &Transcript, role: Role, text: &str) -> UnifiedItem {
    let like = transcript
        .items
        .iter()
        .find(|item| matches!(item.body, UnifiedItemBody::Message(_)))
        .unwrap();
    let mut item = like.clone();
    item.base.id = UnifiedId::parse(&format!("op_later.i{}", transcript.items.len())).unwrap();
    item.base.role = Some(role);
    item.base.provenance.attribution.model = Some("gpt-later".to_owned());
    *item.parts_mut().unwrap() = vec![UnifiedContentPart::text(item.base.id.part(0), text)];
    item
}

#[test]
fn private_state_goes_back_to_its_runtime_and_nowhere_else() {
    for (name, mut transcript) in sessions() {
        for target in runtimes() {
            let is_own = target.name() == name;
            let text = &write(target.name(), &transcript).files[0].content;
            assert_eq!(text.contains("PRIVATE"), is_own, "{name} to {}", target.name());
        }
        for family in families() {
            let codec = throughline_protocols::codec_of(family).unwrap();
            let body = throughline_agents::next_request(&transcript, codec.as_ref(), Some("m"))
                .unwrap()
                .body;
            assert!(!body.contains("PRIVATE"), "{name} to {family}");
        }
        // Also when every record is written anew by the rules of the runtime: signed reasoning stands before its call, calls before
        // results, and texts of one message are joined.
        transcript.records.clear();
        let own = write(name, &transcript);
        assert!(own.files[0].content.contains("PRIVATE"), "{name}: {}", own.files[0].content);
        assert_eq!(
            said(&read(name, "again.jsonl", &own.files[0].content).items),
            said(&transcript.items),
            "{name}"
        );
    }
}

#[test]
fn what_was_said_later_comes_after_what_the_file_said() {
    for (name, mut transcript) in sessions() {
        let before = write(name, &transcript).files[0].content.clone();
        for (role, text) in [(Role::User, "next"), (Role::Assistant, "answer")] {
            let item = later(&transcript, role, text);
            transcript.items.push(item);
        }
        let written = write(name, &transcript);
        if name != "opencode" {
            assert!(written.files[0].content.starts_with(&before), "{name}: the file grows");
        }
        let again = read(name, "again.jsonl", &written.files[0].content);
        assert_eq!(said(&again.items), said(&transcript.items), "{name}");
    }
}

#[test]
fn a_record_whose_items_were_changed_speaks_no_more() {
    for (name, mut transcript) in sessions() {
        let at = transcript.items.len() - 1;
        let parts = transcript.items[at].parts_mut().unwrap();
        let PartBody::Text(text) = &mut parts[0].body else {
            panic!("{name}")
        };
        text.text = "corrected".to_owned();
        let written = write(name, &transcript).files[0].content.clone();
        assert!(written.contains("corrected") && !written.contains("done"), "{name}: {written}");
        assert_eq!(said(&read(name, "again.jsonl", &written).items), said(&transcript.items), "{name}");
    }
    // The chain of Claude Code stays whole where a line was left out in the middle.
    let (_, mut transcript) = sessions().swap_remove(0);
    transcript.items[0].parts_mut().unwrap()[0].body = UnifiedContentPart::text(UnifiedId::pending(), "changed").body;
    let lines = lines(&write("claude-code", &transcript));
    let uuids: Vec<&Value> = lines.iter().filter_map(|line| line.get("uuid")).collect();
    for line in lines.iter().filter(|line| line["parentUuid"].is_string()) {
        assert!(uuids.contains(&&line["parentUuid"]), "{line}");
    }
}

#[test]
fn writing_is_stable_when_the_session_grows() {
    let (_, whole) = sessions().swap_remove(0);
    for target in ["codex", "gemini-cli"] {
        let mut shorter = whole.clone();
        shorter.items.truncate(4);
        let (short, long) = (write(target, &shorter), write(target, &whole));
        assert_eq!(short.session_id, long.session_id);
        // The head tells the time of the last change.
        let tail = |text: &str| joined(text.lines().skip(1));
        let (short, long) = (tail(&short.files[0].content), tail(&long.files[0].content));
        assert!(!short.is_empty() && long.starts_with(&short), "{target}:\n{short}\n{long}");
    }
}

#[test]
fn an_archive_gives_the_transcript_back_and_grows_at_its_end_only() {
    for (_, transcript) in sessions() {
        let kept = archive(&transcript).unwrap();
        let find = |id: &UnifiedId| kept.segments.iter().find(|s| s.resource_id == *id).map(|s| s.payload.clone());
        let again = restore(&kept.manifest.payload, find, transcript.items.clone(), transcript.resources.clone()).unwrap();
        assert_eq!(
            (again.records, again.session, again.usage),
            (transcript.records.clone(), transcript.session.clone(), transcript.usage.clone())
        );
        let lost = restore(&kept.manifest.payload, |_| None, transcript.items.clone(), Vec::new()).unwrap();
        assert!(lost.records.is_empty() && lost.items == transcript.items);
        assert!(restore(b"{}", |_| None, Vec::new(), Vec::new()).is_none());
    }
    let line = |n: usize| {
        json!({"timestamp": "2026-03-01T10:00:00.000Z", "type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": n.to_string()}]}}).to_string() + "\n"
    };
    let session = |count: usize| {
        read(
            "codex",
            "rollout-2026-03-01T10-00-00-s1.jsonl",
            (0..count).map(line).collect::<String>(),
        )
    };
    let (short, long) = (archive(&session(130)).unwrap(), archive(&session(133)).unwrap());
    assert_eq!(short.segments[..2], long.segments[..2]);
    assert_ne!(short.segments[2], long.segments[2]);
    assert_eq!(session(133).items[..130], session(130).items[..]);
}
