//! Where a command finds a store: `--db`, or the data directory that the gateway would take.

use crate::error::CliError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use throughline_engine::ports::Clock as _;
use throughline_gateway::data_dir::DataDir;
use throughline_gateway::system::SystemClock;
use throughline_store::{KeyRing, OsRandom, StoreError, Vault, keyring};
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

/// The files of a store (contract.md, section 4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StorePaths {
    /// The database.
    pub database: PathBuf,
    /// Artifacts.
    pub artifacts: PathBuf,
    /// The key ring.
    pub key_ring: PathBuf,
    /// Where backups go.
    pub backups: PathBuf,
    /// Raw bodies, if there are any.
    pub diagnostics: PathBuf,
}

impl StoreArguments {
    /// The files that the arguments mean.
    ///
    /// # Errors
    /// `invalid-request.usage` when there is no database there.
    pub fn paths(&self) -> Result<StorePaths, CliError> {
        let named = self
            .db
            .clone()
            .or_else(default_directory)
            .ok_or_else(|| CliError::usage("there is no home directory; name a data directory or a database with --db"))?;
        let (folder, database) = if named.is_dir() {
            (named.clone(), named.join("throughline.db"))
        } else {
            let parent = named.parent().filter(|parent| !parent.as_os_str().is_empty());
            (parent.unwrap_or_else(|| Path::new(".")).to_owned(), named)
        };
        if !database.is_file() {
            return Err(CliError::usage(
                "--db: there is no database; name a data directory, or the database file in it",
            ));
        }
        Ok(StorePaths {
            artifacts: folder.join("artifacts"),
            key_ring: variable("THROUGHLINE_MASTER_KEY_FILE").map_or_else(|| folder.join("keys").join("keyring.json"), PathBuf::from),
            backups: folder.join("backups"),
            diagnostics: folder.join("diagnostics"),
            database,
        })
    }

    /// Opens the store for reading, which works without a key and while a gateway serves it.
    ///
    /// # Errors
    /// `storage.*`.
    pub fn reader(&self) -> Result<(SqliteReader, StorePaths), CliError> {
        let paths = self.paths()?;
        let reader = SqliteReader::open(paths.database.clone(), paths.artifacts.clone())?;
        Ok((reader, paths))
    }
}

/// A store that this process holds for writing. The lock goes when it is dropped.
pub struct HeldStore {
    /// The store.
    pub store: SqliteStore,
    /// Its keys.
    pub vault: Arc<Vault>,
    _lock: DataDir,
}

impl StoreArguments {
    /// Opens the store for writing; a new data directory is made where there is none.
    ///
    /// # Errors
    /// `storage.locked` while a gateway serves it; `storage.*`.
    pub fn writer(&self) -> Result<HeldStore, CliError> {
        let named = self
            .db
            .clone()
            .or_else(default_directory)
            .ok_or_else(|| CliError::usage("there is no home directory; name a data directory or a database with --db"))?;
        let is_file = named.is_file() || named.extension().is_some_and(|end| end == "db");
        let folder = if is_file {
            let parent = named.parent().filter(|parent| !parent.as_os_str().is_empty());
            parent.unwrap_or_else(|| Path::new(".")).to_owned()
        } else {
            named.clone()
        };
        let lock = DataDir::open(&folder)?;
        let database = if is_file { named } else { lock.database() };
        let key_ring = variable("THROUGHLINE_MASTER_KEY_FILE").map_or_else(|| lock.key_ring(), PathBuf::from);
        if database.exists() && !key_ring.is_file() {
            return Err(StoreError::KeyRing {
                detail: "its file is missing; name it with THROUGHLINE_MASTER_KEY_FILE, or put it back".to_owned(),
            }
            .into());
        }
        let now = SystemClock.now();
        let vault = Arc::new(Vault::new(keyring::load_or_create(&key_ring, &OsRandom, now)?, Arc::new(OsRandom))?);
        let mut config = SqliteConfig::new(database.clone(), lock.artifacts());
        if database.exists() {
            let reader = SqliteReader::open(database, lock.artifacts())?;
            config.retention_days = reader.meta().retention_days;
        }
        let store = SqliteStore::open(config, &vault, &OsRandom, now)?;
        Ok(HeldStore { store, vault, _lock: lock })
    }
}

impl StorePaths {
    /// The key ring of the store.
    ///
    /// # Errors
    /// `storage.key-ring` when it is missing or cannot be used. None is made: a new one would open nothing.
    pub fn load_key_ring(&self) -> Result<KeyRing, CliError> {
        if !self.key_ring.is_file() {
            return Err(StoreError::KeyRing {
                detail: "its file is missing; name it with THROUGHLINE_MASTER_KEY_FILE, or put it back".to_owned(),
            }
            .into());
        }
        Ok(keyring::load(&self.key_ring)?)
    }
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
