//! Sealed resources, checkpoints, annotations and artifacts.

use throughline_format::operation::SealedBytes;
use throughline_format::resource::ResourceStatus;
use throughline_format::{Timestamp, UnifiedItem, clause};

use super::{Store, World, samples};
use crate::batch::{WriteBatch, WriteOp};
use crate::records::{ARTIFACT_GRACE_MILLIS, CollectRequest, ItemPage};
use crate::records::{ResealedRecord, SealedResource, StoredAnnotation};
use crate::{HashPurpose, KeyRing, OsRandom, SealContext, Sealed, StoreError, Vault};
use samples::id;
use std::sync::Arc;

fn put(resource: &SealedResource) -> Vec<WriteOp> {
    vec![WriteOp::PutResource(Box::new(resource.clone()))]
}

pub(super) async fn payloads_are_sealed_in_their_place(store: Store) {
    clause!("STORE-06", "SEC-03");
    let world = World::new(store).await;
    let resource = samples::resource(&world, "r1", "a", b"signature");
    world.commit(put(&resource)).await.unwrap();
    world.commit(put(&resource)).await.unwrap();
    let stored = world.store.resource(&id("r1")).await.unwrap().unwrap();
    assert_eq!(stored, resource, "every field is kept");
    assert_eq!(
        world.vault.open(&stored.seal_context(), &stored.sealed).unwrap().as_slice(),
        b"signature"
    );
    // In any other place it does not open.
    let right = stored.seal_context();
    let others = [
        SealContext {
            record_id: id("r2"),
            ..right.clone()
        },
        SealContext {
            conversation_id: id("conv_x"),
            ..right.clone()
        },
        SealContext {
            owner_fingerprint: throughline_format::Sha256::of(b"x"),
            ..right.clone()
        },
        SealContext {
            branch_id: Some(id("br_main")),
            ..right.clone()
        },
        SealContext {
            journal_head: Some(id("i1")),
            ..right
        },
    ];
    for context in others {
        assert_eq!(
            world.vault.open(&context, &stored.sealed).unwrap_err().code(),
            "storage.sealed-record"
        );
    }
    let mut other = samples::resource(&world, "r1", "a", b"another");
    assert_eq!(world.refused(put(&other)).await, "conflict.duplicate");
    other.conversation_id = id("conv_x");
    assert_eq!(world.refused(put(&other)).await, "invalid-request.validation");
    // The fingerprint is what reuse is decided by, so it must be the owner's.
    let mut lying = samples::resource(&world, "r3", "a", b"x");
    lying.owner = samples::owner("b");
    assert_eq!(world.refused(put(&lying)).await, "invalid-request.validation");
    assert_eq!(
        Sealed::from_bytes(b"plain text that is long enough to be a record of some sort".to_vec())
            .unwrap_err()
            .code(),
        "invalid-request.validation"
    );
}

pub(super) async fn resources_are_found_by_what_a_client_presents(store: Store) {
    let world = World::new(store.clone()).await;
    let other = World::of(store.clone(), "other", "principal-b").await;
    world.commit(put(&samples::resource(&world, "r1", "a", b"one"))).await.unwrap();
    world.commit(put(&samples::resource(&world, "r2", "a", b"two"))).await.unwrap();
    world.commit(put(&samples::resource(&world, "r3", "b", b"one"))).await.unwrap();
    let hash = |payload: &[u8]| world.vault.keyed_hash(HashPurpose::PrivatePayload, payload).unwrap();
    let mut foreign = samples::resource(&other, "r4", "a", b"one");
    foreign.payload_hash = hash(b"one");
    other.commit(put(&foreign)).await.unwrap();
    let find = async |principal: &str, payloads: &[&[u8]]| {
        let hashes: Vec<_> = payloads.iter().map(|payload| hash(payload)).collect();
        let found = store.resources_by_payload_hash(principal, &hashes).await.unwrap();
        found.iter().map(|resource| resource.resource_id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(find(samples::PRINCIPAL, &[b"one"]).await, ["r3", "r1"]);
    assert_eq!(find(samples::PRINCIPAL, &[b"two", b"none"]).await, ["r2"]);
    assert_eq!(find("principal-b", &[b"one", b"two"]).await, ["r4"]);
    assert_eq!(find("principal-c", &[b"one"]).await, [""; 0]);
}

pub(super) async fn owners_are_kept_apart(store: Store) {
    clause!("CKPT-03");
    let world = World::new(store).await;
    let first = samples::resource(&world, "r1", "a", b"one");
    world.commit(put(&first)).await.unwrap();
    world.commit(put(&samples::resource(&world, "r2", "b", b"two"))).await.unwrap();
    let of = async |owner| {
        world
            .store
            .resources(&world.conversation_id, owner)
            .await
            .unwrap()
            .iter()
            .map(|r| r.resource_id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(of(Some(&first.owner_fingerprint)).await, ["r1"]);
    assert_eq!(of(None).await, ["r1", "r2"]);
    let heads = async |after, limit| {
        let heads = world.store.resource_heads(&world.conversation_id, after, limit).await.unwrap();
        heads
            .into_iter()
            .map(|head| (head.resource_id.to_string(), head.number, head.size))
            .collect::<Vec<_>>()
    };
    let size = first.sealed.as_bytes().len() as u64;
    let all = heads(0, 10).await;
    assert_eq!(
        all.iter().map(|(id, _, found)| (id.as_str(), *found)).collect::<Vec<_>>(),
        [("r1", size), ("r2", size)]
    );
    assert_eq!(
        (heads(0, 1).await, heads(all[0].1, 10).await),
        (vec![all[0].clone()], vec![all[1].clone()])
    );
    let named = world.store.resources_by_id(&[id("r2"), id("r_nobodys"), id("r1")]).await.unwrap();
    assert_eq!(
        named.iter().map(|resource| resource.resource_id.as_str()).collect::<Vec<_>>(),
        ["r2", "r1"]
    );
    let set = |id: &str, status| WriteOp::SetResourceStatus {
        resource_id: samples::id(id),
        status,
    };
    for (from, to, name) in changes("res") {
        let mut resource = samples::resource(&world, &name, "a", b"one");
        resource.status = from;
        world.commit(put(&resource)).await.unwrap();
        let result = world.commit(vec![set(&name, to)]).await.map(|_| ());
        let is = world.store.resource(&id(&name)).await.unwrap().unwrap().status;
        check_change(from, to, result, is);
    }
    assert_eq!(world.refused(vec![set("none", ResourceStatus::Stale)]).await, "not-found.resource");
}

/// Every pair of states of provider state, each with the name of a record of its own.
fn changes(prefix: &str) -> impl Iterator<Item = (ResourceStatus, ResourceStatus, String)> {
    ResourceStatus::ALL.iter().flat_map(move |from| {
        ResourceStatus::ALL
            .iter()
            .map(move |to| (*from, *to, format!("{prefix}_{from}_{to}")))
    })
}

/// A change of the table happened, a state that stays is no change, and everything else was refused.
fn check_change(from: ResourceStatus, to: ResourceStatus, result: Result<(), StoreError>, is: ResourceStatus) {
    use ResourceStatus::{Active, Stale};
    let allowed = from == to || from == Active || (from == Stale && to != Active);
    match result {
        Ok(()) => assert!(allowed && is == to, "{from} became {to}"),
        Err(e) => assert!(
            !allowed && is == from && e.code() == "invalid-request.validation",
            "{from} to {to}: {e}, and is {is}"
        ),
    }
}

pub(super) async fn checkpoints_keep_every_field(store: Store) {
    clause!("CKPT-02");
    let world = World::new(store).await;
    world.say(&world.branch_id, &["i1"]).await;
    let checkpoint = samples::checkpoint(&world, "ckpt_1", "i1", b"resp_123");
    let put = |checkpoint: &throughline_format::UnifiedProviderCheckpoint| vec![WriteOp::PutCheckpoint(Box::new(checkpoint.clone()))];
    world.commit(put(&checkpoint)).await.unwrap();
    world.commit(put(&checkpoint)).await.unwrap();
    assert_eq!(world.store.checkpoint(&id("ckpt_1")).await.unwrap(), Some(checkpoint.clone()));
    let set = |checkpoint: &str, status| WriteOp::SetCheckpointStatus {
        checkpoint_id: id(checkpoint),
        status,
    };
    for (from, to, name) in changes("ckpt") {
        let mut checkpoint = samples::checkpoint(&world, &name, "i1", b"resp_123");
        checkpoint.status = from;
        world.commit(put(&checkpoint)).await.unwrap();
        let result = world.commit(vec![set(&name, to)]).await.map(|_| ());
        let is = world.store.checkpoint(&id(&name)).await.unwrap().unwrap().status;
        check_change(from, to, result, is);
    }
    world.commit(vec![set("ckpt_1", ResourceStatus::Invalid)]).await.unwrap();
    world
        .commit(put(&checkpoint))
        .await
        .expect("a repeated put does not bring an old status back");
    assert_eq!(
        world.store.checkpoint(&id("ckpt_1")).await.unwrap().unwrap().status,
        ResourceStatus::Invalid
    );
    // Plaintext is refused.
    let mut plain = samples::checkpoint(&world, "ckpt_2", "i1", b"x");
    plain.encrypted_payload = SealedBytes(b"resp_0123456789abcdefghijklmnopqrstuvwxyz0123456789".to_vec());
    assert_eq!(world.refused(put(&plain)).await, "invalid-request.validation");
}

pub(super) async fn checkpoints_belong_to_their_branch(store: Store) {
    let world = World::new(store).await;
    world.say(&world.branch_id, &["i1", "i2"]).await;
    world
        .commit(vec![WriteOp::CreateBranch(samples::fork(
            &world,
            "br_side",
            &world.branch_id,
            "i1",
        ))])
        .await
        .unwrap();
    for (checkpoint, head) in [("ckpt_1", "i1"), ("ckpt_2", "i2")] {
        world
            .commit(vec![WriteOp::PutCheckpoint(Box::new(samples::checkpoint(
                &world, checkpoint, head, b"x",
            )))])
            .await
            .unwrap();
    }
    let mut side = samples::checkpoint(&world, "ckpt_3", "i2", b"x");
    side.branch_id = id("br_side");
    assert_eq!(
        world.refused(vec![WriteOp::PutCheckpoint(Box::new(side.clone()))]).await,
        "invalid-request.validation"
    );
    side.journal_head_item_id = id("i1");
    world.commit(vec![WriteOp::PutCheckpoint(Box::new(side))]).await.unwrap();
    let of = async |branch| {
        let found = world.store.checkpoints(&world.conversation_id, branch).await.unwrap();
        found
            .iter()
            .map(|checkpoint| checkpoint.checkpoint_id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(of(None).await, ["ckpt_3", "ckpt_2", "ckpt_1"]);
    assert_eq!(of(Some(&world.branch_id)).await, ["ckpt_2", "ckpt_1"]);
    assert_eq!(of(Some(&id("br_side"))).await, ["ckpt_3"]);
}

pub(super) async fn keys_can_be_rotated(store: Store) {
    clause!("STORE-06");
    let world = World::new(store).await;
    world.say(&world.branch_id, &["i1"]).await;
    let ring = KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap();
    let old = Vault::new(ring.clone(), Arc::new(OsRandom)).unwrap();
    let new = Vault::new(ring.with_next_key(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
    let mut resource = samples::resource(&world, "r1", "a", b"signature");
    resource.sealed = old.seal(&resource.seal_context(), b"signature").unwrap();
    let mut checkpoint = samples::checkpoint(&world, "ckpt_1", "i1", b"handle");
    let context = SealContext::checkpoint(
        id("ckpt_1"),
        world.conversation_id.clone(),
        world.branch_id.clone(),
        id("i1"),
        resource.owner_fingerprint,
    );
    checkpoint.encrypted_payload = SealedBytes(old.seal(&context, b"handle").unwrap().as_bytes().to_vec());
    world
        .commit(vec![
            WriteOp::PutResource(Box::new(resource)),
            WriteOp::PutCheckpoint(Box::new(checkpoint)),
        ])
        .await
        .unwrap();
    assert!(world.store.sealed_under_other_keys(1, None, 10).await.unwrap().is_empty());
    let records = world.store.sealed_under_other_keys(new.current_version(), None, 10).await.unwrap();
    assert_eq!(records.len(), 2);
    assert_eq!(
        world
            .store
            .sealed_under_other_keys(new.current_version(), None, 1)
            .await
            .unwrap()
            .len(),
        1
    );
    for record in &records {
        let sealed = new.reseal(&record.context, &record.sealed).unwrap();
        let resealed = ResealedRecord {
            kind: record.context.kind,
            record_id: record.context.record_id.clone(),
            replaces: record.sealed.digest(),
            sealed,
        };
        let batch = WriteBatch::new(world.now, record.context.conversation_id.clone()).with(WriteOp::Reseal(resealed.clone()));
        world.store.commit(batch.clone()).await.unwrap();
        world.store.commit(batch).await.unwrap();
        // A second rotation that started from the same record must not win.
        let late = ResealedRecord {
            sealed: new.reseal(&record.context, &record.sealed).unwrap(),
            ..resealed
        };
        assert_eq!(world.refused(vec![WriteOp::Reseal(late)]).await, "conflict.duplicate");
    }
    assert!(
        world
            .store
            .sealed_under_other_keys(new.current_version(), None, 10)
            .await
            .unwrap()
            .is_empty()
    );
    let stored = world.store.resource(&id("r1")).await.unwrap().unwrap();
    assert_eq!(new.open(&stored.seal_context(), &stored.sealed).unwrap().as_slice(), b"signature");
    assert_eq!(
        old.open(&stored.seal_context(), &stored.sealed).unwrap_err().code(),
        "storage.wrong-key"
    );
    let stored = world.store.checkpoint(&id("ckpt_1")).await.unwrap().unwrap();
    assert_eq!(
        new.open(&context, &Sealed::from_bytes(stored.encrypted_payload.0).unwrap())
            .unwrap()
            .as_slice(),
        b"handle"
    );
}

pub(super) async fn annotations_are_kept(store: Store) {
    let world = World::new(store).await;
    let annotation = |id: &str, payload: &str| -> throughline_format::UnifiedPortableAnnotation {
        let text = format!(
            "{{\"resourceId\":\"{id}\",\"profile\":{{\"family\":\"openai-chat\"}},\"schema\":\"message/phase@1\",\"payload\":{payload}}}"
        );
        serde_json::from_str(&text).unwrap()
    };
    let put = |id: &str, subject: Option<&str>, payload: &str| WriteOp::PutAnnotation {
        subject: subject.map(samples::id),
        annotation: annotation(id, payload),
    };
    world
        .commit(vec![
            put("n1", Some("i1"), "{ \"phase\": \"commentary\"}"),
            put("n2", None, "{\"phase\":\"\"}"),
        ])
        .await
        .unwrap();
    world
        .commit(vec![put("n1", Some("i1"), "{ \"phase\": \"commentary\"}")])
        .await
        .unwrap();
    assert_eq!(
        world.refused(vec![put("n1", Some("i2"), "{ \"phase\": \"commentary\"}")]).await,
        "conflict.duplicate"
    );
    let stored = world.store.annotations(&world.conversation_id).await.unwrap();
    assert_eq!(
        stored[0],
        StoredAnnotation {
            subject: Some(id("i1")),
            annotation: annotation("n1", "{ \"phase\": \"commentary\"}")
        },
        "the payload's spelling is kept"
    );
    assert_eq!(stored.len(), 2);
}

pub(super) async fn artifacts_are_counted(store: Store) {
    clause!("STORE-06");
    let world = World::new(store.clone()).await;
    let other = World::of(store.clone(), "other", "principal-b").await;
    let artifact = samples::artifact("art_1", b"picture");
    let put = WriteOp::PutArtifact {
        principal_ref: samples::PRINCIPAL.to_owned(),
        artifact: artifact.clone(),
    };
    let pin = WriteOp::PinArtifact {
        sha256: artifact.sha256,
        owner: id("req_1"),
        expires_at: world.now.plus_millis(1_000),
    };
    let unpin = WriteOp::UnpinArtifact {
        sha256: artifact.sha256,
        owner: id("req_1"),
    };
    let reference = |subject: &str| WriteOp::AddArtifactRef {
        artifact_id: samples::id("art_1"),
        subject: samples::id(subject),
    };
    assert_eq!(world.refused(vec![reference("i1")]).await, "not-found.resource");
    world.commit(vec![pin.clone()]).await.unwrap();
    world.upload(b"picture").await;
    world
        .commit(vec![pin, put.clone(), reference("i1"), unpin.clone(), unpin])
        .await
        .unwrap();
    world.commit(vec![put, reference("i1"), reference("i2")]).await.unwrap();
    let stored = store.artifact(&id("art_1")).await.unwrap().unwrap();
    assert_eq!(
        (&stored.artifact, stored.references, stored.principal_ref.as_str()),
        (&artifact, 2, samples::PRINCIPAL)
    );
    assert_eq!(
        store.artifact_by_digest(samples::PRINCIPAL, &artifact.sha256).await.unwrap(),
        Some(stored)
    );
    assert_eq!(
        store.artifact_by_digest("principal-b", &artifact.sha256).await.unwrap(),
        None,
        "no sharing between principals"
    );
    assert_eq!(store.artifact_content(&artifact).await.unwrap(), "picture");
    let wrong = throughline_format::UnifiedArtifact {
        size: 6,
        ..artifact.clone()
    };
    assert_eq!(store.artifact_content(&wrong).await.unwrap_err().code(), "storage.corrupt");
    world.upload(b"picture").await;
    assert_eq!(other.refused(vec![reference("b1")]).await, "not-found.resource");
    let clash = WriteOp::PutArtifact {
        principal_ref: "principal-b".to_owned(),
        artifact,
    };
    assert_eq!(other.refused(vec![clash]).await, "conflict.duplicate");
    assert!(store.check().await.unwrap().is_ok());
}

pub(super) async fn annotations_are_validated(store: Store) {
    clause!("PDATA-02");
    let world = World::new(store).await;
    let put = |schema: &str, payload: &str| {
        let text =
            format!("{{\"resourceId\":\"n1\",\"profile\":{{\"family\":\"openai-chat\"}},\"schema\":\"{schema}\",\"payload\":{payload}}}");
        vec![WriteOp::PutAnnotation {
            subject: None,
            annotation: serde_json::from_str(&text).unwrap(),
        }]
    };
    let key = format!("{{\"phase\":\"sk-ant-api03-{}\"}}", "Ab1".repeat(16));
    for (schema, payload) in [
        ("acme/never-registered@1", "{}"),
        ("message/phase@1", "7"),
        ("message/phase@1", "{\"phase\":7}"),
        ("message/phase@1", "{\"phase\":\"final\",\"more\":1}"),
        // Registered, but for owners only.
        ("unmapped@1", "{\"entries\":[]}"),
        ("message/phase@1", key.as_str()),
    ] {
        let error = world.commit(put(schema, payload)).await.unwrap_err();
        assert_eq!(error.code(), "invalid-request.validation", "{schema} {payload}");
        assert!(!error.to_string().contains("sk-ant"), "no content in a message");
    }
    assert_eq!(world.store.annotations(&world.conversation_id).await.unwrap(), []);
    world.commit(put("message/phase@1", "{\"phase\":\"final\"}")).await.unwrap();
    // What belongs to an owner stands outside the items, sealed.
    world
        .commit(put_resource(&samples::resource(&world, "r1", "a", b"owner-private-canary")))
        .await
        .unwrap();
    let stored = world.store.resource(&id("r1")).await.unwrap().unwrap();
    assert!(!stored.sealed.as_bytes().windows(6).any(|window| window == b"canary"));
}

pub(super) fn put_resource(resource: &SealedResource) -> Vec<WriteOp> {
    put(resource)
}

pub(super) async fn artifacts_without_references_are_collected(store: Store) {
    clause!("STORE-06", "RET-05");
    let mut world = World::new(store.clone()).await;
    let put = |id: &str, bytes: &[u8]| WriteOp::PutArtifact {
        principal_ref: samples::PRINCIPAL.to_owned(),
        artifact: samples::artifact(id, bytes),
    };
    let reference = |id: &str| WriteOp::AddArtifactRef {
        artifact_id: samples::id(id),
        subject: samples::id("i1"),
    };
    let grace = i64::try_from(ARTIFACT_GRACE_MILLIS).unwrap();
    let pin = WriteOp::PinArtifact {
        sha256: samples::artifact("art_pinned", b"pinned").sha256,
        owner: id("req_1"),
        expires_at: world.now.plus_millis(3 * grace),
    };
    world
        .commit(vec![
            put("art_kept", b"kept"),
            put("art_alone", b"alone"),
            put("art_pinned", b"pinned"),
            reference("art_kept"),
            pin,
        ])
        .await
        .unwrap();
    for content in [&b"kept"[..], b"alone", b"pinned", b"back"] {
        world.upload(content).await;
    }
    let left = async || {
        let mut left = Vec::new();
        for name in ["art_kept", "art_alone", "art_pinned"] {
            if store.artifact(&id(name)).await.unwrap().is_some() {
                left.push(name);
            }
        }
        left
    };
    // Noticed first, and given the grace time.
    for (hours, expected, gone) in [
        (0, vec!["art_kept", "art_alone", "art_pinned"], 0),
        (1, vec!["art_kept", "art_pinned"], 1),
        (2, vec!["art_kept", "art_pinned"], 0),
        // The pin has lapsed: noticed now, gone an hour later.
        (3, vec!["art_kept", "art_pinned"], 0),
        (4, vec!["art_kept"], 1),
    ] {
        let report = store
            .collect(CollectRequest::new(world.now.plus_millis(hours * grace)))
            .await
            .unwrap();
        assert_eq!((report.artifacts, left().await), (gone, expected), "after {hours} hours");
    }
    // A new reference in the grace time keeps what is waiting for collection.
    world.now = world.now.plus_millis(10 * grace);
    world.commit(vec![put("art_back", b"back")]).await.unwrap();
    store.collect(CollectRequest::new(world.now)).await.unwrap();
    world.commit(vec![reference("art_back")]).await.unwrap();
    store.collect(CollectRequest::new(world.now.plus_millis(2 * grace))).await.unwrap();
    assert_eq!(store.artifact(&id("art_back")).await.unwrap().unwrap().references, 1);
    // Steps are bounded and end.
    for number in 0..7u8 {
        world.commit(vec![put(&format!("art_{number}"), &[number])]).await.unwrap();
    }
    store.collect(CollectRequest::new(world.now)).await.unwrap();
    let mut gone = Vec::new();
    loop {
        let request = CollectRequest {
            max_digests: 3,
            ..CollectRequest::new(world.now.plus_millis(grace))
        };
        let report = store.collect(request).await.unwrap();
        gone.push(report.artifacts);
        if !report.more {
            break;
        }
    }
    assert_eq!(gone, [3, 3, 1]);
    assert!(store.check().await.unwrap().is_ok());
}

/// A message with one medium.
fn with_image(item_id: &str, encoding: &str, data: &str, media: Option<&serde_json::Value>) -> UnifiedItem {
    let mut part = serde_json::json!({"kind": "image", "partId": format!("{item_id}.p0"),
        "source": {"kind": "inline", "mediaType": "image/png", "encoding": encoding, "data": data}});
    if let Some(media) = media {
        part["media"] = media.clone();
    }
    samples::item(item_id, &serde_json::json!({"kind": "message", "role": "user", "parts": [part]}))
}

pub(super) async fn long_inline_data_is_read_back_identical(store: Store) {
    clause!("PART-05");
    let world = World::new(store.clone()).await;
    let bound = super::sizes::small().inline_bytes;
    let base64 = |length: usize| {
        let full = throughline_format::media::encode_base64(&vec![0x5A; length]);
        full[..length - length % 4].to_owned()
    };
    let mime = base64(bound + 400)
        .as_bytes()
        .chunks(76)
        .map(String::from_utf8_lossy)
        .collect::<Vec<_>>()
        .join("\n");
    let cases = [
        ("base64", base64(bound), None),
        ("base64", base64(bound + 4), None),
        ("bytes", base64(bound + 4), Some(serde_json::json!({}))),
        (
            "utf8",
            "\u{1F600}x\"\\".repeat(bound / 4),
            Some(serde_json::json!({"name": "a.txt"})),
        ),
        (
            "base64",
            base64(bound + 4),
            Some(serde_json::json!({"mediaType": "image/x-other", "size": 3})),
        ),
        // The same content as before once more, and spellings that bytes alone do not tell.
        ("base64", base64(bound + 4), None),
        ("base64", mime, None),
        ("base64", format!("{}!!", base64(bound)), None),
    ];
    let mut head = None;
    let mut sent = Vec::new();
    for (number, (encoding, data, media)) in cases.iter().enumerate() {
        let item = with_image(&format!("i{number}"), encoding, data, media.as_ref());
        let append = world.append(head.as_deref(), vec![item]);
        world.commit(vec![append.clone()]).await.unwrap();
        world.commit(vec![append]).await.unwrap();
        let stored = store.item(&id(&format!("i{number}"))).await.unwrap().unwrap();
        let placed = with_image(&format!("i{number}"), encoding, data, media.as_ref());
        assert_eq!(stored.body, placed.body, "{encoding} {number}");
        assert_eq!(
            throughline_format::content_fingerprint(&stored).unwrap(),
            throughline_format::content_fingerprint(&placed).unwrap()
        );
        sent.push(stored);
        head = Some(format!("i{number}"));
    }
    // Whole pages, revisions and results as well.
    let page = store.branch_items(&world.branch_id, ItemPage::default()).await.unwrap();
    assert_eq!(page, sent);
    let parts = sent[1].parts().to_vec();
    let change = serde_json::json!({"parts": parts});
    world
        .commit(vec![WriteOp::AddRevision(samples::revision("rev_1", "i0", 1, &change))])
        .await
        .unwrap();
    for revisions in [
        store.revisions(&id("i0")).await.unwrap(),
        store.branch_revisions(&world.branch_id).await.unwrap(),
    ] {
        assert_eq!(revisions[0].change.parts.as_deref(), Some(&parts[..]));
    }
    world.start("op_1").await;
    let mut result = samples::result(&id("op_1"));
    result.output = vec![sent[3].clone()];
    let put = WriteOp::PutResult {
        operation_id: id("op_1"),
        result: result.clone(),
    };
    world.commit(vec![put.clone()]).await.unwrap();
    world.commit(vec![put]).await.unwrap();
    let stored = store.result(&id("op_1")).await.unwrap().unwrap();
    assert_eq!(
        throughline_format::fingerprint(&stored).unwrap(),
        throughline_format::fingerprint(result.as_ref()).unwrap()
    );
    assert_eq!(stored, *result);
    assert!(store.check().await.unwrap().is_ok());
}
