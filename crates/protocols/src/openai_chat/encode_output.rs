//! The form of the answer to the wire: schema, JSON object, grammar, length.

use super::decode_dialect::{FORMAT_MEMBERS, dialect_format};
use super::dialect::Grammar;
use super::encode_request::{RequestEncoder, message};
use super::private::Entries;
use super::wire;
use crate::capability::Support;
use crate::feature::Feature;
use crate::openai;
use crate::openai::strict_schema::fits_strict;
use crate::wire::{Extra, TextOr};
use serde_json::{Value, json};
use throughline_format::Json;
use throughline_format::intent::{GrammarSyntax, JsonSchemaFormat, OutputFormat};

/// The member of a dialect that said this format, when it came from there.
pub(super) fn written_format(root: &Entries, format: &OutputFormat) -> Option<(String, Json)> {
    FORMAT_MEMBERS.iter().find_map(|member| {
        let raw = root.get(&format!("/{member}"))?;
        (dialect_format(member, raw).as_ref() == Some(format)).then(|| ((*member).to_owned(), raw.clone()))
    })
}

/// Writes what the request wants of the answer's form.
pub(super) fn write(encoder: &mut RequestEncoder, root: &Entries, wire: &mut wire::Request, extra: &mut Extra) {
    let Some(output) = &encoder.request.output else { return };
    if let (Support::Lossless, Some(verbosity)) = (encoder.capabilities.support(Feature::OutputVerbosity), &output.verbosity) {
        if openai::is_foreign_verbosity(encoder.request, &verbosity.value) {
            encoder.loss.intent(
                verbosity.requirement,
                Feature::OutputVerbosity,
                "/output/verbosity",
                openai::UNKNOWN_WORD,
            );
        } else {
            wire.verbosity = Some(verbosity.value.as_str().to_owned());
        }
    }
    let Some(format) = &output.format else { return };
    if let Some(member) = written_format(root, &format.value) {
        extra.0.push(member);
        return;
    }
    let rest = root.level("/response_format", &["json_schema"]);
    let supports = |feature| encoder.capabilities.support(feature) == Support::Lossless;
    let mut note = None;
    let (kind, schema) = match &format.value {
        OutputFormat::Text(_) => ("text", None),
        OutputFormat::JsonObject(_) if supports(Feature::OutputJsonObject) => ("json_object", None),
        OutputFormat::JsonSchema(s) if supports(Feature::OutputSchema) => ("json_schema", Some(self::schema(encoder, root, s))),
        OutputFormat::JsonSchema(s)
            if matches!(encoder.capabilities.support(Feature::OutputSchema), Support::Degraded(_))
                && supports(Feature::OutputJsonObject) =>
        {
            note = Some(format!(
                "Answer with a JSON object that follows this JSON Schema: {}",
                s.schema.as_str()
            ));
            ("json_object", None)
        }
        OutputFormat::Grammar(g) if supports(Feature::OutputGrammar) => {
            let is_regex = g.syntax == GrammarSyntax::Regex;
            match encoder.dialect.grammar {
                Grammar::Structured => {
                    let member = if is_regex { "regex" } else { "grammar" };
                    let value = json!({member: g.definition});
                    extra.0.push(("structured_outputs".into(), Json::from_value(&value)));
                }
                Grammar::Member if !is_regex => {
                    extra
                        .0
                        .push(("grammar".into(), Json::from_value(&Value::String(g.definition.clone()))));
                }
                Grammar::Member | Grammar::None => encoder.loss.intent(
                    format.requirement,
                    Feature::OutputGrammar,
                    "/output/format",
                    "the target has no form for grammars of this kind",
                ),
            }
            return;
        }
        OutputFormat::JsonObject(_) | OutputFormat::JsonSchema(_) | OutputFormat::Grammar(_) | OutputFormat::Media(_) => return,
    };
    if kind == "json_object" && !encoder.same_family && note.is_none() && !mentions_json(&wire.messages) {
        note = Some("Answer with a JSON object.".to_owned());
        encoder.loss.info(
            Feature::OutputJsonObject,
            "/output/format",
            "the target demands the word JSON in a message; a system message with it was added",
        );
    }
    if let Some(text) = note {
        let mut added = message("system");
        added.content = Some(TextOr::Text(text));
        let is_lead = |m: &&wire::Message| matches!(m.role.as_deref(), Some("system" | "developer"));
        let at = wire.messages.iter().take_while(is_lead).count();
        wire.messages.insert(at, added);
    }
    wire.response_format = Some(wire::ResponseFormat {
        kind: Some(kind.into()),
        json_schema: schema,
        extra: rest,
    });
}

fn schema(encoder: &mut RequestEncoder, root: &Entries, format: &JsonSchemaFormat) -> wire::SchemaFormat {
    let name = format
        .name
        .as_deref()
        .map_or_else(|| "response".to_owned(), |n| crate::tool_name::wire(None, n, 64).into_owned());
    if format.name.as_ref().is_some_and(|given| *given != name) {
        encoder.loss.info(
            Feature::OutputSchemaName,
            "/output/format/value/name",
            "the target refuses this name; it gets a replacement derived from it",
        );
    }
    let mut strict = format.strict;
    if !encoder.same_family {
        // Whoever asks for a schema without a word on strictness means it.
        strict = Some(strict.unwrap_or(true));
        if strict == Some(true)
            && let Err(why) = fits_strict(&format.schema.parse())
        {
            strict = Some(false);
            let requirement = encoder
                .request
                .output
                .as_ref()
                .and_then(|o| o.format.as_ref())
                .map(|f| f.requirement);
            encoder.loss.intent(
                requirement.unwrap_or(throughline_format::UnifiedRequirement::Preferred),
                Feature::OutputSchema,
                "/output/format/value/strict",
                format!("the target's strict mode refuses the schema: {why}"),
            );
        }
    }
    wire::SchemaFormat {
        name: Some(name),
        description: format.description.clone(),
        schema: Some(format.schema.clone()),
        strict,
        extra: root.level("/response_format/json_schema", &[]),
    }
}

fn mentions_json(messages: &[wire::Message]) -> bool {
    let has = |text: &str| text.to_ascii_lowercase().contains("json");
    messages.iter().any(|m| match &m.content {
        Some(TextOr::Text(text)) => has(text),
        Some(TextOr::List(parts)) => parts.iter().any(|p| matches!(p, wire::Part::Text(t) if has(&t.text))),
        None => false,
    })
}
