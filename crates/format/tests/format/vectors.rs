//! Vectors of the canonical form as files that another language can run: `schema/vectors/*.json`.
//!
//! Each file is one object: `record` names the type, `input` is the record as somebody wrote it, `canonical` its canonical
//! text, `sha256` the fingerprint, `contentSha256` the content fingerprint. `UPDATE_VECTORS=1` writes the last three anew.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::path::PathBuf;
use throughline_format::json::decode_str;
use throughline_format::{Sha256, canonical, content_fingerprint};

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Vector {
    record: String,
    input: Box<RawValue>,
    canonical: String,
    sha256: Sha256,
    content_sha256: Sha256,
}

fn files() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../schema/vectors");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    files
}

fn forms<T: DeserializeOwned + Serialize>(input: &str) -> (String, Sha256) {
    let record: T = decode_str(input).unwrap();
    (
        String::from_utf8(canonical::to_bytes(&record).unwrap()).unwrap(),
        content_fingerprint(&record).unwrap(),
    )
}

#[test]
fn every_vector_holds() {
    throughline_format::clause!("VAL-02", "VER-02");
    let update = std::env::var_os("UPDATE_VECTORS").is_some();
    for file in files() {
        let text = std::fs::read_to_string(&file).unwrap();
        let mut vector: Vector = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        let input = vector.input.get();
        let (form, content) = match vector.record.as_str() {
            "UnifiedContentPart" => forms::<throughline_format::UnifiedContentPart>(input),
            "UnifiedEventV2" => forms::<throughline_format::UnifiedEventV2>(input),
            "UnifiedItem" => forms::<throughline_format::UnifiedItem>(input),
            "UnifiedProtocolProfile" => forms::<throughline_format::UnifiedProtocolProfile>(input),
            "UnifiedSemanticMetadata" => forms::<throughline_format::metadata::UnifiedSemanticMetadata>(input),
            "UnifiedUsage" => forms::<throughline_format::UnifiedUsage>(input),
            other => panic!("{}: record {other} is not known here", file.display()),
        };
        if update {
            (vector.canonical, vector.sha256, vector.content_sha256) = (form, Sha256::of(vector.canonical.as_bytes()), content);
            vector.sha256 = Sha256::of(vector.canonical.as_bytes());
            std::fs::write(&file, format!("{}\n", serde_json::to_string_pretty(&vector).unwrap())).unwrap();
            continue;
        }
        assert_eq!(form, vector.canonical, "{}", file.display());
        assert_eq!(Sha256::of(form.as_bytes()), vector.sha256, "{}", file.display());
        assert_eq!(content, vector.content_sha256, "{}", file.display());
    }
}

#[test]
fn there_are_vectors_of_every_rule() {
    let names: Vec<String> = files()
        .iter()
        .map(|f| f.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    for rule in [
        "absent-members",
        "artifact-source",
        "inline-source",
        "key-order",
        "numbers",
        "opaque-json",
        "profile-with-revision",
        "profile-without-revision",
        "text-escapes",
    ] {
        assert!(names.iter().any(|n| n == rule), "{rule} of {names:?}");
    }
}
