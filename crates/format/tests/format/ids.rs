//! IDs, digests and the IDs derived from an operation.

use throughline_format::{Sha256, UnifiedId};

#[test]
fn an_id_has_a_bounded_plain_alphabet() {
    for good in ["a", "A.b_c:d-9", &"x".repeat(128)] {
        assert_eq!(UnifiedId::parse(good).unwrap().as_str(), good);
    }
    for bad in ["", " ", "a b", "a/b", "ä", "a\n", "a|b", &"x".repeat(129)] {
        assert!(UnifiedId::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn a_derived_id_is_always_an_id_and_always_its_own() {
    let operation = UnifiedId::parse("op_1").unwrap();
    assert_eq!(operation.item(3).part(0).resource(2).as_str(), "op_1.i3.p0.r2");
    assert_eq!(operation.event(17).as_str(), "op_1.e17");
    for length in [100, 120, 126, 128] {
        let parents = [
            UnifiedId::parse(&"x".repeat(length)).unwrap(),
            UnifiedId::parse(&format!("{}y", "x".repeat(length - 1))).unwrap(),
        ];
        let mut seen = std::collections::BTreeSet::new();
        for parent in &parents {
            for child in [
                parent.item(u64::MAX),
                parent.item(0),
                parent.item(0).part(0),
                parent.item(0).part(u64::MAX).resource(u64::MAX),
            ] {
                assert_eq!(UnifiedId::parse(child.as_str()).as_ref(), Ok(&child), "{child}");
                assert!(seen.insert(child));
            }
        }
    }
}

#[test]
fn a_digest_is_64_hex_digits() {
    let digest = Sha256::of(b"abc");
    assert_eq!(digest.to_hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_eq!(Sha256::of_all([b"a".as_slice(), b"bc"]), digest);
    assert_eq!(Sha256::from_hex(&digest.to_hex().to_uppercase()), Some(digest));
    for bad in ["", "ba78", &"g".repeat(64), &"0".repeat(65)] {
        assert_eq!(Sha256::from_hex(bad), None, "{bad}");
    }
}
