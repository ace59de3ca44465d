//! A data directory with a small store in it.

use crate::support::{Run, throughline};
use std::path::PathBuf;
use std::sync::Arc;
use throughline_format::Timestamp;
use throughline_store::contract::{World, samples};
use throughline_store::{KeyRing, OsRandom, StateWriter as _, StoreAdmin as _, Vault, WriteOp, keyring};
use throughline_store_sqlite::{SqliteConfig, SqliteStore};

pub(crate) const SECRET: &[u8] = b"owner-private-canary";

pub(crate) struct Data(tempfile::TempDir);

impl Data {
    /// Two conversations of two items each, one with an artifact, a long picture, a fork and a sealed payload. Nothing is open.
    pub(crate) fn new() -> Self {
        let data = Self(tempfile::tempdir().unwrap());
        std::fs::create_dir(data.0.path().join("keys")).unwrap();
        let ring = KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap();
        keyring::save(&data.key_ring(), &ring).unwrap();
        data.with_store(async |store| {
            let first = World::of(store.clone(), "first", samples::PRINCIPAL).await;
            first.say(&first.branch_id, &["i1", "i2"]).await;
            let second = World::of(store.clone(), "second", "principal-b").await;
            second.say(&second.branch_id, &["b1"]).await;
            let picture = throughline_format::media::encode_base64(&vec![7; 300_000]);
            let source = serde_json::json!({"kind": "inline", "mediaType": "image/png", "encoding": "base64", "data": picture});
            let parts = serde_json::json!({"kind": "message", "role": "user", "parts": [{"kind": "image", "partId": "b2.p0", "source": source}]});
            second.upload(b"report").await;
            let artifact = WriteOp::PutArtifact {
                principal_ref: "principal-b".to_owned(),
                artifact: samples::artifact("art_1", b"report"),
            };
            let reference = WriteOp::AddArtifactRef {
                artifact_id: samples::id("art_1"),
                subject: samples::id("b3"),
            };
            let file = serde_json::json!({"kind": "message", "role": "user", "parts": [{"kind": "artifact-reference", "partId": "b3.p0", "artifactId": "art_1", "sha256": samples::artifact("art_1", b"report").sha256}]});
            let mut resource = samples::resource(&second, "r1", "a", SECRET);
            resource.sealed = data.vault().seal(&resource.seal_context(), SECRET).unwrap();
            second
                .commit(vec![
                    second.append(Some("b1"), vec![samples::item("b2", &parts), samples::item("b3", &file)]),
                    artifact,
                    reference,
                    WriteOp::PutResource(Box::new(resource)),
                    WriteOp::CreateBranch(samples::fork(&second, "br_fork", &second.branch_id, "b1")),
                ])
                .await
                .unwrap();
        });
        data
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    pub(crate) fn key_ring(&self) -> PathBuf {
        self.0.path().join("keys").join("keyring.json")
    }

    pub(crate) fn vault(&self) -> Vault {
        Vault::new(keyring::load(&self.key_ring()).unwrap(), Arc::new(OsRandom)).unwrap()
    }

    pub(crate) fn open(&self) -> SqliteStore {
        let config = SqliteConfig::new(self.0.path().join("throughline.db"), self.0.path().join("artifacts"));
        SqliteStore::open(config, &self.vault(), &OsRandom, Timestamp::EPOCH).unwrap()
    }

    /// Works with the open store, and closes it.
    pub(crate) fn with_store(&self, work: impl AsyncFnOnce(Arc<SqliteStore>)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = Arc::new(self.open());
            work(store.clone()).await;
            store.close().await.unwrap();
        });
    }

    /// Collects what is due at a time.
    pub(crate) fn collect(&self, now: Timestamp) {
        self.with_store(async |store| {
            store.collect(throughline_store::CollectRequest::new(now)).await.unwrap();
        });
    }

    /// Runs a command on this store.
    pub(crate) fn run(&self, arguments: &[&str]) -> Run {
        let path = self.path();
        let mut all = arguments.to_vec();
        all.extend(["--db", path.to_str().unwrap()]);
        throughline(&all, "")
    }
}
