//! `throughline key`.

use crate::support::throughline;
use serde_json::Value;
use throughline_gateway::auth::ClientKeys;

#[test]
fn keys_are_made_listed_and_revoked() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    let run = |arguments: &[&str]| throughline(&[&["key"], arguments, &["--db", root.to_str().unwrap()]].concat(), "");
    assert_eq!((run(&["list"]).exit, run(&["list"]).stdout.as_str()), (0, ""), "none yet");
    assert!(!root.exists(), "a list makes nothing");
    let made = run(&["new", "--name", "laptop"]).json();
    let phone = run(&["new", "--name", "phone"]).json();
    let [id, key] = ["id", "key"].map(|member| made[member].as_str().unwrap());
    assert!(
        id.starts_with("key_") && key.starts_with("tlk_") && made["name"] == "laptop",
        "{made}"
    );
    let file = root.join("keys").join("clients.json");
    assert!(
        !std::fs::read_to_string(&file).unwrap().contains(&key[4..]),
        "only its hash is kept"
    );
    let found = |key: &str| ClientKeys::load(&file).unwrap().find(key).map(|info| info.name.to_owned());
    assert_eq!(found(key).as_deref(), Some("laptop"));
    let listed = run(&["list"]).lines();
    let column = |lines: &[Value], member: &str| lines.iter().map(|line| line[member].clone()).collect::<Vec<_>>();
    assert_eq!(column(&listed, "id"), [made["id"].clone(), phone["id"].clone()]);
    assert_eq!(column(&listed, "revokedAt"), [Value::Null, Value::Null]);
    assert!(
        listed
            .iter()
            .all(|line| line.as_object().unwrap().len() == 4 && line["createdAt"].is_string()),
        "{listed:?}"
    );
    let revoked = run(&["revoke", id]);
    assert_eq!(
        (revoked.exit, &revoked.json()["id"], revoked.json()["revokedAt"].is_string()),
        (0, &made["id"], true)
    );
    assert_eq!(found(key), None);
    assert_eq!(run(&["revoke", id]).json(), revoked.json(), "once more changes nothing");
    assert!(found(phone["key"].as_str().unwrap()).is_some());
}

#[test]
fn what_is_no_key_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let db = folder.path().to_str().unwrap();
    for (arguments, exit, code) in [
        (&["key", "new", "--db", db][..], 2, "invalid-request.usage"),
        (&["key", "new", "--name", "", "--db", db], 2, "invalid-request.invalid-value"),
        (&["key", "revoke", "key_none", "--db", db], 1, "not-found.resource"),
        (&["key", "revoke", "no id", "--db", db], 1, "not-found.resource"),
    ] {
        let run = throughline(arguments, "");
        assert_eq!((run.exit, run.error()["code"].as_str().unwrap()), (exit, code), "{arguments:?}");
    }
    std::fs::write(folder.path().join("keys").join("clients.json"), "{}").unwrap();
    let run = throughline(&["key", "list", "--db", db], "");
    assert_eq!((run.exit, run.error()["code"].as_str().unwrap()), (1, "storage.key-file"));
}
