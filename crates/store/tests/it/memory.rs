//! The in-memory store passes the contract suite.

use std::sync::Arc;

use throughline_store::contract::{self, Store};
use throughline_store::{MemorySettings, MemoryStore, StoreLimits};

fn make(limits: StoreLimits) -> Store {
    Arc::new(MemoryStore::new(MemorySettings {
        limits,
        ..MemorySettings::default()
    }))
}

#[tokio::test]
async fn contract() {
    throughline_format::clause!("STORE-01");
    contract::run_all(make).await;
}
