//! Key rotation: in bounded steps, gone on with after a stop, and past what does not open.

use throughline_format::clause;

use super::resources::put_resource;
use super::{Store, World, samples};
use crate::batch::WriteOp;
use samples::id;

pub(super) async fn rotation_passes_by_what_does_not_open(store: Store) {
    let world = World::new(store.clone()).await;
    // More than one step takes, and all of them before the one that opens.
    for number in 0..70 {
        let mut moved = samples::resource(&world, &format!("r_moved{number}"), "a", b"x");
        moved.sealed = samples::resource(&world, "r_other", "a", b"x").sealed;
        world.commit(put_resource(&moved)).await.unwrap();
    }
    world
        .commit(put_resource(&samples::resource(&world, "r_good", "a", b"secret")))
        .await
        .unwrap();
    let rotated = world.vault.with_next_key(&crate::OsRandom, world.now).unwrap();
    let (mut after, mut resealed, mut damaged) = (None, 0, 0);
    loop {
        let step = crate::rotate_step(store.as_ref(), &rotated, after, world.now).await.unwrap();
        resealed += step.resealed;
        damaged += step.damaged;
        assert!(step.done || step.after > after, "every step goes on");
        after = step.after;
        if step.done {
            break;
        }
    }
    assert_eq!((resealed, damaged), (1, 70));
    let good = store.resource(&id("r_good")).await.unwrap().unwrap();
    assert_eq!(rotated.open(&good.seal_context(), &good.sealed).unwrap().as_slice(), b"secret");
}

pub(super) async fn rotation_is_resumed_where_it_stopped(store: Store) {
    clause!("STORE-06");
    let world = World::new(store.clone()).await;
    world.say(&world.branch_id, &["i1"]).await;
    for number in 0..40 {
        let payload = format!("secret {number}");
        let resource = samples::resource(&world, &format!("r{number}"), "a", payload.as_bytes());
        world.commit(put_resource(&resource)).await.unwrap();
    }
    world
        .commit(vec![WriteOp::PutCheckpoint(Box::new(samples::checkpoint(
            &world, "ckpt_1", "i1", b"handle",
        )))])
        .await
        .unwrap();
    let mut moved = samples::resource(&world, "r_moved", "a", b"x");
    moved.sealed = samples::resource(&world, "r_other", "a", b"x").sealed;
    world.commit(put_resource(&moved)).await.unwrap();
    let clock = world.clock().await;
    let rotated = world.vault.with_next_key(&crate::OsRandom, world.now).unwrap();
    assert_eq!(rotated.hash_version(), world.vault.hash_version(), "look-up hashes do not move");
    // A step is bounded; a process that died after it would go on with the rest, from the beginning of the list.
    let first = crate::rotate_step(store.as_ref(), &rotated, None, world.now).await.unwrap();
    assert_eq!((first.resealed, first.done), (32, false));
    let second = crate::rotate_step(store.as_ref(), &rotated, None, world.now).await.unwrap();
    assert_eq!((second.resealed, second.damaged, second.done), (9, 1, false));
    let third = crate::rotate_step(store.as_ref(), &rotated, second.after, world.now).await.unwrap();
    assert_eq!(
        (third.resealed, third.damaged, third.done),
        (0, 0, true),
        "what does not open is told once and stays"
    );
    let left = store.sealed_under_other_keys(rotated.current_version(), None, 10).await.unwrap();
    assert_eq!(
        left.iter().map(|record| record.context.record_id.as_str()).collect::<Vec<_>>(),
        ["r_moved"]
    );
    for number in 0..40 {
        let resource = store.resource(&id(&format!("r{number}"))).await.unwrap().unwrap();
        let opened = rotated.open(&resource.seal_context(), &resource.sealed).unwrap();
        assert_eq!(opened.as_slice(), format!("secret {number}").as_bytes());
        assert_eq!(
            world.vault.open(&resource.seal_context(), &resource.sealed).unwrap_err().code(),
            "storage.wrong-key"
        );
    }
    assert_eq!(world.clock().await, clock, "rotation is no use of the conversation");
}
