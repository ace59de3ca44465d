//! CONF-01, CONF-02, CONF-06 and PROTO-10.

use crate::leaves::{leaves, silently_lost};
use crate::world::{Answer, World};
use bytes::Bytes;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use throughline_engine::{RecoveryReport, TurnRequest};
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::ResourceStatus;
use throughline_format::{
    ErrorCategory, OperationState, ProtocolFamily as F, UnifiedError, UnifiedId, UnifiedItemBody, clause, fingerprint,
};
use throughline_protocols::offline::OfflineFold;
use throughline_protocols::{Capabilities, DecodeContext, EncodeContext, codec_of};
use tokio::sync::mpsc;

const EIGHT: [F; 8] = [
    F::OpenAiChat,
    F::OpenAiResponses,
    F::AnthropicMessages,
    F::GeminiGenerateContent,
    F::GeminiInteractions,
    F::VertexGemini,
    F::Antigravity,
    F::CursorSdk,
];

/// An answer that says, thinks and calls, in the words of a family.
fn answer(family: &F, number: usize) -> String {
    let body = json!({
        "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use",
        "content": [
            {"type": "thinking", "thinking": format!("thought {number}"), "signature": format!("signature {number}")},
            {"type": "text", "text": format!("answer {number}")},
            {"type": "tool_use", "id": format!("toolu_{number}"), "name": format!("look{number}"), "input": {"at": format!("place {number}")}},
        ],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    });
    if *family == F::AnthropicMessages {
        return body.to_string();
    }
    let anthropic = codec_of(&F::AnthropicMessages).unwrap();
    let mut fold = OfflineFold::new();
    fold.push(
        anthropic
            .decode_response(body.to_string().as_bytes(), &DecodeContext::offline())
            .unwrap(),
    )
    .unwrap();
    let codec = codec_of(family).unwrap();
    let context = EncodeContext::plain(Capabilities::of(codec.capabilities()));
    codec.encode_response(&fold.fold.result(), &context).unwrap().body
}

/// One conversation over these families, each answering once with what `answers` gives. After every turn the journal holds
/// everything that it held before, unchanged, and the provider was told every leaf of it or a loss is reported.
async fn tour(world: &World, families: &[F], answers: impl Fn(&F, usize) -> String) {
    let tools: Vec<Value> = (0..families.len())
        .map(|n| json!({"type": "function", "function": {"name": format!("look{n}"), "parameters": {"type": "object"}}}))
        .collect();
    let more = json!({"tools": tools});
    let mut conversation: Option<UnifiedId> = None;
    let (mut known, mut open): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for (number, family) in families.iter().enumerate() {
        world.expect(family, Answer::Json(answers(family, number)));
        let mut messages: Vec<Value> = std::mem::take(&mut open)
            .into_iter()
            .map(|id| json!({"role": "tool", "tool_call_id": id, "content": format!("result for {number}")}))
            .collect();
        messages.push(json!({"role": "user", "content": format!("question {number}")}));
        let turn = world.say(conversation.as_ref(), family, &json!(messages), &more).await;
        let (id, branch) = (turn.operation_id.clone(), turn.branch_id.clone());
        conversation = Some(turn.conversation_id.clone());
        turn.collect().await.unwrap_or_else(|e| panic!("{families:?} at {number}: {e:?}"));
        let items = world.items(&branch).await;
        let print = |item| fingerprint(item).unwrap().to_hex();
        let prints: Vec<String> = items.iter().map(print).collect();
        assert_eq!(
            prints[..known.len()],
            known[..],
            "{families:?} at {number}: the journal has changed"
        );
        let own = |item: &&throughline_format::UnifiedItem| {
            item.provenance.operation_id.as_ref() == Some(&id) && item.provenance.origin == ItemOrigin::Provider
        };
        let told = items.iter().position(|item| own(&item)).unwrap_or(items.len());
        let operation = world.engine.operation(&World::principal(), &id).await.unwrap();
        let lost = silently_lost(&items[..told], &world.last_call(family), &operation.loss.unwrap());
        assert!(lost.is_empty(), "{families:?} at {number}: {lost:#?}\n{}", world.last_call(family));
        open = items[told..]
            .iter()
            .filter(|item| matches!(item.body, UnifiedItemBody::ToolCall(_)))
            .filter_map(|item| item.call_id().map(str::to_owned))
            .collect();
        known = prints;
    }
    assert!(known.len() >= 2 * families.len());
}

#[tokio::test]
async fn openai_then_gemini_anthropic_gemini_loses_no_observable_history() {
    clause!("CONF-01");
    clause!("CKPT-01");
    let route = [
        F::OpenAiResponses,
        F::GeminiGenerateContent,
        F::AnthropicMessages,
        F::GeminiGenerateContent,
    ];
    for world in World::both() {
        tour(&world, &route, answer).await;
    }
    let Some(corpus) = corpus() else { return };
    let all: Vec<Vec<String>> = route.iter().map(|family| captured(&corpus, family)).collect();
    for start in 0..30 {
        for world in World::both() {
            let pick = |_: &F, number: usize| all[number][(start * 7 + number * 3) % all[number].len()].clone();
            tour(&world, &route, pick).await;
        }
    }
}

fn corpus() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus/wire");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is not there", folder.display());
    eprintln!("skipped: {} is not there", folder.display());
    None
}

/// Captured answers of a family that ended well.
fn captured(corpus: &Path, family: &F) -> Vec<String> {
    let entries = std::fs::read_dir(corpus.join(family.as_str()).join("responses")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let codec = codec_of(family).unwrap();
    let texts = files.iter().filter(|file| !file.to_str().unwrap().ends_with(".meta.json"));
    let good = texts.filter_map(|file| std::fs::read_to_string(file).ok()).filter(|text| {
        let mut fold = OfflineFold::new();
        let decoded = codec.decode_response(text.as_bytes(), &DecodeContext::offline());
        let is_whole = decoded.is_ok_and(|decoded| fold.push(decoded).is_ok());
        is_whole
            && fold.fold.operation_state() == Some(OperationState::Completed)
            && fold.fold.items().iter().any(|item| !leaves(item).is_empty())
    });
    good.collect()
}

#[tokio::test]
async fn any_order_of_the_eight_families_keeps_the_observable_history() {
    clause!("PROTO-10");
    // A small generator: which family follows which.
    let mut state = 7_u64;
    for round in 0..24 {
        let mut route = Vec::new();
        for _ in 0..7 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            route.push(EIGHT[usize::try_from((state >> 33) % 8).unwrap()].clone());
        }
        // Every family begins and follows every other one somewhere.
        route.push(EIGHT[round % 8].clone());
        for world in World::both() {
            tour(&world, &route, answer).await;
        }
    }
}

fn responses(id: &str, text: &str) -> String {
    json!({"id": id, "object": "response", "created_at": 1, "status": "completed", "model": "m", "store": true,
        "output": [{"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": text, "annotations": []}]}]})
    .to_string()
}

fn user(text: &str) -> Value {
    json!([{"role": "user", "content": text}])
}

#[tokio::test]
async fn a_checkpoint_at_a_cannot_resume_after_another_provider_advanced_to_b() {
    clause!("CONF-02");
    for world in World::both() {
        let kept = json!({"store": true});
        world.expect(&F::OpenAiResponses, Answer::Json(responses("resp_A", "alpha")));
        let turn = world.say(None, &F::OpenAiResponses, &user("one"), &kept).await;
        let (conversation, branch) = (turn.conversation_id.clone(), turn.branch_id.clone());
        turn.collect().await.unwrap();
        let head = || async { world.store.branch(&branch).await.unwrap().unwrap().head_item_id.unwrap() };
        let checkpoints = || async { world.store.checkpoints(&conversation, Some(&branch)).await.unwrap() };
        let at_a = checkpoints().await.remove(0);
        assert_eq!((at_a.status, &at_a.journal_head_item_id), (ResourceStatus::Active, &head().await));

        // At its own head it is gone on by, with nothing but the new input.
        world.expect(&F::OpenAiResponses, Answer::Json(responses("resp_A2", "alpha two")));
        world
            .say(Some(&conversation), &F::OpenAiResponses, &user("more"), &kept)
            .await
            .collect()
            .await
            .unwrap();
        let sent = world.last_call(&F::OpenAiResponses);
        assert_eq!(sent["previous_response_id"], "resp_A");
        assert!(!sent.to_string().contains("alpha"), "{sent}");

        // Another provider moves the head to B.
        world.expect(
            &F::AnthropicMessages,
            Answer::Json(answer(&F::AnthropicMessages, 1).replace("tool_use\",\"usage", "end_turn\",\"usage")),
        );
        world
            .say(Some(&conversation), &F::AnthropicMessages, &user("two"), &json!({}))
            .await
            .collect()
            .await
            .unwrap();
        let b = head().await;
        assert!(
            checkpoints().await.iter().all(|c| c.status == ResourceStatus::Stale),
            "kept, but of no direct use"
        );

        // Its owner gets the whole history, and no handle of A; then there is a checkpoint at the new head.
        world.expect(&F::OpenAiResponses, Answer::Json(responses("resp_C", "gamma")));
        world
            .say(Some(&conversation), &F::OpenAiResponses, &user("three"), &kept)
            .await
            .collect()
            .await
            .unwrap();
        let sent = world.last_call(&F::OpenAiResponses);
        assert!(sent.get("previous_response_id").is_none());
        let text = sent["input"].to_string();
        let order: Vec<_> = ["one", "alpha", "more", "alpha two", "two", "answer 1", "three"]
            .iter()
            .map(|word| text.find(word))
            .collect();
        assert!(order.iter().all(Option::is_some), "{text}");
        let now: Vec<_> = checkpoints()
            .await
            .into_iter()
            .filter(|c| c.status == ResourceStatus::Active)
            .collect();
        assert_eq!(now.len(), 1);
        assert_eq!(now[0].journal_head_item_id, head().await);
        assert_ne!(now[0].journal_head_item_id, b);
    }
}

fn frames(background: bool) -> Vec<String> {
    let text = "first half, second half";
    let response = |status: &str, output: Value| json!({"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "m", "output": output, "background": background, "store": true});
    let part = json!({"type": "output_text", "text": text, "annotations": []});
    let item =
        |status: &str, content: Value| json!({"type": "message", "id": "msg_1", "role": "assistant", "status": status, "content": content});
    let delta = |text: &str| json!({"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "msg_1", "delta": text});
    let events = [
        json!({"type": "response.created", "response": response("in_progress", json!([]))}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item("in_progress", json!([]))}),
        json!({"type": "response.content_part.added", "output_index": 0, "content_index": 0, "item_id": "msg_1", "part": {"type": "output_text", "text": "", "annotations": []}}),
        delta("first half"),
        delta(", second half"),
        json!({"type": "response.content_part.done", "output_index": 0, "content_index": 0, "item_id": "msg_1", "part": part}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item("completed", json!([part]))}),
        json!({"type": "response.completed", "response": response("completed", json!([item("completed", json!([part]))]))}),
    ];
    let numbered = events.into_iter().enumerate().map(|(number, mut event)| {
        event["sequence_number"] = json!(number);
        format!("data: {event}\n\n")
    });
    numbered.collect()
}

async fn replay(world: &World, id: &UnifiedId) -> Vec<Bytes> {
    let mut subscription = world.engine.subscribe(&World::principal(), id, 0).await.unwrap();
    let mut events = Vec::new();
    while let Some(delivery) = subscription.next().await.unwrap() {
        events.push(delivery.bytes);
    }
    events
}

#[tokio::test]
async fn a_restart_keeps_what_was_committed_and_tells_a_torn_stream_from_work_that_goes_on() {
    clause!("CONF-06");
    clause!("LIVE-05");
    for background in [false, true] {
        for world in World::both() {
            let frames = frames(background);
            let (send, chunks) = mpsc::unbounded_channel::<Result<Bytes, UnifiedError>>();
            world.expect(&F::OpenAiResponses, Answer::Live(chunks));
            let request = TurnRequest {
                principal: World::principal(),
                codec: codec_of(&F::OpenAiResponses).unwrap(),
                body: json!({"model": "openai-responses", "stream": true, "background": background, "store": true, "input": "one"})
                    .to_string()
                    .into(),
                model: None,
                stream: None,
                conversation: None,
                branch: None,
                require: Vec::new(),
                client_family: None,
                session: None,
                client_headers: Vec::new(),
                transport: None,
                options: throughline_engine::TurnOptions::default(),
            };
            let mut turn = world.begin(request).await;
            let (id, branch) = (turn.operation_id.clone(), turn.branch_id.clone());
            send.send(Ok(frames[..4].concat().into())).unwrap();
            let mut seen: Vec<Bytes> = Vec::new();
            while !seen
                .last()
                .is_some_and(|event| std::str::from_utf8(event).unwrap().contains("first half"))
            {
                seen.push(turn.subscription.next().await.unwrap().unwrap().bytes);
            }

            let next = world.after_a_kill();
            if background {
                next.expect(&F::OpenAiResponses, Answer::Sse(frames.concat()));
            }
            let report = next.engine.recover(&next).await.unwrap();
            let expected = RecoveryReport {
                resumed: usize::from(background),
                interrupted: usize::from(!background),
                ..RecoveryReport::default()
            };
            assert_eq!(report, expected);
            let told = replay(&next, &id).await;
            assert_eq!(told[..seen.len()], seen[..], "committed events are there, byte for byte");
            let operation = next.engine.operation(&World::principal(), &id).await.unwrap();
            let result = next.engine.result(&World::principal(), &id).await.unwrap().unwrap();
            let kinds: Vec<_> = next.items(&branch).await.iter().map(|item| item.body.kind()).collect();
            let text: String = result.output.iter().flat_map(leaves).collect();
            assert_eq!(
                next.account(&F::OpenAiResponses).resumed.lock().unwrap().len(),
                usize::from(background)
            );
            if background {
                assert_eq!(
                    (operation.state, text.as_str()),
                    (OperationState::Completed, "firsthalf,secondhalf")
                );
                assert_eq!(kinds, ["message", "message"], "nothing twice, and no interruption");
                let checkpoints = next.store.checkpoints(&operation.conversation_id, None).await.unwrap();
                assert_eq!(checkpoints.len(), 1, "what goes on leaves a checkpoint like any other answer");
            } else {
                assert_eq!(operation.state, OperationState::Failed);
                assert_eq!(operation.error.unwrap().category, ErrorCategory::Interrupted);
                assert_eq!(text, "firsthalf");
                assert_eq!(kinds, ["message", "message", "interruption"]);
            }
            assert_eq!(next.engine.recover(&next).await.unwrap(), RecoveryReport::default());
        }
    }
}
