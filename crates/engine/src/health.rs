//! What the check of a large store beside the work found, for whoever reads the log: an idle engine would not come upon it.

use crate::engine::Engine;
use std::sync::{Arc, Weak};
use std::time::Duration;
use throughline_store::StoreHealth;

/// How often it is asked whether the check has ended.
const PAUSE: Duration = Duration::from_secs(1);

impl Engine {
    /// Waits for the end of the check and logs its outcome once; ends with the engine. Spawn it at start.
    ///
    /// The result is what was found; `None` when the engine went first.
    pub async fn tell_health(engine: Weak<Self>) -> Option<StoreHealth> {
        let mut waited = false;
        loop {
            let health = engine.upgrade().map(|engine: Arc<Self>| engine.store.health())?;
            match health {
                StoreHealth::Checking => {
                    waited = true;
                    tokio::time::sleep(PAUSE).await;
                    continue;
                }
                StoreHealth::Sound if !waited => tracing::debug!("the database was checked before the start"),
                StoreHealth::Sound => tracing::info!("the database was checked beside the work; nothing was found"),
                StoreHealth::Unchecked => tracing::warn!("the database could not be checked; `throughline db check` does it by hand"),
                StoreHealth::Damaged => {
                    tracing::error!("the database is damaged and takes no more commits; restore a backup");
                }
            }
            return Some(health);
        }
    }
}
