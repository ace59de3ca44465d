//! `throughline conversation`: the journal, read only. It works while a gateway serves the store, and without its keys.

use crate::data::{StoreArguments, block_on};
use crate::error::{CliError, EXIT_OTHER};
use crate::output::{self, Reader};
use clap::Subcommand;
use serde::Serialize;
use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use throughline_engine::ports::Clock as _;
use throughline_format::media::encode_base64;
use throughline_format::{Sha256, UnifiedId, UnifiedItem};
use throughline_gateway::system::SystemClock;
use throughline_store::export::{ConversationSummary, bring_up_to_date, export, summary, verify};
use throughline_store::{
    ConversationFilter, ConversationReader as _, ItemPage, JournalReader as _, MAX_PAGE, ResourceReader as _, StoreError,
};

/// Most conversations that one list gives.
const MAX_LIST: usize = 200;

/// Arguments of `conversation`.
#[derive(Debug, clap::Args)]
pub struct ConversationArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: ConversationCommand,
}

/// A command on the journal.
#[derive(Debug, Subcommand)]
pub enum ConversationCommand {
    /// Lists conversations, the one updated last first.
    List(ListArguments),
    /// Shows the items of a branch: readable on a terminal, one JSON item a line in a pipe.
    Show(ShowArguments),
    /// Writes a conversation as a bundle.
    Export(ExportArguments),
    /// Recomputes fingerprint, audit hashes and artifact digests of a conversation.
    Verify(VerifyArguments),
}

/// Arguments of `conversation list`.
#[derive(Debug, clap::Args)]
pub struct ListArguments {
    #[command(flatten)]
    store: StoreArguments,
    /// At most this many, 200 at most.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    /// Those after this conversation in the order of the list.
    #[arg(long, value_name = "ID")]
    after: Option<String>,
}

/// Arguments of `conversation show`.
#[derive(Debug, clap::Args)]
pub struct ShowArguments {
    /// The conversation.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    store: StoreArguments,
    /// Another branch than the default one.
    #[arg(long, value_name = "ID")]
    branch: Option<String>,
}

/// Arguments of `conversation export`.
#[derive(Debug, clap::Args)]
pub struct ExportArguments {
    /// The conversation.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    store: StoreArguments,
    /// Add the content of artifacts, one line each.
    #[arg(long)]
    artifacts: bool,
    /// The file to write; default: standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Arguments of `conversation verify`.
#[derive(Debug, clap::Args)]
pub struct VerifyArguments {
    /// The conversation.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    store: StoreArguments,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    data: Vec<ConversationSummary>,
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<UnifiedId>,
}

#[derive(Serialize)]
struct ArtifactLine {
    sha256: Sha256,
    data: String,
}

/// Runs the command.
///
/// # Errors
/// `not-found.resource` when there is no such conversation; `storage.*`.
pub fn run(arguments: &ConversationArguments) -> Result<u8, CliError> {
    match &arguments.command {
        ConversationCommand::List(arguments) => block_on(list(arguments)),
        ConversationCommand::Show(arguments) => block_on(show(arguments)),
        ConversationCommand::Export(arguments) => block_on(write_bundle(arguments)),
        ConversationCommand::Verify(arguments) => block_on(check(arguments)),
    }
}

fn id(text: &str) -> Result<UnifiedId, CliError> {
    UnifiedId::parse(text).map_err(|error| CliError::usage(format!("ID: {error}")))
}

async fn list(arguments: &ListArguments) -> Result<u8, CliError> {
    let (reader, _) = arguments.store.reader()?;
    let limit = arguments.limit.clamp(1, MAX_LIST);
    let filter = ConversationFilter {
        after: arguments.after.as_deref().map(id).transpose()?,
        limit: limit + 1,
        ..ConversationFilter::default()
    };
    let mut found = reader.conversations(filter).await?;
    let has_more = found.len() > limit;
    found.truncate(limit);
    let next = found.last().filter(|_| has_more).map(|last| last.conversation_id.clone());
    let mut data = Vec::with_capacity(found.len());
    for conversation in found {
        data.push(summary(&reader, conversation, reader.meta().retention_days).await?);
    }
    output::print_json(&List { data, has_more, next })?;
    Ok(0)
}

async fn show(arguments: &ShowArguments) -> Result<u8, CliError> {
    let (reader, _) = arguments.store.reader()?;
    let conversation_id = id(&arguments.id)?;
    let conversation = reader
        .conversation(&conversation_id)
        .await?
        .ok_or_else(|| StoreError::not_found("conversation", &conversation_id))?;
    let branch_id = match &arguments.branch {
        Some(branch) => id(branch)?,
        None => conversation.default_branch_id,
    };
    let branch = reader.branch(&branch_id).await?;
    if branch.is_none_or(|branch| branch.conversation_id != conversation_id) {
        return Err(StoreError::not_found("branch", &branch_id).into());
    }
    let readable = std::io::stdout().is_terminal();
    let mut after_sequence = 0;
    loop {
        let page = ItemPage {
            after_sequence,
            ..ItemPage::default()
        };
        let mut items = reader.branch_items(&branch_id, page).await?;
        bring_up_to_date(&reader, &branch_id, &mut items).await?;
        for item in &items {
            after_sequence = item.sequence;
            let printed = if readable {
                output::print_bytes(readable_item(item).as_bytes())?
            } else {
                output::print_json(item)?
            };
            if printed == Reader::Gone {
                return Ok(0);
            }
        }
        if items.len() < MAX_PAGE {
            return Ok(0);
        }
    }
}

/// An item for people: a head line, and what can be said of it in text. Control characters could command the terminal.
fn readable_item(item: &UnifiedItem) -> String {
    let role = item.role.map_or_else(String::new, |role| format!(" {role}"));
    let mut text = format!("{} [{}]{role}  {}  {}\n", item.sequence, item.body.kind(), item.created_at, item.id);
    for part in item.parts() {
        let line = part.as_text().map_or_else(|| format!("({})", part.body.kind()), str::to_owned);
        for line in line.lines() {
            text.push_str("    ");
            text.extend(line.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }));
            text.push('\n');
        }
    }
    text
}

async fn write_bundle(arguments: &ExportArguments) -> Result<u8, CliError> {
    let (reader, _) = arguments.store.reader()?;
    let bundle = export(&reader, &id(&arguments.id)?, SystemClock.now()).await?;
    let mut file = match &arguments.output {
        Some(path) => Some(
            std::fs::OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(path)
                .map(std::io::BufWriter::new)
                .map_err(|error| CliError::io("cannot make the file", &error))?,
        ),
        None => None,
    };
    let mut print = |line: &dyn erased::Line| -> Result<Reader, CliError> {
        match &mut file {
            Some(file) => {
                let bytes = line.bytes()?;
                file.write_all(&bytes)
                    .map_err(|error| CliError::io("cannot write the file", &error))?;
                Ok(Reader::There)
            }
            None => output::print_bytes(&line.bytes()?),
        }
    };
    if print(&bundle)? == Reader::Gone {
        return Ok(0);
    }
    if arguments.artifacts {
        for artifact in &bundle.artifacts {
            let content = reader.artifact_content(artifact).await?;
            let line = ArtifactLine {
                sha256: artifact.sha256,
                data: encode_base64(&content),
            };
            if print(&line)? == Reader::Gone {
                return Ok(0);
            }
        }
    }
    if let Some(mut file) = file {
        file.flush().map_err(|error| CliError::io("cannot write the file", &error))?;
    }
    Ok(0)
}

/// One JSON value a line, whatever its type.
mod erased {
    use crate::error::CliError;
    use serde::Serialize;

    pub(super) trait Line {
        fn bytes(&self) -> Result<Vec<u8>, CliError>;
    }

    impl<T: Serialize> Line for T {
        fn bytes(&self) -> Result<Vec<u8>, CliError> {
            let mut text = serde_json::to_vec(self).map_err(|e| CliError::internal("output", format!("cannot write the result: {e}")))?;
            text.push(b'\n');
            Ok(text)
        }
    }
}

async fn check(arguments: &VerifyArguments) -> Result<u8, CliError> {
    let (reader, _) = arguments.store.reader()?;
    let verification = verify(&reader, &id(&arguments.id)?).await?;
    output::print_json(&verification)?;
    Ok(if verification.ok { 0 } else { EXIT_OTHER })
}
