//! Unstreamed responses to the wire.

use super::encode_hosted::{is_companion, may_have_companion};
use super::encode_item::{Mode, Writer, is_own};
use super::wire::Node;
use super::{kept, usage};
use crate::codec::Encoded;
use crate::context::{EncodeContext, PrivateState};
use crate::feature::Feature;
use crate::openai::{UNKNOWN_TIER, errors, tier_of_answer};
use crate::projection::LossCollector;
use crate::turn_usage;
use throughline_format::loss::LossSeverity;
use throughline_format::{
    ProtocolFamily, UnifiedError, UnifiedItem, UnifiedItemBody, UnifiedResponseStatus, UnifiedResultV2, UnifiedUsage,
};

/// Schema of an error body that came in place of a response.
pub(super) const ERROR_BODY: &str = "openai-responses/error-body@1";

/// Writes a response body.
pub(super) fn encode(result: &UnifiedResultV2, context: &EncodeContext) -> Encoded {
    let private = context.private.as_ref();
    let is_own = result.provenance.profile.family == ProtocolFamily::OpenAiResponses;
    let mut loss = LossCollector::new();
    if let Some(body) = private.root_payload(ERROR_BODY).filter(|_| is_own && result.error.is_some()) {
        for member in ["status", "error", "model"] {
            loss.remark(
                Feature::ResponseFinishReason,
                format!("/{member}"),
                "the body is the error as it came",
            );
        }
        return Encoded {
            body: String::from_utf8_lossy(&body).into_owned(),
            loss: loss.finish(),
        };
    }
    let output = output(result, context, &mut loss);
    report(result, private, is_own, &mut loss);
    let mut body = response(result, context, is_own);
    body.put("output", Node::List(output));
    Encoded {
        body: body.to_text(),
        loss: loss.finish(),
    }
}

/// The items of the output in wire form.
fn output(result: &UnifiedResultV2, context: &EncodeContext, loss: &mut LossCollector) -> Vec<Node> {
    let mut writer = Writer::new(context.private.as_ref(), Mode::Answer);
    let mut used = vec![false; result.output.len()];
    let mut nodes = Vec::new();
    for (index, item) in result.output.iter().enumerate() {
        if used.get(index) == Some(&true) {
            continue;
        }
        let (mut group, mut places) = (vec![item], vec![index]);
        let reach = if may_have_companion(&item.body) { usize::MAX } else { 0 };
        let mut later = result.output.iter().enumerate().skip(index + 1).take(reach);
        if let Some((n, second)) = later.find(|(n, second)| used.get(*n) == Some(&false) && is_companion(&item.body, &second.body)) {
            group.push(second);
            places.push(n);
            if let Some(used) = used.get_mut(n) {
                *used = true;
            }
        }
        match write(&mut writer, &group) {
            Some(node) => nodes.push(node),
            None => group
                .iter()
                .zip(&places)
                .for_each(|(item, at)| unsaid(loss, item, &format!("/output/{at}"))),
        }
        for note in writer.notes.drain(..) {
            note.tell(loss, &format!("/output/{index}"), Some(&item.id));
        }
        if let (Some(second), Some(at)) = (group.get(1), places.get(1)) {
            companion(loss, second, &format!("/output/{at}"));
        }
    }
    nodes
}

/// What of an outcome stands in the item of its call.
pub(super) fn companion(loss: &mut LossCollector, item: &UnifiedItem, path: &str) {
    if is_own(item) {
        for member in ["outcome", "output", "name"] {
            let reason = "the target says it in the item of the call";
            loss.remark(Feature::RecordBookkeeping, format!("{path}/{member}"), reason);
        }
        return;
    }
    let reason = "of what a hosted tool of another vendor gave, the target has addresses and text only";
    loss.add_for(LossSeverity::Info, Feature::ToolCallHosted, path, reason, Some(&item.id));
}

/// One wire item with an ID: the provider's for its owner, else one made of the item's own.
pub(super) fn write(writer: &mut Writer<'_>, group: &[&UnifiedItem]) -> Option<Node> {
    let mut node = writer.group(group)?;
    if node.get("id").is_none() {
        let id = group
            .first()
            .map(|item| item_id(&node.kind(), item.id.as_str()))
            .unwrap_or_default();
        Writer::put_id(&mut node, &id);
    }
    Some(node)
}

/// Says that an item has no form for this client.
pub(super) fn unsaid(loss: &mut LossCollector, item: &UnifiedItem, path: &str) {
    use UnifiedItemBody as B;
    let (severity, feature, reason) = match &item.body {
        B::ProviderSwitch(_) | B::Interruption(_) | B::Error(_) => {
            loss.marker(path, &item.id);
            return;
        }
        B::Artifact(_) => (
            LossSeverity::Warning,
            Feature::PartArtifact,
            "an artifact has no form for this client",
        ),
        B::ApprovalRequest(_) | B::ApprovalResponse(_) => (
            LossSeverity::Warning,
            Feature::ToolApproval,
            "this client knows approvals of MCP servers only",
        ),
        B::CompactionSummary(_) => (LossSeverity::Info, Feature::ConversationItem, "a summary of another owner"),
        B::Message(_)
        | B::Reasoning(_)
        | B::ToolCall(_)
        | B::ToolResult(_)
        | B::ServerToolCall(_)
        | B::ServerToolResult(_)
        | B::ComputerAction(_)
        | B::ComputerActionResult(_)
        | B::CodeExecution(_)
        | B::CodeExecutionResult(_)
        | B::SearchResult(_)
        | B::RetrievalResult(_)
        | B::Reference(_) => (
            LossSeverity::Warning,
            Feature::ToolCallHosted,
            "calls of another vendor's hosted tools and what they found have no form for this client",
        ),
    };
    loss.add_for(severity, feature, path, reason, Some(&item.id));
}

/// An ID of a type, made of our own.
pub(super) fn item_id(kind: &str, id: &str) -> String {
    let prefix = match kind {
        "message" => "msg",
        "reasoning" => "rs",
        "function_call" => "fc",
        "custom_tool_call" => "ctc",
        "web_search_call" => "ws",
        "file_search_call" => "fs",
        "code_interpreter_call" => "ci",
        "image_generation_call" => "ig",
        "mcp_call" => "mcp",
        "mcp_list_tools" => "mcpl",
        "mcp_approval_request" => "mcpr",
        "computer_call" => "cu",
        "local_shell_call" => "lsh",
        "shell_call" => "sh",
        "apply_patch_call" => "apc",
        "compaction" => "cmp",
        _ => "item",
    };
    format!("{prefix}_{}", plain_id(id))
}

/// Our ID in the alphabet of the wire.
fn plain_id(id: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

/// The provider's ID of the response for its owner, else one of ours.
pub(super) fn response_id(response_id: &str, context: &EncodeContext, is_own: bool) -> String {
    let own = context.private.root_payload(kept::RESPONSE_ID).filter(|_| is_own);
    own.and_then(|bytes| String::from_utf8(bytes.to_vec()).ok())
        .unwrap_or_else(|| format!("resp_{}", plain_id(response_id)))
}

/// The response object without its output.
pub(super) fn response(result: &UnifiedResultV2, context: &EncodeContext, is_own: bool) -> Node {
    let private = context.private.as_ref();
    let mut body = Node::object([
        ("id", Some(Node::text(&response_id(result.response_id.as_str(), context, is_own)))),
        ("object", Some(Node::text("response"))),
        ("created_at", Some(Node::of(&context.created_at.seconds()))),
    ]);
    let model = context.target_model.as_ref().unwrap_or(&result.model.model);
    let counted = result.usage.as_ref().map(|usage| turn_usage::of_answer(usage).0);
    let counted = counted.as_ref().filter(|usage| **usage != UnifiedUsage::default());
    let own = plain(
        model,
        result.model.service_tier.as_deref(),
        &result.status,
        counted,
        result.error.as_ref(),
    );
    body.extend(own);
    if let Some(counters) = counted.filter(|_| !is_own) {
        body.put("usage", usage::encode(counters, true).0);
    }
    if !is_own {
        in_own_words(&mut body, result, model);
    }
    if is_own {
        kept::restore(&mut body, &kept::root_entries(private), &kept::root_form(private));
    }
    // Members that the official types demand and that say nothing.
    for (key, value) in [
        ("error", Node::null()),
        ("incomplete_details", Node::null()),
        ("instructions", Node::null()),
        ("metadata", Node::Object(Vec::new())),
        ("output", Node::List(Vec::new())),
        ("parallel_tool_calls", Node::of(&true)),
        ("temperature", Node::null()),
        ("tool_choice", Node::text("auto")),
        ("tools", Node::List(Vec::new())),
        ("top_p", Node::null()),
    ] {
        if !body.has(key) && (!is_own || value.is_null() || key == "output") {
            body.put(key, value);
        }
    }
    if is_own && context.target_model.is_some() {
        body.put("model", Node::text(model));
    }
    body
}

/// The words of another vendor's answer that the wire has a closed list for: its own, or none. The report names what is left out.
fn in_own_words(body: &mut Node, result: &UnifiedResultV2, model: &str) {
    body.put("model", Node::text(model));
    let tier = result.model.service_tier.as_deref();
    match tier.and_then(|tier| tier_of_answer(tier, false)) {
        Some(word) => body.put("service_tier", Node::text(word)),
        None => drop(body.take("service_tier")),
    }
    let reason = body.at(&["incomplete_details", "reason"]).and_then(Node::as_text);
    if reason.is_some_and(|reason| !INCOMPLETE.contains(&reason.as_str())) {
        body.put("incomplete_details", Node::null());
    }
    if let Some(error) = result
        .error
        .as_ref()
        .filter(|_| body.get("error").is_some_and(|error| error.has("code")))
    {
        body.put(
            "error",
            Node::object([
                ("code", Some(Node::text(errors::code_of_response(error)))),
                ("message", Some(Node::text(&error.message))),
            ]),
        );
    }
}

/// Reasons for which a response is incomplete.
const INCOMPLETE: [&str; 4] = ["max_output_tokens", "content_filter", "max_messages", "steered"];

/// What the record says of a response as a whole.
pub(super) fn plain(
    model: &str,
    tier: Option<&str>,
    status: &UnifiedResponseStatus,
    counters: Option<&UnifiedUsage>,
    error: Option<&UnifiedError>,
) -> Node {
    let (word, reason, _) = usage::words(status);
    let details = reason
        .filter(|_| word == "incomplete")
        .map(|reason| Node::object([("reason", Some(Node::text(&reason)))]));
    let error = error.filter(|_| word == "failed").map(|error| {
        let value = errors::object(error);
        let code = error.provider_code.clone().or_else(|| {
            let code = value.pointer("/error/code").and_then(|code| code.as_str());
            code.map(str::to_owned)
        });
        Node::object([
            ("code", code.as_deref().map(Node::text)),
            ("message", Some(Node::text(&error.message))),
        ])
    });
    Node::object([
        ("object", Some(Node::text("response"))),
        ("status", Some(Node::text(word))),
        ("error", error),
        ("incomplete_details", details),
        ("model", (model != crate::UNSPECIFIED_MODEL).then(|| Node::text(model))),
        ("service_tier", tier.map(Node::text)),
        ("usage", counters.map(|counters| usage::encode(counters, false).0)),
        ("tool_usage", counters.and_then(usage::tool_usage)),
    ])
}

/// What a response has no place for.
pub(super) fn report(result: &UnifiedResultV2, private: &dyn PrivateState, is_own: bool, loss: &mut LossCollector) {
    use throughline_format::UnifiedFinishReason as R;
    if result.alternatives.is_some() {
        loss.warning(Feature::ResponseCandidates, "/alternatives", "the target has one answer");
    }
    if result.state.is_some() && !is_own {
        let reason = "state at another provider stays with it";
        loss.info(Feature::StateResources, "/state", reason);
    }
    let tier = result.model.service_tier.as_deref();
    if tier.is_some_and(|tier| tier_of_answer(tier, is_own).is_none()) {
        loss.info(Feature::GenerationServiceTier, "/model/serviceTier", UNKNOWN_TIER);
    }
    // What the owner told in words of its own is kept beside the record and comes back.
    let is_kept = is_own && !kept::root_entries(private).is_empty();
    if let Some(counters) = turn_usage::counters(loss, result.usage.as_ref()).filter(|_| !is_kept) {
        for member in usage::encode(&counters, !is_own).1 {
            let reason = "the target has no counter for it, or not without one that is unknown";
            loss.info(Feature::ResponseUsage, format!("/usage/{member}"), reason);
        }
    }
    if result.usage.as_ref().is_some_and(|counters| counters.server_tool_calls.is_some()) {
        let reason = "searches stand apart from the tokens; other calls have no counter";
        loss.remark(Feature::ResponseUsage, "/usage/serverToolCalls", reason);
    }
    let (word, reason, is_all) = usage::words(&result.status);
    let told = [Some(word.to_owned()), reason];
    if matches!(result.status.finish_reason, Some(R::ToolCalls | R::RequiresAction | R::Refusal)) {
        loss.remark(
            Feature::ResponseFinishReason,
            "/status/finishReason",
            "the target tells it by the items only",
        );
    }
    if !is_all || result.status.original_reason.is_some() && !told.contains(&result.status.original_reason) {
        let why = "the target has a status and a reason only";
        for member in ["finishReason", "originalReason"] {
            loss.info(Feature::ResponseFinishReason, format!("/status/{member}"), why);
        }
    }
    for (path, feature, is_there) in [
        (
            "/status/stopSequence",
            Feature::ResponseFinishReason,
            result.status.stop_sequence.is_some(),
        ),
        ("/status/safety", Feature::ResponseSafety, result.status.safety.is_some()),
        ("/model/requested", Feature::ConversationItem, result.model.requested.is_some()),
        (
            "/model/modelProvider",
            Feature::ConversationItem,
            result.model.model_provider.is_some(),
        ),
        ("/model/version", Feature::ConversationItem, result.model.version.is_some()),
        ("/model/family", Feature::ConversationItem, result.model.family.is_some()),
    ] {
        if is_there {
            loss.info(feature, path, "the target has no form for it");
        }
    }
    if let Some(error) = &result.error {
        let (word, ..) = usage::words(&result.status);
        if word != "failed" {
            loss.untold_error(result);
        } else if error.http_status.is_some() || error.retry_after_ms.is_some() || error.field_path.is_some() {
            loss.info(Feature::ResponseFinishReason, "/error", "the target tells code and message only");
        } else {
            for member in ["category", "retryable", "code", "providerCode", "providerRequestId", "grpcStatus"] {
                let reason = "the target tells code and message only";
                loss.info(Feature::ResponseFinishReason, format!("/error/{member}"), reason);
            }
        }
    }
}
