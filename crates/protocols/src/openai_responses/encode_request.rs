//! Requests to the wire: items to input, legal whatever the history holds.
//!
//! Every call of the client gets its output and every output its call, reasoning stands before what it was made with, IDs of the
//! provider go back to their owner only. Each repair is a loss entry. The rest of the body: [`super::encode_settings`].

use super::CODEX;
use super::encode_history::HistoryEncoder;
use super::encode_settings::Settings;
use super::encode_tools::Tools;
use super::kept;
use super::wire::Node;
use crate::capability::{Capabilities, Support};
use crate::codec::Encoded;
use crate::context::EncodeContext;
use crate::feature::Feature;
use crate::history::{HistoryPiece, WireHistory};
use crate::projection::LossCollector;
use std::collections::BTreeSet;
use throughline_format::intent::OutputFormat;
use throughline_format::{ProtocolFamily, UnifiedRequestV2};

/// Writes a request body.
pub(super) fn encode(request: &UnifiedRequestV2, context: &EncodeContext) -> Encoded {
    let is_own = request.source.profile.family == ProtocolFamily::OpenAiResponses;
    let private = context.private.as_ref();
    let mut capabilities = context.capabilities.clone();
    let entries = kept::root_entries(private);
    let root_form = kept::root_form(private);
    adjust(is_own, &mut capabilities);
    let mut loss = LossCollector::new();
    loss.report_intents(request, &capabilities);
    let mut tools = Tools {
        private,
        capabilities: &capabilities,
        loss: &mut loss,
        is_own,
        names: BTreeSet::new(),
    };
    let offered = tools.list(request);
    let choice = tools.choice(request, &offered);
    let mut settings = Settings {
        private,
        capabilities: Some(&capabilities),
        loss,
        is_own,
        dialect: context.dialect.as_deref(),
    };
    let mut rest = settings.body(request);
    let stores = rest.value::<bool>("store") != Some(false);
    let continues = rest.has("previous_response_id") || rest.has("conversation");
    let mut encoder = HistoryEncoder::new(request, context, settings.loss, stores);
    encoder.continues = continues;
    let (instructions, mut input) = encoder.history();
    let mut loss = encoder.loss;
    json_word(request, is_own, &rest, &mut input, &mut loss);
    let mut body = Node::object([(
        "model",
        Some(Node::text(context.target_model.as_ref().unwrap_or(&request.model.requested))),
    )]);
    if is_own && context.target_model.is_none() && request.model.requested == crate::UNSPECIFIED_MODEL {
        body.take("model");
        loss.remark(Feature::RecordBookkeeping, "/model/requested", "the request names no model");
    }
    if let Some(instructions) = instructions {
        body.put("instructions", Node::text(&instructions));
    } else if context.dialect.as_deref() == Some(CODEX) {
        // The service refuses a request without them.
        body.put("instructions", Node::text(""));
    }
    let text = single_text(&input).filter(|_| root_form.text && is_own);
    if !input.is_empty() || !continues && !rest.has("prompt") {
        body.put("input", text.unwrap_or(Node::List(input)));
    }
    let has_tools = !offered.is_empty();
    if has_tools {
        body.put("tools", Node::List(offered));
    }
    if let Some(choice) = choice {
        body.put("tool_choice", choice);
    }
    if !has_tools && !is_own {
        for (member, feature, path) in [
            ("parallel_tool_calls", Feature::GenerationParallelTools, "/generation/parallelTools"),
            ("max_tool_calls", Feature::GenerationMaxToolCalls, "/generation/maxToolCalls"),
        ] {
            if rest.take(member).is_some() {
                loss.info(feature, path, "there are no tools");
            }
        }
    }
    body.extend(rest);
    let store = body.get("store").cloned();
    if is_own {
        kept::restore(&mut body, &entries, &root_form);
    }
    if let Some(store) = store.filter(|_| context.dialect.as_deref() == Some(CODEX)) {
        body.put("store", store);
    }
    if context.stream {
        body.put("stream", Node::of(&true));
    } else if body.value("stream") == Some(true) {
        body.take("stream");
    }
    Encoded {
        body: body.to_text(),
        loss: loss.finish(),
    }
}

/// The history as input items, without IDs of the provider.
pub(super) fn history(request: &UnifiedRequestV2, context: &EncodeContext) -> WireHistory {
    let mut encoder = HistoryEncoder::new(request, context, LossCollector::new(), false);
    // A history of nothing stays one: only a request must say something.
    encoder.continues = request.conversation.items.is_empty();
    let (_, entries) = encoder.entries();
    let items = &request.conversation.items;
    let pieces = entries.into_iter().enumerate().filter_map(|(message, entry)| {
        Some(HistoryPiece {
            message,
            role: None,
            item: items.get(entry.index)?.id.clone(),
            body: entry.node.to_json(),
        })
    });
    WireHistory {
        pieces: pieces.collect(),
        loss: encoder.loss.finish(),
    }
}

/// What a request of this very protocol can say although the target has no form for it in general.
fn adjust(is_own: bool, capabilities: &mut Capabilities) {
    let own = [Feature::CacheBreakpoints, Feature::CacheMode, Feature::OutputGrammar];
    for feature in own.into_iter().filter(|_| is_own) {
        capabilities.learn(feature, Support::Lossless);
    }
}

/// The text of an input that is one user message with one text.
fn single_text(input: &[Node]) -> Option<Node> {
    let [only] = input else { return None };
    (only.str("role").as_deref() == Some("user"))
        .then(|| only.get("content"))
        .flatten()
        .filter(|content| content.as_text().is_some())
        .cloned()
}

/// The target demands the word JSON in its input where any JSON object is wanted.
fn json_word(request: &UnifiedRequestV2, is_own: bool, rest: &Node, input: &mut Vec<Node>, loss: &mut LossCollector) {
    let format = request.output.as_ref().and_then(|output| output.format.as_ref());
    let wants = format.is_some_and(|format| matches!(format.value, OutputFormat::JsonObject(_)));
    if is_own || !wants || rest.at(&["text", "format"]).is_none() {
        return;
    }
    let has_word = |node: &Node| {
        let content = node.get("content").map(Node::to_text).unwrap_or_default();
        content.to_ascii_lowercase().contains("json")
    };
    if input.iter().any(has_word) {
        return;
    }
    let part = Node::typed("input_text", [("text", Some(Node::text("Answer with a JSON object.")))]);
    let note = Node::typed(
        "message",
        [("role", Some(Node::text("developer"))), ("content", Some(Node::List(vec![part])))],
    );
    input.insert(0, note);
    loss.info(
        Feature::OutputJsonObject,
        "/output/format",
        "the target demands the word JSON in its input; a message with it was added",
    );
}
