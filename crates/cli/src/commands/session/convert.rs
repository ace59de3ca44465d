//! `throughline session convert`: a session to another agent's form, or to the next request body of a protocol.

use super::{choose, runtime, sources};
use crate::error::{CliError, EXIT_UNSUPPORTED};
use crate::output::print_json;
use crate::protocol::Protocol;
use serde::Serialize;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use throughline_agents::{Source, SourceFile, Transcript, Warning, WriteOptions, WrittenFile, next_request};
use throughline_format::{Sha256, UnifiedItem, UnifiedLossReport};

/// Arguments of `session convert`.
#[derive(Debug, clap::Args)]
pub struct ConvertArguments {
    /// Agent that wrote the session.
    #[arg(long, value_name = "AGENT")]
    from: String,
    /// Agent to convert to, or protocol of the next request.
    #[arg(long, value_name = "AGENT|PROTOCOL", required_unless_present = "canonical")]
    to: Option<String>,
    /// A second form of the target: response-items (codex), prelude (opencode), json (gemini-cli), rows or sql (sna-blocks).
    #[arg(long, value_name = "FORM", requires = "to")]
    form: Option<String>,
    /// Print the journal items instead.
    #[arg(long)]
    canonical: bool,
    /// Which session, when there are several.
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Model that will go on, for messages that do not tell theirs, and for a request.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Folder to write the files to; default: their content is in the report.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The session: a file, or a folder that the agent keeps; - is standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Serialize)]
struct Canonical<'a> {
    items: &'a [UnifiedItem],
    warnings: &'a [Warning],
    loss: &'a UnifiedLossReport,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    from: &'a str,
    to: &'a str,
    items: usize,
    files: Vec<FileEntry>,
    warnings: &'a [Warning],
    decode_loss: &'a UnifiedLossReport,
    loss: UnifiedLossReport,
}

/// A file of a report.
#[derive(Serialize)]
pub(super) struct FileEntry {
    path: String,
    bytes: usize,
    sha256: Sha256,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
}

/// Runs the command.
pub(super) fn run(arguments: &ConvertArguments) -> Result<u8, CliError> {
    let from = runtime(&arguments.from)?;
    let mut found = Vec::new();
    let mut refused = None;
    for source in load(from.name(), &arguments.file)? {
        match from.read(&source) {
            Ok(transcripts) => found.extend(transcripts),
            Err(error) => refused = Some(error),
        }
    }
    if let (true, Some(error)) = (found.is_empty(), refused) {
        return Err(error.into());
    }
    let transcript = choose(found, arguments.session.as_deref())?;
    if arguments.canonical {
        print_json(&Canonical {
            items: &transcript.items,
            warnings: &transcript.warnings,
            loss: &transcript.loss,
        })?;
        return Ok(0);
    }
    let to = arguments.to.as_deref().unwrap_or_default();
    let (files, loss) = say(&transcript, to, arguments)?;
    let exit = if loss.is_unsupported() { EXIT_UNSUPPORTED } else { 0 };
    print_json(&Report {
        from: from.name(),
        to,
        items: transcript.items.len(),
        files: write(files, arguments.output.as_deref())?,
        warnings: &transcript.warnings,
        decode_loss: &transcript.loss,
        loss,
    })?;
    Ok(exit)
}

/// The sources behind a path.
fn load(runtime: &str, path: &Path) -> Result<Vec<Source>, CliError> {
    if path.as_os_str() == "-" {
        let bytes = crate::input::Source::Stdin.read()?;
        return Ok(vec![Source {
            files: vec![SourceFile::new("session.jsonl", bytes)],
        }]);
    }
    sources::units(runtime, path)?.iter().map(sources::Unit::load).collect()
}

/// Says a transcript to an agent or a protocol.
fn say(transcript: &Transcript, to: &str, arguments: &ConvertArguments) -> Result<(Vec<WrittenFile>, UnifiedLossReport), CliError> {
    if let Some(target) = throughline_agents::runtime_named(to) {
        let options = WriteOptions {
            form: arguments.form.clone(),
            model: arguments.model.clone(),
            ..WriteOptions::default()
        };
        let written = target.write(transcript, &options)?;
        return Ok((written.files, written.loss));
    }
    if arguments.form.is_some() {
        return Err(CliError::usage("--form: only an agent has forms"));
    }
    let protocol = Protocol::named(to)?;
    let encoded = next_request(transcript, protocol.codec.as_ref(), arguments.model.as_deref())?;
    let file = WrittenFile {
        path: "request.json".to_owned(),
        content: encoded.body + "\n",
    };
    // Nothing may be sent when a required intent is lost.
    let files = if encoded.loss.is_unsupported() { Vec::new() } else { vec![file] };
    Ok((files, encoded.loss))
}

/// Writes files to a folder, or puts them into the report. A file that is there already is never replaced.
pub(super) fn write(files: Vec<WrittenFile>, folder: Option<&Path>) -> Result<Vec<FileEntry>, CliError> {
    let mut entries = Vec::new();
    for file in files {
        if let Some(folder) = folder {
            create(&folder.join(&file.path), &file.content)?;
        }
        entries.push(FileEntry {
            bytes: file.content.len(),
            sha256: Sha256::of(file.content.as_bytes()),
            path: file.path,
            content: folder.is_none().then_some(file.content),
        });
    }
    Ok(entries)
}

/// Makes a file with its folders, for its owner only. One with the same content may be there already, another may not.
pub(super) fn create(path: &Path, content: &str) -> Result<(), CliError> {
    let failed = |error: std::io::Error| CliError::io(&format!("cannot write {}", path.display()), &error);
    if let Some(folder) = path.parent() {
        let mut builder = std::fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(folder).map_err(failed)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(mut file) => file.write_all(content.as_bytes()).map_err(failed),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            if std::fs::read(path).is_ok_and(|known| known == content.as_bytes()) {
                return Ok(());
            }
            let message = format!(
                "{} is there already and is not overwritten; name another folder, or move it away",
                path.display()
            );
            Err(CliError::other(throughline_format::UnifiedError::new(
                throughline_format::ErrorCategory::Conflict,
                "file-exists",
                message,
            )))
        }
        Err(error) => Err(failed(error)),
    }
}
