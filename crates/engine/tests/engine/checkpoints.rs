//! Checkpoints: who may go on where, what is sent then, and what becomes of them when the head moves.

use crate::support::*;
use serde_json::{Value, json};
use throughline_format::resource::{ResourceStatus, ResourceType};
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId, UnifiedItemBody, UnifiedProviderCheckpoint, clause};

fn assistant(text: &str) -> Value {
    json!({"role":"assistant","content":text})
}

async fn ask(world: &World, model: &str, messages: &[Value]) -> throughline_engine::Turn {
    let may_keep = model.starts_with('o') && world.fallbacks.is_empty();
    let body = if may_keep {
        kept(model, messages)
    } else {
        chat_body(model, messages)
    };
    world.begin(&CHAT, &body).await
}

/// A request whose answer the provider is asked to keep; a target that cannot is no target for it.
fn kept(model: &str, messages: &[Value]) -> Value {
    let mut body = chat_body(model, messages);
    body["store"] = json!(true);
    body
}

async fn checkpoints(world: &World, conversation: &UnifiedId) -> Vec<UnifiedProviderCheckpoint> {
    world.store.checkpoints(conversation, None).await.unwrap()
}

async fn head(world: &World, branch: &UnifiedId) -> UnifiedId {
    world.store.branch(branch).await.unwrap().unwrap().head_item_id.unwrap()
}

/// One turn with the Responses account; gives conversation, branch.
async fn first(world: &World) -> (UnifiedId, UnifiedId) {
    World::expect(&world.responses, Answer::Sse(responses_sse("resp_A", "alpha")));
    let turn = ask(world, "o-x", &[user("one")]).await;
    let place = (turn.conversation_id.clone(), turn.branch_id.clone());
    turn.collect().await.unwrap();
    place
}

#[tokio::test]
async fn an_owner_goes_on_from_its_own_answer_with_exactly_what_is_new() {
    let world = World::new();
    let (conversation, branch) = first(&world).await;
    let made = checkpoints(&world, &conversation).await;
    assert_eq!(made.len(), 1);
    assert_eq!(
        (made[0].status, &made[0].resource_type),
        (ResourceStatus::Active, &ResourceType::Response)
    );
    assert_eq!(made[0].journal_head_item_id, head(&world, &branch).await);
    let sealed = String::from_utf8_lossy(&made[0].encrypted_payload.0).into_owned();
    assert!(!sealed.contains("resp_A"), "the handle is sealed");
    let first_operation = world
        .store
        .operations(throughline_store::OperationFilter::default())
        .await
        .unwrap()
        .remove(0);
    let result = world.store.result(&first_operation.operation_id).await.unwrap().unwrap();
    assert_eq!(result.state.unwrap().checkpoints, [made[0].checkpoint_id.clone()]);

    World::expect(&world.responses, Answer::Sse(responses_sse("resp_B", "beta")));
    let body = kept(
        "o-x",
        &[
            json!({"role":"system","content":"be brief"}),
            user("one"),
            assistant("alpha"),
            user("two"),
        ],
    );
    let turn = world.begin(&CHAT, &body).await;
    assert_eq!(turn.branch_id, branch);
    turn.collect().await.unwrap();
    let sent = World::last_call(&world.responses);
    assert_eq!(sent["previous_response_id"], "resp_A");
    let text = sent["input"].to_string();
    assert!(
        text.contains("two") && !text.contains("one") && !text.contains("alpha"),
        "exactly the new input: {text}"
    );
    assert_eq!(sent["instructions"], "be brief", "instructions are not inherited");
    let now = checkpoints(&world, &conversation).await;
    let status = |id: &UnifiedId| now.iter().find(|c| c.checkpoint_id == *id).unwrap().status;
    assert_eq!(status(&made[0].checkpoint_id), ResourceStatus::Stale);
    assert_eq!(now.iter().filter(|c| c.status == ResourceStatus::Active).count(), 1);
}

#[tokio::test]
async fn after_another_provider_the_history_is_rebuilt_and_a_new_checkpoint_made() {
    clause!("CKPT-04");
    let world = World::new();
    let (conversation, branch) = first(&world).await;
    let at_a = head(&world, &branch).await;
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"beta"})], "end_turn")),
    );
    ask(&world, "claude-x", &[user("one"), assistant("alpha"), user("two")])
        .await
        .collect()
        .await
        .unwrap();
    let at_b = head(&world, &branch).await;
    assert_ne!(at_a, at_b);
    assert_eq!(
        checkpoints(&world, &conversation).await[0].status,
        ResourceStatus::Stale,
        "kept, and of no direct use"
    );

    World::expect(&world.responses, Answer::Sse(responses_sse("resp_C", "gamma")));
    ask(
        &world,
        "o-x",
        &[user("one"), assistant("alpha"), user("two"), assistant("beta"), user("three")],
    )
    .await
    .collect()
    .await
    .unwrap();
    let sent = World::last_call(&world.responses);
    assert!(sent.get("previous_response_id").is_none());
    let text = sent["input"].to_string();
    let order: Vec<usize> = ["one", "alpha", "two", "beta", "three"]
        .iter()
        .map(|word| text.find(word).unwrap())
        .collect();
    assert!(order.is_sorted(), "everything observable, in order: {text}");
    let now = checkpoints(&world, &conversation).await;
    assert_eq!((now.len(), now[0].status), (2, ResourceStatus::Active));
    assert_eq!(now[0].journal_head_item_id, head(&world, &branch).await);
    assert_eq!(
        world.kinds(&branch).await,
        [
            "message",
            "message",
            "provider-switch",
            "message",
            "message",
            "provider-switch",
            "message",
            "message"
        ]
        .map(|k| k),
    );

    World::expect(&world.responses, Answer::Sse(responses_sse("resp_D", "delta")));
    ask(
        &world,
        "o-x",
        &[
            user("one"),
            assistant("alpha"),
            user("two"),
            assistant("beta"),
            user("three"),
            assistant("gamma"),
            user("four"),
        ],
    )
    .await
    .collect()
    .await
    .unwrap();
    assert_eq!(
        World::last_call(&world.responses)["previous_response_id"],
        "resp_C",
        "from the new head it goes on"
    );
}

#[tokio::test]
async fn every_member_of_the_owner_counts() {
    type Change = fn(&mut throughline_format::UnifiedResourceOwner);
    let cases: [(&str, Change, bool); 10] = [
        ("the same", |_| {}, true),
        ("another model", |o| o.model = Some("o-y".into()), true),
        ("provider", |o| o.provider = "elsewhere".into(), false),
        ("credential", |o| o.credential_fingerprint = "v1:00".into(), false),
        ("endpoint", |o| o.endpoint_fingerprint = "f".repeat(32), false),
        ("project", |o| o.project = Some("p".into()), false),
        ("region", |o| o.region = Some("eu".into()), false),
        ("tenant", |o| o.tenant = Some("t".into()), false),
        ("revision", |o| o.api_revision = Some("2".into()), false),
        ("profile", |o| o.profile.revision = Some("2".into()), false),
    ];
    for (name, change, goes_on) in cases {
        let mut world = World::new();
        let (_, branch) = first(&world).await;
        world.change_owner = Some(change);
        World::expect(&world.responses, Answer::Sse(responses_sse("resp_B", "beta")));
        let turn = ask(&world, "o-x", &[user("one"), assistant("alpha"), user("two")]).await;
        turn.collect().await.unwrap();
        let sent = World::last_call(&world.responses);
        assert_eq!(sent.get("previous_response_id").is_some(), goes_on, "{name}");
        assert_eq!(sent["input"].to_string().contains("one"), !goes_on, "{name}");
        let switches = world.kinds(&branch).await.iter().filter(|k| **k == "provider-switch").count();
        assert_eq!(
            switches,
            usize::from(!goes_on),
            "{name}: a switch is told exactly when the owner is another"
        );
    }
}

#[tokio::test]
async fn a_refused_handle_costs_nothing_but_a_second_request() {
    let world = World::new();
    let (conversation, branch) = first(&world).await;
    let gone = UnifiedError::new(ErrorCategory::InvalidRequest, "previous-response", "Previous response not found");
    World::expect(&world.responses, Answer::Refuse(gone));
    World::expect(&world.responses, Answer::Sse(responses_sse("resp_B", "beta")));
    let turn = ask(&world, "o-x", &[user("one"), assistant("alpha"), user("two")]).await;
    let result = turn.collect().await.unwrap();
    let calls = world.responses.0.calls.lock().unwrap().clone();
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[1]["previous_response_id"], "resp_A");
    assert!(calls[2].get("previous_response_id").is_none() && calls[2]["input"].to_string().contains("alpha"));
    let now = checkpoints(&world, &conversation).await;
    assert_eq!([now[0].status, now[1].status], [ResourceStatus::Active, ResourceStatus::Invalid]);
    assert_eq!(result.state.unwrap().invalidated, [now[1].checkpoint_id.clone()]);
    assert_eq!(world.kinds(&branch).await, ["message"; 4]);
}

#[tokio::test]
async fn another_refusal_is_the_clients_to_hear_and_leaves_the_handle() {
    let world = World::new();
    let (conversation, _) = first(&world).await;
    let bad = || UnifiedError::new(ErrorCategory::InvalidRequest, "value", "temperature is too high");
    World::expect(&world.responses, Answer::Refuse(bad()));
    World::expect(&world.responses, Answer::Refuse(bad()));
    let turn = ask(&world, "o-x", &[user("one"), assistant("alpha"), user("two")]).await;
    assert_eq!(turn.collect().await.unwrap_err().code, "invalid-request.value");
    let status = checkpoints(&world, &conversation).await[0].status;
    assert_eq!(status, ResourceStatus::Stale, "the head has moved; nobody called it invalid");
}

#[tokio::test]
async fn what_is_not_kept_by_the_provider_makes_no_checkpoint() {
    let world = World::new();
    World::expect(&world.responses, Answer::Sse(responses_sse("resp_A", "alpha")));
    // A client of another protocol that does not ask for it leaves nothing at the provider.
    let turn = world.begin(&CHAT, &chat_body("o-x", &[user("one")])).await;
    let conversation = turn.conversation_id.clone();
    turn.collect().await.unwrap();
    assert_eq!(World::last_call(&world.responses)["store"], false);
    assert_eq!(checkpoints(&world, &conversation).await, []);
}

#[tokio::test]
async fn a_fork_rebuilds_and_makes_its_own_checkpoint() {
    let world = World::new();
    let (conversation, branch) = first(&world).await;
    World::expect(&world.responses, Answer::Sse(responses_sse("resp_B", "beta")));
    ask(&world, "o-x", &[user("one"), assistant("alpha"), user("two")])
        .await
        .collect()
        .await
        .unwrap();
    World::expect(&world.responses, Answer::Sse(responses_sse("resp_C", "gamma")));
    let turn = ask(&world, "o-x", &[user("one"), assistant("alpha"), user("instead")]).await;
    let fork = turn.branch_id.clone();
    assert_ne!(fork, branch);
    turn.collect().await.unwrap();
    let sent = World::last_call(&world.responses);
    assert!(sent.get("previous_response_id").is_none() && sent["input"].to_string().contains("one"));
    let active: Vec<_> = checkpoints(&world, &conversation)
        .await
        .into_iter()
        .filter(|c| c.status == ResourceStatus::Active)
        .map(|c| c.branch_id)
        .collect();
    assert_eq!(active.len(), 2);
    assert!(active.contains(&fork) && active.contains(&branch));
}

#[tokio::test]
async fn an_answer_that_gets_a_branch_of_its_own_takes_its_checkpoint_there() {
    let world = World::new();
    let (send, answer) = tokio::sync::mpsc::unbounded_channel();
    World::expect(&world.responses, Answer::Live(answer));
    let turn = ask(&world, "o-x", &[user("one")]).await;
    let (conversation, branch) = (turn.conversation_id.clone(), turn.branch_id.clone());
    let beside = world.items(&branch).await.remove(0);
    let beside = throughline_engine::NewItems {
        items: vec![beside],
        ..Default::default()
    };
    let me = World::principal();
    world.engine.append_items(&me, &conversation, beside).await.unwrap();
    send.send(Ok(responses_sse("resp_A", "alpha").into())).unwrap();
    drop(send);
    turn.collect().await.unwrap();
    let branches = world.store.branches(&conversation).await.unwrap();
    let fork = branches.iter().find(|b| b.branch_id != branch).unwrap();
    let made = checkpoints(&world, &conversation).await;
    let place = (&made[0].branch_id, Some(&made[0].journal_head_item_id));
    assert_eq!((made.len(), place), (1, (&fork.branch_id, fork.head_item_id.as_ref())));

    // It is sealed to that place: the owner goes on by it.
    World::expect(&world.responses, Answer::Sse(responses_sse("resp_B", "beta")));
    let next = ask(&world, "o-x", &[user("one"), assistant("alpha"), user("two")]).await;
    assert_eq!(next.branch_id, fork.branch_id);
    next.collect().await.unwrap();
    assert_eq!(World::last_call(&world.responses)["previous_response_id"], "resp_A");
}

#[tokio::test]
async fn a_fallback_to_another_owner_is_told_in_the_journal() {
    let mut world = World::new();
    let (_, branch) = first(&world).await;
    world.fallbacks = vec!["claude-x".into()];
    let mut busy = UnifiedError::new(ErrorCategory::Overloaded, "busy", "overloaded");
    busy.retryable = true;
    World::expect(&world.responses, Answer::Refuse(busy));
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"beta"})], "end_turn")),
    );
    let result = ask(&world, "o-x", &[user("one"), assistant("alpha"), user("two")])
        .await
        .collect()
        .await
        .unwrap();
    let items = world.items(&branch).await;
    let kinds: Vec<_> = items.iter().map(|i| i.body.kind()).collect();
    assert_eq!(kinds, ["message", "message", "message", "provider-switch", "message"]);
    let UnifiedItemBody::ProviderSwitch(switch) = &items[3].body else {
        panic!()
    };
    assert_eq!(switch.reason, throughline_format::item::SwitchReason::Fallback);
    assert_eq!(switch.to_profile.family, ANTHROPIC);
    assert_eq!(result.output, items[3..], "the fold and the journal are one");

    // And back again: the owner of the last answer is the fallback.
    world.fallbacks.clear();
    World::expect(&world.responses, Answer::Sse(responses_sse("resp_C", "gamma")));
    let history = [user("one"), assistant("alpha"), user("two"), assistant("beta"), user("three")];
    ask(&world, "o-x", &history).await.collect().await.unwrap();
    assert_eq!(world.kinds(&branch).await[5..], ["provider-switch", "message", "message"]);
}

/// A whole interaction as an event stream: a call of a function, or a text.
fn interaction(id: &str, step: &Value) -> String {
    let events = [
        json!({"event_type":"interaction.created","interaction":{"id":id,"object":"interaction","status":"in_progress","model":"ia-x"}}),
        json!({"event_type":"step.start","index":0,"step":step}),
        json!({"event_type":"step.stop","index":0}),
        json!({"event_type":"interaction.completed","interaction":{"id":id,"object":"interaction","status":"completed","model":"ia-x"}}),
    ];
    events.iter().map(|event| format!("data: {event}\n\n")).collect()
}

#[tokio::test]
async fn the_result_of_a_call_that_the_provider_holds_goes_to_it_alone() {
    let world = World::new();
    let call = json!({"type":"function_call","id":"call_1","name":"look","arguments":{"at":"sky"}});
    World::expect(&world.interactions, Answer::Sse(interaction("int_1", &call)));
    let tools = json!([{"type":"function","function":{"name":"look","parameters":{"type":"object"}}}]);
    let mut body = chat_body("ia-x", &[json!({"role":"system","content":"be brief"}), user("one")]);
    body["tools"] = tools.clone();
    let result = world.begin(&CHAT, &body).await.collect().await.unwrap();
    let call_id = result
        .output
        .iter()
        .find_map(throughline_format::UnifiedItem::call_id)
        .unwrap()
        .to_owned();

    let answer = json!({"type":"model_output","content":[{"type":"text","text":"blue"}]});
    World::expect(&world.interactions, Answer::Sse(interaction("int_2", &answer)));
    let asked = json!({"role":"assistant","content":null,"tool_calls":[{"id":call_id,"type":"function","function":{"name":"look","arguments":"{\"at\":\"sky\"}"}}]});
    let mut next = chat_body(
        "ia-x",
        &[
            json!({"role":"system","content":"be brief"}),
            user("one"),
            asked,
            json!({"role":"tool","tool_call_id":call_id,"content":"it is blue"}),
        ],
    );
    next["tools"] = tools;
    world.begin(&CHAT, &next).await.collect().await.unwrap();
    let sent = World::last_call(&world.interactions);
    assert_eq!(sent["previous_interaction_id"], "int_1");
    assert_eq!(sent["system_instruction"], "be brief");
    let input = sent["input"].as_array().unwrap();
    assert_eq!(input.len(), 1, "{input:?}");
    assert_eq!(
        (&input[0]["type"], &input[0]["call_id"]),
        (&json!("function_result"), &json!("call_1"))
    );
    assert_eq!(input[0]["result"], "it is blue");
}
