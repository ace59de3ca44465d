//! An answer under construction: streams and unstreamed responses go through the same steps, so they cannot differ.

use super::candidate::{State, logprobs};
use super::kept::{self};
use super::wire_answer::{Candidate, PromptFeedback, Response, Usage};
use super::{Dialect, usage};
use crate::context::DecodeContext;
use crate::drafting::{CANDIDATES, Drafting, Row};
use crate::keeper::{Keep, Keeper};
use crate::raw::{self, json, object};
use throughline_format::event::{ResponseMetadata, UsageUpdate};
use throughline_format::item::ErrorItem;
use throughline_format::resource::{Issuer, ResourceType};
use throughline_format::status::SafetyDetail;
use throughline_format::usage::{CostKind, UnifiedCost, UsageScope, UsageSource};
use throughline_format::{
    ErrorCategory, EventBody, EventDraft, Json, UnifiedError, UnifiedFinishReason, UnifiedId, UnifiedItemBody, UnifiedProviderResourceRef,
    UnifiedResponseStatus, UnifiedUsage,
};

/// Number of the first side resource of an answer's root, apart from those of the request of the same operation.
const ROOT: u64 = 16;

/// The answer so far.
pub(super) struct Answer {
    pub(super) draft: Drafting,
    dialect: Dialect,
    /// Whether the whole response comes at once: then its parts are apart as they stand.
    whole: bool,
    pub(super) started: bool,
    /// Whether candidates or a block were told.
    told: bool,
    candidates: Vec<State>,
    usage: Option<Json>,
    spent: Vec<UnifiedCost>,
    root: Vec<(String, Json)>,
    form: Vec<(String, Json)>,
    feedback: Option<PromptFeedback>,
    request_id: Option<String>,
}

impl Answer {
    /// An answer that has not begun.
    pub(super) fn new(dialect: Dialect, context: &DecodeContext, whole: bool) -> Self {
        Self {
            draft: Drafting::new(Keeper::new(context, dialect.profile(), Issuer::Provider)),
            dialect,
            whole,
            started: false,
            told: false,
            candidates: Vec::new(),
            usage: None,
            spent: Vec::new(),
            root: Vec::new(),
            form: Vec::new(),
            feedback: None,
            request_id: None,
        }
    }

    fn prefix(&self) -> &'static str {
        match self.dialect {
            Dialect::Antigravity if !self.form.iter().any(|(key, _)| key == "bare") => "/response",
            _ => "",
        }
    }

    /// Takes a response, or a chunk of one.
    pub(super) fn take_response(&mut self, response: Response) {
        let prefix = self.prefix();
        if !self.started {
            self.started = true;
            if self.whole && response.model_version.is_none() {
                self.form.push(("noModel".into(), json(&true)));
            }
            self.draft.begin(response.model_version.clone());
        }
        for (key, value) in raw::below(prefix, response.extra.0) {
            assign(&mut self.root, key, value);
        }
        if let Some(id) = response.response_id {
            assign(&mut self.root, format!("{prefix}/responseId"), json(&id));
            self.tell_request_id(id);
        }
        if self.whole && response.candidates.is_none() {
            self.form.push(("noCandidates".into(), json(&true)));
        }
        for (position, candidate) in response.candidates.unwrap_or_default().into_iter().enumerate() {
            self.told = true;
            self.candidate(candidate, &format!("{prefix}/candidates/{position}"));
        }
        if let Some(feedback) = response.prompt_feedback {
            assign(&mut self.root, format!("{prefix}/promptFeedback"), json(&feedback));
            self.feedback = Some(feedback);
        }
        if let Some(raw) = response.usage_metadata {
            self.usage(raw);
        }
    }

    /// Takes the members of an envelope.
    pub(super) fn envelope(&mut self, members: Vec<(String, Json)>) {
        for (key, value) in members {
            match key.as_str() {
                "traceId" => {
                    if let Ok(id) = value.decode::<String>() {
                        self.tell_request_id(id);
                    }
                }
                "consumedCredits" => self.credits(&value, CostKind::CreditsUsed),
                "remainingCredits" => self.credits(&value, CostKind::CreditsLeft),
                _ => {}
            }
            assign(&mut self.root, format!("/{key}"), value);
        }
    }

    /// The body had no envelope although the dialect has one.
    pub(super) fn bare(&mut self) {
        if self.whole {
            self.form.push(("bare".into(), json(&true)));
        }
    }

    fn credits(&mut self, list: &Json, kind: CostKind) {
        self.spent.retain(|cost| cost.kind != kind);
        for entry in list.decode::<Vec<Json>>().unwrap_or_default() {
            let amount = ["creditAmount", "amount"].iter().find_map(|key| raw::get(&entry, key));
            let unit = ["creditType", "type"].iter().find_map(|key| raw::get(&entry, key));
            let value = amount.and_then(|v| v.decode::<f64>().ok().or_else(|| v.decode::<String>().ok()?.parse().ok()));
            if let (Some(value), Some(unit)) = (value, unit.and_then(|u| u.decode::<String>().ok())) {
                let scope = if kind == CostKind::CreditsUsed {
                    UsageScope::Request
                } else {
                    UsageScope::Cumulative
                };
                self.spent.push(UnifiedCost {
                    value,
                    scope,
                    source: UsageSource::Reported,
                    unit,
                    kind,
                });
            }
        }
    }

    fn tell_request_id(&mut self, id: String) {
        if self.request_id.as_ref() != Some(&id) {
            self.request_id = Some(id);
        }
    }

    fn usage(&mut self, raw: Json) {
        if self.usage.as_ref() == Some(&raw) {
            return;
        }
        if let Some(tier) = raw.decode::<Usage>().ok().and_then(|u| u.service_tier) {
            self.draft.out.push(EventBody::ResponseMetadata(ResponseMetadata {
                service_tier: Some(tier),
                ..ResponseMetadata::default()
            }));
        }
        let unified = usage::decode(&raw);
        self.usage = Some(raw);
        self.draft.out.push(EventBody::UsageUpdate(UsageUpdate { usage: unified }));
    }

    fn candidate(&mut self, candidate: Candidate, path: &str) {
        let index = candidate.index.unwrap_or(0);
        if index >= CANDIDATES {
            self.draft.warn(
                "response.candidate-index",
                "a candidate with an index beyond the bound was left out",
            );
            return;
        }
        let place = if let Some(place) = self.candidates.iter().position(|c| c.row.candidate == index) {
            place
        } else {
            self.candidates.push(State::new(index));
            self.candidates.len() - 1
        };
        let Some(state) = self.candidates.get_mut(place) else { return };
        let draft = &mut self.draft;
        let mut shell = Vec::new();
        let mut keep = |key: &str, value: Option<Json>| shell.extend(value.map(|v| (key.to_owned(), v)));
        keep("index", candidate.index.map(|i| json(&i)));
        keep("finishReason", candidate.finish_reason.as_ref().map(json));
        keep("finishMessage", candidate.finish_message.as_ref().map(json));
        keep("safetyRatings", candidate.safety_ratings.clone());
        keep("citationMetadata", candidate.citation_metadata.clone());
        keep("groundingMetadata", candidate.grounding_metadata.clone());
        keep("urlContextMetadata", candidate.url_context_metadata.clone());
        keep("logprobsResult", candidate.logprobs_result.clone());
        shell.extend(candidate.extra.0);
        for (key, value) in shell {
            assign(&mut state.shell, key, value);
        }
        if let Some(token) = candidate.continuation_token {
            let kept = Keep {
                schema: kept::CONTINUATION,
                resource_type: ResourceType::Response,
                subject: None,
                resource_id: draft.keeper.context.operation_id.resource(ROOT + 8 + index),
                paths: vec![format!("{path}/continuationToken")],
            };
            if !state.shell.iter().any(|(key, _)| key == "continuationToken") {
                let resource: UnifiedProviderResourceRef = draft.keeper.handle(kept, token.clone());
                draft.out.push(EventBody::ResponseMetadata(ResponseMetadata {
                    resources: Some(vec![resource]),
                    ..ResponseMetadata::default()
                }));
            }
            assign(&mut state.shell, "continuationToken".into(), json(&token));
        }
        let mut tokens = candidate.logprobs_result.and_then(|raw| logprobs(&raw));
        if let Some(content) = candidate.content {
            let members = state.content.get_or_insert_default();
            for (key, value) in content.extra.0 {
                assign(members, key, value);
            }
            if let Some(role) = content.role {
                assign(members, "role".into(), json(&role));
            }
            if content.parts.is_none() {
                assign(members, "noParts".into(), json(&true));
            }
            for (n, part) in content.parts.unwrap_or_default().into_iter().enumerate() {
                let path = format!("{path}/content/parts/{n}");
                state.part(draft, part, &path, self.whole, &mut tokens);
            }
        }
        if let Some(word) = candidate.finish_reason.filter(|w| !w.is_empty()) {
            state.finish = Some(word);
        }
        if candidate.finish_message.is_some() {
            state.finish_message = candidate.finish_message;
        }
    }

    /// The answer is complete.
    pub(super) fn complete(&mut self) {
        let blocked = self.block();
        let mut failure = None;
        let mut first = None;
        let mut items = Vec::new();
        for state in &mut self.candidates {
            state.end(&mut self.draft);
            let (status, error) = state.status(self.whole);
            items.extend(state.row.items.iter().cloned());
            if state.row.candidate == 0 {
                failure = error;
                first = Some(status);
            } else {
                let metadata = ResponseMetadata {
                    status: Some(status),
                    ..ResponseMetadata::default()
                };
                self.draft
                    .tell(state.row.candidate, EventDraft::new(EventBody::ResponseMetadata(metadata)));
            }
        }
        if let Some((status, id)) = blocked {
            items.extend(id);
            first = Some(status);
        }
        self.finish_root();
        match (first, failure) {
            (Some(status), Some(error)) => self.draft.out.fail(error, status, items),
            (Some(status), None) => self.draft.out.complete(status, items),
            (None, _) if self.told => {
                let status = UnifiedResponseStatus::finished(UnifiedFinishReason::Unknown, None);
                self.draft.out.complete(status, items);
            }
            (None, _) => {
                let mut error = UnifiedError::new(
                    ErrorCategory::Server,
                    "empty-response",
                    "the answer holds neither a candidate nor a reason",
                );
                error.retryable = true;
                let status = UnifiedResponseStatus::finished(UnifiedFinishReason::Failed, None);
                self.draft.out.fail(error, status, items);
            }
        }
    }

    /// Whether every candidate was told to have ended, or the prompt was refused.
    pub(super) fn has_ended(&self) -> bool {
        let blocked = self.block_reason().is_some();
        blocked || (!self.candidates.is_empty() && self.candidates.iter().all(|c| c.finish.is_some()))
    }

    fn block_reason(&self) -> Option<&str> {
        let word = self.feedback.as_ref()?.block_reason.as_deref()?;
        (!word.is_empty() && !word.ends_with("_UNSPECIFIED") && self.candidates.is_empty()).then_some(word)
    }

    /// A prompt that was refused: an error item, and the content filter.
    fn block(&mut self) -> Option<(UnifiedResponseStatus, Option<UnifiedId>)> {
        let word = self.block_reason()?.to_owned();
        self.told = true;
        let message = self.feedback.as_ref().and_then(|f| f.block_reason_message.clone());
        let text = message.clone().unwrap_or_else(|| format!("the prompt was refused: {word:.60}"));
        let mut error = UnifiedError::new(ErrorCategory::ContentFilter, "prompt-blocked", text);
        error.provider_code = Some(word.chars().take(60).collect());
        let mut row = Row::default();
        let id = self.draft.next_item(&mut row);
        self.draft.whole(&row, &id, UnifiedItemBody::Error(ErrorItem { error }), None);
        let mut status = UnifiedResponseStatus::finished(UnifiedFinishReason::ContentFilter, Some(word.clone()));
        status.safety = Some(SafetyDetail {
            category: Some(word),
            explanation: message.map(|m| throughline_format::error::sanitise(&m)),
        });
        Some((status, Some(id)))
    }

    /// The answer ends badly; what is open stays unfinished.
    pub(super) fn fail(&mut self, error: UnifiedError, reason: UnifiedFinishReason, body: Option<&str>) {
        if let Some(body) = body {
            let kept = self.root_kept(kept::ERROR_BODY, 3, "error", vec!["/error".to_owned()]);
            self.draft.keeper.payload(kept, body.as_bytes().to_vec());
        }
        let items = self.candidates.iter().flat_map(|c| c.row.items.iter().cloned()).collect();
        self.finish_root();
        self.draft.out.fail(error, UnifiedResponseStatus::finished(reason, None), items);
    }

    fn root_kept(&self, schema: &'static str, number: u64, kind: &str, paths: Vec<String>) -> Keep<'static> {
        Keep {
            schema,
            resource_type: ResourceType::Other(kind.into()),
            subject: None,
            resource_id: self.draft.keeper.context.operation_id.resource(ROOT + number),
            paths,
        }
    }

    /// Fields of the response that are kept, usage and candidates as written, and what was lost.
    fn finish_root(&mut self) {
        let prefix = self.prefix();
        if let Some(id) = self.request_id.take() {
            self.draft.out.push(EventBody::ResponseMetadata(ResponseMetadata {
                provider_request_id: Some(id),
                ..ResponseMetadata::default()
            }));
        }
        if !self.spent.is_empty() {
            let mut usage: UnifiedUsage = self.usage.as_ref().map(usage::decode).unwrap_or_default();
            usage.cost = Some(std::mem::take(&mut self.spent));
            self.draft.out.push(EventBody::UsageUpdate(UsageUpdate { usage }));
        }
        let operation = self.draft.keeper.context.operation_id.clone();
        let fields = std::mem::take(&mut self.root);
        self.draft.keeper.fields(None, operation.resource(ROOT), "", fields);
        if let Some(usage) = self.usage.take() {
            let kept = self.root_kept(kept::USAGE, 2, "usage", vec![format!("{prefix}/usageMetadata")]);
            self.draft.keeper.payload(kept, usage.as_str().as_bytes().to_vec());
        }
        let mut shells = Vec::new();
        let mut paths = Vec::new();
        for (n, state) in self.candidates.iter_mut().enumerate() {
            for (key, _) in &state.shell {
                paths.push(format!("{prefix}/candidates/{n}/{key}"));
            }
            let mut members = Vec::new();
            members.extend(state.content.take().map(|content| ("content".to_owned(), object(content))));
            members.append(&mut state.shell);
            let index = ("candidate".to_owned(), json(&state.row.candidate));
            shells.push(object(vec![index, ("members".into(), object(members))]));
        }
        if !shells.is_empty() || !self.form.is_empty() {
            let mut form = std::mem::take(&mut self.form);
            form.push(("candidates".into(), json(&shells)));
            let kept = self.root_kept(kept::ANSWER, 1, "answer", paths);
            self.draft.keeper.payload(kept, object(form).as_str().as_bytes().to_vec());
        }
        self.draft.tell_losses();
    }
}

/// Sets a member; the last value counts and `null` counts as not told.
fn assign(members: &mut Vec<(String, Json)>, key: String, value: Json) {
    if value.as_str() == "null" {
        return;
    }
    match members.iter_mut().find(|(known, _)| *known == key) {
        Some((_, old)) => *old = value,
        None => members.push((key, value)),
    }
}
