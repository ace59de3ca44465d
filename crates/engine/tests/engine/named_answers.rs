//! Requests that carry only what is new and name the answer that they go on from.

use crate::support::*;
use serde_json::{Value, json};
use throughline_engine::Principal;
use throughline_format::{ErrorCategory, ProtocolFamily, UnifiedId};

/// The ID that a client of a wire gets for an answer.
fn wire_id(family: &ProtocolFamily, operation: &UnifiedId) -> String {
    match family {
        ProtocolFamily::OpenAiResponses => format!("resp_{operation}"),
        _ => operation.to_string(),
    }
}

/// A turn of a wire that says one text and goes on from an answer or conversation, when one is named.
fn says(family: &ProtocolFamily, model: &str, text: &str, from: Option<(&str, &str)>) -> Value {
    let mut body = json!({"model": model, "input": text});
    if let Some((member, id)) = from {
        body[member] = json!(id);
    }
    if *family == ProtocolFamily::GeminiInteractions {
        body["input"] = json!([{"type": "user_input", "content": [{"type": "text", "text": text}]}]);
    }
    body
}

fn texts(sent: &Value) -> Vec<String> {
    let messages = sent["messages"].as_array().unwrap().iter();
    let text = |content: &Value| {
        content
            .as_str()
            .map_or_else(|| content[0]["text"].as_str().unwrap().to_owned(), str::to_owned)
    };
    messages.map(|message| text(&message["content"])).collect()
}

#[tokio::test]
async fn an_answer_is_found_by_the_id_that_its_client_got_whatever_the_upstream() {
    let cases = [
        (ProtocolFamily::OpenAiResponses, "previous_response_id"),
        (ProtocolFamily::GeminiInteractions, "previous_interaction_id"),
    ];
    for (family, member) in cases {
        let world = World::new();
        World::expect(&world.chat, Answer::Sse(chat_sse("first answer")));
        let first = world.begin(&family, &says(&family, "gpt-a", "same words", None)).await;
        let (one, conversation, branch) = (first.operation_id.clone(), first.conversation_id.clone(), first.branch_id.clone());
        first.collect().await.unwrap();

        // Another provider, and words that the history has already: they are new all the same.
        World::expect(
            &world.anthropic,
            Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"second answer"})], "end_turn")),
        );
        let id = wire_id(&family, &one);
        let second = world
            .begin(&family, &says(&family, "claude-x", "same words", Some((member, &id))))
            .await;
        assert_eq!((&second.conversation_id, &second.branch_id), (&conversation, &branch), "{family}");
        second.collect().await.unwrap();
        let sent = World::last_call(&world.anthropic);
        assert_eq!(texts(&sent), ["same words", "first answer", "same words"], "{family}");

        // From the first answer again: a branch of its own, without the second turn.
        World::expect(&world.chat, Answer::Sse(chat_sse("third answer")));
        let third = world
            .begin(&family, &says(&family, "gpt-a", "otherwise", Some((member, &id))))
            .await;
        assert_eq!(third.conversation_id, conversation);
        assert_ne!(third.branch_id, branch, "{family}");
        third.collect().await.unwrap();
        assert_eq!(
            texts(&World::last_call(&world.chat)),
            ["same words", "first answer", "otherwise"],
            "{family}"
        );
    }
}

#[tokio::test]
async fn a_name_that_the_principal_has_not_is_refused_and_nothing_is_sent() {
    let world = World::new();
    let family = ProtocolFamily::OpenAiResponses;
    World::expect(&world.chat, Answer::Sse(chat_sse("first answer")));
    let first = world.begin(&family, &says(&family, "gpt-a", "one", None)).await;
    let (operation, conversation) = (first.operation_id.clone(), first.conversation_id.to_string());
    first.collect().await.unwrap();
    let own = wire_id(&family, &operation);

    let stranger = Principal::new("somebody-else");
    let cases = [
        (World::principal(), "previous_response_id", "resp_unknown"),
        (World::principal(), "conversation", "conv_unknown"),
        (stranger.clone(), "previous_response_id", own.as_str()),
        (stranger, "conversation", conversation.as_str()),
    ];
    let calls = world.chat.0.calls.lock().unwrap().len();
    for (principal, member, id) in cases {
        let mut request = world.request(&family, &says(&family, "gpt-a", "two", Some((member, id))));
        request.principal = principal;
        let Err(refused) = world.engine.begin(request, &world).await else {
            panic!("{member} {id} began")
        };
        assert_eq!(refused.error.category, ErrorCategory::NotFound, "{member} {id}");
        assert_eq!(refused.error.field_path, Some(format!("/{member}")));
    }
    assert_eq!(world.chat.0.calls.lock().unwrap().len(), calls, "nothing was sent");

    World::expect(&world.chat, Answer::Sse(chat_sse("second answer")));
    let turn = world
        .begin(&family, &says(&family, "gpt-a", "two", Some(("conversation", &conversation))))
        .await;
    assert_eq!(turn.conversation_id.to_string(), conversation);
    turn.collect().await.unwrap();
    assert_eq!(texts(&World::last_call(&world.chat)), ["one", "first answer", "two"]);
}
