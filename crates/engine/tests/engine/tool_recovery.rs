//! What was running when the process went down, in an operation that had run its own tools before.

use crate::support::*;
use crate::tools::{Shelf, kinds, native, said, tool, unified, until, world};
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use throughline_engine::{RecoveryReport, Turn};
use throughline_format::{ErrorCategory, Fold, OperationState, UnifiedId};
use tokio::sync::mpsc;

fn frame(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap())
}

/// A background answer that calls a tool.
fn call(response: &str, call_id: &str, asked: &str) -> String {
    let item = json!({"type":"function_call","id":format!("fc_{call_id}"),"call_id":call_id,"name":"shelf","arguments":json!({"q":asked}).to_string(),"status":"completed"});
    let whole = |status: &str, output: Value| {
        json!({"id":response,"object":"response","created_at":1,"status":status,"model":"o-x","output":output,"background":true,"store":true,
            "usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":0},"output_tokens":7,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":12}})
    };
    frame(&json!({"type":"response.created","sequence_number":0,"response":whole("in_progress", json!([]))}))
        + &frame(&json!({"type":"response.completed","sequence_number":1,"response":whole("completed", json!([item]))}))
}

async fn begin(world: &World) -> Turn {
    let mut body = unified("o-x", &[tool("shelf", "ccr", &json!("never"))], &[said("look")]);
    body["state"] =
        json!({"persist": {"value": true, "requirement": "preferred"}, "background": {"value": {}, "requirement": "preferred"}});
    let mut request = native(&body);
    request.options.background = true;
    world.begin_with(request).await
}

/// Reads until a text was told.
async fn heard(turn: &mut Turn, text: &str) -> Vec<Bytes> {
    let mut seen: Vec<Bytes> = Vec::new();
    while !seen.last().is_some_and(|b| std::str::from_utf8(b).unwrap().contains(text)) {
        seen.push(turn.subscription.next().await.unwrap().unwrap().bytes);
    }
    seen
}

async fn replay(world: &World, id: &UnifiedId) -> Vec<Bytes> {
    let mut replay = world.engine.subscribe(&World::principal(), id, 0).await.unwrap();
    let mut events = Vec::new();
    while let Some(delivery) = replay.next().await.unwrap() {
        events.push(delivery.bytes);
    }
    events
}

fn next_process(before: &World) -> (World, Arc<Shelf>) {
    let (next, shelf) = (World::over(Arc::clone(&before.store), 1_000_000), Arc::new(Shelf::default()));
    assert!(next.engine.register_tools(Arc::<Shelf>::clone(&shelf)));
    (next, shelf)
}

#[tokio::test]
async fn the_answer_after_a_tool_goes_on_at_its_provider() {
    let frames = responses_frames("resp_2", "first half, second half", true);
    for cut in 4..frames.len() - 1 {
        let (world, _) = world();
        let (send, chunks) = mpsc::unbounded_channel::<Result<Bytes, _>>();
        World::expect(&world.responses, Answer::Sse(call("resp_1", "call_1", "books")));
        World::expect(&world.responses, Answer::Live(chunks));
        let mut turn = begin(&world).await;
        send.send(Ok(frames[..cut].concat().into())).unwrap();
        let seen = heard(&mut turn, "first half").await;

        let (next, shelf) = next_process(&world);
        World::expect(&next.responses, Answer::Sse(frames.concat()));
        let report = next.engine.recover(&next).await.unwrap();
        let resumed = RecoveryReport {
            resumed: 1,
            ..RecoveryReport::default()
        };
        assert_eq!(report, resumed, "cut after {cut}");
        let told = replay(&next, &turn.operation_id).await;
        assert_eq!(told[..seen.len()], seen[..], "what a subscriber saw is what is replayed");
        assert_eq!(
            *next.responses.0.resumed.lock().unwrap(),
            [["resp_2"]],
            "the later work, not the first one"
        );
        assert!(shelf.asked.lock().unwrap().is_empty(), "what was run is not run again");
        let result = next.engine.result(&World::principal(), &turn.operation_id).await.unwrap().unwrap();
        assert_eq!(kinds(&result), ["tool-call", "tool-result", "message"]);
        assert_eq!(
            result.output[2].parts()[0].as_text(),
            Some("first half, second half"),
            "cut after {cut}"
        );
        let journal: Vec<_> = next.items(&turn.branch_id).await.into_iter().map(|item| item.id.clone()).collect();
        assert!(journal[1..].iter().eq(result.output.iter().map(|item| &item.id)), "{journal:?}");
        let mut fold = Fold::new(turn.operation_id.clone());
        for event in &told {
            fold.push(&serde_json::from_slice(event).unwrap()).unwrap();
        }
        assert_eq!(fold.items(), &result.output[..], "the fold is the stored result");
    }
}

#[tokio::test]
async fn a_tool_that_is_called_after_a_restart_is_run_and_every_answer_is_counted() {
    for first_has_tool in [true, false] {
        let (world, _) = world();
        if first_has_tool {
            World::expect(&world.responses, Answer::Sse(call("resp_1", "call_1", "books")));
        }
        let (send, chunks) = mpsc::unbounded_channel::<Result<Bytes, _>>();
        World::expect(&world.responses, Answer::Live(chunks));
        let mut turn = begin(&world).await;
        let second = call("resp_2", "call_2", "maps");
        send.send(Ok(second[..second.find("event: response.completed").unwrap()].to_owned().into()))
            .unwrap();
        heard(&mut turn, "\"kind\":\"response.").await;
        let noted = async || {
            let operation = world.engine.operation(&World::principal(), &turn.operation_id).await.unwrap();
            operation.provider_job.map(|job| job.resource_id.to_string())
        };
        let job = format!("{}{}.job", turn.operation_id, if first_has_tool { ".a1" } else { "" });
        while noted().await.as_ref() != Some(&job) {
            tokio::task::yield_now().await;
        }

        let (next, shelf) = next_process(&world);
        World::expect(&next.responses, Answer::Sse(second.clone()));
        World::expect(&next.responses, Answer::Sse(call("resp_3", "call_3", "globes")));
        World::expect(&next.responses, Answer::Sse(responses_sse("resp_4", "There are all.")));
        assert_eq!(next.engine.recover(&next).await.unwrap().resumed, 1);
        until(&next.engine, &turn.operation_id, OperationState::Completed).await;
        assert_eq!(*shelf.asked.lock().unwrap(), [r#"{"q":"maps"}"#, r#"{"q":"globes"}"#]);
        let result = next.engine.result(&World::principal(), &turn.operation_id).await.unwrap().unwrap();
        let calls = result.output.iter().filter(|item| item.body.kind() == "tool-call").count();
        assert_eq!(calls, if first_has_tool { 3 } else { 2 });
        assert_eq!(result.output.last().unwrap().parts()[0].as_text(), Some("There are all."));
        let used = result.usage.unwrap().output_total.unwrap().value;
        #[allow(clippy::cast_precision_loss)]
        let each = used / calls as f64;
        assert!((each - 7.0).abs() < f64::EPSILON, "{used} of {calls} calls");
        let sent = World::last_call(&next.responses)["input"].to_string();
        let told = ["look", "call_2", "maps", "call_3", "globes"].map(|word| sent.find(word));
        assert!(told.iter().all(Option::is_some) && told.is_sorted(), "the whole history: {sent}");
    }
}

#[tokio::test]
async fn a_tool_that_was_running_is_an_interruption_and_is_not_run_again() {
    let (world, _) = world();
    World::expect(&world.responses, Answer::Sse(call("resp_1", "call_1", "wait")));
    let mut turn = begin(&world).await;
    heard(&mut turn, "executing").await;
    let (next, shelf) = next_process(&world);
    let report = next.engine.recover(&next).await.unwrap();
    assert_eq!((report.interrupted, report.resumed), (1, 0));
    let operation = next.engine.operation(&World::principal(), &turn.operation_id).await.unwrap();
    assert_eq!(operation.error.unwrap().category, ErrorCategory::Interrupted);
    assert!(shelf.asked.lock().unwrap().is_empty() && next.responses.0.resumed.lock().unwrap().is_empty());
}
