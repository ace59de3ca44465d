//! One candidate of an answer: which items and parts are open, and what a part of the wire does to them.

use super::decode_part::{Kind, NamedCalls, Whole, kind, message_part, reasoning_part, whole};
use super::finish;
use super::grounding::{self, Placed, Told};
use super::kept::{self, made_call_id};
use super::partial_args::Arguments;
use super::wire::{FunctionCall, Part};
use super::wire_answer::{Citations, Grounding, Logprobs, SafetyRating, TokenLogprob, UrlContext, UrlMetadata};
use crate::drafting::{CANDIDATES, Drafting, Row};
use crate::feature::Feature;
use crate::raw::{self, json, object};
use crate::side::SideResource;
use throughline_format::event::{ArgumentsDelta, ArgumentsReady, CitationReady};
use throughline_format::item::{FoundItem, ItemStatus, MessageItem, ReasoningItem, ServerToolResultItem, ToolCallItem};
use throughline_format::part::{JsonPart, TopLogprob, UnifiedTokenLogprob};
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::status::SafetyDetail;
use throughline_format::tool::Execution;
use throughline_format::{
    Count, EventBody, EventDraft, Json, PartBody, ProviderDataScope, UnifiedContentPart, UnifiedError, UnifiedFinishReason, UnifiedId,
    UnifiedItemBody, UnifiedResponseStatus, UnifiedToolLifecycle, UnifiedToolType,
};

/// Number of the first side resource of an answer's root, apart from those of the request of the same operation.
const ROOT: u64 = 16;

/// The item that text goes to.
struct OpenItem {
    item: UnifiedId,
    thinking: bool,
    parts: u64,
    /// The part that text is added to.
    part: Option<UnifiedId>,
}

/// A call whose arguments come in pieces.
struct Streamed {
    item: UnifiedId,
    call_id: String,
    arguments: Arguments,
}

/// One candidate so far.
#[derive(Default)]
pub(super) struct State {
    /// Its items.
    pub(super) row: Row,
    open: Option<OpenItem>,
    /// Message items whose citations may still come.
    messages: Vec<UnifiedId>,
    told: Vec<Told>,
    /// Calls that wait for a result.
    pub(super) calls: NamedCalls,
    streamed: Option<Streamed>,
    /// Parts of the wire so far.
    parts: u64,
    /// Why it ended, in the wire's word.
    pub(super) finish: Option<String>,
    /// The same in words.
    pub(super) finish_message: Option<String>,
    /// Members besides the parts, as written; the last value counts.
    pub(super) shell: Vec<(String, Json)>,
    /// Members of the content besides the parts.
    pub(super) content: Option<Vec<(String, Json)>>,
    /// Category that was blocked.
    pub(super) blocked: Option<String>,
}

impl State {
    /// A candidate without content.
    pub(super) fn new(index: Count) -> Self {
        let row = Row {
            candidate: index,
            items: Vec::new(),
        };
        Self { row, ..Self::default() }
    }

    /// Takes a part of the wire.
    pub(super) fn part(
        &mut self,
        draft: &mut Drafting,
        part: Part,
        path: &str,
        whole_body: bool,
        tokens: &mut Option<Vec<UnifiedTokenLogprob>>,
    ) {
        let wire_part = self.parts;
        self.parts += 1;
        match kind(&part) {
            Kind::Text | Kind::Media | Kind::Unknown => self.message(draft, part, path, whole_body, wire_part, tokens),
            Kind::Thought | Kind::Carrier => self.thought(draft, part, path, whole_body),
            Kind::Call if is_piece(part.function_call.as_ref()) || (self.streamed.is_some() && is_end(&part)) => {
                self.piece(draft, part, path);
            }
            Kind::Call | Kind::Response | Kind::Code | Kind::CodeResult | Kind::HostedCall | Kind::HostedResult => {
                self.close(draft);
                let id = draft.next_item(&mut self.row);
                let made = whole(&mut draft.keeper, &id, part, path, true, &mut self.calls);
                self.whole_item(draft, &id, made);
            }
        }
    }

    fn whole_item(&self, draft: &mut Drafting, id: &UnifiedId, made: Whole) {
        match made.body {
            UnifiedItemBody::ToolCall(call) => {
                let candidate = self.row.candidate;
                let (text, input) = (call.raw_arguments.clone(), call.input.clone());
                let call_id = call.call_id.clone();
                let begun = ToolCallItem {
                    input: None,
                    raw_arguments: String::new(),
                    lifecycle: UnifiedToolLifecycle::ArgumentsStreaming,
                    ..call
                };
                draft.started(&self.row, id, UnifiedItemBody::ToolCall(begun), made.provider_data);
                let delta = EventBody::ToolArgumentsDelta(ArgumentsDelta { text: text.clone() });
                draft.tell(candidate, EventDraft::of_call(id.clone(), call_id.clone(), delta));
                let ready = EventBody::ToolArgumentsReady(ArgumentsReady {
                    raw_arguments: text,
                    input,
                });
                draft.tell(candidate, EventDraft::of_call(id.clone(), call_id, ready));
                draft.finished(candidate, id, ItemStatus::Completed);
            }
            body => draft.whole(&self.row, id, body, made.provider_data),
        }
    }

    /// Whether the part goes on with what is open.
    fn continues(&self, part: &Part, thinking: bool, whole_body: bool) -> bool {
        let plain = part.extra.is_empty() && part.text.is_some() && part.video_metadata.is_none() && part.media_resolution.is_none();
        let open = self.open.as_ref().is_some_and(|o| o.thinking == thinking && o.part.is_some());
        !whole_body && plain && open
    }

    /// The item that parts of this kind go to.
    fn item_for(&mut self, draft: &mut Drafting, thinking: bool) -> (UnifiedId, UnifiedId) {
        if self.open.as_ref().is_some_and(|open| open.thinking != thinking) {
            self.close(draft);
        }
        self.close_part(draft);
        if self.open.is_none() {
            self.end_streamed(draft);
            let item = draft.next_item(&mut self.row);
            let body = if thinking {
                UnifiedItemBody::Reasoning(ReasoningItem { parts: Vec::new() })
            } else {
                self.messages.push(item.clone());
                UnifiedItemBody::Message(MessageItem {
                    parts: Vec::new(),
                    placement: None,
                })
            };
            draft.started(&self.row, &item, body, None);
            self.open = Some(OpenItem {
                item,
                thinking,
                parts: 0,
                part: None,
            });
        }
        let Some(open) = &mut self.open else {
            // It was set just now.
            return (UnifiedId::pending(), UnifiedId::pending());
        };
        let part = open.item.part(open.parts);
        open.parts += 1;
        (open.item.clone(), part)
    }

    fn message(
        &mut self,
        draft: &mut Drafting,
        mut part: Part,
        path: &str,
        whole_body: bool,
        wire_part: u64,
        tokens: &mut Option<Vec<UnifiedTokenLogprob>>,
    ) {
        let candidate = self.row.candidate;
        let is_text = kind(&part) == Kind::Text;
        let text = part.text.clone().unwrap_or_default();
        let signature = part.thought_signature.take();
        if !self.continues(&part, false, whole_body) {
            if is_text && text.is_empty() && signature.is_none() && !whole_body && part.extra.is_empty() {
                // An empty piece begins nothing.
                return;
            }
            let (item, id) = self.item_for(draft, false);
            let made = message_part(&mut draft.keeper, &id, part, path, true);
            draft.part_started(candidate, &item, made);
            if is_text {
                self.told.push(Told {
                    item: item.clone(),
                    part: id.clone(),
                    text: String::new(),
                    wire_part,
                });
            }
            if let Some(open) = &mut self.open {
                open.part = Some(id);
            }
        }
        let Some(OpenItem { item, part: Some(id), .. }) = &self.open else {
            return;
        };
        let (item, id) = (item.clone(), id.clone());
        if is_text {
            let logprobs = tokens.take();
            if !text.is_empty() || logprobs.is_some() {
                draft.text(candidate, &item, &id, text.clone(), false, logprobs);
            }
            if let Some(told) = self.told.iter_mut().rev().find(|t| t.part == id) {
                told.text.push_str(&text);
            }
        }
        let signed = signature.is_some();
        if let Some(signature) = signature {
            let state = kept::signature(&mut draft.keeper, &id, signature, path);
            draft.signed(candidate, &item, Some(&id), state.r#ref, state.issuer);
        }
        if whole_body || signed || !is_text {
            self.close_part(draft);
        }
    }

    fn thought(&mut self, draft: &mut Drafting, mut part: Part, path: &str, whole_body: bool) {
        let candidate = self.row.candidate;
        let carrier = kind(&part) == Kind::Carrier;
        let text = part.text.clone().unwrap_or_default();
        let signature = part.thought_signature.clone().filter(|_| !carrier);
        if carrier || !self.continues(&part, true, whole_body) {
            if !carrier && text.is_empty() && signature.is_none() && !whole_body {
                return;
            }
            if carrier {
                // What carries a signature only is a part of its own.
                self.close(draft);
            }
            let (item, id) = self.item_for(draft, true);
            if !carrier {
                part.thought_signature = None;
            }
            let made = reasoning_part(&mut draft.keeper, &id, part, path, true);
            draft.part_started(candidate, &item, made);
            if let Some(open) = &mut self.open {
                open.part = Some(id);
            }
        }
        let Some(OpenItem { item, part: Some(id), .. }) = &self.open else {
            return;
        };
        let (item, id) = (item.clone(), id.clone());
        if !text.is_empty() {
            draft.text(candidate, &item, &id, text, true, None);
        }
        let signed = signature.is_some();
        if let Some(signature) = signature {
            let state = kept::signature(&mut draft.keeper, &id, signature, path);
            draft.signed(candidate, &item, Some(&id), state.r#ref, state.issuer);
        }
        if whole_body || signed || carrier {
            self.close_part(draft);
        }
        if carrier {
            self.close(draft);
        }
    }

    /// A piece of a call.
    fn piece(&mut self, draft: &mut Drafting, part: Part, path: &str) {
        let candidate = self.row.candidate;
        let Some(mut call) = part.function_call else { return };
        let name = call.name.take().filter(|n| !n.is_empty());
        let same = |open: &Streamed| name.is_none() || call.id.as_ref().is_some_and(|id| *id == open.call_id);
        if !self.streamed.as_ref().is_some_and(same) {
            self.close(draft);
            let id = draft.next_item(&mut self.row);
            let start = Part {
                function_call: Some(FunctionCall {
                    id: call.id.take(),
                    name,
                    args: Some(object(Vec::new())),
                    partial_args: None,
                    will_continue: None,
                    extra: crate::wire::Extra::default(),
                }),
                ..part
            };
            let made = whole(&mut draft.keeper, &id, start, path, true, &mut self.calls);
            let UnifiedItemBody::ToolCall(made_call) = made.body else { return };
            let call_id = made_call.call_id.clone();
            let begun = ToolCallItem {
                input: None,
                raw_arguments: String::new(),
                lifecycle: UnifiedToolLifecycle::ArgumentsStreaming,
                ..made_call
            };
            draft.started(&self.row, &id, UnifiedItemBody::ToolCall(begun), made.provider_data);
            self.streamed = Some(Streamed {
                item: id,
                call_id,
                arguments: Arguments::default(),
            });
        }
        let Some(open) = &mut self.streamed else { return };
        for piece in call.partial_args.iter().flatten() {
            match open.arguments.push(piece) {
                Some(text) if !text.is_empty() => {
                    let delta = EventBody::ToolArgumentsDelta(ArgumentsDelta { text });
                    draft.tell(candidate, EventDraft::of_call(open.item.clone(), open.call_id.clone(), delta));
                }
                Some(_) => {}
                None => draft.warn("stream.argument-path", "a piece of arguments with an unknown path was ignored"),
            }
        }
        if call.will_continue != Some(true) {
            self.end_streamed(draft);
        }
    }

    /// Ends a call whose arguments came in pieces.
    fn end_streamed(&mut self, draft: &mut Drafting) {
        let Some(mut open) = self.streamed.take() else { return };
        let (rest, whole) = open.arguments.finish();
        let candidate = self.row.candidate;
        let of = |event| EventDraft::of_call(open.item.clone(), open.call_id.clone(), event);
        if !rest.is_empty() {
            draft.tell(candidate, of(EventBody::ToolArgumentsDelta(ArgumentsDelta { text: rest })));
        }
        let ready = ArgumentsReady {
            input: Json::of_arguments(&whole),
            raw_arguments: whole,
        };
        draft.tell(candidate, of(EventBody::ToolArgumentsReady(ready)));
        draft.finished(candidate, &open.item, ItemStatus::Completed);
    }

    fn close_part(&mut self, draft: &mut Drafting) {
        if let Some(OpenItem { item, part, .. }) = &mut self.open
            && let Some(part) = part.take()
        {
            draft.part_completed(self.row.candidate, item, &part);
        }
    }

    /// Nothing more goes to what is open. Messages stay: their citations may still come.
    fn close(&mut self, draft: &mut Drafting) {
        self.close_part(draft);
        self.end_streamed(draft);
        if let Some(open) = self.open.take()
            && open.thinking
        {
            draft.finished(self.row.candidate, &open.item, ItemStatus::Completed);
        }
    }

    /// The candidate is complete.
    pub(super) fn end(&mut self, draft: &mut Drafting) {
        if let Some(streamed) = self.streamed.as_ref().filter(|_| self.finish.is_none()) {
            // Arguments that were cut are no arguments.
            let item = streamed.item.clone();
            self.streamed = None;
            draft.finished(self.row.candidate, &item, ItemStatus::Incomplete);
        }
        self.end_streamed(draft);
        self.grounded(draft);
        self.close_part(draft);
        for item in std::mem::take(&mut self.messages) {
            if self.open.as_ref().is_some_and(|o| o.item == item) {
                self.open = None;
            }
            draft.finished(self.row.candidate, &item, ItemStatus::Completed);
        }
        self.close(draft);
        self.found(draft);
        self.ratings(draft);
    }

    fn member<T: serde::de::DeserializeOwned>(&self, key: &str) -> Option<T> {
        let (_, value) = self.shell.iter().find(|(known, _)| known == key)?;
        value.decode().ok()
    }

    /// Citations of the texts.
    fn grounded(&mut self, draft: &mut Drafting) {
        let root = draft.keeper.context.operation_id.clone();
        let mut placed: Vec<Placed> = Vec::new();
        if let Some(grounding) = self.member::<Grounding>("groundingMetadata") {
            placed.extend(grounding::citations(&self.told, &grounding, &root));
        }
        if let Some(citations) = self.member::<Citations>("citationMetadata") {
            placed.extend(grounding::recited(&self.told, &citations, &root));
        }
        for placed in placed {
            if placed.span_lost {
                draft.keeper.loss.warning(
                    Feature::CitationSpan,
                    format!("/candidates/{}/groundingMetadata", self.row.candidate),
                    "a span that fits no text of the answer; its words are kept",
                );
            }
            let Some(told) = self.told.get(placed.told) else { continue };
            let ready = EventBody::CitationReady(CitationReady {
                annotation: placed.annotation,
            });
            draft.tell(self.row.candidate, EventDraft::of_part(told.item.clone(), told.part.clone(), ready));
        }
    }

    /// What was searched, retrieved and read, as items behind the answer.
    fn found(&mut self, draft: &mut Drafting) {
        let root = draft.keeper.context.operation_id.clone();
        if let Some(grounding) = self.member::<Grounding>("groundingMetadata") {
            let all = [&grounding.web_search_queries, &grounding.image_search_queries];
            let queries: Vec<String> = all.into_iter().flatten().flatten().cloned().collect();
            for (retrieved, queries) in [(false, queries), (true, grounding.retrieval_queries.clone().unwrap_or_default())] {
                let probe = grounding::sources(&grounding, &root, retrieved, &root);
                if probe.is_empty() && queries.is_empty() {
                    continue;
                }
                let id = draft.next_item(&mut self.row);
                let found = FoundItem {
                    call_id: None,
                    queries,
                    parts: grounding::sources(&grounding, &root, retrieved, &id),
                    retrieved_at: None,
                    error: None,
                };
                let body = if retrieved {
                    UnifiedItemBody::RetrievalResult(found)
                } else {
                    UnifiedItemBody::SearchResult(found)
                };
                draft.whole(&self.row, &id, body, None);
            }
        }
        let Some(read) = self.member::<UrlContext>("urlContextMetadata").and_then(|u| u.url_metadata) else {
            return;
        };
        if read.is_empty() {
            return;
        }
        let id = draft.next_item(&mut self.row);
        let failed = |raw: &Json| {
            let word = raw.decode::<UrlMetadata>().ok().and_then(|u| u.url_retrieval_status);
            word.is_some_and(|w| !w.ends_with("_SUCCESS"))
        };
        let is_error = read.iter().all(failed).then_some(true);
        let output = read.into_iter().enumerate().map(|(n, value)| {
            let part = JsonPart { value, schema_name: None };
            UnifiedContentPart::new(id.part(n as u64), PartBody::Json(part))
        });
        let body = UnifiedItemBody::ServerToolResult(ServerToolResultItem {
            call_id: made_call_id(&id),
            tool_type: UnifiedToolType::UrlContext,
            name: None,
            output: output.collect(),
            is_error,
            error: None,
            execution: Execution::Provider,
        });
        draft.whole(&self.row, &id, body, None);
    }

    /// Safety ratings, as the registered annotation.
    fn ratings(&mut self, draft: &mut Drafting) {
        let Some(list) = self.member::<Vec<SafetyRating>>("safetyRatings").filter(|l| !l.is_empty()) else {
            return;
        };
        self.blocked = list.iter().find(|r| r.blocked == Some(true)).and_then(|r| r.category.clone());
        let known = list.into_iter().take(64).filter_map(|rating| {
            let mut members = vec![("category".to_owned(), json(&rating.category?))];
            let mut add = |key: &str, value: Option<Json>| members.extend(value.map(|v| (key.to_owned(), v)));
            add("probability", rating.probability.map(|v| json(&v)));
            add("probabilityScore", rating.probability_score.map(raw::number));
            add("severity", rating.severity.map(|v| json(&v)));
            add("severityScore", rating.severity_score.map(raw::number));
            add("blocked", rating.blocked.map(|v| json(&v)));
            add("overwrittenThreshold", rating.overwritten_threshold.map(|v| json(&v)));
            Some(object(members))
        });
        let known: Vec<Json> = known.collect();
        let payload = object(vec![("ratings".into(), json(&known))]);
        let candidate: Count = self.row.candidate;
        draft.keeper.push(SideResource {
            resource_id: draft.keeper.context.operation_id.resource(ROOT + 8 + CANDIDATES + candidate),
            profile: draft.keeper.profile.clone(),
            schema: kept::RATINGS.to_owned(),
            scope: ProviderDataScope::PortableAnnotation,
            issuer: Issuer::Provider,
            resource_type: ResourceType::Other("annotation".into()),
            payload: payload.as_str().as_bytes().to_vec(),
            wire_paths: Vec::new(),
            subject: None,
        });
    }

    /// How it ended, and the error where that means failure.
    pub(super) fn status(&self, whole_body: bool) -> (UnifiedResponseStatus, Option<UnifiedError>) {
        let Some(word) = &self.finish else {
            if whole_body {
                // Not told in a whole response.
                let reason = if self.calls.is_waiting() {
                    UnifiedFinishReason::ToolCalls
                } else {
                    UnifiedFinishReason::Unknown
                };
                return (UnifiedResponseStatus::finished(reason, None), None);
            }
            return (UnifiedResponseStatus::finished(UnifiedFinishReason::Interrupted, None), None);
        };
        let reason = finish::reason(word, self.calls.is_waiting());
        let mut status = UnifiedResponseStatus::finished(reason, Some(word.clone()));
        let mut error = None;
        if reason == UnifiedFinishReason::Failed {
            error = Some(finish::failure(word, self.finish_message.as_deref()));
        } else if reason == UnifiedFinishReason::ContentFilter {
            status.safety = Some(SafetyDetail {
                category: self.blocked.clone(),
                explanation: self.finish_message.as_deref().map(throughline_format::error::sanitise),
            })
            .filter(|s| *s != SafetyDetail::default());
        }
        (status, error)
    }
}

/// Whether a call is a piece of a streamed one.
fn is_piece(call: Option<&FunctionCall>) -> bool {
    call.is_some_and(|c| c.partial_args.is_some() || c.will_continue == Some(true))
}

/// Whether a part says nothing but that a streamed call ends.
fn is_end(part: &Part) -> bool {
    part.function_call.as_ref().is_some_and(|c| c.name.is_none() && c.args.is_none())
}

/// Token probabilities of the record.
pub(super) fn logprobs(raw: &Json) -> Option<Vec<UnifiedTokenLogprob>> {
    let wire = raw.decode::<Logprobs>().ok()?;
    let mut tops = wire.top_candidates.unwrap_or_default().into_iter();
    let token = |t: TokenLogprob| Some((t.token?, t.log_probability?));
    let list: Vec<_> = wire
        .chosen_candidates?
        .into_iter()
        .map(|chosen| (chosen, tops.next()))
        .filter_map(|(chosen, top)| {
            let (text, logprob) = token(chosen)?;
            let top = top.and_then(|t| t.candidates).map(|list| {
                let all = list.into_iter().filter_map(token);
                all.map(|(token, logprob)| TopLogprob {
                    token,
                    bytes: None,
                    logprob,
                })
                .collect()
            });
            Some(UnifiedTokenLogprob {
                token: text,
                bytes: None,
                logprob,
                top,
            })
        })
        .collect();
    (!list.is_empty()).then_some(list)
}
