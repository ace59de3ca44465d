//! The diagnostic store by itself.

use std::path::PathBuf;
use std::sync::Arc;

use throughline_format::Timestamp;
use throughline_store::contract::{World, samples};
use throughline_store::{
    DeletionCondition, Diagnostic, DiagnosticFiles, DiagnosticLimits, Direction, KeyRing, MemoryStore, OsRandom, StateWriter as _, Vault,
    WriteOp,
};

struct Place {
    folder: tempfile::TempDir,
    vault: Arc<Vault>,
}

impl Place {
    fn new() -> Self {
        let ring = KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap();
        Self {
            folder: tempfile::tempdir().unwrap(),
            vault: Arc::new(Vault::new(ring, Arc::new(OsRandom)).unwrap()),
        }
    }

    fn open(&self, body_bytes: usize, total_bytes: u64) -> DiagnosticFiles {
        let limits = DiagnosticLimits { body_bytes, total_bytes };
        DiagnosticFiles::open(self.folder.path().join("raw"), self.vault.clone(), limits).unwrap()
    }

    fn files(&self) -> Vec<PathBuf> {
        let folders = std::fs::read_dir(self.folder.path().join("raw")).unwrap();
        let mut files: Vec<PathBuf> = folders
            .flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap())
            .map(|file| file.unwrap().path())
            .collect();
        files.sort();
        files
    }
}

fn body(conversation: &str, operation: &str, content: &[u8]) -> Diagnostic {
    Diagnostic {
        conversation_id: samples::id(conversation),
        operation_id: samples::id(operation),
        direction: Direction::UpstreamResponse,
        created_at: Timestamp::EPOCH,
        body: content.to_vec(),
    }
}

fn read(files: &DiagnosticFiles, conversation: &str, operation: &str) -> Vec<Vec<u8>> {
    let found = files.read(&samples::id(conversation), &samples::id(operation)).unwrap();
    found.into_iter().map(|diagnostic| diagnostic.body).collect()
}

#[test]
fn bodies_are_sealed_cut_and_survive_a_restart() {
    let place = Place::new();
    let files = place.open(10, 100_000);
    files.record(&body("conv_a", "op_1", b"0123456789")).unwrap();
    files.record(&body("conv_a", "op_1", b"0123456789x")).unwrap();
    files.record(&body("conv_a", "op_2", b"other")).unwrap();
    let again = place.open(10, 100_000);
    again.record(&body("conv_a", "op_1", b"later")).unwrap();
    assert_eq!(read(&again, "conv_a", "op_1"), [&b"0123456789"[..], b"0123456789", b"later"]);
    assert_eq!(read(&again, "conv_b", "op_1"), Vec::<Vec<u8>>::new());
    for file in place.files() {
        let bytes = std::fs::read(&file).unwrap();
        assert!(!bytes.windows(5).any(|window| window == b"01234"), "{}", file.display());
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions()) & 0o777,
            0o600
        );
    }
    // A header that was altered, or a body that stands in another file, does not open.
    let first = place.files()[0].clone();
    let altered = String::from_utf8_lossy(&std::fs::read(&first).unwrap()[..60]).contains("conv_a");
    assert!(altered);
    let mut bytes = std::fs::read(&first).unwrap();
    let at = bytes.windows(5).position(|window| window == b"1970-").unwrap();
    bytes[at + 3] = b'1';
    std::fs::write(&first, bytes).unwrap();
    let error = again.read(&samples::id("conv_a"), &samples::id("op_1")).unwrap_err();
    assert_eq!(error.code(), "storage.sealed-record");
}

#[test]
fn the_oldest_go_when_it_is_full() {
    let place = Place::new();
    let probe = place.open(100, 100_000);
    probe.record(&body("conv_a", "op_1", &[1; 100])).unwrap();
    let size = std::fs::metadata(&place.files()[0]).unwrap().len();
    // Exactly two fit; the bound holds over a restart as well.
    let files = place.open(100, 2 * size);
    files.record(&body("conv_b", "op_2", &[2; 100])).unwrap();
    assert_eq!(place.files().len(), 2);
    let files = place.open(100, 2 * size);
    files.record(&body("conv_a", "op_3", &[3; 100])).unwrap();
    assert_eq!(read(&files, "conv_a", "op_1"), Vec::<Vec<u8>>::new());
    assert_eq!((read(&files, "conv_b", "op_2").len(), read(&files, "conv_a", "op_3").len()), (1, 1));
    // One that never fits is left out and pushes nothing out.
    place.open(100, size - 1).record(&body("conv_a", "op_4", &[4; 100])).unwrap();
    assert_eq!(place.files().len(), 2);
}

#[tokio::test]
async fn bodies_go_with_their_conversation() {
    let store = MemoryStore::default();
    let kept = World::of(Arc::new(store.clone()), "kept", samples::PRINCIPAL).await;
    let gone = World::of(Arc::new(store.clone()), "gone", samples::PRINCIPAL).await;
    let place = Place::new();
    let files = place.open(100, 100_000);
    for world in [&kept, &gone] {
        files.record(&body(world.conversation_id.as_str(), "op_1", b"x")).unwrap();
    }
    assert_eq!(files.follow(&store).await.unwrap(), 0);
    let delete = WriteOp::DeleteConversation {
        only_if: DeletionCondition::Always,
    };
    gone.commit(vec![delete]).await.unwrap();
    assert_eq!(files.follow(&store).await.unwrap(), 1);
    assert_eq!(
        (read(&files, "conv_kept", "op_1").len(), read(&files, "conv_gone", "op_1").len()),
        (1, 0)
    );
    // The folder may be deleted at any time.
    std::fs::remove_dir_all(place.folder.path().join("raw")).unwrap();
    assert_eq!(files.follow(&store).await.unwrap(), 0);
    files.record(&body("conv_kept", "op_2", b"y")).unwrap();
    assert_eq!(read(&files, "conv_kept", "op_2").len(), 1);
    store.sweep(throughline_store::SweepRequest::new(Timestamp::EPOCH)).await.unwrap();
}
