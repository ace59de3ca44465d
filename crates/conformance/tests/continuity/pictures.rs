//! PART-05 in an answer: a picture that is longer than an event may be.

use crate::world::{Answer, World};
use serde_json::json;
use throughline_format::media::{UnifiedDataSource, encode_base64};
use throughline_format::{PartBody, ProtocolFamily as F, clause};

#[tokio::test]
async fn a_picture_larger_than_an_event_is_an_answer_like_any_other() {
    clause!("PART-05");
    let data = encode_base64(&vec![0xA7; 1_600_000]);
    let chunk = json!({"candidates": [{"content": {"role": "model", "parts": [{"text": "Here it is."}, {"inlineData": {"mimeType": "image/png", "data": data}}]},
        "finishReason": "STOP", "index": 0}], "modelVersion": "gemini-2.5-flash", "responseId": "r1"});
    for world in World::both() {
        for (streamed, answer) in [
            (true, Answer::Sse(format!("data: {chunk}\r\n\r\n"))),
            (false, Answer::Json(chunk.to_string())),
        ] {
            world.expect(&F::GeminiGenerateContent, answer);
            let messages = json!([{"role": "user", "content": format!("draw, {streamed}")}]);
            let mut turn = world
                .say(None, &F::GeminiGenerateContent, &messages, &json!({"stream": streamed}))
                .await;
            let (id, branch) = (turn.operation_id.clone(), turn.branch_id.clone());
            let mut live = Vec::new();
            while let Some(delivery) = turn.subscription.next().await.unwrap() {
                live.push(delivery.bytes);
            }
            let result = world.engine.result(&World::principal(), &id).await.unwrap().unwrap();
            assert!(result.error.is_none(), "{:?}", result.error);
            let pictures = result
                .output
                .iter()
                .flat_map(throughline_format::UnifiedItem::parts)
                .filter_map(|part| match &part.body {
                    PartBody::Image(media) => Some(&media.source),
                    _ => None,
                });
            let pictures: Vec<_> = pictures.collect();
            assert!(
                matches!(pictures[..], [UnifiedDataSource::Inline(inline)] if inline.data == data),
                "it comes back as it came"
            );
            assert_eq!(world.items(&branch).await[1..], result.output[..]);
            // Replayed from the store, the events are the same bytes.
            let mut replay = world.engine.subscribe(&World::principal(), &id, 0).await.unwrap();
            let mut replayed = Vec::new();
            while let Some(delivery) = replay.next().await.unwrap() {
                replayed.push(delivery.bytes);
            }
            assert!(replayed == live, "live and replayed differ");
            assert!(live.iter().any(|bytes| bytes.len() > 1024 * 1024));
        }
        assert!(world.store.check().await.unwrap().problems.is_empty());
    }
}
