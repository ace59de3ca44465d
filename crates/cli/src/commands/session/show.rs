//! `throughline session show`: a stored session, or one in a file.

use super::{choose, runtime, sources, stored, text};
use crate::data::{StoreArguments, block_on};
use crate::error::CliError;
use crate::output::{self, Reader};
use std::io::IsTerminal as _;
use std::path::Path;
use throughline_agents::runtimes;
use throughline_format::{UnifiedConversation, UnifiedId, UnifiedItem};
use throughline_store::{ConversationReader as _, StoreError};
use throughline_store_sqlite::SqliteReader;

/// Arguments of `session show`.
#[derive(Debug, clap::Args)]
pub struct ShowArguments {
    /// A conversation of the store, a session by its own ID, or with --from a file.
    #[arg(value_name = "ID|FILE")]
    id: String,
    /// Agent that wrote the file, or the session of this ID.
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// Readable text, also in a pipe.
    #[arg(long)]
    text: bool,
    #[command(flatten)]
    store: StoreArguments,
}

/// Runs the command.
pub(super) fn run(arguments: &ShowArguments) -> Result<u8, CliError> {
    let path = Path::new(&arguments.id);
    let items = match &arguments.from {
        Some(from) if path.exists() => {
            let from = runtime(from)?;
            let mut found = Vec::new();
            for unit in sources::units(from.name(), path)? {
                found.extend(from.read(&unit.load()?)?);
            }
            choose(found, None)?.items
        }
        from => block_on(load(arguments, from.as_deref()))?,
    };
    if arguments.text || std::io::stdout().is_terminal() {
        output::print_bytes(text::readable(&items).as_bytes())?;
        return Ok(0);
    }
    for item in &items {
        if output::print_json(item)? == Reader::Gone {
            break;
        }
    }
    Ok(0)
}

async fn load(arguments: &ShowArguments, from: Option<&str>) -> Result<Vec<UnifiedItem>, CliError> {
    let (reader, _) = arguments.store.reader()?;
    let conversation = find(&reader, &arguments.id, from).await?;
    let branch = stored::branch_of(&reader, &conversation).await?;
    stored::current_items(&reader, &branch).await
}

/// The conversation of this ID, or the one that the session of this ID is kept as.
pub(super) async fn find(reader: &SqliteReader, id: &str, from: Option<&str>) -> Result<UnifiedConversation, CliError> {
    if let Ok(known) = UnifiedId::parse(id)
        && let Some(conversation) = reader.conversation(&known).await?
    {
        return Ok(conversation);
    }
    for runtime in runtimes()
        .into_iter()
        .filter(|runtime| from.is_none_or(|from| from == runtime.name()))
    {
        if let Some(conversation) = reader.conversation(&stored::conversation_id(runtime.name(), id)).await? {
            return Ok(conversation);
        }
    }
    Err(StoreError::not_found("session", &UnifiedId::parse(id).unwrap_or_else(|_| UnifiedId::pending())).into())
}
