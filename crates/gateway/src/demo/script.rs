//! What the demo models say: small conversations from an embedded file, and the events of an answer made from them.

use serde::Deserialize;
use std::collections::BTreeMap;
use throughline_format::event::{
    ArgumentsDelta, ArgumentsReady, ItemCompleted, ItemDelta, ItemDeltaEvent, ItemStarted, PartCompleted, PartStarted, ResponseStarted,
    SignatureReady, TextDelta, UsageUpdate,
};
use throughline_format::item::{ItemStatus, MessageItem, ReasoningItem, Role, ToolCallItem, UnifiedItemBase, Visibility};
use throughline_format::part::{ReasoningForm, ReasoningPart, ReasoningState};
use throughline_format::provenance::ItemOrigin;
use throughline_format::resource::{Issuer, ProviderDataScope};
use throughline_format::result::UnifiedResolvedModel;
use throughline_format::tool::{Execution, UnifiedToolType};
use throughline_format::usage::UnifiedCounter;
use throughline_format::{
    EventBody, EventDraft, Json, PartBody, Timestamp, UnifiedContentPart, UnifiedFinishReason, UnifiedId, UnifiedItem, UnifiedItemBody,
    UnifiedItemProvenance, UnifiedProtocolProfile, UnifiedProviderDataRef, UnifiedRequestV2, UnifiedResponseStatus, UnifiedToolLifecycle,
    UnifiedUsage,
};
use throughline_protocols::Decoded;

/// Longest piece of a client's text that an answer repeats, in characters.
const MAX_QUOTE: usize = 120;

#[derive(Deserialize)]
pub(super) struct Scripts {
    conversations: Vec<Script>,
    default: Script,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Script {
    #[allow(dead_code)] // names the entry for whoever reads the file
    name: String,
    words: Vec<String>,
    thinking: String,
    call: Option<Call>,
    #[serde(default)]
    before: String,
    answer: String,
    #[serde(default)]
    without: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tools: Vec<String>,
    arguments: Json,
}

impl Scripts {
    /// The embedded conversations.
    pub(super) fn load() -> Result<Self, serde_json::Error> {
        serde_json::from_str(include_str!("conversations.json"))
    }

    fn choose(&self, question: &str) -> &Script {
        let words: Vec<String> = question.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase).collect();
        self.conversations
            .iter()
            .find(|script| script.words.iter().any(|word| words.contains(word)))
            .unwrap_or(&self.default)
    }

    /// What to answer to a request.
    pub(super) fn answer(&self, request: &UnifiedRequestV2) -> Reply {
        let seen = Seen::of(request);
        let script = self.choose(&seen.last);
        let fill = |text: &str| fill(text, &seen, &request.model.requested);
        let offered = script.call.as_ref().and_then(|call| {
            let name = request
                .tools
                .iter()
                .filter_map(|tool| tool.name.as_ref())
                .find(|name| call.tools.contains(name))?;
            Some((name.clone(), with_city(&call.arguments, &seen.last)))
        });
        match (&script.call, offered, &seen.result) {
            (Some(_), Some(call), None) => Reply {
                thinking: script.thinking.clone(),
                text: fill(&script.before),
                call: Some(call),
            },
            (Some(_), _, None) => Reply {
                thinking: script.thinking.clone(),
                text: fill(&script.without),
                call: None,
            },
            (_, _, Some(_)) => Reply {
                thinking: "The tool has answered, so I can answer too.".to_owned(),
                text: fill(&script.answer),
                call: None,
            },
            (None, _, None) => Reply {
                thinking: script.thinking.clone(),
                text: fill(&script.answer),
                call: None,
            },
        }
    }
}

/// What one answer consists of.
#[derive(Debug, PartialEq)]
pub(super) struct Reply {
    thinking: String,
    text: String,
    call: Option<(String, Json)>,
}

/// What a script looks at in a history.
struct Seen {
    turn: usize,
    first: String,
    last: String,
    /// The result of a call, when it is what the request ends with.
    result: Option<String>,
}

impl Seen {
    fn of(request: &UnifiedRequestV2) -> Self {
        let mut questions: Vec<String> = Vec::new();
        let (mut result, mut after_user) = (None, false);
        for item in &request.conversation.items {
            let text = || {
                item.parts()
                    .iter()
                    .filter_map(UnifiedContentPart::as_text)
                    .collect::<Vec<_>>()
                    .join(" ")
            };
            match (&item.body, item.role) {
                (UnifiedItemBody::Message(_), Some(Role::User)) => {
                    // Neighbouring user items are one message.
                    match questions.last_mut().filter(|_| after_user) {
                        Some(question) => *question = format!("{question} {}", text()),
                        None => questions.push(text()),
                    }
                    (result, after_user) = (None, true);
                }
                (UnifiedItemBody::ToolResult(_), _) => (result, after_user) = (Some(text()), false),
                (UnifiedItemBody::Message(_), Some(Role::Assistant)) => (result, after_user) = (None, false),
                _ => {}
            }
        }
        Self {
            turn: questions.len(),
            first: questions.first().cloned().unwrap_or_default(),
            last: questions.last().cloned().unwrap_or_default(),
            result,
        }
    }
}

/// The city of a question about the weather when it names none.
const CITY: &str = "Lisbon";

/// The name after `in`: the words that begin no small letter, up to a punctuation mark.
fn city(question: &str) -> String {
    let mut words = question
        .split_whitespace()
        .skip_while(|word| !word.eq_ignore_ascii_case("in"))
        .skip(1);
    let mut name: Vec<&str> = Vec::new();
    while let Some(word) = words
        .next()
        .filter(|word| word.starts_with(|c: char| c.is_alphabetic() && !c.is_lowercase()))
    {
        let bare = word.trim_end_matches(|c: char| !c.is_alphanumeric());
        name.push(bare);
        if bare.len() < word.len() {
            break;
        }
    }
    if name.is_empty() { CITY.to_owned() } else { quote(&name.join(" ")) }
}

/// The arguments of a call with the city that the question names.
fn with_city(arguments: &Json, question: &str) -> Json {
    let text = serde_json::Value::String(city(question)).to_string();
    Json::from_text(arguments.as_str().replace("\"{city}\"", &text)).unwrap_or_else(|_| arguments.clone())
}

/// A piece of the client's text on one line, bounded.
fn quote(text: &str) -> String {
    let words: Vec<_> = text.split_whitespace().collect();
    words.join(" ").chars().take(MAX_QUOTE).collect()
}

fn fill(text: &str, seen: &Seen, model: &str) -> String {
    // The client's texts come last, so that a placeholder in them stays what it is.
    text.replace("{turn}", &seen.turn.to_string())
        .replace("{model}", &quote(model))
        .replace("{result}", &quote(seen.result.as_deref().unwrap_or_default()))
        .replace("{first}", &quote(&seen.first))
}

/// Where an answer belongs.
pub(super) struct Place {
    pub(super) operation_id: UnifiedId,
    pub(super) profile: UnifiedProtocolProfile,
    pub(super) model: String,
    pub(super) call_id: String,
    pub(super) thinks: bool,
    pub(super) now: Timestamp,
    pub(super) input_bytes: usize,
}

/// Schema of the private payload behind the demo's thinking.
const SIGNATURE_SCHEMA: &str = "anthropic-messages/thinking-signature@1";

/// Builds the events of an answer, item by item.
struct Builder<'p> {
    place: &'p Place,
    out: Decoded,
    items: Vec<UnifiedId>,
}

impl Reply {
    /// The events of this answer, as a decoder of its protocol would give them.
    pub(super) fn events(&self, place: &Place) -> Decoded {
        let mut builder = Builder {
            place,
            out: Decoded::default(),
            items: Vec::new(),
        };
        let model = UnifiedResolvedModel {
            requested: None,
            model: place.model.clone(),
            model_provider: None,
            family: None,
            version: None,
            service_tier: None,
        };
        builder.out.push(EventBody::ResponseStarted(ResponseStarted {
            response_id: place.operation_id.clone(),
            model,
            profile: place.profile.clone(),
            attribution: None,
        }));
        if place.thinks {
            builder.reasoning(&self.thinking);
        }
        if !self.text.is_empty() {
            builder.message(&self.text);
        }
        if let Some((name, arguments)) = &self.call {
            builder.call(name, arguments);
        }
        builder.usage(self);
        let reason = if self.call.is_some() {
            UnifiedFinishReason::ToolCalls
        } else {
            UnifiedFinishReason::Stop
        };
        let items = std::mem::take(&mut builder.items);
        builder.out.complete(UnifiedResponseStatus::finished(reason, None), items);
        builder.out
    }
}

impl Builder<'_> {
    fn begin(&mut self, body: UnifiedItemBody) -> UnifiedId {
        let id = self.place.operation_id.item(self.items.len() as u64);
        self.items.push(id.clone());
        let base = UnifiedItemBase {
            id: id.clone(),
            conversation_id: UnifiedId::pending(),
            branch_id: UnifiedId::pending(),
            sequence: self.items.len() as u64,
            parent_id: None,
            created_at: self.place.now,
            role: Some(Role::Assistant),
            visibility: Visibility::Model,
            status: ItemStatus::InProgress,
            provenance: UnifiedItemProvenance {
                profile: Some(self.place.profile.clone()),
                ..UnifiedItemProvenance::of(ItemOrigin::Provider)
            },
            cache: None,
            provider_data: None,
        };
        self.item(
            &id,
            EventBody::ItemStarted(ItemStarted {
                item: UnifiedItem { base, body },
            }),
        );
        id
    }

    fn item(&mut self, id: &UnifiedId, body: EventBody) {
        self.out.drafts.push(EventDraft::of_item(id.clone(), body));
    }

    fn part(&mut self, id: &UnifiedId, body: EventBody) {
        self.out.drafts.push(EventDraft::of_part(id.clone(), id.part(0), body));
    }

    fn open_part(&mut self, id: &UnifiedId, body: PartBody) {
        let part = UnifiedContentPart::new(id.part(0), body);
        self.part(
            id,
            EventBody::ItemDelta(ItemDeltaEvent {
                delta: ItemDelta::PartStarted(PartStarted { part }),
            }),
        );
    }

    fn close_part(&mut self, id: &UnifiedId) {
        self.part(
            id,
            EventBody::ItemDelta(ItemDeltaEvent {
                delta: ItemDelta::PartCompleted(PartCompleted {}),
            }),
        );
    }

    fn finish(&mut self, id: &UnifiedId) {
        self.item(
            id,
            EventBody::ItemCompleted(ItemCompleted {
                status: ItemStatus::Completed,
                item: None,
            }),
        );
    }

    fn reasoning(&mut self, text: &str) {
        let id = self.begin(UnifiedItemBody::Reasoning(ReasoningItem { parts: Vec::new() }));
        self.open_part(
            &id,
            PartBody::Reasoning(ReasoningPart {
                text: String::new(),
                form: ReasoningForm::Full,
                state: ReasoningState::Disclosed,
                private_state: None,
            }),
        );
        for piece in pieces(text) {
            self.part(
                &id,
                EventBody::ReasoningDelta(TextDelta {
                    text: piece,
                    logprobs: None,
                }),
            );
        }
        let provider_data = UnifiedProviderDataRef {
            profile: self.place.profile.clone(),
            scope: ProviderDataScope::OwnerPrivate,
            schema: SIGNATURE_SCHEMA.to_owned(),
            resource_id: id.part(0).resource(0),
        };
        self.part(
            &id,
            EventBody::SignatureReady(SignatureReady {
                provider_data,
                issuer: Issuer::Provider,
            }),
        );
        self.close_part(&id);
        self.finish(&id);
    }

    fn message(&mut self, text: &str) {
        let id = self.begin(UnifiedItemBody::Message(MessageItem {
            parts: Vec::new(),
            placement: None,
        }));
        self.open_part(&id, PartBody::Text(throughline_format::part::TextPart::default()));
        for piece in pieces(text) {
            self.part(
                &id,
                EventBody::TextDelta(TextDelta {
                    text: piece,
                    logprobs: None,
                }),
            );
        }
        self.close_part(&id);
        self.finish(&id);
    }

    fn call(&mut self, name: &str, arguments: &Json) {
        let call_id = self.place.call_id.clone();
        let id = self.begin(UnifiedItemBody::ToolCall(ToolCallItem {
            call_id: call_id.clone(),
            name: name.to_owned(),
            tool_type: UnifiedToolType::Function,
            namespace: None,
            server_label: None,
            input: None,
            raw_arguments: String::new(),
            lifecycle: UnifiedToolLifecycle::ArgumentsStreaming,
            caller: None,
            execution: Execution::Client,
            provider_executed: false,
            private_linkage: None,
        }));
        let text = arguments.as_str().to_owned();
        for body in [
            EventBody::ToolArgumentsDelta(ArgumentsDelta { text: text.clone() }),
            EventBody::ToolArgumentsReady(ArgumentsReady {
                raw_arguments: text,
                input: Some(arguments.clone()),
            }),
        ] {
            self.out.drafts.push(EventDraft::of_call(id.clone(), call_id.clone(), body));
        }
        self.finish(&id);
    }

    fn usage(&mut self, reply: &Reply) {
        let tokens = |bytes: usize| UnifiedCounter::reported(bytes.div_ceil(4) as f64);
        let thinking = if self.place.thinks { reply.thinking.len() } else { 0 };
        let usage = UnifiedUsage {
            input_total: Some(tokens(self.place.input_bytes)),
            input_uncached: Some(tokens(self.place.input_bytes)),
            output_total: Some(tokens(reply.text.len() + thinking)),
            ..UnifiedUsage::default()
        };
        self.out.push(EventBody::UsageUpdate(UsageUpdate { usage }));
    }
}

/// A text in pieces of about two words, as models stream it.
fn pieces(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_inclusive(' ').collect();
    words.chunks(2).map(<[&str]>::concat).collect()
}

/// Payloads of the private state that demo answers refer to: opaque to everybody, as a provider's are.
#[derive(Default)]
pub(super) struct DemoPrivate(BTreeMap<UnifiedId, bytes::Bytes>);

impl DemoPrivate {
    /// A signature for everything that the events refer to.
    pub(super) fn of(events: &Decoded) -> Self {
        let mut payloads = BTreeMap::new();
        for draft in &events.drafts {
            if let EventBody::SignatureReady(ready) = &draft.body {
                let id = &ready.provider_data.resource_id;
                let text = data_encoding::BASE64.encode(throughline_format::Sha256::of(id.as_str().as_bytes()).as_bytes());
                payloads.insert(id.clone(), bytes::Bytes::from(text));
            }
        }
        Self(payloads)
    }
}

impl throughline_protocols::PrivateState for DemoPrivate {
    fn payload(&self, resource_id: &UnifiedId) -> Option<bytes::Bytes> {
        self.0.get(resource_id).cloned()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use throughline_format::{Fold, ProtocolFamily};

    #[test]
    fn every_script_folds() {
        let scripts = Scripts::load().unwrap();
        for (index, script) in scripts.conversations.iter().chain([&scripts.default]).enumerate() {
            let reply = Reply {
                thinking: script.thinking.clone(),
                text: script.answer.clone(),
                call: script
                    .call
                    .as_ref()
                    .map(|call| (call.tools.first().unwrap().clone(), call.arguments.clone())),
            };
            let place = Place {
                operation_id: UnifiedId::parse("op_1").unwrap(),
                profile: UnifiedProtocolProfile::of(ProtocolFamily::AnthropicMessages),
                model: "demo".to_owned(),
                call_id: "call_1".to_owned(),
                thinks: index % 2 == 0,
                now: Timestamp::EPOCH,
                input_bytes: 10,
            };
            let mut fold = Fold::new(place.operation_id.clone());
            for (sequence, draft) in (1..).zip(reply.events(&place).drafts) {
                fold.push(&draft.stamp(&place.operation_id, sequence, Timestamp::EPOCH)).unwrap();
            }
            assert!(fold.is_complete());
            let text: String = fold
                .items()
                .iter()
                .filter(|i| matches!(i.body, UnifiedItemBody::Message(_)))
                .flat_map(UnifiedItem::parts)
                .filter_map(UnifiedContentPart::as_text)
                .collect();
            assert_eq!(text, script.answer);
        }
        assert_eq!(scripts.choose("What is the Weather?").name, "weather");
        assert_eq!(scripts.choose("whether").name, "default");
    }

    #[test]
    fn the_city_is_the_one_of_the_question() {
        for (question, expected) in [
            ("How is the weather?", "Lisbon"),
            ("Rain in the morning?", "Lisbon"),
            ("What is the weather in Paris?", "Paris"),
            ("weather in New York, and in Rome", "New York"),
            ("Weather In Лиссабон today", "Лиссабон"),
            ("weather in Q\"x", "Q\"x"),
        ] {
            let arguments = with_city(&Json::from_text(r#"{"city":"{city}"}"#.to_owned()).unwrap(), question);
            assert_eq!(arguments.parse(), serde_json::json!({"city": expected}), "{question}");
        }
    }
}
