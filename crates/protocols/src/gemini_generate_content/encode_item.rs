//! Items of the record as parts of the wire; requests and responses share it.

use super::encode_part::{PartEncoder, Place, part_of, text};
use super::kept::{is_made, signature_of_item};
use super::models::Generation;
use super::tool_names::{MAX_NAME, wire_name};
use super::versions;
use crate::call_arguments;
use crate::feature::Feature;
use crate::raw::{self, json, object, put};
use crate::told;
use crate::visible_text::visible_text;
use throughline_format::item::{
    CodeExecutionItem, CodeExecutionResultItem, ExecutionOutcome, Role, ServerToolResultItem, ToolCallItem, ToolResultItem,
};
use throughline_format::loss::LossSeverity::{Info, Warning};
use throughline_format::{Json, PartBody, UnifiedContentPart, UnifiedItem, UnifiedItemBody};

/// What an item became.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// A part of the wire that is neither call nor result.
    Part(Json),
    /// A call of a client tool.
    Call(Json),
    /// A result of one, with media that could not stand in it.
    Result(Json, Vec<Json>),
    /// A turn without parts.
    Nothing,
}

impl PartEncoder<'_> {
    /// An item as parts of the wire; what has no form is reported.
    pub(super) fn item(&mut self, item: &UnifiedItem, path: &str, answer: bool) -> Vec<(Piece, String)> {
        if !answer && self.loss.hides(item, path) {
            return Vec::new();
        }
        let native = self.is_own(item);
        let place = Place { path, item: &item.id };
        let at = |piece: Piece| vec![(piece, path.to_owned())];
        match &item.body {
            UnifiedItemBody::Message(message) => {
                let model = matches!(item.role, Some(Role::Assistant));
                if message.parts.is_empty() && native && !answer {
                    return at(Piece::Nothing);
                }
                let mut made = Vec::new();
                for (n, part) in message.parts.iter().enumerate() {
                    let path = format!("{path}/parts/{n}");
                    let place = Place {
                        path: &path,
                        item: &item.id,
                    };
                    let blank = part.as_text().is_some_and(str::is_empty) && !(native && is_kept_whole(part));
                    if blank && !(native && model) {
                        self.lost(Info, Feature::ConversationMessageEmpty, place, "an empty text is left out");
                        continue;
                    }
                    let parts = self.part(part, native, place);
                    made.extend(parts.into_iter().map(|json| (Piece::Part(json), path.clone())));
                }
                made
            }
            UnifiedItemBody::Reasoning(_) if self.reduced => {
                self.lost(Warning, Feature::ReasoningText, place, versions::NO_MEMBER);
                Vec::new()
            }
            UnifiedItemBody::ToolCall(_) if self.reduced => self.told(item, place),
            UnifiedItemBody::ToolResult(result) if self.reduced => {
                let unsaid = |part: &&UnifiedContentPart| visible_text(std::slice::from_ref(part)).is_empty() && part.as_text().is_none();
                if result.output.iter().any(|part| unsaid(&part)) {
                    self.lost(
                        Warning,
                        Feature::ToolResultMedia,
                        place,
                        "only the words of a result are told as text",
                    );
                }
                self.told(item, place)
            }
            UnifiedItemBody::Reasoning(reasoning) => {
                let mut made = Vec::new();
                for (n, part) in reasoning.parts.iter().enumerate() {
                    let PartBody::Reasoning(inner) = &part.body else { continue };
                    let path = format!("{path}/parts/{n}");
                    let place = Place {
                        path: &path,
                        item: &item.id,
                    };
                    made.extend(
                        self.reasoning(part, inner, native, place)
                            .map(|json| (Piece::Part(json), path.clone())),
                    );
                }
                made
            }
            UnifiedItemBody::ToolCall(call) => {
                let made = self.call(item, call, place);
                at(Piece::Call(made))
            }
            UnifiedItemBody::ToolResult(result) => {
                let (made, media) = self.result(item, result, native, path);
                if native && item.role == Some(Role::Assistant) {
                    return at(Piece::Part(made));
                }
                at(Piece::Result(made, media))
            }
            UnifiedItemBody::ServerToolCall(call) if native && is_word(&call.name) => {
                let made = self.hosted_call(item, call, place);
                at(Piece::Part(made))
            }
            UnifiedItemBody::ServerToolResult(result) if native && result.name.as_deref().is_some_and(is_word) => {
                let made = self.hosted_result(item, result, place);
                at(Piece::Part(made))
            }
            UnifiedItemBody::CodeExecution(code) if native => {
                let made = self.code(item, code, place);
                at(Piece::Part(made))
            }
            UnifiedItemBody::CodeExecutionResult(result) if native => {
                let made = self.code_result(item, result, place);
                at(Piece::Part(made))
            }
            UnifiedItemBody::SearchResult(_) | UnifiedItemBody::RetrievalResult(_) | UnifiedItemBody::ServerToolResult(_) if native => {
                self.lost(
                    Info,
                    Feature::GroundingSource,
                    place,
                    "what an answer rested on is told beside it, not in it",
                );
                Vec::new()
            }
            UnifiedItemBody::ServerToolCall(_)
            | UnifiedItemBody::ServerToolResult(_)
            | UnifiedItemBody::CodeExecution(_)
            | UnifiedItemBody::CodeExecutionResult(_)
            | UnifiedItemBody::SearchResult(_)
            | UnifiedItemBody::RetrievalResult(_)
            | UnifiedItemBody::ComputerAction(_)
            | UnifiedItemBody::ComputerActionResult(_)
            | UnifiedItemBody::ApprovalRequest(_)
            | UnifiedItemBody::ApprovalResponse(_) => self.told(item, place),
            UnifiedItemBody::CompactionSummary(summary) if !summary.replaces => {
                self.lost(Info, Feature::ConversationItem, place, crate::compacted::ALL_IS_SENT);
                Vec::new()
            }
            UnifiedItemBody::CompactionSummary(summary) => {
                let said = visible_text(&summary.parts);
                if said.trim().is_empty() {
                    self.lost(Info, Feature::ConversationMessageEmpty, place, "an empty summary is left out");
                    return Vec::new();
                }
                at(Piece::Part(text(&said)))
            }
            UnifiedItemBody::Artifact(_) | UnifiedItemBody::Reference(_) => {
                self.lost(Info, Feature::ConversationItem, place, "the target has no form for this item");
                Vec::new()
            }
            UnifiedItemBody::ProviderSwitch(_) | UnifiedItemBody::Interruption(_) | UnifiedItemBody::Error(_) => {
                self.loss.marker(path, &item.id);
                Vec::new()
            }
        }
    }

    /// What has no form here, told as text.
    fn told(&mut self, item: &UnifiedItem, place: Place<'_>) -> Vec<(Piece, String)> {
        let (feature, reason) = told::reported(item);
        self.lost(Warning, feature, place, reason);
        let said = told::told(item).map(|said| (Piece::Part(text(&said)), place.path.to_owned()));
        said.into_iter().collect()
    }

    fn call(&mut self, item: &UnifiedItem, call: &ToolCallItem, place: Place<'_>) -> Json {
        let name = if self.answering {
            crate::tool_name::answered(call.namespace.as_deref(), &call.name, MAX_NAME)
        } else {
            wire_name(call.namespace.as_deref(), &call.name)
        };
        if name != call.name {
            self.lost(Warning, Feature::ToolName, place, "the target's alphabet for tool names is smaller");
        }
        let mut members = Vec::new();
        if !is_made(&call.call_id) {
            members.push(("id".to_owned(), json(&call.call_id)));
        }
        members.push(("name".into(), json(&*name)));
        members.push(("args".into(), self.arguments(call, place)));
        let signature = signature_of_item(item, self.context);
        if signature.is_none() && call.private_linkage.is_some() {
            self.lost(
                Info,
                Feature::ReasoningSignature,
                place,
                "private reasoning state never leaves its owner",
            );
        }
        let made = part_of("functionCall", object(members));
        self.finish(made, item.base.provider_data.as_ref(), signature, place)
    }

    /// Arguments as the object that the wire demands.
    fn arguments(&mut self, call: &ToolCallItem, place: Place<'_>) -> Json {
        let (arguments, wrapped) = call_arguments::object_of(call);
        if let Some((feature, reason)) = wrapped {
            self.lost(Warning, feature, place, reason);
        }
        arguments
    }

    /// A result, and its media where the model takes them beside it only.
    fn result(&mut self, item: &UnifiedItem, result: &ToolResultItem, native: bool, path: &str) -> (Json, Vec<Json>) {
        let place = Place { path, item: &item.id };
        let failed = result.is_error == Some(true) || result.error.is_some();
        if result.is_error.is_some() {
            let at = format!("{path}/isError");
            self.loss.remark(Feature::ToolResultError, at, "said by the key of the result");
        }
        if result.error.is_some() {
            self.lost(Info, Feature::ToolResultError, place, "of an error only its words are sent");
        }
        let (mut texts, mut whole, mut media) = (Vec::new(), None, Vec::new());
        for (n, part) in result.output.iter().enumerate() {
            let path = format!("{path}/output/{n}");
            let place = Place {
                path: &path,
                item: &item.id,
            };
            match &part.body {
                PartBody::Json(inner) if inner.schema_name.is_some() => {
                    self.lost(Info, Feature::PartJson, place, "sent as the JSON text");
                    texts.push(inner.value.as_str().to_owned());
                }
                PartBody::Json(inner) if inner.value.is_object() && whole.is_none() && texts.is_empty() && !failed => {
                    whole = Some(inner.value.clone());
                }
                PartBody::Json(inner) => texts.push(inner.value.as_str().to_owned()),
                PartBody::Text(inner) => {
                    if inner.annotations.as_ref().is_some_and(|a| !a.is_empty()) {
                        self.lost(Warning, Feature::Citation, place, "the model does not see citations again");
                    }
                    texts.push(inner.text.clone());
                }
                PartBody::Refusal(inner) => {
                    self.lost(Info, Feature::PartRefusal, place, "sent as text");
                    texts.push(inner.text.clone());
                }
                _ => media.extend(self.part(part, native, place)),
            }
        }
        if let Some(error) = result.error.as_ref().filter(|_| texts.is_empty()) {
            texts.push(error.message.clone());
        }
        // What can be told as text only stands among the texts.
        media.retain(|part| match raw::get(part, "text").and_then(|t| t.decode::<String>().ok()) {
            Some(said) => {
                texts.push(said);
                false
            }
            None => true,
        });
        let said = texts.join("\n");
        let response = match whole {
            Some(object) if texts.is_empty() => object,
            Some(first) => object(vec![("output".into(), json(&format!("{}\n{said}", first.as_str())))]),
            None => object(vec![((if failed { "error" } else { "output" }).into(), json(&said))]),
        };
        let mut members = Vec::new();
        if !is_made(&result.call_id) {
            members.push(("id".to_owned(), json(&result.call_id)));
        }
        let name = wire_name(None, result.name.as_deref().unwrap_or_default());
        members.push(("name".into(), json(&*name)));
        members.push(("response".into(), response));
        let beside = !native && self.generation() == Generation::Second && !media.is_empty();
        if beside {
            self.lost(
                Warning,
                Feature::ToolResultMedia,
                place,
                "media stand behind the results, not in them",
            );
        } else if !media.is_empty() {
            members.push(("parts".into(), json(&media)));
            media = Vec::new();
        }
        let made = part_of("functionResponse", object(members));
        // A result carries no signature.
        let made = self.finish(made, item.base.provider_data.as_ref(), None, place);
        (made, media)
    }

    fn hosted_call(&mut self, item: &UnifiedItem, call: &ToolCallItem, place: Place<'_>) -> Json {
        let mut members = id_member(&call.call_id);
        members.push(("toolType".to_owned(), json(&call.name)));
        members.push(("args".into(), self.arguments(call, place)));
        let signature = signature_of_item(item, self.context);
        self.finish(
            part_of("toolCall", object(members)),
            item.base.provider_data.as_ref(),
            signature,
            place,
        )
    }

    fn hosted_result(&mut self, item: &UnifiedItem, result: &ServerToolResultItem, place: Place<'_>) -> Json {
        let mut members = id_member(&result.call_id);
        members.extend(result.name.as_ref().map(|name| ("toolType".to_owned(), json(name))));
        let value = result.output.iter().find_map(json_value);
        members.extend(value.map(|value| ("response".to_owned(), value)));
        let signature = signature_of_item(item, self.context);
        let made = part_of("toolResponse", object(members));
        self.finish(made, item.base.provider_data.as_ref(), signature, place)
    }

    fn code(&mut self, item: &UnifiedItem, code: &CodeExecutionItem, place: Place<'_>) -> Json {
        let mut members = id_member(&code.call_id);
        let language = code.language.as_deref().unwrap_or("python").to_ascii_uppercase();
        members.push(("language".to_owned(), json(&language)));
        members.extend(code.code.as_ref().map(|c| ("code".to_owned(), json(c))));
        let signature = signature_of_item(item, self.context);
        let made = part_of("executableCode", object(members));
        self.finish(made, item.base.provider_data.as_ref(), signature, place)
    }

    fn code_result(&mut self, item: &UnifiedItem, result: &CodeExecutionResultItem, place: Place<'_>) -> Json {
        let mut members = id_member(&result.call_id);
        let at = format!("{}/outcome", place.path);
        self.loss.remark(Feature::WireSpelling, at, "said by the wire's own word");
        let outcome = match &result.outcome {
            ExecutionOutcome::Ok => "OUTCOME_OK",
            ExecutionOutcome::Timeout => "OUTCOME_DEADLINE_EXCEEDED",
            ExecutionOutcome::Failed | ExecutionOutcome::Other(_) => "OUTCOME_FAILED",
        };
        members.push(("outcome".to_owned(), json(outcome)));
        let said = result.stdout.as_ref().or(result.stderr.as_ref());
        members.extend(said.map(|said| ("output".to_owned(), json(said))));
        let signature = signature_of_item(item, self.context);
        let made = part_of("codeExecutionResult", object(members));
        self.finish(made, item.base.provider_data.as_ref(), signature, place)
    }
}

fn id_member(call_id: &str) -> Vec<(String, Json)> {
    if is_made(call_id) {
        Vec::new()
    } else {
        vec![("id".to_owned(), json(call_id))]
    }
}

fn json_value(part: &UnifiedContentPart) -> Option<Json> {
    match &part.body {
        PartBody::Json(inner) => Some(inner.value.clone()),
        _ => None,
    }
}

/// Whether a text stands for a part that is kept whole.
fn is_kept_whole(part: &UnifiedContentPart) -> bool {
    part.base.provider_data.as_ref().is_some_and(|d| !d.is_empty())
}

/// Whether a name is a word of `toolType`, and no function's name.
fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_' || b.is_ascii_digit())
}

/// The part with another call ID, or without one.
pub(super) fn with_id(part: &Json, member: &str, id: Option<&str>) -> Json {
    let value = id.map_or_else(Json::null, json);
    let inner = raw::get(part, member).unwrap_or_else(|| object(Vec::new()));
    // The ID stands first, as the service writes it.
    let mut members: Vec<_> = raw::members(&inner).into_iter().filter(|(key, _)| key != "id").collect();
    if id.is_some() {
        members.insert(0, ("id".to_owned(), value));
    }
    put(part, &format!("/{member}"), &object(members))
}
