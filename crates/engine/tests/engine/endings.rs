//! Operations end, whatever a codec or the store makes of their answers.

use crate::support::*;
use bytes::Bytes;
use serde_json::json;
use std::borrow::Cow;
use std::sync::Arc;
use throughline_engine::{EngineLimits, RecoveryReport};
use throughline_format::{
    OperationState, ProtocolFamily, UnifiedError, UnifiedEventV2, UnifiedId, UnifiedProtocolProfile, UnifiedRequestV2, UnifiedResultV2,
    UnifiedToolDefinition,
};
use throughline_protocols::codec::ErrorHeaders;
use throughline_protocols::{
    Capabilities, CapabilityTable, Codec, DecodeContext, Decoded, DecodedRequest, EncodeContext, Encoded, StreamDecoder, StreamEncoder,
    WireError, WireTraits, codec_of,
};
use throughline_store::{MemorySettings, MemoryStore, StoreLimits};
use tokio::sync::mpsc;

/// A codec that reads requests and panics over answers.
struct Panics(Arc<dyn Codec>);

impl Codec for Panics {
    fn profile(&self) -> UnifiedProtocolProfile {
        self.0.profile()
    }
    fn wire_traits(&self) -> WireTraits {
        self.0.wire_traits()
    }
    fn capabilities(&self) -> &'static CapabilityTable {
        self.0.capabilities()
    }
    fn decode_request(&self, body: &[u8], context: &DecodeContext) -> Result<DecodedRequest, UnifiedError> {
        self.0.decode_request(body, context)
    }
    fn encode_request(&self, request: &UnifiedRequestV2, context: &EncodeContext) -> Result<Encoded, UnifiedError> {
        self.0.encode_request(request, context)
    }
    fn decode_response(&self, _: &[u8], _: &DecodeContext) -> Result<Decoded, UnifiedError> {
        panic!("an answer that this codec cannot read")
    }
    fn encode_response(&self, _: &UnifiedResultV2, _: &EncodeContext) -> Result<Encoded, UnifiedError> {
        panic!("an answer that this codec cannot write")
    }
    fn stream_decoder(&self, context: &DecodeContext) -> Box<dyn StreamDecoder> {
        self.0.stream_decoder(context)
    }
    fn stream_encoder(&self, context: &EncodeContext) -> Box<dyn StreamEncoder> {
        self.0.stream_encoder(context)
    }
    fn decode_error(&self, status: u16, headers: &ErrorHeaders, body: &[u8]) -> UnifiedError {
        self.0.decode_error(status, headers, body)
    }
    fn encode_error(&self, error: &UnifiedError) -> WireError {
        self.0.encode_error(error)
    }
    fn wire_tool_name(&self, tool: &UnifiedToolDefinition, capabilities: &Capabilities) -> String {
        self.0.wire_tool_name(tool, capabilities)
    }
    fn wire_call_id<'a>(&self, call_id: &'a str) -> Cow<'a, str> {
        self.0.wire_call_id(call_id)
    }
}

/// A world whose store takes items of so many bytes, and whose engine lets answers grow beyond that.
fn narrow(item_bytes: usize) -> World {
    let settings = MemorySettings {
        limits: StoreLimits {
            item_bytes,
            ..StoreLimits::default()
        },
        ..MemorySettings::default()
    };
    World::over(Arc::new(MemoryStore::new(settings)), 1)
}

/// State and code of an operation, and whether its events end.
async fn end(world: &World, id: &UnifiedId) -> (OperationState, Option<String>, bool) {
    let mut events = world.engine.subscribe(&World::principal(), id, 0).await.unwrap();
    let mut last: Option<UnifiedEventV2> = None;
    while let Some(delivery) = events.next().await.unwrap() {
        last = Some(delivery.event().unwrap());
    }
    let operation = world.engine.operation(&World::principal(), id).await.unwrap();
    let is_told = last.is_some_and(|event| event.body.kind() == "stream.completed");
    (operation.state, operation.error.map(|error| error.code), is_told)
}

#[tokio::test]
async fn a_codec_of_the_client_that_panics_over_the_answer_costs_no_answer() {
    let world = World::new();
    World::expect(
        &world.anthropic,
        Answer::Sse(anthropic_sse(&[json!({"type":"text","text":"Hi."})], "end_turn")),
    );
    let mut request = world.request(&CHAT, &chat_body("claude-x", &[user("Hello")]));
    request.codec = Arc::new(Panics(codec_of(&CHAT).unwrap()));
    let turn = world.begin_with(request).await;
    let id = turn.operation_id.clone();
    let result = turn.collect().await.unwrap();
    assert_eq!(result.output[0].parts()[0].as_text(), Some("Hi."));
    assert_eq!(end(&world, &id).await, (OperationState::Completed, None, true));
    assert_eq!(world.engine.running(), 0);
}

#[tokio::test]
async fn an_answer_that_the_store_never_takes_ends_with_that_error_and_leaves_the_branch_usable() {
    let world = narrow(2_000);
    World::expect(&world.chat, Answer::Sse(chat_sse(&"long ".repeat(1_000))));
    let turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let (id, branch) = (turn.operation_id.clone(), turn.branch_id.clone());
    assert_eq!(turn.collect().await.unwrap_err().code, "too-large.item");
    let expected = (OperationState::Failed, Some("too-large.item".to_owned()), true);
    assert_eq!(end(&world, &id).await, expected);
    let result = world.engine.result(&World::principal(), &id).await.unwrap().unwrap();
    assert!(result.output.is_empty(), "what is not in the journal is not in the result");
    assert_eq!(world.kinds(&branch).await, ["message"]);
    assert_eq!(world.engine.running(), 0, "its slot is free");

    World::expect(&world.chat, Answer::Sse(chat_sse("short")));
    world
        .begin(&CHAT, &chat_body("gpt-a", &[user("one")]))
        .await
        .collect()
        .await
        .unwrap();
}

#[tokio::test]
async fn what_cannot_end_as_interrupted_ends_with_the_reason_at_the_next_start() {
    let world = narrow(2_000);
    let (send, chunks) = mpsc::unbounded_channel::<Result<Bytes, _>>();
    World::expect(&world.chat, Answer::Live(chunks));
    let mut turn = world.begin(&CHAT, &chat_body("gpt-a", &[user("one")])).await;
    let piece = json!([{"index":0,"delta":{"role":"assistant","content":"long ".repeat(1_000)},"finish_reason":null}]);
    send.send(Ok(chat_frame(&piece).into())).unwrap();
    while !std::str::from_utf8(&turn.subscription.next().await.unwrap().unwrap().bytes)
        .unwrap()
        .contains("long")
    {}

    let next = World::over(Arc::clone(&world.store), 1_000_000);
    let interrupted = RecoveryReport {
        interrupted: 1,
        ..RecoveryReport::default()
    };
    assert_eq!(next.engine.recover(&next).await.unwrap(), interrupted);
    assert_eq!(next.engine.recover(&next).await.unwrap(), RecoveryReport::default());
    let expected = (OperationState::Failed, Some("too-large.item".to_owned()), true);
    assert_eq!(end(&next, &turn.operation_id).await, expected);
}

#[tokio::test]
async fn an_item_that_is_gone_on_with_after_a_restart_weighs_what_it_weighed_before() {
    let text = "0123456789".repeat(600);
    let frames = responses_frames("resp_1", &text, true);
    for (item_bytes, expected) in [(5_000, Some("limit.item".to_owned())), (20_000, None)] {
        let limits = EngineLimits {
            item_bytes,
            ..EngineLimits::default()
        };
        let world = World::bounded(Arc::new(MemoryStore::default()), 1, limits);
        let (send, chunks) = mpsc::unbounded_channel::<Result<Bytes, _>>();
        World::expect(&world.responses, Answer::Live(chunks));
        let body = json!({"model":"o-x","stream":true,"background":true,"store":true,"input":"one"});
        let mut turn = world.begin(&ProtocolFamily::OpenAiResponses, &body).await;
        // The first half of the text.
        send.send(Ok(frames[..4].concat().into())).unwrap();
        while !std::str::from_utf8(&turn.subscription.next().await.unwrap().unwrap().bytes)
            .unwrap()
            .contains("0123")
        {}

        let next = World::bounded(Arc::clone(&world.store), 1_000_000, limits);
        // The second half alone is within the bound.
        let until = if expected.is_some() { 5 } else { frames.len() };
        let (again, chunks) = mpsc::unbounded_channel::<Result<Bytes, _>>();
        World::expect(&next.responses, Answer::Live(chunks));
        again.send(Ok(frames[..until].concat().into())).unwrap();
        next.engine.recover(&next).await.unwrap();
        let (state, code, is_told) = end(&next, &turn.operation_id).await;
        assert_eq!((code, is_told), (expected, true), "{state}");
    }
}
