//! Calls in a stream: their arguments, approvals and results as chunks that name a call which the client knows.

use super::Major;
use super::encode_call::{CANCELLED, Called, DENIED, approval_object, call_of, input};
use super::encode_message::is_hosted_result;
use super::encode_part::Out;
use super::private::{Kept, PROVIDER_METADATA};
use crate::feature::Feature;
use crate::object::Object;
use std::collections::BTreeMap;
use throughline_format::item::ApprovalDecision;
use throughline_format::{Json, UnifiedId, UnifiedItem, UnifiedItemBody, UnifiedProviderDataRef, UnifiedToolLifecycle};

/// A call that was told.
struct Told {
    called: Called,
    item: UnifiedItem,
    dynamic: bool,
    sent: String,
    /// Its whole input was sent.
    is_available: bool,
    /// It has come to an end on the wire.
    is_settled: bool,
    linkage: Option<UnifiedProviderDataRef>,
}

/// The calls of a stream.
#[derive(Default)]
pub(super) struct Calls {
    told: BTreeMap<UnifiedId, Told>,
    by_call: BTreeMap<String, UnifiedId>,
    /// Call of a question.
    questions: BTreeMap<String, UnifiedId>,
    /// States that came before the call was told whole.
    waiting: BTreeMap<UnifiedId, UnifiedToolLifecycle>,
}

impl Calls {
    /// A call begins.
    pub(super) fn begin(&mut self, out: &mut Out<'_>, item: &UnifiedItem, path: &str) -> Vec<Object> {
        let Some(mut called) = call_of(item) else { return Vec::new() };
        let id = called.call_id.clone();
        if self.by_call.contains_key(&id) {
            called.call_id = crate::call_id::wire(&format!("{id}#{}", item.id), 40).into_owned();
            out.loss
                .info(Feature::ToolCallId, format!("{path}/callId"), "an earlier call has the same ID");
        }
        self.by_call.insert(id, item.id.clone());
        let kept = Kept::of(out.context.private.as_ref(), item.provider_data.iter().flatten());
        let dynamic = kept.form.dynamic || called.is_dynamic;
        if let UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) = &item.body {
            out.loss.joined_name(call, path);
            for (member, there) in [("serverLabel", call.server_label.is_some()), ("caller", call.caller.is_some())] {
                if there {
                    out.loss
                        .info(Feature::ToolName, format!("{path}/{member}"), "the target has only a name");
                }
            }
        }
        let mut chunk = Object::of_type("tool-input-start")
            .with("toolCallId", &called.call_id)
            .with("toolName", &called.name);
        if called.is_hosted {
            chunk = chunk.with("providerExecuted", &true);
        }
        if dynamic {
            chunk = chunk.with("dynamic", &true);
        }
        if called.is_text && out.major >= Major::Six {
            chunk = chunk.with("inputEncoding", "text");
        }
        let linkage = match &item.body {
            UnifiedItemBody::ToolCall(call) | UnifiedItemBody::ServerToolCall(call) => call.private_linkage.clone(),
            _ => None,
        };
        let told = Told {
            called,
            item: item.clone(),
            dynamic,
            sent: String::new(),
            is_available: false,
            is_settled: false,
            linkage,
        };
        self.told.insert(item.id.clone(), told);
        vec![chunk]
    }

    /// Private state of a call came.
    pub(super) fn sign(&mut self, item: &UnifiedId, reference: &UnifiedProviderDataRef) {
        if let Some(told) = self.told.get_mut(item) {
            told.linkage = Some(reference.clone());
        }
    }

    /// A piece of the arguments.
    pub(super) fn arguments(&mut self, item: &UnifiedId, text: &str) -> Option<Object> {
        let told = self.told.get_mut(item).filter(|told| !text.is_empty() && !told.is_available)?;
        told.sent.push_str(text);
        Some(
            Object::of_type("tool-input-delta")
                .with("toolCallId", &told.called.call_id)
                .with("inputTextDelta", text),
        )
    }

    /// The arguments are whole; the call is told with its item, when its private state is known too.
    pub(super) fn ready(&mut self, item: &UnifiedId, raw: &str, input: Option<Json>) {
        if let Some(told) = self.told.get_mut(item) {
            raw.clone_into(&mut told.called.raw);
            told.called.input = input;
            told.called.lifecycle = UnifiedToolLifecycle::ArgumentsReady;
        }
    }

    /// The call is whole.
    pub(super) fn whole(&mut self, out: &mut Out<'_>, item: &UnifiedItem, path: &str) -> Vec<Object> {
        let Some(told) = self.told.get_mut(&item.id) else {
            return Vec::new();
        };
        if let Some(fresh) = call_of(item)
            && told.called.lifecycle == UnifiedToolLifecycle::ArgumentsStreaming
            && fresh.lifecycle != UnifiedToolLifecycle::ArgumentsStreaming
        {
            let call_id = std::mem::take(&mut told.called.call_id);
            told.called = Called { call_id, ..fresh };
        }
        let kept = Kept::of(out.context.private.as_ref(), item.provider_data.iter().flatten());
        if let Some(written) = kept.form.get("input").filter(|_| told.called.is_hosted) {
            told.called.input = Some(written.clone());
        }
        let mut chunks = Vec::new();
        let state = told.called.lifecycle;
        if !matches!(state, UnifiedToolLifecycle::ArgumentsStreaming | UnifiedToolLifecycle::Cancelled) {
            chunks.extend(available(out, told, path));
        }
        let waiting = self.waiting.remove(&item.id);
        if let Some(state) = waiting.or(Some(state)) {
            chunks.extend(self.advance(out, &item.id, state));
        }
        chunks
    }

    /// The call goes on to another state.
    pub(super) fn advance(&mut self, out: &mut Out<'_>, item: &UnifiedId, to: UnifiedToolLifecycle) -> Vec<Object> {
        use UnifiedToolLifecycle as S;
        let Some(told) = self.told.get_mut(item) else { return Vec::new() };
        if told.is_settled {
            return Vec::new();
        }
        let error = |told: &mut Told, text: &str| {
            told.is_settled = true;
            let kind = if told.is_available {
                "tool-output-error"
            } else {
                "tool-input-error"
            };
            let mut chunk = Object::of_type(kind).with("toolCallId", &told.called.call_id);
            if !told.is_available {
                chunk = chunk.with("toolName", &told.called.name).with("input", &told.sent);
            }
            if told.dynamic {
                chunk = chunk.with("dynamic", &true);
            }
            vec![chunk.with("errorText", text)]
        };
        match to {
            S::Cancelled if super::is_own(told.item.provenance.profile.as_ref()) => Vec::new(),
            S::Cancelled => {
                let reason = "the target has no state for a cancelled call";
                out.loss.warning(Feature::ConversationInterruption, "/output", reason);
                error(told, CANCELLED)
            }
            // Whether it was denied is told by the answer, when there is one.
            S::ApprovalDenied if out.major < Major::Six => error(told, DENIED),
            S::ArgumentsStreaming
            | S::ArgumentsReady
            | S::ApprovalRequired
            | S::ApprovalApproved
            | S::ApprovalDenied
            | S::Executing
            | S::OutputReady
            | S::OutputError => Vec::new(),
        }
    }

    /// The result of a call.
    pub(super) fn result(&mut self, out: &mut Out<'_>, item: &UnifiedItem, path: &str) -> (Vec<Object>, bool) {
        let told = item
            .call_id()
            .and_then(|id| self.by_call.get(id))
            .and_then(|id| self.told.get_mut(id));
        let Some(told) = told else {
            let reason = "the client knows no call that the result belongs to";
            out.loss.warning(Feature::ConversationOrder, path, reason);
            return (Vec::new(), false);
        };
        let mut chunks: Vec<Object> = available(out, told, path);
        let Some(outcome) = out.outcome(item, path) else {
            return (chunks, false);
        };
        told.is_settled = true;
        let failed = outcome.error.is_some();
        let mut chunk =
            Object::of_type(if failed { "tool-output-error" } else { "tool-output-available" }).with("toolCallId", &told.called.call_id);
        let kept = Kept::of(out.context.private.as_ref(), item.provider_data.iter().flatten());
        match outcome.error {
            Some(error) => chunk.set(
                "errorText",
                kept.form.get("errorText").cloned().unwrap_or_else(|| crate::raw::json(&error)),
            ),
            None => chunk.set("output", kept.form.get("output").cloned().unwrap_or(outcome.output)),
        }
        if told.called.is_hosted {
            chunk = chunk.with("providerExecuted", &true);
        }
        if told.dynamic {
            // Major 5 looks for the call among those of the kind that the chunk names.
            chunk = chunk.with("dynamic", &true);
        }
        if let (Some(metadata), true) = (
            kept.metadata.as_ref().and_then(|m| m.get("resultProviderMetadata")),
            out.major >= Major::Six,
        ) {
            chunk.set("providerMetadata", metadata.clone());
        }
        chunks.push(chunk);
        (chunks, !is_hosted_result(item))
    }

    /// Somebody is asked to approve a call.
    pub(super) fn question(&mut self, out: &mut Out<'_>, item: &UnifiedItem, path: &str) -> Vec<Object> {
        let UnifiedItemBody::ApprovalRequest(request) = &item.body else {
            return Vec::new();
        };
        out.approval_losses(item, path);
        if out.major < Major::Six {
            return Vec::new();
        }
        let known = request.call_id.as_ref().and_then(|id| self.by_call.get(id)).cloned();
        let mut chunks = Vec::new();
        let call_id = if let Some(told) = known.as_ref().and_then(|id| self.told.get_mut(id)) {
            chunks.extend(available(out, told, path));
            told.called.call_id.clone()
        } else {
            // A call of its own asks: the client refuses a question about a call that it does not know.
            out.loss
                .info(Feature::ToolApproval, path, "a call of the same name asks for the approval");
            let raw = request.raw_arguments.clone().unwrap_or_default();
            let call_id = request.call_id.clone().unwrap_or_else(|| request.approval_id.clone());
            let called = Called {
                call_id: call_id.clone(),
                name: request.name.clone().unwrap_or_else(|| request.subject.as_str().to_owned()),
                is_hosted: true,
                is_dynamic: true,
                is_text: false,
                input: Json::of_arguments(&raw),
                raw,
                lifecycle: UnifiedToolLifecycle::ArgumentsReady,
            };
            let mut told = Told {
                called,
                item: item.clone(),
                dynamic: true,
                sent: String::new(),
                is_available: false,
                is_settled: false,
                linkage: None,
            };
            chunks.extend(available(out, &mut told, path));
            self.by_call.insert(call_id.clone(), item.id.clone());
            self.told.insert(item.id.clone(), told);
            call_id
        };
        let about = known.unwrap_or_else(|| item.id.clone());
        self.questions.insert(request.approval_id.clone(), about);
        let reason = approval_object(request, None, "approval-requested").get("requestReason").cloned();
        let chunk = Object::of_type("tool-approval-request")
            .with("approvalId", &request.approval_id)
            .with("toolCallId", &call_id)
            .with_some("reason", reason.filter(|_| out.major >= Major::Seven).as_ref());
        chunks.push(chunk);
        chunks
    }

    /// Somebody answered.
    pub(super) fn answer(&mut self, out: &mut Out<'_>, item: &UnifiedItem, path: &str) -> Vec<Object> {
        let UnifiedItemBody::ApprovalResponse(response) = &item.body else {
            return Vec::new();
        };
        let about = self.questions.get(&response.approval_id).and_then(|id| self.told.get_mut(id));
        let Some(told) = about else {
            let reason = "the client knows no question that the answer belongs to";
            out.loss.warning(Feature::ToolApproval, path, reason);
            return Vec::new();
        };
        out.approval_losses(item, path);
        let denied = response.decision == ApprovalDecision::Denied;
        let mut chunks = Vec::new();
        if out.major >= Major::Seven {
            chunks.push(
                Object::of_type("tool-approval-response")
                    .with("approvalId", &response.approval_id)
                    .with("approved", &!denied)
                    .with_some("reason", response.reason.as_ref()),
            );
        } else if !denied || response.reason.is_some() {
            out.loss
                .info(Feature::ToolApproval, path, "before major 7 a stream tells no answers to approvals");
        }
        if denied {
            told.is_settled = true;
            chunks.push(Object::of_type("tool-output-denied").with("toolCallId", &told.called.call_id));
        }
        chunks
    }

    /// The stream ends: calls whose arguments were cut stay as they are.
    pub(super) fn give_up(&mut self, out: &mut Out<'_>) -> Vec<Object> {
        let mut chunks = Vec::new();
        for told in self.told.values_mut() {
            if told.called.lifecycle == UnifiedToolLifecycle::ArgumentsReady && !told.is_settled {
                chunks.extend(available(out, told, "/output"));
            }
        }
        chunks
    }
}

/// The whole input of a call, once.
fn available(out: &mut Out<'_>, told: &mut Told, path: &str) -> Vec<Object> {
    if std::mem::replace(&mut told.is_available, true) {
        return Vec::new();
    }
    let called = &told.called;
    let is_broken = called.input.is_none() && !called.is_text && !called.raw.trim().is_empty();
    let mut chunk = Object::of_type(if is_broken { "tool-input-error" } else { "tool-input-available" })
        .with("toolCallId", &called.call_id)
        .with("toolName", &called.name);
    chunk.set("input", input(called));
    if called.is_hosted {
        chunk = chunk.with("providerExecuted", &true);
    }
    if told.dynamic {
        chunk = chunk.with("dynamic", &true);
    }
    let metadata = told
        .linkage
        .as_ref()
        .and_then(|reference| crate::keeper::payload_in(out.context.private.as_ref(), [reference], PROVIDER_METADATA))
        .and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
        .and_then(|text| Json::from_text(text).ok())
        .and_then(|json| Object::of(&json))
        .and_then(|object| object.get("callProviderMetadata").cloned());
    match (&metadata, &told.linkage) {
        (Some(metadata), _) => chunk.set("providerMetadata", metadata.clone()),
        (None, Some(_)) => out.loss.info(
            Feature::ReasoningSignature,
            format!("{path}/privateLinkage"),
            "private state stays with its provider",
        ),
        (None, None) => {}
    }
    if is_broken {
        let reason = "arguments that are no JSON are an error of the call";
        out.loss.info(Feature::ToolCallArguments, path, reason);
        chunk = chunk.with("errorText", "The arguments are not valid JSON.");
    }
    vec![chunk]
}
