//! What root members of the dialects mean: samplers, reasoning, form of the answer, moderation.
//!
//! All of them are kept raw as well, so that the spelling comes back to its owner.

use throughline_format::intent::{
    GrammarFormat, GrammarSyntax, JsonSchemaFormat, OutputFormat, ReasoningEffort, ReasoningIntent, ReasoningMode, ReasoningSummary,
    SafetySetting, Seed,
};
use throughline_format::{Json, UnifiedGenerationIntent, UnifiedIntent};

#[allow(clippy::unnecessary_wraps)] // every place that takes one is optional
fn preferred<T>(value: T) -> Option<UnifiedIntent<T>> {
    Some(UnifiedIntent::preferred(value))
}

/// Settings of dialects that have a word here; they are kept raw as well, so that the spelling comes back.
pub(super) fn dialect_setting(g: &mut UnifiedGenerationIntent, key: &str, value: &Json) {
    let Some(number) = value.parse().as_f64() else { return };
    match key {
        "top_k" => g.top_k = preferred(number),
        "min_p" => g.min_p = preferred(number),
        "repetition_penalty" | "repeat_penalty" => g.repetition_penalty = preferred(number),
        "random_seed" if g.seed.is_none() => g.seed = value.parse().as_i64().map(Seed::from_i64).and_then(preferred),
        _ => {}
    }
}

/// Root members of dialects that say the form of the answer.
pub(super) const FORMAT_MEMBERS: &[&str] = &[
    "structured_outputs",
    "guided_regex",
    "guided_grammar",
    "guided_json",
    "grammar",
    "json_schema",
];

/// The form of the answer that such a member means; they stay raw as well, so that the spelling comes back.
pub(super) fn dialect_format(member: &str, raw: &Json) -> Option<OutputFormat> {
    let grammar =
        |syntax, definition: Option<String>| definition.map(|definition| OutputFormat::Grammar(GrammarFormat { syntax, definition }));
    let schema = |schema: Json| {
        OutputFormat::JsonSchema(JsonSchemaFormat {
            schema,
            name: None,
            description: None,
            strict: None,
        })
    };
    match member {
        "guided_regex" => grammar(GrammarSyntax::Regex, raw.decode().ok()),
        "guided_grammar" | "grammar" => grammar(GrammarSyntax::Other("ebnf".into()), raw.decode().ok()),
        "guided_json" | "json_schema" => raw.is_object().then(|| schema(raw.clone())),
        "structured_outputs" => {
            let value = raw.parse();
            let text = |key: &str| value.get(key).and_then(|v| v.as_str()).map(str::to_owned);
            grammar(GrammarSyntax::Regex, text("regex"))
                .or_else(|| grammar(GrammarSyntax::Other("ebnf".into()), text("grammar")))
                .or_else(|| value.get("json").filter(|j| j.is_object()).map(|j| schema(Json::from_value(j))))
        }
        _ => None,
    }
}

/// What `moderation` asks for: the mode of input and output, with the model as method.
pub(super) fn safety(raw: &Json) -> Option<Vec<SafetySetting>> {
    let value = raw.parse();
    let model = value.get("model").and_then(|m| m.as_str()).map(str::to_owned);
    let settings: Vec<_> = ["input", "output"]
        .iter()
        .filter_map(|side| {
            let mode = value.get("policy")?.get(side)?.get("mode")?.as_str()?;
            Some(SafetySetting {
                category: (*side).to_owned(),
                threshold: mode.to_owned(),
                method: model.clone(),
            })
        })
        .collect();
    (!settings.is_empty()).then_some(settings)
}

/// Members that ask for reasoning in the words of a dialect.
pub(super) const REASONING_MEMBERS: &[&str] = &[
    "reasoning",
    "thinking",
    "enable_thinking",
    "thinking_budget",
    "chat_template_kwargs",
];

/// What OpenAI's member and those of the dialects say about reasoning.
pub(super) fn dialect_reasoning(members: &[(String, Json)], effort: Option<&str>) -> ReasoningIntent {
    let mut r = ReasoningIntent {
        effort: effort.map(ReasoningEffort::from_word).and_then(preferred),
        ..ReasoningIntent::default()
    };
    for (key, value) in members {
        let value = value.parse();
        match key.as_str() {
            "reasoning" => {
                if let Some(word) = value.get("effort").and_then(|v| v.as_str()) {
                    r.effort = preferred(ReasoningEffort::from_word(word));
                }
                if let Some(budget) = value.get("max_tokens").and_then(serde_json::Value::as_u64) {
                    r.budget_tokens = preferred(budget);
                }
                if let Some(on) = value.get("enabled").and_then(serde_json::Value::as_bool) {
                    r.mode = preferred(if on { ReasoningMode::On } else { ReasoningMode::Off });
                }
                if value.get("exclude").and_then(serde_json::Value::as_bool) == Some(true) {
                    r.summary = preferred(ReasoningSummary::None);
                }
            }
            "thinking" => {
                r.mode = match value.get("type").and_then(|v| v.as_str()) {
                    Some("enabled") => preferred(ReasoningMode::On),
                    Some("disabled") => preferred(ReasoningMode::Off),
                    Some("adaptive" | "auto") => preferred(ReasoningMode::Auto),
                    _ => r.mode.take(),
                };
                if let Some(budget) = value.get("budget_tokens").and_then(serde_json::Value::as_u64) {
                    r.budget_tokens = preferred(budget);
                }
            }
            "enable_thinking" => {
                if let Some(on) = value.as_bool() {
                    r.mode = preferred(if on { ReasoningMode::On } else { ReasoningMode::Off });
                }
            }
            "chat_template_kwargs" => {
                let switch = value.get("enable_thinking").or_else(|| value.get("thinking"));
                if let Some(on) = switch.and_then(serde_json::Value::as_bool) {
                    r.mode = preferred(if on { ReasoningMode::On } else { ReasoningMode::Off });
                }
            }
            "thinking_budget" => r.budget_tokens = value.as_u64().and_then(preferred),
            _ => {}
        }
    }
    r
}
