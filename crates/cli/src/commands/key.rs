//! `throughline key`: the keys of a gateway's clients. A gateway that runs takes over a change within seconds.

use crate::data::StoreArguments;
use crate::error::CliError;
use crate::output::{self, Reader};
use clap::Subcommand;
use serde::Serialize;
use std::path::PathBuf;
use throughline_engine::ports::Clock as _;
use throughline_format::{ErrorCategory, UnifiedError, UnifiedId};
use throughline_gateway::auth::ClientKeys;
use throughline_gateway::data_dir::make_folder;
use throughline_gateway::system::SystemClock;

/// Arguments of `key`.
#[derive(Debug, clap::Args)]
pub struct KeyArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: KeyCommand,
}

/// A command on the client keys.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Makes a key and shows it, this once.
    New(NewArguments),
    /// Lists the keys, one JSON object a line, revoked ones too.
    List(ListArguments),
    /// Takes a key out of use, and ends what is being streamed to it.
    Revoke(RevokeArguments),
}

/// Arguments of `key new`.
#[derive(Debug, clap::Args)]
pub struct NewArguments {
    /// Its owner: keys of one name see the same conversations.
    #[arg(long, value_name = "NAME")]
    name: String,
    #[command(flatten)]
    store: StoreArguments,
}

/// Arguments of `key list`.
#[derive(Debug, clap::Args)]
pub struct ListArguments {
    #[command(flatten)]
    store: StoreArguments,
}

/// Arguments of `key revoke`.
#[derive(Debug, clap::Args)]
pub struct RevokeArguments {
    /// The key's ID, as `key list` shows it.
    #[arg(value_name = "ID")]
    id: String,
    #[command(flatten)]
    store: StoreArguments,
}

#[derive(Serialize)]
struct Made<'a> {
    id: &'a UnifiedId,
    name: &'a str,
    key: &'a str,
}

/// Runs the command.
///
/// # Errors
/// `invalid-request.*` with exit code 2 for a name or ID that is none, `not-found.resource` and `storage.*` with 1.
pub fn run(arguments: &KeyArguments) -> Result<u8, CliError> {
    match &arguments.command {
        KeyCommand::New(arguments) => new(arguments),
        KeyCommand::List(arguments) => list(arguments),
        KeyCommand::Revoke(arguments) => revoke(arguments),
    }
}

fn file(store: &StoreArguments) -> Result<PathBuf, CliError> {
    Ok(store.layout()?.client_keys())
}

fn new(arguments: &NewArguments) -> Result<u8, CliError> {
    let path = file(&arguments.store)?;
    // A key can be made before the first start of the gateway.
    if let Some(folder) = path.parent() {
        make_folder(folder)?;
    }
    let name = &arguments.name;
    let (_, made) = ClientKeys::change(&path, |keys| keys.create(name, SystemClock.now()))?;
    output::print_json(&Made {
        id: &made.id,
        name,
        key: &made.key,
    })?;
    Ok(0)
}

fn list(arguments: &ListArguments) -> Result<u8, CliError> {
    for key in ClientKeys::load(&file(&arguments.store)?)?.iter() {
        if output::print_json(&key)? == Reader::Gone {
            break;
        }
    }
    Ok(0)
}

fn revoke(arguments: &RevokeArguments) -> Result<u8, CliError> {
    let path = file(&arguments.store)?;
    let absent = || {
        UnifiedError::new(
            ErrorCategory::NotFound,
            "resource",
            "there is no such client key; see `throughline key list`",
        )
    };
    let id = UnifiedId::parse(&arguments.id).map_err(|_| absent())?;
    // Without a file there is nothing to lock or to write.
    if !path.is_file() {
        return Err(absent().into());
    }
    let (keys, ()) = ClientKeys::change(&path, |keys| {
        if keys.iter().any(|key| *key.id == id) {
            // Revoked already is as good.
            keys.revoke(&id, SystemClock.now());
            return Ok(());
        }
        Err(absent())
    })?;
    for key in keys.iter().filter(|key| *key.id == id) {
        output::print_json(&key)?;
    }
    Ok(0)
}
