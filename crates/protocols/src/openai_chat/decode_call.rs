//! The calls of a choice.

use super::decode_choice::ChoiceState;
use super::decode_stream::AnswerDecoder;
use super::private::{Form, THOUGHT_SIGNATURE, own_call_id};
use super::{profile, wire};
use crate::feature::Feature;
use crate::side::SideResource;
use throughline_format::event::{ArgumentsDelta, ArgumentsReady, EventBody, SignatureReady};
use throughline_format::item::ToolCallItem;
use throughline_format::resource::Issuer;
use throughline_format::tool::{Execution, UnifiedToolType};
use throughline_format::{Count, EventDraft, Json, UnifiedId, UnifiedItemBody, UnifiedProviderDataRef, UnifiedToolLifecycle};

/// A call.
pub(super) struct Call {
    pub index: Option<Count>,
    pub wire_id: String,
    pub item: UnifiedId,
    pub id: String,
    pub name: String,
    pub is_custom: bool,
    pub is_started: bool,
    pub is_done: bool,
    pub arguments: String,
    pub legacy: bool,
    /// Its private content, which has one resource: the first one counts.
    pub private: Option<Json>,
}

impl ChoiceState {
    pub(super) fn call(&mut self, answer: &mut AnswerDecoder, call: wire::Call, position: usize, base: &str, legacy: bool) {
        if answer.whole {
            let pointer = format!("{base}/tool_calls/{position}");
            if let Some(index) = call.index.filter(|_| !legacy) {
                answer.keep(format!("{pointer}/index"), Json::from_value(&index.into()));
            }
            if call.kind.is_none() && !legacy {
                answer.form.absent.push(format!("{pointer}/type"));
            }
            if let Some(custom) = call.custom.as_ref().filter(|_| call.function.is_some()) {
                answer.keep(
                    format!("{pointer}/custom"),
                    Json::from_serialize(custom).unwrap_or_else(|_| Json::null()),
                );
            }
        }
        let extra = call.extra.0;
        let wire_id = call.id.unwrap_or_default();
        let is_custom = call.kind.as_deref() == Some("custom") || call.custom.is_some() && call.function.is_none();
        let (name, text, inner, inner_extra) = match (call.function, call.custom) {
            (Some(function), _) if !is_custom => {
                let text = super::arguments_text(function.arguments.as_ref());
                (function.name, text, "function", function.extra)
            }
            (_, Some(custom)) => (custom.name, custom.input.unwrap_or_default(), "custom", custom.extra),
            _ => (None, String::new(), "function", crate::wire::Extra::default()),
        };
        let found = match call.index {
            Some(index) => self.calls.iter().rposition(|c| c.index == Some(index)),
            None => self.calls.len().checked_sub(1),
        };
        // One that repeats even the ID tells itself by another name, once the arguments before it are whole.
        let is_next = |known: &Call| {
            let name = name.as_deref().unwrap_or_default();
            !name.is_empty() && !known.name.is_empty() && known.name != name && known.is_whole()
        };
        let is_new = |known: &Call| !wire_id.is_empty() && !known.wire_id.is_empty() && known.wire_id != wire_id || is_next(known);
        let is_whole_next = answer.whole && !legacy;
        #[allow(clippy::single_match_else)] // the other way round is harder to read
        let at = match found.filter(|at| !is_whole_next && self.calls.get(*at).is_some_and(|known| !is_new(known))) {
            Some(at) => at,
            None => {
                self.close_reasoning(answer);
                self.close_message(answer);
                self.close_calls(answer, false);
                self.calls.push(Call {
                    index: call.index,
                    wire_id: wire_id.clone(),
                    is_custom,
                    legacy,
                    ..Call::default()
                });
                self.calls.len() - 1
            }
        };
        for (key, value) in extra {
            let key = throughline_format::json::escape_pointer_token(&key);
            answer.keep(format!("{base}/tool_calls/{at}/{key}"), value);
        }
        for (key, value) in inner_extra.0 {
            let key = throughline_format::json::escape_pointer_token(&key);
            let pointer = if legacy {
                format!("{base}/function_call/{key}")
            } else {
                format!("{base}/tool_calls/{at}/{inner}/{key}")
            };
            answer.keep(pointer, value);
        }
        let Some(mut state) = self.calls.get_mut(at).map(std::mem::take) else {
            return;
        };
        if state.wire_id.is_empty() {
            state.wire_id = wire_id;
        }
        let mut news = None;
        match (call.extra_content, &state.private) {
            (Some(content), None) => {
                state.private = Some(content.clone());
                news = Some(content);
            }
            (Some(content), Some(known)) if content != *known => {
                answer.warn(
                    "response.repeated-signature",
                    Feature::ReasoningSignature,
                    &format!("{base}/tool_calls/{at}/extra_content"),
                    "private content of a call came again and was left out",
                );
            }
            _ => {}
        }
        if !state.is_started && name.as_deref().is_some_and(|n| !n.is_empty()) {
            self.start_call(answer, &mut state, name.unwrap_or_default(), base, at);
        } else if let Some(content) = news.filter(|_| state.is_started) {
            let (provider_data, issuer) = linkage(answer, &state.item, &content, base, at);
            let ready = SignatureReady { provider_data, issuer };
            self.emit(
                answer,
                EventDraft::of_call(state.item.clone(), state.id.clone(), EventBody::SignatureReady(ready)),
            );
        }
        if state.is_done && !text.is_empty() {
            answer.warn(
                "response.late-arguments",
                Feature::ToolCallArguments,
                &format!("{base}/tool_calls/{at}/function/arguments"),
                "arguments came when their call had ended, and were left out",
            );
        } else if !text.is_empty() {
            state.arguments.push_str(&text);
            if state.is_started {
                let event = EventBody::ToolArgumentsDelta(ArgumentsDelta { text });
                self.emit(answer, EventDraft::of_call(state.item.clone(), state.id.clone(), event));
            }
        }
        if let Some(place) = self.calls.get_mut(at) {
            *place = state;
        }
    }

    pub(super) fn start_call(&mut self, answer: &mut AnswerDecoder, state: &mut Call, name: String, base: &str, at: usize) {
        let id = self.next_id(answer);
        let spell = |id: &str| crate::call_id::wire(id, super::CALL_ID_LENGTH).into_owned();
        let given = if state.wire_id.is_empty() {
            spell(&format!("{id}/call"))
        } else {
            state.wire_id.clone()
        };
        // An ID that an earlier call of the answer has makes results ambiguous for every client.
        state.id = self.call_ids.take(&given, given.clone(), spell);
        state.name.clone_from(&name);
        let private_linkage = state.private.as_ref().map(|content| linkage(answer, &id, content, base, at).0);
        let mut references = if state.legacy {
            self.form(
                answer,
                &Form {
                    legacy: true,
                    ..Form::default()
                },
            )
        } else {
            None
        };
        if state.id != given {
            answer.warn(
                "response.repeated-call-id",
                Feature::ToolCallId,
                &format!("{base}/tool_calls/{at}/id"),
                "an earlier call of the answer has this ID; the call gets one derived from it",
            );
        }
        if let Some(resource) = own_call_id(&id, &given, state.id != given) {
            references.get_or_insert_default().push(resource.reference());
            answer.out.resources.push(resource);
        }
        let body = UnifiedItemBody::ToolCall(ToolCallItem {
            call_id: state.id.clone(),
            name,
            tool_type: if state.is_custom {
                UnifiedToolType::Custom
            } else {
                UnifiedToolType::Function
            },
            namespace: None,
            server_label: None,
            input: None,
            raw_arguments: String::new(),
            lifecycle: UnifiedToolLifecycle::ArgumentsStreaming,
            caller: None,
            execution: Execution::Client,
            provider_executed: false,
            private_linkage,
        });
        state.item = self.start(answer, body, references);
        state.is_started = true;
        if !state.arguments.is_empty() {
            let event = EventBody::ToolArgumentsDelta(ArgumentsDelta {
                text: state.arguments.clone(),
            });
            self.emit(answer, EventDraft::of_call(state.item.clone(), state.id.clone(), event));
        }
    }

    /// Ends calls; while others may follow, only those whose arguments are whole.
    pub(super) fn close_calls(&mut self, answer: &mut AnswerDecoder, all: bool) {
        let mut calls = std::mem::take(&mut self.calls);
        for (at, call) in calls.iter_mut().enumerate().filter(|(_, c)| !c.is_done) {
            if !all && !call.is_whole() {
                continue;
            }
            if !call.is_started {
                self.start_call(answer, call, String::new(), "", at);
            }
            let input = if call.is_custom {
                None
            } else {
                super::parse_arguments(&call.arguments)
            };
            let ready = EventBody::ToolArgumentsReady(ArgumentsReady {
                raw_arguments: call.arguments.clone(),
                input,
            });
            self.emit(answer, EventDraft::of_call(call.item.clone(), call.id.clone(), ready));
            self.complete(answer, &call.item);
            call.is_done = true;
        }
        self.calls = calls;
    }
}

impl Call {
    /// Whether its arguments so far are all that there can be.
    fn is_whole(&self) -> bool {
        self.is_custom || serde_json::from_str::<serde::de::IgnoredAny>(&self.arguments).is_ok()
    }
}

impl Default for Call {
    fn default() -> Self {
        Self {
            index: None,
            wire_id: String::new(),
            item: UnifiedId::pending(),
            id: String::new(),
            name: String::new(),
            is_custom: false,
            is_started: false,
            is_done: false,
            arguments: String::new(),
            legacy: false,
            private: None,
        }
    }
}

/// Seals the private content of a call; tells who made it.
fn linkage(answer: &mut AnswerDecoder, item: &UnifiedId, content: &Json, base: &str, at: usize) -> (UnifiedProviderDataRef, Issuer) {
    let path = format!("{base}/tool_calls/{at}/extra_content");
    let resource = SideResource::reasoning(
        profile(),
        THOUGHT_SIGNATURE,
        item,
        content.as_str().as_bytes().to_vec(),
        Issuer::Provider,
        path,
    );
    let made = (resource.reference(), resource.issuer);
    answer.out.resources.push(resource);
    made
}
