//! Reasoning intents to the wire: as an effort, or by the switch of a dialect.

use super::decode_dialect::{REASONING_MEMBERS, dialect_reasoning};
use super::dialect::Switch;
use super::encode_request::RequestEncoder;
use super::private::Entries;
use super::wire;
use crate::capability::Support;
use crate::feature::Feature;
use crate::openai;
use crate::wire::Extra;
use serde_json::{Map, Value, json};
use throughline_format::intent::{ReasoningEffort, ReasoningMode, ReasoningSummary, UnifiedRequirement};
use throughline_format::{Count, Json, UnifiedRequestV2};

/// The reasoning members of a dialect, when they still say what the record says; with OpenAI's own member beside them.
#[allow(clippy::type_complexity)] // used here only
pub(super) fn members(request: &UnifiedRequestV2, root: &Entries) -> Option<(Vec<(String, Json)>, Option<String>)> {
    let members: Vec<(String, Json)> = REASONING_MEMBERS
        .iter()
        .filter_map(|m| root.get(&format!("/{m}")).map(|v| ((*m).to_owned(), v.clone())))
        .collect();
    if members.is_empty() {
        return None;
    }
    let wanted = request.generation.reasoning.clone().unwrap_or_default();
    if dialect_reasoning(&members, None) == wanted {
        return Some((members, None));
    }
    let effort = wanted.effort.as_ref().map(|e| e.value.as_str().to_owned());
    (dialect_reasoning(&members, effort.as_deref()) == wanted).then_some((members, effort))
}

/// Writes what the request wants of reasoning.
pub(super) fn write(encoder: &mut RequestEncoder, root: &Entries, wire: &mut wire::Request, extra: &mut Extra) {
    let request = encoder.request;
    if let Some((members, effort)) = members(request, root) {
        extra.0.extend(members);
        wire.reasoning_effort = effort;
        if request.generation.reasoning.as_ref().is_some_and(|r| r.mode.is_some()) {
            encoder.loss.remark(
                Feature::WireSpelling,
                "/generation/reasoning/mode",
                "said by the switch of the dialect",
            );
        }
        return;
    }
    let Some(wanted) = &request.generation.reasoning else { return };
    let dialect = encoder.dialect;
    let takes_effort = matches!(encoder.capabilities.support(Feature::GenerationReasoningEffort), Support::Lossless);
    let takes_budget = matches!(encoder.capabilities.support(Feature::GenerationReasoningBudget), Support::Lossless);
    let mode = wanted.mode.as_ref().map(|m| &m.value);
    let budget = wanted.budget_tokens.as_ref().map(|b| b.value);
    let foreign = wanted.effort.as_ref().filter(|e| openai::is_foreign_effort(request, &e.value));
    if let Some(effort) = foreign {
        let path = "/generation/reasoning/effort";
        encoder
            .loss
            .intent(effort.requirement, Feature::GenerationReasoningEffort, path, openai::UNKNOWN_WORD);
    }
    let known = wanted.effort.as_ref().filter(|_| foreign.is_none());
    let word = known.map(|e| e.value.as_str().to_owned());
    let is_off = mode == Some(&ReasoningMode::Off) || mode.is_none() && word.as_deref() == Some("none");
    let is_on = !is_off && (mode == Some(&ReasoningMode::On) || word.is_some() || budget.is_some());
    // The effort that goes on the wire, in a word of the dialect.
    let mut effort = match (&word, budget) {
        (Some(word), _) => Some(word.clone()),
        (None, Some(budget)) if !takes_budget => Some(effort_of_budget(budget).as_str().to_owned()),
        _ => None,
    };
    if let Some(given) = effort.as_mut().filter(|_| takes_effort) {
        let known = dialect.effort(given).into_owned();
        if known != *given && word.is_some() && !is_off {
            let requirement = wanted.effort.as_ref().map_or(UnifiedRequirement::Optional, |e| e.requirement);
            encoder.loss.intent(
                requirement,
                Feature::GenerationReasoningEffort,
                "/generation/reasoning/effort",
                "the dialect does not know this effort; the next one that it knows is asked for",
            );
        }
        *given = known;
    }
    effort = effort.filter(|_| takes_effort);
    let mut put = |member: &str, value: Value| extra.0.push((member.to_owned(), Json::from_value(&value)));
    match dialect.switch {
        Switch::Effort if !is_off => {
            let medium = || (takes_effort && mode == Some(&ReasoningMode::On)).then(|| dialect.effort("medium").into_owned());
            wire.reasoning_effort = effort.or_else(medium);
        }
        Switch::Effort => switch_off(encoder, wire, word),
        Switch::Thinking | Switch::Adaptive => {
            let on = if dialect.switch == Switch::Thinking {
                "enabled"
            } else {
                "adaptive"
            };
            if is_off || is_on {
                put("thinking", json!({"type": if is_off { "disabled" } else { on }}));
            }
            wire.reasoning_effort = effort.filter(|_| !is_off);
        }
        Switch::EnableThinking => {
            if is_off || is_on {
                put("enable_thinking", json!(is_on));
            }
            if let Some(budget) = budget.filter(|_| is_on) {
                put("thinking_budget", json!(budget));
            }
        }
        Switch::Template => {
            if is_off || mode == Some(&ReasoningMode::On) {
                put("chat_template_kwargs", json!({"enable_thinking": !is_off}));
            }
            wire.reasoning_effort = effort.filter(|_| !is_off);
        }
        Switch::Reasoning => {
            let mut object = Map::new();
            if is_off {
                object.insert("enabled".into(), json!(false));
            } else if let Some(word) = effort {
                object.insert("effort".into(), json!(word));
                if let Some(asked) = &wanted.budget_tokens {
                    encoder.loss.otherwise(
                        asked.requirement,
                        Feature::GenerationReasoningBudget,
                        "/generation/reasoning/budgetTokens",
                        "the dialect takes an effort or a budget; the effort is sent",
                    );
                }
            } else if let Some(budget) = budget {
                object.insert("max_tokens".into(), json!(budget));
            } else if is_on {
                object.insert("enabled".into(), json!(true));
            }
            if wanted.summary.as_ref().is_some_and(|s| s.value == ReasoningSummary::None) {
                object.insert("exclude".into(), json!(true));
            }
            if !object.is_empty() {
                put("reasoning", Value::Object(object));
            }
        }
    }
}

/// Without thinking: models that do not reason refuse an effort, so it is said only where every model of the dialect knows the word.
fn switch_off(encoder: &mut RequestEncoder, wire: &mut wire::Request, word: Option<String>) {
    let dialect = encoder.dialect;
    let is_openai = matches!(dialect.name, "openai" | "azure");
    let takes_effort = matches!(encoder.capabilities.support(Feature::GenerationReasoningEffort), Support::Lossless);
    if takes_effort && !is_openai && dialect.efforts.contains(&"none") {
        wire.reasoning_effort = Some("none".into());
        return;
    }
    if takes_effort && is_openai && word.is_some() {
        wire.reasoning_effort = word;
        return;
    }
    let mode = encoder.request.generation.reasoning.as_ref().and_then(|r| r.mode.as_ref());
    encoder.loss.intent(
        mode.map_or(UnifiedRequirement::Optional, |m| m.requirement),
        Feature::GenerationReasoningMode,
        "/generation/reasoning/mode",
        "the target has no switch that all of its models take; the model's default applies",
    );
}

/// The effort that a budget stands for.
fn effort_of_budget(tokens: Count) -> ReasoningEffort {
    match tokens {
        0..=1_024 => ReasoningEffort::Minimal,
        1_025..=4_096 => ReasoningEffort::Low,
        4_097..=16_384 => ReasoningEffort::Medium,
        _ => ReasoningEffort::High,
    }
}
