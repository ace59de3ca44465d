//! Bad usage: exit 2, one JSON object on stderr, nothing on stdout.

use crate::support::{CHAT, Folder, throughline};

#[test]
fn bad_usage_is_one_error_object_and_exit_2() {
    let folder = Folder::new();
    let list = folder.file("list.json", "[1]");
    let unknown_key = folder.file("capabilities.json", r#"{"can_fly":true}"#);
    let twice = folder.file("twice.json", r#"{"/seed":"required","/seed":"optional"}"#);
    let word = folder.file("word.json", r#"{"/seed":"must"}"#);
    let nowhere = folder.file("nowhere.json", r#"{"/nowhere":"required"}"#);
    let absent = folder.file("absent.json", r#"{"/seed":"required"}"#);
    let request = ["convert", "--kind", "request", "--from", CHAT];
    let cases: &[(&[&str], &[&str], &str)] = &[
        (&[], &[], "invalid-request.usage"),
        (&["fly"], &[], "invalid-request.usage"),
        (&["convert"], &[], "invalid-request.usage"),
        (&["convert", "--kind", "request", "-"], &[], "invalid-request.usage"),
        (&["convert", "--kind", "letter", "--from", CHAT, "-"], &[], "invalid-request.usage"),
        (&["convert", "--batch", "--kind", "request"], &[], "invalid-request.usage"),
        (
            &["convert", "--kind", "request", "--from", "telegraph", "-"],
            &[],
            "invalid-request.unknown-protocol",
        ),
        (&request, &["--to", "telegraph", "-"], "invalid-request.unknown-protocol"),
        (&request, &["--raw", "-"], "invalid-request.usage"),
        (&request, &["/no/such/file"], "invalid-request.usage"),
        (&request, &["--requirements", "/no/such/file", "-"], "invalid-request.usage"),
        (&request, &["--requirements", &list, "-"], "invalid-request.wrong-type"),
        (&request, &["--requirements", &twice, "-"], "invalid-request.duplicate-key"),
        (&request, &["--requirements", &word, "-"], "invalid-request.invalid-value"),
        (&request, &["--requirements", &nowhere, "-"], "invalid-request.usage"),
        (&request, &["--requirements", &absent, "-"], "invalid-request.usage"),
        (
            &request,
            &["--to", CHAT, "--capabilities", &unknown_key, "-"],
            "invalid-request.usage",
        ),
        (&request, &["--source-owner", &list, "-"], "invalid-request.wrong-type"),
        (&["fold", "-"], &[], "invalid-request.usage"),
        (&["fold", "--from", CHAT, "--split", "0", "-"], &[], "invalid-request.usage"),
        (&["fold", "--from", "telegraph", "-"], &[], "invalid-request.unknown-protocol"),
        (&["fingerprint"], &[], "invalid-request.usage"),
        (&request, &["--dialect", "deepsek", "-"], "invalid-request.usage"),
        (&request, &["--to", CHAT, "--target-dialect", "codex", "-"], "invalid-request.usage"),
        (
            &request,
            &["--to", "anthropic-messages", "--target-dialect", "deepseek", "-"],
            "invalid-request.usage",
        ),
        (&["fold", "--from", CHAT, "--dialect", "deepsek", "-"], &[], "invalid-request.usage"),
    ];
    for (command, more, code) in cases {
        let arguments: Vec<&str> = command.iter().chain(*more).copied().collect();
        let run = throughline(&arguments, r#"{"model":"m","messages":[{"role":"user","content":"hi"}]}"#);
        assert_eq!(
            (run.exit, run.error()["code"].as_str().unwrap()),
            (2, *code),
            "{arguments:?}: {run:?}"
        );
    }
}

#[test]
fn a_requirement_points_to_something_in_the_body() {
    let folder = Folder::new();
    let body = r#"{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":5,
        "tools":[{"type":"function","function":{"name":"f","parameters":{},"strict":true}}]}"#;
    for (pointer, exit) in [
        ("/tools/0", 0),
        ("/tools/0/function/strict", 0),
        ("/max_tokens", 0),
        // Inside a tool, but not in this one; and another name of a limit that is there.
        ("/tools/0/strict", 2),
        ("/tools/1", 2),
        ("/max_completion_tokens", 2),
    ] {
        let requirements = folder.file("requirements.json", format!(r#"{{"{pointer}":"optional"}}"#));
        let arguments = ["convert", "--kind", "request", "--from", CHAT, "--requirements", &requirements, "-"];
        let run = throughline(&arguments, body);
        assert_eq!(run.exit, exit, "{pointer}: {run:?}");
        if exit == 2 {
            assert_eq!(
                (run.error()["code"].as_str(), run.error()["path"].as_str()),
                (Some("invalid-request.usage"), Some(pointer))
            );
        }
    }
}

#[test]
fn help_and_version_are_answers() {
    for flag in ["--help", "--version"] {
        let run = throughline(&[flag], "");
        assert!(
            run.exit == 0 && run.stderr.is_empty() && run.stdout.starts_with(if flag == "--help" { "One" } else { "throughline " }),
            "{run:?}"
        );
    }
}

#[test]
fn bad_input_is_an_error_with_its_place() {
    let deep = format!(r#"{{"messages":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    let cases: &[(&[u8], &str, Option<&str>)] = &[
        (b"{\"messages\":3}", "invalid-request.wrong-type", Some("/messages")),
        (b"{\"messages\":[", "invalid-request.json", None),
        (b"", "invalid-request.json", None),
        (b"\xff\xfe{\"messages\":[]}", "invalid-request.json", None),
        (
            b"{\"model\":\"m\",\"model\":\"m\",\"messages\":[]}",
            "invalid-request.duplicate-key",
            Some("/model"),
        ),
        (deep.as_bytes(), "invalid-request.too-deep", None),
    ];
    for (input, code, path) in cases {
        let run = throughline(&["convert", "--kind", "request", "--from", CHAT, "-"], input);
        let error = run.error();
        assert_eq!((run.exit, error["code"].as_str()), (2, Some(*code)), "{run:?}");
        if path.is_some() {
            assert_eq!(error["path"].as_str(), *path, "{run:?}");
        }
    }
}

#[test]
fn a_closed_pipe_is_no_panic() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_throughline"))
        .args(["convert", "--batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stdin = child.stdin.take().unwrap();
    for _ in 0..1000 {
        // The program may be gone before the last line is written.
        let _ = std::io::Write::write_all(&mut stdin, b"{\"id\":1}\n");
    }
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), String::from_utf8(output.stderr).unwrap()),
        (Some(0), String::new())
    );
}
