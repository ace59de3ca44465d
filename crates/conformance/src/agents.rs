//! Cases with transcript files: read by their runtime, said to another runtime or as the next request of a protocol.

use crate::case::Case;
use crate::evidence::Evidence;
use crate::fold_view::FoldView;
use crate::query::word;
use crate::wire::{Protocol, json_of, project};
use base64::Engine as _;
use serde_json::{Value, json};
use throughline_agents::{Runtime, Source, SourceFile, Transcript, WriteOptions, next_request, runtime_named};
use throughline_format::item::Visibility;
use throughline_format::{UnifiedItem, UnifiedItemBody};

/// The runtime behind a name of the case format, and the form that it means.
fn runtime(name: &str) -> Option<(&'static dyn Runtime, Option<&'static str>)> {
    let (runtime, form) = match name {
        "claude-code-jsonl" => ("claude-code", None),
        "codex-rollout-jsonl" => ("codex", None),
        "codex-response-items" => ("codex", Some("response-items")),
        "opencode-prelude" => ("opencode", Some("prelude")),
        other => (other, None),
    };
    runtime_named(runtime).map(|runtime| (runtime, form))
}

/// The files of a case.
fn source(input: &Value) -> Result<Source, String> {
    let files = input.get("files").and_then(Value::as_array).ok_or("the case has no files")?;
    let files = files.iter().map(|file| {
        let bytes = match file.get("lines").and_then(Value::as_array) {
            Some(lines) => {
                let lines = lines.iter().filter_map(Value::as_str);
                lines
                    .flat_map(|line| {
                        [
                            line, "
",
                        ]
                    })
                    .collect::<String>()
                    .into_bytes()
            }
            None => base64::engine::general_purpose::STANDARD
                .decode(word(file, "base64"))
                .map_err(|e| e.to_string())?,
        };
        Ok(SourceFile::new(word(file, "name"), bytes))
    });
    Ok(Source {
        files: files.collect::<Result<_, String>>()?,
    })
}

/// The evidence of a case whose input is the files of an agent.
pub(crate) fn evidence(case: &Case) -> Result<Evidence<'_>, String> {
    let name = case.protocol_in.as_deref().unwrap_or("an agent");
    let (from, _) = runtime(name).ok_or_else(|| format!("no crate reads the transcripts of {name}"))?;
    let found = match from.read(&source(&case.input)?) {
        Ok(found) => found,
        Err(error) => return Ok(Evidence::refused(error)),
    };
    let transcript = found.into_iter().next().ok_or("the source has no session")?;
    let mut evidence = Evidence {
        unified: Some(json!({"items": json_of(&transcript.items)?})),
        canonical: Some(canonical(&transcript)?),
        losses: vec![transcript.loss.clone()],
        ..Evidence::default()
    };
    evidence
        .folds
        .insert("journal".to_owned(), json!({"items": json_of(&transcript.items)?}));
    if let Some(to) = &case.protocol_out {
        say(&mut evidence, &transcript, to)?;
        let to = to.clone();
        evidence.repeat = Some(Box::new(move || {
            let mut other = Evidence::default();
            say(&mut other, &transcript, &to)?;
            Ok(other.output)
        }));
    }
    Ok(evidence)
}

/// Says a transcript to a target: a list of native records, or a request body.
fn say(evidence: &mut Evidence<'_>, transcript: &Transcript, to: &str) -> Result<(), String> {
    let Some((target, form)) = runtime(to) else {
        let codec = Protocol::named(to)?.codec;
        let encoded = next_request(transcript, codec.as_ref(), None).map_err(|e| e.to_string())?;
        return project(evidence, &encoded.body, encoded.loss);
    };
    let options = WriteOptions {
        form: form.map(str::to_owned),
        ..WriteOptions::default()
    };
    let written = target.write(transcript, &options).map_err(|e| e.to_string())?;
    let content = written.files.first().map(|file| file.content.as_str()).unwrap_or_default();
    let whole: Option<Value> = serde_json::from_str(content).ok();
    let lines = || content.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    evidence.output = Some(whole.unwrap_or_else(|| Value::Array(lines())));
    evidence.losses.push(written.loss);
    Ok(())
}

/// `{leaves, usage_sum, attribution, warnings, last_call_state}` of what was said.
fn canonical(transcript: &Transcript) -> Result<Value, String> {
    let is_marker = |item: &UnifiedItem| matches!(item.body, UnifiedItemBody::Interruption(_) | UnifiedItemBody::Error(_));
    let said = transcript
        .items
        .iter()
        .filter(|item| item.visibility == Visibility::Model && !is_marker(item));
    let said: Vec<&UnifiedItem> = said.collect();
    let record = json!({"items": json_of(&said)?, "usage": json_of(&transcript.usage_sum())?});
    let view = FoldView::new(&record);
    let attribution: Vec<Value> = said
        .iter()
        .map(|item| json_of(&item.provenance.attribution))
        .collect::<Result<_, _>>()?;
    let last = said.iter().rev().find_map(|item| item.lifecycle());
    Ok(json!({
        "leaves": view.value("leaves"), "usage_sum": view.value("usage"), "attribution": attribution,
        "warnings": transcript.warnings.len(), "last_call_state": last.map(|state| json_of(&state)).transpose()?,
    }))
}
