//! The SQLite store passes the contract suite, with either durability.

use std::sync::{Arc, Mutex};

use throughline_format::{Timestamp, clause};
use throughline_store::{OsRandom, StoreLimits, contract};
use throughline_store_sqlite::{Durability, QueueLimits, SqliteConfig, SqliteStore};

use crate::support::{config_at, new_vault};

async fn run(change: impl Fn(SqliteConfig) -> SqliteConfig) {
    let directories = Mutex::new(Vec::new());
    let make = |limits: StoreLimits| -> contract::Store {
        let directory = tempfile::tempdir().unwrap();
        let config = change(SqliteConfig {
            limits,
            ..config_at(directory.path())
        });
        directories.lock().unwrap().push(directory);
        Arc::new(SqliteStore::open(config, &new_vault(), &OsRandom, Timestamp::EPOCH).unwrap())
    };
    contract::run_all(make).await;
}

#[tokio::test]
async fn contract() {
    clause!("STORE-01");
    run(|config| config).await;
}

#[tokio::test]
async fn contract_with_the_smallest_queue_and_one_reader() {
    clause!("STORE-01");
    let queue = QueueLimits {
        entries: 1,
        bytes: 1,
        urgent_entries: 1,
    };
    run(|config| SqliteConfig {
        durability: Durability::Normal,
        readers: 1,
        queue,
        ..config
    })
    .await;
}
