//! CONF-03: tool argument streaming, approval, execution, interruption, reconnect and result stay coherent.

use crate::support::*;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use throughline_engine::{Approval, ToolExecutor, ToolInvocation};
use throughline_format::item::ApprovalDecision;
use throughline_format::part::TextPart;
use throughline_format::{
    EventBody, Fold, OperationState, PartBody, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedItemBody, UnifiedToolDefinition,
    UnifiedToolLifecycle as L, clause, fingerprint,
};
use tokio::sync::oneshot;

/// A tool that runs until the test lets it end.
#[derive(Default)]
struct Held(Mutex<Vec<oneshot::Receiver<String>>>, Mutex<Vec<String>>);

impl ToolExecutor for Held {
    fn executes(&self, _: &UnifiedToolDefinition) -> bool {
        true
    }

    fn run(&self, call: ToolInvocation) -> BoxFuture<'static, Result<Vec<PartBody>, UnifiedError>> {
        let held = self.0.lock().unwrap().remove(0);
        self.1.lock().unwrap().push(call.raw_arguments);
        Box::pin(async move {
            let text = held.await.unwrap();
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

const PIECES: [&str; 4] = ["{\"pl", "ace\": \"Lis", "bon\", \"days\":", " 3.0}"];

/// Reads to the end, leaving and coming back after every event.
async fn restless(world: &World, id: &UnifiedId) -> Vec<UnifiedEventV2> {
    let mut seen: Vec<UnifiedEventV2> = Vec::new();
    loop {
        let after = seen.last().map_or(0, |event| event.sequence);
        let next = world.events(id, after, 1).await;
        if next.is_empty() {
            return seen;
        }
        seen.extend(next);
    }
}

fn call(feed: &Feed) {
    send(feed, &message_start());
    send(feed, &call_start(0, "toolu_1", "look"));
    for piece in PIECES {
        send(feed, &call_piece(0, piece));
    }
    send(feed, &block_stop(0));
    send_all(feed, &stop("tool_use"));
}

#[tokio::test]
async fn a_tool_call_stays_whole_from_its_first_argument_to_its_result() {
    clause!("CONF-03");
    for home in homes() {
        let world = Arc::new(World::open(&home, 1));
        let held = Arc::new(Held::default());
        assert!(world.engine.register_tools(Arc::<Held>::clone(&held)));
        let (release, waiting) = oneshot::channel();
        held.0.lock().unwrap().push(waiting);

        let feed = world.live();
        let turn = world.begin(native(&[tool()], &[said("weather?")])).await;
        let (id, conversation) = (turn.operation_id.clone(), turn.conversation_id.clone());
        drop(turn);
        let reader = {
            let (world, id) = (Arc::clone(&world), id.clone());
            tokio::spawn(async move { restless(&world, &id).await })
        };
        call(&feed);
        world.until(&id, OperationState::RequiresAction).await;
        assert!(held.1.lock().unwrap().is_empty(), "nothing runs before it is allowed");
        assert_eq!(world.provider.bodies.lock().unwrap().len(), 1);

        // A reader that comes now finds the question.
        let so_far = world
            .events(
                &id,
                0,
                100_000_usize.min(usize::try_from(world.engine.operation(&me(), &id).await.unwrap().last_sequence).unwrap()),
            )
            .await;
        assert!(
            so_far
                .iter()
                .any(|event| matches!(event.body, EventBody::OperationRequiresAction(_)))
        );
        world.answers(&says("Sunny in Lisbon."));
        let decision = Approval {
            approval_id: "approve:toolu_1".into(),
            decision: ApprovalDecision::Approved,
            reason: None,
        };
        world.engine.decide(&me(), &id, decision).await.unwrap();
        while held.1.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        assert_eq!(world.state(&id).await, OperationState::Running);
        release.send("sunny".to_owned()).unwrap();
        world.until(&id, OperationState::Completed).await;

        let events = reader.await.unwrap();
        assert!(events.iter().map(|event| event.sequence).eq(1..=events.len() as u64));
        assert_eq!(events, world.events(&id, 0, usize::MAX).await, "read at once or one by one");
        let arguments: String = events
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::ToolArgumentsDelta(delta) => Some(delta.text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(arguments, PIECES.concat());
        assert_eq!(
            *held.1.lock().unwrap(),
            [PIECES.concat()],
            "run once, with the arguments as they were written"
        );
        let moves: Vec<(L, L)> = events
            .iter()
            .filter_map(|event| match &event.body {
                EventBody::ToolLifecycle(change) => Some((change.from, change.to)),
                _ => None,
            })
            .collect();
        assert_eq!(
            moves,
            [
                (L::ArgumentsReady, L::ApprovalRequired),
                (L::ApprovalRequired, L::ApprovalApproved),
                (L::ApprovalApproved, L::Executing),
                (L::Executing, L::OutputReady)
            ]
        );
        let mut fold = Fold::new(id.clone());
        for event in &events {
            fold.push(event).unwrap();
        }
        let result = world.engine.result(&me(), &id).await.unwrap().unwrap();
        assert_eq!(fingerprint(&fold.result().output).unwrap(), fingerprint(&result.output).unwrap());
        let kinds: Vec<&str> = result.output.iter().map(|item| item.body.kind()).collect();
        assert_eq!(
            kinds,
            ["tool-call", "approval-request", "approval-response", "tool-result", "message"]
        );
        let sent = world.provider.bodies.lock().unwrap()[1].clone();
        assert_eq!(sent["messages"][1]["content"][0]["input"]["place"], "Lisbon");
        assert_eq!(sent["messages"][2]["content"][0]["content"], "sunny");

        // The journal has the same items, and tells of the call how it went.
        let query = throughline_engine::ItemQuery {
            limit: 100,
            ..Default::default()
        };
        let items = world.engine.items(&me(), &conversation, query).await.unwrap().items;
        assert_eq!(
            items[1..].iter().map(|item| &item.id).collect::<Vec<_>>(),
            result.output.iter().map(|item| &item.id).collect::<Vec<_>>()
        );
        let revisions = world.store.revisions(&items[1].id).await.unwrap();
        assert_eq!(revisions.last().unwrap().change.lifecycle, Some(L::OutputReady));
        assert!(throughline_format::validate::semantics::export(&world.engine.export(&me(), &conversation).await.unwrap()).is_empty());
        world.close(&home).await;
    }
}

#[tokio::test]
async fn an_interruption_at_any_point_leaves_a_conversation_that_goes_on() {
    // Where the process goes down: in the arguments, in the tool. What waits for a decision goes on waiting (`waiting.rs`).
    for point in ["arguments", "tool"] {
        for home in homes() {
            let world = World::open(&home, 1);
            let held = Arc::new(Held::default());
            world.engine.register_tools(Arc::<Held>::clone(&held));
            let (_release, waiting) = oneshot::channel();
            held.0.lock().unwrap().push(waiting);
            let feed = world.live();
            let turn = world.begin(native(&[tool()], &[said("weather?")])).await;
            let (id, conversation) = (turn.operation_id.clone(), turn.conversation_id.clone());
            if point == "arguments" {
                send(&feed, &message_start());
                send(&feed, &call_start(0, "toolu_1", "look"));
                send(&feed, &call_piece(0, PIECES[0]));
                while world.engine.operation(&me(), &id).await.unwrap().last_sequence < 5 {
                    tokio::task::yield_now().await;
                }
            } else {
                call(&feed);
                world.until(&id, OperationState::RequiresAction).await;
            }
            if point == "tool" {
                let decision = Approval {
                    approval_id: "approve:toolu_1".into(),
                    decision: ApprovalDecision::Approved,
                    reason: None,
                };
                world.engine.decide(&me(), &id, decision).await.unwrap();
                while held.1.lock().unwrap().is_empty() {
                    tokio::task::yield_now().await;
                }
            }
            let before = world.engine.operation(&me(), &id).await.unwrap().last_sequence;
            // SQLite lets nobody else in while a process has it, so there the process says goodbye; in memory it is just gone.
            if matches!(home, Home::Sqlite(_)) {
                world.engine.shutdown().await;
            }
            world.close(&home).await;

            let next = World::open(&home, 1_000);
            next.engine.recover(&next).await.unwrap();
            let operation = next.engine.operation(&me(), &id).await.unwrap();
            assert_eq!(operation.state, OperationState::Failed, "{point}");
            assert_eq!(operation.error.unwrap().category, throughline_format::ErrorCategory::Interrupted);
            let events = next.events(&id, 0, usize::MAX).await;
            assert!(events.len() as u64 > before && events.iter().map(|event| event.sequence).eq(1..=events.len() as u64));
            let query = throughline_engine::ItemQuery {
                limit: 100,
                ..Default::default()
            };
            let items = next.engine.items(&me(), &conversation, query).await.unwrap().items;
            let UnifiedItemBody::Interruption(torn) = &items.last().unwrap().body else {
                panic!("{point}")
            };
            assert_eq!(torn.open_call_ids, ["toolu_1"], "{point}");
            assert_eq!(
                items.iter().filter(|item| item.call_id() == Some("toolu_1")).count(),
                1,
                "{point}: no item twice"
            );

            // The next turn sends a history that a provider takes: no call without a result.
            next.answers(&says("Let us go on."));
            let mut request = native(&[], &[said("never mind")]);
            request.conversation = Some(conversation);
            next.begin(request).await.collect().await.unwrap();
            let sent = next.provider.bodies.lock().unwrap()[0].clone();
            let text = sent.to_string();
            assert_eq!(
                text.matches("\"tool_use\"").count(),
                text.matches("\"tool_result\"").count(),
                "{point}"
            );
            assert!(text.contains("never mind"));
            next.close(&home).await;
        }
    }
}
