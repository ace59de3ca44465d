//! Steps and contents of the wire as items and parts; requests, responses and streams share it.

use super::kept::{self, FORM, form};
use super::wire::{Annotation, Content, Step};
use crate::google::media;
use crate::keeper::{Keep, Keeper, references};
use crate::raw::{self, json, object};
use crate::side::SideResource;
use throughline_format::citation::{
    SourceType, SpanOf, Support, SupportRelation, UnifiedCitation, UnifiedSource, UnifiedSpan, UnifiedTextAnnotation,
};
use throughline_format::item::{
    CodeExecutionItem, CodeExecutionResultItem, ExecutionOutcome, MessageItem, ReasoningItem, Role, ServerToolResultItem, ToolCallItem,
    ToolResultItem,
};
use throughline_format::media::{
    InlineEncoding, InlineSource, MediaResolution, UnifiedDataSource, UnifiedIndexUnit, UnifiedMediaMetadata, UrlSource,
};
use throughline_format::part::{JsonPart, MediaPart, ReasoningForm, ReasoningPart, ReasoningPrivateState, ReasoningState, TextPart};
use throughline_format::resource::ResourceType;
use throughline_format::tool::Execution;
use throughline_format::{
    Json, PartBody, UnifiedContentPart, UnifiedId, UnifiedItemBody, UnifiedProviderDataRef, UnifiedToolLifecycle, UnifiedToolType,
};

/// A step as an item.
pub(super) struct Whole {
    /// Kind and content.
    pub(super) body: UnifiedItemBody,
    /// References of the item.
    pub(super) provider_data: Option<Vec<UnifiedProviderDataRef>>,
    /// Role of the item.
    pub(super) role: Role,
}

/// A step as an item.
pub(super) fn step(keeper: &mut Keeper, item_id: &UnifiedId, given: &Json, path: &str) -> Whole {
    let Ok(wire) = given.decode::<Step>() else {
        return kept_whole(keeper, item_id, given, path, None);
    };
    let kind = wire.kind.clone().unwrap_or_default();
    match kind.as_str() {
        // The older form of a result: a content of the user's turn.
        "user_input" if legacy_result(&wire).is_some() => {
            let inner = legacy_result(&wire).unwrap_or_else(Json::null);
            let Whole { body, role, .. } = step(keeper, item_id, &inner, &format!("{path}/content/0"));
            Whole {
                role,
                ..kept_whole(keeper, item_id, given, path, Some(body))
            }
        }
        "user_input" => message(keeper, item_id, wire, Role::User, path),
        "model_output" if wire.error.is_none() => message(keeper, item_id, wire, Role::Assistant, path),
        "thought" => thought(keeper, item_id, wire, path),
        "function_call" if wire.id.as_ref().or(wire.call_id.as_ref()).is_some() && wire.name.is_some() => {
            function_call(keeper, item_id, wire, path)
        }
        "function_result" if wire.call_id.is_some() && wire.result.is_some() => function_result(keeper, item_id, wire, path),
        _ => {
            let known = hosted(item_id, &kind, &wire);
            kept_whole(keeper, item_id, given, path, known)
        }
    }
}

/// The only content of a turn when it is a result.
fn legacy_result(wire: &Step) -> Option<Json> {
    let list: Vec<Json> = wire.content.as_ref()?.decode().ok()?;
    let [only] = list.as_slice() else { return None };
    let inner = only.decode::<Step>().ok()?;
    let is_result = inner.kind.as_deref() == Some("function_result") && inner.call_id.is_some() && inner.result.is_some();
    is_result.then(|| only.clone())
}

/// Members of a step that its kind gives no meaning.
fn leftovers(wire: &Step, used: &[&str]) -> Vec<(String, Json)> {
    let all = raw::members(&json(wire)).into_iter();
    let rest = all.filter(|(key, _)| key != "type" && !used.contains(&key.as_str()));
    raw::below("", rest.collect())
}

/// A step that is kept as it was written, and what the record says of it.
fn kept_whole(keeper: &mut Keeper, item_id: &UnifiedId, given: &Json, path: &str, known: Option<UnifiedItemBody>) -> Whole {
    let kept = Keep {
        schema: kept::STEP,
        resource_type: ResourceType::Other("step".into()),
        subject: Some(item_id),
        resource_id: item_id.resource(4),
        paths: vec![path.to_owned()],
    };
    let reference = keeper.payload(kept, given.as_str().as_bytes().to_vec());
    let body = known.unwrap_or_else(|| {
        let text = raw::get(given, "error")
            .and_then(|e| raw::get(&e, "message"))
            .and_then(|m| m.decode::<String>().ok());
        let parts = text.into_iter().map(|t| UnifiedContentPart::text(item_id.part(0), t)).collect();
        UnifiedItemBody::Message(MessageItem { parts, placement: None })
    });
    Whole {
        body,
        provider_data: Some(vec![reference]),
        role: Role::Assistant,
    }
}

fn message(keeper: &mut Keeper, item_id: &UnifiedId, wire: Step, role: Role, path: &str) -> Whole {
    let mut written = Vec::new();
    let contents: Vec<Content> = match &wire.content {
        None => Vec::new(),
        Some(content) => content.decode().unwrap_or_else(|_| {
            // A lone text or content; the record has one form for it.
            written.push(("content".to_owned(), content.clone()));
            lone(content).into_iter().collect()
        }),
    };
    let parts = contents.into_iter().enumerate();
    let parts = parts
        .map(|(n, content)| part(keeper, &item_id.part(n as u64), content, &format!("{path}/content/{n}")))
        .collect();
    let unmapped = keeper.unmapped(item_id, path, leftovers(&wire, &["content"]));
    let form = form(keeper, FORM, Some(item_id), item_id.resource(2), path, written);
    Whole {
        body: UnifiedItemBody::Message(MessageItem { parts, placement: None }),
        provider_data: references([unmapped, form]),
        role,
    }
}

/// A lone text or content as a content.
pub(super) fn lone(content: &Json) -> Option<Content> {
    if let Ok(text) = content.decode::<String>() {
        return object(vec![("type".into(), json("text")), ("text".into(), json(&text))])
            .decode()
            .ok();
    }
    content.decode().ok()
}

/// A content as a part.
pub(super) fn part(keeper: &mut Keeper, part_id: &UnifiedId, content: Content, path: &str) -> UnifiedContentPart {
    let kind = content.kind.clone().unwrap_or_default();
    let is_media = matches!(kind.as_str(), "image" | "audio" | "video" | "document") && (content.data.is_some() || content.uri.is_some());
    let is_text = kind == "text" && content.text.is_some();
    if !(is_media || is_text) {
        let unknown = keeper.unmapped(part_id, path, [(String::new(), json(&content))]);
        let mut made = UnifiedContentPart::new(part_id.clone(), PartBody::Text(TextPart::default()));
        made.base.provider_data = references([unknown]);
        return made;
    }
    let mut fields: Vec<_> = content.extra.into_unmapped().collect();
    let mut written = Vec::new();
    let body = if kind == "text" {
        let raw_annotations = content.annotations;
        let annotations = raw_annotations.as_ref().map(|list| {
            let all = list.iter().enumerate();
            all.filter_map(|(n, raw)| annotation(part_id, n, raw)).collect::<Vec<_>>()
        });
        written.extend(raw_annotations.map(|list| ("annotations".to_owned(), json(&list))));
        PartBody::Text(TextPart {
            text: content.text.unwrap_or_default(),
            annotations: annotations.filter(|a| !a.is_empty()),
            ..TextPart::default()
        })
    } else {
        let mut about = UnifiedMediaMetadata {
            name: content.name,
            channels: content.channels,
            sample_rate: content.sample_rate,
            ..UnifiedMediaMetadata::default()
        };
        if let Some(word) = content.resolution {
            match media::resolution(&word) {
                Some(resolution) => about.resolution = Some(MediaResolution::Word(resolution)),
                None => fields.push(("/resolution".into(), json(&word))),
            }
        }
        let source = match (content.data, content.uri) {
            (Some(data), other) => {
                fields.extend(other.map(|uri| ("/uri".to_owned(), json(&uri))));
                UnifiedDataSource::Inline(InlineSource {
                    media_type: content.mime_type.unwrap_or_default(),
                    data,
                    encoding: InlineEncoding::Base64,
                })
            }
            (None, uri) => {
                about.media_type = content.mime_type;
                UnifiedDataSource::Url(UrlSource {
                    url: uri.unwrap_or_default(),
                    headers_ref: None,
                })
            }
        };
        let media = MediaPart {
            source,
            media: (about != UnifiedMediaMetadata::default()).then_some(about),
        };
        match kind.as_str() {
            "image" => PartBody::Image(media),
            "audio" => PartBody::Audio(media),
            "video" => PartBody::Video(media),
            _ => PartBody::Document(media),
        }
    };
    let unmapped = keeper.unmapped(part_id, path, fields);
    let form = form(keeper, FORM, Some(part_id), part_id.resource(2), path, written);
    let mut made = UnifiedContentPart::new(part_id.clone(), body);
    made.base.provider_data = references([unmapped, form]);
    made
}

/// A remark on text: citations only, the rest is kept as it was written.
pub(super) fn annotation(part_id: &UnifiedId, number: usize, raw: &Json) -> Option<UnifiedTextAnnotation> {
    let wire = raw.decode::<Annotation>().ok()?;
    let kind = match wire.kind.as_deref()? {
        "url_citation" => SourceType::Web,
        "file_citation" => SourceType::File,
        "place_citation" => SourceType::Place,
        _ => return None,
    };
    let span = wire.end_index.map(|end| UnifiedSpan {
        of: SpanOf::Answer,
        start: wire.start_index.unwrap_or(0),
        end,
        unit: UnifiedIndexUnit::Utf8Byte,
        part_id: Some(part_id.clone()),
    });
    Some(UnifiedTextAnnotation::Citation(UnifiedCitation {
        source: UnifiedSource {
            source_id: UnifiedId::parse(&format!("{part_id}.s{number}")).unwrap_or_else(|_| part_id.clone()),
            r#type: kind,
            uri: wire.url.or(wire.document_uri),
            title: wire.title.or(wire.file_name).or(wire.name),
            resource: None,
            document_index: None,
            document_item_id: None,
            document_part_id: None,
            license: None,
            published_at: None,
        },
        quoted_text: None,
        spans: span.map(|s| vec![s]),
        supports: Some(Support {
            part_id: part_id.clone(),
            relation: SupportRelation::Supports,
        }),
        confidence: None,
        queries: None,
        retrieved_at: None,
    }))
}

/// Keeps a signature of a thought.
pub(super) fn signature(keeper: &mut Keeper, part_id: &UnifiedId, signature: String, path: &str) -> ReasoningPrivateState {
    let path = format!("{path}/signature");
    let resource = SideResource::reasoning(
        keeper.profile.clone(),
        kept::SIGNATURE,
        part_id,
        signature.into_bytes(),
        keeper.issuer,
        path,
    );
    let issuer = resource.issuer;
    ReasoningPrivateState {
        r#ref: keeper.push(resource),
        issuer,
    }
}

/// A reasoning part.
pub(super) const fn reasoning(text: String, state: ReasoningState, private_state: Option<ReasoningPrivateState>) -> PartBody {
    PartBody::Reasoning(ReasoningPart {
        text,
        form: ReasoningForm::Summary,
        state,
        private_state,
    })
}

fn thought(keeper: &mut Keeper, item_id: &UnifiedId, wire: Step, path: &str) -> Whole {
    let mut written = Vec::new();
    let mut texts = Vec::new();
    for content in wire.summary.iter().flatten() {
        texts.extend(content.text.clone());
    }
    let plain = |c: &Content| {
        c.kind.as_deref() == Some("text") && c.text.is_some() && json(c) == text_content(c.text.as_deref().unwrap_or_default())
    };
    match &wire.summary {
        Some(list) if list.is_empty() || !list.iter().all(plain) => written.push(("summary".to_owned(), json(list))),
        _ => {}
    }
    let fields = leftovers(&wire, &["summary", "signature"]);
    // An empty signature is none, and is written again.
    if wire.signature.as_deref() == Some("") {
        written.push(("signature".to_owned(), json("")));
    }
    let mut state = wire
        .signature
        .filter(|s| !s.is_empty())
        .map(|s| signature(keeper, &item_id.part(0), s, path));
    let mut parts: Vec<_> = texts
        .into_iter()
        .enumerate()
        .map(|(n, text)| UnifiedContentPart::new(item_id.part(n as u64), reasoning(text, ReasoningState::Disclosed, state.take())))
        .collect();
    if parts.is_empty() {
        parts.push(UnifiedContentPart::new(
            item_id.part(0),
            reasoning(String::new(), ReasoningState::Omitted, state.take()),
        ));
    }
    let unmapped = keeper.unmapped(item_id, path, fields);
    let form = form(keeper, FORM, Some(item_id), item_id.resource(2), path, written);
    Whole {
        body: UnifiedItemBody::Reasoning(ReasoningItem { parts }),
        provider_data: references([unmapped, form]),
        role: Role::Assistant,
    }
}

/// A text content.
pub(super) fn text_content(text: &str) -> Json {
    object(vec![("type".into(), json("text")), ("text".into(), json(text))])
}

fn call(call_id: String, name: String, kind: UnifiedToolType, arguments: Option<&Json>, execution: Execution) -> ToolCallItem {
    let raw = match arguments {
        None => "{}".to_owned(),
        Some(json) => json.decode::<String>().unwrap_or_else(|_| json.as_str().to_owned()),
    };
    ToolCallItem {
        call_id,
        name,
        tool_type: kind,
        namespace: None,
        server_label: None,
        input: Json::of_arguments(&raw),
        raw_arguments: raw,
        lifecycle: UnifiedToolLifecycle::ArgumentsReady,
        caller: None,
        execution,
        provider_executed: execution == Execution::Provider,
        private_linkage: None,
    }
}

fn function_call(keeper: &mut Keeper, item_id: &UnifiedId, wire: Step, path: &str) -> Whole {
    let mut written = Vec::new();
    match &wire.arguments {
        None => written.push(("arguments".to_owned(), Json::null())),
        Some(arguments) if !arguments.is_object() => written.push(("arguments".to_owned(), arguments.clone())),
        Some(_) => {}
    }
    let mut fields = leftovers(&wire, &["id", "call_id", "name", "arguments"]);
    let id = match (wire.id, wire.call_id) {
        (Some(id), other) => {
            fields.extend(other.map(|c| ("/call_id".to_owned(), json(&c))));
            id
        }
        // The word that results have for it.
        (None, other) => {
            written.push(("id".to_owned(), Json::null()));
            written.extend(other.as_ref().map(|c| ("call_id".to_owned(), json(c))));
            other.unwrap_or_default()
        }
    };
    let made = call(
        id,
        wire.name.unwrap_or_default(),
        UnifiedToolType::Function,
        wire.arguments.as_ref(),
        Execution::Client,
    );
    let unmapped = keeper.unmapped(item_id, path, fields);
    let form = form(keeper, FORM, Some(item_id), item_id.resource(2), path, written);
    Whole {
        body: UnifiedItemBody::ToolCall(made),
        provider_data: references([unmapped, form]),
        role: Role::Assistant,
    }
}

fn function_result(keeper: &mut Keeper, item_id: &UnifiedId, wire: Step, path: &str) -> Whole {
    let fields = leftovers(&wire, &["call_id", "name", "result", "is_error"]);
    let result = wire.result.unwrap_or_else(Json::null);
    let output = if let Ok(text) = result.decode::<String>() {
        vec![UnifiedContentPart::text(item_id.part(0), text)]
    } else if let Some(list) = result.decode::<Vec<Content>>().ok().filter(|l| l.iter().all(|c| c.kind.is_some())) {
        let all = list.into_iter().enumerate();
        all.map(|(n, content)| part(keeper, &item_id.part(n as u64), content, &format!("{path}/result/{n}")))
            .collect()
    } else {
        let part = JsonPart {
            value: result,
            schema_name: None,
        };
        vec![UnifiedContentPart::new(item_id.part(0), PartBody::Json(part))]
    };
    let unmapped = keeper.unmapped(item_id, path, fields);
    Whole {
        body: UnifiedItemBody::ToolResult(ToolResultItem {
            call_id: wire.call_id.unwrap_or_default(),
            name: wire.name,
            output,
            is_error: wire.is_error,
            error: None,
            execution: Execution::Client,
        }),
        provider_data: references([unmapped]),
        role: Role::Tool,
    }
}

/// What the record says of a hosted tool's work.
fn hosted(item_id: &UnifiedId, kind: &str, wire: &Step) -> Option<UnifiedItemBody> {
    if let Some(tool) = kind.strip_suffix("_call") {
        let id = wire.id.clone()?;
        if tool == "code_execution" {
            let arguments = wire.arguments.as_ref();
            let member = |key: &str| arguments.and_then(|a| raw::get(a, key)).and_then(|v| v.decode::<String>().ok());
            return Some(UnifiedItemBody::CodeExecution(CodeExecutionItem {
                call_id: id,
                language: member("language"),
                code: member("code"),
                commands: None,
                lifecycle: UnifiedToolLifecycle::ArgumentsReady,
                execution: Execution::Provider,
                caller: None,
                container: None,
            }));
        }
        let name = wire.name.clone().unwrap_or_else(|| tool.to_owned());
        let mut made = call(id, name, hosted_type(tool), wire.arguments.as_ref(), Execution::Provider);
        made.server_label = wire
            .extra
            .0
            .iter()
            .find(|(key, _)| key == "server_name")
            .and_then(|(_, v)| v.decode().ok());
        return Some(UnifiedItemBody::ServerToolCall(made));
    }
    let tool = kind.strip_suffix("_result")?;
    let call_id = wire.call_id.clone()?;
    let text = wire.result.as_ref().and_then(|r| r.decode::<String>().ok());
    if tool == "code_execution" {
        let failed = wire.is_error == Some(true);
        let (stdout, stderr) = if failed { (None, text) } else { (text, None) };
        return Some(UnifiedItemBody::CodeExecutionResult(CodeExecutionResultItem {
            call_id,
            outcome: if failed { ExecutionOutcome::Failed } else { ExecutionOutcome::Ok },
            exit_code: None,
            stdout,
            stderr,
            output: Vec::new(),
            error: None,
        }));
    }
    let output = wire.result.clone().map(|value| {
        if let Some(text) = text {
            return UnifiedContentPart::text(item_id.part(0), text);
        }
        let part = JsonPart { value, schema_name: None };
        UnifiedContentPart::new(item_id.part(0), PartBody::Json(part))
    });
    Some(UnifiedItemBody::ServerToolResult(ServerToolResultItem {
        call_id,
        tool_type: hosted_type(tool),
        name: wire.name.clone(),
        output: output.into_iter().collect(),
        is_error: wire.is_error,
        error: None,
        execution: Execution::Provider,
    }))
}

/// The kind of tool behind a word.
pub(super) fn hosted_type(word: &str) -> UnifiedToolType {
    match word {
        "google_search" => UnifiedToolType::WebSearch,
        "url_context" => UnifiedToolType::UrlContext,
        "code_execution" => UnifiedToolType::CodeExecution,
        "google_maps" => UnifiedToolType::Maps,
        "file_search" => UnifiedToolType::FileSearch,
        "computer_use" => UnifiedToolType::ComputerUse,
        "mcp_server" | "mcp_server_tool" => UnifiedToolType::Mcp,
        "retrieval" => UnifiedToolType::Retrieval,
        "tool_search" => UnifiedToolType::ToolSearch,
        other => UnifiedToolType::Other(format!("gemini-interactions:{other}").into()),
    }
}
