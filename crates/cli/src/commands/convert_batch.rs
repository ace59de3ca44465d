//! `throughline convert --batch`: one conversion a line. A bad line gets an error of its own and stops no other.

use crate::conversion::{Conversion, Options};
use crate::error::CliError;
use crate::input::{Line, MAX_BODY_BYTES, MAX_LINE_BYTES, Source, read_line};
use crate::output::{Reader, print_json};
use crate::report::ConversionReport;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A job as one input line has it; the members of [`Options`] stand beside these.
#[derive(Deserialize)]
struct Job<'a> {
    #[serde(borrow)]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    from: Cow<'a, str>,
    #[serde(default, borrow)]
    to: Option<Cow<'a, str>>,
    #[serde(borrow)]
    body: &'a RawValue,
}

/// Only the ID of a line, so that its answer can be found even when the rest is wrong.
#[derive(Default, Deserialize)]
struct JobId<'a> {
    #[serde(default, borrow)]
    id: Option<&'a RawValue>,
}

/// Members that are the job's own; the rest are options.
const JOB_MEMBERS: [&str; 5] = ["id", "kind", "from", "to", "body"];

/// One output line.
#[derive(Serialize)]
struct Answer<'a> {
    id: Option<&'a RawValue>,
    exit: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CliError>,
    #[serde(flatten)]
    report: Option<ConversionReport>,
}

/// Runs the command. The exit code is 0 when every line was answered, whatever the answers are.
///
/// # Errors
/// When the input cannot be read or the output not be written.
pub fn run(source: &Source) -> Result<u8, CliError> {
    let mut reader = source.open()?;
    loop {
        let line = match read_line(&mut *reader, MAX_LINE_BYTES).map_err(|e| CliError::io("cannot read the batch", &e))? {
            Line::End => return Ok(0),
            Line::TooLong => Err(CliError::too_large("the line", MAX_LINE_BYTES)),
            Line::Text(text) if text.trim_ascii().is_empty() => continue,
            Line::Text(text) => Ok(text),
        };
        let id = line
            .as_deref()
            .ok()
            .and_then(|text| serde_json::from_slice::<JobId<'_>>(text).ok())
            .unwrap_or_default()
            .id;
        let answer = match line.as_deref().map_err(Clone::clone).and_then(fenced) {
            Ok(report) => Answer {
                id,
                exit: report.exit,
                error: None,
                report: Some(report),
            },
            Err(error) => Answer {
                id,
                exit: error.exit(),
                error: Some(error),
                report: None,
            },
        };
        if print_json(&answer)? == Reader::Gone {
            return Ok(0);
        }
    }
}

/// A fault in one conversion must not take the answers of the others with it.
fn fenced(line: &[u8]) -> Result<ConversionReport, CliError> {
    catch_unwind(AssertUnwindSafe(|| convert(line))).unwrap_or_else(|_| {
        Err(CliError::internal(
            "panic",
            "this conversion met a fault of the program; the others go on",
        ))
    })
}

fn convert(line: &[u8]) -> Result<ConversionReport, CliError> {
    let text = std::str::from_utf8(line).map_err(|_| CliError::input("json", "the line is not UTF-8"))?;
    // Not scanned for depth: the body is scanned by its decoder, and nothing else of the line nests.
    let job: Job<'_> = throughline_format::json::decode::decode_unscanned(text.as_bytes())?;
    let conversion = Conversion::new(&job.kind, &job.from, job.to.as_deref(), options(text)?)?;
    let body = if job.kind == "stream" {
        stream_text(job.body)?
    } else {
        Cow::Borrowed(job.body.get().as_bytes())
    };
    if body.len() > MAX_BODY_BYTES {
        return Err(CliError::too_large("the body", MAX_BODY_BYTES));
    }
    conversion.run(&body)
}

/// The members of a line that are no member of the job, as options.
fn options(text: &str) -> Result<Options, CliError> {
    let members: std::collections::BTreeMap<Cow<'_, str>, &RawValue> = serde_json::from_str(text).unwrap_or_default();
    let rest: std::collections::BTreeMap<_, _> = members
        .into_iter()
        .filter(|(name, _)| !JOB_MEMBERS.contains(&name.as_ref()))
        .collect();
    if rest.is_empty() {
        return Ok(Options::default());
    }
    let rest = serde_json::to_string(&rest).map_err(|e| CliError::internal("output", e.to_string()))?;
    Ok(throughline_format::json::decode_str(&rest)?)
}

/// The bytes of a stream's text. A lone surrogate has no UTF-8 form; its bytes are kept as they are, for the decoder to replace.
fn stream_text(body: &RawValue) -> Result<Cow<'static, [u8]>, CliError> {
    struct Bytes;
    impl serde::de::Visitor<'_> for Bytes {
        type Value = Vec<u8>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the text of a stream")
        }
        fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }
    if !body.get().starts_with('"') {
        return Err(CliError::input("wrong-type", "the body of a stream is its text as a JSON string").at("/body"));
    }
    let mut deserializer = serde_json::Deserializer::from_str(body.get());
    deserializer
        .deserialize_bytes(Bytes)
        .map(Cow::Owned)
        .map_err(|e| CliError::input("json", e.to_string()).at("/body"))
}
