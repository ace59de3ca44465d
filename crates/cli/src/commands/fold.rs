//! `throughline fold`: a stream to its result, with fingerprints.

use crate::args::FoldArguments;
use crate::conversion::{decode_context, fold_stream, stream_bytes};
use crate::error::CliError;
use crate::input::Source;
use crate::output::print_json;
use crate::protocol::Protocol;
use serde::Serialize;
use throughline_format::{Sha256, UnifiedResultV2, content_fingerprint, fingerprint};

/// What the command prints.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FoldReport {
    result: UnifiedResultV2,
    fingerprint: Sha256,
    content_fingerprint: Sha256,
    events: u64,
}

/// Runs the command.
///
/// # Errors
/// [`CliError`] with the exit code.
pub fn run(arguments: &FoldArguments) -> Result<u8, CliError> {
    let from = Protocol::named(&arguments.from)?;
    from.check_dialect("dialect", arguments.dialect.as_deref())?;
    let input = Source::parse(&arguments.file).read()?;
    let context = decode_context(arguments.model.as_deref(), arguments.dialect.as_deref());
    let folded = fold_stream(&from, &context, &stream_bytes(&input, arguments.lines), arguments.split)?;
    let result = folded.fold.result();
    let no_form = |e: throughline_format::canonical::CanonicalError| CliError::input("validation", e.to_string());
    print_json(&FoldReport {
        fingerprint: fingerprint(&result).map_err(no_form)?,
        content_fingerprint: content_fingerprint(&result).map_err(no_form)?,
        events: folded.fold.events(),
        result,
    })?;
    Ok(0)
}
