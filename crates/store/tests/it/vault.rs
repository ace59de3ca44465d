//! Sealing and keyed hashes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use throughline_format::{Sha256, Timestamp, UnifiedId, clause};
use throughline_store::contract::samples;
use throughline_store::{HashPurpose, KeyRing, OsRandom, RandomSource, SealContext, Sealed, StoreError, Vault, owner_fingerprint};

/// Gives 1, 2, 3, ... so that records are the same in every run.
#[derive(Default)]
struct Counting(AtomicU8);

impl RandomSource for Counting {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), StoreError> {
        bytes.fill_with(|| self.0.fetch_add(1, Ordering::Relaxed).wrapping_add(1));
        Ok(())
    }
}

struct Broken;

impl RandomSource for Broken {
    fn fill(&self, _bytes: &mut [u8]) -> Result<(), StoreError> {
        Err(StoreError::Io {
            action: "asking the system for randomness",
            detail: "none".to_owned(),
        })
    }
}

fn id(text: &str) -> UnifiedId {
    UnifiedId::parse(text).unwrap()
}

fn vault() -> Vault {
    Vault::new(
        KeyRing::generate(&Counting::default(), Timestamp::EPOCH).unwrap(),
        Arc::new(Counting::default()),
    )
    .unwrap()
}

fn context() -> SealContext {
    SealContext::checkpoint(id("ckpt_1"), id("conv_1"), id("br_1"), id("i1"), Sha256::of(b"owner"))
}

#[test]
fn record_layout_is_fixed() {
    let vault = vault();
    let sealed = vault.seal(&context(), b"payload").unwrap();
    let bytes = sealed.as_bytes();
    assert_eq!(bytes.len(), 1 + 4 + 24 + 7 + 16);
    assert_eq!(bytes[..5], [1, 0, 0, 0, 1], "layout 1, key version 1");
    assert_eq!(bytes[5..29], (1..=24).collect::<Vec<u8>>(), "the nonce of the source");
    // A change of layout, key derivation or associated data would make every stored record unreadable.
    assert_eq!(
        sealed.digest().to_hex(),
        "37f5637e2e54e557b24e375e59b97ac12190a813d2212eb26c988099df184af8"
    );
    assert_eq!(vault.open(&context(), &sealed).unwrap().as_slice(), b"payload");
    assert_eq!(
        vault
            .open(&context(), &Sealed::from_bytes(bytes.to_vec()).unwrap())
            .unwrap()
            .as_slice(),
        b"payload"
    );
}

#[test]
fn every_altered_bit_is_noticed() {
    clause!("SEC-03");
    let vault = vault();
    let sealed = vault.seal(&context(), b"payload").unwrap();
    for position in 0..sealed.as_bytes().len() * 8 {
        let mut bytes = sealed.as_bytes().to_vec();
        bytes[position / 8] ^= 1 << (position % 8);
        let refused = Sealed::from_bytes(bytes)
            .and_then(|sealed| vault.open(&context(), &sealed))
            .unwrap_err()
            .code();
        assert!(
            ["storage.sealed-record", "storage.wrong-key", "invalid-request.validation"].contains(&refused),
            "bit {position}: {refused}"
        );
    }
    for length in 0..sealed.as_bytes().len() {
        let cut = Sealed::from_bytes(sealed.as_bytes()[..length].to_vec());
        assert!(cut.and_then(|sealed| vault.open(&context(), &sealed)).is_err());
    }
}

#[test]
fn equal_payloads_look_different() {
    let vault = Vault::new(KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
    let one = vault.seal(&context(), b"payload").unwrap();
    let two = vault.seal(&context(), b"payload").unwrap();
    assert_ne!(one.as_bytes()[5..], two.as_bytes()[5..]);
    assert!(!one.as_bytes().windows(7).any(|window| window == b"payload"));
}

#[test]
fn without_randomness_nothing_is_sealed() {
    let ring = KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap();
    assert_eq!(
        Vault::new(ring, Arc::new(Broken))
            .unwrap()
            .seal(&context(), b"x")
            .unwrap_err()
            .code(),
        "storage.io"
    );
    assert!(KeyRing::generate(&Broken, Timestamp::EPOCH).is_err());
}

#[test]
fn hashes_depend_on_key_purpose_and_content_and_survive_rotation() {
    clause!("CKPT-03");
    let ring = KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap();
    let old = Vault::new(ring.clone(), Arc::new(OsRandom)).unwrap();
    let new = Vault::new(ring.with_next_key(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
    let foreign = Vault::new(KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
    let hash = |vault: &Vault, purpose, bytes: &[u8]| vault.keyed_hash(purpose, bytes).unwrap();
    let first = hash(&old, HashPurpose::IssuedId, b"toolu_1");
    assert_eq!(first, hash(&new, HashPurpose::IssuedId, b"toolu_1"));
    assert_ne!(first, hash(&old, HashPurpose::SessionKey, b"toolu_1"));
    assert_ne!(first, hash(&old, HashPurpose::IssuedId, b"toolu_2"));
    assert_ne!(first, hash(&foreign, HashPurpose::IssuedId, b"toolu_1"));
    assert_eq!(old.lineage_key().unwrap(), new.lineage_key().unwrap());
    let fingerprint = old.credential_fingerprint(b"sk-test").unwrap();
    assert_eq!(fingerprint, new.credential_fingerprint(b"sk-test").unwrap());
    assert!(fingerprint.starts_with("v1:") && fingerprint.len() == 3 + 32, "{fingerprint}");
    assert_ne!(
        fingerprint,
        foreign.credential_fingerprint(b"sk-test").unwrap(),
        "not guessable without the key"
    );
}

#[test]
fn macs_are_of_one_version_and_purpose() {
    let ring = KeyRing::generate(&OsRandom, Timestamp::EPOCH).unwrap();
    let vault = Vault::new(ring.with_next_key(&OsRandom, Timestamp::EPOCH).unwrap(), Arc::new(OsRandom)).unwrap();
    let (version, mac) = vault.mac(HashPurpose::Cursor, b"cursor").unwrap();
    let verify = |purpose, version, bytes: &[u8], mac: &[u8]| vault.verify_mac(purpose, version, bytes, mac);
    assert_eq!(version, 2);
    assert!(verify(HashPurpose::Cursor, 2, b"cursor", mac.as_bytes()));
    assert!(!verify(HashPurpose::Cursor, 1, b"cursor", mac.as_bytes()));
    assert!(!verify(HashPurpose::Cursor, 3, b"cursor", mac.as_bytes()));
    assert!(!verify(HashPurpose::SyntheticSignature, 2, b"cursor", mac.as_bytes()));
    assert!(!verify(HashPurpose::Cursor, 2, b"cursos", mac.as_bytes()));
    assert!(!verify(HashPurpose::Cursor, 2, b"cursor", &mac.as_bytes()[..31]));
    for position in 0..256 {
        let mut altered = *mac.as_bytes();
        altered[position / 8] ^= 1 << (position % 8);
        assert!(!verify(HashPurpose::Cursor, 2, b"cursor", &altered));
    }
}

#[test]
fn nothing_prints_a_key_or_a_payload() {
    clause!("SEC-02");
    let vault = vault();
    let sealed = vault.seal(&context(), b"payload").unwrap();
    let shown = format!(
        "{vault:?} {sealed:?} {:?}",
        KeyRing::generate(&Counting::default(), Timestamp::EPOCH).unwrap()
    );
    assert!(
        !shown.contains("payload") && !shown.contains("1, 2, 3") && !shown.contains("010203"),
        "{shown}"
    );
}

#[test]
fn owners_differ_in_every_member() {
    clause!("CKPT-03");
    let owner = samples::owner("a");
    let changes: [fn(&mut throughline_format::UnifiedResourceOwner); 9] = [
        |owner| owner.provider = "bedrock".to_owned(),
        |owner| owner.credential_fingerprint = "v1:b".to_owned(),
        |owner| owner.endpoint_fingerprint = "00".to_owned(),
        |owner| owner.project = Some(String::new()),
        |owner| owner.region = Some("eu".to_owned()),
        |owner| owner.tenant = Some("t".to_owned()),
        |owner| owner.model = Some("m".to_owned()),
        |owner| owner.model_family = None,
        |owner| owner.api_revision = Some("2".to_owned()),
    ];
    let mut seen = vec![owner_fingerprint(&owner).unwrap()];
    for change in changes {
        let mut other = owner.clone();
        change(&mut other);
        seen.push(owner_fingerprint(&other).unwrap());
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 10);
}
