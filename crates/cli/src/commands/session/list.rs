//! `throughline session list`: what the agents of this machine keep, read only.

use super::sources::{self, Unit};
use super::{homes, stored};
use crate::data::{StoreArguments, block_on};
use crate::error::CliError;
use crate::output::print_json;
use serde::Serialize;
use std::time::SystemTime;
use throughline_agents::{Runtime, runtimes};
use throughline_format::{Timestamp, UnifiedId};
use throughline_store::ConversationReader as _;

/// Arguments of `session list`.
#[derive(Debug, clap::Args)]
pub struct ListArguments {
    /// Only this agent.
    #[arg(long, value_name = "AGENT")]
    from: Option<String>,
    /// At most this many files are looked into, those written last.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    store: StoreArguments,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct List {
    sessions: Vec<Session>,
    has_more: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Session {
    runtime: &'static str,
    id: String,
    path: String,
    cwd: Option<String>,
    title: Option<String>,
    updated_at: Option<Timestamp>,
    turns: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    imported_as: Option<UnifiedId>,
}

/// Runs the command.
pub(super) fn run(arguments: &ListArguments) -> Result<u8, CliError> {
    let wanted = arguments.from.as_deref().map(super::runtime).transpose()?;
    let mut units: Vec<(SystemTime, &'static dyn Runtime, Unit)> = Vec::new();
    for runtime in runtimes()
        .into_iter()
        .filter(|runtime| wanted.is_none_or(|wanted| wanted.name() == runtime.name()))
    {
        for folder in homes::sessions(runtime.name()) {
            let found = sources::units(runtime.name(), &folder)?;
            units.extend(found.into_iter().map(|unit| (unit.modified(), runtime, unit)));
        }
    }
    // Newest first; equal times in the order of their places.
    units.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.2.path().cmp(b.2.path())));
    let has_more = units.len() > arguments.limit;
    units.truncate(arguments.limit);
    let mut sessions: Vec<Session> = Vec::new();
    for (_, runtime, unit) in &units {
        // What is no session is nothing to list.
        let Ok(found) = unit.load().and_then(|source| Ok(runtime.read(&source)?)) else {
            continue;
        };
        sessions.extend(found.into_iter().map(|transcript| Session {
            runtime: runtime.name(),
            turns: transcript.turns(),
            path: unit.path().display().to_string(),
            cwd: transcript.session.cwd,
            title: transcript.session.title,
            updated_at: transcript.session.updated_at,
            parent: transcript.session.parent,
            id: transcript.session.id,
            imported_as: None,
        }));
    }
    sessions.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| a.id.cmp(&b.id)));
    block_on(mark(&arguments.store, &mut sessions))?;
    print_json(&List { sessions, has_more })?;
    Ok(0)
}

/// Says which sessions are in the store, when there is one.
async fn mark(store: &StoreArguments, sessions: &mut [Session]) -> Result<(), CliError> {
    // A store that was named must be there; the usual one may not have been made yet.
    let reader = match store.reader() {
        Ok((reader, _)) => reader,
        Err(error) if store.db.is_some() => return Err(error),
        Err(_) => return Ok(()),
    };
    for session in sessions {
        let id = stored::conversation_id(session.runtime, &session.id);
        session.imported_as = reader.conversation(&id).await?.map(|known| known.conversation_id);
    }
    Ok(())
}
