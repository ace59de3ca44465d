//! Where a command finds a store: `--db`, or the data directory that the gateway would take.

use crate::error::CliError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use throughline_engine::ports::Clock as _;
use throughline_gateway::data_dir::{DataDir, Layout, open_vault};
use throughline_gateway::system::SystemClock;
use throughline_store::{OsRandom, Vault};
use throughline_store_sqlite::{SqliteConfig, SqliteReader, SqliteStore};

/// A variable of the environment; an empty one is as if absent.
pub fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The user's data directory: `THROUGHLINE_DATA_DIR`, `$XDG_DATA_HOME/throughline`, `~/.local/share/throughline`.
pub fn default_directory() -> Option<PathBuf> {
    if let Some(path) = variable("THROUGHLINE_DATA_DIR") {
        return Some(PathBuf::from(path));
    }
    if let Some(folder) = variable("XDG_DATA_HOME") {
        return Some(Path::new(&folder).join("throughline"));
    }
    Some(Path::new(&variable("HOME")?).join(".local").join("share").join("throughline"))
}

/// Which store; the same option for every command that opens one.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreArguments {
    /// Data directory or database file; else THROUGHLINE_DATA_DIR, then the user's data folder.
    #[arg(long, value_name = "PATH")]
    pub db: Option<PathBuf>,
}

/// The store of a data directory or database file, with the key ring that the environment names.
pub fn layout_of(path: &Path) -> Layout {
    Layout::named(path).with_key_ring(variable("THROUGHLINE_MASTER_KEY_FILE").map(PathBuf::from))
}

impl StoreArguments {
    /// Where the arguments say that the store is, or is to be.
    ///
    /// # Errors
    /// `invalid-request.usage` when nothing is named and there is no home directory.
    pub fn layout(&self) -> Result<Layout, CliError> {
        let named = self.db.clone().or_else(default_directory);
        named
            .map(|path| layout_of(&path))
            .ok_or_else(|| CliError::usage("there is no home directory; name a data directory or a database with --db"))
    }

    /// The same of a store that is there.
    ///
    /// # Errors
    /// `invalid-request.usage` when there is no database.
    pub fn existing(&self) -> Result<Layout, CliError> {
        let layout = self.layout()?;
        if !layout.database().is_file() {
            return Err(CliError::usage(
                "--db: there is no database; name a data directory, or the database file in it",
            ));
        }
        Ok(layout)
    }

    /// Opens the store for reading, which works without a key and while a gateway serves it.
    ///
    /// # Errors
    /// `storage.*`.
    pub fn reader(&self) -> Result<(SqliteReader, Layout), CliError> {
        let layout = self.existing()?;
        let reader = SqliteReader::open(layout.database().to_owned(), layout.artifacts())?;
        Ok((reader, layout))
    }

    /// Opens the store for writing; a new data directory is made where there is none.
    ///
    /// # Errors
    /// `storage.locked` while a gateway serves it; `storage.*`.
    pub fn writer(&self) -> Result<HeldStore, CliError> {
        let held = DataDir::open(self.layout()?)?;
        let vault = Arc::new(open_vault(held.layout(), SystemClock.now())?);
        let store = open_store(held.layout(), &vault)?;
        Ok(HeldStore { store, vault, _held: held })
    }
}

/// A store that this process holds for writing. It is let go when this is dropped.
pub struct HeldStore {
    /// The store.
    pub store: SqliteStore,
    /// Its keys.
    pub vault: Arc<Vault>,
    _held: DataDir,
}

/// Opens a store for writing, with the retention that it had.
///
/// # Errors
/// `storage.*`.
pub fn open_store(layout: &Layout, vault: &Vault) -> Result<SqliteStore, CliError> {
    let (database, artifacts) = (layout.database().to_owned(), layout.artifacts());
    let mut config = SqliteConfig::new(database.clone(), artifacts.clone());
    if database.exists() {
        config.retention_days = SqliteReader::open(database, artifacts)?.meta().retention_days;
    }
    Ok(SqliteStore::open(config, vault, &OsRandom, SystemClock.now())?)
}

/// Runs the calls of a store to their end.
///
/// # Errors
/// What the future gives, or `internal.io` when there is no runtime.
pub fn block_on<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| CliError::io("cannot start the runtime", &error))?;
    runtime.block_on(future)
}
