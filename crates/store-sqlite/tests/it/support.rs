//! A database in a temporary folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::Connection;
use throughline_format::Timestamp;
use throughline_store::contract::World;
use throughline_store::{KeyRing, OsRandom, StoreError, Vault};
use throughline_store_sqlite::{SqliteConfig, SqliteStore};

pub(crate) struct Home {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) vault: Vault,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            vault: new_vault(),
        }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.directory.path().join("throughline.db")
    }

    pub(crate) fn config(&self) -> SqliteConfig {
        config_at(self.directory.path())
    }

    pub(crate) fn try_open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(self.config(), &self.vault, &OsRandom, Timestamp::EPOCH)
    }

    pub(crate) fn open(&self) -> SqliteStore {
        self.try_open().unwrap()
    }

    /// A connection of its own to the file, as an outside tool would have.
    pub(crate) fn sql(&self) -> Connection {
        Connection::open(self.path()).unwrap()
    }

    /// The files of an open database as a crash would leave them.
    pub(crate) fn copy_as_after_a_crash(&self) -> Home {
        let copy = Home {
            directory: tempfile::tempdir().unwrap(),
            vault: new_vault(),
        };
        for name in ["throughline.db", "throughline.db-wal"] {
            let from = self.directory.path().join(name);
            if from.exists() {
                std::fs::copy(from, copy.directory.path().join(name)).unwrap();
            }
        }
        copy
    }
}

pub(crate) fn config_at(directory: &Path) -> SqliteConfig {
    SqliteConfig::new(directory.join("throughline.db"), directory.join("artifacts"))
}

/// The same keys in every test and process.
pub(crate) const RING: &[u8] =
    br#"{"current":1,"keys":[{"version":1,"createdAt":"2026-01-01T00:00:00.000Z","key":"AQIDBAUGBwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyA="}]}"#;

pub(crate) fn new_vault() -> Vault {
    Vault::new(KeyRing::from_json(RING).unwrap(), Arc::new(OsRandom)).unwrap()
}

/// A store with a conversation in it.
pub(crate) async fn world(home: &Home) -> (SqliteStore, World) {
    let store = home.open();
    let world = World::new(Arc::new(store.clone())).await;
    (store, world)
}
