//! Webhooks of providers: who has one, what its reports change, and what they never do.

use crate::support::*;
use crate::tools::{native, said, unified, until};
use bytes::Bytes;
use serde_json::json;
use std::sync::Arc;
use throughline_engine::{Turn, TurnRequest, WebhookOutcome};
use throughline_format::operation::WebhookState;
use throughline_format::{ErrorCategory, OperationState, UnifiedError, UnifiedId};
use tokio::sync::mpsc;

type Feed = mpsc::UnboundedSender<Result<Bytes, UnifiedError>>;

fn id(text: &str) -> UnifiedId {
    UnifiedId::parse(text).unwrap()
}

fn request(webhook: Option<&str>, requirement: &str) -> TurnRequest {
    let mut body = unified("o-x", &[], &[said("look")]);
    let background = webhook.map_or_else(|| json!({}), |name| json!({"webhookRef": name}));
    body["state"] =
        json!({"persist": {"value": true, "requirement": "preferred"}, "background": {"value": background, "requirement": requirement}});
    native(&body)
}

fn with_webhook() -> World {
    let world = World::new();
    world.responses.0.webhooks.lock().unwrap().push("wh_1");
    world
}

fn frames() -> Vec<String> {
    responses_frames("resp_1", "first half, second half", true)
}

/// Background work whose first half was told, on a connection that stays open.
async fn half_told(world: &World, webhook: Option<&str>) -> (Turn, Feed) {
    let (send, chunks) = mpsc::unbounded_channel();
    World::expect(&world.responses, Answer::Live(chunks));
    let mut turn = world.begin_with(request(webhook, "preferred")).await;
    send.send(Ok(frames()[..4].concat().into())).unwrap();
    while !std::str::from_utf8(&turn.subscription.next().await.unwrap().unwrap().bytes)
        .unwrap()
        .contains("first half")
    {}
    (turn, send)
}

async fn webhook(world: &World, turn: &Turn) -> Option<(String, WebhookState)> {
    let operation = world.engine.operation(&World::principal(), &turn.operation_id).await.unwrap();
    operation.webhook.map(|webhook| (webhook.webhook_ref.to_string(), webhook.state))
}

fn told(state: impl Into<Option<WebhookState>>) -> Option<(String, WebhookState)> {
    state.into().map(|state| ("wh_1".to_owned(), state))
}

async fn completed(world: &World, turn: &Turn) {
    until(&world.engine, &turn.operation_id, OperationState::Completed).await;
    let result = world.engine.result(&World::principal(), &turn.operation_id).await.unwrap().unwrap();
    assert_eq!(result.output.len(), 1);
    assert_eq!(result.output[0].parts()[0].as_text(), Some("first half, second half"));
    assert_eq!(world.items(&turn.branch_id).await[1..], result.output[..]);
}

#[tokio::test]
async fn a_webhook_of_the_account_is_registered_and_any_other_one_is_a_loss() {
    for (name, registered, lost) in [(Some("wh_1"), true, false), (Some("wh_2"), false, true), (None, false, false)] {
        let world = with_webhook();
        let (turn, _send) = half_told(&world, name).await;
        let state = registered.then_some(WebhookState::Registered);
        assert_eq!(webhook(&world, &turn).await, told(state), "{name:?}");
        let losses = turn
            .loss
            .entries
            .iter()
            .filter(|entry| entry.path == "/state/background/value/webhookRef");
        assert_eq!(losses.count(), usize::from(lost), "{name:?}");
        assert_eq!(World::last_call(&world.responses)["background"], json!(true));
        assert!(
            !World::last_call(&world.responses).to_string().contains("wh_"),
            "no name goes upstream"
        );
    }
    let world = with_webhook();
    let refused = world.engine.begin(request(Some("wh_2"), "required"), &world).await.err().unwrap();
    assert_eq!(refused.error.code, "unsupported.projection");
}

#[tokio::test]
async fn a_report_has_the_work_read_at_once_and_nothing_is_told_twice() {
    let world = with_webhook();
    let (turn, _send) = half_told(&world, Some("wh_1")).await;
    for (name, job) in [("wh_2", "resp_1"), ("wh_1", "resp_2")] {
        assert!(
            !world.engine.webhook_received(&id(name), job, WebhookOutcome::Received),
            "{name} {job}"
        );
    }
    assert_eq!(webhook(&world, &turn).await, told(WebhookState::Registered));
    World::expect(&world.responses, Answer::Sse(frames().concat()));
    // Deliveries come more than once.
    for _ in 0..3 {
        assert!(world.engine.webhook_received(&id("wh_1"), "resp_1", WebhookOutcome::Received));
    }
    completed(&world, &turn).await;
    assert_eq!(
        *world.responses.0.resumed_after.lock().unwrap(),
        [None],
        "read once, from its begin"
    );
    assert_eq!(webhook(&world, &turn).await, told(WebhookState::Received));
    assert!(
        !world.engine.webhook_received(&id("wh_1"), "resp_1", WebhookOutcome::Received),
        "it has ended"
    );
}

#[tokio::test]
async fn without_another_connection_the_open_one_goes_on() {
    for (outcome, state) in [
        (WebhookOutcome::Received, WebhookState::Received),
        (WebhookOutcome::Failed, WebhookState::Failed),
    ] {
        let world = with_webhook();
        let (turn, send) = half_told(&world, Some("wh_1")).await;
        if outcome == WebhookOutcome::Received {
            let refusal = UnifiedError::new(ErrorCategory::Overloaded, "provider", "later");
            World::expect(&world.responses, Answer::Refuse(refusal));
        }
        assert!(world.engine.webhook_received(&id("wh_1"), "resp_1", outcome));
        while webhook(&world, &turn).await != told(state) {
            tokio::task::yield_now().await;
        }
        send.send(Ok(frames()[4..].concat().into())).unwrap();
        completed(&world, &turn).await;
        assert_eq!(webhook(&world, &turn).await, told(state));
    }
}

#[tokio::test(start_paused = true)]
async fn a_report_ends_the_wait_for_the_next_try() {
    let refusal = || Answer::Refuse(UnifiedError::new(ErrorCategory::Network, "provider", "no connection"));
    for reported in [true, false] {
        let world = with_webhook();
        let (turn, send) = half_told(&world, Some("wh_1")).await;
        World::expect(&world.responses, refusal());
        World::expect(&world.responses, Answer::Sse(frames()[4..].concat()));
        let begun = tokio::time::Instant::now();
        drop(send);
        while world.responses.0.resumed.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
        if reported {
            assert!(world.engine.webhook_received(&id("wh_1"), "resp_1", WebhookOutcome::Received));
        }
        let mut subscription = turn.subscription;
        while subscription.next().await.unwrap().is_some() {}
        assert_eq!(begun.elapsed().is_zero(), reported);
    }
}

#[tokio::test]
async fn a_report_finds_the_work_after_a_restart() {
    let world = with_webhook();
    let (turn, _send) = half_told(&world, Some("wh_1")).await;
    let next = World::over(Arc::clone(&world.store), 1_000_000);
    let (_hangs, chunks) = mpsc::unbounded_channel();
    World::expect(&next.responses, Answer::Live(chunks));
    World::expect(&next.responses, Answer::Sse(frames().concat()));
    assert_eq!(next.engine.recover(&next).await.unwrap().resumed, 1);
    assert_eq!(webhook(&next, &turn).await, told(WebhookState::Registered));
    while next.responses.0.resumed.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    assert!(next.engine.webhook_received(&id("wh_1"), "resp_1", WebhookOutcome::Received));
    completed(&next, &turn).await;
    assert_eq!(webhook(&next, &turn).await, told(WebhookState::Received));
}

#[tokio::test]
async fn work_of_another_operation_is_left_alone() {
    let world = with_webhook();
    let (first, _send) = half_told(&world, Some("wh_1")).await;
    let (send, chunks) = mpsc::unbounded_channel();
    World::expect(&world.responses, Answer::Live(chunks));
    let other = responses_frames("resp_2", "first half, second half", true);
    let mut request = request(Some("wh_1"), "preferred");
    request.body = Bytes::from(String::from_utf8(request.body.to_vec()).unwrap().replace("look", "see"));
    let second = world.begin_with(request).await;
    send.send(Ok(other[..4].concat().into())).unwrap();
    while webhook(&world, &second).await.is_none() {
        tokio::task::yield_now().await;
    }
    World::expect(&world.responses, Answer::Sse(other.concat()));
    assert!(world.engine.webhook_received(&id("wh_1"), "resp_2", WebhookOutcome::Received));
    completed(&world, &second).await;
    assert_eq!(webhook(&world, &first).await, told(WebhookState::Registered));
    assert_eq!(*world.responses.0.resumed.lock().unwrap(), [["resp_2"]]);
}
