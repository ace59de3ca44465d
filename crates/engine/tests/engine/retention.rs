//! Conversations beyond the retention time go; whatever was changed since stays.

use crate::support::*;
use serde_json::json;
use std::sync::Arc;

const DAY: u64 = 86_400_000;

async fn say(world: &World, messages: &[serde_json::Value]) -> throughline_format::UnifiedId {
    World::expect(&world.chat, Answer::Sse(chat_sse("ok")));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", messages)).await;
    let id = turn.conversation_id.clone();
    turn.collect().await.unwrap();
    id
}

#[tokio::test]
async fn an_inactive_conversation_goes_and_one_that_was_touched_stays() {
    let world = World::new();
    let idle = say(&world, &[user("idle")]).await;
    let busy = say(&world, &[user("busy")]).await;
    let said = [user("busy"), json!({"role":"assistant","content":"ok"}), user("more")];

    let day_six = World::over(Arc::clone(&world.store), 6 * DAY);
    assert_eq!(say(&day_six, &said).await, busy);
    assert_eq!(day_six.engine.clean().await.unwrap().marked, 0);

    let day_eight = World::over(Arc::clone(&world.store), 8 * DAY);
    let report = day_eight.engine.clean().await.unwrap();
    assert_eq!((report.marked, report.removed), (1, 1));
    assert!(report.rows > 0);
    let left: Vec<_> = day_eight.conversations().await.into_iter().map(|c| c.conversation_id).collect();
    assert_eq!(left, [busy]);
    assert_ne!(left, [idle]);
    assert_eq!(
        day_eight.engine.clean().await.unwrap(),
        throughline_engine::CleanupReport::default()
    );
}
