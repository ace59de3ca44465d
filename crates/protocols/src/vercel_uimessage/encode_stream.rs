//! Committed events as the UI message stream: chunks that the client's major knows, in an order that its reader accepts.
//!
//! What opens is closed: texts and reasoning before their step ends, a step before the stream does. Items that come whole and
//! items in pieces give the same chunks. Calls are in [`super::stream_parts`].

use super::encode_part::Out;
use super::private::{METADATA, PROVIDER_METADATA, message_of};
use super::stream_parts::Calls;
use super::{Major, errors, is_own, usage};
use crate::codec::{StreamEncoder, WireFrame};
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::object::{Object, one_line};
use std::collections::BTreeMap;
use throughline_format::event::{EventBody, ItemDelta, ItemDeltaEvent, TextDelta};
use throughline_format::{
    ErrorCategory, Json, PartBody, UnifiedContentPart, UnifiedError, UnifiedEventV2, UnifiedFinishReason, UnifiedId, UnifiedItem,
    UnifiedItemBody, UnifiedLossReport, UnifiedResponseStatus, UnifiedUsage,
};

/// A text or a piece of reasoning that is open.
struct Open {
    id: UnifiedId,
    item: UnifiedId,
    is_text: bool,
    /// Its start was sent: reasoning waits for its first words.
    has_begun: bool,
    text: String,
    citations: Vec<Json>,
    sources: Vec<Object>,
    path: String,
    metadata: Option<Json>,
    own: bool,
}

/// The operation was cancelled, for this reason.
struct Cancelled(Option<String>);

/// Encoder of one stream.
pub(super) struct UiStreamEncoder {
    context: EncodeContext,
    frames: Vec<WireFrame>,
    state: State,
}

/// What is known of the stream so far.
#[derive(Default)]
struct State {
    loss: crate::projection::LossCollector,
    shown: std::collections::BTreeSet<String>,
    has_started: bool,
    is_in_step: bool,
    own: bool,
    own_step: Option<UnifiedId>,
    /// A client's result came in this step: what follows is another answer.
    after_result: bool,
    response: Option<UnifiedId>,
    open: Vec<Open>,
    calls: Calls,
    /// Items that have begun, with their place in the answer.
    items: BTreeMap<UnifiedId, (usize, UnifiedItem)>,
    usage: Option<UnifiedUsage>,
    error: Option<UnifiedError>,
    cancelled: Option<Cancelled>,
    has_ended: bool,
}

impl UiStreamEncoder {
    pub(super) fn new(context: EncodeContext) -> Self {
        Self {
            context,
            frames: Vec::new(),
            state: State::default(),
        }
    }

    fn major(&self) -> Major {
        Major::of(&self.context)
    }

    /// Sends a chunk.
    pub(super) fn send(&mut self, chunk: &Object) {
        self.frames.push(WireFrame {
            event: None,
            data: one_line(&chunk.to_json()),
        });
    }

    /// Runs with the encoder that parts share.
    fn with_out<T>(&mut self, run: impl FnOnce(&mut Out<'_>, &mut State) -> T) -> T {
        let mut out = Out::new(&self.context);
        out.loss = std::mem::take(&mut self.state.loss);
        out.shown = std::mem::take(&mut self.state.shown);
        let value = run(&mut out, &mut self.state);
        self.state.loss = out.loss;
        self.state.shown = out.shown;
        value
    }

    /// The begin of the message. Whose ID it has is known when the first item is: an answer of this wire has its own.
    fn start(&mut self, first: Option<&UnifiedItem>) {
        if std::mem::replace(&mut self.state.has_started, true) {
            return;
        }
        let known = first.and_then(|item| message_of(self.context.private.as_ref(), item.provider_data.iter().flatten()));
        let id = known
            .and_then(|(form, _)| form.id)
            .or_else(|| self.context.message_id.clone())
            .or_else(|| self.state.response.as_ref().map(UnifiedId::to_string));
        let chunk = Object::of_type("start").with_some("messageId", id.as_ref());
        self.send(&chunk);
    }

    /// The step that an item belongs to has begun.
    fn step(&mut self, item: &UnifiedItem) {
        self.start(Some(item));
        let is_next = if is_own(item.provenance.profile.as_ref()) {
            let id = item.provenance.response_id.clone();
            let is_next = id.is_some() && id != self.state.own_step;
            self.state.own_step = id;
            is_next
        } else {
            !self.state.is_in_step || std::mem::take(&mut self.state.after_result)
        };
        if is_next {
            self.end_step();
            self.send(&Object::of_type("start-step"));
            self.state.is_in_step = true;
        }
        self.state.after_result = false;
    }

    fn end_step(&mut self) {
        while let Some(open) = self.state.open.pop() {
            self.close(open);
        }
        if std::mem::take(&mut self.state.is_in_step) {
            self.send(&Object::of_type("finish-step"));
        }
    }

    // ---- items -------------------------------------------------------------------------------------------------

    fn begin_item(&mut self, item: &UnifiedItem) {
        let place = self.state.items.len();
        self.state.items.insert(item.id.clone(), (place, item.clone()));
        let path = format!("/output/{place}");
        match &item.body {
            UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_) => {
                self.step(item);
                let parts = item.parts().to_vec();
                for part in &parts {
                    self.begin_part(item, part, None);
                }
            }
            UnifiedItemBody::ToolCall(_)
            | UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::ComputerAction(_) => {
                self.step(item);
                let chunks = self.with_out(|out, state| state.calls.begin(out, item, &path));
                self.send_all(chunks);
            }
            // Results, questions and markers are told when they are whole.
            UnifiedItemBody::ToolResult(_)
            | UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_)
            | UnifiedItemBody::Artifact(_)
            | UnifiedItemBody::Reference(_)
            | UnifiedItemBody::CompactionSummary(_)
            | UnifiedItemBody::ProviderSwitch(_)
            | UnifiedItemBody::Interruption(_)
            | UnifiedItemBody::Error(_) => {}
        }
    }

    fn send_all(&mut self, chunks: Vec<Object>) {
        for chunk in chunks {
            self.send(&chunk);
        }
    }

    /// An item is whole: what was not told of it is told now.
    fn end_item(&mut self, id: &UnifiedId, whole: Option<&UnifiedItem>) {
        if let Some(item) = whole {
            let is_new = !self.state.items.contains_key(id);
            if is_new {
                self.begin_item(item);
            } else if let Some((_, known)) = self.state.items.get_mut(id) {
                *known = item.clone();
            }
        }
        let Some((place, item)) = self.state.items.get(id).cloned() else {
            return;
        };
        while let Some(at) = self.state.open.iter().position(|open| open.item == *id) {
            let open = self.state.open.remove(at);
            self.close(open);
        }
        let path = format!("/output/{place}");
        match &item.body {
            UnifiedItemBody::Message(message) => {
                // An item that only keeps the place of a part without a word.
                if message.parts.is_empty()
                    && let Some(raw) = super::private::Kept::of(self.context.private.as_ref(), item.provider_data.iter().flatten()).raw
                    && let Some(chunk) = Object::of(&raw)
                {
                    self.send(&chunk);
                }
            }
            UnifiedItemBody::Reasoning(_) => {}
            UnifiedItemBody::ToolCall(_)
            | UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::ComputerAction(_) => {
                let chunks = self.with_out(|out, state| state.calls.whole(out, &item, &path));
                self.send_all(chunks);
            }
            UnifiedItemBody::ToolResult(_)
            | UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_) => {
                let (chunks, of_client) = self.with_out(|out, state| state.calls.result(out, &item, &path));
                self.state.after_result |= of_client;
                if !chunks.is_empty() {
                    self.start(Some(&item));
                }
                self.send_all(chunks);
            }
            UnifiedItemBody::ApprovalRequest(_) => {
                let chunks = self.with_out(|out, state| state.calls.question(out, &item, &path));
                if !chunks.is_empty() {
                    self.step(&item);
                }
                self.send_all(chunks);
            }
            UnifiedItemBody::ApprovalResponse(_) => {
                let chunks = self.with_out(|out, state| state.calls.answer(out, &item, &path));
                self.send_all(chunks);
            }
            UnifiedItemBody::Artifact(_) => {
                let reason = "the target cannot reach the artifact store";
                self.state.loss.warning(Feature::PartArtifact, path, reason);
            }
            UnifiedItemBody::Reference(_) | UnifiedItemBody::CompactionSummary(_) => {
                let reason = "the target has no form for it";
                self.state.loss.info(Feature::ConversationItem, path, reason);
            }
            UnifiedItemBody::ProviderSwitch(_) | UnifiedItemBody::Interruption(_) | UnifiedItemBody::Error(_) => {
                self.state.loss.marker(path, &item.id);
            }
        }
    }

    // ---- parts -------------------------------------------------------------------------------------------------

    fn begin_part(&mut self, item: &UnifiedItem, part: &UnifiedContentPart, number: Option<usize>) {
        let place = self.state.items.get(&item.id).map_or(0, |(place, _)| *place);
        let number = number.unwrap_or_else(|| item.parts().iter().position(|p| p.part_id == part.part_id).unwrap_or(0));
        let path = format!("/output/{place}/parts/{number}");
        let own = is_own(item.provenance.profile.as_ref());
        let mut open = Open {
            id: part.part_id.clone(),
            item: item.id.clone(),
            is_text: true,
            has_begun: false,
            text: String::new(),
            citations: Vec::new(),
            sources: Vec::new(),
            path: path.clone(),
            metadata: self.metadata_of(part),
            own,
        };
        let text = match &part.body {
            PartBody::Text(text) => {
                self.with_out(|out, _| out.text_members(text, &path));
                let annotations: Vec<_> = text.annotations.iter().flatten().cloned().collect();
                for (number, annotation) in annotations.iter().enumerate() {
                    let path = format!("{path}/annotations/{number}");
                    let (citation, source) = self.with_out(|out, _| out.annotation(annotation, &text.text, &path));
                    open.citations.extend(citation);
                    open.sources.extend(source);
                }
                text.text.clone()
            }
            PartBody::Refusal(refusal) => {
                self.state.loss.info(Feature::PartRefusal, path, "as text");
                refusal.text.clone()
            }
            PartBody::Reasoning(reasoning) => {
                open.is_text = false;
                if reasoning.private_state.is_some() && open.metadata.is_none() {
                    let reason = "private state of reasoning stays with its provider";
                    self.state
                        .loss
                        .info(Feature::ReasoningSignature, format!("{path}/privateState"), reason);
                }
                reasoning.text.clone()
            }
            PartBody::Image(_)
            | PartBody::Audio(_)
            | PartBody::Video(_)
            | PartBody::Document(_)
            | PartBody::File(_)
            | PartBody::Binary(_)
            | PartBody::Json(_)
            | PartBody::Citation(_)
            | PartBody::GroundingSource(_)
            | PartBody::ArtifactReference(_) => {
                self.whole_part(part, &path);
                return;
            }
        };
        if open.is_text || own {
            self.open(&mut open);
        }
        let (id, is_text) = (open.id.clone(), open.is_text);
        self.state.open.push(open);
        if !text.is_empty() {
            self.delta(&id, &text, is_text);
        }
    }

    /// A part that has no pieces: its chunk is the part itself.
    fn whole_part(&mut self, part: &UnifiedContentPart, path: &str) {
        let Some(chunk) = self.with_out(|out, _| out.other(part, path)) else {
            return;
        };
        let text = chunk.get("text").and_then(|text| text.decode::<String>().ok());
        match text.filter(|_| chunk.get("type").is_some_and(|kind| kind.as_str() == "\"text\"")) {
            Some(text) => {
                let id = part.part_id.as_str();
                self.send(&Object::of_type("text-start").with("id", id));
                self.send(&Object::of_type("text-delta").with("id", id).with("delta", &text));
                self.send(&Object::of_type("text-end").with("id", id));
            }
            None => self.send(&chunk),
        }
    }

    /// Provider metadata of a part of this wire, which only its owner gets.
    fn metadata_of(&self, part: &UnifiedContentPart) -> Option<Json> {
        let state = match &part.body {
            PartBody::Reasoning(reasoning) => reasoning.private_state.as_ref().map(|state| &state.r#ref),
            _ => None,
        };
        self.metadata(part.provider_data.iter().flatten().chain(state))
    }

    fn metadata<'a>(&self, references: impl IntoIterator<Item = &'a throughline_format::UnifiedProviderDataRef>) -> Option<Json> {
        let bytes = crate::keeper::payload_in(self.context.private.as_ref(), references, PROVIDER_METADATA)?;
        let json = Json::from_text(String::from_utf8(bytes.to_vec()).ok()?).ok()?;
        Object::of(&json)?.get("providerMetadata").cloned()
    }

    fn open(&mut self, open: &mut Open) {
        if std::mem::replace(&mut open.has_begun, true) {
            return;
        }
        let kind = if open.is_text { "text-start" } else { "reasoning-start" };
        let chunk = Object::of_type(kind)
            .with("id", open.id.as_str())
            .with_some("providerMetadata", open.metadata.as_ref());
        self.send(&chunk);
    }

    fn delta(&mut self, part: &UnifiedId, text: &str, is_text: bool) {
        let Some(at) = self.state.open.iter().position(|open| open.id == *part) else {
            return;
        };
        let mut open = self.state.open.remove(at);
        self.open(&mut open);
        open.text.push_str(text);
        let kind = if is_text { "text-delta" } else { "reasoning-delta" };
        self.send(&Object::of_type(kind).with("id", open.id.as_str()).with("delta", text));
        self.state.open.insert(at, open);
    }

    fn close(&mut self, open: Open) {
        if !open.has_begun {
            let reason = "reasoning without text is nothing that the client could show";
            self.state.loss.info(Feature::ReasoningRedacted, open.path, reason);
            return;
        }
        let kind = if open.is_text { "text-end" } else { "reasoning-end" };
        let mut chunk = Object::of_type(kind).with("id", open.id.as_str());
        if !open.citations.is_empty() {
            chunk = chunk.with("citations", &open.citations);
        }
        let metadata = open.metadata.filter(|_| open.own && !open.is_text);
        self.send(&chunk.with_some("providerMetadata", metadata.as_ref()));
        self.send_all(open.sources);
    }

    fn item_delta(&mut self, event: &UnifiedEventV2, change: &ItemDeltaEvent) {
        let Some(id) = &event.item_id else { return };
        match &change.delta {
            ItemDelta::PartStarted(started) => self.grow(id, &started.part),
            ItemDelta::PartCompleted(_) => {
                let at = self.state.open.iter().position(|open| Some(&open.id) == event.part_id.as_ref());
                if let Some(at) = at {
                    let open = self.state.open.remove(at);
                    self.close(open);
                }
            }
            ItemDelta::Output(output) => {
                if let Some(part) = &output.part {
                    self.grow(id, part);
                }
                if let (Some(text), Some(part)) = (&output.text, &event.part_id)
                    && let Some((_, item)) = self.state.items.get_mut(id)
                    && let Some(parts) = item.parts_mut()
                {
                    match parts.iter_mut().find(|p| p.part_id == *part) {
                        Some(UnifiedContentPart {
                            body: PartBody::Text(known),
                            ..
                        }) => known.text.push_str(text),
                        _ => parts.push(UnifiedContentPart::text(part.clone(), text.clone())),
                    }
                }
            }
            ItemDelta::Media(_) => {
                let place = self.state.items.get(id).map_or(0, |(place, _)| *place);
                let reason = "media in pieces have no form; the stored message has them";
                self.state.loss.warning(Feature::PartFile, format!("/output/{place}"), reason);
            }
            ItemDelta::Field(_) => {}
        }
    }

    /// An item gets a part: one of a message is told at once, one of a result when the result is whole.
    fn grow(&mut self, id: &UnifiedId, part: &UnifiedContentPart) {
        let Some((_, item)) = self.state.items.get_mut(id) else { return };
        let number = item.parts().len();
        if let Some(parts) = item.parts_mut() {
            parts.push(part.clone());
        }
        if let UnifiedItemBody::Message(_) | UnifiedItemBody::Reasoning(_) = &item.body {
            let item = item.clone();
            self.begin_part(&item, part, Some(number));
        }
    }

    // ---- the end -----------------------------------------------------------------------------------------------

    fn finish(&mut self, status: &UnifiedResponseStatus) {
        if std::mem::replace(&mut self.state.has_ended, true) {
            return;
        }
        self.start(None);
        if !self.state.is_in_step && self.state.items.is_empty() && !self.state.own {
            self.send(&Object::of_type("start-step"));
            self.state.is_in_step = true;
        }
        let chunks = self.with_out(|out, state| state.calls.give_up(out));
        self.send_all(chunks);
        self.end_step();
        let major = self.major();
        if let Some(Cancelled(reason)) = self.state.cancelled.take() {
            let reason = reason.filter(|_| major >= Major::Six);
            self.send(&Object::of_type("abort").with_some("reason", reason.as_ref()));
        } else {
            let interrupted = status.finish_reason == Some(UnifiedFinishReason::Interrupted);
            if let Some(error) = self.state.error.take() {
                self.send(&errors::chunk(&error));
            }
            if interrupted && major < Major::Seven {
                self.send(&Object::of_type("abort"));
            } else {
                let reason = self.finish_reason(status).filter(|_| major >= Major::Six);
                let metadata = self.final_metadata(major);
                let chunk = Object::of_type("finish")
                    .with_some("finishReason", reason.as_ref())
                    .with_some("messageMetadata", metadata.as_ref());
                self.send(&chunk);
            }
            self.status_losses(status);
        }
        self.frames.push(WireFrame {
            event: None,
            data: "[DONE]".into(),
        });
    }

    fn final_metadata(&mut self, major: Major) -> Option<Json> {
        let own = self
            .context
            .private
            .root_payload(METADATA)
            .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
            .and_then(|text| Json::from_text(text).ok());
        if own.is_some() {
            return own;
        }
        let usage = self.state.usage.take()?;
        let (value, lost) = usage::encode(&usage, major.number());
        for member in lost {
            self.state.loss.info(
                Feature::ResponseUsage,
                format!("/usage/{member}"),
                "the target's usage record has no counter for it",
            );
        }
        value.map(|value| Object::default().with("usage", &value).to_json())
    }

    /// The finish reason; an answer of this wire keeps its own word.
    fn finish_reason(&self, status: &UnifiedResponseStatus) -> Option<String> {
        let own = status.original_reason.clone().filter(|_| self.state.own);
        own.or_else(|| finish_word(status, self.major()).map(str::to_owned))
    }

    fn status_losses(&mut self, status: &UnifiedResponseStatus) {
        let word = self.finish_reason(status);
        let own = self.state.own && status.original_reason.is_some();
        for (member, there) in [
            ("finishReason", !own && !is_exact(status, self.major())),
            ("originalReason", status.original_reason.is_some() && status.original_reason != word),
            ("stopSequence", status.stop_sequence.is_some()),
            ("safety", status.safety.is_some()),
        ] {
            if there {
                self.state.loss.info(
                    Feature::ResponseFinishReason,
                    format!("/status/{member}"),
                    "the target says one of its own words",
                );
            }
        }
    }
}

/// The finish reason of an ending in the client's words.
fn finish_word(status: &UnifiedResponseStatus, major: Major) -> Option<&'static str> {
    use UnifiedFinishReason as R;
    Some(match status.finish_reason? {
        R::Stop => "stop",
        R::Length | R::MaxContext => "length",
        R::ContentFilter | R::Refusal => "content-filter",
        R::ToolCalls | R::RequiresAction => "tool-calls",
        R::Failed => "error",
        R::Interrupted if major >= Major::Seven => "interrupted",
        R::Interrupted | R::MalformedToolCall | R::Paused | R::Cancelled | R::Incomplete | R::Unknown => "other",
    })
}

/// Whether that word says the reason and no other one.
const fn is_exact(status: &UnifiedResponseStatus, major: Major) -> bool {
    use UnifiedFinishReason as R;
    match status.finish_reason {
        Some(R::Stop | R::Length | R::ContentFilter | R::ToolCalls | R::Failed | R::Unknown) | None => true,
        Some(R::Interrupted) => matches!(major, Major::Seven),
        Some(_) => false,
    }
}

impl StreamEncoder for UiStreamEncoder {
    fn push(&mut self, event: &UnifiedEventV2) -> Vec<WireFrame> {
        if self.state.has_ended {
            return Vec::new();
        }
        if event.candidate.is_some() {
            if matches!(event.body, EventBody::ItemStarted(_)) {
                let reason = "the target has one answer";
                self.state.loss.warning(Feature::ResponseCandidates, "/alternatives", reason);
            }
            return Vec::new();
        }
        match &event.body {
            EventBody::ResponseStarted(started) => {
                self.state.response = Some(started.response_id.clone());
                self.state.own = is_own(Some(&started.profile));
                if !self.state.own {
                    self.start(None);
                }
            }
            EventBody::ItemStarted(started) => self.begin_item(&started.item),
            EventBody::ItemCompleted(done) => {
                if let Some(id) = event.item_id.as_ref().or(done.item.as_ref().map(|item| &item.id)) {
                    self.end_item(id, done.item.as_ref());
                }
            }
            EventBody::ItemFailed(_) => {
                if let Some(id) = &event.item_id {
                    self.end_item(id, None);
                }
            }
            EventBody::ItemDelta(change) => self.item_delta(event, change),
            EventBody::TextDelta(TextDelta { text, logprobs }) => {
                if let Some(part) = &event.part_id {
                    self.delta(part, text, true);
                }
                if logprobs.is_some() {
                    let reason = "the target has no token probabilities";
                    self.state.loss.info(Feature::PartLogprobs, "/output", reason);
                }
            }
            EventBody::ReasoningDelta(delta) => {
                if let Some(part) = &event.part_id {
                    self.delta(part, &delta.text, false);
                }
            }
            EventBody::SignatureReady(ready) => {
                let metadata = self.metadata([&ready.provider_data]);
                if let Some(part) = &event.part_id {
                    let open = self.state.open.iter_mut().find(|open| open.id == *part);
                    if let (Some(open), true) = (open, metadata.is_some()) {
                        open.metadata = metadata;
                        return Vec::new();
                    }
                } else if let Some(item) = &event.item_id {
                    self.state.calls.sign(item, &ready.provider_data);
                    if is_own(Some(&ready.provider_data.profile)) {
                        return Vec::new();
                    }
                }
                let reason = "private state stays with its provider";
                self.state.loss.info(Feature::ReasoningSignature, "/output", reason);
            }
            EventBody::ToolArgumentsDelta(delta) => {
                if let Some(item) = &event.item_id {
                    let chunk = self.state.calls.arguments(item, &delta.text);
                    self.send_all(chunk.into_iter().collect());
                }
            }
            EventBody::ToolArgumentsReady(ready) => {
                if let Some(item) = &event.item_id {
                    self.state.calls.ready(item, &ready.raw_arguments, ready.input.clone());
                }
            }
            EventBody::ToolLifecycle(change) => {
                if let Some(item) = &event.item_id {
                    let chunks = self.with_out(|out, state| state.calls.advance(out, item, change.to));
                    self.send_all(chunks);
                }
            }
            EventBody::CitationReady(ready) => {
                let found = event
                    .part_id
                    .as_ref()
                    .and_then(|part| self.state.open.iter().position(|open| open.id == *part));
                if let Some(at) = found {
                    let mut open = self.state.open.remove(at);
                    let path = format!("{}/annotations/{}", open.path, open.citations.len());
                    let (citation, source) = self.with_out(|out, _| out.annotation(&ready.annotation, &open.text, &path));
                    open.citations.extend(citation);
                    open.sources.extend(source);
                    self.state.open.insert(at, open);
                }
            }
            EventBody::SourceReady(ready) | EventBody::ArtifactReady(ready) => {
                if let Some(item) = &event.item_id {
                    self.grow(item, &ready.part);
                }
            }
            EventBody::UsageUpdate(update) => self.state.usage = Some(update.usage.clone()),
            EventBody::OperationFailed(failed) => self.state.error = Some(failed.error.clone()),
            EventBody::OperationCancelled(cancelled) => self.state.cancelled = Some(Cancelled(cancelled.reason.clone())),
            EventBody::OperationExpired(_) => {
                self.state.error = Some(UnifiedError::new(
                    ErrorCategory::Timeout,
                    "operation",
                    "the operation took too long",
                ));
            }
            EventBody::StreamCompleted(done) => self.finish(&done.status),
            // States of the operation, and what the record says about itself.
            EventBody::OperationCreated(_)
            | EventBody::OperationQueued(_)
            | EventBody::OperationRunning(_)
            | EventBody::OperationRequiresAction(_)
            | EventBody::OperationCompleted(_)
            | EventBody::ResponseMetadata(_)
            | EventBody::CheckpointReady(_)
            | EventBody::CheckpointInvalidated(_)
            | EventBody::Warning(_)
            | EventBody::LossUpdate(_)
            | EventBody::Error(_)
            | EventBody::Heartbeat(_) => {}
        }
        std::mem::take(&mut self.frames)
    }

    fn loss(&self) -> &UnifiedLossReport {
        self.state.loss.report()
    }
}
