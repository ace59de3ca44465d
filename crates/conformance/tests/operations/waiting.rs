//! LIVE-05 and OP-01: what only waits when the process goes down, for a slot or for a decision, goes on waiting after it.

use crate::support::*;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use throughline_engine::{Approval, EngineLimits, RecoveryReport, ToolExecutor, ToolInvocation, TurnOptions};
use throughline_format::item::ApprovalDecision;
use throughline_format::part::TextPart;
use throughline_format::{OperationState, PartBody, ProtocolFamily, UnifiedError, UnifiedId, UnifiedToolDefinition};
use throughline_protocols::codec_of;

const ONE_SLOT: fn() -> EngineLimits = || EngineLimits {
    concurrent_operations: 1,
    ..EngineLimits::default()
};

/// The process goes down: it says goodbye, or it is just gone. SQLite lets nobody else in while a process has it.
async fn goes_down(world: &World, home: &Home, says_goodbye: bool) {
    if says_goodbye || matches!(home, Home::Sqlite(_)) {
        world.engine.shutdown().await;
    }
    world.close(home).await;
}

/// A store of each kind, and whether the process says goodbye.
fn ways() -> Vec<(Home, bool)> {
    let mut ways: Vec<(Home, bool)> = homes().into_iter().map(|home| (home, true)).collect();
    ways.push((homes().remove(0), false));
    ways
}

fn recovered(interrupted: usize, waiting: usize) -> RecoveryReport {
    RecoveryReport {
        interrupted,
        waiting,
        ..RecoveryReport::default()
    }
}

fn chat(text: &str) -> throughline_engine::TurnRequest {
    let body = json!({"model": "claude-x", "stream": true, "temperature": 0.25, "messages": [{"role": "user", "content": text}],
        "tools": [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]});
    let options = TurnOptions {
        background: true,
        ..TurnOptions::default()
    };
    request(codec_of(&ProtocolFamily::OpenAiChat).unwrap(), &body, options)
}

/// States that the events of an operation tell, in order.
async fn states(world: &World, id: &UnifiedId) -> Vec<&'static str> {
    let events = world.events(id, 0, usize::MAX).await;
    assert!(
        events.iter().map(|event| event.sequence).eq(1..=events.len() as u64),
        "no hole and nothing twice"
    );
    let kinds = events.iter().map(|event| event.body.kind());
    kinds.filter(|kind| kind.starts_with("operation.")).collect()
}

#[tokio::test]
async fn what_was_queued_is_queued_again_and_runs_as_it_was_asked() {
    for (home, says_goodbye) in ways() {
        let world = World::with(&home, 1, ONE_SLOT());
        // What it would have been sent, had it not had to wait.
        world.answers(&says("x"));
        world.begin(chat("one")).await.collect().await.unwrap();
        let expected = world.provider.bodies.lock().unwrap()[0].clone();

        let _feed = world.live();
        let running = world.begin(native(&[], &[said("a")])).await.operation_id;
        let first = world.begin(chat("one")).await;
        let second = world.begin(native(&[], &[said("two")])).await.operation_id;
        let (first, conversation) = (first.operation_id.clone(), first.conversation_id.clone());
        for id in [&first, &second] {
            assert_eq!(world.state(id).await, OperationState::Queued);
        }
        goes_down(&world, &home, says_goodbye).await;

        let next = World::with(&home, 1_000, ONE_SLOT());
        next.answers(&says("first"));
        next.answers(&says("second"));
        // A process that says goodbye ends by itself what runs.
        let ended_before = says_goodbye || matches!(home, Home::Sqlite(_));
        assert_eq!(next.engine.recover(&next).await.unwrap(), recovered(usize::from(!ended_before), 2));
        for (id, said) in [(&first, "first"), (&second, "second")] {
            next.until(id, OperationState::Completed).await;
            let result = next.engine.result(&me(), id).await.unwrap().unwrap();
            assert_eq!(result.output[0].parts()[0].as_text(), Some(said), "in the order of their arrival");
            assert_eq!(
                states(&next, id).await,
                ["operation.created", "operation.queued", "operation.running", "operation.completed"]
            );
        }
        assert_eq!(next.provider.bodies.lock().unwrap()[0], expected, "tools and settings included");
        assert_eq!(next.state(&running).await, OperationState::Failed);
        assert!(next.engine.operation(&me(), &first).await.unwrap().started_at.is_some());
        assert_eq!(next.engine.recover(&next).await.unwrap(), RecoveryReport::default());

        // The client comes back with the answer, and is where it was.
        next.answers(&says("again"));
        let mut body: Value = serde_json::from_slice(&chat("one").body).unwrap();
        let messages = body["messages"].as_array_mut().unwrap();
        messages.extend([
            json!({"role": "assistant", "content": "first"}),
            json!({"role": "user", "content": "more"}),
        ]);
        let again = request(codec_of(&ProtocolFamily::OpenAiChat).unwrap(), &body, TurnOptions::default());
        let turn = next.begin(again).await;
        assert_eq!(turn.conversation_id, conversation);
        turn.collect().await.unwrap();
        next.close(&home).await;
    }
}

#[tokio::test]
async fn what_was_queued_can_be_cancelled_and_expires_after_a_restart() {
    for (home, says_goodbye) in ways() {
        let world = World::with(&home, 1, ONE_SLOT());
        let _feed = world.live();
        drop(world.begin(native(&[], &[said("a")])).await);
        let cancelled = world.begin(chat("one")).await.operation_id;
        let mut late = chat("two");
        late.options.deadline = Some(throughline_format::Timestamp::from_millis(START + 1_000));
        let late = world.begin(late).await.operation_id;
        goes_down(&world, &home, says_goodbye).await;

        let next = World::with(&home, 1_000, ONE_SLOT());
        next.clock.0.fetch_add(2_000, Ordering::SeqCst);
        // The only slot is taken, so both of them wait.
        let feed = next.live();
        let other = next.begin(native(&[], &[said("b")])).await.operation_id;
        assert_eq!(next.engine.recover(&next).await.unwrap().waiting, 2);
        assert!(next.engine.cancel(&me(), &cancelled, None).await.unwrap().accepted);
        next.until(&cancelled, OperationState::Cancelled).await;
        next.until(&late, OperationState::Expired).await;
        assert_eq!(next.provider.bodies.lock().unwrap().len(), 1, "neither of them was sent");
        send_all(&feed, &says("b"));
        next.until(&other, OperationState::Completed).await;
        next.close(&home).await;
    }
}

/// Says what it was asked, at once.
#[derive(Default)]
struct Echo(Mutex<Vec<String>>);

impl ToolExecutor for Echo {
    fn executes(&self, _: &UnifiedToolDefinition) -> bool {
        true
    }

    fn run(&self, call: ToolInvocation) -> BoxFuture<'static, Result<Vec<PartBody>, UnifiedError>> {
        assert_eq!(call.principal, me());
        self.0.lock().unwrap().push(call.call_id.clone());
        let text = format!("ran {}", call.call_id);
        Box::pin(async move {
            Ok(vec![PartBody::Text(TextPart {
                text,
                ..TextPart::default()
            })])
        })
    }
}

fn tool() -> Value {
    json!({"toolId": "t", "kind": "function", "execution": "ccr", "portability": "portable", "name": "look", "inputSchema": {"type": "object"}, "approval": "always"})
}

fn calls(ids: &[&str]) -> Vec<Value> {
    let mut frames = vec![message_start()];
    for (index, id) in (0..).zip(ids) {
        frames.extend([call_start(index, id, "look"), call_piece(index, "{}"), block_stop(index)]);
    }
    [frames, stop("tool_use")].concat()
}

fn decision(call: &str, decision: ApprovalDecision) -> Approval {
    Approval {
        approval_id: format!("approve:{call}"),
        decision,
        reason: None,
    }
}

fn tools_of(world: &World) -> Arc<Echo> {
    let echo = Arc::new(Echo::default());
    assert!(world.engine.register_tools(Arc::<Echo>::clone(&echo)));
    echo
}

#[tokio::test]
async fn a_question_outlives_the_process_and_takes_its_decision_afterwards() {
    use ApprovalDecision::{Approved, Denied};
    for (home, says_goodbye) in ways() {
        let world = World::open(&home, 1);
        let echo = tools_of(&world);
        // One round before, so that a later answer is the one that is held.
        world.answers(&calls(&["toolu_0"]));
        let turn = world.begin(native(&[tool()], &[said("weather?")])).await;
        let (id, conversation) = (turn.operation_id.clone(), turn.conversation_id.clone());
        drop(turn);
        world.until(&id, OperationState::RequiresAction).await;
        world.answers(&calls(&["toolu_1", "toolu_2", "toolu_3"]));
        world.engine.decide(&me(), &id, decision("toolu_0", Approved)).await.unwrap();
        while world.provider.bodies.lock().unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
        world.until(&id, OperationState::RequiresAction).await;
        // One of three is decided before the stop.
        world.engine.decide(&me(), &id, decision("toolu_1", Approved)).await.unwrap();
        assert_eq!(*echo.0.lock().unwrap(), ["toolu_0"]);
        let told = world.engine.operation(&me(), &id).await.unwrap().last_sequence;
        goes_down(&world, &home, says_goodbye).await;

        let mut next = World::open(&home, 1_000);
        // Another stop in between changes nothing.
        for first_id in [2_000, 3_000] {
            assert_eq!(next.engine.recover(&next).await.unwrap(), recovered(0, 1));
            let operation = next.engine.operation(&me(), &id).await.unwrap();
            assert_eq!((operation.state, operation.last_sequence), (OperationState::RequiresAction, told));
            goes_down(&next, &home, says_goodbye).await;
            next = World::open(&home, first_id);
        }
        let echo = tools_of(&next);
        next.answers(&says("Sunny."));
        next.engine.recover(&next).await.unwrap();
        // The same decision again is none, another one is refused, and an unknown question is unknown.
        next.engine.decide(&me(), &id, decision("toolu_1", Approved)).await.unwrap();
        let error = next.engine.decide(&me(), &id, decision("toolu_1", Denied)).await.unwrap_err();
        assert_eq!(error.code, "conflict.approval");
        let error = next.engine.decide(&me(), &id, decision("toolu_9", Denied)).await.unwrap_err();
        assert_eq!(error.code, "not-found.resource");
        assert!(echo.0.lock().unwrap().is_empty(), "nothing runs before everything is decided");
        next.engine.decide(&me(), &id, decision("toolu_2", Denied)).await.unwrap();
        next.engine.decide(&me(), &id, decision("toolu_3", Approved)).await.unwrap();
        next.until(&id, OperationState::Completed).await;
        assert_eq!(*echo.0.lock().unwrap(), ["toolu_1", "toolu_3"]);

        // The provider gets the whole of it, and the journal has each call and each result once.
        let sent = next.provider.bodies.lock().unwrap()[0].to_string();
        for said in ["weather?", "ran toolu_0", "ran toolu_1", "not allowed", "ran toolu_3"] {
            assert_eq!(sent.matches(said).count(), 1, "{said} in {sent}");
        }
        let query = throughline_engine::ItemQuery {
            limit: 100,
            ..Default::default()
        };
        let items = next.engine.items(&me(), &conversation, query).await.unwrap().items;
        let result = next.engine.result(&me(), &id).await.unwrap().unwrap();
        assert_eq!(items.len(), result.output.len() + 1);
        for call in ["toolu_0", "toolu_1", "toolu_2", "toolu_3"] {
            let results = items
                .iter()
                .filter(|item| item.body.kind() == "tool-result" && item.call_id() == Some(call));
            assert_eq!(results.count(), 1, "{call}");
        }
        assert_eq!(items.last().unwrap().parts()[0].as_text(), Some("Sunny."));
        let round = ["operation.requires-action", "operation.running"];
        let expected = [
            &["operation.created", "operation.running"][..],
            &round,
            &round,
            &["operation.completed"],
        ]
        .concat();
        assert_eq!(states(&next, &id).await, expected);
        assert!(next.store.check().await.unwrap().problems.is_empty());
        next.close(&home).await;
    }
}

#[tokio::test]
async fn a_held_operation_can_be_cancelled_after_a_restart() {
    for (home, says_goodbye) in ways() {
        let world = World::open(&home, 1);
        tools_of(&world);
        world.answers(&calls(&["toolu_1"]));
        let id = world.begin(native(&[tool()], &[said("weather?")])).await.operation_id;
        world.until(&id, OperationState::RequiresAction).await;
        goes_down(&world, &home, says_goodbye).await;

        let next = World::open(&home, 1_000);
        assert_eq!(next.engine.recover(&next).await.unwrap().waiting, 1);
        assert!(next.engine.cancel(&me(), &id, None).await.unwrap().accepted);
        next.until(&id, OperationState::Cancelled).await;
        let error = next
            .engine
            .decide(&me(), &id, decision("toolu_1", ApprovalDecision::Approved))
            .await
            .unwrap_err();
        assert_eq!(error.code, "conflict.operation-state");
        next.close(&home).await;
    }
}

#[tokio::test]
async fn a_request_is_kept_up_to_its_bound() {
    const MOST: usize = 4 * 1024;
    let limits = EngineLimits {
        kept_request_bytes: MOST,
        ..ONE_SLOT()
    };
    for (beyond, report) in [(0, recovered(1, 1)), (1, recovered(2, 0))] {
        let home = homes().remove(0);
        let world = World::with(&home, 1, limits);
        let _feed = world.live();
        drop(world.begin(native(&[], &[said("a")])).await);
        let empty = chat("").body.len();
        let request = chat(&"x".repeat(MOST + beyond - empty));
        assert_eq!(request.body.len(), MOST + beyond);
        let id = world.begin(request).await.operation_id;
        let next = World::with(&home, 1_000, limits);
        next.answers(&says("long"));
        assert_eq!(next.engine.recover(&next).await.unwrap(), report);
        let end = if beyond == 0 {
            OperationState::Completed
        } else {
            OperationState::Failed
        };
        next.until(&id, end).await;
    }
}
