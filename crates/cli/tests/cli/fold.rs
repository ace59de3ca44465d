//! `fold`.

use crate::support::{CHAT, CHAT_STREAM, throughline};
use throughline_format::clause;

#[test]
fn the_result_does_not_depend_on_where_the_stream_is_cut() {
    clause!("EVT-04", "CONF-10");
    let fold = |arguments: &[&str], input: &str| {
        let run = throughline(&[&["fold", "--from", CHAT], arguments, &["-"]].concat(), input);
        assert_eq!(run.exit, 0, "{run:?}");
        run.json()
    };
    let whole = fold(&[], CHAT_STREAM);
    assert_eq!(whole["result"]["output"][0]["parts"][0]["text"], "Grüß Gott");
    assert_eq!(whole["result"]["status"]["finishReason"], "stop");
    assert_eq!(whole["result"]["usage"]["inputTotal"]["value"], 3.0);
    assert!(whole["events"].as_u64().unwrap() > 3);
    for split in ["1", "2", "7", "64"] {
        assert_eq!(fold(&["--split", split], CHAT_STREAM), whole, "pieces of {split}");
        assert_eq!(
            fold(&["--split", split], &CHAT_STREAM.replace('\n', "\r\n")),
            whole,
            "pieces of {split}, CRLF"
        );
    }
    let lines: Vec<&str> = CHAT_STREAM.lines().filter_map(|l| l.strip_prefix("data: ")).collect();
    assert_eq!(fold(&["--lines"], &lines.join("\n")), whole);
}

#[test]
fn a_torn_stream_is_a_result_and_no_error() {
    let torn = CHAT_STREAM.split_inclusive("\n\n").next().unwrap();
    for input in [torn, ""] {
        let run = throughline(&["fold", "--from", CHAT, "-"], input);
        assert_eq!(run.exit, 0, "{run:?}");
        assert_eq!(run.json()["result"]["status"]["finishReason"], "interrupted");
        assert_eq!(run.json()["result"]["error"]["category"], "interrupted");
    }
}
