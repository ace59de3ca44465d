//! Parts of the wire as parts and items of the record; requests, responses and streams share it.

use super::kept::{self, form, made_call_id, signature};
use super::wire::{Blob, FileData, Part};
use crate::feature::Feature;
use crate::google::media;
use crate::keeper::{Keep, Keeper, references};
use crate::raw::{self, below, json, object};
use throughline_format::item::{
    CodeExecutionItem, CodeExecutionResultItem, ExecutionOutcome, Role, ServerToolResultItem, ToolCallItem, ToolResultItem,
};
use throughline_format::media::{
    InlineEncoding, InlineSource, MediaResolution, ResourceSource, TimeRange, TokenResolution, UnifiedDataSource, UnifiedMediaMetadata,
    UrlSource,
};
use throughline_format::part::{JsonPart, MediaPart, ReasoningForm, ReasoningPart, ReasoningState, TextPart};
use throughline_format::resource::ResourceType;
use throughline_format::tool::Execution;
use throughline_format::{
    Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItemBody, UnifiedProviderDataRef, UnifiedToolLifecycle, UnifiedToolType,
};

/// What a part of the wire is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Visible text.
    Text,
    /// A medium.
    Media,
    /// Text of the thinking.
    Thought,
    /// Nothing but a signature.
    Carrier,
    /// `functionCall`
    Call,
    /// `functionResponse`
    Response,
    /// `executableCode`
    Code,
    /// `codeExecutionResult`
    CodeResult,
    /// `toolCall`
    HostedCall,
    /// `toolResponse`
    HostedResult,
    /// Something that this version does not know.
    Unknown,
}

/// What a part of the wire is.
pub(super) fn kind(part: &Part) -> Kind {
    let is_blank = part.text.as_deref().is_none_or(str::is_empty);
    if part.function_call.is_some() {
        Kind::Call
    } else if part.function_response.is_some() {
        Kind::Response
    } else if part.executable_code.is_some() {
        Kind::Code
    } else if part.code_execution_result.is_some() {
        Kind::CodeResult
    } else if part.tool_call.is_some() {
        Kind::HostedCall
    } else if part.tool_response.is_some() {
        Kind::HostedResult
    } else if part.inline_data.is_some() || part.file_data.is_some() {
        Kind::Media
    } else if is_blank && part.thought_signature.is_some() && part.extra.is_empty() {
        Kind::Carrier
    } else if part.text.is_some() && part.thought == Some(true) {
        Kind::Thought
    } else if part.text.is_some() {
        Kind::Text
    } else {
        Kind::Unknown
    }
}

/// A part that is an item of its own.
pub(super) struct Whole {
    /// Kind and content.
    pub(super) body: UnifiedItemBody,
    /// References of the item.
    pub(super) provider_data: Option<Vec<UnifiedProviderDataRef>>,
    /// Role of the item.
    pub(super) role: Role,
}

/// A value that skips validation is no private state: its spelling belongs to the form.
fn skipped(signature: Option<&String>) -> Vec<(String, Json)> {
    let known = signature.filter(|s| kept::is_sentinel(s));
    known.map(|s| ("/thoughtSignature".to_owned(), json(s))).into_iter().collect()
}

/// A visible text or medium as a part of a message, its text left to the caller when `empty`.
pub(super) fn message_part(keeper: &mut Keeper, part_id: &UnifiedId, mut part: Part, path: &str, empty: bool) -> UnifiedContentPart {
    let mut spelled = skipped(part.thought_signature.as_ref());
    let sig = part.thought_signature.take().map(|s| signature(keeper, part_id, s, path).r#ref);
    if kind(&part) == Kind::Unknown {
        // The whole part is kept: it may hold anything.
        let unknown = keeper.unmapped(part_id, path, [(String::new(), json(&part))]);
        let mut made = UnifiedContentPart::new(part_id.clone(), PartBody::Text(TextPart::default()));
        made.base.provider_data = references([sig, unknown]);
        return made;
    }
    let mut fields: Vec<_> = part.extra.into_unmapped().collect();
    if let Some(thought) = part.thought {
        spelled.push(("/thought".to_owned(), json(&thought)));
    }
    let mut about = UnifiedMediaMetadata::default();
    if let Some(mut video) = part.video_metadata {
        let mut offset = |text: Option<String>, name: &str| {
            let text = text?;
            let seconds = media::seconds(&text);
            if seconds.map(media::duration).as_deref() != Some(&text) {
                spelled.push((format!("/videoMetadata/{name}"), json(&text)));
            }
            seconds
        };
        let range = TimeRange {
            start_seconds: offset(video.start_offset.take(), "startOffset"),
            end_seconds: offset(video.end_offset.take(), "endOffset"),
        };
        about.time = (range != TimeRange::default()).then_some(range);
        about.fps = video.fps;
        fields.extend(below("/videoMetadata", video.extra.0));
    }
    if let Some(resolution) = part.media_resolution {
        match (resolution.level, resolution.num_tokens) {
            (Some(level), None) if media::resolution(&level).is_some() => {
                about.resolution = media::resolution(&level).map(MediaResolution::Word);
                if !level.starts_with("MEDIA_RESOLUTION_") {
                    spelled.push(("/mediaResolution/level".into(), json(&level)));
                }
            }
            (None, Some(tokens)) => about.resolution = Some(MediaResolution::Tokens(TokenResolution { tokens })),
            (level, tokens) => {
                fields.extend(level.map(|l| ("/mediaResolution/level".to_owned(), json(&l))));
                fields.extend(tokens.map(|t| ("/mediaResolution/numTokens".to_owned(), json(&t))));
            }
        }
        fields.extend(below("/mediaResolution", resolution.extra.0));
    }
    let body = if let Some(blob) = part.inline_data {
        inline(blob, about, &mut fields)
    } else if let Some(file) = part.file_data {
        file_data(keeper, part_id, file, about, &mut fields, path)
    } else {
        if about != UnifiedMediaMetadata::default() {
            // Seen with a text beside it; nothing that a text can have.
            let time = about.time.unwrap_or_default();
            let seconds = |s: Option<f64>| s.map(|s| json(&media::duration(s)));
            fields.extend(seconds(time.start_seconds).map(|v| ("/videoMetadata/startOffset".to_owned(), v)));
            fields.extend(seconds(time.end_seconds).map(|v| ("/videoMetadata/endOffset".to_owned(), v)));
            fields.extend(about.fps.map(|f| ("/videoMetadata/fps".to_owned(), raw::number(f))));
        }
        PartBody::Text(TextPart {
            text: if empty { String::new() } else { part.text.unwrap_or_default() },
            ..TextPart::default()
        })
    };
    let unmapped = keeper.unmapped(part_id, path, fields);
    let spelled = form(keeper, part_id, path, spelled);
    let mut made = UnifiedContentPart::new(part_id.clone(), body);
    made.base.provider_data = references([sig, unmapped, spelled]);
    made
}

fn meta(about: UnifiedMediaMetadata) -> Option<UnifiedMediaMetadata> {
    (about != UnifiedMediaMetadata::default()).then_some(about)
}

fn inline(blob: Blob, mut about: UnifiedMediaMetadata, fields: &mut Vec<(String, Json)>) -> PartBody {
    fields.extend(below("/inlineData", blob.extra.0));
    about.name = blob.display_name;
    let media_type = blob.mime_type.unwrap_or_default();
    let source = UnifiedDataSource::Inline(InlineSource {
        media_type: media_type.clone(),
        data: blob.data.unwrap_or_default(),
        encoding: InlineEncoding::Base64,
    });
    let part = MediaPart {
        source,
        media: meta(about),
    };
    media::part(Some(&media_type), None, part)
}

fn file_data(
    keeper: &mut Keeper,
    part_id: &UnifiedId,
    file: FileData,
    mut about: UnifiedMediaMetadata,
    fields: &mut Vec<(String, Json)>,
    path: &str,
) -> PartBody {
    fields.extend(below("/fileData", file.extra.0));
    about.name = file.display_name;
    about.media_type.clone_from(&file.mime_type);
    let uri = file.file_uri.unwrap_or_default();
    let source = if is_provider_file(&uri) {
        let kept = Keep {
            schema: kept::FILE,
            resource_type: ResourceType::File,
            subject: Some(part_id),
            resource_id: part_id.resource(4),
            paths: vec![format!("{path}/fileData/fileUri")],
        };
        UnifiedDataSource::ProviderResource(ResourceSource {
            resource: keeper.handle(kept, uri.clone()),
        })
    } else {
        UnifiedDataSource::Url(UrlSource {
            url: uri.clone(),
            headers_ref: None,
        })
    };
    let part = MediaPart {
        source,
        media: meta(about),
    };
    media::part(file.mime_type.as_deref(), Some(&uri), part)
}

/// Whether an address names a file that the provider holds for one project.
fn is_provider_file(uri: &str) -> bool {
    let at = uri.split_once("generativelanguage.googleapis.com/").map(|(_, path)| path);
    uri.starts_with("files/") || at.is_some_and(|path| path.split('/').any(|segment| segment == "files"))
}

/// Text of the thinking, or a part that carries a signature only, as a reasoning part.
pub(super) fn reasoning_part(keeper: &mut Keeper, part_id: &UnifiedId, part: Part, path: &str, empty: bool) -> UnifiedContentPart {
    let carrier = kind(&part) == Kind::Carrier;
    let mut spelled = skipped(part.thought_signature.as_ref());
    if carrier {
        if part.text.is_none() {
            spelled.push(("/text".to_owned(), Json::null()));
        }
        spelled.extend(part.thought.map(|thought| ("/thought".to_owned(), json(&thought))));
    }
    let private_state = part.thought_signature.map(|s| signature(keeper, part_id, s, path));
    let unmapped = keeper.unmapped(part_id, path, part.extra.into_unmapped());
    let spelled = form(keeper, part_id, path, spelled);
    let mut made = UnifiedContentPart::new(
        part_id.clone(),
        PartBody::Reasoning(ReasoningPart {
            text: if empty { String::new() } else { part.text.unwrap_or_default() },
            // What the provider shows is its own summary of the thinking.
            form: ReasoningForm::Summary,
            state: if carrier {
                ReasoningState::Omitted
            } else {
                ReasoningState::Disclosed
            },
            private_state,
        }),
    );
    made.base.provider_data = references([unmapped, spelled]);
    made
}

/// Calls that wait for a result, as far as this payload shows them.
#[derive(Debug, Default)]
pub(super) struct NamedCalls {
    /// Call ID and name, in order.
    calls: Vec<(String, String)>,
    /// The newest code that ran.
    code: Option<String>,
    /// The newest call of a hosted tool.
    hosted: Option<String>,
}

impl NamedCalls {
    /// The call that a result answers: by ID, else by name, in order.
    fn answer(&mut self, id: Option<&str>, name: &str) -> Option<String> {
        if name.is_empty() && id.is_none() && !self.calls.is_empty() {
            return Some(self.calls.remove(0).0);
        }
        let at = self.calls.iter().position(|(call, _)| Some(call.as_str()) == id).or_else(|| {
            self.calls
                .iter()
                .position(|(call, known)| known == name && (id.is_none() || kept::is_made(call)))
        })?;
        Some(self.calls.remove(at).0)
    }

    /// Whether a call of the client waits.
    pub(super) fn is_waiting(&self) -> bool {
        !self.calls.is_empty()
    }
}

/// A part that is an item of its own: calls, results, code.
pub(super) fn whole(keeper: &mut Keeper, item_id: &UnifiedId, mut part: Part, path: &str, model: bool, open: &mut NamedCalls) -> Whole {
    let mut spelled = skipped(part.thought_signature.as_ref());
    let sig = part.thought_signature.take().map(|s| signature(keeper, item_id, s, path).r#ref);
    let mut fields: Vec<_> = part.extra.into_unmapped().collect();
    fields.extend(part.thought.map(|thought| ("/thought".to_owned(), json(&thought))));
    fields.extend(part.text.map(|text| ("/text".to_owned(), json(&text))));
    let mut call = ToolCallItem {
        call_id: String::new(),
        name: String::new(),
        tool_type: UnifiedToolType::Function,
        namespace: None,
        server_label: None,
        input: None,
        raw_arguments: "{}".to_owned(),
        lifecycle: UnifiedToolLifecycle::ArgumentsReady,
        caller: None,
        execution: Execution::Client,
        provider_executed: false,
        private_linkage: sig.clone(),
    };
    let arguments = |call: &mut ToolCallItem, args: Option<Json>, pointer: &str, spelled: &mut Vec<(String, Json)>| {
        if args.is_none() {
            spelled.push((pointer.to_owned(), Json::null()));
        }
        let args = args.unwrap_or_else(|| object(Vec::new()));
        args.as_str().clone_into(&mut call.raw_arguments);
        call.input = Some(args);
    };
    let (body, role, sig) = if let Some(wire) = part.function_call {
        fields.extend(below("/functionCall", wire.extra.0));
        fields.extend(wire.partial_args.map(|p| ("/functionCall/partialArgs".to_owned(), json(&p))));
        fields.extend(wire.will_continue.map(|w| ("/functionCall/willContinue".to_owned(), json(&w))));
        call.call_id = wire.id.filter(|id| !id.is_empty()).unwrap_or_else(|| made_call_id(item_id));
        call.name = wire.name.unwrap_or_default();
        arguments(&mut call, wire.args, "/functionCall/args", &mut spelled);
        open.calls.push((call.call_id.clone(), call.name.clone()));
        (UnifiedItemBody::ToolCall(call), Role::Assistant, None)
    } else if let Some(wire) = part.function_response {
        let name = wire.name.clone().unwrap_or_default();
        let answered = open.answer(wire.id.as_deref(), &name);
        let call_id = answered
            .or_else(|| wire.id.clone())
            .filter(|id| !id.is_empty())
            .unwrap_or_else(|| made_call_id(item_id));
        let written = (!kept::is_made(&call_id)).then_some(&call_id);
        if wire.id.as_ref() != written {
            let id = wire.id.as_ref().map_or_else(Json::null, json);
            spelled.push(("/functionResponse/id".into(), id));
        }
        fields.extend(below("/functionResponse", wire.extra.0));
        let mut output = Vec::new();
        let mut is_error = None;
        match &wire.response {
            None => spelled.push(("/functionResponse/response".into(), Json::null())),
            Some(response) => {
                let (part, failed) = result_part(&item_id.part(0), response);
                is_error = failed;
                output.push(part);
            }
        }
        for (n, inner) in wire.parts.iter().flatten().enumerate() {
            let id = item_id.part(output.len() as u64);
            let path = format!("{path}/functionResponse/parts/{n}");
            output.push(message_part(keeper, &id, inner.clone(), &path, false));
        }
        let body = UnifiedItemBody::ToolResult(ToolResultItem {
            call_id,
            name: wire.name,
            output,
            is_error,
            error: None,
            // What the model's own turn answers was run by the provider.
            execution: if model { Execution::Provider } else { Execution::Client },
        });
        (body, if model { Role::Assistant } else { Role::Tool }, sig)
    } else if let Some(wire) = part.executable_code {
        fields.extend(below("/executableCode", wire.extra.0));
        let call_id = wire.id.unwrap_or_else(|| made_call_id(item_id));
        open.code = Some(call_id.clone());
        if wire.language.is_none() {
            spelled.push(("/executableCode/language".into(), Json::null()));
        }
        let body = UnifiedItemBody::CodeExecution(CodeExecutionItem {
            call_id,
            language: wire.language.map(|l| l.to_ascii_lowercase()),
            code: wire.code,
            commands: None,
            lifecycle: UnifiedToolLifecycle::ArgumentsReady,
            execution: Execution::Provider,
            caller: None,
            container: None,
        });
        (body, Role::Assistant, sig)
    } else if let Some(wire) = part.code_execution_result {
        fields.extend(below("/codeExecutionResult", wire.extra.0));
        let known = open.code.take();
        let call_id = wire.id.clone().or(known).unwrap_or_else(|| made_call_id(item_id));
        if wire.id.is_none() && !kept::is_made(&call_id) {
            spelled.push(("/codeExecutionResult/id".into(), Json::null()));
        }
        if wire.outcome.is_some() {
            let at = format!("{path}/codeExecutionResult/outcome");
            keeper.loss.info(Feature::WireSpelling, at, "said by the outcome of the result");
        }
        let word = wire.outcome.unwrap_or_default();
        let outcome = match word.as_str() {
            "OUTCOME_OK" => ExecutionOutcome::Ok,
            "OUTCOME_FAILED" => ExecutionOutcome::Failed,
            "OUTCOME_DEADLINE_EXCEEDED" => ExecutionOutcome::Timeout,
            other => {
                let value = if other.is_empty() { Json::null() } else { json(other) };
                spelled.push(("/codeExecutionResult/outcome".into(), value));
                ExecutionOutcome::Other(format!("gemini-generate-content:{other}").into())
            }
        };
        let (stdout, stderr) = if outcome == ExecutionOutcome::Ok {
            (wire.output, None)
        } else {
            (None, wire.output)
        };
        let body = UnifiedItemBody::CodeExecutionResult(CodeExecutionResultItem {
            call_id,
            outcome,
            exit_code: None,
            stdout,
            stderr,
            output: Vec::new(),
            error: None,
        });
        (body, Role::Assistant, sig)
    } else if let Some(wire) = part.tool_call {
        fields.extend(below("/toolCall", wire.extra.0));
        call.call_id = wire.id.unwrap_or_else(|| made_call_id(item_id));
        open.hosted = Some(call.call_id.clone());
        let word = wire.tool_type.unwrap_or_default();
        call.tool_type = hosted_type(&word);
        call.name = word;
        call.execution = Execution::Provider;
        call.provider_executed = true;
        arguments(&mut call, wire.args, "/toolCall/args", &mut spelled);
        (UnifiedItemBody::ServerToolCall(call), Role::Assistant, None)
    } else {
        let wire = part.tool_response.unwrap_or_else(|| super::wire::HostedResponse {
            id: None,
            tool_type: None,
            response: None,
            extra: crate::wire::Extra::default(),
        });
        fields.extend(below("/toolResponse", wire.extra.0));
        let known = open.hosted.take();
        let call_id = wire.id.clone().or(known).unwrap_or_else(|| made_call_id(item_id));
        if wire.id.is_none() && !kept::is_made(&call_id) {
            spelled.push(("/toolResponse/id".into(), Json::null()));
        }
        let word = wire.tool_type.unwrap_or_default();
        let output = wire.response.map(|value| {
            let part = JsonPart { value, schema_name: None };
            UnifiedContentPart::new(item_id.part(0), PartBody::Json(part))
        });
        let body = UnifiedItemBody::ServerToolResult(ServerToolResultItem {
            call_id,
            tool_type: hosted_type(&word),
            name: Some(word),
            output: output.into_iter().collect(),
            is_error: None,
            error: None,
            execution: Execution::Provider,
        });
        (body, Role::Assistant, sig)
    };
    let unmapped = keeper.unmapped(item_id, path, fields);
    let spelled = form(keeper, item_id, path, spelled);
    Whole {
        body,
        provider_data: references([sig, unmapped, spelled]),
        role,
    }
}

/// The result of a call: the words of `output` or `error`, else the whole object.
fn result_part(part_id: &UnifiedId, response: &Json) -> (UnifiedContentPart, Option<bool>) {
    if let [(key, value)] = raw::members(response).as_slice()
        && let Ok(text) = value.decode::<String>()
        && matches!(key.as_str(), "output" | "error")
    {
        let failed = (key == "error").then_some(true);
        return (UnifiedContentPart::text(part_id.clone(), text), failed);
    }
    let part = JsonPart {
        value: response.clone(),
        schema_name: None,
    };
    (UnifiedContentPart::new(part_id.clone(), PartBody::Json(part)), None)
}

/// The kind of tool behind a word of `toolType`.
pub(super) fn hosted_type(word: &str) -> UnifiedToolType {
    match word {
        "GOOGLE_SEARCH_WEB" | "GOOGLE_SEARCH_IMAGE" => UnifiedToolType::WebSearch,
        "URL_CONTEXT" => UnifiedToolType::UrlContext,
        "GOOGLE_MAPS" => UnifiedToolType::Maps,
        "FILE_SEARCH" => UnifiedToolType::FileSearch,
        other => UnifiedToolType::Other(format!("gemini-generate-content:{}", other.to_ascii_lowercase()).into()),
    }
}
