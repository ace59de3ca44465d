//! Work of hosted tools, compaction and changes of model.
//!
//! The record says what a block means; the block itself is kept for its owner, since most of them hold private state and all
//! have to go back as they were.

use super::decode_block::{Whole, message};
use super::decode_call::CallForm;
use super::decode_citation::source_part;
use super::kept::{self, Keeper};
use super::wire::Block;
use crate::feature::Feature;
use crate::keeper::Keep;
use crate::keeper::references;
use crate::wire::peek_tag;
use serde::Deserialize;
use throughline_format::item::{
    CodeExecutionResultItem, CompactionSummaryItem, CoveredRange, ExecutionOutcome, FoundItem, ProviderSwitchItem, ServerToolResultItem,
    SummaryAuthor, SwitchReason,
};
use throughline_format::part::MediaPart;
use throughline_format::resource::ResourceType;
use throughline_format::tool::Execution;
use throughline_format::{
    ErrorCategory, Json, PartBody, Sha256, UnifiedAttribution, UnifiedContentPart, UnifiedError, UnifiedId, UnifiedItem, UnifiedItemBody,
    UnifiedToolType,
};

impl Keeper {
    /// A block that is kept whole, with its meaning where it is known.
    pub(super) fn raw(&mut self, item_id: &UnifiedId, raw: &Json, path: &str) -> Whole {
        let kind = peek_tag(raw.as_str(), "type").unwrap_or_default();
        let body = match kind.as_str() {
            "fallback" => self.fallback(raw),
            "compaction" => summary(item_id, raw),
            "web_search_tool_result" => self.found(item_id, raw),
            "code_execution_tool_result" | "bash_code_execution_tool_result" => self
                .code_result(item_id, raw, path)
                .or_else(|| self.server_result(item_id, &kind, raw, path)),
            result if result.ends_with("_tool_result") => self.server_result(item_id, result, raw, path),
            _ => None,
        };
        if body.is_none() {
            self.loss.info(
                Feature::WireUnmapped,
                path,
                format!("a block of type {kind:.60} has no Unified word; kept for the same owner"),
            );
        }
        let payload = raw.as_str().as_bytes().to_vec();
        let kept = self.payload(
            Keep {
                schema: kept::BLOCK,
                resource_type: ResourceType::Other("block".into()),
                subject: Some(item_id),
                resource_id: item_id.resource(2),
                paths: vec![path.to_owned()],
            },
            payload,
        );
        Whole {
            body: body.unwrap_or_else(|| message(Vec::new())),
            provider_data: references([Some(kept)]),
        }
    }

    /// Another model goes on.
    fn fallback(&self, raw: &Json) -> Option<UnifiedItemBody> {
        let block: FallbackBlock = raw.decode().ok()?;
        Some(UnifiedItemBody::ProviderSwitch(ProviderSwitchItem {
            from: Some(block.from.attribution()),
            to: block.to.attribution(),
            from_profile: None,
            to_profile: self.profile.clone(),
            reason: SwitchReason::Fallback,
        }))
    }

    /// What a web search found.
    fn found(&self, item_id: &UnifiedId, raw: &Json) -> Option<UnifiedItemBody> {
        let block: ServerResult = raw.decode().ok()?;
        let content = block.content?;
        let failed = content.decode::<ResultContent>().ok().filter(|_| content.is_object());
        let entries: Vec<FoundEntry> = if failed.is_some() { Vec::new() } else { content.decode().ok()? };
        let parts = entries
            .into_iter()
            .filter_map(|entry| Some((entry.url?, entry.title, entry.page_age)));
        Some(UnifiedItemBody::SearchResult(FoundItem {
            queries: self.own.get(&block.tool_use_id).and_then(|c| c.query.clone()).into_iter().collect(),
            call_id: Some(block.tool_use_id),
            parts: parts
                .enumerate()
                .map(|(n, (url, title, page_age))| source_part(item_id.part(n as u64), url, title, page_age))
                .collect(),
            retrieved_at: None,
            error: failed.as_ref().and_then(ResultContent::error),
        }))
    }

    /// What an execution gave; `None` when its call is no code in the record.
    fn code_result(&mut self, item_id: &UnifiedId, raw: &Json, path: &str) -> Option<UnifiedItemBody> {
        let block: ServerResult = raw.decode().ok()?;
        if self.own.get(&block.tool_use_id).is_some_and(|called| called.form != CallForm::Code) {
            return None;
        }
        let inner: ResultContent = block.content?.decode().ok()?;
        let error = inner.error();
        let timeout = error.as_ref().is_some_and(|e| e.category == ErrorCategory::Timeout);
        let outcome = match (&error, inner.return_code) {
            (Some(_), _) if timeout => ExecutionOutcome::Timeout,
            (Some(_), _) => ExecutionOutcome::Failed,
            (None, Some(code)) if code != 0 => ExecutionOutcome::Failed,
            (None, _) => ExecutionOutcome::Ok,
        };
        let files: Vec<FileOutput> = inner.content.and_then(|list| list.decode().ok()).unwrap_or_default();
        let output = files.into_iter().enumerate().map(|(n, file)| {
            let part_id = item_id.part(n as u64);
            let source = self.file(&part_id, file.file_id, &format!("{path}/content/content/{n}/file_id"));
            UnifiedContentPart::new(part_id, PartBody::File(MediaPart { source, media: None }))
        });
        Some(UnifiedItemBody::CodeExecutionResult(CodeExecutionResultItem {
            call_id: block.tool_use_id,
            outcome,
            exit_code: inner.return_code,
            stdout: inner.stdout,
            stderr: inner.stderr,
            output: output.collect(),
            error,
        }))
    }

    fn server_result(&mut self, item_id: &UnifiedId, kind: &str, raw: &Json, path: &str) -> Option<UnifiedItemBody> {
        let block: ServerResult = raw.decode().ok()?;
        let tool = kind.trim_end_matches("_tool_result");
        let mut output = Vec::new();
        let mut is_error = block.is_error;
        let mut error = None;
        match block.content {
            None => {}
            Some(content) if content.is_object() => {
                let inner: ResultContent = content.decode().ok()?;
                error = inner.error();
                is_error = is_error.or(error.as_ref().map(|_| true));
                self.result_parts(item_id, inner, path, &mut output);
            }
            Some(content) => {
                if let Ok(text) = content.decode::<String>() {
                    output.push(UnifiedContentPart::text(item_id.part(0), text));
                }
                for entry in content.decode::<Vec<FoundEntry>>().unwrap_or_default() {
                    let part_id = item_id.part(output.len() as u64);
                    match (entry.url, entry.text) {
                        (Some(url), _) => output.push(source_part(part_id, url, entry.title, entry.page_age)),
                        (None, Some(text)) => output.push(UnifiedContentPart::text(part_id, text)),
                        (None, None) => {}
                    }
                }
            }
        }
        Some(UnifiedItemBody::ServerToolResult(ServerToolResultItem {
            name: self.own.get(&block.tool_use_id).map(|called| called.name.clone()),
            call_id: block.tool_use_id,
            tool_type: hosted_type(tool),
            output,
            is_error,
            error,
            execution: Execution::Provider,
        }))
    }

    /// The content of a result that is one object.
    fn result_parts(&self, item_id: &UnifiedId, inner: ResultContent, path: &str, output: &mut Vec<UnifiedContentPart>) {
        let said = inner.content.as_ref().and_then(|content| content.decode::<String>().ok());
        let texts = [inner.error_code, inner.error_message, inner.stdout, inner.stderr, inner.text, said];
        // Changed lines of an edited file are a text each.
        let texts = texts.into_iter().flatten().chain(inner.lines.unwrap_or_default());
        for text in texts.filter(|text| !text.is_empty()) {
            output.push(UnifiedContentPart::text(item_id.part(output.len() as u64), text));
        }
        if let Some(url) = inner.url {
            output.push(source_part(item_id.part(output.len() as u64), url, None, None));
        }
        if let Some(Ok(document)) = inner.content.map(|content| content.decode::<Block>()) {
            let part_id = item_id.part(output.len() as u64);
            // The document stays in the private copy; what it says about itself is told there.
            let mut scratch = Self::new(&self.context, self.profile.clone(), self.issuer);
            if let Ok(mut part) = scratch.part(&part_id, document, &format!("{path}/content/content")) {
                part.base.provider_data = None;
                output.push(part);
            }
        }
        for name in inner.tool_references.unwrap_or_default() {
            output.push(UnifiedContentPart::text(item_id.part(output.len() as u64), name.tool_name));
        }
    }
}

/// A summary of the history. Its reach is not told: until it has its place, it covers what is pending.
fn summary(item_id: &UnifiedId, raw: &Json) -> Option<UnifiedItemBody> {
    let text = raw
        .decode::<CompactionBlock>()
        .ok()?
        .content
        .filter(|text| !text.trim().is_empty())?;
    Some(UnifiedItemBody::CompactionSummary(CompactionSummaryItem {
        parts: vec![UnifiedContentPart::text(item_id.part(0), text)],
        covers: CoveredRange {
            from_item_id: UnifiedId::pending(),
            to_item_id: UnifiedId::pending(),
            count: 1,
        },
        audit_hash: Sha256::of(b"unified-compaction@1\n"),
        replaces: false,
        author: SummaryAuthor::Provider,
    }))
}

/// A summary of the request's own history covers everything before it; where nothing is, it is a message.
pub(super) fn reach(body: &mut UnifiedItemBody, before: &[UnifiedItem]) {
    let UnifiedItemBody::CompactionSummary(summary) = body else {
        return;
    };
    let hash = throughline_format::compaction::audit_hash(before).ok();
    if let (Some(first), Some(last), Some(hash)) = (before.first(), before.last(), hash) {
        summary.covers = CoveredRange {
            from_item_id: first.id.clone(),
            to_item_id: last.id.clone(),
            count: before.len() as u64,
        };
        summary.audit_hash = hash;
    } else {
        *body = message(std::mem::take(&mut summary.parts));
    }
}

/// The kind of tool behind a hosted tool's name, or behind the stem of its result block.
pub(super) fn hosted_type(name: &str) -> UnifiedToolType {
    match name {
        "web_search" => UnifiedToolType::WebSearch,
        "web_fetch" => UnifiedToolType::WebFetch,
        "code_execution" | "bash_code_execution" | "text_editor_code_execution" => UnifiedToolType::CodeExecution,
        "advisor" => UnifiedToolType::Advisor,
        "mcp" => UnifiedToolType::Mcp,
        "memory" => UnifiedToolType::Memory,
        _ if name.starts_with("tool_search") => UnifiedToolType::ToolSearch,
        other => UnifiedToolType::Other(format!("anthropic-messages:{other}").into()),
    }
}

#[derive(Deserialize)]
struct FallbackModel {
    model: Option<String>,
}

impl FallbackModel {
    fn attribution(self) -> UnifiedAttribution {
        UnifiedAttribution {
            model: self.model,
            ..UnifiedAttribution::default()
        }
    }
}

#[derive(Deserialize)]
struct FallbackBlock {
    from: FallbackModel,
    to: FallbackModel,
}

#[derive(Deserialize)]
struct CompactionBlock {
    content: Option<String>,
}

#[derive(Deserialize)]
struct FileOutput {
    file_id: String,
}

#[derive(Deserialize)]
struct ServerResult {
    tool_use_id: String,
    content: Option<Json>,
    is_error: Option<bool>,
}

#[derive(Deserialize)]
struct ResultContent {
    #[serde(rename = "type", default)]
    kind: String,
    error_code: Option<String>,
    error_message: Option<String>,
    stdout: Option<String>,
    stderr: Option<String>,
    return_code: Option<i64>,
    text: Option<String>,
    url: Option<String>,
    content: Option<Json>,
    lines: Option<Vec<String>>,
    tool_references: Option<Vec<ToolReference>>,
}

impl ResultContent {
    /// The error that the content tells of.
    fn error(&self) -> Option<UnifiedError> {
        if !self.kind.ends_with("_error") {
            return None;
        }
        let code = self.error_code.as_deref().unwrap_or("unknown");
        let category = match code {
            "too_many_requests" => ErrorCategory::RateLimit,
            "max_uses_exceeded" => ErrorCategory::Limit,
            "overloaded" => ErrorCategory::Overloaded,
            "execution_time_exceeded" => ErrorCategory::Timeout,
            "url_not_allowed" => ErrorCategory::Permission,
            "url_not_accessible" | "file_not_found" | "model_not_found" => ErrorCategory::NotFound,
            "prompt_too_long" => ErrorCategory::MaxContext,
            "content_too_large" | "output_file_too_large" | "request_too_large" => ErrorCategory::TooLarge,
            "unsupported_content_type" => ErrorCategory::Unsupported,
            "invalid_tool_input" | "query_too_long" | "url_too_long" | "url_not_in_prior_context" => ErrorCategory::InvalidRequest,
            _ => ErrorCategory::Server,
        };
        let message = self
            .error_message
            .clone()
            .unwrap_or_else(|| format!("the hosted tool failed: {code:.60}"));
        let mut error = UnifiedError::new(category, "hosted-tool", message);
        error.provider_code = Some(code.to_owned());
        Some(error)
    }
}

#[derive(Deserialize)]
struct ToolReference {
    tool_name: String,
}

#[derive(Deserialize)]
struct FoundEntry {
    url: Option<String>,
    title: Option<String>,
    page_age: Option<String>,
    text: Option<String>,
}
