//! What the check of a large database beside the work found is known to the engine, also when nobody writes.

use crate::support::{Home, World, native, said, says};
use std::sync::Arc;
use throughline_engine::{Engine, EngineLimits};
use throughline_store::StoreHealth;

fn reopened(home: &Home) -> World {
    // Every file is large.
    World::configured(home, 5_000, EngineLimits::default(), |config| config.quick_check_max_bytes = 0)
}

#[tokio::test]
async fn an_idle_engine_over_a_damaged_database_is_not_ready() {
    let home = Home::Sqlite(tempfile::tempdir().unwrap());
    let world = World::open(&home, 1);
    for number in 0..40 {
        world.answers(&says("the answer"));
        let turn = world.begin(native(&[], &[said(&format!("question {number}"))])).await;
        turn.collect().await.unwrap();
    }
    world.close(&home).await;

    let sound = reopened(&home);
    assert_eq!(Engine::tell_health(Arc::downgrade(&sound.engine)).await, Some(StoreHealth::Sound));
    assert!(!sound.engine.is_storage_failing());
    sound.close(&home).await;

    let Home::Sqlite(folder) = &home else { unreachable!() };
    let path = folder.path().join("throughline.db");
    let mut file = std::fs::read(&path).unwrap();
    let place = file.windows(11).position(|window| window == b"question 20").unwrap() / 4096 * 4096;
    file[place..place + 4096].fill(0x5A);
    std::fs::write(&path, &file).unwrap();
    let damaged = reopened(&home);
    assert_eq!(
        Engine::tell_health(Arc::downgrade(&damaged.engine)).await,
        Some(StoreHealth::Damaged)
    );
    assert!(damaged.engine.is_storage_failing(), "without a commit");
    let refused = damaged.try_begin(native(&[], &[said("more")])).await.err().unwrap();
    assert_eq!(refused.error.code, "storage.corrupt");
}
