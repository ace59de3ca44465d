//! `throughline session export`: a stored session in an agent's form.

use super::convert::{FileEntry, write};
use super::{runtime, show, stored};
use crate::data::{StoreArguments, block_on};
use crate::error::{CliError, EXIT_UNSUPPORTED};
use crate::output::print_json;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;
use throughline_agents::{SessionFacts, Transcript, WriteOptions};
use throughline_format::{UnifiedId, UnifiedLossReport};
use throughline_store::{OsRandom, Vault};

/// Arguments of `session export`.
#[derive(Debug, clap::Args)]
pub struct ExportArguments {
    /// A conversation of the store, or a session by its own ID.
    #[arg(value_name = "ID")]
    id: String,
    /// Agent to export to.
    #[arg(long, value_name = "AGENT")]
    to: String,
    /// A second form of the target.
    #[arg(long, value_name = "FORM")]
    form: Option<String>,
    /// Model that will go on, for messages that do not tell theirs.
    #[arg(long, value_name = "MODEL")]
    model: Option<String>,
    /// Folder to write the files to; default: their content is in the report.
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArguments,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    conversation_id: UnifiedId,
    to: &'static str,
    id: String,
    items: usize,
    files: Vec<FileEntry>,
    loss: UnifiedLossReport,
}

/// Runs the command.
pub(super) fn run(arguments: &ExportArguments) -> Result<u8, CliError> {
    let to = runtime(&arguments.to)?;
    let (conversation_id, transcript) = block_on(load(&arguments.store, &arguments.id, None))?;
    let options = WriteOptions {
        form: arguments.form.clone(),
        model: arguments.model.clone(),
        ..WriteOptions::default()
    };
    let written = to.write(&transcript, &options)?;
    let exit = if written.loss.is_unsupported() { EXIT_UNSUPPORTED } else { 0 };
    print_json(&Report {
        conversation_id,
        to: to.name(),
        id: written.session_id,
        items: transcript.items.len(),
        files: write(written.files, arguments.output.as_deref())?,
        loss: written.loss,
    })?;
    Ok(exit)
}

/// A stored conversation as a transcript. One that was no import, and one whose keys are not there, has its items alone.
pub(super) async fn load(store: &StoreArguments, id: &str, from: Option<&str>) -> Result<(UnifiedId, Transcript), CliError> {
    let (reader, layout) = store.reader()?;
    let conversation = show::find(&reader, id, from).await?;
    let branch = stored::branch_of(&reader, &conversation).await?;
    let items = stored::current_items(&reader, &branch).await?;
    let vault = if layout.key_ring().is_file() {
        Some(Vault::new(layout.load_key_ring()?, Arc::new(OsRandom))?)
    } else {
        None
    };
    let known = stored::load(&reader, vault.as_ref(), &conversation, items.clone()).await?;
    let transcript = known.unwrap_or_else(|| {
        let facts = SessionFacts {
            id: conversation.conversation_id.as_str().to_owned(),
            title: conversation.title.clone(),
            created_at: items.first().map(|item| item.created_at),
            updated_at: items.last().map(|item| item.created_at),
            ..SessionFacts::default()
        };
        Transcript::of_items("throughline", facts, items)
    });
    Ok((conversation.conversation_id, transcript))
}
